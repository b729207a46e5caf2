"""`terminology changes`: hand-made releases, and the command."""

from __future__ import annotations

import csv
import json

import pytest

from alphita.errors import UsageError
from alphita.terminology.changes import COLUMNS, KINDS, changes
from tests.terminology.conftest import FIXTURES, check_held
from tests.terminology.test_cli import run

OLD, NEW = ((FIXTURES / "changes" / f"{name}.obo").read_text() for name in ("old", "new"))


RETIRED = "\n[Term]\nid: X:{0}\nname: obsolete Thing\nis_obsolete: true\n".format
OTHERS = "\n\n".join(f"[Term]\nid: Y:{number}\nname: Other {number}" for number in range(1, 9))
RELEASES = {
    "every_kind": (OLD, NEW),
    "gone": (OLD + RETIRED(20) + RETIRED(21), NEW.replace("alt_id: X:6\n", "alt_id: X:6\nalt_id: X:20\n")),
    "nothing": (OLD, OLD),
    "another_prefix": (OLD, OLD.replace("X:", "Y:").replace("name: Otitis\n", "name: Inflamed ear\n")),
    "other_concepts_under_another_prefix": (OLD, f"format-version: 1.2\n\n{OTHERS}\n"),
}


@pytest.mark.parametrize("case", RELEASES)
def test_every_kind_of_change(build, case):
    old, new = RELEASES[case]
    found = changes(build("old", old), build("new", new))
    assert list(found.counts) == list(KINDS)
    assert sum(found.counts.values()) == len(found.table)
    summary = found.summary().splitlines()
    assert len(summary) <= 24
    assert max(map(len, summary)) <= 120
    rows = [" | ".join(row[column] for column in COLUMNS) for row in found.table.iter_rows(named=True)]
    check_held("changes", case, [*RELEASES], [str(found.as_json()["prefixes"]), *rows, "", *summary])


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
