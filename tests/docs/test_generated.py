"""The tables of settings in the docs are generated; ALPHITA_UPDATE_DOCS=1 writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from alphita import config, registry

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def settings_table(recipe: str) -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for option in config.options(registry.load("alphita.recipes", recipe).Config):
        lines.append(f"| `{option.name}` | {option.default} | {option.description.replace('|', '/')} |")
    return "\n".join(lines)


@pytest.mark.parametrize("recipe", registry.names("alphita.recipes"))
def test_settings_in_the_docs_are_the_codes(recipe: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    block = re.compile(rf"(<!-- settings: {recipe} -->\n)(.*?)(<!-- end -->)", re.DOTALL)
    assert block.search(page), f"docs/training.md has no settings of {recipe}"
    expected = block.sub(lambda found: f"{found[1]}{settings_table(recipe)}\n{found[3]}", page)
    if os.environ.get("ALPHITA_UPDATE_DOCS"):
        PAGE.write_text(expected, encoding="utf-8")
    assert page == expected or os.environ.get("ALPHITA_UPDATE_DOCS"), "run with ALPHITA_UPDATE_DOCS=1"
