from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from alphita.errors import InputError, UsageError
from alphita.terminology.loaders import obo, products
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.training.products import attribute_data
from alphita_lab.training.products.attribute_data import (
    NOT_THERE,
    Products,
    ProductTable,
    Questions,
    Related,
    questions,
    read_products,
    values_of,
)
from tests.reference.attribute_prediction import realistic_rank
from tests.tables import loaded, terminology_of

ROWS = [
    ("1", "Cold Granules", "Indication", "headache|fever|Nasal-congestion"),
    ("2", "cold granules", "Indication", "runny nose|fever"),
    ("3", "Stomach Tablets", "Indication", "stomach ache|nausea"),
    ("3", "Stomach Tablets", "dosage form", "tablet"),
    ("1", "Cold Granules", "dosage form", "granules|cold granules"),
    ("4", "Fever Syrup", "Indication", "fever|headache"),
    ("4", "Fever Syrup", "dosage form", "syrup"),
]


def imported(folder: Path, rows=ROWS) -> Terminology:
    lines = ["id\ttitle\tattribute_name\tattribute_values", *("\t".join(row) for row in rows)]
    (folder / "x.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return loaded(products, [folder / "x.tsv"], folder / "x.terminology")


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return imported(tmp_path_factory.mktemp("products"))


def said(table: ProductTable, triples: np.ndarray | None = None) -> set[tuple[str, str, str]]:
    rows = table.triples if triples is None else triples
    return {(table.strings[t], table.names[n], table.strings[v]) for t, n, v in rows.tolist()}


def trained(data: Products) -> np.ndarray:
    pairs = np.repeat(data.pairs, np.diff(data.offsets), axis=0)
    return np.column_stack([pairs, data.values])


# --- reading -------------------------------------------------------------------------------------------------------


def test_a_terminology_reads_as_products(terminology: Terminology) -> None:
    table = read_products(terminology)
    assert table.labels == ["dosage_form", "indication"]
    assert table.names == ["dosage form", "indication"]
    expected = {
        (clean(title), clean(name), clean(value))
        for _, title, name, values in ROWS
        for value in values.split("|")
        if clean(value) != clean(title)
    }
    assert said(table) == expected
    # "fever" of two products called cold granules; "cold granules" as a value of cold granules.
    assert table.counts == {"unnamed": 0, "value_is_title": 1, "repeated": 1}
    assert [clean(string) for string in table.written] == table.strings
    assert "Nasal-congestion" in table.written
    assert not table.held_strings.any()
    assert len(table.held_pairs) == 0


def test_names_are_those_in_the_languages(terminology: Terminology, tmp_path: Path) -> None:
    rows = [
        ("P:1", "Ear drops", "en"),
        ("P:1", "Gocce auricolari", "it"),
        ("P:2", "Cough syrup", "en"),
        ("V:1", "Earache", "en"),
        ("V:1", "Otalgia", "it-CH"),
        ("V:2", "Cough", "en"),
        ("V:2", "Tosse", "it"),
    ]
    triples = [("P:1", "use", "V:1"), ("P:1", "use", "V:2"), ("P:2", "use", "V:2")]
    terms = [(*row, row[2] == "en") for row in rows]
    spoken = terminology_of(terms, tmp_path / "x.terminology", relations=triples)
    table = read_products(spoken, languages=["it"])
    assert said(table) == {("gocce auricolari", "use", "otalgia"), ("gocce auricolari", "use", "tosse")}
    assert table.counts["unnamed"] == 1
    assert "left out: 1 triples whose title or value has no name" in "\n".join(Products(table).lines())
    for languages in ((), ["en"], ["en", "it"]):
        assert said(read_products(spoken, languages=languages)) == {
            ("ear drops", "use", "earache"),
            ("ear drops", "use", "cough"),
            ("cough syrup", "use", "cough"),
        }
    with pytest.raises(InputError, match=r"no relation joins two concepts with names in it, .* or languages"):
        read_products(terminology, languages=["it"])


def test_an_unknown_attribute_is_named_with_a_near_one(terminology: Terminology) -> None:
    with pytest.raises(UsageError, match="unknown attribute 'indicaton'; did you mean 'indication'"):
        read_products(terminology, attributes="dosage_form,indicaton")


def ontology(folder: Path, *concepts: str) -> Terminology:
    """The lines of concept number n, from 1 on, with ", " between them."""
    stanzas = [f"[Term]\nid: T:{n}\n" + lines.replace(", ", "\n") for n, lines in enumerate(concepts, 1)]
    (folder / "x.obo").write_text("\n\n".join(["format-version: 1.2", *stanzas]) + "\n")
    return loaded(obo, [folder / "x.obo"], folder / "x.terminology")


def test_unnamed_and_retired_concepts_are_set_aside(tmp_path: Path) -> None:
    first, old = "name: heart pain, is_a: T:2, relationship: caused_by T:3", "name: old cause, is_obsolete: true"
    terminology = ontology(tmp_path, first, "name: pain", old, "is_a: T:2")
    table = read_products(terminology)
    assert said(table) == {("heart pain", "is a", "pain")}
    assert table.counts["unnamed"] == terminology.n_relations - 1 > 0


def test_what_a_split_holds_out_never_trains(terminology: Terminology) -> None:
    ids = {clean(terminology.concept(row).name): terminology.concept_id(row) for row in range(terminology.n_concepts)}
    split = Split(
        ["Runny nose"],
        [ids["runny nose"]],
        ["test"],
        triples=[(ids["fever syrup"], "indication", ids["fever"]), ("X:1", "indication", ids["fever"])],
    )
    table = read_products(terminology, split=split)
    assert said(table) == said(read_products(terminology))
    assert [table.strings[row] for row in np.flatnonzero(table.held_strings)] == ["runny nose"]
    assert {tuple(table.strings[end] for end in pair) for pair in table.held_pairs.tolist()} == {
        ("fever syrup", "fever")
    }
    data = Products(table)
    gone = {("cold granules", "indication", "runny nose"), ("fever syrup", "indication", "fever")}
    assert said(table, trained(data)) == said(table) - gone
    assert (data.counts["held_out_strings"], data.counts["held_out_triples"]) == (1, 1)
    assert data.counts["training"] == len(said(table)) - 2
    syrup = next(
        number
        for number, (title, name) in enumerate(data.pairs.tolist())
        if (table.strings[title], table.names[name]) == ("fever syrup", "indication")
    )
    seen = set()
    for seed in range(50):
        drawn = data.draw(np.array([syrup]), most=9, negatives=9, random=np.random.default_rng(seed))
        seen |= {table.strings[value] for value in drawn.value[~drawn.positive].tolist()}
    assert seen == {"nasal congestion", "stomach ache", "nausea"}
    assert "1 with a string and 1 with a triple" in "\n".join(data.lines())


def test_a_held_out_triple_of_another_relation_is_no_negative_either(tmp_path: Path) -> None:
    """T:1 and T:4 are joined by is_a only, which is held out; as an attribute only caused_by is named."""
    causes = ("name: a, is_a: T:4, relationship: caused_by T:3",)
    causes += ("name: b, relationship: caused_by T:4, relationship: caused_by T:5",)
    terminology = ontology(tmp_path, *causes, "name: c", "name: d", "name: e")
    split = Split([], [], [], triples=[("T:1", "is_a", "T:4")])
    for given_split, expected in ((None, {"d", "e"}), (split, {"e"})):
        table = read_products(terminology, attributes="caused_by", split=given_split)
        data = Products(table)
        drawn = data.draw(np.array([0]), most=9, negatives=9, random=np.random.default_rng(0))
        assert {table.strings[value] for value in drawn.value[~drawn.positive].tolist()} == expected


def test_nothing_left_to_train_on(terminology: Terminology) -> None:
    table = read_products(terminology, split=Split(["Tablet"], ["VALUE:1"], ["test"]), attributes="dosage_form")
    only = replace(table, held_strings=np.ones(len(table.strings), bool))
    with pytest.raises(InputError, match="left to train on"):
        Products(only)


# --- what trains and what is held out ------------------------------------------------------------------------------


def table_of(triples: np.ndarray, *, hidden: np.ndarray | None = None, pairs: np.ndarray | None = None) -> ProductTable:
    """A table of numbers: strings "0", "1", ...; a split hides some of them and triples between some pairs."""
    names = [str(number) for number in range(int(triples[:, [0, 2]].max()) + 1)]
    labels = [f"a{number}" for number in range(int(triples[:, 1].max()) + 1)]
    return ProductTable(
        names,
        names,
        labels,
        labels,
        triples.astype(np.int64),
        np.zeros(len(names), bool) if hidden is None else hidden[: len(names)],
        np.empty((0, 2), np.int64) if pairs is None else pairs.astype(np.int64),
        {"unnamed": 0, "value_is_title": 0, "repeated": 0},
    )


@st.composite
def tables(draw: st.DrawFn) -> ProductTable:
    """Random triples over few strings, which are titles and values both; some are held out by a split."""
    strings, labels, count = draw(st.integers(3, 12)), draw(st.integers(1, 3)), draw(st.integers(4, 60))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    triples = np.stack([rng.integers(0, most, count) for most in (strings, labels, strings)], axis=1)
    triples = np.unique(triples[triples[:, 0] != triples[:, 2]], axis=0)
    assume(len(triples))
    held = triples[rng.random(len(triples)) < 0.1][:, [0, 2]]
    return table_of(triples, hidden=rng.random(strings) < 0.1, pairs=held)


def opened(table: ProductTable, dev: int, seed: int) -> Products:
    try:
        return Products(table, dev=dev, seed=seed)
    except InputError:
        assume(False)
        raise


def joined(table: ProductTable) -> set[frozenset[int]]:
    pairs = [*table.triples[:, [0, 2]].tolist(), *table.held_pairs.tolist()]
    return {frozenset(pair) for pair in pairs}


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(0, 8), st.integers(0, 100))
def test_what_trains_is_all_but_what_is_held_out(table: ProductTable, dev: int, seed: int) -> None:
    data = opened(table, dev, seed)
    asked = {frozenset((title, value)) for title, _, value in data.dev.triples.tolist()}
    held = {frozenset(pair) for pair in table.held_pairs.tolist()}
    usable = {
        (t, n, v)
        for t, n, v in table.triples.tolist()
        if not table.held_strings[[t, v]].any() and frozenset((t, v)) not in held
    }
    training = {tuple(row) for row in trained(data).tolist()}
    assert training == {row for row in usable if frozenset((row[0], row[2])) not in asked}
    assert {tuple(row) for row in data.dev.triples.tolist()} <= usable
    assert len(data.dev) <= dev
    assert sum(data.counts[name] for name in ("held_out_strings", "held_out_triples", "dev_related", "training")) + len(
        data.dev
    ) == len(table.triples)
    for attribute in range(len(table.labels)):
        values, counts = data.frequency(attribute)
        plain = [v for _, n, v in training if n == attribute]
        assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {v: plain.count(v) for v in plain}
    list(data.lines())


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(0, 8), st.integers(0, 100))
def test_candidates_hold_the_true_value_and_no_other_true_one(table: ProductTable, dev: int, seed: int) -> None:
    data = opened(table, dev, seed)
    known = [values for values, _ in values_of(table.triples, len(table.labels))]
    held = questions(table.triples, known, Related(table), seed=seed, candidates=4)
    related = joined(table)
    for found, columns in ((data.dev, attribute_data.CANDIDATES), (held, 4)):
        assert found.candidates.shape == (len(found.triples), columns)
        for (title, attribute, value), row in zip(found.triples.tolist(), found.candidates.tolist(), strict=True):
            others = [one for one in row[1:] if one != NOT_THERE]
            assert row == [value, *others, *[NOT_THERE] * (columns - 1 - len(others))]
            allowed = {
                one for one in known[attribute].tolist() if one != title and frozenset((title, one)) not in related
            }
            assert set(others) <= allowed
            assert len(set(others)) == len(others)
            if found is held:
                assert len(others) == min(3, len(allowed))
            else:
                assert others
    assert held.short == sum(NOT_THERE in row for row in held.candidates.tolist())


