from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import alphita
from alphita import printing, report


def test_provenance_says_what_is_needed_to_measure_again(monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/alphita", "evaluate", "--model", "m"])
    facts = report.provenance(config={"k": 3}, seed=7, data={"hpo": "2025-01-16"})
    assert facts["command"] == ["alphita", "evaluate", "--model", "m"]
    assert facts["config"] == {"k": 3}
    assert facts["seed"] == 7
    assert facts["data"] == {"hpo": "2025-01-16"}
    assert facts["alphita_version"] == alphita.__version__
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["machine"]["cores"] >= 1
    assert facts["commit"] is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", facts["commit"])


def test_commit_is_that_of_the_package_itself(tmp_path, monkeypatch) -> None:
    calls: list[tuple[Path, tuple[str, ...]]] = []

    def git(root: Path, *arguments: str) -> str:
        calls.append((root, arguments))
        return "a" * 40 if arguments[0] == "rev-parse" else " M src/alphita/errors.py"

    monkeypatch.setattr(report, "_git", git)
    # Installed in a virtual environment that lies within someone's own repository.
    (tmp_path / ".git").mkdir()
    module = tmp_path / "site-packages" / "alphita" / "report.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(report, "__file__", str(module))
    assert report.provenance()["commit"] is None
    assert calls == []
    checkout = tmp_path / "src" / "alphita" / "report.py"
    checkout.parent.mkdir(parents=True)
    monkeypatch.setattr(report, "__file__", str(checkout))
    assert report.provenance()["commit"] == "a" * 40 + "-dirty"
    assert calls[0][0] == tmp_path
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert report._git(tmp_path, "rev-parse", "HEAD") is None


def test_report_is_written_whole(tmp_path) -> None:
    path = tmp_path / "report.json"
    figures = {"sample": {"acc1": np.float32(0.5), "n": np.int64(3), "ends": np.array([0.25, 0.75])}, "at": Path("x")}
    written = report.write(path, figures, provenance=report.provenance(seed=1))
    assert written == json.loads(path.read_text(encoding="utf-8"))
    assert written["sample"] == {"acc1": 0.5, "n": 3, "ends": [0.25, 0.75]}
    assert written["at"] == "x"
    assert written["format_version"] == 1
    assert list(written)[:2] == ["format_version", "provenance"]
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.write(path, {"loss": float("nan")}, provenance={})
    with pytest.raises(ValueError, match=r"cannot be figures: \['provenance'\]"):
        report.write(path, {"provenance": 1}, provenance={})
    with pytest.raises(TypeError, match="cannot hold a set"):
        report.write(path, {"ids": {1}}, provenance={})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_table_shows_every_figure_and_marks_the_best() -> None:
    rows = {
        "TF-IDF [3-grams]": {"acc1": 0.368, "acc1_interval": [0.351, 0.385], "acc3": 0.548},
        "trained": {"acc1": 0.61, "acc1_interval": [0.592, 0.627]},
    }
    columns = {"acc1": "accuracy@1", "acc3": "accuracy@3"}
    console = printing.console(width=90, record=True, file=io.StringIO(), force_terminal=True)
    console.print(report.render_table(rows, columns, title="Held-out synonyms"))
    text = console.export_text(clear=False)
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    assert lines[0] == ["Held-out synonyms"]
    assert lines[1] == ["accuracy@1", "accuracy@3"]
    assert lines[3:] == [["TF-IDF [3-grams]", "36.8 [35.1, 38.5]", "54.8"], ["trained", "61.0 [59.2, 62.7]", "–"]]
    styled = console.export_text(styles=True)
    assert "\x1b[1m61.0" in styled
    assert "\x1b[1m36.8" not in styled
