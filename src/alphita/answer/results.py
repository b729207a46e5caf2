"""Builds results from rows: the data shown for each answer, fetched for a whole batch at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.answer.assigned import Assignment
from alphita.answer.calibration_store import RankedAnswers
from alphita.answer.candidates import MAX_CONCEPTS
from alphita.answer.features import GROUPS, MENTION_NAMES, NAMES, Features
from alphita.answer.filters import Targets
from alphita.answer.omop import OmopConcepts
from alphita.answer.pipeline import Questions, Scored
from alphita.answer.ranker import Ranker
from alphita.answer.records import (
    ABBREVIATION,
    DECIMALS,
    EQUAL,
    IDENTIFIES,
    NEAREST,
    NIL,
    Candidate,
    Explanation,
    Result,
    RunnerUp,
)
from alphita.answer.records import EXACT as EXACT_METHOD
from alphita.index.choice import REVIEWED
from alphita.index.lookup import EXACT, EXTERNAL, LETTERS, MAX_ENCODED_CHARACTERS, ROUTES, VECTORS
from alphita.index.store import Index
from alphita.mappings.record import Decision, Method, Relation
from alphita.mention.assertion import BARE_CODE, ONE_SIDE, SAYS_NOTHING, SHARED_CODE, STATUS_APART, TOP, doubt_of
from alphita.mention.laboratory import ORIGIN as LABORATORY
from alphita.mention.laboratory_tests import ORIGIN as LABORATORY_TEST
from alphita.mention.reader import Mention
from alphita.mention.spelling import ABBREVIATION as EXPANDED
from alphita.mention.spelling import BROADER, OF_BRAND, ORDERED, SHORTENED, SPELLING, Reading, shortened
from alphita.terminology.rules import explain as explain_pair
from alphita.terminology.rules import sets
from alphita.terminology.rules.lexicon import WORD
from alphita.terminology.text import clean, plain_words

COLUMN = {name: place for place, name in enumerate(NAMES)}
# Above this share of its weight, all words of a string count as contained in the other.
ALL_WORDS = 0.999
# The relation of a concept by the scope of its term.
BY_SCOPE: dict[str | None, Relation] = {"broad": "narrow", "narrow": "broad", "related": "related"}


def relations(
    features: Features, rows: NDArray[np.int64], scopes: Sequence[str | None], strings: Sequence[tuple[str, str]]
) -> list[Relation]:
    """Return the relation of some candidates to their mentions.

    Args:
        rows: (m,) the rows of these candidates.
    """
    values = features.candidates[rows]
    equal = (values[:, COLUMN["equal"]] > 0) | (values[:, COLUMN["same_words"]] > 0)
    mention_in_term = values[:, COLUMN["words_of_mention_in_term"]] > ALL_WORDS
    term_in_mention = values[:, COLUMN["words_of_term_in_mention"]] > ALL_WORDS
    longer = term_in_mention & ~mention_in_term
    for place in np.flatnonzero(longer).tolist():
        # Note words around a mention do not count.
        mention, term = strings[place]
        longer[place] = not set(WORD.findall(shortened(mention))) <= set(WORD.findall(term))
    mention_more = (values[:, COLUMN["only_in_mention"]] > 0) | longer
    term_more = (values[:, COLUMN["only_in_term"]] > 0) | (mention_in_term & ~term_in_mention)
    apart = (values[:, COLUMN["contradictions"]] > 0) | (mention_more & term_more)
    read = np.select([apart, equal, mention_more, term_more], ["related", "exact", "broad", "narrow"], "exact")
    return [BY_SCOPE.get(scope, one) for scope, one in zip(scopes, read.tolist(), strict=True)]


# Runners-up in an explanation; contributions smaller than this are omitted.
RUNNERS_UP, SMALL = 2, 0.05
# The source of an abbreviation, in words.
ORIGINS = {
    "terminology": "from the terminology",
    "input": "defined in the input",
    "list": "from your list",
    "clinic": "from the clinic's short forms",
    LABORATORY: "as laboratories say it",
    ORDERED: "as it is ordered",
    BROADER: "as it is ordered; it is broader",
    OF_BRAND: "the ingredient of the brand",
    LABORATORY_TEST: "the test of this component",
}


class Explainer:
    """Explains the answers of one index."""

    def __init__(self, index: Index, ranker: Ranker | None) -> None:
        self.index, self.ranker = index, ranker

    def __call__(
        self,
        questions: Questions,
        scored: Scored,
        answers: RankedAnswers,
        rows: NDArray[np.int64],
        candidates: list[Candidate],
        nil: bool,
    ) -> Explanation:
        """Return the explanation of one answer, given the rows of its candidates, best first."""
        if not candidates:
            return Explanation("NIL: no name comes near")
        table, features = scored.table, scored.features
        best, top = candidates[0], int(rows[0])
        request = int(table.request[top])
        lacks: list[dict[str, float]] = [{}] * (len(rows) - 1)
        gave: dict[str, float] = {}
        calibration = answers.nil[request] == answers.nil[request]
        if features is not None and calibration and self.ranker is not None:
            lacks = _behind(self.ranker, features.candidates[top], features.candidates[rows[1:]])
            middling = self.ranker.candidates[0].mean.astype(np.float32)
            gave = _behind(self.ranker, features.candidates[top], middling[None])[0]
        others = tuple(
            RunnerUp(one.concept_id, one.concept_name, one.matched_term, lack, one.contradictions, one.similarity)
            for one, lack in zip(candidates[1:], lacks, strict=True)
        )
        answer = _nil_reason(scored, request) if nil else EQUAL if table.routes[top] & EXACT else "nearest to"
        concept = self.index.concept(int(table.concept[top]))
        maps = self._is_live(best.retired_concept)
        similarities = (("cosine", VECTORS, table.cosine), ("letters", LETTERS, table.letters))
        expansion = None
        if best.expansion is not None:
            reading = questions.reading(request, int(table.expansion[top]))
            origin = ORIGINS.get(reading.origin, reading.origin) if reading is not None else ""
            expansion = f"read as {best.expansion!r} ({', '.join(filter(None, (best.routes[-1], origin)))})"
        similarity = {
            name: round(float(values[top]), 3) for name, route, values in similarities if scored.routes & route
        }
        kind, of_concept = self._kind(best, int(table.term[top])), (concept.definition, concept.parents)
        retired, non_standard = (None, best.retired_concept) if maps else (best.retired_concept, None)
        nil_share = round(float(answers.nil[request]), 4) if calibration else None
        about = answer, best.matched_term, kind, best.routes, similarity, *of_concept, concept.semantic_types
        rest = retired, others, nil_share, gave, non_standard, best.concept_name
        return Explanation(*about, expansion, best.contradictions, *rest)

    def _kind(self, best: Candidate, term: int) -> str | None:
        """Return the kind of a candidate's term."""
        terms = self.index.segment.terms
        if EXTERNAL in best.routes:
            of_another = f"{best.source}'s name for {terms.column('borrowed_as')[term].as_py()}"
            return "phrase confirmed in a review" if best.source == REVIEWED else of_another
        return "preferred name" if terms.column("preferred")[term].as_py() else best.scope and f"{best.scope} synonym"

    def _is_live(self, identifier: str | None) -> bool:
        """Tell whether a concept is indexed under its own id; the id of a retired concept leads to another one."""
        row = -1 if identifier is None else int(self.index.concept_rows([identifier])[0])
        return row >= 0 and self.index.segment.concepts.column("id")[row].as_py() == identifier


