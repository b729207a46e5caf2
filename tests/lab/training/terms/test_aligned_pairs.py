"""Pairs from terminologies, editions and files; what is left out, and why."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import languages
from alphita.terminology.splits import hold_out_concepts
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many
from alphita_lab.training.terms import aligned_pairs, terminology_pairs
from alphita_lab.training.terms.aligned_pairs import AlignedPairs, can_be, scripts_of_language
from alphita_lab.training.terms.terminology_pairs import names_in, of_editions, source_names
from tests.tables import terminology_of

Make = Callable[..., Terminology]
ROWS = [
    ("T:1", "Seizure", "en", True),
    ("T:1", "Epileptic seizure", "en", False),
    ("T:1", "Convulsion", "en-GB", False),
    ("T:1", "Fit", "en", False, "broad"),
    ("T:1", "Crisi epilettica", "it", True),
    ("T:1", "Attacco epilettico", "it", False),
    ("T:1", "Convulsione grave", "it", False, "broad"),
    ("T:1", "Záchvat", "cs", False),
    ("T:1", "Epileptický záchvat", "cs", False),
    ("T:1", "Convulsion", "fr", True),
    ("T:1", "Krampfanfall", "de", True, "exact", "machine"),
    ("T:1", "Anfall", "de", False, "exact", "candidate"),
    ("T:1", "癫痫发作", "zh", True),
    ("T:2", "Diabetes", "en", True),
    ("T:2", "Diabetes", "es", True),
    ("T:2", "Diabete", "it", True),
    ("T:2", "Morbo dolce", "it", False, "exact", "official", "obsolete"),
    ("T:2", "Diabetes mellitus", "ja", True),
    ("T:3", "Mal di testa", "it", True),
    ("T:4", "Old ache", "en", True),
    ("T:4", "Vecchio dolore", "it", True),
    ("T:5", "HIV infection", "en", True),
    ("T:5", "HIV", "zh", True),
    ("T:5", "ВИЧ-инфекция", "it", True),
    ("T:5", "Infecção por HIV", "pt-BR", True),
    ("T:5", "Hiv", "und", True),
]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function: rows, retired ids, aliases -> a terminology."""

    def run(rows: list[tuple[Any, ...]], name: str = "t", retired: tuple[str, ...] = (), **tables: Any) -> Terminology:
        return terminology_of(rows, tmp_path / f"{name}.terminology", retired=retired, **tables)

    return run


@pytest.fixture
def terminology(make: Make) -> Terminology:
    return make(ROWS, retired=("T:4",))


def of_terminology(terminology: Terminology, **options: Any) -> AlignedPairs:
    return of_editions(terminology, terminology, **options)


def shown(pairs: AlignedPairs) -> list[tuple[str, str, str]]:
    return sorted((source, translation, language) for source, translation, language, _, _ in pairs.rows())


# --- from a terminology ----------------------------------------------------------------------------------------------


def test_labels_are_paired_with_labels_and_without_one_with_all_names(terminology: Terminology) -> None:
    pairs = of_terminology(terminology)
    assert shown(pairs) == [
        ("diabetes", "diabete", "it"),
        ("hiv infection", "hiv", "zh"),
        ("hiv infection", "infecção por hiv", "pt-BR"),
        ("seizure", "anfall", "de"),
        ("seizure", "crisi epilettica", "it"),
        ("seizure", "epileptický záchvat", "cs"),
        ("seizure", "záchvat", "cs"),
        ("seizure", "癫痫发作", "zh"),
    ]
    assert pairs.by_language() == {"cs": 2, "de": 1, "it": 2, "pt-BR": 1, "zh": 2}
    assert pairs.origins == ["t"]
    assert {terminology.concept_id(row) for row in pairs.concepts.tolist()} == {"T:1", "T:2", "T:5"}


def test_what_is_left_out_is_counted(terminology: Terminology) -> None:
    assert of_terminology(terminology).counts == {
        "machine translation": 1,  # Krampfanfall
        "translation equal to its source": 1,  # Diabetes, es
        "translation equal to a source-language name of the concept": 1,  # Convulsion, fr
        "translation in a script that its language does not use": 2,  # Latin in ja, Cyrillic in it
        "translation of a concept without a name to translate": 1,  # T:3
        "translation of no stated language": 1,
    }


