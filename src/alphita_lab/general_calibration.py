"""A general calibration: an encoder's ranker and confidence, fitted on several vocabularies, for an index of any other.

What the ranker looks at (equal strings, cosines, letters, tokens) is not of one vocabulary, as long as the encoder is
the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.answer.calibration_store import Calibration
from alphita.answer.pipeline import Pipeline
from alphita.answer.ranker import Ranker
from alphita.calibrate import examples, fitting, ranker_training, reliability, scored_examples
from alphita.calibrate.examples import FOREIGN, ITSELF, NAMED, NOISE, REMOVED, SYNONYM, Examples, Known
from alphita.calibrate.fitting import ERRORS, KS, Crossed, Tested
from alphita.calibrate.risk_coverage import Certificate
from alphita.calibrate.scored_examples import Seen
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita.index.encoding import Encoder
from alphita.index.store import Index
from alphita.mention.abbreviations import Abbreviations

# Of one vocabulary at most: examples to learn from, and mentions of each of the three kinds to test on.
MAX_LEARNED = 4_000
MAX_TESTED = 1_500
# A vocabulary of which fewer mentions are tested certifies little, and has no say in what the others may accept.
MIN_TESTED = 1_000
# In-terminology mentions of the mixture that may be lost to NIL: the share that left most answers right, NIL among
# them, when vocabularies were left out. A third of the mixture equals a name and is never lost.
LOST = 0.03


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary to fit on.

    `held`: strings that the index was made without (`exclude`), so that no head has learned from them either, with
    their concepts; None: the index's own synonyms are taken as not there.
    """

    name: str
    index: Index
    version: str = ""
    licence: str = ""
    held: Known | None = None

    def encoder(self, encoder: Encoder) -> Encoder:
        """Return the index's encoder: `encoder`, with the head that was learned for this index, if there is one."""
        if encoder.content_hash == self.index.base_model_hash != self.index.manifest["model_hash"]:
            encoder = TermEncoder.load(self.index.model_path)
        self.index.check_encoder(encoder)
        return encoder


class Held(NamedTuple):
    """The examples of a vocabulary."""

    learned: Seen
    tested: Seen  # the mixture, of other concepts, to test on


class LeftOut(NamedTuple):
    """A vocabulary as answered by what was fitted on the others."""

    tested: Tested
    certificates: Mapping[float, Certificate]
    nil_threshold: float


def fit_general(vocabularies: Sequence[Vocabulary], encoder: Encoder, *, seed: int = 0) -> Calibration:
    """Fit ranker, calibrators, NIL threshold, and thresholds with a margin."""
    start = time.perf_counter()
    held: dict[str, list[Held]] = {}
    for one in vocabularies:
        held.setdefault(one.name, []).append(hold(one, one.encoder(encoder), seed))
    # Of a vocabulary that is indexed in several ways the last one is tested.
    together = {
        name: Held(scored_examples.together([way.learned for way in ways]), ways[-1].tested)
        for name, ways in held.items()
    }
    fitted = fit_held(together, seed=seed)
    fields = {
        "general": True,
        "model_hash": encoder.content_hash,
        "seed": seed,
        "vocabularies": [
            {
                "name": one.name,
                "version": one.version,
                "licence": one.licence,
                "terminology_hash": one.index.manifest["terminology_hash"],
            }
            for one in {vocabulary.name: vocabulary for vocabulary in vocabularies}.values()
        ],
        "seconds": round(time.perf_counter() - start, 1),
    }
    return replace(fitted, fields=fields)


def fit_held(held: Mapping[str, Held], *, seed: int = 0) -> Calibration:
    """Fit on the examples of several vocabularies, by name."""
    learned = scored_examples.together([one.learned for one in held.values()])
    vocabulary = np.repeat(np.arange(len(held)), [len(one.learned.examples.mentions) for one in held.values()])
    progress.say(f"fitting the ranker on {len(vocabulary):,} examples of {len(held)} vocabularies")
    asked = _mixture(learned.examples, vocabulary, seed)
    rankers, crossed = zip(*fitting.cross_validate(learned, vocabulary, asked, seed), strict=True)
    draft = _draft(ranker_training.train(learned.training, seed=seed), crossed, seed)
    left_out = {}
    for number, (name, one) in enumerate(held.items()):
        others = [*crossed[:number], *crossed[number + 1 :]]
        left_out[name] = _leave_out(_draft(rankers[number], others, seed), others, one.tested)
    given, right = (
        np.concatenate([getattr(one.tested, name) for one in left_out.values()]) for name in ("given", "right")
    )
    pooled = fitting.certify(draft, fitting.together(crossed), given, right)
    told = [one.certificates for one in left_out.values() if len(one.tested.right) >= MIN_TESTED]
    accept = thresholds([pooled, *told])
    figures = {
        "population": _population_text(left_out),
        "learned_from": fitting.counts_of(learned.examples),
        "nil": {"threshold": draft.nil_threshold},
        "calibration": reliability.figures(given, right),
        "left_out": {name: _figures(one, accept) for name, one in left_out.items()},
    }
    return replace(draft, accept=accept, figures=figures)


