"""A general calibration: an encoder's ranker and decision, fitted on simulated targets, for any terminology.

What the ranker looks at (equal strings, cosines, letters, tokens) is not of one vocabulary, as long as the encoder is
the same. Every answer that is measured is given by what was fitted on other vocabularies.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.answer.calibration_store import Calibration
from alphita.answer.decision import ACCEPT, NIL, NONE, RIGHT, WITH_ERROR, Kind, fit_outcomes
from alphita.answer.features import MENTION_NAMES
from alphita.answer.pipeline import Pipeline
from alphita.calibrate import fitting, ranker_training, reliability, scored_examples
from alphita.calibrate.examples import ITSELF, NOISE, SYNONYM
from alphita.calibrate.fitting import ERRORS, Crossed
from alphita.calibrate.scored_examples import Seen
from alphita.encoder.encoder import TermEncoder
from alphita.mention.abbreviations import Abbreviations
from alphita_lab.simulated_targets import EVERYDAY, FAR, LENT, NEAR, NO_FINDING, OTHER_NAME, TRANSLATED, Made, Target

# Folds of vocabularies: those of one are answered by what was fitted on the others.
FOLDS = 4
EPOCHS = 12
# How much a string counts for the ranker and for the decision, by its kind; NIL counts by its share of a target.
RANKER_WEIGHTS = {OTHER_NAME: 3.0, EVERYDAY: 3.0, SYNONYM: 3.0, LENT: 3.0, TRANSLATED: 3.0}
DECISION_WEIGHTS = {ITSELF: 0.5, NOISE: 0.5, LENT: 0.1}
# NIL strings of a target: their share, and of them the parts by kind; the rest are random words.
NIL_SHARE, NIL_PARTS = 0.2, {NEAR: 0.25, FAR: 0.3, NO_FINDING: 0.4}
# Where there is a code for everything else, nothing that is left out has none.
CLASSIFICATIONS = ("ICD-10-CM",)
EQUAL = MENTION_NAMES.index("equal_to_a_term")
# Accepting must keep its error on each of these kinds of strings, and on this share of the targets.
KINDS = (OTHER_NAME, EVERYDAY, SYNONYM, TRANSLATED)
TARGETS_KEPT = 0.9


class Population(NamedTuple):
    """The strings of all targets, as answered by what was fitted on other vocabularies.

    Attributes:
        kinds, targets: (n,) of each string.
        inexact: (n,) whether it equals no name of its index.
        weight: (n,) each target counts alike.
    """

    crossed: Crossed
    kinds: NDArray[np.str_]
    targets: NDArray[np.str_]
    inexact: NDArray[np.bool_]
    weight: NDArray[np.float64]


def fit_general(made: Sequence[Made], vocabularies: Sequence[Mapping[str, str]], *, seed: int = 0) -> Calibration:
    """Fit ranker, outcomes and thresholds on simulated targets; `vocabularies` is what the manifest says of these."""
    start = time.perf_counter()
    fitted = fit_seen({one.target: _seen(one) for one in made}, seed=seed)
    fields = {
        "general": True,
        "model_hash": made[0].index.base_model_hash,
        "seed": seed,
        "vocabularies": list(vocabularies),
        "seconds": round(time.perf_counter() - start, 1),
    }
    return replace(fitted, fields=fields)


def fit_seen(parts: Mapping[Target, Seen], *, seed: int = 0) -> Calibration:
    """Fit on the strings of targets, with their candidates."""
    seen = scored_examples.together(list(parts.values()))
    sizes = [len(part.examples.mentions) for part in parts.values()]
    targets = np.repeat([target.name for target in parts], sizes)
    vocabularies = np.repeat([target.vocabulary for target in parts], sizes)
    kinds = np.array(seen.examples.kinds)
    seen = seen._replace(training=seen.training._replace(weight=_weights(seen, kinds, targets, RANKER_WEIGHTS)))
    progress.say(f"fitting the ranker on {len(kinds):,} strings of {len(parts)} targets")
    ranker = ranker_training.train(seen.training, seed=seed, epochs=EPOCHS)
    population = _answered(seen, kinds, targets, _folds(vocabularies), seed)
    crossed = population.crossed
    outcomes = fit_outcomes(crossed.evidence, crossed.outcome, population.weight)
    accept, nil = ({error: threshold(population, outcomes, kind, error) for error in ERRORS} for kind in WITH_ERROR)
    draft = Calibration(ranker, outcomes, accept, nil)
    return replace(draft, figures=_figures(draft, population))


def _seen(one: Made) -> Seen:
    encoder = TermEncoder.load(one.index.model_path)
    progress.say(f"{one.target.name}:")
    pipeline = Pipeline(one.index, lambda: encoder, Abbreviations.of_index(one.index), respell=True)
    return scored_examples.see(pipeline, one.asked)


def _folds(vocabularies: NDArray[np.str_]) -> NDArray[np.int64]:
    """Share out whole vocabularies to folds of about equal size, (n,)."""
    names, counts = np.unique(vocabularies, return_counts=True)
    filled = [0] * min(FOLDS, len(names))
    fold = {}
    for name, count in sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0])):
        fold[name] = int(np.argmin(filled))
        filled[fold[name]] += count
    return np.array([fold[name] for name in vocabularies.tolist()], np.int64)


def _answered(
    seen: Seen, kinds: NDArray[np.str_], targets: NDArray[np.str_], fold: NDArray[np.int64], seed: int
) -> Population:
    """Answer the strings of each fold by what was fitted on the others."""
    has = np.diff(seen.table.offsets) > 0
    rows, parts = [], []
    for number, (_, crossed) in enumerate(fitting.cross_validate(seen, fold, has, seed, epochs=EPOCHS)):
        parts.append(crossed)
        rows.append(np.flatnonzero((fold == number) & has))
    place = np.concatenate(rows)
    weight = _weights(seen, kinds, targets, DECISION_WEIGHTS)[place]
    for name in np.unique(targets[place]):
        own = targets[place] == name
        weight[own] *= len(place) / len(np.unique(targets)) / max(weight[own].sum(), 1e-9)
    inexact = seen.training.mentions[place, EQUAL] == 0
    return Population(fitting.together(parts), kinds[place], targets[place], inexact, weight)


def _weights(
    seen: Seen, kinds: NDArray[np.str_], targets: NDArray[np.str_], by_kind: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return how much each string counts, (n,): those without a concept as `NIL_SHARE` of their target."""
    nil = seen.examples.concepts < 0
    weight = np.array([by_kind.get(kind, 1.0) for kind in kinds.tolist()])
    known = np.isin(kinds, list(NIL_PARTS))
    for name in np.unique(targets):
        own = targets == name
        parts = NIL_PARTS | ({NEAR: 0.0} if name.startswith(CLASSIFICATIONS) else {})
        for rows, part in (
            *((own & nil & (kinds == kind), part) for kind, part in parts.items()),
            (own & nil & ~known, 1 - sum(NIL_PARTS.values())),
        ):
            weight[rows] = part / max(rows.sum(), 1)
        total = weight[own & ~nil].sum() * NIL_SHARE / (1 - NIL_SHARE)
        weight[own & nil] *= total / max(weight[own & nil].sum(), 1e-12)
    return weight


