"""Rows of CSV: numbers of lines, and quotes that are never closed. How its lines are taken back: see test_tables."""

from __future__ import annotations

import csv

import pytest

from alphita.csv_lines import UNCLOSED, Record, records

BAD = f"not a row of this format: {UNCLOSED}"


def read(text: str, delimiter: str = ",", first: int = 1) -> list[Record]:
    return list(records(iter(text.splitlines(keepends=True)), delimiter, first))


def test_the_header_is_row_0_and_empty_lines_are_none():
    assert read('a,b\n1,"two\nlines"\n\n"3,",4\n') == [
        Record(0, 1, ["a", "b"]),
        Record(1, 2, ["1", "two\nlines"]),
        Record(2, 5, ["3,", "4"]),
    ]


def test_lines_may_be_counted_from_a_later_one():
    assert read('a\tb\n"1\n2"\t3\t4\n"5\n6\t7\n', "\t", first=8) == [
        Record(0, 8, ["a", "b"]),
        Record(1, 9, [], "3 cells, but the header has 2 (lines 9 to 10)", "1\n2\t3\t4"),
        Record(2, 11, [], BAD, '"5'),
        Record(3, 12, ["6", "7"]),
    ]


def test_of_a_quote_that_is_never_closed_one_line_is_lost():
    found = read("a,b\n" + 'x,"y\n' + "1,2\n" * 500)
    assert found[1] == Record(1, 2, [], BAD, 'x,"y')
    assert found[2:] == [Record(number, number + 1, ["1", "2"]) for number in range(2, 502)]


def test_a_header_that_cannot_be_read():
    with pytest.raises(csv.Error):
        read('a,"b\n1,2\n')
    assert read("") == [Record(0, 1, [])]
