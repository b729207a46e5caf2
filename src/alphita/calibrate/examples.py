"""Examples for fitting the ranker and the calibrator, made from an index's strings; no labels are needed.

    synonym        a string of a concept, hidden from the index: a paraphrase that its other names must match
    noise          a string with misspellings and missing words, as in real data (see `noise`), or with a short form
    noisy synonym  both
    itself         an indexed string, to learn the value of an equal string that several concepts share
    removed        a string of a concept whose names are all hidden: NIL, although others look alike
    foreign        words and invented words from the encoder's vocabulary, which name no concept: NIL
    labelled       a mention that a person mapped

An encoder that was trained on a synonym is too good on it. So only held-out strings serve as "synonym", unless the
encoder has not seen this terminology. External names are not hidden, because they are also available to real queries.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import progress, textio
from alphita.calibrate.noise import LEAD_INS, noisy
from alphita.encoder.layout import has_learned
from alphita.errors import InputError, UsageError, shorten
from alphita.index.learning import is_held_back
from alphita.index.segment import Segment
from alphita.index.store import Index
from alphita.mention.short_forms import ENGLISH
from alphita.mention.words import whole_words
from alphita.spreadsheets import unguarded
from alphita.terminology.splits import Split
from alphita.terminology.text import clean, clean_many

KINDS = ("synonym", "noise", "noisy synonym", "itself", "removed", "foreign", "labelled")
SYNONYM, NOISE, NOISY_SYNONYM, ITSELF, REMOVED, FOREIGN, LABELLED = KINDS
# Maximum examples of each kind.
MAX_SYNONYMS = 8_000
MAX_NOISE = 6_000
MAX_ITSELF = 2_000
MAX_ABBREVIATED = 1_500
# Maximum words of a long form.
LONGEST_FORM = 6
COMMON_WORDS = 3_000
# Users of a terminology mean its concepts more often than the shares of a short form suggest.
MEANT_ELSEWHERE = 0.5
LED_IN = 0.3
# Share of the long forms of short forms that are hidden.
LONG_HIDDEN = 0.3
# NIL examples of each of the two kinds, relative to the others.
NIL_SHARE = 0.15


class Examples(NamedTuple):
    """Mentions whose answer is known.

    Attributes:
        concepts: (n,) int64 the index row of the correct concept; -1: NIL.
        hidden_strings, hidden_concepts: (n,) int64 hidden from the index; -1 for none.
    """

    mentions: list[str]
    concepts: NDArray[np.int64]
    hidden_strings: NDArray[np.int64]
    hidden_concepts: NDArray[np.int64]
    kinds: list[str]

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Examples:
        """Return some of the examples."""
        places = np.asarray(rows, np.int64)
        return Examples(
            [self.mentions[row] for row in places],
            self.concepts[places],
            self.hidden_strings[places],
            self.hidden_concepts[places],
            [self.kinds[row] for row in places],
        )


def at_most(some: Examples, most: int, *, seed: int) -> Examples:
    """Return a random sample of each kind, and all labelled mentions."""
    kinds = np.array(some.kinds)
    chance = np.random.default_rng(seed)
    parts = [
        rows if kind == LABELLED else chance.permutation(rows)[:most]
        for kind in KINDS
        for rows in [np.flatnonzero(kinds == kind)]
    ]
    return some.take(np.sort(np.concatenate(parts)))


def join(parts: Sequence[Examples]) -> Examples:
    """Return several sets as one."""
    columns = [np.concatenate([part[place] for part in parts]).astype(np.int64) for place in (1, 2, 3)]
    return Examples(
        [mention for part in parts for mention in part.mentions],
        columns[0],
        columns[1],
        columns[2],
        [kind for part in parts for kind in part.kinds],
    )


def synonyms(index: Index, strings: Sequence[str], concepts: NDArray[np.int64]) -> Examples:
    """Return strings with their concepts; indexed ones are treated as missing."""
    rows = _own_rows(index, clean_many(strings, index.rules))
    return Examples(list(strings), np.asarray(concepts, np.int64), rows, np.full(len(rows), -1), [SYNONYM] * len(rows))


def _own_rows(index: Index, cleaned: Sequence[str]) -> NDArray[np.int64]:
    """Return the row of each string that is a name of the terminology, -1 for others."""
    rows, segment = index.rows(cleaned), index.segment
    return np.where((rows >= 0) & ~segment.borrowed[segment.offsets[np.maximum(rows, 0)]], rows, -1)


def own_synonyms(index: Index, *, seed: int, most: int = MAX_SYNONYMS) -> tuple[list[str], NDArray[np.int64]]:
    """Return strings that are exact names of a single concept with other strings, and these concepts."""
    segment = index.segment
    term, concept = _of_one_concept(segment)
    own = np.asarray(segment.term_concept)[~segment.borrowed]
    several = np.bincount(own, minlength=len(segment.concepts)) > 1
    preferred = np.asarray(segment.terms.column("preferred").to_numpy(zero_copy_only=False))
    return _drawn(index, np.where(several[concept] & ~preferred[term], concept, -1), seed, most)


def own_names(index: Index, *, seed: int, most: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return strings that are exact names of a single concept, including preferred names, and these concepts."""
    return _drawn(index, _of_one_concept(index.segment)[1], seed, most)


