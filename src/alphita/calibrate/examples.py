"""Examples to fit ranker and calibrator with, made of an index's own strings: no labels are needed.

    synonym        a string of a concept, taken as not there: a paraphrase that its other names must answer
    noise          a string with slips and words lost, as real data have them (see `noise`), or with a short form in it
    noisy synonym  both
    itself         a string that is there, to learn what an equal string is worth where several concepts share it
    removed        a string of a concept all of whose names are taken as not there: NIL, though others look alike
    foreign        words and invented words of the encoder's own vocabulary, which name nothing here: NIL
    labelled       a mention that a person mapped

An encoder that was trained on a synonym places it too well. So only held-out strings serve as "synonym", unless the
encoder never saw this terminology. A borrowed name is not taken away: whoever asks has it, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import textio
from alphita.calibrate.noise import LEAD_INS, noisy
from alphita.errors import InputError
from alphita.index.segment import Segment
from alphita.index.store import Index
from alphita.mention.words import whole_words
from alphita.terminology.text import clean, clean_many

SYNONYM, NOISE, NOISY_SYNONYM, ITSELF, REMOVED, FOREIGN, LABELLED = KINDS = (
    "synonym",
    "noise",
    "noisy synonym",
    "itself",
    "removed",
    "foreign",
    "labelled",
)
# How often at most each kind is drawn.
MAX_SYNONYMS = 8_000
MAX_NOISE = 6_000
MAX_ITSELF = 2_000
MAX_ABBREVIATED = 1_500
# Words of a long form, at most.
LONGEST_FORM = 6
COMMON_WORDS = 3_000
# Whoever asks a terminology for a short form means what it has oftener than the short form's shares say.
MEANT_ELSEWHERE = 0.5
LED_IN = 0.3
# NIL examples of each of the two kinds, as a share of the others.
NIL_SHARE = 0.15


class Examples(NamedTuple):
    """Mentions whose answer is known.

    Attributes:
        concepts: (n,) int64 the right concept's row in the index; -1: NIL.
        hidden_strings: (n,) int64 a string of the index that is taken as not there; -1 for none.
        hidden_concepts: (n,) int64 a concept that is taken as not there; -1 for none.
    """

    mentions: list[str]
    concepts: NDArray[np.int64]
    hidden_strings: NDArray[np.int64]
    hidden_concepts: NDArray[np.int64]
    kinds: list[str]

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Examples:
        """Return some of them."""
        places = np.asarray(rows, np.int64)
        return Examples(
            [self.mentions[row] for row in places],
            self.concepts[places],
            self.hidden_strings[places],
            self.hidden_concepts[places],
            [self.kinds[row] for row in places],
        )


def at_most(some: Examples, most: int, *, seed: int) -> Examples:
    """Return so many of each kind, drawn; labelled mentions all."""
    kinds = np.array(some.kinds)
    chance = np.random.default_rng(seed)
    parts = [
        rows if kind == LABELLED else chance.permutation(rows)[:most]
        for kind in KINDS
        for rows in [np.flatnonzero(kinds == kind)]
    ]
    return some.take(np.sort(np.concatenate(parts)))


def join(parts: Sequence[Examples]) -> Examples:
    """Return several as one."""
    columns = [np.concatenate([part[place] for part in parts]).astype(np.int64) for place in (1, 2, 3)]
    return Examples(
        [mention for part in parts for mention in part.mentions],
        columns[0],
        columns[1],
        columns[2],
        [kind for part in parts for kind in part.kinds],
    )


def synonyms(index: Index, strings: Sequence[str], concepts: NDArray[np.int64]) -> Examples:
    """Return strings with their concepts; one that is indexed is taken as not there."""
    rows = _own_rows(index, clean_many(strings, index.rules))
    return Examples(list(strings), np.asarray(concepts, np.int64), rows, np.full(len(rows), -1), [SYNONYM] * len(rows))


def _own_rows(index: Index, cleaned: Sequence[str]) -> NDArray[np.int64]:
    """Return the row of each string that the terminology has itself, -1 for any other."""
    rows, segment = index.rows(cleaned), index.segment
    return np.where((rows >= 0) & ~segment.borrowed[segment.offsets[np.maximum(rows, 0)]], rows, -1)


def own_synonyms(index: Index, *, seed: int, most: int = MAX_SYNONYMS) -> tuple[list[str], NDArray[np.int64]]:
    """Return strings of the index that name one concept, exactly, which has other strings, with their concepts."""
    segment = index.segment
    term, concept = _of_one_concept(segment)
    own = np.asarray(segment.term_concept)[~segment.borrowed]
    several = np.bincount(own, minlength=len(segment.concepts)) > 1
    preferred = np.asarray(segment.terms.column("preferred").to_numpy(zero_copy_only=False))
    return _drawn(index, np.where(several[concept] & ~preferred[term], concept, -1), seed, most)


def own_names(index: Index, *, seed: int, most: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return strings of the index that name one concept, exactly, preferred names among them, with their concepts."""
    return _drawn(index, _of_one_concept(index.segment)[1], seed, most)


