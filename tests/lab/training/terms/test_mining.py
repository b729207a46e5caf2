from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita.index.neighbours import unit
from alphita_lab.training.terms import mining
from alphita_lab.training.terms.mining import (
    AnchorSampler,
    InvertedFile,
    Meanings,
    MinedRows,
    NearNames,
    OnGpu,
    encode_names,
    mined_neighbours,
    oldest_needed,
    same_words,
)
from alphita_lab.training.terms.names import TrainingNames
from tests.stanzas import Stanza, ontology

DIM = 12


class Vectors:
    """An encoder of strings that are numbers; counts the strings it is given."""

    def __init__(self, table: np.ndarray) -> None:
        self.table, self.dim, self.encoded = table.astype(np.float32), table.shape[1], 0

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        self.encoded += len(strings)
        return self.table[[int(string) for string in strings]]


def strings(n: int) -> list[str]:
    return [str(number) for number in range(n)]


def nearest_by_loops(table: np.ndarray, anchor: int, wanted: int) -> list[int]:
    """All other names by cosine, in float64; equals by number."""
    unit = [row / np.sqrt(row @ row) for row in table.astype(float)]
    others = [name for name in range(len(table)) if name != anchor]
    return sorted(others, key=lambda name: (-float(unit[anchor] @ unit[name]), name))[:wanted]


def by(encoder: Vectors) -> mining.Encode | None:
    return encode_names(strings(len(encoder.table)), encoder)


def mined(table: np.ndarray, folder: Path, wanted: int = 5, exact_up_to: int = 10_000) -> MinedRows:
    return mined_neighbours(strings(len(table)), wanted, folder, exact_up_to=exact_up_to)


@pytest.mark.parametrize("seed", range(4))
def test_neighbours_are_those_of_an_exhaustive_search(tmp_path: Path, monkeypatch, seed: int) -> None:
    """In blocks of names and anchors, with lengths far from 1 and with anchors asked for twice."""
    monkeypatch.setattr(mining, "ROWS_AT_ONCE", 17)
    monkeypatch.setattr(mining, "ANCHORS_AT_ONCE", 7)
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(90, DIM)) * rng.uniform(0.1, 50, (90, 1))
    anchors = rng.integers(0, 90, 40)
    neighbours = mined(table, tmp_path)
    neighbours.refresh(0, anchors, by(Vectors(table)))
    found = neighbours.of(anchors)
    assert found.dtype == np.int32
    assert [row.tolist() for row in found] == [nearest_by_loops(table, anchor, 5) for anchor in anchors]


def test_an_anchor_is_never_its_own_neighbour_even_among_many_of_its_vector(tmp_path: Path) -> None:
    """Names 0 to 29 have the same vector, so that an anchor among them may not be among the nearest found at all."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(60, DIM))
    table[:30] = table[0]
    neighbours = mined(table, tmp_path)
    neighbours.refresh(0, np.arange(60), by(Vectors(table)))
    found = neighbours.of(np.arange(60))
    assert found.shape == (60, 5)
    for anchor, row in enumerate(found.tolist()):
        assert anchor not in row
        assert len(set(row)) == 5
        if anchor < 30:
            assert max(row) < 30
        else:
            # Of the thirty alike any may come.
            expected = nearest_by_loops(table, anchor, 5)
            assert [name for name in row if name >= 30] == [name for name in expected if name >= 30]


def test_a_resumed_run_reads_what_was_mined_and_does_not_encode(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    early, late = rng.normal(size=(2, 50, DIM))
    anchors = np.arange(0, 50, 2)
    before = mined(early, tmp_path)
    before.refresh(20, anchors, by(Vectors(early)))
    resumed, moved_on = mined(late, tmp_path), Vectors(late)
    resumed.refresh(20, anchors, by(moved_on))
    np.testing.assert_array_equal(resumed.of(anchors), before.of(anchors))
    assert moved_on.encoded == 0
    assert resumed.step == 20
    # The next mining sees the weights of its own step.
    resumed.refresh(40, anchors, by(moved_on))
    assert moved_on.encoded == 50
    assert resumed.of(np.array([2]))[0].tolist() == nearest_by_loops(late, 2, 5)
    assert not np.array_equal(resumed.of(anchors), before.of(anchors))


def test_findings_that_are_gone_with_their_weights_are_an_error(tmp_path: Path) -> None:
    neighbours = mined(np.ones((3, DIM)), tmp_path)
    with pytest.raises(InputError, match="found at step 20 are gone") as error:
        neighbours.refresh(20, np.arange(3), None)
    assert error.value.remedy
    assert error.value.file == tmp_path / "neighbours-00000020.npy"


def test_only_findings_that_a_run_may_go_back_to_are_kept(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(9, DIM))
    neighbours = mined(table, tmp_path)
    for step in (0, 10, 20, 30):
        neighbours.refresh(step, np.arange(9), by(Vectors(table)), needed_from=step - 15)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["neighbours-00000020.npy", "neighbours-00000030.npy"]


def test_a_mining_that_was_cut_leaves_no_findings(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(30, DIM))

    class Cut(Vectors):
        def encode(self, strings: Sequence[str]) -> np.ndarray:
            raise KeyboardInterrupt

    neighbours = mined(table, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        neighbours.refresh(0, np.arange(9), by(Cut(table)))
    assert list(tmp_path.iterdir()) == []
    assert neighbours.step == -1
    neighbours.refresh(0, np.arange(9), by(Vectors(table)))
    assert neighbours.of(np.array([3]))[0].tolist() == nearest_by_loops(table, 3, 5)


def test_guesses_have_the_size_of_findings_and_touch_no_disk(tmp_path: Path) -> None:
    neighbours = mined(np.ones((40, DIM)), tmp_path / "none")
    neighbours.guess(np.array([3, 3, 17]))
    found = neighbours.of(np.array([17, 3, 3]))
    assert found.shape == (3, 5)
    assert 0 <= found.min() <= found.max() < 40
    assert not (tmp_path / "none").exists()


def clusters(n: int, seed: int) -> np.ndarray:
    """Vectors in clusters of some ten, as names of concepts are."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n // 10, 32))
    return centres[rng.integers(0, len(centres), n)] + 0.3 * rng.normal(size=(n, 32))


