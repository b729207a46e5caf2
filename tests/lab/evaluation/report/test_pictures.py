from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from alphita_lab.evaluation.report.pictures import chapters, choose_concepts, term_maps, type_maps


def test_concepts_are_chosen_among_those_with_most_terms() -> None:
    n_terms = np.array([9, 5, 6, 7, 30, 1, 8, 6, 12])
    assert choose_concepts(n_terms, number=3, seed=1).tolist() == sorted(choose_concepts(n_terms, number=3, seed=1))
    for seed in range(20):
        chosen = choose_concepts(n_terms, number=3, seed=seed)
        assert len(set(chosen.tolist())) == 3
        assert (n_terms[chosen] >= 6).all()
    assert len({tuple(choose_concepts(n_terms, number=3, seed=seed)) for seed in range(20)}) > 3
    assert choose_concepts(n_terms, number=12).tolist() == [0, 2, 3, 4, 6, 7, 8]
    # Only the 10 * number richest are looked at.
    many = np.arange(6, 106)
    assert all((many[choose_concepts(many, number=2, seed=seed)] >= 86).all() for seed in range(20))


def toy(concepts: int, terms: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    concept = np.repeat(np.arange(concepts), terms)
    centres = rng.normal(size=(concepts, 16))
    return (centres[concept] + spread * rng.normal(size=(len(concept), 16))).astype(np.float32), concept


def test_draws_a_png_and_returns_the_silhouettes(tmp_path) -> None:
    from sklearn.metrics import silhouette_score

    before, concept = toy(12, 6, 1.5)
    after, _ = toy(12, 6, 0.2)
    out = tmp_path / "map.png"
    names = [f"Concept {number} of $ and a name much too long for the legend" for number in range(12)]
    scores = term_maps({"before": before, "after": after}, concept, names, out)
    assert scores["before"] == pytest.approx(silhouette_score(before, concept, metric="cosine"))
    assert scores["after"] > 0.8 > scores["before"] + 0.3
    data = out.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (1600, 912)
    # The same input gives the same picture.
    term_maps({"before": before, "after": after}, concept, names, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == data


def test_several_encoders_side_by_side(tmp_path) -> None:
    near, concept = toy(3, 6, 0.2)
    encoders = {"near $": near, "far": toy(3, 6, 2.0)[0], "wider": np.hstack([near, near])}
    out = tmp_path / "maps.png"
    scores = term_maps(encoders, concept, ["one", "two", "three"], out)
    assert list(scores) == list(encoders)
    assert scores["wider"] == pytest.approx(scores["near $"], abs=1e-5)
    assert scores["near $"] > scores["far"]
    assert struct.unpack(">II", out.read_bytes()[16:24]) == (2400, 912)


def test_concepts_by_type(tmp_path) -> None:
    vectors, label = toy(13, 8, 0.2)
    kinds = [None if one == 3 and place % 2 else f"type {one}" for place, one in enumerate(label)]
    unknown = vectors.copy()
    unknown[:5] = np.nan
    out = tmp_path / "types.png"
    encoders = dict.fromkeys("abcd", vectors) | {"e": unknown}
    scores = type_maps(encoders, kinds, out)
    # Type 0 has 3 concepts that all know and type 3 has 4: the twelve commonest are all but 0.
    from sklearn.metrics import silhouette_score

    rows = [row for row, kind in enumerate(kinds) if kind not in (None, "type 0")]
    expected = silhouette_score(vectors[rows], label[rows], metric="cosine")
    assert scores == pytest.approx(dict.fromkeys(encoders, expected))
    assert struct.unpack(">II", out.read_bytes()[16:24]) == (2400, round((2 * 4.446 + 1.254) * 160))
    fewer = type_maps({"a": vectors, "b": vectors}, kinds, out, most=2)
    assert fewer["a"] == fewer["b"] != scores["a"]


VECTORS, CONCEPT = toy(3, 4, 0.5)
TWO = {"a": VECTORS, "b": VECTORS}


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        (lambda out: term_maps(TWO, np.zeros(12, int), ["one"], out), "got 1 concepts and 12 terms"),
        (lambda out: term_maps(TWO, CONCEPT, [str(number) for number in range(13)], out), "got 13 concepts"),
        (lambda out: term_maps(TWO, CONCEPT, list("abcd"), out), "got 4 concepts"),
        (lambda out: term_maps({"a": VECTORS}, CONCEPT, list("abc"), out), "2 encoders or more, not 1"),
        (lambda out: term_maps(TWO | {"b": VECTORS[1:]}, CONCEPT, list("abc"), out), "'b' has 11 vectors for 12"),
        (lambda out: type_maps(TWO, ["t"] * 12, out), "got 1 concepts"),
    ],
)
def test_wrong_use_is_named(tmp_path, draw, problem) -> None:
    with pytest.raises(ValueError, match=problem):
        draw(tmp_path / "map.png")
    assert list(tmp_path.iterdir()) == []


def test_chapters_are_the_topmost_ancestors() -> None:
    # 0 and 1 are at the top; 2 is below 1; 3 below 2; 4 below 3 and 0.
    parents = {0: [], 1: [], 2: [1], 3: [2], 4: [3, 0]}
    ancestors = {0: [], 1: [], 2: [1], 3: [1, 2], 4: [0, 1, 2, 3]}
    names = pa.array(["top", "other top", "two", "three", "four"])
    chain = SimpleNamespace(concept_names=names, parents=parents.get, ancestors=ancestors.get)
    assert chapters(chain, [0, 1, 2, 3, 4]) == [None, None, "other top", "other top", "top"]
