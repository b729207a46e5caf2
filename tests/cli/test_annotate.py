"""`alphita annotate` on the command line."""

from __future__ import annotations

import json

from tests.cli.command import alphita


def test_a_text_is_annotated_and_counted(index_path, tmp_path, capsys):
    text = tmp_path / "note.txt"
    text.write_text("No seizures. A headache.", encoding="utf-8")
    report = tmp_path / "report.json"
    assert alphita("annotate", text, "--to", index_path, "-o", tmp_path / "o.csv", "--report", report) == 0
    said = capsys.readouterr().out
    assert "1 text, 4 words: 2 mentions of 2 concepts: 1 negated, 1 affirmed" in said
    assert json.loads(report.read_text())["mentions"] == 2
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 3


def test_stdout_holds_the_mentions_alone(index_path, tmp_path, capfd):
    text = tmp_path / "note.txt"
    text.write_text("A headache.", encoding="utf-8")
    assert alphita("annotate", text, "--to", index_path, "-o", "-", "--exact") == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["annotations"][0]["concept_id"] == "T:2"
    assert "1 text, 2 words" in err


def test_a_wrong_rule_file_is_told_before_any_work(index_path, tmp_path, capsys):
    (tmp_path / "note.txt").write_text("A headache.", encoding="utf-8")
    rules = tmp_path / "rules.tsv"
    rules.write_text("phrase\tcategory\tdirection\treach\nno\tdenied\tahead\t\n", encoding="utf-8")
    arguments = ("annotate", tmp_path / "note.txt", "--to", index_path, "-o", tmp_path / "o.csv")
    assert alphita(*arguments, "--context-rules", rules) == 1
    assert "rules.tsv:2: unknown category (field 'category', value 'denied')" in capsys.readouterr().err
    assert not (tmp_path / "o.csv").exists()
