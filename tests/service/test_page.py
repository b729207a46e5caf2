"""The review page as it is written: nothing from elsewhere, all labelled, every key in the help, and its JavaScript.

TypeScript checks the types (`make install-dev` fetches it by npm, where that is); Playwright brings the Node for it.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "alphita" / "service" / "page"
SCRIPTS = sorted(PAGE.glob("*.js"))
CODE = {path.name: path.read_text(encoding="utf-8") for path in SCRIPTS}
# Foreground on background, as the style sheet has them, and the least contrast (WCAG 2.1, AA: text 4.5, edges 3).
PAIRS = [
    *((text, ground, 4.5) for text in ("text", "quiet") for ground in ("ground", "surface")),
    *((text, "surface", 4.5) for text in ("good", "warn", "bad", "accent")),
    *(("text", ground, 4.5) for ground in ("raised", "chosen")),
    *(("warn", "warn-ground", 4.5), ("bad", "bad-ground", 4.5), ("on-accent", "accent", 4.5)),
    *(("edge", "surface", 3.0), ("edge", "ground", 3.0), ("accent", "ground", 3.0)),
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


def shortcuts() -> dict[str, list[str]]:
    """Return the keys of each action of the table of shortcuts."""
    table = CODE["keys.js"][CODE["keys.js"].index("SHORTCUTS = [") :]
    table = table[: table.index("\n];")]
    entry = r'\{ action: "(\w+)", group: "\w+", keys: \[([^]]+)\],.* says: "[^"]+" \}'
    found = {action: re.findall(r'"([^"]+)"', keys) for action, keys in re.findall(entry, table)}
    assert len(found) == table.count("action:") > 15
    return found


@pytest.mark.parametrize("path", sorted(PAGE.iterdir()), ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere_and_scripts_write_text_only(path: Path):
    text = path.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"\b(https?|wss?)://|[\"'(]//|@import", text)
    if path.suffix == ".js":
        markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
        assert not re.search(markup + r"|\beval\b|new Function|setTimeout\(\"|cssText|setAttribute\(\"style", text)


def test_html_has_nothing_inline_and_every_file_that_it_names_is_there(elements):
    named = set()
    for tag, attributes, text, _ in elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        assert tag != "style"
        assert tag != "script" or (attributes.get("src") and not "".join(text).strip())
        named |= {attributes.get("src") or attributes.get("href")} if tag in ("script", "link") else set()
    imported = {name for code in CODE.values() for name in re.findall(r'from "\./([\w.]+)"', code)}
    assert named | imported | {"index.html"} == {path.name for path in PAGE.iterdir()}


def test_every_control_is_labelled_and_names_are_ids(elements):
    ids = [attributes["id"] for _, attributes, _, _ in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    pointed = {attributes["for"] for tag, attributes, _, _ in elements if tag == "label" and "for" in attributes}
    for tag, attributes, text, in_label in elements:
        label = attributes.get("aria-label")
        if tag in ("input", "select", "textarea"):
            assert in_label or attributes.get("id") in pointed or label, attributes
        if tag == "button":
            assert label or "".join(text).strip(), attributes
            assert attributes.get("type") in ("button", "submit"), attributes
        if tag in ("dialog", "progress") or attributes.get("role") in ("listbox", "toolbar", "region"):
            assert label or attributes.get("aria-labelledby"), (tag, attributes)
        for name in ("for", "aria-labelledby", "aria-controls", "list"):
            assert attributes.get(name, ids[0]) in ids, attributes


def test_every_shortcut_acts_and_is_in_the_help_and_on_its_button(elements):
    by_action, review = shortcuts(), CODE["review.js"]
    actions = review[review.index("const actions = {") :]
    assert {*re.findall(r"^  (\w+): ", actions[: actions.index("\n};")], re.MULTILINE)} == {*by_action}
    every = list(itertools.chain.from_iterable(by_action.values()))
    assert len(every) == len(set(every))
    # The help is made of the same table, and no other file listens to single keys of the page.
    assert "SHORTCUTS" in CODE["keys.js"].split("export function help")[1]
    assert [name for name, code in CODE.items() if 'document.addEventListener("key' in code] == ["keys.js"]
    buttons = [place for place, (tag, known, *_) in enumerate(elements) if tag == "button" and "data-action" in known]
    assert len(buttons) >= 17
    for place in buttons:
        known = elements[place][1]
        keys = by_action[known["data-action"]]
        assert next("".join(text) for name, _, text, _ in elements[place + 1 :] if name == "kbd") in keys
        assert known["aria-keyshortcuts"].split()[0].removeprefix("Shift+") == keys[0]


def themes() -> dict[str, dict[str, str]]:
    """Return the colours of each theme, by name."""
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", (PAGE / "review.css").read_text(encoding="utf-8"))
    found = {selector.strip(): dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for selector, block in blocks}
    return {selector: colours for selector, colours in found.items() if colours}


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.1)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_have_contrast_and_the_dark_ones_are_the_same_by_switch_and_by_system():
    by_selector = themes()
    assert len(by_selector) == 3
    assert by_selector[':root[data-theme="dark"]'] == by_selector[':root[data-theme="system"]']
    for (selector, colours), (front, back, least) in itertools.product(by_selector.items(), PAIRS):
        dark, light = sorted((luminance(colours[front]), luminance(colours[back])))
        assert (light + 0.05) / (dark + 0.05) >= least, (selector, front, back)


# --- types -----------------------------------------------------------------------------------------------------------

OPTIONS = {
    **dict.fromkeys(("allowJs", "checkJs", "noEmit", "strict", "skipLibCheck"), True),
    **{"target": "esnext", "module": "esnext", "moduleDetection": "force", "moduleResolution": "bundler"},
    **{"lib": ["esnext", "dom", "dom.iterable"], "types": []},
    **dict.fromkeys(("allowUnreachableCode", "allowUnusedLabels"), False),
    **dict.fromkeys(("noFallthroughCasesInSwitch", "noImplicitOverride", "noImplicitReturns"), True),
    **dict.fromkeys(("noUnusedLocals", "noUnusedParameters"), True),
}
# What the pages cannot have yet: but for `LEFT`, which counts what these say, nothing is wrong.
STRICT = dict.fromkeys(("strictNullChecks", "noImplicitAny", "useUnknownInCatchVariables"), True)
# Errors that are left: fewer is better, more is refused.
LEFT = {"review.js": 318, "page.js": 7, "filter.js": 19}
# One program each: they know nothing of each other's names.
OTHERS = (ROOT / "src" / "alphita_lab" / "evaluation" / "report" / "page.js", ROOT / "docs" / "filter.js")
# Programs that parse what they share, the library above all, once; prints the errors of each.
CHECKER = """
const ts = require(process.argv[2]), parsed = new Map();
const said = JSON.parse(process.argv[3]).map(([files, written]) => {
  const { options } = ts.convertCompilerOptionsFromJson(written, "."), host = ts.createCompilerHost(options);
  const read = host.getSourceFile;
  host.getSourceFile = (name, ...how) => parsed.get(name) ?? parsed.set(name, read(name, ...how)).get(name);
  return ts.getPreEmitDiagnostics(ts.createProgram(files, options, host)).map(
    ({ file, start, messageText }) => `${file?.fileName}:${file?.getLineAndCharacterOfPosition(start).line + 1}: `
      + ts.flattenDiagnosticMessageText(messageText, " "));
});
console.log(JSON.stringify(said));
"""
MISTAKES = {
    'byId("filter-stat").focus();': "filter-stat",
    'byId("list").value;': "HTMLDivElement",
    'make("dive");': "dive",
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory, elements) -> dict[str, list[str]]:
    """Return what TypeScript says of each program, and of one of mistakes."""
    folders = (prefix / "node_modules" / "typescript" / "lib" / "typescript.js" for prefix in (Path(sys.prefix), ROOT))
    compiler = next((path for path in folders if path.exists()), None)
    if compiler is None:
        pytest.skip("npm install --prefix .venv typescript@5")
    node = shutil.which("node")
    if node is None:
        from playwright._impl._driver import compute_driver_executable

        node = compute_driver_executable()[0]
    folder = tmp_path_factory.mktemp("types")
    tags = {attributes["id"]: tag for tag, attributes, _, _ in elements if "id" in attributes}
    # Ids of what scripts make.
    made = re.findall(r'make\("(\w+)", \{[^}]*?\bid: "([\w-]+)"', "\n".join(CODE.values()))
    tags |= {name: tag for tag, name in made}
    ids = "".join(f"{json.dumps(name)}: HTMLElementTagNameMap[{json.dumps(tag)}];\n" for name, tag in tags.items())
    (folder / "elements.d.ts").write_text(f"interface Elements {{\n{ids}}}\n", encoding="utf-8")
    imported = f"import {{ byId, make }} from {json.dumps(str(PAGE / 'dom.js'))};"
    (folder / "mistaken.js").write_text("\n".join([imported, *MISTAKES, 'make("div");byId("row");\n']))
    (folder / "check.cjs").write_text(CHECKER)
    files = {"review.js": SCRIPTS} | {file.name: [file] for file in OTHERS}
    programs = {name: (some, OPTIONS | STRICT) for name, some in files.items()}
    programs["mistaken"] = ([folder / "mistaken.js"], OPTIONS | dict.fromkeys(STRICT, False))
    listed = [([*map(str, some), str(folder / "elements.d.ts")], options) for some, options in programs.values()]
    command = [node, folder / "check.cjs", compiler, json.dumps(listed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(programs, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", LEFT)
def test_pages_have_no_more_type_errors_than_before(errors, name):
    count = len(errors[name])
    assert count == LEFT[name], f"if fewer than before, write {count} in LEFT: " + "\n".join(errors[name])


def test_a_mistake_would_be_found(errors):
    assert len(errors["mistaken"]) == len(MISTAKES)
    assert all(text in line for text, line in zip(MISTAKES.values(), errors["mistaken"], strict=True))
