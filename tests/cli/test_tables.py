"""What prints a table prints it as JSON too, in one shape, and what is drawn has one scheme of colours."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from alphita import cli, printing
from alphita.review.records import Project, ReviewRow
from alphita.review.store import ReviewStore
from alphita_lab import cli as laboratory
from tests.cli.command import alphita

COMMANDS = (Path(cli.__file__).parent, Path(laboratory.__file__).parent)
FIXTURES = Path(__file__).parents[1] / "fixtures"
TERMINOLOGIES = FIXTURES / "terminology"
SCORED = f"evaluate ncbi_disease --data {FIXTURES / 'benchmarks'} --baseline exact_match --model edit_distance"
PRINTING = [
    *("evaluate", "review progress", "search query", "serve", "train"),
    *(f"terminology {name}" for name in ("describe", "changes", "merge")),
]


@pytest.mark.parametrize("path", PRINTING)
def test_the_command_of_a_table_takes_json(path):
    command = typer.main.get_command(cli.app)
    for word in path.split():
        command = command.get_command(typer.Context(command), word)
    assert any("--json" in parameter.opts for parameter in command.params)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("small")
    assert alphita("terminology", "import", "obo", TERMINOLOGIES / "small.obo", "-o", tmp_path / "a.terminology") == 0
    assert alphita("terminology", "import", "table", TERMINOLOGIES / "terms.csv", "-o", tmp_path / "b.terminology") == 0
    with ReviewStore.open(tmp_path / "reviews.sqlite", create=True) as store:
        store.add_project(
            Project("lab", "LAB", "text", "", "", "", "2026-01-01T00:00:00+00:00"),
            [ReviewRow(0, "lab", 1, "", "toe", 1)],
        )
    assert alphita(*SCORED.split(), "-o", tmp_path / "first") == 0
    return tmp_path


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("evaluate --list", {"name", "title", "task", "where"}),
        ("evaluate --about mcsm", {"table"}),
        ("train --list", {"name", "what"}),
        ("terminology import --list", {"name", "what", "settings"}),
        ("terminology merge --list", {"name", "default", "description"}),
        ("terminology describe {0}/a.terminology", {"sources", "totals"}),
        ("terminology changes {0}/a.terminology {0}/b.terminology", {"kind", "concept"}),
        ("terminology merge {0}/a.terminology {0}/b.terminology -o {0}/c.terminology", {"table", "name", "count"}),
        ("review progress --mappings {0}/reviews.sqlite", {"project", "rows", "decided"}),
        (f"{SCORED} -o {{0}}/report", {"benchmark", "system", "metric", "value"}),
        ("evaluate --compare {0}/first {0}/first", {"benchmark", "first", "second", "difference"}),
    ],
)
def test_json_is_an_object_a_row_a_line_each(words, fields, small, capsys):
    capsys.readouterr()
    assert alphita(*words.format(small).split(), "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows
    assert all(fields <= set(row) for row in rows), rows[0]


def test_colours_are_chosen_in_one_place():
    elsewhere = [
        f"{file}:{number}"
        for folder in COMMANDS
        for file in sorted(folder.parent.rglob("*.py"))
        if file.name != "printing.py"
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\bConsole\(|\bstyle=\"(?!aside|best|head)[a-z]+\"|\\x1b\[|\bsecho\(|typer\.style", line)
    ]
    assert elsewhere == [], "draw by printing.console(), in the styles of printing.STYLES"
    console = printing.console()
    assert all(console.get_style(name) is not None for name in printing.STYLES)


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_no_color_is_honoured_on_a_terminal(variables, coloured):
    above, below = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    subprocess.run(
        [sys.executable, "-m", "alphita", "--help"], stdout=below, stderr=below, env=environment | variables, check=True
    )
    os.close(below)
    text = b""
    while True:
        try:
            read = os.read(above, 65536)
        except OSError:
            break
        text += read
    os.close(above)
    assert b"normalize" in text
    assert bool(re.search(rb"\x1b\[[\d;]*3[1-7]m", text)) is coloured
