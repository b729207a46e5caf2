"""What an explanation says of an answer: why it was given, and what stood behind it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.answer.calibration_store import RankedAnswers
from alphita.answer.candidates import BORROWED, EXACT, LETTERS, VECTORS
from alphita.answer.explanation import Explanation, RunnerUp, behind
from alphita.answer.features import MENTION_NAMES
from alphita.answer.pipeline import Questions, Scored
from alphita.answer.ranker import Ranker
from alphita.answer.records import Candidate
from alphita.answer.table import CandidateTable
from alphita.index.store import Index
from alphita.mention.assertion import SAYS_NOTHING
from alphita.mention.laboratory import ORIGIN as LABORATORY
from alphita.mention.name_style import Reading

ELSEWHERE = MENTION_NAMES.index("named_elsewhere")
# Runners-up that an explanation tells of.
RUNNERS_UP = 2
TERM_KINDS = {
    "exact": "exact synonym",
    "broad": "broad synonym",
    "narrow": "narrow synonym",
    "related": "related synonym",
}


# Whence an abbreviation is known, in words.
ORIGINS = {
    "terminology": "from the terminology",
    "input": "defined in the input",
    "list": "from your list",
    "clinic": "from the clinic's short forms",
    LABORATORY: "as laboratories say it",
}


class Explainer:
    """Explains the answers of one index."""

    def __init__(self, index: Index, ranker: Ranker | None) -> None:
        self.index, self.ranker = index, ranker

    def __call__(
        self,
        asked: Questions,
        scored: Scored,
        answers: RankedAnswers,
        rows: NDArray[np.int64],
        candidates: list[Candidate],
        nil: bool,
    ) -> Explanation:
        """Return the explanation of one answer, of whose candidates these are the rows, best first."""
        if not candidates:
            return Explanation("NIL: no string of the index comes near")
        table, features = scored.table, scored.features
        best, top = candidates[0], int(rows[0])
        request = int(table.request[top])
        lacks: list[dict[str, float]] = [{}] * (len(rows) - 1)
        gave: dict[str, float] = {}
        calibration = answers.nil[request] == answers.nil[request]
        if features is not None and calibration and self.ranker is not None:
            lacks = behind(self.ranker, features.candidates[top], features.candidates[rows[1:]])
            middling = self.ranker.candidates[0].mean.astype(np.float32)
            gave = behind(self.ranker, features.candidates[top], middling[None])[0]
        others = tuple(
            RunnerUp(one.concept_id, one.concept_name, one.matched_term, lack, one.contradictions)
            for one, lack in zip(candidates[1:], lacks, strict=True)
        )
        equal = bool(table.routes[top] & EXACT)
        answer = _nil_reason(scored, request) if nil else "equal to" if equal else "nearest to"
        concept = self.index.concept(int(table.concept[top]))
        maps = self._is_live(best.retired_concept)
        similarities = (("cosine", VECTORS, table.cosine), ("letters", LETTERS, table.letters))
        expansion = None if best.expansion is None else f"read as {best.expansion!r} ({_of(asked, table, top, best)})"
        return Explanation(
            answer,
            best.matched_term,
            self._kind(best, int(table.term[top])),
            best.routes,
            {name: round(float(values[top]), 3) for name, route, values in similarities if scored.routes & route},
            concept.definition,
            concept.parents,
            concept.semantic_types,
            expansion,
            best.contradictions,
            None if maps else best.retired_concept,
            others,
            round(float(answers.nil[request]), 4) if calibration else None,
            gave,
            best.retired_concept if maps else None,
        )

    def _kind(self, best: Candidate, term: int) -> str | None:
        """Return what a candidate's term is to its concept."""
        terms = self.index.segment.terms
        if BORROWED in best.routes:
            return f"{best.source}'s name for {terms.column('borrowed_as')[term].as_py()}"
        return "preferred name" if terms.column("preferred")[term].as_py() else TERM_KINDS.get(best.scope or "")

    def _is_live(self, identifier: str | None) -> bool:
        """Tell whether a concept is indexed under its own id; that of a retired one leads to another."""
        row = -1 if identifier is None else int(self.index.concept_rows([identifier])[0])
        return row >= 0 and self.index.segment.concepts.column("id")[row].as_py() == identifier


def _nil_reason(scored: Scored, request: int) -> str:
    if scored.features is not None and scored.features.doubts[request] in SAYS_NOTHING:
        return f"NIL: {scored.features.doubts[request]}; the nearest is"
    if scored.features is not None and scored.features.mentions[request, ELSEWHERE]:
        return "NIL: a name that other vocabularies have, and nothing here is called so; the nearest is"
    return "NIL: too far away or too doubtful; the nearest is"


def reading_of(asked: Questions, request: int, number: int) -> Reading | None:
    """Return the reading of a question by which a candidate was found; None: its own string."""
    return asked.readings[request][number - 1] if number else None


def _of(asked: Questions, table: CandidateTable, top: int, best: Candidate) -> str:
    """Return how a mention came to be read otherwise, and whence that is known."""
    reading = reading_of(asked, int(table.request[top]), int(table.expansion[top]))
    origin = ORIGINS.get(reading.origin, reading.origin) if reading is not None else ""
    return f"{best.routes[-1]}, {origin}" if origin else best.routes[-1]
