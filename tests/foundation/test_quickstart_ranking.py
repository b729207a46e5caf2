from __future__ import annotations

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from alphita_lab.quickstart_training import ranking_of
from tests.doubles import HashEncoder, small_terminology


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    path = tmp_path_factory.mktemp("ranking") / "small.index"
    build(small_terminology(), HashEncoder(), path)
    return Index.open(path)


def test_letters_rank_concepts_once_each(index) -> None:
    letters = Normalizer(index, ranking="letters")
    first, second, nothing = ranking_of(letters, ["  SEIZURES", "type 2 diabetes", "qqq"], 3)
    assert first[0] == "T:1"
    assert second[:2] == ["T:7", "T:8"]
    assert len(set(second)) == len(second)
    assert nothing == []


def test_homonyms_stand_in_the_order_the_normalizer_gives_them(index) -> None:
    # "cold" is T:3's and T:5's exact term, and related to T:4.
    letters = Normalizer(index, ranking="letters")
    (ranking,) = ranking_of(letters, ["cold"], 3)
    assert ranking == ["T:3", "T:5", "T:4"]
    assert ranking_of(letters, ["cold"], 1) == [["T:3"]]


def test_a_ranking_knows_no_floor(index) -> None:
    strict = Normalizer(index, encoder=HashEncoder(), floor=1.0)
    (ranking,) = ranking_of(strict, ["hedache"], 3)
    assert ranking[0] == "T:2"
    assert len(ranking) == len(set(ranking)) == 3
    assert strict.normalize(["hedache"])[0].concept_id is None
