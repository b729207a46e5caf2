"""Names of an index in a text, in any order of words and inflection: a window is looked up by its sorted roots."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from alphita.annotation.names import MAX_WORDS, Level, Names
from alphita.annotation.spans import Place
from alphita.annotation.tokens import (
    ABNORMAL,
    COMMON,
    CONJUNCTIONS,
    INSIDE,
    OTHERWISE,
    OUTSIDE,
    TYPE,
    WORDS,
    Sentence,
    Token,
    root,
)
from alphita.index.store import Index
from alphita.mention.words import whole_words
from alphita.terminology.text import clean_many

# Words of a window, with those that say nothing.
MAX_TOKENS = 12
# Letters of a word that may be a noun's adjective: "hypotonic".
SHORTEST_DERIVED = 7
_CUTS = OUTSIDE | CONJUNCTIONS
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
        for first, (token, after) in enumerate(pairwise(tokens)):
            if (token.form, after.form) in OTHERWISE:
                roots[first] = roots[first + 1] = ""
        known = self.names.roots
        goes_on = [said in known and _goes_on(token) for said, token in zip(roots, tokens, strict=True)][1:]
        goes_on.append(False)
        for first, token in enumerate(tokens):
            if roots[first] not in known or (first and tokens[first - 1].start == token.start):
                continue
            said: list[str] = []
            is_plain = alike
            for last in range(first, min(first + MAX_TOKENS, len(tokens))):
                token = tokens[last]
                if last > first and token.joins == "|":
                    break
                is_plain = is_plain and (last == first or token.joins == "") and token.form not in _CUTS
                if not roots[last]:
                    continue
                if roots[last] not in known or len(said) == MAX_WORDS:
                    break
                said.append(roots[last])
                # Two tokens may be of one word of the text ("10^9"): it is taken whole.
                if last + 1 < len(tokens) and tokens[last + 1].start == token.start:
                    continue
                rows = self.names.rows(said)
                if rows or is_plain:
                    hit = self._hit(text, tokens[first : last + 1], said, rows, goes_on[last])
                    found += [] if hit is None else [hit]
        slips = [Place(token.start, token.end) for token in tokens if token.is_misspelt]
        for number, hit in enumerate(found if slips else []):
            if any(hit.pieces[0].holds(slip) for slip in slips):
                found[number] = hit._replace(level=Level.MISSPELT)
        shared = list(self._shared(text, tokens))
        if shared:
            found = [hit for hit in found if not self._is_apart(hit, tokens, shared)]
        return list(dict.fromkeys([*found, *shared]))

    def _is_apart(self, hit: Hit, tokens: Sequence[Token], shared: Sequence[Hit]) -> bool:
        """Tell whether a hit is a borrowed name for two things ("cleft lip and palate") that have own names too."""
        place, segment = hit.pieces[0], self.names.index.segment
        is_joined = any(token.form in CONJUNCTIONS and place.start < token.start < place.end for token in tokens)
        parts = any(place.holds(one.pieces[0]) and place.holds(one.pieces[-1]) for one in shared)
        return is_joined and parts and bool(segment.borrowed[int(segment.offsets[hit.row])])

    def _hit(self, text: str, tokens: list[Token], roots: list[str], rows: Sequence[int], goes_on: bool) -> Hit | None:
        """Return the one of some names that words make, or if there are none what is alike."""
        place = Place(tokens[0].start, tokens[-1].end)
        mention, strings = text[place.start : place.end], self.names.index.strings
        if not rows:
            return self._alike(place, mention, roots, goes_on)
        if (len(roots) == 1 and tokens[-1].form in COMMON) or is_code(mention):
            return None
        spoken = [token.form for token in tokens]
        is_joined = all(token.joins == "" for token in tokens[1:])
        closest = self.names.closest(rows, spoken, mention, is_joined)
        if closest is None:
            return None
        row, level = closest
        preferred = self.names.preferred(rows, mention)
        if level < Level.ROOTS and is_joined and preferred is not None:
            return Hit((place,), strings[preferred], preferred, level)
        is_quality = len(roots) == 1 and strings[row] == spoken[0] + "ness"
        if goes_on and not is_quality and not self.names.is_in_order(row, spoken):
            # "Hyperplasia of the mandibular" condyle, and "eosinophilic" membranes.
            return None
        if level == Level.ROOTS:
            is_short = len(mention) < SHORTEST_DERIVED or mention.endswith("ing")
            if (len(roots) == 1 and not is_quality and is_short) or not OUTSIDE.isdisjoint(spoken):
                # "order" is no disorder of sorting, "disorders characterized by" are none of character.
                return None
        # Words of one root are asked as the name that they make.
        is_derived = level == Level.ROOTS and len(roots) > 1
        return Hit((place,), strings[row] if is_derived else TYPE.sub(r"\1\2", mention), row, level)

    def _alike(self, place: Place, mention: str, roots: Sequence[str], goes_on: bool) -> Hit | None:
        general = None if goes_on else self.names.general(roots)
        row = general if general is not None else self.names.alike(roots)
        if row is None:
            return None
        name = self.names.index.strings[row]
        is_any = general is not None or ("anomal" in mention and ABNORMAL in name)
        return Hit((place,), name if is_any else mention, row, Level.ALIKE)

    def _shared(self, text: str, tokens: Sequence[Token]) -> Iterator[Hit]:
        """Yield names whose parts are joined by "and": "short [and curved] fingers", "cleft [lip and] palate"."""
        for items in _joined(tokens):
            for place, item in enumerate(items):
                own = [item[-size:] for size in range(1, MAX_SHARED + 1)]
                cuts = [size for size, token in enumerate(reversed(item)) if token.form in INSIDE]
                whole = next((part for part in own if len(part) == min([*cuts, len(item)])), None)
                for other in map(_phrase, items[place + 1 :]):
                    for size in range(1, min(MAX_SHARED, len(other) - 1) + 1):
                        yield from self._made(text, own, other[-size:], whole)
            first: list[Token] = items[0]
            for before, item in pairwise(items):
                # Of "ear pits, gut cysts and fistulae" only the gut has fistulae.
                first = before if len(before) > 1 else first
                own = [
                    item[:size]
                    for size in range(1, MAX_SHARED + 1)
                    if (size >= len(item) or item[size].form in INSIDE - {"of"}) and not self._is_name(item[:size])
                ]
                for part in own:
                    for size in range(1, min(MAX_SHARED, len(first) - 1) + 1):
                        yield from self._made(text, [first[-size - cut : len(first) - cut] for cut in (1, 2)], part)
                    heads = [place for place, token in enumerate(first) if place and token.form == "of"]
                    if len(heads) == 1 and part is own[-1]:
                        yield from self._made(text, [first[heads[0] - 1 : heads[0]]], part, is_of=True)

    def _is_name(self, tokens: Sequence[Token]) -> bool:
        return bool(self.names.rows([said for token in tokens if (said := root(token.form))]))

    def _made(
        self,
        text: str,
        beginnings: Sequence[Sequence[Token]],
        end: Sequence[Token],
        whole: Sequence[Token] | None = None,
        *,
        is_of: bool = False,
    ) -> Iterator[Hit]:
        """Yield the names of beginnings and an end; `whole`: the one that is all of a part; `is_of`: joined by "of"."""
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
            preferred = self.names.preferred(rows, asked) if closest is not None else None
            if closest is not None and preferred is not None:
                yield Hit(pieces, self.names.index.strings[preferred], preferred, closest[1])
                continue
            # Of "delay, absent speech and seizures" nothing is a "speech delay".
            if closest is not None and closest[1] < Level.ROOTS and self.names.is_in_order(closest[0], spoken):
                yield Hit(pieces, asked, *closest)
            elif (some is whole and len(end) == 1 and root(end[0].form) == ABNORMAL) or is_of:
                # "Otic and renal anomalies", "anomalies of the kidney and ear": any name of an abnormality of the ear.
                row = closest[0] if closest is not None else self.names.general(roots) or self.names.alike(roots)
                if row is not None:
                    yield Hit(pieces, self.names.index.strings[row], row, Level.ALIKE)


def _goes_on(token: Token) -> bool:
    """Tell whether a word may belong to the one before it."""
    return token.joins == "" and token.form not in INSIDE and token.form not in OUTSIDE


def _joined(tokens: Sequence[Token]) -> Iterator[list[list[Token]]]:
    """Yield what conjunctions, commas and slashes join: the words of each part, two parts or more."""
    items: list[list[Token]] = [[]]
    has_word = False
    for token in [*tokens, Token(0, 0, "", "|")]:
        is_end = token.joins == "|" or token.form in OUTSIDE or len(items) > MAX_ITEMS
        # "short, broad and curved": the comma before "and" joins nothing more, one behind it ends.
        if is_end or (token.joins == "," and has_word and items[-1] and token.form not in CONJUNCTIONS):
            if has_word and len(said := [item for item in items if item]) > 1:
                yield said
            items, has_word = [[]], False
            if token.form in OUTSIDE:
                continue
        is_word = token.form in CONJUNCTIONS
        has_word = has_word or is_word
        if (is_word or token.joins == ",") and items[-1]:
            items.append([])
        if not is_word:
            items[-1].append(token)
        while sum(one.form not in INSIDE for one in items[-1]) > MAX_ITEM_TOKENS:
            items[-1].pop(0 if len(items) == 1 else -1)


def _phrase(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the words up to the first that joins another phrase: of "curved fingers of the hand" the fingers."""
    end = next((place for place, token in enumerate(tokens) if place and token.form in INSIDE), len(tokens))
    return tokens[:end]


