"""The bench of BioLORD's phases: a run from data to table, what goes on, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from alphita.terminology import splits
from tests.stanzas import defined
from tests.tiny import SITES, tiny_model

PROGRAM = Path(__file__).parents[2] / "bench" / "biolord.py"
SMALL = ["steps=2", "batch=8", "adapt_batch=4", "distil_batch=8", "dim=4", "seeds=2", "max_length=32", "precision=fp32"]
PHASES = ["base, adapted (A)", "A + contrast", "A + contrast + A (C)", "self-distilled (S)", "soup"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a terminology, its split, a model, scored sentences, and what the bench made of them."""
    folder = tmp_path_factory.mktemp("made")
    splits.hold_out_synonyms(defined(folder / "t.terminology"), fraction=0.5, seed=1).save(folder / "t.split")
    tiny_model(folder / "model")
    rows = "".join(f"pain of the {a}\tthe {b} is bad\t{5.0 if a == b else 1.5}\n" for a in SITES[:4] for b in SITES[:4])
    (folder / "sts.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    done = bench(folder, "--runs", "biolord")
    assert done.returncode == 0, done.stderr
    return folder


def bench(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, PROGRAM, "run", "--terminology", folder / "t.terminology", "--split", folder / "t.split",
        "--scored", folder / "sts.tsv", "--dev-scored", folder / "sts.tsv", "--data", folder, "-o", folder / "out",
        "--encoder", folder / "model", "--seeds", "3", "--benchmarks", "held_out_synonyms", *more,
    ]  # fmt: skip
    sets = [word for setting in SMALL for word in ("--set", setting)]
    return subprocess.run([*command, *sets], capture_output=True, text=True, check=False)


def test_a_row_of_the_table_for_each_phase(made):
    rows = json.loads((made / "out" / "table.json").read_text())["rows"]
    assert [row["title"] for row in rows] == ["the encoder as it comes", *PHASES]
    assert [row["seeds"] for row in rows] == [[0], *[[3]] * 5]
    # The figures are those of the reports.
    reports = {"the encoder as it comes": ("base", "base"), "soup": ("biolord/3/report", "model")}
    for title, (place, system) in reports.items():
        report = json.loads((made / "out" / place / "report.json").read_text())
        (found,) = [
            100 * figure["value"] for one in report["benchmarks"][0]["systems"] if one["name"] == system
            for figure in one["figures"] if (figure["metric"], figure["subset"]) == ("accuracy@1", "all")
        ]  # fmt: skip
        (row,) = [row for row in rows if row["title"] == title]
        assert row["figures"]["held-out synonyms @1"] == {"values": [found]}
        assert f"| {title} | 1 | {found:.1f} |" in (made / "out" / "table.md").read_text()


def test_what_is_done_is_not_done_again(made):
    model = made / "out" / "biolord" / "3" / "model" / "model.safetensors"
    before = model.stat().st_mtime_ns
    done = bench(made, "--runs", "biolord")
    assert done.returncode == 0
    assert "A + contrast + A (C)" in done.stdout
    assert model.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--runs", "biolord,lord"], "unknown: lord; runs: biolord, lord_2022"),
        (["--benchmarks", "sts,stsb"], "unknown: stsb"),
        (["--set", "epochs=2"], "was begun with other data or settings"),
    ],
)
def test_what_is_refused(made, more, told):
    done = bench(made, *more)
    assert done.returncode == 1
    assert told in done.stderr


def test_what_an_earlier_table_has_is_taken_over(made):
    earlier = made / "out" / "table.json"
    done = bench(made, "-o", made / "later", "--earlier", earlier, "--runs", "biolord,lord_2022")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (made / "later").iterdir()) == [
        "lord_2022",
        "plan.json",
        "table.json",
        "table.md",
    ]
    rows = json.loads((made / "later" / "table.json").read_text())["rows"]
    assert rows[:-1] == json.loads(earlier.read_text())["rows"]
    assert (rows[-1]["title"], rows[-1]["seeds"]) == ("2022: contrast, no adaptation", [3])
    # A run's own cells come before those of the earlier table, and that table serves the next one.
    told = json.loads(earlier.read_text())
    told["rows"] = [rows[-1] | {"seeds": [3, 1], "commits": ["a", "b"], "processors": ["c", "d"]}]
    told["rows"][0]["figures"] = {"held-out synonyms @1": {"values": [99.0, 12.5]}}
    (made / "other.json").write_text(json.dumps(told))
    command = [sys.executable, PROGRAM, "table", made / "later", "--earlier", made / "other.json"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (row,) = json.loads((made / "later" / "table.json").read_text())["rows"]
    own = rows[-1]["figures"]["held-out synonyms @1"]["values"][0]
    assert (row["seeds"], row["commits"][0]) == ([1, 3], "b")
    assert row["figures"]["held-out synonyms @1"]["values"] == [12.5, own]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: table["provenance"]["config"].update(split="ab"), "was made with other values of split"),
        (lambda table: table["rows"][0].update(title="C"), "there is no such row"),
        (lambda table: table["rows"][0].pop("commits"), "is no table of this program's (KeyError: 'commits')"),
        (lambda table: table.pop("rows"), "is no table of this program's"),
    ],
)
def test_an_earlier_table_that_does_not_fit_is_refused(made, change, told):
    table = json.loads((made / "out" / "table.json").read_text())
    change(table)
    (made / "unfit.json").write_text(json.dumps(table))
    done = bench(made, "-o", made / "never", "--earlier", made / "unfit.json")
    assert done.returncode == 1
    assert told in done.stderr
    assert not (made / "never" / "biolord").exists()
