"""A mention that names several concepts is never accepted as one of them."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.normalizer.answering.several import name_several, parts_of

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
        "hand and foot deformity",
        "and",
        "",
        "sand fever",
    ],
)
def test_what_is_one_thing_is_not_several(mention):
    assert name_several([mention], rows).tolist() == [False]


def test_each_mention_is_told_for_itself():
    mentions = ["fever, cough", "fever", "rash; virus", "rash; none"]
    assert name_several(mentions, rows).tolist() == [True, False, True, False]
    assert parts_of("fever, cough and  rash") == ["fever", "cough", "rash"]
