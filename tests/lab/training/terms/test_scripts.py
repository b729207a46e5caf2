"""What scripts a language is written in."""

from __future__ import annotations

import pytest

from alphita.terminology import languages
from alphita_lab.training.terms import aligned_pairs
from alphita_lab.training.terms.aligned_pairs import can_be, scripts_of_language

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
        assert len(set(tags.split())) == len(tags.split())
        for tag in tags.split():
            assert languages.normalize(tag) == tag
    assert scripts_of_language("sr") == {"LATIN", "CYRILLIC"}
    assert scripts_of_language("zh-Hant-TW") == {"CJK"}
    assert scripts_of_language("chr") == frozenset()
