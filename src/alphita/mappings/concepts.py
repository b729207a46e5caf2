"""OMOP's facts of concepts, from the CONCEPT.csv of an Athena download."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from alphita.errors import InputError
from alphita.mappings.formats import TargetInfo
from alphita.terminology import prefixes

COLUMNS = ("concept_id", "domain_id", "vocabulary_id", "concept_code")
STANDARD, INVALID = "standard_concept", "invalid_reason"


def load(path: Path, wanted: Collection[str]) -> dict[str, TargetInfo]:
    """Return the facts of some concepts, by the ids that ask for them: OMOP's (`OMOP:4329847`) or a vocabulary's own.

    Args:
        path: CONCEPT.csv: tab-delimited, without quoting. Without the columns standard_concept and invalid_reason it
            is not known which concepts are Standard Concepts, and which are valid.
        wanted: CURIEs.

    Raises:
        InputError: the file cannot be read, or lacks a column.
    """
    import polars as pl

    known = {row.omop_vocabulary_id: row.prefix for row in prefixes.table().values() if row.omop_vocabulary_id}
    try:
        frame = pl.scan_csv(path, separator="\t", quote_char=None, infer_schema=False)
        names = frame.collect_schema().names()
        missing = [name for name in COLUMNS if name not in names]
        if missing:
            raise InputError(f"no column {missing[0]!r}", file=path, remedy="give the CONCEPT.csv that Athena made")
        # A vocabulary of one's own (ids above 2,000,000,000) is known by its name, in any spelling.
        here = frame.select(pl.col("vocabulary_id").unique()).collect().to_series().drop_nulls().to_list()
        prefix = {one: known.get(one) or prefixes.canonical(one) for one in here}
        standard, invalid = (
            pl.col(name).fill_null("") if name in names else pl.lit(None, pl.String) for name in (STANDARD, INVALID)
        )
        own = pl.col("vocabulary_id").replace_strict(prefix, default=pl.lit("")) + ":" + pl.col("concept_code")
        number = pl.lit("OMOP:") + pl.col("concept_id")
        ids = sorted(wanted)
        found = (
            frame.select(*COLUMNS, own=own, number=number, standard=standard == "S", invalid=invalid)
            .filter(pl.col("own").is_in(ids) | pl.col("number").is_in(ids))
            .filter(pl.col("concept_id").str.contains(r"^[0-9]{1,10}$"))
            .collect()
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot read it: {error}", file=path) from None
    facts: dict[str, TargetInfo] = {}
    for concept, domain, vocabulary, _, curie, omop, is_standard, reason in found.iter_rows():
        info = TargetInfo(int(concept), domain or "", vocabulary or "", is_standard, reason or "")
        # A code that is used again for another meaning: the first that is valid stands for its CURIE, each for its own
        # number.
        if curie not in facts or (facts[curie].invalid_reason and not info.invalid_reason):
            facts[curie] = info
        facts[omop] = info
    return facts
