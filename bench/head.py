"""The head that an index learns: held-out synonyms found by vectors alone, with and without it, and without its parts.

    python bench/head.py X.terminology ... [--model alphita-en] [--cache FOLDER] [--rows all,none,...] [--out head.json]

A fifth of the exact names that are not preferred, of concepts with two or more, is taken out and then asked, beside
misspelt and shortened variants of the names that stay. An answer is right if the concept is among those of the nearest
strings, one or five concepts of them. Processor-seconds are those of learning, its own trying out included.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.encoder.encoder import TermEncoder
from alphita.index import segment
from alphita.index.encoding import encode_block
from alphita.index.enrichment import own_names
from alphita.index.learning import HeadSettings, Learned, Variants, is_held_back, learn
from alphita.normalizer.calibrating.noise import noisy
from alphita.terminology import store
from alphita.terminology.text import DEFAULT_RULES
from arguments import chosen, seeds, status

HELD_OUT, ASKED, NEAREST = 0.2, 3_000, 50
# Variants that are learned from and, of other names, asked.
LEARNED_VARIANTS, ASKED_VARIANTS = 4_000, 2_000
Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class Vocabulary(NamedTuple):
    """A terminology's strings, and what is asked of them.

    Attributes:
        name: its file's.
        vectors: (n, d) of all strings.
        string: (m,) rows of strings, sorted, and
        concept: (m,) of the concepts that have them, in any scope.
        own: (k, 2) strings and concepts of exact names.
        held_back: (n,) bool, by `is_held_back`, of those not preferred.
        asked: rows of the strings held out.
        kept: rows of all others.
        variants: of names that stay; rows of the strings are in `of`.
        asked_variants: others.
        facts: what a report says of it.
    """

    name: str
    vectors: Floats
    string: Rows
    concept: Rows
    own: Rows
    held_back: NDArray[np.bool_]
    asked: Rows
    kept: Rows
    variants: Variants
    asked_variants: Variants
    facts: dict[str, Any]


class Row(NamedTuple):
    """A way to learn: settings, and whether variants are given."""

    settings: HeadSettings
    variants: bool = True


USUAL = HeadSettings()
ROWS: dict[str, Row] = {
    "all": Row(USUAL),
    "no variants": Row(USUAL, variants=False),
    "no bunches": Row(replace(USUAL, bunch=1)),
    "no noise": Row(replace(USUAL, noise=0.0)),
    "half the units": Row(replace(USUAL, hidden=512)),
    "half the steps": Row(replace(USUAL, most_steps=150, rounds=10.0)),
    "twice the steps": Row(replace(USUAL, most_steps=600, rounds=40.0)),
}


def vocabulary(path: Path, encoder: TermEncoder, cache: Path | None, seed: int) -> Vocabulary:
    """Encode a terminology's strings and draw what is asked."""
    terminology = store.load_terminology(path)
    content = segment.collect(terminology, DEFAULT_RULES, frozenset())
    strings, own = content.strings.to_pylist(), own_names(content)
    key = f"{path.stem}-{terminology.content_hash[:12]}-{encoder.content_hash[:12]}"

    def encoded(some: list[str], part: str) -> Floats:
        file = cache and cache / f"{key}-{part}.npy"
        if file is not None and file.exists():
            found: Floats = np.load(file, allow_pickle=False)
            return found
        found = encode_block(some, encoder)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, found, allow_pickle=False)
        return found

    draw = np.random.default_rng(seed)
    preferred = np.zeros(len(strings), bool)
    preferred[own.string[own.preferred]] = True
    several = np.bincount(own.concept)[own.concept] > 1
    may = np.unique(own.string[several & ~preferred[own.string]])
    asked = may[draw.random(len(may)) < HELD_OUT]
    kept = np.setdiff1d(np.arange(len(strings)), asked)
    rows = draw.permutation(kept)[: LEARNED_VARIANTS + ASKED_VARIANTS]
    chance = random.Random(seed)
    vectors = encoded([noisy(strings[row], chance) for row in rows.tolist()], f"variants-{seed}")
    learned, others = (
        Variants(vectors[part], rows[part]) for part in (slice(0, LEARNED_VARIANTS), slice(LEARNED_VARIANTS, None))
    )
    return Vocabulary(
        path.stem,
        encoded(strings, "names"),
        np.repeat(np.arange(len(strings)), np.diff(content.offsets)),
        content.terms.column("concept").to_numpy().astype(np.int64),
        np.stack([own.string, own.concept], axis=1),
        is_held_back(strings) & ~preferred,
        np.sort(draw.permutation(asked)[:ASKED]),
        kept,
        learned,
        others,
        {"strings": len(strings), "terminology": terminology.content_hash, "held out": len(asked)},
    )


