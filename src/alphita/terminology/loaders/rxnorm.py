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
from alphita.terminology import model, prefixes
from alphita.terminology.loaders import _rrf
from alphita.terminology.loaders._look import Look
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
    terms="RXNCONSO",
    relations="RXNREL",
    types="RXNSTY",
    definitions="",
    sources="RXNSAB",
    ranks="",
    atom_relations=True,
    retire_obsolete=True,
)
LICENCE = "SAB=RXNORM is free; the other sources need the UMLS Metathesaurus License"
# RxNorm has no MRRANK. The normalised name of each kind of concept comes first, then short and other names.
RANKS = (
    *("IN", "PIN", "MIN", "BN", "SCD", "SBD", "GPCK", "BPCK", "SCDC", "SBDC", "SCDF", "SBDF", "SCDG", "SBDG", "SCDFP"),
    *("SBDFP", "SCDGP", "DF", "DFG", "PSN", "SY", "TMSY", "ET"),
)
# The attribute that is an id elsewhere.
NDC = "NDC"


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


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: RXNCONSO is there."""
    return _rrf.recognised(seen, LAYOUTS, RXNORM.terms)


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read a release into tables."""
    filters = _rrf.filters_of(options)
    with _rrf.Release(paths, LAYOUTS, rejects) as release:
        ranks = pl.DataFrame(
            {"SAB": "RXNORM", "TTY": RANKS, "rank": pl.Series(range(len(RANKS), 0, -1), dtype=pl.Int32)}, strict=False
        )
        builder = _rrf.Builder(release, RXNORM, filters, rejects, ranks)
        versions = builder.versions()
        builder.terms.read("ENG")
        if options.retired:
            _read_retired(builder)
        _read_attributes(builder, _rrf.listed(options.attributes))
        builder.read_relations(options.relation_label, self_relations=options.self_relations)
        sources = release.sources("RXNORM", versions.get("RXNORM"), LICENCE, versions)
        return builder.tables(sources, list(LAYOUTS))


def _read_retired(builder: _rrf.Builder) -> None:
    """Add the concepts of RXNCUI that are gone; merged into one they are replaced, split into several to consider."""
    rows = builder.read_retired("RXNCUI", ["CUI1", "CARDINALITY", "CUI2"])
    rows = rows.filter((pl.col("CUI2") != "") & (pl.col("CUI2") != pl.col("CUI1")))
    builder.add_replacements(rows, pl.col("CARDINALITY") == "1")


def _read_attributes(builder: _rrf.Builder, wanted: list[str]) -> None:
    """Add the wanted attributes: NDC as cross-references, the others as properties."""
    name = "RXNSAT"
    for frame in builder.release.blocks(name, ["CUI", "ATN", "SAB", "ATV", "SUPPRESS"]) if wanted else ():
        frame = builder.sieve.drop(frame, ~pl.col("ATN").is_in(wanted), f"{name}: attribute not chosen")
        frame = builder.filters.passed(name, frame, builder.sieve)
        frame = builder.sieve.strings(frame, "ATV", "attribute", model.MAX_TEXT_CHARACTERS)
        frame, places = builder.concept_rows(name, frame, "CUI")
        source = pl.col("SAB").replace({source: prefixes.canonical(source) for source in frame["SAB"].unique()})
        is_ndc = (frame["ATN"] == NDC).to_numpy()
        code = pl.concat_str(pl.lit("NDC:"), pl.col("ATV").str.strip_chars())
        ndc, other = frame.filter(pl.Series(is_ndc)), frame.filter(pl.Series(~is_ndc))
        builder.add("xrefs", ndc, places[is_ndc], predicate=pl.lit(model.XREF), object=code, source=source)
        builder.add(
            "properties",
            other,
            places[~is_ndc],
            name=pl.col("ATN").str.to_lowercase(),
            value=pl.col("ATV"),
            source=source,
        )
