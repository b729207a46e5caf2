"""Names of an index in a text, in any order of words and inflection.

A window of words is looked up by its key: the sorted roots of its words, without those that say nothing ("of", "the").
So "fingers, short", "shortness of the fingers" and "short finger" are one key. A window grows word by word to the right
for as long as each word's root stands in some name, as an automaton would go on from state to state, and no name is
longer than `MOST_WORDS`; the time grows with the length of the text, whatever the number of names. `Level` tells how
close the hit is: where only the roots agree, the normalizer tells what the words mean.

"Short and curved fingers" holds two names: what stands before "and" shares the head behind it, and in "cleft lip and
palate" what stands behind it shares the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from alphita.annotating.function_words import COMMON, CONJUNCTIONS, INSIDE, OUTSIDE
from alphita.annotating.spans import Place
from alphita.annotating.tokens import Sentence, Token, forms, root, singular
from alphita.index.store import Index

MOST_WORDS = 8
# Words of a window, with those that say nothing.
MOST_TOKENS = 12
STRINGS_AT_ONCE = 65_536
LONGEST_ACRONYM = 5
SHORTEST_NAME = 3
# Letters of a word that may be a noun's adjective: "hypotonic".
SHORTEST_DERIVED = 7
# Of parts that share a head: how many, and how long.
MOST_ITEMS, MOST_ITEM_TOKENS, MOST_SHARED = 5, 4, 3
_CAPITALS = re.compile(r"[A-Z0-9][A-Z0-9/&-]*")


_CODE = re.compile(r"(?=.*[0-9])[A-Za-z0-9]{1,3}|(?:[0-9]{1,2}|[XYxy])?[pq][0-9][0-9.]*")


class Level(IntEnum):
    """How a window equals a name: the closest first."""

    SAME = 0
    INFLECTED = 1
    ROOTS = 2


class Hit(NamedTuple):
    """A window that is a name.

    Attributes:
        pieces: its parts in the text; one unless it shares a head.
        asked: the words as one string, for the normalizer.
        row: the string of the index that it equals.
        level: how closely.
    """

    pieces: tuple[Place, ...]
    asked: str
    row: int
    level: Level


def is_code(mention: str) -> bool:
    """Tell whether a mention is a band of a chromosome, or three signs or fewer with a digit: a lead, a vertebra."""
    return _CODE.fullmatch(mention) is not None


class Names:
    """The names of an index, to be found in texts."""

    def __init__(self, index: Index) -> None:
        """Read the names of an index: some seconds for 300,000."""
        self.index = index
        self._rows: dict[str, int | tuple[int, ...]] = {}
        self._roots: set[str] = set()
        self._shouted = _acronyms(index)
        strings = index.strings.array
        for start in range(0, len(strings), STRINGS_AT_ONCE):
            for row, string in enumerate(strings.slice(start, STRINGS_AT_ONCE).to_pylist(), start):
                self._add(row, string)

    def _add(self, row: int, string: str) -> None:
        roots = [found for form in forms(string) if (found := root(form))]
        if not roots or len(roots) > MOST_WORDS or len(string) < SHORTEST_NAME - (row in self._shouted):
            return
        if len(roots) == 1 and (string in COMMON or not any(map(str.isalpha, string))):
            return
        self._roots.update(roots)
        key = " ".join(sorted(roots))
        before = self._rows.get(key)
        self._rows[key] = row if before is None else (*(before if isinstance(before, tuple) else (before,)), row)

    def knows(self, form: str) -> bool:
        """Tell whether a word's root stands in some name."""
        return root(form) in self._roots

    def find(self, text: str, sentence: Sentence) -> list[Hit]:
        """Return every window of a sentence that is a name; they may overlap."""
        found: list[Hit] = []
        tokens = sentence.tokens
        for first, token in enumerate(tokens):
            if first and tokens[first - 1].start == token.start:
                continue
            roots: list[str] = []
            for last in range(first, min(first + MOST_TOKENS, len(tokens))):
                token = tokens[last]
                if last > first and token.joins == "|":
                    break
                said = root(token.form)
                if not said:
                    if not roots:
                        break
                    continue
                if said not in self._roots or len(roots) == MOST_WORDS:
                    break
                roots.append(said)
                # Two tokens may be of one word of the text ("10^9"): it is taken whole.
                if last + 1 < len(tokens) and tokens[last + 1].start == token.start:
                    continue
                hit = self._hit(text, tokens[first : last + 1], roots)
                if hit is not None:
                    found.append(hit)
        return list(dict.fromkeys([*found, *self._shared(text, tokens)]))

    def _hit(self, text: str, tokens: Sequence[Token], roots: Sequence[str]) -> Hit | None:
        rows = self._rows.get(roots[0] if len(roots) == 1 else " ".join(sorted(roots)))
        if rows is None:
            return None
        start, end = tokens[0].start, tokens[-1].end
        is_joined = all(token.joins == "" for token in tokens[1:])
        mention = text[start:end]
        closest = self._closest(rows, [token.form for token in tokens], mention, is_joined)
        if closest is None or is_code(mention):
            return None
        if (
            len(roots) == 1
            and closest[1] == Level.ROOTS
            and (len(mention) < SHORTEST_DERIVED or mention.endswith("ing"))
        ):
            # "order" is no disorder of sorting, "imprinting" no finding.
            return None
        # Words of one root are asked as the name that they make.
        is_derived = closest[1] == Level.ROOTS and len(roots) > 1
        asked = self.index.strings[closest[0]] if is_derived else mention
        return Hit((Place(start, end),), asked, *closest)

    def _closest(
        self, rows: int | tuple[int, ...], spoken: Sequence[str], mention: str, is_joined: bool
    ) -> tuple[int, Level] | None:
        """Return the name that is closest to a window, and how close; None if none of them may be meant."""
        best: tuple[Level, int] | None = None
        bag = sorted(filter(None, map(singular, spoken)))
        for row in rows if isinstance(rows, tuple) else (rows,):
            if row in self._shouted and not _CAPITALS.fullmatch(mention):
                continue
            own = forms(self.index.strings[row])
            if own == list(spoken):
                level = Level.SAME
            elif not is_joined:
                # Across a comma or a bracket only the name as it is written.
                continue
            else:
                level = Level.INFLECTED if sorted(filter(None, map(singular, own))) == bag else Level.ROOTS
            if best is None or (level, row) < best:
                best = (level, row)
        return None if best is None else (best[1], best[0])

    def _shared(self, text: str, tokens: Sequence[Token]) -> Iterator[Hit]:
        """Yield names whose parts are joined by "and": "short [and curved] fingers", "cleft [lip and] palate"."""
        for items in _joined(tokens):
            first = items[0]
            for place, item in enumerate(items):
                own = [item[-size:] for size in range(1, MOST_SHARED + 1)]
                for other in items[place + 1 :]:
                    for size in range(1, min(MOST_SHARED, len(other) - 1) + 1):
                        yield from self._made(text, own, other[-size:])
            for item in items[1:]:
                own = [item[:size] for size in range(1, MOST_SHARED + 1)]
                for size in range(1, min(MOST_SHARED, len(first) - 1) + 1):
                    for part in own:
                        yield from self._made(text, [first[-size - cut : len(first) - cut] for cut in (1, 2)], part)

    def _is_in_order(self, row: int, tokens: Sequence[Token]) -> bool:
        return list(map(singular, forms(self.index.strings[row]))) == [singular(token.form) for token in tokens]

    def _made(self, text: str, beginnings: Sequence[Sequence[Token]], end: Sequence[Token]) -> Iterator[Hit]:
        end = _trimmed(end)
        for some in beginnings:
            beginning = _trimmed(some)
            if not beginning or not end:
                continue
            tokens = [*beginning, *end]
            roots = [said for token in tokens if (said := root(token.form))]
            rows = self._rows.get(" ".join(sorted(roots)))
            if rows is None or len(roots) < 2:
                continue
            pieces = tuple(Place(part[0].start, part[-1].end) for part in (beginning, end))
            asked = " ".join(text[piece.start : piece.end] for piece in pieces)
            closest = self._closest(rows, [token.form for token in tokens], asked, is_joined=True)
            # Of "delay, absent speech and seizures" nothing is a "speech delay".
            if closest is not None and closest[1] < Level.ROOTS and self._is_in_order(closest[0], tokens):
                yield Hit(pieces, asked, *closest)


