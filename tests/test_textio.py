"""Delimited text: numbers of lines, quotes, headers, and what is said of a wrong file."""

from __future__ import annotations

import csv
import gzip
import json
import sys
import tracemalloc

import pytest

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, fhir_r5
from alphita.terminology.loaders import obographs
from alphita.textio import UNCLOSED, Record, line_cells, records

BAD = f"not a row of this format: {UNCLOSED}"


def read(text: str, delimiter: str = ",", first: int = 1) -> list[Record]:
    return list(records(iter(text.splitlines(keepends=True)), delimiter, first))


def test_the_header_is_row_0_and_empty_lines_are_none():
    assert read('a,b\n1,"two\nlines"\n\n"3,",4\n') == [
        Record(0, 1, ["a", "b"]),
        Record(1, 2, ["1", "two\nlines"]),
        Record(2, 5, ["3,", "4"]),
    ]


def test_lines_may_be_counted_from_a_later_one():
    assert read('a\tb\n"1\n2"\t3\t4\n"5\n6\t7\n', "\t", first=8) == [
        Record(0, 8, ["a", "b"]),
        Record(1, 9, [], "3 cells, but the header has 2 (lines 9 to 10)", "1\n2\t3\t4"),
        Record(2, 11, [], BAD, '"5'),
        Record(3, 12, ["6", "7"]),
    ]


def test_of_a_quote_that_is_never_closed_one_line_is_lost():
    found = read("a,b\n" + 'x,"y\n' + "1,2\n" * 500)
    assert found[1] == Record(1, 2, [], BAD, 'x,"y')
    assert found[2:] == [Record(number, number + 1, ["1", "2"]) for number in range(2, 502)]


def test_a_header_that_cannot_be_read():
    with pytest.raises(csv.Error):
        read('a,"b\n1,2\n')
    assert read("") == [Record(0, 1, [])]


