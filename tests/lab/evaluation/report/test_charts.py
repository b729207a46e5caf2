from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita_lab.evaluation.report import charts

number = st.floats(-1000, 1000).filter(lambda x: x == 0 or abs(x) > 1e-3)


def elements(chart: str, tag: str) -> list[ElementTree.Element]:
    # Parsing it as XML shows that it is well formed.
    return list(ElementTree.fromstring(chart).iter(tag))


def inside(chart: str) -> None:
    """Check that nothing is drawn outside the drawing."""
    figure = ElementTree.fromstring(chart)
    drawing = figure.find("svg")
    _, _, width, height = map(float, drawing.get("viewBox").split())
    for one in drawing.iter():
        for axis, most in (("x", width), ("y", height), ("cx", width), ("cy", height), ("x1", width), ("y2", height)):
            if one.get(axis) is not None:
                assert -0.1 <= float(one.get(axis)) <= most + 0.1
        for pair in (one.get("points") or "").split():
            x, y = map(float, pair.split(","))
            assert -0.1 <= x <= width + 0.1
            assert -0.1 <= y <= height + 0.1


@given(st.lists(st.tuples(number, number), min_size=1, max_size=20))
def test_lines_stay_inside_and_keep_their_order(points) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    chart = charts.lines({"one": (xs, ys)}, title="t", x_label="x", y_label="y")
    inside(chart)
    (line,) = elements(chart, "polyline")
    drawn = np.array([[float(part) for part in pair.split(",")] for pair in line.get("points").split()])
    # Greater is higher, i.e. nearer to the top, up to the rounding of the drawing.
    for place in range(len(points) - 1):
        if ys[place] < ys[place + 1]:
            assert drawn[place, 1] >= drawn[place + 1, 1]
        if xs[place] < xs[place + 1]:
            assert drawn[place, 0] <= drawn[place + 1, 0]


def test_accuracy_at_k_has_points_and_a_tick_at_each_k() -> None:
    series = {"a <b>": ([1, 3, 5], [0.5, 0.6, 0.65]), "b": ([1, 3, 5], [0.2, 0.3, 0.4])}
    chart = charts.lines(series, title="T & t", x_label="k", y_label="accuracy@k", fraction=True, points=True)
    inside(chart)
    assert len(elements(chart, "circle")) == 6
    texts = [one.text for one in elements(chart, "text")]
    assert texts == ["0%", "20%", "40%", "60%", "80%", "1", "3", "5", "k", "accuracy@k"]
    legend = ["".join(one.itertext()) for one in elements(chart, "li")]
    assert legend == ["a <b>", "b"]
    strokes = [(one.get("stroke"), one.get("stroke-dasharray")) for one in elements(chart, "polyline")]
    assert len(set(strokes)) == 2


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.lists(st.integers(0, 50), min_size=4, max_size=4))
def test_histograms_are_shares(first, second) -> None:
    chart = charts.histogram(
        [0, 0.25, 0.5, 0.75, 1], {"right": first, "wrong": second}, title="t", x_label="similarity"
    )
    inside(chart)
    left, _ = elements(chart, "polygon")
    places = np.array([[float(part) for part in pair.split(",")] for pair in left.get("points").split()])
    heights = places[0, 1] - places[1:-1:2, 1]
    if sum(first):
        assert heights / heights.sum() == pytest.approx(np.array(first) / sum(first), abs=0.01)
    assert ["".join(one.itertext()) for one in elements(chart, "li")] == [
        f"right ({sum(first)})",
        f"wrong ({sum(second)})",
    ]


def test_bars_have_the_length_of_their_values() -> None:
    rows = [
        ("a & b: 50", 0.5, 0.4, 0.6, True),
        ("paper: 25", 0.25, None, None, False),
        ("x" * 80 + ": 0", 0.0, 0.0, 0.0, True),
    ]
    chart = charts.bars(rows, title="t")
    inside(chart)
    widths = [float(one.get("width")) for one in elements(chart, "rect")]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    assert widths[2] == 0
    assert len(elements(chart, "path")) == 2
    hollow = [one.get("fill-opacity") == "0" for one in elements(chart, "rect")]
    assert hollow == [False, True, False]
    long = next(one.text for one in elements(chart, "text") if one.text.startswith("xx"))
    assert len(long) == charts.LONGEST
    assert long.endswith("x: 0")


def test_bars_of_negative_numbers_start_at_zero() -> None:
    chart = charts.bars([("a", -0.2, -0.3, -0.1, True), ("b", 0.4, None, None, True)], title="t", fraction=False)
    inside(chart)
    first, second = elements(chart, "rect")
    end = float(first.get("x")) + float(first.get("width"))
    assert end == pytest.approx(float(second.get("x")), abs=0.2)


@given(number, number)
def test_ends_are_round_and_hold_both(one, other) -> None:
    low, high = sorted((one, other))
    start, end, step = charts._nice(low, high)
    assert start <= low + 1e-6 * step
    assert end >= high - 1e-6 * step
    assert 2 <= round((end - start) / step) <= 6
    assert re.fullmatch(r"(1|2|2\.5|5)(0*)", f"{step / 10 ** np.floor(np.log10(step) + 1e-9):.6g}")


def test_ticks() -> None:
    assert charts._tick(0.30000000000000004, True) == "30%"
    assert charts._tick(0.125, True) == "12.5%"
    assert charts._tick(-0.0, False) == "0"
    assert charts._tick(1500, False) == "1500"


def test_drawing_needs_no_plotting_library() -> None:
    code = (
        "import sys, alphita_lab.evaluation.report.page, alphita_lab.evaluation.report.comparison, "
        "alphita_lab.evaluation.report.pictures; "
        "print([m for m in ('matplotlib', 'openTSNE', 'sklearn', 'scipy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
