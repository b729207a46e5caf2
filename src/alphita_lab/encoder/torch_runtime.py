"""Term vectors by torch: fp32 or bf16, and the module that training changes."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import machine
from alphita.encoder import layout
from alphita.encoder.layout import ModelSettings
from alphita.encoder.term_tokenizer import Batch, by_token_budget
from alphita.errors import InputError, UsageError, require
from alphita_lab.encoder import bert, injected_bert
from alphita_lab.encoder.pickled import as_safetensors as as_safetensors  # for the product

# So few are done by one thread before another would be awake: some five terms.
FEW_TOKENS = 48


def choose(device: str, precision: str) -> tuple[str, str]:
    """Return the device and precision in use: bf16 where it is fast, under "auto"."""
    if device not in ("auto", "cpu") and not device.startswith("cuda"):
        raise UsageError(f"unknown device {device!r}; choose from ['auto', 'cpu', 'cuda']")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("device 'cuda': torch finds no GPU; use 'cpu' or 'auto'")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if precision == "auto":
        precision = "bf16" if device.startswith("cuda") or machine.fast_bf16() else "fp32"
    return device, precision


class TermModule(torch.nn.Module):
    """A transformer and its pooling: (input_ids, attention_mask) -> (n, dim), not scaled to length 1."""

    def __init__(self, model: torch.nn.Module, settings: ModelSettings) -> None:
        super().__init__()
        self.model, self.settings = model, settings

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return (n, dim).

        Args:
            input_ids: (n, length) token ids.
            attention_mask: (n, length), 1 at tokens and 0 at padding; None where nothing is padded.
        """
        model: Any = self.model
        if self.settings.pooling == "legacy_coder":
            # The published code gives no mask: PAD is attended.
            hidden = model(input_ids=input_ids).last_hidden_state
            return layout.legacy_coder(hidden, model.pooler.dense.weight, model.pooler.dense.bias)
        hidden = model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if self.settings.pooling == "cls":
            return layout.cls(hidden)
        return layout.mean(hidden, attention_mask)


