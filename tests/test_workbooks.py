"""Sheets of workbooks as rows: cells as text, the numbers that a spreadsheet shows, and all that is wrong with them."""

from __future__ import annotations

import datetime
import gc
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pytest

from alphita import workbooks
from alphita.errors import InputError, MissingExtra, Rejects, UsageError
from alphita.jobs.reading import MentionFile, MentionRow, cells_of
from alphita.mappings.formats import Header, xlsx
from alphita.terminology.loaders import table
from tests.books import book


def read(path: Path, **options: str) -> list[MentionRow]:
    return list(MentionFile(path, **options).rows())


def test_rows_and_their_numbers_are_those_of_the_spreadsheet(tmp_path):
    rows = [[], [None, "id", "text", "n"], [None, 1001, "headache", 3], [], [None, "A1", "two\nlines", None]]
    path = book(tmp_path / "x.xlsx", Codes=rows, Empty=[])
    table = MentionFile(path, column="text", code_column="id", frequency_column="n")
    assert table.format == "excel"
    assert list(table.rows()) == [
        MentionRow(1, 3, "headache", "1001", frequency=3),
        MentionRow(2, 5, "two\nlines", "A1"),
    ]
    assert table.estimate_rows(1) == 2


def test_what_is_no_text_becomes_text(tmp_path):
    cells = [
        1.5,
        250,
        -3,
        1e17,
        True,
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5),
        datetime.time(3, 4),
        "=1/0",
        "007",
        " x ",
    ]
    path = book(tmp_path / "x.xlsx", A=[["mention", "other"], *([cell, "x"] for cell in cells)])
    assert [row.mention for row in read(path)] == [
        "1.5",
        "250",
        "-3",
        "100000000000000000",
        "TRUE",
        "2020-01-02",
        "2020-01-02T03:04:05",
        "03:04:00",
        # A formula that no spreadsheet has worked out.
        "",
        "007",
        " x ",
    ]


def test_the_sheet_is_the_only_one_or_named(tmp_path):
    path = book(tmp_path / "x.xlsx", One=[["mention"], ["a"]], Two=[["mention"], ["b"]], Three=[])
    with pytest.raises(UsageError, match=r"several sheets; name one with --sheet: \['One', 'Two'\]"):
        read(path)
    assert [row.mention for row in read(path, sheet="Two")] == ["b"]
    with pytest.raises(UsageError, match="unknown sheet 'Tow'; did you mean 'Two'"):
        read(path, sheet="Tow")
    with pytest.raises(InputError, match="the sheet 'Three' is empty"):
        read(path, sheet="Three")
    made = openpyxl.load_workbook(path)
    made["One"].sheet_state = "hidden"
    made.save(path)
    assert [row.mention for row in read(path)] == ["b"]
    assert [row.mention for row in read(path, sheet="One")] == ["a"]
    with pytest.raises(InputError, match="no sheet that is shown has anything in it"):
        read(book(tmp_path / "y.xlsx", A=[]))


def test_cells_of_errors_or_of_a_colour_only_are_empty(tmp_path):
    path = book(tmp_path / "x.xlsx", Codes=[[None], ["mention"], ["a"]], Notes=[["#N/A"]])
    made = openpyxl.load_workbook(path)
    for cell in (made["Notes"]["C3"], made["Codes"]["A1"], made["Codes"]["A9"]):
        cell.fill = openpyxl.styles.PatternFill("solid", fgColor="FFFF00")
    made.save(path)
    assert read(path) == [MentionRow(1, 3, "a")]
    with pytest.raises(InputError, match="the sheet 'Notes' is empty"):
        read(path, sheet="Notes")


def test_what_libreoffice_writes(tmp_path):
    cells = "".join(
        f'<table:table-row><table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'
        "</table:table-row>"
        for text in ("mention", "fever")
    )
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    content = (
        f'<office:document-content {spaces}><office:body><office:spreadsheet><table:table table:name="A">{cells}'
        "</table:table></office:spreadsheet></office:body></office:document-content>"
    )
    with zipfile.ZipFile(tmp_path / "x.ods", "w") as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        packed.writestr(
            "META-INF/manifest.xml", "<m:manifest xmlns:m='urn:oasis:names:tc:opendocument:xmlns:manifest:1.0'/>"
        )
        packed.writestr("content.xml", content)
    assert read(tmp_path / "x.ods") == [MentionRow(1, 2, "fever")]


def test_no_workbook(tmp_path):
    with pytest.raises(InputError, match=r"none.xlsx: cannot read the input: No such file"):
        read(tmp_path / "none.xlsx")
    (tmp_path / "x.xlsx").write_bytes(b"mention\nx\n")
    with pytest.raises(InputError, match=r"x.xlsx: this is no workbook that can be read"):
        read(tmp_path / "x.xlsx")
    whole = book(tmp_path / "y.xlsx", A=[["mention"], *([str(n)] for n in range(999))]).read_bytes()
    (tmp_path / "y.xlsx").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"y.xlsx: this is no workbook that can be read"):
        read(tmp_path / "y.xlsx")
    with zipfile.ZipFile(tmp_path / "z.xlsx", "w") as packed:
        packed.writestr("a.txt", "a")
    with pytest.raises(InputError, match=r"z.xlsx: this is no workbook that can be read"):
        read(tmp_path / "z.xlsx")


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtra, match=r"pip install 'alphita\[excel\]'"):
        workbooks.sheet_rows(tmp_path / "x.xlsx", None)


