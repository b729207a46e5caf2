"""The calibration of an index: ranker, calibrators, thresholds and figures, in X.index/calibration.

A calibrator of plain arrays converts a score into a confidence, the probability that an answer is right:

    logistic   confidence = 1 / (1 + exp(-(w . (x - mean) / scale + b)))                         (Platt 1999)
    isotonic   the non-decreasing curve nearest to the share right, over a score                 (Zadrozny & Elkan 2002)

It is an artefact for one index, and refused by any other; or a general one (see `general`) for one encoder, refused
with any other, in X.index/model/calibration:

    manifest.json      the index's hash, or the encoder's; the split's, settings, counts
    arrays.safetensors ranker and calibrators, plain arrays
    figures.json       expected calibration error, risk and coverage, accuracies by ranking
    abbreviations.json the terminology's abbreviations and their meanings
    reliability.svg, risk_coverage.svg
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.answer.candidates import CandidateTable, Languages
from alphita.answer.features import MENTION_NAMES, NAMES, Cosines, Definitions, Features
from alphita.answer.ranker import DIGITS, MAX_LOG_ODDS, Probabilities, Ranker
from alphita.errors import InputError, UsageError
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.reader import SHORT_CAPITALS
from alphita.mention.short_forms import ClinicalAbbreviations

if TYPE_CHECKING:
    from alphita.index.store import Index

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

# The least probability of which the logarithm is computed.
MIN_PROBABILITY = 1e-15
FOLDS = 5
# The calibrator for groups without their own.
COMMON = "all"
# A group (a language) gets its own calibrator from this many right and this many wrong answers: about 25 of the rarer
# outcome per weight, from which on logistic regression is reliable.
MIN_OF_EACH = 200
MAX_STEPS = 100


def losses(confidence: Float, right: Bool) -> Float:
    """Return (n,) -log p, p the confidence in the actual outcome, at least 1e-15."""
    return -np.log(np.maximum(np.where(right, confidence, 1 - confidence), MIN_PROBABILITY))


@dataclass(frozen=True)
class Logistic:
    """A logistic regression over d standardised features.

    Attributes:
        mean: (d,) of the features.
        scale: (d,) their standard deviations; 1 where constant.
        weight: (d,).
        bias: (1,).
    """

    mean: Float
    scale: Float
    weight: Float
    bias: Float

    def log_odds(self, features: Float) -> Float:
        """Return the (n,) log-odds for (n, d) features, cut to +-30."""
        odds: Float = (np.asarray(features, np.float64) - self.mean) / self.scale @ self.weight + self.bias[0]
        return np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)

    def apply(self, features: Float) -> Float:
        """Return the (n,) confidences, strictly between 0 and 1, for (n, d) features."""
        return _sigmoid(self.log_odds(features))

    def to_arrays(self) -> dict[str, Float]:
        """Return all numbers, by name."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float]) -> Logistic:
        """Return the calibrator that `to_arrays` wrote."""
        return cls(*(arrays[name] for name in ("mean", "scale", "weight", "bias")))


@dataclass(frozen=True)
class Isotonic:
    """A non-decreasing curve over a score: straight between its knots, level beyond them.

    Attributes:
        knots: (k,) scores, increasing: the mean score of each block of pooled answers.
        values: (k,) confidences, increasing.
        logistic: computes the score (log-odds) from features; None: `apply` gets the score itself.
    """

    knots: Float
    values: Float
    logistic: Logistic | None = None

    def apply(self, evidence: Float) -> Float:
        """Return the (n,) confidences, strictly between 0 and 1.

        Args:
            evidence: (n,) scores; (n, d) features if it has a logistic.
        """
        score = np.asarray(evidence, np.float64) if self.logistic is None else self.logistic.log_odds(evidence)
        return np.interp(score, self.knots, self.values)

    def to_arrays(self) -> dict[str, Float]:
        """Return all numbers, by name."""
        own = {"knots": self.knots, "values": self.values}
        inner = {} if self.logistic is None else self.logistic.to_arrays()
        return own | {f"logistic.{name}": numbers for name, numbers in inner.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Float]) -> Isotonic:
        """Return the calibrator that `to_arrays` wrote."""
        inner = {name.removeprefix("logistic."): arrays[name] for name in arrays if name.startswith("logistic.")}
        return cls(arrays["knots"], arrays["values"], Logistic.from_arrays(inner) if inner else None)


Calibrator = Logistic | Isotonic


