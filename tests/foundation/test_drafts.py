"""Temporary folders: private, and removed after a kill."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import alphita
from alphita import drafts
from tests.waiting import SECONDS

HOLD = """
import sys
from alphita import drafts
with drafts.scratch() as folder:
    (folder / "given").write_text("a patient's words")
    print(folder, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_kill_left_is_removed_and_what_is_in_use_stays(temporary):
    environment = os.environ | {"TMPDIR": str(temporary)}
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    killed, used = (Path(holder.stdout.readline().strip()) for holder in holders)
    holders[0].kill()
    assert holders[0].wait(SECONDS) == -signal.SIGKILL
    assert {path.parent for path in (killed, used)} == {temporary}
    assert (killed / "given").exists()
    (temporary / ".alphita.1-01234567.draft").symlink_to(temporary / "elsewhere")
    os.mkfifo(temporary / ".alphita.2-01234567.draft")
    drafts.clear_up()
    assert not killed.exists()
    assert (used / "given").exists()
    holders[1].communicate("done\n", SECONDS)
    assert not used.exists()


def test_only_its_owner_reads_a_temporary_folder(temporary):
    before = os.umask(0)
    try:
        with drafts.scratch() as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert list(temporary.iterdir()) == []


def test_every_temporary_folder_is_one_that_is_cleared_up():
    files = Path(alphita.__file__).parent.rglob("*.py")
    assert [
        path.name for path in files if "TemporaryDirectory" in path.read_text() or "mkdtemp" in path.read_text()
    ] == []
