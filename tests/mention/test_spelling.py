"""Other readings of mentions: misspelt words put right where that is sure, idle words left out at the ends."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from alphita.mention.spelling import SHORTENED, SPELLING, UNSPECIFIED, Habits, Reading, habits_of, written_otherwise
from alphita.mention.spelling import IDLE, SHORTEST, TWO_SLIPS_FROM, Speller, opposite, shortened
from alphita.terminology.text import clean

STRINGS = [
    "absence seizure",
    "atrophy",
    "céphalée",
    "cold",
    "covid19 infection",
    "fragile x",
    "headache",
    "hepatitis a",
    "kopfschmerz",
    "seizure",
    "seizure of the heart",
    "severe headache",
    "vitamin b12 deficiency",
    "головная боль",
    "慢性肾功能衰竭",
    "頭痛",
]


def speller(strings=STRINGS, others=(), dictionary=()) -> Speller:
    return Speller(pa.array(sorted(strings), pa.large_string()), others, dictionary)


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


class TestPutRight:
    @pytest.mark.parametrize(
        ("misspelt", "right"),
        [
            ("siezure", "seizure"),  # two neighbours swapped: one slip
            ("headach", "headache"),
            ("hedache", "headache"),
            ("headdache", "headache"),
            ("heedeche", "headache"),
            ("severe hedache", "severe headache"),
            ("siezure, hedache", "seizure, headache"),
            ("cephalée", "céphalée"),
            ("головнаа боль", "головная боль"),
            ("colld", "cold"),
            ("hedache's", "headache's"),
        ],
    )
    def test_what_no_one_has(self, misspelt, right):
        assert read(misspelt) == [(right, SPELLING)]

    @pytest.mark.parametrize("string", [*STRINGS, "severe cold", "heart cold"])
    def test_words_of_terms_stay(self, string):
        assert SPELLING not in [source for _, source in read(string)]

    def test_words_of_the_encoder_stay(self):
        assert read("colt") == [("cold", SPELLING)]
        assert read("colt", others=["colt"]) == []

    @pytest.mark.parametrize(
        "string",
        [
            "hea",  # too short to be sure
            "cold1",  # no word, but a code
            "covid20",
            "covid18 infection",
            "b13",
            "xylophone",  # near nothing
            "coxxd",  # two slips in a short word
            "急性肾功能衰竭",  # another meaning (acute), not another spelling (chronic)
            "頭痺",
            "慢性肾功能衰弱症",
            "patients",
        ],
    )
    def test_what_is_no_slip_stays(self, string):
        assert SPELLING not in [source for _, source in read(string)]

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
    @pytest.mark.parametrize(
        ("string", "short"),
        [
            ("hx of seizure", "seizure"),
            ("pt with headache x 3 days", "headache"),
            ("3 days of headache", "headache"),
            ("headache for 2 weeks", "headache"),
            ("headache 3 days", "headache"),
            ("headache for a week", "headache"),
            ("? cold", "cold"),
            ("dx: cold (confirmed)", "cold"),
            ("status post seizure", "seizure"),
            ("a seizure", "seizure"),
            ("r/o h/o cold", "cold"),
            ("history of pain in the head", "pain in the head"),  # inside it says something
            ("R51 - headache", "headache"),
            ("786.05: headache", "headache"),
            ("headache (R51)", "headache"),
            ("267036007 |headache|", "headache"),
            ("headache on exam", "headache"),
            ("falling out", "falling out"),
            ("jump on", "jump on"),
            ("ICD10 G43.909 migraine", "migraine"),
            ("HP:0001250 seizure", "seizure"),
            ("patient presents with", ""),
            ("?", ""),
            ("", ""),
        ],
    )
    def test_idle_words_go_at_both_ends(self, string, short):
        assert shortened(clean(string)) == short

    @pytest.mark.parametrize(
        "name",
        [
            "hepatitis a",
            "vitamin a",
            "fragile x",
            "x linked deafness",
            "trisomy 21",
            "factor 5 deficiency",
            "rh -",
            "diabetes type 2",
            "5 alpha reductase deficiency",
            "rh +",
            "status epilepticus",
            "post traumatic headache",
            "頭痛",
            "céphalée",
            "2 seizures",
            "b12 deficiency",
            "22q11 deletion",
            "il 2 deficiency",
        ],
    )
    def test_what_is_the_name_stays(self, name):
        assert shortened(name) == name
        assert shortened(f"hx of {name}") == shortened(f"{name} noted") == name

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


def test_a_reading_is_decided_only_if_said():
    assert Reading("seizure", SPELLING).decided is False
    assert all(isinstance(one, Reading) for one in speller().readings(["hx of siezure"])[0])


def test_a_word_is_never_put_right_into_its_contrary():
    assert opposite("hypokalaemia", "hyperkalaemia")
    assert opposite("macrocytosis", "microcytosis")
    assert not opposite("hypokalaemia", "hypocalcaemia")
    known = Speller(pa.array(["hyperkalaemia", "microcytosis"], pa.large_string()))
    assert known.readings(["hypokalaemia", "macrocytosis"]) == [(), ()]
    assert known.readings(["hyperkalemia"])[0][0].string == "hyperkalaemia"


@pytest.mark.parametrize(
    ("string", "others", "source"),
    [
        ("complex 1 deficiency", ["complex i deficiency"], SPELLING),
        ("diabetes type iia", ["diabetes type 2a"], SPELLING),
        (
            "pain nos",
            ["pain, unspecified", "unspecified pain", "pain, nos", "pain, not otherwise specified", "pain"],
            UNSPECIFIED,
        ),
        (
            "unspecified pain",
            ["pain, unspecified", "pain nos", "pain, nos", "pain, not otherwise specified", "pain"],
            UNSPECIFIED,
        ),
        ("nos", [], ""),
        ("trisomy 21", [], ""),
        ("iron", [], ""),
        ("22q11 deletion", [], ""),
        ("", [], ""),
    ],
)
def test_how_else_a_term_may_write_it(string, others, source):
    assert written_otherwise(string, Habits(residual=True)) == [(other, source) for other in others]
    assert written_otherwise(string, Habits()) == [(other, SPELLING) for other in others if source == SPELLING]


@pytest.mark.parametrize(("named", "expected"), [("pain, unspecified", True), ("pain", False)])
def test_only_a_classification_tells_unspecified_from_the_name_alone(named, expected):
    """Elsewhere it is a word of notes."""
    speller = Speller(pa.array(sorted([named, *(f"ache {number}" for number in range(30))]), pa.large_string()))
    assert speller.habits.residual == expected
    readings = [one.string for one in speller.readings(["hx of pain nos"])[0]]
    assert readings == (["pain nos"] if expected else ["pain"])


@pytest.mark.parametrize("named", ["ache of the left side of the head", "left ache", "schmerz links"])
def test_a_terminology_that_tells_sides_tells_any(named):
    """A place of a side counts too: there "left sided ache" is not the ache alone."""
    strings = pa.array(sorted([named, *(f"ache {number}" for number in range(30))]), pa.large_string())
    assert habits_of(strings).sided is None
    assert habits_of(strings.filter(pc.not_equal(strings, named))).sided == frozenset()


def test_a_terminology_without_strings_is_no_classification():
    assert habits_of(pa.array([], pa.large_string())) == Habits()


@pytest.mark.parametrize(
    ("mention", "whole"),
    [
        ("left hydronephrosis", "hydronephrosis"),
        ("ptosis of the left eyelid", "ptosis of the eyelid"),
        ("right-sided cataract", "cataract"),
        ("weakness on the right", "weakness"),
        ("hernie inguinale droite", "hernie inguinale"),
        ("left to right shunt", None),
        ("left voicemail", None),
        ("heart on the right side of the chest", None),
        ("bilateral cataract", None),
        ("left", None),
    ],
)
def test_what_has_a_side_is_looked_for_without_it_unless_names_have_sides(mention, whole):
    names = [f"ache {number}" for number in range(900)]
    heart = [f"right ventricle {kind}" for kind in ("large", "small", "short", "long")]
    known = ["hydronephrosis", "eyelid ptosis", "cataract", "weakness on the", "hernie inguinale"]
    speller = Speller(pa.array(sorted([*names, *heart, *known]), pa.large_string()))
    readings = [one.string for one in speller.readings([mention])[0] if one.source == SHORTENED]
    assert readings == ([whole] if whole else [])
    assert speller.readings(["dilated left ventricle", "right ventricle failure"]) == [(), ()]
    sided = Speller(pa.array(sorted([*names[:30], "pain in left knee"]), pa.large_string()))
    assert sided.readings(["left hydronephrosis"]) == [()]
    assert written_otherwise("left ptosis", Habits()) == [("unilateral ptosis", SHORTENED)]
    assert written_otherwise("left ptosis", Habits(sided=None)) == []
    assert written_otherwise("left ptosis", Habits(sided=frozenset(["ptosis"]))) == []
