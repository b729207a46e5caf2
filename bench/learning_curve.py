"""How much an index learns from the phrases that people confirmed: phrases never seen, by the number confirmed.

    python bench/learning_curve.py FOLDER [--sets psytar clinvar labitems] [--sizes 0 50 200 1000] [-o report.json]

FOLDER has benchmarks/psytar, benchmarks/clinvar_traits, open_graph and local_codes. Of each set, the phrases asked are
those that equal no confirmed one and no name, after cleaning; the confirmed are drawn, each size a part of the next.

psytar    patients' words, names of the 167 targets; each fold's training phrases are confirmed, its test phrases asked
clinvar   trait names mapped to MONDO by curators, MONDO's labels; one half is confirmed, the other one asked
labitems  a hospital's laboratory items with their fluid, mapped to LOINC, names of the targets; halves as well
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from alphita import machine
from alphita.answer.normalizer import Normalizer
from alphita.index.choice import Choice, ConfirmedName
from alphita.index.sources import index_of
from alphita.terminology.text import clean

Pairs = list[tuple[str, str]]
SEED = 0


class Part(NamedTuple):
    """Pairs of an id and a string: the names of a terminology, phrases to confirm, and phrases to ask."""

    names: Pairs
    confirmed: Pairs
    asked: Pairs


def _psytar(folder: Path) -> Iterator[Part]:
    def read(file: str) -> Pairs:
        lines = (folder / "benchmarks" / "psytar" / file).read_text(encoding="utf-8").splitlines()
        pairs = [line.split("\t", 1) for line in lines if line.strip()]
        return [(f"PSYTAR:{one}", text.strip().strip('"').replace('""', '"')) for one, text in pairs]

    for fold in range(1, 6):
        yield Part(*(read(f"fold_{fold}.{kind}.txt") for kind in ("standard", "train", "test")))


def _clinvar(folder: Path) -> Iterator[Part]:
    files = (folder / "open_graph" / "terms.tsv.gz", folder / "benchmarks" / "clinvar_traits" / "traits.tsv.gz")
    names, mapped = (pl.read_csv(file, separator="\t", quote_char=None, infer_schema=False) for file in files)
    names = names.filter(pl.col("source").str.starts_with("MONDO"))
    mapped = mapped.filter(pl.col("concept_id").str.starts_with("MONDO:")).select("concept_id", "trait")
    yield from _halves(names.select("id", "term").rows(), mapped.rows())


def _labitems(folder: Path) -> Iterator[Part]:
    file, columns = "d_labitems_to_loinc.csv.gz", ["label", "fluid", "omop_concept_name", "omop_concept_code"]
    rows = pl.read_csv(folder / "local_codes" / file, columns=columns, infer_schema=False).drop_nulls()
    rows = rows.with_columns(id="LOINC:" + pl.col("omop_concept_code"))
    items = rows.select("id", item=pl.concat_str("label", "fluid", separator=", ", ignore_nulls=True))
    yield from _halves(rows.select("id", "omop_concept_name").rows(), items.rows())


def _halves(names: Pairs, mapped: Pairs) -> Iterator[Part]:
    order = np.array_split(np.random.default_rng(SEED).permutation(len(mapped)), 2)
    first, second = ([mapped[row] for row in half] for half in order)
    yield Part(names, first, second)
    yield Part(names, second, first)


SETS = {"psytar": _psytar, "clinvar": _clinvar, "labitems": _labitems}


def measure(part: Part, size: int, folder: Path) -> Counter[str]:
    """Return what is right, accepted and wrong of the phrases that are never seen, whatever the size."""
    seen = {clean(text) for _, text in (*part.names, *part.confirmed)}
    asked = [(one, text) for one, text in dict.fromkeys(part.asked) if clean(text) not in seen]
    meanings: dict[str, set[str]] = {}
    for one, text in part.confirmed:
        meanings.setdefault(clean(text), set()).add(one)
    drawn = [part.confirmed[row] for row in np.random.default_rng(SEED).permutation(len(part.confirmed))[:size]]
    chosen = {clean(text): ConfirmedName(one, text, "exact", "en") for one, text in drawn}
    confirmed = tuple(sorted(name for key, name in chosen.items() if len(meanings[key]) == 1))
    table = folder / "names.csv"
    pl.DataFrame(list(dict.fromkeys(part.names)), ["id", "term"], orient="row").write_csv(table)
    began = time.process_time()
    index = index_of(table, Choice(model="alphita-en", confirmed=confirmed))
    counts = Counter({"seconds": round(time.process_time() - began), "confirmed": len(confirmed), "asked": len(asked)})
    results = Normalizer(index, error=0.05).normalize([text for _, text in asked])
    for result, (one, _) in zip(results, asked, strict=True):
        counts["first"] += bool(result.candidates) and result.candidates[0].concept_id == one
        counts["accepted"] += result.decision == "accept"
        counts["wrong"] += result.decision == "accept" and result.concept_id != one
    return counts + Counter({"learned": index.learned or 0})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--sizes", nargs="*", type=int, default=[0, 50, 200, 1000])
    parser.add_argument("-o", "--output", type=Path)
    given, found = parser.parse_args(), dict[str, Any]()
    for name in given.sets:
        parts = list(SETS[name](given.folder))
        for size in given.sizes:
            with tempfile.TemporaryDirectory() as folder:
                found[f"{name} {size}"] = sum((measure(part, size, Path(folder)) for part in parts), Counter[str]())
            print(name, size, dict(found[f"{name} {size}"]), flush=True)
    if given.output:
        given.output.write_text(json.dumps({"seed": SEED, "machine": machine.describe()} | found, indent=1) + "\n")
