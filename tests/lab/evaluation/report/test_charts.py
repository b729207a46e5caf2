"""Charts: nothing is drawn outside, whatever the numbers; what they look like stands in the golden of the pages."""

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
SIDES = (("x", 2), ("y", 3), ("cx", 2), ("cy", 3), ("x1", 2), ("y2", 3))


def elements(chart: str, tag: str) -> list[ElementTree.Element]:
    """Return the elements of a chart, nothing of which lies outside the drawing; it is read as XML."""
    figure = ElementTree.fromstring(chart)
    drawing = figure.find("svg")
    size = [float(one) + 0.1 for one in drawing.get("viewBox").split()]
    for one in drawing.iter():
        for axis, side in SIDES:
            assert one.get(axis) is None or -0.1 <= float(one.get(axis)) <= size[side]
        assert ((places(one) >= -0.1) & (places(one) <= size[2:])).all()
    return list(figure.iter(tag))


def places(shape: ElementTree.Element) -> np.ndarray:
    pairs = (shape.get("points") or "").split()
    return np.array([[float(part) for part in pair.split(",")] for pair in pairs]).reshape(-1, 2)


@given(st.lists(st.tuples(number, number), min_size=1, max_size=20))
def test_lines_stay_inside_and_keep_their_order(points) -> None:
    xs, ys = np.array(points).T
    (line,) = elements(
        charts.lines({"one": (xs.tolist(), ys.tolist())}, title="t", x_label="x", y_label="y"), "polyline"
    )
    steps = np.diff(places(line), axis=0)
    # Greater is higher, i.e. nearer to the top, up to the rounding of the drawing.
    assert (steps[np.diff(xs) > 0, 0] >= 0).all()
    assert (steps[np.diff(ys) > 0, 1] <= 0).all()


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.lists(st.integers(0, 50), min_size=4, max_size=4))
def test_histograms_are_shares(first, second) -> None:
    counts = {"right": first, "wrong": second}
    left, _ = elements(charts.histogram([0, 0.25, 0.5, 0.75, 1], counts, title="t", x_label="similarity"), "polygon")
    heights = places(left)[0, 1] - places(left)[1:-1:2, 1]
    if sum(first):
        assert heights / heights.sum() == pytest.approx(np.array(first) / sum(first), abs=0.01)


def test_bars_of_negative_numbers_start_at_zero() -> None:
    rows = [("a", -0.2, -0.3, -0.1, True), ("b", 0.4, None, None, True), ("x" * 80 + ": 0", 0.0, 0.0, 0.0, True)]
    chart = charts.bars(rows, title="t", fraction=False)
    first, second, none = elements(chart, "rect")
    assert float(first.get("x")) + float(first.get("width")) == pytest.approx(float(second.get("x")), abs=0.2)
    assert float(none.get("width")) == 0
    long = next(one.text for one in elements(chart, "text") if one.text.startswith("xx"))
    assert (len(long), long[-4:]) == (charts.LONGEST, "x: 0")


@given(number, number)
def test_ends_are_round_and_hold_both(one, other) -> None:
    low, high = sorted((one, other))
    start, end, step = charts._nice(low, high)
    assert start <= low + 1e-6 * step
    assert end >= high - 1e-6 * step
    assert 2 <= round((end - start) / step) <= 6
    assert re.fullmatch(r"(1|2|2\.5|5)(0*)", f"{step / 10 ** np.floor(np.log10(step) + 1e-9):.6g}")


def test_drawing_needs_no_plotting_library() -> None:
    code = (
        "import sys, alphita_lab.evaluation.report.comparison, alphita_lab.evaluation.report.pictures; "
        "print([m for m in ('matplotlib', 'openTSNE', 'sklearn', 'scipy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
