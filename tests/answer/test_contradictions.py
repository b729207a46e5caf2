"""What the words of a mention and of a name say against each other, and what they do not: contradictions.tsv."""

from __future__ import annotations

import pytest

from alphita import textio
from alphita.answer import contradictions
from alphita.answer.contradictions import OPPOSITE, OTHER_WORD, contradiction, is_opposite
from alphita.mention import word_pairs
from alphita.mention.word_pairs import is_form, key, word_diff

ROWS = textio.packaged(__package__, "contradictions.tsv")
# Words of common language, by the column of the table.
COMMON = {
    "": "",
    "words": "homeless infected affected weed mal toe",
    "tired": "tired",
    "everyday": "attacks birthday chair chronicle day fingers inside intake meeting arms ned one poisoned school seats "
    "side skinned throw told velvet weekly yard",
    "little": "dwarf buffalo question thrower hart basophils",
    "phrase": "coq vin jane doe take arms sob today inc tone exertion",
}
SYNONYMS = {("kidney", "renal")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['mention']} / {row['name']}")
def test_what_a_mention_says_against_a_name(row):
    mention, name, check = row["mention"], row["name"], row["check"]
    if check == "is_opposite":
        assert is_opposite(mention, name) == (row["expected"] == "yes")
        return
    expected = getattr(contradictions, row["expected"]) if row["expected"] else None
    found = contradiction(
        mention,
        (name, name),
        expansion=row["expansion"] or None,
        similarity=float(row["similarity"] or 1),
        common=COMMON[row["common"]].split(),
        synonyms=SYNONYMS if check == "synonyms" else None,
    )
    assert found == expected
    if check == "synonyms":
        # Only where terms say one word for the other does another word matter.
        assert contradiction(mention, (name, name)) is None


@pytest.mark.parametrize(
    ("mention", "names", "options", "expected"),
    [
        # A word corrected to another is seen by what it was corrected to.
        ("eupnoeic", ("Euphoria", "Euphoria"), {"spelling": "euphoric"}, OTHER_WORD),
        # The concept's own name may say the opposite.
        (
            "shortened partial thromboplastin time",
            ("Abnormal partial thromboplastin time", "Prolonged partial thromboplastin time"),
            {},
            OPPOSITE,
        ),
    ],
)
def test_spellings_and_names(mention, names, options, expected):
    assert contradiction(mention, names, **options) == expected


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("anorchia", ("not", "testis")),
        ("anonychia", ("not", "nail")),
        ("hypertyrosinemia", ("high", "tyrosine", "blood")),
        ("gastralgia", ("stomach", "pain")),
        ("aphagia", ("not", "eating")),
        ("hyperkaliuria", ("high", "potassium", "urine")),
        *((word, None) for word in ("hypotonai", "seizurs", "diabetis", "epilepsie5", "artritis", "", "a" * 200)),
    ],
)
def test_words_are_read_by_their_parts(word, meant):
    found = word_pairs.readings(word)
    assert meant in found if meant else found == frozenset()


@pytest.mark.parametrize(
    ("word", "other", "expected"),
    [
        ("wobble", "wobbly", True),
        ("anorexic", "anorexia", True),
        ("bronchitic", "bronchitis", True),
        ("hallucinating", "hallucination", True),
        ("palpitation", "palpitations", True),
        ("chore", "chorea", False),
        ("meteorite", "meteorism", False),
        ("jerkin", "jerking", False),
        ("depressing", "depression", False),
        ("manicure", "manic", False),
    ],
)
def test_forms_of_a_word_have_endings_that_stand_for_one_another(word, other, expected):
    assert is_form(word, other) is expected
    assert (contradiction(word, (other, other), common={word}) is None) is expected


def test_words_that_differ_and_spellings_that_do_not():
    assert word_diff("hyper telorism, mild", "Hypertelorism") == (("mild",), ())
    assert word_diff("short fingers", "Short finger of the hand") == ((), ("of", "the", "hand"))
    for pair in ("fibre fiber", "tumour tumor", "rhythm rythm", "cysts cyst"):
        one, other = pair.split()
        assert key(one) == key(other)
    assert set(word_pairs.table()) == {"prefix", "root", "suffix", "ending", "thing"}
