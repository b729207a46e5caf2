"""Phrases that are no name but may mean a concept, for the encoder and the ranker to judge.

A window has at most `MAX_WORDS` words of one phrase, begins and ends with a word that says something, and holds no
verb or pronoun (`function_words`). Two screens come before the encoder, for it is what takes time: the words (how many
of the window's stand in names of the index), and the letters (how near the nearest name is by character n-grams).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from alphita.annotation.spans import Place
from alphita.annotation.tokens import CONJUNCTIONS, INSIDE, OUTSIDE, Sentence, Token, root
from alphita.index.store import Index
from alphita.mention.words import whole_words
from alphita.terminology.text import clean_many

MAX_WORDS = 7
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
        for last in range(first, min(first + MAX_WORDS, len(phrase))):
            form = phrase[last].form
            is_one_sign = first == last and (len(form) < 2 or form.isdecimal())
            if form not in INSIDE and not is_one_sign:
                yield first, last
