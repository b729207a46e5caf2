"""Texts that mention a small terminology, and vectors of its graph, for the tests of injected entities."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita_lab.graph.store import EntityVectors
from alphita_lab.training.mentions.building import MentionSettings, build

FILLERS = ("the", "of", "was", "seen,", "ab", "and", "then", "again.", "x-2")


def texts_of(terminology: Terminology, number: int = 60, *, seed: int = 1) -> list[str]:
    """Return texts of a few words with some names of the terminology among them, none beside another."""
    chance = random.Random(seed)
    names = sorted(set(terminology.terms["string"].to_pylist()))

    def piece() -> str:
        return " ".join([chance.choice(names), *chance.choices(FILLERS, k=chance.randint(1, 4))])

    return [" ".join(piece() for _ in range(chance.randint(1, 7))) for _ in range(number)]


def mentions_of(
    terminology: Terminology,
    model: Path,
    out: Path,
    *,
    texts: Sequence[str] | None = None,
    split: Split | None = None,
    **settings: object,
) -> Path:
    """Write mentions with sequences of 24 tokens, 5 mentions at most."""
    corpus = out.with_suffix(".txt")
    corpus.write_text("\n\n".join(texts or texts_of(terminology)) + "\n", encoding="utf-8")
    chosen = MentionSettings(**{"sequence_tokens": 24, "most_mentions": 5} | settings)
    build([corpus], terminology, model, out, chosen, split=split)
    return out


def graph_of(ids: Sequence[str], out: Path, *, dim: int = 6, split: str | None = None) -> Path:
    """Write random vectors of these concepts."""
    vectors = np.random.default_rng(0).normal(size=(len(ids), dim)).astype(np.float32)
    relation = np.zeros((1, dim), np.float32)
    EntityVectors(sorted(ids), vectors, ["is_a"], relation, "transe", {"split_hash": split}).save(out)
    return out
