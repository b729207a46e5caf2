from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita_lab.training.mentions import sampler as mention_index
from alphita_lab.training.mentions.sampler import NONE, HardNegatives


class Table:
    """Vectors of rows; counts the rows that are asked for."""

    def __init__(self, table: np.ndarray) -> None:
        self.table, self.encoded = table.astype(np.float32), 0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        self.encoded += len(rows)
        return self.table[rows]


def by_loops(table: np.ndarray, concepts: np.ndarray, prototype: int, wanted: int) -> list[int]:
    """The rows of other concepts by cosine, in float64; equals by number; NONE where there are no more."""
    unit = [row / np.sqrt(row @ row) for row in table.astype(float)]
    others = [row for row in range(len(table)) if concepts[row] != concepts[prototype]]
    near = sorted(others, key=lambda row: (-float(unit[prototype] @ unit[row]), row))[:wanted]
    return near + [NONE] * (wanted - len(near))


def searched(table, concepts, prototypes, wanted, folder, exact_up_to=10_000) -> HardNegatives:
    index = HardNegatives(concepts, wanted, folder, exact_up_to=exact_up_to)
    index.refresh(0, np.asarray(prototypes), Table(table))
    return index


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 60), kinds=st.integers(1, 9), wanted=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_negatives_are_the_nearest_of_other_concepts(tmp_path_factory, n, kinds, wanted, seed) -> None:
    """Of concepts of unlike sizes, one of which may be all there is; in small blocks of rows and of prototypes."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 8)) * rng.uniform(0.1, 50, (n, 1))
    concepts = rng.integers(0, kinds, n) ** 2
    prototypes = rng.permutation(n)[: rng.integers(1, n + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mention_index, "ROWS_AT_ONCE", 7)
        patch.setattr(mention_index, "FOUND_AT_ONCE", 60)
        index = searched(table, concepts, prototypes, wanted, tmp_path_factory.mktemp("mined"))
    found = index.of(prototypes)
    assert found.dtype == np.int32
    assert found.tolist() == [by_loops(table, concepts, prototype, wanted) for prototype in prototypes.tolist()]


def test_mentions_of_the_own_concept_do_not_crowd_others_out(tmp_path: Path) -> None:
    """All of the forty of a prototype's concept are nearer to it than any other row."""
    rng = np.random.default_rng(0)
    centres = np.eye(8)[[0] * 40 + [1, 2, 3]]
    concepts = np.array([0] * 40 + [1, 2, 3])
    table = centres + 0.01 * rng.normal(size=centres.shape)
    found = searched(table, concepts, [5], 3, tmp_path).of(np.array([5]))
    assert sorted(found[0].tolist()) == [40, 41, 42]


def test_a_resumed_run_reads_what_was_found_and_does_not_encode(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    early, late = rng.normal(size=(2, 50, 8))
    concepts = np.arange(50) // 3
    prototypes = np.arange(0, 50, 2)
    before = searched(early, concepts, prototypes, 4, tmp_path)
    resumed, moved_on = HardNegatives(concepts, 4, tmp_path, exact_up_to=1000), Table(late)
    resumed.refresh(0, prototypes, moved_on)
    assert moved_on.encoded == 0
    np.testing.assert_array_equal(resumed.of(prototypes), before.of(prototypes))
    others = np.array([31, 4, 4, 7])
    resumed.refresh(20, others, moved_on, needed_from=20)
    assert (moved_on.encoded, resumed.step) == (50, 20)
    assert resumed.of(others).tolist() == [by_loops(late, concepts, row, 4) for row in others.tolist()]
    assert [path.name for path in tmp_path.iterdir()] == ["negatives-00000020.npy"]
    with pytest.raises(InputError, match="found at step 0 are gone") as error:
        resumed.refresh(0, prototypes, None)
    assert error.value.remedy
    with pytest.raises(InputError, match="negatives of 3 prototypes, and not of the 25") as error:
        resumed.refresh(20, prototypes, moved_on)
    assert error.value.remedy


def test_a_search_that_was_cut_leaves_nothing(tmp_path: Path) -> None:
    index = HardNegatives(np.arange(9), 2, tmp_path, exact_up_to=100)

    def cut(rows: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.refresh(0, np.arange(9), cut)
    assert list(tmp_path.iterdir()) == []
    assert index.step == -1


def test_many_rows_are_searched_approximately(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(60, 16))
    concepts = rng.integers(0, 60, 800)
    table = centres[concepts] + 0.3 * rng.normal(size=(800, 16))
    prototypes = np.arange(0, 800, 16)
    found = searched(table, concepts, prototypes, 5, tmp_path, exact_up_to=10).of(prototypes)
    assert (concepts[found] != concepts[prototypes][:, None]).all()
    expected = [by_loops(table, concepts, prototype, 5) for prototype in prototypes.tolist()]
    assert np.mean([len({*a} & {*b}) / 5 for a, b in zip(found.tolist(), expected, strict=True)]) > 0.9


def test_guesses_have_the_size_of_findings_and_touch_no_disk(tmp_path: Path) -> None:
    index = HardNegatives(np.arange(40), 5, tmp_path / "none", exact_up_to=100)
    index.guess(np.array([3, 17]))
    found = index.of(np.array([17, 3, 3]))
    assert found.shape == (3, 5)
    assert 0 <= found.min() <= found.max() < 40
    assert not (tmp_path / "none").exists()
