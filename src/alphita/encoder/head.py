"""The head: a small residual network on the vectors of an encoder that stays as it is.

    u = W1 x + b1                        (h,)
    y = unit(x + W2 gelu(u) + b2)        (d,)
    gelu(u) = u (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))) / 2

x is a vector of length 1, and so is y. With W2 = 0 and b2 = 0 it changes nothing. A head belongs to one index: it is
learned when the index is built (`alphita.index.learning`), in seconds, from the synonyms of its terminology.

index_head.safetensors   w1 (h, d), b1 (h,), w2 (d, h), b2 (d,), float32
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita.artefact import atomic_file
from alphita.errors import InputError

FILE = "index_head.safetensors"
HIDDEN = 128
# Rows whose hidden units fit a processor's cache: 1 MiB at 1,024 of them.
ROWS_AT_ONCE = 256
SLOPE, CUBE = math.sqrt(2 / math.pi), 0.044715

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Head:
    """The network's weights w1 (h, d), b1 (h,), w2 (d, h) and b2 (d,), all float32. Call it with vectors."""

    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats

    def __post_init__(self) -> None:
        shapes = {field.name: getattr(self, field.name).shape for field in fields(self)}
        hidden, dim = self.w1.shape if self.w1.ndim == 2 else (-1, -1)
        wanted = {"w1": (hidden, dim), "b1": (hidden,), "w2": (dim, hidden), "b2": (dim,)}
        if shapes != wanted or min(hidden, dim) < 1:
            raise ValueError(
                f"w1, b1, w2, b2 must have the shapes (h, d), (h,), (d, h), (d,), not {[*shapes.values()]}"
            )
        for name in shapes:
            weight = getattr(self, name)
            if weight.dtype != np.float32:
                raise ValueError(f"{name} must be float32, not {weight.dtype}")
            if not np.isfinite(weight).all():
                raise ValueError(f"{name} has a number that is not finite")

    @property
    def dim(self) -> int:
        """Numbers in a vector, d."""
        return int(self.w1.shape[1])

    @functools.cached_property
    def content_hash(self) -> str:
        """The sha256 of shapes and weights, as 64 hex digits."""
        digest = hashlib.sha256()
        for field in fields(self):
            weight = getattr(self, field.name)
            digest.update(f"{field.name}{weight.shape}".encode())
            digest.update(np.ascontiguousarray(weight).tobytes())
        return digest.hexdigest()

    def __call__(self, vectors: Floats) -> Floats:
        """Return the vectors (n, d), of length 1, that the head makes of an encoder's, (n, d) of length 1."""
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            raise ValueError(f"the head takes vectors of {self.dim} numbers, (n, {self.dim}), not {vectors.shape}")
        mapped = np.empty(vectors.shape, np.float32)
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            block = np.asarray(vectors[rows], np.float32)
            hidden = block @ self.w1.T
            hidden += self.b1
            out = gelu(hidden)[0] @ self.w2.T
            out += block
            out += self.b2
            out /= lengths(out)
            mapped[rows] = out
        return mapped

    def save(self, folder: Path) -> None:
        """Write `index_head.safetensors` into a folder."""
        from safetensors.numpy import save

        weights = {field.name: np.ascontiguousarray(getattr(self, field.name)) for field in fields(self)}
        with atomic_file(Path(folder) / FILE) as file:
            file.write(save(weights))

    @classmethod
    def load(cls, folder: Path) -> Head:
        """Read `index_head.safetensors` of a folder."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = Path(folder) / FILE
        names = [field.name for field in fields(cls)]
        try:
            weights = load_file(path)
            if sorted(weights) != sorted(names):
                raise ValueError(f"it holds {sorted(weights)}, not {sorted(names)}")
            return cls(**weights)
        except (OSError, SafetensorError, ValueError, TypeError) as error:
            raise InputError(f"damaged head: {error}", file=path, remedy="build the index again") from None


def gelu(u: Floats) -> tuple[Floats, Floats]:
    """Return gelu(u), and the tanh in it, which its slope needs too."""
    inner = u * u
    inner *= CUBE * SLOPE
    inner += SLOPE
    inner *= u
    np.tanh(inner, out=inner)
    value = inner + 1
    value *= u
    value *= 0.5
    return value, inner


def gelu_slope(u: Floats, tanh: Floats) -> Floats:
    """Return d gelu / d u, from u and the tanh in its gelu."""
    slope = u * u
    slope *= 3 * CUBE * SLOPE
    slope += SLOPE
    slope *= u
    rest = tanh * tanh
    np.subtract(1, rest, out=rest)
    slope *= rest
    slope += tanh
    slope += 1
    slope *= 0.5
    return slope


def lengths(vectors: Floats) -> Floats:
    """Return the length of each row, (n, 1), above 0."""
    norms: Floats = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return np.maximum(norms, 1e-12)
