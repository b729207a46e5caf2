"""Small runs of the benches of decisions: those of a table, and those that a new release changes."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from alphita.errors import UsageError
from alphita.index.store import build
from alphita.mappings.review.store import ReviewStore
from alphita.normalizer.normalizer import Normalizer
from alphita.training.mentions.from_mappings import in_time
from tests.doubles import HashEncoder
from tests.mappings.review.test_migrate import NEW, OLD, release

sys.path.append(str(Path(__file__).parents[2] / "bench"))
decisions = importlib.import_module("decisions")
migration = importlib.import_module("migration")


def test_a_tables_answers_are_decided(tmp_path, monkeypatch):
    index = build(release(tmp_path, "one", OLD), HashEncoder(), tmp_path / "x.index")
    monkeypatch.setattr(decisions, "Normalizer", lambda opened: Normalizer(opened, encoder=HashEncoder()))
    lines = ["Earache,X:1", "Otalgia,X:1", "Hay fever,X:2", "qqqq,NIL", "Stuffy nose,X:10"]
    lines += [f"Deafness {number},X:4" for number in range(30)]
    table, out = tmp_path / "m.csv", tmp_path / "r.sqlite"
    table.write_text("\n".join(["mention,concept_id", *lines]) + "\n", encoding="utf-8")
    words = ["--index", str(index.path), "--table", str(table), "-o", str(out)]
    decisions.main(words)
    with ReviewStore.open(out) as store:
        kinds = {store.row(one.row).mention: (one.kind, one.concept_id) for one in store.history("table")}
        found = in_time(store)
    assert kinds["Earache"] == kinds["Otalgia"] == ("accept", "X:1")
    assert (kinds["qqqq"], kinds["Stuffy nose"]) == (("nil", None), ("choose", "X:10"))
    assert len(kinds) == len(found.learned) + len(found.held_out) == len(lines)
    with pytest.raises(UsageError, match="exists already"):
        decisions.main(words)


def test_what_a_release_changes_is_counted_and_shown(tmp_path):
    old, new = release(tmp_path, "one", OLD), release(tmp_path, "two", NEW)
    out = tmp_path / "out"
    migration.main(["--from", str(old.path), "--to", str(new.path), "-o", str(out), "--rows", "100"])
    found = json.loads((out / "counts.json").read_text())
    live = int((~old.retired).sum())
    assert found["rows"] == live
    assert found["changed"] == sum(found["fates"].values()) == sum(found["reasons"].values()) > 3
    cases = (out / "cases.md").read_text()
    for reason, count in found["reasons"].items():
        assert f"## {reason}: {count}" in cases
    assert "follows to X:21 Allergic rhinitis" in cases
