"""What an index keeps of its encoder beside the weights: its training, so that nobody calibrates on strings that it was
trained on, and the general calibration that comes with it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from alphita import textio
from alphita.artefact import MANIFEST
from alphita.errors import InputError

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
    """Return what `keep` does of the model in a folder."""
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
    """Copy the general calibration that lies beside an encoder, if there is one, into the index's model folder."""
    folder = getattr(encoder, "folder", None)
    if folder is None or not (Path(folder) / CALIBRATION / MANIFEST).is_file():
        return
    manifest = textio.json_file(Path(folder) / CALIBRATION / MANIFEST)
    # One that was lent to an index of this encoder was made for that index alone.
    if manifest.get("general"):
        shutil.copytree(Path(folder) / CALIBRATION, model / CALIBRATION)
