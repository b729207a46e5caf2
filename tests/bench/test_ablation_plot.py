"""The picture of the ablations: what is drawn, and what is refused."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return importlib.import_module("ablation_plot")


def row(title: str, **figures: list[float]) -> dict:
    return {"title": title, "figures": {key: {"values": some} for key, some in figures.items()}}


BASE = "the encoder as it comes"
ROWS = [row(BASE, synonyms_1=[0.5]), row("MS", synonyms_1=[0.25, 0.5], mcsm_mean=[6.5]), row("late")]


def test_figures_are_in_the_units_of_their_panels(program):
    assert program.panels_of(ROWS) == {"synonyms_1": {BASE: [50.0], "MS": [25.0, 50.0]}, "mcsm_mean": {"MS": [6.5]}}


def test_a_table_of_biolord_can_be_drawn_too(program):
    rows = [row(title, **{"STS-B": [value], "BC5CDR @1": [1.0]}) for title, value in ((BASE, 82.5), ("C", 81.25))]
    assert program.panels_of(rows) == {"STS-B": {BASE: [82.5], "C": [81.25]}}


def test_a_table_of_the_italian_system_can_be_drawn_too(program):
    rows = [
        {"title": title, "figures": {"f1": figures}}
        for title, figures in ((BASE, {"0": 0.25}), ("MS", {"1": 0.5, "0": 0.125}))
    ]
    assert program.panels_of(rows) == {"f1": {BASE: [25.0], "MS": [50.0, 12.5]}}


def test_the_picture_is_a_picture(program, tmp_path):
    (tmp_path / "table.json").write_text(json.dumps({"rows": ROWS}))
    assert program.main([str(tmp_path / "table.json"), "-o", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("content", ["{}", "no", json.dumps({"rows": ROWS[:1]})])
def test_what_is_no_table_or_has_nothing_to_draw_is_told(program, tmp_path, capsys, content):
    (tmp_path / "table.json").write_text(content)
    assert program.main([str(tmp_path / "table.json"), "-o", str(tmp_path / "a.png")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (tmp_path / "a.png").exists()
