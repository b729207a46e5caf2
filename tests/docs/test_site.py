"""The site: every page is in the navigation, every link leads somewhere, and no page is too long to be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
OTHERS += sorted((ROOT / "models").glob("*/README.md"))
# Figures and what is made of the code are looked up, not read.
READ = [page for page in PAGES if page.relative_to(DOCS).parts[0] not in {"results", "reference"}]
WORDS = 1500
README_WORDS = 1200
# Pages that answer by a list.
LISTS = {"index.md", "glossary.md"}
# Results that are longer, without what is drawn from JSON: a line an experiment, four experiments with their claims.
LONG = {"results/log.md", "results/product_search.md"}
RESULTS = [page for page in PAGES if page.parent.name == "results"]


def site() -> dict:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def listed(navigation: list | dict | str) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
        return
    for below in navigation.values() if isinstance(navigation, dict) else navigation:
        yield from listed(below)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    named: set[str] = set()
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (heading := re.match(r"#{1,6} (.+)", line)):
            text = re.sub(r"\[([^]]*)]\([^)]*\)", r"\1", heading[1])
            anchor = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())
            assert anchor not in named, f"{page.name}: two headings of the anchor {anchor}"
            named.add(anchor)
    return named


def test_every_page_is_in_the_navigation_once():
    names = list(listed(site()["nav"]))
    assert len(names) == len(set(names))
    there = {page.relative_to(DOCS).as_posix() for page in PAGES}
    assert there - set(names) == set(), "pages that no reader of the site finds: add them to nav in mkdocs.yml"
    assert set(names) - there == set()


def test_every_picture_is_shown_somewhere():
    text = "".join(page.read_text(encoding="utf-8") for page in [*PAGES, *OTHERS])
    assert [file.name for file in (DOCS / "images").iterdir() if file.name not in text] == []


def test_the_site_fetches_nothing_from_elsewhere():
    settings = site()
    assert settings["theme"]["font"] is False
    assert [name for name in settings["extra_javascript"] if not (DOCS / name).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere_and_nothing_is_left_to_fill_in(page):
    text = page.read_text(encoding="utf-8")
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not re.match(r"\w+:", target) and (
            not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file))
        ):
            dead.append(target)
    assert dead == []
    assert re.findall(r"@@\w+@@", text) == []


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_is_short_and_begins_with_the_command_that_does_it(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) < WORDS
    assert text.startswith("# ")
    if page.name not in LISTS:
        opening = [line for line in text.splitlines()[1:] if line and not line.startswith("<!--")]
        assert opening[0].startswith("```"), f"{page.name} begins with {opening[0]!r}"
        assert blocks(page)[0].language in {"sh", "python"}


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_of_results_is_short_too(page):
    written = re.sub(r"<!-- (figures: \w+|verdicts) -->.*?<!-- end -->", "", page.read_text("utf-8"), flags=re.DOTALL)
    assert (len(written.split()) >= WORDS) == (page.relative_to(DOCS).as_posix() in LONG), "cut it, but for figures"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < README_WORDS


def told(node: ast.AST) -> str | None:
    """Return a string of the code, with `…` for what is put in when it runs; None for what is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


@cache
def messages() -> list[str]:
    """Return every string of the code that may be told."""
    sources = (ROOT / "src").rglob("*.py")
    nodes = (node for file in sources for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return [text for node in nodes if (text := told(node)) and " " in text]


def is_told(quoted: str) -> bool:
    parts = [re.escape(part.strip()) for part in quoted.split("…") if part.strip(" ;:()")]
    return any(re.search(r".*?".join(parts), text, re.DOTALL) for text in messages())


def test_every_message_of_the_troubleshooting_page_is_one_of_the_codes():
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)
    assert len(quoted) > 40
    assert [message for message in quoted if not is_told(message)] == []
    assert not is_told("no such … was ever told to …")


def test_every_file_that_the_page_on_the_code_names_is_there():
    named = re.findall(r"`([a-z0-9_/]+\.(?:py|tsv))`", (DOCS / "architecture.md").read_text(encoding="utf-8"))
    sources = ROOT / "src"
    files = [file.relative_to(sources).as_posix() for file in sources.rglob("*.*")]
    assert [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)] == []


def test_the_test_that_holds_an_ability_is_there():
    page = (DOCS / "results" / "abilities.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and line != "| | tested by |"]
    named = re.findall(r"`(tests/[\w/]+\.py)((?:::\w+)*)`", page)
    assert len(named) == len(rows) > 38
    for file, parts in named:
        inside: list[ast.stmt] = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        for part in filter(None, parts.split("::")):
            (found,) = [one for one in inside if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and one.name == part]
            inside = found.body
