"""Terms to cluster, and the concepts that each names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Terms:
    """Distinct terms and the concepts that each names.

    Attributes:
        strings: (n,) as written, distinct after cleaning.
        concepts: names of the m concepts.
        rows: (p,) int64 term of each (term, concept) pair, ascending.
        columns: (p,) int64 concept of each pair.
        dropped: names left out because nothing of them is left after cleaning.
    """

    strings: list[str]
    concepts: list[str]
    rows: Int
    columns: Int
    dropped: int = 0

    def __len__(self) -> int:
        """Return n."""
        return len(self.strings)

    @property
    def first_concept(self) -> Int:
        """The concept of each term, (n,); of a term of several the one that stands first."""
        return self.columns[np.searchsorted(self.rows, np.arange(len(self)))]

    @property
    def shared(self) -> int:
        """How many terms name several concepts."""
        return int((np.bincount(self.rows, minlength=len(self)) > 1).sum())


def terms_of(ids: Sequence[str], names: Sequence[str], *, keep: Collection[str] | None = None) -> Terms:
    """Return the distinct terms of (id, name) rows; names that clean to the same string are one term.

    Args:
        ids: concept of each name.
        names: as written.
        keep: concepts to take; all by default.
    """
    strings: dict[str, tuple[int, str]] = {}
    concepts: dict[str, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    dropped = 0
    for one, name, cleaned in zip(ids, names, clean_many(names), strict=True):
        if keep is not None and one not in keep:
            continue
        if not cleaned:
            dropped += 1
            continue
        row = strings.setdefault(cleaned, (len(strings), name))[0]
        pairs[row, concepts.setdefault(one, len(concepts))] = None
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Terms([name for _, name in strings.values()], list(concepts), table[:, 0], table[:, 1], dropped)


def names_of(terminology: Terminology, languages: Collection[str] | None = None) -> tuple[list[str], list[str]]:
    """Return the ids and names of the terms that train: exact, live, not machine-translated."""
    rows, _ = terminology.training_terms(languages=languages)
    concepts = terminology.term_concept[rows]
    ids = {int(row): terminology.concept_id(row) for row in np.unique(concepts)}
    return [ids[int(row)] for row in concepts], terminology.terms.column("string").take(rows).to_pylist()