def test_the_approximate_search_finds_nearly_all_and_looks_at_few(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(mining, "PROBED", 8)
    table = clusters(5000, 0)
    anchors = np.arange(0, 5000, 5)
    whole, part = mined(table, tmp_path / "a", wanted=10), mined(table, tmp_path / "b", wanted=10, exact_up_to=4999)
    for neighbours in (whole, part):
        neighbours.refresh(0, anchors, by(Vectors(table)))
    exact, approximate = whole.of(anchors), part.of(anchors)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact.tolist(), approximate.tolist(), strict=True)])
    # 8 of 70 cells hold the clusters of nearly all anchors; an exact search would find them all.
    assert 0.8 < shared < 1
    assert (approximate != anchors[:, None]).all()


def test_the_approximate_search_looks_on_until_it_has_enough(monkeypatch) -> None:
    monkeypatch.setattr(mining, "PROBED", 1)
    table = clusters(400, 1).astype(np.float32)
    similarity, rows = InvertedFile(table).search(table[:3], 400)
    assert [sorted(row) for row in rows.tolist()] == [list(range(400))] * 3
    np.testing.assert_allclose(similarity, np.take_along_axis(table[:3] @ table.T, rows, 1), rtol=5e-3, atol=0.05)


COUNTS = st.lists(st.integers(0, 7), min_size=1, max_size=10).filter(lambda counts: max(counts) > 1)


def offsets_of(counts: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@settings(max_examples=60, deadline=None)
@given(
    counts=COUNTS, size=st.integers(1, 9), wanted=st.integers(1, 5), least=st.integers(1, 2), seed=st.integers(0, 999)
)
def test_anchors_come_in_epochs_with_other_names_of_their_concept(
    counts: list[int], size: int, wanted: int, least: int, seed: int
) -> None:
    offsets = offsets_of(counts)
    sampler = AnchorSampler(offsets, anchors=size, synonyms=wanted, least=least, seed=seed)
    concept_of = [concept for concept, count in enumerate(counts) for _ in range(count)]
    assert sampler.concepts.tolist() == concept_of
    eligible = [name for name, concept in enumerate(concept_of) if counts[concept] >= least]
    batches = 2 * len(eligible)
    drawn = [sampler.anchors(number) for number in range(batches)]
    # Each name once an epoch: 2 * size epochs in all.
    assert Counter(np.concatenate(drawn).tolist()) == dict.fromkeys(eligible, 2 * size)
    np.testing.assert_array_equal(np.concatenate(drawn[1:4]), sampler.anchors_of(1, 4))
    for number in (0, batches - 1):
        shown = sampler.synonyms(number, drawn[number])
        for anchor, names in zip(drawn[number].tolist(), shown, strict=True):
            own = {name for name in range(len(concept_of)) if concept_of[name] == concept_of[anchor]} - {anchor}
            assert set(names.tolist()) <= own
            assert len(set(names.tolist())) == len(names) == min(wanted, len(own))


@pytest.mark.parametrize(("counts", "least"), [([1, 1, 1], 1), ([1, 1], 2), ([0], 1), ([3, 2], 4)])
def test_no_anchor_with_a_positive_is_an_error_with_a_remedy(counts: list[int], least: int) -> None:
    with pytest.raises(InputError, match="no anchor has a positive") as error:
        AnchorSampler(offsets_of(counts), anchors=2, synonyms=2, least=least, seed=0)
    assert error.value.remedy


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=0, max_size=4, unique=True), min_size=1, max_size=7), st.data())
def test_names_differ_if_no_concept_has_both_strings(spellings: list[list[int]], data: st.DataObject) -> None:
    """spellings[c] are the strings of concept c."""
    string = [spelling for own in spellings for spelling in own]
    if not string:
        return
    concepts = [concept for concept, own in enumerate(spellings) for _ in own]
    terms = data.draw(st.lists(st.integers(0, len(string) - 1), min_size=1, max_size=12, unique=True))
    meanings = Meanings(np.array(string, np.int32), np.array(concepts))
    expected = [[not any(string[a] in own and string[b] in own for own in spellings) for b in terms] for a in terms]
    assert meanings.different(np.array(terms)).tolist() == expected


