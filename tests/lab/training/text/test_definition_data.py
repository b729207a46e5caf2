"""What BioLORD reads: rows that are wrong are set aside, and definitions are in the languages of the names."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr

from alphita.errors import InputError
from alphita.terminology import store
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology
from alphita_lab.recipes.biolord import Config
from alphita_lab.training.sentences.scored_pairs import ScoredPairs
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.text.definition_data import DevDefinitions, correlation, hold_out, read
from alphita_lab.verbalisation.texts import KINDS, Texts, verbalise
from tests.doubles import HashEncoder
from tests.stanzas import defined

TEXTS = {
    "it": "Un disturbo del cuore che viene chiamato con il numero {} nella lista",
    "de-AT": "Eine Krankheit des Herzens, die in der Liste die Nummer {} hat",
    "en": "A disorder of the heart that the list gives the number {}",
}
CONTRAST = Config(phases="contrast", dev_definitions=0)


def written(path: Path, *, names: list[str], definitions: list[str]) -> Terminology:
    """Write and open a terminology of 9 concepts, whose names and definitions are in these languages by turns."""
    ids = [f"T:{number}" for number in range(9)]
    terms = pl.DataFrame(
        {
            "concept": ids,
            "string": [f"name {number}" for number in range(9)],
            "language": [names[number % len(names)] for number in range(9)],
        }
    )
    table = pl.DataFrame(
        {
            "concept": ids,
            "text": [TEXTS[definitions[number % len(definitions)]].format(number) for number in range(9)],
            "language": [definitions[number % len(definitions)] for number in range(9)],
        }
    )
    source = pl.lit("T").alias("source")
    tables = Tables(pl.DataFrame({"id": ids}).with_columns(source), terms.with_columns(source))
    tables.definitions = table.with_columns(source)
    store.save(tables, path)
    return store.load_terminology(path)


def test_definitions_are_taken_in_the_languages_of_the_names_and_in_english(tmp_path) -> None:
    italian = written(tmp_path / "it.terminology", names=["it"], definitions=["it"])
    assert len(read(italian, CONTRAST).texts) == 9
    # Regions do not part names and definitions.
    mixed = written(tmp_path / "de.terminology", names=["de-CH"], definitions=["de-AT", "it", "en"])
    assert len(read(mixed, CONTRAST).texts) == 6
    german = written(tmp_path / "german.terminology", names=["de"], definitions=["en"])
    assert len(read(german, CONTRAST).texts) == 9
    both = written(tmp_path / "both.terminology", names=["de", "it", "en-US"], definitions=["de-AT", "it", "en"])
    assert len(read(both, CONTRAST).texts) == 9
    assert len(read(both, CONTRAST.model_copy(update={"languages": "it:2,de"})).texts) == 6


def test_where_no_definition_is_in_these_languages_theirs_are_named(tmp_path) -> None:
    terminology = written(tmp_path / "t.terminology", names=["en-GB"], definitions=["it", "de-AT"])
    with pytest.raises(InputError, match=r"no concept has a text .* in en; its definitions are in de-AT, it; take"):
        read(terminology, CONTRAST)


def test_rows_that_are_wrong_are_set_aside_and_counted(tmp_path, capsys) -> None:
    terminology = defined(tmp_path / "t.terminology")
    scored, generated = tmp_path / "sts.tsv", tmp_path / "generated.jsonl"
    scored.write_text("sentence1\tsentence2\tscore\na\tb\t3\nc\td\tn/a\n")
    good = {"concept_id": terminology.concept_id(1), "text": "Harm of what pumps the blood around."}
    generated.write_text("not json\n" + json.dumps(good) + "\n")
    report = tmp_path / "new" / "m.rejects.csv"
    config = CONTRAST.model_copy(update={"scored": str(scored), "generated": str(generated)})
    found = read(terminology, config, rejects=report)
    with report.open(newline="") as file:
        assert [(Path(row["file"]).name, row["line"]) for row in csv.DictReader(file)] == [
            ("sts.tsv", "3"),
            ("generated.jsonl", "1"),
        ]
    assert f"2 rows left out; see {report}" in capsys.readouterr().err
    assert found.facts["rejects"] == 2
    read(terminology, config)
    assert "2 rows left out\n" in capsys.readouterr().err


@pytest.fixture(scope="module")
def names_and_texts(tmp_path_factory) -> tuple[TrainingNames, Texts]:
    terminology = defined(tmp_path_factory.mktemp("data") / "t.terminology")
    return TrainingNames(terminology), verbalise(terminology)


def test_definitions_of_some_concepts_are_held_out_and_all_their_names_searched(names_and_texts) -> None:
    names, texts = names_and_texts
    kept, dev = hold_out(texts, [0, 2], names, wanted=2, most_names=20, seed=0)
    assert dev is not None
    assert len(dev.texts) == len(set(dev.concepts.tolist())) == 2
    for text, concept in zip(dev.texts, dev.concepts.tolist(), strict=True):
        assert not ((kept.concepts == concept) & (kept.kinds == KINDS.index("definition"))).any()
        assert text not in kept.strings
        assert texts.concepts[texts.strings.index(text)] == concept
        own = {names.strings[n] for n in range(names.offsets[concept], names.offsets[concept + 1])}
        searched = {dev.names[n] for n in np.flatnonzero(dev.name_concepts == concept)}
        assert own == searched
    # Descriptions stay, and so do all other concepts' texts.
    assert len(kept) == len(texts) - 2
    assert (kept.kinds == KINDS.index("description")).sum() == (texts.kinds == KINDS.index("description")).sum()
    assert len(dev.names) == 20
    owners = np.searchsorted(names.offsets, np.arange(len(names.strings)), "right") - 1
    for name, concept in zip(dev.names, dev.name_concepts.tolist(), strict=True):
        assert concept in owners[[n for n, string in enumerate(names.strings) if string == name]]
    again = hold_out(texts, [0, 2], names, wanted=2, most_names=20, seed=0)[1]
    assert again is not None
    assert (again.texts, again.names) == (dev.texts, dev.names)
    other = hold_out(texts, [0, 2], names, wanted=2, most_names=20, seed=1)[1]
    assert other is not None
    assert other.texts != dev.texts


def test_no_more_than_a_tenth_is_held_out(names_and_texts) -> None:
    names, texts = names_and_texts
    kept, dev = hold_out(texts, [0], names, wanted=500, most_names=10_000, seed=0)
    assert dev is not None
    assert len(dev.texts) == 3
    assert len(dev.names) == len(names.strings)
    assert len(kept) == len(texts) - 3
    few = Texts(texts.concepts[:9], texts.strings[:9], texts.kinds[:9], {})
    assert hold_out(few, [0], names, wanted=500, most_names=10, seed=0) == (few, None)
    assert hold_out(texts, [0], names, wanted=0, most_names=10, seed=0) == (texts, None)


def test_all_definitions_of_a_concept_are_held_out_and_one_is_asked(names_and_texts) -> None:
    names, texts = names_and_texts
    doubled = Texts(
        np.repeat(texts.concepts, 2),
        [text for one in texts.strings for text in (one, one + " Again.")],
        np.repeat(texts.kinds, 2),
        {},
    )
    kept, dev = hold_out(doubled, [0], names, wanted=2, most_names=20, seed=0)
    assert dev is not None
    assert len(dev.texts) == 2
    assert not any(text.endswith("Again.") for text in dev.texts)
    assert len(kept) == len(doubled) - 4


def test_accuracy_is_counted_one_by_one() -> None:
    encoder = HashEncoder()
    dev = DevDefinitions(
        ["pain in the chest", "swollen leg", "a cold", "no such"],
        np.array([0, 1, 3, 2]),
        ["chest pain", "leg that is swollen", "cold", "cold", "other"],
        np.array([0, 1, 2, 3, 4]),
    )
    queries, names = encoder.encode(dev.texts), encoder.encode(dev.names)
    right = 0
    for query, concept in zip(queries, dev.concepts, strict=True):
        best = max(float(query @ name) for name in names)
        right += any(
            float(query @ name) == pytest.approx(best, abs=1e-6) and owner == concept
            for name, owner in zip(names, dev.name_concepts, strict=True)
        )
    assert 0 < right < 4
    assert dev.accuracy(encoder) == right / 4


def test_correlation_is_pearsons() -> None:
    encoder = HashEncoder()
    pairs = ScoredPairs(
        ["a cold", "chest pain", "fever", "leg"],
        ["cold", "pain in the chest", "hot", "arm"],
        np.array([0.9, 0.8, 0.4, 0.1], np.float32),
    )
    similarity = (encoder.encode(pairs.left) * encoder.encode(pairs.right)).sum(1)
    assert correlation(encoder, pairs) == pytest.approx(pearsonr(similarity, pairs.scores)[0], abs=1e-6)
    with pytest.raises(InputError, match="all dev scores are equal"):
        correlation(encoder, ScoredPairs(["a", "b"], ["a", "c"], np.ones(2, np.float32)))
    alike = ScoredPairs(["a", "a"], ["b", "b"], np.array([0.0, 1.0], np.float32))
    assert correlation(encoder, alike) == 0.0