def _of_one_concept(segment: Segment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first term of each string, and the only concept of which it is an exact name, or -1."""
    term = np.asarray(segment.offsets[:-1])
    exact = pc.equal(segment.terms.column("scope").cast("string"), "exact").to_numpy(zero_copy_only=False)
    single = (np.diff(segment.offsets) == 1) & exact[term] & ~segment.borrowed[term]
    return term, np.where(single, segment.term_concept[term].astype(np.int64), -1)


def _drawn(index: Index, concept: NDArray[np.int64], seed: int, most: int) -> tuple[list[str], NDArray[np.int64]]:
    """Draw a sample of the strings that have a concept, (n_strings,), -1: none."""
    rows = np.flatnonzero(concept >= 0)
    rows = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:most])]
    return [index.strings[row] for row in rows.tolist()], concept[rows]


def with_noise(index: Index, strings: Sequence[str], concepts: NDArray[np.int64], *, hide: bool, seed: int) -> Examples:
    """Return the strings with noise, without those that then equal a string of the index; `concepts` are their rows."""
    noised = [noisy(clean(string, index.rules), random.Random(f"{seed} {string}")) for string in strings]
    own = _own_rows(index, clean_many(strings, index.rules))
    there = index.rows(clean_many(noised, index.rules))
    kept = np.flatnonzero(there < 0)
    hidden = own[kept] if hide else np.full(len(kept), -1)
    return Examples(
        [noised[row] for row in kept.tolist()],
        np.asarray(concepts, np.int64)[kept],
        hidden,
        np.full(len(kept), -1),
        [NOISY_SYNONYM if hide else NOISE] * len(kept),
    )


def abbreviated(index: Index, strings: Sequence[str], concepts: NDArray[np.int64], *, most: int, seed: int) -> Examples:
    """Return strings with a part abbreviated to a clinical short form that leads to their concepts (n,)."""
    chance = random.Random(seed)
    mentions: list[str] = []
    rows: list[int] = []
    forms = _by_long_form(index)
    for row, string in enumerate(strings if forms else ()):
        words = string.split()
        n = len(words)
        spans = [(start, end) for start in range(n) for end in range(start + 1, min(n, start + LONGEST_FORM) + 1)]
        fitting = [(span, forms[key]) for span in spans if (key := " ".join(words[span[0] : span[1]])) in forms]
        if not fitting or len(mentions) == most:
            continue
        (start, end), choices = max(fitting, key=lambda pair: pair[0][1] - pair[0][0])
        short, share = chance.choice(choices)
        if chance.random() < share:
            mentions.append(" ".join([*words[:start], short, *words[end:]]))
            rows.append(row)
    absent = np.flatnonzero(index.rows(clean_many(mentions, index.rules)) < 0) if mentions else np.zeros(0, np.int64)
    nothing = np.full(len(absent), -1)
    of = np.asarray(concepts, np.int64)[np.array(rows, np.int64)[absent]]
    return Examples([mentions[row] for row in absent.tolist()], of, nothing, nothing, [NOISE] * len(absent))


def short_forms(
    index: Index,
    is_wanted: Callable[[int], bool],
    *,
    most: int,
    seed: int,
    lacking: Mapping[str, int] = MappingProxyType({}),
    languages: Collection[str] = (ENGLISH,),
) -> Examples:
    """Return single short forms, each with a meaning drawn by its shares; many have no concept in this index.

    A part of the long forms is hidden: a terminology often has another name for what is meant.

    Args:
        lacking: the concepts of cleaned names that the index lacks; -1: none. Other long forms that the index lacks
            tell nothing, as the concept may have another name.
    """
    chance = random.Random(f"{seed} short forms")
    forms = _by_long_form(index, languages)
    rows = dict(zip(forms, index.rows(list(forms)).tolist(), strict=True))
    concept_of = dict(zip(forms, _of_strings(index, list(forms)).tolist(), strict=True))
    unknown = {long for long, row in rows.items() if row < 0 and long not in lacking}
    concept_of |= {"": -1} | {long: lacking[long] for long, row in rows.items() if row < 0 and long in lacking}
    meanings: dict[str, list[tuple[str, float]]] = {}
    for long, some in forms.items():
        for short, share in some:
            meanings.setdefault(short, []).append((long, share))
    found: list[tuple[str, int, int]] = []
    for short, choices in meanings.items():
        if all(concept_of[long] < 0 for long, _ in choices):
            continue
        # Meanings outside the lists belong to other vocabularies.
        choices.append(("", max(0.0, 1 - sum(share for _, share in choices))))
        weights = [
            share * (MEANT_ELSEWHERE if concept_of[long] < 0 and long not in unknown else 1) for long, share in choices
        ]
        long = chance.choices([long for long, _ in choices], weights)[0]
        concept = concept_of[long]
        if long not in unknown and (is_wanted(concept) if concept >= 0 else crc32(short.encode()) % 2 == seed % 2):
            mention = f"{chance.choice(LEAD_INS)} {short}" if chance.random() < LED_IN else short
            found.append((mention, concept, rows[long] if concept >= 0 and chance.random() < LONG_HIDDEN else -1))
    kept = np.sort(np.random.default_rng(seed).permutation(len(found))[:most]).tolist()
    mentions, concepts, hidden = zip(*(found[row] for row in kept), strict=True) if kept else ((), (), ())
    kinds = [FOREIGN if concept < 0 else NOISE for concept in concepts]
    nothing = np.full(len(kept), -1)
    return Examples(list(mentions), np.array(concepts, np.int64), np.array(hidden, np.int64), nothing, kinds)


def _of_strings(index: Index, cleaned: Sequence[str]) -> NDArray[np.int64]:
    """Return the first concept of each string of the index, -1 for any other string."""
    rows, segment = index.rows(cleaned), index.segment
    return np.where(rows >= 0, segment.term_concept[segment.offsets[np.maximum(rows, 0)]], -1).astype(np.int64)


def _by_long_form(index: Index, languages: Collection[str] = (ENGLISH,)) -> dict[str, list[tuple[str, float]]]:
    """Return the short forms of each cleaned long form, with how often they have this meaning."""
    table = index.segment.short_forms
    found: dict[str, list[tuple[str, float]]] = {}
    for row in table.to_pylist() if table is not None else ():
        if not row["language"] or row["language"] in languages:
            found.setdefault(clean(row["long"], index.rules), []).append((row["short"], row["share"]))
    return found


def itself(strings: Sequence[str], concepts: NDArray[np.int64]) -> Examples:
    """Return unchanged strings of the index."""
    nothing = np.full(len(strings), -1)
    return Examples(list(strings), np.asarray(concepts, np.int64), nothing, nothing, [ITSELF] * len(strings))


def removed(strings: Sequence[str], concepts: NDArray[np.int64]) -> Examples:
    """Return strings whose concept, with all its names, is treated as missing."""
    nothing = np.full(len(strings), -1)
    return Examples(list(strings), nothing, nothing, np.asarray(concepts, np.int64), [REMOVED] * len(strings))


def foreign(index: Index, n: int, *, seed: int) -> Examples:
    """Return n strings that name no concept of the index: names from other vocabularies, words, and invented words."""
    named = _elsewhere(index, n // 2, seed) if len(index.segment.elsewhere) else []
    n -= len(named)
    whole, pieces = whole_words(index.model_path)
    chance = random.Random(f"{seed} foreign")
    drawn: list[str] = []
    while len(drawn) < n and whole:
        kind = chance.randrange(4) if pieces else chance.choice((0, 3))
        invented = chance.choice(whole)[:5] + "".join(chance.choices(pieces, k=chance.randint(1, 2))) if pieces else ""
        words = [chance.choice(whole) for _ in range(chance.randint(1, 3))]
        if kind == 1:
            words = [invented]
        elif kind == 2:
            words = [invented, *words[:1], *([str(chance.randint(1, 500))] if chance.random() < 0.5 else [])]
        elif kind == 3:
            words = [chance.choice(whole[:COMMON_WORDS]) for _ in range(chance.randint(2, 6))]
        drawn.append(" ".join(words))
    absent = index.rows(clean_many(drawn, index.rules)) < 0
    mentions = named + [mention for mention, kept in zip(drawn, absent, strict=True) if kept]
    nothing = np.full(len(mentions), -1)
    return Examples(mentions, nothing, nothing, nothing, [FOREIGN] * len(mentions))


def _elsewhere(index: Index, n: int, seed: int) -> list[str]:
    """Return names of other vocabularies' concepts that the index lacks, every second with noise."""
    from alphita.index.external_names import shipped_names
    from alphita.index.out_of_scope_names import absent

    names = absent(shipped_names().names, index.strings.array)["key"]
    rows = np.sort(np.random.default_rng(seed).permutation(len(names))[:n]).tolist()
    drawn = [names[row] for row in rows]
    noised = [noisy(name, random.Random(f"{seed} {name}")) if row % 2 else name for row, name in enumerate(drawn)]
    there = index.rows(clean_many(noised, index.rules))
    return [mention for mention, row in zip(noised, there.tolist(), strict=True) if row < 0]


COLUMNS = ("mention", "concept_id")
NO_CONCEPT = "NIL"


class Label(NamedTuple):
    """A mention that a person mapped; `concept_id` None: no concept fits."""

    mention: str
    concept_id: str | None


def read_labels(path: Path, encoding: str = "utf-8") -> list[Label]:
    """Read a CSV (or TSV, by its name) with the columns mention and concept_id; "NIL" if no concept fits."""
    labels = []
    textio.check_encoding(encoding)
    how = textio.Reading(encoding, "--encoding", progress.say)
    for line, (mention, concept) in textio.columns(path, COLUMNS, how=how):
        if not mention or not concept:
            name = "mention" if not mention else "concept_id"
            remedy = f"fill it in, or drop the row; {NO_CONCEPT} says that no concept fits"
            raise InputError("a row without a value", file=path, line=line, field=name, remedy=remedy)
        labels.append(Label(unguarded(mention), None if concept == NO_CONCEPT else concept))
    if not labels:
        raise InputError("holds no labelled mention", file=path)
    return labels


# Share of the held-out concepts for learning; the rest is for testing.
LEARNED_FROM = 0.5
# Minimum number of held-out strings.
LEAST = 200
# If there are at least this many strings that the encoder has not learned, the learned ones are left out.
ENOUGH = 500
REMEDY = (
    "use a larger calibration part, or take over the calibration of another index of the same encoder: "
    "alphita calibrate --from OTHER.index"
)
# Share of mentions that name no concept, in the mixture for thresholds and confidence.
POPULATION_NIL_SHARE = 0.1
# The kinds of mentions that name a concept, equally frequent in the mixture; and the maximum of each kind.
NAMED = (ITSELF, NOISE, SYNONYM)
MAX_TESTED = 800
# For this many mentions with noise, one contains a short form, and one is a short form.
ABBREVIATED = 6


class Known(NamedTuple):
    """Held-out strings with their concepts, (n,) rows of the index, and their origin, for reports."""

    strings: list[str]
    concepts: NDArray[np.int64]
    origin: str

    def take(self, rows: NDArray[np.int64]) -> Known:
        return Known([self.strings[row] for row in rows.tolist()], self.concepts[rows], self.origin)


def held_out(index: Index, split: Split | None, seed: int) -> Known:
    """Return the strings that the index's encoder was not trained on, with their concepts."""
    _check_training(index, split)
    if split is None:
        known = _own(index, seed)
    else:
        part = split.part("calibration")
        if not len(part):
            raise UsageError(
                "this split has no calibration part; make one with: "
                "alphita terminology split TERMINOLOGY --calibration 0.3 -o S.split, and train with it"
            )
        rows = index.concept_rows(part.concept_ids)
        kept = np.flatnonzero(rows >= 0)
        known = Known([part.strings[row] for row in kept.tolist()], rows[kept], "the split's calibration part")
    if len(known.strings) < LEAST:
        raise InputError(
            f"cannot certify: only {len(known.strings)} held-out strings name concepts of this index, and {LEAST} are "
            "needed; the estimated confidence stays",
            file=index.path,
            remedy=REMEDY,
        )
    return known


def _own(index: Index, seed: int) -> Known:
    """Return synonyms that the head has not learned and, if enough are left, the encoder has not learned either."""
    strings, concepts = own_synonyms(index, seed=seed, most=len(index))
    allowed, notes = np.ones(len(strings), bool), []
    has_head = index.manifest["model_hash"] != index.base_model_hash
    if has_head or (index.manifest.get("trained") or {}).get("held_back"):
        notes.append(f"that its {'head' if has_head else 'encoder'} was not taught")
        allowed = is_held_back(strings)
    if (learned := has_learned(index.model_path, strings))[allowed].any():
        if (allowed & ~learned).sum() >= ENOUGH:
            notes.insert(0, "that its encoder did not learn")
            allowed &= ~learned
        else:
            notes.append("that its encoder learned, so that figures are about a point too good")
    rows = np.flatnonzero(allowed)
    rows = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:MAX_SYNONYMS])]
    origin = " ".join(["the index's own synonyms", " and ".join(notes)]).strip()
    return Known(strings, concepts, f"{origin}, each taken as not there").take(rows)


