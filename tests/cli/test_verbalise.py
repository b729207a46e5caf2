"""`alphita terminology verbalise`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from tests.cli.command import alphita
from tests.lab.verbalisation.conftest import make, small  # noqa: F401


def texts(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def terminology(small: Terminology) -> Path:  # noqa: F811
    return small.path


def test_texts_are_written_and_counted(terminology, tmp_path, capsys):
    output = tmp_path / "new" / "t.jsonl"
    assert alphita("terminology", "verbalise", terminology, "-o", output) == 0
    found = texts(output)
    assert all(list(entry) == ["concept_id", "kind", "text"] for entry in found)
    assert {entry["kind"] for entry in found} == {"definition", "description"}
    said = capsys.readouterr()
    assert f"{output}: {len(found)} texts of 4 concepts: 3 definitions, {len(found) - 3} descriptions" in said.out
    assert "definition: concepts without one: 4" in said.err
    again = tmp_path / "again.jsonl"
    assert alphita("terminology", "verbalise", terminology, "-o", again) == 0
    assert again.read_bytes() == output.read_bytes()
    assert alphita("terminology", "verbalise", terminology, "-o", output) == 2
    assert alphita("terminology", "verbalise", terminology, "-o", output, "--force", "--kinds", "definition") == 0
    assert {entry["kind"] for entry in texts(output)} == {"definition"}
    assert alphita("terminology", "verbalise", terminology, "-o", output, "--force", "--language", "fr") == 0
    assert [entry["concept_id"] for entry in texts(output)] == ["T:08"]


def test_a_split_is_kept(terminology, tmp_path):
    split = tmp_path / "s.split"
    Split(["Too little air"], ["T:03"], ["test"], {}, [("T:04", "has_symptom", "T:03")]).save(split)
    output = tmp_path / "t.jsonl"
    arguments = ("terminology", "verbalise", terminology, "-o", output, "--split", split)
    assert alphita(*arguments, "--prompts", tmp_path / "p.jsonl") == 0
    assert not any("breathlessness" in entry["text"] or "little air" in entry["text"] for entry in texts(output))
    asked = {entry["concept_id"]: entry["prompt"] for entry in texts(tmp_path / "p.jsonl")}
    assert "Too little air" not in asked["T:03"]
    assert "mitral leak" not in asked["T:03"]


def test_generated_definitions_prompts_and_their_price(terminology, tmp_path, capsys):
    generated = tmp_path / "g.jsonl"
    generated.write_text(
        '{"concept_id": "T:07", "text": "A word that stands alone."}\n{"concept_id": "T:99", "text": "x y z"}\n'
    )
    output, prompts = tmp_path / "t.jsonl", tmp_path / "p.jsonl"
    arguments = ("terminology", "verbalise", terminology, "-o", output, "--generated", generated)
    assert alphita(*arguments, "--prompts", prompts, "--price", "1,2") == 0
    assert {"concept_id": "T:07", "kind": "generated", "text": "A word that stands alone."} in texts(output)
    assert [entry["concept_id"] for entry in texts(prompts)] == ["T:02", "T:05", "T:08"]
    # Which texts are written decides nothing on who has a definition.
    other = ("--prompts", tmp_path / "q.jsonl", "--kinds", "description", "--force")
    assert alphita(*arguments, *other) == 0
    assert (tmp_path / "q.jsonl").read_bytes() == prompts.read_bytes()
    capsys.readouterr()
    assert alphita(*arguments, "--prompts", prompts, "--price", "1,2", "--force") == 0
    said = capsys.readouterr()
    assert "1 generated definitions" in said.out
    assert f"{prompts}: 3 prompts" in said.out
    assert "240 written" in said.out
    assert "1 line left out; see" in said.err
    assert "no concept has this id" in Path(f"{output}.rejects.csv").read_text()
    assert alphita(*arguments, "--force", "--strict") == 1
    assert "g.jsonl:2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--kinds", "definitions"], 2, "did you mean 'definition'"),
        (["--kinds", ""], 2, "give some of the kinds"),
        (["--kinds", "generated"], 1, "no concept has a text"),
        (["--generated", "none.jsonl"], 1, "cannot be read"),
        (["--generated", "t.jsonl"], 2, "--output and --generated name the same file"),
    ],
)
def test_wrong_use_leaves_no_file(terminology, tmp_path, capsys, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    assert alphita("terminology", "verbalise", terminology, "-o", "t.jsonl", *arguments) == code
    assert words in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.glob("*.jsonl"))
