"""What to ask next: risk x frequency x diversity.

    worth(i) = frequency_i * (1 - confidence_i) * DECAY^(number of i's cluster already asked)

The row of the greatest worth is asked next (equal ones by their place). Mentions are of one cluster if the cosine of
their letters with the cluster's riskiest mention is at least SIMILAR. Within a cluster the riskiest comes first and
worth only falls, so that one sort gives the greedy order.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.text import clean_many

if TYPE_CHECKING:
    from alphita.review.store import ReviewStore

DECAY = 0.5
SIMILAR = 0.7
# Confidence that is taken where there is none, as in `ReviewRow.risk`.
UNKNOWN = 0.5
# Letters: runs of three, hashed into so many counts.
RUN = 3
COUNTS = 1024
# Rows compared with all leaders in one product, and the most that are compared at all: the riskiest.
AT_ONCE = 1_000
MAX_COMPARED = 30_000

Vectors = NDArray[np.float32]


def rank(
    mentions: Sequence[str],
    frequency: Sequence[int] | NDArray[Any],
    confidence: Sequence[float | None],
    *,
    decided: Sequence[bool] | NDArray[np.bool_] | None = None,
    decay: float = DECAY,
    similar: float = SIMILAR,
) -> NDArray[np.int64]:
    """Return the place of each row in the order of asking, (n,) int64, from 0; the decided ones come last."""
    known = np.array([UNKNOWN if one is None else one for one in confidence], np.float64)
    risk = np.asarray(frequency, np.float64) * (1.0 - known)
    done = np.zeros(len(risk), bool) if decided is None else np.asarray(decided, bool)
    compared = riskiest(risk)
    rows = letters([mentions[row] for row in compared.tolist()])
    # Beyond those compared, each is a cluster of its own.
    cluster = np.arange(len(risk))
    cluster[compared] = compared[clusters(rows, risk[compared], similar=similar)]
    places = np.empty(len(risk), np.int64)
    places[order(risk, cluster, done, decay=decay)] = np.arange(len(risk))
    return places


def update(store: ReviewStore, project: str) -> int:
    """Set the order "learning" of a project anew; return how many rows have a place in it."""
    rows = store.queued_rows(project)
    places = rank(
        [row.mention for row in rows],
        [row.frequency for row in rows],
        [row.confidence for row in rows],
        decided=[row.settled for row in rows],
    )
    store.set_learning(
        project, {row.id: float(len(rows) - place) for row, place in zip(rows, places.tolist(), strict=True)}
    )
    return len(rows)


def order(
    risk: NDArray[np.float64], cluster: NDArray[np.int64], decided: NDArray[np.bool_], *, decay: float = DECAY
) -> NDArray[np.int64]:
    """Return the rows, (n,) int64, as they are asked, from their risk, cluster and state (decided ones last)."""
    rows = np.flatnonzero(~decided)
    rows = rows[np.lexsort((rows, -risk[rows], cluster[rows]))]
    before = np.bincount(cluster[decided], minlength=int(cluster.max(initial=-1)) + 1)
    # How many of its cluster are asked before each row: those decided, and those above it here.
    first = np.searchsorted(cluster[rows], cluster[rows], side="left")
    asked = before[cluster[rows]] + np.arange(len(rows)) - first
    worth = risk[rows] * np.power(decay, asked)
    return np.concatenate([rows[np.lexsort((rows, -worth))], np.flatnonzero(decided)]).astype(np.int64)


def riskiest(risk: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rows that are compared, (min(n, MAX_COMPARED),) int64, by their place."""
    return np.sort(np.lexsort((np.arange(len(risk)), -risk))[:MAX_COMPARED]).astype(np.int64)


def clusters(vectors: Vectors, risk: NDArray[np.float64], *, similar: float = SIMILAR) -> NDArray[np.int64]:
    """Return the leader of each row's cluster, (n,) int64, from vectors (n, d) and risk (n,)."""
    n = len(risk)
    by_risk = np.lexsort((np.arange(n), -risk))
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = (vectors / np.where(length > 0, length, 1)).astype(np.float32)
    found = np.arange(n)
    leaders = np.empty(0, np.int64)
    for start in range(0, min(n, MAX_COMPARED), AT_ONCE):
        rows = by_risk[start : min(start + AT_ONCE, MAX_COMPARED)]
        best, leader = _nearest(unit[rows], unit[leaders])
        among = unit[rows] @ unit[rows].T
        led: list[int] = []  # places in `rows` of the leaders that this block adds
        for place in range(len(rows)):
            cosine, owner = best[place], leader[place]
            if led:
                nearest = int(np.argmax(among[place, led]))
                if among[place, led[nearest]] > cosine:
                    cosine, owner = among[place, led[nearest]], len(leaders) + nearest
            if cosine >= similar and length[rows[place]] > 0:
                found[rows[place]] = leaders[owner] if owner < len(leaders) else rows[led[owner - len(leaders)]]
            else:
                led.append(place)
        leaders = np.concatenate([leaders, rows[led]])
    return found.astype(np.int64)


def _nearest(rows: Vectors, leaders: Vectors) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return each row's best cosine with a leader and which one that is; -inf where there is no leader."""
    if not len(leaders):
        return np.full(len(rows), -np.inf, np.float32), np.zeros(len(rows), np.int64)
    cosines = rows @ leaders.T
    nearest = cosines.argmax(axis=1)
    return cosines[np.arange(len(rows)), nearest], nearest.astype(np.int64)


def letters(mentions: Sequence[str]) -> Vectors:
    """Return counts of runs of three letters of each cleaned mention, hashed: (n, COUNTS) float32."""
    counts = np.zeros((len(mentions), COUNTS), np.float32)
    for row, mention in enumerate(clean_many(mentions)):
        padded = f" {mention} ".encode()
        for start in range(len(padded) - RUN + 1):
            counts[row, zlib.crc32(padded[start : start + RUN]) % COUNTS] += 1
    return counts
