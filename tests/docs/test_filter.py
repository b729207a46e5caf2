"""The site in a browser, read from a disk: long tables are filtered, figures are drawn, and axe finds nothing wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.test_page_access import violations
from tests.service.test_page_walk import CHROMIUM, browser

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; ALPHITA_CHROMIUM names one")]
__all__ = ["browser"]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def page(browser, site) -> Iterator[Any]:
    context = browser.new_context()
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request", lambda asked: None if asked.url.startswith(("file:", "data:", "blob:")) else wrong.append(asked.url)
    )
    yield opened
    assert wrong == []
    context.close()


def shown(page: Any) -> int:
    return int(
        page.evaluate("() => [...document.querySelectorAll('[data-tables] tbody tr')].filter(r => !r.hidden).length")
    )


def test_figures_are_drawn_by_section_and_filtered_by_words(page, site):
    page.goto((site / "results" / "benchmarks.html").as_uri())
    choice = page.locator("[data-tables] select")
    sections = choice.locator("option").all_text_contents()
    assert len(sections) > 10
    seen = set()
    for label in sections:
        choice.select_option(label=label)
        seen.add(page.locator("[data-tables] table").first.inner_text())
    assert len(seen) > len(sections) // 2
    longest = page.evaluate(
        "async () => { const s = document.querySelector('[data-tables] select'); let best = 0, most = 0;"
        "for (let i = 0; i < s.options.length; i++) { s.selectedIndex = i; s.dispatchEvent(new Event('change'));"
        "const n = document.querySelectorAll('[data-tables] tbody tr').length; if (n > most) { most = n; best = i; } }"
        "s.selectedIndex = best; s.dispatchEvent(new Event('change')); return most; }"
    )
    field = page.locator("[data-tables] input[type=search]").first
    word = page.locator("[data-tables] tbody tr").first.locator("td").first.inner_text().split()[0]
    field.fill(word)
    assert 0 < shown(page) <= longest
    field.fill("no such word anywhere")
    rows = page.locator("[data-tables] table").first.locator("tbody tr")
    assert all(not row.is_visible() for row in rows.all())
    field.fill("")
    assert shown(page) == longest


def test_only_long_tables_have_a_field(page, site):
    page.goto((site / "glossary.html").as_uri())
    long = page.evaluate(
        "() => [...document.querySelectorAll('article table')].filter(t => t.tBodies[0].rows.length >= 12).length"
    )
    assert page.locator("article input[type=search]").count() == long


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "start/omop", "results/benchmarks", "reference/commands", "troubleshooting"])
def test_axe_finds_nothing(page, site, name, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto((site / f"{name}.html").as_uri())
    assert violations(page) == []
