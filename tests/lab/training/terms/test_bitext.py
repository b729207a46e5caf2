from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.training.terms import bitext
from alphita_lab.training.terms.bitext import mine, mine_strings
from tests.doubles import HashEncoder


def naive(source: np.ndarray, target: np.ndarray, k: int) -> dict[tuple[int, int], float]:
    """Artetxe and Schwenk 2019, equations 1 to 3 and "intersection", pair by pair in float64."""

    def cos(a: np.ndarray, b: np.ndarray) -> float:
        dot = sum(float(p) * float(q) for p, q in zip(a, b, strict=True))
        return dot / math.sqrt(sum(float(p) ** 2 for p in a)) / math.sqrt(sum(float(q) ** 2 for q in b))

    def nearest(x: np.ndarray, among: np.ndarray) -> list[int]:
        return sorted(range(len(among)), key=lambda row: (-cos(x, among[row]), row))[:k]

    def mean(x: np.ndarray, among: np.ndarray) -> float:
        found = nearest(x, among)
        return sum(cos(x, among[row]) for row in found) / len(found)

    def margin(x: int, y: int) -> float:
        a = cos(source[x], target[y])
        b = (mean(source[x], target) + mean(target[y], source)) / 2
        return a / b if b > 0 else -math.inf

    best_target = {x: max(nearest(source[x], target), key=lambda y: margin(x, y)) for x in range(len(source))}
    best_source = {y: max(nearest(target[y], source), key=lambda x: margin(x, y)) for y in range(len(target))}
    return {(x, y): margin(x, y) for x, y in best_target.items() if best_source[y] == x and margin(x, y) > -math.inf}


def drawn(seed: int, n: int, m: int, dim: int, mean: float) -> tuple[np.ndarray, np.ndarray]:
    """Vectors about a common mean, so that cosines are mostly above 0; the targets are near some of the sources."""
    rng = np.random.default_rng(seed)
    source = rng.normal(mean, 1, (n, dim))
    target = source[rng.integers(0, n, m)] + rng.normal(0, 0.7, (m, dim))
    return source.astype(np.float32), target.astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 12),
    m=st.integers(1, 12),
    k=st.integers(1, 6),
    mean=st.sampled_from([0.0, 0.5]),
)
def test_mined_pairs_are_those_of_the_equations(seed: int, n: int, m: int, k: int, mean: float) -> None:
    source, target = drawn(seed, n, m, 5, mean)
    expected = naive(source, target, k)
    rows, margins = mine(source, target, k=k)
    assert [tuple(row) for row in rows.tolist()] == sorted(expected)
    np.testing.assert_allclose(margins, [expected[tuple(row)] for row in rows.tolist()], rtol=1e-3, atol=1e-5)


def test_blocks_give_what_one_search_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = drawn(0, 50, 60, 8, 0.4)
    rows, margins = mine(source, target)
    monkeypatch.setattr(bitext, "QUERIES_AT_ONCE", 7)
    again, margins_again = mine(source, target)
    np.testing.assert_array_equal(rows, again)
    np.testing.assert_allclose(margins, margins_again, rtol=1e-5)


def test_the_threshold_keeps_what_reaches_it() -> None:
    source, target = drawn(3, 40, 40, 8, 0.4)
    rows, margins = mine(source, target)
    threshold = float(np.sort(margins)[len(margins) // 2])
    kept, kept_margins = mine(source, target, threshold=threshold)
    assert 0 < len(kept) < len(rows)
    np.testing.assert_array_equal(kept, rows[margins >= threshold])
    np.testing.assert_array_equal(kept_margins, margins[margins >= threshold])


def test_a_hub_is_passed_over_for_a_true_neighbour() -> None:
    """Target 0 is near to every source; by cosine source 0 would be given it, by margin it gets its translation."""
    hub = np.array([1.0, 0, 0, 0])
    source = np.array([[1, 0.5, 0, 0], [1, 0, 0.5, 0], [1, 0, 0, 0.5]])
    target = np.array([hub, [0.55, 0.85, 0, 0], [0.55, 0, 0.85, 0], [0.55, 0, 0, 0.85]])
    source, target = source.astype(np.float32), target.astype(np.float32)
    cosines = bitext.unit(source) @ bitext.unit(target).T
    assert (cosines.argmax(1) == 0).all()
    assert mine(source, target, k=4)[0].tolist() == [[0, 1], [1, 2], [2, 3]]


def test_nothing_comes_of_nothing() -> None:
    some, none = np.ones((3, 4), np.float32), np.empty((0, 4), np.float32)
    for source, target in ((some, none), (none, some), (none, none)):
        rows, margins = mine(source, target)
        assert rows.shape == (0, 2)
        assert margins.shape == (0,)
    assert len(mine(some, -some)[0]) == 0  # all cosines are -1: a ratio to their mean would be 1
    assert len(mine(np.zeros((2, 4), np.float32), some)[0]) == 0


SOURCES = ["Cardiomyopathy", "Hypertension", "Nephropathy", "Pica", "cardiomyopathy", "Gene TP53 loss", ""]
TARGETS = ["Cardiomiopatia", "Ipertensione", "Nefropatia", "Pica", "Perdita del gene TP53", "  "]


def test_strings_are_mined_cleaned_once_and_checked() -> None:
    pairs, margins = mine_strings(HashEncoder(dim=256), SOURCES, TARGETS, "it")
    found = dict(zip(pairs.sources, pairs.translations, strict=True))
    assert found["cardiomyopathy"] == "cardiomiopatia"
    assert found["hypertension"] == "ipertensione"
    assert "pica" not in found  # its own translation, which says nothing
    assert pairs.counts == {"translation equal to its source": 1}
    assert pairs.languages == ["it"]
    assert pairs.origins == ["mined"]
    assert (pairs.concepts == -1).all()
    assert len(margins) == len(pairs)
    assert (np.diff(margins) <= 0).all()
    fewer, _ = mine_strings(HashEncoder(dim=256), SOURCES, TARGETS, "it", threshold=float(margins[0]))
    assert len(fewer) == 1


def test_held_out_strings_take_no_part() -> None:
    pairs, _ = mine_strings(HashEncoder(dim=256), SOURCES, TARGETS, "it", exclude=frozenset({"cardiomiopatia"}))
    assert "cardiomiopatia" not in pairs.translations
    encoder = HashEncoder()
    mine_strings(encoder, SOURCES, TARGETS, "it", exclude=frozenset({"nephropathy"}))
    assert "nephropathy" not in encoder.encoded


def test_strings_of_another_script_are_refused() -> None:
    pairs, _ = mine_strings(HashEncoder(dim=256), SOURCES, TARGETS, "ru")
    assert len(pairs) == 0
    assert pairs.counts["translation in a script that its language does not use"] >= 3