def _check_training(index: Index, split: Split | None) -> None:
    """Check that the encoder has not seen the held-out strings; the index records it for Alphita's encoders."""
    trained = index.manifest.get("trained")
    if trained is None or (split is None and trained.get("held_back")):
        return
    if trained.get("terminology") not in (None, index.manifest["terminology_hash"]):
        progress.say(
            "the encoder was trained on another terminology: if that holds these strings too, confidence is too high"
        )
        return
    if trained.get("split") is None:
        raise UsageError(
            "this index's encoder was trained on all synonyms of this terminology, and would look better on them than "
            "it is; train it without some of them: alphita train RECIPE --split S.split, then build the index again"
        )
    if split is None:
        raise UsageError(
            "this index's encoder was trained on the terminology's synonyms, and would look better on them than "
            "it is: give the split it was trained with: --split S.split"
        )
    if trained["split"] != split.hash:
        raise UsageError("this index's encoder was trained with another split; give that one: --split S.split")


def divide(index: Index, known: Known, labels: Examples, seed: int) -> tuple[Examples, Examples]:
    """Return the examples for learning and those for testing; no held-out concept is in both."""
    to_teach, to_ask = parted(index, known, seed)
    if not to_teach.strings or not to_ask.strings:
        concepts = len(np.unique(known.concepts))
        raise InputError(
            f"the {len(known.strings):,} held-out strings are of {concepts} concepts: too few to learn from some and "
            "test on the others",
            file=index.path,
            remedy=REMEDY,
        )
    first = every_second(clean_many(labels.mentions, index.rules))
    progress.say(
        f"{len(to_teach.strings):,} held-out strings to learn from, {len(to_ask.strings):,} to test on ({known.origin})"
    )
    names = Known(*own_names(index, seed=seed + 2, most=5 * MAX_TESTED), "")
    to_learn, to_test = (
        training_examples(index, to_teach, seed),
        mixture(index, to_ask, parted(index, names, seed)[1], seed),
    )
    return (join([to_learn, labels.take(np.flatnonzero(first))]), join([to_test, labels.take(np.flatnonzero(~first))]))


