"""Rankers side by side, each on vocabularies that it was not fitted on.

    python bench/rankers.py hold MODEL TERMS.tsv RELATIONS.tsv --work INDEXES -o EXAMPLES
    python bench/rankers.py compare EXAMPLES -o rankers.json [--only network --only linear ...]

`hold` draws the examples of the vocabularies that the general calibration is fitted on, finds their candidates and
writes a file a vocabulary; the arguments are those of bench/general_calibration.py. `compare` leaves out one vocabulary
after another, as `normalizer.calibrating.general` does: each is answered by what was fitted on the others, with their
calibrator and NIL threshold. Rankers:

    network            the ranker that Alphita has
    linear             a weight a feature, by the same losses, with L-BFGS
    sum                n-gram similarity plus cosine, the greatest of a concept's strings; NIL and sharpness are fitted
    lightgbm_...       gradient boosted trees (pip install lightgbm) by LambdaRank, or by the network's own loss; NIL
                       by trees too, told by what a ranker fitted on other examples says of the example

Seconds are of one thread: processor seconds of a fit, and of scoring 10,000 candidates. Size is that of the numbers
of the ranker, of trees that of LightGBM's own text.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import machine, progress
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.normalizer.answering import ranker
from alphita.normalizer.answering.features import NAMES
from alphita.normalizer.answering.ranker import MOST_LOG_ODDS, Float, Probabilities, about, mean_of_members, softmax
from alphita.normalizer.answering.table import CandidateTable
from alphita.normalizer.calibrating import fitting, general, ranker_training, seen
from alphita.normalizer.calibrating.examples import FOREIGN, ITSELF, NOISE, REMOVED, SYNONYM, Examples
from alphita.normalizer.calibrating.fitting import Crossed
from alphita.normalizer.calibrating.general import Held, LeftOut
from alphita.normalizer.calibrating.ranker_training import Training
from alphita.normalizer.calibrating.seen import Seen
from alphita.normalizer.confidence import reliability, risk_coverage

PARTS = ("learned", "tested")
# Beside the certified thresholds: what is accepted where so much of it is wrong.
ERROR = 0.05
ROUNDS = 3
L2 = 1e-4
# Trees stop growing where these mentions, a tenth, no longer gain; and NIL learns from rankers that did not learn from
# the mention.
HELD_BACK = 10
PARTS_OF_NIL = 2
PATIENCE = 25
MOST_TREES = 400
TREES: dict[str, dict[str, Any]] = {
    "lightgbm_lambdarank": {"objective": "lambdarank", "num_leaves": 31, "learning_rate": 0.1},
    "lightgbm_lambdarank_small": {"objective": "lambdarank", "num_leaves": 8, "learning_rate": 0.1},
    "lightgbm_lambdarank_slow": {
        "objective": "lambdarank",
        "num_leaves": 15,
        "learning_rate": 0.05,
        "feature_fraction": 0.5,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
    },
    "lightgbm_softmax": {"objective": "softmax", "num_leaves": 15, "learning_rate": 0.1, "feature_fraction": 0.5},
}

Score = Callable[[NDArray[np.float32]], Float]


class Fitted(NamedTuple):
    """A ranker of any kind.

    Attributes:
        score: of candidates (c, d), their scores (c,): log-probabilities but for a constant a mention.
        odds: from what `ranker.about` gathers, the log-odds (n,) of NIL.
        size: bytes of its numbers.
    """

    score: Score
    odds: Score
    size: int

    def __call__(
        self, candidates: NDArray[np.float32], mentions: NDArray[np.float32], offsets: NDArray[np.int64]
    ) -> Probabilities:
        """Score n mentions, as `alphita.normalizer.answering.ranker.Ranker` does."""
        score = self.score(candidates)
        odds = self.odds(about(score, candidates, mentions, offsets))
        counts = np.diff(offsets)
        nil = np.where(counts > 0, 1 / (1 + np.exp(-np.clip(odds, -MOST_LOG_ODDS, MOST_LOG_ODDS))), 1.0)
        return Probabilities(score, softmax(score, offsets) * np.repeat(1 - nil, counts), nil)


# The rankers.


def network(data: Training, seed: int) -> Fitted:
    """Fit the ranker that Alphita has."""
    made = ranker_training.train(data, seed=seed)
    size = sum(values.nbytes for values in made.to_arrays().values())
    return Fitted(made.score, partial(mean_of_members, made.mentions), size)


def linear(data: Training, seed: int) -> Fitted:
    """Fit a weight a feature; the losses are convex, so the seed has no say."""
    score = _linear(data.candidates, lambda values: ranker_training.loss(values, data))
    return _with_linear_nil(score, data)


def plain_sum(data: Training, seed: int) -> Fitted:
    """Rank by n-gram similarity plus cosine; only how sharp the probabilities are is fitted, and NIL."""
    columns = [NAMES.index("best_cosine"), NAMES.index("best_letters")]

    def total(candidates: NDArray[np.float32]) -> Float:
        return candidates[:, columns].sum(axis=1, dtype=np.float64)

    return _with_linear_nil(_sharpened(total, data), data)


def _with_linear_nil(score: Score, data: Training) -> Fitted:
    known = about(score(data.candidates), data.candidates, data.mentions, data.offsets)
    odds = _linear(known, lambda values: ranker_training.nil_loss(values, data.nil, data.weight))
    return Fitted(score, odds, 8 * (data.candidates.shape[1] + known.shape[1] + 1))


def _linear(inputs: NDArray[np.float32], loss: Callable[[Float], tuple[Float, Float]]) -> Score:
    """Minimise a convex loss of a linear function of standardised, clipped inputs."""
    from scipy.optimize import minimize

    mean, scale = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    scale = np.where(scale > 1e-6, scale, np.inf)

    def standardised(some: NDArray[np.float32]) -> Float:
        return np.clip((some - mean) / scale, -ranker.CLIP, ranker.CLIP)

    values = standardised(inputs)

    def of(weights: Float) -> tuple[float, Float]:
        value, outer = loss(values @ weights[:-1] + weights[-1])
        gradient = np.append(values.T @ outer, outer.sum())
        return float(value) + L2 * float(weights @ weights), gradient + 2 * L2 * weights

    found = minimize(of, np.zeros(inputs.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return lambda some: standardised(some) @ found[:-1] + found[-1]


def _sharpened(score: Score, data: Training) -> Score:
    """Return the score times the number that makes its softmax likeliest."""
    from scipy.optimize import minimize_scalar

    values = score(data.candidates)
    times = np.exp(
        minimize_scalar(lambda power: ranker_training.loss(np.exp(power) * values, data)[0], bounds=(-5, 7)).x
    )
    return lambda candidates: times * score(candidates)


def trees(settings: Mapping[str, Any], data: Training, seed: int) -> Fitted:
    """Fit gradient boosted trees."""
    score, size = _ranking_trees(settings, data, seed)
    part = np.random.default_rng((seed, 1)).permutation(len(data.nil)) % PARTS_OF_NIL
    values = np.empty(len(data.right))
    for number in range(PARTS_OF_NIL):
        other, _ = _ranking_trees(settings, fitting._some(data, np.flatnonzero(part != number)), seed)
        own = np.repeat(part == number, np.diff(data.offsets))
        values[own] = other(data.candidates[own])
    known = about(values, data.candidates, data.mentions, data.offsets)
    odds, more = _nil_trees(known, data, seed)
    return Fitted(score, odds, size + more)


def _ranking_trees(settings: Mapping[str, Any], data: Training, seed: int) -> tuple[Score, int]:
    lightgbm = _lightgbm()
    # What has no right candidate teaches no order.
    request = np.repeat(np.arange(len(data.nil)), np.diff(data.offsets))
    rows = np.flatnonzero(np.bincount(request, data.right, minlength=len(data.nil)) > 0)
    back = np.random.default_rng((seed, 2)).permutation(len(rows)) % HELD_BACK == 0
    parts = [fitting._some(data, rows[~back]), fitting._some(data, rows[back])]
    own = settings["objective"] == "softmax"
    sets = [_dataset(lightgbm, part) for part in parts]
    given = dict(settings) | _common(seed)
    if own:
        given |= {"objective": _softmax_objective(parts[0]), "metric": "none"}
    else:
        given |= {"metric": "ndcg", "eval_at": [1]}

    def loss(predicted: Float, _: object) -> tuple[str, float, bool]:
        return "loss", float(ranker_training.loss(predicted, parts[1])[0]), False

    made = lightgbm.train(
        given,
        sets[0],
        MOST_TREES,
        valid_sets=[sets[1]],
        feval=loss if own else None,
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    score: Score = partial(made.predict, raw_score=True, num_threads=1)
    return _sharpened(score, parts[1]), len(made.model_to_string())


def _nil_trees(known: NDArray[np.float32], data: Training, seed: int) -> tuple[Score, int]:
    lightgbm = _lightgbm()
    back = np.random.default_rng((seed, 3)).permutation(len(known)) % HELD_BACK == 0
    sets = [
        lightgbm.Dataset(known[some], data.nil[some], weight=data.weight[some], free_raw_data=False)
        for some in (~back, back)
    ]
    given = {"objective": "binary", "metric": "binary_logloss", "num_leaves": 15, "learning_rate": 0.1}
    made = lightgbm.train(
        given | _common(seed),
        sets[0],
        MOST_TREES,
        valid_sets=[sets[1]],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    return partial(made.predict, raw_score=True, num_threads=1), len(made.model_to_string())


def _common(seed: int) -> dict[str, Any]:
    return {"verbosity": -1, "num_threads": 1, "seed": seed, "deterministic": True, "min_data_in_leaf": 50}


def _dataset(lightgbm: Any, data: Training) -> Any:  # noqa: ANN401
    counts = np.diff(data.offsets)
    weight = np.repeat(data.weight, counts)
    return lightgbm.Dataset(data.candidates, data.right, group=counts, weight=weight, free_raw_data=False)


def _softmax_objective(data: Training) -> Callable[[Float, object], tuple[Float, Float]]:
    """Return the network's loss for trees: its gradient, and p (1 - p) for the curvature."""
    weight = np.repeat(data.weight, np.diff(data.offsets))

    def of(score: Float, _: object) -> tuple[Float, Float]:
        probability = softmax(score, data.offsets)
        return data.weight.sum() * ranker_training.loss(score, data)[1], weight * probability * (1 - probability) + 1e-6

    return of


