"""Tables of products."""

from __future__ import annotations

import polars as pl
import pytest

from alphita.errors import Rejects, UsageError
from alphita.terminology.loaders import products
from alphita.terminology.store import Terminology


def triples(terminology: Terminology) -> set[tuple[str, str, str]]:
    """Return (title, attribute, value) by name."""
    names, labels = terminology.concept_names.to_pylist(), terminology.relation_labels
    return {(names[head], labels[label], names[tail]) for head, label, tail in terminology.triples.tolist()}


@pytest.mark.parametrize(("values", "names"), [([0.5, 1.25], {"0.5", "1.25"}), ([2.0, None], {"2"})])
def test_numbers_of_a_parquet_file_are_values(load, tmp_path, values, names):
    path = tmp_path / "p.parquet"
    titles = ["Glove L", "Glove S"]
    frame = pl.DataFrame({"title": titles, "attribute_name": ["weight"] * 2, "attribute_values": values})
    frame.write_parquet(path)
    assert {value for _, _, value in triples(load(products, path)[0])} == names


@pytest.mark.parametrize("attributes", ["*", "rh +,rh -"])
def test_columns_that_would_be_one_attribute_are_refused(write, attributes):
    path = write("p.csv", "title,rh +,rh -\nA,suitable,unsuitable\n")
    with pytest.raises(UsageError, match=r"'rh \+' and 'rh -' would both be the attribute 'rh'; rename one"):
        products.load([path], products.Options(attributes=attributes), Rejects(None))


def test_wrong_columns_name_those_that_are_there(write):
    path = write("x.csv", "product,company\nOne,Two\n")
    for options, problem in (
        ({}, r"no column 'title' .*'product', 'company'"),
        ({"title_column": "product"}, r"no column 'attribute_name' .*attributes=ingredient"),
        ({"title_column": "product", "attributes": "colour"}, r"no column 'colour' \(option attributes"),
    ):
        with pytest.raises(UsageError, match=problem):
            products.load([path], products.Options(**options), Rejects(None))
