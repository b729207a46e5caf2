"""What distillation trains on, from a terminology, its editions and files together."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from alphita.errors import InputError, Rejects
from alphita.terminology import store
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split, hold_out_concepts
from alphita.terminology.store import Terminology
from alphita_lab.training.terms.translation_data import Wanted, gather

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Rows = list[tuple[str, str, str, bool]]


def make(path: Path, terms: Rows) -> Terminology:
    frame = pl.DataFrame(terms, schema=["concept", "string", "language", "preferred"], orient="row")
    concepts = pl.DataFrame({"id": sorted({row[0] for row in terms})}).with_columns(source=pl.lit("T"))
    store.save(Tables(concepts, frame.with_columns(source=pl.lit("T"))), path)
    return store.load_terminology(path)


def named(language: str, *, synonym: bool = False) -> Rows:
    rows = [(f"T:{place}", f"{number} {language}", language, True) for place, number in enumerate(NUMBERS)]
    return rows + [(one, f"other {string}", tag, False) for one, string, tag, _ in rows if synonym]


@pytest.fixture
def terminology(tmp_path: Path) -> Terminology:
    return make(tmp_path / "t.terminology", [*named("en", synonym=True), *named("it", synonym=True)])


def test_all_kinds_of_pairs_stand_together_each_once(terminology: Terminology, tmp_path: Path) -> None:
    edition = make(tmp_path / "e.terminology", [*named("it"), *named("pt-BR")])
    file = tmp_path / "p.tsv"
    file.write_text(
        "source\ttranslation\tlanguage\none en\tone it\tit\none en\tuno\tit\nlast\tletzte\tde\nsame\tsame\tde\n",
        encoding="utf-8",
    )
    with Rejects() as rejects:
        data = gather(terminology, Wanted("en", editions=[str(edition.path)], files=[str(file)]), rejects=rejects)
    # The labels of the terminology, those of the edition that are new, and the file's two.
    assert data.pairs.by_language() == {"de": 1, "it": 11, "pt-BR": 10}
    assert data.pairs.origins == ["t", "e", "p.tsv"]
    assert data.pairs.counts["duplicate"] == 11
    assert rejects.count == 1
    assert sorted(data.names) == sorted(f"other {number} en" for number in NUMBERS)
    assert set(data.made_of) == {str(edition.path), str(file)}
    assert data.lacking == []
    assert len(data.dev) == 0
    assert data.lines()[0] == "pairs: 22 (1 de, 11 it, 10 pt-BR)"


def test_languages_are_those_asked_for_from_wherever(terminology: Terminology, tmp_path: Path) -> None:
    edition = make(tmp_path / "e.terminology", [*named("pt-BR"), *named("es")])
    file = tmp_path / "p.tsv"
    file.write_text("source\ttranslation\tlanguage\na b\tc d\tes\na b\te f\tpt-PT\n", encoding="utf-8")
    data = gather(terminology, Wanted("en", languages=["pt"], editions=[str(edition.path)], files=[str(file)]))
    assert data.pairs.by_language() == {"pt-BR": 10, "pt-PT": 1}
    # The terminology itself has none of them, which is told, and no error.
    assert len(data.lacking) == 1
    with pytest.raises(InputError, match=r"no translation is in this language.*'sv'"):
        gather(terminology, Wanted("en", languages=["it", "sv"]))


@pytest.mark.parametrize("seed", [0, 1])
def test_dev_pairs_train_in_no_way(terminology: Terminology, tmp_path: Path, seed: int) -> None:
    edition = make(tmp_path / "e.terminology", named("de"))
    data = gather(terminology, Wanted("en", editions=[str(edition.path)], dev=5, seed=seed))
    # Three concepts, each with both of its languages.
    assert data.dev.by_language() == {"de": 3, "it": 3}
    assert data.pairs.by_language() == {"de": 7, "it": 7}
    assert not {*data.dev.sources, *data.dev.translations} & {
        *data.pairs.sources,
        *data.pairs.translations,
        *data.names,
    }
    assert data.lines()[-1] == "dev pairs: 6 (3 de, 3 it)"


def test_a_split_of_strings_takes_strings_and_one_of_concepts_all_their_names(
    terminology: Terminology, tmp_path: Path
) -> None:
    edition = make(tmp_path / "e.terminology", named("de"))
    strings = Split(["two it"], ["T:1"], ["test"], {"method": "hold_out_synonyms"})
    data = gather(terminology, Wanted("en", editions=[str(edition.path)]), split=strings)
    assert data.pairs.by_language() == {"de": 10, "it": 9}
    whole = hold_out_concepts(terminology, fraction=0.5, seed=0)
    ids = set(whole.concept_ids)
    assert 0 < len(ids) < 10
    data = gather(terminology, Wanted("en", editions=[str(edition.path)]), split=whole)
    # The split was made without the edition, whose names of these concepts do not train either.
    assert data.pairs.by_language() == {"de": 10 - len(ids), "it": 10 - len(ids)}
    assert {f"T:{concept}" for concept in data.pairs.concepts} == {f"T:{place}" for place in range(10)} - ids
    assert len(data.names) == 10 - len(ids)


def test_nothing_left_is_an_error_that_says_why(terminology: Terminology, tmp_path: Path) -> None:
    everything = hold_out_concepts(terminology, fraction=1.0, seed=0)
    with pytest.raises(InputError, match=r"no pair of a name and its translation.*held out") as caught:
        gather(terminology, Wanted("en"), split=everything)
    assert caught.value.remedy
    english = make(tmp_path / "english.terminology", named("en"))
    with pytest.raises(InputError, match="its languages are en"):
        gather(english, Wanted("en"))
    with pytest.raises(InputError, match="no such terminology"):
        gather(terminology, Wanted("en", editions=[str(tmp_path / "nowhere")]))
