"""Which of the shipped models an index is made with: by the languages of its names and of the strings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import alphita
from alphita.errors import UsageError
from alphita.index import choice, sources
from alphita.index.choice import Choice, language_of, languages_of, model_for
from alphita.index.sources import index_of, terminology_of
from alphita.terminology.store import load_terminology

ITALIAN = [
    "mal di testa",
    "febbre alta",
    "dolore al petto",
    "tosse secca da una settimana",
    "gonfiore delle gambe",
    "perdita di peso",
    "sangue nelle urine",
    "difficoltà a respirare",
    "stanchezza",
    "vista offuscata",
    "nausea e vomito",
    "dolori articolari",
    "eruzione cutanea",
    "battito irregolare",
    "prurito agli occhi",
    "vertigini",
    "insonnia grave",
    "perdita di memoria",
    "pressione alta",
    "diabete di tipo 2",
    "frattura del polso",
]
GERMAN = [
    "Kopfschmerzen",
    "hohes Fieber",
    "Schmerzen in der Brust",
    "trockener Husten",
    "geschwollene Beine",
    "Gewichtsverlust",
    "Blut im Urin",
    "Atemnot",
    "Müdigkeit",
    "verschwommenes Sehen",
    "Übelkeit und Erbrechen",
    "Gelenkschmerzen",
    "Hautausschlag",
    "unregelmäßiger Herzschlag",
    "juckende Augen",
    "Schwindel",
    "Schlaflosigkeit",
    "Gedächtnisverlust",
    "hoher Blutdruck",
    "Zuckerkrankheit",
    "gebrochenes Handgelenk",
]
ENGLISH = [
    "headache",
    "high fever",
    "chest pain",
    "dry cough for a week",
    "swollen legs",
    "weight loss",
    "blood in the urine",
    "short of breath",
    "fatigue",
    "blurred vision",
    "nausea and vomiting",
    "joint pain",
    "skin rash",
    "irregular pulse",
    "itchy eyes",
    "dizziness",
    "severe insomnia",
    "memory loss",
    "hypertension",
    "type 2 diabetes",
    "carpal fracture",
]


@pytest.fixture
def table(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "findings.csv"
    path.write_text("id,term\nX:1,Headache\nX:2,Fever\n")
    return path


@pytest.fixture
def indexed(monkeypatch) -> list[str]:
    """Note the models that indexes are made with."""
    models: list[str] = []
    index = sources._index

    def spy(terminology: Path, out: Path, what: str, chosen: Choice, threads: int | None) -> None:
        models.append(str(chosen.model))
        index(terminology, out, what, replace(chosen, model="alphita-en", learn="no", borrow=False), threads)

    monkeypatch.setattr(sources, "_index", spy)
    return models


@pytest.mark.parametrize(("strings", "language"), [(ITALIAN, "it"), (GERMAN, "de"), (ENGLISH, "en")])
def test_strings_tell_their_language(strings, language) -> None:
    assert language_of(strings) == language
    assert language_of(strings[:19]) is None
    assert language_of(strings[:2] * 50) is None


def test_a_language_of_a_few_names_does_not_count(tmp_path, table) -> None:
    for german, spoken in ((1, ["en"]), (6, ["en", "de"]), (60, ["de", "en"])):
        rows = [f"X:{number},sign {number},en\n" for number in range(40)]
        rows += [f"X:{number},Zeichen {number},de\n" for number in range(german)]
        path = tmp_path / f"{german}.csv"
        path.write_text("id,term,language\n" + "".join(rows))
        assert languages_of(load_terminology(terminology_of(path))) == spoken
    path = tmp_path / "no_language.csv"
    path.write_text("id,term\n" + "".join(f"X:{number},{one}\n" for number, one in enumerate(GERMAN)))
    assert languages_of(load_terminology(terminology_of(path))) == ["en", "de"]


def test_all_english_alone_is_for_the_english_model() -> None:
    assert model_for([]) == model_for(["en", "en-GB"]) == "alphita-en"
    assert model_for(["en", "it"]) == model_for(["de-CH"]) == "alphita-multi"


def test_an_index_is_made_with_the_model_that_names_and_strings_call_for(table, tmp_path, indexed, capsys) -> None:
    index_of(table)
    assert f"indexing {table} with alphita-en: this is done once" in capsys.readouterr().err
    index_of(table, language="en")
    assert indexed == ["alphita-en"]
    assert index_of(table, language="it").path != index_of(table).path
    assert f"indexing {table} with alphita-multi, for en, it: this is done once" in capsys.readouterr().err
    index_of(table, Choice(model="alphita-multi"), language="en")
    assert indexed == ["alphita-en", "alphita-multi"]
    index_of(table, Choice(model="alphita-en", learn="no"), language="it")
    assert indexed[2:] == ["alphita-en"]
    german = tmp_path / "german.csv"
    german.write_text("id,term,language\nX:1,Kopfschmerz,de\n")
    index_of(german)
    assert indexed[3:] == ["alphita-multi"]


@pytest.mark.parametrize("kind", ["list", "series", "frame", "lazy"])
def test_python_s_strings_choose_the_model(table, indexed, kind) -> None:
    given = {"list": list, "series": pl.Series, "frame": lambda words: pl.DataFrame({"words": words})}
    given["lazy"] = lambda words: given["frame"](words).lazy()
    column = {"column": "words"} if kind in ("frame", "lazy") else {}
    for strings in (ENGLISH, ITALIAN, ITALIAN[:5]):
        alphita.normalize(given[kind](strings), to=table, **column)
    assert indexed == ["alphita-en", "alphita-multi"]


def test_a_model_that_does_not_come_with_alphita_is_told_how_to_use(table) -> None:
    with pytest.raises(UsageError, match=r"mutli'; did you mean 'alphita-multi'.*alphita index SOURCE --model"):
        index_of(table, Choice(model="alphita-mutli"))
    assert choice.TAUGHT[0] == choice.ENGLISH
