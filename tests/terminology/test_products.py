"""Tables of products."""

from __future__ import annotations

import csv
import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import products
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
FOLDER = FIXTURES / "products"
LONG, WIDE = FOLDER / "products.csv", FOLDER / "wide.tsv"
COLD = 'Demo Cold Granules, "extra" 10 g'
WIDE_OPTIONS = {"id_column": "code", "title_column": "name", "attributes": "ingredient, company", "empty": "_"}


def triples(terminology: Terminology) -> set[tuple[str, str, str]]:
    """Return (title, attribute, value) by name."""
    names, labels = terminology.concept_names.to_pylist(), terminology.relation_labels
    return {(names[head], labels[label], names[tail]) for head, label, tail in terminology.triples.tolist()}


def test_one_attribute_a_row(load: Load) -> None:
    terminology, rejects = load(products, LONG)
    assert triples(terminology) == {
        (COLD, "syndrome", "headache"),
        (COLD, "syndrome", "fever"),
        (COLD, "syndrome", "nasal congestion"),
        (COLD, "main_ingredient", "Blue root"),
        ("Ear Drops Demo", "syndrome", "headache"),
        ("Ear Drops Demo", "syndrome", 'ear "bell" pain'),
        ("示例感冒颗粒", "syndrome", "发热"),
        ("示例感冒颗粒", "syndrome", "头痛"),
    }
    assert [(reject[1], reject[2], reject[4]) for reject in rejects] == [
        ("7", "attribute_values", "no value"),
        ("8", "title", "an empty cell"),
        ("9", "attribute_name", "not a name of an attribute"),
        ("10", "", "2 cells, but the header has 3"),
    ]


def test_products_and_values_are_concepts(load: Load) -> None:
    terminology, _ = load(products, LONG, language="zh")
    [row] = terminology.search("headache")
    value = terminology.concept(row)
    assert value.id.startswith("VALUE:")
    assert (value.source, value.semantic_types) == ("VALUE", ["syndrome"])
    assert [(term.string, term.preferred, term.language, term.code) for term in value.terms] == [
        ("headache", True, "zh", value.id[6:]),
        ("Headache", False, "zh", value.id[6:]),
    ]
    [row] = terminology.search(COLD)
    assert terminology.concept(row).semantic_types == ["product"]
    assert terminology.concept_id(row).startswith("PRODUCT:")
    # Without a value of its own a product is one still.
    assert terminology.search("Lonely Plaster")


def test_a_stray_quote_costs_its_own_row(load: Load, write: Write) -> None:
    rows = [f"Product {n},weight,{n} g\n" for n in range(500)]
    rows[3] = 'Product 3,"weight,3 g\n'
    terminology, [reject] = load(products, write("p.csv", "title,attribute_name,attribute_values\n" + "".join(rows)))
    assert reject[1] == "5"
    assert len(triples(terminology)) == 499


@pytest.mark.parametrize(("values", "names"), [([0.5, 1.25], {"0.5", "1.25"}), ([2.0, None], {"2"})])
def test_numbers_of_a_parquet_file_are_values(load: Load, tmp_path: Path, values: list[float], names: set[str]) -> None:
    path = tmp_path / "p.parquet"
    titles = ["Glove L", "Glove S"]
    frame = pl.DataFrame({"title": titles, "attribute_name": ["weight"] * 2, "attribute_values": values})
    frame.write_parquet(path)
    assert {value for _, _, value in triples(load(products, path)[0])} == names


def test_one_product_a_row(load: Load) -> None:
    terminology, rejects = load(products, WIDE, **WIDE_OPTIONS)
    assert rejects == []
    assert triples(terminology) == {
        ("Demo Cold Granules", "ingredient", "Blue root"),
        ("Demo Cold Granules", "ingredient", "Red root"),
        ("Demo Cold Granules", "company", "Sock & Sons"),
        ("Ear Drops Demo", "company", "Sock & Sons"),
        ("Ear Drops Demo", "ingredient", "Water"),
    }
    assert [term.string for term in terminology.concept("PRODUCT:2").terms] == ["Ear Drops Demo", "Ear drops, demo"]
    assert terminology.concept("ZZ:3").name == "Plaster"
    assert terminology.manifest["dropped"] == {"column 'shelf' of wide.tsv": 1}


