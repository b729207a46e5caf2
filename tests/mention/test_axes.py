"""What a string says beyond the name of a thing, and which of it a terminology tells apart."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from alphita import textio
from alphita.mention import axes
from alphita.mention.axes import FAMILY, PAST, Habits
from alphita.terminology.text import clean

ROWS = [tuple(row.values()) for row in textio.packaged(__package__, "axes.tsv")]
STATUS = {"past": PAST, "family": FAMILY, "neither": 0}
CHECKS = {
    "product": axes.without_product,
    "salt": axes.without_salt,
    "residual": axes.without_residual,
    "unspecified": axes.without_unspecified,
}
THINGS = ["stroke", "asthma", "breast cancer", "migraine", "gout", "epilepsy"]
OTHERS = [f"ache {number}" for number in range(200)]


def habits_of(*names: str) -> Habits:
    strings = sorted({clean(name) for name in [*OTHERS, *names]})

    def rows(asked):
        return np.array([strings.index(one) if one in strings else -1 for one in asked], np.int64)

    return axes.habits_of(pa.array(strings, pa.large_string()), rows)


@pytest.mark.parametrize(("check", "string", "expected"), ROWS)
def test_what_is_left_out(check, string, expected):
    if check in STATUS:
        assert (axes.status_of(string), axes.without_status(string)) == (STATUS[check], expected)
    else:
        assert CHECKS[check](string) == expected


def test_a_list_of_things_and_their_history_tells_it_apart_in_its_own_words():
    own = [f"personal history of {thing}" for thing in THINGS]
    found = habits_of(*THINGS, *own, "history of falling")
    assert found.status == {PAST: "personal history of"}
    assert (found.tells(PAST), found.tells(FAMILY), found.tells(0)) == (True, False, False)
    family = habits_of(*THINGS, *(f"family history of {thing}" for thing in THINGS))
    assert family.status == {FAMILY: "family history of"}
    italian = habits_of(*THINGS, *(f"anamnesi personale di {thing}" for thing in THINGS))
    assert italian.status == {PAST: "anamnesi personale di"}


@pytest.mark.parametrize(
    "names",
    [
        THINGS,
        # A few names of history, and those of things without a name, tell nothing apart.
        [*THINGS, *(f"history of {thing}" for thing in THINGS[:4])],
        [f"history of {thing}" for thing in THINGS],
        [*THINGS, *(f"{thing} with a history of falls" for thing in THINGS)],
    ],
)
def test_a_list_without_tells_no_status_apart(names):
    assert habits_of(*names).status == {}


def test_a_list_of_products_tells_strengths_apart():
    products = [f"{name} {strength} mg tablet" for name in ("aspirin", "ibuprofen") for strength in (50, 100, 200)]
    assert habits_of(*products).products
    assert not habits_of("aspirin", "ibuprofen", "aspirin 50 mg tablet").products


def test_a_classification_gives_its_names_for_what_is_known_no_further():
    found = habits_of("Pneumonia, unspecified organism", "Pneumonia NOS", "Diabetes without complications", "Pain, NOS")
    assert found.residual
    assert found.plain == {
        "pneumonia": ("pneumonia nos", "pneumonia, unspecified organism"),
        "diabetes": ("diabetes without complications",),
        "pain": ("pain, nos",),
    }
    assert habits_of("pain", "pneumonia without fever") == Habits()
