"""A calibration of one index taken over by another."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.errors import InputError, UsageError
from alphita.index.store import Index, build
from alphita.normalizer.calibration_store import FOLDER, Calibration
from alphita.normalizer.carrying import carry_over
from alphita.normalizer.normalizer import Normalizer
from tests.doubles import SmallTerminology
from tests.normalizer.synthetic import FINDINGS, PARTS, SIDES, VocabularyEncoder, quick_fit, synthetic_terminology

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


def test_it_certifies_nothing_and_says_where_it_is_from(source, plain):
    carried = carry_over(plain, lambda: ENCODER, source)
    assert set(carried.accept.values()) == {None}
    assert (carried.figures, carried.pictures) == ({}, {})
    fields = carried.fields
    assert fields["index_hash"] == plain.content_hash
    assert fields["carried_over_from"]["index"] == source.content_hash
    assert "synonyms" in fields["carried_over_from"]["population"]


def test_an_encoder_of_its_own_is_needed(source, tmp_path):
    other = VocabularyEncoder(seed=5)
    index = build(synthetic_terminology(50), other, tmp_path / "o.index")
    with pytest.raises(InputError, match="its encoder is another than this index's"):
        carry_over(index, lambda: other, source)


def test_a_source_without_calibration_is_a_clear_error(plain, tmp_path):
    bare = build(synthetic_terminology(50), ENCODER, tmp_path / "bare.index")
    with pytest.raises((InputError, UsageError), match="calibrat"):
        carry_over(plain, lambda: ENCODER, bare)
