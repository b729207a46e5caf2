"""Names of an index in a text, in any order of words and inflection: a window is looked up by its sorted roots."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from alphita.annotation.spans import Place
from alphita.annotation.tokens import (
    ABNORMAL,
    COMMON,
    CONJUNCTIONS,
    INSIDE,
    OUTSIDE,
    QUALIFIERS,
    TYPE,
    Sentence,
    Token,
    forms,
    root,
    singular,
)
from alphita.index.store import Index
from alphita.mention.words import whole_words
from alphita.terminology.text import clean_many

# Words of a window, with those that say nothing.
MAX_TOKENS = 12
# Letters of a word that may be a noun's adjective: "hypotonic".
SHORTEST_DERIVED = 7
# Of parts that share a head: how many, and how long.
MAX_ITEMS, MAX_ITEM_TOKENS, MAX_SHARED = 5, 4, 3
_CODE = re.compile(r"(?=.*[0-9])[A-Za-z0-9]{1,3}|(?:[0-9]{1,2}|[XYxy])?[pq][0-9][0-9.]*")


class Hit(NamedTuple):
    """A window that is a name: its parts in the text (one unless it shares a head) and the string to normalize."""

    pieces: tuple[Place, ...]
    asked: str
    row: int
    level: Level

    def is_half(self, hits: Iterable[Hit]) -> bool:
        """Tell whether it shares words with another part that is no name: "spinal [and bulbar] muscular atrophy"."""
        if len(self.pieces) == 1:
            return False
        first, last = self.pieces
        return not any(
            (one.end == last.end and first.end <= one.start < last.start)
            or (one.start == first.start and first.end < one.end <= last.start)
            for one in (hit.pieces[0] for hit in hits if len(hit.pieces) == 1)
        )


def is_code(mention: str) -> bool:
    """Tell whether a mention is a band of a chromosome, or three signs or fewer with a digit: a lead, a vertebra."""
    return _CODE.fullmatch(mention) is not None


class Finder:
    """Finds the names of an index in sentences."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def find(self, text: str, sentence: Sentence, *, alike: bool = True) -> list[Hit]:
        """Return every window of a sentence that is a name, or with `alike` alike one; they may overlap."""
        found: list[Hit] = []
        tokens = sentence.tokens
        roots = [root(token.form) for token in tokens]
        known = self.names.roots
        for first, token in enumerate(tokens):
            if roots[first] not in known or (first and tokens[first - 1].start == token.start):
                continue
            said: list[str] = []
            is_plain = alike
            for last in range(first, min(first + MAX_TOKENS, len(tokens))):
                token = tokens[last]
                if last > first and token.joins == "|":
                    break
                is_plain = is_plain and token.form not in OUTSIDE and token.form not in CONJUNCTIONS
                is_plain = is_plain and (last == first or token.joins == "")
                if not roots[last]:
                    continue
                if roots[last] not in known or len(said) == MAX_WORDS:
                    break
                said.append(roots[last])
                # Two tokens may be of one word of the text ("10^9"): it is taken whole.
                if last + 1 < len(tokens) and tokens[last + 1].start == token.start:
                    continue
                hit = self._hit(text, tokens[first : last + 1], said, is_plain)
                if hit is not None:
                    found.append(hit)
        if any(token.is_misspelt for token in tokens):
            slips = [Place(token.start, token.end) for token in tokens if token.is_misspelt]
            found = [
                hit._replace(level=Level.MISSPELT) if any(_is_part(slip, hit.pieces[0]) for slip in slips) else hit
                for hit in found
            ]
        shared = list(self._shared(text, tokens))
        if shared:
            found = [hit for hit in found if not self._is_apart(hit, tokens, shared)]
        return list(dict.fromkeys([*found, *shared]))

    def _is_apart(self, hit: Hit, tokens: Sequence[Token], shared: Sequence[Hit]) -> bool:
        """Tell whether a hit is a borrowed name for two things ("cleft lip and palate") that have own names too."""
        (start, end), index = hit.pieces[0], self.names.index
        is_joined = any(token.form in CONJUNCTIONS and start < token.start < end for token in tokens)
        return (
            is_joined
            and bool(index.segment.borrowed[int(index.segment.offsets[hit.row])])
            and any(start <= one.pieces[0].start and one.pieces[-1].end <= end for one in shared)
        )

    def _hit(self, text: str, tokens: Sequence[Token], roots: Sequence[str], is_plain: bool) -> Hit | None:
        """Return the name that words make, whose roots are given; where they are plain words also what is alike."""
        rows = self.names.rows(roots)
        if not rows:
            alike = self.names.alike(roots) if is_plain else None
            if alike is None:
                return None
            place = Place(tokens[0].start, tokens[-1].end)
            return Hit((place,), text[place.start : place.end], alike, Level.ALIKE)
        place = Place(tokens[0].start, tokens[-1].end)
        mention = text[place.start : place.end]
        if len(roots) == 1 and tokens[-1].form in COMMON:
            return None
        is_joined = all(token.joins == "" for token in tokens[1:])
        closest = self.names.closest(rows, [token.form for token in tokens], mention, is_joined)
        if closest is None:
            return None
        row, level = closest
        if is_code(mention):
            return None
        if level == Level.ROOTS:
            is_quality = self.names.index.strings[row] == tokens[0].form + "ness"
            if len(roots) == 1 and not is_quality and (len(mention) < SHORTEST_DERIVED or mention.endswith("ing")):
                # "order" is no disorder of sorting, "imprinting" no finding.
                return None
            if any(token.form in OUTSIDE for token in tokens):
                # "Disorders characterized by" are no disorder of character.
                return None
        # Words of one root are asked as the name that they make.
        is_derived = level == Level.ROOTS and len(roots) > 1
        asked = self.names.index.strings[row] if is_derived else TYPE.sub(r"\1\2", mention)
        return Hit((place,), asked, row, level)

    def _shared(self, text: str, tokens: Sequence[Token]) -> Iterator[Hit]:
        """Yield names whose parts are joined by "and": "short [and curved] fingers", "cleft [lip and] palate"."""
        for items in _joined(tokens):
            for place, item in enumerate(items):
                own = [item[-size:] for size in range(1, MAX_SHARED + 1)]
                cuts = [size for size, token in enumerate(reversed(item)) if token.form in INSIDE]
                whole = next((part for part in own if len(part) == min([*cuts, len(item)])), None)
                for other in items[place + 1 :]:
                    for size in range(1, min(MAX_SHARED, len(other) - 1) + 1):
                        yield from self._made(text, own, other[-size:], whole)
            first: list[Token] = items[0]
            for before, item in pairwise(items):
                # Of "ear pits, gut cysts and fistulae" only the gut has fistulae.
                first = before if len(before) > 1 else first
                own = [item[:size] for size in range(1, MAX_SHARED + 1)]
                for size in range(1, min(MAX_SHARED, len(first) - 1) + 1):
                    for part in own:
                        yield from self._made(text, [first[-size - cut : len(first) - cut] for cut in (1, 2)], part)

    def _made(
        self,
        text: str,
        beginnings: Sequence[Sequence[Token]],
        end: Sequence[Token],
        whole: Sequence[Token] | None = None,
    ) -> Iterator[Hit]:
        """Yield the names of beginnings and an end; `whole`: the one that is all of a part."""
        end = _trimmed(end)
        for some in beginnings:
            beginning = _trimmed(some)
            if not beginning or not end:
                continue
            tokens = [*beginning, *end]
            roots = [said for token in tokens if (said := root(token.form))]
            if len(roots) < 2:
                continue
            rows = self.names.rows(roots)
            pieces = tuple(Place(part[0].start, part[-1].end) for part in (beginning, end))
            asked = " ".join(text[piece.start : piece.end] for piece in pieces)
            spoken = [token.form for token in tokens]
            closest = self.names.closest(rows, spoken, asked, is_joined=True) if rows else None
            # Of "delay, absent speech and seizures" nothing is a "speech delay".
            if closest is not None and closest[1] < Level.ROOTS and self.names.is_in_order(closest[0], spoken):
                yield Hit(pieces, asked, *closest)
            elif some is whole and len(end) == 1 and root(end[0].form) == ABNORMAL:
                # "Otic and renal anomalies": any name of an abnormality of the ear.
                row = closest[0] if closest is not None else self.names.alike(roots)
                if row is not None:
                    yield Hit(pieces, self.names.index.strings[row], row, Level.ALIKE)


