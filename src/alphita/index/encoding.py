"""Encodes the strings of an index into vectors, block by block."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita import progress, textio
from alphita.artefact import MANIFEST
from alphita.errors import AlphitaError, InputError
from alphita.index.neighbours import Vectors, unit

# Strings encoded together. The batch affects the last bits of a vector, so these blocks are the same wherever they are
# encoded, here or on many machines.
STRINGS_A_BLOCK = 8192


class Encoder(Protocol):
    """The interface of an encoder for the index; `alphita.TermEncoder` implements it."""

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
    return unit(checked(strings, encoder))


def checked(strings: Sequence[str], encoder: Encoder) -> NDArray[np.float32]:
    """Return an encoder's vectors for strings, after checking their shape and that they are finite."""
    encoded = encoder.encode(strings)
    if encoded.shape != (len(strings), encoder.dim):
        raise AlphitaError(f"the encoder gave an array of shape {encoded.shape} for {len(strings)} strings")
    if not np.isfinite(encoded).all():
        bad = strings[int(np.flatnonzero(~np.isfinite(encoded).all(axis=1))[0])]
        raise InputError("the encoder gave a vector that is not finite", value=bad, remedy="is the model whole?")
    return encoded


FILE = "training.json"
CALIBRATION = "calibration"
FIELDS = ("recipe", "terminology", "split")


def keep(encoder: object, model: Path) -> dict[str, Any] | None:
    """Copy the record of an encoder's training into the index's model folder."""
    folder = getattr(encoder, "folder", None)
    record = None if folder is None else read(Path(folder))
    if folder is not None and record is not None:
        shutil.copyfile(Path(folder) / FILE, model / FILE)
    return record


def read(folder: Path) -> dict[str, Any] | None:
    """Return the result of `keep` for the model in a folder."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        fields = textio.json_file(path)
        record = {name: fields.get(name) for name in FIELDS}
        if fields.get("config", {}).get("hold_back"):
            record["held_back"] = True
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"damaged record of training: {error}", file=path, remedy="train the model again") from None
    return record


def keep_calibration(encoder: object, model: Path) -> None:
    """Copy the general calibration next to an encoder, if there is one, into the index's model folder."""
    folder = getattr(encoder, "folder", None)
    if folder is None or not (Path(folder) / CALIBRATION / MANIFEST).is_file():
        return
    manifest = textio.json_file(Path(folder) / CALIBRATION / MANIFEST)
    # A calibration transferred to an index of this encoder is valid only for that index.
    if manifest.get("general"):
        shutil.copytree(Path(folder) / CALIBRATION, model / CALIBRATION)