def thresholds(certified: Sequence[Mapping[float, Certificate]]) -> dict[float, float | None]:
    """Return for each allowed error the highest threshold that is certified; None where one cannot be."""
    found: dict[float, float | None] = {}
    for error in ERRORS:
        some = [one[error].threshold for one in certified]
        known = [threshold for threshold in some if threshold is not None]
        found[error] = max(known) if len(known) == len(some) else None
    return found


# Examples.


def hold(one: Vocabulary, encoder: Encoder, seed: int) -> Held:
    """Draw a vocabulary's examples and find their candidates."""
    index = one.index
    held = one.held if one.held is not None else Known(*examples.own_synonyms(index, seed=seed), "")
    known = examples.parted(index, held, seed)
    names = examples.parted(index, Known(*examples.own_names(index, seed=seed + 2, most=5 * MAX_TESTED), ""), seed)
    if not all(len(some.strings) for some in (*known, *names)):
        raise InputError(
            f"{one.name} has too few synonyms to learn from some concepts and test on the others",
            file=index.path,
            remedy="leave it out",
        )
    pipeline = Pipeline(index, lambda: encoder, Abbreviations.of_index(index), respell=True)
    progress.say(f"{one.name}:")
    to_learn = examples.training_examples(index, known[0], seed)
    drawn = np.sort(np.random.default_rng(seed).permutation(len(to_learn.mentions))[:MAX_LEARNED])
    to_test = examples.mixture(index, known[1], names[1], seed, most=MAX_TESTED)
    return Held(scored_examples.see(pipeline, to_learn.take(drawn)), scored_examples.see(pipeline, to_test))


def _mixture(learned: Examples, vocabulary: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Choose of the examples to learn from those that confidence is fitted on: the mixture, in each vocabulary."""
    kinds = np.array(learned.kinds)
    chosen = np.zeros(len(kinds), bool)
    for number in range(int(vocabulary.max()) + 1):
        own = np.flatnonzero(vocabulary == number)
        chosen[own] = examples.in_mixture(kinds[own], seed)
    return chosen


# Leaving out.


def _draft(fitted: Ranker, crossed: Sequence[Crossed], seed: int) -> Calibration:
    """Return a ranker with one calibrator for all languages, for the encoder has one, and the NIL threshold."""
    answers = fitting.together(crossed)
    return fitting.calibrated(fitted, answers, [None] * len(answers.right), seed, lost=LOST)


def _leave_out(draft: Calibration, others: Sequence[Crossed], tested: Seen) -> LeftOut:
    answers = draft(tested.table, tested.features)
    answered = Tested(tested, answers, tested.is_right(answers), answers.nil > draft.nil_threshold)
    certificates = fitting.certify(draft, fitting.together(others), answered.given, answered.right)
    return LeftOut(answered, certificates, draft.nil_threshold)


def _figures(one: LeftOut, accept: Mapping[float, float | None]) -> dict[str, Any]:
    """Return what is measured of one vocabulary with the thresholds of all, as JSON."""
    tested = one.tested
    kinds, named = np.array(tested.seen.examples.kinds), tested.seen.examples.concepts >= 0
    places = fitting.places_of(tested.seen.table, tested.answers.order, tested.seen.examples.concepts)
    held = kinds == SYNONYM
    at = {}
    for error, threshold in accept.items():
        if threshold is not None:
            taken = tested.given >= threshold
            at[f"{error:g}"] = _counted(taken, tested.right) | {
                kind: _counted(taken[kinds == kind], tested.right[kinds == kind]) for kind in NAMED
            }
    return {
        "tested_on": fitting.counts_of(tested.seen.examples),
        "held_out_synonyms": {f"accuracy@{k}": float((places[held] < k).mean()) for k in KS},
        "calibration": reliability.figures(tested.answers.confidence, tested.right)["expected_calibration_error"],
        "nil": {
            "threshold": one.nil_threshold,
            "lost": float(tested.nil[named].mean()),
            "recognised": {
                kind: float(tested.nil[kinds == kind].mean()) for kind in (REMOVED, FOREIGN) if (kinds == kind).any()
            },
        },
        "own_thresholds": {f"{error:g}": found.threshold for error, found in one.certificates.items()},
        "accepted": at,
    }


def _counted(taken: NDArray[np.bool_], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the share that is accepted, and the share of that which is wrong; None where nothing is."""
    error = float((~right[taken]).mean()) if taken.any() else None
    return {"share": float(taken.mean()), "error": error}


def _population_text(left_out: Mapping[str, LeftOut]) -> str:
    counts = [fitting.counts_of(one.tested.seen.examples) for one in left_out.values()]
    total = {kind: sum(count.get(kind, 0) for count in counts) for kind in (*NAMED, REMOVED, FOREIGN)}
    return (
        f"{total[ITSELF]:,} names, {total[NOISE]:,} names with slips and words lost and {total[SYNONYM]:,} synonyms "
        f"taken as not there, of {', '.join(left_out)}, each answered by what was fitted on the others, with "
        f"{total[REMOVED]:,} names of removed concepts and {total[FOREIGN]:,} foreign strings among them"
    )
