"""Published checkpoints whose weights are pickled (`pytorch_model.bin`): converted once, in the cache, to safetensors.

torch reads tensors alone from them (`weights_only`, which is safe from torch 2.6 on); a file that holds anything else,
such as code, is refused.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from pathlib import Path

import torch

from alphita import artefact, machine, progress, textio
from alphita.encoder import layout
from alphita.errors import AlphitaError, InputError

SAFE_FROM = (2, 6)
NOTE = "converted.json"
# Weights in whatever form, which are not copied.
WEIGHTS = (".bin", ".h5", ".msgpack", ".ot", ".onnx", ".safetensors", ".pt", ".pth", ".ckpt", ".tflite", ".mlmodel")


def as_safetensors(folder: Path) -> Path:
    """Return a folder of the cache with a model's files, its weights as safetensors; made the first time."""
    transformer, _ = layout.read(folder)
    hashes = {path.name: artefact.hash_file(path) for path in _shards(transformer)}
    small = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix not in WEIGHTS]
    others = {path.relative_to(folder).as_posix(): artefact.hash_file(path) for path in small}
    target = machine.cache_folder("checkpoints") / artefact.hash_json([hashes, others])[:32]
    if (target / NOTE).is_file():
        return target
    state: dict[str, torch.Tensor] = {}
    for name in hashes:
        state |= _tensors(transformer / name)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for path in small:
            copy = aside / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        _save(state, aside / transformer.relative_to(folder) / "model.safetensors")
        (aside / NOTE).write_text(json.dumps({"source": str(folder), "sha256": hashes}, indent=1) + "\n", "utf-8")
        # Where another process was quicker, its folder is as good.
        with contextlib.suppress(OSError):
            aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    told = ", ".join(f"{name} (sha256 {sha256})" for name, sha256 in hashes.items())
    progress.say(f"{folder}: {told} converted to safetensors in {target}")
    return target


def _shards(transformer: Path) -> list[Path]:
    listing = transformer / layout.PICKLED_SHARDS
    if not listing.is_file():
        return [transformer / layout.PICKLED]
    try:
        names = sorted({Path(name).name for name in textio.json_file(listing)["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is no list of weights: {error}", file=listing, remedy="fetch the model again") from None
    return [transformer / name for name in names]


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    if tuple(map(int, torch.__version__.split(".")[:2])) < SAFE_FROM:
        raise AlphitaError(f"{file}: torch {torch.__version__} cannot open it safely; pip install 'torch>=2.6'")
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch raises many kinds: for code, for damaged files and for what is no such file.
        if code := re.search(r"GLOBAL ([\w.]+)", str(error)):
            problem = f"holds more than tensors ({code[1]}), which could run a program, and is not opened"
            remedy = "take a model saved as safetensors, from somewhere that you trust"
            raise InputError(problem, file=file, remedy=remedy) from None
        raise InputError("cannot be read as tensors by name", file=file, remedy="fetch the model again") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InputError("holds more than tensors by name", file=file, remedy="save the model's state_dict alone")
    return {str(name): value for name, value in state.items()}


def _save(state: dict[str, torch.Tensor], file: Path) -> None:
    from safetensors.torch import save_file

    # Tied weights share their memory, which safetensors does not write.
    whole = {name: value.detach().clone().contiguous() for name, value in state.items()}
    save_file(whole, file, metadata={"format": "pt"})
