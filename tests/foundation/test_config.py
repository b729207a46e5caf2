from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, model_validator

from alphita.config import Config, options, resolve
from alphita.errors import AlphitaError, InputError, UsageError


class Settings(Config):
    steps: int = Field(100, ge=1, description="optimiser steps (§4.2)")
    rate: float = Field(2e-5, gt=0)
    dropout: float | None = Field(0.1, ge=0, lt=1)
    pooling: Literal["cls", "mean"] = "cls"
    inverse: bool = True
    delimiter: str = ","
    folder: Path | None = None
    norm: Literal["none", "l2"] | None = "l2"
    names: tuple[str, ...] = Field(default_factory=tuple)
    least: int = 0

    @model_validator(mode="after")
    def _in_order(self) -> Settings:
        if self.least > self.steps:
            raise ValueError(f"least={self.least} must not exceed steps={self.steps}")
        return self


class Needs(Config):
    column: str


def refusal(**arguments: object) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(Settings, **arguments)
    return str(caught.value)


def test_set_wins_over_file_over_base_over_default(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("steps = 3\nrate = 0.3\n")
    config = resolve(Settings, file=file, sets=["steps=4"], base={"steps": 2, "rate": 0.2, "pooling": "mean"})
    assert (config.steps, config.rate, config.pooling, config.inverse) == (4, 0.3, "mean", True)
    assert resolve(Settings) == Settings()
    assert resolve(Settings, sets=["steps=4", "steps=5"]).steps == 5


@pytest.mark.parametrize(
    ("item", "key", "value"),
    [
        ("steps=7", "steps", 7),
        (" steps = 7 ", "steps", 7),
        ("rate=1e-4", "rate", 1e-4),
        ("rate=1", "rate", 1.0),
        ("dropout=0.5", "dropout", 0.5),
        ("dropout=none", "dropout", None),
        ("dropout=None", "dropout", None),
        ("folder=none", "folder", None),
        ("folder=a/b=c", "folder", Path("a/b=c")),
        ("pooling=mean", "pooling", "mean"),
        ("inverse=false", "inverse", False),
        ("inverse=0", "inverse", False),
        ("inverse=True", "inverse", True),
        ("norm=none", "norm", "none"),
        ("delimiter=none", "delimiter", "none"),
        ("delimiter=", "delimiter", ""),
        ("delimiter=\t", "delimiter", "\t"),
        ("delimiter==", "delimiter", "="),
    ],
)
def test_strings_become_what_the_field_is(item, key, value):
    found = getattr(resolve(Settings, sets=[item]), key)
    assert found == value
    assert type(found) is type(value)


def test_a_file_unsets_an_optional_field_too(tmp_path):
    (tmp_path / "c.toml").write_text('dropout = "none"\nnames = ["a", "b"]\n')
    config = resolve(Settings, file=tmp_path / "c.toml")
    assert config.dropout is None
    assert config.names == ("a", "b")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("steps", "--set 'steps' is not of the form key=value"),
        ("", "--set '' is not of the form key=value"),
        ("steps=1.5", "option 'steps': Input should be a valid integer"),
        ("steps=none", "option 'steps': Input should be a valid integer"),
        ("steps=0", "option 'steps': Input should be greater than or equal to 1 (value '0')"),
        ("rate=fast", "option 'rate': Input should be a valid number"),
        ("dropout=1", "option 'dropout': Input should be less than 1 (value '1')"),
        ("pooling=max", "option 'pooling': Input should be 'cls' or 'mean' (value 'max')"),
        ("inverse=perhaps", "option 'inverse': Input should be a valid boolean"),
        ("least=101", "options: least=101 must not exceed steps=100"),
        ("step=7", "unknown option 'step'; did you mean 'steps'? choose from ['delimiter', 'dropout', "),
        ("model_config=7", "unknown option 'model_config'; "),
    ],
)
def test_what_is_wrong_is_said(item, message):
    assert refusal(sets=[item]).startswith(message)


def test_a_long_wrong_value_is_cut():
    assert refusal(sets=["steps=" + "9" * 50 + "x" * 100_000]).endswith("…)")
    assert len(refusal(sets=["steps=" + "x" * 100_000])) < 200


def test_unknown_keys_of_file_and_base_are_refused(tmp_path):
    (tmp_path / "c.toml").write_text("[training]\nsteps = 3\n")
    with pytest.raises(InputError, match=r"c\.toml:1: unknown option 'training'; choose from \["):
        resolve(Settings, file=tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("rate = 0.1\nsteps = 0\n")
    with pytest.raises(InputError, match=r"c\.toml:2: .* greater than or equal to 1 \(field 'steps', value '0'\)"):
        resolve(Settings, file=tmp_path / "c.toml", sets=["rate=0.2"])
    assert refusal(base={"ratee": 1}).startswith("unknown option 'ratee'; did you mean 'rate'? choose from [")


def test_a_required_field_is_named():
    with pytest.raises(UsageError, match=r"^option 'column': Field required"):
        resolve(Needs)
    assert resolve(Needs, sets=["column=term"]).column == "term"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"steps 3", ":1: not valid TOML: "),
        (b"steps = \xff", ":1: not UTF-8: invalid start byte (value 'steps = "),
        (b"steps = 1\nsteps = 2", ":2: not valid TOML: "),
        (b"\x00", ":1: not valid TOML: "),
        (None, ": cannot be read: No such file or directory"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, problem):
    file = tmp_path / "c.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        resolve(Settings, file=file)
    assert str(caught.value).startswith(f"{file}{problem}")


@given(st.lists(st.text(max_size=20), max_size=4), st.text(max_size=20))
def test_any_string_gives_a_config_or_one_clear_error(items, value):
    for sets in (items, [f"{name}={value}" for name in Settings.model_fields]):
        try:
            answer = repr(resolve(Settings, sets=sets))
        except AlphitaError as error:
            answer = str(error)
        assert "\n" not in answer


def test_options_are_listed_in_order_with_type_default_and_meaning():
    assert [(o.name, o.type, o.default) for o in options(Settings)] == [
        ("steps", "int", "100"),
        ("rate", "float", "2e-05"),
        ("dropout", "float | None", "0.1"),
        ("pooling", "Literal['cls', 'mean']", "cls"),
        ("inverse", "bool", "True"),
        ("delimiter", "str", ","),
        ("folder", "pathlib.Path | None", "none"),
        ("norm", "Optional[Literal['none', 'l2']]", "l2"),
        ("names", "tuple[str, ...]", "()"),
        ("least", "int", "0"),
    ]
    assert options(Settings)[0].description == "optimiser steps (§4.2)"
    assert options(Needs)[0].default == "required"