def test_synonyms_and_all_pairs(terminology: Terminology) -> None:
    synonyms = {
        (source, translation)
        for source, translation, tag in shown(of_terminology(terminology, pairing="synonyms", languages=["it"]))
    }
    assert synonyms == {("seizure", "crisi epilettica"), ("seizure", "attacco epilettico"), ("diabetes", "diabete")}
    every = of_terminology(terminology, pairing="all", languages=["it"])
    assert {source for source, _, _ in shown(every)} == {"seizure", "epileptic seizure", "convulsion", "diabetes"}
    assert len(every) == 3 * 2 + 1


def test_machine_translations_by_option(terminology: Terminology) -> None:
    pairs = of_terminology(terminology, languages=["de"], machine=True)
    assert shown(pairs) == [("seizure", "krampfanfall", "de")]  # now German marks a label
    assert "machine translation" not in pairs.counts


def test_languages_take_their_variants_and_unknown_ones_are_refused(terminology: Terminology) -> None:
    assert shown(of_terminology(terminology, languages=["pt"])) == [("hiv infection", "infecção por hiv", "pt-BR")]
    with pytest.raises(UsageError, match="unknown language"):
        of_terminology(terminology, languages=["xx1"])
    with pytest.raises(
        InputError, match=r"no concept has both a name in the language 'en' and a translation.*its lang"
    ):
        of_terminology(terminology, languages=["fi"])


def test_long_and_empty_names_and_duplicates(make: Make) -> None:
    terminology = make(
        [
            ("T:1", "Pain", "en", True),
            ("T:1", "Dolore", "it"),
            ("T:1", "dolore.", "it"),
            ("T:1", "x" * 257, "it"),
            ("T:1", "Dolore", "es"),
            ("T:2", "pain", "en", True),
            ("T:2", "dolore", "it", True),
        ]
    )
    pairs = of_terminology(terminology)
    assert shown(pairs) == [("pain", "dolore", "es"), ("pain", "dolore", "it")]
    assert pairs.counts == {"duplicate": 2, "longer than 256 characters": 1}
    collected = aligned_pairs.Collected()
    assert collected.add("Pain", " ?! ", "it", origin="o") == "empty after cleaning"


# --- what must not train ---------------------------------------------------------------------------------------------


def test_excluded_strings_leave_another_name_to_pair_with(terminology: Terminology) -> None:
    pairs = of_terminology(terminology, exclude=frozenset({"seizure", "diabete"}), languages=["it", "zh"])
    assert shown(pairs) == [
        ("epileptic seizure", "crisi epilettica", "it"),
        ("epileptic seizure", "癫痫发作", "zh"),
        ("hiv infection", "hiv", "zh"),
    ]
    assert pairs.counts["held out"] == 1


@pytest.fixture
def homonyms(make: Make) -> Terminology:
    """Sixty concepts in three languages; some names are shared with the next concept, in one language or across."""
    rows: list[tuple[Any, ...]] = []
    for number in range(60):
        shared = number + number % 2
        rows += [
            (f"T:{number:02}", f"Disease {number}", "en", True),
            (f"T:{number:02}", f"Shared {shared}", "en", False),
            (f"T:{number:02}", f"broad {number}", "en", False, "broad"),
            (f"T:{number:02}", f"Malattia {number}", "it", True),
            (f"T:{number:02}", f"Morbo {number + number % 3}", "it", False),
            (f"T:{number:02}", f"Krankheit {number}", "de", True, "exact", "machine"),
            (f"T:{number:02}", f"Shared {shared + 2}", "fr", True),
        ]
    return make(rows)


@pytest.mark.parametrize("pairing", ["labels", "synonyms", "all"])
@pytest.mark.parametrize("seed", range(4))
def test_no_name_of_a_held_out_concept_trains_in_any_language(homonyms: Terminology, pairing: str, seed: int) -> None:
    split = hold_out_concepts(homonyms, fraction=0.3, seed=seed)
    held = set(split.concept_ids)
    assert 5 <= len(held) <= 30
    names = {name for one in held for name in clean_many(term.string for term in homonyms.concept(one).terms)}
    for options in ({"exclude": split.cleaned}, {"exclude_concepts": held}):
        pairs = of_terminology(homonyms, pairing=pairing, machine=True, **options)
        alone = source_names(homonyms, **options)
        assert len(pairs) > 40
        assert len(alone) > 40
        assert not names & {*pairs.sources, *pairs.translations, *alone}
        assert not held & {homonyms.concept_id(row) for row in pairs.concepts.tolist()}
        assert pairs.counts["held out"] > 0
    assert names & {*of_terminology(homonyms, pairing=pairing).sources}  # they would have trained


