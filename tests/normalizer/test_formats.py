"""One contract over every output format: what is written is read again, however odd."""

from __future__ import annotations

import csv
import json
from dataclasses import astuple, fields
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.normalizer.records import Line

NAMES = registry.names("alphita.normalizer.formats")
COLUMNS = [field.name for field in fields(Line)]

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
filled = text.filter(bool)
number = st.floats(-1, 1).map(lambda x: round(x, 6) + 0.0)
line = st.builds(
    Line,
    row=st.integers(1, 2**40),
    mention=filled,
    rank=st.integers(1, 9),
    similarity=st.none() | number,
    confidence=st.none() | number,
    method=filled,
    **{name: st.none() | filled for name in COLUMNS[4:7]},
    **{name: st.none() | filled for name in ("mention_code", "scope", "language", "source", "code", "homonyms")},
)


def read(path: Path, name: str) -> list[tuple[object, ...]]:
    if name == "parquet":
        return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
    if name == "jsonl":
        return [tuple(json.loads(line).values()) for line in path.read_bytes().splitlines()]
    numbers = {"row": int, "rank": int, "similarity": float, "confidence": float}
    with open(path, newline="", encoding="utf-8") as file:
        return [
            tuple(numbers.get(name, str)(cell) if cell else None for name, cell in row.items())
            for row in csv.DictReader(file, strict=True)
        ]


def test_the_formats_are_the_files():
    assert NAMES == ["csv", "jsonl", "parquet"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(first=st.lists(line, max_size=4), second=st.lists(line, max_size=4))
def test_round_trip_in_two_pieces(tmp_path_factory, name, first, second):
    folder = tmp_path_factory.mktemp("format")
    module = registry.load("alphita.normalizer.formats", name)
    part = folder / "part"
    part.write_bytes(module.begin(COLUMNS) + module.encode(COLUMNS, first) + module.encode(COLUMNS, second))
    module.finish(part, folder / "out")
    assert read(folder / "out", name) == [astuple(line) for line in first + second]
    assert not part.exists()


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is(name):
    module = registry.load("alphita.normalizer.formats", name)
    assert len(module.DESCRIPTION) > 5
    assert isinstance(module.STREAMS, bool)


def test_csv_lines_end_with_lf_and_quote_every_line_break():
    module = registry.load("alphita.normalizer.formats", "csv")
    lines = [Line(1, None, mention, 1, *[None] * 5, "nil", *[None] * 5) for mention in ("a\rb", "c\nd", 'e"f')]
    expected = b'1,,"a\rb",1,,,,,,nil,,,,,\n1,,"c\nd",1,,,,,,nil,,,,,\n1,,"e""f",1,,,,,,nil,,,,,\n'
    assert module.encode(COLUMNS, lines) == expected
