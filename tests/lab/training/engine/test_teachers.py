"""A teacher's vectors on disk: made once, whole, and only those that are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from alphita.errors import InputError
from alphita_lab.training.engine import teachers
from tests.doubles import HashEncoder

NAMES = [f"name {number}" for number in range(23)]


@pytest.fixture(autouse=True)
def blocks(monkeypatch) -> None:
    monkeypatch.setattr(teachers, "AT_ONCE", 5)


class Long(HashEncoder):
    """Gives vectors that are not of length 1."""

    def encode(self, strings: list[str]) -> np.ndarray:
        return 3 * super().encode(strings)


def test_vectors_are_the_teachers_own_or_at_length_1(tmp_path: Path) -> None:
    teacher = Long()
    teachers.encode(teacher, NAMES, tmp_path / "own")  # type: ignore[arg-type]
    own = teachers.read(tmp_path / "own")
    assert (own.dtype, own.shape) == (np.float32, (23, 64))
    np.testing.assert_array_equal(own, teacher.encode(NAMES))
    teachers.encode(teacher, NAMES, tmp_path / "unit", unit=True)  # type: ignore[arg-type]
    np.testing.assert_allclose(teachers.read(tmp_path / "unit"), own / 3, atol=1e-6)


@pytest.mark.parametrize("killed_after", [0, 1, 3, 5])
def test_only_what_is_lacking_is_made(tmp_path: Path, killed_after: int) -> None:
    class Killed(HashEncoder):
        def encode(self, strings: list[str]) -> np.ndarray:
            if len(self.encoded) >= 5 * killed_after:
                raise KeyboardInterrupt
            return super().encode(strings)

    if killed_after < 5:
        with pytest.raises(KeyboardInterrupt):
            teachers.encode(Killed(), NAMES, tmp_path)  # type: ignore[arg-type]
    else:
        teachers.encode(Killed(), NAMES, tmp_path)  # type: ignore[arg-type]
    again = HashEncoder()
    teachers.encode(again, NAMES, tmp_path)  # type: ignore[arg-type]
    assert again.encoded == NAMES[5 * killed_after :]
    np.testing.assert_array_equal(teachers.read(tmp_path), HashEncoder().encode(NAMES))


def test_a_block_that_was_not_noted_is_made_again(tmp_path: Path) -> None:
    """A kill between the vectors and the note leaves bytes that nothing relies on."""
    teachers.encode(HashEncoder(), NAMES, tmp_path)  # type: ignore[arg-type]
    note = json.loads((tmp_path / "teacher.json").read_text())
    (tmp_path / "teacher.json").write_text(json.dumps(note | {"done": 10}))
    found = np.load(tmp_path / "teacher.npy", mmap_mode="r+")
    found[10:] = 7
    found.flush()
    teachers.encode(HashEncoder(), NAMES, tmp_path)  # type: ignore[arg-type]
    np.testing.assert_array_equal(teachers.read(tmp_path), HashEncoder().encode(NAMES))


@pytest.mark.parametrize(
    ("teacher", "names", "unit"),
    [(HashEncoder(seed=1), NAMES, False), (HashEncoder(), NAMES[1:], False), (HashEncoder(), NAMES, True)],
)
def test_vectors_of_something_else_are_refused(
    tmp_path: Path, teacher: HashEncoder, names: list[str], unit: bool
) -> None:
    teachers.encode(HashEncoder(), NAMES, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="another recipe, config, encoder, teacher"):
        teachers.encode(teacher, names, tmp_path, unit=unit)  # type: ignore[arg-type]
    np.testing.assert_array_equal(teachers.read(tmp_path), HashEncoder().encode(NAMES))


def test_the_time_is_told_from_a_sample() -> None:
    teacher = HashEncoder()
    assert teachers.seconds(teacher, NAMES * 100) > 0  # type: ignore[arg-type]
    assert len(teacher.encoded) < 600
