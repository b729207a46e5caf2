"""Pairs held out to score with, against loops written from the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita_lab.training.terms.aligned_pairs import AlignedPairs, Collected
from alphita_lab.training.terms.translation_data import HELD_OUT, accuracy, concepts_of, hold_out
from tests.doubles import HashEncoder

words = st.sampled_from(["heart", "cuore", "liver", "fegato", "skin", "pelle", "bone", "osso", "eye", "occhio"])


def collected(rows: list[tuple[str, str, str, int]]) -> AlignedPairs:
    pairs = Collected()
    for source, translation, language, concept in rows:
        pairs.add(source, translation, language, origin="t", concept=concept)
    return pairs.pairs()


@given(
    st.lists(st.tuples(words, words, st.sampled_from(["it", "de"]), st.integers(-1, 3)), min_size=1, max_size=20),
    st.integers(0, 12),
    st.integers(0, 3),
)
@settings(max_examples=200)
def test_nothing_held_out_trains(rows: list[tuple[str, str, str, int]], wanted: int, seed: int) -> None:
    pairs = collected(rows)
    if not len(pairs):
        return
    try:
        train, dev = hold_out(pairs, wanted, seed)
    except InputError:
        # Told apart below: too many are asked for.
        return
    assert len(dev) >= wanted
    strings = {*dev.sources, *dev.translations}
    assert not strings & {*train.sources, *train.translations}
    assert {row[3] for row in train.rows() if row[3] >= 0}.isdisjoint(row[3] for row in dev.rows() if row[3] >= 0)
    # Every pair trains, is scored, or shares a string with one that is.
    left = [row for row in pairs.rows() if strings.isdisjoint(row[:2])]
    assert sorted(train.rows()) == sorted(left)
    assert set(dev.rows()) <= set(pairs.rows())
    assert train.counts.get(HELD_OUT, 0) == len(pairs) - len(train)
    assert (wanted > 0) == (len(dev) > 0)
    # No concept more than is needed.
    sizes = np.bincount(concepts_of(dev)) if wanted else np.zeros(1, int)
    assert len(dev) - sizes.max() < max(wanted, 1)


def test_a_concept_that_is_not_known_is_its_sources() -> None:
    pairs = collected([("a", "b", "it", 5), ("c", "d", "it", 5), ("a", "e", "de", -1), ("c", "f", "de", -1)])
    assert concepts_of(pairs).tolist() == [0, 0, 1, 2]


def test_too_many_are_refused() -> None:
    pairs = collected([("heart", "cuore", "it", 0), ("skin", "pelle", "it", 1)])
    with pytest.raises(InputError, match="holding out 2 pairs leaves none of 2") as caught:
        hold_out(pairs, 2, 0)
    assert caught.value.remedy


@given(st.lists(st.tuples(words, words, st.sampled_from(["it", "de"]), st.integers(-1, 3)), min_size=1, max_size=20))
@settings(max_examples=100, suppress_health_check=[HealthCheck.filter_too_much])
def test_accuracy_is_that_of_a_loop(rows: list[tuple[str, str, str, int]]) -> None:
    pairs = collected(rows)
    if not len(pairs):
        return
    encoder = HashEncoder()
    sources = list(dict.fromkeys(pairs.sources))
    key = {row[:3]: row[3] if row[3] >= 0 else row[0] for row in pairs.rows()}
    right: dict[str, list[bool]] = {}
    for row in pairs.rows():
        query = encoder.encode([row[1]])[0]
        similarity = {source: float(query @ encoder.encode([source])[0]) for source in sources}
        nearest, *others = sorted(sources, key=similarity.__getitem__, reverse=True)
        # Which of two equals comes first is the order of sums' affair.
        assume(not others or similarity[nearest] - similarity[others[0]] > 1e-6)
        own = {other[0] for other in pairs.rows() if key[other[:3]] == key[row[:3]]}
        right.setdefault(row[2], []).append(nearest in own)
    scores = accuracy(pairs, encoder)  # type: ignore[arg-type]
    assert next(iter(scores)) == "dev_acc1"
    assert scores.pop("dev_acc1") == pytest.approx(np.mean([one for of_tag in right.values() for one in of_tag]))
    assert scores == pytest.approx({f"dev_acc1_{tag}": np.mean(of_tag) for tag, of_tag in right.items()})


def test_length_does_not_count() -> None:
    """Vectors are compared by cosine, also those of a model that does not scale them."""

    class Long(HashEncoder):
        def encode(self, strings: list[str]) -> np.ndarray:
            return super().encode(strings) * np.array([[1.0 + 9.0 * ("x" in string)] for string in strings], np.float32)

    pairs = collected([("heart pain", "heart pains", "it", 0), ("heart xx", "heart axx", "it", 1)])
    assert accuracy(pairs, Long())["dev_acc1"] == 1.0  # type: ignore[arg-type]
