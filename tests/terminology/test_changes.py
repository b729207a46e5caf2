"""`terminology changes`: hand-made releases, and random ones against a plain comparison of what was written."""

from __future__ import annotations

import csv
import json

import pytest

from alphita.errors import UsageError
from alphita.terminology.changes import COLUMNS, KINDS, changes
from tests.terminology.conftest import FIXTURES
from tests.terminology.test_cli import run

OLD, NEW = ((FIXTURES / "changes" / f"{name}.obo").read_text() for name in ("old", "new"))


@pytest.fixture
def found(build):
    return changes(build("old", OLD), build("new", NEW))


def test_every_kind_of_change(found):
    rows = [tuple(row[column] for column in COLUMNS) for row in found.table.iter_rows(named=True)]
    ear = "Disorder of the ear"
    assert rows == [
        ("added", "X:10", "Hearing loss", "", "", "Hearing loss", ""),
        ("retired", "X:5", "Deafness", "", "", "X:10", "X:2"),
        ("merged", "X:6", "Wax", "", "", "X:2", ""),
        ("removed", "X:9", "Drum", "", "", "", ""),
        ("restored", "X:7", "Tinnitus", "", "", "", ""),
        ("replacement", "X:8", "obsolete Vertigo", "", "", "X:1", ""),
        ("renamed", "X:2", ear, "en", "Ear trouble", ear, "the old name is a synonym now"),
        ("renamed", "X:4", "Otalgia", "en", "Ear pain", "Otalgia", ""),
        ("synonym_added", "X:2", ear, "en", "", "Aural disease", "narrow"),
        ("synonym_lost", "X:2", ear, "en", "Otopathy", "", "exact"),
        ("scope", "X:2", ear, "en", "related", "broad", "Bad ear"),
        ("moved", "X:3", "Otitis", "", "X:1", "X:2", ""),
    ]
    assert list(found.counts) == list(KINDS)
    assert sum(found.counts.values()) == len(rows)


def test_a_retired_concept_that_is_gone_is_told(build):
    retired = "\n[Term]\nid: X:{0}\nname: obsolete Thing\nis_obsolete: true\n".format
    old = build("old", OLD + retired(20) + retired(21))
    found = changes(old, build("new", NEW.replace("alt_id: X:6\n", "alt_id: X:6\nalt_id: X:20\n")))
    rows = found.table.filter(found.table["kind"] == "gone").select("concept", "name", "new").rows()
    assert rows == [("X:20", "obsolete Thing", "X:2"), ("X:21", "obsolete Thing", "")]


def test_nothing_changed(build):
    same = build("old", OLD)
    assert len(changes(same, same).table) == 0


def test_the_summary_fits_one_screen(found):
    lines = found.summary().splitlines()
    assert lines[0] == "old: old.terminology (demo/1): 7 live concepts, 2 retired concepts, 12 terms"
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120
    assert "        2  renamed        X:2: Ear trouble -> Disorder of the ear; X:4: Ear pain -> Otalgia" in lines


def test_command(build, tmp_path):
    old, new = build("old", OLD).path, build("new", NEW).path
    files = [tmp_path / f"c{suffix}" for suffix in (".csv", ".tsv", ".json")]
    said = run("changes", old, new, *(part for file in files for part in ("-o", file)))
    assert "2  renamed" in said
    for file, delimiter in ((files[0], ","), (files[1], "\t")):
        with open(file, newline="") as opened:
            rows = list(csv.DictReader(opened, delimiter=delimiter))
        assert len(rows) == 12
        assert rows[1]["new"] == "X:10"
    report = json.loads(files[2].read_text())
    assert (report["counts"]["moved"], report["new"]["versions"]) == (1, ["demo/2"])
    assert report["table"][0]["concept"] == "X:10"
    with pytest.raises(UsageError, match="must end in one of"):
        run("changes", old, new, "-o", tmp_path / "c.xlsx")


def test_a_prefix_that_changed_with_the_release_is_told_and_seen_through(build):
    text = OLD.replace("X:", "Y:").replace("name: Otitis\n", "name: Inflamed ear\n")
    moved = changes(build("a", OLD), build("b", text))
    assert moved.prefixes == {"X": "Y"}
    assert {kind: count for kind, count in moved.counts.items() if count} == {"renamed": 1}
    assert moved.table["concept"].to_list() == ["Y:3"]
    assert "ids under X: are under Y: now" in moved.summary()
    assert moved.as_json()["prefixes"] == {"X": "Y"}


def test_other_concepts_under_another_prefix_are_other_concepts(build):
    other = "\n\n".join(f"[Term]\nid: Y:{number}\nname: Other {number}" for number in range(1, 9))
    found = changes(build("a", OLD), build("b", f"format-version: 1.2\n\n{other}\n"))
    assert found.prefixes == {}
    assert found.counts["added"] == 8
