from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from alphita.errors import InputError, UsageError
from alphita.search import catalogue
from alphita.search.catalogue import Owned
from alphita.search.product_search import ProductSearch
from alphita.search.store import build
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from tests.doubles import HashEncoder
from tests.search.conftest import ROWS, products_of
from tests.tables import terminology_of


def names(owned: Owned) -> list[list[str]]:
    strings = owned.strings.to_pylist()
    ends = owned.offsets.tolist()
    return [[strings[row] for row in owned.rows[a:b]] for a, b in itertools.pairwise(ends)]


def said(found: catalogue.Catalogue) -> set[tuple[str, str, str]]:
    return {(found.titles[p], found.attributes[a], found.values[v]) for p, a, v in found.triples.tolist()}


def test_what_a_table_of_products_holds(terminology: Terminology):
    found = catalogue.collect(terminology)
    expected = {(title, name, value) for title, name, cell in ROWS for value in cell.split("|")}
    assert said(found) == expected
    assert found.attributes == ["indication", "main_ingredient", "route"]
    assert found.product_ids == sorted(found.product_ids)
    assert len(found.titles) == 5
    assert names(found.value_names) == [[value.lower()] for value in found.values]
    assert found.triples.tolist() == sorted(found.triples.tolist())
    assert (found.held_out, found.unnamed, found.unnamed_products) == (0, 0, 0)
    some = catalogue.collect(terminology, attributes=["main_ingredient"])
    assert said(some) == {("Motiral capsules 5 mg", "main_ingredient", "motiride")}
    # The others are products too, and can be found by their titles.
    assert some.titles == found.titles


def test_a_product_without_any_value_can_be_found(tmp_path: Path):
    rows = [
        ("Aspirin 100 mg", "ingredient", "salicylic acid"),
        ("Otocalm drops", "ingredient", "_"),
        ("Otocalm spray", "ingredient", "..."),
    ]
    found = catalogue.collect(products_of(rows, tmp_path / "t.terminology", empty="_"))
    assert sorted(found.titles) == ["Aspirin 100 mg", "Otocalm drops", "Otocalm spray"]
    assert said(found) == {("Aspirin 100 mg", "ingredient", "salicylic acid")}
    assert sorted(names(found.title_names)) == [["aspirin 100 mg"], ["otocalm drops"], ["otocalm spray"]]
    build(products_of(rows, tmp_path / "u.terminology", empty="_"), HashEncoder(), tmp_path / "s.search")
    search = ProductSearch.load(tmp_path / "s.search", encoder=HashEncoder())
    for title in found.titles:
        assert search.rank([title], top=1)[0][0].title == title


@pytest.fixture(scope="module")
def ontology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    text = """D:1|Red fever|exact D:1|Rubra|exact D:1|Fever|broad D:2|Blue fever|exact D:3|Gone fever|exact
        S:1|Hot skin|exact S:1|Skin heat|exact S:2|Cold feet|exact S:3|Tradotto|machine D:1|Febbre rossa|it
        S:1|Pelle calda|it"""
    rows, seen = [], set()
    for concept, string, kind in re.findall(r"(\w:\d)\|([^|]+)\|(\w+)", text):
        scope, status = ("broad" if kind == "broad" else "exact"), ("machine" if kind == "machine" else "official")
        language = "it" if kind in ("it", "machine") else "en"
        rows.append((concept, string, language, concept not in seen, scope, status))
        seen.add(concept)
    triples = [
        ("D:1", "has_symptom", "S:1"),
        ("D:1", "is_a", "D:2"),
        ("D:2", "has_symptom", "S:2"),
        ("D:3", "has_symptom", "S:2"),
        ("D:2", "has_symptom", "S:3"),
        ("S:2", "seen_with", "D:1"),
        ("D:2", "seen_with", "D:2"),
    ]
    path = tmp_path_factory.mktemp("ontology") / "o.terminology"
    return terminology_of(rows, path, retired=["D:3"], relations=triples)


def test_any_terminology_has_products_but_parents_retired_and_nameless_ones_are_none(ontology: Terminology):
    found = catalogue.collect(ontology)
    assert said(found) == {
        ("Red fever", "has_symptom", "Hot skin"),
        ("Blue fever", "has_symptom", "Cold feet"),
        ("Cold feet", "seen_with", "Red fever"),
    }
    by_title = dict(zip(found.titles, names(found.title_names), strict=True))
    # Synonyms are names too, the preferred one first; broad ones are not.
    assert by_title["Red fever"] == ["red fever", "rubra", "febbre rossa"]
    with_parents = catalogue.collect(ontology, attributes=["is_a"])
    assert said(with_parents) == {("Red fever", "is_a", "Blue fever")}


def test_what_a_split_holds_out_is_left_out_in_either_direction(ontology: Terminology):
    split = Split(["Rubra"], ["D:1"], ["test"], triples=[("D:1", "has_symptom", "S:1"), ("D:1", "seen_with", "S:2")])
    found = catalogue.collect(ontology, split=split)
    assert said(found) == {("Blue fever", "has_symptom", "Cold feet")}
    assert found.held_out == 2
    # Products stay that have lost all they had.
    assert dict(zip(found.titles, names(found.title_names), strict=True))["Red fever"] == ["red fever", "febbre rossa"]
    assert "Cold feet" in found.titles


def test_names_in_some_languages(ontology: Terminology):
    found = catalogue.collect(ontology, languages=["it"])
    # What has no name in it is no product, and no value.
    assert said(found) == {("Febbre rossa", "has_symptom", "Pelle calda")}
    assert names(found.title_names) == [["febbre rossa"]]
    # Cold feet and its symptom of Blue fever, the machine's translation, and what the retired one has; of the products
    # Red fever alone is left.
    assert (found.unnamed, found.unnamed_products) == (4, 3)
    every = catalogue.collect(ontology, languages=["it", "en"])
    assert said(every) == said(catalogue.collect(ontology))
    assert (every.unnamed, every.unnamed_products) == (2, 1)
    with pytest.raises(UsageError, match=r"unknown language 'fr'; choose from \['en', 'it'\]"):
        catalogue.collect(ontology, languages=["fr"])
    with pytest.raises(InputError, match=r"of 1 triples of attributes none is between two .* in it; take other"):
        catalogue.collect(ontology, attributes=["seen_with"], languages=["it"])


def test_texts_are_those_of_training(terminology: Terminology):
    pytest.importorskip("torch")
    from alphita_lab.training.products.attribute_data import read_products
    from alphita_lab.training.products.attribute_steps import joined

    table = read_products(terminology)
    trained = {joined(table.strings[title], table.names[name]) for title, name, _ in table.triples.tolist()}
    found = catalogue.collect(terminology)
    assert trained == {
        catalogue.title_with_attribute(clean(found.titles[product]), found.attributes[attribute])
        for product, attribute, _ in found.triples.tolist()
    }


def test_wrong_terminologies(terminology: Terminology, tmp_path):
    with pytest.raises(UsageError, match="unknown attribute 'indicatoin'; did you mean 'indication'"):
        catalogue.collect(terminology, attributes=["indicatoin"])
    lone = terminology_of([("A:1", "a", "en", True)], tmp_path / "a.terminology")
    with pytest.raises(InputError, match=r"no concept of this terminology has an attribute.*import products"):
        catalogue.collect(lone)
