"""Rows of mentions: which windows and names train, and the tokens of each."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita.terminology.text import clean
from alphita_lab.encoder.vocabulary import with_tags
from alphita_lab.training.mentions.building import MentionSettings, build
from alphita_lab.training.mentions.rows import mention_rows
from alphita_lab.training.mentions.store import Mentions
from alphita_lab.training.terms.names import TrainingNames
from tests.tables import terminology_of
from tests.tiny import tiny_model

NAMES = [
    ("T:1", "Heart pain", "en"),
    ("T:1", "cardiodynia", "en"),
    ("T:2", "liver swelling", "en"),
    ("T:3", "pain", "en"),
    ("T:5", "cold", "en"),
    ("T:6", "Cold", "en"),
    ("T:6", "rhinitis", "en"),
    ("T:2", "gonfiore", "it"),
    ("T:7", "never met", "en"),
]
TEXT = (
    "the heart pain of the skin was seen and then cardiodynia again . liver swelling was of the bone and the cold . "
    "gonfiore and rhinitis of the eye and then pain . "
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(scope="module")
def terminology(folder):
    return terminology_of(NAMES, folder / "t.terminology")


@pytest.fixture(scope="module")
def tagged(folder):
    (folder / "tagged").mkdir()
    return with_tags(tiny_model(folder / "tiny"), folder / "tagged")


@pytest.fixture(scope="module")
def encoder(tagged) -> TermEncoder:
    return TermEncoder.load(tagged.encoder, precision="fp32", max_length=16)


def mentions_of(folder: Path, terminology, name: str, **settings) -> Mentions:
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": f"{TEXT} {number} {TEXT}"}) + "\n" for number in range(6)))
    build([corpus], terminology, folder / "tiny", folder / name, MentionSettings(**{"window": 14} | settings))
    return Mentions.load(folder / name)


@pytest.fixture(scope="module")
def mentions(folder, tagged, terminology) -> Mentions:
    return mentions_of(folder, terminology, "x.mentions", contexts=6)


def test_rows_are_windows_with_tags_and_names_without(terminology, tagged, encoder, mentions) -> None:
    names = TrainingNames(terminology)
    rows = mention_rows(names, encoder, terminology, mentions, tags=tagged.ids, contexts=3)
    strings = [names.strings[name] for name in rows.names.tolist()]
    assert Counter(strings[: rows.windows]) == dict.fromkeys(
        ("heart pain", "cardiodynia", "liver swelling", "pain", "gonfiore", "rhinitis"), 3
    )
    assert sorted(strings[rows.windows :]) == sorted(set(names.strings) - {"cold"})
    assert rows.left_out["names of several concepts"] == 2
    ids = [terminology.concept_id(row) for row in rows.concepts.tolist()]
    expected = {clean(string): concept for concept, string, _ in NAMES}
    assert ids == [expected[string] for string in strings]
    start, end = tagged.ids
    for row, string in enumerate(strings):
        tokens = rows.tokens.rows(np.array([row]))[0].tolist()
        (own,) = encoder.tokenize([string])
        if row < rows.windows:
            assert tokens[tokens.index(start) + 1 : tokens.index(end)] == own[1:-1]
            assert (tokens.count(start), tokens.count(end)) == (1, 1)
            assert (tokens[0], tokens[-1]) == (own[0], own[-1])
            assert len(tokens) <= 14 + 4
        else:
            assert tokens == own


def test_a_window_trains_only_if_its_name_does(folder, terminology, tagged, encoder, mentions) -> None:
    """Names of other languages, names held out, and those that score do not train in windows either."""
    names = TrainingNames(terminology, languages={"en": 1.0}, exclude=frozenset({"rhinitis"}))
    rows = mention_rows(names, encoder, terminology, mentions, tags=tagged.ids)
    met = {names.strings[name] for name in rows.names[: rows.windows].tolist()}
    assert met == {"heart pain", "cardiodynia", "liver swelling", "pain"}
    assert rows.left_out["windows of names that do not train"] == 12
    names = TrainingNames(terminology, languages={"en": 1.0}, dev=2)
    assert names.dev_strings == ["cardiodynia", "rhinitis"]
    wide = mentions_of(folder, terminology, "wide.mentions", window=34)

    def text(rows) -> str:
        return ",".join(map(str, rows.tokens.ids.tolist()))

    rows = mention_rows(names, encoder, terminology, wide, tags=tagged.ids)
    assert rows.windows > 0
    assert rows.left_out["windows with a dev synonym"] > 0
    everything = mention_rows(TrainingNames(terminology), encoder, terminology, wide, tags=tagged.ids)
    for dev in encoder.tokenize(names.dev_strings):
        hidden = "," + ",".join(map(str, dev[1:-1])) + ","
        assert hidden in text(everything)
        assert hidden not in text(rows)


def test_homonyms_that_were_kept_do_not_train(folder, terminology, tagged, encoder) -> None:
    kept = mentions_of(folder, terminology, "kept.mentions", ambiguous="keep")
    assert "cold" in {clean(string) for string in kept.strings.to_pylist()}
    names = TrainingNames(terminology)
    rows = mention_rows(names, encoder, terminology, kept, tags=tagged.ids)
    assert "cold" not in {names.strings[name] for name in rows.names.tolist()}
    assert rows.left_out["windows of names of several concepts"] == 4


def test_without_two_rows_of_a_concept_nothing_can_train(folder, tagged, encoder) -> None:
    poor = terminology_of([("T:1", "heart pain", "en"), ("T:2", "pain", "en")], folder / "poor.terminology")
    with pytest.raises(InputError, match="no concept has two names or contexts") as error:
        mention_rows(TrainingNames(poor), encoder, poor)
    assert error.value.remedy
    # Contexts make up for synonyms.
    mentions = mentions_of(folder, poor, "poor.mentions")
    assert mention_rows(TrainingNames(poor), encoder, poor, mentions, tags=tagged.ids).windows == 8
