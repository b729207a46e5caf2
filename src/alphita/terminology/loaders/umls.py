"""UMLS Metathesaurus in Rich Release Format: the folder META of a release, a zip file of it, or single .RRF files.

Read: MRCONSO (concepts and terms), MRREL (relations), MRSTY (semantic types), MRDEF (definitions), MRRANK (which term
is preferred), MRCUI (retired concepts), MRSAB (versions of the sources), MRFILES (column order, row counts). Only
MRCONSO must be there. The direction is UMLS's own: REL and RELA read from the second concept to the first, so the head
is CUI2 and the tail CUI1 ("CUI2 isa CUI1").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from alphita.config import Config
from alphita.errors import Rejects
from alphita.terminology.loaders import _rrf
from alphita.terminology.model import Tables

DESCRIPTION = "UMLS Metathesaurus (RRF): MRCONSO, MRREL, MRSTY, MRDEF, ..."

LAYOUTS = {
    "MRFILES": "FIL DES FMT CLS RWS BTS",
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
    "MRSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY TTYL ATNL LAT CENC "
    "CURVER SABIN SSN SCIT",
    "MRCUI": "CUI1 VER REL RELA MAPREASON CUI2 MAPIN",
    "MRRANK": "RANK SAB TTY SUPPRESS",
}
UMLS = _rrf.Dialect(
    prefix="UMLS",
    licence="UMLS Metathesaurus License",
    layouts=LAYOUTS,
    layout_file="MRFILES",
    terms="MRCONSO",
    relations="MRREL",
    types="MRSTY",
    definitions="MRDEF",
    sources="MRSAB",
    ranks="MRRANK",
)
RELEASE_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d[A-C][A-C])(?![A-Za-z])")


class Options(Config):
    """Options of the UMLS loader; lists are separated by commas, an empty one takes all."""

    languages: str = Field("", description="LAT codes or BCP-47 tags: ENG,SPA or en,es")
    sources: str = Field("", description="SABs of terms, relations and definitions: SNOMEDCT_US,MSH,...")
    term_types: str = Field("", description="TTYs of terms: PT,SY,...")
    suppress: str = _rrf.SUPPRESS
    obsolete_trains: bool = Field(
        False,
        description="train on terms with SUPPRESS = O too, as CODER's released code does; else they are only found",
    )
    semantic_types: str = Field("", description="only concepts with these types, by TUI or name: T047,T033")
    preferred_language: str = Field("ENG", description="language of preferred terms, if a concept has terms in it")
    relation_label: str = _rrf.relation_label("part_of")
    self_relations: bool = _rrf.SELF_RELATIONS
    retired: bool = Field(True, description="add the retired concepts of MRCUI with their replacements")


recognises = UMLS.recognises


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read a release into tables."""
    filters = _rrf.Filters.of(options, options.languages)
    with _rrf.Release(paths, UMLS, rejects) as release:
        reader = _rrf.Reader(release, filters)
        versions = reader.read_versions()
        reader.read_terms(options.preferred_language)
        reader.read_definitions()
        if options.retired:
            # Merged concepts (SY) are replaced. Not SUBX (left out of this subset) and DEL (no reason to keep it).
            reader.read_retired("MRCUI", "REL", kinds=["SY", "RB", "RN", "RO"], replaced=["SY"])
        reader.read_relations(options.relation_label, self_relations=options.self_relations)
        return reader.tables(release.sources(_release_name(release), versions))


def _release_name(release: _rrf.Release) -> str | None:
    """Return "2020AA": from release.dat, else from the name of a folder or zip file above."""
    for part in release.all_parts:
        if part.name.upper() == "RELEASE.DAT":
            with part.open() as file:
                match = RELEASE_NAME.search(file.read(100_000).decode("utf-8", "replace"))
            if match:
                return match[1]
    part = release.parts["MRCONSO"][0]
    names = [*reversed(part.place.split("/")), *reversed(part.path.resolve().parts)]
    return next((match[1] for name in names if (match := RELEASE_NAME.search(name.upper()))), None)
