"""The cells of input files: whatever is normalised can be looked at, row for row."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alphita.errors import InputError, UsageError
from alphita.jobs.reading import MentionFile, cells_of
from tests.books import book

HEADER, ROWS = ["code", "text", "ward"], [["1", "fever", "A"], ["2", "cough", ""], ["3", "itch", "C"]]
FOUND = {number: dict(zip(HEADER, row, strict=True)) for number, row in enumerate(ROWS, 1)}


def text(between: str) -> str:
    return "\n".join(between.join(row) for row in [HEADER, *ROWS]) + "\n"


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("x.csv", text(",").encode("utf-8-sig"), {}),
        ("x.tsv", text("\t").encode(), {}),
        ("x.csv", text(";").encode(), {"delimiter": ";"}),
        ("x.csv.gz", gzip.compress(text(",").encode()), {}),
        ("x.txt", text(",").encode(), {"format": "csv"}),
        ("x.jsonl", "\n".join(json.dumps(row | {"code": int(row["code"])}) for row in FOUND.values()).encode(), {}),
    ],
)
def test_of_text(tmp_path, name, content, options):
    (tmp_path / name).write_bytes(content)
    assert dict(cells_of(MentionFile(tmp_path / name, column="text", **options))) == FOUND


def test_of_parquet_and_workbooks(tmp_path):
    columns = {name: [row[place] or None for row in ROWS] for place, name in enumerate(HEADER)}
    pq.write_table(pa.table(columns | {"code": [1.0, 2.0, 3.0]}), tmp_path / "x.parquet")
    assert dict(cells_of(MentionFile(tmp_path / "x.parquet"))) == FOUND
    book(tmp_path / "x.xlsx", Sheet=[HEADER, *ROWS])
    assert dict(cells_of(MentionFile(tmp_path / "x.xlsx"))) == FOUND


def test_rows_have_the_numbers_that_they_are_normalised_by(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('code,text,ward\n1,fever,a\n2,"cough,b\n3,rash,c\n4,"pain",d\n5,itch,e\n')
    by_number = {row.number: row.mention for row in MentionFile(path, column="text").rows() if row.problem is None}
    assert by_number == {1: "fever", 3: "rash", 4: "pain", 5: "itch"}
    assert {number: cells["text"] for number, cells in cells_of(MentionFile(path))} == by_number
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "fever"}\n\nnot json\n[1]\n{"text": "itch"}\n')
    by_number = {row.number: row.mention for row in MentionFile(path).rows() if row.problem is None}
    assert (
        {number: cells["text"] for number, cells in cells_of(MentionFile(path))} == by_number == {1: "fever", 4: "itch"}
    )


def test_what_has_no_cells(tmp_path):
    (tmp_path / "x.txt").write_text("fever\n")
    with pytest.raises(UsageError, match="plain lines have no columns"):
        list(cells_of(MentionFile(tmp_path / "x.txt")))
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="no Parquet file"):
        list(cells_of(MentionFile(tmp_path / "x.parquet")))
