from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator

import polars as pl
import pytest

from alphita import config
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


def test_without_a_column_that_says_so_what_is_called_obsolete_is_retired(load, tmp_path):
    rows = "X:1,obsolete fever\nX:1,fever\nX:2,Cough\nX:2,obsolete cough\nX:3,obsoleteness\n"
    (tmp_path / "terms.csv").write_text(f"id,term\n{rows}", encoding="utf-8")
    terminology, _ = load(table, tmp_path / "terms.csv")
    assert [terminology.concept(f"X:{number}").retired for number in (1, 2, 3)] == [True, False, False]
    (tmp_path / "said.csv").write_text("id,term,retired\nX:1,obsolete fever,no\n", encoding="utf-8")
    terminology, _ = load(table, tmp_path / "said.csv")
    assert not terminology.concept("X:1").retired


def test_parquet_gzip_and_other_delimiters_give_the_same(load, small_table, write):
    frame = pl.read_csv(TERMS, infer_schema=False)
    parquet = write("t.parquet", b"")
    frame.write_parquet(parquet)
    for path in (
        parquet,
        write("t.csv.gz", gzip.compress(TERMS.read_bytes())),
        write("semicolons.csv", frame.write_csv(separator=";")),
        write("crlf.csv", b"\xef\xbb\xbf" + TERMS.read_bytes().replace(b"\n", b"\r\n")),
    ):
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


def test_other_column_names_and_bare_codes(load, write):
    path = write("x.tsv", "Code\tLabel\tGroup\n7\tSeven\tOdd\n8\tEight\tEven\n8\tAcht\tEven\n")
    terminology, rejects = load(
        table, path, id_column="Code", term_column="Label", semantic_type_column="Group", prefix="NUM", language="de"
    )
    assert rejects == []
    concept = terminology.concept("NUM:8")
    assert [term.string for term in concept.terms] == ["Eight", "Acht"]
    assert (concept.semantic_types, concept.terms[0].language) == (["Even"], "de")
    with pytest.raises(UsageError, match="prefix=LOCAL"):
        load(table, path, id_column="Code", term_column="Label")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_preferred_column_of_one_file_decides_for_all(load, write, order):
    paths = [
        write("a.csv", "id,term,preferred\nL:1,MI,0\nL:1,Myocardial infarction,1\nL:2,Itch,0\n"),
        write("b.csv", "id,term\nL:1,heart attack\nL:2,pruritus\nL:3,rash\nL:3,eruption\n"),
    ]
    terminology, _ = load(table, *(paths[place] for place in order))
    for concept, name in (("L:1", "Myocardial infarction"), ("L:2", "pruritus"), ("L:3", "rash")):
        assert [term.string for term in terminology.concept(concept).terms if term.preferred] == [name]


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
            f"{path}:{line}: column 'term' stands more than once in the header: ['id', 'term', 'term'] (field 'term'); "
            "rename or remove all but one of them"
        )
    terminology, _ = load(table, write("u.csv", "id,note,term,term 2,note,head\nX:1,a,Fever,b,c,d\n"))
    assert terminology.manifest["dropped"] == {
        "column 'head' of u.csv": 1,
        "column 'note' of u.csv": 2,
        "column 'term 2' of u.csv": 1,
    }


def test_dangling_relation_ends_are_counted(load, write):
    relations = write("r.csv", "head,tail\nLOCAL:1,LOCAL:2\nLOCAL:1,LOCAL:404\nLOCAL:405,LOCAL:1\n")
    terminology, rejects = load(table, TERMS, relations)
    assert [(row[0], row[1], row[3]) for row in rejects] == [
        (str(relations), "4", "LOCAL:405"),
        (str(relations), "3", "LOCAL:404"),
    ]
    assert terminology.n_relations == 2


def test_wrong_encoding(load, write):
    path = write("x.csv", "id,term\nX:1,One\nX:2,Ménière\n".encode("latin-1"))
    terminology, [reject] = load(table, path)
    assert (terminology.n_concepts, reject[1]) == (1, "3")
    assert load(table, path, encoding="latin-1")[0].concept("X:2").name == "Ménière"


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