def parted(index: Index, known: Known, seed: int) -> tuple[Known, Known]:
    """Split strings into those of concepts for learning, and the others."""
    learning = np.array([is_learned_from(index, concept, seed) for concept in known.concepts.tolist()], bool)
    return known.take(np.flatnonzero(learning)), known.take(np.flatnonzero(~learning))


def is_learned_from(index: Index, concept: int, seed: int) -> bool:
    """Return whether a concept's strings are for learning, independent of what else is held out."""
    identifier = index.segment.concepts.column("id")[concept].as_py()
    digest = hashlib.blake2b(f"{seed}\0calibrate\0{identifier}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < LEARNED_FROM * 2**64


def training_examples(index: Index, known: Known, seed: int) -> Examples:
    """Return the ranker's training examples: held-out strings unchanged and with noise, names of the index, and NIL."""
    strings, concepts, _ = known
    # Names of the index, only of concepts for learning.
    most = round(max(MAX_NOISE, MAX_ITSELF) / LEARNED_FROM)
    own, own_concepts, _ = parted(index, Known(*own_names(index, seed=seed + 1, most=most), ""), seed)[0]
    parts = [
        synonyms(index, strings, concepts),
        with_noise(index, strings, concepts, hide=True, seed=seed),
        with_noise(index, own, own_concepts, hide=False, seed=seed),
        abbreviated(index, own, own_concepts, most=MAX_ABBREVIATED, seed=seed),
        short_forms(index, lambda concept: is_learned_from(index, concept, seed), most=MAX_ABBREVIATED, seed=seed),
        itself(own[:MAX_ITSELF], own_concepts[:MAX_ITSELF]),
    ]
    count = round(NIL_SHARE * sum(len(part.mentions) for part in parts))
    chosen = known.take(np.random.default_rng(seed).permutation(len(known.strings))[:count])
    parts += [removed(chosen.strings, chosen.concepts), foreign(index, count, seed=seed)]
    return join(parts)


def mixture(index: Index, known: Known, names: Known, seed: int, *, most: int = MAX_TESTED) -> Examples:
    """Return the mixture for confidence and thresholds, because the real queries are unknown."""
    drawn_from, seed = seed, seed + 1
    n = min(most, len(known.strings), len(names.strings) // 2)
    chance = np.random.default_rng(seed)
    held, order = known.take(chance.permutation(len(known.strings))[:n]), chance.permutation(len(names.strings))
    equal, noisy, longer = (names.take(rows) for rows in (order[:n], order[n : 2 * n], order[2 * n :]))
    nil = nil_count(len(NAMED) * n)
    gone = known.take(chance.permutation(len(known.strings))[:nil])
    return join(
        [
            itself(equal.strings, equal.concepts),
            with_noise(index, noisy.strings, noisy.concepts, hide=False, seed=seed),
            abbreviated(index, longer.strings, longer.concepts, most=n // ABBREVIATED, seed=seed),
            short_forms(
                index, lambda concept: not is_learned_from(index, concept, drawn_from), most=n // ABBREVIATED, seed=seed
            ),
            synonyms(index, held.strings, held.concepts),
            removed(gone.strings, gone.concepts),
            foreign(index, nil, seed=seed),
        ]
    )


def in_mixture(kinds: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    """Choose examples by their (n,) kinds, in the proportions of the mixture, and all labelled ones."""
    chosen = kinds == LABELLED
    n = min(int((kinds == kind).sum()) for kind in NAMED)
    for some, wanted in ((NAMED, n), ((REMOVED, FOREIGN), nil_count(len(NAMED) * n))):
        for kind in some:
            rows = np.flatnonzero(kinds == kind)
            chosen[np.random.default_rng(seed).permutation(rows)[:wanted]] = True
    return chosen


def nil_count(named: int) -> int:
    """Return the number of NIL examples of each kind for a number of mentions that name a concept."""
    return round(named * POPULATION_NIL_SHARE / (1 - POPULATION_NIL_SHARE) / 2)


def labelled(index: Index, labels: Sequence[Label]) -> Examples:
    """Return the mentions that a person mapped, without those whose concept is not in the index."""
    ids = [label.concept_id for label in labels]
    rows = index.concept_rows([concept_id or "" for concept_id in ids]) if ids else np.zeros(0, np.int64)
    kept = [row for row, concept_id in enumerate(ids) if concept_id is None or rows[row] >= 0]
    if labels and not kept:
        raise InputError("no labelled mention has a concept of this index", value=ids[0], remedy="check the ids")
    if len(kept) < len(labels):
        unknown = next(
            concept_id for concept_id, row in zip(ids, rows.tolist(), strict=True) if concept_id is not None and row < 0
        )
        progress.say(
            f"{len(labels) - len(kept):,} labelled mentions left out: this index has no concept {shorten(unknown)!r}"
        )
    nothing = np.full(len(kept), -1)
    concepts = np.where([ids[row] is None for row in kept], -1, rows[kept]) if kept else nothing
    return Examples(
        [labels[row].mention for row in kept], concepts.astype(np.int64), nothing, nothing, [LABELLED] * len(kept)
    )


def every_second(strings: Sequence[str]) -> NDArray[np.bool_]:
    """Choose every second distinct string, (len(strings),), so that equal strings are on the same side."""
    numbers = {string: number for number, string in enumerate(dict.fromkeys(strings))}
    return np.array([numbers[string] % 2 == 0 for string in strings], bool)
