"""Other readings of mentions: misspelt words put right where that is sure, idle words left out at the ends."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from alphita import textio
from alphita.index.segment import count_words
from alphita.mention.axes import Habits, habits_of
from alphita.mention.spelling import (
    IDLE,
    SHORTENED,
    SHORTEST,
    SPELLING,
    TWO_SLIPS_FROM,
    UNSPECIFIED,
    Speller,
    opposite,
    shortened,
    written_otherwise,
)
from alphita.terminology.text import clean

STRINGS = ["absence seizure", "atrophy", "céphalée", "cold", "covid19 infection", "fragile x", "headache"]
STRINGS += ["hepatitis a", "kopfschmerz", "seizure", "seizure of the heart", "severe headache"]
STRINGS += ["vitamin b12 deficiency", "головная боль", "慢性肾功能衰竭", "頭痛"]


def speller(strings=STRINGS, others=(), dictionary=()) -> Speller:
    names = sorted(strings)

    def rows(asked):
        return np.array([names.index(one) if one in names else -1 for one in asked], np.int64)

    array = pa.array(names, pa.large_string())
    return Speller(count_words(array.to_pylist()), habits_of(array, rows), others, dictionary)


def read(string: str, **options) -> list[tuple[str, str]]:
    return [(one.string, one.source) for one in speller(**options).readings([string])[0]]


def test_words_of_strings_that_are_not_there_are_unknown():
    known = speller(["seizure", "seizures of the heart", "headache", "severe headache"], ["common"])
    asked = ["seizuer", "seizuer", "seizuer", "hedache", "headache", "common seizure"]
    gone = [{}, {"seizure": 1}, {"seizure": 1, "seizures": 1}, {"headache": 1}, {"headache": 2}, {"seizure": 1}]
    found = [[one.string for one in some] for some in known.readings(asked, gone)]
    assert found == [["seizure"], ["seizures"], [], ["headache"], [], ["common seizures"]]
    # It is not remembered for those who miss nothing.
    assert [one.string for one in known.readings(["seizuer"])[0]] == ["seizure"]
    # As a speller without these strings says.
    less = speller(["seizures of the heart", "headache", "severe headache"])
    assert [one.string for one in less.readings(["seizuer"])[0]] == found[1]


def test_a_word_of_the_dictionary_is_put_right_to_a_form_of_its_own_alone():
    strings = ["split foot", "wobbly eyes", "goiter"]
    for word, right in (("splint", []), ("wobble", ["wobbly"]), ("gaiter", []), ("goitre", ["goiter"])):
        assert [text for text, _ in read(word, strings=strings, dictionary={"splint", "wobble", "gaiter"})] == right
    assert read("gaiter", strings=strings) == [("goiter", SPELLING)]


ROWS = [tuple(row.values()) for row in textio.packaged(__package__, "spelling.tsv")]
HEART = [f"right ventricle {kind}" for kind in ("large", "small", "short", "long")]
KNOWN = ["hydronephrosis", "eyelid ptosis", "cataract", "weakness on the", "hernie inguinale"]
# Of so many names few have a side.
FEW_SIDED = speller([*(f"ache {number}" for number in range(900)), *HEART, *KNOWN])


def without_side(mention: str) -> str:
    return "|".join(one.string for one in FEW_SIDED.readings([mention])[0] if one.source == SHORTENED)


CLASSIFICATION = Habits(residual=True, products=True, plain={"pain": ("pain, unspecified", "pain nos")})


def written(string: str) -> str:
    return "|".join(other for other, _ in written_otherwise(string, CLASSIFICATION))


CHECKS = {
    "corrected": lambda string: "|".join(other for other, source in read(string) if source == SPELLING),
    "shortened": lambda string: shortened(clean(string)),
    "written": written,
    "without side": without_side,
}
CHECKS |= {"kept": CHECKS["corrected"]}


@pytest.mark.parametrize(("check", "string", "expected"), ROWS)
def test_readings(check, string, expected):
    """What is corrected (and to what), left out at the ends, written otherwise, or read without its side."""
    if check == "name":
        assert shortened(string) == shortened(f"hx of {string}") == shortened(f"{string} noted") == string
        return
    assert CHECKS[check.partition(" SPELLING")[0].partition(" UNSPECIFIED")[0]](string) == expected
    if check.startswith("written"):
        sources = {source for _, source in written_otherwise(string, CLASSIFICATION)}
        assert sources == {source for source in (SPELLING, UNSPECIFIED) if source.upper() in check}
        assert bool(written_otherwise(string, Habits())) == (SPELLING in sources)


@pytest.mark.parametrize(
    ("string", "other"),
    [
        ("furosemide 40 po bid", "furosemide"),
        ("metformin 850", "metformin"),
        ("norvasc 5-10 mg", "norvasc"),
        ("heart attack (mi)", "heart attack"),
        ("trisomy 21", None),
        ("sodium chloride", None),
        ("grade 2 ataxia", None),
    ],
)
def test_what_is_added_to_a_name_is_left_out(string, other):
    assert {name for name, source in written_otherwise(string, Habits()) if source == SHORTENED} == {other} - {None}


def test_names_of_a_terminology_that_has_sides_are_not_read_without_them():
    assert FEW_SIDED.readings(["dilated left ventricle", "right ventricle failure"]) == [(), ()]
    sided = speller([*(f"ache {number}" for number in range(30)), "pain in left knee"])
    assert sided.readings(["left hydronephrosis"]) == [()]
    assert written_otherwise("left ptosis", Habits()) == [("unilateral ptosis", SHORTENED)]
    assert written_otherwise("left ptosis", Habits(sided=None)) == []
    assert written_otherwise("left ptosis", Habits(sided=frozenset(["ptosis"]))) == []


class TestCorrected:
    def test_words_of_the_encoder_stay(self):
        assert read("colt") == [("cold", SPELLING)]
        assert read("colt", others=["colt"]) == []

    def test_two_slips_only_in_longer_words(self):
        assert len("atropy") >= TWO_SLIPS_FROM > len("coald")
        assert read("attropy") == [("atrophy", SPELLING)]
        assert read("atropi") == [("atrophy", SPELLING)]
        assert read("coaId".lower()) == []

    def test_of_two_as_near_the_more_frequent_word(self):
        strings = ["ache left", "ache right", "ache", "acha"]
        assert read("achx", strings=strings) == [("ache", SPELLING)]
        assert read("achx", strings=["acha", "ache"]) == [("acha", SPELLING)]  # the alphabet decides else
        assert read("acho", strings=["echo", *strings]) == [("ache", SPELLING)]

    def test_a_wrong_first_letter_is_rarer_than_another(self):
        assert read("bore", strings=["sore", "bare"]) == [("bare", SPELLING)]
        assert read("bore", strings=["sore"]) == [("sore", SPELLING)]

    def test_the_same_whatever_was_asked_before_or_beside(self):
        misspelt = ["siezure", "hedache", "kopfschmrz", "vitamn b12", "colld today", "zzzz"]
        alone = [speller().readings([one])[0] for one in misspelt]
        one = speller()
        assert one.readings(misspelt) == alone
        assert one.readings(misspelt[::-1]) == alone[::-1]

    def test_with_no_words_to_go_by(self):
        assert speller([]).readings(["siezure", ""]) == [(), ()]
        assert speller(["頭痛"]).readings(["siezure"]) == [()]
        assert speller().readings([]) == []
        assert speller().readings([""]) == [()]


SPELLER = speller()
words = sorted({word for string in STRINGS for word in string.split()} - {"慢性肾功能衰竭", "頭痛"})


@given(st.lists(st.tuples(st.sampled_from(words), st.integers(0, 10**6)), min_size=1, max_size=4))
def test_every_word_changed_is_near_and_unknown(drawn):
    known = {word for string in STRINGS for word in string.split()}
    asked = []
    for word, seed in drawn:
        chance = random.Random(seed)
        place = chance.randrange(len(word))
        asked.append(word[:place] + chance.choice("abexyz") + word[place + chance.randrange(2) :])
    found = [reading for reading in SPELLER.readings([" ".join(asked)])[0] if reading.source == SPELLING]
    for old, new in zip(asked, found[0].string.split() if found else asked, strict=True):
        if old != new:
            assert old not in known
            assert len(old) >= SHORTEST
            assert new in known
            assert OSA.distance(old, new) <= (2 if len(old) >= TWO_SLIPS_FROM else 1)


class TestShortened:
    def test_is_a_reading_of_the_mention_put_right(self):
        assert read("hx of siezure") == [("hx of seizure", SPELLING), ("seizure", SHORTENED)]
        assert read("hx of seizure") == [("seizure", SHORTENED)]
        assert read("hx of 頭痛") == [("頭痛", SHORTENED)]

    def test_nothing_but_idle_words_is_no_reading(self):
        assert read("patient with") == []

    @given(st.lists(st.sampled_from([*sorted(IDLE), "?", "3", "cold", "fragile", "頭痛", "rh", "+"]), max_size=8))
    def test_is_part_of_the_string_and_settled(self, some):
        string = " ".join(some)
        short = shortened(string)
        assert f" {short} " in f" {string} " or not short
        assert shortened(short) == short
        if "cold" in some:
            assert "cold" in short.split()


def test_a_word_is_never_put_right_into_its_contrary():
    assert opposite("hypokalaemia", "hyperkalaemia")
    assert opposite("macrocytosis", "microcytosis")
    assert not opposite("hypokalaemia", "hypocalcaemia")
    known = speller(["hyperkalaemia", "microcytosis"])
    assert known.readings(["hypokalaemia", "macrocytosis"]) == [(), ()]
    assert known.readings(["hyperkalemia"])[0][0].string == "hyperkalaemia"


@pytest.mark.parametrize(("named", "expected"), [("pain, unspecified", True), ("pain", False)])
def test_only_a_classification_tells_unspecified_from_the_name_alone(named, expected):
    """Elsewhere it is a word of notes."""
    known = speller([named, *(f"ache {number}" for number in range(30))])
    assert known.habits.residual == expected
    readings = [one.string for one in known.readings(["hx of pain nos"])[0]]
    assert readings == (["pain nos"] if expected else ["pain"])


@pytest.mark.parametrize("named", ["ache of the left side of the head", "left ache", "schmerz links"])
def test_a_terminology_that_tells_sides_tells_any(named):
    """A place of a side counts too: there "left sided ache" is not the ache alone."""
    names = [f"ache {number}" for number in range(30)]
    assert speller([named, *names]).habits.sided is None
    assert speller(names).habits.sided == frozenset()


def test_in_a_phrase_a_correct_word_can_stand_for_another():
    strings = pa.array(["heart attack", "heart failure"], pa.large_string())
    speller = Speller(count_words(strings.to_pylist()), Habits(), dictionary={"hart", "attack"})
    assert speller.of_words(["hart attack", "hart", "heart attack"]) == [(0, "heart attack")]
    assert [reading.string for reading in speller.readings(["hart attack"])[0]] == []


def test_misspelt_words_of_a_text_are_those_of_no_language_a_slip_away_from_a_name():
    words = ["siezure", "headake", "hed", "seizure", "house", "beads", "xyzzy", "b12", "hezd"]
    assert speller(dictionary={"beads"}, others={"house"}).misspelt(words) == {
        "headake": "headache",
        "siezure": "seizure",
    }