def test_a_search_in_half_precision_finds_the_nearest() -> None:
    rng = np.random.default_rng(0)
    table = unit(rng.normal(size=(300, 24)).astype(np.float32))
    similarity, rows = OnGpu(table, "cpu").search(table[:40], 5)
    exact = table[:40] @ table.T
    np.testing.assert_allclose(similarity, -np.sort(-exact, axis=1)[:, :5], atol=2e-3)
    np.testing.assert_allclose(np.take_along_axis(exact, rows, axis=1), similarity, atol=2e-3)
    assert rows[:, 0].tolist() == list(range(40))


@pytest.mark.parametrize(
    ("step", "checkpoint_every", "needed"),
    [(0, 10, -20), (40, 10, 20), (45, 10, 20), (40, 0, 0), (61, 30, 20), (100, 7, 80)],
)
def test_findings_are_kept_as_long_as_a_run_may_ask_for_them(step: int, checkpoint_every: int, needed: int) -> None:
    assert oldest_needed(step, 20, checkpoint_every) == needed


# Cleaned names, each with a place on a circle in degrees: what is near has another meaning, or none.
PLACES = {
    "acute pain": 0,
    "pain, acute": 1,
    "chronic pain": 3,
    "ache": 6,
    "long pain": 8,
    "pains, acute": 2,
    "fever": 180,
    "heat": 183,
}


class Circle:
    """Encodes by `PLACES`, turned by `turn` degrees for some."""

    dim = 2

    def __init__(self, turn: dict[str, int] | None = None) -> None:
        self.turn, self.encoded = turn or {}, 0

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        self.encoded += len(strings)
        angles = np.radians([PLACES[one] + self.turn.get(one, 0) for one in strings])
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


@pytest.fixture
def near(tmp_path: Path) -> tuple[NearNames, TrainingNames]:
    stanzas = [
        Stanza(1, ["acute pain", "ache"]),
        Stanza(2, ["chronic pain", "long pain"]),
        Stanza(3, ["fever", "heat"]),
        Stanza(4, ["pain, acute"]),
        Stanza(5, ["pains, acute"]),
    ]
    terminology = ontology(tmp_path / "t.terminology", stanzas)
    names = TrainingNames(terminology)
    return NearNames(terminology, names, tmp_path / "mined", every=10), names


def drawn(near: NearNames, names: TrainingNames, name: str) -> set[str]:
    rng, place = np.random.default_rng(0), names.strings.index(name)
    found = [near.draw(np.array([place]), rng) for _ in range(60)]
    assert all(of.tolist() == [0] for _, of in found)
    return {names.strings[row] for rows, _ in found for row in rows.tolist()}


def test_what_is_near_of_another_concept_is_drawn_but_not_the_same_words(near, monkeypatch) -> None:
    made, names = near
    made.mine(0, Circle())
    assert drawn(made, names, "acute pain") == {"chronic pain", "long pain", "fever", "heat"}
    monkeypatch.setattr("alphita_lab.training.terms.mining.DRAWN_FROM", 2)
    assert drawn(made, names, "acute pain") == {"chronic pain", "long pain"}
    assert drawn(made, names, "fever") == {"long pain", "ache"}


def test_another_vocabulary_is_left_out(near) -> None:
    made, names = near
    made.mine(0, Circle())
    made._vocabulary[names.strings.index("chronic pain")] += 1
    assert "chronic pain" not in drawn(made, names, "acute pain")
    made._vocabulary[:] = np.arange(len(names.strings))
    rows, of = made.draw(np.arange(len(names.strings)), np.random.default_rng(0))
    assert (len(rows), len(of)) == (0, 0)


def test_names_are_mined_when_it_is_time_and_read_again_when_a_run_goes_on(near, tmp_path: Path) -> None:
    made, names = near
    encoder = Circle()
    for step in range(20):
        made.mine(step, encoder)
    assert encoder.encoded == 2 * len(names.strings)
    again = NearNames.__new__(NearNames)
    again.__dict__.update(made.__dict__)
    again._mined = mined_neighbours(names.strings, 32, tmp_path / "mined", exact_up_to=100)
    again.mine(13, encoder)
    assert encoder.encoded == 2 * len(names.strings)
    assert drawn(again, names, "fever") == drawn(made, names, "fever")
    with pytest.raises(InputError, match="neighbours found at step 20 are gone"):
        again.mine(27, encoder)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("acute pain", "pains, acute", True),
        ("cancer of the lung", "lung cancers", True),
        ("pain", "pains", True),
        ("acute pain", "chronic pain", False),
        ("type 1", "type 2", False),
        ("s", "", False),
    ],
)
def test_same_words(one: str, other: str, same: bool) -> None:
    assert (same_words(one) == same_words(other)) == same
