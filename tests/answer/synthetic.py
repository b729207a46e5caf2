"""A made-up terminology of some hundred concepts with several names each, and an encoder of characters to go with it.

Names are put together of invented stems, so that no real terminology is copied: a plain name ("dral swelling of the
nebula"), a turned one ("nebula, dral swelling"), a learned one of another stem ("dralgoma") and some abbreviated ones.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import zlib
from pathlib import Path

import numpy as np
import pytest

from alphita.answer.calibration_store import Calibration
from alphita.calibrate import examples, fitting, ranker_training
from alphita.index.store import Index
from tests.doubles import HashEncoder, SmallTerminology

SIDES = ("left", "right", "upper", "lower", "acute", "chronic")
PARTS = ("drall", "nebbin", "sorvet", "malcus", "tibrix", "quenna", "holvar", "pessim", "ruglan", "wexter", "jolbin")
PARTS += ("yardel", "ombrak", "fistel")
FINDINGS = (("swelling", "oma"), ("ache", "algia"), ("bleeding", "rhagia"), ("weakness", "asthenia"), ("stone", "lith"))


def synthetic_terminology(n: int = 400, seed: int = 0) -> SmallTerminology:
    """Return `n` concepts with three or four names each; the first is the preferred one."""
    chance = random.Random(seed)
    places = list(itertools.product(SIDES, PARTS, FINDINGS))
    chance.shuffle(places)
    if n > len(places):
        raise ValueError(f"there are only {len(places)} names")
    rows = []
    for number, (side, part, (plain, learned)) in enumerate(sorted(places[:n])):
        concept = f"T:{number:04}"
        names = [f"{side} {part} {plain}", f"{plain} of the {side} {part}", f"{side} {part[:4]}{learned}"]
        if chance.random() < 0.5:
            names.append(f"{part} {plain}, {side} form")
        rows += [(concept, name, "exact") for name in names]
    return SmallTerminology(rows)


class VocabularyEncoder(HashEncoder):
    """A hash encoder with a vocabulary, as every real one has: common words and pieces of words."""

    WORDS = ("table", "garden", "window", "river", "market", "letter", "silver", "orange", "bridge", "planet")
    PIECES = ("##ex", "##mab", "##ium", "##tor", "##zol", "##vax")
    # What `TermEncoder` has beside.
    pooling, max_length, precision = "mean", 32, "fp32"
    folder = Path("no-such-folder")

    def encode(self, strings, *, show_progress: bool = False) -> np.ndarray:
        """Weigh each 3-gram by its hash: hardly ever are two strings equally near to a third."""
        self.encoded.extend(strings)
        vectors = np.zeros((len(strings), self.dim), np.float32)
        for row, string in enumerate(strings):
            padded = f"  {string} ".encode()
            hashes = [zlib.crc32(padded[start : start + 3], self.seed) for start in range(len(padded) - 2)]
            for code in hashes:
                weight = 0.5 + (code >> 16 & 0xFFF) / 0xFFF
                vectors[row, code % self.dim] += weight if code & 0x8000 else -weight
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def save(self, path: Path) -> None:
        super().save(path)
        vocabulary = {word: number for number, word in enumerate((*self.WORDS, *self.PIECES))}
        tokens = json.dumps({"model": {"type": "WordPiece", "vocab": vocabulary}})
        (Path(path) / "tokenizer.json").write_text(tokens, encoding="utf-8")


def quickly(patch: pytest.MonkeyPatch) -> None:
    """Let a ranker be fitted with fewer examples, epochs and members."""
    patch.setattr(examples, "MAX_NOISE", 600)
    patch.setattr(examples, "MAX_ITSELF", 200)
    patch.setattr(ranker_training, "train", functools.partial(ranker_training.train, epochs=6, members=1))


def quick_fit(index: Index, encoder: HashEncoder, **options) -> Calibration:
    """Fit as `fitting.fit` does, in some two seconds."""
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        return fitting.fit(index, lambda: encoder, **options)
