"""What is kept of an index: found once, again if the code or the index is another, and without a cache each time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alphita import machine
from alphita.index import kept as module
from alphita.index.kept import kept
from alphita.mention.axes import PAST, Habits

CODE = ("index/kept.py",)


@pytest.fixture
def asked(monkeypatch, tmp_path):
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "FROM_STRINGS", 3)
    return []


def index(hashed="a", size=3):
    return SimpleNamespace(index_hash=hashed, strings=range(size))


def found(asked):
    asked.append(1)
    return {"rows": np.arange(4), "text": np.array("é")}


def test_it_is_found_once_for_an_index(asked):
    first = kept(index(), "some", CODE, lambda: found(asked))
    again = kept(index(), "some", CODE, lambda: found(asked))
    assert len(asked) == 1
    np.testing.assert_array_equal(again["rows"], first["rows"])
    assert str(again["text"]) == "é"
    for other in ((index("b"), "some", CODE), (index(), "other", CODE), (index(), "some", ("errors.py",))):
        kept(*other, lambda: found(asked))
    assert len(asked) == 4


def test_a_damaged_file_is_found_again_and_a_small_index_keeps_nothing(asked):
    kept(index(), "some", CODE, lambda: found(asked))
    (file,) = (machine.cache_dir() / "derived").iterdir()
    file.write_bytes(b"PK damaged")
    assert kept(index(), "some", CODE, lambda: found(asked))["rows"].tolist() == [0, 1, 2, 3]
    kept(index("small", 2), "some", CODE, lambda: found(asked))
    assert len(asked) == 3
    assert len(list((machine.cache_dir() / "derived").iterdir())) == 1


def test_without_a_folder_for_it_nothing_is_kept(asked):
    machine.cache_dir().parent.mkdir(exist_ok=True)
    machine.cache_dir().write_text("no folder")
    for _ in range(2):
        kept(index(), "some", CODE, lambda: found(asked))
    assert len(asked) == 2


@pytest.mark.parametrize(
    "habits",
    [
        Habits(),
        Habits(True, None, True, {PAST: "personal history of"}, {"a": ("a nos",)}),
        Habits(sided=frozenset("ba")),
    ],
)
def test_habits_come_back(habits):
    assert Habits.of_json(habits.as_json()) == habits
