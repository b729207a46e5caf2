"""The records of the answers. Files, the command line and Python all take their names from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["exact", "nearest", "nil"]

EXACT: Method = "exact"
NEAREST: Method = "nearest"
NIL: Method = "nil"
# Cosine below which a nearest term does not count as an answer, unless told otherwise.
DEFAULT_FLOOR = 0.5
# Similarities are rounded to this many decimals: what lies beyond differs between machines.
DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A concept that a mention may name, with the term that speaks for it.

    Attributes:
        concept_id: CURIE.
        concept_name: the concept's preferred term.
        matched_term: the concept's term nearest to the mention, as the terminology writes it.
        similarity: cosine between mention and matched term, -1 to 1; 1.0 when they are equal after cleaning.
        scope: how the term stands to the concept: exact, narrow, broad or related.
        language: the term's language (BCP-47).
        source: where the term comes from.
        code: the term's code there.
        homonyms: ids of the other concepts that the same string names.
    """

    concept_id: str
    concept_name: str
    matched_term: str
    similarity: float
    scope: str | None = None
    language: str | None = None
    source: str | None = None
    code: str | None = None
    homonyms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The answer for one mention.

    Attributes:
        mention: the input string, unchanged.
        concept_id: CURIE of the best candidate, or None: no concept fits (NIL).
        concept_name: its preferred term, or None.
        matched_term: the nearest term; given for NIL too, to show what was found too far away.
        similarity: cosine between mention and matched term, or None if there is nothing to compare (an empty mention).
        confidence: calibrated probability that the answer is right; None from an index without calibration.
        method: "exact" (equal after cleaning), "nearest" or "nil".
        candidates: the best concepts, best first; the first is the answer unless it is NIL.
    """

    mention: str
    concept_id: str | None
    concept_name: str | None
    matched_term: str | None
    similarity: float | None
    confidence: float | None
    method: Method
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an output file: one candidate of one mention; the fields are the columns, in every format.

    Attributes:
        row: 1-based number of the input row (a header is not counted).
        mention_code: the input's own code for the mention; the column is left out unless one was named.
        mention: the input string, unchanged.
        rank: 1 for the answer, 2 and more for further candidates. NIL has one line, of rank 1, without a concept.
        concept_id: see `Result`; so are the next five.
        scope: see `Candidate`; so are the next three.
        homonyms: ids of the other concepts that the matched term names, joined by `|`.
    """

    row: int
    mention_code: str | None
    mention: str
    rank: int
    concept_id: str | None
    concept_name: str | None
    matched_term: str | None
    similarity: float | None
    confidence: float | None
    method: str
    scope: str | None
    language: str | None
    source: str | None
    code: str | None
    homonyms: str | None


def lines(row: int, mention_code: str | None, result: Result, top_k: int) -> list[Line]:
    """Return the lines that an output file has for one input row: at least one, at most `top_k`."""
    if result.concept_id is None:
        return [
            Line(row, mention_code, result.mention, 1, None, None, result.matched_term, result.similarity,
                 result.confidence, result.method, None, None, None, None, None)
        ]  # fmt: skip
    return [
        Line(row, mention_code, result.mention, rank, found.concept_id, found.concept_name, found.matched_term,
             found.similarity, result.confidence if rank == 1 else None, result.method, found.scope, found.language,
             found.source, found.code, "|".join(found.homonyms) or None)
        for rank, found in enumerate(result.candidates[:top_k], 1)
    ]  # fmt: skip