def fit_logistic(features: Float, right: Bool, *, l2: float = 1.0) -> Logistic:
    """Fit a logistic regression by Newton's method.

    Args:
        features: (n, d), finite.
        right: (n,) whether the answer is right.
    """
    x, y = np.asarray(features, np.float64), np.asarray(right, bool)
    if x.ndim != 2 or y.shape != (len(x),) or not len(x) or not np.isfinite(x).all():
        raise ValueError(f"need finite features (n, d) and right (n,), n > 0; got {x.shape} and {y.shape}")
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    if y.all() or not y.any():
        bias = np.log((y.sum() + 1) / ((~y).sum() + 1))
        return Logistic(mean, scale, np.zeros(x.shape[1]), np.array([bias]))
    design = np.column_stack([(x - mean) / scale, np.ones(len(x))])
    penalty = np.append(np.full(x.shape[1], float(l2)), 0.0)
    sign = np.where(y, 1.0, -1.0)

    def loss(weights: Float) -> float:
        return float(np.logaddexp(0, -sign * (design @ weights)).sum() + (penalty * weights**2).sum() / 2)

    weights = np.append(np.zeros(x.shape[1]), np.log(y.mean() / (1 - y.mean())))
    value = loss(weights)
    for _ in range(MAX_STEPS):
        p = _sigmoid(design @ weights)
        gradient = design.T @ (p - y) + penalty * weights
        if np.abs(gradient).max() <= 1e-10 * len(x):
            break
        curvature = (design.T * (p * (1 - p))) @ design + np.diag(penalty)
        # Least squares, because without a penalty a constant feature makes the curvature singular.
        step = np.linalg.lstsq(curvature, gradient)[0]
        share = 1.0
        while (tried := loss(weights - share * step)) > value and share > 1e-8:
            share /= 2
        if tried > value:
            break
        weights, value = weights - share * step, tried
    return Logistic(mean, scale, weights[:-1], weights[-1:])


def fit_isotonic(score: Float, right: Bool) -> Isotonic:
    """Fit an isotonic regression by pooling adjacent violators (Barlow et al. 1972).

    Args:
        score: (n,) finite, n > 0.
        right: (n,) whether the answer is right.
    """
    s, y = np.asarray(score, np.float64), np.asarray(right, bool)
    if s.ndim != 1 or y.shape != s.shape or not len(s) or not np.isfinite(s).all():
        raise ValueError(f"need finite scores (n,) and right (n,), n > 0; got {s.shape} and {y.shape}")
    places, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    hits: Float = np.bincount(inverse, y, minlength=len(places)).astype(np.float64)
    weights: Float = counts.astype(np.float64)
    hits[0] += 1
    weights[0] += 1
    weights[-1] += 1
    starts = pool(hits, weights)
    totals = np.add.reduceat(hits, starts), np.add.reduceat(weights, starts)
    knots = np.add.reduceat(places * counts, starts) / np.add.reduceat(counts, starts)
    ends = np.append(starts[1:], len(places)) - 1
    return Isotonic(np.clip(knots, places[starts], places[ends]), totals[0] / totals[1])


def pool(sums: Float, weights: Float) -> NDArray[np.int64]:
    """Pool adjacent violators: return the starts of blocks whose means (sum / weight) increase.

    Args:
        sums: (n,) weight times value, in the order of the score.
        weights: (n,) greater than 0.
    """
    blocks: list[tuple[float, float, int]] = []
    for place, (total, weight) in enumerate(zip(sums.tolist(), weights.tolist(), strict=True)):
        start = place
        # Compared by products, which are exact for counts: the previous mean is not below this one.
        while blocks and blocks[-1][0] * weight >= total * blocks[-1][1]:
            before, mass, start = blocks.pop()
            total, weight = total + before, weight + mass
        blocks.append((total, weight, start))
    return np.array([start for _, _, start in blocks], np.int64)


def fit_calibrator(features: Float, right: Bool, *, seed: int = 0) -> Calibrator:
    """Fit a logistic regression, or an isotonic one on top of it if that is clearly better.

    Args:
        features: (n, d).
        right: (n,).
    """
    x, y = np.asarray(features, np.float64), np.asarray(right, bool)
    logistic = fit_logistic(x, y)
    if len(y) < FOLDS:
        return logistic
    fold = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    gain = np.empty(len(y))
    for number in range(FOLDS):
        learned, held = fold != number, fold == number
        first = fit_logistic(x[learned], y[learned])
        second = _on_top(first, x[learned], y[learned])
        gain[held] = losses(first.apply(x[held]), y[held]) - losses(second.apply(x[held]), y[held])
    return _on_top(logistic, x, y) if gain.mean() > gain.std() / np.sqrt(len(gain)) else logistic


