"""The large input: its strings, how often they occur, their order, and what is refused."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import UsageError
from alphita.terminology.store import load_terminology
from tests.tiny import tiny_terminology

sys.path.append(str(Path(__file__).parents[2] / "bench"))
data = importlib.import_module("cluster_data")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "tiny.terminology"
    tiny_terminology(folder)
    return folder


def make(tiny: Path, out: Path, *more: str) -> int:
    wanted = ["--rows", "3000", "--distinct", "400", "--parts", "7", *more]
    return data.main(["-t", str(tiny), "-o", str(out), *wanted])


def rows_of(folder: Path) -> list[tuple[str, str]]:
    tables = [pq.read_table(file) for file in sorted(folder.iterdir())]
    return [(row["code"], row["mention"]) for table in tables for row in table.to_pylist()]


def test_the_files_hold_what_was_asked_for(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "ROW_GROUP", 100)
    assert make(tiny, tmp_path / "out") == 0
    told = json.loads(capsys.readouterr().out)
    files = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert files == [f"part-{number:05d}.parquet" for number in range(7)]
    assert pq.ParquetFile(tmp_path / "out" / files[0]).metadata.num_row_groups == 5
    rows = rows_of(tmp_path / "out")
    often = Counter(mention for _, mention in rows)
    assert (len(rows), len(often)) == (told["rows"], told["distinct"]) == (3000, 400)
    assert sorted(often.values(), reverse=True) == data.counts(3000, 400, 1.0).tolist()
    assert max(often.values()) == told["most frequent"]
    assert sum(number == 1 for number in often.values()) == told["once"]
    # Equal strings have equal codes, and others have others.
    assert len(set(rows)) == len({code for code, _ in rows}) == 400


def test_terms_stand_among_noisy_ones(tiny, tmp_path):
    make(tiny, tmp_path / "out")
    mentions = {mention for _, mention in rows_of(tmp_path / "out")}
    terms = set(load_terminology(tiny).terms.column("string").to_pylist())
    # A fifth as they stand; noise may make one into another.
    assert len(mentions & terms) >= min(len(terms), 80)
    assert len(mentions - terms) > 250


def test_the_seed_alone_decides(tiny, tmp_path):
    hashes = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        make(tiny, tmp_path / name, "--seed", seed)
        hashes.append([hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted((tmp_path / name).iterdir())])
    assert hashes[0] == hashes[1] != hashes[2]


def test_rows_do_not_depend_on_how_they_are_cut(tiny, tmp_path, monkeypatch):
    make(tiny, tmp_path / "a")
    monkeypatch.setattr(data, "ROW_GROUP", 64)
    make(tiny, tmp_path / "b", "--parts", "2")
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.data(), st.floats(0, 2.5))
def test_counts_follow_zipf(rows, draw, exponent):
    distinct = draw.draw(st.integers(1, rows))
    found = data.counts(rows, distinct, exponent)
    assert found.sum() == rows
    assert found.min() >= 1
    shares = [rank**-exponent for rank in range(1, distinct + 1)]
    for number, share in zip(found.tolist(), shares, strict=True):
        assert abs(number - 1 - (rows - distinct) * share / sum(shares)) < 1 + 1e-6


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.integers(0, 2**31))
def test_the_order_is_a_permutation(size, seed):
    numbers = np.arange(size, dtype=np.uint64)
    places = data.shuffled(numbers, size, seed)
    assert sorted(places.tolist()) == list(range(size))
    # Each alone goes where it goes among all.
    some = numbers[:: max(1, size // 7)]
    assert data.shuffled(some, size, seed).tolist() == places[some].tolist()


def test_the_order_looks_random():
    places = data.shuffled(np.arange(20_000, dtype=np.uint64), 20_000, 3).astype(np.float64)
    assert abs(np.corrcoef(np.arange(20_000), places)[0, 1]) < 0.03
    assert abs(np.corrcoef(places[:-1], places[1:])[0, 1]) < 0.03
    assert np.unique(np.diff(places)).size > 10_000


def test_too_many_distinct_strings_are_refused(monkeypatch):
    monkeypatch.setattr(data, "noisy", lambda text, chance: chance.choice([text, text + "s"]))
    assert sorted(data.distinct_strings(["fever", "cough"], 4, 0)) == ["cough", "coughs", "fever", "fevers"]
    with pytest.raises(UsageError, match="--distinct 5: noise makes no more than 4 of 2 terms"):
        data.distinct_strings(["fever", "cough"], 5, 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--distinct", "4000"], "--distinct 4000"), (["--distinct", "0"], "--distinct 0"),
        (["--parts", "0"], "--parts 0"), (["--exponent", "-1"], "--exponent -1"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(tiny, tmp_path, capsys, more, words):
    assert make(tiny, tmp_path / "out", *more) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_stays(tiny, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    assert make(tiny, tmp_path / "out") == 2
    assert "it is there already" in capsys.readouterr().err
