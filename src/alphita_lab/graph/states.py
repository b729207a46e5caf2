"""What a training keeps: gradients from step to step, and its state, one safetensors file, where it is unfinished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from alphita import artefact
from alphita.errors import InputError


class RowGradients:
    """The gradients of a model's look-up tables, as rows: a step takes some thousand vectors of many.

    PyTorch's backward of a look-up writes a gradient as large as the whole table, and a step looks up five times, which
    takes longer than all the rest of it. Here look-ups give rows, which are added up once, into a table that is kept
    from step to step. What the optimiser sees is the same gradient.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
        for table in tables:
            table.sparse = True
        self._weights = [table.weight for table in tables]
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def whole(self) -> None:
        """Make the gradients of the last backward whole; they stand until the next call."""
        for number, weight in enumerate(self._weights):
            found = weight.grad
            if found is None or not found.is_sparse:
                continue
            found = found.coalesce()
            rows = found.indices()[0]
            if number in self._kept:
                gradient, before = self._kept[number]
                gradient.index_fill_(0, before, 0.0)
            else:
                gradient = torch.zeros_like(weight)
            weight.grad = gradient.index_copy_(0, rows, found.values())
            self._kept[number] = (gradient, rows)


FILE = "state.safetensors"
BEST = "best|"


def save(
    work: Path,
    facts: dict[str, Any],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    best: dict[str, torch.Tensor],
) -> None:
    """Write weights, the optimiser's moments and the best vectors so far into `work`, over an earlier state."""
    from safetensors.torch import save as as_bytes

    tensors = {f"{BEST}{name}": value for name, value in best.items()}
    for name, parameter in model.named_parameters():
        tensors[f"weight|{name}"] = parameter.detach()
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}|{name}"] = value.detach()
    kept = {name: value.cpu().contiguous() for name, value in tensors.items()}
    with artefact.atomic_file(work / FILE) as file:
        file.write(as_bytes(kept, metadata={"facts": json.dumps(facts)}))


def load(
    work: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Any], dict[str, torch.Tensor]] | None:
    """Put the state in `work` into model and optimiser."""
    from safetensors import SafetensorError, safe_open

    if not (work / FILE).exists():
        return None
    try:
        with safe_open(work / FILE, "pt") as opened:
            facts = json.loads(opened.metadata()["facts"])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no dict
        numbers = {id(one): n for n, one in enumerate(p for group in optimizer.param_groups for p in group["params"])}
        restored = {}
        for name, parameter in model.named_parameters():
            weight = tensors.pop(f"weight|{name}")
            if weight.shape != parameter.shape:
                raise ValueError(f"{name} has the shape {tuple(weight.shape)}, not {tuple(parameter.shape)}")
            parameter.data.copy_(weight)
            restored[numbers[id(parameter)]] = {
                key.split("|")[0]: value for key, value in tensors.items() if key.endswith(f"|{name}")
            }
        # PyTorch's own loading knows which tensors its fused kernels need on the parameter's device: "step" too.
        optimizer.load_state_dict({"state": restored, "param_groups": optimizer.state_dict()["param_groups"]})
    except (SafetensorError, KeyError, ValueError, TypeError, OSError) as error:
        raise InputError(
            f"the unfinished work cannot be gone on with: {error}", file=work, remedy="start again with --force"
        ) from None
    return facts, {name.removeprefix(BEST): value for name, value in tensors.items() if name.startswith(BEST)}
