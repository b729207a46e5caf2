"""The command line, run in this process."""

from __future__ import annotations

import sys

import pytest

from alphita import cli


def alphita(*arguments: object) -> int:
    """Run the command line; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["alphita", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
    return int(leaving.value.code or 0)
