"""Run command lines one after another as if some packages were not installed: PACKAGES FILE-OF-CALLS.

Prints a JSON object a call: its exit code, what it said on stderr, and what it left behind.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any


def block(packages: set[str]) -> None:
    """Let no package of these be found."""
    find = PathFinder.find_spec

    def find_spec(_cls: type, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.split(".")[0] in packages else find(name, path, target)

    PathFinder.find_spec = classmethod(find_spec)  # type: ignore[assignment]


def main(packages: str, calls: str) -> None:
    block(set(packages.split(",")))
    from alphita import cli

    before = sorted(Path().iterdir())
    for call in Path(calls).read_text(encoding="utf-8").splitlines():
        sys.argv = ["alphita", *call.split()]
        code: object = 0
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                cli.main()
            except SystemExit as leaving:
                code = leaving.code
            except Exception as error:
                code = f"{type(error).__name__}: {error}"
        left = [path for path in sorted(Path().iterdir()) if path not in before]
        print(json.dumps({"call": call, "code": code or 0, "said": said.getvalue()[-600:], "left": [*map(str, left)]}))
        for path in left:
            # What the next calls read stays.
            if path.suffix not in (".sqlite", ".search"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
