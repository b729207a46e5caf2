"""What `alphita` does where its output cannot be written, or the locale is not UTF-8."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alphita import cli
from tests.waiting import SECONDS

COMMAND = [sys.executable, "-c", "from alphita.cli import main; main()"]


def alphita(*arguments: str, unbuffered: bool = False, **options: object) -> subprocess.CompletedProcess[bytes]:
    given = options.pop("env", {})
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    env |= {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    return subprocess.run(
        [*COMMAND, *arguments], stderr=subprocess.PIPE, timeout=SECONDS, check=False, env=env | given, **options
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("arguments", "unbuffered"), [(("--version",), False), (("evaluate", "--list"), True)])
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


@pytest.mark.parametrize(("arguments", "unbuffered"), [(("--help",), False), (("evaluate", "--list"), True)])
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


def test_quiet_says_nothing_of_the_way() -> None:
    # What is wrong is said all the same.
    assert alphita("--quiet", "evaluate", "sts", "-b", "tfidf", "--data", "/nowhere").stderr != b""
    code = (
        "from alphita import progress; progress.say('on the way')\nwith progress.bar('work', 3) as bar: bar.advance(3)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert shown.stderr.startswith(b"on the way\nwork: 3/3 rows")
    silent = subprocess.run(
        [sys.executable, "-c", f"from alphita import progress\nprogress.silence()\n{code}"],
        capture_output=True,
        check=True,
    )
    assert silent.stderr == b""


@pytest.mark.parametrize(
    ("words", "offered"),
    [("alphita norm", "normalize"), ("alphita terminology me", "merge"), ("alphita serve --log", "--log-mentions")],
)
def test_words_are_completed(words: str, offered: str) -> None:
    env = {"_ALPHITA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "import sys; sys.argv = ['alphita']; from alphita.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | env, capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode().split(), done.stderr) == (0, [offered], b"")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("[ONNXRuntimeError] : 6 : BFCArena: Failed to allocate memory for requested buffer of size 9"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
)
def test_too_little_memory_is_told_whatever_says_so(error, monkeypatch, capsys) -> None:
    def refuse(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", refuse)
    assert cli._run() == 1
    said = capsys.readouterr().err
    assert said.startswith("error: there is not enough memory")
    assert said.count("\n") == 1
