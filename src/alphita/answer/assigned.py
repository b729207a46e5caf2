"""Which concept answers where another one is named: the unspecified code for its heading, and that of a side.

A classification assigns no heading if there is a code for "no more is known" below it: not "pneumonia, unspecified
organism" (J18), but J18.9; and never a range of codes, unless ranges are asked for. Where a mention says a side and the
terminology has a concept of that side beside the one without, "fracture of left neck of femur", this one is meant.
"""

from __future__ import annotations

import copy
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.index.kept import kept
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
# Codes below a heading that are compared with a mention, and headings for which they are kept.
MAX_CODES, REMEMBERED = 1_000, 1_024
# What a code says beside the name of the heading, if nothing more is known: "other and unspecified asthma".
_NOTHING_MORE = re.compile(r"^other (?:and|or) (?=unspecified)|,? uncomplicated$|,? without complications?$")
_NOT_SPECIFIED = re.compile(r"unspecified|not specified|\bnos\b")
_OPEN = rf"{_NOT_SPECIFIED.pattern}|unspec|not otherwise|without"


class Assignment:
    """Which concept is the answer where each one of an index is named."""

    def __init__(
        self,
        segment: Segment,
        allowed: NDArray[np.bool_] | None = None,
        *,
        billable: bool = False,
        ranges: bool = False,
    ) -> None:
        """Prepare for an index.

        Args:
            allowed: (n_concepts,) which can be answers; None: all.
            billable: whether headings are not; one without an unspecified code leads to the codes below it.
            ranges: whether ranges of codes can be answers.
        """
        self.segment, self.allowed, self.billable, self._ranges = segment, allowed, billable, ranges
        self.codes = functools.lru_cache(REMEMBERED)(self._codes)

    def among(self, allowed: NDArray[np.bool_] | None, *, billable: bool) -> Assignment:
        """Return the same for fewer answers."""
        part = copy.copy(self)
        part.allowed, part.billable = allowed, billable
        part.codes = functools.lru_cache(REMEMBERED)(part._codes)
        part.__dict__.pop("concepts", None)
        return part

    @functools.cached_property
    def concepts(self) -> NDArray[np.int64] | None:
        """The concept that is the answer where each is named (-1: none), by the side that is said.

        (4, n_concepts): without a side, and for each of `SIDES`; None where every concept is its own.
        """
        own, assigned = np.arange(len(self.segment.concepts)), self._all
        if self.allowed is not None:
            is_kept = (assigned < 0) | self.allowed[assigned] | ~self.allowed
            assigned = np.where(is_kept, assigned, own)
        if self.billable and self.allowed is not None:
            above = self.segment.ancestors(self.allowed) | self.allowed
            following = self._following(above & ~self.allowed)
            # One that neither can be billed nor has such codes below it is left out.
            is_dead = (assigned >= 0) & ~above[assigned]
            assigned = np.where(is_dead, np.where(above, own, -1), assigned)
            for _ in range(LEVELS):
                is_heading = (assigned >= 0) & ~self.allowed[assigned]
                assigned = np.where(is_heading, following[assigned], assigned)
        return None if (assigned == own).all() else assigned

    @functools.cached_property
    def _all(self) -> NDArray[np.int64]:
        """`concepts`, if all can be answers."""
        name = f"assigned, with {'' if self._ranges else 'no '}ranges"
        code = ("answer/assigned.py", "mention/axes.py", "terminology")
        return kept(self.segment, name, code, lambda: {"assigned": self._found()})["assigned"]

    def _found(self) -> NDArray[np.int64]:
        names = clean_many(self.segment.concepts.column("name").to_pylist())
        prefixes = [one.partition(":")[0] for one in self.segment.concepts.column("id").to_pylist()]
        found = _unspecified_codes(self.segment, names)
        if not self._ranges:
            found[ranges_of(self.segment)] = -1
        return np.stack([found, *(np.where(found < 0, -1, of_side[found]) for of_side in _sided(prefixes, names))])

    def _following(self, headings: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the unspecified code of each heading, or the only one below it, else itself, (n_concepts,)."""
        segment, following = self.segment, self._all[0].copy()
        if segment.parents is None or segment.parent_offsets is None:
            return following
        names = [
            axes.without_unspecified(_NOTHING_MORE.sub("", name))
            for name in clean_many(segment.concepts.column("name").to_pylist())
        ]
        kept = headings[segment.parents]
        children = np.repeat(np.arange(len(following)), np.diff(segment.parent_offsets))[kept]
        below: dict[int, list[int]] = {}
        for child, parent in zip(children.tolist(), segment.parents[kept].tolist(), strict=True):
            below.setdefault(parent, []).append(child)
        for parent, some in below.items():
            alike = [child for child in some if names[child] == names[parent]] if len(some) > 1 else some
            if following[parent] in (parent, -1) and len(alike) == 1:
                following[parent] = alike[0]
        return following

    def is_heading(self, concept: int) -> bool:
        """Tell whether a concept is no answer, but the codes below it are."""
        return self.billable and self.allowed is not None and not self.allowed[concept]

    def is_open(self, name: str) -> bool:
        """Tell whether a cleaned name says that something is unspecified."""
        return _NOT_SPECIFIED.search(name) is not None

    def _codes(self, heading: int) -> tuple[int, ...]:
        """Return the codes below a heading, or the unspecified ones below those, in their order; at most 1,000."""
        return tuple(itertools.islice(self._below(heading, {heading}), MAX_CODES))

    def _below(self, heading: int, seen: set[int]) -> Iterator[int]:
        for child in self.segment.children_of(heading).tolist():
            answer = child if self.concepts is None else int(self.concepts[0, child])
            answer = child if answer < 0 else answer
            if answer in seen:
                continue
            seen.add(answer)
            if self.is_heading(answer):
                yield from self._below(answer, seen)
            else:
                yield answer

    def instead(self, named: int) -> list[int]:
        """Return what answers where the id of a heading is given: its code, or those below it."""
        answer = named if self.concepts is None else int(self.concepts[0, named])
        is_code = answer >= 0 and not self.is_heading(answer)
        return [*((answer,) if is_code else self.codes(named))] if self.billable else []

    def why(self, named: int, answer: int) -> str | None:
        """Say why a concept answers where another one is named; None where it is the same."""
        if named == answer or self.concepts is None or answer not in self.concepts[:, named]:
            return None
        identifier = self.segment.concepts.column("id")[named].as_py()
        if answer != self.concepts[0, named]:
            return f"{identifier} says no side, and this is the one of that side"
        is_only = len(self.segment.children_of(named)) == 1
        return (
            f"{identifier} is a heading, and this is {'the only code below it' if is_only else 'its unspecified code'}"
        )


def ranges_of(segment: Segment) -> NDArray[np.bool_]:
    """Return which concepts are ranges of codes, (n_concepts,), such as E08-E13: of ICD, or above others."""
    ids = segment.concepts.column("id")
    is_range, of_icd = (
        pc.match_substring_regex(ids, pattern).to_numpy(zero_copy_only=False) for pattern in (_RANGE, "^ICD")
    )
    return np.asarray(is_range & (of_icd | ~_is_leaf(segment)), bool)


def billable(segment: Segment) -> NDArray[np.bool_] | None:
    """Return which codes can be billed, (n_concepts,): by the terminology's flag, else those with none below.

    Returns:
        None: the index tells neither.
    """
    columns = segment.concepts.column_names
    for name, pattern in (("billable", "^yes$"), ("concept_class", r"\bbilling code$")):
        if name in columns:
            told = pc.match_substring_regex(segment.concepts.column(name).cast(pa.string()), pattern)
            flagged = pc.fill_null(told, False).to_numpy(zero_copy_only=False)
            if flagged.any():
                return np.asarray(flagged, bool)
    if segment.parents is None or not len(segment.parents):
        return None
    return _is_leaf(segment) & ~ranges_of(segment)


def _is_leaf(segment: Segment) -> NDArray[np.bool_]:
    leaf = np.ones(len(segment.concepts), bool)
    if segment.parents is not None:
        leaf[segment.parents] = False
    return leaf


def _unspecified_codes(segment: Segment, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the unspecified code of each heading, and every other concept itself."""
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
    """Return the row of `Assignment.concepts` for each mention: the side that it or a reading of it names, else 0."""
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
