from __future__ import annotations

import zipfile
from collections.abc import Iterator

import polars as pl
import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import _files, _tables, table
from tests.books import book
from tests.terminology.conftest import FIXTURES, cases

TERMS, RELATIONS = FIXTURES / "terms.csv", FIXTURES / "relations.tsv"


@pytest.fixture
def small_table(load):
    terminology, rejects = load(table, TERMS, RELATIONS)
    assert rejects == []
    return terminology


def test_parquet_a_mark_and_other_delimiters_give_the_same(load, small_table, write):
    frame = pl.read_csv(TERMS, infer_schema=False)
    parquet = write("t.parquet", b"")
    frame.write_parquet(parquet)
    marked = write("marked.csv", b"\xef\xbb\xbf" + TERMS.read_bytes())
    for path in (parquet, write("semicolons.csv", frame.write_csv(separator=";")), marked):
        assert load(table, path, RELATIONS)[0].content_hash == small_table.content_hash, path


def test_a_sheet_gives_the_same(load, small_table, tmp_path):
    frame = pl.read_csv(TERMS, infer_schema=False)
    rows = [frame.columns, *frame.fill_null("").iter_rows()]
    path = book(tmp_path / "terms.xlsx", Terms=[list(row) for row in rows], Notes=[["x"]])
    with pytest.raises(UsageError, match=r"name one with --set sheet=NAME: \['Terms', 'Notes'\]"):
        load(table, path)
    assert load(table, path, RELATIONS, sheet="Terms")[0].content_hash == small_table.content_hash
    with pytest.raises(UsageError, match="workbooks only, and none is given; leave out --set sheet=Terms"):
        load(table, TERMS, RELATIONS, sheet="Terms")


def test_bad_rows_of_a_sheet_are_named_as_it_shows_them(load, tmp_path, monkeypatch):
    monkeypatch.setattr(_tables, "ROWS_AT_ONCE", 2)
    rows: list[list[object]] = [[], ["id", " term "], [250.0, "One"], ["", "none"], [], [7, "Seven"], ["9b", "Nine"]]
    terminology, rejects = load(table, book(tmp_path / "x.xlsx", A=rows), prefix="L")
    assert [one[1] for one in rejects] == ["4"]
    assert sorted(terminology.concept_ids.to_pylist()) == ["L:250", "L:7", "L:9b"]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.write(tmp_path / "x.xlsx", "x.xlsx")
    with pytest.raises(InputError, match="a workbook in an archive; unpack"):
        load(table, tmp_path / "all.zip", prefix="L")


@pytest.mark.parametrize("options", [{}, {"definition_column": "gloss"}, {"term_column": "string"}])
def test_a_missing_column_is_an_error_that_lists_the_columns(write, options):
    header = "id,term,x" if options.get("definition_column") else "id,label,x"
    path = write("x.csv", header + "\nX:1,One,1\n")
    with pytest.raises(UsageError) as raised:
        table.load([path], table.Options(**options), Rejects(None))
    assert repr(header.split(",")) in str(raised.value)
    assert repr(next(iter(options.values()), "term")) in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_column_that_stands_twice(load, write, tmp_path):
    for path, line in (
        (write("t.csv", "id,term,term\nX:1,Fever,Cough\n"), 1),
        (book(tmp_path / "t.xlsx", Terms=[[None], ["id", "term", "term"], ["X:1", "Fever", "Cough"]]), 2),
    ):
        with pytest.raises(InputError) as raised:
            load(table, path)
        assert str(raised.value) == (
            f"{path}:{line}: column 'term' appears more than once in the header: ['id', 'term', 'term'] "
            "(field 'term'); rename or remove all but one of them"
        )


@pytest.mark.parametrize(("name", "chosen", "content", "terms", "refused"), cases("small_tables.tsv"))
def test_small_tables(load, write, name, chosen, content, terms, refused):
    path = write(name, content.encode("utf-8", "surrogateescape"))
    terminology, rejects = load(table, path, **dict(pair.split("=") for pair in chosen.split()))
    assert terminology.terms["string"].to_pylist() == terms.split("|")
    assert sorted(f"{line} {field}" for _, line, field, *_ in rejects) == (refused.split("|") if refused else [])


# --- a quote that is not closed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", 'L:300,"quoted"\n', 'L:300,5"\n', 'L:300,"two\nlines"\n'])
def test_a_stray_quote_costs_its_own_row(load, write, end):
    rows = [f"L:{n},term number {n}\n" for n in range(1, 6_000)]
    rows[99] = 'L:100,"large vessel\n'
    rows[299] = end or rows[299]
    path = write("x.csv", "id,term\n" + "".join(rows))
    terminology, [reject] = load(table, path)
    assert reject[1] == "101"
    assert reject[3] == 'L:100,"large vessel'
    assert "a quote that is not closed" in reject[4]
    assert terminology.n_concepts == 5_998
    wanted = {"": "term number 300", 'L:300,"quoted"\n': "quoted", 'L:300,5"\n': '5"'}.get(end, "two\nlines")
    assert terminology.concept("L:300").name == wanted


def test_lines_that_each_open_a_quote_are_not_read_again_and_again(write, monkeypatch):
    path = write("x.csv", "id,term\n" + 'L:1","foo\n' * 300 + "L:2,Two\n")
    monkeypatch.setattr("alphita.terminology.loaders._tables.MAX_LINES", 10)
    taken = 0
    following = _tables.Feed.__next__

    def counted(feed: _tables.Feed) -> str:
        nonlocal taken
        taken += 1
        return following(feed)

    monkeypatch.setattr(_tables.Feed, "__next__", counted)
    rejects = Rejects(None)
    tables = table.load([path], table.Options(), rejects)
    assert tables.concepts["id"].to_list() == ["L:2"]
    assert rejects.count == 300
    assert taken < 300 * 12


