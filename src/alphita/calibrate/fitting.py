"""Fits ranker and confidence of an index on strings held out of its encoder's training: `alphita calibrate`.

The held-out strings are split by concept (see `held_out`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.answer.calibration_store import FOLDER, Calibration, RankedAnswers, evidence_of, ordered
from alphita.answer.candidates import RANKINGS, CandidateTable
from alphita.answer.decision import ACCEPT, NIL, NONE, RIGHT, WITH_ERROR, Kind, Outcomes, fit_outcomes, grounds
from alphita.answer.features import encode_definitions
from alphita.answer.normalizer import DEFAULT_ERROR, STRINGS_PER_CONCEPT
from alphita.answer.pipeline import Pipeline
from alphita.answer.ranker import Ranker
from alphita.calibrate import examples, ranker_training, reliability, risk_coverage
from alphita.calibrate.examples import (
    FOREIGN,
    ITSELF,
    LABELLED,
    NOISE,
    REMOVED,
    SYNONYM,
    Examples,
    Label,
    divide,
    held_out,
    in_mixture,
    labelled,
)
from alphita.calibrate.ranker_training import Training
from alphita.calibrate.risk_coverage import Certificate
from alphita.calibrate.scored_examples import EXAMPLES_AT_ONCE, Seen, ask_each, hidden, see
from alphita.errors import InputError
from alphita.index.encoding import Encoder
from alphita.index.lookup import DEPTH, EXACT, LETTERS, How
from alphita.index.store import Index
from alphita.mention.abbreviations import Abbreviations
from alphita.terminology.splits import Split
from alphita.terminology.text import clean_many

FOLDS = 4
ERRORS = (0.005, 0.01, 0.02, 0.05, 0.1)
# Starting from the general ranker, more examples of a kind take longer and do not help.
MAX_TUNED = 1_000
# Accuracy of each ranking is reported at these.
KS = (1, 5)
# Number of strings that `Normalizer` examines first for this many concepts.
PLAIN_DEPTH = max(DEPTH, STRINGS_PER_CONCEPT * max(KS))
NOWHERE = int(np.iinfo(np.int64).max)


def fit(
    index: Index,
    encoder: Callable[[], Encoder],
    *,
    split: Split | None = None,
    labels: Sequence[Label] = (),
    seed: int = 0,
) -> Calibration:
    """Fit ranker, outcomes and thresholds."""
    start = time.perf_counter()
    known = held_out(index, split, seed)
    mapped = labelled(index, _distinct(index, labels))
    to_learn, to_test = divide(index, known, mapped, seed)
    start_from = _general(index)
    if start_from is not None:
        to_learn = examples.at_most(to_learn, MAX_TUNED, seed=seed)
    pipeline = Pipeline(
        index, encoder, Abbreviations.of_index(index), respell=True, definitions=encode_definitions(index, encoder)
    )

    learned = see(pipeline, to_learn)
    draft, crossed = _learn(pipeline, learned, start_from, seed)

    tested = answer(pipeline, draft, to_test)
    certificates = {kind: certify(draft.outcomes, crossed, tested, kind) for kind in WITH_ERROR}
    estimated = {kind: _estimate(draft.outcomes, crossed, tested, kind, certificates[kind]) for kind in certificates}
    accept, nil = (
        {error: certificate.threshold for error, certificate in certificates[kind].items()} for kind in WITH_ERROR
    )
    figures = {
        **figures_of(tested, certificates, estimated[NIL].get(DEFAULT_ERROR), known.origin),
        "estimated": {f"{error:g}": tested.accepted(threshold) for error, threshold in estimated[ACCEPT].items()},
        "from_general": start_from is not None,
        "learned_from": counts_of(learned.examples),
        "rankings": _by_ranking(index, encoder, tested),
    }
    fields = {
        "index_hash": index.content_hash,
        "split_hash": split.hash if split is not None else None,
        "seed": seed,
        "labels": len(mapped.mentions),
        "held_out": len(known.strings),
        "origin": known.origin,
        "seconds": round(time.perf_counter() - start, 1),
    }
    given = tested.given(ACCEPT)
    pictures = {
        "reliability": reliability.reliability_svg(tested.answers.confidence, tested.right),
        "risk_coverage": risk_coverage.risk_coverage_svg(given, tested.right, certificates=certificates[ACCEPT]),
    }
    return replace(
        draft, accept=accept, nil=nil, estimated=estimated, figures=figures, fields=fields, pictures=pictures
    )


def _distinct(index: Index, labels: Sequence[Label]) -> list[Label]:
    """Return each label once: a mention that comes again is no further evidence."""
    once = list(dict.fromkeys(labels))
    cleaned = clean_many([label.mention for label in once], index.rules)
    kept = {(mention, label.concept_id): label for mention, label in zip(cleaned, once, strict=True)}
    if len(kept) < len(labels):
        progress.say(f"{len(labels) - len(kept):,} labelled mentions left out: each is the same as another")
    if several := len(kept) - len({mention for mention, _ in kept}):
        progress.say(f"{several:,} labels give a mention another concept than a label before: at most one can be right")
    return list(kept.values())


def _general(index: Index) -> Ranker | None:
    """Return the general ranker of the index's model; None if there is none, or of another version."""
    folder = index.model_path / FOLDER
    try:
        calibration = Calibration.load(folder, index) if folder.exists() else None
    except InputError as error:
        progress.say(f"fitted from nothing, not from the general ranker: {error.problem}")
        return None
    return calibration.ranker if calibration is not None and calibration.is_general else None


