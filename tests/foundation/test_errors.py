from __future__ import annotations

import csv
import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, MissingExtra, Rejects, require, shorten


def rows_of(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({}, "no id"),
        ({"file": "a.obo"}, "a.obo: no id"),
        ({"file": "a.obo", "line": 7}, "a.obo:7: no id"),
        ({"line": 7}, "7: no id"),
        ({"field": "id"}, "no id (field 'id')"),
        ({"value": 3}, "no id (value '3')"),
        ({"value": ""}, "no id (value '')"),
        ({"field": "id", "value": "HP:x\n"}, "no id (field 'id', value 'HP:x\\n')"),
        ({"remedy": "give one"}, "no id; give one"),
        (
            {"file": Path("d/a.obo"), "line": 7, "field": "id", "value": "x", "remedy": "write id: HP:0000001"},
            "d/a.obo:7: no id (field 'id', value 'x'); write id: HP:0000001",
        ),
    ],
)
def test_input_error_names_what_it_knows(facts, message):
    assert str(InputError("no id", **facts)) == message


def test_input_error_cuts_the_value_at_80_characters_and_keeps_the_whole():
    error = InputError("too long", value="x" * 100_000)
    assert str(error) == "too long (value '" + "x" * 79 + "…')"
    assert error.value == "x" * 100_000


@given(st.text(), st.integers(1, 100))
def test_shorten_never_exceeds_its_limit_and_keeps_what_fits(text, limit):
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text if len(text) <= limit else short == text[: limit - 1] + "…"


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.part"])
def test_require_says_which_extra_installs_a_missing_package(module):
    with pytest.raises(MissingExtra) as caught:
        require(module, "graph")
    assert str(caught.value) == "this needs no_such_package, which is not installed: pip install 'alphita[graph]'"


@pytest.mark.parametrize(
    ("content", "missing"), [("import no_such_thing", "no_such_thing"), ("import half.gone", "half.gone")]
)
def test_require_does_not_blame_an_installed_package_for_what_is_missing_inside(
    tmp_path, monkeypatch, content, missing
):
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "__init__.py").write_text("")
    (tmp_path / "half" / "part.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "half", raising=False)
    with pytest.raises(ModuleNotFoundError) as caught:
        require("half.part", "train")
    assert caught.value.name == missing


@pytest.mark.parametrize("left", [False, True])
def test_rejects_appear_with_the_first_and_are_their_owners_only(tmp_path, left):
    # In a folder that is new, or in place of one that others could read.
    path = tmp_path / "new" / "x.rejects.csv"
    if left:
        path.parent.mkdir()
        path.write_text("old\n")
    before = os.umask(0)
    try:
        with Rejects(path) as rejects:
            assert path.parent.exists() == left
            rejects.add("no id", file="a.obo", line=3, field="id", value="y" * 100_000)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            rejects.add("empty")
    finally:
        os.umask(before)
    assert rejects.count == 2
    assert rows_of(path) == [
        ["file", "line", "field", "value", "problem"],
        ["a.obo", "3", "id", "y" * 79 + "…", "no id"],
        ["", "", "", "", "empty"],
    ]


def test_rejects_added_after_a_close_join_the_earlier_ones(tmp_path):
    rejects = Rejects(tmp_path / "x.csv")
    for problem in ("first", "second", "third"):
        rejects.add(problem)
        rejects.close()
    assert [row[4] for row in rows_of(tmp_path / "x.csv")] == ["problem", "first", "second", "third"]


@pytest.mark.parametrize("strict", [False, True])
def test_private_rejects_hold_no_value(tmp_path, strict):
    path = tmp_path / "x.csv"
    message = ""
    with Rejects(path, private=True, strict=strict) as rejects:
        try:
            rejects.add("bad", line=4, field="mention", value="Mrs Smith")
        except InputError as error:
            message = str(error)
    if strict:
        assert message == "4: bad (field 'mention')"
        assert not path.exists()
    else:
        assert rows_of(path)[1] == ["", "4", "mention", "", "bad"]


def test_strict_rejects_raise_at_the_first(tmp_path):
    path = tmp_path / "x.csv"
    with (
        Rejects(path, strict=True) as rejects,
        pytest.raises(InputError, match=r"^a\.csv:2: empty \(field 'm', value ''\)$"),
    ):
        rejects.add("empty", file="a.csv", line=2, field="m", value="")
    assert not path.exists()


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=90), min_size=1, max_size=5))
def test_rejects_of_any_characters_parse_back(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("rejects") / "x.csv"
    with Rejects(path) as rejects:
        for value in values:
            rejects.add("bad", file="a,b\r.csv", value=value)
    # What UTF-8 cannot hold, a lone surrogate, becomes a question mark.
    shown = [shorten(value).encode(errors="replace").decode() for value in values]
    assert rows_of(path)[1:] == [["a,b\r.csv", "", "", value, "bad"] for value in shown]


def test_a_message_has_an_end() -> None:
    error = InputError("unknown column " + "x" * 10**6, file="a.csv", remedy="choose another")
    assert len(str(error)) < 3_100
    assert str(error).startswith("a.csv: unknown column x")
    assert str(error).endswith("choose another")