# --- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_a_file_of_many_blocks_is_read_as_one(load, write, monkeypatch, encoding):
    rows = [f"L:{n},é {n},\r\n" for n in range(1_000)]
    rows[300] = 'L:300,"é\n300",\n'
    rows[500] = "L:500,too short\n"
    rows[501] = "\n"
    path = write("x.csv", ("id,term,note\n" + "".join(rows)).encode(encoding))
    options = {} if encoding == "utf-8" else {"encoding": encoding}
    whole, one = load(table, path, **options)
    monkeypatch.setattr(_files, "BLOCK_BYTES", 100)
    monkeypatch.setattr(_files, "_LINES_AT_ONCE", 7)
    parts, [reject] = load(table, path, **options)
    assert one == [reject]
    assert reject[1:] == ["503", "", "L:500,too short", "2 cells, but the header has 3"]
    assert parts.content_hash == whole.content_hash
    assert parts.n_concepts == 998
    assert parts.concept("L:300").name == "é\n300"


def test_only_blocks_that_need_it_are_read_row_by_row(load, write, monkeypatch):
    read: list[int] = []
    one_by_one = _tables.Delimited._rows

    def recorded(self: _tables.Delimited) -> Iterator[tuple[int, list[str]]]:
        for line, cells in one_by_one(self):
            read.append(line)
            yield line, cells

    monkeypatch.setattr(_tables.Delimited, "_rows", recorded)
    monkeypatch.setattr(_files, "BLOCK_BYTES", 100)
    rows = [f"L:{n},term {n}\n" for n in range(1_000)]
    rows[500] = 'L:500,"quoted"\n'
    terminology, _ = load(table, write("x.csv", "id,term\n" + "".join(rows)))
    assert terminology.n_concepts == 1_000
    assert 502 in read
    assert len(read) < 20


def test_a_line_without_end_is_an_error(write, monkeypatch):
    monkeypatch.setattr(_files, "MAX_LINE_BYTES", 1_000)
    monkeypatch.setattr(_files, "BLOCK_BYTES", 100)
    path = write("x.csv", "id,term\nL:1,One\nL:2," + "x" * 2_000)
    with pytest.raises(InputError, match=r"x\.csv:3: a line of more than 16 MB"):
        table.load([path], table.Options(), Rejects(None))


# --- codes -----------------------------------------------------------------------------------------------------------


def test_it_is_said_whose_codes_are_under_a_prefix(load, write, capsys):
    codes = ["CUI:9", "DO:123", "X:", "HP:0001250", "http://purl.obolibrary.org/obo/MONDO_0000001"]
    rows = "".join(f"{code},term {n}\n" for n, code in enumerate(codes))
    load(table, write("x.csv", f"id,term\n{rows}"), prefix="LAB")
    said = capsys.readouterr().err
    assert "2 ids were taken as those of other systems, not as codes of LAB" in said
    assert "1 of HP" in said
    assert "1 ids under DO: were taken as codes of LAB; if they are DOID's, write DOID:" in said
    assert "X:" not in said
    load(table, write("y.csv", "id,term\nSNOMED:1,One\nSNOMEDCT:2,Two\n3,Three\nSCT:4,Four\n"), prefix="SNOMED")
    assert capsys.readouterr().err == ""


# --- Parquet ---------------------------------------------------------------------------------------------------------


def test_whole_numbers_of_parquet_are_codes_whatever_their_type(load, tmp_path):
    path = tmp_path / "t.parquet"
    codes = [1.0, 2.0, None, float("nan"), 12_345_678_901.0]
    # Unused columns are not looked at.
    odd = {"tags": [["a"]] * 5, "blob": [b"\xff"] * 5, "meta": [{"a": 1}] * 5}
    pl.DataFrame({"id": codes, "term": list("abcde"), "preferred": [1, 0, None, 1, 1], **odd}).write_parquet(path)
    terminology, rejects = load(table, path, prefix="L")
    assert terminology.manifest["dropped"] == {f"column {name!r} of t.parquet": 1 for name in odd}
    assert terminology.concept_ids.to_pylist() == ["L:1", "L:12345678901", "L:2"]
    assert [(reject[1], reject[2], reject[4]) for reject in rejects] == [
        ("3", "id", "an empty id"),
        ("4", "id", "an empty id"),
    ]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([1.0, 401.9], r"t\.parquet:2: a column of type Float64, .* \(field 'id', value '401\.9'\)"),
        ([1.0, float("inf")], r"t\.parquet:2: a column of type Float64"),
        ([["a"], ["b"]], r"t\.parquet: a column of type List\(String\), .* \(field 'id'\)"),
        ([b"a", b"\xff"], r"a column of type Binary, .* \(field 'id'\)"),
        ([{"a": 1}, {"a": 2}], r"a column of type Struct.* \(field 'id'\)"),
    ],
)
def test_columns_of_parquet_that_cannot_be_read_are_named(tmp_path, cells, said):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"id": cells, "term": ["One", "Two"]}).write_parquet(path)
    with pytest.raises(InputError, match=said):
        table.load([path], table.Options(prefix="L"), Rejects(None))