# Learning: on six tenths of the held-out concepts.


class Crossed(NamedTuple):
    """Answers of rankers that were not trained on the mention.

    Attributes:
        evidence: (n, e) of the best candidate.
        outcome: (n,) `RIGHT`, `OTHER` or `NONE`.
        vetoed: (n,) whether the best candidate is never accepted.
    """

    evidence: NDArray[np.float64]
    outcome: NDArray[np.int64]
    vetoed: NDArray[np.bool_]

    def given(self, outcomes: Outcomes, kind: Kind) -> NDArray[np.float64]:
        """Return the probability (n,) by which answers are accepted or NIL; 0 for vetoed ones."""
        found = outcomes(self.evidence)
        return grounds(kind, found[:, RIGHT], found[:, NONE], self.vetoed)

    def kept(self, kind: Kind) -> NDArray[np.bool_]:
        """Return whether accepting, or answering NIL, is right, (n,)."""
        return self.outcome == (RIGHT if kind == ACCEPT else NONE)


def _learn(pipeline: Pipeline, learned: Seen, start: Ranker | None, seed: int) -> tuple[Calibration, Crossed]:
    """Fit ranker and outcomes; nothing is accepted yet."""
    progress.say(f"fitting the ranker on {len(learned.examples.mentions):,} examples")
    fitted = ranker_training.train(learned.training, start=start, seed=seed)
    kinds = np.array(learned.examples.kinds)
    fold = np.random.default_rng(seed).permutation(len(kinds)) % FOLDS
    answered = in_mixture(kinds, seed)
    crossed = together([answers for _, answers in cross_validate(learned, fold, answered, seed, start)])
    draft = Calibration(
        fitted,
        fit_outcomes(crossed.evidence, crossed.outcome),
        {},
        {},
        definitions=pipeline.definitions,
        abbreviations=pipeline.reader.abbreviations,
    )
    return draft, crossed


def cross_validate(
    seen: Seen,
    fold: NDArray[np.int64],
    asked: NDArray[np.bool_],
    seed: int,
    start: Ranker | None = None,
    epochs: int | None = None,
) -> Iterator[tuple[Ranker, Crossed]]:
    """Yield for each fold (n,), from 0, the ranker fitted on the others, and its answers to the `asked` examples."""
    for number in range(int(fold.max()) + 1):
        others = _some(seen.training, np.flatnonzero(fold != number))
        fitted = ranker_training.train(others, start=start, seed=seed, epochs=epochs)
        yield fitted, _crossed(seen, fitted, (fold == number) & asked)


