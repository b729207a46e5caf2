"""The strings of an index become vectors: block by block, by whatever encodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.errors import AlphitaError, InputError
from alphita.index.float16 import Vectors
from alphita.index.neighbours import unit

# Encoded together. What is batched with what decides the last bits of a vector: so these blocks are the same wherever
# they are encoded, here or on many machines.
STRINGS_A_BLOCK = 8192


class Encoder(Protocol):
    """What the index needs of an encoder; `alphita.TermEncoder` is one."""

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        ...

    @property
    def content_hash(self) -> str:
        """Hash of the weights and settings."""
        ...

    @property
    def tokenizer_hash(self) -> str:
        """Hash of the tokenizer."""
        ...

    def encode(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, dim) float32."""
        ...

    def save(self, path: Path) -> None:
        """Write the model folder."""
        ...


# From the distinct cleaned strings, a large_string array, to the vectors of length 1 of their blocks, in order.
Blocks = Callable[[Any, Encoder], Iterator[Vectors]]


def encoded_here(strings: Any, encoder: Encoder) -> Iterator[NDArray[np.float32]]:  # noqa: ANN401
    """Yield the vectors of the strings' blocks, encoded in this process; see `Blocks`."""
    with progress.bar("Encoding terms", total=len(strings), unit="terms") as bar:
        for start in range(0, len(strings), STRINGS_A_BLOCK):
            block = encode_block(strings.slice(start, STRINGS_A_BLOCK).to_pylist(), encoder)
            yield block
            bar.advance(len(block))


def encode_block(strings: Sequence[str], encoder: Encoder) -> NDArray[np.float32]:
    """Return the vectors of some strings, (len(strings), dim) float32 of length 1."""
    encoded = encoder.encode(strings)
    if encoded.shape != (len(strings), encoder.dim):
        raise AlphitaError(f"the encoder gave an array of shape {encoded.shape} for {len(strings)} strings")
    if not np.isfinite(encoded).all():
        bad = strings[int(np.flatnonzero(~np.isfinite(encoded).all(axis=1))[0])]
        raise InputError("the encoder gave a vector that is not finite", value=bad, remedy="is the model whole?")
    return unit(encoded)
