"""Strings to vectors with gradients: cached token ids, and the forward pass as training runs it."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import artefact, clock, machine
from alphita_lab.encoder import bert, injected_bert
from alphita_lab.training.engine import lora

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder

AT_ONCE = 65_536
# Fewer strings are tokenized anew each time, in a second or two.
MIN_CACHED = 100_000
TABLES_KEPT = 8


class TokenTable:
    """The token ids of n strings.

    `ids`: (tokens,) int32; `offsets`: (n + 1,) int64; string i has the ids offsets[i] up to offsets[i + 1].
    """

    def __init__(self, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self, rows: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the ids of some strings, end to end, and the length of each.

        (tokens,) int64 and (m,) int64; rows: (m,) numbers of strings.
        """
        starts = self.offsets[rows]
        lengths = self.offsets[np.asarray(rows) + 1] - starts
        before = np.cumsum(lengths) - lengths
        places = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
        return self.ids[places].astype(np.int64), lengths


def tokenize(encoder: TermEncoder, strings: Sequence[str]) -> TokenTable:
    """Return the token ids of `strings`, from the cache if they were made before."""
    if len(strings) < MIN_CACHED:
        return TokenTable(*_make(encoder, strings))
    digest = hashlib.sha256()
    for start in range(0, len(strings), AT_ONCE):
        digest.update("\0".join(strings[start : start + AT_ONCE]).encode("utf-8", "surrogatepass") + b"\1")
    code = artefact.code_hash("encoder")
    key = artefact.hash_json([code, encoder.tokenizer_hash, encoder.max_length, digest.hexdigest()])
    folder = machine.cache_dir() / "tokens" / key[:32]
    table = _stored(folder, len(strings))
    if table is None:
        made = _make(encoder, strings)
        with contextlib.suppress(OSError):
            _store(folder, *made)
        table = _stored(folder, len(strings)) or TokenTable(*made)
    with contextlib.suppress(OSError):
        clock.mark(folder)
    return table


def _stored(folder: Path, strings: int) -> TokenTable | None:
    """Return the table in a folder, mapped; None where there is none, and none is left where it is not whole."""
    try:
        ids, offsets = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "offsets"))
        if len(offsets) == strings + 1 and offsets[-1] == len(ids):
            return TokenTable(ids, offsets)
    except (OSError, ValueError, EOFError):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _make(encoder: TermEncoder, strings: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    parts, lengths = [], []
    for start in range(0, len(strings), AT_ONCE):
        block = encoder.tokenize(strings[start : start + AT_ONCE])
        lengths.append(np.fromiter(map(len, block), np.int64, len(block)))
        parts.append(np.fromiter((token for row in block for token in row), np.int32, int(lengths[-1].sum())))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]))])
    return np.concatenate([*parts, np.empty(0, np.int32)]), offsets.astype(np.int64)


def _store(folder: Path, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
    """Write a table whole, and drop the tables that were not used for longest."""
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=machine.cache_folder("tokens")))
    np.save(aside / "ids.npy", ids, allow_pickle=False)
    np.save(aside / "offsets.npy", offsets, allow_pickle=False)
    try:
        aside.rename(folder)
    except OSError:
        # Another process was quicker.
        shutil.rmtree(aside, ignore_errors=True)
    # This one is the newest, whatever the clock says that it was when the others were used.
    tables = sorted(
        (path for path in folder.parent.iterdir() if not path.name.startswith(".") and path != folder),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for old in tables[TABLES_KEPT - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


Rows = bert.Packing | tuple[torch.Tensor, torch.Tensor]
"""Rows of tokens laid out for the model: packed, or (input_ids, attention_mask) where it has its own forward."""


@contextmanager
def evaluating(*modules: torch.nn.Module) -> Iterator[None]:
    """Let modules run without dropout and gradients, and leave each in the mode that it was in."""
    modes = [(module, module.training) for module in modules]
    for module in modules:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.train(mode)


class TermForward:
    """Encodes rows of tokens to vectors with gradients: without padding where the model is a BERT, injected or not."""

    def __init__(self, encoder: TermEncoder, *, precision: str = "auto", dropout: float | None = None) -> None:
        machine.keep_freed_memory()
        self.encoder, self.module = encoder, encoder.module
        self.device = next(self.module.parameters()).device
        # Whether it computes in bf16 (autocast).
        self.bf16 = precision == "bf16" or (precision == "auto" and (self.device.type == "cuda" or machine.fast_bf16()))
        # A packed forward reads weights, and so does without the adapters beside them.
        self._pack = injected_bert.packs(encoder.module.model) and encoder.pooling in ("mean", "cls")
        self._pack = self._pack and not lora.adapters(self.module)
        if dropout is not None:
            for part in self.module.modules():
                if isinstance(part, torch.nn.Dropout):
                    part.p = dropout

    def arithmetic(self) -> Any:  # noqa: ANN401 - a context
        """Return the context of the forward pass: autocast to bf16, or nothing."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def lay_out(self, ids: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> Rows:
        """Return n rows as `run` takes them; lengths: (n,) tokens a row, each 1 or more."""
        if self._pack:
            return bert.Packing(ids, lengths, self.device)
        return self.encoder.pad([row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])])

    def run(self, rows: Rows) -> torch.Tensor:
        """Return (n, dim) float32 vectors, not normalised to length 1."""
        with self.arithmetic():
            if not isinstance(rows, bert.Packing):
                vectors: torch.Tensor = self.module(*rows)
                return vectors.float()
            hidden = self.states(rows)
        pool = bert.mean_pool if self.encoder.pooling == "mean" else bert.cls_pool
        return pool(hidden.float(), rows)

    def states(self, rows: bert.Packing, mentions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the last state of every place, (flat, hidden); run within the autocast, where there is one."""
        return injected_bert.packed_states(self.module.model, rows, mentions=mentions)

    def __call__(self, token_lists: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return (n, dim) float32 vectors of lists of token ids, not normalised to length 1."""
        ids = np.fromiter((token for row in token_lists for token in row), np.int64)
        return self.run(self.lay_out(ids, np.array([len(row) for row in token_lists], np.int64)))

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """Return a NumPy array as a tensor on the module's device."""
        return torch.from_numpy(array).to(self.device)
