"""Concepts as wholes: middles, definitions and neighbours against naive loops, and nothing hidden in any of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.answer.candidates import CandidateTable
from alphita.answer.features import DEFINITION_CHARACTERS, Definitions, Meaning, encode_definitions, sums_of
from alphita.index.neighbours import unit
from alphita.index.store import Index, build
from tests.answer.rich import DEFINITIONS, RichTerminology
from tests.doubles import HashEncoder, small_terminology
from tests.reference import ranking as reference

DIM, CONCEPTS, STRINGS, REQUESTS = 5, 7, 12, 4


class World:
    """An index of 12 strings that name 6 of 7 concepts, one to three each, at times one twice; a graph with circles."""

    dim = DIM

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        offsets = np.concatenate([[0], np.cumsum(random.integers(1, 4, STRINGS))]).astype(np.int64)
        parents = [np.flatnonzero(random.random(CONCEPTS) < 0.3) for _ in range(CONCEPTS)]
        self.segment = SimpleNamespace(
            offsets=offsets,
            term_concept=random.integers(0, CONCEPTS - 1, offsets[-1]).astype(np.int32),
            concepts=range(CONCEPTS),
            standing=random.integers(0, 3, offsets[-1]),
            parents=np.concatenate(parents).astype(np.int32),
            parent_offsets=np.concatenate([[0], np.cumsum([len(some) for some in parents])]),
        )
        self.vectors = unit(random.normal(size=(STRINGS, DIM)).astype(np.float32))
        self.queries = unit(random.normal(size=(REQUESTS, DIM)).astype(np.float32))
        self.random = random

    def __len__(self) -> int:
        return STRINGS

    def strings(self, concept: int) -> dict[int, list[float]]:
        segment = self.segment
        return {
            string: self.vectors[string].astype(np.float64).tolist()
            for string in range(STRINGS)
            if concept in segment.term_concept[segment.offsets[string] : segment.offsets[string + 1]]
        }

    def first(self, concept: int) -> int | None:
        """Return the string of the concept's first term of the best standing."""
        segment, best = self.segment, None
        for string in range(STRINGS):
            for term in range(segment.offsets[string], segment.offsets[string + 1]):
                if segment.term_concept[term] == concept and (best is None or segment.standing[term] < best[0]):
                    best = segment.standing[term], string
        return None if best is None else best[1]

    def parents(self, concept: int) -> set[int]:
        return set(
            self.segment.parents[
                self.segment.parent_offsets[concept] : self.segment.parent_offsets[concept + 1]
            ].tolist()
        )

    def table(self) -> CandidateTable:
        chosen = [np.sort(self.random.choice(CONCEPTS, self.random.integers(0, 6), False)) for _ in range(REQUESTS)]
        return table(chosen, self.random.uniform(-1, 1, sum(map(len, chosen))))


def table(concepts, cosines) -> CandidateTable:
    """Return a table of the candidates of each request; what is not looked at is 0."""
    request = np.repeat(np.arange(len(concepts)), [len(some) for some in concepts])
    concept = np.concatenate([np.asarray(some, np.int64) for some in concepts])
    none, cosine = np.zeros(len(concept), np.int64), np.asarray(cosines, np.float32)
    offsets = np.searchsorted(request, np.arange(len(concepts) + 1))
    some = (offsets, request, concept, none, request, none, none, none.astype(np.uint8))
    return CandidateTable(*some, cosine, cosine, cosine, cosine, none, none)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000))
def test_against_the_naive_loops(seed):
    world = World(seed)
    found = world.table()
    hidden = world.random.integers(-1, STRINGS, REQUESTS)
    features = Meaning(world, None).features(found, world.queries, hidden)
    for row, (request, concept) in enumerate(zip(found.request.tolist(), found.concept.tolist(), strict=True)):
        query = world.queries[request].astype(np.float64).tolist()
        expected = reference.middle(query, world.strings(concept), int(hidden[request]))
        assert features["middle"][row] == pytest.approx(expected, abs=1e-4)
        if (first := world.first(concept)) is not None:
            near = reference.cosine(query, world.vectors[first].astype(np.float64).tolist())
            assert features["preferred_cosine"][row] == pytest.approx(near, abs=2e-3)
    for request in range(REQUESTS):
        rows = range(int(found.offsets[request]), int(found.offsets[request + 1]))
        cosines = {int(found.concept[row]): float(found.best_cosine[row]) for row in rows}
        above, below = reference.neighbours_share(cosines, {one: world.parents(one) for one in cosines})
        for row in rows:
            assert features["parents"][row] == pytest.approx(above[int(found.concept[row])], abs=1e-5)
            assert features["children"][row] == pytest.approx(below[int(found.concept[row])], abs=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000), st.integers(1, 5))
