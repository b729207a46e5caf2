from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, UsageError
from alphita_lab.training.terms.aligned_pairs import AlignedPairs, Collected
from alphita_lab.training.terms.translation_data import PairBatches, numbered

COUNTS = st.dictionaries(st.sampled_from(["cs", "es", "it", "zh"]), st.integers(1, 25), max_size=4)


def pairs_of(counts: dict[str, int]) -> AlignedPairs:
    """So many pairs of each language, in turn."""
    collected = Collected()
    for number in range(max(counts.values(), default=0)):
        for tag, count in counts.items():
            if number < count:
                translation = f"汉{number}" if tag == "zh" else f"{tag} {number}"
                assert collected.add(f"name {number}", translation, tag, origin="t") is None
    return collected.pairs()


def stream(batches: PairBatches, n_pairs: int, epochs: int, size: int) -> list[int]:
    """The first epochs end to end; names are numbered from `n_pairs` on."""
    drawn: list[int] = []
    for number in range(-(-epochs * batches.rows // size)):
        batch = batches.batch(number)
        assert len(batch.pairs) + len(batch.names) == size
        drawn += [*batch.pairs.tolist(), *(n_pairs + batch.names).tolist()]
    return drawn[: epochs * batches.rows]


@settings(max_examples=60, deadline=None)
@given(counts=COUNTS, names=st.integers(0, 20), seed=st.integers(0, 1000))
def test_an_epoch_shows_every_pair_and_name_once(counts: dict[str, int], names: int, seed: int) -> None:
    pairs = pairs_of(counts)
    if len(pairs) + names == 0:
        return
    drawn = stream(PairBatches(pairs, names, batch=1, seed=seed), len(pairs), 3, 1)
    size = len(pairs) + names
    for epoch in range(3):
        assert sorted(drawn[epoch * size : (epoch + 1) * size]) == list(range(size))
    assert size < 12 or drawn[:size] != drawn[size : 2 * size]


@settings(max_examples=40, deadline=None)
@given(
    counts=COUNTS.filter(bool),
    names=st.integers(0, 9),
    seed=st.integers(0, 1000),
    temperature=st.sampled_from([1.0, 2.0, 5.0, 1000.0]),
    weight=st.sampled_from([0.2, 1.0, 4.0]),
)
def test_with_a_temperature_languages_share_the_epoch_and_pairs_take_turns(
    counts: dict[str, int], names: int, seed: int, temperature: float, weight: float
) -> None:
    pairs = pairs_of(counts)
    weights = {pairs.languages[-1]: weight}
    batches = PairBatches(pairs, names, batch=1, seed=seed, temperature=temperature, weights=weights)
    assert sum(batches.shown.values()) == len(pairs)
    epochs = 4
    drawn = stream(batches, len(pairs), epochs, 1)
    shown = Counter(drawn)
    assert all(shown[len(pairs) + name] == epochs for name in range(names))
    for place, tag in enumerate(pairs.languages):
        own = [shown[row] for row in np.flatnonzero(pairs.language == place).tolist()]
        assert sum(own) == epochs * batches.shown[tag]
        assert max(own) - min(own) <= 1
    for epoch in range(epochs):  # in each epoch, not only on average
        part = [row for row in drawn[epoch * batches.rows : (epoch + 1) * batches.rows] if row < len(pairs)]
        assert Counter(pairs.languages[pairs.language[row]] for row in part) == Counter(batches.shown)


def test_shares_are_those_of_the_formula() -> None:
    pairs = pairs_of({"es": 1600, "it": 16})
    assert PairBatches(pairs, batch=8, seed=0).shown == {"es": 1600, "it": 16}
    tempered = PairBatches(pairs, batch=8, seed=0, temperature=2).shown  # 40 to 4
    assert tempered["it"] == pytest.approx(1616 * 4 / 44, abs=2)
    weighted = PairBatches(pairs, batch=8, seed=0, weights={"it": 100.0}).shown  # 1600 to 1600
    assert weighted["it"] == pytest.approx(808, abs=1)
    assert PairBatches(pairs, batch=8, seed=0, temperature=1e9).shown["it"] == pytest.approx(808, abs=1)


def test_strings_are_numbered_once() -> None:
    collected = Collected()
    for source, translation, tag in (("pain", "dolore", "it"), ("pain", "dolor", "es"), ("ache", "dolor", "es")):
        collected.add(source, translation, tag, origin="t")
    found = numbered(collected.pairs(), ["ague", "dolor"])
    assert found.strings == ["pain", "ache", "ague", "dolor", "dolore"]
    assert found.sources.tolist() == [0, 0, 1]
    assert found.translations.tolist() == [4, 3, 3]
    assert found.names.tolist() == [2, 3]


def test_wrong_options() -> None:
    pairs = pairs_of({"es": 2})
    with pytest.raises(InputError, match="neither a pair nor a name"):
        PairBatches(pairs_of({}), batch=1, seed=0)
    with pytest.raises(InputError, match=r"no pair is of this language.*choose from \['es'\]"):
        PairBatches(pairs, batch=1, seed=0, weights={"it": 2.0})
    for options in ({"batch": 0}, {"temperature": 0.5}, {"temperature": float("nan")}, {"weights": {"es": 0.0}}):
        with pytest.raises(UsageError):
            PairBatches(pairs, **{"batch": 1, "seed": 0, **options})
