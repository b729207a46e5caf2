"""An index made from an earlier one."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.errors import InputError, UsageError
from alphita.index import encoding, sources
from alphita.index.choice import Building
from alphita.index.store import Index, build
from tests.doubles import ROWS, HashEncoder, SmallTerminology, small_terminology

NEW = [("T:9", "Brand new", "exact"), ("T:1", "Falling sickness of old", "exact")]


def next_release() -> SmallTerminology:
    """The small terminology with two strings more, and without its second."""
    return SmallTerminology([*ROWS[:1], *ROWS[2:], *NEW], retired=["T:6"])


@pytest.fixture
def old(tmp_path) -> Index:
    return build(small_terminology(), HashEncoder(), tmp_path / "old.index")


@pytest.mark.parametrize("block", [encoding.STRINGS_A_BLOCK, 5, 1])
def test_only_new_strings_are_encoded_and_the_index_is_that_of_a_fresh_build(old, tmp_path, monkeypatch, block):
    monkeypatch.setattr(sources, "STRINGS_A_BLOCK", block)
    encoder = HashEncoder()
    new = build(
        next_release(),
        encoder,
        tmp_path / "new.index",
        how=Building(backend="exact"),
        blocks=sources.reusing(old, encoder),
    )
    assert encoder.encoded == ["brand new", "falling sickness of old"]
    fresh = build(next_release(), HashEncoder(), tmp_path / "fresh.index", how=Building(backend="exact"))
    assert list(new.strings) == list(fresh.strings)
    assert new.vectors.tobytes() == fresh.vectors.tobytes()
    assert new.manifest["content_hash"] == fresh.manifest["content_hash"]


def test_what_was_excluded_before_is_encoded_now(tmp_path):
    old = build(small_terminology(), HashEncoder(), tmp_path / "old.index", exclude=frozenset({"cephalgia"}))
    encoder = HashEncoder()
    new = build(small_terminology(), encoder, tmp_path / "new.index", blocks=sources.reusing(old, encoder))
    assert encoder.encoded[:1] == ["cephalgia"]
    np.testing.assert_allclose(new.vectors, HashEncoder().encode(list(new.strings)), atol=1e-6)


def test_an_index_by_another_model_is_refused(old):
    with pytest.raises(InputError, match=r"its model hash is .* leave --update out"):
        sources.reusing(old, HashEncoder(seed=1))


def test_half_precision_makes_no_full_one(tmp_path):
    half = build(small_terminology(), HashEncoder(), tmp_path / "half.index", how=Building(half=True))
    with pytest.raises(UsageError, match="half precision; give --half too"):
        sources.reusing(half, HashEncoder())
    encoder = HashEncoder()
    again = build(
        small_terminology(),
        encoder,
        tmp_path / "again.index",
        how=Building(half=True),
        blocks=sources.reusing(half, encoder, half=True),
    )
    assert again.vectors.tobytes() == half.vectors.tobytes()
    assert encoder.encoded == []
