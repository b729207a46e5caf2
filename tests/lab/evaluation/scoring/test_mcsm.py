from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from alphita.errors import UsageError
from alphita.index.neighbours import unit
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.benchmarks import mcsm as benchmark
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.evaluation.systems._lexical import TfidfSystem
from tests.doubles import HashEncoder
from tests.lab.evaluation.hash_systems import HashedConcepts, Hashes
from tests.lab.evaluation.small_terminologies import imported, stanza
from tests.reference.mcsm import mcsm_of_concepts

BRANCHES = {"heart": "Finding", "skin": "Neoplastic Process", "liver": "Local Type, of liver"}
NAMES = ("pain of the {}", "swelling of the {}", "bleeding of the {}")


def hashed(strings) -> np.ndarray:
    """Vectors of strings, shaken a little so that no two cosines are equal."""
    shaken = [np.random.default_rng(list(string.encode())).standard_normal(32) / 100 for string in strings]
    return (HashEncoder(dim=32).encode(strings) + np.array(shaken)).astype(np.float32)


class Vectors(Hashes):
    """A system with vectors of strings; it is asked for nothing else."""

    def neighbours(self, *_):
        raise AssertionError("vectors are asked for")

    similarity = neighbours

    def encode(self, strings):
        vectors = hashed(strings)
        vectors[[self.unknown in string for string in strings]] = np.nan
        return vectors


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    """Three branches of four concepts; one concept lies in two, one in none; two names each; one is obsolete."""
    lines, number = stanza("T:0", "all"), 100
    for place, (site, name) in enumerate(BRANCHES.items(), 1):
        lines += stanza(f"T:{place}", name, "is_a: T:0")
        for pattern in NAMES:
            synonym = f'synonym: "{site} {pattern.split()[0]}" EXACT []'
            parents = [place, 2] if number == 100 else [place]
            lines += stanza(f"T:{number}", pattern.format(site), synonym, *(f"is_a: T:{parent}" for parent in parents))
            number += 1
    lines += stanza("T:200", "pain") + stanza("T:201", "ache", "is_obsolete: true")
    return imported(tmp_path_factory.mktemp("mcsm"), lines, semantic_type="T:0")


def load(terminology: Terminology, **options: object) -> tuple[benchmark.Data, benchmark.Options]:
    chosen = benchmark.Options(**options)
    return benchmark.load(Source(terminology=terminology, benchmark="mcsm"), chosen), chosen


# --- the measure -----------------------------------------------------------------------------------------------------


def test_greatest_score_is_that_of_the_papers() -> None:
    assert benchmark.discounts(40).sum() == pytest.approx(11.09, abs=0.005)


@given(st.data())
def test_as_the_equation_says(data) -> None:
    n, d = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 3))
    # Whole numbers, so that both ways of adding up see the same ties, and lengths whose square roots are exact.
    axes = data.draw(st.lists(st.integers(0, d - 1), min_size=n, max_size=n))
    vectors = np.zeros((n, d), np.float32)
    vectors[range(n), axes] = data.draw(st.lists(st.sampled_from([-2, -1, 1, 3]), min_size=n, max_size=n))
    types = data.draw(hnp.arrays(bool, (n, 3)))
    k = data.draw(st.integers(1, 15))
    found = benchmark.mcsm(vectors, types, k)
    sets = [{"abc"[column] for column in np.flatnonzero(row)} for row in types]
    for column, kind in enumerate("abc"):
        wanted = mcsm_of_concepts(vectors.tolist(), sets, kind, k)
        assert sorted(wanted) == np.flatnonzero(~np.isnan(found[:, column])).tolist()
        np.testing.assert_allclose(found[sorted(wanted), column], [wanted[one] for one in sorted(wanted)])


