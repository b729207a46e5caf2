"""A term encoder: minilm, a model folder or a hub name, with its own pooling or another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.encoder.encoder import TermEncoder
from alphita.encoder.pooling import legacy_coder_name
from alphita.errors import UsageError
from alphita.evaluation.systems import refuse_unknown
from alphita.evaluation.systems._shared import nearest_vectors
from alphita.index.neighbours import unit
from alphita.terminology.text import DEFAULT_RULES

OPTIONS = ("pooling", "max_length", "precision", "device", "cased", "name")
# Bytes of vectors that are kept: benchmarks share a terminology, and folds and languages a dictionary. At 384 numbers
# each, those of 700,000 strings. A list that alone has more is kept too.
KEPT = 1 << 30


class EncoderSystem:
    """An encoder, as a benchmark sees it. Similarity is the cosine."""

    def __init__(self, encoder: TermEncoder, name: str, *, rules: tuple[str, ...], facts: dict[str, Any]) -> None:
        """Use `load`, or give an encoder that is open already."""
        self.encoder, self.name, self.rules = encoder, name, rules
        self.facts = facts
        self._rows: dict[str, int] = {}
        self._vectors: NDArray[np.float32] | None = None

    def encode(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (n, d) at length 1, so that an inner product is a cosine.

        A string that came before is not encoded again: but for rounding, its vector does not
        depend on what it is encoded with.
        """
        distinct = dict.fromkeys(strings)
        new = [string for string in distinct if string not in self._rows]
        total = len(self._rows) + len(new)
        if self._vectors is None or (new and total * self._vectors.itemsize * self._vectors.shape[1] > KEPT):
            self._rows, self._vectors, new = {}, None, list(distinct)
        if new or self._vectors is None:
            names = [legacy_coder_name(string) for string in new] if self.encoder.pooling == "legacy_coder" else new
            found = unit(self.encoder.encode(names, show_progress=len(names) > 5000))
            self._vectors = found if self._vectors is None else np.concatenate([self._vectors, found])
            self._rows.update((string, row) for row, string in enumerate(new, len(self._rows)))
        rows = np.fromiter((self._rows[string] for string in strings), np.int64, len(strings))
        vectors: NDArray[np.float32] = self._vectors[rows]
        return vectors

    def neighbours(
        self, queries: Sequence[str], terms: Sequence[str], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """See `System`; exact search."""
        return nearest_vectors(self.encode(queries), self.encode(terms), k)

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of each pair."""
        similarity: NDArray[np.float32] = (self.encode(left) * self.encode(right)).sum(axis=1)
        return similarity


def load(argument: str, options: Mapping[str, str]) -> EncoderSystem:
    """Open an encoder.

    Args:
        argument: minilm, a folder or a hub name.
        options: `pooling` (mean, cls, legacy_coder), `max_length`, `precision`, `device`, `cased` (true: strings keep
            their case), `name` (in reports).
    """
    refuse_unknown("encoder", options, OPTIONS)
    cased = options.get("cased", "false").lower()
    if cased not in ("true", "false"):
        raise UsageError(f"option cased of an encoder is true or false, not {cased!r}")
    length = options.get("max_length")
    if length is not None and not length.isdigit():
        raise UsageError(f"option max_length of an encoder is a number of tokens, not {length!r}")
    encoder = TermEncoder.load(
        argument, pooling=options.get("pooling"), max_length=int(length) if length else None,
        precision=options.get("precision", "auto"), device=options.get("device", "auto"),
    )  # fmt: skip
    rules = tuple(rule for rule in DEFAULT_RULES if cased == "false" or rule != "lowercase")
    facts = {
        "kind": "encoder", "encoder": argument, "content_hash": encoder.content_hash, "precision": encoder.precision,
        "pooling": encoder.pooling, "max_length": encoder.max_length, "rules": list(rules),
    }  # fmt: skip
    if (trained := _trained(encoder.folder)) is not None:
        facts["trained"] = trained
    short = Path(argument).name if Path(argument).exists() else argument
    given = [f"{key}={value}" for key, value in options.items() if key in ("pooling", "max_length", "cased")]
    name = options.get("name") or ",".join([short, *given])
    return EncoderSystem(encoder, name, rules=rules, facts=facts)


def _trained(folder: Path) -> dict[str, Any] | None:
    """Return recipe, terminology and split that a model of ours was trained with; None for another's."""
    try:
        fields = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        return {name: fields.get(name) for name in ("recipe", "terminology", "split")}
    except (OSError, ValueError, AttributeError):
        return None
