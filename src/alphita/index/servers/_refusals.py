"""What every server index refuses, in the same words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.servers import FORMAT


def check_queries(name: str, vectors: NDArray[np.float32], k: int, dim: int) -> None:
    """Make sure that the index `name` can be asked for the k nearest of `vectors`, (q, dim).

    Raises:
        UsageError: k is negative, or `vectors` has another shape.
    """
    if k < 0:
        raise UsageError(f"k must be 0 or more, not {k}")
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        raise UsageError(
            f"queries of shape {vectors.shape} cannot be searched: the server index {name!r} holds vectors of {dim} "
            "numbers"
        )


def check_format(name: str, facts: Mapping[str, Any]) -> None:
    """Make sure that this version can read the index `name`, of which `facts` are recorded.

    Raises:
        InputError: it cannot.
    """
    if facts.get("format") != FORMAT:
        raise InputError(
            f"the server index {name!r} has format {facts.get('format')}; this alphita reads {FORMAT}",
            remedy="load it again: alphita server load --force",
        )


def missing(name: str, where: str) -> str:
    """Return the text for an index that is not there."""
    return (
        f"there is no index {name!r} at {where}; load it: alphita server load, or see what is there: "
        "alphita server list"
    )


def restless(name: str, where: str) -> AlphitaError:
    """Return the error for an index whose release changed each time that it was looked at."""
    return AlphitaError(f"the index {name!r} at {where} changes without end; try again")
