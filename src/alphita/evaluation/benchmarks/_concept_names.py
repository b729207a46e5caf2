"""The names by which benchmarks represent concepts: a terminology's exact, human-made terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita import registry
from alphita.errors import UsageError
from alphita.terminology.language_ranges import among
from alphita.terminology.store import Terminology


def terms_in(terminology: Terminology, language: str | None) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the terms' rows, concept by concept, the preferred ones first, and where each concept's begin.

    Args:
        terminology: whose terms; see `Terminology.training_terms` for which of them.
        language: the BCP-47 tag of the terms; None: of all languages.

    Raises:
        UsageError: no term is in the language.
    """
    if language is None:
        return terminology.training_terms()
    known = {one for one in terminology.terms.column("language").unique().to_pylist() if one is not None}
    if not among(known, [language]):
        raise UsageError(registry.unknown("language of the terminology", language, sorted(known)))
    return terminology.training_terms(languages=[language])
