"""Small terminologies, saved and opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import obo
from alphita.terminology.store import Terminology

FIXTURES = Path(__file__).parents[1] / "fixtures" / "terminology"
Load = Callable[..., tuple[Terminology, list[list[str]]]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function: loader module, files, options -> terminology opened, and the rejects' rows."""

    def run(loader: Any, *files: Path, **options: Any) -> tuple[Terminology, list[list[str]]]:
        with Rejects(tmp_path / "rejects.csv") as rejects:
            tables = loader.load(list(files), loader.Options(**options), rejects)
            store.save(tables, tmp_path / "x.terminology", rejects=rejects, force=True)
        return store.load_terminology(tmp_path / "x.terminology"), read_rejects(tmp_path / "rejects.csv")

    return run


def read_rejects(path: Path) -> list[list[str]]:
    import csv

    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(Rejects.FIELDS)
    return rows[1:]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Return a function that writes a file and returns its path."""

    def run(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return run


@pytest.fixture
def small(load: Load) -> Terminology:
    return load(obo, FIXTURES / "small.obo")[0]