def _lightgbm() -> Any:  # noqa: ANN401
    try:
        import lightgbm  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError("this ranker needs LightGBM: pip install lightgbm, or leave it out with --only") from None
    return lightgbm


RANKERS: dict[str, Callable[[Training, int], Fitted]] = {
    "network": network,
    "linear": linear,
    "sum": plain_sum,
    **{name: partial(trees, settings) for name, settings in TREES.items()},
}


# Leaving out one vocabulary after another.


def compare(held: Mapping[str, Held], fit: Callable[[Training, int], Fitted], seed: int) -> dict[str, Any]:
    """Measure a ranker on each vocabulary when fitted on the others; return figures as JSON."""
    learned = seen.together([one.learned for one in held.values()])
    vocabulary = np.repeat(np.arange(len(held)), [len(one.learned.examples.mentions) for one in held.values()])
    asked = general._mixture(learned.examples, vocabulary, seed)
    fits: list[Fitted] = []
    crossed: list[Crossed] = []
    seconds = []
    for number, one in enumerate(held.values()):
        start = time.process_time()
        fits.append(fit(fitting._some(learned.training, np.flatnonzero(vocabulary != number)), seed))
        seconds.append(time.process_time() - start)
        crossed.append(fitting._crossed(one.learned, _as_ranker(fits[-1]), asked[vocabulary == number]))
    left_out = {}
    for number, (name, one) in enumerate(held.items()):
        others = [*crossed[:number], *crossed[number + 1 :]]
        left_out[name] = general._leave_out(general._draft(_as_ranker(fits[number]), others, seed), others, one.tested)
    draft = general._draft(_as_ranker(fits[0]), crossed, seed)
    given, right = (
        np.concatenate([getattr(one.tested, name) for one in left_out.values()]) for name in ("given", "right")
    )
    pooled = fitting.certify(draft, fitting.together(crossed), given, right)
    told = [one.certificates for one in left_out.values() if len(one.tested.right) >= general.LEAST_TESTED]
    threshold = general.thresholds([pooled, *told])[ERROR]
    vocabularies = {name: _figures(one, threshold) for name, one in left_out.items()}
    confidence = np.concatenate([one.tested.answers.confidence for one in left_out.values()])
    taken = given >= (np.inf if threshold is None else threshold)
    names = next(iter(vocabularies.values()))
    return {
        "mean": {name: _mean([one[name] for one in vocabularies.values()]) for name in names},
        "pooled": {
            "expected_calibration_error": reliability.expected_calibration_error(confidence, right),
            "log_loss": reliability.log_loss(np.clip(confidence, 1e-6, 1 - 1e-6), right),
            "auroc": reliability.auroc(confidence, right),
            "right": float(right.mean()),
            "threshold": threshold,
            "accepted": float(taken.mean()),
            "accepted_wrong": float((~right[taken]).mean()) if taken.any() else None,
            "coverage": risk_coverage.coverage_at_error(given, right, ERROR),
        },
        "vocabularies": vocabularies,
        "fit_seconds": {"mean": float(np.mean(seconds)), "each": [round(one, 1) for one in seconds]},
        "seconds_per_10000": _score_seconds(fits[0], next(iter(held.values())).tested),
        "bytes": int(np.mean([one.size for one in fits])),
    }