def threshold(population: Population, outcomes: Any, kind: Kind, error: float) -> float | None:  # noqa: ANN401
    """Return the least probability at which inexact strings keep an error; None if they never do.

    Accepting keeps it on each kind of them, and on most targets.
    """
    crossed = population.crossed
    given, kept = crossed.given(outcomes, kind), crossed.kept(kind)
    inexact = population.weight * population.inexact
    if kind == NIL:
        return _least(given, kept, [inexact], error)
    none = inexact * (crossed.outcome == NONE)
    of_kinds = []
    for name in KINDS:
        own = inexact * ((population.kinds == name) & (crossed.outcome != NONE))
        if not own.any():
            continue
        of_kinds.append(own + none * own.sum() * NIL_SHARE / (1 - NIL_SHARE) / max(none.sum(), 1e-12))
    found = _least(given, kept, of_kinds, error)
    if found is None:
        return None
    of_targets = [
        _least(given, kept, [inexact * (population.targets == name)], error) for name in np.unique(population.targets)
    ]
    return max(found, float(np.quantile([1.0 if one is None else one for one in of_targets], TARGETS_KEPT)))


def _least(
    given: NDArray[np.float64], kept: NDArray[np.bool_], weights: Sequence[NDArray[np.float64]], error: float
) -> float | None:
    """Return the least probability above which a share of at most `error` is wrong, by each weighting."""
    order = np.argsort(-given, kind="stable")
    # Those with the same probability are decided together.
    keeps = (given[order] > 0) & np.append(np.diff(given[order]) < 0, True)
    for weight in weights:
        decided, wrong = np.cumsum(weight[order]), np.cumsum((weight * ~kept)[order])
        keeps &= (decided > 0) & (wrong <= error * decided)
    rows = np.flatnonzero(keeps)
    return float(given[order][rows[-1]]) if len(rows) else None


def _figures(draft: Calibration, population: Population) -> dict[str, Any]:
    crossed = population.crossed
    given = {kind: crossed.given(draft.outcomes, kind) for kind in WITH_ERROR}
    counts = {str(kind): int(n) for kind, n in zip(*np.unique(population.kinds, return_counts=True), strict=True)}
    by_target = {
        str(name): _of(draft, population, given, population.targets == name) for name in np.unique(population.targets)
    }
    everything = np.ones(len(population.kinds), bool)
    return {
        "population": f"{len(everything):,} strings of {len(by_target)} simulated targets, each answered by what was "
        "fitted on other vocabularies",
        "tested_on": counts,
        "calibration": reliability.figures(draft.outcomes(crossed.evidence)[:, RIGHT], crossed.kept(ACCEPT)),
        "all": _of(draft, population, given, everything),
        "inexact": _of(draft, population, given, population.inexact),
        "by_target": by_target,
    }


def _of(
    draft: Calibration, population: Population, given: Mapping[Kind, NDArray[np.float64]], rows: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return, for some strings, how many are accepted and NIL at each error, and the share of these that is wrong."""
    weight = population.weight * rows
    found: dict[str, Any] = {}
    for kind, thresholds in zip(WITH_ERROR, (draft.accept, draft.nil), strict=True):
        kept = population.crossed.kept(kind)
        for error, least in thresholds.items():
            taken = weight * (given[kind] >= (2.0 if least is None else max(least, 1e-9)))
            share = float(taken.sum() / max(weight.sum(), 1e-12))
            wrong = float((taken * ~kept).sum() / taken.sum()) if taken.any() else None
            found.setdefault(kind, {})[f"{error:g}"] = {"share": share, "wrong": wrong}
    return found
