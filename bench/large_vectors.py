"""Made-up vectors that lie as the vectors of real terms do, any number of them, block by block.

Terms of one concept lie together, concepts in groups of like ones, groups in areas; all lie on one side of the space
(their mean is not zero), most of their variance lies in some dozens of directions. The constants below were fitted to
the 41,711 strings of the Human Phenotype Ontology, encoded by all-MiniLM-L6-v2, and to 1,000 misspelt ones of them:

                                                       median (5% .. 95%), HPO     made, as many
    cosine of a string and the nearest other one         0.90 (0.66 .. 0.99)    0.89 (0.67 .. 1.00)
    and the 10th                                         0.69 (0.49 .. 0.90)    0.75 (0.57 .. 0.83)
    and the 100th                                        0.51 (0.35 .. 0.77)    0.55 (0.44 .. 0.64)
    and the 1,000th                                      0.36 (0.25 .. 0.60)    0.39 (0.32 .. 0.44)
    cosine of two strings drawn by chance                0.13 (-0.02 .. 0.34)   0.17 (0.00 .. 0.34)
    cosine of a misspelt string and the nearest          0.83 (0.52 .. 1.00)    0.80 (0.42 .. 0.99)
    share of these whose nearest an inverted file of 512 lists finds
        looking through 4 of them                        0.86                   0.88
        16                                               0.93                   0.96
        64                                               0.98                   0.98
        256                                              1.00                   1.00

A vector follows from the seed and its row alone, whatever the block it is made in. Rows are in no order: like vectors
do not stand together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

DIM = 384
# Length of the mean of all vectors.
MEAN = 0.377
# Terms of the 23 concepts of a group, and groups of an area.
TERMS = np.repeat([1, 2, 3, 4, 8, 12], [8, 6, 4, 3, 1, 1])
GROUP = int(TERMS.sum())
GROUPS_AN_AREA = 16
CONCEPT_OF = np.repeat(np.arange(len(TERMS)), TERMS)
# Shares of the variance.
AREA, IN_AREA, IN_GROUP, IN_CONCEPT = 0.28, 0.22, 0.2, 0.3
# How much of the last a term takes, at least and at most: some synonyms are spelt alike, some have no letter in common.
SPREAD = (0.05, 1.9)
# Each normal vector is the sum of so many out of a pool.
POOL, PICKS = 8192, 4
# Length of what is added to a vector to make a query of it: its median and the standard deviation of its logarithm.
NOISE, NOISE_SPREAD, MOST_NOISE = 0.8, 1.0, 3.0

Float32 = NDArray[np.float32]


class LikeTerms:
    """n vectors of 384 numbers and length 1."""

    def __init__(self, n: int, seed: int = 0) -> None:
        """Draw the pool."""
        random = np.random.default_rng(seed)
        self.n, self.seed = n, seed
        direction = np.arange(DIM)
        variance = (1 + direction) ** -0.5 * np.exp(-direction / 120)
        turn = np.linalg.qr(random.standard_normal((DIM, DIM)))[0]
        pool = random.standard_normal((POOL, DIM)) * np.sqrt(variance / variance.sum()) @ turn
        self._pool = pool.astype(np.float32)
        mean = random.standard_normal(DIM)
        self._mean = (MEAN * mean / np.linalg.norm(mean)).astype(np.float32)
        # Rows are mixed by counting on in steps that have no divisor in common with n.
        self._step = next(step for step in range(int(n * 0.618) + 1, 2 * n + 2) if math.gcd(step, n) == 1)

    def block(self, start: int, stop: int) -> Float32:
        """Return the vectors of rows [start, stop)."""
        return self.rows(np.arange(start, min(stop, self.n)))

    def rows(self, rows: NDArray[np.int64]) -> Float32:
        """Return the vectors of some rows."""
        place = rows * self._step % self.n
        group, within = np.divmod(place, GROUP)
        least, most = SPREAD
        spread = least + (most - least) * (_mixed(place, 9 + 16 * self.seed) % 1024 / 1024) ** 2
        made = self._normal(group // GROUPS_AN_AREA, 1, math.sqrt(AREA))
        made += self._normal(group, 2, math.sqrt(IN_AREA))
        made += self._normal(group * len(TERMS) + CONCEPT_OF[within], 3, math.sqrt(IN_GROUP))
        made += self._normal(place, 4, math.sqrt(IN_CONCEPT)) * spread[:, None].astype(np.float32)
        return _unit(self._mean + np.float32(math.sqrt(1 - MEAN**2)) * made)

    def queries(self, count: int, seed: int) -> tuple[NDArray[np.int64], Float32]:
        """Return `count` rows drawn by a seed, and noisy copies of their vectors."""
        random = np.random.default_rng([self.seed, seed])
        rows = random.integers(0, self.n, count)
        length = np.minimum(NOISE * np.exp(NOISE_SPREAD * random.standard_normal(count)), MOST_NOISE)
        noise = _unit(self._pool[random.integers(0, POOL, (count, PICKS))].sum(axis=1))
        return rows, _unit(self.rows(rows) + length[:, None].astype(np.float32) * noise)

    def _normal(self, keys: NDArray[np.int64], level: int, scale: float) -> Float32:
        """Return a vector for each key, always the same for the same key, of about the length `scale`."""
        distinct, place = np.unique(keys, return_inverse=True)
        made = np.zeros((len(distinct), DIM), np.float32)
        for pick in range(PICKS):
            made += self._pool[_mixed(distinct, 16 * self.seed + level + 1000 * (pick + 1)) % POOL]
        made *= np.float32(scale / math.sqrt(PICKS))
        return made[place]


def _mixed(keys: NDArray[np.int64], salt: int) -> NDArray[np.int64]:
    """Return a number below 2^31 for each key, as good as random (splitmix64)."""
    with np.errstate(over="ignore"):
        x = keys.astype(np.uint64) + np.uint64(salt) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(33)).astype(np.int64)


def _unit(vectors: Float32) -> Float32:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
