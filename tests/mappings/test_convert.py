"""`alphita mappings convert`."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from alphita.cli.mappings import app
from alphita.errors import InputError, UsageError

HEADER = ["--set-id", "https://example.org/maps/mine", "--licence", "https://example.org/licence"]
LOCAL = ["--source-vocabulary", "LOCAL", "--prefix", "LOCAL=https://example.org/local/"]
ROWS = (
    "row,mention_code,mention,rank,concept_id,concept_name,relation,method,confidence,explanation\n"
    "1,T1,sore toe,1,SNOMEDCT:100,Toe pain,exact,nearest,0.9,so\n1,T1,sore toe,2,SNOMEDCT:101,Toe,,nearest,,\n"
    "2,T2,no toe,1,,,,nil,0.5,\n3,T3,bad,1,SNOMEDCT:100,Toe pain,wrong,nearest,,\n"
)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(ROWS)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


def test_to_sssom(source, tmp_path):
    out = tmp_path / "new" / "out.sssom.tsv"
    result = run(source, "-o", out, *HEADER, *LOCAL)
    assert result.exit_code == 0, result.output
    assert out.read_text().splitlines()[-2].startswith("LOCAL:T1\tsore toe\tskos:exactMatch\tSNOMEDCT:100\tToe pain\t")
    assert result.stdout.splitlines() == [
        f"{out}: 3 mappings read", "  not held:          1  further candidates", "  not held:          1  explanation",
    ]  # fmt: skip
    assert "1 rows were set aside" in result.stderr
    with open(f"{out}.rejects.csv", newline="") as file:
        assert [(row["line"], row["field"], row["value"]) for row in csv.DictReader(file)] == [
            ("5", "relation", "wrong")
        ]
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.sssom.tsv", "out.sssom.tsv.rejects.csv"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.sssom.tsv", "a.r4.json", "a.r5.json"])
def test_there_and_back(source, tmp_path, name):
    there, back = tmp_path / name, tmp_path / "back.csv"
    assert run(source, "-o", there, *HEADER, *LOCAL, "--target-system", "SNOMEDCT").exit_code == 0
    assert run(there, "-o", back, *LOCAL).exit_code == 0
    with open(back, newline="") as file:
        found = {(row["mention_code"], row["mention"], row["concept_id"]) for row in csv.DictReader(file)}
    assert {("T1", "sore toe", "SNOMEDCT:100"), ("T2", "no toe", "")} <= found


def test_omop_ids_come_from_athena(source, tmp_path):
    out, concepts = tmp_path / "out.usagi.csv", tmp_path / "CONCEPT.csv"
    with pytest.raises(UsageError, match="--concepts"):
        raise run(source, "-o", out).exception
    assert not out.exists()
    assert not list(tmp_path.glob("*.part"))
    concepts.write_text("concept_id\tdomain_id\tvocabulary_id\tconcept_code\n31\tCondition\tSNOMED\t100\n")
    assert run(source, "-o", out, "--concepts", concepts).exit_code == 0
    assert [line.split(",")[9] for line in out.read_text().splitlines()[1:]] == ["31", "0"]
    table = tmp_path / "out.stcm.csv"
    assert run(out, "-o", table, "--concepts", concepts, "--source-vocabulary", "LOCAL").exit_code == 0
    assert [line.split(",")[4:6] for line in table.read_text().splitlines()[1:]] == [["31", "SNOMED"], ["0", "None"]]


def test_a_target_that_is_no_standard_concept_is_set_aside(source, tmp_path):
    out, concepts = tmp_path / "out.stcm.csv", tmp_path / "CONCEPT.csv"
    concepts.write_text(
        "concept_id\tdomain_id\tvocabulary_id\tstandard_concept\tconcept_code\tinvalid_reason\n"
        "31\tCondition\tSNOMED\t\t100\t\n"
    )
    result = run(source, "-o", out, "--concepts", concepts, "--source-vocabulary", "LOCAL")
    assert result.exit_code == 0
    assert [line.split(",")[0] for line in out.read_text().splitlines()[1:]] == ["T2"]
    with open(f"{out}.rejects.csv", newline="") as file:
        found = [(row["line"], row["field"], row["value"]) for row in csv.DictReader(file)]
    # The candidate SNOMEDCT:101, which OMOP does not know at all, is no target.
    assert found == [("5", "relation", "wrong"), ("1", "concept_id", "SNOMEDCT:100")]
    assert "1  not a Standard Concept of OMOP" in result.stdout


def test_what_is_not_read_is_told_once(tmp_path):
    source, out, concepts = tmp_path / "in.usagi.csv", tmp_path / "out.stcm.csv", tmp_path / "CONCEPT.csv"
    source.write_text("sourceCode,sourceName,mappingStatus,conceptId,ADD_INFO:unit\n1,a,APPROVED,31,mg\n")
    concepts.write_text("concept_id\tdomain_id\tvocabulary_id\tconcept_code\n31\tCondition\tSNOMED\t100\n")
    result = run(source, "-o", out, "--concepts", concepts, "--source-vocabulary", "LOCAL")
    assert result.stderr.count("ADD_INFO:unit (1)") == 1


def test_what_cannot_be_written_is_set_aside(tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.stcm.csv"
    rows = [{"mention": "m", "mention_code": "c" * 60}, {"mention": "m", "mention_code": "1"}]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(source, "-o", out, "--source-vocabulary", "LOCAL", "--private")
    assert result.exit_code == 0
    assert len(out.read_text().splitlines()) == 2
    with open(f"{out}.rejects.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["line"], row["field"], row["value"]) == ("1", "mention_code", "")
    assert "more than 50 characters" in row["problem"]
    assert not out.stat().st_mode & 0o077
    with pytest.raises(InputError, match="more than 50"):
        raise run(source, "-o", tmp_path / "b.stcm.csv", "--source-vocabulary", "LOCAL", "--strict").exception


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "out.xml"], "say --format"),
        (["-o", "out", "--format", "ssom"], "did you mean 'sssom'"),
        (["-o", "out.csv", "--from", "cvs"], "did you mean 'csv'"),
        (["-o", "out.csv", "--date", "31.1.2026"], "2026-01-31"),
        (["-o", "out.csv", "--prefix", "LOCAL"], "LOCAL=https://"),
        (["-o", "out.tsv"], "--set-id"),
        (["-o", "out.tsv", *HEADER, "--source-vocabulary", "MINE"], "--prefix MINE="),
    ],
)
def test_wrong_use(source, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    error = run(source, *options).exception
    assert isinstance(error, UsageError)
    assert error.exit_code == 2
    assert said in str(error)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_nothing_is_overwritten_unless_told(source, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    assert isinstance(run(source, "-o", out).exception, UsageError)
    assert out.read_text() == "mine"
    assert isinstance(run(source, "-o", source, "--force").exception, UsageError)
    assert run(source, "-o", out, "--force").exit_code == 0
    assert len(out.read_text().splitlines()) == 3


def test_a_missing_input(tmp_path):
    error = run(tmp_path / "no.csv", "-o", tmp_path / "out.jsonl").exception
    assert isinstance(error, InputError)
    assert error.exit_code == 1
    assert list(tmp_path.iterdir()) == []
