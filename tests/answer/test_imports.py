"""Normalising with a ready index is light."""

from __future__ import annotations

import subprocess
import sys


def test_importing_loads_no_heavy_library():
    code = (
        "import sys, alphita.index.store, alphita.jobs.run\n"
        "from alphita import registry\n"
        # Told by its name, the format of an output is sought among all.
        "for name in registry.names('alphita.mappings.formats'): registry.load('alphita.mappings.formats', name)\n"
        "heavy = {'torch', 'transformers', 'faiss', 'polars', 'onnxruntime', 'sklearn', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_help_page_loads_no_heavy_library():
    code = (
        "import sys, alphita.cli.normalize\n"
        "print(sorted({'torch', 'faiss', 'polars', 'sklearn', 'onnxruntime'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