def test_a_catalogue_of_one_value_an_attribute_has_dev_triples() -> None:
    triples = [(title, 0, 100 + title % 5) for title in range(50)] + [
        (title, 1, 110 + title % 7) for title in range(50)
    ]
    assert len(Products(table_of(np.array(triples)), dev=20).dev) == 20


# --- draws ---------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(0, 4), st.integers(0, 100), st.integers(1, 4), st.integers(1, 3))
def test_draws_are_values_and_unrelated_negatives(
    table: ProductTable, dev: int, seed: int, most: int, negatives: int
) -> None:
    data = opened(table, dev, seed)
    related, training = joined(table), trained(data)
    pairs = np.random.default_rng(seed).integers(0, len(data.pairs), 5)
    drawn = data.draw(pairs, most=most, negatives=negatives, random=np.random.default_rng(seed))
    again = data.draw(pairs, most=most, negatives=negatives, random=np.random.default_rng(seed))
    assert np.array_equal(drawn.value, again.value)
    missing = 0
    for place, number in enumerate(pairs.tolist()):
        title, attribute = data.pairs[number].tolist()
        own = drawn.value[(drawn.pair == place) & drawn.positive].tolist()
        others = drawn.value[(drawn.pair == place) & ~drawn.positive].tolist()
        values = {v for t, n, v in training.tolist() if (t, n) == (title, attribute)}
        assert set(own) <= values
        assert len(set(own)) == len(own) == min(most, len(values))
        allowed = {
            v for _, n, v in training.tolist() if n == attribute and v != title and frozenset((title, v)) not in related
        }
        assert set(others) <= allowed
        assert len(set(others)) == len(others) == min(negatives * len(own), len(allowed))
        missing += negatives * len(own) - len(others)
    assert drawn.missing == missing


