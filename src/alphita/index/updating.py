"""A new index from an earlier one: strings that it holds keep their vectors, and only the others are encoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from alphita import progress
from alphita.errors import UsageError
from alphita.index.encoding import STRINGS_A_BLOCK, Blocks, Encoder, encode_block
from alphita.index.half import Vectors, full
from alphita.index.store import Index


def reusing(old: Index, encoder: Encoder, *, half: bool = False) -> Blocks:
    """Return what gives strings their vectors out of `old`, and encodes those that it lacks; for `store.build`.

    What is encoded together decides the last bits of a vector, so a new one may differ from a fresh build's by
    rounding.

    Args:
        old: an index made by the same encoder.
        encoder: encodes the strings that `old` lacks.
        half: the new index stores half precision.

    Raises:
        InputError: `old` was made by another encoder.
        UsageError: `old` has half precision only, and the new index wants more.
    """
    old.check_encoder(encoder, remedy="give the model of that index, or encode everything: leave --update out")
    if old.vectors.dtype == np.float16 and not half:
        raise UsageError(f"{old.path} holds its vectors in half precision; give --half too, or leave --update out")

    def blocks(strings: Any, encoder: Encoder) -> Iterator[Vectors]:  # noqa: ANN401
        """Yield the vectors of the strings' blocks, in order; see `encoding.Blocks`."""
        encoded = 0
        with progress.bar("Encoding new terms", total=len(strings), unit="terms") as bar:
            for start in range(0, len(strings), STRINGS_A_BLOCK):
                block = strings.slice(start, STRINGS_A_BLOCK).to_pylist()
                rows = old.rows(block)
                lacking = np.flatnonzero(rows < 0)
                vectors = np.empty((len(block), old.dim), np.float32)
                vectors[rows >= 0] = full(old.vectors[rows[rows >= 0]])
                if len(lacking):
                    vectors[lacking] = encode_block([block[place] for place in lacking], encoder)
                encoded += len(lacking)
                bar.advance(len(block))
                yield vectors
        progress.say(f"vectors of {len(strings) - encoded:,} strings taken from {old.path}, {encoded:,} encoded")

    return blocks
