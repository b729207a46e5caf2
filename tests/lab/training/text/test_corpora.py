"""Documents of text files and JSON Lines; what cannot be read is set aside."""

from __future__ import annotations

import gzip
import json

import pytest

from alphita.errors import InputError, Rejects
from alphita_lab.training.text import corpora
from alphita_lab.training.text.corpora import documents


def test_lines_are_documents(tmp_path):
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_bytes("\ufeffuno\r\n\ndue".encode())
    packed.write_bytes(gzip.compress("trè\n".encode()))
    assert list(documents([plain, packed])) == ["uno", "", "due", "trè"]


def test_json_lines(tmp_path):
    file = tmp_path / "a.jsonl.gz"
    lines = ['{"text": "a\\nb"}', "", '{"text": "", "note": "x"}', '{"text": "\\ud800"}']
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert list(documents([file])) == ["a\nb", "", "\ufffd"]
    with Rejects() as rejects:
        assert list(documents([file], text_field="note", rejects=rejects)) == ["x"]
    assert rejects.count == 2


@pytest.mark.parametrize("name", ["a.TXT", "a.md", "a", "a.gz", "a.Txt.Gz"])
def test_text_is_known_by_any_case_of_its_ending(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(gzip.compress(b"one\n") if name.lower().endswith(".gz") else b"one\n")
    assert list(documents([file])) == ["one"]


@pytest.mark.parametrize("name", ["a.csv", "a.TSV.gz", "a.parquet", "a.xlsx", "a.xml", "a.txt.zip", "notes.2024"])
def test_what_is_no_corpus_is_refused_before_anything_is_read(tmp_path, name):
    good = tmp_path / "good.txt"
    good.write_text("one\n")
    with pytest.raises(InputError, match=r"is no corpus by its ending, '\.\w+'; give .* FILE\.txt, or FILE\.jsonl"):
        next(documents([good, tmp_path / name]))


@pytest.mark.parametrize(
    "text", ['[{"text": "a"}]', '\n[\n  {"text": "a"}\n]', '{\n  "text": "a"\n}', '{"text":', '"a"', "[" * 100_000]
)
def test_one_json_value_over_the_file_is_refused(tmp_path, text):
    file = tmp_path / "a.json"
    file.write_text(text + "\n")
    with pytest.raises(InputError, match=r"is one JSON value, not an object a line; .*jq -c"):
        list(documents([file]))


def test_json_lines_in_a_json_file_have_blank_and_long_lines(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    file.write_text("\ufeff" + '{"text": "a"}\n\n[]\n', encoding="utf-8")
    with Rejects() as rejects:
        assert list(documents([file], rejects=rejects)) == ["a"]
    assert rejects.count == 1
    file.write_text("")
    assert list(documents([file])) == []
    monkeypatch.setattr(corpora, "LONGEST", 10)
    file.write_text('{"text": "longer than that"}\n')
    assert list(documents([file])) == ["longer than that"]


def test_unreadable_lines_are_set_aside(tmp_path):
    file, plain, report = tmp_path / "a.jsonl", tmp_path / "b.txt", tmp_path / "rejects.csv"
    good = json.dumps({"text": "good"})
    file.write_bytes(b'{"text": 3}\n[]\n{"text"\n\xff\n' + good.encode() + b"\n" + b"[" * 100_000)
    plain.write_bytes(b"good\n\xe8\nbetter\n")
    with Rejects(report) as rejects:
        assert list(documents([file, plain], rejects=rejects)) == ["good", "good", "better"]
    lines = report.read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split(",")[1] for line in lines] == ["1", "2", "3", "4", "6", "2"]
    assert "no text in the field 'text'" in lines[0]
    assert {line.split(",")[3] for line in lines} == {""}


def test_a_long_line_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "LONGEST", 10)
    file = tmp_path / "a.txt"
    text = "uno due tre quattro cinque\nsei àààààààààààààààà sette\n\n"
    file.write_text(text, encoding="utf-8")
    with Rejects() as rejects:
        found = list(documents([file], rejects=rejects))
    assert found[-1] == ""
    assert all(len(piece.encode()) <= 20 for piece in found)
    # Cut behind a space, or, where there is none, between two characters.
    assert "".join(found) == text.replace("\n", "")
    assert found[:2] == ["uno due ", "tre quattro "]
    assert rejects.count == 0


def test_files_that_cannot_be_read_are_errors(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(documents([tmp_path / "none.txt"]))
    file = tmp_path / "a.txt.gz"
    file.write_bytes(gzip.compress(b"text " * 1000)[:20])
    with pytest.raises(InputError, match=r"a\.txt\.gz: cannot be read"):
        list(documents([file]))
    file.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="Not a gzipped file"):
        list(documents([file]))
