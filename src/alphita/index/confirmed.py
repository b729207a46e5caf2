"""A trial of confirmed phrases: each is looked up by its vector as if it were unknown, with and without the others.

Where each concept has one phrase, such as in a list of codes, the others are those of other concepts: "Glucose, Blood"
would lead "Urea, Blood" astray.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphita.index.choice import ConfirmedName
from alphita.index.encoding import Encoder
from alphita.index.neighbours import blocks, unit
from alphita.index.store import Index
from alphita.terminology.text import clean_many

QUESTIONS, QUESTIONS_AT_ONCE = 3_000, 256


def trial(confirmed: Sequence[ConfirmedName], plain: Index, encoder: Encoder) -> tuple[int, int]:
    """Return how many phrases only the others lead to the right concept, and how many only the names of an index."""
    rows = plain.concept_rows([name.concept_id for name in confirmed])
    known, wanted = np.flatnonzero(rows >= 0), rows[rows >= 0]
    if not len(known):
        return 0, 0
    cleaned = clean_many([confirmed[place].name for place in known.tolist()], plain.rules)
    vectors = unit(encoder.encode(cleaned))
    asked = np.sort(np.random.default_rng(0).permutation(len(wanted))[:QUESTIONS])
    similarity, strings = plain.search(vectors[asked], 1)
    term_concept, offsets = plain.segment.term_concept, plain.segment.offsets
    before = np.array(
        [
            wanted[row] in term_concept[offsets[string] : offsets[string + 1]]
            for row, string in zip(asked, strings[:, 0], strict=True)
        ]
    )
    nearest, closeness = np.empty(len(asked), np.int64), np.empty(len(asked), np.float32)
    for start, block in blocks(vectors, QUESTIONS_AT_ONCE, asked):
        rows_of_block = slice(start, start + len(block))
        among = block @ vectors.T
        among[np.arange(len(block)), asked[rows_of_block]] = -1.0
        nearest[rows_of_block], closeness[rows_of_block] = among.argmax(1), among.max(1)
    after = np.where(closeness > similarity[:, 0], wanted[nearest] == wanted[asked], before)
    return int((after & ~before).sum()), int((before & ~after).sum())
