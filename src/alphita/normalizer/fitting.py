"""Fitting ranker and confidence of an index on strings held out of its encoder's training: `alphita calibrate`.

The held-out strings of the calibration part are parted, concept by concept. On six tenths the ranker learns, and by
cross-validation what its scores are worth (the calibrator). On the rest, which neither has seen, thresholds are tested
and everything is measured. So what is promised rests on data that nothing was fitted on.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress, registry
from alphita.errors import InputError, UsageError, shorten
from alphita.index.store import Encoder, Index
from alphita.normalizer import calibration, examples, ranker, reliability, risk_coverage
from alphita.normalizer.abbreviations import Abbreviations
from alphita.normalizer.calibration import COMMON
from alphita.normalizer.calibration_store import Answers, Calibration, evidence_of, ordered
from alphita.normalizer.examples import FOREIGN, LABELLED, NIL_SHARE, REMOVED, SYNONYM, Examples
from alphita.normalizer.features import Features, Languages, languages_of
from alphita.normalizer.labels import Label
from alphita.normalizer.meaning import encode_definitions
from alphita.normalizer.pipeline import Pipeline
from alphita.normalizer.ranker import Training
from alphita.normalizer.table import Table
from alphita.terminology.splits import Split
from alphita.terminology.text import clean_many

FOLDS = 4
# Share of the held-out concepts that are learned from; the rest is tested on.
LEARNED_FROM = 0.6
EXAMPLES_AT_ONCE = 4096
# What a held-out string or a labelled mention counts, where one with noise counts 1: it is what will be asked.
WEIGHT = 4.0
# Fewer held-out strings than this say too little.
LEAST = 200
# Mentions that name no concept, among those that thresholds and confidence are made for.
POPULATION_NIL_SHARE = 0.1
ERRORS = (0.005, 0.01, 0.02, 0.05, 0.1)
# In-terminology mentions that may be lost to NIL.
LOST = 0.05
RANKINGS = "alphita.normalizer.rankings"


class Known(NamedTuple):
    """Held-out strings and what they are.

    Attributes:
        strings: n strings.
        concepts: (n,) int64 rows of the index.
        origin: where they come from, for reports.
    """

    strings: list[str]
    concepts: NDArray[np.int64]
    origin: str


class Seen(NamedTuple):
    """Examples with their candidates."""

    examples: Examples
    table: Table
    training: Training


def fit(
    index: Index,
    encoder: Callable[[], Encoder],
    *,
    split: Split | None = None,
    labels: Sequence[Label] = (),
    seed: int = 0,
) -> Calibration:
    """Fit ranker, calibrator and thresholds.

    Args:
        index: what they are for.
        encoder: gives the index's encoder.
        split: holds the strings that the encoder was not trained on; needed if it was trained on this terminology.
        labels: mentions that a person mapped; half of them are learned from, half are measured on.
        seed: of all drawing.

    Raises:
        UsageError: a split is needed, or has no calibration part.
        InputError: too few held-out strings name concepts of this index.
    """
    start = time.perf_counter()
    known = held_out(index, split, seed)
    abbreviations = Abbreviations.of_index(index)
    definitions = encode_definitions(index, encoder)
    pipeline = Pipeline(index, encoder, abbreviations, respell=True, definitions=definitions)
    learning = np.array([_learned_from(index, concept, seed) for concept in known.concepts.tolist()], bool)
    labelled = _labelled(index, labels)
    first_labels = _every_second(clean_many(labelled.mentions, index.rules))
    progress.say(
        f"{learning.sum():,} held-out strings to learn from, {(~learning).sum():,} to test on ({known.origin})"
    )

    taught = _taught(index, known, learning, seed)
    if len(labelled.mentions):
        taught = examples.join([taught, labelled.take(np.flatnonzero(first_labels))])
    seen = see(pipeline, taught)
    progress.say(f"fitting the ranker on {len(taught.mentions):,} examples")
    fitted = ranker.train(seen.training, seed=seed)
    languages = languages_of(index.segment)
    crossed = _cross_validated(seen, seed)
    calibrators = calibration.fit_calibrators(
        crossed.evidence, crossed.right, _languages(languages, seen.table.term[crossed.top]), seed=seed
    )

    rows = np.flatnonzero(~learning)
    unseen = Known([known.strings[row] for row in rows.tolist()], known.concepts[rows], known.origin)
    tested = population(index, unseen, seed + 1)
    if len(labelled.mentions):
        tested = examples.join([tested, labelled.take(np.flatnonzero(~first_labels))])
    held = see(pipeline, tested)
    tested = held.examples
    draft = Calibration(fitted, calibrators, 1.0, {})
    answers = draft(held.table, _features(held), languages)
    right, named = _right(held, answers), tested.concepts >= 0
    # Chosen on what was learned from: it decides which answers are tested, so it must not see them.
    nil_threshold = risk_coverage.nil_threshold(crossed.nil, crossed.named, lost=LOST)
    given = answers.nil <= nil_threshold
    holds_for = _population_text(tested, known)
    confidence = np.where(given, answers.confidence, 0.0)
    expected = calibrators[COMMON].apply(crossed.evidence)
    certificates = {}
    for error in ERRORS:
        order = risk_coverage.threshold_order(expected, crossed.right, error=error, size=len(right))
        certificates[error] = risk_coverage.certify(confidence, right, error=error, order=order)
    table = risk_coverage.table(
        answers.confidence, right, certificates=certificates, nil=~given, names_concept=named, population=holds_for
    )  # fmt: skip
    figures = {
        "population": holds_for,
        "tested_on": _counts(tested),
        "learned_from": _counts(seen.examples),
        "nil": _nil_figures(tested, answers, nil_threshold),
        "calibration": reliability.figures(answers.confidence, right),
        "risk_coverage": table.to_json(),
        "rankings": _by_ranking(held, answers),
    }
    fields = {
        "index_hash": index.content_hash, "split_hash": split.hash if split is not None else None, "seed": seed,
        "labels": len(labelled.mentions), "held_out": len(known.strings), "origin": known.origin,
        "seconds": round(time.perf_counter() - start, 1),
    }  # fmt: skip
    pictures = {
        "reliability": reliability.reliability_svg(answers.confidence, right),
        "risk_coverage": risk_coverage.risk_coverage_svg(confidence, right, certificates=certificates),
    }
    accept = {error: certificate.threshold for error, certificate in certificates.items()}
    return Calibration(
        fitted, calibrators, nil_threshold, accept, figures, definitions, abbreviations, fields, pictures
    )  # fmt: skip


def held_out(index: Index, split: Split | None, seed: int) -> Known:
    """Return the strings that the index's encoder was not trained on, with their concepts.

    Raises:
        UsageError: the encoder was trained on this terminology, with another split or none; or the split has no
            calibration part.
        InputError: too few of them name concepts of this index.
    """
    _check_training(index, split)
    if split is None:
        strings, concepts = examples.own_synonyms(index, seed=seed)
        known = Known(strings, concepts, "the index's own synonyms, each taken as not there")
    else:
        part = split.part("calibration")
        if not len(part):
            raise UsageError(
                "this split has no calibration part; make one with: "
                "alphita terminology split TERMINOLOGY --calibration 0.3 -o S.split, and train with it"
            )
        rows = index.concept_rows(part.concept_ids)
        kept = np.flatnonzero(rows >= 0)
        known = Known([part.strings[row] for row in kept.tolist()], rows[kept], "the split's calibration part")
    if len(known.strings) < LEAST:
        raise InputError(
            f"only {len(known.strings)} held-out strings name concepts of this index; at least {LEAST} are needed",
            file=index.path, remedy="use a larger calibration part",
        )  # fmt: skip
    return known


def _check_training(index: Index, split: Split | None) -> None:
    """Make sure that the encoder has not seen what is held out; an index says so of an encoder trained by alphita."""
    trained = index.manifest.get("trained")
    if trained is None:
        return
    if trained.get("terminology") not in (None, index.manifest["terminology_hash"]):
        progress.say(
            "the encoder was trained on another terminology: if that holds these strings too, confidence is too high"
        )
        return
    if trained.get("split") is None:
        raise UsageError(
            "this index's encoder was trained on all synonyms of this terminology, and would look better on them than "
            "it is; train it without some of them: alphita train RECIPE --split S.split, then build the index again"
        )
    if split is None:
        raise UsageError(
            "this index's encoder was trained on the terminology's synonyms, and would look better on them than "
            "it is: give the split it was trained with: --split S.split"
        )
    if trained["split"] != split.hash:
        raise UsageError("this index's encoder was trained with another split; give that one: --split S.split")


def see(pipeline: Pipeline, some: Examples) -> Seen:
    """Find the candidates of examples, and which of them are right."""
    parts = []
    with progress.bar("Looking up examples", total=len(some.mentions), unit="mentions") as bar:
        for start in range(0, len(some.mentions), EXAMPLES_AT_ONCE):
            parts.append(
                _seen(pipeline, some.take(np.arange(start, min(start + EXAMPLES_AT_ONCE, len(some.mentions)))))
            )
            bar.advance(len(parts[-1].examples.mentions))
    return _together(parts)


def _seen(pipeline: Pipeline, some: Examples) -> Seen:
    # Each example is asked by itself: equal strings may have different things hidden.
    asked, places = pipeline.ask(some.mentions)
    kept = [row for row, place in enumerate(places) if place >= 0]
    some = some.take(kept)
    asked = asked.take([places[row] for row in kept])
    scored = pipeline.candidates(
        asked, hidden_strings=some.hidden_strings, hidden_concepts=some.hidden_concepts
    )  # fmt: skip
    features = scored.features
    assert features is not None
    table = scored.table
    right = table.concept == some.concepts[table.request]
    nil = some.concepts < 0
    weight = np.where(np.isin(some.kinds, (SYNONYM, LABELLED)), WEIGHT, 1.0)
    training = Training(
        features.candidates, features.mentions, table.offsets, right, nil, weight
    )  # fmt: skip
    return Seen(some, table, training)


def _together(parts: Sequence[Seen]) -> Seen:
    shift_requests = np.cumsum([0, *(len(part.examples.mentions) for part in parts)])
    shift_rows = np.cumsum([0, *(len(part.table.request) for part in parts)])
    offsets = np.concatenate(
        [[0], *(part.table.offsets[1:] + shift for part, shift in zip(parts, shift_rows[:-1], strict=True))]
    )
    requests = [part.table.request + shift for part, shift in zip(parts, shift_requests[:-1], strict=True)]
    columns = [np.concatenate(column) for column in zip(*(part.table[2:] for part in parts), strict=True)]
    table = Table(offsets.astype(np.int64), np.concatenate(requests), *columns)
    numbers = [
        np.concatenate(column)
        for column in zip(*((*part.training[:2], *part.training[3:]) for part in parts), strict=True)
    ]
    training = Training(numbers[0], numbers[1], table.offsets, numbers[2], numbers[3], numbers[4])
    return Seen(examples.join([part.examples for part in parts]), table, training)


def _features(seen: Seen) -> Features:
    return Features(seen.training.candidates, seen.training.mentions, np.zeros(len(seen.table.request), bool))


def _taught(index: Index, known: Known, learning: NDArray[np.bool_], seed: int) -> Examples:
    """Return what the ranker learns from."""
    rows = np.flatnonzero(learning)
    strings, concepts = [known.strings[row] for row in rows.tolist()], known.concepts[rows]
    own, own_concepts = _own_learned(index, seed)
    parts = [
        examples.synonyms(index, strings, concepts),
        examples.with_noise(index, strings, concepts, hide=True, seed=seed),
        examples.with_noise(index, own, own_concepts, hide=False, seed=seed),
        examples.itself(own[: examples.MOST_ITSELF], own_concepts[: examples.MOST_ITSELF]),
    ]
    count = round(NIL_SHARE * sum(len(part.mentions) for part in parts))
    parts += [_removed(strings, concepts, count, seed), examples.foreign(index, count, seed=seed)]
    return examples.join(parts)


def _own_learned(index: Index, seed: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return strings of the index, of those concepts only that are learned from."""
    most = max(examples.MOST_NOISE, examples.MOST_ITSELF)
    strings, concepts = examples.own_synonyms(index, seed=seed + 1, most=round(most / LEARNED_FROM))
    kept = [row for row, concept in enumerate(concepts.tolist()) if _learned_from(index, concept, seed)]
    return [strings[row] for row in kept], concepts[kept]


