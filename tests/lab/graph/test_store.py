"""Saved vectors: written, opened, looked up, compared, and refused where they do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita_lab.graph.store import EntityVectors
from tests.lab.graph.graphs import ring


def sample(ids=("R:000", "R:002", "R:003"), d: int = 4) -> EntityVectors:
    rng = np.random.default_rng(1)
    return EntityVectors(
        list(ids),
        rng.normal(size=(len(ids), d)).astype(np.float32),
        ["far", "next"],
        rng.normal(size=(2, d)).astype(np.float32),
        "complex",
        {"figures": {"test": {"MRR": 0.25}}},
    )


def test_saved_and_opened(tmp_path: Path) -> None:
    one = sample()
    one.save(tmp_path / "x.vectors")
    two = EntityVectors.load(tmp_path / "x.vectors")
    assert (two.ids, two.relations, two.model, two.facts) == (one.ids, one.relations, "complex", one.facts)
    assert (two.dim, len(two)) == (4, 3)
    assert np.array_equal(two.vectors, one.vectors)
    assert np.array_equal(two.relation_vectors, one.relation_vectors)
    assert two.vectors.dtype == np.float32
    with pytest.raises(UsageError, match="already exists"):
        one.save(tmp_path / "x.vectors")
    one.save(tmp_path / "x.vectors", force=True)


def test_rows_and_cosines() -> None:
    one = sample()
    rows = one.rows(["R:003", "nothing", "R:000", "R:003"])
    assert rows.tolist() == [2, -1, 0, 2]
    assert one.rows([]).shape == (0,)
    found = one.cosine(rows, [0, 1, -1])
    vectors = one.vectors.astype(np.float64)
    for i, left in enumerate(rows):
        for j, right in enumerate([0, 1, -1]):
            if left < 0 or right < 0:
                assert np.isnan(found[i, j])
            else:
                a, b = vectors[left], vectors[right]
                assert found[i, j] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    one.vectors[1] = 0
    assert one.cosine([1], [0, 1]).tolist() == [[0, 0]]


def test_rows_of_a_terminology(graph) -> None:
    rows, missing = sample().rows_of_terminology(graph)
    assert rows.shape == (graph.n_concepts,)
    assert {graph.concept_id(row): int(rows[row]) for row in np.flatnonzero(rows >= 0)} == {
        "R:000": 0,
        "R:002": 1,
        "R:003": 2,
    }
    assert missing == 41 - 3
    with pytest.raises(InputError, match=r"none of the 2 concepts of these vectors is in .*ring"):
        sample(("X:1", "X:2")).rows_of_terminology(graph)


def test_a_merged_concept_gives_its_vector_unless_there_is_an_own_one(tmp_path: Path) -> None:
    merged = ring(tmp_path / "ring.terminology", n=12, aliases={"R:merged": "R:005", "A:merged": "R:002"})
    rows, _ = sample(("A:merged", "R:002", "R:merged")).rows_of_terminology(merged)
    assert rows[merged.resolve("R:005")] == 2
    assert rows[merged.resolve("R:002")] == 1


def test_a_scorer_needs_all_of_them() -> None:
    one = sample()
    assert one.scorer(["R:003", "R:000"], ["next"]).score_tails(np.array([0]), np.array([0])).shape == (1, 2)
    with pytest.raises(InputError, match=r"1 of 2 entities have no vector.*value 'R:777'"):
        one.scorer(["R:003", "R:777"], ["next"])
    with pytest.raises(InputError, match=r"this relation has no vector.*value 'skips'"):
        one.scorer(["R:003"], ["next", "skips"])


def test_what_is_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.vectors"
    sample().save(path)
    with pytest.raises(InputError, match="no such graph_vectors"):
        EntityVectors.load(tmp_path / "none")
    ring(tmp_path / "r.terminology")
    with pytest.raises(InputError, match="is a terminology, but a graph_vectors is needed"):
        EntityVectors.load(tmp_path / "r.terminology")
    for ids in (("R:002", "R:000", "R:003"), ("R:000", "R:000", "R:003")):
        with pytest.raises(InputError, match="not sorted, or one stands twice"):
            sample(ids).save(tmp_path / "y.vectors")
    with pytest.raises(InputError, match="names and rows do not fit"):
        EntityVectors(["R:0"], sample().vectors, ["a", "b"], sample().relation_vectors, "transe").save(tmp_path / "y")
    odd = sample()
    odd.vectors[0, 0] = np.nan
    with pytest.raises(InputError, match="not finite: the training diverged"):
        odd.save(tmp_path / "y.vectors")
    assert not (tmp_path / "y.vectors").exists()


def test_a_pickled_array_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As one who makes a manifest of his own would have it.
    monkeypatch.setattr(artefact, "verify", artefact.open_manifest)
    path = tmp_path / "x.vectors"
    sample().save(path)
    size = (path / "vectors.npy").stat().st_size
    np.save(path / "vectors.npy", np.array([{}], object), allow_pickle=True)
    content = (path / "vectors.npy").read_bytes()
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["files"]["vectors.npy"]["size"] == size
    (path / "vectors.npy").write_bytes(content.ljust(size, b"\0")[:size])
    with pytest.raises(InputError, match="damaged vectors"):
        EntityVectors.load(path)