def one_attribute(frequency: list[int]) -> ProductTable:
    """Title 0 has a value that nobody else has; value i of the others is of frequency[i] titles."""
    triples, title = [(0, 0, 1)], 2 + len(frequency)
    for value, count in enumerate(frequency):
        for _ in range(count):
            triples.append((title, 0, 2 + value))
            title += 1
    return table_of(np.array(triples))


@pytest.mark.parametrize("by", ["uniform", "frequency"])
@pytest.mark.parametrize("rounds", [0, 4])
def test_negatives_come_alike_or_by_frequency(monkeypatch: pytest.MonkeyPatch, rounds: int, by: str) -> None:
    """The first of two distinct draws by weight, and both as a set, as counted by hand; by either way of drawing."""
    monkeypatch.setattr(attribute_data, "ROUNDS", rounds)
    frequency = [12, 5, 2, 1]
    data = Products(one_attribute(frequency), negatives_by=by)
    random = np.random.default_rng(0)
    draws = 4000
    firsts, seen = np.zeros(4), np.zeros(4)
    for _ in range(draws):
        drawn = data.draw(np.array([0]), most=1, negatives=2, random=random)
        values = drawn.value[~drawn.positive] - 2
        assert len(values) == 2
        firsts[values[0]] += 1
        seen[values] += 1
    weights = np.array(frequency) / sum(frequency) if by == "frequency" else np.full(4, 1 / 4)
    assert stats.chisquare(firsts, weights * draws).pvalue > 1e-3
    second = np.array([sum(weights[a] * weights[b] / (1 - weights[a]) for a in range(4) if a != b) for b in range(4)])
    expected = (weights + second) * draws
    assert np.abs(seen - expected).max() < 4 * np.sqrt(draws) / 2