def _removed(strings: Sequence[str], concepts: NDArray[np.int64], count: int, seed: int) -> Examples:
    chosen = np.random.default_rng(seed).permutation(len(strings))[:count]
    return examples.removed([strings[row] for row in chosen.tolist()], concepts[chosen])


def population(index: Index, known: Known, seed: int) -> Examples:
    """Return what confidence and thresholds are made for: held-out strings as they are, and a share that is NIL."""
    strings, concepts = known.strings, known.concepts
    count = round(len(strings) * POPULATION_NIL_SHARE / (1 - POPULATION_NIL_SHARE) / 2)
    return examples.join([
        examples.synonyms(index, strings, concepts), _removed(strings, concepts, count, seed),
        examples.foreign(index, count, seed=seed),
    ])  # fmt: skip


class Crossed(NamedTuple):
    """Answers of rankers that did not learn from the mention.

    Attributes:
        evidence: (n, e) of the best candidate.
        right: (n,) whether it is right.
        top: (n,) its row.
        nil: (n,) probability that no concept fits.
        named: (n,) whether the mention names a concept of the index.
    """

    evidence: NDArray[np.float64]
    right: NDArray[np.bool_]
    top: NDArray[np.int64]
    nil: NDArray[np.float64]
    named: NDArray[np.bool_]


