"""What FastHPOCR finds in texts -> a file for `bench/annotate.py --fasthpocr`; run in an environment of its own.

pip install FastHPOCR==0.1.4
python bench/peers/fasthpocr_found.py HP.obo FOLDER_OF_TEXTS FOUND.jsonl
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path


def main(ontology: str, texts: str, out: str) -> None:
    """Index the ontology with the package's defaults, and annotate each file of the folder; longest matches stand."""
    from FastHPOCR.HPOAnnotator import HPOAnnotator
    from FastHPOCR.IndexHPO import IndexHPO

    with tempfile.TemporaryDirectory() as folder:
        IndexHPO(ontology, folder).index()
        annotator = HPOAnnotator(str(next(Path(folder).iterdir())))
    words, seconds = 0, 0.0
    with open(out, "w", encoding="utf-8") as file:
        for path in sorted(Path(texts).iterdir()):
            text = path.read_text(encoding="utf-8")
            start = time.perf_counter()
            found = annotator.annotate(text, longestMatch=True)
            seconds += time.perf_counter() - start
            words += len(text.split())
            spans = [[each.getStartOffset(), each.getEndOffset(), each.getHPOUri()] for each in found]
            file.write(json.dumps({"id": path.name, "found": spans}) + "\n")
    print(f"{words / seconds:,.0f} words/s")


if __name__ == "__main__":
    main(*sys.argv[1:])
