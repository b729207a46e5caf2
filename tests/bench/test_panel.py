"""The panel of decisions, on a few drugs."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

import panel

BLIND = Path(__file__).parents[2] / "bench" / "blind"
DRUGS = {"DC:1": "amlodipine", "DC:2": "ibuprofen", "DC:3": "warfarin", "DC:4": "metformin", "DC:5": "codeine"}
TABLE = """\
id\tstring\tlanguage\tgold\talso\tkind\tnote
1\tamlodipine\ten\tDC:1\t\tname\t
2\tIbuprofin tablets\ten\tDC:2\tDC:5\tspelling\t
3\tparking permit\ten\tNIL\t\tnil\t
"""


def test_a_table_is_answered_and_reported(tmp_path, monkeypatch):
    # The command changes it.
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path))
    (tmp_path / "ontologies").mkdir()
    terms = "".join(f"\n[Term]\nid: {concept}\nname: {name}\n" for concept, name in DRUGS.items())
    with gzip.open(tmp_path / "ontologies" / "drugcentral.obo.gz", "wt") as file:
        file.write("format-version: 1.2\nontology: dc\n" + terms)
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "drugs.tsv").write_text(TABLE)
    given = ["--data", tmp_path, "--work", tmp_path, "--blind", tmp_path / "sets", "--out", tmp_path / "out"]
    panel.main([str(word) for word in given])

    found = json.loads((tmp_path / "out" / "report.json").read_text())["targets"]["sets/drugs"]["figures"]
    assert [found["all"][name] for name in ("n", "with_concept", "first", "nil_recognised")] == [3, 2, 1, 1]
    assert found["inexact"]["n"] == 2
    assert found["kind name"]["accepted"] == 1
    rows = pl.read_csv(tmp_path / "out" / "answers.tsv", separator="\t")
    assert rows["gold"].to_list() == ["DC:1", "DC:2|DC:5", "NIL"]
    assert rows["answer_id"].to_list()[:2] == ["DC:1", "DC:2"]
    assert (tmp_path / "out" / "table.md").read_text().count("\n") == 4


@pytest.mark.parametrize(
    ("gold_kind", "rank", "right"),
    [
        ("one", 1, "accept review"),
        ("one", 2, ""),
        ("several", None, "review"),
        ("nil", None, "nil"),
        ("review", None, "review nil"),
    ],
)
def test_right_decisions(gold_kind, rank, right):
    decisions = ("accept", "review", "nil")
    assert [one for one in decisions if panel.is_right(gold_kind, "", rank, one)] == right.split()
    assert panel.is_right("one", panel.CONTAINER, 2, "review")


def test_gold():
    assert panel._gold("A00.1", "A00|B1", "ICD10CM") == ("ICD10CM:A00.1", "ICD10CM:A00", "ICD10CM:B1")
    assert panel._gold("1+2", "", "DC") == ("DC:1+DC:2",)
    assert panel._gold("HP:1|HP:2") == ("HP:1", "HP:2")
    assert [panel._gold(one, "HP:1") for one in ("NIL", "?", "NOT")] == [("NIL",), ("REVIEW",), ("REVIEW",)]


def test_figures_count_among_the_right_rows():
    rows = pl.DataFrame(
        {
            "decision": ["accept", "accept", "nil", "nil", "review"],
            "gold_kind": ["one", "nil", "one", "several", "one"],
            "rank": [1, None, 1, None, 3],
            "right": [True, False, False, False, False],
            "same_category": [None, None, False, None, True],
        }
    )
    figures = panel.measure(rows)
    shares = {"first": 2 / 3, "three": 1, "lost": 1 / 3, "accepted_wrong": 1 / 2, "nil_wrong": 1, "category": 1 / 2}
    assert {name: figures[name] for name in shares} == pytest.approx(shares)
    assert (figures["nil_recognised"], figures["decided"]) == (0, 0.8)
    assert figures["accepted_wrong_interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)


def test_the_blind_strings_are_those_that_were_written():
    sums = dict(line.split()[::-1] for line in (BLIND / "SHA256SUMS").read_text().splitlines())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in BLIND.glob("*.tsv")}
    assert found == sums
