"""A trial of phrases that people confirmed: each is asked as if it were unknown, with and without the others as names.

In a list in which each concept has one code, all phrases are alike ("Glucose, Blood", "Urea, Blood"), and as names they
would lead most others astray.
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
    segment = plain.segment
    won = lost = 0
    for start, block in blocks(vectors, QUESTIONS_AT_ONCE, asked):
        of = asked[start : start + len(block)]
        among = block @ vectors.T
        among[np.arange(len(block)), of] = -1.0
        nearest = among.argmax(1)
        for place, row in enumerate(of.tolist()):
            string = int(strings[start + place, 0])
            named = segment.term_concept[segment.offsets[string] : segment.offsets[string + 1]]
            before = bool((named == wanted[row]).any())
            closer = among[place, nearest[place]] > similarity[start + place, 0]
            after = bool(wanted[nearest[place]] == wanted[row]) if closer else before
            won += after and not before
            lost += before and not after
    return won, lost
