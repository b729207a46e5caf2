"""The semantic types of concepts, as the rows of a batch need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.errors import InputError

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology


class SemanticTypes:
    """Which concept has which types.

    Attributes:
        names: the types, sorted; their places are their labels.
    """

    def __init__(self, terminology: Terminology) -> None:
        """Read them.

        Raises:
            InputError: the terminology has none.
        """
        table = terminology.side_table("semantic_types")
        if len(table) == 0:
            raise InputError(
                "no concept has a semantic type, which semantic_type_weight needs",
                file=terminology.path,
                remedy="leave semantic_type_weight at 0, or import an ontology with --set semantic_type=ROOT, by which "
                "the branches below ROOT become types",
            )
        column = table.column("semantic_type").cast(pa.large_string()).combine_chunks().dictionary_encode()
        found: list[str] = column.dictionary.to_pylist()
        self.names = sorted(found)
        number = {name: place for place, name in enumerate(self.names)}
        labels = np.array([number[name] for name in found], np.int32)[column.indices.to_numpy()]
        # Sorted by concept, as all side tables are.
        concepts = table.column("concept").to_numpy()
        self._labels = labels
        self._offsets = np.searchsorted(concepts, np.arange(terminology.n_concepts + 1))

    def matrix(self, concepts: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return (n, T): whether each of n concepts has each type."""
        found = np.zeros((len(concepts), len(self.names)), bool)
        for row, concept in enumerate(concepts.tolist()):
            found[row, self._labels[self._offsets[concept] : self._offsets[concept + 1]]] = True
        return found
