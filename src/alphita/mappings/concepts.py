"""OMOP's facts of concepts, from the CONCEPT.csv of an Athena download."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import TargetInfo
from alphita.terminology import prefixes
from alphita.terminology.loaders import _files

if TYPE_CHECKING:
    import polars as pl

FILE = "CONCEPT.csv"
COLUMNS = ("concept_id", "domain_id", "vocabulary_id", "concept_code")
STANDARD, INVALID = "standard_concept", "invalid_reason"


def load(path: Path, wanted: Collection[str]) -> dict[str, TargetInfo]:
    """Return the facts of some concepts, by the ids that ask for them: OMOP's (`OMOP:4329847`) or a vocabulary's
    own."""
    ids = sorted(wanted)
    facts: dict[str, TargetInfo] = {}
    for frame in _frames(_found(path)):
        for concept, domain, vocabulary, curie, omop, is_standard, reason in _of(frame, ids).iter_rows():
            info = TargetInfo(int(concept), domain or "", vocabulary or "", is_standard, reason or "")
            # A code that is used again for another meaning: the first that is valid stands for its CURIE, each for its
            # own number.
            if curie not in facts or (facts[curie].invalid_reason and not info.invalid_reason):
                facts[curie] = info
            facts[omop] = info
    return facts


def _found(path: Path) -> _files.Member:
    members = _files.members([path])
    if members == [_files.Member(path)]:
        return members[0]
    found = [member for member in members if member.name.lower() == FILE.lower()]
    if len(found) != 1:
        what = "no" if not found else f"{len(found)} files"
        raise InputError(f"{what} {FILE} in it", file=path, remedy="give what Athena made, or the file itself")
    return found[0]


def _frames(member: _files.Member) -> Iterator[pl.DataFrame]:
    """Yield the rows, some 16 MB at once."""
    import polars as pl

    head = ""
    for _, text in _files.blocks(member, "utf-8", Rejects(strict=True)):
        head, rows = (head, text) if head else (text[: text.index("\n") + 1], text[text.index("\n") + 1 :])
        try:
            frame = pl.read_csv((head + rows).encode(), separator="\t", quote_char=None, infer_schema=False)
        except pl.exceptions.PolarsError as error:
            raise InputError(f"cannot read it: {error}", file=member.place) from None
        if missing := [name for name in COLUMNS if name not in frame.columns]:
            remedy = f"give the {FILE} that Athena made"
            raise InputError(f"no column {missing[0]!r}", file=member.place, remedy=remedy)
        yield frame


def _of(frame: pl.DataFrame, ids: list[str]) -> pl.DataFrame:
    """Return number, domain, vocabulary, both ids, whether standard, and why invalid, of the rows of some ids."""
    import polars as pl

    known = {row.omop_vocabulary_id: row.prefix for row in prefixes.table().values() if row.omop_vocabulary_id}
    # A vocabulary of one's own (ids above 2,000,000,000) is known by its name, in any spelling.
    here = frame["vocabulary_id"].unique().drop_nulls().to_list()
    prefix = {one: known.get(one) or prefixes.canonical(one) for one in here}
    standard, invalid = (
        pl.col(name).fill_null("") if name in frame.columns else pl.lit(None, pl.String) for name in (STANDARD, INVALID)
    )
    own = pl.col("vocabulary_id").replace_strict(prefix, default=pl.lit("")) + ":" + pl.col("concept_code")
    number = pl.lit("OMOP:") + pl.col("concept_id")
    return frame.select(*COLUMNS[:3], own=own, number=number, standard=standard == "S", invalid=invalid).filter(
        (pl.col("own").is_in(ids) | pl.col("number").is_in(ids)) & pl.col("concept_id").str.contains(r"^[0-9]{1,10}$")
    )
