"""Pictures of the review page for the documentation, from a running server.

    alphita normalize examples/local_codes.csv --index X.index --column description --code-column code \\
        --frequency-column count --context-column note --error 0.05 --top 5 --explain -o answers.csv
    alphita review import answers.csv --mappings pictures.sqlite --project lab --source LAB --column description \\
        --context-from examples/local_codes.csv --index X.index
    alphita serve --index X.index --mappings pictures.sqlite
    python bench/screenshots.py --url http://127.0.0.1:8080 --project lab -o docs/images

The rows are made up, nobody's data. Pictures are named review_*.png; one of more than 200 KB is an error. The script
decides nothing. It needs playwright and pillow. The browser is Chromium: ALPHITA_CHROMIUM, else the one on PATH, else
Playwright's.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import sys
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

LARGEST = 200_000  # bytes
SEARCHED = "pain"
COLOURS = 128  # of a picture; more make it larger and no clearer
# The picture shows the first row with so many candidates.
CANDIDATES, ROWS_LOOKED_AT = 4, 20
SIZE = {"width": 1280, "height": 720}


def browser_path() -> str | None:
    """Return the browser to use; None: Playwright's own."""
    return os.environ.get("ALPHITA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def take(url: str, project: str, key: str, folder: Path) -> list[Path]:
    """Take the pictures; return their paths."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    taken: list[Path] = []

    def picture(page: Page, name: str) -> None:
        path = folder / f"review_{name}.png"
        shot = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
        shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size > LARGEST:
            raise SystemExit(f"{path}: {path.stat().st_size:,} bytes, more than {LARGEST:,}")
        taken.append(path)

    def opened(keys: str, wait: str) -> Callable[[Page], None]:
        def do(page: Page) -> None:
            page.keyboard.press(keys)
            page.wait_for_selector(wait)

        return do

    def searched(page: Page) -> None:
        page.keyboard.press("/")
        page.fill("#picker-input", SEARCHED)
        page.locator("#picker-concept h3", has_text=re.compile(SEARCHED, re.IGNORECASE)).wait_for()

    views: dict[str, Callable[[Page], None]] = {
        "help": opened("?", "#help-keys dl"),
        "bulk": opened("B", "#bulk-preview dd"),
        "search": searched,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport=SIZE, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(f"{url}/#{urllib.parse.quote(project)}")
            if key:
                page.fill("#key-input", key)
                page.keyboard.press("Enter")
            page.wait_for_selector("#hand[data-candidates=shown]")
            for _ in range(ROWS_LOOKED_AT):
                if page.locator(".card").count() >= CANDIDATES:
                    break
                page.keyboard.press("j")
                page.wait_for_selector("#hand[data-candidates=shown]")
            page.wait_for_function("() => document.getElementById('decided-text').textContent.trim() !== ''")
            picture(page, scheme)
            for name, opening in views.items() if scheme == "light" else ():
                opening(page)
                picture(page, name)
                page.keyboard.press("Escape")
            context.close()
        browser.close()
    return taken


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="of the running server")
    parser.add_argument("--project", default="", help="to show; the server's first by default")
    parser.add_argument("--key", default="", help="of a reviewer, if the server wants one")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/images"))
    given = parser.parse_args(arguments)
    url = given.url.rstrip("/")
    for path in take(url, given.project, given.key, given.output):
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
