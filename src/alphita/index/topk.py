"""The greatest of many values, and where they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Values of which only the greatest is looked at first, and all only where that is great enough.
GROUP = 32
# For `powers`: any value comes to above 1 by it.
EVERY_VALUE = np.float32(2.0**-40)


class Reached(NamedTuple):
    """Values that are great enough.

    Attributes:
        line: (p,) int64, ascending.
        column: (p,) int64.
        value: (p,) as they are given; bf16 as float32.
        bound: (q,) what k values of each line reach, at least.
    """

    line: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[Any]
    bound: NDArray[Any]


def reaching(
    values: Any,  # noqa: ANN401 - an array, or a torch tensor
    k: int,
    limit: Callable[[NDArray[Any]], NDArray[Any]] = lambda bound: bound,
    *,
    group: int = GROUP,
    most: int | None = None,
) -> Reached:
    """Return the k greatest values of each line, what equals the last, and few more; or all from a limit on.

    Args:
        values: (q, n), an array or a torch tensor of any kind.
    """
    q, n = values.shape
    group = group if n % group == 0 and n // group >= k else 1
    width = n // group
    given = values
    if not isinstance(values, np.ndarray):
        import torch

        # NumPy lacks bf16. The bits of numbers above 0, read as whole numbers, have their order.
        values = (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()
    grouped = values.reshape(q, group, width)
    # Of k groups the greatest are at least this, so the k-th of all is.
    greatest = _numbers(grouped.max(axis=1))
    bound = np.partition(greatest, width - k, axis=1)[:, width - k]
    least = limit(bound)
    if values.dtype == np.int16 and not least.min(initial=1) > 0:
        return reaching(given.float().numpy(), k, limit, group=group, most=most)
    near = greatest >= least[:, None]
    if most is not None:
        near[near.sum(axis=1) > most] = False
    line, place = np.divmod(np.flatnonzero(near), width)
    members = _numbers(grouped[line, :, place])
    some, member = np.divmod(np.flatnonzero(members >= least[line, None]), group)
    return Reached(line[some], member * width + place[some], members[some, member], bound)


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return values, or those whose bits in bf16 are given as int16."""
    return values if values.dtype != np.int16 else (values.astype(np.int32) << 16).view(np.float32)


def powers(found: csr_matrix, depth: int) -> NDArray[np.float32]:
    """Return for each row a power of two that brings the last of its `depth` values to between 1 and 2."""
    last = np.full(found.shape[0], EVERY_VALUE, np.float32)
    full = np.flatnonzero(np.diff(found.indptr) == depth)
    last[full] = found.data[found.indptr[full][:, None] + np.arange(depth)].min(axis=1)
    powers: NDArray[np.float32] = np.ldexp(np.float32(1), 1 - np.frexp(last)[1])
    return powers


def greatest(
    query: NDArray[np.int64], string: NDArray[Any], value: NDArray[np.float32], n: int, k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the k greatest values of each of n queries, and their strings; equals by row."""
    similarity, rows = np.zeros((n, k), np.float32), np.full((n, k), -1, np.int64)
    order = np.lexsort((string, -value, query))
    query = query[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    order, query, place = order[place < k], query[place < k], place[place < k]
    similarity[query, place], rows[query, place] = value[order], string[order]
    return similarity, rows
