"""What comes beside the code is found in a clone and where a wheel puts it."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from alphita import shipped
from alphita.errors import InputError

NAME = "examples/messy_terms.csv"


def test_in_a_clone():
    assert shipped.find(NAME) == Path(shipped.__file__).parents[2] / NAME
    assert (shipped.find("models/alphita-en") / "onnx").is_dir()


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The package as if it lay in site-packages, away from its examples."""
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "lib" / "site-packages" / "alphita" / "shipped.py"))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "data"))
    return tmp_path


def test_where_a_wheel_puts_it(installed):
    wanted = installed / "data" / "share" / "alphita" / NAME
    wanted.parent.mkdir(parents=True)
    wanted.write_text("")
    assert shipped.find(NAME) == wanted


class Installed:
    """A file of an installed distribution, with the place where it lies."""

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root = name, root

    def as_posix(self) -> str:
        return self.name

    def locate(self) -> Path:
        return self.root / self.name.removeprefix("../../../")


@pytest.mark.parametrize("name", [NAME, "models/alphita-en"])
def test_where_the_distribution_says(installed, monkeypatch, name):
    paths = [f"../../../share/alphita/{one}" for one in (NAME, "models/alphita-en/onnx/m.onnx")]
    files = [Installed(path, installed / "target") for path in ("alphita/__init__.py", *paths)]
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: SimpleNamespace(files=files))
    assert shipped.find(name) == installed / "target" / "share" / "alphita" / name


def test_what_is_nowhere_is_told(installed):
    with pytest.raises(InputError, match="install alphita again"):
        shipped.find("examples/none.csv")


def test_what_is_shipped_and_reported_names_no_place_of_the_machine_that_made_it():
    root = Path(shipped.__file__).parents[2]
    files = [*root.glob("models/**/manifest.json"), *root.glob("docs/results/*.json")]
    assert files
    assert not {file.name for file in files if re.search(r'"/\w+/', file.read_text(encoding="utf-8"))}