# --- editions and names ----------------------------------------------------------------------------------------------


def test_editions_are_joined_by_id_and_alternative_id(make: Make) -> None:
    aliases = [("T:2", "T:9")]
    english = make([("T:1", "Fever", "en", True), ("T:2", "Rash", "en", True)], "international", aliases=aliases)
    spanish = make(
        [
            ("T:0", "Nada", "es", True),
            ("T:1", "Fiebre", "es", True),
            ("T:1", "Fever", "en", True),
            ("T:9", "Erupción", "es", True),
            ("T:9", "Rash", "es"),
        ],
        "spanish",
    )
    pairs = of_editions(english, spanish)
    assert shown(pairs) == [("fever", "fiebre", "es"), ("rash", "erupción", "es")]
    assert [english.concept_id(row) for row in pairs.concepts.tolist()] == ["T:1", "T:2"]
    assert pairs.origins == ["spanish"]
    assert pairs.counts == {"translation of a concept without a name to translate": 1}
    assert shown(of_editions(english, spanish, exclude_concepts={"T:2"})) == [("fever", "fiebre", "es")]


def test_a_held_out_concept_is_known_by_its_alternative_id_in_the_other_edition(make: Make) -> None:
    aliases = [("T:2", "T:9")]
    english = make([("T:1", "Fever", "en", True), ("T:2", "Rash", "en", True)], "international", aliases=aliases)
    spanish = make([("T:1", "Erupción", "es", True), ("T:1", "Fiebre", "es"), ("T:9", "Erupción", "es", True)], "es")
    pairs = of_editions(english, spanish, pairing="synonyms", exclude_concepts={"T:2"})
    assert shown(pairs) == [("fever", "fiebre", "es")]


def test_source_names_are_those_without_a_pair(terminology: Terminology) -> None:
    assert sorted(source_names(terminology)) == [
        "convulsion",
        "diabetes",
        "epileptic seizure",
        "hiv infection",
        "seizure",
    ]
    pairs = of_terminology(terminology)
    assert sorted(source_names(terminology, beside=pairs)) == ["convulsion", "epileptic seizure"]
    assert source_names(terminology, beside=pairs, exclude=frozenset({"convulsion"})) == ["epileptic seizure"]
    assert sorted(names_in(terminology, "it")) == [
        "Attacco epilettico",
        "Crisi epilettica",
        "Diabete",
        "Mal di testa",
        "ВИЧ-инфекция",
    ]


def test_pairs_of_several_sources_are_joined(terminology: Terminology) -> None:
    one = of_terminology(terminology, languages=["zh", "it"])
    both = aligned_pairs.joined([one, of_terminology(terminology, languages=["it", "cs"])])
    assert len(both) == len(one) + 2
    assert ("hiv infection", "hiv", "zh") in shown(both)  # lower-cased by now, which is no reason to refuse it
    assert both.counts["duplicate"] == 2
    np.testing.assert_array_equal(both.concepts[: len(one)], one.concepts)


# --- files -----------------------------------------------------------------------------------------------------------

TABLE = """source\tconcept\ttranslation\tlanguage\tnote
Fever\tT:1\tFebbre\tit\tgood
Rash\t\tEruzione cutanea\tITA\tgood
Fever\tT:1\tFiebre\txx1\tunknown language
Fever\tT:1\tFièvre\tfr
Fever\tT:1\t\tit\tempty
Fever\tT:1\tFever\tit\tequal
Fever\tT:1\tPyrexia\ten-GB\tthe source's own language
Fever\tT:1\tЛихорадка\tit\tscript
Fever\tT:77\tFebbre alta\tit\tno such id
Old\tT:4\tVecchio\tit\tretired
Fever\tT:1\tFebbre\tit\tduplicate
"""
KNOWN = [("T:1", "Fever", "en", True), ("T:1", "Febris", "la"), ("T:2", "Rash", "en", True), ("T:4", "Old", "en", True)]


