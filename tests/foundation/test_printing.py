"""Nothing of an input steers a terminal or a log: control characters and marks of direction are printed as escapes."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from alphita import cli, printing, progress
from alphita.printing import visible
from alphita.service.logs import JsonLines

NASTY = "a\x1b[2Jb\x9b31mc\u202ed\u2066e\rf\x07g\x00h\u200fi"
SEEN = r"a\u001b[2Jb\u009b31mc\u202ed\u2066e\u000df\u0007g\u0000h\u200fi"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text())
def test_what_is_visible_acts_on_nothing_and_stays_so(text):
    shown = visible(text)
    assert not any(unicodedata.bidirectional(sign) in ("LRE", "RLE", "LRO", "RLO", "PDF") for sign in shown)
    assert not any(
        unicodedata.category(sign) == "Cc" for sign in shown.replace("\r\n", "").replace("\n", "").replace("\t", "")
    )
    assert visible(shown) == shown
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


def test_all_that_is_printed_is_visible(monkeypatch):
    out, err = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with printing.guarded():
        print(NASTY)
        sys.stdout.writelines([NASTY, "\n"])
        sys.stdout.buffer.write(f"{NASTY}\r\n".encode())
        sys.stdout.buffer.flush()
        print(NASTY, file=sys.stderr)
        Console(force_terminal=True, legacy_windows=False).print(Text(NASTY.replace("\x1b[2J", ""), style="bold"))
    assert (sys.stdout, sys.stderr) == (out, err)
    *plain, drawn = out.getvalue().split("\n")[:4]
    assert plain == [SEEN, SEEN, f"{SEEN}\r"]
    assert drawn.startswith("\x1b[1m")
    assert r"\u202e" in drawn
    assert not {"\u202e", "\x9b", "\x00"} & set(drawn)
    assert err.getvalue() == SEEN + "\n"


def test_a_program_reads_bytes_as_they_are(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8"))
    with printing.guarded():
        sys.stdout.buffer.write(NASTY.encode())
    assert raw.getvalue() == NASTY.encode()


def test_errors_of_the_command_line_and_lines_of_progress(monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["alphita", "normalize", f"no{NASTY.replace(chr(0), '')}.csv", "--to", "x", "-o", "o.csv"]
    )
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code in (1, 2)
    progress.say(NASTY)
    told = capsys.readouterr().err
    assert r"\u202e" in told
    assert not set("\x1b\x9b\u202e\u2066\r\x07\x00\u200f") & set(told)


def test_a_line_of_the_log_is_json_without_what_acts():
    record = logging.LogRecord("alphita", logging.INFO, "", 0, "request", None, None)
    record.fields = {"asked": NASTY + "\u2028"}
    line = JsonLines().format(record)
    assert not set("\x1b\x9b\u202e\u2066\r\x07\x00\u200f\u2028") & set(line)
    assert json.loads(line)["asked"] == NASTY + "\u2028"


def test_on_a_real_terminal():
    ours, theirs = pty.openpty()
    program = f"from alphita import printing\nwith printing.guarded(): print({NASTY!r})"
    subprocess.run([sys.executable, "-c", program], stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 4096).decode() == SEEN + "\r\n"
    os.close(ours)
