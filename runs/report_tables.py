"""Reports of `alphita evaluate` -> the JSON that the site draws their tables from, cell by cell as they are written.

    python runs/report_tables.py "NAME=report/report.md" ["NAME=other/report.md" ...] --out tables.json

Of each report, a part, every section is kept with its tables, what is said between them, and its notes.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

HEADING = re.compile(r"#{1,6} (.+)")
CELLS = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"[|\s:-]+")


def sections(text: str) -> list[dict[str, Any]]:
    """Return the sections of a report in Markdown: name, text (paragraphs) and tables (columns, rows of cells)."""
    found: list[dict[str, Any]] = [{"name": "", "text": [], "tables": []}]
    table: dict[str, Any] | None = None
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            found.append({"name": heading[1], "text": [], "tables": []})
            table = None
        elif line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|") for cell in CELLS.split(line.strip())[1:-1]]
            if table is None:
                table = {"columns": cells, "rows": []}
                found[-1]["tables"].append(table)
            elif not RULE.fullmatch(line):
                table["rows"].append(cells)
        else:
            table = None
            if line.strip():
                found[-1]["text"].append(line.strip())
    return [section for section in found if section["text"] or section["tables"]]


def main(words: list[str] | None = None) -> None:
    """Write the tables of the reports that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("reports", nargs="+", metavar="NAME=REPORT.md")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(words)
    parts = []
    for each in given.reports:
        name, _, path = each.partition("=")
        parts.append({"name": name, "sections": sections(Path(path).read_text(encoding="utf-8"))})
    given.out.write_text(json.dumps({"parts": parts}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
