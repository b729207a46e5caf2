"""Changed files, for every reader: rows, or an error made for users, and nothing else.

A dozen a reader in the quick run; in the slow one the seeds that failed once (seeds.tsv) and as many random ones as
ALPHITA_CHANGED_FILES says. One seed again: python -m tests.faults.changed READER SEED SEED+1.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from alphita.errors import Rejects
from alphita.terminology.store import load_terminology, save
from tests.faults.changed import MAX_BYTES, SEEDS, problem_of, seeds_of
from tests.faults.changing import changed
from tests.faults.readers import SOURCES, Reader, loaded, readers
from tests.faults.writers import Place

QUICK, SLOW = 12, int(os.environ.get("ALPHITA_CHANGED_FILES", "300"))


@pytest.fixture(scope="module")
def every(place: Place) -> dict[str, Reader]:
    return readers(place)


def failures(every: dict[str, Reader], seeds: Callable[[str], list[int]]) -> list[str]:
    found = [(name, seed, problem_of(reader, seed)) for name, reader in every.items() for seed in seeds(name)]
    return [f"{name} {seed}: {problem}" for name, seed, problem in found if problem]


def test_changed_files_give_rows_or_an_error(every: dict[str, Reader]) -> None:
    assert len(every) > 60
    assert not failures(every, lambda name: list(range(QUICK)))


@pytest.mark.slow
def test_many_changed_files_give_rows_or_an_error(every: dict[str, Reader]) -> None:
    rng = random.Random(os.environ.get("ALPHITA_RANDOM_TESTS") and os.urandom(8))
    assert not failures(every, lambda name: [*seeds_of(name), *(rng.randrange(10**6, 10**9) for _ in range(SLOW))])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MAX_BYTES


@pytest.mark.slow
def test_files_without_end_are_not_held() -> None:
    command = [sys.executable, "-m", "tests.faults.changed", "all", "0", "0", "--endless"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-500:]


def test_seeds_name_readers(every: dict[str, Reader]) -> None:
    lines = SEEDS.read_text(encoding="utf-8").splitlines()[1:]
    assert {line.split("\t")[0] for line in lines} <= every.keys()


def test_a_seed_says_what_is_changed() -> None:
    content = b"id\tterm\nX:1\tFever\n" * 9
    found = [changed(content, random.Random(seed)) for seed in range(200)]
    assert found == [changed(content, random.Random(seed)) for seed in range(200)]
    assert len(set(found)) > 150
    assert found.count(content) < 40


def test_unchanged_files_are_read(every: dict[str, Reader], tmp_path: Path) -> None:
    for reader in every.values():
        for file, content in reader.files.items():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_bytes(content)
        reader.read(tmp_path)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()


@pytest.mark.parametrize("name", ["babelon", "loinc", "omop", "products", "snomed_ct", "table"])
def test_columns_may_stand_in_any_order(every: dict[str, Reader], place: Place, name: str, tmp_path: Path) -> None:
    files = every[f"loader-{name}"].files
    assert name in SOURCES

    def terminology(changed: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(_turned(content) if file == changed else content)
        tables = loaded(name, folder, place)
        tables.sources.clear()
        save(tables, folder / "t.terminology", rejects=Rejects())
        return load_terminology(folder / "t.terminology").content_hash

    whole = terminology("")
    assert {file: terminology(file) for file in files} == dict.fromkeys(files, whole)


def _turned(content: bytes) -> bytes:
    """Return a table with its columns in the opposite order."""
    import csv
    import io

    text = content.decode("utf-8-sig")
    tabs = "\t" in text.partition("\n")[0]
    lines = csv.reader(
        io.StringIO(text, newline=""), delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else 0
    )
    rows = [row[::-1] for row in lines]
    if tabs:
        return "".join("\t".join(row) + "\n" for row in rows).encode()
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()