def together(parts: Sequence[Crossed]) -> Crossed:
    """Return the answers of several rankers as one."""
    return Crossed(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _crossed(seen: Seen, fitted: Ranker, asked: NDArray[np.bool_]) -> Crossed:
    """Answer those of the examples that are `asked`, (n,), and have a candidate."""
    probabilities = fitted(seen.training.candidates, seen.training.mentions, seen.table.offsets)
    order, top = ordered(seen.table, probabilities.score)
    evidence = evidence_of(seen.table, seen.features, probabilities, order, top)
    rows = np.flatnonzero(asked & (top >= 0))
    return Crossed(evidence[rows], seen.outcome(top)[rows], seen.vetoed[top[rows]])


def _some(training: Training, rows: NDArray[np.int64]) -> Training:
    counts = np.diff(training.offsets)[rows]
    ends = np.cumsum(counts)
    places = np.arange(int(ends[-1])) + np.repeat(training.offsets[rows] - (ends - counts), counts)
    return Training(
        training.candidates[places],
        training.mentions[rows],
        np.concatenate([[0], ends]).astype(np.int64),
        training.right[places],
        training.nil[rows],
        training.weight[rows],
    )


# Testing: on the other concepts, on which neither ranker nor confidence was fitted.


class Tested(NamedTuple):
    """Test examples, and the calibrated answers to them."""

    seen: Seen
    answers: RankedAnswers

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the best candidate is right, (n,)."""
        return self.seen.outcome(self.answers.top) == RIGHT

    def given(self, kind: Kind) -> NDArray[np.float64]:
        """Return the probability (n,) by which answers are accepted or NIL; 0 for vetoed ones."""
        vetoed = np.append(self.seen.vetoed, True)[self.answers.top]
        return grounds(kind, self.answers.confidence, self.answers.nil, vetoed)

    def kept(self, kind: Kind) -> NDArray[np.bool_]:
        """Return whether accepting, or answering NIL, is right, (n,)."""
        return self.right if kind == ACCEPT else self.seen.examples.concepts < 0

    def accepted(self, threshold: float) -> dict[str, float]:
        """Return the acceptance figures for a confidence threshold, as JSON."""
        taken = self.given(ACCEPT) >= threshold
        return {"threshold": threshold, "share": float(taken.mean()), "wrong": int((taken & ~self.right).sum())}


def answer(pipeline: Pipeline, draft: Calibration, some: Examples) -> Tested:
    """Answer examples on which the ranker was not trained."""
    seen = see(pipeline, some)
    return Tested(seen, draft(seen.table, seen.features))


def certify(outcomes: Outcomes, crossed: Crossed, tested: Tested, kind: Kind) -> dict[float, Certificate]:
    """Test thresholds for every allowed error, in an order fixed on the training examples."""
    expected, given, kept = crossed.given(outcomes, kind), tested.given(kind), tested.kept(kind)
    certificates = {}
    for error in ERRORS:
        order = risk_coverage.threshold_order(expected, crossed.kept(kind), error=error, size=len(kept))
        certificates[error] = risk_coverage.certify(given, kept, error=error, order=order)
    return certificates


def _estimate(
    outcomes: Outcomes, crossed: Crossed, tested: Tested, kind: Kind, certificates: Mapping[float, Certificate]
) -> dict[float, float]:
    """Return thresholds for the allowed errors that cannot be certified: the higher of the estimates on two halves."""
    halves = ((crossed.given(outcomes, kind), crossed.kept(kind)), (tested.given(kind), tested.kept(kind)))
    thresholds = {}
    for error, certificate in certificates.items():
        some = [risk_coverage.estimate(*half, error=error) for half in halves]
        known = [threshold for threshold in some if threshold is not None]
        if certificate.threshold is None and len(known) == len(halves):
            thresholds[error] = max(known)
    return thresholds


def figures_of(
    tested: Tested, certificates: Mapping[Kind, Mapping[float, Certificate]], estimated: float | None, origin: str
) -> dict[str, Any]:
    """Return the figures of the learned ranker, as JSON."""
    named = tested.seen.examples.concepts >= 0
    population = population_text(tested.seen.examples, origin)
    given, certified = tested.given(ACCEPT), certificates[NIL][DEFAULT_ERROR]
    nil = estimated if certified.threshold is None else certified.threshold
    is_nil = tested.given(NIL) >= (2.0 if nil is None else nil)
    table = risk_coverage.table(
        given, tested.right, certificates=certificates[ACCEPT], nil=is_nil, names_concept=named, population=population
    )
    kinds = np.array(tested.seen.examples.kinds)
    recognised = {kind: float(is_nil[kinds == kind].mean()) for kind in (REMOVED, FOREIGN) if (kinds == kind).any()}
    return {
        "population": population,
        "tested_on": counts_of(tested.seen.examples),
        "nil": {
            "lost": float(is_nil[named].mean()),
            "recognised": recognised,
            "wrong": float(named[is_nil].mean()) if is_nil.any() else None,
            "error": risk_coverage.nil_text(certified, int(is_nil.sum()), int(named[is_nil].sum())),
            "certificates": {f"{error:g}": asdict(one) for error, one in certificates[NIL].items()},
        },
        "calibration": reliability.figures(tested.answers.confidence, tested.right),
        "risk_coverage": table.to_json(),
    }


def population_text(tested: Examples, origin: str) -> str:
    """Describe the test examples in words."""
    counts = counts_of(tested)
    text = (
        f"{counts.get(SYNONYM, 0):,} strings of {origin}, {counts.get(ITSELF, 0):,} names of the index and "
        f"{counts.get(NOISE, 0):,} of them with slips and words lost, with {counts.get(REMOVED, 0):,} names of removed "
        f"concepts and {counts.get(FOREIGN, 0):,} foreign strings among them"
    )
    if LABELLED not in counts:
        return text
    concepts = len(np.unique(tested.concepts[np.array(tested.kinds) == LABELLED]))
    return f"{text}, and {counts[LABELLED]:,} labelled mentions with {concepts:,} different answers"


def counts_of(some: Examples) -> dict[str, int]:
    """Count examples by kind."""
    kinds, counts = np.unique(np.array(some.kinds), return_counts=True)
    return dict(zip(kinds.tolist(), counts.tolist(), strict=True))


# Comparison with the other rankings.


def _by_ranking(index: Index, encoder: Callable[[], Encoder], tested: Tested) -> dict[str, dict[str, float]]:
    """Return accuracy@k of every ranking on held-out strings and labelled mentions, ignoring NIL."""
    seen = tested.seen
    named = np.flatnonzero((seen.examples.concepts >= 0) & np.isin(seen.examples.kinds, (SYNONYM, LABELLED)))
    some = seen.examples.take(named)
    found: dict[str, dict[str, float]] = {}
    looked_up: dict[int, list[tuple[NDArray[np.int64], CandidateTable]]] = {}
    for name, ranking in RANKINGS.items():
        if ranking.learned:
            places = places_of(seen.table, tested.answers.order, seen.examples.concepts)[named]
        elif ranking.routes & LETTERS and index.ngrams is None:
            continue
        else:
            routes = ranking.routes
            if routes not in looked_up:
                looked_up[routes] = list(_look_up(Pipeline(index, encoder), some, routes))
            places = np.full(len(named), NOWHERE)
            for rows, table in looked_up[routes]:
                standing = index.segment.standing[table.term]
                order = np.lexsort((standing, -np.round(ranking.score(table), 6), table.request))
                places[rows] = places_of(table, order, some.concepts[rows])
        found[name] = {f"accuracy@{k}": float((places < k).mean()) for k in KS}
    return found


def places_of(table: CandidateTable, order: NDArray[np.int64], concepts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank, from 0, of each request's right concept, (n,); NOWHERE if it is not a candidate."""
    request = table.request[order]
    place = np.arange(len(order)) - table.offsets[request]
    right = table.concept[order] == concepts[request]
    places = np.full(len(concepts), NOWHERE)
    places[request[right]] = place[right]
    return places


def _look_up(
    pipeline: Pipeline, some: Examples, routes: int, depth: int = PLAIN_DEPTH
) -> Iterator[tuple[NDArray[np.int64], CandidateTable]]:
    """Yield rows of examples and their candidates; those with too few are yielded again after a deeper search."""
    again = []
    for start in range(0, len(some.mentions), EXAMPLES_AT_ONCE):
        rows = np.arange(start, min(start + EXAMPLES_AT_ONCE, len(some.mentions)))
        block, questions = ask_each(pipeline, some.take(rows))
        scored = pipeline.candidates(questions, How(depth, routes), featured=False, view=hidden(pipeline, block))
        yield rows, scored.table
        if routes != EXACT and not scored.exhausted:
            again.append(rows[np.diff(scored.table.offsets) < max(KS)])
    short = np.concatenate(again) if again else np.zeros(0, np.int64)
    if len(short):
        for rows, table in _look_up(pipeline, some.take(short), routes, depth * 4):
            yield short[rows], table
