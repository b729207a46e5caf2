from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest

from alphita.evaluation.plots import COLOURS, MARKERS, choose_concepts, synonym_map


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


def test_twelve_colours_and_markers_differ() -> None:
    assert len(set(COLOURS)) == len(set(MARKERS)) == 12


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
    first = synonym_map(before, after, concept, names, out)
    assert first[0] == pytest.approx(silhouette_score(before, concept, metric="cosine"))
    assert first[1] > 0.8 > first[0] + 0.3
    data = out.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (1600, 912)
    # The same input gives the same picture.
    synonym_map(before, after, concept, names, tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == data


def test_wrong_use_is_named(tmp_path) -> None:
    vectors, concept = toy(3, 4, 0.5)
    out = tmp_path / "map.png"
    with pytest.raises(ValueError, match="got 1 concepts and 12 terms"):
        synonym_map(vectors, vectors, np.zeros(12, int), ["one"], out)
    with pytest.raises(ValueError, match="got 13 concepts"):
        synonym_map(vectors, vectors, concept, [str(number) for number in range(13)], out)
    with pytest.raises(ValueError, match="got 4 concepts"):
        synonym_map(vectors, vectors, concept, list("abcd"), out)
    assert list(tmp_path.iterdir()) == []


def test_importing_needs_no_plotting_library() -> None:
    code = "import sys, alphita.evaluation.plots, alphita.evaluation.metrics, alphita.evaluation.report; " \
           "print([m for m in ('matplotlib', 'openTSNE', 'sklearn', 'torch') if m in sys.modules])"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
