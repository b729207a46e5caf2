from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita_lab.verbalisation import definitions
from alphita_lab.verbalisation.definitions import Withheld, fit, repeats, shortened, tidy, without_subject

NOTHING = Withheld((), None, 1)


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("  A sudden\n\tpain. ", "A sudden pain."),
        ("A sudden pain. [PMID:123, TST:ab]", "A sudden pain."),
        ("A sudden pain[WP].", "A sudden pain."),
        ("A sudden pain. [WP,modified].", "A sudden pain."),
        ("A part of a leg [Automatically generated definition].", "A part of a leg."),
        ("A pain [1] that stays [2,3].", "A pain that stays."),
        ("A pain. References: Someone 1998; Other 2001.", "A pain."),
        ("A pain of the back. PMID: 123, 456", "A pain of the back."),
        ("A pain of the back (PMID:123).", "A pain of the back."),
        ("A pain of the back. https://example.org/x", "A pain of the back."),
        ("A pain of the back. See also http://example.org/a b.", "A pain of the back."),
        ("A pain (See Figure 2 of PMID:12) of the back.", "A pain of the back."),
        ("A pain of the back. (From A Book of Pains, 27th ed)", "A pain of the back."),
        ("A pain of the back. (Writer, Some Journal, 1998; 3:4)", "A pain of the back."),
        ("A pain of the back. (NCI)", "A pain of the back."),
        ("<p>A pain &amp; an <b>ache</b></p>", "A pain & an ache"),
        ('"A pain of the back."', "A pain of the back."),
        ("A pain that located_in the back.", "A pain that located in the back."),
        # What only looks like a marker stays.
        ("Calcium [Ca2+] is low (below 2 mmol, that is).", "Calcium [Ca2+] is low (below 2 mmol, that is)."),
        ("The ratio is 1:2 (or <5 in 2019).", "The ratio is 1:2 (or <5 in 2019)."),
        ("A dietary energy source: fat.", "A dietary energy source: fat."),
        ("Wait ...", "Wait ..."),
        ("[PMID:123]", ""),
    ],
)
def test_tidy(text, tidied):
    assert tidy(text) == tidied


@given(st.text(alphabet='ab .,;:[](){}"<>_-1PMID/', max_size=40))
def test_tidying_twice_changes_nothing_more(text):
    assert tidy(tidy(text)) == tidy(text)


@pytest.mark.parametrize(
    ("text", "names", "leaks"),
    [
        ("Cold", ["cold"], True),
        ("Cold. A disease named cold.", ["cold"], True),
        ("A cold of the head.", ["head cold"], True),
        ("Head colds.", ["head cold"], True),
        ("Head cold, also called coryza.", ["head cold", "coryza"], True),
        ("Coryza. Head cold.", ["head cold", "coryza"], True),
        # The words of several names, but of none of them the whole.
        ("Swelling of the upper eyelid", ["blepharal swelling", "thick upper eyelid", "edema of eyelid"], False),
        ("A cold that comes with fever.", ["cold"], False),
        ("An infection of the nose.", ["cold"], False),
        ("A disorder.", ["cold"], True),
    ],
)
def test_what_repeats_the_name(text, names, leaks):
    assert repeats(text, names) is leaks


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Seizure is a sudden discharge of neurons.", "A sudden discharge of neurons."),
        ("A seizure is a sudden discharge of neurons.", "A sudden discharge of neurons."),
        ("Seizures are sudden discharges of neurons.", "Sudden discharges of neurons."),
        ("Seizure (SZ) refers to a sudden discharge.", "A sudden discharge."),
        ("SEIZURE: a sudden discharge.", "A sudden discharge."),
        ("Seizure - a sudden discharge.", "A sudden discharge."),
        ("Seizure. A sudden discharge.", "A sudden discharge."),
        ("Fit (of the brain) is defined as a sudden discharge.", "A sudden discharge."),
        ("A seizure. It is a sudden discharge.", "A seizure. It is a sudden discharge."),
        ("Seizure is bad.", "Seizure is bad."),
        ("Seizures of sleep are sudden discharges.", "Seizures of sleep are sudden discharges."),
        ("This is a seizure of the brain.", "This is a seizure of the brain."),
    ],
)
def test_the_subject_is_taken_off(text, told):
    assert without_subject(text, {"seizure", "fit (of the brain)"}) == told


def test_shortened():
    assert shortened("One two. Three four.", 20) == "One two. Three four."
    assert shortened("One two. Three four.", 19) == "One two."
    assert shortened("One two three", 10) == "One two"


def test_fit_counts_why(monkeypatch):
    monkeypatch.setattr(definitions, "MAX_CHARACTERS", 40)
    counts: Counter[str] = Counter()
    withheld = Withheld({"secret name"}, None, 1)

    def told(text):
        return fit(text, ["Cold"], withheld, "definition", counts)

    assert told("Cold is an infection of the nose.") == "An infection of the nose."
    assert told("Cold.") is None
    assert told("Two words") is None
    assert told("[PMID:1]") is None
    assert told("An illness with a secret name.") is None
    assert told("An illness of the nose. It goes after some days and comes again.") == "An illness of the nose."
    assert counts == {
        "definition: began with the concept's name, which was taken off": 1,
        "definition: repeats the name": 1,
        "definition: fewer than 3 words": 2,
        "definition: holds a held-out string": 1,
        "definition: cut to 40 characters": 1,
    }


def test_names_of(small):
    rows = np.array([3, 1, 3])
    expected = [[term.string for term in small.concept(int(row)).terms] for row in rows]
    assert definitions.names_of(small, rows) == expected
    assert definitions.names_of(small, np.array([], np.int64)) == []


def test_small_batches_give_the_same(small, monkeypatch):
    whole = definitions.definitions(small, ["en", "fr"], NOTHING, Counter())
    monkeypatch.setattr(definitions, "ROWS", 2)
    parts = definitions.definitions(small, ["en", "fr"], NOTHING, Counter())
    assert parts[1] == whole[1]
    assert parts[0].tolist() == whole[0].tolist() == sorted(whole[0].tolist())
    assert len(whole[1]) == 4