@pytest.mark.parametrize(
    "text",
    ["Pain,\nin the head, say", "One:\n1, first\n2, second\n\n3, third", "a\nb\nc", "x, 1\n" * 20, "L:7\nand, L:8"],
)
def test_quoted_cells_of_several_lines_are_read(load, write, text):
    path = write("x.csv", f'id,definition,term\nL:1,"{text}",One\nL:2,,Two\n')
    terminology, rejects = load(table, path)
    assert rejects == []
    assert [definition.text for definition in terminology.concept("L:1").definitions] == [text.strip()]
    assert terminology.concept_names.to_pylist() == ["One", "Two"]


def test_a_numbered_list_in_a_cell_is_no_rows(load, write):
    text = "Degrees:\n1, redness, no blister\n2, blister, painful\n3, full thickness, painless"
    path = write("x.csv", f'id,term,definition\n7,Burn,"{text}"\n8,Bruise,x\n')
    terminology, rejects = load(table, path, prefix="LAB")
    assert rejects == []
    assert terminology.concept_names.to_pylist() == ["Burn", "Bruise"]
    assert [one.text for one in terminology.concept("LAB:7").definitions] == [text]


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


def test_control_signs_around_a_cell_are_white_space(load, write):
    path = write("x.csv", "id,term\nHP:1,a\nHP:1\x1f,\x1cb\nHP:\x1c2,c\nMSH:D1,\x1d\n")
    terminology, rejects = load(table, path)
    assert [one.string for one in terminology.concept("HP:1").terms] == ["a", "b"]
    assert [(reject[1], reject[2]) for reject in rejects] == [("4", "id"), ("5", "term")]
    assert terminology.n_concepts == 1


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


def test_rows_are_checked_alike_alone_and_in_columns(load, write):
    header = "id,term,scope,preferred,language,parent,xref\n"
    uri = "http://purl.obolibrary.org/obo/HP_1"
    good = f"L:1,One,,0,,,\nL:1,Uno,EXACT,Yes,IT,,MSH:D1|{uri}\nL:2,Two,,,,L:1|L:1|HPO:1,\n"
    bad = "L:3,Three,near,,,,\nL 4:1,Four,,,,,\nL:5,Five,,perhaps,,,\n"
    plain, rejects = load(table, write("plain.csv", header + good))
    assert [reject[3] for reject in rejects] == ["HP:1"]
    mixed, rejects = load(table, write("mixed.csv", header + good + bad))
    assert [reject[1:4] for reject in rejects] == [
        ["5", "scope", "near"],
        ["6", "id", "L 4:1"],
        ["7", "preferred", "perhaps"],
        ["4", "tail", "HP:1"],
    ]
    assert mixed.content_hash == plain.content_hash
    assert mixed.manifest["dropped"] == plain.manifest["dropped"] == {"repeated rows": 1}
    assert [(term.string, term.language, term.preferred) for term in mixed.concept("L:1").terms] == [
        ("Uno", "it", True),
        ("One", "en", False),
    ]
    assert [target for _, target in mixed.concept("L:1").xrefs] == ["MESH:D1", "HP:1"]


# --- codes -----------------------------------------------------------------------------------------------------------


def test_codes_under_a_prefix_are_not_taken_for_curies(load, write, capsys):
    codes = ["CUI:9", "DO:123", "10:30", "K", "GLU 1", "GLU%201", "hp:5", "X:", "LAB:7", "LAB:7 b", "http://x.org/1"]
    known = ["HP:0001250", "http://purl.obolibrary.org/obo/MONDO_0000001"]
    rows = "".join(f"{code},term {n},,\n" for n, code in enumerate([*codes, *known]))
    path = write("x.csv", f"id,term,parent,replaced_by\n{rows}L,local,GLU 1|HP:0001250,\nM,other,,DO:123\n")
    terminology, rejects = load(table, path, prefix="LAB")
    assert rejects == []
    found = {terminology.concept(row).id: terminology.concept(row).terms[0] for row in range(terminology.n_concepts)}
    assert {concept: term.code for concept, term in found.items()} == {
        "LAB:CUI:9": "CUI:9",
        "LAB:DO:123": "DO:123",
        "LAB:10:30": "10:30",
        "LAB:K": "K",
        "LAB:GLU%201": "GLU 1",
        "LAB:GLU%25201": "GLU%201",
        "LAB:hp:5": "hp:5",
        "LAB:X:": "X:",
        "LAB:7": "7",
        "LAB:7%20b": "7 b",
        "LAB:http://x.org/1": "http://x.org/1",
        "HP:0001250": "0001250",
        "MONDO:0000001": "0000001",
        "LAB:L": "L",
        "LAB:M": "M",
    }
    assert sorted(terminology.concept("LAB:L").parents) == ["HP:0001250", "LAB:GLU%201"]
    assert terminology.concept("LAB:M").replaced_by == ["LAB:DO:123"]
    said = capsys.readouterr().err
    assert "2 ids were taken as those of other systems, not as codes of LAB" in said
    assert "1 of HP" in said
    assert "1 ids under DO: were taken as codes of LAB; if they are DOID's, write DOID:" in said
    assert "X:" not in said