def _joined(tokens: Sequence[Token]) -> Iterator[list[list[Token]]]:
    """Yield what conjunctions, commas and slashes join: the words of each part, two parts or more."""
    items: list[list[Token]] = [[]]
    has_word = False
    for token in [*tokens, Token(0, 0, "", "|")]:
        if token.joins == "|" or token.form in OUTSIDE or len(items) > MOST_ITEMS:
            if has_word and len(items) > 1 and all(items):
                yield items
            items, has_word = [[]], False
            if token.form in OUTSIDE:
                continue
        if token.form in CONJUNCTIONS:
            # "short, broad and curved": the comma before "and" joins nothing more.
            has_word = True
            if items[-1]:
                items.append([])
            continue
        if token.joins == "," and items[-1]:
            if has_word and len(items) > 1 and all(items):
                yield items
                items, has_word = [[]], False
            else:
                items.append([])
        items[-1] = (
            [*items[-1], token][-MOST_ITEM_TOKENS:] if len(items) == 1 else [*items[-1], token][:MOST_ITEM_TOKENS]
        )


def _trimmed(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return words without those at both ends that belong inside a mention only, as "of"."""
    first, last = 0, len(tokens)
    while first < last and tokens[first].form in INSIDE:
        first += 1
    while last > first and tokens[last - 1].form in INSIDE:
        last -= 1
    return tokens[first:last]


def _acronyms(index: Index) -> frozenset[int]:
    """Return the short strings of an index that its terms write in capitals only; in a text they must be so too."""
    segment = index.segment
    lengths = pc.utf8_length(index.strings.array).to_numpy()
    found = []
    written = segment.terms.column("string")
    for row in np.flatnonzero(lengths <= LONGEST_ACRONYM).tolist():
        terms = written.slice(int(segment.offsets[row]), int(segment.offsets[row + 1] - segment.offsets[row]))
        if all(_CAPITALS.fullmatch(term.strip()) and not term.isdecimal() for term in terms.to_pylist()):
            found.append(row)
    return frozenset(found)
