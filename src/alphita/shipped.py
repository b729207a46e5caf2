"""What comes with Alphita beside its code: models and examples, found in a clone and in an installed wheel alike."""

from __future__ import annotations

import importlib.metadata
import sysconfig
from pathlib import Path, PurePosixPath

from alphita.errors import InputError

# Where a wheel's files of this kind are installed (`data-files` in pyproject.toml).
SHARE = PurePosixPath("share/alphita")


def find(name: str) -> Path:
    """Return the path of a file or folder that comes with Alphita, such as "models/alphita-en"."""
    clone = Path(__file__).resolve().parents[2]
    places = [clone / name, Path(sysconfig.get_path("data")) / SHARE / name]
    for place in places:
        if place.exists():
            return place
    # Installed elsewhere than where this Python keeps its own: `pip install --user` or `--target`.
    tail = str(SHARE / name)
    try:
        files = importlib.metadata.distribution("alphita").files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        text = file.as_posix()
        if tail in text and (text.endswith(tail) or text.partition(tail)[2].startswith("/")):
            path = Path(str(file.locate()))
            return path if text.endswith(tail) else path.parents[text.partition(tail)[2].count("/") - 1]
    remedy = "install alphita again: pip install --force-reinstall alphita"
    raise InputError("is not there", file=places[-1], remedy=remedy)