def test_a_prefix_has_no_colon():
    with pytest.raises(UsageError, match="prefix"):
        config.resolve(table.Options, sets=["prefix=LAB:"])


def test_a_prefix_that_is_an_alias(load, write, capsys):
    path = write("x.csv", "id,term\nSNOMED:1,One\nSNOMEDCT:2,Two\n3,Three\nSCT:4,Four\n")
    terminology, _ = load(table, path, prefix="SNOMED")
    assert terminology.concept_ids.to_pylist() == ["SNOMEDCT:1", "SNOMEDCT:2", "SNOMEDCT:3", "SNOMEDCT:SCT:4"]
    assert capsys.readouterr().err == ""


def test_relations_under_a_prefix(load, write):
    terms = write("t.csv", "id,term\nGLU 1,One\nDO:2,Two\n")
    relations = write("r.csv", "head,relation,tail\nGLU 1,,DO:2\nDO:2,near,LAB:GLU 1\n")
    terminology, rejects = load(table, terms, relations, prefix="LAB")
    assert rejects == []
    assert terminology.concept("LAB:GLU%201").relations == [("related_to", "LAB:DO:2")]
    assert terminology.concept("LAB:DO:2").relations == [("near", "LAB:GLU%201")]


# --- Parquet ---------------------------------------------------------------------------------------------------------


def test_unused_columns_of_parquet_are_not_looked_at(load, tmp_path):
    path = tmp_path / "t.parquet"
    odd = {"tags": [["a"], ["b", "c"]], "blob": [b"\xff", b"\xfe"], "meta": [{"a": 1}, {"a": 2}]}
    pl.DataFrame({"id": ["L:1", "L:2"], "term": ["One", "Two"], **odd}).write_parquet(path)
    terminology, rejects = load(table, path)
    assert rejects == []
    assert terminology.concept_names.to_pylist() == ["One", "Two"]
    assert terminology.manifest["dropped"] == {f"column {name!r} of t.parquet": 1 for name in odd}


def test_whole_numbers_of_parquet_are_codes_whatever_their_type(load, tmp_path):
    path = tmp_path / "t.parquet"
    codes = [1.0, 2.0, None, float("nan"), 12_345_678_901.0]
    pl.DataFrame({"id": codes, "term": list("abcde"), "preferred": [1, 0, None, 1, 1]}).write_parquet(path)
    terminology, rejects = load(table, path, prefix="L")
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


def test_of_two_preferred_names_of_a_concept_the_first_is_and_the_other_is_counted(load, tmp_path):
    rows = "X:1,Eins,yes,de\nX:1,Uno,yes,de\nX:1,One,yes,en\nX:1,Eins,yes,de\nX:2,Zwei,yes,de\n"
    (tmp_path / "terms.csv").write_text(f"id,term,preferred,language\n{rows}", encoding="utf-8")
    terminology, rejects = load(table, tmp_path / "terms.csv")
    assert rejects == []
    found = {(term.string, term.preferred) for term in terminology.concept("X:1").terms}
    assert found == {("Eins", True), ("Uno", False), ("One", True)}
    assert terminology.manifest["dropped"] == {"repeated rows": 1, "further preferred names, kept as synonyms": 1}