@pytest.mark.parametrize(("at_once", "spare"), [(7, 0), (7, 1), (4096, 8)])
def test_as_the_equation_says_with_real_numbers_in_blocks(at_once, spare, monkeypatch) -> None:
    monkeypatch.setattr(benchmark, "CONCEPTS_AT_ONCE", at_once)
    monkeypatch.setattr(benchmark, "SPARE", spare)
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((90, 8)).astype(np.float32)
    types = rng.random((90, 2)) < 0.4
    done: list[int] = []
    found = benchmark.mcsm(vectors, types, 10, advance=done.append)
    assert sum(done) == types.any(axis=1).sum()
    sets = [{"ab"[column] for column in np.flatnonzero(row)} for row in types]
    for column, kind in enumerate("ab"):
        wanted = mcsm_of_concepts(vectors.tolist(), sets, kind, 10)
        np.testing.assert_allclose(found[list(wanted), column], list(wanted.values()))


def test_a_concept_is_never_its_own_neighbour() -> None:
    # The last of three equal vectors: two others come before it among its neighbours.
    vectors = np.ones((3, 2), np.float32)
    types = np.array([[False], [False], [True]])
    assert benchmark.mcsm(vectors, types, 1)[2, 0] == 0
    # Of equal ones the lower is nearer, also where there are more of them than are searched for.
    vectors, types = np.ones((90, 2), np.float32), np.arange(90)[:, None] < 3
    np.testing.assert_allclose(benchmark.mcsm(vectors, types, 5)[:3, 0], benchmark.discounts(2).sum())
    near = np.array([[5, 7, 9], [1, 2, 3]])
    np.testing.assert_array_equal(benchmark._without_self(near, np.array([7, 4])), [[5, 9], [1, 2]])


def test_places_without_a_neighbour_count_nothing() -> None:
    near = np.array([[1, -1, -1]])
    assert benchmark.scores(near, np.array([True]), np.array([True, True, True]))[0] == 1.0


# --- the benchmark ---------------------------------------------------------------------------------------------------


def test_the_six_types_are_the_default_where_there_is_one(terminology) -> None:
    data, options = load(terminology, k=2)
    assert data.type_names == ["Neoplastic Process", "Finding"]
    assert len(data.ids) == 14
    result = benchmark.evaluate(data, Vectors(), options)
    assert set(result.rows["type"]) == set(data.type_names)
    assert result.rows.filter(concept="T:100")["type"].to_list() == ["Neoplastic Process", "Finding"]
    assert result.notes["concepts of several scored types"] == 1
    assert "T:201" not in data.ids
    small = "types of fewer than 41 concepts, which cannot reach it"
    assert "Finding" in benchmark.evaluate(*load(terminology)[:1], Vectors(), benchmark.Options()).notes[small]
    # Of k concepts none has k others.
    assert benchmark._small(data.types, data.type_names, max(data.types.sum(axis=0))) == data.type_names


def test_figures_are_mean_deviation_and_mean_of_types(terminology) -> None:
    data, options = load(terminology, k=3)
    result = benchmark.evaluate(data, Vectors(), options)
    figures = {(one.metric, one.subset): one.value for one in figures_of(result)}
    vectors = Vectors().encode([name.lower() for name in data.names])
    sets = [{data.type_names[column] for column in np.flatnonzero(row)} for row in data.types]
    means = []
    for kind in data.type_names:
        wanted = list(mcsm_of_concepts(vectors.tolist(), sets, kind, 3).values())
        means.append(np.mean(wanted))
        assert figures["MCSM", f"type={kind}"] == pytest.approx(np.mean(wanted))
        assert figures["standard deviation", f"type={kind}"] == pytest.approx(np.std(wanted))
    assert figures["MCSM", benchmark.MEAN_OF_TYPES] == pytest.approx(np.mean(means))


def test_types_by_name_and_code(terminology) -> None:
    data, _ = load(terminology, types="Local Type, of liver; Finding ;Finding")
    assert data.type_names == ["Local Type, of liver", "Finding"]
    assert load(terminology, types="3")[0].type_names == ["Local Type, of liver"]
    with pytest.raises(UsageError, match="Neoplastic Process"):
        load(terminology, types="Neoplastic Proces")
    with pytest.raises(UsageError, match="names no semantic type"):
        load(terminology, types=" ; ")


