"""One index on other machines: one core, 2 GB, older instructions, torch that cannot be loaded. The same answers."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from alphita.index.backends import _rounded
from alphita.index.backends.faiss import ROUNDED_FROM, FaissBackend

NAMES = [
    *("seizure", "epileptic fit", "febrile seizure", "migraine", "migraine with aura", "heart attack"),
    *("myocardial infarction", "angina pectoris", "chest pain", "back pain", "low back pain", "type 2 diabetes"),
]
MENTIONS = [
    "seizures",
    "fits of epilepsy",
    "hart attack",
    "pain in the lower back",
    "T2DM",
    "Migraine",
    "no such thing",
]
BEFORE = """
import os, resource, sys
machine = sys.argv.pop(1)
if machine == "one core":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
elif machine == "2 GB":
    resource.setrlimit(resource.RLIMIT_DATA, (2 * 2**30, 2 * 2**30))
elif machine.endswith("MB of addresses"):
    resource.setrlimit(resource.RLIMIT_AS, (int(machine.split()[0]) * 2**20,) * 2)
from alphita.cli import main
main()
"""
# What FAISS, torch and NumPy's OpenBLAS would do on a processor of 2008 to 2013.
OLDER = {"FAISS_OPT_LEVEL": "generic", "ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Haswell"}


def tried(machine: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line as on a machine."""
    environment = os.environ | (OLDER if machine == "older instructions" else {})
    command = [sys.executable, "-c", BEFORE, machine, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def alphita(machine: str, *arguments: str | Path) -> None:
    """Run it, and see that all went well."""
    done = tried(machine, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("machines")
    lines = "".join(f"T:{number // 2}\t{name}\n" for number, name in enumerate(NAMES))
    (folder / "names.tsv").write_text("concept_id\tterm\n" + lines, encoding="utf-8")
    (folder / "mentions.txt").write_text("".join(f"{mention}\n" for mention in MENTIONS), encoding="utf-8")
    alphita("this one", "index", folder / "names.tsv", "-o", folder / "x.index")
    return folder / "x.index"


def answers(index: Path, machine: str, out: Path) -> list[tuple[str, ...]]:
    """Return mention, concept, method, decision, and the confidence, of which the last bits may differ."""
    alphita(machine, "normalize", index.with_name("mentions.txt"), "--index", index, "-o", out)
    with open(out, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["mention"] for row in rows] == MENTIONS
    names = ("mention", "concept_id", "method", "decision")
    return [(*(row[name] for name in names), f"{float(row['confidence'] or 0):.3f}") for row in rows]


@pytest.fixture(scope="module")
def here(index) -> list[tuple[str, ...]]:
    found = answers(index, "this one", index.with_name("here.csv"))
    assert any(concept for _, concept, *_ in found)
    return found


@pytest.mark.parametrize("machine", ["one core", "2 GB", "2000 MB of addresses", "older instructions"])
def test_another_machine_gives_the_same_answers(index, here, machine, tmp_path) -> None:
    assert answers(index, machine, tmp_path / "there.csv") == here


def told(megabytes: int, *arguments: str | Path) -> str:
    """Return the one error that a command with so many addresses ends with."""
    done = tried(f"{megabytes} MB of addresses", *arguments)
    assert done.returncode == 1, (megabytes, done.stderr)
    errors = [line for line in done.stderr.splitlines() if not line.startswith(("Looking for", "Encoding"))]
    assert len(errors) == 1, (megabytes, done.stderr)
    return errors[0]


@pytest.mark.parametrize("megabytes", [300, 599])
def test_too_few_addresses_are_told_before_a_library_is_loaded(index, megabytes, tmp_path) -> None:
    for command in (
        ("index", index.with_name("names.tsv")),
        ("normalize", index.with_name("mentions.txt"), "--to", index),
    ):
        error = told(megabytes, *command, "-o", tmp_path / "out")
        assert error.startswith(f"error: this process may have {megabytes} MB of memory (ulimit -v, -d)")
        assert error.endswith("ulimit -v unlimited -d unlimited")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", range(600, 1400, 100))
def test_too_few_addresses_for_a_model_are_one_line(index, megabytes, tmp_path) -> None:
    for command in (
        ("index", index.with_name("names.tsv")),
        ("normalize", index.with_name("mentions.txt"), "--to", index),
    ):
        assert "not enough memory" in told(megabytes, *command, "-o", tmp_path / "out.csv")
        assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("problem", [ImportError("failed to map segment"), MemoryError(), OSError("cannot allocate")])
def test_torch_that_cannot_be_loaded_is_done_without(problem, monkeypatch) -> None:
    """Too little memory for it is told so; the search is slower then, and finds the same."""
    vectors = np.random.default_rng(0).standard_normal((ROUNDED_FROM, 32), np.float32)
    here = FaissBackend(vectors).search(vectors[:300], 3)[1]

    class Refuses:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if name == "torch":
                raise problem

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refuses, *sys.meta_path])
    monkeypatch.setattr(_rounded.importlib.util, "find_spec", lambda name: object())
    _rounded.multiplies_rightly.cache_clear()
    try:
        assert not _rounded.multiplies_rightly()
        np.testing.assert_array_equal(FaissBackend(vectors).search(vectors[:300], 3)[1], here)
    finally:
        _rounded.multiplies_rightly.cache_clear()
