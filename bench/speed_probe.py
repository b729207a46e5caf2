"""What a checkout's package needs for mentions beside its own encoder; `release_speed.py` starts it once a round.

    PYTHONPATH=CHECKOUT/src python bench/speed_probe.py INDEX MENTIONS.json ANSWERS.json

MENTIONS.json is {kind: [mention, ...]}. Nothing but what is public is used, for the checkout may be an old one; one
thread and `time.process_time`, which other programs touch less than the clock. A block of mentions is encoded and
answered in turn, a single one likewise. The figures are printed as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import alphita
from alphita import machine

BLOCK, WARMING, SINGLE = 500, 500, 200


def spent(work: Callable[[list[str]], Any], strings: list[str]) -> tuple[float, Any]:
    """Return the processor seconds of some work on strings, and what it gives."""
    start = time.process_time()
    made = work(strings)
    return time.process_time() - start, made


def main(index: str, mentions: Path, answers: Path) -> None:
    """Measure each kind, in blocks and singly, and keep the answers."""
    machine.set_threads(1)
    normalizer = alphita.Normalizer.load(index)
    encoder = normalizer.encoder()
    figures: dict[str, dict[str, float]] = {}
    kept: dict[str, list[tuple[str | None, str | None]]] = {}
    for kind, strings in json.loads(mentions.read_text(encoding="utf-8")).items():
        warming, singles, strings = np.split(np.array(strings, object), [WARMING, WARMING + SINGLE])
        normalizer.normalize(warming.tolist())
        encoder.encode(warming.tolist())
        encoding = answering = 0.0
        kept[kind] = []
        for start in range(0, len(strings), BLOCK):
            block = strings[start : start + BLOCK].tolist()
            encoding += spent(encoder.encode, block)[0]
            seconds, results = spent(normalizer.normalize, block)
            answering += seconds
            kept[kind] += [(one.concept_id, one.decision) for one in results]
        pairs = [(spent(encoder.encode, [one])[0], spent(normalizer.normalize, [one])[0]) for one in singles]
        alone, single = 1e3 * np.array(pairs).T
        figures[kind] = {
            "strings/s": len(strings) / answering,
            "of the encoder's rate": encoding / answering,
            "one mention, ms": float(np.median(single)),
            "one mention, p95 ms": float(np.quantile(single, 0.95)),
            "one mention, times its encoding": float(np.median(single) / np.median(alone)),
            "one mention, p95 times the encoding": float(np.quantile(single, 0.95) / np.median(alone)),
        }
    answers.write_text(json.dumps(kept), encoding="utf-8")
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