def fit_calibrators(
    features: Float, right: Bool, groups: Sequence[str | None], *, seed: int = 0
) -> dict[str, Calibrator]:
    """Fit the common calibrator ("all") and one for each group with 200 right and 200 wrong answers or more.

    Args:
        features: (n, d).
        right: (n,).
    """
    x, y = np.asarray(features, np.float64), np.asarray(right, bool)
    names = np.array([group or "" for group in groups])
    fitted: dict[str, Calibrator] = {COMMON: fit_calibrator(x, y, seed=seed)}
    for name in sorted(set(names.tolist()) - {""}):
        own = names == name
        if min(y[own].sum(), (~y[own]).sum()) >= MIN_OF_EACH:
            fitted[name] = fit_calibrator(x[own], y[own], seed=seed)
    return fitted


def _on_top(logistic: Logistic, features: Float, right: Bool) -> Isotonic:
    curve = fit_isotonic(logistic.log_odds(features), right)
    return Isotonic(curve.knots, curve.values, logistic)


def _sigmoid(log_odds: Float) -> Float:
    return np.exp(-np.logaddexp(0, -log_odds))


KIND = "calibration"
FOLDER = "calibration"
REMEDY = "fit it again: alphita calibrate --index INDEX --split SPLIT --force"
# The kind of confidence: thresholds were tested on strings of this index, or transferred from others.
CERTIFIED: Final = "certified"
ESTIMATED: Final = "estimated"
Assurance = Literal["certified", "estimated"]
# The evidence for the best candidate: from the ranker, the candidate and the mention. A short mention that equals no
# term is more often an abbreviation than a misspelling.
OF_CANDIDATE = (
    "equal",
    "cosine",
    "letters",
    "edit_ratio",
    "words_of_mention_in_term",
    "words_of_term_in_mention",
    "borrowed_term",
    "homonyms",
    "expanded",
)
OF_MENTION = ("characters", "known_words")
EVIDENCE = (
    "log_probability",
    "log_odds_to_second",
    "log_odds_to_nil",
    *OF_CANDIDATE,
    *OF_MENTION,
    "short_and_not_equal",
    "log_expansion_share",
)
# Rarer meanings of a short form count as this rare.
MIN_SHARE = 0.02
TINY = 1e-9