def test_blocks_change_nothing(seed, at_once):
    world = World(seed)
    found, hidden = world.table(), world.random.integers(-1, STRINGS, REQUESTS)
    with pytest.MonkeyPatch.context() as patch:
        whole, sums = Meaning(world, None).features(found, world.queries, hidden), sums_of(world)
        patch.setattr("alphita.answer.features.ROWS_AT_ONCE", at_once)
        parts, again = Meaning(world, None).features(found, world.queries, hidden), sums_of(world)
    for name, values in whole.items():
        assert np.allclose(values, parts[name], atol=1e-6), name
    assert np.allclose(sums, again, atol=1e-6)


def test_a_concept_whose_only_string_is_hidden_has_no_middle(tmp_path):
    index = build(small_terminology(), HashEncoder(), tmp_path / "x.index")
    ids = index.segment.concepts.column("id").to_pylist()
    only, other = ids.index("T:8"), ids.index("T:7")
    hidden = index.rows(["diabetes mellitus type 1"])
    vectors = np.array(index.vectors[hidden])
    open_ = Meaning(index, None).features(table([[only, other]], [1, 0.9]), vectors, None)["middle"]
    assert open_[0] == pytest.approx(1, abs=1e-6)
    shut = Meaning(index, None).features(table([[only, other]], [1, 0.9]), vectors, hidden)["middle"]
    assert shut[0] == 0
    # What is hidden is not the other's, which keeps its own middle.
    assert shut[1] == open_[1] > 0.3


def test_without_vectors_or_candidates_all_is_zero():
    world = World(3)
    found = world.table()
    for features in (
        Meaning(world, None).features(found, None, None),
        Meaning(world, None).features(table([[], []], []), world.queries, None),
    ):
        assert set(features) == {*("middle", "preferred_cosine", "definition", "has_definition", "parents", "children")}
        assert all(not values.any() for values in features.values())


def test_an_index_without_a_graph_has_no_neighbours():
    world = World(3)
    world.segment.parents = world.segment.parent_offsets = None
    features = Meaning(world, None).features(world.table(), world.queries, None)
    assert not features["parents"].any()
    assert not features["children"].any()
    assert features["middle"].any()


class TestDefinitions:
    @pytest.fixture
    def index(self, tmp_path) -> Index:
        return build(RichTerminology(), HashEncoder(), tmp_path / "rich.index")

    def test_are_encoded_by_their_first_words(self, index):
        encoder = HashEncoder()
        found = encode_definitions(index, lambda: encoder)
        ids = index.segment.concepts.column("id").to_pylist()
        assert [ids[row] for row in np.flatnonzero(found.row >= 0)] == ["AX:2", "AX:4"]
        assert len(DEFINITIONS["AX:2"]) > DEFINITION_CHARACTERS > len(DEFINITIONS["AX:4"])
        assert encoder.encoded == [DEFINITIONS["AX:2"][:DEFINITION_CHARACTERS], DEFINITIONS["AX:4"]]
        assert found.vectors.dtype == np.float16

    def test_are_compared_with_the_mention(self, index):
        found = encode_definitions(index, HashEncoder)
        ids = index.segment.concepts.column("id").to_pylist()
        concepts = [ids.index(one) for one in ("AX:1", "AX:2", "AX:4")]
        vectors = HashEncoder().encode(["a body that is warm", "felt in the head"])
        features = Meaning(index, found).features(table([concepts, concepts], [0.5] * 6), vectors, None)
        assert features["has_definition"].tolist() == [False, True, True] * 2
        texts = [DEFINITIONS["AX:2"][:DEFINITION_CHARACTERS], DEFINITIONS["AX:4"]]
        for request in range(2):
            expected = [reference.cosine(vectors[request], one) for one in HashEncoder().encode(texts)]
            assert features["definition"][3 * request : 3 * request + 3] == pytest.approx([0, *expected], abs=2e-3)

    def test_without_any_no_encoder_is_needed(self, tmp_path):
        index = build(small_terminology(), HashEncoder(), tmp_path / "small.index")

        def no_encoder():
            raise AssertionError("the encoder was asked for")

        found = encode_definitions(index, no_encoder)
        assert found.vectors.shape == (0, index.dim)
        assert (found.row == -1).all()
        features = Meaning(index, Definitions(*found)).features(
            table([[0]], [1]), np.eye(1, 64, dtype=np.float32), None
        )
        assert not features["has_definition"].any()
