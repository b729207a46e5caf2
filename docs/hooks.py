"""What the site changes in a page: links out of docs/ lead to the repository, and figures of tables lie in the page."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

SHIM = "https://unpkg.com/iframe-worker/shim"
TABLES = re.compile(r'<div data-tables="([^"]+)"></div>')
EMPTY_HEADING = re.compile(r"<th([^>]*)></th>")
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401 - of mkdocs
    """Return a page's Markdown with its links to code, models and examples as addresses."""
    repository = config.extra["repository"]

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), link[1]))
        return link[1] if target.startswith("docs/") else f"{repository}/blob/main/{target}"

    return LINK.sub(lead, markdown)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401 - of mkdocs
    """Return a page with the figures that filter.js draws: a page that is read from a disk may fetch no file."""

    def hold(place: re.Match[str]) -> str:
        figures = json.loads((Path(page.file.abs_src_path).parent / place[1]).read_text(encoding="utf-8"))
        text = json.dumps(figures, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
        return f'<div data-tables><script type="application/json">{text}</script></div>'

    # A heading without words is none, to a screen reader.
    return EMPTY_HEADING.sub(r"<td\1></td>", TABLES.sub(hold, html))


def on_post_page(output: str, *, page: Any, config: Any) -> str:  # noqa: ANN401 - of mkdocs
    """Return a page that takes the script by which a browser searches a site on a disk from the site itself."""
    here = posixpath.relpath("iframe-worker.js", posixpath.dirname(page.url) or ".")
    return output.replace(SHIM, here)
