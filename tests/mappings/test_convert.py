"""`alphita mappings convert`."""

from __future__ import annotations

import csv
import gzip
import json

import polars as pl
import pytest
from typer.testing import CliRunner

from alphita.cli.mappings import app
from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, chosen

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


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.sssom.tsv", "a.r4.json"])
def test_what_is_gzipped_is_read_as_it_stands(source, tmp_path, name):
    plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
    assert run(source, "-o", plain, *HEADER, *LOCAL, "--target-system", "SNOMEDCT").exit_code == 0
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    backs = [tmp_path / "plain.csv", tmp_path / "packed.csv"]
    for path, back in zip((plain, packed), backs, strict=True):
        result = run(path, "-o", back, *LOCAL)
        assert result.exit_code == 0, result.output
    assert backs[0].read_bytes() == backs[1].read_bytes()
    assert run(source, "-o", packed, *HEADER, *LOCAL).exit_code != 0


def test_what_cannot_be_written_is_set_aside(tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.stcm.csv"
    long = {"mention": "m", "mention_code": "c" * 60, "concept_id": None}
    rows = [{**long, "row": 1}, {**long, "row": 1, "rank": 2}, {"row": 2, "mention": "m", "mention_code": "1"}]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(source, "-o", out, "--source-vocabulary", "LOCAL", "--private")
    assert result.exit_code == 0
    assert len(out.read_text().splitlines()) == 2
    with open(f"{out}.rejects.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    # A row's number, for not every format has lines; once, however many candidates it has.
    assert (row["line"], row["field"], row["value"]) == ("", "mention_code", "")
    assert row["problem"].startswith("row 1 cannot be written: ")
    assert "more than 50 characters" in row["problem"]
    assert not out.stat().st_mode & 0o077
    with pytest.raises(InputError, match="more than 50"):
        raise run(source, "-o", tmp_path / "b.stcm.csv", "--source-vocabulary", "LOCAL", "--strict").exception


DECIDED = [
    ("a", "unreviewed", "accept", "HP:1"),
    ("b", "unreviewed", "review", "HP:1"),
    ("c", "unreviewed", "", "HP:1"),
    ("d", "unreviewed", "nil", ""),
    ("e", "approved", "review", "HP:1"),
    ("f", "unreviewed", "reviewed", "HP:1"),
    ("g", "rejected", "accept", "HP:1"),
]
ATHENA = "concept_id\tdomain_id\tvocabulary_id\tconcept_code\n31\tCondition\tHPO\tHP:1\n31\tCondition\tHPO\t1\n"


@pytest.fixture
def decided(tmp_path):
    path = tmp_path / "decided.jsonl"
    rows = [
        {"row": row, "mention": mention, "status": status, "decision": decision or None, "concept_id": concept or None}
        for row, (mention, status, decision, concept) in enumerate(DECIDED, 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "CONCEPT.csv").write_text(ATHENA)
    return path


def written(path):
    return {one.mention for one in chosen(path, "", "").read(path, Header(), Rejects(strict=True))}


@pytest.mark.parametrize("name", ["x.stcm.csv", "x.r4.json", "x.r5.json"])
def test_a_map_holds_what_was_accepted_or_reviewed(decided, tmp_path, name):
    out, words = tmp_path / name, [*HEADER, *LOCAL, "--concepts", tmp_path / "CONCEPT.csv"]
    result = run(decided, "-o", out, *words)
    assert result.exit_code == 0, result.output
    assert written(out) == {"a", "d", "e", "f"}
    assert "answers that nobody has accepted (--with-review writes them) (2)" in result.stdout
    # What stands in a map is taken as it stands, and goes to any other.
    again = tmp_path / f"again.{name}"
    assert run(out, "-o", again, *words).exit_code == 0
    assert written(again) == written(out)
    result = run(decided, "-o", out, *words, "--with-review", "--force")
    assert written(out) == {"a", "b", "c", "d", "e", "f"}
    assert "nobody has accepted" not in result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "out.csv", "--prefix", "1x=https://example.org/"], "'1x' can be no CURIE's prefix"),
        (["-o", "out.sssom.tsv", *HEADER, "--source-vocabulary", "MINE"], "--prefix MINE="),
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.csv", "row,mention,conceptId\n1,Fever,HP:0001945\n"),
        ("in.jsonl", '{"mention": "Fever", "conceptId": "HP:0001945"}\n{"mention": "Cough", "conceptId": "HP:1"}\n'),
        ("in.parquet", ""),
    ],
)
def test_a_table_without_concepts_is_not_one_of_nils(tmp_path, name, text):
    source, out = tmp_path / name, tmp_path / "out.stcm.csv"
    source.write_text(text)
    if not text:
        pl.DataFrame({"mention": ["Fever"], "conceptId": ["HP:0001945"]}).write_parquet(source)
    error = run(source, "-o", out, "--source-vocabulary", "LOCAL").exception
    assert isinstance(error, InputError)
    assert "no column 'concept_id'" in str(error)
    assert "conceptId" in str(error)
    assert not out.exists()


def test_a_table_has_the_words_of_the_file_that_it_was_made_of(tmp_path):
    source, out = tmp_path / "in.sssom.tsv", tmp_path / "out.csv"
    source.write_text(
        "#curie_map:\n#  ICD10CM: http://hl7.org/fhir/sid/icd-10-cm/\n"
        "subject_id\tsubject_label\tpredicate_id\tobject_id\tmapping_justification\n"
        "ICD10CM:R56.9\tfit\tskos:closeMatch\tHP:0001250\tsemapv:ManualMappingCuration\n"
        "ICD10CM:R05\tcough\tskos:exactMatch\tHP:0012735\tsemapv:ManualMappingCuration\n"
    )
    result = run(source, "-o", out)
    # ICD-10-CM has another URI here, and a plain table no place for one.
    assert "  not in this format: declared prefixes (1)\n" in result.stdout
    with open(out, newline="") as file:
        found = [(row["mention_code"], row["status"], row["decision"]) for row in csv.DictReader(file)]
    assert found == [("R56.9", "approved", "reviewed"), ("R05", "approved", "reviewed")]
    assert '{""predicate_id"": ""skos:closeMatch""}' in out.read_text()
