"""`alphita mentions`, with a tiny model and a few texts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from alphita.terminology.splits import Split
from alphita.terminology.store import load_terminology
from alphita_lab.training.mentions.store import Mentions
from tests.cli.command import alphita
from tests.tables import terminology_of
from tests.tiny import tiny_model

ROWS = [
    ("T:1", "dolore del cuore", "it"),
    ("T:1", "cardiodinia", "it"),
    ("T:1", "heart pain", "en"),
    ("T:2", "città", "it"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("mentions") / "model")


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("mentions") / "t.terminology"
    terminology_of(ROWS, path)
    return path


@pytest.fixture
def asked(model, terminology, tmp_path) -> tuple[object, ...]:
    return ("mentions", "-t", terminology, "-o", tmp_path / "x.mentions", "--encoder", model)


def test_it_writes_mentions_and_says_how_many(asked, terminology, tmp_path, capsys):
    text, notes = tmp_path / "a.txt", tmp_path / "b.jsonl.gz"
    text.write_text("Dell’heart pain, il dolore del cuore\n\nCardiodinia e città\n", encoding="utf-8")
    notes.write_bytes(gzip.compress(b'{"note": "Heart-pain"}\n{"text": 1}\nno\n'))
    code = alphita(
        *asked, text, notes, "--text-field", "note", "--ambiguous", "keep", "--sequence-tokens", 20, "--contexts", 1
    )
    printed, said = capsys.readouterr()
    assert code == 0
    assert printed.splitlines() == [
        f"{tmp_path / 'x.mentions'}: 5 mentions of 4 names of 2 concepts in 3 documents of 12 words",
        "  kept: 4 windows, 4 sequences",
    ]
    assert "2 lines left out; see" in said
    rejected = (tmp_path / "x.mentions.rejects.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[1] for line in rejected[1:]] == ["2", "3"]
    found = Mentions.load(tmp_path / "x.mentions")
    assert found.concept_ids == ["T:1", "T:2"]
    assert found.manifest["config"]["ambiguous"] == "keep"
    assert found.manifest["terminology"] == load_terminology(terminology).content_hash


def test_language_and_split(asked, tmp_path, capsys):
    text = tmp_path / "a.txt"
    text.write_text("heart pain e dolore del cuore\ncardiodinia\n", encoding="utf-8")
    Split(["cardiodinia"], ["T:1"], ["test"]).save(tmp_path / "s.split")
    assert alphita(*asked, text, "--language", "ita", "--split", tmp_path / "s.split") == 0
    assert "1 mentions of 1 names of 1 concepts in 2 documents" in capsys.readouterr().out
    found = Mentions.load(tmp_path / "x.mentions")
    assert found.strings.to_pylist() == ["dolore del cuore"]
    assert found.manifest["config"]["languages"] == ["it"]
    assert found.manifest["counts"]["held_out"] == 1
    assert not (tmp_path / "x.mentions.rejects.csv").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--language", "de"), 1, "no name to search for is in the language 'de'"),
        ((), 1, "no name of the terminology occurs in it"),
    ],
)
def test_wrong_use(asked, tmp_path, capsys, options, code, message):
    text = tmp_path / "a.txt"
    text.write_text("nothing\n", encoding="utf-8")
    assert alphita(*asked, text, *options) == code
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
