"""Matching against a regular expression, and the rules one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita_lab.training.text.folding import Fold
from alphita_lab.training.text.matching import HELD_OUT, Forms, Matcher, collect, is_acronym_of
from tests.reference import mentions as reference
from tests.tables import terminology_of

SIGNS = "aabbéABÉ1 -'.病病\u00adﬁ"
WORD = "[abéfi1]"


def forms_of(keys: list[str]) -> Forms:
    numbers = np.arange(len(keys), dtype=np.int32)
    return Forms(keys, numbers, numbers, keys, np.arange(len(keys) + 1), numbers)


def found(matcher: Matcher, text: str) -> list[tuple[str, str]]:
    matches = matcher([text])
    return [
        (text[start:end], matcher.forms.strings[form] if form != HELD_OUT else "held out")
        for start, end, form in zip(matches.starts, matches.ends, matches.forms, strict=True)
    ]


def searching(tmp_path, *rows: tuple[str, str], language: str = "en", **options) -> Matcher:
    written = [(concept, string, language) for concept, string in rows]
    terminology = terminology_of(written, tmp_path / f"{len(list(tmp_path.iterdir()))}.terminology")
    fold = Fold(language)
    return Matcher(collect(terminology, fold, **options), fold)


@given(st.lists(st.text(SIGNS, min_size=1, max_size=6), min_size=1, max_size=12), st.lists(st.text(SIGNS, max_size=40)))
@settings(max_examples=300)
def test_it_finds_what_a_regular_expression_finds(strings, texts):
    fold = Fold()
    keys = sorted(set(fold.keys(strings)) - {""})
    if not keys:
        return
    matches = Matcher(forms_of(keys), fold)(texts)
    assert len(matches.offsets) == len(texts) + 1
    for number, text in enumerate(texts):
        here = slice(matches.offsets[number], matches.offsets[number + 1])
        folded = fold(text)
        expected = [
            (int(folded.starts[start]), int(folded.ends[end - 1]), key)
            for start, end, key in reference.find(str(folded), keys, WORD)
        ]
        got = [
            (int(start), int(end), keys[form])
            for start, end, form in zip(matches.starts[here], matches.ends[here], matches.forms[here], strict=True)
        ]
        assert got == expected
        assert all(fold.keys([text[start:end]])[0] == key for start, end, key in got)
    assert matches.words == sum(words(str(fold(text))) for text in texts)


def words(folded: str) -> int:
    inside = [sign in "abéfi1" for sign in folded]
    return sum(here and not before for before, here in zip([False, *inside], inside, strict=False))


def test_the_leftmost_and_the_longest(tmp_path):
    matcher = searching(tmp_path, ("T:1", "heart"), ("T:2", "heart attack"), ("T:3", "attack rate"), ("T:4", "rate"))
    assert found(matcher, "Heart attack rate") == [("Heart attack", "heart attack"), ("rate", "rate")]
    assert found(matcher, "heart attacks") == [("heart", "heart")]
    assert found(matcher, "heart  Attack\nheart") == [("heart  Attack", "heart attack"), ("heart", "heart")]


def test_nothing_begins_or_ends_inside_a_word(tmp_path):
    rows = (("T:1", "ipertensione"), ("T:2", "tosse"), ("T:3", "beta-bloccante"), ("T:4", "Rh+"))
    matcher = searching(tmp_path, *rows, language="it")
    text = "Dell’ipertensione, preipertensione; tosse3 post-tosse (beta bloccante) rh+ arh+"
    assert [mention for mention, _ in found(matcher, text)] == ["ipertensione", "tosse", "beta bloccante", "rh+"]


def test_accents_and_case(tmp_path):
    matcher = searching(tmp_path, ("T:1", "città"), ("T:2", "fuß"), language="it")
    assert found(matcher, "CITTÀ citta citta\u0300 FUSS") == [
        ("CITTÀ", "città"),
        ("citta\u0300", "città"),
        ("FUSS", "fuß"),
    ]


def test_scripts_without_spaces_have_no_boundaries(tmp_path):
    matcher = searching(tmp_path, ("T:1", "高血压"), ("T:2", "头痛"), ("T:3", "고혈압"), ("T:4", "HIV"), language="zh")
    assert found(matcher, "患者高血压头痛HIV感染") == [("高血压", "高血压"), ("头痛", "头痛"), ("HIV", "HIV")]
    assert found(matcher, "고혈압은 본태성고혈압") == [("고혈압", "고혈압")]


def test_acronyms_are_found_in_capitals_only(tmp_path):
    rows = (("T:1", "AIDS"), ("T:2", "ALL"), ("T:3", "BRCA1"), ("T:4", "ictus"))
    matcher = searching(tmp_path, *rows)
    assert [name for name, _ in found(matcher, "aids AIDS Aids all ALL brca1 ICTUS")] == [
        "AIDS",
        "ALL",
        "brca1",
        "ICTUS",
    ]


def test_short_names_of_a_source_in_capitals_are_no_acronyms(tmp_path):
    matcher = searching(tmp_path, ("T:1", "ASMA"), ("T:2", "COLERA"), ("T:3", "DIABETE MELLITO"), ("T:4", "Dispnea"))
    assert [form for _, form in found(matcher, "asma, Colera")] == ["ASMA", "COLERA"]
    matcher = searching(tmp_path, ("T:1", "ASMA"), ("T:2", "COLERA"), ("T:4", "Dispnea"))
    assert [form for _, form in found(matcher, "asma, Colera")] == ["COLERA"]


@pytest.mark.parametrize(
    ("string", "acronym"),
    [("AIDS", True), ("T2", False), ("T2D", True), ("DM", True), ("Dm", False), ("DIABE", False), ("A-B", False)],
)
def test_what_an_acronym_is(string, acronym):
    assert is_acronym_of(string) == acronym


def test_a_key_may_name_one_concept_in_capitals_and_another_in_any_case(tmp_path):
    rows = (("T:1", "SARS"), ("T:2", "sars"))
    matcher = searching(tmp_path, *rows)
    assert found(matcher, "sars SARS") == [("sars", "sars")]
    matcher = searching(tmp_path, *rows, ambiguous="keep")
    forms = matcher.forms
    named = {
        text: forms.concepts[forms.offsets[form] : forms.offsets[form + 1]].tolist()
        for text in ("sars", "SARS")
        for form in matcher([text]).forms
    }
    assert named == {"sars": [1], "SARS": [0, 1]}


def test_homonyms_are_left_out_and_leave_their_place(tmp_path):
    rows = (("T:1", "cold sore"), ("T:2", "Cold sore"), ("T:3", "cold"))
    matcher = searching(tmp_path, *rows)
    assert found(matcher, "A cold sore, a cold") == [("cold", "cold")]
    assert matcher(["a cold sore", "cold sore"]).homonyms == 2
    assert matcher.forms.left_out == {"homonym": 1}
    kept = searching(tmp_path, *rows, ambiguous="keep").forms
    assert kept.concepts.tolist() == [2, 0, 1]
    assert kept.offsets.tolist() == [0, 1, 3]


def test_held_out_strings_are_no_mentions_and_leave_their_place(tmp_path):
    rows = (("T:1", "renal failure"), ("T:1", "kidney failure"), ("T:2", "failure"), ("T:3", "xy"))
    matcher = searching(tmp_path, *rows, held_out={"kidney failure", "q"})
    assert found(matcher, "Kidney-failure or renal failure, failure") == [
        ("Kidney-failure", "held out"),
        ("renal failure", "renal failure"),
        ("failure", "failure"),
    ]
    # The term itself is not among those that train; "q" is not searched, for it is too short.
    assert matcher.forms.left_out == {"too short": 1, "held out and too short to be searched": 1}
    assert "kidney failure" in matcher.forms.keys


def test_what_is_not_searched_is_counted(tmp_path):
    rows = (("T:1", "ab"), ("T:2", "1234"), ("T:3", "other"), ("T:4", "abc"), ("T:5", "痛"), ("T:6", "+++"))
    matcher = searching(tmp_path, *rows)
    assert matcher.forms.keys == ["abc"]
    assert matcher.forms.left_out == {"too short": 2, "without a letter": 2, "stop word": 1}


def test_a_language_without_names_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no name to search for is in the language 'it'; its languages are en"):
        searching(tmp_path, ("T:1", "abc"), languages=["it"])


def test_a_language_takes_its_regions(tmp_path):
    rows = [("T:1", "colour", "en-GB"), ("T:2", "color", "en-US"), ("T:3", "hue", "en"), ("T:4", "tinta", "it")]
    terminology = terminology_of(rows, tmp_path / "t.terminology")
    assert collect(terminology, Fold("en"), languages=["en"]).keys == ["color", "colour", "hue"]
    assert collect(terminology, Fold("en"), languages=["en-US", "it"]).keys == ["color", "tinta"]
    with pytest.raises(InputError, match="in the language 'it-IT'"):
        collect(terminology, Fold("en"), languages=["en", "it-IT"])
