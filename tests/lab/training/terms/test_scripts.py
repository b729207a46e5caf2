"""What scripts a language is written in."""

from __future__ import annotations

import pytest

from alphita.terminology import languages
from alphita_lab.training.terms import aligned_pairs
from alphita_lab.training.terms.aligned_pairs import can_be, scripts_of_language


@pytest.mark.parametrize(
    ("string", "tag"),
    [
        ("Febbre", "it"),
        ("Лихорадка", "ru"),
        ("发热", "zh"),
        ("發熱", "zh-Hant"),
        ("ファーバー", "ja"),
        ("発熱", "ja"),
        ("발열", "ko"),
        ("Πυρετός", "el"),
        ("حمى", "ar"),
        ("बुखार", "hi"),
        ("грозница", "sr"),
        ("groznica", "sr"),
        ("β-talassemia", "it"),
        ("DNA损伤", "zh"),
        ("Ehlers-Danlos综合征", "zh"),
        ("HIV", "zh"),
        ("HIV-1", "ru"),
        ("Ｘ染色体", "zh"),
        ("46, 47", "ru"),
        ("", "it"),
        ("1.ª costela", "pt"),
        ("Ꜫtiri anim ntwerεw", "tw"),
        ("Лихорадка", "qaa"),
        ("whatever это 是", "chr"),
    ],
)
def test_a_string_that_can_be_of_its_language(string: str, tag: str) -> None:
    assert can_be(string, tag)


@pytest.mark.parametrize(
    ("string", "tag"),
    [
        ("Лихорадка", "it"),
        ("Fever", "ru"),
        ("Fever", "zh"),
        ("发热", "fr"),
        ("X连锁遗传", "it"),
        ("Fever", "el"),
        ("发热 лихорадка", "zh"),
        ("groznica", "sr-Cyrl"),
        ("грозница", "sr-Latn"),
        ("hiv", "zh"),
        ("βω", "it"),
        ("Dementia", "ja"),
        ("Ｆｅｖｅｒ", "zh"),
        ("fеver", "en"),  # the second letter of the last is Cyrillic
    ],
)
def test_a_string_that_cannot(string: str, tag: str) -> None:
    assert not can_be(string, tag)


def test_the_table_of_scripts_names_languages_each_once_a_script() -> None:
    for tags in aligned_pairs._LANGUAGES.values():
        assert len(set(tags.split())) == len(tags.split())
        for tag in tags.split():
            assert languages.normalize(tag) == tag
    assert scripts_of_language("sr") == {"LATIN", "CYRILLIC"}
    assert scripts_of_language("zh-Hant-TW") == {"CJK"}
    assert scripts_of_language("chr") == frozenset()
