"""`alphita search`."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import alphita
from tests.doubles import HashEncoder
from tests.search.conftest import ROWS, products_of


@pytest.fixture(autouse=True)
def _doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda *_, **__: HashEncoder())
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return products_of(ROWS, tmp_path_factory.mktemp("products") / "p.terminology").path


@pytest.fixture
def built(terminology: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    out = tmp_path / "p.search"
    assert alphita("search", "build", "--model", "any", "-t", terminology, "-o", out) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}: 5 products, 11 values of 3 attributes, 13 triples\n"
    assert f"next: alphita search query {out}" in printed.err
    return out


def test_products_are_printed_with_the_reason(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert alphita("search", "query", built, "tympanitis", "Nausea", "--top", 1, "--where", "route=oral") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[: len("   1  Cefadrel")] for line in lines] == [
        "tympanitis",
        "   1  Cefadrel",
        "Nausea",
        "   1  Motiral ",
    ]
    assert lines[1].endswith("  indication: tympanitis 1.00")
    assert lines[3].endswith("  indication: nausea 1.00")


def test_json_and_files(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "nasal congestion\n\n  dry skin \n?\n"
    (tmp_path / "q.txt").write_text(text, encoding="utf-8")
    words = ("search", "query", built, "--top", 2, "--json")
    assert alphita(*words, "--file", tmp_path / "q.txt") == 0
    printed = capsys.readouterr()
    answers = [json.loads(line) for line in printed.out.splitlines()]
    assert [answer["query"] for answer in answers] == ["nasal congestion", "dry skin"]
    assert printed.err == "2 empty lines left out\n"
    first = answers[0]["products"][0]
    assert (first["title"], first["why"]) == ("Nasalin spray", "indication: nasal congestion 1.00")
    assert first["matches"][0] == {
        "route": "values",
        "attribute": "indication",
        "text": "nasal congestion",
        "name": "nasal congestion",
        "similarity": 1.0,
    }
    assert [len(answer["products"]) for answer in answers] == [2, 2]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"\ufeff{text}"))
    assert alphita(*words, "--file", "-") == 0
    assert capsys.readouterr().out == printed.out


def test_a_query_ends_with_its_line_and_nowhere_else(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.txt").write_bytes("dry\u2028skin\r\nnausea".encode())
    assert alphita("search", "query", built, "--json", "--file", tmp_path / "q.txt") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.rstrip("\n").split("\n")]
    assert [answer["query"] for answer in answers] == ["dry\u2028skin", "nausea"]


def test_answers_are_printed_as_they_are_found(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, printed = [], []

    class Encoder(HashEncoder):
        def encode(self, strings: Sequence[str]) -> np.ndarray:
            blocks.append(list(strings))
            printed.append(len(capsys.readouterr().out.splitlines()))
            return super().encode(strings)

    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda *_, **__: Encoder())
    monkeypatch.setattr("alphita.search.product_search.QUERIES_AT_ONCE", 2)
    (tmp_path / "q.txt").write_text("nausea\ntympanitis\ndry skin\near\n", encoding="utf-8")
    assert alphita("search", "query", built, "--file", tmp_path / "q.txt", "--json") == 0
    assert blocks == [["nausea", "tympanitis"], ["dry skin", "ear"]]
    assert printed == [0, 2]
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_attributes_and_routes(
    built: Path, terminology: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("search", "build", "--model", "any", "-t", terminology, "-o")
    assert alphita(*words, tmp_path / "r.search", "--attribute", "route") == 0
    assert "5 products, 4 values of 1 attributes, 5 triples" in capsys.readouterr().out
    assert alphita("search", "query", built, "tympan balm", "--route", "titles", "--top", 1) == 0
    assert capsys.readouterr().out == "tympan balm\n   1  Tympan balm   1.00  title: Tympan balm 1.00\n"
    assert alphita(*words, built) == 2
    assert "already exists" in capsys.readouterr().err
    assert alphita(*words, built, "--force") == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([" . "], 2, "query 1 is empty after cleaning"),
        (["ear", "--route", "letters"], 2, "unknown route 'letters'"),
        (["ear", "--route", "predicted"], 2, "the recipe electra_em_pap makes"),
        (["ear", "--where", "rout=oral"], 2, "did you mean 'route'"),
        (["ear", "--where", "route=oral", "--where", "indication=dry skin"], 0, ""),
        (["--file", "/nowhere/q.txt"], 1, "cannot be read"),
    ],
)
def test_wrong_use(
    built: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert alphita("search", "query", built, *arguments) == code
    printed = capsys.readouterr()
    assert message in printed.err
    if code == 0:
        assert printed.out.splitlines()[1].strip() == "nothing found"


def test_a_file_without_a_query(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.txt").write_bytes(b"\xff\xfe\xfa")
    assert alphita("search", "query", built, "--file", tmp_path / "q.txt") == 1
    assert "not UTF-8" in capsys.readouterr().err
    (tmp_path / "q.txt").write_text("\n ..\n", encoding="utf-8")
    assert alphita("search", "query", built, "--file", tmp_path / "q.txt") == 1
    assert "holds no query" in capsys.readouterr().err
