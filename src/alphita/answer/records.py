"""The records of answers. Files, the command line and Python use the names defined here."""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from alphita.mappings.record import OMOP, Decision, Mapping, Method, OmopConcept, Relation, omop_cells

EXACT: Method = "exact"
ABBREVIATION: Method = "abbreviation"
NEAREST: Method = "nearest"
NIL: Method = "nil"
EQUAL, IDENTIFIES = "equal to", "the identifier of"
# Default cosine below which the nearest term is not an answer.
DEFAULT_FLOOR = 0.5
# Similarities are rounded to this many decimals, because further ones differ between machines.
DECIMALS = 6
DEFINITION_CHARACTERS = 160
# Maximum groups of features in one line of an explanation.
MAX_GROUPS = 3
# Whether answers are explained; "numbers": with what the answer was computed from, instead of a sentence.
Explain = bool | Literal["numbers"]
NO_CONCEPT_FITS = "NIL: "


@dataclass(frozen=True, slots=True)
class Candidate:
    """A concept that the mention may name, with the term that matches it.

    Attributes:
        concept_id: CURIE.
        concept_name: the concept's preferred term.
        matched_term: the concept's term nearest to the mention, as the terminology writes it.
        similarity: cosine between mention and matched term, -1 to 1; 1.0 if they are equal after cleaning.
        scope: the relation of the term to the concept: exact, narrow, broad or related.
        language: the term's language (BCP-47).
        source: the source of the term.
        code: the term's code in that source.
        homonyms: ids of other concepts with the same name.
        routes: the routes that found it: exact, letters, vectors, abbreviation.
        relation: the relation of the concept to the mention: exact, broad (the concept is broader), narrow or related.
        expansion: the expansion of the mention, if it is or contains an abbreviation.
        contradictions: how the mention and the matched term contradict each other.
        retired_concept: the retired concept whose term matched; `concept_id` is its replacement. In OMOP vocabularies,
            also the non-standard concept that maps to `concept_id`.
        omop: what OMOP says of the concept; None if it does not have it.
        score: the score of the learned ranking; higher is better. Comparable only within one mention.
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
    routes: tuple[str, ...] = ()
    relation: Relation | None = None
    expansion: str | None = None
    contradictions: tuple[str, ...] = ()
    retired_concept: str | None = None
    score: float | None = None
    omop: OmopConcept | None = None


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """A candidate that was not chosen.

    Attributes:
        concept_id: CURIE.
        matched_term: the matching term.
        behind: its deficit compared with the answer, by group of features, largest first; positive numbers favour the
            answer.
        similarity: cosine between mention and matched term, -1 to 1.
    """

    concept_id: str
    concept_name: str
    matched_term: str
    behind: AnyMapping[str, float]
    contradictions: tuple[str, ...] = ()
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an answer was given.

    Attributes:
        answer: the answer in words: "equal to", "nearest to", or the reason for NIL.
        matched_term: the matching term of the concept; None if nothing was found.
        term_kind: the kind of term: "preferred name", "exact synonym", "broad synonym", ...
        similarity: cosine, -1 to 1, and n-gram similarity, 0 to 1, by name, for the routes that were searched.
        definition: the concept's, or None.
        parents: names of the concept's parents.
        semantic_types: the concept's.
        expansion: the expansion of the mention and its source; None if it is not an abbreviation.
        retired: the retired concept whose term matched; None for a live one.
        non_standard: the non-standard concept (OMOP) whose term matched and that maps to this one; otherwise None.
        nil: the ranker's probability that no concept fits, 0 to 1; None without a learned ranking.
        gave: the contribution of each group of features to the answer, compared with an average candidate, largest
            first; positive numbers favour it.
        concept_name: the preferred term of the concept; None if nothing was found.
        heading: why the concept answers where a heading is named, or another side; None if it is named itself.
    """

    answer: str
    matched_term: str | None = None
    term_kind: str | None = None
    routes: tuple[str, ...] = ()
    similarity: AnyMapping[str, float] = field(default_factory=dict)
    definition: str | None = None
    parents: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()
    expansion: str | None = None
    contradictions: tuple[str, ...] = ()
    retired: str | None = None
    runners_up: tuple[RunnerUp, ...] = ()
    nil: float | None = None
    gave: AnyMapping[str, float] = field(default_factory=dict)
    non_standard: str | None = None
    concept_name: str | None = None
    heading: str | None = None

    def __str__(self) -> str:
        """Return one plain sentence."""
        is_nil = self.answer.startswith(NO_CONCEPT_FITS)
        parts = [" ".join(filter(None, (self.answer.removeprefix(NO_CONCEPT_FITS), self._named())))]
        if self.similarity and self.answer != EQUAL:
            parts[0] += f" (similarity {next(iter(self.similarity.values())):.2f})"
        parts += [
            *filter(None, (self.expansion,)),
            *self._origin(),
            *(f"to check: {one}" for one in self.contradictions),
        ]
        if self.runners_up and not is_nil:
            other = self.runners_up[0]
            name = other.concept_name + f" {other.concept_id}" * (other.concept_name == self.concept_name)
            near = "" if other.similarity is None else f" ({other.similarity:.2f})"
            parts.append(f"next best: {name}{near}")
        return "; ".join(parts)

    def _named(self) -> str:
        """Return the term, its kind and its concept in words."""
        if self.matched_term is None or self.answer == IDENTIFIES:
            return self.concept_name or ""
        if self.term_kind == "preferred name":
            return f'the name "{self.matched_term}"'
        kind = self.term_kind or "name"
        if kind.endswith("synonym"):
            return f'the {kind.removeprefix("exact ")} "{self.matched_term}" of {self.concept_name}'
        of_concept = "" if kind.endswith(f" for {self.concept_name}") else f", linked to {self.concept_name}"
        return f'"{self.matched_term}", {kind}{of_concept}'

    def _origin(self) -> list[str]:
        """Return of which concept, retired, not standard or a heading, the term is a name."""
        retired = self.retired and f"a name of {self.retired}, retired and replaced by this"
        maps = self.non_standard and f"a name of {self.non_standard}, which is not standard and maps to this"
        return [text for text in (retired, maps, self.heading) if text]

    def numbers(self) -> str:
        """Return one line with all that the answer was computed from."""
        parts = [self.answer]
        if self.matched_term is not None:
            parts[0] += f" {self.matched_term!r}" + (f" ({self.term_kind})" if self.term_kind else "")
        if self.routes:
            parts.append("found by " + ", ".join(self.routes))
        parts += [f"{name} {value:.2f}" for name, value in self.similarity.items()]
        if self.gave:
            parts.append("by " + _numbers(dict(list(self.gave.items())[:MAX_GROUPS])))
        if self.nil is not None:
            parts.append(f"p(NIL) {self.nil:.2f}")
        if self.expansion:
            parts.append(self.expansion)
        parts += self._origin()
        parts += [f"contradiction: {one}" for one in self.contradictions]
        for other in self.runners_up[:1]:
            why = _numbers(other.behind)
            parts.append(f"before {other.matched_term!r} ({other.concept_id})" + (f": {why}" if why else ""))
        if self.semantic_types:
            parts.append("type: " + ", ".join(self.semantic_types))
        if self.parents:
            parts.append("a kind of: " + ", ".join(self.parents))
        if self.definition:
            parts.append("definition: " + _cut(self.definition))
        return "; ".join(parts)


