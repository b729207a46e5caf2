"""The term encoder: strings to vectors, fast, on torch or (without torch) on ONNX."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, machine, progress, registry
from alphita.encoder import layout
from alphita.encoder.head import FILE as head_file
from alphita.encoder.head import Head
from alphita.encoder.resolve import resolve, with_weights
from alphita.encoder.term_tokenizer import Batch, TermTokenizer, by_token_budget
from alphita.errors import AlphitaError, InputError, UsageError, require

if TYPE_CHECKING:
    import torch

    from alphita_lab.encoder.torch_runtime import TermModule, TorchRuntime

PRECISIONS = ("auto", "fp32", "bf16", "int8")
# Tokenized at once: enough to find rows of one length, few enough that their tokens fit the memory.
STRINGS_AT_ONCE = 65_536
# Terms of random words on which the export to int8 sees the ranges of the states.
EXAMPLES = 128


class Runtime(Protocol):
    """What runs a model over one batch.

    `precision` is fp32, bf16 or int8, `budget` the tokens to put into one batch; with `one_length` a batch must hold
    rows of one length only; `exportable` tells whether it can be exported to ONNX.
    """

    @property
    def dim(self) -> int: ...

    @property
    def precision(self) -> str: ...

    @property
    def budget(self) -> int: ...

    @property
    def one_length(self) -> bool: ...

    @property
    def exportable(self) -> bool: ...

    def prepare(self) -> None:
        """Make ready for a row of batches: the weights may have changed since the last."""
        ...

    def run(self, batch: Batch) -> NDArray[np.float32]:
        """Return (rows, dim) float32, not scaled to length 1."""
        ...

    def weights_hash(self) -> str: ...

    def save(self, folder: Path) -> None: ...


class TermEncoder:
    """Encodes terms. `TermEncoder.load(name)` opens one.

    Attributes:
        folder: the folder from which it was loaded.
        settings: pooling, maximal length, normalisation.
        head: a network on top of the model's vectors, if there is one; training continues without it.
    """

    def __init__(
        self,
        folder: Path,
        settings: layout.ModelSettings,
        tokenizer: TermTokenizer,
        runtime: Runtime,
        device: str = "auto",
        head: Head | None = None,
    ) -> None:
        self.folder, self.settings, self._device, self.head = folder, settings, device, head
        self._tokenizer, self._runtime = tokenizer, runtime

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        precision: str = "auto",
        pooling: str | None = None,
        max_length: int | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> TermEncoder:
        """Open an encoder.

        Args:
            name: `alphita-en`, `minilm`, a model folder, or a hub name.
            precision: "fp32"; "bf16"; "int8" (ONNX, from the exported file); "auto": bf16 on a GPU or a processor that
                is faster with it, else fp32; without torch, and for int8-only models, the exported ONNX file.
            pooling: "mean", "cls" or "legacy_coder", instead of the model's own.
            max_length: tokens per term, instead of the model's own.
            device: "cpu", "cuda" or "auto".
            threads: size of every thread pool.

        Raises:
            InputError: no such encoder, or its files are damaged.
            UsageError: an unknown precision, pooling or device.
            MissingExtra: it needs torch, which is not installed.
        """
        if precision not in PRECISIONS:
            raise UsageError(registry.unknown("precision", precision, PRECISIONS))
        machine.keep_few_products()
        if threads is not None:
            machine.set_threads(threads)
        folder = resolve(str(name))
        transformer, settings = layout.read(folder, pooling=pooling, max_length=max_length)
        tokenizer = TermTokenizer(transformer, settings)
        runtime: Runtime
        no_torch = precision != "bf16" and importlib.util.find_spec("torch") is None
        # Its pooling stands in the exported graph; another is for torch.
        as_exported = layout.int8_alone(folder) and layout.noted(folder, "pooling") == settings.pooling
        if precision == "int8" or no_torch or (precision == "auto" and as_exported):
            from alphita.encoder.onnx_runtime import OnnxRuntime

            runtime = OnnxRuntime(folder, settings, tokenizer.hash, precision=precision, threads=threads)
        else:
            runtime = _in_torch(folder, transformer, settings, tokenizer.pad_id, precision, device)
        head = Head.load(folder) if (folder / head_file).exists() else None
        encoder = cls(folder, settings, tokenizer, runtime, device, head)
        if head is not None and head.dim != encoder.dim:
            raise InputError(
                f"the head takes vectors of {head.dim} numbers, the encoder gives {encoder.dim}: they are of two",
                file=folder / head_file,
                remedy="give the encoder that the head was learned for, or build the index again",
            )
        return encoder

    def with_head(self, head: Head | None) -> TermEncoder:
        """Return this encoder with another head, or none."""
        return TermEncoder(self.folder, self.settings, self._tokenizer, self._runtime, self._device, head)

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self._runtime.dim

    @property
    def precision(self) -> str:
        """The precision in use: "fp32", "bf16" or "int8"."""
        return self._runtime.precision

    @property
    def pooling(self) -> layout.Pooling:
        """How the token vectors are combined."""
        return self.settings.pooling

    @property
    def max_length(self) -> int:
        """Tokens per term, including special ones."""
        return self.settings.max_length

    @property
    def normalize(self) -> bool:
        """Whether vectors are scaled to length 1."""
        return self.settings.normalize

    @property
    def module(self) -> TermModule:
        """The torch module (input_ids, attention_mask) -> (n, dim), for training; `encode` follows its weights."""
        module: TermModule = self._torch().module
        return module

    @property
    def tokenizer_hash(self) -> str:
        """Hash of the tokenizer."""
        return self._tokenizer.hash

    @property
    def content_hash(self) -> str:
        """Hash of weights, settings and tokenizer; the same for every precision, and after saving and loading."""
        parts = [self._runtime.weights_hash(), asdict(self.settings), self.tokenizer_hash]
        return artefact.hash_json(parts if self.head is None else [*parts, self.head.content_hash])

    @property
    def base_hash(self) -> str:
        """Hash of the encoder without its head."""
        return self.content_hash if self.head is None else self.with_head(None).content_hash

    def encode(self, strings: Sequence[str], *, show_progress: bool = False) -> NDArray[np.float32]:
        """Return the vectors of `strings`, (n, dim) float32, of length 1 if the model normalises.

        Equal strings are encoded once; batches contain strings of similar length.

        Args:
            strings: the terms.
            show_progress: show a bar on stderr.

        Raises:
            UsageError: `strings` is a single string, or contains something other than strings.
        """
        if isinstance(strings, str):
            raise UsageError("encode takes a list of strings, not one string: encode([term])")
        strings = list(strings)
        for place, string in enumerate(strings):
            if not isinstance(string, str):
                raise UsageError(f"item {place} is not a string but {type(string).__name__}: {string!r:.80}")
        number = {string: row for row, string in enumerate(dict.fromkeys(strings))}
        vectors = np.empty((len(number), self.dim), np.float32)
        if show_progress:
            with progress.bar("Encoding", len(number), "terms") as bar:
                self._fill(vectors, list(number), bar)
        else:
            self._fill(vectors, list(number), None)
        if not np.isfinite(vectors).all():
            raise AlphitaError(f"the model in {self.folder} gives vectors that are not finite; its weights are damaged")
        if self.settings.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        if self.head is not None:
            vectors = self.head(vectors)
        if len(number) == len(strings):
            return vectors
        return vectors[[number[string] for string in strings]]

    def _fill(self, vectors: NDArray[np.float32], strings: list[str], bar: progress.Bar | None) -> None:
        runtime = self._runtime
        runtime.prepare()
        for start in range(0, len(strings), STRINGS_AT_ONCE):
            tokens = self._tokenizer(strings[start : start + STRINGS_AT_ONCE])
            if self.pooling == "legacy_coder":
                length = layout.LEGACY_LENGTH
                tokens = [row + [self._tokenizer.pad_id] * (length - len(row)) for row in tokens]
            for rows, batch in by_token_budget(tokens, runtime.budget, one_length=runtime.one_length):
                vectors[start + rows] = runtime.run(batch)
                if bar is not None:
                    bar.advance(len(rows))

    def tokenize(self, strings: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each string, including special ones, cut to `max_length`."""
        return self._tokenizer(strings)

    def pad(self, token_lists: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (input_ids, attention_mask) in the form that the module expects, each (n, longest) int64."""
        padded: tuple[torch.Tensor, torch.Tensor] = self._torch().pad(token_lists)
        return padded

    def save(self, path: Path | str, *, onnx: bool | None = None) -> None:
        """Write the model folder, which `SentenceTransformer(path)` opens with the same vectors.

        `legacy_coder` pooling, injected entities and int8-only models have no counterpart there: open such a folder
        with `TermEncoder.load`, or with `trust_remote_code=True` if Alphita is installed.

        Args:
            path: the folder; created if necessary.
            onnx: also write onnx/model_int8.onnx, with which the model runs without torch; by default, if the package
                onnx is installed and the model can be exported.

        Raises:
            MissingExtra: `onnx` is true, but the package is not installed.
        """
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        self._runtime.save(path)
        self._tokenizer.save(path)
        layout.copy_learned(self.folder, path)
        notes = {"weights_hash": self._runtime.weights_hash(), "tokenizer_hash": self.tokenizer_hash}
        if layout.int8_alone(path):
            notes["full_precision"] = layout.noted(self.folder, "full_precision")
        if self.head is not None:
            self.head.save(path)
        layout.write(path, self.settings, self.dim, **notes)
        if onnx is None:
            onnx = self._runtime.exportable and importlib.util.find_spec("onnx") is not None
        if onnx:
            self.export_onnx(path)

    def export_onnx(self, path: Path | str, *, precision: str = "int8") -> Path:
        """Write onnx/model_int8.onnx (or, in fp32, onnx/model.onnx) into the saved model folder `path`.

        Returns:
            The file written.

        Raises:
            UsageError: another precision.
            InputError: `path` is not the saved folder of this model, or this kind of model cannot be exported.
            MissingExtra: the package onnx is not installed.
        """
        if precision not in ("fp32", "int8"):
            raise UsageError(registry.unknown("precision", precision, ("fp32", "int8")))
        runtime = self._torch()
        if layout.noted(Path(path), "weights_hash") != runtime.weights_hash():
            raise InputError("not the saved folder of this model", file=path, remedy="save(path) it first")
        examples = self.tokenize(self._tokenizer.random_terms(EXAMPLES))
        return registry.extension("onnx_export").write(
            runtime, self.settings, Path(path), precision=precision, examples=examples
        )

    def _torch(self) -> Any:  # noqa: ANN401 - a TorchRuntime; torch may be absent
        if not hasattr(self._runtime, "pad"):
            if not layout.int8_alone(self.folder):
                raise AlphitaError("this encoder runs on ONNX and cannot be trained; load it with precision='fp32'")
            self._runtime = _in_torch(
                self.folder, self.folder, self.settings, self._tokenizer.pad_id, "auto", self._device
            )
        return self._runtime


def _in_torch(
    folder: Path, transformer: Path, settings: layout.ModelSettings, pad_id: int, precision: str, device: str
) -> TorchRuntime:
    """Open a model in torch; one that comes in int8 alone, from the encoder whose weights it has."""
    require("torch", "train")
    torch_runtime = registry.extension("torch_runtime")

    device, used = torch_runtime.choose(device, precision)
    source = with_weights(folder)
    if source != folder:
        transformer, _ = layout.read(source)
    runtime: TorchRuntime = torch_runtime.TorchRuntime(
        transformer, settings, precision=used, device=device, pad_id=pad_id
    )
    if source != folder and runtime.weights_hash() != layout.noted(folder, "weights_hash"):
        raise InputError(f"has other weights than {folder} was made from", file=source)
    return runtime
