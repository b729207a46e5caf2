from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which blocks of the documentation were not run, and why: a block that is not run may rot."""
    for report in terminalreporter.stats.get("skipped", []):
        if "tests/docs/" in report.nodeid and isinstance(report.longrepr, tuple):
            terminalreporter.write_line(f"{report.nodeid.rpartition('[')[2].rstrip(']')}: {report.longrepr[2]}")
