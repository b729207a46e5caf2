"""What the site changes in a page: links that leave docs/ lead to the repository."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401 - of mkdocs
    """Return a page's Markdown with its links to code, models and examples as addresses."""
    repository = config.extra["repository"]

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), link[1]))
        return link[1] if target.startswith("docs/") else f"{repository}/blob/main/{target}"

    return LINK.sub(lead, markdown)
