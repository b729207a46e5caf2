"""Training state on disk: weights, optimiser moments and the step, as safetensors and JSON, never pickled.

A checkpoint is a folder that appears whole or not at all; the two newest are kept.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from alphita.errors import AlphitaError, InputError

KEPT = 2


def save(folder: Path, step: int, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> Path:
    """Write the state after `step` steps into `folder`/step-NNNNNNNN and drop all but the newest two."""
    target = folder / f"step-{step:08d}"
    aside = folder / f".{target.name}.draft"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        _write(aside, step, modules, optimizer)
        shutil.rmtree(target, ignore_errors=True)
        aside.rename(target)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise AlphitaError(
            f"could not write the checkpoint {target}: {error}; make room and go on with --resume"
        ) from error
    for old in _checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def _write(aside: Path, step: int, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> None:
    names = _parameter_names(modules, optimizer)
    moments = {
        f"{name}|{key}": value.detach().clone().contiguous()
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
        for name in (names[id(parameter)],)
    }
    for name, module in modules.items():
        save_module(aside / f"{name}.safetensors", module)
    save_file(moments, aside / "optimizer.safetensors")
    (aside / "state.json").write_text(json.dumps({"step": step, "modules": sorted(modules)}))
    for file in aside.iterdir():
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())


def load_latest(folder: Path, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> int:
    """Put the newest checkpoint's state into `modules` and `optimizer`."""
    checkpoints = _checkpoints(folder)
    if not checkpoints:
        return 0
    newest = checkpoints[-1]
    try:
        return _load(newest, modules, optimizer)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        shown = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        earlier = "remove it and go on with --resume from the one before" if len(checkpoints) > 1 else ""
        remedy = " or ".join(filter(None, (earlier, "start again with --force")))
        raise InputError(f"the checkpoint is damaged or of another run: {shown}", file=newest, remedy=remedy) from error


def _load(newest: Path, modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> int:
    state: dict[str, Any] = json.loads((newest / "state.json").read_text())
    if state["modules"] != sorted(modules):
        raise InputError(
            f"the checkpoint holds {state['modules']}, the run needs {sorted(modules)}",
            file=newest,
            remedy="start again with --force",
        )
    for name, module in modules.items():
        load_module(newest / f"{name}.safetensors", module)
    moments = load_file(newest / "optimizer.safetensors")
    names = _parameter_names(modules, optimizer)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    restored = {}
    for number, parameter in enumerate(parameters):
        prefix = names[id(parameter)] + "|"
        found_here = {key.removeprefix(prefix): value for key, value in moments.items() if key.startswith(prefix)}
        if found_here:
            restored[number] = found_here
    # PyTorch's own loading knows which tensors its fused kernels need on the parameter's device: "step" too.
    optimizer.load_state_dict({"state": restored, "param_groups": optimizer.state_dict()["param_groups"]})
    return int(state["step"])


def save_module(path: Path, module: torch.nn.Module) -> None:
    """Write a module's weights."""
    weights = {key: value.detach().clone().contiguous() for key, value in module.state_dict().items()}
    save_file(weights, path)


def load_module(path: Path, module: torch.nn.Module) -> None:
    """Put weights that `save_module` wrote into the module."""
    module.load_state_dict(load_file(path))


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").exists())


def _parameter_names(modules: Mapping[str, torch.nn.Module], optimizer: torch.optim.Optimizer) -> dict[int, str]:
    names = {
        id(parameter): f"{name}.{key}"
        for name, module in modules.items()
        for key, parameter in module.named_parameters()
    }
    missing = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in names]
    assert not missing, "the optimizer holds a parameter of no named module"
    return names