@pytest.mark.parametrize(
    "read_it",
    [
        read,
        lambda path: list(cells_of(MentionFile(path))),
        lambda path: list(xlsx.read(path, Header(), Rejects())),
        lambda path: table.load([path], table.Options(), Rejects()),
    ],
    ids=["normalize", "cells", "mappings", "terminology"],
)
@pytest.mark.parametrize("cell", ["XFD1048576", "CV1048576"])
def test_a_far_cell_is_told_before_the_table_is_made(tmp_path, cell, read_it):
    path = book(tmp_path / "x.xlsx", A=[["mention"], ["a"]])
    made = openpyxl.load_workbook(path)
    made["A"][cell] = "x"
    made.save(path)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match=r"x.xlsx:1048576: [0-9,]+ cells lie between") as caught:
        read_it(path)
    assert "delete what lies far from the table" in str(caught.value)


def test_a_far_cell_without_a_value_takes_nothing(tmp_path):
    path = book(tmp_path / "x.xlsx", A=[["mention"], ["a"]])
    made = openpyxl.load_workbook(path)
    made["A"]["XFD1048576"].fill = openpyxl.styles.PatternFill("solid", fgColor="FFFF00")
    made.save(path)
    assert read(path) == [MentionRow(1, 2, "a")]


def test_a_cell_is_found_across_blocks(tmp_path, monkeypatch):
    rows = [["mention", "n"], *([f"a {number}", number] for number in range(200))]
    path = book(tmp_path / "x.xlsx", A=rows)
    monkeypatch.setattr(workbooks, "_BLOCK_BYTES", 37)
    monkeypatch.setattr(workbooks, "MAX_CELLS", 401)
    with pytest.raises(InputError, match="402 cells lie between"):
        read(path, column="mention")
    monkeypatch.setattr(workbooks, "MAX_CELLS", 402)
    assert len(read(path, column="mention")) == 200


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits it")
def test_what_takes_too_much_memory_ends_a_child_only(tmp_path, monkeypatch):
    path = book(tmp_path / "x.xlsx", A=[["mention"], ["a"]])
    made = openpyxl.load_workbook(path)
    made["A"]["Z1000000"] = "x"
    made.save(path)
    monkeypatch.setattr(workbooks, "MAX_MEMORY", 2**28)
    with pytest.raises(InputError, match=r"x.xlsx: reading it takes more than 0.2 GB of memory"):
        read(path)


def test_a_sheet_that_is_not_read_to_its_end_leaves_no_process(tmp_path, monkeypatch):
    started, popen = [], subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **options: started.append(popen(*args, **options)) or started[-1]
    )
    path = book(tmp_path / "x.xlsx", A=[["mention"], *([f"a {number}"] for number in range(50_000))])
    rows = MentionFile(path).rows()
    assert next(rows).mention == "a 0"
    rows.close()
    gc.collect()
    assert [process.returncode is not None for process in started] == [True]


SHOWN = [
    (250, "0.00", "250.00"),
    (7, "000", "007"),
    (1234.5, "#,##0.00", "1234.50"),
    (12.345, "0.0", "12.345"),
    (0.05, "0%", "5%"),
    (0.0525, "0.0%", "5.25%"),
    (123456789, "000-00-0000", "123-45-6789"),
    (12345, "00000\\-0000", "00001-2345"),
    (7, '"MRN"0000', "MRN0007"),
    (7, "[Red]000;[Blue]-000", "007"),
    (-3, "00", "-03"),
    (5, '0.0" mg"', "5.0 mg"),
    (0.5, "# ?/?", None),
    (3, "yyyy", None),
]


@pytest.mark.parametrize(("number", "number_format", "shown"), SHOWN)
def test_a_number_as_excel_shows_it(number, number_format, shown):
    assert workbooks.as_shown(number, number_format) == shown


def test_codes_that_excel_keeps_as_numbers_are_read_as_shown_and_others_told_by_row(tmp_path, capsys):
    rows = [["mention", "code"], *(["x", number] for number, _, _ in SHOWN[:2]), ["y", 0.5], ["z", 3]]
    path = book(tmp_path / "x.xlsx", A=rows)
    workbook = openpyxl.load_workbook(path)
    for place, number_format in enumerate(("0.00", "000", "# ?/?", "General"), 2):
        workbook["A"].cell(place, 2).number_format = number_format
    workbook.save(path)
    assert [row.code for row in read(path, column="mention", code_column="code")] == ["250.00", "007", "0.5", "3"]
    assert "x.xlsx, row 4: a number in the format '# ?/?' is read as 0.5" in capsys.readouterr().err


@pytest.mark.parametrize(("above", "before"), [(0, 0), (2, 0), (0, 1), (2, 2)])
def test_formats_belong_to_their_cells_in_a_sheet_that_begins_further_down_or_right(above, before, tmp_path):
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    for place, (text, code, number_format) in enumerate(
        (("mention", "code", "@"), ("a", 7, "000"), ("b", 250, "0.00"))
    ):
        sheet.cell(1 + above + place, 1 + before, text)
        sheet.cell(1 + above + place, 2 + before, code).number_format = number_format
    workbook.save(path := tmp_path / "x.xlsx")
    assert [row.code for row in read(path, column="mention", code_column="code")] == ["007", "250.00"]
