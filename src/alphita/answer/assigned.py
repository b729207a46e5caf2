"""Which concept answers where another one is named: the unspecified code for its heading, and that of a side.

A classification assigns no heading if there is a code for "no more is known" below it: not "pneumonia, unspecified
organism" (J18), but J18.9; and never a range of codes. Where a mention says a side and the terminology has a concept of
that side beside the one without, "fracture of left neck of femur", this one is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.index.lookup import MAX_ENCODED_CHARACTERS
from alphita.index.segment import Segment
from alphita.mention import axes
from alphita.terminology.rules import sets
from alphita.terminology.text import clean_many, plain_words

if TYPE_CHECKING:
    from alphita.mention.reader import Mention

# A range of codes: "E08-E13", "001-009.99"; but LOINC's "2951-2" and NDC's "0002-0800" are codes.
_RANGE = r":([A-Z]\d\w{1,2}|\d{2,3})(\.\w+)?-([A-Z]\d\w{1,2}|\d{2,3})(\.\w+)?$"
# What a heading has behind its name: "Zoster [herpes zoster]".
_HEADING_EXTRA = re.compile(r", not elsewhere classified$| \[[^\[\]]+\]$")
# The sides that a mention may say.
SIDES = (sets.LEFT, sets.RIGHT, sets.BOTH)
# A heading may lead to a heading.
LEVELS = 5
_NOT_SPECIFIED = re.compile(r"unspecified|not specified|\bnos\b")
_OPEN = rf"{_NOT_SPECIFIED.pattern}|unspec|not otherwise|without"


def assigned_concepts(segment: Segment) -> NDArray[np.int64] | None:
    """Return the concept that is the answer where each is named (-1: none), by the side that is said.

    Returns:
        (4, n_concepts) int64: without a side, and for each of `SIDES`; None where every concept is its own.
    """
    names = clean_many(segment.concepts.column("name").to_pylist())
    prefixes = [one.partition(":")[0] for one in segment.concepts.column("id").to_pylist()]
    found = _unspecified_codes(segment, names)
    assigned = np.stack([found, *(np.where(found < 0, -1, of_side[found]) for of_side in _sided(prefixes, names))])
    return None if (assigned == np.arange(len(names))).all() else assigned


def assigned_as_arrays(segment: Segment) -> dict[str, NDArray[np.int64]]:
    """Return `assigned_concepts` under its name, nothing where every concept is its own."""
    found = assigned_concepts(segment)
    return {} if found is None else {"assigned": found}


def _unspecified_codes(segment: Segment, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the unspecified code of each heading, -1 for ranges of codes, and every other concept itself."""
    found = np.arange(len(names))
    is_class = axes.classified(segment.concepts.column("id"), segment.concepts.column("name"))
    if segment.parents is None or segment.parent_offsets is None or not is_class.any():
        return found
    below: dict[int, list[int]] = {}
    children, parents = np.repeat(found, np.diff(segment.parent_offsets)), np.asarray(segment.parents)
    array = pa.array(names, pa.large_string())
    is_open = pc.match_substring_regex(array, _OPEN).to_numpy(zero_copy_only=False)[children]
    is_open |= pc.equal(array.take(pa.array(children)), array.take(pa.array(parents))).to_numpy(zero_copy_only=False)
    is_open &= is_class[children] & is_class[parents]
    for child, parent in zip(children[is_open].tolist(), parents[is_open].tolist(), strict=True):
        below.setdefault(parent, []).append(child)
    for parent, some in below.items():
        found[parent] = _unspecified(parent, some, names)
    for _ in range(LEVELS):
        found = found[found]
    found[pc.match_substring_regex(segment.concepts.column("id"), _RANGE).to_numpy(zero_copy_only=False)] = -1
    return found


def _sided(prefixes: Sequence[str], names: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return, for each of `SIDES`, the concept of that side for each concept whose name says none, else itself.

    Both are of one vocabulary: OMOP has ICD-10-CM beside SNOMED CT.
    """
    is_sided = pc.match_substring_regex(pa.array(names, pa.large_string()), sets.SIDE_PATTERN)
    by_whole: dict[tuple[str, str], dict[int, int]] = {}
    for concept in np.flatnonzero(is_sided.to_numpy(zero_copy_only=False)).tolist():
        side, one_side = sets.side(names[concept]), sets.sided(names[concept])
        both = " ".join(word for word in names[concept].split() if not sets.side(word)) if side == sets.BOTH else ""
        if whole := both if one_side is None else one_side.whole:
            by_whole.setdefault((prefixes[concept], whole), {}).setdefault(side, concept)
    found = [np.arange(len(names)) for _ in SIDES]
    for concept, (prefix, name) in enumerate(zip(prefixes, names, strict=True)) if by_whole else ():
        before, _, of = f" {name}".rpartition(" unspecified ")
        for whole in (name, f"{before} {of}".strip()):
            for side, other in by_whole.get((prefix, whole), {}).items():
                found[SIDES.index(side)][concept] = other
    return found


def sides_of(mentions: Iterable[Mention]) -> NDArray[np.int64]:
    """Return the row of `assigned_concepts` for each mention: the side that it or a reading of it names, else 0."""
    rows = []
    for mention in mentions:
        strings = (mention.string, *(one.string for one in mention.readings))
        said = {sets.side(string[:MAX_ENCODED_CHARACTERS]) for string in strings} - {0}
        rows.append(SIDES.index(said.pop()) + 1 if len(said) == 1 and said <= {*SIDES} else 0)
    return np.array(rows, np.int64)


def _unspecified(heading: int, children: Sequence[int], names: Sequence[str]) -> int:
    """Return the child of a heading that says that no more is known; the heading, if there is none.

    It has the heading's name, or all its words, says what is unspecified, and adds nothing before and least after it.
    """
    name = _HEADING_EXTRA.sub("", axes.without_unspecified(names[heading]))
    plain = [
        one for one in children if name in (axes.without_residual(names[one]), axes.without_unspecified(names[one]))
    ]
    if plain:
        return next((one for one in reversed(plain) if names[one] == names[heading]), plain[0])
    words = set(plain_words(name))
    open_: dict[int, int] = {}
    for child in children:
        found, all_words = [*_NOT_SPECIFIED.finditer(names[child])], set(plain_words(names[child]))
        is_more = len(found) > len(_NOT_SPECIFIED.findall(names[heading])) and words <= all_words
        if is_more and set(plain_words(names[child][: found[0].start()])) <= words:
            open_[child] = len(all_words - words)
    least = [child for child, extra in open_.items() if extra == min(open_.values())]
    return least[0] if len(least) == 1 else heading
