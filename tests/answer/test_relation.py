"""How concepts stand to mentions: by scope, by words, by what only one of the two says, in both directions."""

from __future__ import annotations

import numpy as np
import pytest

from alphita import textio
from alphita.answer.features import NAMES, Features
from alphita.answer.normalizer import Normalizer
from alphita.answer.results import relations
from alphita.index.store import Index, build
from tests.doubles import HashEncoder, SmallTerminology

ROWS = [
    ("R:1", "Headache", "exact"),
    ("R:1", "Pain above the shoulders", "broad"),
    ("R:1", "Throbbing temple", "narrow"),
    ("R:1", "Stiff neck", "related"),
    ("R:2", "Fracture of the left arm", "exact"),
    ("R:3", "Fracture of the arm", "exact"),
    ("R:4", "Kidney failure", "exact"),
    ("R:5", "Chronic kidney failure", "exact"),
    ("R:6", "Diabetes type 2", "exact"),
    ("R:7", "History of stroke", "exact"),
    ("R:8", "Trisomy", "exact"),
    ("R:9", "Hepatitis", "exact"),
    ("R:10", "Stroke", "exact"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return build(SmallTerminology(ROWS), HashEncoder(), tmp_path_factory.mktemp("relation") / "x.index")


def relation(index: Index, mention: str, term: str) -> str | None:
    """Return the relation of the concept that a term speaks for, as the normalizer tells it."""
    normalizer = Normalizer(index, encoder=HashEncoder(), floor=-1)
    found = normalizer.normalize([mention], top_k=len(ROWS), explain=True)[0].candidates
    return next(one.relation for one in found if one.matched_term == term)


@pytest.mark.parametrize("row", textio.packaged(__package__, "relations.tsv"), ids=lambda row: row["mention"])
def test_as_defined(index, row):
    """By what a term says of its concept, by words that only one of the two has, and without those of notes."""
    assert relation(index, row["mention"], row["term"]) == row["expected"]


def features(**columns: list[float]) -> Features:
    n = len(next(iter(columns.values())))
    values = np.zeros((n, len(NAMES)), np.float32)
    for name, column in columns.items():
        values[:, NAMES.index(name)] = column
    return Features(values, np.zeros((1, 0), np.float32), np.zeros(n, bool), [""])


@pytest.mark.parametrize("scope", [None, "exact", "broad", "narrow", "related"])
def test_every_case_in_its_order(scope):
    """Each of the 64 cases of the features that decide, against the order that the documentation gives."""
    names = (
        "equal",
        "words_of_mention_in_term",
        "words_of_term_in_mention",
        "only_in_mention",
        "only_in_term",
        "contradictions",
    )
    cases = np.array(np.meshgrid(*[[0, 1]] * len(names))).reshape(len(names), -1)
    found = relations(
        features(**dict(zip(names, cases.tolist(), strict=True))), np.arange(64), [scope] * 64, [("b c", "b")] * 64
    )
    for place, (equal, in_term, in_mention, own, other, against) in enumerate(cases.T.tolist()):
        mention_more = own or (in_mention and not in_term)
        term_more = other or (in_term and not in_mention)
        if scope in ("broad", "narrow", "related"):
            expected = {"broad": "narrow", "narrow": "broad"}.get(scope, "related")
        elif against or (mention_more and term_more):
            expected = "related"
        elif equal:
            expected = "exact"
        else:
            expected = "broad" if mention_more else "narrow" if term_more else "exact"
        assert found[place] == expected


def test_only_the_rows_asked_about_in_their_order():
    some = features(equal=[1, 0, 0], only_in_mention=[0, 1, 0], only_in_term=[0, 0, 1])
    pairs = [("b", "b c"), ("b c", "b")]
    assert relations(some, np.array([2, 1]), [None, None], pairs) == ["narrow", "broad"]
    assert relations(some, np.zeros(0, np.int64), [], []) == []
