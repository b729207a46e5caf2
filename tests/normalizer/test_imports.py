"""Normalising with a ready index is light."""

from __future__ import annotations

import subprocess
import sys


def test_importing_loads_no_heavy_library():
    code = (
        "import sys, alphita.index.store, alphita.normalizer.jobs, alphita.normalizer.formats.parquet\n"
        "heavy = {'torch', 'transformers', 'faiss', 'polars', 'onnxruntime', 'sklearn', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
