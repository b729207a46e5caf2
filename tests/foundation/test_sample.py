"""The quickstart: its sample is read as people save it, and refused before any work; what it measures, by value."""

from __future__ import annotations

import pytest

from alphita.answer.records import Candidate, Result
from alphita.cli.quickstart import quickstart as command
from alphita.errors import InputError, UsageError
from alphita.quickstart import Sample, measure, read_sample, run
from alphita_lab import quickstart_training


def test_as_spreadsheets_write_it(tmp_path):
    path = tmp_path / "sample.csv"
    path.write_bytes(b"\xef\xbb\xbfmention,concept_id\r\n sore toe,HP:1\r\nnew address,NIL\r\n")
    assert read_sample(path) == ([" sore toe", "new address"], ["HP:1", None], ["", ""])


@pytest.mark.parametrize("job", [run, quickstart_training.run])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mention,concept_id\na,HP:1\nb\n", "csv:3: 1 cells"),
        ("mention,concept_id\na,\n", "csv:2: a row lacks"),
        ("mention,concept\na,HP:1\n", "needs the columns"),
        ("mention,concept_id\n", "needs rows"),
    ],
)
def test_a_bad_sample_stops_it_at_once(tmp_path, text, problem, job):
    path = tmp_path / "sample.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        job(tmp_path / "out", path)
    assert not (tmp_path / "out").exists()


def answered(concept: str | None, decision: str, first: str | None = None) -> Result:
    best = concept or first
    candidates = (Candidate(best, best, best, 0.9),) if best else ()
    return Result("m", concept, concept, best, 0.9, 0.9, "nil" if concept is None else "nearest", candidates, decision)


def test_what_it_measures():
    sample = Sample(["a"] * 6, ["X:1", "X:1", "X:1", "X:1", None, None], ["lay", "lay", "exact", "lay", "nil", "nil"])
    results = [
        answered("X:1", "accept"),
        answered("X:2", "accept"),
        answered("X:1", "review"),
        answered(None, "nil", first="X:1"),
        answered(None, "nil"),
        answered("X:3", "accept"),
    ]
    assert measure(sample, results) == {
        "kinds": {
            "lay": {"n": 3, "right": 2, "nil": 1, "accepted": 2, "wrong": 1},
            "nil": {"n": 2, "right": 1, "nil": 1, "accepted": 1, "wrong": 1},
            "exact": {"n": 1, "right": 1, "nil": 0, "accepted": 0, "wrong": 0},
        },
        "named": {"n": 4, "right": 3, "nil": 1, "accepted": 2, "wrong": 1},
        "nil": {"n": 2, "right": 1, "nil": 1, "accepted": 1, "wrong": 1},
    }


def test_small_is_a_kind_of_training():
    with pytest.raises(UsageError, match="--small goes with --train"):
        command(small=True)
