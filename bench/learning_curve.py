"""How much an index learns from the phrases that people confirmed: phrases that it has never seen, by number confirmed.

    python bench/learning_curve.py FOLDER [--sets psytar clinvar labitems] [--sizes 0 50 200 1000] [-o report.json]

FOLDER has benchmarks/psytar, benchmarks/clinvar_traits, open_graph/terms.tsv.gz and local_codes (open data). Each set is
a terminology, the phrases that people mapped to it, and the phrases that are asked; those equal to a confirmed one or a
name, after cleaning, are left out. The confirmed ones are drawn at random, each size a part of the next.

psytar    patients' words, names of the 167 targets; each fold's training phrases are confirmed, its test phrases asked
clinvar   trait names mapped to MONDO by curators, MONDO's labels; one half is confirmed, the other one asked
labitems  a hospital's laboratory items with fluid, mapped to LOINC, names of the items' targets; halves as well
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphita import machine
from alphita.answer.normalizer import Normalizer
from alphita.encoder.encoder import TermEncoder
from alphita.index.choice import Choice, ConfirmedName
from alphita.index.encoding import encode_block
from alphita.index.sources import enrichment_of, terminology_of
from alphita.index.store import build
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean

Pairs = list[tuple[str, str]]
SEED = 0


class Part(NamedTuple):
    """Ids with the names of a terminology, with phrases to confirm, and with phrases to ask."""

    names: Pairs
    confirmed: Pairs
    asked: Pairs


def psytar(folder: Path) -> Iterator[Part]:
    def read(file: str) -> Pairs:
        lines = (folder / "benchmarks" / "psytar" / file).read_text(encoding="utf-8").splitlines()
        pairs = [line.split("\t", 1) for line in lines if line.strip()]
        return [(f"PSYTAR:{one}", text.strip().strip('"').replace('""', '"')) for one, text in pairs]

    for fold in range(1, 6):
        yield Part(*(read(f"fold_{fold}.{kind}.txt") for kind in ("standard", "train", "test")))


def clinvar(folder: Path) -> Iterator[Part]:
    terms = _table(folder / "open_graph" / "terms.tsv.gz", "\t")
    names = [(row["id"], row["term"]) for row in terms if row["source"].startswith("MONDO")]
    traits = _table(folder / "benchmarks" / "clinvar_traits" / "traits.tsv.gz", "\t")
    mapped = [(row["concept_id"], row["trait"]) for row in traits if row["concept_id"].startswith("MONDO:")]
    yield from _halves(names, mapped)


def labitems(folder: Path) -> Iterator[Part]:
    rows = _table(folder / "local_codes" / "d_labitems_to_loinc.csv.gz", ",")
    rows = [row for row in rows if row["omop_vocabulary_id"] == "LOINC"]
    names = [(f"LOINC:{row['omop_concept_code']}", row["omop_concept_name"]) for row in rows]
    yield from _halves(names, [(one, f"{row['label']}, {row['fluid']}") for row, (one, _) in zip(rows, names)])


def _table(path: Path, delimiter: str) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
        quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        return list(csv.DictReader(file, delimiter=delimiter, quoting=quoting))


def _halves(names: Pairs, mapped: Pairs) -> Iterator[Part]:
    order = np.random.default_rng(SEED).permutation(len(mapped))
    first, second = ([mapped[row] for row in half] for half in np.array_split(order, 2))
    yield Part(names, first, second)
    yield Part(names, second, first)


def measure(part: Part, size: int, encoder: TermEncoder, folder: Path, vectors: dict[str, Any]) -> Counter[str]:
    """Return what is right, accepted and wrong of the phrases that are never seen, whatever the size."""
    seen = {clean(text) for _, text in (*part.names, *part.confirmed)}
    asked = [(one, text) for one, text in dict.fromkeys(part.asked) if clean(text) not in seen]
    order = np.random.default_rng(SEED).permutation(len(part.confirmed))[:size]
    meant = dict(Counter((clean(text), one) for one, text in part.confirmed))
    chosen = [part.confirmed[row] for row in order if sum(key == clean(part.confirmed[row][1]) for key, _ in meant) == 1]
    table = folder / "names.csv"
    with open(table, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "term"), *dict.fromkeys(part.names)])
    terminology = load_terminology(terminology_of(table))
    confirmed = tuple(sorted({clean(text): ConfirmedName(one, text, "exact", "en") for one, text in chosen}.values()))

    def blocks(strings: Any, encoder: TermEncoder) -> Iterator[Any]:  # noqa: ANN401 - see `encoding.Blocks`
        new = [string for string in strings.to_pylist() if string not in vectors]
        vectors.update(zip(new, encode_block(new, encoder) if new else [], strict=True))
        yield np.array([vectors[string] for string in strings.to_pylist()])

    began, out = time.process_time(), folder / f"{time.monotonic_ns()}.index"
    index = build(terminology, encoder, out, enrichment=enrichment_of(Choice(confirmed=confirmed), terminology), blocks=blocks)
    counts = Counter({"seconds": time.process_time() - began, "learned": index.learned, "asked": len(asked), "parts": 1})
    results = Normalizer(index, error=0.05).normalize([text for _, text in asked])
    for result, (one, text) in zip(results, asked, strict=True):
        right = bool(result.candidates) and result.candidates[0].concept_id == one
        counts["first"] += right
        counts["accepted"] += result.decision == "accept"
        counts["wrong"] += result.decision == "accept" and result.concept_id != one
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=["psytar", "clinvar", "labitems"])
    parser.add_argument("--sizes", nargs="*", type=int, default=[0, 50, 200, 1000])
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    encoder, found = TermEncoder.load("alphita-en"), {}
    for name in given.sets:
        parts, vectors = list(globals()[name](given.folder)), {}
        for size in given.sizes:
            with tempfile.TemporaryDirectory() as folder:
                total = sum((measure(part, size, encoder, Path(folder), vectors) for part in parts), Counter())
            found[f"{name} {size}"] = total
            shares = {key: f"{100 * total[key] / total['asked']:.1f}" for key in ("first", "accepted")}
            wrong = f"{100 * total['wrong'] / max(1, total['accepted']):.1f}"
            print(name, size, dict(total), shares, f"wrong of accepted {wrong}", flush=True)
    if given.output:
        given.output.write_text(json.dumps({"seed": SEED, "machine": machine.describe(), **found}, indent=1))


if __name__ == "__main__":
    main()