def test_negatives_of_any_attribute_come_with_repeats_but_are_none_of_those_shown() -> None:
    """Title 0 has the values 1 and 2 of attribute 0, title 3 those of attribute 1: any but the shown may come."""
    data = Products(table_of(np.array([(0, 0, 1), (0, 0, 2), (3, 1, 4), (3, 1, 1)])), negatives_by="any")
    drawn = data.draw(np.array([0, 1]), most=1, negatives=40, random=np.random.default_rng(0))
    for pair, own in ((0, {1, 2}), (1, {1, 4})):
        shown = set(drawn.value[(drawn.pair == pair) & drawn.positive].tolist())
        others = drawn.value[(drawn.pair == pair) & ~drawn.positive].tolist()
        assert len(others) == 40
        assert shown <= own
        assert set(others) == {1, 2, 4} - shown
    assert drawn.missing == 0


# --- ranks ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 3))
def test_ranks_are_realistic_and_pass_over_what_is_not_there(distances: list[int], absent: int) -> None:
    candidates = np.array([[*range(len(distances)), *[NOT_THERE] * absent]])
    row = np.array([[*distances, *[0] * absent]], np.float32)
    asked = Questions(np.zeros((1, 3), np.int64), candidates)
    assert asked.ranks(row).tolist() == [realistic_rank([float(one) for one in distances])]