def test_lines_of_a_word_list(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeffa\r\n \n\nb\u2028c \x85\n".encode())
    assert list(textio.lines(path)) == [(1, "a"), (4, "b\u2028c \x85")]
    path.write_bytes(gzip.compress(b"a\n"))
    assert list(textio.lines(path)) == [(1, "a")]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "x.txt",
            b"a\nb \xff c\nd\n",
            "x.txt:2: not UTF-8: invalid start byte (value 'b \ufffd c'); save the file as UTF-8",
        ),
        ("x.gz", b"a\n", "x.gz: cannot be read, for it is damaged"),
        ("x.txt", gzip.compress(b"a\n" * 99)[:-9], "x.txt: cannot be read, for it is damaged"),
        ("x.txt", None, "x.txt: cannot be read: No such file or directory"),
    ],
)
def test_a_text_that_cannot_be_read(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        textio.read_text(tmp_path / name)
    assert says in str(caught.value)


def test_rows_have_the_number_of_their_first_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('a , "b"\n,\n"c\nd",e,f\ng\n')
    assert list(textio.rows(path)) == [(1, ["a", '"b"']), (3, ["c\nd", "e", "f"]), (5, ["g"])]
    assert next(textio.rows(path, strip=False)) == (1, ["a ", ' "b"'])
    path.write_text('a;b\tc;"d"\n')
    assert list(textio.rows(path, "\t")) == [(1, ["a;b", 'c;"d"'])]
    path.write_text('"a"\t"b\n')
    assert list(textio.rows(path, "\t")) == [(1, ['"a"', '"b'])]
    path.write_text('x\na,b\n"c\nd\n')
    with pytest.raises(InputError, match=r"x\.csv:3: not a row of a table: .* a quote that is not closed\?"):
        list(textio.rows(path))


@pytest.mark.parametrize(
    ("text", "own", "expected"),
    [
        ("a;b\n1;x\n", ",", ";"),
        ("a\tb\n1\tx\n", ",", "\t"),
        ("a|b\n1|x\n", ",", "|"),
        ("a,b\n1,x\n", "\t", ","),
        # German numbers, and a header with commas.
        ("id;Wert, Einheit\n1;2,5\n2;3,5\n3;4\n", ",", ";"),
        ("id,text (a; b; c)\n1,x\n", ",", ","),
        # One column, whose cells hold signs now and then.
        ("complaint\npain; left\npain, right\n", ",", ","),
        ("complaint; free text\npain\n", ",", ","),
        ('"a;b"\n"1;2"\n', ",", ","),
        ("a;b\n", ",", ","),
        ("", ",", ","),
    ],
)
def test_the_delimiter_that_fits_the_rows(text, own, expected):
    assert textio.delimiter_of(text.splitlines(keepends=True), own) == expected


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_table_from_a_spreadsheet_is_read_and_its_delimiter_is_told(tmp_path, mark, encoding):
    path = tmp_path / "x.csv"
    path.write_text(f"id{mark}name\n1{mark}Müller\n2{mark}Ä\n", encoding=encoding)
    said: list[str] = []
    how = textio.Reading(tell=said.append)
    assert [row for _, row in textio.columns(path, ("name",), how=how)] == [["Müller"], ["Ä"]]
    assert [row["name"] for _, row in textio.table(path, ",", ("name",), Rejects(), how=how)] == ["Müller", "Ä"]
    assert said == [f"{path}: the delimiter is {mark!r}"] * 2


def test_another_encoding_is_told_with_its_option(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes("id,name\n1,Müller\n".encode("cp1252"))
    how = textio.Reading(option="--encoding")
    problem = "if a Windows program wrote it, say --encoding cp1252"
    with pytest.raises(InputError, match=problem):
        list(textio.columns(path, ("name",), how=how))
    with pytest.raises(InputError, match=problem):
        list(textio.table(path, ",", ("name",), Rejects(strict=True), how=how))
    rows = textio.table(path, ",", ("name",), Rejects(), how=textio.Reading("cp1252"))
    assert [row["name"] for _, row in rows] == ["Müller"]


def test_columns_are_found_by_name_in_any_case(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("more,ID, Name \n1,2,3\n\n 4 ,5,6\n")
    assert list(textio.columns(path, ("name", "id"), optional=("more", "none"))) == [
        (2, ["3", "2", "1", ""]),
        (4, ["6", "5", "4", ""]),
    ]
    path.write_text("id,ID\n1,2\n")
    assert list(textio.columns(path, ["ID"])) == [(2, ["2"])]
    (tmp_path / "x.TAB.gz").write_bytes(gzip.compress(b"a\tb\n1\t2\n"))
    assert list(textio.columns(tmp_path / "x.TAB.gz", ["b"])) == [(2, ["2"])]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "x.csv: the file is empty"),
        (
            "\nnme,b\n",
            "x.csv:2: has no column 'name'; did you mean 'nme'? (field 'name', value 'nme, b'); needs the columns name",
        ),
        (
            "Name,NAME\n",
            "x.csv:1: has the column 'name' twice (field 'name', value 'Name, NAME'); rename or remove all but one",
        ),
        ("name,b\nx,1\ny,2,3\n", "x.csv:3: 3 cells, but the header has 2 (value 'y, 2, 3')"),
    ],
)
def test_a_table_of_other_columns_or_cells(tmp_path, text, says):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        list(textio.columns(path, ["name"]))
    assert str(caught.value) == f"{tmp_path}/{says}"


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        ('"a"', "a"),
        ('"say ""a"""', 'say "a"'),
        ('"bulbs" and "onions"', '"bulbs" and "onions"'),
        ('"', '"'),
        ('""', ""),
        ('a "b"', 'a "b"'),
        ('"a', '"a'),
        ("", ""),
    ],
)
def test_quotes_of_a_spreadsheet_and_of_the_text(cell, plain):
    assert textio.unquoted(cell) == plain
    assert textio.tab_cells(f" {cell} \tx") == [plain, "x"]