def _of_one_concept(segment: Segment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each string its first term, and the concept that it names exactly; -1 where that is not one alone."""
    term = np.asarray(segment.offsets[:-1])
    exact = pc.equal(segment.terms.column("scope").cast("string"), "exact").to_numpy(zero_copy_only=False)
    single = (np.diff(segment.offsets) == 1) & exact[term] & ~segment.borrowed[term]
    return term, np.where(single, segment.term_concept[term].astype(np.int64), -1)


def _drawn(index: Index, concept: NDArray[np.int64], seed: int, most: int) -> tuple[list[str], NDArray[np.int64]]:
    """Draw so many of the strings with a concept, (n_strings,), -1: none."""
    rows = np.flatnonzero(concept >= 0)
    rows = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:most])]
    return [index.strings[row] for row in rows.tolist()], concept[rows]


def with_noise(index: Index, strings: Sequence[str], concepts: NDArray[np.int64], *, hide: bool, seed: int) -> Examples:
    """Return each string with noise, unless it then equals a string of the index.

    Args:
        concepts: (n,) their concepts' rows.
    """
    made = [noisy(clean(string, index.rules), random.Random(f"{seed} {string}")) for string in strings]
    own = _own_rows(index, clean_many(strings, index.rules))
    there = index.rows(clean_many(made, index.rules))
    kept = np.flatnonzero(there < 0)
    hidden = own[kept] if hide else np.full(len(kept), -1)
    return Examples(
        [made[row] for row in kept.tolist()],
        np.asarray(concepts, np.int64)[kept],
        hidden,
        np.full(len(kept), -1),
        [NOISY_SYNONYM if hide else NOISE] * len(kept),
    )


def abbreviated(index: Index, strings: Sequence[str], concepts: NDArray[np.int64], *, most: int, seed: int) -> Examples:
    """Return strings with a part written as one of the clinic's short forms, which must be led back to them.

    Args:
        concepts: (n,) their concepts' rows.
    """
    chance = random.Random(seed)
    made: list[str] = []
    rows: list[int] = []
    forms = _by_long_form(index)
    for row, string in enumerate(strings if forms else ()):
        words = string.split()
        n = len(words)
        spans = [(start, end) for start in range(n) for end in range(start + 1, min(n, start + LONGEST_FORM) + 1)]
        fitting = [(span, forms[key]) for span in spans if (key := " ".join(words[span[0] : span[1]])) in forms]
        if not fitting or len(made) == most:
            continue
        (start, end), choices = max(fitting, key=lambda pair: pair[0][1] - pair[0][0])
        short, share = chance.choice(choices)
        if chance.random() < share:
            made.append(" ".join([*words[:start], short, *words[end:]]))
            rows.append(row)
    absent = np.flatnonzero(index.rows(clean_many(made, index.rules)) < 0) if made else np.zeros(0, np.int64)
    nothing = np.full(len(absent), -1)
    of = np.asarray(concepts, np.int64)[np.array(rows, np.int64)[absent]]
    return Examples([made[row] for row in absent.tolist()], of, nothing, nothing, [NOISE] * len(absent))


def short_forms(index: Index, is_wanted: Callable[[int], bool], *, most: int, seed: int) -> Examples:
    """Return short forms that stand alone, each with one of its meanings, drawn by its shares; many mean nothing
    here."""
    chance = random.Random(f"{seed} short forms")
    forms = _by_long_form(index)
    concept = dict(zip(forms, _of_strings(index, list(forms)).tolist(), strict=True))
    meanings: dict[str, list[tuple[int, float]]] = {}
    for long, some in forms.items():
        for short, share in some:
            meanings.setdefault(short, []).append((concept[long], share))
    made: list[str] = []
    of: list[int] = []
    for short, choices in meanings.items():
        if all(one < 0 for one, _ in choices):
            continue
        # What no list has is elsewhere.
        choices.append((-1, max(0.0, 1 - sum(share for _, share in choices))))
        weights = [share if one >= 0 else MEANT_ELSEWHERE * share for one, share in choices]
        found = chance.choices([one for one, _ in choices], weights)[0]
        if is_wanted(found) if found >= 0 else crc32(short.encode()) % 2 == seed % 2:
            made.append(f"{chance.choice(LEAD_INS)} {short}" if chance.random() < LED_IN else short)
            of.append(found)
    kept = np.flatnonzero(index.rows(clean_many(made, index.rules)) < 0) if made else np.zeros(0, np.int64)
    kept = np.sort(np.random.default_rng(seed).permutation(kept)[:most])
    nothing = np.full(len(kept), -1)
    rows = np.array(of, np.int64)[kept] if made else kept
    kinds = [FOREIGN if one < 0 else NOISE for one in rows.tolist()]
    return Examples([made[row] for row in kept.tolist()], rows, nothing, nothing, kinds)


def _of_strings(index: Index, cleaned: Sequence[str]) -> NDArray[np.int64]:
    """Return the first concept of each string of the index, -1 for any other string."""
    rows, segment = index.rows(cleaned), index.segment
    return np.where(rows >= 0, segment.term_concept[segment.offsets[np.maximum(rows, 0)]], -1).astype(np.int64)


def _by_long_form(index: Index) -> dict[str, list[tuple[str, float]]]:
    """Return the short forms of each cleaned long form, each with how often it means that."""
    table = index.segment.short_forms
    found: dict[str, list[tuple[str, float]]] = {}
    for row in table.to_pylist() if table is not None else ():
        if row["language"] in (None, "", "en"):
            found.setdefault(clean(row["long"], index.rules), []).append((row["short"], row["share"]))
    return found


def itself(strings: Sequence[str], concepts: NDArray[np.int64]) -> Examples:
    """Return strings that are in the index, as they are."""
    n = len(strings)
    return Examples(list(strings), np.asarray(concepts, np.int64), np.full(n, -1), np.full(n, -1), [ITSELF] * n)


def removed(strings: Sequence[str], concepts: NDArray[np.int64]) -> Examples:
    """Return strings whose concept, with all its names, is taken as not there."""
    n = len(strings)
    return Examples(list(strings), np.full(n, -1), np.full(n, -1), np.asarray(concepts, np.int64), [REMOVED] * n)


def foreign(index: Index, n: int, *, seed: int) -> Examples:
    """Return n strings that name nothing in the index: names of other vocabularies, words, and invented ones."""
    named = _elsewhere(index, n // 2, seed) if len(index.segment.elsewhere) else []
    n -= len(named)
    whole, pieces = whole_words(index.model_path)
    chance = random.Random(f"{seed} foreign")
    made: list[str] = []
    while len(made) < n and whole:
        kind = chance.randrange(4) if pieces else chance.choice((0, 3))
        invented = chance.choice(whole)[:5] + "".join(chance.choices(pieces, k=chance.randint(1, 2))) if pieces else ""
        words = [chance.choice(whole) for _ in range(chance.randint(1, 3))]
        if kind == 1:
            words = [invented]
        elif kind == 2:
            words = [invented, *words[:1], *([str(chance.randint(1, 500))] if chance.random() < 0.5 else [])]
        elif kind == 3:
            words = [chance.choice(whole[:COMMON_WORDS]) for _ in range(chance.randint(2, 6))]
        made.append(" ".join(words))
    absent = index.rows(clean_many(made, index.rules)) < 0
    mentions = named + [mention for mention, kept in zip(made, absent, strict=True) if kept]
    nothing = np.full(len(mentions), -1)
    return Examples(mentions, nothing, nothing, nothing, [FOREIGN] * len(mentions))


def _elsewhere(index: Index, n: int, seed: int) -> list[str]:
    """Return names of other vocabularies' concepts that the index lacks, every second with noise."""
    from alphita.index.external_names import shipped_lender
    from alphita.index.out_of_scope_names import absent

    names = absent(shipped_lender().names, index.strings.array)["key"]
    rows = np.sort(np.random.default_rng(seed).permutation(len(names))[:n]).tolist()
    drawn = [names[row] for row in rows]
    made = [noisy(one, random.Random(f"{seed} {one}")) if row % 2 else one for row, one in enumerate(drawn)]
    there = index.rows(clean_many(made, index.rules))
    return [mention for mention, row in zip(made, there.tolist(), strict=True) if row < 0]


COLUMNS = ("mention", "concept_id")
NO_CONCEPT = "NIL"


class Label(NamedTuple):
    """A mention that a person mapped; `concept_id` None: no concept fits."""

    mention: str
    concept_id: str | None


def read_labels(path: Path) -> list[Label]:
    """Read a CSV (or TSV, by its name) with the columns mention and concept_id; "NIL" for a mention of no concept."""
    found = []
    for line, (mention, concept) in textio.columns(path, COLUMNS):
        if not mention or not concept:
            name = "mention" if not mention else "concept_id"
            remedy = f"fill it in, or drop the row; {NO_CONCEPT} says that no concept fits"
            raise InputError("a row without a value", file=path, line=line, field=name, remedy=remedy)
        found.append(Label(mention, None if concept == NO_CONCEPT else concept))
    if not found:
        raise InputError("holds no labelled mention", file=path)
    return found