class TorchRuntime:
    """Runs a `TermModule` over batches.

    `precision`: "fp32" or "bf16".
    """

    # Tokens a batch. Larger ones fall out of the processor's cache; a GPU takes more.
    BUDGET: ClassVar[dict[str, int]] = {"cpu": 2048, "cuda": 65536}

    def __init__(self, folder: Path, settings: ModelSettings, *, precision: str, device: str, pad_id: int) -> None:
        self.device = torch.device(device)
        self.settings, self.precision, self.pad_id = settings, precision, pad_id
        self._module = TermModule(_load(folder, settings), settings).to(self.device).eval()
        self._trained = False
        self._forward: Callable[[Batch], torch.Tensor] | None = None
        self._hash: str | None = None

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self._model.config.hidden_size)

    @property
    def config(self) -> Any:  # noqa: ANN401 - a transformers config
        """The transformer's config."""
        return self._model.config

    @property
    def kind(self) -> str:
        """The name of the transformer's class."""
        return type(self._model).__name__

    @property
    def module(self) -> TermModule:
        """The module with its fp32 weights; whoever holds it may change them."""
        self._trained = True
        return self._module

    @property
    def budget(self) -> int:
        """Tokens to put into one batch."""
        return self.BUDGET.get(self.device.type, 16384)

    @property
    def one_length(self) -> bool:
        """Whether a batch must hold rows of one length only."""
        return not injected_bert.packs(self._model)

    @property
    def exportable(self) -> bool:
        """Whether it can be exported to ONNX."""
        return bert.supports(self._model) and self.config.hidden_act == "gelu"

    def pad(self, token_lists: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (input_ids, attention_mask), each (n, longest) int64 on the module's device."""
        longest = max(map(len, token_lists), default=0)
        if self.settings.pooling == "legacy_coder":
            longest = layout.LEGACY_LENGTH
        ids = np.full((len(token_lists), longest), self.pad_id, np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(token_lists):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)

    def prepare(self) -> None:
        """Lay out the weights for encoding, anew if training may have changed them."""
        if self._forward is not None and not self._trained:
            return
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
        if bert.runs(self._model):
            self._forward = bert.FlatBert(self._model, dtype)
        elif isinstance(self._model, injected_bert.InjectedBert):
            self._forward = injected_bert.FlatInjectedBert(self._model, dtype)
        else:
            model = self._model if dtype == torch.float32 else copy.deepcopy(self._model).to(dtype)
            self._forward = functools.partial(_own_forward, model)

    def run(self, batch: Batch) -> NDArray[np.float32]:
        """Return (rows, dim) float32 of one batch, not scaled to length 1."""
        assert self._forward is not None, "prepare() comes first"
        few = machine.one_thread() if len(batch.ids) <= FEW_TOKENS else nullcontext()
        with few, torch.inference_mode():
            vectors = bert.pool(self._forward(batch), batch.runs, mean=self.settings.pooling == "mean")
            if self.settings.pooling == "legacy_coder":
                dense = self._model.pooler.dense
                vectors = layout.legacy_coder(vectors[:, None], dense.weight, dense.bias)
        result: NDArray[np.float32] = vectors.cpu().numpy()
        return result

    def peaks(self, token_lists: Sequence[Sequence[int]]) -> dict[str, NDArray[np.float32]]:
        """Return the largest absolute value of each channel that enters the linear layers behind a layer norm.

        Returns:
            (hidden,) by the name of the layer.
        """
        tensors: dict[str, torch.Tensor] = {}

        def note(name: str) -> Any:  # noqa: ANN401 - a hook
            def hook(_layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
                peak = inputs[0].abs().flatten(0, -2).amax(0)
                tensors[name] = torch.maximum(tensors[name], peak) if name in tensors else peak

            return hook

        hooks = [
            layer.register_forward_pre_hook(note(name))
            for name, layer in self._model.named_modules()
            if name.endswith(("attention.self.query", "intermediate.dense"))
        ]
        was_training = self._model.training
        self._model.eval()
        try:
            with torch.inference_mode():
                for _, batch in by_token_budget(token_lists, self.budget, one_length=True):
                    self._model(input_ids=torch.from_numpy(batch.ids).to(self.device).view(batch.runs[0]))
        finally:
            self._model.train(was_training)
            for hook in hooks:
                hook.remove()
        return {name: peak.cpu().numpy() for name, peak in tensors.items()}

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights that the vectors depend on, in fp32, sorted by name."""
        state = sorted(self._model.state_dict().items())
        return {
            name: value.detach().to("cpu", torch.float32).contiguous().numpy()
            for name, value in state
            if self.settings.pooling == "legacy_coder" or not name.startswith("pooler.")
        }

    def weights_hash(self) -> str:
        """Return the sha256 of names, shapes and fp32 values of the weights: the same before and after saving."""
        if self._hash is None or self._trained:
            digest = hashlib.sha256()
            for name, value in self.weights().items():
                digest.update(f"{name} {value.shape}".encode())
                digest.update(value.data if value.size else b"")
            self._hash = digest.hexdigest()
        return self._hash

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors."""
        self._model.save_pretrained(folder)

    @property
    def _model(self) -> Any:  # noqa: ANN401 - a transformers model
        return self._module.model


def _own_forward(model: Any, batch: Batch) -> torch.Tensor:  # noqa: ANN401 - a transformers model
    """Return the last hidden state of every token, (tokens, hidden), of a batch of one length."""
    (shape,) = batch.runs
    was_training = model.training
    model.eval()
    hidden = model(input_ids=torch.from_numpy(batch.ids).to(model.device).view(shape)).last_hidden_state
    model.train(was_training)
    return hidden.reshape(len(batch.ids), -1)


def _load(folder: Path, settings: ModelSettings) -> Any:  # noqa: ANN401 - a transformers model
    transformers = require("transformers", "train")
    if layout.injected(folder):
        if settings.pooling == "legacy_coder":
            raise InputError("pooling legacy_coder reads a plain BERT; this one has entities injected", file=folder)
        return injected_bert.load(folder)
    if not any(folder.glob("*.safetensors")):
        remedy = "give a model with model.safetensors or pytorch_model.bin"
        raise InputError("has no weights that torch reads", file=folder, remedy=remedy)
    transformers.utils.logging.disable_progress_bar()
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()  # what is missing is said below, as an error
    options = {"local_files_only": True, "dtype": torch.float32, "use_safetensors": True, "output_loading_info": True}
    try:
        model, info = transformers.AutoModel.from_pretrained(folder, **options)
        missing = {str(key) for key in info["missing_keys"]}
        if settings.pooling != "legacy_coder" and any(key.startswith("pooler.") for key in missing):
            # The checkpoint has no pooler and none is needed: better none than a random one.
            model, info = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False, **options)
            missing = {str(key) for key in info["missing_keys"]}
    except Exception as error:
        # transformers and safetensors raise many kinds for damaged files; each is bad input here.
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "ignore_mismatched_sizes" in first_line:
            first_line = "its weights have other sizes than its config.json says"
        remedy = "fetch the model again, all of its files"
        raise InputError(f"the model cannot be loaded: {first_line}", file=folder, remedy=remedy) from error
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
    if missing:
        raise InputError(
            f"{len(missing)} weights are missing, e.g. {min(missing)}",
            file=folder / "model.safetensors",
            remedy="choose pooling mean or cls" if any("pooler" in key for key in missing) else "fetch the model again",
        )
    if settings.pooling == "legacy_coder" and getattr(model, "pooler", None) is None:
        raise InputError("the model has no pooler, which pooling legacy_coder needs", file=folder)
    if settings.pooling != "legacy_coder" and getattr(model, "pooler", None) is not None:
        model.pooler.requires_grad_(False)  # no vector depends on it
    return model
