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
