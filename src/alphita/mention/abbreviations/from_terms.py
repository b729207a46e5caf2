"""What the terms of an index teach of abbreviations.

A term of type `abbreviation` that differs from another exact term of its concept in one part only teaches that part:
"Abnormal RBC count" and "Abnormal red blood cell count". Else a short one ("MI") stands for its concept: by the first
exact term that its letters are found in ("Myocardial infarction"), or by the preferred name.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.mention.abbreviations.schwartz_hearst import is_short_form, stands_for
from alphita.mention.abbreviations.short_forms import Meaning
from alphita.terminology.text import clean

if TYPE_CHECKING:
    from alphita.index.store import Index

ABBREVIATION = "abbreviation"
# A short form that is known of more of a concept's names is told no better by its context.
MAX_NAMES = 12


class Taught(NamedTuple):
    """What the terms of some concepts teach.

    Attributes:
        whole: short forms that stand for their concept.
    """

    whole: list[Meaning]
    parts: Counter[Meaning]

    def meanings(self) -> list[Meaning]:
        """Return all, each once, those for a concept first, then what more terms teach before what fewer do."""
        return [*self.whole, *(part for part, _ in self.parts.most_common())]


class TeachingTerms:
    """The terms of an index that may teach an abbreviation: exact ones, of concepts that have one."""

    def __init__(self, index: Index) -> None:
        self.index = index
        terms, concept = index.segment.terms, index.segment.term_concept
        order, self._short = np.zeros(0, np.int64), np.zeros(0, bool)
        if "type" in terms.column_names:
            exact = _equal(terms, "scope", "exact") & ~index.segment.borrowed
            if "retired_concept" in terms.column_names:
                exact &= pc.is_null(terms.column("retired_concept")).to_numpy()
            short = exact & _equal(terms, "type", ABBREVIATION)
            order = np.flatnonzero(exact & np.isin(concept, np.unique(concept[short])))
            order = order[np.lexsort((order, index.segment.standing[order], concept[order]))]
            self._short = short[order]
        # Of the terms, concept by concept.
        self.term, self.concept = order, concept[order]
        self._strings = terms.column("string").take(order).to_pylist()
        languages = terms.column("language").take(order).to_pylist() if "language" in terms.column_names else None
        self._languages = languages or [None] * len(order)

    @functools.cached_property
    def taught(self) -> Taught:
        """What they teach."""
        taught = Taught([], Counter())
        ends = np.flatnonzero(np.diff(self.concept, append=-1)) + 1
        for start, end in itertools.pairwise([0, *ends.tolist()]):
            self._teach(range(start, end), taught)
        return taught

    def without(self, concept: int, hidden: Collection[int]) -> tuple[list[Meaning], list[Meaning]]:
        """Return what is taught no more if some terms of a concept are taken as not there, and what is then instead."""
        rows = range(*np.searchsorted(self.concept, [concept, concept + 1]).tolist())
        left = [row for row in rows if int(self.term[row]) not in hidden]
        before, after = Taught([], Counter()), Taught([], Counter())
        if len(left) < len(rows):
            self._teach(rows, before)
            self._teach(left, after)
        changes = {part: after.parts[part] - times for part, times in before.parts.items()}
        lost = [one for one in before.whole if one not in after.whole]
        lost += [part for part, change in changes.items() if self.taught.parts[part] + change <= 0]
        return lost, [one for one in after.whole if one not in before.whole]

    def _teach(self, rows: Sequence[int], taught: Taught) -> None:
        """Add what some terms of one concept teach."""
        shorts = [row for row in rows if self._short[row]]
        longs = list(dict.fromkeys(self._strings[row] for row in rows if not self._short[row]))
        for row in shorts:
            parts = dict.fromkeys(part for long in longs if (part := _part(self._strings[row], long)) is not None)
            taught.parts.update(list(parts))
            # Of a longer term only the part is worth knowing: the whole is found as the term that it is.
            if not parts and is_short_form(self._strings[row]):
                preferred = self.index.segment.concepts.column("name")[int(self.concept[row])].as_py()
                meaning = _of_concept(self._strings[row], longs, preferred, self._languages[row])
                taught.whole.extend([meaning] if meaning is not None else [])


def _equal(terms: pa.Table, name: str, value: str) -> NDArray[np.bool_]:
    return np.array(pc.fill_null(pc.equal(terms.column(name), value), False).to_numpy(), bool)


def _of_concept(short: str, longs: Sequence[str], preferred: str, language: str | None) -> Meaning | None:
    long = next((long for long in longs if len(long) > len(short) and stands_for(short, long)), preferred)
    if clean(long) == clean(short):
        return None
    others = tuple(name for name in longs if name != long)[:MAX_NAMES]
    return Meaning(short, long, others, language)


def _part(short: str, long: str) -> Meaning | None:
    """Return the one part in which two terms differ, if it is an abbreviation there."""
    left, right = short.split(), long.split()
    most = min(len(left), len(right))
    head = 0
    while head < most and left[head].lower() == right[head].lower():
        head += 1
    tail = 0
    while tail < most - head and left[-1 - tail].lower() == right[-1 - tail].lower():
        tail += 1
    if head + tail == 0 or len(left) - head - tail != 1 or len(right) - head - tail < 1:
        return None
    part, whole = left[head], " ".join(right[head : len(right) - tail])
    capitals = sum(sign.isupper() or sign.isdigit() for sign in part)
    # "Low" begins a term; "Hb" inside one is no ordinary word.
    is_short = is_short_form(part) and (capitals > 1 or (capitals == 1 and len(part) <= 3 and head > 0))
    return Meaning(part, whole) if is_short and len(whole) > len(part) and stands_for(part, whole) else None
