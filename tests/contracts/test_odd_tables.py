"""Tables as spreadsheets leave them: every door that reads tables reads the same of each."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from alphita import textio
from alphita.errors import Rejects
from alphita.jobs.reading import MentionFile
from alphita.mappings.formats import Header, chosen
from alphita.terminology.store import Terminology
from tests.cli.command import alphita

ROWS = [["id", "term"], ["X:1", "fever"], ["X:2", "Fièvre; frissons"]]
MAPPINGS = [["mention", "concept_id"], ["fever", "X:1"], ["Fièvre; frissons", "X:2"]]


def text(rows: list[list[str]], sign: str, end: str) -> str:
    return "".join(sign.join(f'"{cell}"' if sign in cell else cell for cell in row) + end for row in rows)


WRITTEN: dict[str, Callable[[list[list[str]]], bytes]] = {
    "cr.csv": lambda rows: text(rows, ",", "\r").encode(),
    "cr.tsv": lambda rows: text(rows, "\t", "\r").encode(),
    "separator.csv": lambda rows: ("sep=;\r\n" + text(rows, ";", "\r\n")).encode(),
    "separator_in_quotes.csv": lambda rows: ('"sep=;"\n' + text(rows, ";", "\n")).encode(),
    "separator_with_mark.csv": lambda rows: codecs.BOM_UTF8 + ("sep=,\r\n" + text(rows, ",", "\r\n")).encode(),
    "utf16.csv": lambda rows: text(rows, ",", "\r\n").encode("utf-16"),
    "utf16.tsv": lambda rows: codecs.BOM_UTF16_BE + text(rows, "\t", "\n").encode("utf-16-be"),
    "utf16_cr.csv": lambda rows: text(rows, ",", "\r").encode("utf-16"),
    "unicode_text.txt": lambda rows: text(rows, "\t", "\r\n").encode("utf-16"),
}


def of_mentions(path: Path, encoding: str) -> list[tuple[str | None, str | None]]:
    rows = list(MentionFile(path, column="term", code_column="id", encoding=encoding).rows())
    assert [row.problem for row in rows] == [None, None]
    return [(row.code, row.mention) for row in rows]


def of_columns(path: Path, encoding: str) -> list[tuple[str | None, str | None]]:
    how = textio.Reading(encoding, "--encoding", lambda line: None)
    own = "\t" if path.suffix == ".txt" else ""
    return [(id, term) for _, (id, term) in textio.columns(path, ("id", "term"), own, how=how)]


@pytest.mark.parametrize("door", [of_mentions, of_columns])
@pytest.mark.parametrize("name", WRITTEN)
def test_rows(tmp_path, name, door):
    path = tmp_path / name
    path.write_bytes(WRITTEN[name](ROWS))
    for encoding in ("utf-8", *(["utf-16"] if "16" in name or "unicode" in name else [])):
        assert door(path, encoding) == [("X:1", "fever"), ("X:2", "Fièvre; frissons")]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_terminology(tmp_path, name):
    path, out = tmp_path / name, tmp_path / "x.terminology"
    path.write_bytes(WRITTEN[name](ROWS))
    assert alphita("terminology", "import", "table", path, "-o", out) == 0
    assert sorted(Terminology(out).terms["string"].to_pylist()) == ["Fièvre; frissons", "fever"]


@pytest.mark.parametrize("name", [name for name in WRITTEN if not name.endswith(".txt")])
def test_mappings(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(WRITTEN[name](MAPPINGS))
    header = Header(tell=lambda line: None)
    read = list(chosen(path, "", "--from", to_read=True).read(path, header, Rejects(strict=True)))
    assert [(one.concept_id, one.mention) for one in read] == [("X:1", "fever"), ("X:2", "Fièvre; frissons")]
