from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))
plot = importlib.import_module("multilingual_plot")


def row(group: str, official: int | None, before: float, *after: float, trained: bool = False) -> dict[str, Any]:
    return {
        "group": group, "official": official, "queries": 1500, "trained": trained, "before": [before, 0.0],
        "after": list(after),
    }  # fmt: skip


ROWS = [
    row("zh", 9000, 0.02, 0.01, 0.03), row("es", 5000, 0.25, 0.75, 0.85, trained=True),
    row("it", 900, 0.3, 0.9, 0.9, trained=True), row("English, all concepts", None, 0.5, 0.5, 0.6),
]  # fmt: skip


def test_lines_are_in_percent_and_what_was_trained_comes_first() -> None:
    found = plot.lines_of(ROWS)
    assert [label for label, _, _ in found] == [
        "es (1,500)",
        "zh, not trained (1,500)",
        "English, all concepts (1,500)",
    ]
    assert [(before, after) for _, before, after in found] == [
        (25, pytest.approx(80)), (2, pytest.approx(2)), (50, pytest.approx(55)),
    ]  # fmt: skip


def test_the_picture_is_drawn_or_the_table_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, picture = tmp_path / "table.json", tmp_path / "p.png"
    words = [str(table), "-o", str(picture)]
    assert plot.main(words) == 2
    assert "is no table of multilingual.py" in capsys.readouterr().err
    table.write_text(json.dumps({"rows": [row("es", 5000, 0.25)]}))
    assert plot.main(words) != 0
    assert "no model after training" in capsys.readouterr().err
    assert not picture.exists()
    table.write_text(json.dumps({"rows": ROWS}))
    assert plot.main(words) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
