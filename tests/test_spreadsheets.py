"""What a spreadsheet would run gets an apostrophe, which reading takes off again."""

from __future__ import annotations

import csv
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import Rejects
from alphita.spreadsheets import Guard, unguarded
from tests.mappings import sample

RUN = (
    *(
        "=1+1",
        "=cmd|'/c calc'!A0",
        "+1-1",
        "-2+3",
        "@SUM(A1)",
        "\tx",
        "\rx",
        "\n=1",
        "  =1",
        "\u00a0=1",
        "＝1+1",
        "－x",
    ),
    *("－x", "-5 mg", "-5-3", "+a", "'=1", "''@x", "+49 30 123"),
)
KEPT = (
    *("", "-", "--", "+", "+++", "+/-", "=", "'", "-5", "+5", "-5.25", "-1,000.5", "-1e-5", "-5%", "-70 %", "−5"),
    *("'-5", "'tis", "''", "a=1", "toe", " toe", "５", "(=1)"),
)


@pytest.mark.parametrize("cell", RUN)
def test_what_a_spreadsheet_runs_gets_an_apostrophe(cell):
    guard = Guard()
    assert guard([cell, 5, None]) == ["'" + cell, 5, None]
    assert guard.count == 1
    assert unguarded("'" + cell) == cell


@pytest.mark.parametrize("cell", KEPT)
def test_numbers_and_signs_stay(cell):
    assert Guard()([cell]) == [cell]
    assert unguarded(cell) == cell


@given(st.text(st.sampled_from("'=+-@\t\r\n 1.5%ex＝－/") | st.characters(exclude_categories=["Cs"]), max_size=9))
def test_any_text_comes_back_and_none_that_is_written_runs(cell):
    (written,) = Guard()([cell])
    assert unguarded(written) == cell
    assert Guard()([written]) == [written] or written.startswith("'")


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_tables_are_guarded_unless_raw_and_say_so_once(tmp_path, name):
    module, said = registry.load("alphita.mappings.formats", name), []
    mappings = [sample.mapping(mention, comment=mention) for mention in (*RUN, *KEPT) if mention]
    head = sample.header(tell=said.append)
    out = sample.write(module, head, mappings, tmp_path / "out", pieces=2)
    assert [one.mention for one in sample.read(module, head, out)] == [one.mention for one in mappings]
    assert [line.partition(";")[0] for line in said] == [
        f"cells that got an apostrophe, so that no spreadsheet runs them as formulas: {2 * len(RUN)}"
    ]
    header = sample.header(tell=said.append, raw=True)
    raw = sample.write(module, header, mappings[:1], tmp_path / "raw")
    assert "'=1" not in raw.read_text()
    assert len(said) == 1


def test_rejects_are_guarded(tmp_path):
    with Rejects(tmp_path / "rejects.csv") as rejects:
        rejects.add("no", value="=1+1")
    assert list(csv.reader(StringIO((tmp_path / "rejects.csv").read_text())))[1][3] == "'=1+1"
