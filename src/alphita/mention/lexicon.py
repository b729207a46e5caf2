"""The words, in five languages, by which mentions say how much, that all is well, or that it is not there: `said.tsv`.

A row has a kind, what is meant (of some kinds), a language (empty: of none) and words or phrases with | between. Kinds:

    more, less      the two ends of what is meant: "high" and "low" of an amount, "thick" and "thin" of a thickness
    fine, well      what says that all is as it should be: a word beside a finding's ("clear cornea"), a judgement
    change          what says that something is not as it should be, without saying of what
    modifier        what says how a finding is, and is none
    filler          what says nothing by itself
    beside          what may stand behind a finding and leave it what it is: "attacks", "again"
    sideless        what is another finding on one side of the body: weakness, hemiparesis
    setting         what a preposition may bring in behind one: "on admission", "since her teens"
    head            of what a name speaks by a picture or a place: "palm tree sign", "low back pain"
    nothing         what a list has where it has no finding: "n/a"
    circumstance    by what a finding comes, goes or changes: of it a name speaks, and not of the circumstance itself
    undone          what makes a finding none here, as "surgically" absent, or "canine"
    apart           what two words of the same sort tell apart: the sort, and which
    measured        in what an analyte is measured
    unit            spellings of a unit of measurement; what is meant is the one that laboratory.tsv has
    begins, ends, alone   where a mention has it: "begins possible", "ends denied", alone behind a colon or in brackets
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from alphita import textio
from alphita.mention.cues import bare


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        meaning: what is meant, "" for kinds that say it.
        language: BCP-47, "" for all.
    """

    kind: str
    meaning: str
    language: str
    words: tuple[str, ...]


class Axis(NamedTuple):
    """Words for the two ends of what can be more and less."""

    more: frozenset[str]
    less: frozenset[str]


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return the table."""
    return tuple(
        Row(row["kind"], row["meaning"], row["language"], tuple(row["words"].split("|")))
        for row in textio.packaged(__package__, "said.tsv")
    )


@functools.cache
def words(kind: str, meaning: str = "") -> tuple[str, ...]:
    """Return the words and phrases of a kind, and of what is meant, in the order of the table."""
    return tuple(word for row in rows() if (row.kind, row.meaning) == (kind, meaning) for word in row.words)


@functools.cache
def bare_words(kind: str, meaning: str = "") -> frozenset[str]:
    """Return the same without accents."""
    return frozenset(map(bare, words(kind, meaning)))


@functools.cache
def axes() -> tuple[Axis, ...]:
    """Return what can be more and less, words without accents."""
    meanings = dict.fromkeys(row.meaning for row in rows() if row.kind in ("more", "less"))
    return tuple(Axis(bare_words("more", meaning), bare_words("less", meaning)) for meaning in meanings)


@functools.cache
def meanings(kind: str) -> dict[str, str]:
    """Return what each word or phrase of a kind means."""
    return {word: row.meaning for row in rows() if row.kind == kind for word in row.words}


def pattern(kind: str, meaning: str = "") -> str:
    """Return a pattern of the words of a kind, the longest first, for a regular expression."""
    return "|".join(map(re.escape, sorted(words(kind, meaning), key=len, reverse=True)))
