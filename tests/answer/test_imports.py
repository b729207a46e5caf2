"""Normalising with a ready index is light."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The format of an output is sought among all by its name.
FORMATS = "\nfor name in registry.names('alphita.mappings.formats'): registry.load('alphita.mappings.formats', name)"


@pytest.mark.parametrize(
    "imported",
    [
        "import alphita.index.store, alphita.jobs.run\nfrom alphita import registry" + FORMATS,
        "import alphita.cli.normalize",
    ],
)
def test_importing_loads_no_heavy_library(imported):
    heavy = "{'torch', 'transformers', 'faiss', 'polars', 'onnxruntime', 'sklearn', 'matplotlib'}"
    code = f"import sys\n{imported}\nprint(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
