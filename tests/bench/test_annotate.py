"""The scoring of annotated abstracts, on a corpus of two invented ones."""

from __future__ import annotations

import pytest

import annotate
from alphita.annotation.spans import Annotated, Annotation, Document, Place
from alphita.index.store import Index, build
from tests.doubles import HashEncoder, SmallTerminology

ROWS = [("HP:1", "Seizure", "exact"), ("HP:2", "Ataxia", "exact"), ("HP:3", "Late onset", "exact")]


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "ann").mkdir()
    for name, text, gold in (
        ("1", "Seizures and ataxia.", "[0::8]\tHP_1 | Seizures\n[13::19]\tHP_2 | ataxia\n[0::1]\tHP_9 | S\n"),
        ("2", "Late ataxia, seizure.", "[5::11]\tHP_2 | ataxia\n"),
    ):
        (tmp_path / "corpus" / name).write_text(text, encoding="utf-8")
        (tmp_path / "ann" / name).write_text(gold, encoding="utf-8")
    build(SmallTerminology(ROWS), HashEncoder(), tmp_path / "small.index")
    annotate.DEVELOPMENT = 2
    index = Index.open(tmp_path / "small.index")
    assert annotate.load(tmp_path, index, "reported") == []
    return annotate.load(tmp_path, index, "development"), index


def test_documents_and_mentions_are_scored_by_their_own_rules(texts):
    some, _ = texts
    gold = [text.gold for text in some]
    assert [len(one) for one in gold] == [2, 1]
    answers = [
        [annotate.Mention(0, 8, "HP:1"), annotate.Mention(0, 4, "HP:3")],
        [annotate.Mention(0, 11, "HP:2"), annotate.Mention(13, 20, "HP:1")],
    ]
    # Documents: two of four answers, and of three in gold; mentions: one.
    assert annotate.rates(gold, answers) == [50.0, 66.7, 57.1, 25.0, 33.3, 28.6]
    assert annotate.rates(gold, answers, {"HP:1", "HP:2"}) == [66.7, 66.7, 66.7, 33.3, 33.3, 33.3]
    assert annotate.rates(gold, [[], []]) == [0.0] * 6


def test_what_is_missed_and_too_many_is_shown_with_its_words(texts):
    some, index = texts
    lines = annotate.wrong(some[0], [annotate.Mention(0, 8, "HP:2")], index, {"HP:1", "HP:2"})
    assert [line.split("\t")[:4] for line in lines] == [["missed", "1", "Seizure", "Seizures"]]
    lines = annotate.wrong(some[1], [annotate.Mention(13, 20, "HP:1")], index, {"HP:1"})
    assert [line.split("\t")[:4] for line in lines] == [["too many", "2", "Seizure", "seizure"]]


def test_a_confidence_is_right_if_the_abstract_has_its_concept(texts):
    some, _ = texts

    def found(concept, confidence, decision):
        place = Place(0, 1)
        said = ("S", (place,), concept, "", "", confidence, decision, "exact")
        return Annotation(0, 1, *said)

    answers = [
        [found("HP:1", 0.9, "accept"), found("HP:3", 0.6, "review")],
        [found("HP:1", 0.8, "accept"), found("HP:2", 0.7, "review")],
    ]
    annotated = [Annotated(Document("", text.text), tuple(one)) for text, one in zip(some, answers, strict=True)]
    figures = annotate.calibration(some, annotated)
    assert figures["mentions"] == 4
    assert figures["calibration_error"] == pytest.approx((0.1 + 0.6 + 0.8 + 0.3) / 4)
    assert (figures["accepted"], figures["accepted_precision"]) == (2, 0.5)
