"""FastHPOCR's annotator on texts: annotate_fasthpocr.py HP.OBO TEXTS.json OUT.json; it runs in its own environment.

TEXTS.json is a list of strings, OUT.json a list of lists of [start, end, id]. The index is the peer's own, made of the
OBO file with its defaults (concepts below "Phenotypic abnormality"); the longest match of several, as its README says.
It needs `pip install fasthpocr pronto`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from FastHPOCR.HPOAnnotator import HPOAnnotator  # type: ignore[import-not-found]
from FastHPOCR.IndexHPO import IndexHPO  # type: ignore[import-not-found]


def main(obo: str, texts: str, out: str) -> None:
    """Index, annotate, write."""
    with tempfile.TemporaryDirectory() as folder:
        IndexHPO(obo, folder).index()
        annotator = HPOAnnotator(f"{folder}/hp.index")
        found = [
            [[one.getStartOffset(), one.getEndOffset(), one.getHPOUri()] for one in annotator.annotate(text, True)]
            for text in json.loads(Path(texts).read_text(encoding="utf-8"))
        ]
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