def _is_part(inner: Place, outer: Place) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _joined(tokens: Sequence[Token]) -> Iterator[list[list[Token]]]:
    """Yield what conjunctions, commas and slashes join: the words of each part, two parts or more."""
    items: list[list[Token]] = [[]]
    has_word = False
    for token in [*tokens, Token(0, 0, "", "|")]:
        if token.joins == "|" or token.form in OUTSIDE or len(items) > MAX_ITEMS:
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
        items[-1] = [*items[-1], token][-MAX_ITEM_TOKENS:] if len(items) == 1 else [*items[-1], token][:MAX_ITEM_TOKENS]


def _trimmed(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return words without those at both ends that belong inside a mention only, as "of"."""
    first, last = 0, len(tokens)
    while first < last and tokens[first].form in INSIDE:
        first += 1
    while last > first and tokens[last - 1].form in INSIDE:
        last -= 1
    return tokens[first:last]


MAX_WINDOW_WORDS = 7
# Cosine of character n-grams of the nearest name, 0 to 1, at least.
LETTERS = 0.6
# Share of a window's words whose roots stand in names, at least.
KNOWN = 0.6
_BAND = re.compile(r"(?:[0-9]{1,2}|[xy])[pq][0-9]+")
UNKNOWN = -1
_CAPITALS = re.compile(r"[A-Z][A-Za-z0-9]*[A-Z0-9]s?")
LONGEST_SHORT_FORM = 8


class Window(NamedTuple):
    """A phrase: its place, its words as one string, and whether "and" or "or" is among them."""

    place: Place
    asked: str
    is_joined: bool


class Windows:
    """Finds the windows of texts that an index may have an answer for."""

    def __init__(self, index: Index, knows: Callable[[str], bool]) -> None:
        self.index, self.knows = index, knows
        self._common = frozenset(whole_words(index.model_path)[0])

    def of(self, text: str, sentence: Sentence) -> list[Window]:
        """Return the windows of a sentence that pass the screen of words."""
        found = []
        for phrase in _phrases(sentence.tokens):
            if any(_BAND.fullmatch(token.form) for token in phrase):
                # "Chromosome 2q35" is a place, whatever syndrome has its name.
                continue
            known = [self.knows(token.form) for token in phrase]
            for first, last in _bounds(phrase):
                words = phrase[first : last + 1]
                said = sum(known[first : last + 1])
                place = Place(words[0].start, words[-1].end)
                if first == last and words[0].form in self._common:
                    # A common word that is no name means something else.
                    continue
                is_joined = any(token.form in CONJUNCTIONS for token in words)
                if said >= KNOWN * len(words) or (first == last and is_short_form(text[place.start : place.end])):
                    found.append(Window(place, text[place.start : place.end], is_joined))
        return found

    def nearest(self, asked: Sequence[str]) -> list[int | None]:
        """Return the row of the name that each string is nearest to by its letters."""
        ngrams = self.index.ngrams
        if ngrams is None or not asked:
            return [UNKNOWN] * len(asked)
        similarity, rows = ngrams.search(ngrams.vectorize(clean_many(asked, self.index.rules)), 1)
        return [
            UNKNOWN if is_short_form(string) else row if near >= LETTERS else None
            for near, row, string in zip(similarity[:, 0].tolist(), rows[:, 0].tolist(), asked, strict=True)
        ]


def is_short_form(string: str) -> bool:
    """Tell whether a string is one word of capitals, as "CHF" or "RBCs"."""
    return len(string) <= LONGEST_SHORT_FORM and _CAPITALS.fullmatch(string) is not None


def _phrases(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the runs of words that no break, comma or word of `OUTSIDE` cuts."""
    phrase: list[Token] = []
    for token in tokens:
        is_outside = token.form in OUTSIDE
        if phrase and (token.joins or is_outside):
            yield phrase
            phrase = []
        if not is_outside:
            phrase.append(token)
    if phrase:
        yield phrase


def _bounds(phrase: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield first and last word of each window of a phrase."""
    for first, token in enumerate(phrase):
        if token.form in INSIDE or not root(token.form):
            continue
        for last in range(first, min(first + MAX_WINDOW_WORDS, len(phrase))):
            form = phrase[last].form
            is_one_sign = first == last and (len(form) < 2 or form.isdecimal())
            if form not in INSIDE and not is_one_sign:
                yield first, last


# Concepts whose names must say so, at least.
MIN_CONCEPTS = 3
# Share of the concepts that name the rarer root in which the other takes its place, at least.
MIN_SHARE = 0.04
# Equivalents of one root, the likeliest first, and names of one concept that are compared, at most.
MAX_EQUIVALENTS, MAX_NAMES = 12, 40


def learn(concepts: Iterable[Sequence[tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Return for each root those that may take its place, the likeliest first."""
    swapped: Counter[tuple[str, str]] = Counter()
    holding: Counter[str] = Counter()
    for names in concepts:
        distinct = list(dict.fromkeys(names))[:MAX_NAMES]
        holding.update({root for name in distinct for root in name})
        swapped.update(_swapped(distinct))
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (left, right), number in swapped.items():
        share = number / min(holding[left], holding[right])
        if number >= MIN_CONCEPTS and share >= MIN_SHARE:
            found[left].append((-share, right))
            found[right].append((-share, left))
    return {root: tuple(other for _, other in sorted(some)[:MAX_EQUIVALENTS]) for root, some in found.items()}


def _swapped(names: Sequence[tuple[str, ...]]) -> set[tuple[str, str]]:
    """Return the pairs of roots in which two names of one concept differ, both of several roots."""
    by_rest: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for name in names:
        if len(name) > 1:
            for place, root in enumerate(name):
                by_rest[name[:place] + name[place + 1 :]].add(root)
    found: set[tuple[str, str]] = set()
    for roots in by_rest.values():
        if len(roots) > 1:
            ordered = sorted(roots)
            found.update((left, right) for place, left in enumerate(ordered) for right in ordered[place + 1 :])
    return found


MAX_WORDS = 8
STRINGS_AT_ONCE = 65_536
LONGEST_ACRONYM = 5
SHORTEST_NAME = 3
# Roots of a window in which one may be put for another, at most.
MAX_SWAPPED = 5
# Letters of a word that is left of a name without its qualifier, at least.
SHORTEST_LEFT = 8
# Share of the concepts whose own names hold a word that must be the concept's which borrows it as a name.
MIN_OWN = 0.5
CAPITALS = re.compile(r"[A-Z0-9][A-Z0-9/&-]*")


class Level(IntEnum):
    """How a window equals a name: the closest first."""

    SAME = 0
    INFLECTED = 1
    ROOTS = 2
    ALIKE = 3
    MISSPELT = 4


class Names:
    """The names of an index."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.roots: set[str] = set()
        self._rows: dict[str, int | tuple[int, ...]] = {}
        self._shouted = _acronyms(index)
        keys: list[str | None] = []
        strings = index.strings.array
        for start in range(0, len(strings), STRINGS_AT_ONCE):
            for row, string in enumerate(strings.slice(start, STRINGS_AT_ONCE).to_pylist(), start):
                keys.append(self._key(row, string))
        own = self._own_names(keys)
        self._equivalents = learn(own.values())
        # Strings of the index that are no names here.
        self.strange = self._strange(keys, own)
        for row, key in enumerate(keys):
            if key is not None and row not in self.strange:
                self.roots.update(key.split(" "))
                before = self._rows.get(key)
                self._rows[key] = row if before is None else (*_several(before), row)
        self._shortened = self._without_qualifiers(keys)

    def _key(self, row: int, string: str) -> str | None:
        """Return the sorted roots of a name; None: it is not looked for."""
        roots = [found for form in forms(string) if (found := root(form))]
        if not roots or len(roots) > MAX_WORDS or len(string) < SHORTEST_NAME - (row in self._shouted):
            return None
        if len(roots) == 1 and (string in COMMON or not any(map(str.isalpha, string))):
            return None
        return " ".join(sorted(roots))

    def _own_names(self, keys: Sequence[str | None]) -> dict[int, list[tuple[str, ...]]]:
        """Return the exact names of each concept that are the terminology's own, as sorted roots."""
        segment = self.index.segment
        found: dict[int, list[tuple[str, ...]]] = defaultdict(list)
        string_of = np.repeat(np.arange(len(keys)), np.diff(segment.offsets))
        own = np.flatnonzero(segment.standing <= 1)
        concepts = segment.term_concept[own].tolist()
        for string, concept in zip(string_of[own].tolist(), concepts, strict=True):
            key = keys[string]
            if key is not None:
                found[concept].append(tuple(map(sys.intern, key.split(" "))))
        return found

    def _strange(self, keys: Sequence[str | None], own: dict[int, list[tuple[str, ...]]]) -> set[int]:
        """Return the borrowed names of one word that are not looked for."""
        segment = self.index.segment
        holding: dict[str, set[int]] = defaultdict(set)
        for concept, names in own.items():
            for name in names:
                for part in name:
                    holding[part].add(concept)
        found = set()
        for row, key in enumerate(keys):
            terms = slice(int(segment.offsets[row]), int(segment.offsets[row + 1]))
            if key is None or " " in key or not segment.borrowed[terms].all():
                continue
            if row in self._shouted:
                found.add(row)
            elif key in holding:
                share = len(holding[key] & set(segment.term_concept[terms].tolist())) / len(holding[key])
                if share < MIN_OWN:
                    found.add(row)
        return found

    def _without_qualifiers(self, keys: Sequence[str | None]) -> dict[str, int]:
        """Return the rows of own names by what is left of them without a qualifier, where that is no other name."""
        segment = self.index.segment
        found: dict[str, set[int]] = defaultdict(set)
        rows: dict[str, int] = {}
        for row, key in enumerate(keys):
            if key is None or " " not in key or segment.standing[segment.offsets[row]] > 1:
                continue
            roots = key.split(" ")
            for place, part in enumerate(roots):
                left = " ".join(roots[:place] + roots[place + 1 :])
                if part in _QUALIFIERS and len(left) >= SHORTEST_LEFT and left not in self._rows:
                    found[left].add(int(segment.term_concept[segment.offsets[row]]))
                    rows.setdefault(left, row)
        return {left: rows[left] for left, concepts in found.items() if len(concepts) == 1}

    def knows(self, form: str) -> bool:
        """Tell whether a word's root stands in some name."""
        return root(form) in self.roots

    def rows(self, roots: Sequence[str]) -> tuple[int, ...]:
        """Return the names that have these roots."""
        found = self._rows.get(roots[0] if len(roots) == 1 else " ".join(sorted(roots)))
        return () if found is None else _several(found)

    def alike(self, roots: Sequence[str]) -> int | None:
        """Return the name that has all roots but one, and for it an equivalent; or these and a qualifier."""
        if len(roots) > MAX_SWAPPED:
            return None
        ordered = sorted(roots)
        left = self._shortened.get(" ".join(ordered))
        if left is not None or len(roots) == 1:
            return left
        for place, one in enumerate(ordered):
            for other in self._equivalents.get(one, ()):
                rows = self._rows.get(" ".join(sorted((*ordered[:place], other, *ordered[place + 1 :]))))
                if rows is not None:
                    return _several(rows)[0]
        return None

    def closest(
        self, rows: Sequence[int], spoken: Sequence[str], mention: str, is_joined: bool
    ) -> tuple[int, Level] | None:
        """Return the one of some names that is closest to a window, and how close; None: none of them may be meant."""
        best: tuple[Level, int] | None = None
        bag: list[str] | None = None
        for row in rows:
            if row in self._shouted and not CAPITALS.fullmatch(mention):
                continue
            own = forms(self.index.strings[row])
            if own == list(spoken):
                level = Level.SAME
            elif not is_joined:
                # Across a comma or a bracket only the name as it is written.
                continue
            else:
                bag = sorted(filter(None, map(singular, spoken))) if bag is None else bag
                level = Level.INFLECTED if sorted(filter(None, map(singular, own))) == bag else Level.ROOTS
            if best is None or (level, row) < best:
                best = (level, row)
        return None if best is None else (best[1], best[0])

    def is_in_order(self, row: int, spoken: Sequence[str]) -> bool:
        """Tell whether a name has these words in their order, but for their number."""
        return list(map(singular, forms(self.index.strings[row]))) == list(map(singular, spoken))


_QUALIFIERS = frozenset(map(root, QUALIFIERS))


def _several(rows: int | tuple[int, ...]) -> tuple[int, ...]:
    return rows if isinstance(rows, tuple) else (rows,)


def _acronyms(index: Index) -> frozenset[int]:
    """Return the short strings of an index that its terms write in capitals only; in a text they must be so too."""
    segment = index.segment
    lengths = pc.utf8_length(index.strings.array).to_numpy()
    found = []
    written = segment.terms.column("string")
    for row in np.flatnonzero(lengths <= LONGEST_ACRONYM).tolist():
        terms = written.slice(int(segment.offsets[row]), int(segment.offsets[row + 1] - segment.offsets[row]))
        if all(CAPITALS.fullmatch(term.strip()) and not term.isdecimal() for term in terms.to_pylist()):
            found.append(row)
    return frozenset(found)
