"""Cues in notes: words that mark a finding as negated, possible, family, historical or hypothetical.

`cues_LANGUAGE.tsv` has one rule per line, for free text (`annotation.context`) and for mentions (`assertion`); the
words of a phrase are without accents and in lower case, and the signs ? ; : ( ) - + and the full stop are words too;
with "is/was not seen" a line has two phrases.
At each position the longest phrase counts, and the words that it covers count for no other rule.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from alphita import textio
from alphita.errors import InputError
from alphita.terminology import languages
from alphita.terminology.rules.lexicon import REMEMBERED, bare
from alphita.terminology.text import clean

Category = Literal["negated", "possible", "family", "historical", "hypothetical"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
FIELDS = ("phrase", "category", "direction", "reach")
PSEUDO, END, CLAUSE, UNCLEAR = "pseudo", "end", "clause", "unclear"
OTHERS = (PSEUDO, END, CLAUSE, UNCLEAR)
AHEAD, SECTION = "ahead", "section"
DIRECTIONS = (AHEAD, "back", "both", SECTION)
_FREE = re.compile(r"(?<=\w{4})(?:frei(?:e[mnrs]?)?|free)\Z")
_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*|[?¿;:()+]|(?<![^\W_])[-–](?![^\W\d_])|\.(?=\s|$)|,")
# Maximum characters of a mention that are examined: more than the longest phrase has.
LOOKED_AT = 80
# Words after a relative who has the finding: "mother had migraine", "mother's migraine".
_HAVING = frozenset({"has", "had", "with", "s"})
# Cues that can be the finding itself.
ABSENCE = (
    *("absent", "absents", "absente", "absentes", "assente", "assenti", "ausente", "ausentes", "abwesend"),
    *("fehlt", "fehlen"),
)


class Rule(NamedTuple):
    """A rule.

    Attributes:
        category: one of the five; `pseudo`: looks like a cue but is not one; `end`: reaches end here, those of the
            category in `direction`, or all; `clause`: the first clause of a sentence that begins so, up to the first
            comma, and the reaches that begin in it, end there; `unclear`: what it reaches is not accepted, unless the
            same word says something of another mention.
        direction: `ahead`, `back`, `both`; `section`: ahead, and as a heading up to the next blank line or heading.
        reach: words, at most; None: to the end of the sentence.
    """

    category: str
    direction: str
    reach: int | None


class Word(NamedTuple):
    """A word or sign of a text."""

    start: int
    end: int
    word: str


def words(string: str, start: int = 0) -> list[Word]:
    """Return words and signs, cleaned and bare; their places count from `start`."""
    found = []
    for one in _WORD.finditer(string):
        word = one[0]
        if len(word) > 1 or word.isalnum():
            word = _cleaned(word)
        else:
            word = "-" if word == "–" else "?" if word == "¿" else word
        free = _FREE.search(word)
        if free is not None and len(word) == one.end() - one.start():
            # "fieberfrei"
            cut = start + one.start() + free.start()
            found += [Word(start + one.start(), cut, word[: free.start()]), Word(cut, start + one.end(), free[0][:4])]
        else:
            found.append(Word(start + one.start(), start + one.end(), word))
    return found


@functools.lru_cache(maxsize=REMEMBERED)
def _cleaned(word: str) -> str:
    return bare(clean(word)) or word


Phrase = tuple[str, ...]
"""The words and signs of a cue."""


def read(path: Path | None = None) -> Sequence[tuple[str, Phrase, Rule]]:
    """Return language, phrase and rule of a file, whose language is "", or of those that come with Alphita."""
    if path is None:
        return _packaged()
    parsed = _parsed(textio.read_text(path), str(path))
    return [("", tuple(word.word for word in words(phrase)), rule) for phrase, rule in parsed]


@functools.cache
def _packaged() -> list[tuple[str, Phrase, Rule]]:
    folder = importlib.resources.files(__package__)
    tables = [(one, f"cues_{one}.tsv") for one in languages.CLINICAL]
    return [
        (language, tuple(phrase.split()), rule)
        for language, name in tables
        for phrase, rule in _parsed(folder.joinpath(name).read_text(encoding="utf-8"), name)
    ]


def beginning(mention: str) -> Category | None:
    """Return the assertion given by a mention's first words, such as possible or family; otherwise None."""
    phrases, longest = _beginnings()
    looked_at = mention[:LOOKED_AT]
    # Most mentions begin with the word of no cue.
    if (first := words("".join(looked_at.split(None, 1)[:1]))) and first[0].word not in longest:
        return None
    tokens = [word.word for word in words(looked_at)]
    for size in range(min(longest.get(tokens[0], 0) if tokens else 0, len(tokens)), 0, -1):
        for rule in phrases.get(tuple(tokens[:size]), ()):
            if rule.category == "possible" or rule.direction == SECTION or set(tokens[size : size + 1]) & _HAVING:
                category: Category = rule.category  # type: ignore[assignment]
                return category
    return None


