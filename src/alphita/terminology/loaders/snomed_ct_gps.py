"""SNOMED CT's Global Patient Set, and its other free sets: a table of concepts with two names each, and nothing else.

The file is told by its first line, `ConceptID Active FSN USPreferredTerm` with tabs between. It needs no licence of
SNOMED CT's, and has neither synonyms nor relations; what has them is read by `snomed_ct`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, Rejects
from alphita.terminology import model
from alphita.terminology.loaders import _columns, _files, _tables
from alphita.terminology.loaders._columns import Sieve
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Beginning, Look
from alphita.terminology.loaders.snomed_ct import NO_SCTID, SCTID, SOURCE, TAG
from alphita.terminology.model import Tables

DESCRIPTION = "SNOMED CT's Global Patient Set, and other free sets of its concepts: zip archives or files"

COLUMNS = ("ConceptID", "Active", "FSN", "USPreferredTerm")
# What lies beside it in the archive is a PDF and a text.
ENDINGS = (".txt", ".tsv")


class Options(Config):
    """Options of the loader of free sets."""

    inactive_concepts: bool = Field(True, description="read retired concepts and their names")


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: the four columns."""
    return None if seen.first(_is_set, ENDINGS) is None else {}


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read the sets. Of a concept that stands in several files, the first row counts."""
    members = _files.members(paths)
    sets = [member for member in members if _is_set(Beginning(member.path, member.inside))]
    if not sets:
        raise InputError(
            f"no file here has the columns {', '.join(COLUMNS)}",
            file=paths[0] if paths else None,
            remedy="give the zip archive of the Global Patient Set as it came; RF2 files are read by snomed_ct",
        )
    sieve = Sieve(rejects)
    sieve.count("files that are not read", len(members) - len(sets))
    rows = pl.concat([_rows(member, sieve) for member in sets])
    once = sieve.once(rows, ["ConceptID"], "concepts that stand in an earlier file")
    if not options.inactive_concepts:
        once = sieve.drop(once, ~pl.col("Active"), "inactive concepts")
    if once.is_empty():
        raise InputError("no concept in this file", file=sets[0].place)
    once = once.with_row_index("concept").with_columns(
        pl.col("concept").cast(pl.Int32),
        name=pl.col("FSN").str.extract(TAG, 1).fill_null(pl.col("FSN")),
        tag=pl.col("FSN").str.extract(TAG, 2).str.strip_chars(),
    )
    tagged = once.filter(pl.col("tag").fill_null("") != "")
    sieve.count("names without a tag: no semantic type", len(once) - len(tagged))
    concept = pl.lit(f"{SOURCE}:") + pl.col("ConceptID")
    return Tables(
        concepts=once.select(id=concept, retired=~pl.col("Active")),
        terms=_terms(once),
        semantic_types=tagged.select("concept", semantic_type="tag"),
        sources=_files.sources(sets, "SNOMED CT Global Patient Set", _files.release_date),
        dropped=dict(sieve.dropped),
        source=SOURCE,
    )


def _is_set(file: Beginning) -> bool:
    header = [name.strip().casefold() for name in file.first_line.rstrip("\t").split("\t")]
    return header == [name.casefold() for name in COLUMNS]


def _rows(member: Member, sieve: Sieve) -> pl.DataFrame:
    """Return the good rows of a file: the four columns, names without blanks around them, `Active` as bool."""
    frame = _tables.read_unquoted(member, COLUMNS, sieve.rejects)
    length = pl.max_horizontal(pl.col("FSN", "USPreferredTerm").str.len_chars())
    frame = sieve.check(
        frame.with_columns(pl.col("FSN", "USPreferredTerm").str.strip_chars()),
        _columns.matching("ConceptID", SCTID, NO_SCTID),
        _columns.one_of("Active", ["0", "1"], "must be 0 or 1"),
        # A retired concept may have no preferred term.
        ("FSN", length == 0, "neither a fully specified name nor a preferred term"),
        ("FSN", length > model.MAX_TERM_CHARACTERS, "longer than any term may be"),
        ("ConceptID", ~pl.col("ConceptID").is_first_distinct(), "its id was defined before in this file"),
    )
    return frame.select("ConceptID", pl.col("Active") == "1", "FSN", "USPreferredTerm")


def _terms(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the preferred terms, and the names without their tags where they are others."""
    common = {"language": pl.lit("en"), "code": pl.col("ConceptID")}
    preferred = rows.filter(pl.col("USPreferredTerm") != "").select(
        "concept", string="USPreferredTerm", preferred=True, term_type=pl.lit("SYN"), **common
    )
    names = rows.filter((pl.col("name") != "") & (pl.col("name") != pl.col("USPreferredTerm"))).select(
        "concept", string="name", preferred=False, term_type=pl.lit("FSN"), **common
    )
    return pl.concat([preferred, names]).sort("concept", maintain_order=True)
