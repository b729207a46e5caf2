"""Pairs and triplets of strings from every kind of table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from alphita.errors import InputError, Rejects
from alphita_lab.training.terms import pair_files

ROWS = [
    {"anchor": "Heart attack", "positive": "myocardial infarction", "negative": "heartburn"},
    {"anchor": "MI", "positive": "Myocardial  infarction", "negative": None},
    {"anchor": "sore toe", "positive": "toe pain", "negative": ""},
]


def write(kind: str, folder: Path) -> Path:
    path = folder / f"pairs.{kind}"
    table = pa.Table.from_pylist(ROWS)
    if kind in ("csv", "tsv"):
        delimiter = "," if kind == "csv" else "\t"
        lines = [ROWS[0].keys(), *(row.values() for row in ROWS)]
        path.write_text("".join(delimiter.join(cell or "" for cell in line) + "\n" for line in lines))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "parquet":
        pq.write_table(table, path)
    elif kind == "feather":
        feather.write_feather(table, path)
    else:
        datasets = pytest.importorskip("datasets")
        datasets.Dataset.from_list(ROWS).save_to_disk(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet", "feather", "saved"])
def test_every_kind_of_table_gives_the_same_pairs(kind: str, tmp_path: Path):
    path = write(kind, tmp_path)
    with Rejects() as rejects:
        data, left_out = pair_files.read([path], rejects)
    assert (rejects.count, left_out) == (0, 0)
    named = [[data.strings[row] for row in rows] for rows in (data.anchors, data.positives)]
    assert named[0] == ["heart attack", "mi", "sore toe"]
    assert named[1] == ["myocardial infarction", "myocardial infarction", "toe pain"]
    assert [data.strings[row] if row >= 0 else "" for row in data.negatives] == ["heartburn", "", ""]
    # What one string ties together is one group; the negative is of another.
    group = dict(zip(data.strings, data.groups.tolist(), strict=True))
    assert group["heart attack"] == group["mi"] == group["myocardial infarction"]
    assert len({group[name] for name in ("mi", "sore toe", "heartburn")}) == 3
    assert len(pair_files.hashes([path])) == 1


def test_bad_rows_are_set_aside_and_held_out_strings_leave(tmp_path: Path):
    path = tmp_path / "own.csv"
    path.write_text("left,right\na b,A  B\n,x\nred,blue\none,two\n")
    with Rejects(tmp_path / "r.csv") as rejects:
        data, left_out = pair_files.read([path], rejects, exclude={"two"})
    assert (len(data), left_out, rejects.count) == (1, 1, 2)
    assert [line.split(",")[1] for line in (tmp_path / "r.csv").read_text().splitlines()[1:]] == ["2", "3"]
    with Rejects() as rejects:
        data, _ = pair_files.read([path], rejects, cleaned=False)
    assert data.strings[:2] == ["a b", "A  B"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", "only\na\n", "holds no pairs of strings"),
        ("x.csv", "anchor,positive\na,a\n", "no pair is left"),
        ("x.jsonl", "[1]\n", "not a JSON object"),
        ("x.parquet", "no parquet", "cannot be read"),
        ("x.arrow", "no arrow", "cannot be read"),
    ],
)
def test_other_files_are_refused(name: str, content: str, said: str, tmp_path: Path):
    (tmp_path / name).write_text(content)
    with Rejects() as rejects, pytest.raises(InputError, match=said):
        pair_files.read([tmp_path / name], rejects)
    with Rejects() as rejects, pytest.raises(InputError, match="no such file"):
        pair_files.read([tmp_path / "none.csv"], rejects)