def ending(mention: str) -> Category | None:
    """Return the assertion given by a mention's last words, such as negated or possible; otherwise None."""
    phrases, most, lasts = _endings()
    looked_at = mention[-LOOKED_AT:].rstrip(" .") + "."
    last = words(looked_at.rsplit(None, 1)[-1])
    if len(last) > 1 and last[-2].word not in lasts:
        return None
    tokens = [word.word for word in words(looked_at)]
    for size in range(min(most, len(tokens)), 0, -1):
        if category := phrases.get(tuple(tokens[-size:])) or phrases.get(tuple(tokens[-size - 1 : -1])):
            return category
    return None


@functools.cache
def _endings() -> tuple[dict[tuple[str, ...], Category], int, frozenset[str]]:
    """Return the categories by the words with which a mention can end, their maximum number, and the last of each,
    before a full stop."""
    found: dict[Phrase, Category] = {}
    for _, tokens, rule in read():
        if rule.category in CATEGORIES and rule.direction == "back" and (len(tokens) > 1 or tokens[0] not in ABSENCE):
            found[tokens] = rule.category
    return found, max(map(len, found)), frozenset(tokens[-2 if tokens[-1] == "." else -1] for tokens in found)


@functools.cache
def _beginnings() -> tuple[dict[tuple[str, ...], list[Rule]], dict[str, int]]:
    """Return the rules by the words with which a mention can begin, and the maximum number of words by first word."""
    found: dict[tuple[str, ...], list[Rule]] = {}
    longest: dict[str, int] = {}
    for _, tokens, rule in read():
        if rule.category in ("possible", "family") and rule.direction in (AHEAD, SECTION):
            found.setdefault(tokens, []).append(rule)
            longest[tokens[0]] = max(len(tokens), longest.get(tokens[0], 0))
    return found, longest


def _parsed(text: str, file: str) -> list[tuple[str, Rule]]:
    """Return the rules of a table."""
    header, *rows = (line.removesuffix("\r").split("\t") for line in text.split("\n"))
    if tuple(header) != FIELDS:
        raise InputError(
            "this is no table of rules of context",
            file=file,
            line=1,
            value="\t".join(header),
            remedy=f"its first line must be {', '.join(FIELDS)}, with tabs between them",
        )
    found = []
    for line, row in enumerate(rows, 2):
        if row == [""] or row[0].startswith("#"):
            continue
        phrases, rule = _rule([*row, *[""] * (len(FIELDS) - len(row))], file, line)
        found += [(" ".join(one), rule) for one in itertools.product(*(word.split("/") for word in phrases.split()))]
    if not found:
        raise InputError("there is no rule in this file", file=file, remedy="write a rule a line, or leave it out")
    return found


def _rule(row: Sequence[str], file: str, line: int) -> tuple[str, Rule]:
    def wrong(problem: str, field: str, value: str, remedy: str) -> InputError:
        return InputError(problem, file=file, line=line, field=field, value=value, remedy=remedy)

    if len(row) > len(FIELDS):
        raise wrong("too many cells", FIELDS[-1], row[len(FIELDS)], f"a rule has {len(FIELDS)}: {', '.join(FIELDS)}")
    phrase, category, direction, reach = (cell.strip() for cell in row)
    if not phrase.strip() or (not (phrase.isascii() and phrase.islower()) and not words(phrase)):
        raise wrong("a rule without a phrase", "phrase", phrase, "write the words of the cue")
    categories = [*get_args(Category), *OTHERS]
    if category not in categories:
        raise wrong("unknown category", "category", category, f"choose from {categories}")
    allowed = {END: ("", *CATEGORIES), PSEUDO: ("",), CLAUSE: ("",)}.get(category, DIRECTIONS)
    if direction not in allowed:
        raise wrong("unknown direction", "direction", direction, f"for {category} choose from {list(allowed)}")
    if reach and not textio.whole_number(reach):
        raise wrong("no number of words", "reach", reach, "write a whole number from 1, or nothing")
    return phrase, Rule(category, direction, int(reach) if reach else None)
