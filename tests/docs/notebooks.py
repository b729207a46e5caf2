"""A page as a notebook: its text as it stands, its commands and its Python as cells that run."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from tests.docs import follow
from tests.docs.blocks import blocks

REPOSITORY = "https://github.com/alphita/alphita/blob/main"
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
FENCED = re.compile(r"^```\w*\n.*?^```\n", re.MULTILINE | re.DOTALL)


def notebook(page: Path, root: Path) -> str:
    """Return a page as a notebook, the JSON of nbformat 4.5, without outputs.

    What installs stands as text, and so does what serves until it is stopped and what needs a database.
    """
    text = re.sub(r"^<!-- .* -->\n", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    below = posixpath.dirname(page.relative_to(root).as_posix())
    text = LINK.sub(lambda link: f"{REPOSITORY}/{posixpath.normpath(posixpath.join(below, link[1]))}", text)
    cells: list[dict[str, object]] = []

    def add(kind: str, source: str) -> None:
        if source.strip():
            cell: dict[str, object] = {"cell_type": kind, "id": f"{len(cells):02}", "metadata": {}}
            if kind == "code":
                cell |= {"execution_count": None, "outputs": []}
            cells.append(cell | {"source": source.strip("\n").splitlines(keepends=True)})

    place = 0
    for fence, block in zip(FENCED.finditer(text), blocks(page, root), strict=True):
        if block.language not in {"sh", "python"} or block.not_run or follow.DATABASE.search(block.text):
            continue
        if follow.installs(block) or follow.serves(block):
            continue
        add("markdown", text[place : fence.start()])
        add("code", block.text if block.language == "python" else f"%%bash\n{block.text}")
        place = fence.end()
    add("markdown", text[place:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, ensure_ascii=False, indent=1) + "\n"