def _numbers(groups: AnyMapping[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in groups.items())


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= DEFINITION_CHARACTERS else text[: DEFINITION_CHARACTERS - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Result:
    """The answer for one mention.

    Attributes:
        mention: the input string, unchanged.
        concept_id: CURIE of the best candidate, or None: no concept fits (NIL).
        concept_name: its preferred term, or None.
        matched_term: the nearest term; also given for NIL, to show the term that was too dissimilar.
        similarity: cosine between mention and matched term, or None if there is nothing to compare (an empty mention).
        confidence: calibrated probability that the answer is right; None from an index without calibration.
        method: "exact" (equal after cleaning), "abbreviation" (through its expansion), "nearest" or "nil".
        candidates: the best concepts, best first; the first is the answer unless it is NIL.
        decision: "accept", "review" or "nil", by the calibration's thresholds; None without calibration.
        explanation: the reason for this answer; `str` turns it into a sentence; None unless requested.
    """

    mention: str
    concept_id: str | None
    concept_name: str | None
    matched_term: str | None
    similarity: float | None
    confidence: float | None
    method: Method
    candidates: tuple[Candidate, ...] = ()
    decision: Decision | None = None
    explanation: Explanation | None = None


# The text about the nearest candidate if no concept fits.
_NOTHING = Candidate("", "", "", 0.0)
_OF_TERM = ("language", "source", "code", "homonyms", "retired_concept")
_NO_CONCEPT: dict[str, Any] = dict.fromkeys(
    (*("concept_id", "concept_name", "routes", "relation", "scope"), *_OF_TERM, *OMOP)
)


def lines(
    row: int,
    result: Result,
    top_k: int,
    explain: Explain = True,
    *,
    mention_code: str | None = None,
    frequency: int | None = None,
) -> list[Mapping]:
    """Return the mappings for one input row of an output file: at least one, at most `top_k`."""
    is_nil = result.concept_id is None
    first = result.candidates[0] if result.candidates else _NOTHING
    shown = (first, *result.candidates) if is_nil else result.candidates
    given = result.explanation
    explanation = None if given is None else given.numbers() if explain == "numbers" else str(given)
    mappings = []
    for rank, found in enumerate(shown[:top_k], 1):
        method = result.method if rank == 1 or not is_nil else NEAREST
        sure = (result.confidence, result.decision, method) if rank == 1 else (None, None, method)
        lists = found.routes, found.homonyms, found.contradictions
        routes, homonyms, contradictions = ("|".join(some) or None for some in lists)
        answer = found.concept_id, found.concept_name, *omop_cells(found.omop), found.matched_term, found.similarity
        term = found.relation, found.scope, found.language, found.source, found.code, homonyms
        rest = found.expansion, contradictions, found.retired_concept, None, None
        of_mention: tuple[Any, ...] = (row, mention_code, result.mention, frequency, rank)
        mappings.append(
            Mapping(*(*of_mention, *answer, *sure, routes, *term, *rest, explanation if rank == 1 else None))
        )
    if is_nil:
        mappings[0] = replace(
            mappings[0],
            **_NO_CONCEPT,
            matched_term=result.matched_term,
            similarity=result.similarity,
            nearest_id=first.concept_id or None,
            nearest_name=first.concept_name or None,
        )
    return mappings
