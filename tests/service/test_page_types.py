"""The pages' JavaScript, type-checked by TypeScript: an element has what is asked of it, and every id is in the page.

`make install-dev` fetches TypeScript by npm, where that is; Playwright brings the Node that runs it.
"""

from __future__ import annotations

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
# One program each: they know nothing of each other's names.
OTHERS = (ROOT / "src" / "alphita_lab" / "evaluation" / "report" / "page.js", ROOT / "docs" / "filter.js")
OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "target": "esnext",
    "module": "esnext",
    "moduleDetection": "force",
    "moduleResolution": "bundler",
    "lib": ["esnext", "dom", "dom.iterable"],
    "types": [],
    "strict": True,
    # Not yet: `LEFT` counts what they would say.
    "strictNullChecks": False,
    "noImplicitAny": False,
    "useUnknownInCatchVariables": False,
    "allowUnreachableCode": False,
    "allowUnusedLabels": False,
    "noFallthroughCasesInSwitch": True,
    "noImplicitOverride": True,
    "noImplicitReturns": True,
    "noUnusedLocals": True,
    "noUnusedParameters": True,
}
STRICT = dict.fromkeys(("strictNullChecks", "noImplicitAny", "useUnknownInCatchVariables"), True)
# Errors of the strict checker: fewer is better, more is refused.
LEFT = {"review.js": 342, "page.js": 7, "filter.js": 19}
PROGRAMS = {"review page": sorted(PAGE.glob("*.js"))} | {file.name: [file] for file in OTHERS}
MADE = re.compile(r'make\("(\w+)", \{[^}]*?\bid: "([\w-]+)"')


@pytest.fixture(scope="module")
def check():
    """Return what TypeScript says of a folder with a tsconfig.json, line by line."""
    compiler = next(
        (
            folder / "node_modules" / "typescript" / "lib" / "tsc.js"
            for folder in (Path(sys.prefix), ROOT)
            if (folder / "node_modules" / "typescript").is_dir()
        ),
        None,
    )
    if compiler is None:
        pytest.skip("npm install --prefix .venv typescript@5")
    node = shutil.which("node")
    if node is None:
        from playwright._impl._driver import compute_driver_executable

        node = compute_driver_executable()[0]

    def run(folder: Path) -> list[str]:
        done = subprocess.run([node, compiler, "-p", folder], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode in (0, 1, 2), done.stderr
        return done.stdout.splitlines()

    return run


class _Ids(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, str] = {}

    def handle_starttag(self, tag, attrs) -> None:
        if name := dict(attrs).get("id"):
            assert name not in self.tags, f"two elements with the id {name}"
            self.tags[name] = tag


def elements() -> dict[str, str]:
    """Return the tag of each id of the page, as it is written or made later."""
    page = _Ids()
    page.feed((PAGE / "index.html").read_text(encoding="utf-8"))
    code = "\n".join(file.read_text(encoding="utf-8") for file in PAGE.glob("*.js"))
    return page.tags | {name: tag for tag, name in MADE.findall(code)}


def program(folder: Path, files: list[Path], options: dict[str, bool] | None = None) -> Path:
    """Write a program of files into a folder; `options` win over `OPTIONS`."""
    folder.mkdir(exist_ok=True)
    ids = "".join(
        f"  {json.dumps(name)}: HTMLElementTagNameMap[{json.dumps(tag)}];\n" for name, tag in elements().items()
    )
    (folder / "elements.d.ts").write_text(f"interface Elements {{\n{ids}}}\n", encoding="utf-8")
    listed = [*map(str, files), "elements.d.ts"]
    asked = {"compilerOptions": OPTIONS | (options or {}), "files": listed}
    (folder / "tsconfig.json").write_text(json.dumps(asked), encoding="utf-8")
    return folder


@pytest.mark.parametrize("files", PROGRAMS.values(), ids=PROGRAMS)
def test_pages_have_no_type_errors_and_no_more_strict_ones_than_before(check, tmp_path, files):
    name = files[-1].name if len(files) == 1 else "review.js"
    assert check(program(tmp_path, files)) == []
    errors = [line for line in check(program(tmp_path, files, STRICT)) if re.search(r": error TS\d", line)]
    assert len(errors) == LEFT[name], f"if fewer than before, write {len(errors)} in LEFT: " + "\n".join(errors)


def test_a_mistake_would_be_found(check, tmp_path):
    mistaken = tmp_path / "mistaken.js"
    imported = f"import {{ byId, make }} from {json.dumps(str(PAGE / 'dom.js'))};"
    wrong = {
        'byId("filter-stat").focus();': "filter-stat",
        'byId("list").value;': "HTMLDivElement",
        'make("dive");': "dive",
    }
    mistaken.write_text("\n".join([imported, *wrong, 'make("div");byId("row");\n']))
    lines = [line for line in check(program(tmp_path, [mistaken])) if "error" in line]
    assert len(lines) == len(wrong)
    assert all(text in line for text, line in zip(wrong.values(), lines, strict=True))
