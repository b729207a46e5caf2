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
PAGES = ["index", "servers", "troubleshooting", "results/benchmarks", "results/adversarial", "reference/rest"]


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
    # A section of which a table is long enough to have a field.
    for label in sections:
        choice.select_option(label=label)
        if page.locator("[data-tables] input[type=search]").count():
            break
    table = page.locator("[data-tables] input[type=search] + table").first
    field, every = page.locator("[data-tables] input[type=search]").first, table.locator("tbody tr").count()
    word = table.locator("tbody tr").first.locator("td").first.inner_text().split()[0]
    field.fill(word)
    assert 0 < table.locator("tbody tr:visible").count() <= every
    field.fill("no such word anywhere")
    assert table.locator("tbody tr:visible").count() == 0
    field.fill("")
    assert table.locator("tbody tr:visible").count() == every


def test_the_site_is_searched_from_a_disk(page, site):
    page.goto((site / "start" / "install.html").as_uri())
    page.locator(".md-search__input").click()
    page.keyboard.type("ConceptMap")
    page.locator(".md-search-result__item").first.wait_for()
    assert page.locator(".md-search-result__item").count() >= 3


def test_only_long_tables_have_a_field(page, site):
    page.goto((site / "glossary.html").as_uri())
    long = page.evaluate(
        "() => [...document.querySelectorAll('article table')].filter(t => t.tBodies[0].rows.length >= 20).length"
    )
    assert page.locator("article input[type=search]").count() == long


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_a_page_of_each_kind(page, site, scheme):
    page.emulate_media(color_scheme=scheme)
    wrong = {}
    for file in [site / f"{name}.html" for name in PAGES]:
        page.goto(file.as_uri())
        page.wait_for_timeout(500)  # the theme's last touches
        if found := violations(page):
            wrong[file.relative_to(site).as_posix()] = found
    assert wrong == {}