def test_a_table_with_bad_rows(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(TABLE, encoding="utf-8")
    terminology = make(KNOWN, retired=("T:4",))
    with Rejects(tmp_path / "rejects.csv") as rejects:
        pairs = terminology_pairs.read(path, rejects, terminology=terminology)
    assert shown(pairs) == [("fever", "febbre", "it"), ("rash", "eruzione cutanea", "it")]
    assert pairs.concepts.tolist() == [terminology.resolve("T:1"), -1]
    assert pairs.origins == ["pairs.tsv"]
    assert pairs.counts == {"bad row": 7, "duplicate": 1, "pair of a retired concept": 1}
    lines = (tmp_path / "rejects.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert sorted(int(line.split(",")[1]) for line in lines) == [4, 5, 6, 7, 8, 9, 10]
    assert any('language,xx1,"unknown language' in line for line in lines)
    with pytest.raises(InputError, match=r"pairs\.tsv:5: 4 cells"):
        terminology_pairs.read(path, Rejects(strict=True), terminology=terminology)


def test_with_a_terminology_no_name_of_a_held_out_concept_is_read(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttranslation\tlanguage\nHot\tFebris\tit\nRash\tEruzione\tit\n", encoding="utf-8")
    pairs = terminology_pairs.read(path, Rejects(), terminology=make(KNOWN), exclude_concepts=["T:1"])
    assert shown(pairs) == [("rash", "eruzione", "it")]
    assert pairs.counts == {"held out": 1}


def test_json_lines_packed_or_not(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"source": "Fever", "translation": "Febbre", "language": "it", "concept": None},
        {"source": "Fever", "translation": 3, "language": "it"},
        ["no", "object"],
        {"source": "Rash", "translation": "Exantema", "language": "pt_br", "concept": "T:2"},
    ]
    text = "\n".join([*map(json.dumps, rows), "", "{broken"]) + "\n"
    path = tmp_path / "pairs.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode()))
    rejects = Rejects()
    pairs = terminology_pairs.read(path, rejects)
    assert shown(pairs) == [("fever", "febbre", "it"), ("rash", "exantema", "pt-BR")]
    assert rejects.count == pairs.counts["bad row"] == 3
    with pytest.raises(InputError, match=r"pairs\.jsonl\.gz:2: a string is wanted here"):
        terminology_pairs.read(path, Rejects(strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source\ttranslation\nFever\tFebbre\n", "no column 'language'"),
        ("source\ttranslation\tlanguage\nFever\tFever\tit\n", "no pair is left of this file: 1 bad row"),
        ("", "the file is empty"),
    ],
)
def test_unusable_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        terminology_pairs.read(path, Rejects())


def test_what_is_written_is_read_again(terminology: Terminology, tmp_path: Path) -> None:
    pairs = of_terminology(terminology, languages=["it", "cs"])
    for margins in (None, np.linspace(1, 2, len(pairs))):
        terminology_pairs.write(tmp_path / "pairs.tsv", pairs, margins)
        again = terminology_pairs.read(tmp_path / "pairs.tsv", Rejects(strict=True))
        assert (again.sources, again.translations, again.languages) == (
            pairs.sources,
            pairs.translations,
            pairs.languages,
        )
    assert (tmp_path / "pairs.tsv").read_text().splitlines()[0] == "source\ttranslation\tlanguage\tmargin"


CAN = (
    "it Febbre|ru Лихорадка|zh 发热|zh-Hant 發熱|ja ファーバー|ja 発熱|ko 발열|el Πυρετός|ar حمى|hi बुखार|sr грозница|"
    "sr groznica|it β-talassemia|zh DNA损伤|zh Ehlers-Danlos综合征|zh HIV|ru HIV-1|zh Ｘ染色体|ru 46, 47|it |"
    "pt 1.ª costela|tw Ꜫtiri anim ntwerεw|qaa Лихорадка|chr whatever это 是"
)
# The second letter of the last is Cyrillic.
CANNOT = (
    "it Лихорадка|ru Fever|zh Fever|fr 发热|it X连锁遗传|el Fever|zh 发热 лихорадка|sr-Cyrl groznica|sr-Latn грозница|"
    "zh hiv|it βω|ja Dementia|zh Ｆｅｖｅｒ|en fеver"
)


@pytest.mark.parametrize(("rows", "possible"), [(CAN, True), (CANNOT, False)])
def test_whether_a_string_can_be_of_its_language(rows: str, possible: bool) -> None:
    for tag, _, string in (row.partition(" ") for row in rows.split("|")):
        assert can_be(string, tag) == possible, (tag, string)


def test_the_table_of_scripts_names_languages_each_once_a_script() -> None:
    for tags in aligned_pairs._LANGUAGES.values():
        assert len(set(tags)) == len(tags)
        for tag in tags:
            assert languages.normalize(tag) == tag
    assert scripts_of_language("sr") == {"LATIN", "CYRILLIC"}
    assert scripts_of_language("zh-Hant-TW") == {"CJK"}
    assert scripts_of_language("chr") == frozenset()
