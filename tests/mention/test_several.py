"""A mention that names several concepts is never accepted as one of them."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.mention.assertion import name_several, names_in, parts_of

NAMES = [
    "seizure",
    "hypotonia",
    "fever",
    "cough",
    "rash",
    "nausea",
    "vomiting",
    "hepatitis",
    "virus",
    "cleft lip",
    "carcinoma",
    "breast",
    "febbre",
    "tosse",
    "kopfschmerz",
    "fieber",
    "low set ears",
    "rotated ears",
]


def rows(strings):
    return np.array([NAMES.index(one) if one in NAMES else -1 for one in strings], np.int64)


@pytest.mark.parametrize(
    "mention",
    [
        "seizure and hypotonia",
        "seizure; hypotonia",
        "seizure/hypotonia",
        "fever, cough and rash",
        "fever or cough",
        "nausea and vomiting",
        "febbre ed tosse",
        "kopfschmerz und fieber",
        "severe pain, fever & cough",
    ],
)
def test_two_names_that_are_joined_are_several(mention):
    assert name_several([mention], rows).tolist() == [True]


@pytest.mark.parametrize(
    "mention",
    [
        "seizure",
        "cleft lip and palate",
        "hepatitis e virus",
        "carcinoma of breast",
        "fever and fever",
        "short and curved fingers",
        "low-set and painful ears",
        "hand and foot deformity",
        "and",
        "",
        "sand fever",
    ],
)
def test_what_is_one_thing_is_not_several(mention):
    assert name_several([mention], rows).tolist() == [False]


def test_each_mention_is_told_for_itself():
    mentions = ["fever, cough", "fever", "rash; virus", "rash; none", "low-set, rotated ears"]
    assert name_several(mentions, rows).tolist() == [True, False, True, False, True]
    assert parts_of("fever, cough and  rash") == ["fever", "cough", "rash"]


@pytest.mark.parametrize(
    ("mention", "names"),
    [
        ("Seizure and hypotonia", ["Seizure", "hypotonia"]),
        ("fever, cough AND rash", ["fever", "cough", "rash"]),
        ("fever, cough and a bad mood", ["fever", "cough", "a bad mood"]),
        ("carcinoma; carcinoma", ["carcinoma; carcinoma"]),
        ("cleft lip and palate", ["cleft lip and palate"]),
        ("seizure", ["seizure"]),
        ("short and curved fingers", ["short fingers", "curved fingers"]),
        ("absent thumb/radius", ["absent thumb", "absent radius"]),
        ("seizure and vomiting", ["seizure and vomiting"]),
        ("; ", ["; "]),
    ],
)
def test_a_mention_is_split_into_its_names(mention, names):
    known = [*NAMES, "short fingers", "curved fingers", "absent thumb", "absent radius", "seizure and vomiting"]
    rows = lambda strings: np.array([known.index(one) if one in known else -1 for one in strings], np.int64)  # noqa: E731
    assert names_in(mention, rows) == names
