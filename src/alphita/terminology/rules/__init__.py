"""Contradictions between a mention and the term of a candidate.

A rule reads one attribute (side, course, number, ...) from a string. Two strings contradict each other in it if both
speak of it and nothing that one leaves open is left open by the other: "left" against "right", "500 mg" against
"250 mg", but not "limb" against "arm". Where only one speaks of it, nothing is contradicted: its meaning is narrower.

Strings come without a language, so a rule looks for the words of all languages that `lexicon.tsv` has for it. A word
missing there makes the rule silent, never wrong. Reading is Python and done once a distinct string; a reading is one
int64, and comparing is NumPy over millions of pairs. The codes depend on the rules alone, not on the process.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita import registry
from alphita.errors import UsageError
from alphita.terminology.rules import negation, number, sets, stage, strength
from alphita.terminology.rules.lexicon import READ_AGAIN, REMEMBERED, Codes, Flags, Found, Text, joined, read

Bits = NDArray[np.uint16]


class Rule(Protocol):
    """What a rule's module offers.

    Attributes:
        VETO: whether a contradiction keeps a candidate from being accepted without review.
        concerns: tells whether a string with this word (without accents) must be read; asked once a distinct word.
        find: what a string says of the attribute, in order.
        code: one code, 0 to 2^63 - 1, of the values found, whatever their order; 0 says nothing.
        speaks: which codes say something of the attribute.
        contradict: which pairs of codes exclude each other; symmetric, and false for two equal codes.
        agree: which pairs of codes, both speaking, have a value in common; symmetric.
    """

    VETO: bool

    def concerns(self, word: str, /) -> bool: ...
    def find(self, text: Text, /) -> list[Found]: ...
    def code(self, values: Sequence[int], /) -> int: ...
    def speaks(self, codes: Codes, /) -> Flags: ...
    def contradict(self, left: Codes, right: Codes, /) -> Flags: ...
    def agree(self, left: Codes, right: Codes, /) -> Flags: ...


@dataclass(frozen=True)
class Profiles:
    """What each of n strings says, by every rule.

    Attributes:
        rules: names of the r rules, in the order of the columns.
        codes: (n, r) int64.
        speaks: (n,) uint16; bit k is set where the string says something of rule k's attribute.
    """

    rules: tuple[str, ...]
    codes: Codes
    speaks: Bits


@dataclass(frozen=True)
class Comparison:
    """Pairs of strings compared; each a (pairs,) uint16 whose bit k is rule k's. At most one of the four is set.

    None is set where neither speaks of the attribute, or both do of different sides of it ("type 2", "stage 3").

    Attributes:
        rules: names of the rules, in the order of the bits.
        contradicts: both speak of the attribute and exclude each other (negation: one affirms what the other denies).
        mention_only: only the mention speaks of it: the term is broader there.
        term_only: only the term speaks of it: the term is narrower there.
    """

    rules: tuple[str, ...]
    contradicts: Bits
    mention_only: Bits
    term_only: Bits
    agrees: Bits


class Contradiction(NamedTuple):
    """One contradiction of a mention and a term, for explanations.

    Attributes:
        text: all of it in one line: "laterality: 'left' against 'right'".
    """

    rule: str
    mention_words: str
    term_words: str
    veto: bool
    text: str


# In the order of the features' bits.
RULES: Mapping[str, Rule] = {
    "age_group": sets.AGE_GROUP,
    "body_site": sets.BODY_SITE,
    "contrast": sets.CONTRAST,
    "course": sets.COURSE,
    "degree": sets.DEGREE,
    "dose_form": sets.DOSE_FORM,
    "laterality": sets.LATERALITY,
    "negation": negation,
    "number": number,
    "opposite": sets.OPPOSITE_END,
    "residual": sets.RESIDUAL,
    "route": sets.ROUTE,
    "sex": sets.SEX,
    "stage": stage,
    "status": sets.STATUS,
    "strength": strength,
}


class Profiler:
    """Reads strings by all rules, or by the named ones, and compares the readings.

    Attributes:
        rules: names of the rules, in the order of columns and bits.
    """

    def __init__(self, rules: Sequence[str] | None = None) -> None:
        self.rules = tuple(RULES if rules is None else rules)
        if unknown := [name for name in self.rules if name not in RULES]:
            raise UsageError(registry.unknown("rule", unknown[0], RULES))
        self._rules = tuple(RULES[name] for name in self.rules)
        self._asked = functools.lru_cache(REMEMBERED)(
            lambda word: sum(1 << column for column, rule in enumerate(self._rules) if rule.concerns(word))
        )
        # A mention is explained beside each of its candidates.
        self._found = functools.lru_cache(READ_AGAIN)(lambda column, text: self._rules[column].find(text))
        self.veto_mask = np.uint16(sum(1 << column for column, rule in enumerate(self._rules) if rule.VETO))

    def profile(self, strings: Sequence[str]) -> Profiles:
        """Read n strings, raw or cleaned: some microseconds for each."""
        rows: list[list[int]] = [[] for _ in self._rules]
        codes: list[list[int]] = [[] for _ in self._rules]
        for row, string in enumerate(strings):
            text = read(string)
            rules = self._concerning(text)
            while rules:
                column = (rules & -rules).bit_length() - 1
                rules &= rules - 1
                rule = self._rules[column]
                rows[column].append(row)
                codes[column].append(rule.code([found.value for found in rule.find(text)]))
        # Column by column, as they are compared.
        table = np.zeros((len(strings), len(self._rules)), dtype=np.int64, order="F")
        speaks = np.zeros(len(strings), dtype=np.uint16)
        for column, rule in enumerate(self._rules):
            # Most strings say nothing of most attributes.
            if rows[column]:
                table[rows[column], column] = codes[column]
                speaks |= rule.speaks(table[:, column]).astype(np.uint16) << np.uint16(column)
        return Profiles(self.rules, table, speaks)

    def _concerning(self, text: Text) -> int:
        """Return which rules must read a string, as bits."""
        return joined(map(self._asked, text.words))

    def compare(
        self, left: Profiles, left_rows: NDArray[np.integer], right: Profiles, right_rows: NDArray[np.integer]
    ) -> Comparison:
        """Compare mentions with terms, pair by pair.

        Args:
            left_rows: (pairs,) rows of `left`.
            right_rows: (pairs,) rows of `right`.
        """
        if left.rules != self.rules or right.rules != self.rules:
            raise ValueError(f"profiles of rules {left.rules} and {right.rules}, compared by {self.rules}")
        mention, term = left.speaks[left_rows], right.speaks[right_rows]
        either = mention | term
        contradicts, agrees = np.zeros((2, len(either)), dtype=np.uint16)
        for column, rule in enumerate(self._rules):
            bit = np.uint16(1 << column)
            if not len(pairs := np.flatnonzero(either & bit)):
                continue
            mine, other = left.codes[left_rows[pairs], column], right.codes[right_rows[pairs], column]
            clash = rule.contradict(mine, other)
            contradicts[pairs[clash]] |= bit
            both = (mention[pairs] & term[pairs] & bit != 0) & ~clash
            agrees[pairs[both][rule.agree(mine[both], other[both])]] |= bit
        rest = ~contradicts
        return Comparison(self.rules, contradicts, mention & ~term & rest, term & ~mention & rest, agrees)

    def explain(self, mention: str, term: str) -> list[Contradiction]:
        """Return every contradiction of one pair, with the words it comes from, in the order of the rules."""
        left, right = read(mention), read(term)
        # A rule reads only strings with a word that concerns it, and a string that says nothing contradicts none.
        both = self._concerning(left) & self._concerning(right)
        made = []
        for column, (name, rule) in enumerate(zip(self.rules, self._rules, strict=True)):
            if not both >> column & 1:
                continue
            mine, other = self._found(column, left), self._found(column, right)
            pair: list[Any] = [np.int64(rule.code([found.value for found in side])) for side in (mine, other)]
            if any(map(rule.speaks, pair)) and rule.contradict(*pair):
                mention_words, term_words = (", ".join(found.words for found in side) for side in (mine, other))
                text = f"{name}: {mention_words!r} against {term_words!r}"
                made.append(Contradiction(name, mention_words, term_words, rule.VETO, text))
        return made


class IndexedProfiles:
    """Compares mentions with the strings of an index by all rules; what its strings say is kept once they came up."""

    def __init__(self, strings: int) -> None:
        self.profiler = Profiler()
        self._codes = np.zeros((strings, len(self.profiler.rules)), np.int64)
        self._speaks, self._is_read = np.zeros(strings, np.uint16), np.zeros(strings, bool)

    def compare(
        self,
        mentions: Sequence[str],
        mention_rows: NDArray[np.int64],
        strings: NDArray[np.int64],
        texts: Sequence[str],
        string_rows: NDArray[np.int64],
    ) -> Comparison:
        """Compare mentions with some strings of the index, pair by pair.

        Args:
            mention_rows: (pairs,) rows of `mentions`.
            strings: (n,) rows of the index, whose `texts` are given.
            string_rows: (pairs,) rows of `strings`.
        """
        new = np.flatnonzero(~self._is_read[strings])
        if len(new):
            read_now = self.profiler.profile([texts[row] for row in new.tolist()])
            self._codes[strings[new]], self._speaks[strings[new]] = read_now.codes, read_now.speaks
            self._is_read[strings[new]] = True
        known = Profiles(self.profiler.rules, self._codes[strings], self._speaks[strings])
        return self.profiler.compare(self.profiler.profile(mentions), mention_rows, known, string_rows)

    def codes(self, rule: str, strings: NDArray[np.int64]) -> Codes:
        """Return what some strings of the index, compared before, say by one rule, (n,)."""
        return self._codes[strings, self.profiler.rules.index(rule)]


@functools.cache
def _all_rules() -> Profiler:
    return Profiler()


def explain(mention: str, term: str) -> list[Contradiction]:
    """Return every contradiction of one pair by any rule (`Profiler.explain`)."""
    return _all_rules().explain(mention, term)
