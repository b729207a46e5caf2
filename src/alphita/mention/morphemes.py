"""Greek and Latin parts of words: whether two words that look alike are two words, or one misspelt.

"Anorchia" (no testis) is no slip for "anonychia" (no nail): both are well made, of parts with other meanings.
"Hypotonai" is made of none, and so a slip for "hypotonia". morphemes.tsv holds prefixes, roots, suffixes that mean
something, endings that do not, and ends of what is no finding (things: cells, substances), each with what it means and
its forms, without accents, ae and oe as e.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Mapping

from alphita import textio
from alphita.mention.cues import bare

PREFIX, ROOT, SUFFIX, ENDING, THING = "prefix", "root", "suffix", "ending", "thing"
# What is meant by prefixes of much and little.
AMOUNTS = frozenset({"high", "low", "not"})
# Vowels that join a root to what follows.
JOINING = "oi"
SHORTEST_ROOT = 2
MOST_LETTERS = 40
MOST_PARTS = 6
REMEMBERED = 100_000
_DIPHTHONG = re.compile(r"ae|oe(?!(?<=toe)s?$)")

Parts = tuple[str, ...]


@functools.lru_cache(maxsize=REMEMBERED)
def levelled(word: str) -> str:
    """Return a word in lower case without accents, with e for ae and oe, but for a toe."""
    return _DIPHTHONG.sub("e", bare(word))


@functools.cache
def table() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return what each form means, by its kind."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in textio.packaged(__package__, "morphemes.tsv"):
        for form in row["forms"].split("|"):
            found[row["kind"]][levelled(form)].add(row["meaning"])
    return {kind: {form: frozenset(all_) for form, all_ in forms.items()} for kind, forms in found.items()}


@functools.lru_cache(maxsize=REMEMBERED)
def readings(word: str) -> frozenset[Parts]:
    """Return what the parts of a levelled word mean, in every way to read it; none: it is not made of known parts."""
    if len(word) > MOST_LETTERS:
        return frozenset()
    found: set[Parts] = set()
    _read(word, (), False, found)
    return frozenset(found)


def _read(rest: str, before: Parts, has_root: bool, found: set[Parts]) -> None:
    """Add to `found` every way to read the rest of a word behind the parts `before`."""
    if len(before) > MOST_PARTS:
        return
    forms = table()
    if before:
        found.update((*before, meaning) for meaning in forms[SUFFIX].get(rest, ()))
    if has_root and rest in forms[ENDING]:
        found.add(before)
    for end in range(1, len(rest)):
        start, following = rest[:end], rest[end:]
        if not has_root:
            for meaning in forms[PREFIX].get(start, ()):
                _read(following, (*before, meaning), False, found)
        if end >= SHORTEST_ROOT:
            for meaning in forms[ROOT].get(start, ()):
                _read(following, (*before, meaning), True, found)
                if following[0] in JOINING and len(following) > 1:
                    _read(following[1:], (*before, meaning), True, found)


def is_suffix(end: str) -> bool:
    """Tell whether the end of a word is a suffix that means something."""
    return end in table()[SUFFIX]


def is_ending(end: str) -> bool:
    """Tell whether the end of a word is an inflection, or a suffix."""
    return end in table()[ENDING] or is_suffix(end)


@functools.lru_cache(maxsize=REMEMBERED)
def _ends(word: str) -> frozenset[str]:
    """Return what the longest suffix of a word may mean; nothing: it has none behind a beginning."""
    forms = table()[SUFFIX]
    return next((forms[word[at:]] for at in range(SHORTEST_ROOT, len(word)) if word[at:] in forms), frozenset())


def end_otherwise(word: str, other: str) -> bool:
    """Tell whether two words have suffixes that mean other things: "viruria" is no viremia."""
    mine, theirs = _ends(word), _ends(other)
    return bool(mine and theirs) and mine.isdisjoint(theirs)


def is_of_what_ails(word: str, other: str) -> bool:
    """Tell whether a word names a cell or a substance, and one that looks like it what it causes: "chondroblast"."""
    thing = next((end for end in table()[THING] if word.endswith(end) and len(word) > len(end) + SHORTEST_ROOT), None)
    return thing is not None and bool(_ends(other)) and not other.endswith(thing)


def differ_by_prefix(word: str, other: str) -> bool:
    """Tell whether two words differ by a prefix of one, or by one of each, but of much or little: these are said
    otherwise, too."""
    same = 0
    while same < min(len(word), len(other)) and word[-1 - same] == other[-1 - same]:
        same += 1
    if same <= MOST_PARTS:
        return False
    forms = table()[PREFIX]
    for kept in range(same, MOST_PARTS, -1):
        starts = word[: len(word) - kept], other[: len(other) - kept]
        if all(not start or start in forms for start in starts):
            one, two = (forms.get(start, frozenset()) for start in starts)
            # "Per-" and "peri-" are a slip apart.
            is_cut = all(starts) and (starts[0].startswith(starts[1]) or starts[1].startswith(starts[0]))
            return bool((one | two) - AMOUNTS) and one.isdisjoint(two) and not is_cut
    return False
