"""Term vectors by ONNX Runtime, in int8 or fp32: no torch, no transformers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.encoder import layout
from alphita.encoder.term_tokenizer import Batch
from alphita.errors import InputError, UsageError

FILES = layout.ONNX_FILES
MODEL_FILES = ("config.json", "model.safetensors", *FILES.values())
# Up to so many tokens are encoded within the calling thread: the others would wake up too late (`machine.one_thread`).
FEW_TOKENS = 48


class OnnxRuntime:
    """Runs an exported model over batches; `precision` is "int8" or "fp32"."""

    # Tokens a batch: larger ones fall out of the processor's cache. The graph has no mask, so rows have one length.
    budget = 1024
    one_length = True
    exportable = False

    def __init__(
        self,
        folder: Path,
        settings: layout.ModelSettings,
        tokenizer_hash: str,
        *,
        precision: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.folder = folder
        self.precision, file = _choose(folder, precision)
        self._weights_hash = str(layout.noted(folder, "weights_hash"))
        threads = threads or machine.threads()
        self._file, self._session = file, _open(file, threads)
        self._single = self._session if threads == 1 else None
        self._opening = threading.Lock()
        notes = self._session.get_modelmeta().custom_metadata_map
        remedy = "export it again: TermEncoder.load(FOLDER, precision='fp32').save(NEW)"
        if notes.get("weights_hash") != self._weights_hash:
            raise InputError("was exported from other weights than this folder's", file=file, remedy=remedy)
        if layout.noted(folder, "tokenizer_hash") != tokenizer_hash:
            raise InputError("the tokenizer is not the one the model was saved with", file=folder, remedy=remedy)
        if notes.get("pooling") != settings.pooling:
            raise UsageError(
                f"{file} pools by {notes.get('pooling')}, not by {settings.pooling}; only with torch can that be chosen"
            )
        self.dim = int(notes["dim"])

    def prepare(self) -> None:
        """Do nothing: the weights are as they were loaded."""

    def run(self, batch: Batch) -> NDArray[np.float32]:
        """Return (rows, dim) float32 of one batch, not scaled to length 1."""
        (shape,) = batch.runs
        alone = machine.is_one_thread() or len(batch.ids) <= FEW_TOKENS
        session = self._of_one_thread() if alone else self._session
        vectors: NDArray[np.float32] = session.run(["vectors"], {"input_ids": batch.ids.reshape(shape)})[0]
        return vectors

    def _of_one_thread(self) -> Any:  # noqa: ANN401 - an onnxruntime.InferenceSession
        """Return the session that works within the calling thread, opened when it is needed; of the same vectors."""
        with self._opening:
            if self._single is None:
                self._single = _open(self._file, 1)
            return self._single

    def weights_hash(self) -> str:
        """Return the hash of the weights it was exported from."""
        return self._weights_hash

    def save(self, folder: Path) -> None:
        """Copy the model's files, unless they are there."""
        if folder.resolve() == self.folder.resolve():
            return
        for name in MODEL_FILES:
            if (self.folder / name).is_file():
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(self.folder / name, folder / name)


def _choose(folder: Path, precision: str) -> tuple[str, Path]:
    for wanted in FILES if precision == "auto" else (precision,):
        file = folder / FILES[wanted]
        if file.is_file():
            return wanted, file
    if layout.injected(folder):
        raise InputError(
            "a model with entities injected runs on torch alone, there is no ONNX form of it",
            file=folder,
            remedy="install torch: pip install 'alphita[train]', and choose precision fp32 or bf16",
        )
    wanted = "int8" if precision == "auto" else precision
    remedy = f"make it where torch is: TermEncoder.load({str(folder)!r}).save(NEW)"
    if wanted == "fp32":
        remedy += ", then export_onnx(NEW, precision='fp32')"
    if importlib.util.find_spec("torch") is None:
        remedy = f"install torch: pip install 'alphita[train]'; or {remedy}"
    raise InputError(f"the model has no {FILES[wanted]}", file=folder, remedy=remedy)


def _open(file: Path, threads: int) -> Any:  # noqa: ANN401 - an onnxruntime.InferenceSession
    # Or it tells its maker of every session, by an id that it keeps in the user's cache (its Privacy.md).
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Waiting threads would take the cores from FAISS and the tokenizer.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not machine.has_vnni():
        # Such processors add pairs of products in 16 bits, which overflow; so the weights are made unsigned. Elsewhere
        # that would only cost: with it products take 2.6 times as long.
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises kinds of its own
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"cannot be opened: {first_line}", file=file) from error
