from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import AlphitaError, UsageError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package `systems_x.recipes` whose choices must not be imported to be listed."""
    package = tmp_path / "systems_x" / "recipes"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    for name in ("coder", "sapbert", "_shared"):
        (package / f"{name}.py").write_text("raise ImportError('listing imported a choice')\n")
    (package / "notes.txt").write_text("")
    (package / "bundle").mkdir()
    (package / "bundle" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "systems_x"]:
        del sys.modules[name]


def test_names_are_the_modules_sorted_and_none_is_imported(folder):
    assert registry.names("systems_x.recipes") == ["bundle", "coder", "sapbert"]
    assert not [name for name in sys.modules if name.startswith("systems_x.recipes.")]


def test_one_new_file_is_one_new_choice(folder):
    (folder / "alpha.py").write_text("ANSWER = 42\n")
    (folder / "__init__.py").write_text("")
    assert "alpha" in registry.names("systems_x.recipes")
    assert registry.load("systems_x.recipes", "alpha").ANSWER == 42


def test_a_choice_that_lacks_a_part_says_which(folder):
    (folder / "__init__.py").write_text(
        "from alphita.registry import Group\nPLUGINS = Group('none.x', ('CITATION', 'Config', 'train'))\n"
    )
    (folder / "alpha.py").write_text("Config = train = None\n")
    with pytest.raises(AlphitaError, match=r"systems_x\.recipes\.alpha lacks CITATION;"):
        registry.load("systems_x.recipes", "alpha")


def test_constants_are_read_without_importing_the_choice(folder):
    (folder / "coder.py").write_text("SUFFIXES: tuple[str, ...] = ('.x.csv',)\nraise ImportError\n")
    (folder / "sapbert.py").write_text("SUFFIXES = ('.csv', '.json')\nraise ImportError\n")
    (folder / "bundle" / "__init__.py").write_text("SUFFIXES = tuple(['.made'])\n")
    found = registry.constants("systems_x.recipes", "SUFFIXES")
    assert found == {"bundle": (".made",), "coder": (".x.csv",), "sapbert": (".csv", ".json")}
    told = {"A.X.CSV": "coder", "a.csv": "sapbert", "a.sapbert.json": "sapbert", "a.made": "bundle", "a.txt": None}
    assert {file: registry.by_suffix("systems_x.recipes", file) for file in told} == told


def test_unknown_suggests_the_nearest():
    with pytest.raises(UsageError) as caught:
        registry.load("alphita_lab.recipes", "codr")
    choices = registry.names("alphita_lab.recipes")
    assert str(caught.value) == f"unknown recipe 'codr'; did you mean 'coder'? choose from {choices}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["", "_shared", "coder.Config", "../coder", "os"])
def test_only_a_listed_choice_is_loaded(folder, name):
    with pytest.raises(UsageError, match=r"^unknown recipe .* choose from \['bundle', 'coder', 'sapbert'\]$"):
        registry.load("systems_x.recipes", name)


@given(st.text(), st.sets(st.text(), max_size=5))
def test_unknown_names_the_bad_and_all_the_good(name, choices):
    text = registry.unknown("option", name, choices)
    assert text.startswith(f"unknown option {name!r};")
    assert text.endswith(f"choose from {sorted(choices)}")
