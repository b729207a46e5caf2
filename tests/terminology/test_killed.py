"""`alphita terminology import` killed in the middle: no half folder, nothing left over, and the next run works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from alphita import artefact
from alphita.terminology.store import load_terminology
from tests.terminology.conftest import read_rejects
from tests.terminology.test_cli import run

TABLE = "id,term,definition\nX:1,One,first\nX:2,Two,\nX:3,,empty\n"
# Stops for good where a function is called for the n-th time.
CHILD = """
import importlib, sys, time
module, name, n, *arguments = sys.argv[1:]
def stop(*_, **__):
    print("here", flush=True)
    time.sleep(600)
place = importlib.import_module(module)
for part in name.split(".")[:-1]:
    place = getattr(place, part)
name = name.rpartition(".")[2]
original, calls = getattr(place, name), iter(range(1, 10**6))
setattr(place, name, lambda *a, **k: (stop if next(calls) == int(n) else original)(*a, **k))
from alphita import cli
import alphita.cli.terminology, alphita.terminology.store, alphita.terminology.loaders.table
sys.argv = ["alphita", "terminology", "import", *arguments]
cli.main()
"""
# (module, function, which call of it); whether the folder is complete by then.
MOMENTS = [
    ("alphita.errors", "Rejects.add", 1, False),
    ("alphita.terminology.model", "_write_npy", 1, False),
    ("alphita.terminology.model", "write_arrow", 5, False),
    ("alphita.artefact", "hash_json", 1, False),
    ("alphita.drafts", "sync_tree", 1, False),
    ("alphita.drafts", "put_in_place", 1, False),
    # The draft's own, then that of the folder it stands in, once the draft is in its place.
    ("alphita.drafts", "sync_folder", 2, True),
]


def kill(folder: Path, module: str, function: str, n: int, *more: str) -> None:
    """Import `folder`/t.csv into `folder`/x.terminology in another process; kill it when it says so."""
    arguments = [module, function, str(n), "table", str(folder / "t.csv"), "-o", str(folder / "x.terminology"), *more]
    command = [sys.executable, "-c", CHILD, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"here\n"
        child.kill()


def check_the_next_run(folder: Path, content_hash: str) -> None:
    output = folder / "x.terminology"
    run("import", "table", folder / "t.csv", "-o", output, "--force")
    artefact.verify(output, "terminology")
    assert load_terminology(output).content_hash == content_hash
    assert [reject[1:3] for reject in read_rejects(folder / "x.terminology.rejects.csv")] == [["4", "term"]]
    assert not list(folder.glob(".*")), "a draft was left"


@pytest.fixture
def content_hash(tmp_path):
    """Write the table, and return the hash that every run of it must come to."""
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "whole").mkdir()
    run("import", "table", tmp_path / "t.csv", "-o", tmp_path / "whole" / "x.terminology")
    return load_terminology(tmp_path / "whole" / "x.terminology").content_hash


@pytest.mark.parametrize(("module", "function", "n", "is_complete"), MOMENTS)
def test_killed_at(tmp_path, content_hash, module, function, n, is_complete):
    output = tmp_path / "x.terminology"
    kill(tmp_path, module, function, n)
    assert output.exists() == is_complete
    if is_complete:
        artefact.verify(output, "terminology")
    check_the_next_run(tmp_path, content_hash)


def test_killed_while_one_folder_takes_the_place_of_another(tmp_path, content_hash):
    output = tmp_path / "x.terminology"
    (tmp_path / "t.csv").write_text(TABLE + "X:4,Four,\n")
    run("import", "table", tmp_path / "t.csv", "-o", output)
    (tmp_path / "t.csv").write_text(TABLE)
    kill(tmp_path, "pathlib", "Path.rename", 2, "--force")
    assert not output.exists()
    artefact.verify(output.with_name("x.terminology.old-1"), "terminology")
    check_the_next_run(tmp_path, content_hash)
