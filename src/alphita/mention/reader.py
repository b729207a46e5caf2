"""Reads mentions: one frozen record for each, a whole batch per call."""

from __future__ import annotations

import copy
import functools
import itertools
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from alphita.index.kept import kept
from alphita.index.lookup import MAX_ENCODED_CHARACTERS, WHOLE, View
from alphita.index.out_of_scope_names import Words
from alphita.index.store import Index
from alphita.mention import assertion, axes, laboratory_tests
from alphita.mention.abbreviations import Abbreviations, Expansion
from alphita.mention.axes import Habits, classified, habits_of
from alphita.mention.imaging import Imaging
from alphita.mention.laboratory import Laboratory
from alphita.mention.laboratory_tests import LaboratoryTests, Measurement
from alphita.mention.products import Products
from alphita.mention.spelling import (
    ABBREVIATION,
    BROADER,
    NOT_ALONE,
    SPELLING,
    UNILATERAL,
    Reading,
    Speller,
    shortened,
    with_own_status,
    written_otherwise,
)
from alphita.mention.words import OnDemand, common_words, english_words
from alphita.terminology.rules import negation
from alphita.terminology.rules.lexicon import read
from alphita.terminology.text import clean_many

# Standings of terms with exact scope (see `index.segment`).
EXACT_STANDING = 2
# Maximum capitals in a short form.
SHORT_CAPITALS = 6
# What a reader learns from all strings of an index; narrowed ones share it.
SHARED = ("_speller", "_imaging", "_products", "tests")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9&/-]*[A-Z0-9]")


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention and its readings.

    Attributes:
        text: the original text.
        string: cleaned, without its semantic tag; "" if nothing is left.
        language: BCP-47, or None.
        is_short: whether it consists of a few capitals.
        readings: other readings, expansions of abbreviations first.
        doubt: why no answer to it is accepted without review, a text with a label; "" if there is no reason.
        status: `axes.PAST`, `axes.FAMILY`, or 0; 0 also for what is past, if the terminology does not tell it apart.
        identifier: its CURIE, if it is an identifier.
        measurement: what it says about a laboratory test; None if the index has no tests.
        order: the reading that `string` is, if it is an order of a drug that names one product; None: the text itself.
    """

    text: str
    string: str
    language: str | None
    is_short: bool
    readings: tuple[Reading, ...]
    doubt: str
    status: int
    identifier: str | None
    measurement: Measurement | None = None
    order: Reading | None = None

    @property
    def assertion(self) -> str | None:
        """Why it does not affirm a finding, a text with a label; None if it does."""
        return assertion.doubt_of(self.text[:MAX_ENCODED_CHARACTERS])


def _expanded(string: str, expansions: Sequence[Reading]) -> frozenset[str]:
    """Return the words of a string that its first expansion replaces, which are no misspellings: "copd exac"."""
    return frozenset(string.split()).difference(expansions[0].string.split()) if expansions else frozenset()


class MentionReader:
    """Reads mentions with the names, the naming habits and the short forms of one index."""

    def __init__(self, index: Index, abbreviations: Abbreviations | None = None, *, respell: bool = False) -> None:
        self.index, self.abbreviations, self.respell = index, abbreviations, respell
        # Several threads may read at once; caches are filled only once, at the first reading.
        self._making = threading.Lock()

    def narrowed(self, index: Index) -> MentionReader:
        """Return a reader by fewer strings of the index; what takes seconds to learn from all of them is shared."""
        with self._making:
            for name in SHARED if self.respell else ():
                getattr(self, name)
            part = copy.copy(self)
        part.index, part._making = index, threading.Lock()
        part.__dict__.pop("_laboratory", None)
        return part

    def read(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None = None,
        languages: Sequence[str | None] | None = None,
        view: View = WHOLE,
    ) -> list[Mention]:
        """Read mentions, each with its context and language."""
        texts, parted = mentions, [laboratory_tests.parted(mention[:MAX_ENCODED_CHARACTERS]) for mention in mentions]
        mentions = [label for label, _, _ in parted]
        # Cleaning makes several of some characters.
        cleaned = [one[:MAX_ENCODED_CHARACTERS] for one in clean_many(mentions, self.index.rules)]
        cleaned = self._untagged(cleaned)
        readings = self._readings(mentions, cleaned, contexts, languages, view)
        of_values = self._read_orders(cleaned, readings, view) | self._read_imaging(cleaned, readings, view)
        of_values |= self._read_laboratory(cleaned, readings, view) | self._without_finding(cleaned)
        tests = self._read_tests(parted, cleaned, readings, of_values, view)
        doubts = self._doubts(cleaned, readings)
        of_values |= {row: assertion.TOO_LONG for row, text in enumerate(texts) if len(text) > MAX_ENCODED_CHARACTERS}
        return [
            Mention(
                texts[row],
                string,
                languages[row] if languages is not None else None,
                len(mention) <= SHORT_CAPITALS and _CAPITALS.fullmatch(mention) is not None,
                readings[row],
                of_values.get(row) or doubts[row],
                self._status(string),
                assertion.identifier_of(mention),
                tests.get(row),
            )
            for row, (mention, string) in enumerate(zip(mentions, cleaned, strict=True))
        ]

    def _status(self, string: str) -> int:
        status = axes.status_of(string) if self.respell else 0
        return status if status != axes.PAST or self.habits.tells(status) else 0

    def _untagged(self, cleaned: Sequence[str]) -> list[str]:
        """Return cleaned strings without semantic tags, "seizure (disorder)", except names that contain one."""
        untagged = [assertion.without_tag(string) for string in cleaned]
        tagged = [row for row, string in enumerate(untagged) if string != cleaned[row]]
        rows = self.index.rows([cleaned[row] for row in tagged]) if tagged else ()
        names = {row for row, found in zip(tagged, rows, strict=True) if found >= 0}
        return [cleaned[row] if row in names else string for row, string in enumerate(untagged)]

    def _readings(
        self,
        mentions: Sequence[str],
        cleaned: Sequence[str],
        contexts: Sequence[str | None] | None,
        languages: Sequence[str | None] | None,
        view: View,
    ) -> list[tuple[Reading, ...]]:
        """Return the other readings of each mention: expansions of abbreviations, then words corrected."""
        found: list[tuple[Reading, ...]] = [()] * len(cleaned)
        for row, expansions in enumerate(self._expand(mentions, contexts, languages, view)):
            if expansions:
                strings = clean_many([expansion.string for expansion in expansions], self.index.rules)
                found[row] = tuple(
                    Reading(self._plain(string), ABBREVIATION, way.decided, way.share, way.source)
                    for string, way in zip(strings, expansions, strict=True)
                    if string
                )
        if not self.respell:
            return found
        with self._making:
            speller = self._speller
        right = [_expanded(string, some) for string, some in zip(cleaned, found, strict=True)]
        for row, readings in enumerate(speller.readings(cleaned, view.words(range(len(cleaned))), right)):
            found[row] += readings
        others = [
            (row, Reading(other, source))
            for row, string in enumerate(cleaned)
            for whole in dict.fromkeys((string, shortened(string)))
            for other, source in written_otherwise(whole, speller.habits)
        ]
        others += [(row, Reading(other, SPELLING)) for row, other in speller.of_words(cleaned)]
        for row, reading in self._indexed(others, view):
            # With "unilateral ptosis" in the index, "left ptosis" does not mean ptosis in general.
            name = reading.string.removeprefix(UNILATERAL)
            found[row] = (*(one for one in found[row] if one.string != name or one == reading), reading)
        return found

    def misspelt(self, words: Iterable[str]) -> dict[str, str]:
        """Return the index's words for the cleaned words of a text that are misspelt."""
        with self._making:
            speller = self._speller
        return speller.misspelt(words) if self.respell else {}

    def _plain(self, string: str) -> str:
        """Return an expansion as the terminology writes it."""
        return (with_own_status(string, self.habits) if self.respell else None) or shortened(string) or string

    @functools.cached_property
    def _speller(self) -> Speller:
        segment, common = self.index.segment, functools.partial(common_words, self.index.model_path)
        elsewhere = Words(segment.elsewhere)
        return Speller(segment.word_counts, self.habits, OnDemand(common), OnDemand(english_words), elsewhere)

    @functools.cached_property
    def habits(self) -> Habits:
        """What the index's terminology tells apart."""
        found = kept(self.index.segment, "habits", ("mention/axes.py", "terminology"), self._habits)
        return Habits.of_json(str(found["habits"]))

    def _habits(self) -> dict[str, NDArray[np.str_]]:
        segment = self.index.segment
        is_class = classified(segment.concepts.column("id"), segment.concepts.column("name"))
        named = np.logical_or.reduceat(is_class[segment.term_concept], np.asarray(segment.offsets[:-1]))
        return {"habits": np.array(habits_of(self.index.strings.array, self.index.rows, named).as_json())}

    @functools.cached_property
    def _laboratory(self) -> Laboratory:
        segment = self.index.segment
        external = np.logical_and.reduceat(segment.borrowed, np.asarray(segment.offsets[:-1]))
        return Laboratory(self.index.rows, external)

    def _expand(
        self,
        mentions: Sequence[str],
        contexts: Sequence[str | None] | None,
        languages: Sequence[str | None] | None,
        view: View,
    ) -> list[list[Expansion]]:
        if self.abbreviations is None:
            return []
        expanded = self.abbreviations.expand_many(mentions, contexts, languages)
        for row, known in enumerate(view.variants(self.abbreviations)):
            # Only few mentions contain one, so few are examined again.
            if known is not self.abbreviations:
                context = contexts[row] if contexts is not None else None
                expanded[row] = known.expand(mentions[row], context, languages[row] if languages is not None else None)
        return expanded

    def _read_laboratory(
        self, cleaned: Sequence[str], readings: list[tuple[Reading, ...]], view: View
    ) -> dict[int, str]:
        """Replace other readings by the names for laboratory wordings; return the reasons for doubt."""
        if not self.respell:
            return {}
        with self._making:
            laboratory = self._laboratory
        values = {row: value for row, string in enumerate(cleaned) if (value := laboratory(string))}
        named = self._indexed([(row, reading) for row, value in values.items() for reading in value.readings], view)
        for row in values:
            readings[row] = tuple(reading for other, reading in named if other == row)
        return {row: value.doubt for row, value in values.items() if value.doubt}

    def _read_imaging(self, cleaned: Sequence[str], readings: list[tuple[Reading, ...]], view: View) -> dict[int, str]:
        """Replace the readings of orders of imaging by the procedures that they lead to; return the reasons for doubt.

        What is a name of the index stays as it is.
        """
        with self._making:
            imaging = self._imaging
        if not (self.respell and imaging.is_list):
            return {}
        named = [
            (row, reading)
            for row in np.flatnonzero(self.index.rows(cleaned) < 0).tolist()
            for reading in imaging.readings([cleaned[row], *(one.string for one in readings[row])])
        ]
        doubts: dict[int, str] = {}
        for row, some in itertools.groupby(self._indexed(named, view), key=itemgetter(0)):
            readings[row] = tuple(reading for _, reading in some)
            doubts |= {} if readings[row][0].decided else {row: NOT_ALONE}
        return doubts

    @functools.cached_property
    def _imaging(self) -> Imaging:
        return Imaging(self.index)

    def _read_orders(self, cleaned: Sequence[str], readings: list[tuple[Reading, ...]], view: View) -> dict[int, str]:
        """Replace the readings of orders of drugs by the products that they lead to, if the index has products.

        Returns:
            Why some are not accepted: what is found says less than the order.
        """
        if not (self.respell and self.habits.products):
            return {}
        with self._making:
            products = self._products
        if not products.is_list:
            return {}
        known = self.index.rows(cleaned) >= 0
        for row in np.flatnonzero(known).tolist():
            # "MG" in the name of a product is no short form.
            readings[row] = () if products.is_product(cleaned[row]) else readings[row]
        orders = [row for row, string in enumerate(cleaned) if not known[row] or products.is_brand(string)]
        named = [
            (row, reading)
            for row in orders
            for reading in products.readings([cleaned[row], *(one.string for one in readings[row])])
        ]
        doubts: dict[int, str] = {}
        for row, some in itertools.groupby(self._indexed(named, view), key=itemgetter(0)):
            readings[row] = tuple(reading for _, reading in some)
            doubts |= {row: NOT_ALONE} if readings[row][0].origin == BROADER else {}
        return doubts

    @functools.cached_property
    def _products(self) -> Products:
        return Products(self.index)

    def _read_tests(
        self,
        parted: Sequence[tuple[str, str, str]],
        cleaned: Sequence[str],
        readings: list[tuple[Reading, ...]],
        doubts: dict[int, str],
        view: View,
    ) -> dict[int, Measurement]:
        """Add the names of the laboratory tests that labels mean, and the reasons for doubt; return what each says."""
        with self._making:
            tests = self.tests
        if not (self.respell and tests):
            return {}
        read = [tests.read(label, *measured) for label, *measured in parted]
        names = [(row, reading) for row, label in enumerate(read) for reading in label.readings if label.said.usual]
        known: dict[int, tuple[Reading, ...]] = {}
        for row, reading in self._indexed(names, view):
            known[row] = (*known.get(row, ()), reading)
        for row, label in enumerate(read):
            there = known.get(row, ()) if label.said.usual else label.readings
            if there and there[0].string != cleaned[row] and not self._names_test(cleaned[row]):
                readings[row] = (*there, *readings[row])
                # "Na" is sodium here, and not "not available".
                doubts.pop(row, None)
                doubts |= {row: label.doubt} if label.doubt else {}
        return {row: label.said for row, label in enumerate(read)}

    def _names_test(self, string: str) -> bool:
        """Tell whether a cleaned string is an exact name of a single concept, and this is a laboratory test."""
        segment = self.index.segment
        row = int(segment.strings.rows([string])[0])
        terms = slice(segment.offsets[row], segment.offsets[row + 1]) if row >= 0 else slice(0, 0)
        named = np.unique(segment.term_concept[terms])
        exact = segment.standing[terms] < EXACT_STANDING
        return len(named) == 1 and bool(exact.any()) and self.tests.axes(int(named[0])) is not None

    @functools.cached_property
    def tests(self) -> LaboratoryTests:
        """The laboratory tests of the index."""
        return LaboratoryTests(self.index.segment.concepts)

    def _without_finding(self, cleaned: Sequence[str]) -> dict[int, str]:
        """Flag placeholder mentions such as "n/a", unless a term has this name."""
        empty = [row for row, string in enumerate(cleaned) if self.respell and assertion.is_no_finding(string)]
        found = self.index.rows([cleaned[row] for row in empty]) if empty else ()
        return {row: assertion.NOTHING for row, known in zip(empty, found, strict=True) if known < 0}

    def _indexed(self, found: list[tuple[int, Reading]], view: View) -> list[tuple[int, Reading]]:
        """Return the readings that are available strings of the index, with the rows of their mentions."""
        if not found:
            return []
        rows = self.index.rows([reading.string for _, reading in found])
        is_there = view.is_there(self.index, rows, np.array([row for row, _ in found]))
        return [found[place] for place in np.flatnonzero((rows >= 0) & is_there).tolist()]

    def _doubts(self, cleaned: Sequence[str], readings: Sequence[Sequence[Reading]]) -> list[str]:
        """Return the reason for doubt about each mention: it denies a finding, is normal, or names several concepts.

        "Heart sounds normal" names no finding; a short form can mean a denial ("NKDA", no known drug allergies).
        """
        names = self.index.segment.strings.rows
        several, absent = assertion.name_several(cleaned, names), assertion.names_that_are_absent(cleaned, names)
        doubts = []
        for row, string in enumerate(cleaned):
            if row in absent or negation.is_denial(string):
                doubts.append(assertion.DENIED)
            elif assertion.is_well(string):
                doubts.append(assertion.WELL)
            elif several[row]:
                doubts.append(assertion.SEVERAL)
            elif " " not in string and any(
                negation.begins_with_denial(read(reading.string))
                for reading in readings[row]
                if reading.source == ABBREVIATION and reading.string != string
            ):
                doubts.append(assertion.DENIED)
            else:
                doubts.append("")
        return doubts
