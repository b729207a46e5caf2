"""What BioLORD reads: rows that are wrong are set aside, and definitions are in the languages of the names."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from alphita.errors import InputError
from alphita.terminology import store
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology
from alphita_lab.recipes.biolord import Config
from alphita_lab.training.text.definition_data import read
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
    assert f"2 rows are left out; each is in {report}" in capsys.readouterr().err
    assert found.facts["rejects"] == 2
    read(terminology, config)
    assert "2 rows are left out\n" in capsys.readouterr().err
