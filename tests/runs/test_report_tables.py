from __future__ import annotations

import json
import sys

import report_tables

REPORT = """# Report

Brackets hold intervals.

## Summary

| benchmark | minilm |
| --- | --- |
| psytar | **54.3 [52.3, 56.2]** |
| a\\|b | – |

Notes: 2

| note | minilm |
|---|---:|
| rows | 12 |

## Empty
"""


def test_every_table_and_paragraph_is_kept_under_its_heading(tmp_path, monkeypatch):
    (tmp_path / "report.md").write_text(REPORT, encoding="utf-8")
    out = tmp_path / "tables.json"
    monkeypatch.setattr(sys, "argv", ["report_tables.py", f"ours={tmp_path / 'report.md'}", "--out", str(out)])
    report_tables.main()
    (part,) = json.loads(out.read_text(encoding="utf-8"))["parts"]
    assert part["name"] == "ours"
    assert [section["name"] for section in part["sections"]] == ["Report", "Summary"]
    assert part["sections"][0]["text"] == ["Brackets hold intervals."]
    assert part["sections"][1]["text"] == ["Notes: 2"]
    assert part["sections"][1]["tables"] == [
        {"columns": ["benchmark", "minilm"], "rows": [["psytar", "**54.3 [52.3, 56.2]**"], ["a|b", "–"]]},
        {"columns": ["note", "minilm"], "rows": [["rows", "12"]]},
    ]
