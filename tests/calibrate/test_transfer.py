"""A calibration of one index taken over by another."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alphita.answer.calibration_store import FOLDER, Calibration
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.transfer import MIN_COMPARED, adapt_where_missing, carry_over, with_margin
from alphita.errors import InputError, UsageError
from alphita.index.encoding import keep_calibration
from alphita.index.store import Index, build
from tests.answer.synthetic import FINDINGS, PARTS, SIDES, VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import HashEncoder, SmallTerminology

ENCODER = VocabularyEncoder()


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Index:
    """A calibrated index of many synonyms."""
    index = build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("source") / "x.index")
    quick_fit(index, ENCODER, seed=3).save(index.path / FOLDER)
    return index


@pytest.fixture
def plain(tmp_path) -> Index:
    """An index of one name a concept: of others than the source's, for those are turned round."""
    names = [f"{plain} of {part}, {side}" for side in SIDES for part in PARTS for plain, _ in FINDINGS]
    rows = [(f"U:{number:04}", name, "exact") for number, name in enumerate(names)]
    return build(SmallTerminology(rows), ENCODER, tmp_path / "plain.index")


def test_it_ranks_what_nothing_could_be_fitted_on(source, plain):
    with pytest.raises(InputError, match="only 0 held-out strings"):
        quick_fit(plain, ENCODER)
    carried = carry_over(plain, lambda: ENCODER, source)
    carried.save(plain.path / FOLDER)
    again = Calibration.load(plain.path / FOLDER, plain)
    own = Calibration.load(source.path / FOLDER, source)
    for name, values in own.ranker.to_arrays().items():
        np.testing.assert_array_equal(again.ranker.to_arrays()[name], values)
    normalizer = Normalizer.load(plain.path, encoder=ENCODER)
    assert normalizer.ranking == "learned"
    mentions = [f"{side} {part} {plain}" for side in SIDES[:3] for part in PARTS for plain, _ in FINDINGS]
    wanted = [f"{plain} of {part}, {side}" for side in SIDES[:3] for part in PARTS for plain, _ in FINDINGS]
    results = normalizer.normalize(mentions)
    right = [
        bool(result.candidates) and result.candidates[0].matched_term == name
        for result, name in zip(results, wanted, strict=True)
    ]
    assert np.mean(right) > 0.8
    assert all(result.confidence is not None for result in results if result.candidates)


def test_it_accepts_with_a_margin_and_says_where_it_is_from(source, plain):
    carried = carry_over(plain, lambda: ENCODER, source)
    own = Calibration.load(source.path / FOLDER, source)
    assert carried.assurance(0.1) == "estimated"
    assert own.assurance(0.1) == "certified"
    assert list(carried.accept) == list(own.accept)
    assert (carried.accept[0.1], carried.accept[0.05]) == (own.accept[0.05], own.accept[0.02])
    assert carried.accept[0.1] is not None
    assert (carried.figures, carried.pictures) == ({}, {})
    fields = carried.fields
    assert fields["index_hash"] == plain.content_hash
    assert fields["carried_over_from"]["index"] == source.content_hash
    assert "synonyms" in fields["carried_over_from"]["population"]
    assert (own.origin, carried.origin) == ("", "taken over from another index")
    # Equal names are accepted.
    carried.save(plain.path / FOLDER)
    normalizer = Normalizer.load(plain.path, encoder=ENCODER, error=0.1)
    names = plain.segment.concepts.column("name").to_pylist()[:50]
    assert {result.decision for result in normalizer.normalize(names)} == {"accept"}


def test_the_margin_is_the_threshold_of_half_the_error():
    accept = {0.005: 0.99, 0.01: None, 0.02: 0.9, 0.05: 0.8, 0.1: 0.7}
    assert with_margin(accept) == {0.005: None, 0.01: 0.99, 0.02: None, 0.05: 0.9, 0.1: 0.8}


def test_what_was_taken_over_can_be_taken_over_again_without_a_second_margin(source, plain, tmp_path):
    first = carry_over(plain, lambda: ENCODER, source)
    first.save(plain.path / FOLDER)
    third = build(synthetic_terminology(20), ENCODER, tmp_path / "third.index")
    again = carry_over(third, lambda: ENCODER, plain)
    assert again.accept == first.accept
    assert again.fields["carried_over_from"]["population"] == first.fields["carried_over_from"]["population"]


def test_an_encoder_of_its_own_is_needed(source, tmp_path):
    other = VocabularyEncoder(seed=5)
    index = build(synthetic_terminology(50), other, tmp_path / "o.index")
    with pytest.raises(InputError, match="its encoder is another than this index's"):
        carry_over(index, lambda: other, source)
    bare = build(synthetic_terminology(50), ENCODER, tmp_path / "bare.index")
    with pytest.raises((InputError, UsageError), match="calibrat"):
        carry_over(index, lambda: ENCODER, bare)


def names(n: int) -> SmallTerminology:
    return SmallTerminology(
        [(f"X:{number}", f"{word} {number}", "exact") for number, word in zip(range(n), PARTS * n, strict=False)]
    )


def test_an_index_of_another_encoder_borrows_the_general_one(tmp_path):
    index = build(names(MIN_COMPARED), HashEncoder(), tmp_path / "x.index")
    assert Normalizer(index, encoder=HashEncoder()).assurance is None
    assert adapt_where_missing(index)
    normalizer = Normalizer(Index.open(index.path), encoder=HashEncoder())
    assert normalizer.assurance == "estimated"
    (found,) = normalizer.normalize([index.strings[0]])
    assert (found.decision, found.method) == ("accept", "exact")
    # It is of this index alone: another index of the same encoder gets its own.
    keep_calibration(SimpleNamespace(folder=index.model_path), tmp_path)
    assert not (tmp_path / "calibration").exists()


def test_what_is_there_stays_and_a_few_strings_are_too_few(source, tmp_path):
    assert adapt_where_missing(source)
    assert not adapt_where_missing(build(names(9), HashEncoder(), tmp_path / "x.index"))
