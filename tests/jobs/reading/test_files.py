"""Reading input files: every format, and every way in which one can be bad."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, UsageError
from alphita.jobs.reading import MentionFile, MentionRow
from alphita.textio import UNCLOSED, CsvLines


def read(path: Path | str, content: bytes | None = None, **options: str) -> list[MentionRow]:
    if content is not None:
        Path(path).write_bytes(content)
    return list(MentionFile(path, **options).rows())


def mentions(rows: list[MentionRow]) -> list[str | None]:
    return [row.mention for row in rows]


def problems(rows: list[MentionRow]) -> list[tuple[int, int, str]]:
    return [(row.number, row.line, row.problem) for row in rows if row.problem is not None]


def test_csv(tmp_path):
    content = b'id,mention\n1,"two\nlines"\n2,"a ""quoted"", thing"\n\n3,\xc3\xa9\n'
    rows = read(tmp_path / "x.csv", content, code_column="id")
    assert rows == [
        MentionRow(1, 2, "two\nlines", "1"),
        MentionRow(2, 4, 'a "quoted", thing', "2"),
        MentionRow(3, 6, "é", "3"),
    ]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "tab", "csv.gz", "TSV.GZ"])
def test_delimiter_and_packing_follow_the_name(tmp_path, suffix):
    content = b"a,mention\n1,x\n" if "csv" in suffix else b"a\tmention\n1\tx\n"
    if suffix.lower().endswith("gz"):
        content = gzip.compress(content)
    assert read(tmp_path / f"x.{suffix}", content) == [MentionRow(1, 2, "x", None)]


def test_byte_order_mark_crlf_and_encoding(tmp_path):
    assert read(tmp_path / "x.csv", b"\xef\xbb\xbfterm\r\nx\r\n") == [MentionRow(1, 2, "x", None)]
    assert mentions(read(tmp_path / "y.csv", "term\nœil\n".encode("cp1252"), encoding="cp1252")) == ["œil"]
    assert mentions(read(tmp_path / "z.csv", b"a;b\n1;x\n", delimiter=";", column="b")) == ["x"]


def test_the_only_column_or_the_one_called_mention_is_taken(tmp_path):
    assert mentions(read(tmp_path / "x.csv", b"anything\nx\n")) == ["x"]
    assert mentions(read(tmp_path / "x.csv", b"id,mention\n1,x\n")) == ["x"]
    with pytest.raises(UsageError, match=r"several columns; name one with --column: \['id', 'term'\]"):
        read(tmp_path / "x.csv", b"id,term\n1,x\n")


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", b"id,text\n1,a\n"), ("x.tsv", b"id\ttext\n1\ta\n"), ("x.jsonl", b'{"id": 1, "text": "a"}\n')],
)
def test_a_missing_column_names_those_there_are(tmp_path, name, content):
    with pytest.raises(UsageError, match=rf"{name}: unknown column 'txt'; did you mean 'text'\? .*\['id', 'text'\]"):
        read(tmp_path / name, content, column="txt")
    with pytest.raises(UsageError, match="unknown column 'code'"):
        read(tmp_path / name, content, column="text", code_column="code")


def test_a_missing_column_of_parquet(tmp_path):
    pq.write_table(pa.table({"id": [1], "text": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match=r"x.parquet: unknown column 'txt'; did you mean 'text'"):
        read(tmp_path / "x.parquet", column="txt")
    with pytest.raises(UsageError, match="column 'id' holds int64, not strings"):
        read(tmp_path / "x.parquet", column="id")


@pytest.mark.parametrize(
    ("name", "header", "mark"),
    [("x.csv", "a;b", ";"), ("x.csv", "a\tb", "\\t"), ("x.csv", "a|b", "|"), ("x.tsv", "a,b", ",")],
)
def test_the_delimiter_is_found_out_and_told_once(tmp_path, name, header, mark, capsys):
    (tmp_path / name).write_text(f"{header}\n1{header[1]}x\n")
    table = MentionFile(tmp_path / name, column="b")
    assert mentions(list(table.rows())) == mentions(list(table.rows())) == ["x"]
    assert capsys.readouterr().err == f"{tmp_path / name}: the delimiter is '{mark}'\n"


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
def test_private_columns_are_counted_and_not_shown(tmp_path, name):
    path = tmp_path / name
    cells = ["Hepatitis C", "Ann Lee"]
    if name == "x.parquet":
        pq.write_table(pa.table({cell: ["a"] for cell in cells}), path)
    else:
        path.write_text(",".join(cells) + "\na,b\n" if name == "x.csv" else json.dumps(dict.fromkeys(cells, "a")))
    for options in ({}, {"column": "text"}, {"column": "Ann", "code_column": "code"}):
        with pytest.raises(UsageError) as raised:
            read(path, **options, private=True)
        assert not re.search("Hepatitis|Lee", str(raised.value))
        hint = "; its first line must name them" if name == "x.csv" else ""
        assert str(raised.value).endswith(f"; it has 2, which --private does not show{hint}")


def test_bad_rows_are_set_aside_and_the_next_go_on(tmp_path):
    content = b'mention,b\ngood,1\nbad \xe9,2\nnul \0,3\ntoo,many,cells\nfew\n"quo"te,4\nlast,5\n'
    rows = read(tmp_path / "x.csv", content)
    assert mentions(rows) == ["good", None, None, None, None, None, "last"]
    assert problems(rows) == [
        (2, 3, "not valid utf-8 text"),
        (3, 4, "a NUL byte"),
        (4, 5, "3 cells, but the header has 2"),
        (5, 6, "1 cells, but the header has 2"),
        (6, 7, "not a row of this format: ',' expected after '\"'"),
    ]
    assert rows[-1] == MentionRow(7, 8, "last", None)


def test_bad_bytes_in_a_column_that_is_not_read_do_no_harm(tmp_path):
    assert mentions(read(tmp_path / "x.csv", b"mention,b\ngood,\xe9\n")) == ["good"]
    rows = read(tmp_path / "x.csv", b"mention,b\ngood,\xe9\n", code_column="b")
    assert problems(rows) == [(1, 2, "not valid utf-8 text in 'b'")]


def test_a_quote_that_is_never_closed_does_not_swallow_the_file_silently(tmp_path):
    rows = read(tmp_path / "x.csv", b'mention\na\n"b\nc\nd\n')
    assert mentions(rows) == ["a", None, "c", "d"]
    assert problems(rows) == [(2, 3, f"not a row of this format: {UNCLOSED}")]
    assert rows[1].value == '"b'
    rows = read(tmp_path / "y.csv", b'mention\n"' + b"x\n" * 6_000 + b'y\n"z\n')
    assert problems(rows) == [
        (1, 2, f"not a row of this format: {UNCLOSED}"),
        (6002, 6003, "not a row of this format: unexpected end of data"),
    ]
    assert mentions(rows) == [None, *["x"] * 5_999, "y", None]
    rows = read(tmp_path / "z.csv", b'mention,b\n"' + b"x" * 600_000 + b"\n" + b"x" * 600_000 + b",1\ny,2\n")
    assert problems(rows) == [(1, 2, f"not a row of this format: {UNCLOSED}")]
    assert mentions(rows)[-1] == "y"


@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t")])
def test_rows_after_a_stray_quote_are_read(tmp_path, suffix, mark):
    lines = [f"{number}{mark}term {number}" for number in range(20_000)]
    lines[5], lines[700], lines[9_000], lines[9_500] = (
        f'5{mark}"open',
        f'700{mark}"shut"',
        f'9000{mark}"open',
        f'9500{mark}shut" again',
    )
    rows = read(tmp_path / f"x.{suffix}", "\n".join(["id" + mark + "mention", *lines, ""]).encode())
    assert problems(rows) == [(at + 1, at + 2, f"not a row of this format: {UNCLOSED}") for at in (5, 9_000)]
    assert [(row.number, row.line) for row in rows] == [(at + 1, at + 2) for at in range(20_000)]
    assert [row.mention for row in rows[699:702]] == ["term 699", "shut", "term 701"]


def test_quoted_cells_are_taken_whole_however_many_lines_they_have(tmp_path):
    long = "\n".join(f"line {number}, of the note" for number in range(5_000))
    rows = read(tmp_path / "x.csv", f'mention,note\na,"{long}"\n"{long}",b\nc,d\n'.encode(), context_column="note")
    assert rows == [
        MentionRow(1, 2, "a", context=long),
        MentionRow(2, 5_002, long, context="b"),
        MentionRow(3, 10_002, "c", context="d"),
    ]


@pytest.mark.parametrize("line", ['x",1,"y', 'x",1,2,"y', 'x"",1', '"x,1', 'x,"'])
def test_lines_are_read_a_few_times_only_however_quotes_stand_in_them(tmp_path, line, monkeypatch):
    handed_out = 0
    hand_out = CsvLines.__next__

    def counted(lines):
        nonlocal handed_out
        handed_out += 1
        return hand_out(lines)

    monkeypatch.setattr(CsvLines, "__next__", counted)
    rows = read(tmp_path / "x.csv", ("mention,b\n" + 'a,"b\n' + f"{line}\n" * 3_000).encode())
    assert len(rows) >= 1_000
    assert handed_out < 6 * 3_000


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.txt", "x.parquet", "x.csv.gz"])
def test_an_empty_file(tmp_path, name):
    content = gzip.compress(b"") if name.endswith("gz") else b""
    with pytest.raises(InputError, match=rf"{name}: the file is empty"):
        read(tmp_path / name, content)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"PK\x03\x04....", "a zip file, or one of Excel's; name that .xlsx"),
        ("x.csv", b"PAR1....", "a Parquet file"),
        ("x.txt", gzip.compress(b"x\n"), "a gzip file; name it .gz"),
        ("x.parquet", b"mention\nx\n", "no Parquet file that can be read"),
        ("x.csv.gz", b"mention\nx\n", "damaged gzip file: Not a gzipped file"),
        ("x.csv.gz", gzip.compress(b"mention\n" + b"x\n" * 99)[:-9], "damaged gzip file"),
    ],
)
def test_a_file_of_another_kind(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, content)


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("alphita.textio.MAX_LINE_CHARACTERS", 2**20)
    with pytest.raises(InputError, match=r"x.txt:2: a line of more than 1 million characters; is it a text file"):
        read(tmp_path / "x.txt", b"a\n" + b"x" * (2**20 + 1))


def test_a_missing_file_and_an_unknown_suffix(tmp_path):
    with pytest.raises(InputError, match=r"none.csv: cannot read the input: No such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "none.parquet")
    with pytest.raises(UsageError, match=r"cannot tell the format of 'x.docx'; say --input-format"):
        MentionFile(tmp_path / "x.docx")
    with pytest.raises(UsageError, match="unknown input format 'cvs'; did you mean 'csv'"):
        MentionFile(tmp_path / "x", format="cvs")


def test_wrong_options(tmp_path):
    with pytest.raises(UsageError, match="unknown encoding 'utf-9'"):
        MentionFile("x.csv", encoding="utf-9")
    for encoding in ("rot13", "base64"):
        with pytest.raises(UsageError, match="encoding"):
            MentionFile("x.csv", encoding=encoding)
    with pytest.raises(UsageError, match="plain lines have no columns"):
        MentionFile("x.txt", column="a")
    with pytest.raises(UsageError, match="one character, not '::'"):
        MentionFile("x.csv", delimiter="::")
    with pytest.raises(UsageError, match="Parquet cannot be read from stdin"):
        MentionFile("-", format="parquet")


def test_json_lines(tmp_path):
    lines = [
        {"mention": "a", "id": 7},
        {"mention": None},
        {"other": "b"},
        {"mention": 5},
        ["mention"],
        {"mention": "c\ud800"},
        {"mention": "d\0"},
        {"mention": "e", "id": [1]},
        {"mention": "é", "id": "x"},
    ]
    content = "\n".join(json.dumps(line) for line in lines) + "\n\n{oops\n"
    rows = read(tmp_path / "x.jsonl", content.encode(), code_column="id")
    assert [(row.mention, row.code) for row in rows if row.problem is None] == [("a", "7"), ("", None), ("é", "x")]
    assert [(line, problem) for _, line, problem in problems(rows)] == [
        (3, "no 'mention' in this object"),
        (4, "'mention' is not a string"),
        (5, "not a JSON object"),
        (6, "not valid utf-8 text"),
        (7, "a NUL byte"),
        (8, "'id' is neither string nor number"),
        (11, "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ]


def test_a_key_that_no_object_has_among_those_looked_at_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("alphita.jobs.reading.LOOKED_AT_LINES", 3)
    early, late = (b'{"mention": "a"}\n' * n + b'{"mention": "b", "code": "2"}\n' for n in (2, 3))
    assert [row.code for row in read(tmp_path / "x.jsonl", early, code_column="code")] == [None, None, "2"]
    with pytest.raises(UsageError, match=r"x.jsonl: unknown column 'code'; choose from \['mention'\]"):
        read(tmp_path / "x.jsonl", late, code_column="code")
    # Whether or not the objects begin after that, each row speaks for itself.
    rows = read(tmp_path / "x.jsonl", b"{oops\n" * 3 + late, code_column="code")
    assert [(row.mention, row.code) for row in rows] == [(None, None)] * 3 + [("a", None)] * 3 + [("b", "2")]
    monkeypatch.setattr("alphita.jobs.reading.LOOKED_AT_CHARACTERS", 10)
    with pytest.raises(UsageError, match="unknown column 'code'"):
        read(tmp_path / "x.jsonl", early, code_column="code")


FULL = {"code_column": "id", "context_column": "note", "language_column": "lang", "frequency_column": "n"}


def full_table(path: Path, rows: list[tuple[str | None, ...]]) -> Path:
    """Write (id, mention, note, lang, n) in the format that the suffix tells; None is a missing value."""
    names = ("id", "mention", "note", "lang", "n")
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)}), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([names, *rows])
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
def test_context_language_and_frequency(tmp_path, suffix):
    rows = [
        ("1", "a", "she has a", "en", "3"),
        ("2", "b", "", "", ""),
        (None, "c", None, None, None),
        ("4", "d", "é,\n", "de-AT", " 0 "),
        ("5", "e", None, None, "7.0"),
    ]
    found = read(full_table(tmp_path / f"x.{suffix}", rows), **FULL)
    assert [row[2:9] for row in found] == [
        ("a", "1", "she has a", "en", 3, None, None),
        ("b", "2", None, None, None, None, None),
        ("c", "" if suffix in ("csv", "tsv") else None, None, None, None, None, None),
        ("d", "4", "é,\n", "de-AT", 0, None, None),
        ("e", "5", None, None, 7, None, None),
    ]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
@pytest.mark.parametrize("bad", ["-1", "2.5", "many", "1e3", "1_000", "1,000", "٣", "9" * 19, "9" * 5000, "nan"])
def test_a_frequency_that_is_no_count_is_a_bad_row(tmp_path, suffix, bad):
    rows = [("1", "a", None, None, bad), ("2", "b", None, None, "1")]
    found = read(full_table(tmp_path / f"x.{suffix}", rows), **FULL)
    assert [(row.mention, row.frequency, row.problem, row.value) for row in found] == [
        (None, None, "'n' is no whole number of 0 or more", bad),
        ("b", 1, None, None),
    ]


def test_a_problem_names_the_column_it_is_in(tmp_path):
    rows = [
        ("1", "a", "bad\0", "en", "3"),
        ("1\0", "b", "", "", ""),
        ("3", "c", "", "", "some"),
        ("4", "d\0", "", "", ""),
    ]
    found = read(full_table(tmp_path / "x.csv", rows), **FULL, column="mention")
    assert [(row.field, row.value) for row in found] == [
        (FULL["context_column"], "bad\0"),
        (FULL["code_column"], "1\0"),
        (FULL["frequency_column"], "some"),
        ("mention", "d\0"),
    ]
    found = read(
        tmp_path / "x.jsonl", b'{"m": "a", "c": []}\n{"m": 1, "c": 1}\n{"c": 1}\n3\n', column="m", code_column="c"
    )
    assert [row.field for row in found] == ["c", "m", "m", None]
    assert [row.field for row in read(tmp_path / "y.csv", b"a,mention\n1\n")] == [None]


def test_a_pipe_is_read_once_and_by_a_files_name(tmp_path):
    pipe = tmp_path / "x.csv"
    os.mkfifo(pipe)
    table = MentionFile(pipe)
    assert table.is_stream
    assert not table.is_stdin
    writing = threading.Thread(target=pipe.write_bytes, args=(b"mention\ncold\n",), daemon=True)
    writing.start()
    rows = table.rows()
    assert next(rows).mention == "cold"
    assert table.estimate_rows(1) is None
    assert list(rows) == []
    writing.join()
    assert not MentionFile(tmp_path / "missing.csv").is_stream
    with pytest.raises(UsageError, match="Parquet cannot be read from a pipe"):
        MentionFile(pipe, "parquet")


def test_frequencies_that_are_numbers(tmp_path):
    lines = [{"mention": "a", "n": value} for value in (5, 5.0, 2.5, -1, True, [5], float("nan"), 10**18 - 1)]
    found = read(tmp_path / "x.jsonl", "\n".join(map(json.dumps, lines)).encode(), frequency_column="n")
    assert [row.frequency for row in found] == [5, 5, None, None, None, None, None, 10**18 - 1]
    assert [row.problem is None for row in found] == [True, True, False, False, False, False, False, True]
    for kind, values in [
        (pa.int16(), [5, None, -1]),
        (pa.float64(), [5.0, float("nan"), 0.5]),
        (pa.uint64(), [5, None, 2**63]),
    ]:
        pq.write_table(pa.table({"mention": ["a", "b", "c"], "n": pa.array(values, kind)}), tmp_path / "x.parquet")
        found = read(tmp_path / "x.parquet", frequency_column="n")
        assert [row.frequency for row in found] == [5, None, None]
        assert [row.problem is None for row in found] == [True, True, False]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize(("place", "name"), [(0, "id"), (2, "note"), (3, "lang")])
def test_bad_text_in_a_further_column_is_a_bad_row(tmp_path, suffix, place, name):
    for bad, problem in (("x\0", "a NUL byte"), ("x\udce9", "not valid utf-8 text")):
        row = ["1", "a", "b", "en", "1"]
        row[place] = bad
        found = read(full_table(tmp_path / f"x.{suffix}", [tuple(row), ("2", "b", "", "", "")]), **FULL)
        assert [row.mention for row in found] == [None, "b"]
        assert found[0].problem == f"{problem} in {name!r}"


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet(tmp_path, kind):
    values = ["a", None, "é\nb", ""] * 3
    table = pa.table({"code": range(12), "term": pa.array(values, pa.string()).cast(kind)})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=5)
    rows = read(tmp_path / "x.parquet", column="term", code_column="code")
    assert mentions(rows) == ["a", "", "é\nb", ""] * 3
    assert [row.code for row in rows] == [str(number) for number in range(12)]
    assert [row.number for row in rows] == list(range(1, 13))


def test_parquet_with_bytes_that_are_no_text(tmp_path):
    raw = pa.array([b"good", b"bad \xe9"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    pq.write_table(pa.table({"mention": text}), tmp_path / "x.parquet")
    rows = read(tmp_path / "x.parquet")
    assert mentions(rows) == ["good", None]
    assert problems(rows) == [(2, 2, "not valid utf-8 text")]


def test_rows_are_estimated_from_what_was_read(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"mention\n" + b"some text\n" * 200_000)
    table = MentionFile(tmp_path / "x.csv")
    rows = table.rows()
    for _ in range(50_000):
        next(rows)
    assert table.estimate_rows(50_000) == pytest.approx(200_000, rel=0.05)
    list(rows)
    assert table.estimate_rows(50_000) == 200_000


odd = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(cells=st.lists(st.tuples(odd, odd), max_size=8))
def test_csv_round_trip_of_odd_strings(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("odd") / "x.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\r\n").writerows([("code", "mention"), *cells])
    rows = list(MentionFile(path, code_column="code").rows())
    assert [(row.code, row.mention) for row in rows] == cells


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_unit_and_range_stand_with_the_value_that_a_mention_ends_with(tmp_path, format):
    lines = [
        ("K+ 2.8", "mmol/L", "3.5-5.1", "K+ 2.8 mmol/L (3.5-5.1)"),
        ("K+ 2.8 ", "mmol/L", "", "K+ 2.8  mmol/L"),
        ("CRP 40", "", "[<5]", "CRP 40 (<5)"),
        ("WBC high", "10^9/L", "4-11", "WBC high [10^9/L]"),
        ("CD4", "10^9/L", "", "CD4 [10^9/L]"),
        ("result", "see comment", "", "result"),
        ("K 3", "", " ", "K 3"),
        ("seizure", None, None, "seizure"),
    ]
    path = tmp_path / f"x.{format}"
    columns = ("mention", "unit", "range")
    if format == "csv":
        text = [",".join(f'"{cell or ""}"' for cell in line[:3]) for line in lines]
        path.write_text("\n".join([",".join(columns), *text]))
    elif format == "jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(columns, line, strict=False))) for line in lines))
    else:
        pq.write_table(pa.table({name: [line[at] for line in lines] for at, name in enumerate(columns)}), path)
    table = MentionFile(path, unit_column="unit", range_column="range")
    rows = list(table.rows())
    assert [row.asked for row in rows] == [line[3] for line in lines]
    assert [row.mention for row in rows] == [line[0] for line in lines]
    with pytest.raises(UsageError, match="unknown column 'units'"):
        list(MentionFile(path, unit_column="units").rows())


def test_the_only_column_may_have_a_comma_in_its_name(tmp_path):
    assert mentions(read(tmp_path / "x.csv", b'"term, raw"\nx\n')) == ["x"]
    assert mentions(read(tmp_path / "x.jsonl", b'{"a;b": "x"}\n')) == ["x"]


def test_a_private_column_alone_or_twice_is_not_shown(tmp_path):
    for content, options, said in (
        (b"Hepatitis;Ann Lee\na;b\n", {}, "several columns; name one with --column; it has 2, which --private does"),
        (b"Hepatitis;Ann Lee\na;b\n", {"column": "text"}, "unknown column 'text'; it has 2, which"),
        (b"text,text,Ann Lee\na,b,c\n", {"column": "text"}, "stands more than once in the header; it has 3, which"),
    ):
        with pytest.raises(UsageError, match=re.escape(said)) as raised:
            read(tmp_path / "x.csv", content, **options, private=True)
        assert "Lee" not in str(raised.value)


def test_rows_within_a_row_with_too_many_cells_are_read(tmp_path):
    rows = read(tmp_path / "x.csv", b'mention,b\nx,"open\ny,1\nz,2\n",3\n')
    assert [(number, line) for number, line, _ in problems(rows)] == [(1, 2), (4, 5)]
    assert rows[0].problem == f"not a row of this format: {UNCLOSED}"
    assert mentions(rows)[1:3] == ["y", "z"]


def test_context_and_language_must_be_strings(tmp_path):
    content = b'{"mention": "a", "note": 5, "lang": "en"}\n{"mention": "a", "note": "x", "lang": []}\n'
    rows = read(tmp_path / "x.jsonl", content, context_column="note", language_column="lang")
    assert [row.problem for row in rows] == ["'note' is not a string", "'lang' is not a string"]
    pq.write_table(pa.table({"mention": ["a"], "note": [5]}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="column 'note' holds int64, not strings"):
        read(tmp_path / "x.parquet", context_column="note")
