"""Charts of a report as SVG, drawn by hand: a report needs no plotting library.

Colours come from the page's style sheet; every series has a dash pattern. Charts fit a phone's width and grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from alphita_lab.evaluation.report import entries
from alphita_lab.evaluation.report.entries import ALL, Entry

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 12, 38
BAR_HEIGHT = 34
# Characters that fit above a bar.
LONGEST = 52
DASHES = ("", "6 3", "2 2", "8 3 2 3", "4 4", "1 3", "10 4", "6 2 1 2")

Series = tuple[Sequence[float], Sequence[float]]


def of_benchmark(entry: Entry) -> list[str]:
    """Return the charts of a benchmark, as report.json holds it, each as SVG in a figure."""
    systems = entries.scored(entry)
    drawn = [_bars(entry), _accuracy_curve(entry)]
    names = list(dict.fromkeys(name for system in systems for name in system["curves"]))
    for name in names:
        series = {
            system["name"]: curve for system in systems if (curve := system["curves"].get(name)) and len(curve[0])
        }
        if series:
            # "theta F1" is F1 over theta.
            x_label, _, y_label = name.rpartition(" ")
            drawn.append(lines(series, title=f"{entry['name']}: {name}", x_label=x_label, y_label=y_label))
    for system in systems:
        for name, bins in system["histograms"].items():
            title = f"{system['name']}: {name}"
            drawn.append(histogram(bins["edges"], bins["counts"], title=title, x_label=name))
    return [chart for chart in drawn if chart]


def _bars(entry: Entry) -> str:
    metric = entry["main_metric"]
    fraction = entries.metric_of(entry, metric)["fraction"]
    rows = []
    for system in entries.scored(entry):
        found = entries.figure(system, metric)
        if found is not None and found["value"] is not None:
            text = f"{system['name']}: {entries.number(found['value'], fraction=fraction)}"
            rows.append((text, found["value"], found["low"], found["high"], True))
    if not rows:
        return ""
    elsewhere = [figure for figure in entry["published"] if figure["metric"] == metric and figure["subset"] == ALL]
    for figure in elsewhere:
        mark = " †" if figure["differs"] or figure["slip"] else ""
        text = f"{figure['system']}: {entries.as_printed(figure['value'], fraction=fraction)}{mark}"
        rows.append((text, figure["value"], None, None, False))
    title = f"{entry['name']}: {metric}" + (
        ". Hollow: published; † protocol differs or number doubtful" if elsewhere else ""
    )
    return bars(rows, title=title, fraction=fraction)


def _accuracy_curve(entry: Entry) -> str:
    """Return accuracy@k over k, where a benchmark counts three places or more."""
    series = {}
    for system in entries.scored(entry):
        points = sorted(
            (int(figure["metric"].removeprefix("accuracy@")), figure["value"])
            for figure in system["figures"]
            if figure["subset"] == ALL
            and figure["metric"].removeprefix("accuracy@").isdigit()
            and figure["value"] is not None
        )
        if len(points) > 2:
            series[system["name"]] = ([float(k) for k, _ in points], [value for _, value in points])
    if not series:
        return ""
    title = f"{entry['name']}: accuracy within the first k concepts"
    return lines(series, title=title, x_label="k", y_label="accuracy@k", fraction=True, points=True)


def of_answers(counts: Mapping[str, Sequence[float]], where: str) -> str:
    """Return the histogram of the first answers' similarities, as an error analysis counts them."""
    title = f"{where}: similarity of the first answer, right and wrong"
    shown = {name: counts[name] for name in ("right", "wrong")}
    return histogram(counts["edges"], shown, title=title, x_label="similarity")


def lines(
    series: Mapping[str, Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    fraction: bool = False,
    points: bool = False,
) -> str:
    """Return a chart of curves over one x axis, e.g. accuracy@k or a sweep of thresholds."""
    xs = [x for values, _ in series.values() for x in values]
    ys = [y for _, values in series.values() for y in values]
    frame = _Frame(min(xs), max(xs), min(0.0, *ys) if fraction else min(ys), max(ys))
    marks = []
    for place, (own_x, own_y) in enumerate(series.values()):
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in zip(own_x, own_y, strict=True))
        marks.append(f'<polyline points="{path}" fill="none" {_stroke(place)}/>')
        if points:
            marks += [
                f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3" fill="var(--s{place % len(DASHES)})"/>'
                for x, y in zip(own_x, own_y, strict=True)
            ]
    ticks = sorted(set(xs)) if points else None
    return _figure(title, frame.axes(x_label, y_label, fraction=fraction, x_ticks=ticks) + marks, list(series))


