"""Scan reports of WhiteRabbit: the sheet of a table has its fields' values and counts, side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.errors import UsageError
from alphita.jobs.reading import MentionFile
from alphita.jobs.scan_reports import TRUNCATED
from tests.books import book

VALUES = [
    ["item", "Frequency", "unit", "Frequency", "note", "Word count"],
    ["Sodium", 4021, "mmol/L", 9000, "the", 10],
    ["Potassium", 3990, TRUNCATED, "", "of", 9],
    ["", 12, "", "", "", ""],
    [TRUNCATED, "", "", "", "", ""],
]


def report(path: Path) -> Path:
    overview = [
        ["Table", "Field", "Description", "Type", "Max length", "N rows"],
        ["labs", "item", "", "VARCHAR", 9, 9],
    ]
    return book(
        path, **{"Field Overview": overview, "labs": VALUES, "one": [["code", "Frequency"], ["a", 3], ["b", 2]]}
    )


def read(path: Path, **options: str) -> list[tuple[int, str | None, int | None]]:
    table = MentionFile(path, **options)
    table.take_counts()
    return [(row.number, row.mention, row.frequency) for row in table.rows()]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"column": "item"}, [(1, "Sodium", 4021), (2, "Potassium", 3990), (3, "", 12)]),
        (
            {"column": "item", "frequency_column": "Frequency"},
            [(1, "Sodium", 4021), (2, "Potassium", 3990), (3, "", 12)],
        ),
        ({"column": "unit"}, [(1, "mmol/L", 9000)]),
        ({"sheet": "one"}, [(1, "a", 3), (2, "b", 2)]),
    ],
)
def test_a_field_is_a_list_of_values_with_their_counts(tmp_path, capsys, options, rows):
    options = {"sheet": "labs", **options}
    assert read(report(tmp_path / "ScanReport.xlsx"), **options) == rows
    said = capsys.readouterr().err
    assert ("counts are those beside" in said) == ("frequency_column" not in options)
    assert ("leaves out its rare values" in said) == ("frequency_column" not in options and options["sheet"] == "labs")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("note", "'note' is long text, of which the scan report has single words; give the table itself"),
        ("itm", "unknown column 'itm'; did you mean 'item'"),
        (None, r"several columns; name one with --column: \['item', 'unit', 'note'\]"),
    ],
)
def test_errors_name_the_fields(tmp_path, column, message):
    with pytest.raises(UsageError, match=message):
        read(report(tmp_path / "ScanReport.xlsx"), sheet="labs", column=column)


def test_other_sheets_are_read_as_they_are(tmp_path):
    rows = [["item", "Frequency", "unit"], ["Sodium", "often", "x"], [TRUNCATED, "", ""]]
    path = book(tmp_path / "x.xlsx", A=rows)
    assert read(path, column="item") == [(1, "Sodium", None), (2, TRUNCATED, None)]
