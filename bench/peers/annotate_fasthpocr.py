"""FastHPOCR's annotator on texts: annotate_fasthpocr.py HP.OBO TEXTS.json OUT.json; it runs in its own environment.

TEXTS.json is a list of strings, OUT.json has `answers`, a list of lists of [start, end, id], and `seconds`, of
processor time for finding. The index is the peer's own, made of the OBO file with its defaults (concepts below
"Phenotypic abnormality"); the longest match of several, as its README says.
One function of its indexing, which goes through all words once a cluster and takes the better part of an hour, is
replaced by one that gives the same lists at once. It needs `pip install fasthpocr pronto nltk`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from FastHPOCR.cr.CRIndexKB import CRIndexKB
from FastHPOCR.HPOAnnotator import HPOAnnotator
from FastHPOCR.IndexHPO import IndexHPO


class _Clusters:
    """The words of each cluster, by cluster."""

    def __init__(self, clusters: dict[str, str]) -> None:
        """Invert a table of words and clusters."""
        self.words: dict[str, list[str]] = {}
        for word, cluster in clusters.items():
            self.words.setdefault(cluster, []).append(word)


def _by_cluster() -> Callable[[object, str, dict[str, str]], list[str]]:
    """Return what gives the words of a cluster, in the order of the table, as `CRIndexKB.compileClusterList` does."""
    inverted: dict[int, _Clusters] = {}

    def words(self: object, cluster: str, clusters: dict[str, str]) -> list[str]:
        if id(clusters) not in inverted:
            inverted[id(clusters)] = _Clusters(clusters)
        return list(inverted[id(clusters)].words.get(cluster, []))

    return words


def main(obo: str, texts: str, out: str) -> None:
    """Index, annotate, write."""
    CRIndexKB.compileClusterList = _by_cluster()
    with tempfile.TemporaryDirectory() as folder:
        IndexHPO(obo, folder).index()
        annotator = HPOAnnotator(f"{folder}/hp.index")
        began = time.process_time()
        found = [
            [[one.getStartOffset(), one.getEndOffset(), one.getHPOUri()] for one in annotator.annotate(text, True)]
            for text in json.loads(Path(texts).read_text(encoding="utf-8"))
        ]
        seconds = time.process_time() - began
    Path(out).write_text(json.dumps({"answers": found, "seconds": seconds}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
