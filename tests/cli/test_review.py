"""`alphita review`."""

from __future__ import annotations

import csv
import os
import re
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from alphita.cli.review import app
from alphita.errors import AlphitaError, InputError, Rejects
from alphita.index.store import build
from alphita.review.records import Decision
from alphita.review.store import ReviewStore
from tests.answer.rich import RichTerminology
from tests.doubles import HashEncoder

ROWS = (
    "row,mention_code,mention,frequency,rank,concept_id,concept_name,relation,method,confidence\n"
    "1,T1,sore toe,3,1,SNOMEDCT:100,Toe pain,exact,nearest,0.9\n1,T1,sore toe,3,2,SNOMEDCT:101,Toe,,nearest,\n"
    "2,T2,no toe,,1,,,,nil,0.5\n3,T3,bad,1,1,SNOMEDCT:100,Toe pain,wrong,nearest,\n4,T2,no toe,,1,,,,nil,0.5\n"
)
INPUT = "code,text,ward,note\nT1,sore toe,B,left\nT2,no toe,,\nT3,bad,C,\nT2,no toe,D,\n"


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def failed(*arguments):
    """Return the error of a run that failed in the house's way."""
    error = run(*arguments).exception
    assert isinstance(error, AlphitaError), repr(error)
    return error


@pytest.fixture
def answers(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(ROWS)
    return path


@pytest.fixture
def imported(answers, tmp_path):
    store = tmp_path / "reviews.sqlite"
    result = run("import", answers, "--mappings", store, "--project", "toes", "--source", "LAB", "--column", "text")
    assert result.exit_code == 0, result.output
    return store


def decide(path, *decisions):
    with ReviewStore.open(path) as store:
        ids = [one.row.id for one in store.queue("toes", order="row", state="all")[1]]
        for place, (row, reviewer, kind, concept, relation) in enumerate(decisions):
            store.decide(Decision(f"u{place}{reviewer}", "toes", ids[row], reviewer, kind, concept, relation))


def test_import(answers, tmp_path):
    store, given = tmp_path / "reviews.sqlite", tmp_path / "in.csv"
    given.write_text(INPUT)
    words = ("import", answers, "-m", store, "--project", "toes", "--source", "LAB")
    result = run(*words, "--column", "text", "--context-from", given)
    assert result.exit_code == 0, result.output
    assert result.stdout == "toes: 2 rows added, 0 known\n"
    assert "1 row left out; see" in result.stderr
    assert f"--mappings {store}" in result.stderr
    assert stat.S_IMODE(os.stat(store).st_mode) == 0o600
    with open(f"{answers}.import.rejects.csv", newline="") as file:
        assert [(row["line"], row["field"], row["value"]) for row in csv.DictReader(file)] == [
            ("5", "relation", "wrong")
        ]
    with ReviewStore.open(store) as opened:
        project = opened.project("toes")
        rows = [one.row for one in opened.queue("toes", order="row")[1]]
    assert (project.source, project.column, project.blind, project.release) == ("LAB", "text", True, "")
    assert [(one.code, one.frequency, one.context) for one in rows] == [
        ("T1", 3, {"ward": "B", "note": "left"}),
        ("T2", 2, {}),
    ]
    assert run(*words).stdout == "toes: 0 rows added, 2 known\n"


def test_what_was_decided_before_is_taken_over(tmp_path):
    given, store = tmp_path / "lab.usagi.csv", tmp_path / "r.sqlite"
    head = "sourceCode,sourceName,mappingStatus,statusSetBy,statusSetOn,conceptId,mappingType\n"
    given.write_text(
        f"{head}A,toe,APPROVED,ann,1700000000000,5,MAPS_TO\nA,toe,APPROVED,ann,1700000000000,6,MAPS_TO_VALUE\n"
    )
    words = ("import", given, "-m", store, "--project", "p", "--source", "LAB")
    assert run(*words).stdout.splitlines() == [
        "p: 1 row added, 0 known",
        "  1 decision taken over from lab.usagi.csv",
        "  not in this format: further approved mappings of a row (1)",
    ]
    with ReviewStore.open(store) as opened:
        assert [(one.status, one.reviewer, one.concept_id) for one in opened.mappings("p")] == [
            ("approved", "ann", "OMOP:5")
        ]
        opened.decide(Decision("u", "p", 1, "ann", "nil"))
    assert run(*words).stdout.splitlines()[0] == "p: 0 rows added, 1 known"
    given.write_text(f"{head}A,toe,APPROVED,ann,1600000000000,5,MAPS_TO\n")
    assert "1 decision not taken over" in run(*words).stdout


def test_a_project_keeps_the_concepts_that_it_was_answered_with(tmp_path):
    index = build(RichTerminology(), HashEncoder(), tmp_path / "rich.index")
    answers = tmp_path / "a.csv"
    answers.write_text(
        "row,mention,rank,concept_id,status\n1,gift,1,BX:1,unreviewed\n1,gift,2,BX:2,unreviewed\n"
        "2,pill,1,BX:3,unreviewed\n3,fevr,1,AX:4,approved\n4,unknown,1,ZZ:1,unreviewed\n"
    )
    store = tmp_path / "reviews.sqlite"
    words = ("import", answers, "-m", store, "--project", "p", "--source", "LAB", "--index", index.path)
    chosen = ("--standard-only", "--type", "drug", "--concept-source", "BX")
    assert "unknown semantic type 'drugs'" in str(failed(*words, "--type", "drugs"))
    assert run(*words).exit_code == 0
    with ReviewStore.open(store) as opened:
        assert opened.project("p").filters == {}
    # As a project of an older store is given them.
    assert run(*words, *chosen).exit_code == 0
    for more in (chosen, ()):
        result = run(*words[:5], "new", *words[6:], *chosen) if more else run(*words)
        assert result.exit_code == 0, result.output
    with ReviewStore.open(store) as opened:
        for name in ("p", "new"):
            told = {"types": ["drug"], "sources": ["BX"], "standard_only": True}
            assert opened.project(name).filters == told
        shown = [[one.concept_id for one in each.row.candidates] for each in opened.every("new")]
    assert shown == [["BX:2"], ["BX:3"], ["AX:4"], ["ZZ:1"]]
    error = failed(*words, "--standard-only")
    assert "answered with --type drug --source BX --standard-only" in str(error)
    assert error.value == "--standard-only"


def test_bad_imports(answers, tmp_path, imported):
    words = ("import", answers, "-m", tmp_path / "other.sqlite", "--source", "LAB", "--project")
    short = tmp_path / "short.csv"
    short.write_text("text\nsore toe\n")
    error = failed(*words, "x", "--context-from", short)
    assert isinstance(error, InputError)
    assert "row 2" in str(error)
    assert "'LAB'" in str(failed("import", answers, "-m", imported, "--project", "toes", "--source", "OTHER"))
    assert "come from" in str(failed("import", answers, "-m", imported, "--project", "new", "--source", " "))
    with pytest.raises(InputError, match="must be one of"):
        raise failed(*words, "x", "--strict")
    assert not (tmp_path / "other.sqlite").exists()
    (tmp_path / "text.sqlite").write_text("no store " * 100)
    assert isinstance(
        failed("import", answers, "-m", tmp_path / "text.sqlite", "--project", "x", "--source", "L"), InputError
    )
    empty = tmp_path / "empty.csv"
    empty.write_text("mention,concept_id\n")
    assert "the file has no rows to review" in str(failed("import", empty, *words[2:], "x"))


def test_what_normalising_set_aside_is_kept(answers, tmp_path):
    lost = Path(f"{answers}.rejects.csv")
    lost.write_text(",".join(Rejects.FIELDS) + "\nin.csv,9,,text,x\n")
    kept = lost.read_bytes()
    for number, text in enumerate((ROWS, ROWS.replace("wrong", "exact"))):
        answers.write_text(text)
        words = ("-m", tmp_path / f"{number}.sqlite", "--project", "toes", "--source", "LAB")
        assert run("import", answers, *words).exit_code == 0
        assert lost.read_bytes() == kept
    assert not Path(f"{answers}.import.rejects.csv").exists()


def test_export(imported, tmp_path):
    decide(imported, (0, "ann", "accept", "SNOMEDCT:100", "broad"))
    out = tmp_path / "new" / "out.csv"
    result = run("export", "-m", imported, "--project", "toes", "-o", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{out}: 1 mapping\n"
    assert stat.S_IMODE(os.stat(out).st_mode) == 0o600
    assert "already exists" in str(failed("export", "-m", imported, "--project", "toes", "-o", out))
    assert run("export", "-m", imported, "--project", "toes", "-o", out, "--all", "--force").exit_code == 0
    assert len(out.read_text().splitlines()) == 3
    assert sorted(path.name for path in out.parent.iterdir()) == ["out.csv"]
    store = imported.read_bytes()
    over = ("export", "-m", imported, "--project", "toes", "-o", imported, "--format", "csv", "--force")
    assert "is the store of the review itself" in str(failed(*over))
    assert imported.read_bytes() == store


def test_bad_exports(imported, tmp_path):
    words = ("export", "-m", imported, "-o", tmp_path / "a.csv", "--project")
    assert "did you mean 'toes'" in str(failed(*words, "tows"))
    assert not (tmp_path / "a.csv").exists()
    (tmp_path / "file").touch()
    assert "could not write" in str(
        failed("export", "-m", imported, "-o", tmp_path / "file" / "a.csv", "--project", "toes")
    )


def test_what_was_decided_can_be_forgotten_and_restored(imported):
    decide(imported, (0, "ann", "accept", "SNOMEDCT:100", None), (1, "bob", "nil", None, None))
    assert run("forget", "-m", imported, "--reviewer", "ann").stdout == "forgotten: 1 decision\n"
    assert "1 of 2 rows decided" in run("progress", "-m", imported).stdout
    assert run("forget", "-m", imported, "--source", "LAB", "--by", "eve").stdout == "forgotten: 1 decision\n"
    assert run("restore", "-m", imported, "--source", "LAB").stdout == "counting again: 1 decision\n"
    assert run("forget", "-m", imported, "--project", "toes").stdout == "forgotten: 1 decision\n"
    assert run("restore", "-m", imported, "--project", "toes").stdout == "counting again: 1 decision\n"
    assert run("restore", "-m", imported, "--reviewer", "ann").stdout == "counting again: 1 decision\n"
    assert "2 of 2 rows decided" in run("progress", "-m", imported).stdout
    assert "exactly one" in str(failed("forget", "-m", imported))
    assert "exactly one" in str(failed("restore", "-m", imported, "--source", "LAB", "--project", "toes"))
    assert "did you mean 'LAB'" in str(failed("forget", "-m", imported, "--source", "LAP"))


def test_old_decisions_are_counted_and_removed_when_asked(imported):
    with ReviewStore.open(imported) as store:
        store.decide(Decision("old", "toes", 1, "ann", "nil", at="2001-01-31T09:30:00+00:00"))
    decide(imported, (1, "ann", "nil", None, None))
    words = ("purge", f"--mappings={imported}", "--older-than")
    for age in ("30y", "99999d"):
        assert run(*words, age).stdout.startswith("no settled rows from before ")
    found = run(*words, "18m").stdout
    assert re.fullmatch(r"toes: 1 of 2 rows; decisions before \d{4}-\d\d-\d\d: 1\n.*again with --yes\n", found)
    with ReviewStore.open(imported) as store:
        assert store.progress("toes").rows == 2
    assert run(*words, "8000d", "--project", "toes", "--yes").stdout.endswith(": 1\nremoved\n")
    assert run("progress", "-m", imported).stdout.startswith("toes: 1 of 1 rows decided")
    for age in ("5", "y", "0y", "5 years", "-5y"):
        assert "write it as 5y" in str(failed(*words[:2], f"--older-than={age}"))
    assert "did you mean 'toes'" in str(failed(*words, "5y", "--project", "toe"))


def test_the_address_of_a_database_is_taken_and_its_password_not_shown(answers):
    address, shown = "mysql://ann:secret@host/x", "mysql://ann:***@host/x"
    words = ("-m", address, "--project", "toes")
    for command in (
        ("import", answers, *words, "--source", "LAB"),
        ("export", *words, "-o", answers.with_name("out.csv")),
        ("progress", *words),
        ("forget", *words),
        ("restore", *words),
        ("purge", "-m", address, "--older-than", "5y"),
    ):
        told = str(failed(*command))
        assert told.startswith(f"{shown}: a review store is in SQLite or PostgreSQL")
        assert "secret" not in told
