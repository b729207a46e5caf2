from __future__ import annotations

import argparse
from typing import Any

import pytest

import best_answers
import study
from alphita.answer.normalizer import Normalizer
from alphita.encoder.encoder import TermEncoder
from alphita.index.choice import Choice
from alphita.index.sources import enrichment_of
from alphita.index.store import Index
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology

SAMPLE, OTHER = "sample:x.csv", "clinvar"
ENCODER = VocabularyEncoder()


def answered_by(index: Index, asked: object) -> dict[str, Any]:
    """Stand in for `best_answers.measure`: say what would answer."""
    normalizer = Normalizer(index, encoder=ENCODER)
    return {"ranking": normalizer.ranking, "assurance": normalizer.assurance}


@pytest.fixture(scope="module")
def found() -> dict[str, dict]:
    """What a run over a sample and another set found, with two variants that are given nothing."""
    nothing = enrichment_of(Choice(borrow=False, learn="no"))
    one = best_answers.Set(synthetic_terminology(), frozenset(), [])
    stand_ins = {
        "variants": lambda: {"nothing": nothing, best_answers.CALIBRATED: nothing},
        "load": lambda name, data, encoder: one,
        "fit": lambda index, encoder, seed: quick_fit(index, encoder(), seed=seed),
        "measure": answered_by,
        "RANKINGS": (),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, stand_in in stand_ins.items():
            patch.setattr(best_answers, name, stand_in)
        patch.setattr(TermEncoder, "load", lambda *given, **options: ENCODER)
        given = argparse.Namespace(model="x", sets=[SAMPLE, OTHER], data=None, only=None)
        return best_answers.run(given, threads=1)


def test_only_the_sample_is_asked_of_an_index_with_a_calibration_of_its_own(found):
    assert {name: list(rows) for name, rows in found.items()} == {SAMPLE: ["nothing", "calibrated"], OTHER: ["nothing"]}
    plain, calibrated = found[SAMPLE].values()
    assert (plain["ranking"], calibrated["ranking"]) == ("vectors", "learned")
    assert "calibration" not in plain
    told = calibrated["calibration"]
    assert told["seed"] == 0
    assert [row["error"] for row in told["risk_coverage"]["rows"]] == [0.005, 0.01, 0.02, 0.05, 0.1]


def test_what_encoding_takes_is_counted_for_new_strings_only(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(study.time, "process_time", lambda: float(next(clock)))
    strings = synthetic_terminology().terms["string"].combine_chunks().cast("string").slice(0, 5)
    encoded = study.Encoded()
    list(encoded(strings, ENCODER))
    assert encoded.seconds == 1.0
    list(encoded(strings, ENCODER))
    assert encoded.seconds == 1.0
