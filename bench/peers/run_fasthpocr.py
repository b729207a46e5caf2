"""Say what FastHPOCR finds in texts: run_fasthpocr.py HP.OBO, JSON in by stdin, out by stdout.

In: [text, ...]. Out: for each text [[start, end, id], ...]. Its index is made of the OBO file with its defaults; of
matches that overlap, the longest, as its README says. One function of its indexing, which reads all words once a
cluster, is replaced with one that gives the same lists at once.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict

from FastHPOCR.cr.CRIndexKB import CRIndexKB
from FastHPOCR.HPOAnnotator import HPOAnnotator
from FastHPOCR.IndexHPO import IndexHPO

BY_CLUSTER: dict[int, dict[str, list[str]]] = {}


def words_of(self: object, cluster: str, clusters: dict[str, str]) -> list[str]:
    """Return the words of a cluster in the table's order, as `CRIndexKB.compileClusterList` does."""
    if id(clusters) not in BY_CLUSTER:
        words = BY_CLUSTER[id(clusters)] = defaultdict(list)
        for word, of_word in clusters.items():
            words[of_word].append(word)
    return list(BY_CLUSTER[id(clusters)].get(cluster, []))


def main() -> None:
    """Index, annotate, write."""
    out, sys.stdout = sys.stdout, sys.stderr
    CRIndexKB.compileClusterList = words_of
    with tempfile.TemporaryDirectory() as folder:
        IndexHPO(sys.argv[1], folder).index()
        annotator = HPOAnnotator(f"{folder}/hp.index")
        found = [
            [
                [one.getStartOffset(), one.getEndOffset(), one.getHPOUri().split("/")[-1].replace("_", ":")]
                for one in annotator.annotate(text, True)
            ]
            for text in json.load(sys.stdin)
        ]
    json.dump(found, out)


if __name__ == "__main__":
    main()
