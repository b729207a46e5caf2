"""Searching with a ready folder is light."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["alphita.search.product_search", "alphita.cli.search", "alphita.search.store"])
def test_importing_loads_no_heavy_library(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "heavy = {'torch', 'transformers', 'faiss', 'polars', 'onnxruntime', 'sklearn', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
