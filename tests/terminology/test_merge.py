"""`terminology merge`: hand-made ontologies, and the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import alphita
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import merge as merging
from alphita.terminology import store
from alphita.terminology.loaders import obo, table
from alphita.terminology.merge import Options
from tests.terminology.conftest import FIXTURES, cases, check_held, facts, manifest_facts
from tests.terminology.test_cli import run

AA, BB = ((FIXTURES / "merge" / f"{name}.obo").read_text() for name in ("aa", "bb"))


@pytest.fixture
def both(build):
    return [build("aa", AA), build("bb", BB)]


def mappings(path, *rows):
    lines = ["# mapping_set_id: https://example.org/own.sssom.tsv", "subject_id\tpredicate_id\tobject_id"]
    lines[1] += "\tpredicate_modifier"
    rows = [[*row.split(), ""][:4] for row in rows]
    path.write_text("\n".join([*lines, *map("\t".join, rows)]) + "\n")
    return path


CASES = cases("merges.tsv")


@pytest.mark.parametrize(("case", "options", "rows", "files"), CASES, ids=[row[0] for row in CASES])
def test_what_is_joined_refused_and_counted_and_all_facts(tmp_path, case, options, rows, files):
    opened = []
    for file in files.split("¦"):
        name, own, content = file.partition("=")
        (tmp_path / name).write_text(content if own else (FIXTURES / "merge" / name).read_text())
        loader = obo if name.endswith(".obo") else table
        tables = loader.load([tmp_path / name], loader.Options(), Rejects(None))
        store.save(tables, tmp_path / f"{name}.terminology")
        opened.append(store.load_terminology(tmp_path / f"{name}.terminology"))
    paths = [mappings(tmp_path / "own.sssom.tsv", *rows.split(" ; "))] if rows else []
    merged = merging.merge(opened, paths, alphita.config.resolve(Options, sets=options.split()))
    store.save(merged.tables, tmp_path / "m.terminology", rejects=Rejects(None, strict=True))
    terminology = store.load_terminology(tmp_path / "m.terminology")
    counted = [f"{title}: {numbers}" for title, numbers in merged.counts.items()]
    joined = [" | ".join(row.values()) for row in merged.joined]
    refused = [" | ".join(row.values()) for row in merged.conflicts]
    found = [*joined, "", *refused, "", *counted, "", *facts(terminology), "", *manifest_facts(terminology)]
    check_held("merges", case, [row[0] for row in CASES], found)


def test_command(both, tmp_path):
    output = tmp_path / "new" / "m.terminology"
    file = mappings(tmp_path / "own.sssom.tsv", "AA:5 skos:exactMatch BB:6", "AA:5 skos:exactMatch nothing")
    said = run("merge", *(terminology.path for terminology in both), "-m", file, "-o", output, "--set", "over=join")
    assert "3  made of several" in said
    assert f"{output}: 8 concepts" in said
    with open(f"{output}.conflicts.tsv", newline="") as opened_:
        rows = list(csv.DictReader(opened_, delimiter="\t"))
    assert [row["kind"] for row in rows] == ["contested", "contested", "taken"]
    with open(f"{output}.joined.tsv", newline="") as opened_:
        assert len(list(csv.DictReader(opened_, delimiter="\t"))) == 3
    report = json.loads(Path(f"{output}.merge.json").read_text())
    assert (report["config"]["over"], report["refused"]) == ("join", {"contested": 2, "taken": 1})
    assert alphita.load_terminology(output).manifest["config"]["merged"][0]["name"] == "aa.terminology"
    assert Path(f"{output}.rejects.csv").read_text().count("not a CURIE") == 1
    with pytest.raises(InputError, match="not a CURIE"):
        run("merge", both[0].path, "-m", file, "-o", tmp_path / "x", "--strict")


def test_wrong_use(both, tmp_path):
    cases = [
        ([both[0].path, "-o", tmp_path / "x"], "at least two"),
        (["-o", tmp_path / "x"], "at least two"),
        ([both[0].path, both[1].path, "-o", both[0].path], "already exists"),
        ([both[0].path, both[1].path, "-o", tmp_path / "x", "--set", "xref=yes"], "option 'xref'"),
    ]
    for arguments, said in cases:
        with pytest.raises(UsageError, match=said):
            run("merge", *arguments)
    assert "--set xref=join" in run("merge", "--list")
    assert not (tmp_path / "x").exists()
