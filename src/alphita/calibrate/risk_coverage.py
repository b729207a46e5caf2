"""Risk and coverage: how much may be accepted unseen at an error that the user allows, and how sure that is.

A threshold is certified by fixed-sequence testing (Angelopoulos et al. 2021, "Learn then test"): the thresholds are put
in an order on other data (`threshold_order`), and each is tested in turn on the calibration data. For m accepted of
which k are wrong, "more than `error` of what it accepts is wrong" is rejected when

    P(Bin(m, error) <= k) <= delta

and at the first that is not, testing stops. So with probability 1 - delta no threshold passes that accepts more errors
than allowed, however many were tested. It holds for mentions drawn like the calibration data, and for no others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.calibrate.drawing import Drawing
from alphita.calibrate.limits import DELTA, ERROR, least_without_error, most_wrong, tail, upper_limit

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

# Neighbouring thresholds of an order differ by so much of the data that it was made on.
STEP = 0.01
# An error on the data of the order is taken to be so many times greater when the place to begin is chosen: what was
# fitted there looks better there.
CAUTION = 2.0
MAX_POINTS = 400


@dataclass(frozen=True)
class Certificate:
    """What testing says of one allowed error.

    Attributes:
        error: the allowed share of errors among the accepted.
        threshold: the certified confidence from which answers are accepted; None: cannot certify.
        bound: the upper 1 - delta Clopper-Pearson limit of the error at the threshold, at most `error`.
        reason: why it cannot be certified, else None.
    """

    error: float
    delta: float
    n: int
    threshold: float | None
    accepted: int
    wrong: int
    bound: float | None
    tested: int
    reason: str | None = None


def threshold_order(
    confidence: Float, right: Bool, *, error: float = ERROR, delta: float = DELTA, size: int | None = None
) -> Float:
    """Return thresholds in the order in which `certify` is to test them, highest first.

    Args:
        confidence: (n,) of data that `certify` is not given.
        right: (n,).

    Returns:
        (t,) float64, falling.
    """
    from scipy.special import bdtr

    values, accepted, wrong = _steps(np.asarray(confidence, np.float64), right)
    kept = values > 0
    values, accepted, wrong = values[kept], accepted[kept], wrong[kept]
    if not len(values):
        return values
    # The first threshold to reach each hundredth of the answers, and the last of all.
    hundredth = np.ceil(accepted / (STEP * len(right)))
    chosen = np.append(np.flatnonzero(np.diff(hundredth, prepend=0) > 0), len(values) - 1)
    chosen = np.unique(chosen)
    m = np.round(accepted[chosen] * ((size or len(right)) / len(right))).astype(np.int64)
    expected = np.minimum(1.0, CAUTION * (wrong[chosen] + 1) / (accepted[chosen] + 2))
    allowed = np.array([most_wrong(int(n), error, delta) for n in m])
    chance = np.where(allowed >= 0, bdtr(np.maximum(allowed, 0), np.maximum(m, 1), expected), 0.0)
    # Where nothing could pass, begin where most are accepted for the error there.
    begin = int(np.argmax(chance)) if chance.max() > 0 else int(np.argmin(expected))
    return values[chosen][begin:]


def certify(confidence: Float, right: Bool, *, error: float = ERROR, delta: float = DELTA, order: Float) -> Certificate:
    """Find the threshold at which at most `error` of the accepted answers are wrong, with probability 1 - delta.

    Args:
        confidence: (n,) of calibration data on which nothing was fitted.
        right: (n,).
        order: (t,) thresholds in an order fixed without these data, see `threshold_order`.
    """
    if not (0 < error < 1 and 0 < delta < 0.5):
        raise ValueError(f"the error must lie between 0 and 1, delta between 0 and 0.5, not {error} and {delta}")
    falling = np.argsort(confidence, kind="stable")[::-1]
    ordered = np.asarray(confidence, np.float64)[falling[::-1]]
    # (n + 1,): errors among the so many most confident.
    wrongs = np.append(0, np.cumsum(~np.asarray(right, bool)[falling]))
    best: tuple[float, int, int] | None = None
    first: tuple[float, int, int] | None = None
    tested = 0
    for threshold in np.asarray(order, np.float64).tolist():
        accepted = len(ordered) - int(np.searchsorted(ordered, threshold))
        wrong = int(wrongs[accepted])
        tested += 1
        first = first or (threshold, accepted, wrong)
        if tail(wrong, accepted, error) > delta:
            break
        best = threshold, accepted, wrong
    if best is not None:
        threshold, accepted, wrong = best
        bound = upper_limit(wrong, accepted, delta)
        return Certificate(error, delta, len(ordered), threshold, accepted, wrong, bound, tested)
    threshold, accepted, wrong = first or (0.0, 0, 0)
    return Certificate(
        error,
        delta,
        len(ordered),
        None,
        accepted,
        wrong,
        None,
        tested,
        _reason(threshold, accepted, wrong, error, delta) if first else "no answer has a confidence above 0",
    )


def _reason(threshold: float, accepted: int, wrong: int, error: float, delta: float) -> str:
    needed = least_without_error(error, delta)
    if accepted < needed:
        return f"only {accepted:,} accepted at {threshold:.4g}, {wrong:,} wrong; {needed:,} without an error are needed"
    most = most_wrong(accepted, error, delta)
    return f"{wrong:,} of {accepted:,} accepted at {threshold:.4g} are wrong; at most {most:,} may be"


def estimate(confidence: Float, right: Bool, *, error: float) -> float | None:
    """Return the confidence from which most are accepted for an error of (wrong + 1) / (accepted + 2); None: from none.

    Args:
        confidence: (n,).
        right: (n,).
    """
    values, accepted, wrong = _steps(np.asarray(confidence, np.float64), right)
    fitting = np.flatnonzero((values > 0) & ((wrong + 1) / (accepted + 2) <= error))
    return float(values[fitting[-1]]) if len(fitting) else None


def nil_threshold(nil_probability: Float, names_concept: Bool, *, lost: float = 0.05) -> float:
    """Return the NIL probability above which a mention is NIL, the least that loses few of those that name a concept.

    Args:
        nil_probability: (n,) 0 to 1.
        names_concept: (n,) whether the mention names a concept of the terminology.
    """
    named = np.sort(nil_probability[names_concept])[::-1]
    # With a guard for shares like 0.05 * 20, which floats put just below 1.
    allowed = int(lost * len(named) + 1e-9)
    return float(named[allowed]) if allowed < len(named) else 0.0


class CoverageRow(NamedTuple):
    """One allowed error of the table; shares are of all answers.

    Attributes:
        threshold: the certified confidence; None: cannot certify, and nothing is accepted.
        accepted: share accepted.
        review: share left for review.
        nil: share NIL.
        reason: why it cannot be certified, else None.
    """

    error: float
    threshold: float | None
    accepted: float
    review: float
    nil: float
    wrong: int
    bound: float | None
    reason: str | None


@dataclass(frozen=True)
class RiskCoverage:
    """The risk-coverage table.

    Attributes:
        population: what the calibration data are; the table holds for mentions drawn like them, and for no others.
        level: 1 - delta, with which each row holds by itself.
        nil_lost: share of the mentions that name a concept and are NIL; None where it is not known which do.
        nil_found: share of the mentions that name none and are NIL; None likewise, or if there are none.
    """

    population: str
    n: int
    level: float
    rows: tuple[CoverageRow, ...] = field(default=())
    nil_lost: float | None = None
    nil_found: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON."""
        return asdict(self) | {"rows": [row._asdict() for row in self.rows]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> RiskCoverage:
        """Return the table that `to_json` wrote."""
        return cls(**{**record, "rows": tuple(CoverageRow(**row) for row in record["rows"])})

    def text(self) -> str:
        """Return the table as plain text."""
        lines = [
            f"Holds for: {self.population} ({self.n:,} answers), with {100 * self.level:g}% probability",
            f"{'allowed':>8} {'threshold':>10} {'accepted':>9} {'review':>8} {'NIL':>8} {'errors':>7} {'bound':>7}",
        ]
        for row in self.rows:
            shares = f"{_percent(row.accepted):>9} {_percent(row.review):>8} {_percent(row.nil):>8}"
            if row.threshold is None or row.bound is None:
                lines.append(f"{row.error:>8.1%} {'-':>10} {shares}  cannot certify: {row.reason}")
            else:
                # Cut off, not rounded, so that the printed threshold is none that accepts less; the bound upwards.
                threshold, bound = math.floor(row.threshold * 1e4) / 1e4, math.ceil(row.bound * 1e4 - 1e-9) / 1e4
                lines.append(f"{row.error:>8.1%} {threshold:>10.4f} {shares} {row.wrong:>7,} {bound:>7.2%}")
        if self.nil_lost is not None:
            lines.append(f"NIL: {_percent(self.nil_lost)} of the mentions that name a concept are lost to it")
        if self.nil_found is not None:
            lines.append(f"NIL: {_percent(self.nil_found)} of the mentions that name none are recognised")
        return "\n".join(lines) + "\n"


def table(
    confidence: Float,
    right: Bool,
    *,
    certificates: Mapping[float, Certificate],
    population: str,
    nil: Bool | None = None,
    names_concept: Bool | None = None,
) -> RiskCoverage:
    """Return the risk-coverage table of the data that the certificates were made on.

    Args:
        confidence: (n,).
        right: (n,).
        nil: (n,) answered NIL.
        names_concept: (n,) whether the mention names a concept of the terminology, where that is known.
    """
    n = len(right)
    refused = np.zeros(n, bool) if nil is None else np.asarray(nil, bool)
    rows = []
    for error, certificate in sorted(certificates.items()):
        cut = np.inf if certificate.threshold is None else certificate.threshold
        accepted = ~refused & (confidence >= cut)
        counts = int(accepted.sum()), int((accepted & ~right).sum())
        if certificate.threshold is not None and counts != (certificate.accepted, certificate.wrong):
            raise ValueError(f"the certificate for {error} was made on other data: {counts} accepted and wrong")
        shares = (counts[0] / n, float((~accepted & ~refused).sum()) / n, float(refused.sum()) / n)
        rows.append(
            CoverageRow(error, certificate.threshold, *shares, counts[1], certificate.bound, certificate.reason)
        )
    delta = max((certificate.delta for certificate in certificates.values()), default=DELTA)
    lost = found = None
    if names_concept is not None:
        lost = float(refused[names_concept].mean()) if names_concept.any() else None
        found = float(refused[~names_concept].mean()) if (~names_concept).any() else None
    return RiskCoverage(population, n, 1 - delta, tuple(rows), lost, found)


class Curve(NamedTuple):
    """The risk-coverage curve, one point a distinct score: answers of equal score are accepted together.

    Attributes:
        threshold: (p,) scores, falling.
        coverage: (p,) share accepted at it.
        risk: (p,) share of the accepted that is wrong.
    """

    threshold: Float
    coverage: Float
    risk: Float


def curve(score: Float, right: Bool) -> Curve:
    """Return the whole risk-coverage curve of a score; n > 0."""
    values, accepted, wrong = _steps(np.asarray(score, np.float64), right)
    return Curve(values, accepted / len(right), wrong / accepted)


def risk_coverage_svg(
    confidence: Float, right: Bool, *, certificates: Mapping[float, Certificate] | None = None
) -> str:
    """Return the risk-coverage curve as an SVG file, with the certified thresholds and their bounds."""
    drawn = curve(confidence, right)
    # Errors among the first few say nothing and would set the scale.
    settled = drawn.coverage >= min(STEP, float(drawn.coverage[-1]))
    kept = np.flatnonzero(settled)
    kept = kept[np.unique(np.linspace(0, len(kept) - 1, min(len(kept), MAX_POINTS)).astype(np.int64))]
    passed = [one for one in (certificates or {}).values() if one.threshold is not None and one.bound is not None]
    top = max([float(drawn.risk[kept].max()), *(one.bound or 0.0 for one in passed), 0.001])
    drawing = Drawing(
        "Risk and coverage",
        f"errors among the accepted, {len(right):,} answers, most confident first",
        x_label="share accepted",
        y_label="share of the accepted that is wrong",
        y_max=top,
    )
    drawing.line(list(zip(drawn.coverage[kept].tolist(), drawn.risk[kept].tolist(), strict=True)), "measured")
    if passed:
        drawing.dots(
            [(one.accepted / one.n, one.wrong / one.accepted) for one in passed],
            [(one.wrong / one.accepted, one.bound or 0.0) for one in passed],
            [
                f"at most {one.error:g}: from confidence {one.threshold:.4g} on, {one.accepted:,} accepted, "
                f"{one.wrong:,} wrong"
                for one in passed
            ],
            "certified, up to its bound",
            colour="var(--s1)",
        )
    return drawing.svg()


def _steps(score: Float, right: Bool) -> tuple[Float, NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct scores, falling, and how many are accepted at each, and wrong."""
    order = np.argsort(-score, kind="stable")
    ordered = score[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    return ordered[ends], ends + 1, np.cumsum(~np.asarray(right, bool)[order])[ends]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
