"""Alphita: learn what medical terms mean from a terminology's knowledge graph, and map any string to its concept.

Importing the package does nothing; the public names below are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "AlphitaError": "alphita.errors",
    "Index": "alphita.index.store",
    "Normalizer": "alphita.normalizer.normalizer",
    "ProductSearch": "alphita.search",
    "TermEncoder": "alphita.encoder.encoder",
    "Terminology": "alphita.terminology.store",
    "load_terminology": "alphita.terminology.store",
}
__all__ = sorted(_PUBLIC)

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder as TermEncoder
    from alphita.errors import AlphitaError as AlphitaError
    from alphita.index.store import Index as Index
    from alphita.normalizer.normalizer import Normalizer as Normalizer
    from alphita.search import ProductSearch as ProductSearch
    from alphita.terminology.store import Terminology as Terminology
    from alphita.terminology.store import load_terminology as load_terminology


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'alphita' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
