"""Labelled mentions read from tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.calibrate.examples import Label, read_labels
from alphita.errors import InputError


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_columns_are_found_by_name_in_any_order(tmp_path):
    content = '\ufeffconcept_id,who,mention\nT:1,me, head pain \nNIL,you,"table, round"\nT:2,me,頭痛\n'
    found = read_labels(write(tmp_path / "x.csv", content))
    assert found == [Label("head pain", "T:1"), Label("table, round", None), Label("頭痛", "T:2")]


@pytest.mark.parametrize("name", ["x.tsv", "X.TSV"])
def test_tabs_by_the_name(tmp_path, name):
    found = read_labels(write(tmp_path / name, "mention\tconcept_id\npain, of head\tT:1\n"))
    assert found == [Label("pain, of head", "T:1")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "mention,id\na,T:1\n",
            ["has no column 'concept_id'", "value 'mention, id'", "needs the columns mention, concept_id"],
        ),
        ("mention;concept_id\na;T:1\n", ["has no column 'mention'"]),
        ("", ["the file is empty"]),
        ("mention,concept_id\n", ["holds no labelled mention"]),
        ("mention,concept_id\na,T:1\n,T:2\n", ["x.csv:3:", "'mention'", "a row without a value"]),
        ('mention,concept_id\na,T:1\n"b\nc", \n', ["x.csv:3:", "'concept_id'", "NIL says that no concept fits"]),
        ("mention,concept_id\na\n", ["x.csv:2:", "1 cells, but the header has 2"]),
        ("mention,concept_id\na, dry,T:1\n", ["x.csv:2:", "3 cells, but the header has 2"]),
        (b"mention,concept_id\n\xff,T:1\n", ["x.csv:2:", "not UTF-8"]),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, says):
    path = write(tmp_path / "x.csv", content)
    with pytest.raises(InputError) as caught:
        read_labels(path)
    for one in [str(path), *says]:
        assert one in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_labels(tmp_path / "none.csv")
