"""Words that stand for each other, names without a qualifier, and names that are not looked for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alphita.annotation.annotator import Annotator, Settings
from alphita.annotation.finding import Finder
from alphita.annotation.names import Level, Names, learn
from alphita.annotation.spans import Document
from alphita.annotation.tokens import sentences_of
from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from tests.doubles import HashEncoder, SmallTerminology

ORGANS = ("cyst", "failure", "stone")
ROWS = [
    *((f"T:{part}", f"{organ} {part}", "exact") for part in ORGANS for organ in ("Renal", "Kidney")),
    ("T:tumor", "Renal tumor", "exact"),
    ("T:talus", "Congenital vertical talus", "exact"),
    ("T:web", "Syndactyly", "exact"),
    ("T:fused", "Proximal symphalangism", "exact"),
    ("T:web", "symphalangism", "exact"),
    ("T:web", "NFM", "exact"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "small.index"
    build(SmallTerminology(ROWS), HashEncoder(), path)
    return Index.open(path)


def hits(index, text):
    finder = Finder(Names(index))
    return [
        (hit.asked, index.strings[hit.row], hit.level) for one in sentences_of(text) for hit in finder.find(text, one)
    ]


def test_roots_that_few_concepts_or_few_names_swap_stand_for_nothing():
    def names(number, left, right):
        return [[(left, f"part{place}"), (right, f"part{place}")] for place in range(number)]

    assert learn(names(3, "kidney", "renal")) == {"kidney": ("renal",), "renal": ("kidney",)}
    assert learn(names(2, "kidney", "renal")) == {}
    alone = [[("finger", f"bone{place}")] for place in range(100)] + [
        [("hand", f"bone{place}")] for place in range(100)
    ]
    assert learn(names(3, "finger", "hand") + alone) == {}
    # One word against another is no name with one in the other's place.
    assert learn([[("kidney",), ("renal",)]] * 5) == {}


def test_a_word_stands_for_another_where_the_names_say_so(index):
    assert hits(index, "a kidney tumor") == [("kidney tumor", "renal tumor", Level.ALIKE)]
    assert hits(index, "a kidney talus") == []


def test_a_name_is_found_without_what_says_how_it_is_where_nothing_else_has_that_name(index):
    assert hits(index, "vertical talus") == [("vertical talus", "congenital vertical talus", Level.ALIKE)]


def test_borrowed_short_forms_and_words_that_other_names_hold_are_not_looked_for(index):
    borrowed = np.isin(index.segment.terms.column("string").to_pylist(), ["symphalangism", "NFM"])
    segment = SimpleNamespace(
        offsets=index.segment.offsets,
        terms=index.segment.terms,
        term_concept=index.segment.term_concept,
        standing=np.where(borrowed, 20, index.segment.standing),
        borrowed=borrowed,
    )
    # Its own names they are found by.
    assert [name for _, name, _ in hits(index, "symphalangism, NFM")] == ["symphalangism", "nfm"]
    some = SimpleNamespace(strings=index.strings, segment=segment)
    assert hits(some, "symphalangism, NFM") == [("symphalangism", "proximal symphalangism", Level.ALIKE)]


def test_what_is_only_alike_is_left_to_the_normalizer(index):
    normalizer = Normalizer(index, encoder=HashEncoder())
    exact = Annotator(normalizer, Settings(exact=True)).annotate([Document("1", "kidney cyst, kidney tumor")])
    assert [one.mention for one in exact[0].annotations] == ["kidney cyst"]
