"""Risk and coverage: how many answers can be accepted without review at an allowed error, with what certainty.

A threshold is certified by fixed-sequence testing (Angelopoulos et al. 2021, "Learn then test"): the thresholds are
ordered using other data (`threshold_order`), and tested one after another on the calibration data. For m accepted of
which k are wrong, "more than `error` of what it accepts is wrong" is rejected when

    P(Bin(m, error) <= k) <= delta

and testing stops at the first threshold for which it is not. So with probability 1 - delta, no threshold passes that
accepts more errors than allowed, however many were tested. Only for mentions drawn like these data.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ERROR = 0.01
DELTA = 0.05


def tail(wrong: int, n: int, error: float) -> float:
    """Return P(Bin(n, error) <= wrong)."""
    from scipy.special import bdtr

    return float(bdtr(wrong, n, error)) if n else 1.0


def upper_limit(wrong: int, n: int, delta: float = DELTA) -> float:
    """Return the upper Clopper-Pearson limit: the error at which P(Bin(n, error) <= wrong) is `delta`; 1 if n = 0."""
    from scipy.special import betaincinv

    return 1.0 if wrong >= n else float(betaincinv(wrong + 1, n - wrong, 1 - delta))


def clopper_pearson(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the two-sided exact interval of a share (Clopper & Pearson 1934)."""
    delta = (1 - level) / 2
    return 1 - upper_limit(n - count, n, delta), upper_limit(count, n, delta)


def least_without_error(error: float = ERROR, delta: float = DELTA) -> int:
    """Return how many accepted answers, all right, certify `error`: the least m with (1 - error)^m <= delta."""
    return math.ceil(math.log(delta) / math.log1p(-error) - 1e-12)


def most_wrong(n: int, error: float, delta: float) -> int:
    """Return the greatest k with P(Bin(n, error) <= k) <= delta, delta below 0.5; -1 if there is none."""
    from scipy.special import bdtr

    # The median is at most n * error rounded up, so from there on the tail is at least a half.
    tails = bdtr(np.arange(int(n * error) + 2), n, error) if n else np.ones(1)
    return int((tails <= delta).sum()) - 1


def finite_tail(wrong: int, n: int, all_wrong: int, population: int) -> float:
    """Return P(X <= wrong), X the number of wrong ones among n drawn without replacement, if `all_wrong` are wrong."""
    from scipy.stats import hypergeom

    return float(hypergeom.cdf(wrong, population, all_wrong, n))


def finite_upper_limit(wrong: int, n: int, population: int, delta: float = DELTA) -> int:
    """Return an upper bound for the wrong ones in a finite population, given `wrong` wrong ones among n drawn."""
    # The tail falls as the number of wrong ones grows; at the least it is 1.
    possible = range(wrong + 1, population - (n - wrong) + 1)
    return wrong + bisect.bisect(possible, False, key=lambda number: finite_tail(wrong, n, number, population) <= delta)


Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

# Consecutive thresholds differ by this share of the data used for the order.
STEP = 0.01
# To choose the starting point, errors on the data used for the order are multiplied by this factor, because the fit
# looks better there.
CAUTION = 2.0
MAX_POINTS = 400


