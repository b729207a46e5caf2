"""A term encoder: minilm, a model folder or a hub name, with its own pooling or another."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
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
# Lists of strings whose vectors are kept: a dictionary is ranked against for every fold and language.
KEPT = 4


class EncoderSystem:
    """An encoder, as a benchmark sees it. Similarity is the cosine."""

    def __init__(self, encoder: TermEncoder, name: str, *, rules: tuple[str, ...], facts: dict[str, Any]) -> None:
        """Use `load`, or give an encoder that is open already."""
        self.encoder, self.name, self.rules = encoder, name, rules
        self.facts = facts
        self._kept: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def encode(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (n, d) at length 1, so that an inner product is a cosine."""
        # With its length: no string and one empty string are joined to the same.
        key = hashlib.sha256("\0".join([str(len(strings)), *strings]).encode()).hexdigest()
        if key not in self._kept:
            if self.encoder.pooling == "legacy_coder":
                strings = [legacy_coder_name(string) for string in strings]
            self._kept[key] = unit(self.encoder.encode(strings, show_progress=len(strings) > 5000))
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

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
