"""A server index behind the protocol of the embedded ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.errors import AlphitaError
from alphita.index.servers import ServerIndex
from alphita.index.strings import SortedStrings


class ServerBackend:
    """Searches a server, and answers with the rows of an embedded index of the same strings; see `Backend`."""

    def __init__(self, server: ServerIndex, strings: SortedStrings) -> None:
        """Search `server`, which was loaded with `strings`."""
        self.server, self.strings = server, strings

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return similarities (q, k) and rows (q, k); see `Backend`.

        Raises:
            AlphitaError: the server holds other strings.
        """
        similarity = np.empty((len(queries), k), np.float32)
        rows = np.empty((len(queries), k), np.int64)
        for line, hits in enumerate(self.server.search(queries, k)):
            found = {hit.string: hit.similarity for hit in hits}
            places = self.strings.rows(list(found))
            if len(found) != k or (places < 0).any():
                raise AlphitaError("the server holds other strings than this index; update it: alphita server update")
            similarity[line], rows[line] = list(found.values()), places
        return similarity, rows