def _cross_validated(seen: Seen, seed: int) -> Crossed:
    """Answer the examples of the population, each by a ranker fitted on the other folds."""
    kinds = np.array(seen.examples.kinds)
    fold = np.random.default_rng(seed).permutation(len(kinds)) % FOLDS
    population = np.isin(kinds, (SYNONYM, LABELLED)) | _thinned(kinds, seed)
    parts = []
    for number in range(FOLDS):
        fitted = ranker.train(_some(seen.training, np.flatnonzero(fold != number)), seed=seed)
        probabilities = fitted(seen.training.candidates, seen.training.mentions, seen.table.offsets)
        order, top = ordered(seen.table, probabilities.score)
        evidence = evidence_of(seen.table, _features(seen), probabilities, order, top)
        right = (top >= 0) & seen.training.right[np.maximum(top, 0)]
        rows = np.flatnonzero((fold == number) & population & (top >= 0))
        named = seen.examples.concepts[rows] >= 0
        parts.append((evidence[rows], right[rows], top[rows], probabilities.nil[rows], named))
    return Crossed(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _languages(languages: Languages, terms: NDArray[np.int64]) -> list[str | None]:
    names = [*languages.names, None]
    return [names[number] for number in languages.of_term[terms].tolist()]


def _thinned(kinds: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    """Choose so many of the NIL examples that they have their share in the population."""
    synonyms = int(np.isin(kinds, (SYNONYM, LABELLED)).sum())
    wanted = round(synonyms * POPULATION_NIL_SHARE / (1 - POPULATION_NIL_SHARE) / 2)
    chosen = np.zeros(len(kinds), bool)
    for kind in (REMOVED, FOREIGN):
        rows = np.flatnonzero(kinds == kind)
        chosen[np.random.default_rng(seed).permutation(rows)[:wanted]] = True
    return chosen


def _some(training: Training, rows: NDArray[np.int64]) -> Training:
    counts = np.diff(training.offsets)[rows]
    ends = np.cumsum(counts)
    places = np.arange(int(ends[-1])) + np.repeat(training.offsets[rows] - (ends - counts), counts)
    return Training(
        training.candidates[places], training.mentions[rows], np.concatenate([[0], ends]).astype(np.int64),
        training.right[places], training.nil[rows], training.weight[rows],
    )  # fmt: skip


def _right(seen: Seen, answers: Answers) -> NDArray[np.bool_]:
    return (answers.top >= 0) & seen.training.right[np.maximum(answers.top, 0)]


def _nil_figures(tested: Examples, answers: Answers, threshold: float) -> dict[str, Any]:
    kinds = np.array(tested.kinds)
    nil = answers.nil > threshold
    named = tested.concepts >= 0
    shares = {kind: float(nil[kinds == kind].mean()) for kind in (REMOVED, FOREIGN) if (kinds == kind).any()}
    return {"threshold": threshold, "lost": float(nil[named].mean()), "recognised": shares}


def _by_ranking(seen: Seen, answers: Answers) -> dict[str, dict[str, float]]:
    """Return accuracy@1 and @5 of every ranking on the examples that name a concept."""
    named = np.flatnonzero(seen.examples.concepts >= 0)
    found: dict[str, dict[str, float]] = {}
    for name in registry.names(RANKINGS):
        module = registry.load(RANKINGS, name)
        score = answers.score if module.LEARNED else module.score(seen.table)
        asked = (seen.table.routes & module.ROUTES) > 0
        score = np.where(asked, score, -np.inf)
        order, _ = ordered(seen.table, score)
        place = np.arange(len(order)) - seen.table.offsets[seen.table.request[order]]
        right = seen.training.right[order] & asked[order]
        found[name] = {}
        for k in (1, 5):
            hits = (
                np.bincount(seen.table.request[order][right & (place < k)], minlength=len(seen.examples.mentions)) > 0
            )
            found[name][f"accuracy@{k}"] = float(hits[named].mean())
    return found


def _learned_from(index: Index, concept: int, seed: int) -> bool:
    """Return whether a concept's strings are learned from; the same whatever else is held out."""
    identifier = index.segment.concepts.column("id")[concept].as_py()
    digest = hashlib.blake2b(f"{seed}\0calibrate\0{identifier}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < LEARNED_FROM * 2**64


def _labelled(index: Index, labels: Sequence[Label]) -> Examples:
    ids = [label.concept_id for label in labels]
    rows = index.concept_rows([one or "" for one in ids]) if ids else np.zeros(0, np.int64)
    kept = [row for row, one in enumerate(ids) if one is None or rows[row] >= 0]
    if labels and not kept:
        raise InputError("no labelled mention has a concept of this index", value=ids[0], remedy="check the ids")
    if len(kept) < len(labels):
        unknown = next(one for one, row in zip(ids, rows.tolist(), strict=True) if one is not None and row < 0)
        progress.say(
            f"{len(labels) - len(kept):,} labelled mentions left out: this index has no concept {shorten(unknown)!r}"
        )
    nothing = np.full(len(kept), -1)
    concepts = np.where([ids[row] is None for row in kept], -1, rows[kept]) if kept else nothing
    return Examples(
        [labels[row].mention for row in kept], concepts.astype(np.int64), nothing, nothing, [LABELLED] * len(kept)
    )


def _every_second(strings: Sequence[str]) -> NDArray[np.bool_]:
    """Choose every second of the distinct strings, (len(strings),): what comes twice is on one side."""
    numbers = {string: number for number, string in enumerate(dict.fromkeys(strings))}
    return np.array([numbers[string] % 2 == 0 for string in strings], bool)


def _population_text(tested: Examples, known: Known) -> str:
    counts = _counts(tested)
    text = (
        f"{counts.get(SYNONYM, 0):,} strings of {known.origin}, with {counts.get(REMOVED, 0):,} names of removed "
        f"concepts and {counts.get(FOREIGN, 0):,} foreign strings among them"
    )
    return text + (f", and {counts[LABELLED]:,} labelled mentions" if LABELLED in counts else "")


def _counts(some: Examples) -> dict[str, int]:
    kinds, counts = np.unique(np.array(some.kinds), return_counts=True)
    return dict(zip(kinds.tolist(), counts.tolist(), strict=True))