def _as_ranker(fitted: Fitted) -> Any:  # noqa: ANN401
    """A calibration only calls its ranker, and this answers as one."""
    return fitted


def _figures(one: LeftOut, threshold: float | None) -> dict[str, float | None]:
    tested = one.tested
    examples, table = tested.seen.examples, tested.seen.table
    kinds, named = np.array(examples.kinds), examples.concepts >= 0
    places = fitting.places_of(table, tested.answers.order, examples.concepts)
    taken = tested.given >= (np.inf if threshold is None else threshold)
    return {
        **{f"{kind}@1": float((places[kinds == kind] < 1).mean()) for kind in (SYNONYM, NOISE, ITSELF)},
        "synonym@5": float((places[kinds == SYNONYM] < 5).mean()),
        "nil_lost": float(tested.nil[named].mean()),
        **{f"{kind}_recognised": float(tested.nil[kinds == kind].mean()) for kind in (REMOVED, FOREIGN)},
        "expected_calibration_error": reliability.expected_calibration_error(tested.answers.confidence, tested.right),
        "auroc": reliability.auroc(tested.answers.confidence, tested.right),
        "accepted": float(taken.mean()),
        "accepted_wrong": float((~tested.right[taken]).mean()) if taken.any() else None,
        "coverage": risk_coverage.coverage_at_error(tested.given, tested.right, ERROR),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return float(np.mean(known)) if known else None


def _score_seconds(fitted: Fitted, some: Seen) -> float:
    """Return the processor seconds for 10,000 candidates, NIL of their mentions included; the median of three."""
    training, times = some.training, []
    for _ in range(ROUNDS):
        start = time.process_time()
        fitted(training.candidates, training.mentions, training.offsets)
        times.append(time.process_time() - start)
    return float(np.median(times)) * 10_000 / len(training.right)


# Files of examples.


def save_held(path: Path, held: Held) -> None:
    """Write the examples of one vocabulary: plain arrays, strings among them."""
    arrays: dict[str, Any] = {}
    for part, one in zip(PARTS, held, strict=True):
        for name, values in one.examples._asdict().items():
            arrays[f"{part}.examples.{name}"] = np.array(values, str) if isinstance(values, list) else values
        arrays |= {f"{part}.table.{name}": values for name, values in one.table._asdict().items()}
        arrays |= {f"{part}.training.{name}": values for name, values in one.training._asdict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, names=np.array(NAMES), **arrays)


def load_held(path: Path) -> Held:
    """Return what `save_held` wrote.

    Raises:
        InputError: it was written with other features.
    """
    with np.load(path) as arrays:
        if "names" in arrays.files and arrays["names"].tolist() != list(NAMES):
            raise InputError("these examples have other features", file=path, remedy="make them again: hold")

        def of(part: str, kind: str) -> list[Any]:
            prefix = f"{part}.{kind}."
            return [arrays[name] for name in arrays.files if name.startswith(prefix)]

        return Held(*(_seen(of(part, "examples"), of(part, "table"), of(part, "training")) for part in PARTS))


def _seen(examples: list[Any], table: list[Any], training: list[Any]) -> Seen:
    texts = Examples(*(values.tolist() if values.dtype.kind == "U" else values for values in examples))
    return Seen(texts, CandidateTable(*table), Training(*training))


def hold(model: Path, terms: Path, relations: Path, work: Path, out: Path, seed: int) -> None:
    """Write the examples of every vocabulary of the general calibration that is not there yet."""
    from alphita.encoder.encoder import TermEncoder
    from general_calibration import vocabularies

    encoder = TermEncoder.load(model, threads=machine.threads())
    for one in vocabularies(terms, relations, encoder, work):
        if not (path := out / f"{one.name}.npz").exists():
            save_held(path, general.hold(one, encoder, seed))


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("hold")
    for name in ("model", "terms", "relations"):
        one.add_argument(name, type=Path)
    one.add_argument("--work", type=Path, required=True, help="folder for the indexes")
    one.add_argument("-o", "--output", type=Path, required=True, help="folder for the examples")
    other = commands.add_parser("compare")
    other.add_argument("examples", type=Path)
    other.add_argument("--only", action="append", choices=list(RANKERS), help="may be given several times")
    other.add_argument("-o", "--output", type=Path, required=True)
    for command in (one, other):
        command.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    machine.set_threads(1)
    try:
        if given.command == "hold":
            hold(given.model, given.terms, given.relations, given.work, given.output, given.seed)
            return 0
        held = {path.stem: load_held(path) for path in sorted(given.examples.glob("*.npz"))}
        if len(held) < 2:
            raise UsageError(f"{given.examples} has examples of {len(held)} vocabularies; two or more are needed")
        report: dict[str, Any] = {"machine": machine.describe(), "seed": given.seed, "rankers": {}}
        for name in given.only or RANKERS:
            progress.say(f"{name}, on each of {len(held)} vocabularies when fitted on the others")
            report["rankers"][name] = compare(held, RANKERS[name], given.seed)
            if name in TREES:
                report["lightgbm"] = importlib.metadata.version("lightgbm")
            given.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