def _nil_reason(scored: Scored, request: int) -> str:
    features = scored.features
    if features is not None and features.vetoes[request] in SAYS_NOTHING:
        return f"NIL: {features.vetoes[request]}; the nearest is"
    if features is not None and features.mentions[request, MENTION_NAMES.index("named_elsewhere")]:
        return "NIL: a name that other vocabularies have, and nothing here is called so; the nearest is"
    return "NIL: no name is close enough; the nearest is"


def _behind(ranker: Ranker, winner: NDArray[np.float32], others: NDArray[np.float32]) -> list[dict[str, float]]:
    """Return the deficit of each other candidate compared with the winner, by group of features.

    Args:
        winner: (len(NAMES),) features.
        others: (m, len(NAMES)) features.
    """
    if not len(others):
        return []
    of_group = np.array([[name in names for name in NAMES] for names in GROUPS.values()])
    swapped = np.where(of_group, others[:, None], winner).reshape(-1, len(NAMES))
    lost = float(ranker.score(winner[None])[0]) - ranker.score(swapped)
    found = []
    for row in lost.reshape(len(others), len(GROUPS)).tolist():
        named = {name: round(value, 3) for name, value in zip(GROUPS, row, strict=True) if abs(value) >= SMALL}
        found.append(dict(sorted(named.items(), key=lambda pair: -abs(pair[1]))))
    return found


