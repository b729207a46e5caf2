"""What `alphita` does where its output cannot be written, or the locale is not UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from alphita.cli import main; main()"]


def alphita(*arguments: str, unbuffered: bool = False, **options: object) -> subprocess.CompletedProcess[bytes]:
    given = options.pop("env", {})
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    env |= {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    return subprocess.run(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, timeout=120, check=False, env=env | given, **options
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("arguments", [("--version",), ("evaluate", "--list"), ("evaluate", "--about", "sts")])
def test_a_full_disk_is_one_line(arguments: tuple[str, ...], unbuffered: bool) -> None:
    with open("/dev/full", "wb") as full:
        done = alphita(*arguments, unbuffered=unbuffered, stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode() == "error: cannot write to standard output: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_wrong_use_stays_wrong_use_on_a_full_disk() -> None:
    with open("/dev/full", "wb") as full:
        done = alphita("evaluate", stdout=full)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("arguments", [("--help",), ("evaluate", "--list"), ("evaluate", "--about", "sts")])
def test_a_closed_pipe_is_no_failure(arguments: tuple[str, ...], unbuffered: bool) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = alphita(*arguments, unbuffered=unbuffered, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_output_is_utf8_whatever_the_locale() -> None:
    env = {"PYTHONIOENCODING": "cp1252"}
    done = alphita("evaluate", "--about", "sts", env=env, stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert "─" in done.stdout.decode("utf-8")
    done = alphita("evaluate", "糖", "-m", "tfidf", env=env, stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.decode("utf-8").startswith("error: unknown benchmark '糖'")


def test_no_output_at_all() -> None:
    done = alphita("evaluate", "--list", preexec_fn=lambda: os.close(1))
    assert (done.returncode, done.stderr) == (0, b"")
