"""The projection f that product attribute prediction trained, and the values it predicts.

Liu et al. 2022, equation 2: d(t, n, v) = || f(E(t + n)) - f(E(v)) ||, small where v is a value of attribute n of the
product t; f(x) = GELU(W x + b), see
`alphita_lab.objectives.attribute_prediction`. Training pushes sigma(gamma - d) towards
1 for true triples and 0 for others (equation 3), so that is what is taken for similarity. A query stands in the place
of v: a product is found by a value that its row of the table lacks.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.index import encoding
from alphita.index.encoding import Encoder

FILE = "attribute_projection.safetensors"
# Where a model's record does not say what it was trained with: the paper's, section 4.3.2.
GAMMA = 4.0
# Products without a value that one with it is compared to.
LACKING = 100


class Projection(NamedTuple):
    """f: weight (d', d) and bias (d',), and the margin gamma, above 0, that it was trained with."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    gamma: float

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return f of vectors: (n, d) -> (n, d') float32."""
        from scipy.special import erf

        x = vectors @ self.weight.T + self.bias
        # NumPy's own square root is float64, and would make all of this so.
        projected: NDArray[np.float32] = x * (1 + erf(x / np.float32(np.sqrt(2)))) / 2
        return projected

    def similarities(
        self, query: NDArray[np.float32], projected: NDArray[np.float32], squares: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return sigma(gamma - distance) (n,) of a projected query (d',) to projected texts (n, d')."""
        distance = np.sqrt(np.maximum(squares + query @ query - 2 * (projected @ query), 0))
        similarity: NDArray[np.float32] = (1 / (1 + np.exp(np.minimum(distance - self.gamma, 80)))).astype(np.float32)
        return similarity


def told_apart(
    projected: Projection,
    texts: NDArray[np.float32],
    triples: NDArray[np.int32],
    asked: NDArray[np.int64],
    values: NDArray[np.float32],
) -> float:
    """Return how often a product that has a value is more similar to it than one that lacks it, 0 to 1; chance is 0.5.

    Args:
        texts: (products, attributes, d') of f(E(t + n)).
        triples: (m, 3) product, attribute, value: all that are known.
        asked: (k,) rows of `triples` that are looked at, each beside `LACKING` products that lack its value.
        values: (k, d') of f(E(v)) of their values.
    """
    random = np.random.default_rng(0)
    shares = []
    for (product, attribute, value), vector in zip(triples[asked].tolist(), values, strict=True):
        having = triples[(triples[:, 1] == attribute) & (triples[:, 2] == value), 0]
        lacking = np.setdiff1d(random.permutation(len(texts))[:LACKING], having)
        if len(lacking):
            some = texts[[product, *lacking.tolist()], attribute]
            similar = projected.similarities(vector, some, np.einsum("nd,nd->n", some, some))
            shares.append(np.mean((similar[0] > similar[1:]) + 0.5 * (similar[0] == similar[1:])))
    return float(np.mean(shares)) if shares else 0.5


def read(encoder: Encoder) -> Projection | None:
    """Return the projection beside an encoder's weights; None where it has none."""
    folder = getattr(encoder, "folder", None)
    if folder is None or not (Path(folder) / FILE).is_file():
        return None
    return read_file(Path(folder) / FILE, encoder.dim, _config(Path(folder)))


def read_file(path: Path, dim: int, config: dict[str, Any]) -> Projection:
    """Return the projection in a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    remedy = "train the model again"
    try:
        tensors = load_file(path)
        weight, bias = (tensors[f"dense.{name}"].astype(np.float32) for name in ("weight", "bias"))
        gamma = float(config.get("gamma", GAMMA))
    except (OSError, KeyError, ValueError, TypeError, SafetensorError) as error:
        raise InputError(f"damaged attribute projection: {error}", file=path, remedy=remedy) from None
    if weight.ndim != 2 or weight.shape[1] != dim or bias.shape != (len(weight),):
        raise InputError(
            f"the attribute projection has the shapes {weight.shape} and {bias.shape}, the encoder gives {dim} numbers",
            file=path,
            remedy=remedy,
        )
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise InputError("the attribute projection holds numbers that are not finite", file=path, remedy=remedy)
    return Projection(weight, bias, gamma)


def unscaled(encoder: Encoder) -> Encoder:
    """Return the encoder with vectors as training saw them, not scaled to length 1."""
    settings: Any = getattr(encoder, "settings", None)
    if settings is None:
        return encoder
    # Weights and tokenizer are shared.
    bare: Any = copy.copy(encoder)
    bare.settings = dataclasses.replace(settings, normalize=False)
    unscaled_encoder: Encoder = bare
    return unscaled_encoder


def _config(folder: Path) -> dict[str, Any]:
    """Return the settings that the model was trained with; none where it has no record."""
    try:
        record = json.loads((folder / encoding.FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(
            f"damaged record of training: {error}", file=folder / encoding.FILE, remedy="train the model again"
        ) from None
    config = record.get("config") if isinstance(record, dict) else None
    return config if isinstance(config, dict) else {}