class Named(NamedTuple):
    """The concept that a mention's id or code is that of; whether it is a code without a dot and a prefix: "E11"."""

    concept: int
    is_bare: bool = False


# Up to so many rows of a table are read one by one.
FEW_ROWS = 8
OF_TERMS = ("string", "scope", "language", "source", "code", "retired_concept")


class ResultBuilder:
    """Builds results for one index."""

    def __init__(self, index: Index, target: str | None, ranker: Ranker | None) -> None:
        self.index, self.ranker, self.assignment = index, ranker, Assignment(index.segment)
        self.targets = Targets(index.segment, target) if target is not None else None
        self._explainer, self.omop = Explainer(index, ranker), OmopConcepts(index)
        terms = index.segment.terms
        self._terms = terms.select([name for name in OF_TERMS if name in terms.column_names])
        self._concepts = index.segment.concepts.select(["id", "name"])
        tops = index.segment.tops().tolist() if target is None else []
        self._top = self._concepts.column("id")[tops[0]].as_py() if len(tops) == 1 else None

    @functools.cached_property
    def sources(self) -> list[str]:
        """The prefixes of the concepts' own terminologies."""
        columns = self.index.segment.concepts
        known = pc.unique(columns.column("source")).drop_null() if "source" in columns.column_names else []
        return sorted(map(str, known))

    def apply_vetoes(self, mention: Mention, result: Result) -> Result:
        """Return the result of a question for one of its mentions; a possible finding is never accepted."""
        if result.mention != mention.text:
            result = replace(result, mention=mention.text)
        if result.decision != "accept":
            return result
        first, *others = result.candidates
        expansion = first.expansion if EXPANDED in first.routes else None
        doubt = mention.assertion or (doubt_of(expansion) if expansion else None)
        if doubt is None and (SPELLING in first.routes or SHORTENED in first.routes):
            # A correction or omission must not hide a contradiction between the mention and the term.
            doubt = next((one.text for one in explain_pair(mention.text, first.matched_term) if one.veto), None)
        if doubt is None and SHORTENED in first.routes and self._is_of_both_sides(mention.text, first):
            doubt = ONE_SIDE
        if doubt is None and result.concept_id == self._top and mention.identifier is None:
            doubt = TOP
        if doubt is None or doubt == doubt_of(first.matched_term):
            return result
        why = (*first.contradictions, doubt)
        explanation = result.explanation and replace(result.explanation, contradictions=why)
        candidates = (replace(first, contradictions=why), *others)
        return replace(result, candidates=candidates, decision="review", explanation=explanation)

    def _is_of_both_sides(self, mention: str, answer: Candidate) -> bool:
        """Tell whether a mention has a side, and the answer is bilateral, or a concept below it is one-sided."""
        if sets.sided(clean(mention)) is None:
            return False
        sides = sets.LATERALITY.values(f"{answer.matched_term} {answer.concept_name}")
        return sets.BOTH in sides or (not sides and answer.concept_id in self._over_one_side)

    @functools.cached_property
    def _over_one_side(self) -> frozenset[str]:
        """The ids of the parents of concepts whose name has a side."""
        names, ids = self._concepts.column("name"), self._concepts.column("id")
        named = pc.match_substring_regex(names, sets.SIDE_PATTERN, ignore_case=True)
        rows = np.flatnonzero(named.to_numpy(zero_copy_only=False))
        one = sets.LEFT | sets.RIGHT
        below = [row for row in rows.tolist() if one in sets.LATERALITY.values(names[row].as_py())]
        parents = {int(parent) for row in below for parent in self.index.segment.parents_of(row)}
        return frozenset(ids[parent].as_py() for parent in parents)

    def from_identifier(self, mention: str, named: Named, concepts: Sequence[int], top_k: int, explain: bool) -> Result:
        """Return the result of a mention that identifies a concept; several answers, and a bare code, go to review."""
        shared: tuple[str, ...] = ()
        if len(concepts) > 1:
            shared = (SHARED_CODE if named.concept in concepts else self._choose(named.concept),)
        elif named.is_bare:
            shared = (BARE_CODE,)
        known = [self.index.concept(row) for row in concepts[:top_k]]
        ids = self._ids(concepts[:top_k])
        exact: dict[str, Any] = {"routes": ("exact",), "relation": "exact", "contradictions": shared}
        facts = self.omop.of_rows(concepts[:top_k])
        candidates = tuple(
            Candidate(name, one.name, one.name, 1.0, source=one.source, omop=omop, **exact)
            for name, one, omop in zip(ids, known, facts, strict=True)
        )
        best, why = known[0], None
        if explain:
            of_concept = best.definition, best.parents, best.semantic_types
            answer = IDENTIFIES, best.name, "preferred name", ("exact",)
            heading = self.assignment.why(named.concept, concepts[0]) if len(concepts) == 1 else None
            why = Explanation(*answer, {}, *of_concept, contradictions=shared, concept_name=best.name, heading=heading)
        decision: Decision = "review" if shared else "accept"
        probability = None if named.is_bare else 1.0 / len(concepts)
        sure = (probability, decision) if self.ranker is not None else (None, None)
        return Result(mention, ids[0], best.name, best.name, 1.0, sure[0], EXACT_METHOD, candidates, sure[1], why)

    def empty(self, mention: str, explain: bool) -> Result:
        """Return the result of an empty mention."""
        why = Explanation("NIL: nothing is left of the mention after cleaning") if explain else None
        decision: Decision | None = "nil" if self.ranker is not None else None
        return Result(mention, None, None, None, None, None, NIL, (), decision, why)

    def results(
        self,
        questions: Questions,
        scored: Scored,
        answers: RankedAnswers,
        nil: NDArray[np.bool_],
        top_k: int,
        *,
        decisions: Sequence[Decision] | None = None,
        similarity: NDArray[np.float32] | None = None,
        explain: bool = False,
    ) -> list[Result]:
        """Build the results of distinct questions.

        Args:
            nil: (n,) whether the answer is NIL.
            decisions: (n,) with a calibration.
            similarity: (c,) shown.
        """
        table = scored.table
        similarity = table.cosine if similarity is None else similarity
        wanted = max(top_k, 1 + RUNNERS_UP if explain else 1)
        place = np.arange(len(answers.order)) - table.offsets[table.request[answers.order]]
        rows = answers.order[place < wanted]
        candidates = self._candidates(questions, scored, rows, similarity, answers.score)
        concepts = table.concept[rows].tolist()
        starts = np.searchsorted(table.request[rows], np.arange(len(questions.requests) + 1)).tolist()
        made = []
        for number in range(len(questions.requests)):
            places = slice(starts[number], starts[number + 1])
            some, of = candidates[places], rows[places]
            why = self._explainer(questions, scored, answers, of, some, bool(nil[number])) if explain else None
            mention, string = questions.mentions[number].text, questions.mentions[number].string
            decision = None if decisions is None else decisions[number]
            heading = some and self.assignment.is_heading(concepts[places.start])
            codes, share = self._billed(string, concepts[places], some) if self.assignment.billable else (some, 1.0)
            shown = tuple(codes[:top_k])
            if not some or nil[number]:
                term, near = (some[0].matched_term, some[0].similarity) if some else (None, None)
                sure = _probability(answers.nil[number]) if some else None
                decision = None if decision is None else "nil"
                made.append(Result(mention, None, None, term, near, sure, NIL, shown, decision, why))
                continue
            best, sure = shown[0], _probability(answers.confidence[number] * share)
            method = _method(questions, scored, int(of[0]), EXTERNAL in best.routes)
            if heading:
                decision, why = decision and "review", why and replace(why, contradictions=best.contradictions)
            elif why is not None:
                named = int(self.index.segment.term_concept[table.term[of[0]]])
                why = replace(why, heading=self.assignment.why(named, concepts[places.start]))
            answer = best.concept_id, best.concept_name, best.matched_term, best.similarity
            made.append(Result(mention, *answer, sure, method, shown, decision, why))
        return made

    def _billed(
        self, mention: str, concepts: Sequence[int], found: Sequence[Candidate]
    ) -> tuple[list[Candidate], float]:
        """Return codes instead of headings: of the first one all below it, of others one; and the share of one of all.

        Args:
            mention: cleaned; codes whose names have more of its words come first, then unspecified ones.
        """
        codes: dict[str, Candidate] = {}
        shares = []
        for concept, candidate in zip(concepts, found, strict=True):
            if not self.assignment.is_heading(concept):
                codes.setdefault(candidate.concept_id, candidate)
                shares.append(1.0)
                continue
            rows, why = self._below(mention, concept), (self._choose(concept),)
            shares.append(1.0 / len(rows))
            rows = rows[: 1 if codes else MAX_CONCEPTS]
            for id, row, omop in zip(self._ids(rows), rows, self.omop.of_rows(rows), strict=True):
                name = self._concepts.column("name")[row].as_py()
                code = replace(candidate, concept_id=id, concept_name=name, omop=omop, contradictions=why)
                codes.setdefault(id, code)
        return [*codes.values()], shares[0] if shares else 1.0

    def _below(self, mention: str, heading: int) -> list[int]:
        """Return the codes below a heading, best first."""
        words, names = set(plain_words(mention)), self._concepts.column("name")

        def place(row: int) -> tuple[int, bool]:
            name = clean(names[row].as_py())
            return -len(words & set(plain_words(name))), not self.assignment.is_open(name)

        return sorted(self.assignment.codes(heading), key=place)

    def _choose(self, heading: int) -> str:
        return f"heading: {self._ids([heading])[0]} cannot be billed; choose a code below it"

    def _ids(self, rows: Sequence[int]) -> list[str]:
        """Return the ids that some concepts have in answers."""
        if self.targets is not None:
            return self.targets.ids(np.array(rows))
        ids: list[str] = self._concepts.column("id").take(pa.array(rows, pa.int64())).to_pylist()
        return ids

    def _candidates(
        self,
        questions: Questions,
        scored: Scored,
        rows: NDArray[np.int64],
        similarity: NDArray[np.float32],
        score: NDArray[np.float64],
    ) -> list[Candidate]:
        table = scored.table
        empty: list[Any] = [None] * len(rows)
        terms = dict(zip(self._terms.column_names, _cells(self._terms, table.term[rows]), strict=True))
        string, scope, language, source, code, retired = (terms.get(name, empty) for name in OF_TERMS)
        ids, names = _cells(self._concepts, table.concept[rows])
        ids, kinds = ids if self.targets is None else self.targets.ids(table.concept[rows]), empty
        if scored.features is not None:
            strings = self.index.segment.strings.array.take(pa.array(table.string[rows])).to_pylist()
            pairs = [(scored.queries[query], one) for query, one in zip(table.query[rows], strings, strict=True)]
            kinds = list(relations(scored.features, rows, scope, pairs))
        numbers = np.round(np.clip(similarity[rows], -1.0, 1.0).astype(np.float64), DECIMALS).tolist()
        scores = np.round(score[rows], DECIMALS).tolist() if self.ranker is not None else empty
        homonyms = self._homonyms(table.string[rows], table.concept[rows], table.homonyms[rows])
        readings = list(map(questions.reading, table.request[rows].tolist(), table.expansion[rows].tolist()))
        external = self.index.segment.borrowed[table.term[rows]].tolist()
        routes = map(_routes, table.routes[rows].tolist(), readings, external)
        read = [None if reading is None else reading.string for reading in readings]
        if self.ranker is not None:
            is_broader = [reading is not None and reading.origin in (BROADER, OF_BRAND) for reading in readings]
            kinds = ["broad" if broader else kind for broader, kind in zip(is_broader, kinds, strict=True)]
        clashes = [self._contradictions(scored, row, term) for row, term in zip(rows.tolist(), string, strict=True)]
        of_concept, of_term = (ids, names, string, numbers), (scope, language, source, code, homonyms)
        omop = self.omop.of_rows(table.concept[rows])
        columns = *of_concept, *of_term, routes, kinds, read, clashes, retired, scores, omop
        return [Candidate(*cells) for cells in zip(*columns, strict=True)]

    def _homonyms(
        self, string: NDArray[np.int64], concept: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> list[tuple[str, ...]]:
        """Return the ids of the other concepts of each string, without those connected only by a mapping."""
        segment = self.index.segment
        terms = segment.terms
        retired = terms.column("retired_concept") if "retired_concept" in terms.column_names else None
        ids = segment.concepts.column("id")
        found: list[tuple[str, ...]] = [()] * len(string)
        for place in np.flatnonzero(counts > 0).tolist():
            start, end = int(segment.offsets[string[place]]), int(segment.offsets[string[place] + 1])
            named, own = segment.term_concept[start:end].tolist(), int(concept[place])
            others = {other: ids[other].as_py() for other in dict.fromkeys(named) if other != own}
            if retired is not None:
                copies = set(zip(named, retired.slice(start, end - start).to_pylist(), strict=True))
                own_id = ids[own].as_py()
                others = {
                    other: name
                    for other, name in others.items()
                    if (other, own_id) not in copies and (own, name) not in copies
                }
            found[place] = tuple(others.values())
        return found

    def _contradictions(self, scored: Scored, row: int, term: str) -> tuple[str, ...]:
        features, table = scored.features, scored.table
        if axes := scored.conflicts.get(row):
            return axes
        if features is not None and features.candidates[row, COLUMN["contradictions"]]:
            query = scored.queries[int(table.query[row])][:MAX_ENCODED_CHARACTERS]
            return tuple(one.text for one in explain_pair(query, term))
        if features is not None and features.vetoed[row]:
            return (features.vetoes[int(table.request[row])] or STATUS_APART,)
        return ()


def _cells(table: pa.Table, rows: NDArray[np.int64]) -> list[list[Any]]:
    """Return the values of each column in some rows."""
    if len(rows) > FEW_ROWS:
        return [column.to_pylist() for column in table.take(pa.array(rows)).columns]
    return [[column[row].as_py() for row in rows.tolist()] for column in table.columns]


def _routes(bits: int, reading: Reading | None, external: bool) -> tuple[str, ...]:
    found = (*(name for bit, name in ROUTES.items() if bits & bit), *((EXTERNAL,) if external else ()))
    return found if reading is None else (*found, reading.source)


def _method(questions: Questions, scored: Scored, top: int, external: bool) -> Method:
    reading = questions.reading(int(scored.table.request[top]), int(scored.table.expansion[top]))
    if reading is not None:
        return ABBREVIATION if reading.source == EXPANDED else NEAREST
    return EXACT_METHOD if scored.table.routes[top] & EXACT and not external else NEAREST


def _probability(confidence: float) -> float | None:
    return None if np.isnan(confidence) else round(float(confidence), DECIMALS)