@dataclass(frozen=True)
class Certificate:
    """The result of testing one allowed error: the confidence from which answers are accepted, or why there is none.

    `bound` is the upper 1 - delta Clopper-Pearson limit of the error at the threshold, at most `error`.
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
    """Return thresholds (t,), falling, in the order in which `certify` is to test them.

    Args:
        confidence: (n,) of data that `certify` does not get, with `right` (n,).
        size: the number of answers that `certify` gets.
    """
    from scipy.special import bdtr

    values, accepted, wrong = _steps(np.asarray(confidence, np.float64), right)
    kept = values > 0
    values, accepted, wrong = values[kept], accepted[kept], wrong[kept]
    if not len(values):
        return values
    # The first threshold to reach each hundredth of the answers, and the last one.
    hundredth = np.ceil(accepted / (STEP * len(right)))
    chosen = np.unique(np.append(np.flatnonzero(np.diff(hundredth, prepend=0) > 0), len(values) - 1))
    m = np.round(accepted[chosen] * ((size or len(right)) / len(right))).astype(np.int64)
    expected = np.minimum(1.0, CAUTION * (wrong[chosen] + 1) / (accepted[chosen] + 2))
    allowed = np.array([most_wrong(int(n), error, delta) for n in m])
    chance = np.where(allowed >= 0, bdtr(np.maximum(allowed, 0), np.maximum(m, 1), expected), 0.0)
    # If no threshold could pass, start where the most are accepted for their error.
    begin = int(np.argmax(chance)) if chance.max() > 0 else int(np.argmin(expected))
    return values[chosen][begin:]


def certify(confidence: Float, right: Bool, *, error: float = ERROR, delta: float = DELTA, order: Float) -> Certificate:
    """Find the threshold at which at most `error` of the accepted answers are wrong, with probability 1 - delta.

    Args:
        confidence: (n,) of calibration data on which nothing was fitted, with `right` (n,).
        order: (t,) thresholds in an order fixed without these data, see `threshold_order`.
    """
    if not (0 < error < 1 and 0 < delta < 0.5):
        raise ValueError(f"the error must lie between 0 and 1, delta between 0 and 0.5, not {error} and {delta}")
    falling = np.argsort(confidence, kind="stable")[::-1]
    ordered = np.asarray(confidence, np.float64)[falling[::-1]]
    # (n + 1,): errors among the 0, 1, ..., n most confident.
    wrongs = np.append(0, np.cumsum(~np.asarray(right, bool)[falling]))
    accepted = len(ordered) - np.searchsorted(ordered, order)
    tested = list(
        zip(np.asarray(order, np.float64).tolist(), accepted.tolist(), wrongs[accepted].tolist(), strict=True)
    )
    passed = list(itertools.takewhile(lambda test: tail(test[2], test[1], error) <= delta, tested))
    threshold, n, wrong = (passed[-1:] or tested[:1] or [(0.0, 0, 0)])[0]
    count = min(len(passed) + 1, len(tested))
    if passed:
        limit = upper_limit(wrong, n, delta)
        return Certificate(error, delta, len(ordered), threshold, n, wrong, limit, count)
    reason = _reason(threshold, n, wrong, error, delta) if tested else "no answer has a confidence above 0"
    return Certificate(error, delta, len(ordered), None, n, wrong, None, count, reason)


def _reason(threshold: float, accepted: int, wrong: int, error: float, delta: float) -> str:
    needed = least_without_error(error, delta)
    if accepted < needed:
        return f"only {accepted:,} accepted at {threshold:.4g}, {wrong:,} wrong; {needed:,} without an error are needed"
    most = most_wrong(accepted, error, delta)
    return f"{wrong:,} of {accepted:,} accepted at {threshold:.4g} are wrong; at most {most:,} may be"


def nil_text(certificate: Certificate, given: int, wrong: int) -> str:
    """Say in one line what is known of the error of NIL answers, of which `wrong` of those `given` have a concept."""
    allowed = f"NIL at an allowed error of {100 * certificate.error:g}%:"
    if certificate.bound is not None:
        bound = math.ceil(certificate.bound * 1e3 - 1e-9) / 10
        return (
            f"{allowed} certified: at most {bound:g}% of the NIL answers have a concept ({wrong:,} of {given:,} here)"
        )
    if given:
        return f"{allowed} estimated, not certified: {wrong:,} of the {given:,} NIL answers have a concept"
    needed = least_without_error(certificate.error, certificate.delta)
    found = f"{certificate.wrong:,} of the {certificate.accepted:,} surest strings have a concept"
    return f"{allowed} no answer is NIL: {found}, and to certify it, none of {needed:,} may have one"


def estimate(confidence: Float, right: Bool, *, error: float) -> float | None:
    """Return the confidence that accepts the most at an error of (wrong + 1) / (accepted + 2), or None."""
    values, accepted, wrong = _steps(np.asarray(confidence, np.float64), right)
    fitting = np.flatnonzero((values > 0) & ((wrong + 1) / (accepted + 2) <= error))
    return float(values[fitting[-1]]) if len(fitting) else None


class CoverageRow(NamedTuple):
    """One allowed error of the table: the certified threshold, if any, and shares of all answers."""

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
    """The risk-coverage table: it is valid for mentions drawn like the `population`, each row with probability `level`.

    `nil_lost` is the share of the mentions naming a concept that are NIL, `nil_found` of the others; None: not known.
    """

    population: str
    n: int
    level: float
    rows: tuple[CoverageRow, ...] = field(default=())
    nil_lost: float | None = None
    nil_found: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"rows": [row._asdict() for row in self.rows]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> RiskCoverage:
        return cls(**{**record, "rows": tuple(CoverageRow(**row) for row in record["rows"])})

    def text(self) -> str:
        """Return the table as `alphita calibrate` prints it."""
        lines = [
            f"Holds for: {self.population} ({self.n:,} answers), with {100 * self.level:g}% probability",
            f"{'allowed':>8} {'threshold':>10} {'accepted':>9} {'review':>8} {'NIL':>8} {'errors':>7} {'bound':>7}",
        ]
        for row in self.rows:
            shares = f"{_percent(row.accepted):>9} {_percent(row.review):>8} {_percent(row.nil):>8}"
            if row.threshold is None or row.bound is None:
                lines.append(f"{row.error:>8.1%} {'-':>10} {shares}  cannot certify: {row.reason}")
            else:
                # Truncated, not rounded, so that the printed threshold does not accept less; the bound is rounded up.
                threshold, bound = math.floor(row.threshold * 1e4) / 1e4, math.ceil(row.bound * 1e4 - 1e-9) / 1e4
                lines.append(f"{row.error:>8.1%} {threshold:>10.4f} {shares} {row.wrong:>7,} {bound:>7.2%}")
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
    """Return the risk-coverage table of the data used for the certificates; all arrays (n,)."""
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
    sides = () if names_concept is None else (refused[names_concept], refused[~names_concept])
    nils = [float(side.mean()) if len(side) else None for side in sides] or [None, None]
    return RiskCoverage(population, n, 1 - delta, tuple(rows), *nils)


def curve(score: Float, right: Bool) -> tuple[Float, Float, Float]:
    """Return for each distinct score (p,), falling, the score, the share accepted and the share of it wrong; n > 0."""
    values, accepted, wrong = _steps(np.asarray(score, np.float64), right)
    return values, accepted / len(right), wrong / accepted


def risk_coverage_svg(
    confidence: Float, right: Bool, *, certificates: Mapping[float, Certificate] | None = None
) -> str:
    """Return the risk-coverage curve as an SVG file, with the certified thresholds and their bounds."""
    _, coverage, risk = curve(confidence, right)
    # Errors among the first few answers are not informative, and would determine the scale.
    kept = np.flatnonzero(coverage >= min(STEP, float(coverage[-1])))
    kept = kept[np.unique(np.linspace(0, len(kept) - 1, min(len(kept), MAX_POINTS)).astype(np.int64))]
    passed = [certificate for certificate in (certificates or {}).values() if certificate.threshold is not None]
    top = max([float(risk[kept].max()), *(certificate.bound or 0.0 for certificate in passed), 0.001])
    drawing = Drawing(
        "Risk and coverage",
        f"errors among the accepted, {len(right):,} answers, most confident first",
        x_label="share accepted",
        y_label="share of the accepted that is wrong",
        y_max=top,
    )
    drawing.line(list(zip(coverage[kept].tolist(), risk[kept].tolist(), strict=True)), "measured")
    if passed:
        drawing.dots(
            [(it.accepted / it.n, it.wrong / it.accepted) for it in passed],
            [(it.wrong / it.accepted, it.bound or 0.0) for it in passed],
            [
                f"at most {it.error:g}: from confidence {it.threshold:.4g} on, {it.accepted:,} accepted, "
                f"{it.wrong:,} wrong"
                for it in passed
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


WIDTH, HEIGHT = 460, 400
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 54, 84
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
STYLE = (
    ".alphita-plot{--ink:#222;--paper:#fff;--s0:#0077bb;--s1:#c2410c}"
    "@media (prefers-color-scheme:dark){.alphita-plot{--ink:#ddd;--paper:#161616;--s0:#66b2e6;--s1:#f28c50}}"
    ".alphita-plot text{font:12px system-ui,sans-serif;fill:var(--ink)}"
    ".alphita-plot .title{font-size:14px;font-weight:600}"
    ".alphita-plot .grid{stroke:var(--ink);stroke-opacity:.18}"
)

Points = Sequence[tuple[float, float]]


class Drawing:
    """Axes, and the curves drawn on them."""

    def __init__(self, title: str, note: str, *, x_label: str, y_label: str, y_max: float = 1.0) -> None:
        step = next((step for step in STEPS if y_max <= 6 * step), STEPS[-1])
        self.y_max = min(1.0, max(1, np.ceil(y_max / step - 1e-9)) * step)
        self.title = title
        self._marks = [
            f'<text class="title" x="14" y="22">{escape(title)}</text>',
            f'<text x="14" y="41">{escape(note)}</text>',
        ]
        self._keys = 0
        for share in np.linspace(0, 1, 6).tolist():
            x = self._x(share)
            self._marks += [
                f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{100 * share:.4g}%</text>',
            ]
        for tick in np.arange(0, self.y_max + step / 2, step).tolist():
            y = self._y(tick)
            self._marks += [
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{round(100 * tick, 6):.4g}%</text>',
            ]
        middle, centre = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
        self._marks += [
            f'<text x="{middle}" y="{HEIGHT - BOTTOM + 37}" text-anchor="middle">{escape(x_label)}</text>',
            f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
        ]

    def line(self, points: Points, name: str, *, colour: str = "var(--s0)", dashes: str = "") -> None:
        """Draw a curve through (x, y) shares, with an entry of the legend."""
        look = f'fill="none" stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dashes}"' if dashes else "")
        path = " ".join(f"{self._x(x):.2f},{self._y(y):.2f}" for x, y in points)
        self._marks.append(f'<polyline points="{path}" {look}/>')
        x, y = self._key(name)
        self._marks.append(f'<polyline points="{x},{y} {x + 24},{y}" {look}/>')

    def dots(self, points: Points, bars: Points, texts: Sequence[str], name: str, *, colour: str = "var(--s0)") -> None:
        """Draw dots with vertical bars (low and high end of each) and tooltips."""
        for (x, y), (low, high), text in zip(points, bars, texts, strict=True):
            self._marks.append(
                f'<g><title>{escape(text)}</title><path d="M{self._x(x):.2f} {self._y(low):.2f}V{self._y(high):.2f}" '
                f'stroke="{colour}" stroke-width="1.5"/>{self._dot(self._x(x), self._y(y), colour)}</g>'
            )
        x, y = self._key(name)
        self._marks.append(self._dot(x + 12, y, colour))

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="alphita-plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{escape(self.title)}"><style>{STYLE}</style>'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--paper)"/>\n' + "\n".join(self._marks) + "\n</svg>\n"
        )

    def _key(self, name: str) -> tuple[float, float]:
        """Write the next entry of the legend; return the position of its symbol."""
        x, y = LEFT + 190 * self._keys, HEIGHT - 18
        self._keys += 1
        self._marks.append(f'<text x="{x + 30}" y="{y + 4}">{escape(name)}</text>')
        return x, y

    @staticmethod
    def _dot(x: float, y: float, colour: str) -> str:
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="3.5" fill="{colour}"/>'

    def _x(self, share: float) -> float:
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def _y(self, share: float) -> float:
        return HEIGHT - BOTTOM - share / self.y_max * (HEIGHT - TOP - BOTTOM)
