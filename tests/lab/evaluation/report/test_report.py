from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import alphita
from alphita import report


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


def test_a_fraction_as_a_cell() -> None:
    assert report.percent(0.368, [0.351, 0.385]) == "36.8 [35.1, 38.5]"
    assert (report.percent(0.61), report.percent(None)) == ("61.0", "–")
