"""Tables of products."""

from __future__ import annotations

import gzip

import polars as pl
import pytest

from alphita.errors import Rejects, UsageError
from alphita.terminology.loaders import products
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES

FOLDER = FIXTURES / "products"
LONG, WIDE = FOLDER / "products.csv", FOLDER / "wide.tsv"
WIDE_OPTIONS = {"id_column": "code", "title_column": "name", "attributes": "ingredient, company", "empty": "_"}


def triples(terminology: Terminology) -> set[tuple[str, str, str]]:
    """Return (title, attribute, value) by name."""
    names, labels = terminology.concept_names.to_pylist(), terminology.relation_labels
    return {(names[head], labels[label], names[tail]) for head, label, tail in terminology.triples.tolist()}


def test_a_stray_quote_costs_its_own_row(load, write):
    rows = [f"Product {n},weight,{n} g\n" for n in range(500)]
    rows[3] = 'Product 3,"weight,3 g\n'
    terminology, [reject] = load(products, write("p.csv", "title,attribute_name,attribute_values\n" + "".join(rows)))
    assert reject[1] == "5"
    assert len(triples(terminology)) == 499


@pytest.mark.parametrize(("values", "names"), [([0.5, 1.25], {"0.5", "1.25"}), ([2.0, None], {"2"})])
def test_numbers_of_a_parquet_file_are_values(load, tmp_path, values, names):
    path = tmp_path / "p.parquet"
    titles = ["Glove L", "Glove S"]
    frame = pl.DataFrame({"title": titles, "attribute_name": ["weight"] * 2, "attribute_values": values})
    frame.write_parquet(path)
    assert {value for _, _, value in triples(load(products, path)[0])} == names


def test_what_means_nothing_is_no_id_and_no_attribute(load, write):
    wide = write("p.csv", "id,title,ingredient\nA1,One,red\n_,Two,blue\n_,Three,_\n")
    terminology, rejects = load(products, wide, attributes="*", empty="_")
    assert rejects == []
    assert triples(terminology) == {("One", "ingredient", "red"), ("Two", "ingredient", "blue")}
    assert sorted(terminology.concept_names.to_pylist()) == ["One", "Three", "Two", "blue", "red"]
    rows = write("q.csv", "title,attribute_name,attribute_values\nOne,n/a,red\nTwo,colour,blue\n")
    terminology, [reject] = load(products, rows, empty="n/a")
    assert (reject[1], reject[2]) == ("2", "attribute_name")
    assert triples(terminology) == {("Two", "colour", "blue")}


@pytest.mark.parametrize("attributes", ["*", "rh +,rh -"])
def test_columns_that_would_be_one_attribute_are_refused(write, attributes):
    path = write("p.csv", "title,rh +,rh -\nA,suitable,unsuitable\n")
    with pytest.raises(UsageError, match=r"'rh \+' and 'rh -' would both be the attribute 'rh'; rename one"):
        products.load([path], products.Options(attributes=attributes), Rejects(None))


def test_rows_that_would_be_one_attribute_are_set_aside(load, write):
    rows = "A,Rh +,yes\nB,rh -,no\nC,RH  +,no\nD,rh_+,\nE,rh -,\n"
    path = write("p.csv", f"title,attribute_name,attribute_values\n{rows}")
    terminology, rejects = load(products, path)
    assert triples(terminology) == {("A", "rh", "yes"), ("C", "rh", "no")}
    refused = "would be the attribute 'rh', as 'Rh +' before it is; rename one of them"
    assert rejects == [
        [str(path), "3", "attribute_name", "rh -", refused],
        [str(path), "5", "attribute_values", "", "no value"],
        [str(path), "6", "attribute_values", "", "no value"],
    ]


def test_columns_are_found_in_any_script_and_writing(load, write):
    # Vowels that are marks, an accent written apart, and one attribute in two columns.
    path = write("p.csv", "title,दवा,दवी,indicacio\u0301n,Main Colour,main_colour\nA,एक,दो,tos,red,blue\n")
    terminology, _ = load(products, path, attributes="*")
    assert triples(terminology) == {
        ("A", "दवा", "एक"),
        ("A", "दवी", "दो"),
        ("A", "indicación", "tos"),
        ("A", "main_colour", "red"),
        ("A", "main_colour", "blue"),
    }
    terminology, _ = load(products, path, attributes="indicación, दवी,")
    assert triples(terminology) == {("A", "indicación", "tos"), ("A", "दवी", "दो")}
    # The column of this very name comes before one that is written alike.
    terminology, _ = load(products, path, attributes="main_colour")
    assert triples(terminology) == {("A", "main_colour", "blue")}


@pytest.mark.parametrize("attributes", ["*", "a", " A ", "a,b"])
def test_columns_of_one_name_are_one_attribute(load, write, attributes):
    path = write("p.csv", "title,a,b,a,id\nT,1,x,2|3,7\n")
    terminology, _ = load(products, path, attributes=attributes)
    found = triples(terminology)
    assert {value for _, name, value in found if name == "a"} == {"1", "2", "3"}
    named = "b" in attributes or attributes == "*"
    assert (("T", "b", "x") in found) == named
    assert terminology.manifest["dropped"] == ({} if named else {"column 'b' of p.csv": 1})


def test_gzip_parquet_and_several_files(load, write, tmp_path):
    plain, _ = load(products, WIDE, **WIDE_OPTIONS)
    wanted = triples(plain)
    packed, _ = load(products, write("wide.tsv.gz", gzip.compress(WIDE.read_bytes())), **WIDE_OPTIONS)
    assert triples(packed) == wanted
    pl.read_csv(WIDE, separator="\t", infer_schema=False).write_parquet(tmp_path / "wide.parquet")
    columnar, _ = load(products, tmp_path / "wide.parquet", **WIDE_OPTIONS)
    assert triples(columnar) == wanted
    both, _ = load(products, WIDE, WIDE, **WIDE_OPTIONS)
    assert (triples(both), both.n_terms) == (wanted, plain.n_terms)


def test_wrong_columns_name_those_that_are_there(write):
    path = write("x.csv", "product,company\nOne,Two\n")
    for options, problem in (
        ({}, r"no column 'title' .*'product', 'company'"),
        ({"title_column": "product"}, r"no column 'attribute_name' .*attributes=ingredient"),
        ({"title_column": "product", "attributes": "colour"}, r"no column 'colour' \(option attributes"),
    ):
        with pytest.raises(UsageError, match=problem):
            products.load([path], products.Options(**options), Rejects(None))