def test_all_columns_as_attributes_and_no_separator(load: Load) -> None:
    options = WIDE_OPTIONS | {"attributes": "*", "separator": "", "prefix": "SHOP", "value_prefix": "WORD"}
    terminology, _ = load(products, WIDE, **options)
    found = triples(terminology)
    assert ("Demo Cold Granules", "ingredient", "Blue root|Red root") in found
    assert ("Demo Cold Granules", "shelf", "7") in found
    assert {concept.partition(":")[0] for concept in terminology.concept_ids.to_pylist()} == {"SHOP", "WORD", "ZZ"}


def test_what_means_nothing_is_no_id_and_no_attribute(load: Load, write: Write) -> None:
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
def test_columns_that_would_be_one_attribute_are_refused(write: Write, attributes: str) -> None:
    path = write("p.csv", "title,rh +,rh -\nA,suitable,unsuitable\n")
    with pytest.raises(UsageError, match=r"'rh \+' and 'rh -' would both be the attribute 'rh'; rename one"):
        products.load([path], products.Options(attributes=attributes), Rejects(None))


def test_rows_that_would_be_one_attribute_are_set_aside(load: Load, write: Write) -> None:
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


def test_columns_are_found_in_any_script_and_writing(load: Load, write: Write) -> None:
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
def test_columns_of_one_name_are_one_attribute(load: Load, write: Write, attributes: str) -> None:
    path = write("p.csv", "title,a,b,a,id\nT,1,x,2|3,7\n")
    terminology, _ = load(products, path, attributes=attributes)
    found = triples(terminology)
    assert {value for _, name, value in found if name == "a"} == {"1", "2", "3"}
    named = "b" in attributes or attributes == "*"
    assert (("T", "b", "x") in found) == named
    assert terminology.manifest["dropped"] == ({} if named else {"column 'b' of p.csv": 1})


def test_ids_are_the_same_in_another_order(load: Load, write: Write) -> None:
    first, _ = load(products, LONG)
    before = {concept: first.concept(concept).name for concept in first.concept_ids.to_pylist()}
    header, *lines = LONG.read_text().splitlines()
    again, _ = load(products, write("p.csv", "\n".join([header, *reversed(lines)])))
    after = {concept: again.concept(concept).name for concept in again.concept_ids.to_pylist()}
    assert before.keys() == after.keys()
    assert {clean(name) for name in before.values()} == {clean(name) for name in after.values()}


def test_gzip_parquet_and_several_files(load: Load, write: Write, tmp_path: Path) -> None:
    plain, _ = load(products, WIDE, **WIDE_OPTIONS)
    wanted = triples(plain)
    packed, _ = load(products, write("wide.tsv.gz", gzip.compress(WIDE.read_bytes())), **WIDE_OPTIONS)
    assert triples(packed) == wanted
    pl.read_csv(WIDE, separator="\t", infer_schema=False).write_parquet(tmp_path / "wide.parquet")
    columnar, _ = load(products, tmp_path / "wide.parquet", **WIDE_OPTIONS)
    assert triples(columnar) == wanted
    both, _ = load(products, WIDE, WIDE, **WIDE_OPTIONS)
    assert (triples(both), both.n_terms) == (wanted, plain.n_terms)


def test_counts_against_an_independent_count(load: Load) -> None:
    terminology, _ = load(products, LONG)
    with open(LONG, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == 3 and row[0] and row[1] != "***"][1:]
    wanted = {(row[0], row[1], value.strip().lower()) for row in rows for value in row[2].split("|") if value}
    assert terminology.n_relations == len(wanted)
    assert terminology.n_concepts == len({row[0] for row in rows}) + len({value for *_, value in wanted})


