"""Makes a large input for `alphita normalize --engine`: rows of strings as hospitals write them, as Parquet parts.

    python bench/cluster_data.py --terminology X.terminology -o OUT --rows 10000000 --distinct 1000000

Up to a fifth of the distinct strings are terms of the terminology as they stand, the others are terms with slips,
swapped and cut words and what notes put around them (`alphita.normalizer.noise`). Each occurs at least once, and how
often follows Zipf's law:
the k-th most frequent has a share in proportion to k^-exponent of the rows. Equal strings have equal codes, as in a
laboratory's own list. Rows come in an order that looks random and needs no memory: a part is made alone, from the seed
and its row numbers, so memory grows with the distinct strings only. OUT holds part-00000.parquet ... with the columns
`code` and `mention`; what was made is printed as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from alphita.errors import AlphitaError, UsageError
from alphita.normalizer.noise import noisy
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean

ROW_GROUP = 50_000
# Most of the distinct strings that are terms as they stand.
PLAIN = 0.2
# Rounds over the terms without a single new string, after which noise makes no more.
MOST_EMPTY_ROUNDS = 3
# Rounds of the Feistel network; four make its order pass for random.
ROUNDS = 4


def distinct_strings(terms: list[str], count: int, seed: int) -> list[str]:
    """Return `count` distinct strings: terms first, then noisy ones, term by term.

    Raises:
        UsageError: the terms give fewer.
    """
    chance = random.Random(seed)
    terms = sorted(set(terms))
    chance.shuffle(terms)
    made = dict.fromkeys(terms[: math.ceil(PLAIN * count)])
    cleaned = [text for term in terms if (text := clean(term))]
    empty = 0
    while len(made) < count:
        before = len(made)
        for text in cleaned:
            made.setdefault(noisy(text, chance))
            if len(made) == count:
                break
        empty = empty + 1 if len(made) == before else 0
        if empty == MOST_EMPTY_ROUNDS:
            raise UsageError(f"--distinct {count}: noise makes no more than {len(made)} of {len(terms)} terms")
    return list(made)


def counts(rows: int, distinct: int, exponent: float) -> NDArray[np.int64]:
    """Return how often the k-th most frequent string occurs: (distinct,), each at least 1, together `rows`.

    Once for each, and the others in proportion to k^-exponent, rounded so that none is lost (largest remainder).
    """
    shares = np.arange(1, distinct + 1, dtype=np.float64) ** -exponent
    exact = (rows - distinct) * shares / shares.sum()
    whole = np.floor(exact).astype(np.int64)
    left = rows - distinct - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole + 1


def shuffled(numbers: NDArray[np.uint64], size: int, seed: int) -> NDArray[np.uint64]:
    """Return where the rows `numbers`, (n,), go in an order of 0 ... size - 1 that looks random; no two to one place.

    A Feistel network permutes the numbers of an even count of bits, whatever its rounds mix; what it sends outside goes
    through it again ("cycle walking"; Black and Rogaway, 2002).
    """
    half = np.uint64(max(1, (int(size - 1).bit_length() + 1) // 2))
    mask = (np.uint64(1) << half) - np.uint64(1)
    keys = np.random.default_rng([seed, size]).integers(1, 2**63, ROUNDS, dtype=np.uint64)
    places = numbers.copy()
    outside = np.ones(len(places), bool)
    while outside.any():
        left, right = places[outside] >> half, places[outside] & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right, key) & mask)
        places[outside] = (left << half) | right
        outside = places >= size
    return places


def _mixed(values: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    # The finishing of splitmix64: every bit of the value reaches every bit of the result.
    mixed = values + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def write(strings: list[str], folder: Path, *, rows: int, parts: int, exponent: float, seed: int) -> dict[str, object]:
    """Write the parts, and return what they hold.

    Raises:
        FileExistsError: the folder is there.
    """
    folder.mkdir(parents=True)
    often = counts(rows, len(strings), exponent)
    ends = np.cumsum(often)
    # Which string is how frequent has nothing to do with the order in which they were made.
    rank_to_string = np.random.default_rng(seed).permutation(len(strings))
    mentions = pa.array(strings, pa.large_string())
    width = len(str(len(strings)))
    codes = pa.array([f"L{number:0{width}d}" for number in range(1, len(strings) + 1)], pa.large_string())
    bounds = [part * rows // parts for part in range(parts + 1)]
    schema = pa.schema([("code", pa.string()), ("mention", pa.string())])
    for part, (start, stop) in enumerate(itertools.pairwise(bounds)):
        with pq.ParquetWriter(folder / f"part-{part:05d}.parquet", schema) as writer:
            for first in range(start, stop, ROW_GROUP):
                numbers = np.arange(first, min(first + ROW_GROUP, stop), dtype=np.uint64)
                ranks = np.searchsorted(ends, shuffled(numbers, rows, seed).astype(np.int64), side="right")
                taken = pa.array(rank_to_string[ranks])
                writer.write_table(
                    pa.table({"code": codes.take(taken), "mention": mentions.take(taken)}).cast(schema),
                    row_group_size=ROW_GROUP,
                )
    return {
        "rows": rows, "distinct": len(strings), "parts": parts, "exponent": exponent, "seed": seed,
        "most frequent": int(often[0]), "once": int((often == 1).sum()),
    }  # fmt: skip


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line.

    Raises:
        UsageError: they make no sense together.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-t", "--terminology", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True, help="a new folder")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--distinct", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=40, help="Parquet files")
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(given)
    if not 1 <= options.distinct <= options.rows:
        raise UsageError(f"--distinct {options.distinct} must be from 1 to the number of --rows, {options.rows}")
    if not 1 <= options.parts <= options.rows:
        raise UsageError(f"--parts {options.parts} must be from 1 to the number of --rows, {options.rows}")
    if options.exponent < 0:
        raise UsageError(f"--exponent {options.exponent:g} must not be negative")
    if options.output.exists():
        raise UsageError(f"-o {options.output}: it is there already; remove it, or name another")
    return options


def main(given: list[str] | None = None) -> int:
    """Make the data."""
    try:
        options = arguments(given)
        terminology = load_terminology(options.terminology)
        terms = list(dict.fromkeys(terminology.terms.column("string").to_pylist()))
        strings = distinct_strings(terms, options.distinct, options.seed)
        made = write(
            strings, options.output,
            rows=options.rows, parts=options.parts, exponent=options.exponent, seed=options.seed,
        )  # fmt: skip
    except AlphitaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(made | {"terms": len(terms), "terminology": terminology.content_hash}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