def _trimmed(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return words without those at both ends that belong inside a mention only, as "of"."""
    kept = [place for place, token in enumerate(tokens) if token.form not in INSIDE]
    return tokens[kept[0] : kept[-1] + 1] if kept else []


# Words of a phrase, and letters of a short form.
MAX_WINDOW_WORDS, LONGEST_SHORT_FORM = 7, 8
# Cosine of character n-grams of the nearest name, 0 to 1, at least.
LETTERS = 0.6
# Share of a window's words whose roots stand in names, at least.
KNOWN = 0.6
_BAND = re.compile(r"(?:[0-9]{1,2}|[xy])[pq][0-9]+")
UNKNOWN = -1
_CAPITALS = re.compile(r"[A-Z][A-Za-z0-9]*[A-Z0-9]s?")
# Words that no phrase has which is no name.
_LOOSE = CONJUNCTIONS | WORDS["loose"]


class Windows:
    """Finds the windows of texts that an index may have an answer for."""

    def __init__(self, index: Index, knows: Callable[[str], bool]) -> None:
        self.index, self.knows = index, knows
        self._common = frozenset(whole_words(index.model_path)[0])

    def of(self, text: str, sentence: Sentence) -> list[Place]:
        """Return the windows of a sentence that pass the screen of words."""
        found = []
        for phrase in _phrases(sentence.tokens):
            if any(_BAND.fullmatch(token.form) for token in phrase):
                # "Chromosome 2q35" is a place, whatever syndrome has its name.
                continue
            known = [self.knows(token.form) for token in phrase]
            for first, last in _bounds(phrase):
                words, after = phrase[first : last + 1], phrase[last + 1 : last + 2]
                is_one = first == last
                if (is_one and words[0].form in self._common) or any(token.form in _LOOSE for token in words):
                    # A common word that is no name means something else.
                    continue
                if after and (after[0].form == "of" or (known[last + 1] and after[0].form not in INSIDE)):
                    # "Deficiency of a hepatic" enzyme.
                    continue
                place = Place(words[0].start, words[-1].end)
                is_short = is_one and is_short_form(text[place.start : place.end])
                if is_short or sum(known[first : last + 1]) >= KNOWN * len(words):
                    found.append(place)
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
