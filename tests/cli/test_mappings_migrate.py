"""`alphita mappings migrate`, and its signed diff."""

from __future__ import annotations

import csv
import json
import stat
from dataclasses import replace

import pytest

from alphita.index.store import build
from alphita.review import migrate
from alphita.review.records import Project
from alphita.review.store import ReviewStore
from tests.cli.command import alphita
from tests.doubles import HashEncoder
from tests.review.reviews import candidate, decisions, row, store_of
from tests.review.test_migrate import NEW, OLD, OUTCOMES, ROWS, decided, release, rows


@pytest.fixture
def folders(tmp_path):
    return release(tmp_path, "one", OLD), release(tmp_path, "two", NEW)


@pytest.fixture
def reviews(folders, tmp_path):
    last = row("blocked noses", candidate("X:9", "Coryza"), number=len(ROWS) + 1, code="last")
    with store_of(tmp_path / "r.sqlite", [*rows(), last], folders[0].content_hash) as made:
        decided(made)
        yield made


def run(folders, tmp_path, *more):
    old, new = (folder.path for folder in folders)
    return alphita("mappings", "migrate", tmp_path / "r.sqlite", "--from", old, "--to", new, *more)


def report_of(folder):
    with open(folder / "migration.csv", encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    return json.loads((folder / "migration.json").read_text(encoding="utf-8")), table


def test_a_dry_run_comes_first_and_writes_nothing(folders, reviews, tmp_path, capsys):
    before = decisions(reviews)
    assert run(folders, tmp_path, "--by", "eva") == 0
    assert decisions(reviews) == before
    text = capsys.readouterr().out
    assert "nothing was changed" in text
    assert "1  follows: replaced" in text
    assert "X:2 Hay fever -> X:21 Allergic rhinitis" in text
    report, table = report_of(tmp_path / "r.migration")
    assert (report["by"], report["applied"]) == ("eva", False)
    assert tuple(table[0]) == migrate.COLUMNS
    assert {row["mention"]: (row["fate"], row["reason"], row["new_concept"]) for row in table} == OUTCOMES
    assert [{name: str(cell) for name, cell in row.items()} for row in report["changes"]] == table
    for name in ("migration.json", "migration.csv"):
        assert stat.S_IMODE((tmp_path / "r.migration" / name).stat().st_mode) == 0o600


def test_it_is_applied_signed_and_done_once(folders, reviews, tmp_path, capsys):
    assert run(folders, tmp_path) == 0
    dry, _ = report_of(tmp_path / "r.migration")
    assert run(folders, tmp_path, "--apply", "--by", "eva") == 0
    signed, _ = report_of(tmp_path / "r.migration")
    assert (signed["by"], signed["applied"], signed["diff"]) == ("eva", True, dry["diff"])
    assert reviews.standing(2).concept_id == "X:21"
    count = len(decisions(reviews))
    capsys.readouterr()
    assert run(folders, tmp_path, "--apply", "--by", "ben") == 0
    assert "nothing to do: p is of" in capsys.readouterr().out
    assert len(decisions(reviews)) == count
    assert report_of(tmp_path / "r.migration")[0]["by"] == "eva"


def test_a_run_killed_before_it_signed_is_signed_by_the_next(folders, reviews, tmp_path, monkeypatch):
    rebase = ReviewStore.rebase

    def killed(*arguments, **named):
        rebase(*arguments, **named)
        raise SystemExit(9)

    with monkeypatch.context() as patch:
        patch.setattr(ReviewStore, "rebase", killed)
        assert run(folders, tmp_path, "--apply", "--by", "eva") == 9
    assert not report_of(tmp_path / "r.migration")[0]["applied"]
    assert run(folders, tmp_path, "--apply", "--by", "eva") == 0
    report, table = report_of(tmp_path / "r.migration")
    assert report["applied"]
    assert len(table) == len(OUTCOMES)


def test_rows_to_be_decided_are_ranked_with_the_filters_of_their_project(
    folders, reviews, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
    build(folders[1], HashEncoder(), tmp_path / "new.index")
    kept = candidate("X:11", "Sore throat")
    rows = [row("stuffy nose"), row("sore throats"), row("stuffy nose again", kept)]
    throats = Project("throats", "LAB", "", folders[0].content_hash, "one", "m", "", filters={"under": ["X:11"]})
    reviews.add_project(throats, rows)
    reviews.add_project(replace(throats, name="codes", filters={"target": "X", "under": ["X:11"]}), rows)
    words = ("--index", tmp_path / "new.index", "--top", 3)
    assert run(folders, tmp_path, *words) == 0
    told = capsys.readouterr().out
    assert "throats: 2 rows get new candidates, with --under X:11\n" in told
    assert "rows get new candidates, with all concepts" in told
    assert run(folders, tmp_path, "--apply", *words) == 0
    found = {
        name: [[one.concept_id for one in each.row.candidates] for each in reviews.every(name)]
        for name in ("throats", "codes")
    }
    # The last one's candidate is as before.
    ids = [[None, "X:11"], ["X:11"], ["X:11"]]
    assert found == {"throats": ids, "codes": ids}
    assert reviews.standing(10).row.candidates[0].concept_id == "X:26"
    assert reviews.project("throats").filters == throats.filters


def test_a_filter_that_the_new_release_does_not_know_is_told_before_anything_is_done(
    folders, reviews, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    build(folders[1], HashEncoder(), tmp_path / "new.index")
    project = Project("gone", "LAB", "", folders[0].content_hash, "one", "m", "", filters={"under": ["X:6"]})
    reviews.add_project(project, [row("blocked noses", candidate("X:6", "Ringing ears"))])
    before = decisions(reviews)
    assert run(folders, tmp_path, "--apply", "--index", tmp_path / "new.index") == 2
    assert "this index has no concept 'X:6'" in capsys.readouterr().err
    assert (decisions(reviews), reviews.project("p").release) == (before, "one")


def test_an_index_of_another_terminology_is_refused_before_anything_is_done(folders, reviews, tmp_path, capsys):
    build(folders[0], HashEncoder(), tmp_path / "old.index")
    before = decisions(reviews)
    assert run(folders, tmp_path, "--apply", "--index", tmp_path / "old.index") == 2
    assert "is not an index of" in capsys.readouterr().err
    assert decisions(reviews) == before


def test_a_file_that_is_no_report_is_not_overwritten(folders, reviews, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "migration.json").write_text("[]", encoding="utf-8")
    assert run(folders, tmp_path, "-o", tmp_path / "out") == 1
    assert "no signed diff of a migration" in capsys.readouterr().err