def test_wrong_columns_name_those_that_are_there(write: Write) -> None:
    path = write("x.csv", "product,company\nOne,Two\n")
    for options, problem in (
        ({}, r"no column 'title' .*'product', 'company'"),
        ({"title_column": "product"}, r"no column 'attribute_name' .*attributes=ingredient"),
        ({"title_column": "product", "attributes": "colour"}, r"no column 'colour' \(option attributes"),
    ):
        with pytest.raises(UsageError, match=problem):
            products.load([path], products.Options(**options), Rejects(None))


@pytest.mark.parametrize(
    ("line", "field", "problem"),
    [
        ("x" * 10_001 + ",colour,red", "title", "10,001 characters"),
        ("One,colour," + "x" * 10_001, "colour", "10,001 characters"),
        ("One,,red", "attribute_name", "not a name"),
        ("One,colour,a\0b", "", "NUL"),
        ('One,colour,"red', "", "a quote that is not closed"),
    ],
)
def test_bad_rows_are_set_aside_with_their_place(load: Load, write: Write, line: str, field: str, problem: str) -> None:
    path = write("bad.csv", "title,attribute_name,attribute_values\nTwo,colour,blue\n" + line + "\n")
    terminology, [reject] = load(products, path)
    assert reject[:3] == [str(path), "3", field]
    assert problem in reject[4]
    assert ("Two", "colour", "blue") in triples(terminology)
    with pytest.raises(InputError, match=r"bad\.csv:3"):
        products.load([path], products.Options(), Rejects(None, strict=True))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty"),
        (b"title\n", "not a table of that kind"),
        (b"title,attribute_name,attribute_values\n", "no usable row"),
        (b"title,attribute_name,attribute_values\n,,\n", "no usable row"),
        (gzip.compress(b"title,attribute_name,attribute_values\n" * 100)[:-20], "cut short"),
        ("title,attribute_name,attribute_values\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_of_another_kind_is_an_error(write: Write, content: bytes, problem: str) -> None:
    path = write("bad.csv", content)
    with pytest.raises(InputError, match=problem) as raised:
        products.load([path], products.Options(), Rejects(None))
    assert str(path) in str(raised.value)


# --- properties ------------------------------------------------------------------------------------------------------

SIGNS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs"))
WORDS = st.text(SIGNS, min_size=1, max_size=8) | st.sampled_from(['a "quoted" one', "a,b", '"'])
VALUES = st.lists(WORDS.filter(lambda word: "|" not in word), min_size=1, max_size=3)
ROWS = st.lists(st.tuples(WORDS, st.sampled_from(["colour", "形状"]), VALUES), min_size=1, max_size=10)


@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_written_and_loaded_it_is_the_same(rows: list[tuple[str, str, list[str]]]) -> None:
    def same(string: str) -> str:
        return clean(string) or string

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.csv"
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["title", "attribute_name", "attribute_values"])
            writer.writerows([title, label, "|".join(values)] for title, label, values in rows)
        tables = products.load([path], products.Options(), Rejects(None, strict=True))
        store.save(tables, Path(name) / "t.terminology", rejects=Rejects(None, strict=True))
        terminology = load_terminology(Path(name) / "t.terminology")
        found = {(same(head), label, same(tail)) for head, label, tail in triples(terminology)}
        strings = set(terminology.terms["string"].to_pylist())
    assert found == {(same(title), label, same(value)) for title, label, values in rows for value in values}
    assert strings == {title for title, *_ in rows} | {value for *_, values in rows for value in values}


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([LONG, WIDE]), st.data())
def test_mutated_files_give_a_clear_error_or_a_terminology(good: Path, data: st.DataObject) -> None:
    content = good.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    options = products.Options(**WIDE_OPTIONS) if good == WIDE else products.Options()
    check(content[:start] + data.draw(st.binary(max_size=30)) + content[end:], options)


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_give_a_clear_error(content: bytes) -> None:
    check(content, products.Options())


def check(content: bytes, options: products.Options) -> None:
    """Load the content: a terminology, or a clear error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tsv"
        path.write_bytes(content)
        try:
            store.save(products.load([path], options, Rejects(None)), Path(folder) / "t", rejects=Rejects(None))
        except AlphitaError:
            assert [file.name for file in Path(folder).iterdir()] == [path.name]
            return
        assert load_terminology(Path(folder) / "t").n_concepts
