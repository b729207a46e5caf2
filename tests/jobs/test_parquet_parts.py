"""How an input is cut, and its rows read."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.jobs.answers import question
from alphita.jobs.parquet_parts import Columns, ParquetSource, Part, cut, read, rows_of, sources
from alphita.jobs.parts import Place
from alphita.jobs.reading import MentionFile

GROUPS = st.lists(st.lists(st.integers(0, 40), max_size=6).map(tuple), min_size=1, max_size=4)
EVERY = Columns("mention", "code", "context", "language", "frequency", "domain")
TEXTS = st.one_of(
    st.none(),
    st.sampled_from([b"", b"cold", b"a\0b", b"\xff", "naïve".encode(), b" ", b"3", b"3.0", b"-1", b" 12 ", b"12a"]),
)


@given(groups=GROUPS, size=st.integers(1, 30))
def test_every_row_is_in_one_part(groups, size):
    found = [ParquetSource(f"{number}.parquet", rows, "") for number, rows in enumerate(groups)]
    seen, first = [], 0
    for part in cut(found, size):
        assert part.first == first
        first += part.rows
        rows = groups[int(part.file[0])]
        assert part.line == sum(rows[: part.groups[0]]) + part.skip
        assert part.skip + part.rows <= sum(rows[slice(*part.groups)])
        assert part.rows < 2 * size
        seen += [(part.file, part.line + row) for row in range(part.rows)]
    wanted = [(f"{number}.parquet", row) for number, rows in enumerate(groups) for row in range(sum(rows))]
    assert seen == wanted


def test_a_large_input_has_larger_parts():
    groups = (100_000,) * 10_000
    parts = cut([ParquetSource("a", groups, "")])
    assert 900 <= len(parts) <= 1_100
    assert len(cut([ParquetSource("a", groups[:50], "")])) == 25


def test_parts_are_read_as_they_were_cut(folder):
    columns = Columns("mention", "code")
    for size in (7, 16, 1_000):
        parts = cut(sources(Place(str(folder)).parquet_files(), columns), size)
        tables = [read(part, columns) for part in parts]
        assert [len(table) for table in tables] == [part.rows for part in parts]
        rows = [
            row for n in range(4) for row in pq.read_table(folder / f"{n}.parquet").select(columns.names).to_pylist()
        ]
        assert [row for table in tables for row in table.to_pylist()] == rows


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS), max_size=12),
    line=st.integers(0, 3),
    buckets=st.integers(1, 4),
)
def test_rows_are_those_of_a_table(tmp_path_factory, rows, line, buckets):
    """The rows of `MentionFile`, which are read and checked one by one, are the oracle."""
    file = str(tmp_path_factory.getbasetemp() / "rows.parquet")
    columns = [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)] or [pa.array([], pa.binary())] * 6
    texts = [pa.Array.from_buffers(pa.string(), len(rows), column.buffers()) for column in columns]
    pq.write_table(pa.table(texts, names=EVERY.names), file)
    table = MentionFile(
        file,
        column="mention",
        code_column="code",
        context_column="context",
        language_column="language",
        frequency_column="frequency",
        domain_column="domain",
    )
    wanted = list(table.rows())[line:]
    parts = cut(sources([Place(file)], EVERY), 10_000)
    part = parts[0]
    if rows:
        part = Part(file, (0, 1), min(line, len(rows)), max(0, len(rows) - line), line, 70)
    found = rows_of(part, EVERY, buckets)
    good = [row for row in wanted if row.problem is None]
    shift = 70 - line if rows else 0
    assert found.numbers.tolist() == [row.number + shift for row in good]
    assert found.mention.to_pylist() == [row.mention for row in good]
    assert found.code.to_pylist() == [row.code for row in good]
    assert found.frequency.to_pylist() == [row.frequency for row in good]
    assert found.rejects == [row._replace(number=row.number + shift) for row in wanted if row.problem is not None]
    asked = [tuple(one.values()) for one in found.questions.take(pa.array(found.asked)).to_pylist()]
    assert asked == [(row.mention, row.context, row.language, row.domain) for row in good]
    assert len(set(asked)) == len(found.questions) == len({question(row) for row in good})
    for bucket in range(buckets):
        for one in found.questions.slice(found.bounds[bucket], np.diff(found.bounds)[bucket]).to_pylist():
            text = "\0".join(value or "" for value in one.values()).encode()
            assert int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) % buckets == bucket


def test_a_column_of_codes_may_be_of_numbers_and_not_of_bytes(tmp_path):
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": ["x"], "n": [1], "b": [b"a"], "l": [[1]]}), file)
    assert sources([Place(str(file))], Columns("text", code="n"))
    for name in ("b", "l"):
        with pytest.raises(UsageError, match=f"the column '{name}' has neither strings nor numbers"):
            sources([Place(str(file))], Columns("text", code=name))


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "text.parquet").write_text("mention\ncold\n")
    pq.write_table(pa.table({"mention": ["x"] * 1_000}), tmp_path / "cut.parquet")
    whole = (tmp_path / "cut.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    for name, words in (("empty", "empty"), ("text", "no Parquet file"), ("cut", "no Parquet file")):
        with pytest.raises(InputError, match=words) as caught:
            sources([Place(str(tmp_path / f"{name}.parquet"))], Columns("mention"))
        assert f"{name}.parquet" in str(caught.value)


def test_files_are_found(tmp_path, folder):
    names = [file.name for file in Place(str(folder)).parquet_files()]
    assert names == ["0.parquet", "1.parquet", "2.parquet", "3.parquet"]
    assert [file.name for file in Place(f"{folder}/[12].par*").parquet_files()] == names[1:3]
    assert [file.url for file in Place(f"file://{folder}/2.parquet").parquet_files()] == [f"file://{folder}/2.parquet"]
    deep = tmp_path / "a" / "year=2024"
    deep.mkdir(parents=True)
    (deep / "x.PARQUET").touch()
    (tmp_path / "a" / "_temporary").mkdir()
    (tmp_path / "a" / "_temporary" / "y.parquet").touch()
    assert [file.url for file in Place(f"{tmp_path}/a/").parquet_files()] == [str(deep / "x.PARQUET")]
    for missing in (str(tmp_path / "none"), f"{tmp_path}/*.parquet", "memory://none/*.parquet"):
        with pytest.raises(InputError, match="no Parquet file is there"):
            Place(missing).parquet_files()


def test_urls_that_cannot_be_used_are_told_without_their_secrets():
    with pytest.raises(UsageError, match="gibberish"):
        Place("gibberish://a/b").exists()
    assert str(Place("sftp://me:secret@host/folder") / "x") == "sftp://host/folder/x"
    with pytest.raises(AlphitaError, match="could not be made"):
        Place("/dev/null/x").make()


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    for root in (str(tmp_path), "memory://whole"):
        drafts, place = Place(root) / "drafts", Place(root) / "x"
        drafts.make()
        with pytest.raises(ZeroDivisionError), place.whole(drafts) as file:
            file.write(bytes(1 // 0))
        assert not place.exists()
        assert drafts.names() == []
        for content in (b"one", b"two"):
            with place.whole(drafts) as file:
                file.write(content)
            assert place.content() == content
        place.remove()
        assert not place.exists()