def taught(words: Vocabulary, row: Row, seed: int) -> Learned:
    """Learn a head from what stays."""
    place = np.full(len(words.vectors), -1)
    place[words.kept] = np.arange(len(words.kept))
    own = words.own[place[words.own[:, 0]] >= 0]
    variants = Variants(words.variants.vectors, place[words.variants.of]) if row.variants else None
    return learn(
        words.vectors[words.kept],
        (place[own[:, 0]], own[:, 1]),
        words.held_back[words.kept],
        noised=variants,
        seed=seed,
        settings=row.settings,
    )


def found(words: Vocabulary, seen: Callable[[Floats], Floats]) -> dict[str, float]:
    """Return the shares of right answers, in percent."""
    candidates = seen(words.vectors[words.kept])
    start = np.searchsorted(words.string, np.arange(len(words.vectors) + 1))

    def shares(questions: Floats, of: Rows) -> tuple[float, float]:
        right = np.zeros(2)
        for first in range(0, len(of), 256):
            similarity = seen(questions[first : first + 256]) @ candidates.T
            near = np.argpartition(-similarity, NEAREST, axis=1)[:, :NEAREST]
            order = np.take_along_axis(near, np.argsort(-np.take_along_axis(similarity, near, 1), axis=1), 1)
            for asked, nearest in zip(of[first : first + 256].tolist(), words.kept[order].tolist(), strict=True):
                wanted = set(words.concept[start[asked] : start[asked + 1]].tolist())
                met: dict[int, int] = {}
                for rank in nearest:
                    place = len(met)
                    for concept in words.concept[start[rank] : start[rank + 1]].tolist():
                        met.setdefault(concept, place)
                places = [met[concept] for concept in wanted if concept in met]
                right += [min(places, default=9) < 1, min(places, default=9) < 5]
        return tuple(np.round(100 * right / max(1, len(of)), 1).tolist())

    synonyms = shares(words.vectors[words.asked], words.asked)
    variants = shares(np.asarray(words.asked_variants.vectors, np.float32), words.asked_variants.of)
    names = ("@1", "@5", "noisy @1", "noisy @5")
    return dict(zip(names, (*synonyms, *variants), strict=True))


def measure(options: argparse.Namespace) -> None:
    """Measure, print and write."""
    threads = machine.set_threads(options.threads)
    wanted = chosen("row", options.rows, list(ROWS))
    encoder = TermEncoder.load(options.model, threads=threads)
    report: dict[str, Any] = {}
    print(f"{'':16}{'':18}{'@1':>7}{'@5':>7}{'noisy @1':>10}{'@5':>7}{'seconds':>9}{'of processors':>15}")
    for path in options.terminologies:
        for seed in seeds(options.seeds):
            words = vocabulary(path, encoder, options.cache, seed)
            rows: dict[str, Any] = {"none": found(words, lambda vectors: vectors)}
            print(_line(words.name, "none", rows["none"], {}), flush=True)
            for label in wanted:
                learned = taught(words, ROWS[label], seed)
                shares = found(words, learned.head) if learned.head else rows["none"]
                rows[label] = shares | {"learning": learned.report, "settings": asdict(ROWS[label].settings)}
                print(_line(words.name, label, shares, learned.report), flush=True)
            report[f"{words.name}, seed {seed}"] = {**words.facts, "rows": rows}
    if options.out is not None:
        facts = {"model": encoder.content_hash, "threads": threads, "machine": machine.describe()}
        options.out.write_text(json.dumps({"vocabularies": report, **facts}, indent=1) + "\n", encoding="utf-8")


def _line(name: str, label: str, shares: dict[str, float], learning: dict[str, Any]) -> str:
    one, five, noisy_one, noisy_five = shares.values()
    took = f"{learning['seconds']:>9.1f}{learning['processor_seconds']:>15.1f}" if learning else ""
    return f"{name:16}{label:18}{one:>7.1f}{five:>7.1f}{noisy_one:>10.1f}{noisy_five:>7.1f}{took}"


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("terminologies", type=Path, nargs="+")
    parser.add_argument("--model", default="alphita-en")
    parser.add_argument("--rows", default="all", help=f"with commas between: {', '.join(ROWS)}")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--cache", type=Path, help="folder to keep encoded vectors in")
    parser.add_argument("--out", type=Path, help="write the report here as JSON")
    options = parser.parse_args()
    return status(lambda: measure(options))


if __name__ == "__main__":
    raise SystemExit(main())