class RankedAnswers(NamedTuple):
    """The ranker's and calibrator's answers to n questions.

    Attributes:
        order: (c,) rows of the table, question by question, best first.
        top: (n,) int64 the row of each question's best candidate; -1 if there is none.
        confidence: (n,) float64, calibrated probability that the best candidate is right, 0 to 1.
        nil: (n,) float64, the ranker's probability that no concept fits.
        score: (c,) float64, the ranker's scores.
    """

    order: NDArray[np.int64]
    top: NDArray[np.int64]
    confidence: NDArray[np.float64]
    nil: NDArray[np.float64]
    score: NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """The calibration of one index.

    Attributes:
        ranker: orders the candidates and scores NIL.
        calibrators: from evidence to confidence, by language; "all" for every other.
        accept: allowed error -> confidence threshold for accepted answers; None: cannot be certified.
        estimated: allowed error -> confidence threshold for accepted answers if none can be certified.
        definitions: vectors of the concepts' definitions, which the ranker uses.
        fields: for the manifest: hashes, settings, counts.
    """

    ranker: Ranker
    calibrators: Mapping[str, Calibrator]
    nil_threshold: float
    accept: Mapping[float, float | None]
    figures: Mapping[str, Any] = field(default_factory=dict)
    definitions: Definitions | None = None
    abbreviations: Abbreviations | None = None
    cosines: Cosines | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)
    estimated: Mapping[float, float] = field(default_factory=dict)

    @property
    def is_general(self) -> bool:
        """Whether it was made for an encoder, and so for every index with it."""
        return bool(self.fields.get("general"))

    @property
    def is_of_others(self) -> bool:
        """Whether it was fitted on other indexes than its own."""
        return self.is_general or "carried_over_from" in self.fields

    def assurance(self, error: float) -> Assurance:
        """Return whether the threshold for an allowed error was tested on strings of its own index."""
        return ESTIMATED if self.is_of_others or error in self.estimated else CERTIFIED

    @property
    def origin(self) -> str:
        """Its origin, in words; empty if it was fitted on its own index."""
        if self.is_general:
            return "general calibration, fitted on " + ", ".join(one["name"] for one in self.fields["vocabularies"])
        carried = self.fields.get("carried_over_from")
        if not carried:
            return ""
        return "taken over from another index" if "index" in carried else "general calibration, lent by another model"

    def __call__(self, table: CandidateTable, features: Features, languages: Languages | None = None) -> RankedAnswers:
        """Answer the questions whose candidates are in `table`."""
        probabilities = self.ranker(features.candidates, features.mentions, table.offsets)
        order, top = ordered(table, probabilities.score)
        evidence = evidence_of(table, features, probabilities, order, top)
        confidence = self.calibrators[COMMON].apply(evidence)
        for language, calibrator in self.calibrators.items():
            if languages is not None and language in languages.names and len(table.term):
                own = languages.of_term[table.term[np.maximum(top, 0)]] == languages.names[language]
                confidence[own] = calibrator.apply(evidence[own])
        confidence = np.where(top >= 0, confidence, 0.0)
        return RankedAnswers(order, top, confidence, probabilities.nil, probabilities.score)

    def threshold(self, error: float) -> float | None:
        """Return the confidence threshold for an allowed error; None: no answer is accepted."""
        if error not in self.accept:
            known = ", ".join(f"{one:g}" for one in self.accept)
            raise UsageError(f"no threshold was tested for an error of {error:g}; choose from {known}")
        certified = self.accept[error]
        return self.estimated.get(error) if certified is None else certified

    def save(self, path: Path, *, force: bool = False) -> None:
        """Write the calibration folder."""
        from safetensors.numpy import save_file

        arrays = {f"ranker.{name}": values for name, values in self.ranker.to_arrays().items()}
        kinds = {}
        for group, calibrator in self.calibrators.items():
            kinds[group] = type(calibrator).__name__.lower()
            arrays |= {f"calibrator.{group}.{name}": values for name, values in calibrator.to_arrays().items()}
        if self.definitions is not None:
            arrays |= {f"definitions.{name}": values for name, values in self.definitions._asdict().items()}
        if self.cosines is not None:
            arrays |= {f"cosines.{name}": values for name, values in self.cosines._asdict().items()}
        settings = {
            "calibrators": kinds,
            "nil_threshold": self.nil_threshold,
            "accept": [[error, threshold] for error, threshold in self.accept.items()],
            "estimated": [[error, threshold] for error, threshold in self.estimated.items()],
            "features": list(NAMES),
            "mention_features": list(MENTION_NAMES),
            "evidence": list(EVIDENCE),
        }
        with artefact.create(path, KIND, force=force) as draft:
            save_file(
                {name: np.ascontiguousarray(values) for name, values in arrays.items()},
                draft.path / "arrays.safetensors",
            )
            (draft.path / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
            (draft.path / "figures.json").write_text(json.dumps(self.figures, indent=1) + "\n", encoding="utf-8")
            # Those of a general calibration belong to the index for which it was loaded.
            if self.abbreviations is not None and not self.is_general:
                kept = json.dumps(self.abbreviations.to_json(), ensure_ascii=False)
                (draft.path / "abbreviations.json").write_text(kept + "\n", encoding="utf-8")
            for name, picture in self.pictures.items():
                (draft.path / f"{name}.svg").write_text(picture, encoding="utf-8")
            # Those of a loaded calibration contain its whole manifest.
            draft.fields.update({name: value for name, value in self.fields.items() if name not in artefact.RESERVED})

    @classmethod
    def load(cls, path: Path, index: Index, *, encoder: str | None = None) -> Calibration:
        """Open the calibration of an index, or a general one for it."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            manifest = artefact.verify(path, KIND)
        except InputError as error:
            raise InputError(
                error.problem, file=error.file or path, field=error.field, value=error.value, remedy=REMEDY
            ) from None
        _check_made_for(manifest, index, encoder or index.base_model_hash, path)
        try:
            settings = textio.json_file(path / "settings.json")
            arrays = load_file(path / "arrays.safetensors")
            figures = textio.json_file(path / "figures.json")
            kept = path / "abbreviations.json"
            abbreviations = Abbreviations.from_json(textio.json_file(kept)) if kept.exists() else None
            if manifest.get("general"):
                abbreviations = Abbreviations.of_index(index)
            elif abbreviations is not None:
                abbreviations = abbreviations.with_clinic(ClinicalAbbreviations.of_index(index))
            wanted = [list(NAMES), list(MENTION_NAMES), list(EVIDENCE)]
            if [settings["features"], settings["mention_features"], settings["evidence"]] != wanted:
                raise InputError("this calibration was made by another version of alphita", file=path, remedy=REMEDY)
            ranker = Ranker.from_arrays(_under(arrays, "ranker."))
            kinds: dict[str, Any] = {"logistic": Logistic, "isotonic": Isotonic}
            calibrators = {
                group: kinds[kind].from_arrays(_under(arrays, f"calibrator.{group}."))
                for group, kind in settings["calibrators"].items()
            }
            definitions = _under(arrays, "definitions.")
            accept = {float(error): threshold for error, threshold in settings["accept"]}
            estimated = {float(error): float(threshold) for error, threshold in settings.get("estimated", [])}
            nil_threshold = float(settings["nil_threshold"])
            kept_definitions = Definitions(**definitions) if definitions else None
            cosines = Cosines(**found) if (found := _under(arrays, "cosines.")) else None
            _check_shapes(ranker, calibrators, kept_definitions, cosines, index)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise InputError(f"damaged calibration: {error}", file=path, remedy=REMEDY) from None
        return cls(
            ranker,
            calibrators,
            nil_threshold,
            accept,
            figures,
            kept_definitions,
            abbreviations,
            cosines,
            manifest,
            estimated=estimated,
        )


def ordered(table: CandidateTable, score: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the table, question by question, best first, and each question's best row (-1: none)."""
    order = np.lexsort((-np.round(score, DIGITS), table.request))
    filled = np.diff(table.offsets) > 0
    top = np.full(len(filled), -1, np.int64)
    top[filled] = order[table.offsets[:-1][filled]]
    return order, top


def evidence_of(
    table: CandidateTable,
    features: Features,
    probabilities: Probabilities,
    order: NDArray[np.int64],
    top: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the evidence for each question's best candidate, (n, len(EVIDENCE)); zeros if there is none."""
    n = len(top)
    found = np.zeros((n, len(EVIDENCE)))
    filled = np.flatnonzero(top >= 0)
    row = top[filled]
    second = np.full(n, TINY)
    several = np.flatnonzero(np.diff(table.offsets) > 1)
    second[several] = np.maximum(probabilities.probability[order[table.offsets[several] + 1]], TINY)
    first = np.maximum(probabilities.probability[row], TINY)
    columns: dict[str, NDArray[Any]] = {
        "log_probability": np.log(first),
        "log_odds_to_second": np.log(first) - np.log(second[filled]),
        "log_odds_to_nil": np.log(first) - np.log(np.maximum(probabilities.nil[filled], TINY)),
        **{name: features.candidates[row, NAMES.index(name)] for name in OF_CANDIDATE},
        **{name: features.mentions[filled, MENTION_NAMES.index(name)] for name in OF_MENTION},
    }
    is_short = columns["characters"] < np.log1p(SHORT_CAPITALS + 0.5)
    columns["short_and_not_equal"] = is_short & (columns["equal"] == 0)
    # Odds are proportional to the share, which is 1 for readings that are not expansions.
    share = features.candidates[row, NAMES.index("expansion_share")]
    columns["log_expansion_share"] = np.where(columns["expanded"] > 0, np.log(np.maximum(share, MIN_SHARE)), 0.0)
    for place, name in enumerate(EVIDENCE):
        found[filled, place] = columns[name]
    return found


def _check_made_for(manifest: Mapping[str, Any], index: Index, encoder: str, path: Path) -> None:
    if manifest.get("general"):
        if manifest.get("model_hash") != encoder:
            raise InputError(
                "this calibration was made for another encoder",
                file=path,
                field="model_hash",
                value=manifest.get("model_hash"),
                remedy=REMEDY,
            )
    elif manifest.get("index_hash") != index.content_hash:
        raise InputError(
            "this calibration was made for another index",
            file=path,
            field="index_hash",
            value=manifest.get("index_hash"),
            remedy=REMEDY,
        )


def _check_shapes(
    ranker: Ranker,
    calibrators: Mapping[str, Calibrator],
    definitions: Definitions | None,
    cosines: Cosines | None,
    index: Index,
) -> None:
    """Raise ValueError if arrays do not fit the features, the evidence or the index, by answering an empty question."""
    if not ranker.candidates or not ranker.mentions:
        raise ValueError("it has no ranker")
    if COMMON not in calibrators:
        raise ValueError(f"it has no calibrator {COMMON!r}")
    candidates, mentions = (np.zeros((1, len(names)), np.float32) for names in (NAMES, MENTION_NAMES))
    ranker(candidates, mentions, np.array([0, 1]))
    for calibrator in calibrators.values():
        calibrator.apply(np.zeros((1, len(EVIDENCE))))
    if definitions is not None and (
        definitions.row.shape != (len(index.segment.concepts),) or definitions.vectors.shape[1:] != (index.dim,)
    ):
        raise ValueError("its definitions are not of this index's concepts")
    if cosines is not None and (cosines.own.shape != cosines.lender.shape or (np.diff(cosines.own) < 0).any()):
        raise ValueError("its cosines do not fit together")


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
