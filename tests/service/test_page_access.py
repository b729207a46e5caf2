"""The review page by axe: in both themes, wide and narrow, with each dialog open, empty, and with an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.page_service import PageService
from tests.service.test_page_walk import CHROMIUM, browser, press, ready, reviewing

axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; ALPHITA_CHROMIUM names one")]
__all__ = ["browser"]
SOURCE = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SIZES = {"wide": {"width": 1280, "height": 720}, "narrow": {"width": 390, "height": 844}}


def violations(page: Any) -> list[str]:
    """Return what axe finds, each with its rule and the elements."""
    # By the debugger, for the page's policy lets no other script in.
    page.evaluate(SOURCE)
    found = page.evaluate("rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})", RULES)
    return [
        f"{one['id']} ({one['impact']}): {[node['target'] for node in one['nodes']]}" for one in found["violations"]
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, scheme, size):
    with reviewing(browser, PageService(rows=40), viewport=SIZES[size], color_scheme=scheme) as page:
        assert violations(page) == []
        # The states that a reviewer comes to: decided, and each tool.
        press(page, "Enter")
        ready(page)
        assert violations(page) == []
        for key in ("/", "c", "Shift+B", "p", "g", "e", "Shift+?"):
            press(page, key)
            page.wait_for_selector("dialog[open]")
            assert (key, violations(page)) == (key, [])
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog[open]", state="detached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_where_there_is_nothing_and_where_something_failed(browser, scheme):
    with reviewing(browser, PageService(rows=40, failing=[500, 500]), color_scheme=scheme) as page:
        press(page, "x")
        page.wait_for_selector("#notices *")
        assert violations(page) == []
    with reviewing(browser, PageService(rows=40), color_scheme=scheme) as page:
        page.fill("#filter-search", "no such text")
        page.wait_for_function("() => document.querySelectorAll('#list .item').length === 0")
        assert violations(page) == []


def test_axe_sees_what_is_wrong(browser):
    with reviewing(browser, PageService(rows=3)) as page:
        page.evaluate("document.getElementById('queue-count').style.color = '#c8c8c8'")
        (found,) = violations(page)
        assert found.startswith("color-contrast (serious): [['#queue-count']]")
