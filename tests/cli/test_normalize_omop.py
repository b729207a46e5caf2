"""`alphita normalize` to OMOP vocabularies: what it says of each concept, and the domain of each row."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.errors import UsageError
from alphita.index.store import build
from alphita.jobs.domains import read_map
from alphita.mappings.record import OMOP
from alphita.terminology.store import load_terminology
from tests.cli.command import alphita
from tests.doubles import HashEncoder

ATHENA = Path(__file__).parents[1] / "fixtures" / "terminology" / "omop"
LIST = [("code", "name", "kind"), ("1", "Blue lantern", "condition"), ("2", "Blue lantern", "Rx"), ("3", "zzzz", "?")]
LANTERN = ("101", "91003003", "SNOMED", "Condition", "Disorder", "S")
OIL = ("108", "OMOP99", "RxNorm Extension", "Drug", "Clinical Drug", "S")
NOTHING = ("",) * len(OMOP)


@pytest.fixture(scope="session")
def terminology(tmp_path_factory):
    path = tmp_path_factory.mktemp("athena") / "omop.terminology"
    assert alphita("terminology", "import", "omop", ATHENA, "-o", path) == 0
    return load_terminology(path)


@pytest.fixture
def index_path(terminology, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    return build(terminology, HashEncoder(), tmp_path / "omop.index").path


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "list.csv"
    path.write_text("".join(",".join(cells) + "\n" for cells in LIST), encoding="utf-8")
    return path


def normalize(index_path: Path, source: Path, out: Path, *options: object) -> int:
    words = ["normalize", source, "--index", index_path, "--column", "name", "--code-column", "code", "-o", out]
    return alphita(*words, "--ranking", "vectors", *options)


def read(path: Path) -> list[dict[str, str]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    if path.suffix == ".xlsx":
        return pl.read_excel(path, engine="openpyxl", infer_schema_length=None).to_dicts()
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


def facts(row: dict[str, object]) -> tuple[str, ...]:
    return tuple("" if row[name] is None else str(row[name]) for name in OMOP)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "xlsx"])
def test_each_plain_table_says_what_omop_says_of_every_candidate(index_path, source, tmp_path, ending):
    out = tmp_path / f"answers.{ending}"
    assert normalize(index_path, source, out, "--top", 2) == 0
    rows = read(out)
    names = list(rows[0])
    assert names[names.index("concept_name") + 1 :][: len(OMOP)] == list(OMOP)
    assert [facts(row) for row in rows[:2]] == [LANTERN, OIL]
    nil, nearest = rows[4:]
    assert (nil["method"], facts(nil)) == ("nil", NOTHING)
    assert (str(nearest["rank"]), nearest["concept_id"]) == ("2", nil["nearest_id"])
    assert facts(nearest) != NOTHING
    back = tmp_path / "back.csv"
    assert alphita("mappings", "convert", out, "-o", back) == 0
    assert [facts(row) for row in read(back)] == [facts(row) for row in rows]


def test_a_code_that_names_two_concepts_is_told_as_omop_spells_it(terminology):
    said = {one.id: dict(one.properties) for one in map(terminology.concept, ["OMOP:106", "RXNORM:9900"])}
    assert said["OMOP:106"] == {"vocabulary_id": "ICD10CM", "concept_code": "L98"}
    assert said["RXNORM:9900"] == {"standard_concept": "S"}


def test_the_domain_of_each_row(index_path, source, tmp_path, capsys):
    out, domains = tmp_path / "answers.csv", tmp_path / "domains.csv"
    domains.write_text("value;domain\nRx;drug\n")
    options = ["--domain-column", "kind", "--domain-map", domains]
    assert normalize(index_path, source, out, *options) == 0
    assert [facts(row) for row in read(out)] == [LANTERN, OIL, NOTHING]
    said = capsys.readouterr().out
    assert said.startswith("warning: 1 row with a value in --domain-column that is no domain of the terminology")
    assert "answered from all: ? (1)" in said
    assert normalize(index_path, source, out, *options, "--force", "--private") == 0
    assert "answered from all: not shown (1)" in capsys.readouterr().out


def test_an_engine_takes_the_domains_too(index_path, source, tmp_path, capsys):
    given, out = tmp_path / "list.parquet", tmp_path / "answers"
    pl.read_csv(source, infer_schema=False).write_parquet(given)
    domains = tmp_path / "domains.csv"
    domains.write_text("value,domain\nRx,Drug\n")
    options = ["--domain-column", "kind", "--domain-map", domains, "--engine", "processes", "--workers", 1]
    options += ["--ranking", "letters"]
    assert normalize(index_path, given, out, *options) == 0
    rows = pl.read_parquet(out / "*.parquet").to_dicts()
    assert [facts(row) for row in rows] == [LANTERN, OIL, NOTHING]
    assert "answered from all: ? (1)" in capsys.readouterr().out


def test_a_value_can_have_several_domains(index_path, source, tmp_path):
    out, domains = tmp_path / "answers.csv", tmp_path / "domains.csv"
    domains.write_text("value,domain\nRx,Drug\nrx,Condition\nRx,Drug\n")
    assert read_map(domains) == {"rx": "Drug|Condition"}
    assert normalize(index_path, source, out, "--domain-column", "kind", "--domain-map", domains) == 0
    assert [facts(row) for row in read(out)] == [LANTERN, LANTERN, NOTHING]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("value,domain\nRx,Drugs\n", "unknown domain 'Drugs'; did you mean 'Drug'"),
        ("value,domain\nRx\n", "domains.csv:2: not a value and its domain"),
    ],
)
def test_a_wrong_map_of_domains(index_path, source, tmp_path, capsys, content, problem):
    domains = tmp_path / "domains.csv"
    domains.write_text(content)
    out = tmp_path / "out.csv"
    assert normalize(index_path, source, out, "--domain-column", "kind", "--domain-map", domains)
    assert problem in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_map_needs_its_column(index_path, source, tmp_path, capsys):
    assert normalize(index_path, source, tmp_path / "out.csv", "--domain-map", source) == 2
    assert "name that with --domain-column" in capsys.readouterr().err


def test_types_of_mentions_in_python_are_those_of_filters(terminology, tmp_path):
    index = build(terminology, HashEncoder(), tmp_path / "omop.index")
    normalizer = Normalizer(index, encoder=HashEncoder())
    mentions, types = ["blue lantern", "blue lantern", "blue lantern"], ["Drug", None, "condition"]
    found = normalizer.normalize(mentions, types=types, top_k=2, explain=True)
    for name, result in zip(types, found, strict=True):
        among = normalizer if name is None else Normalizer(index, encoder=HashEncoder()).of_type(name)
        assert [result] == among.normalize(["blue lantern"], top_k=2, explain=True)
    assert [result.candidates[0].omop.domain_id for result in found] == ["Drug", "Condition", "Condition"]
    assert {"Drug", "Condition", "Clinical Drug"} <= set(normalizer.types)
    with pytest.raises(UsageError, match="unknown semantic type 'Drugs'"):
        normalizer.normalize(["x"], types=["Drugs"])
    with pytest.raises(UsageError, match="1 mentions, but 2 types"):
        normalizer.normalize(["x"], types=["Drug", None])


def test_a_row_without_a_code_is_told_first(index_path, tmp_path, capsys):
    source = tmp_path / "list.csv"
    source.write_text("code,name\nA,Blue lantern\n,Blue lantern\n ,zz\0z\n")
    assert normalize(index_path, source, tmp_path / "out.csv") == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == f"warning: 1 row not read; the reasons are in {tmp_path / 'out.csv'}.rejects.csv"
    assert second.startswith("warning: 1 row without a code in --code-column")


FORMATS = {"x.sssom.tsv": ["--licence", "https://example.org/l", "--set-id", "https://example.org/s"]}
FORMATS |= {"x.stcm.csv": ["--source-vocabulary", "LOCAL"], "x.usagi.csv": []}
FORMATS |= {"x.r4.json": ["--set-id", "https://example.org/s", "--source-system", "https://example.org/l"]}


@pytest.mark.parametrize("name", FORMATS)
def test_candidates_of_a_nil_row_are_no_answers(index_path, tmp_path, name):
    source, answers, out = tmp_path / "list.csv", tmp_path / "answers.csv", tmp_path / name
    source.write_text("code,name\nA,zzzz\n")
    assert normalize(index_path, source, answers, "--top", 3) == 0
    nil, *candidates = read(answers)
    assert nil["method"] == "nil"
    assert [row["rank"] for row in candidates] == ["2", "3"]
    form = "fhir_r4" if name.endswith(".json") else ""
    options = [
        *FORMATS[name],
        *(["--format", form] if form else []),
        "--with-review",
        "--prefix",
        "OMOP=https://e.org/",
    ]
    assert alphita("mappings", "convert", answers, "-o", out, *options) == 0
    back = tmp_path / "back.csv"
    reading = ["--from", form] if form else []
    assert alphita("mappings", "convert", out, *reading, "-o", back) == 0
    assert [row["concept_id"] for row in read(back) if row["rank"] == "1"] == [""]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_table_for_excel_begins_with_a_mark_and_is_read_again(index_path, source, tmp_path, ending):
    out, back = tmp_path / f"answers.{ending}", tmp_path / "back.csv"
    assert normalize(index_path, source, out, "--bom") == 0
    assert out.read_bytes().startswith(b"\xef\xbb\xbfrow")
    assert alphita("mappings", "convert", out, "-o", back) == 0
    assert back.read_bytes().startswith(b"row")


def test_values_that_are_not_known_are_told_by_column(index_path, tmp_path, capsys):
    source = tmp_path / "list.csv"
    source.write_text("name,lang,place,unit,code\noil,en,Blud,mmol/L,1\noil,xx,Serum,flurbs,2\n", encoding="utf-8")
    columns = ["--language-column", "lang", "--specimen-column", "place", "--unit-column", "unit"]
    assert normalize(index_path, source, tmp_path / "answers.csv", *columns) == 0
    said = capsys.readouterr().out
    for column, value in (("specimen", "Blud"), ("language", "xx"), ("unit", "flurbs")):
        assert f"--{column}-column that is not known, answered without it: {value} (1)" in said


def test_decisions_are_exported_with_what_omop_says_of_their_concepts(index_path, source, tmp_path):
    answers, store, out = tmp_path / "answers.csv", tmp_path / "reviews.sqlite", tmp_path / "decided.csv"
    assert normalize(index_path, source, answers) == 0
    project = ["--mappings", store, "--project", "lab"]
    assert alphita("review", "import", answers, *project, "--source", "LAB", "--index", index_path) == 0
    assert alphita("review", "export", *project, "--all", "--index", index_path, "-o", out) == 0
    assert facts(read(out)[0]) == LANTERN
    assert alphita("review", "export", *project, "--all", "--force", "-o", out) == 0
    # Without the index, what the file said of them is kept.
    assert facts(read(out)[0]) == LANTERN
