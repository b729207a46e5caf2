"""Simulated reviewing, against a reviewer written out row by row."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest

from alphita.errors import UsageError
from alphita.index.store import build
from alphita.normalizer.calibration_store import FOLDER
from bench import reviewing
from tests.normalizer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology


def file_of(n: int, seed: int, frequency: object = None) -> reviewing.File:
    """Return rows of which confidence tells something."""
    random = np.random.default_rng(seed)
    confidence = random.uniform(0.2, 1, n)
    gold = random.integers(-1, 6, n)
    answered = np.where(random.uniform(size=n) < confidence, gold, (gold + 2) % 6)
    vectors = random.normal(size=(n, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    mentions = [f"{'abcdef'[one % 6] * 4} {number}" for number, one in enumerate(gold)]
    return reviewing.File(mentions, gold, answered, confidence, random.uniform(0.5, 1, n), vectors, frequency)


def reviewed(file, frequency, order, following):
    """Decide row after row, and count everything anew each time."""
    answer = dict(enumerate(file.answered.tolist()))
    nearest = dict(enumerate(file.similarity.tolist()))
    left = set(answer)
    found = []
    for row in [None, *order]:
        if row is not None:
            left.discard(row)
            answer[row] = file.gold[row]
            for other in sorted(left) if following and file.gold[row] >= 0 else ():
                cosine = float(sum(a * b for a, b in zip(file.vectors[row], file.vectors[other], strict=True)))
                if cosine > nearest[other] + 1e-6:
                    answer[other], nearest[other] = file.gold[row], cosine
        right = sum(int(frequency[one]) for one in answer if answer[one] == file.gold[one])
        found.append(right / sum(map(int, frequency)))
    return found


@pytest.mark.parametrize("following", [False, True])
@pytest.mark.parametrize("name", reviewing.ORDERS)
def test_the_share_right_is_that_of_the_loop(name, following):
    file, frequency = file_of(40, 1), reviewing.drawn(40, 1.0, 2, most=50)
    order = reviewing.order_of(name, file, frequency)
    assert sorted(order.tolist()) == list(range(40))
    share = reviewing.shares(file, frequency, order, following=following)
    assert share.tolist() == pytest.approx(reviewed(file, frequency, order.tolist(), following))
    assert share[-1] == 1


def test_orders_are_what_they_are_called():
    file, frequency = file_of(30, 3), reviewing.drawn(30, 1.0, 4)
    risk = [frequency[row] * (1 - file.confidence[row]) for row in range(30)]
    by = {name: reviewing.order_of(name, file, frequency).tolist() for name in reviewing.ORDERS}
    assert by["risk"] == sorted(range(30), key=lambda row: (-risk[row], row))
    assert by["frequency"] == sorted(range(30), key=lambda row: (-frequency[row], row))
    assert by["row"] == list(range(30))
    assert by["learning"][0] == by["risk"][0]
    assert by["learning"] != by["risk"]


def test_a_target_is_reached_when_it_is_not_lost_again():
    assert reviewing.first(np.array([0.5, 0.99, 0.9, 0.99, 1.0]), 0.99) == 3
    assert reviewing.first(np.array([0.99, 1.0]), 0.99) == 0


def test_what_may_be_taken_for_right_grows_with_every_decision():
    file, frequency = file_of(25, 5), reviewing.drawn(25, 1.0, 6)
    order = reviewing.order_of("risk", file, frequency)
    found = reviewing.expected(file, frequency, order, "risk")
    for count in (0, 7, 25):
        sure = file.confidence.copy()
        sure[order[:count]] = 1
        assert found[count] == pytest.approx(float(frequency @ sure / frequency.sum()))
    without = reviewing.expected(file, frequency, order, "frequency")
    assert without[7] == pytest.approx(frequency[order[:7]].sum() / frequency.sum())


def test_frequencies_fall_as_they_should():
    found = reviewing.drawn(1_000, 1.0, 0)
    assert sorted(found.tolist(), reverse=True)[:4] == [1000, 500, 333, 250]
    assert found.min() == 1
    assert set(reviewing.drawn(10, 0, 0).tolist()) == {1}


def test_confidence_that_is_true_saves_decisions():
    file = file_of(600, 7)
    figures = reviewing.measure(file, target=0.99, seconds=6, seeds=2)
    assert figures["simulated"]
    assert len(figures["orders"]) == 2 * 2 * 4
    by = {(row["frequencies"], row["answers"], row["order"]): row for row in figures["orders"]}
    for kind in ("all 1", "drawn, exponent 1"):
        risk, frequency, every = (by[kind, "as they were", name] for name in ("risk", "frequency", "row"))
        assert risk["needed"] < frequency["needed"] <= 600
        assert (every["hours"], every["hours_saved"]) == (1.0, 0.0)
        assert risk["hours"] == pytest.approx(risk["known"] * 6 / 3600)
        assert risk["hours_saved"] == pytest.approx(1 - risk["hours"])
        assert risk["needed_low"] <= risk["needed"] <= risk["needed_high"]
        assert risk["right_then"] > 0.95


def test_a_table_is_reviewed_from_file_to_report(tmp_path, monkeypatch, capsys):
    encoder = VocabularyEncoder()
    index = build(synthetic_terminology(200), encoder, tmp_path / "x.index")
    names = index.segment.concepts.column("name").to_pylist()
    ids = index.segment.concepts.column("id").to_pylist()
    with open(tmp_path / "rows.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("mention", "concept_id", "frequency"))
        writer.writerows((name, one, number + 1) for number, (name, one) in enumerate(zip(names, ids, strict=True)))
        writer.writerows([("nothing at all", "NIL", 7), ("lost", "T:999999", 9)])
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: encoder)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    words = [
        "reviewing.py",
        "--index",
        index.path,
        "--table",
        tmp_path / "rows.csv",
        "--seconds",
        "6",
        "-o",
        tmp_path / "o",
    ]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    with pytest.raises(UsageError, match="has no calibration"):
        reviewing.main()
    quick_fit(index, encoder).save(index.path / FOLDER)
    reviewing.main()
    figures = json.loads((tmp_path / "o" / "report.json").read_text(encoding="utf-8"))
    assert figures["rows"] == len(names) + 1
    assert {row["frequencies"] for row in figures["orders"]} == {"of the file"}
    with open(tmp_path / "o" / "table.csv", encoding="utf-8", newline="") as file:
        assert [row["order"] for row in csv.DictReader(file)] == list(reviewing.ORDERS) * 2
    assert "simulated reviewing of 201 rows" in capsys.readouterr().out
