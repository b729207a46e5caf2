"""The review page as it is written: nothing from elsewhere or inline, everything labelled, every key in the help."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "src" / "alphita" / "service" / "page"
SCRIPTS = sorted(PAGE.glob("*.js"))
CONTROLS = ("input", "select", "textarea")
# Foreground on background, as the style sheet has them, and the least contrast (WCAG 2.1, AA: text 4.5, edges 3).
PAIRS = [
    *((text, ground, 4.5) for text in ("text", "quiet") for ground in ("ground", "surface")),
    *((text, "surface", 4.5) for text in ("good", "warn", "bad", "accent")),
    *(("text", ground, 4.5) for ground in ("raised", "chosen")),
    ("warn", "warn-ground", 4.5),
    ("bad", "bad-ground", 4.5),
    ("on-accent", "accent", 4.5),
    ("edge", "surface", 3.0),
    ("edge", "ground", 3.0),
    ("accent", "ground", 3.0),
]


class Elements(HTMLParser):
    """Every element of a page, with its attributes, text, and whether it stands in a label."""

    VOID = ("meta", "link", "input")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str], bool]] = []
        self.open: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        in_label = any(self.found[place][0] == "label" for place in self.open)
        self.found.append((tag, dict(attrs), [], in_label))
        if tag not in self.VOID:
            self.open.append(len(self.found) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.found[self.open.pop()][0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        for place in self.open:
            self.found[place][2].append(data)


@pytest.fixture(scope="module")
def elements() -> list[tuple[str, dict[str, str | None], list[str], bool]]:
    parser = Elements()
    parser.feed((PAGE / "index.html").read_text(encoding="utf-8"))
    assert not parser.open
    return parser.found


def shortcuts() -> list[dict[str, str]]:
    """Return the lines of the table of shortcuts."""
    text = (PAGE / "keys.js").read_text(encoding="utf-8")
    table = text[text.index("SHORTCUTS = [") : text.index("\n];")]
    entry = re.compile(
        r'\{ action: "(?P<action>\w+)", group: "\w+", keys: \[(?P<keys>[^]]+)\],.* says: "(?P<says>[^"]+)" \}'
    )
    lines = [line for line in table.splitlines() if "action:" in line]
    found = [match.groupdict() for line in lines if (match := entry.search(line))]
    assert len(found) == len(lines) > 15
    return found


def keys_of(shortcut: dict[str, str]) -> list[str]:
    return re.findall(r'"([^"]+)"', shortcut["keys"])


@pytest.mark.parametrize("path", sorted(PAGE.iterdir()), ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path):
    text = path.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"\b(https?|wss?)://|[\"'(]//|@import", text)


def test_html_has_nothing_inline(elements):
    for tag, attributes, text, _ in elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        assert tag != "style"
        if tag == "script":
            assert attributes.get("src")
            assert not "".join(text).strip()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_write_text_only(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment", text
    )
    assert not re.search(r"\beval\b|new Function|setTimeout\(\"|cssText|setAttribute\(\"style", text)


def test_every_file_that_is_asked_for_is_there(elements):
    asked = {
        attributes.get("src") or attributes.get("href")
        for tag, attributes, _, _ in elements
        if tag in ("script", "link")
    }
    imported = {
        name for path in SCRIPTS for name in re.findall(r'from "\./([\w.]+)"', path.read_text(encoding="utf-8"))
    }
    there = {path.name for path in PAGE.iterdir()}
    assert asked | imported <= there
    assert there == asked | imported | {"index.html"}


def test_every_control_is_labelled(elements):
    pointed = {attributes["for"] for tag, attributes, _, _ in elements if tag == "label" and "for" in attributes}
    for tag, attributes, text, in_label in elements:
        if tag in CONTROLS:
            assert in_label or attributes.get("id") in pointed or attributes.get("aria-label"), attributes
        if tag == "button":
            assert attributes.get("aria-label") or "".join(text).strip(), attributes
            assert attributes.get("type") in ("button", "submit"), attributes
        if tag in ("dialog", "progress") or attributes.get("role") in ("listbox", "toolbar", "region"):
            assert attributes.get("aria-label") or attributes.get("aria-labelledby"), (tag, attributes)


def test_ids_are_unique_and_known(elements):
    ids = [attributes["id"] for _, attributes, _, _ in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes, _, _ in elements:
        for name in ("for", "aria-labelledby", "aria-controls", "list"):
            assert attributes.get(name, ids[0]) in ids, attributes
    asked = {name for path in SCRIPTS for name in re.findall(r'byId\("([\w-]+)"\)', path.read_text(encoding="utf-8"))}
    # What scripts make themselves.
    assert asked - set(ids) == {"hand-mention", "retry", "countdown"}


def test_every_shortcut_acts_and_is_in_the_help():
    text = (PAGE / "review.js").read_text(encoding="utf-8")
    actions = text[text.index("const actions = {") : text.index("\n};", text.index("const actions = {"))]
    acting = set(re.findall(r"^  (\w+): ", actions, re.MULTILINE))
    assert acting == {one["action"] for one in shortcuts()}
    every = list(itertools.chain.from_iterable(map(keys_of, shortcuts())))
    assert len(every) == len(set(every))
    # The help is made of the same table, and no other file listens to single keys of the page.
    assert "SHORTCUTS" in (PAGE / "keys.js").read_text(encoding="utf-8").split("export function help")[1]
    assert not [
        path.name for path in SCRIPTS if 'document.addEventListener("key' in path.read_text() and path.name != "keys.js"
    ]


def test_buttons_say_the_key_that_works(elements):
    by_action = {one["action"]: keys_of(one) for one in shortcuts()}
    shown = 0
    for place, (tag, attributes, _, _) in enumerate(elements):
        action = attributes.get("data-action")
        if tag != "button" or action is None:
            continue
        kbd = next("".join(text) for name, _, text, _ in elements[place + 1 :] if name == "kbd")
        assert kbd in by_action[action], action
        assert attributes["aria-keyshortcuts"].split()[0].removeprefix("Shift+") == by_action[action][0]
        shown += 1
    assert shown >= 17


def themes() -> dict[str, dict[str, str]]:
    """Return the colours of each theme, by name."""
    text = (PAGE / "review.css").read_text(encoding="utf-8")
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", text)
    found = {selector.strip(): dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for selector, block in blocks}
    return {selector: colours for selector, colours in found.items() if colours}


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.1)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_dark_colours_are_the_same_by_switch_and_by_system():
    by_selector = themes()
    assert len(by_selector) == 3
    assert by_selector[':root[data-theme="dark"]'] == by_selector[':root[data-theme="system"]']


@pytest.mark.parametrize("selector", themes())
@pytest.mark.parametrize(("front", "back", "least"), PAIRS, ids=lambda value: str(value))
def test_contrast(selector: str, front: str, back: str, least: float):
    colours = themes()[selector]
    light, dark = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= least
