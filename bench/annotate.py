"""HPO's concepts in 228 abstracts (GSC+): found by us, by the names alone, and by FastHPOCR.

    python bench/annotate.py GSC_PLUS [--fasthpocr FOUND.jsonl] -o docs/results/annotation.json

GSC_PLUS holds `ann` and `corpus`. Gold ids are of 2016: merged and replaced ones are brought up to date, and those
without a successor left out. The first 60 abstracts, by their number, are to choose by: the confidence that is asked
(`precision`) is the one with the best F1 there. Figures are of the other 168.

    document    distinct concepts of each abstract, all abstracts together (micro), as PhenoTagger and PhenoBERT report
    mention     spans with their concepts; a span counts if it is the same to the character

`--fasthpocr` names what bench/peers/fasthpocr_found.py wrote: a line an abstract, {"id": ..., "found": [[start, end,
"HP:..."]]}.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import alphita
from alphita import artefact, machine
from alphita.annotating.annotator import Annotator, Settings
from alphita.annotating.spans import Document
from alphita.index.sources import terminology_of
from alphita.terminology.store import Terminology, load_terminology

DEVELOPMENT, PRECISIONS, DRAWS, SEED = 60, (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95), 2_000, 42
_LINE = re.compile(r"\[(\d+)::(\d+)\]\tHP[_:](\d{7}) \| .+")
Spans = frozenset[tuple[int, int, str]]


def read(folder: Path, terminology: Terminology) -> tuple[list[Document], dict[str, Spans], int]:
    """Return the abstracts, their spans, and how many annotations have no concept of today."""
    documents, gold, lost = [], {}, 0
    for path in sorted((folder / "corpus").iterdir(), key=lambda one: int(one.name)):
        documents.append(Document(path.name, path.read_text(encoding="utf-8")))
        spans = set()
        for line in (folder / "ann" / path.name).read_text(encoding="utf-8").splitlines():
            if match := _LINE.fullmatch(line.strip()):
                concept = today(f"HP:{match[3]}", terminology)
                lost += concept is None
                if concept is not None:
                    spans.add((int(match[1]), int(match[2]), concept))
        gold[path.name] = frozenset(spans)
    return documents, gold, lost


def today(curie: str, terminology: Terminology) -> str | None:
    """Return the concept that an id of 2016 stands for now; None where there is none, or several."""
    try:
        concept = terminology.concept(curie)
    except alphita.AlphitaError:
        return None
    if not concept.retired:
        return concept.id
    return concept.replaced_by[0] if len(concept.replaced_by) == 1 else None


def counts(gold: Mapping[str, Spans], found: Mapping[str, Spans], of: Callable[[Spans], set[Any]]) -> np.ndarray:
    """Return hits, found and gold of each abstract, (n, 3)."""
    rows = [(of(gold[name]), of(found.get(name, frozenset()))) for name in gold]
    return np.array([(len(right & given), len(given), len(right)) for right, given in rows], np.int64)


def scores(table: np.ndarray) -> dict[str, Any]:
    """Return precision, recall, F1 of the sums, and F1's 95 % interval over abstracts drawn again."""

    def f1(rows: np.ndarray) -> float:
        hits, given, right = rows.sum(0)
        return float(2 * hits / max(1, given + right))

    draws = np.random.default_rng(SEED).integers(0, len(table), (DRAWS, len(table)))
    low, high = np.quantile([f1(table[draw]) for draw in draws], [0.025, 0.975])
    hits, given, right = table.sum(0)
    values = {"precision": hits / max(1, given), "recall": hits / right, "f1": f1(table), "low": low, "high": high}
    return {name: round(100 * float(value), 1) for name, value in values.items()}


def both(gold: Mapping[str, Spans], found: Mapping[str, Spans]) -> dict[str, Any]:
    """Return the scores of documents and of mentions."""
    return {
        "document": scores(counts(gold, found, lambda spans: {concept for _, _, concept in spans})),
        "mention": scores(counts(gold, found, set)),
    }


def ours(documents: list[Document], annotator: Annotator) -> tuple[dict[str, Spans], float]:
    """Return what is found in each abstract, and the seconds that it took."""
    start = time.perf_counter()
    found = annotator.annotate(documents)
    seconds = time.perf_counter() - start
    spans = {
        one.document.id: frozenset((each.start, each.end, each.concept_id) for each in one.annotations) for one in found
    }
    return spans, seconds


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--fasthpocr", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    documents, gold, lost = read(given.data, load_terminology(terminology_of("hpo")))
    parts = {"development": documents[:DEVELOPMENT], "test": documents[DEVELOPMENT:]}
    normalizer = alphita.load("hpo")
    f1: dict[float, float] = {}
    for precision in PRECISIONS:
        found, _ = ours(parts["development"], Annotator(normalizer, Settings(precision=precision)))
        f1[precision] = both({one.id: gold[one.id] for one in parts["development"]}, found)["document"]["f1"]
    best = max(f1, key=lambda precision: f1[precision])
    test = {one.id: gold[one.id] for one in parts["test"]}
    words = sum(len(one.text.split()) for one in parts["test"])
    rows: dict[str, Any] = {}
    for name, settings in {
        "alphita": Settings(),
        f"alphita --precision {best:g}": Settings(precision=best),
        "alphita --exact": Settings(exact=True),
    }.items():
        found, seconds = ours(parts["test"], Annotator(normalizer, settings))
        rows[name] = both(test, found) | {"words_per_second": round(words / seconds)}
    if given.fasthpocr is not None:
        lines = [json.loads(line) for line in given.fasthpocr.read_text(encoding="utf-8").splitlines()]
        peer = {line["id"]: frozenset((start, end, curie) for start, end, curie in line["found"]) for line in lines}
        rows["FastHPOCR"] = both(test, peer)
    report = {"rows": rows, "development_f1": f1, "lost": lost, "abstracts": len(test), "words": words}
    with artefact.atomic_file(given.out, "w") as file:
        json.dump(report | {"machine": machine.describe()}, file, indent=1)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
