"""A term encoder: minilm, a model folder or a hub name, with its own pooling or another."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.encoder.encoder import TermEncoder
from alphita.index.neighbours import unit
from alphita.terminology.text import DEFAULT_RULES, legacy_coder
from alphita_lab.evaluation.systems import Found, count, refuse_unknown, truth
from alphita_lab.evaluation.systems._shared import nearest_vectors

OPTIONS = ("pooling", "max_length", "precision", "device", "cased", "prefix", "name")
# Bytes of vectors that are kept: benchmarks share a terminology, and folds and languages a dictionary. At 384 numbers
# each, those of 700,000 strings. A list that alone has more is kept too.
KEPT = 1 << 30
# Where a list does not fit beside the strings that are kept, it takes their place if it has this share of their number.
# A shorter one, such as a block of queries, is sooner encoded again than they are.
REPLACING = 1 / 4


class EncoderSystem:
    """An encoder, as a benchmark sees it. Similarity is the cosine."""

    def __init__(
        self, encoder: TermEncoder, name: str, *, rules: tuple[str, ...], facts: dict[str, Any], prefix: str = ""
    ) -> None:
        self.encoder, self.name, self.rules, self.prefix = encoder, name, rules, prefix
        self.facts = facts
        # The vectors stay in the blocks in which they were encoded: joining them would take their memory twice.
        self._blocks: list[NDArray[np.float32]] = []
        self._rows: dict[str, int] = {}
        self._terms: tuple[list[str], NDArray[np.float32]] | None = None

    def encode(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (n, d) at length 1, so that an inner product is a cosine."""
        vectors = self._shared(strings)
        return vectors if vectors.flags.writeable else vectors.copy()

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """See `System`; exact search. The terms are not encoded again as long as the same ones are given."""
        strings = list(terms)
        if self._terms is None or self._terms[0] != strings:
            self._terms = None
            self._terms = strings, self._shared(strings)
        named = self._terms
        query_vectors = self._shared(queries)
        self._terms = named
        return nearest_vectors(query_vectors, named[1], k)

    def _shared(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (n, d); a part of what is kept, which cannot be written to, where they lie so."""
        distinct = list(dict.fromkeys(strings))
        new = [string for string in distinct if string not in self._rows]
        size = self._blocks[0].itemsize * self._blocks[0].shape[1] if self._blocks else 0
        fits = not new or (len(self._rows) + len(new)) * size <= KEPT
        if not fits and len(distinct) >= REPLACING * len(self._rows):
            self._blocks, self._rows, self._terms, new, fits = [], {}, None, distinct, True
        blocks, rows = self._blocks, self._rows
        if new or not blocks:
            vectors = self._encoded(new)
            added = {string: row for row, string in enumerate(new, len(rows))}
            if fits:
                blocks.append(vectors)
                rows.update(added)
            else:
                return _gathered([*blocks, vectors], ChainMap(added, rows), strings)
        return _gathered(blocks, rows, strings)

    def _encoded(self, strings: list[str]) -> NDArray[np.float32]:
        names = [legacy_coder(string) for string in strings] if self.encoder.pooling == "legacy_coder" else strings
        if self.prefix:
            names = [self.prefix + name for name in names]
        vectors = unit(self.encoder.encode(names, show_progress=len(names) > 5000))
        vectors.flags.writeable = False
        return vectors

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        similarity: NDArray[np.float32] = (self._shared(left) * self._shared(right)).sum(axis=1)
        return similarity


def _gathered(
    blocks: Sequence[NDArray[np.float32]], rows: Mapping[str, int], strings: Sequence[str]
) -> NDArray[np.float32]:
    """Return the vectors of strings (n, d) out of blocks laid end to end; where they follow one another in one,
    that."""
    wanted = np.fromiter((rows[string] for string in strings), np.int64, len(strings))
    ends = np.cumsum([len(block) for block in blocks])
    owner = np.searchsorted(ends, wanted, side="right")
    starts = ends - [len(block) for block in blocks]
    if len(wanted) and owner[0] == owner[-1] and (np.diff(wanted) == 1).all():
        first = wanted[0] - starts[owner[0]]
        return blocks[owner[0]][first : first + len(wanted)]
    vectors = np.empty((len(wanted), blocks[0].shape[1]), np.float32)
    for number in np.unique(owner):
        here = owner == number
        vectors[here] = blocks[number][wanted[here] - starts[number]]
    return vectors


def load(argument: str, options: Mapping[str, str]) -> EncoderSystem:
    """Open an encoder."""
    refuse_unknown("encoder", options, OPTIONS)
    cased = truth("an encoder", options, "cased", False)
    encoder = TermEncoder.load(
        argument,
        pooling=options.get("pooling"),
        max_length=count("an encoder", options, "max_length", "tokens, 1 or more"),
        precision=options.get("precision", "auto"),
        device=options.get("device", "auto"),
    )
    rules = tuple(rule for rule in DEFAULT_RULES if not cased or rule != "lowercase")
    facts = {
        "kind": "encoder",
        "encoder": argument,
        "content_hash": encoder.content_hash,
        "precision": encoder.precision,
        "pooling": encoder.pooling,
        "max_length": encoder.max_length,
        "rules": list(rules),
    }
    if (trained := _trained(encoder.folder)) is not None:
        facts["trained"] = trained
    prefix = f"{options['prefix'].strip()} " if options.get("prefix", "").strip() else ""
    if prefix:
        facts["prefix"] = prefix
    short = Path(argument).name if Path(argument).exists() else argument
    given = [f"{key}={value}" for key, value in options.items() if key in ("pooling", "max_length", "cased", "prefix")]
    name = options.get("name") or ",".join([short, *given])
    return EncoderSystem(encoder, name, rules=rules, facts=facts, prefix=prefix)


def _trained(folder: Path) -> dict[str, Any] | None:
    """Return recipe, terminology and split that a model of ours was trained with; None for another's."""
    try:
        fields = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        return {name: fields.get(name) for name in ("recipe", "terminology", "split")}
    except (OSError, ValueError, AttributeError):
        return None