def test_cells_of_one_line():
    assert line_cells('"a,b",c', ",") == ["a,b", "c"]
    assert line_cells('"a,b,c', ",") == ['"a', "b", "c"]
    assert line_cells("", ",") == []


def test_rows_in_which_a_line_is_a_row():
    lines = [(1, '"a\tb'), (2, " "), (3, "c"), (4, '"d"\te')]
    with Rejects() as rejects:
        assert list(textio.line_rows(lines, ["x", "y"], "f", rejects)) == [
            (1, {"x": '"a', "y": "b"}),
            (4, {"x": "d", "y": "e"}),
        ]
    assert rejects.count == 1


def test_a_header_has_each_column_once():
    textio.check_header(["a", "", "", "b"], ["b"], "f", 3)
    with pytest.raises(InputError, match=r"^f:3: has no column 'c'.*; needs the columns c, a$"):
        textio.check_header(["a", "b"], ["c", "a"], "f", 3)
    with pytest.raises(InputError, match=r"^f:3: has the column 'b' twice"):
        textio.check_header(["a", "b", "b"], ["a"], "f", 3)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), (" 12 ", 12), ("9" * 18, 10**18 - 1)]
    + [(odd, None) for odd in ("", "-1", "1.0", "²", "٣", "1_0", "0x1", "9" * 19, "9" * 5_000)],
)
def test_whole_numbers(text, number):
    assert textio.whole_number(text) == number


def test_rows_that_are_held_have_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(textio, "MAX_HELD_ROWS", 2)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n\n")
    assert textio.held_rows(tmp_path / "x.csv") == [(1, ["a", "b"]), (2, ["1", "2"])]
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(InputError, match=r"x\.csv: more than 2 rows, which are all held"):
        textio.held_rows(tmp_path / "x.csv")


MADE_OF = [
    *("[]", "[0]", "{}", '{"a": 1}', "257", "1e1", '"ab"', "[[[]]]", '{"a":[]}', '"\\u20ac"', "true", '"é"'),
    *('{"id": "http://x.y/ABC_12345", "val": [1.5, "some text, that is long", {"pred": "hasExactSynonym"}]}', '"😀"'),
]


@pytest.mark.parametrize("one", MADE_OF)
@pytest.mark.parametrize("kind", [str, bytes])
def test_what_json_takes_is_told_before(one, kind):
    text = kind("[" + ",".join([one] * 5_000) + "]", *(["utf-8"] if kind is bytes else []))
    tracemalloc.start()
    try:
        value = json.loads(text)
        taken = tracemalloc.get_traced_memory()[1] + sys.getsizeof(text)
    finally:
        tracemalloc.stop()
    assert len(value) == 5_000
    assert 0.85 * taken < textio.estimated(text) < 8 * taken
    assert taken < textio.MAX_DENSE * len(text)


def test_json_that_takes_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(textio, "MAX_BYTES", 10_000)
    (tmp_path / "x.json").write_text("[" + ",".join(["[]"] * 200) + "]")
    with pytest.raises(ValueError, match="too large: its values take about"):
        textio.json_file(tmp_path / "x.json")
    with pytest.raises(InputError, match=r"x\.json: not JSON that can be read: too large"):
        obographs.load([tmp_path / "x.json"], obographs.Options(), Rejects())
    with pytest.raises(InputError, match=r"x\.json: not JSON that can be read: too large"):
        list(fhir_r5.read(tmp_path / "x.json", Header(), Rejects()))


def test_json_has_a_depth():
    assert textio.json_value(b'{"a": [1]}') == {"a": [1]}
    for text in ("[" * 100_000, '{"a":' * 100_000, "{", "\ud800", b"\xff"):
        with pytest.raises(ValueError, match=r"."):
            textio.json_value(text)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
def test_every_kind_of_line_end_ends_a_line(tmp_path, end):
    path = tmp_path / "words.txt"
    path.write_bytes(end.join(["fever", "", "dry\u2028cough", "rash"]).encode())
    assert list(textio.lines(path)) == [(1, "fever"), (3, "dry\u2028cough"), (4, "rash")]
