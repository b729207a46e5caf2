"""Encoding speed against sentence-transformers: same model, same terms, same machine, runs interleaved.

    python bench/encode.py [--encoder minilm ...] [--rounds 5] [--threads N] [-o encode.json]

Rows: SentenceTransformer.encode with its defaults, and in its own bf16 mode; TermEncoder in auto, fp32 and int8; of
several encoders TermEncoder in auto for each, the first of them being what the others are compared with. Every
round runs each row once, in turn, so that a machine that slows down slows all rows; the median round counts. Then
accuracy@1 of each row on held-out synonyms of the terminology, ranked among the kept terms.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import harness
from alphita import machine
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import resolve
from alphita.terminology import store
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.text import clean_many

BASE = "SentenceTransformer, defaults"
Encode = Callable[[list[str]], NDArray[np.float32]]


def held_out(terminology: store.Terminology) -> tuple[list[str], NDArray[np.int32], list[str], NDArray[np.int32]]:
    """Return (kept strings, their concepts, held-out strings, their concepts), all cleaned and of live concepts."""
    split = hold_out_synonyms(terminology, fraction=0.3, seed=0)
    strings = clean_many(terminology.terms.column("string").to_pylist())
    concepts = np.asarray(terminology.term_concept)
    keep = np.array([string not in split.cleaned for string in strings]) & ~np.asarray(terminology.retired)[concepts]
    gold = np.array([terminology.resolve(concept) for concept in split.concept_ids], np.int32)
    kept = [strings[row] for row in np.flatnonzero(keep)]
    return kept, concepts[keep], clean_many(split.strings), gold


def accuracy(
    terms: NDArray[np.float32], concepts: NDArray[np.int32], queries: NDArray[np.float32], gold: NDArray[np.int32]
) -> float:
    """Return the share of queries whose nearest term is of the right concept."""
    nearest = [(queries[at : at + 512] @ terms.T).argmax(1) for at in range(0, len(queries), 512)]
    return float((concepts[np.concatenate(nearest)] == gold).mean())


def rows(name: str, saved: Path, threads: int) -> dict[str, tuple[str, Encode]]:
    """Return what is compared: label -> (precision, encode)."""
    import torch
    from sentence_transformers import SentenceTransformer

    folder = str(resolve(name))
    plain = SentenceTransformer(folder, device="cpu")
    half = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.bfloat16})
    ours = {precision: TermEncoder.load(name, precision=precision, threads=threads) for precision in ("auto", "fp32")}
    ours["fp32"].save(saved, onnx=True)
    int8 = TermEncoder.load(saved, precision="int8", threads=threads)

    def reference(model: Any) -> Encode:  # noqa: ANN401 - a SentenceTransformer
        def encode(strings: list[str]) -> NDArray[np.float32]:
            vectors: NDArray[np.float32] = model.encode(strings, convert_to_tensor=True).float().numpy()
            return vectors

        return encode

    return {
        BASE: ("fp32", lambda strings: plain.encode(strings)),
        "SentenceTransformer, bf16": ("bf16", reference(half)),
        "TermEncoder, auto": (ours["auto"].precision, ours["auto"].encode),
        "TermEncoder, fp32": ("fp32", ours["fp32"].encode),
        "TermEncoder, int8": ("int8", int8.encode),
    }


def measure(names: list[str], rounds: int, threads: int, limit: int | None) -> dict[str, Any]:
    """Return the report: seconds, terms a second, ratio to the first row, accuracy@1 by row."""
    with tempfile.TemporaryDirectory() as scratch:
        terms, concepts, queries, gold = held_out(harness.hpo(Path(scratch)))
        terms, concepts = terms[:limit], concepts[:limit]
        if len(names) == 1:
            compared = rows(names[0], Path(scratch) / "model", threads)
        else:
            opened = {name: TermEncoder.load(name, threads=threads) for name in names}
            compared = {name: (one.precision, one.encode) for name, one in opened.items()}
        for _, encode in compared.values():
            encode(terms[:256])
        vectors: dict[str, NDArray[np.float32]] = {}

        def work(label: str, encode: Encode) -> Callable[[], float]:
            return lambda: harness.timed(lambda: vectors.__setitem__(label, encode(terms)))

        seconds = harness.in_turn({label: work(label, encode) for label, (_, encode) in compared.items()}, rounds)
        median = {label: statistics.median(values) for label, values in seconds.items()}
        first = next(iter(compared))
        report = {
            label: {
                "precision": precision,
                "seconds": [round(value, 3) for value in seconds[label]],
                "terms_per_second": round(len(terms) / median[label], 1),
                "times_the_first": round(median[first] / median[label], 2),
                "accuracy_at_1": round(accuracy(vectors[label], concepts, encode(queries), gold), 5),
            }
            for label, (precision, encode) in compared.items()
        }
    return {"encoders": names, "terms": len(terms), "queries": len(queries), "rows": report}


def main(words: list[str] | None = None) -> None:
    """Measure, print the table and write the report."""
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--encoder", nargs="+", default=["minilm"])
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--limit", type=int, help="terms to encode; all by default")
    given = parser.parse_args(words)
    machine.set_threads(given.threads)
    report = measure(given.encoder, given.rounds, given.threads, given.limit)
    print(f"{report['terms']:,} terms, {report['queries']:,} held-out synonyms, median of {given.rounds} rounds")
    print(f"{'':32}{'precision':>10}{'seconds':>9}{'terms/s':>9}{'times':>7}{'acc@1':>8}")
    for label, row in report["rows"].items():
        print(
            f"{label:32}{row['precision']:>10}{statistics.median(row['seconds']):>9.2f}{row['terms_per_second']:>9,.0f}"
            f"{row['times_the_first']:>6.2f}x{row['accuracy_at_1']:>8.2%}"
        )
    # A load well above `threads`: others were using the cores, measure again.
    harness.write(given, report | {"load_average": os.getloadavg()[:2]}, ontology="hpo")


if __name__ == "__main__":
    main()
