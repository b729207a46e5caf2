"""RxNorm in Rich Release Format: the folder of a release (with its folder `rrf`), its zip file, or single .RRF files.

Read: RXNCONSO (concepts and terms), RXNREL (relations), RXNSTY (semantic types), RXNSAT (attributes that were asked
for), RXNSAB (versions of the sources), RXNCUI (retired concepts). Only RXNCONSO must be there. The layout is that of
UMLS, and so is the direction of relations: the head is RXCUI2, the tail RXCUI1. A relation between two atoms counts as
one between their concepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from pydantic import Field

from alphita.config import Config
from alphita.errors import Rejects
from alphita.terminology import model
from alphita.terminology.loaders import _columns, _rrf
from alphita.terminology.model import Tables

DESCRIPTION = "RxNorm (RRF): RXNCONSO, RXNREL, RXNSTY, RXNSAT, ..."

# The columns under their UMLS names: RXCUI is CUI, RXAUI is AUI.
LAYOUTS = {
    "RXNCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "RXNREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL DIR RG SUPPRESS CVF",
    "RXNSTY": "CUI TUI STN STY ATUI CVF",
    "RXNSAT": "CUI LUI SUI AUI STYPE CODE ATUI SATUI ATN SAB ATV SUPPRESS CVF",
    "RXNSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY TTYL ATNL LAT CENC "
    "CURVER SABIN SSN SCIT",
    "RXNCUI": "CUI1 VER_START VER_END CARDINALITY CUI2",
}
RXNORM = _rrf.Dialect(
    prefix="RXNORM",
    licence="SAB=RXNORM is free; the other sources need the UMLS Metathesaurus License",
    layouts=LAYOUTS,
    terms="RXNCONSO",
    relations="RXNREL",
    types="RXNSTY",
    sources="RXNSAB",
    atom_relations=True,
    retire_obsolete=True,
)
# RxNorm has no MRRANK. The normalised name of each kind of concept comes first, then short and other names.
RANKS = (
    *("IN", "PIN", "MIN", "BN", "SCD", "SBD", "GPCK", "BPCK", "SCDC", "SBDC", "SCDF", "SBDF", "SCDG", "SBDG", "SCDFP"),
    *("SBDFP", "SCDGP", "DF", "DFG", "PSN", "SY", "TMSY", "ET"),
)


class Options(Config):
    """Options of the RxNorm loader; lists are separated by commas, an empty one takes all."""

    sources: str = Field("", description="SABs of terms, relations and attributes: RXNORM alone needs no licence")
    term_types: str = Field("", description="TTYs of terms: IN,SCD,SBD,...")
    suppress: str = _rrf.SUPPRESS
    semantic_types: str = Field("", description="only concepts with these types, by TUI or name: T200,T121")
    attributes: str = Field(
        "NDC", description="attributes (ATN) of RXNSAT: NDC become cross-references, others properties; empty: none"
    )
    relation_label: str = _rrf.relation_label("has_form")
    self_relations: bool = _rrf.SELF_RELATIONS
    retired: bool = Field(True, description="add the retired concepts of RXNCUI with their replacements")


recognises = RXNORM.recognises


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read a release into tables."""
    ranks = {"SAB": "RXNORM", "TTY": RANKS, "rank": pl.Series(range(len(RANKS), 0, -1), dtype=pl.Int32)}
    with _rrf.Release(paths, RXNORM, rejects) as release:
        reader = _rrf.Reader(release, _rrf.Filters.of(options, ""), pl.DataFrame(ranks, strict=False))
        versions = reader.read_versions()
        reader.read_terms("ENG")
        if options.retired:
            # Merged into one concept they are replaced; of one that was split, the parts are to be considered.
            reader.read_retired("RXNCUI", "CARDINALITY", kinds=(), replaced=["1"])
        _read_attributes(reader, _columns.listed(options.attributes))
        reader.read_relations(options.relation_label, self_relations=options.self_relations)
        return reader.tables(release.sources(versions.get("RXNORM"), versions))


def _read_attributes(reader: _rrf.Reader, wanted: list[str]) -> None:
    """Add the wanted attributes: NDC as cross-references, the others as properties."""
    name, sieve = "RXNSAT", reader.sieve
    for frame in reader.release.blocks(name, ["CUI", "ATN", "SAB", "ATV", "SUPPRESS"]) if wanted else ():
        frame = sieve.drop(frame, ~pl.col("ATN").is_in(wanted), f"{name}: attribute not chosen")
        frame = reader.filters.passed(name, frame, sieve)
        frame = sieve.check(frame, *_columns.text("ATV", "attribute", model.MAX_TEXT_CHARACTERS))
        frame, places = reader.at_concepts(name, frame)
        source, value = _rrf.canonical_sources(frame), pl.col("ATV")
        is_ndc = (frame["ATN"] == "NDC").to_numpy()
        ndc, other = frame.filter(pl.Series(is_ndc)), frame.filter(pl.Series(~is_ndc))
        code = pl.concat_str(pl.lit("NDC:"), value.str.strip_chars())
        reader.add("xrefs", ndc, places[is_ndc], predicate=pl.lit(model.XREF), object=code, source=source)
        kind = pl.col("ATN").str.to_lowercase()
        reader.add("properties", other, places[~is_ndc], name=kind, value=value, source=source)