def histogram(edges: Sequence[float], counts: Mapping[str, Sequence[float]], *, title: str, x_label: str) -> str:
    """Return histograms over the same bins (b + 1 edges), each scaled to its own sum: small classes can be seen."""
    shares = {name: np.asarray(own, float) / max(1, np.sum(own)) for name, own in counts.items()}
    frame = _Frame(edges[0], edges[-1], 0.0, max(float(own.max()) for own in shares.values()))
    marks = []
    for place, own in enumerate(shares.values()):
        places = [f"{frame.x(edges[0]):.1f},{frame.y(0):.1f}"]
        for (left, right), share in zip(pairwise(edges), own, strict=True):
            places += [f"{frame.x(left):.1f},{frame.y(share):.1f}", f"{frame.x(right):.1f},{frame.y(share):.1f}"]
        places.append(f"{frame.x(edges[-1]):.1f},{frame.y(0):.1f}")
        marks.append(
            f'<polygon points="{" ".join(places)}" fill="var(--s{place % len(DASHES)})" fill-opacity=".15" '
            f"{_stroke(place)}/>"
        )
    names = [f"{name} ({np.sum(own):,.0f})" for name, own in counts.items()]
    return _figure(title, frame.axes(x_label, "share of each", fraction=True) + marks, names)


def bars(
    rows: Sequence[tuple[str, float, float | None, float | None, bool]], *, title: str, fraction: bool = True
) -> str:
    """Return horizontal bars with intervals."""
    ends = [0.0, *(end for _, *numbers, _ in rows for end in numbers if end is not None)]
    low, high, step = _nice(min(ends), max(ends))
    height = BAR_HEIGHT * len(rows) + 22
    inner = WIDTH - 12

    def x(value: float) -> float:
        return 6 + (value - low) / (high - low) * inner

    marks = []
    for tick in np.arange(low, high + step / 2, step):
        marks.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="4" y2="{height - 16}"/>')
        anchor = "start" if tick <= low else "end" if tick >= high - step / 2 else "middle"
        marks.append(f'<text x="{x(tick):.1f}" y="{height - 3}" text-anchor="{anchor}">{_tick(tick, fraction)}</text>')
    for place, (text, value, start, end, ours) in enumerate(rows):
        top = 4 + BAR_HEIGHT * place
        # The end holds the value: a long name is cut in its middle.
        shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 16]}…{text[-15:]}"
        marks.append(f'<text x="7" y="{top + 12}">{escape(shown)}</text>')
        left, right = sorted((x(0), x(value)))
        look = 'fill-opacity=".75"' if ours else 'fill-opacity="0" stroke="var(--s0)" stroke-dasharray="4 2"'
        marks.append(
            f'<rect x="{left:.1f}" y="{top + 17}" width="{right - left:.1f}" height="11" fill="var(--s0)" {look}>'
            f"<title>{escape(text)}</title></rect>"
        )
        if start is not None and end is not None:
            a, b, y = x(start), x(end), top + 22.5
            marks.append(
                f'<path d="M{a:.1f} {y}H{b:.1f}M{a:.1f} {y - 4}v8M{b:.1f} {y - 4}v8" fill="none" '
                'stroke="currentColor" stroke-width="1.5"/>'
            )
    return _figure(title, marks, [], height=height)


class _Frame:
    def __init__(self, x_low: float, x_high: float, y_low: float, y_high: float) -> None:
        self.x_low, self.x_high = (x_low, x_high) if x_high > x_low else (x_low - 0.5, x_high + 0.5)
        self.y_low, self.y_high, self.step = _nice(y_low, y_high)

    def x(self, value: float) -> float:
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_label: str, y_label: str, *, fraction: bool, x_ticks: Sequence[float] | None = None) -> list[str]:
        marks = []
        for tick in np.arange(self.y_low, self.y_high + self.step / 2, self.step):
            y = self.y(tick)
            marks.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            marks.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_tick(tick, fraction)}</text>')
        if x_ticks is None:
            low, high, step = _nice(self.x_low, self.x_high)
            ticks = np.arange(low, high + step / 2, step).tolist()
            x_ticks = [tick for tick in ticks if self.x_low - 1e-9 <= tick <= self.x_high + 1e-9]
        for tick in x_ticks:
            place = f'x="{self.x(tick):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle"'
            marks.append(f"<text {place}>{_tick(tick, False)}</text>")
        middle = (LEFT + WIDTH - RIGHT) / 2
        marks.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
        marks.append(f'<text x="{LEFT + 4}" y="{TOP + 8}">{escape(y_label)}</text>')
        return marks


def _nice(low: float, high: float) -> tuple[float, float, float]:
    """Return round ends that hold both numbers, and a round step with three to six steps between."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return float(np.floor(low / step + 1e-9) * step), float(np.ceil(high / step - 1e-9) * step), float(step)


def _tick(value: float, fraction: bool) -> str:
    return f"{round(100 * value if fraction else value, 9) + 0.0:.4g}" + ("%" if fraction else "")


def _stroke(place: int) -> str:
    dashes = DASHES[place % len(DASHES)]
    pattern = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'stroke="var(--s{place % len(DASHES)})" stroke-width="2"{pattern}'


def _figure(title: str, marks: Sequence[str], legend: Sequence[str], *, height: int = HEIGHT) -> str:
    keys = "".join(
        f'<li><svg viewBox="0 0 26 10" aria-hidden="true"><line x1="0" x2="26" y1="5" y2="5" {_stroke(place)}/></svg>'
        f"{escape(name)}</li>"
        for place, name in enumerate(legend)
    )
    return (
        f'<figure class="chart"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(marks)}</svg><figcaption>{escape(title)}"
        + (f'<ul class="legend">{keys}</ul>' if keys else "")
        + "</figcaption></figure>"
    )