def test_candidates_of_the_types_only(terminology) -> None:
    data, _ = load(terminology, candidates="types")
    assert len(data.ids) == 8
    assert data.types.any(axis=1).all()


def test_all_names_are_averaged(terminology) -> None:
    data, options = load(terminology, names="all", k=3)
    assert len(data.names) > len(data.ids)
    result = benchmark.evaluate(data, Vectors(), options)
    vectors = Vectors().encode([name.lower() for name in data.names])
    vectors = unit(vectors)
    means = [vectors[start:end].mean(axis=0) for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True)]
    sets = [{data.type_names[column] for column in np.flatnonzero(row)} for row in data.types]
    wanted = mcsm_of_concepts(np.array(means).tolist(), sets, "Finding", 3)
    found = result.rows.filter(type="Finding")
    np.testing.assert_allclose(found["mcsm"], [wanted[data.ids.index(one)] for one in found["concept"]])


def test_a_name_may_be_drawn(terminology) -> None:
    preferred, _ = load(terminology)
    drawn = [load(terminology, seed=seed)[0].names for seed in range(8)]
    assert load(terminology, seed=3)[0].names == drawn[3]
    assert any(names != preferred.names for names in drawn)
    everything = set(load(terminology, names="all")[0].names)
    assert all(set(names) <= everything for names in drawn)


def test_a_system_that_only_ranks(terminology) -> None:
    data, options = load(terminology, k=3)
    result = benchmark.evaluate(data, TfidfSystem(), options)
    assert len(result.rows) == len(benchmark.evaluate(data, Vectors(), options).rows)
    # All others with "skin" in them share most with a name of the skin; only two of those are its own kind.
    assert result.rows["mcsm"].null_count() == 0
    assert result.rows["mcsm"].max() <= benchmark.discounts(3).sum()
    data, options = load(terminology, names="all")
    with pytest.raises(UsageError, match="needs a system that has vectors"):
        benchmark.evaluate(data, TfidfSystem(), options)


def test_a_system_that_only_ranks_agrees_with_its_vectors(terminology) -> None:
    class Ranks(Hashes):
        encode = None

        def neighbours(self, queries, terms, k):
            cosine = unit(hashed(queries)) @ unit(hashed(terms)).T
            rows = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
            return np.take_along_axis(cosine, rows, axis=1), rows

    data, options = load(terminology, k=4)
    by_rank = benchmark.evaluate(data, Ranks(), options).rows
    by_vector = benchmark.evaluate(data, Vectors(), options).rows
    np.testing.assert_allclose(by_rank["mcsm"], by_vector["mcsm"])


def test_concepts_that_a_system_does_not_know_are_left_out_and_counted(terminology) -> None:
    data, options = load(terminology, k=2)
    whole = benchmark.evaluate(data, Vectors(), options)
    result = benchmark.evaluate(data, HashedConcepts("T:101".__eq__), options)
    assert result.rows["concept"].to_list() == whole.rows["concept"].to_list()
    assert result.rows.filter(concept="T:101")["mcsm"].to_list() == [None]
    note = "scored concepts that the system does not know"
    assert result.notes[note] == 1
    assert benchmark.evaluate(data, Vectors(unknown="swelling of the skin"), options).notes[note] == 1
    nobody = benchmark.evaluate(data, HashedConcepts(lambda _: True), options)
    assert {one.value for one in figures_of(nobody)} == {None}


def test_what_is_missing_is_said(terminology, tmp_path) -> None:
    with pytest.raises(UsageError, match="--terminology"):
        benchmark.load(Source(benchmark="mcsm"), benchmark.Options())
    with pytest.raises(UsageError, match="unknown language of the terminology"):
        load(terminology, language="it")
    assert load(terminology, language="en")[0].names == load(terminology)[0].names
    with pytest.raises(UsageError, match="no semantic types"):
        load(imported(tmp_path, stanza("T:1", "a")))
