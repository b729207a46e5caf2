"""What a kill, a full disk or another process at the same work does to what is being written."""

from __future__ import annotations

import fcntl
import itertools
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pytest

from alphita import artefact, clock
from tests.killing import child, kill_before

WRITE_ARTEFACT = """
with artefact.create(target, "model") as draft:
    (draft.path / "sub").mkdir()
    for name in ("a", "sub/b"):
        (draft.path / name).write_bytes(bytes(5000))
    wait()
"""
WRITE_FILE = """
with artefact.atomic_file(target) as file:
    file.write(bytes(5000))
    file.flush()
    wait()
"""
BOTH = pytest.mark.parametrize("code", [WRITE_ARTEFACT, WRITE_FILE])


def command(target: Path, code: str, before: str = "", wait: str = "") -> list[str | Path]:
    start = (
        f"import sys\nfrom pathlib import Path\nfrom alphita import artefact\ntarget = Path(sys.argv[1])\n{before}\n"
    )
    return [sys.executable, "-c", f"{start}def wait():\n    {wait or 'pass'}\n{code}", target]


@contextmanager
def writer(target: Path, code: str) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of writing `target`; killed at the end."""
    wait = "print('writing', flush=True); sys.stdin.readline()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command(target, code, wait=wait), text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        try:
            yield process
        finally:
            process.kill()


def write(target: Path, code: str) -> None:
    subprocess.run(command(target, code), check=True)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@BOTH
def test_a_kill_leaves_no_target_and_the_next_writer_clears_up(tmp_path, code):
    target = tmp_path / "X"
    with writer(target, code) as process:
        process.kill()
        assert process.wait() == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(f".X.{process.pid}-")
    assert left.endswith(".draft")
    # Drafts of other targets, and what only looks like one, are none of this writer's business.
    for name in (".XY.1-01234567.draft", ".X.1-0123456.draft", ".X.old-1.1-01234567.draft"):
        (tmp_path / name).mkdir()
    write(target, code)
    assert names(tmp_path) == [".X.1-0123456.draft", ".X.old-1.1-01234567.draft", ".XY.1-01234567.draft", "X"]


def write_here(target: Path, folder: bool, content: bytes, day: int) -> None:
    """Write as another command on another day would, so that the manifest of the same content differs."""
    with (
        mock.patch.object(clock, "now", return_value=datetime(2026, 1, day, tzinfo=UTC)),
        mock.patch("sys.argv", [str(day)]),
    ):
        if folder:
            with artefact.create(target, "model", force=True) as draft:
                (draft.path / "sub").mkdir()
                (draft.path / "sub/a").write_bytes(content)
        else:
            with artefact.atomic_file(target) as file:
                file.write(content)


def content_of(path: Path) -> bytes:
    """What was written, if all of it stands there."""
    if path.is_dir():
        assert list(artefact.verify(path, "model")["files"]) == ["sub/a"]
        return (path / "sub/a").read_bytes()
    return path.read_bytes()


def kill_at_each_step(work: Path, folder: bool, contents: Sequence[bytes]) -> None:
    """Write each of the contents over the one before, the last killed before each step, and again; print the kills."""
    for step in itertools.count(1):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        target = work / "X"
        for day, content in enumerate(contents[:-1], 1):
            write_here(target, folder, content, day)

        def killed(step: int = step, target: Path = target) -> None:
            kill_before(step, work)
            write_here(target, folder, contents[-1], 8)

        ended = child(killed)
        # The name is free for a moment between two renames; the old one stands aside by then.
        found = [content_of(path) for path in work.iterdir() if not path.name.endswith(".draft")]
        assert found, f"step {step}: {names(work)}"
        assert set(found) <= set(contents), f"step {step}: {names(work)}"
        assert contents[-2] in found or not folder, f"step {step}: {names(work)}"
        write_here(target, folder, contents[-1], 9)
        assert names(work) == (["X", "X.old-1"] if folder else ["X"]), f"step {step}"
        assert content_of(target) == contents[-1]
        assert not folder or '"2026-01-09T' in (target / "manifest.json").read_text()
        if ended == 0:
            print(step - 1)
            return
        assert ended == -signal.SIGKILL


# The second is the same as what stands there: it is not kept aside beside itself.
@pytest.mark.parametrize("contents", [(b"old", b"new"), (b"old", b"new", b"new")], ids=["other", "same"])
@pytest.mark.parametrize("folder", [True, False], ids=["artefact", "file"])
def test_a_kill_at_each_step_leaves_the_old_target_and_the_next_writer_clears_up(tmp_path, folder, contents):
    code = f"from tests.foundation.test_breakage import *; kill_at_each_step(Path(sys.argv[1]), {folder}, {contents})"
    command = [sys.executable, "-c", code, tmp_path / "work"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) >= (6 if folder else 2)


def test_the_draft_of_a_writer_at_work_is_left_in_peace(tmp_path):
    target = tmp_path / "X"
    with writer(target, WRITE_ARTEFACT) as process:
        with pytest.raises(RuntimeError), artefact.create(target, "model"):
            raise RuntimeError
        assert len(names(tmp_path)) == 1
        process.communicate("go on\n")
        assert process.returncode == 0
    assert names(tmp_path) == ["X"]
    assert sorted(artefact.verify(target, "model")["files"]) == ["a", "sub/b"]


def test_a_draft_taken_for_abandoned_before_its_lock_is_made_again(tmp_path, monkeypatch):
    lock = fcntl.flock
    taken: list[Path] = []

    def late(descriptor: int, operation: int) -> None:
        lock(descriptor, operation)
        if not taken:
            (draft,) = tmp_path.iterdir()
            draft.rmdir()
            taken.append(draft)

    monkeypatch.setattr(fcntl, "flock", late)
    with artefact.create(tmp_path / "X", "model") as draft:
        assert draft.path not in taken
        (draft.path / "a").touch()
    assert names(tmp_path) == ["X"]


def test_where_locks_do_not_work_drafts_are_written_and_left(tmp_path, monkeypatch):
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / ".X.1-01234567.draft").mkdir()
    with artefact.create(tmp_path / "X", "model") as draft:
        (draft.path / "a").touch()
    assert names(tmp_path) == [".X.1-01234567.draft", "X"]


def test_another_error_is_not_taken_for_a_full_disk(tmp_path):
    with pytest.raises(RuntimeError, match="tensor too large"), artefact.create(tmp_path / "X", "model"):
        raise RuntimeError("tensor too large")
