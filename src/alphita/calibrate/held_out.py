"""What an index is fitted and tested on: strings that its encoder was not trained on, and what is made of them.

They are parted, concept by concept: of a half of the concepts the ranker learns, on the others everything is measured.
Labelled mentions, if a person gave some, are halved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.calibrate import examples
from alphita.calibrate.examples import FOREIGN, ITSELF, LABELLED, NIL_SHARE, NOISE, REMOVED, SYNONYM, Examples, Label
from alphita.encoder.learned import has_learned
from alphita.errors import InputError, UsageError, shorten
from alphita.index.learning import is_held_back
from alphita.index.store import Index
from alphita.terminology.splits import Split
from alphita.terminology.text import clean_many

# Share of the held-out concepts that are learned from; the rest is tested on.
LEARNED_FROM = 0.5
# Fewer held-out strings than this say too little.
LEAST = 200
# With so many that the encoder did not learn, those that it learned are left out.
ENOUGH = 500
REMEDY = (
    "use a larger calibration part, or take over the calibration of another index of the same encoder: "
    "alphita calibrate --from OTHER.index"
)
# Mentions that name no concept, among those that thresholds and confidence are made for.
POPULATION_NIL_SHARE = 0.1
# The kinds of mentions that name one, each of which is asked equally often; of each at most.
NAMED = (ITSELF, NOISE, SYNONYM)
MAX_TESTED = 800
# Beside so many mentions with noise one has a short form in it, and one is a short form.
ABBREVIATED = 6


class Known(NamedTuple):
    """Held-out strings and what they are.

    Attributes:
        concepts: (n,) int64 rows of the index.
        origin: where they come from, for reports.
    """

    strings: list[str]
    concepts: NDArray[np.int64]
    origin: str

    def take(self, rows: NDArray[np.int64]) -> Known:
        """Return some of them."""
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
            f"only {len(known.strings)} held-out strings name concepts of this index; at least {LEAST} are needed",
            file=index.path,
            remedy=REMEDY,
        )
    return known


def _own(index: Index, seed: int) -> Known:
    """Return synonyms of the index that its head did not learn, nor its encoder where enough of them are left."""
    strings, concepts = examples.own_synonyms(index, seed=seed, most=len(index))
    asked, told = np.ones(len(strings), bool), []
    has_head = index.manifest["model_hash"] != index.base_model_hash
    if has_head or (index.manifest.get("trained") or {}).get("held_back"):
        told.append(f"that its {'head' if has_head else 'encoder'} was not taught")
        asked = is_held_back(strings)
    if (learned := has_learned(index.model_path, strings))[asked].any():
        if (asked & ~learned).sum() >= ENOUGH:
            told.insert(0, "that its encoder did not learn")
            asked &= ~learned
        else:
            told.append("that its encoder learned, so that figures are about a point too good")
    rows = np.flatnonzero(asked)
    rows = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[: examples.MAX_SYNONYMS])]
    origin = " ".join(["the index's own synonyms", " and ".join(told)]).strip()
    return Known(strings, concepts, f"{origin}, each taken as not there").take(rows)


def _check_training(index: Index, split: Split | None) -> None:
    """Make sure that the encoder has not seen what is held out; an index says so of an encoder trained by alphita."""
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
    """Return what is learned from, and what is tested on: no held-out concept is in both."""
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
    names = Known(*examples.own_names(index, seed=seed + 2, most=5 * MAX_TESTED), "")
    to_learn, to_test = taught(index, to_teach, seed), mixture(index, to_ask, parted(index, names, seed)[1], seed)
    return (
        examples.join([to_learn, labels.take(np.flatnonzero(first))]),
        examples.join([to_test, labels.take(np.flatnonzero(~first))]),
    )


def parted(index: Index, known: Known, seed: int) -> tuple[Known, Known]:
    """Part strings into those of concepts that are learned from, and the others'."""
    learning = np.array([is_learned_from(index, concept, seed) for concept in known.concepts.tolist()], bool)
    return known.take(np.flatnonzero(learning)), known.take(np.flatnonzero(~learning))


def is_learned_from(index: Index, concept: int, seed: int) -> bool:
    """Return whether a concept's strings are learned from; the same whatever else is held out."""
    identifier = index.segment.concepts.column("id")[concept].as_py()
    digest = hashlib.blake2b(f"{seed}\0calibrate\0{identifier}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < LEARNED_FROM * 2**64


def taught(index: Index, known: Known, seed: int) -> Examples:
    """Return what the ranker learns from: held-out strings as they are and with noise, names of the index, and NIL."""
    strings, concepts, _ = known
    own, own_concepts = _own_learned(index, seed)
    parts = [
        examples.synonyms(index, strings, concepts),
        examples.with_noise(index, strings, concepts, hide=True, seed=seed),
        examples.with_noise(index, own, own_concepts, hide=False, seed=seed),
        examples.abbreviated(index, own, own_concepts, most=examples.MAX_ABBREVIATED, seed=seed),
        examples.short_forms(
            index, lambda one: is_learned_from(index, one, seed), most=examples.MAX_ABBREVIATED, seed=seed
        ),
        examples.itself(own[: examples.MAX_ITSELF], own_concepts[: examples.MAX_ITSELF]),
    ]
    count = round(NIL_SHARE * sum(len(part.mentions) for part in parts))
    parts += [_removed(known, count, seed), examples.foreign(index, count, seed=seed)]
    return examples.join(parts)


def _own_learned(index: Index, seed: int) -> tuple[list[str], NDArray[np.int64]]:
    """Return strings of the index, preferred names among them, of those concepts only that are learned from."""
    most = max(examples.MAX_NOISE, examples.MAX_ITSELF)
    strings, concepts = examples.own_names(index, seed=seed + 1, most=round(most / LEARNED_FROM))
    learned = parted(index, Known(strings, concepts, ""), seed)[0]
    return learned.strings, learned.concepts


def mixture(index: Index, known: Known, names: Known, seed: int, *, most: int = MAX_TESTED) -> Examples:
    """Return what confidence and thresholds are made for: a mixture, for nobody knows what will be asked."""
    drawn_from, seed = seed, seed + 1
    n = min(most, len(known.strings), len(names.strings) // 2)
    chance = np.random.default_rng(seed)
    held, order = known.take(chance.permutation(len(known.strings))[:n]), chance.permutation(len(names.strings))
    equal, noisy, longer = (names.take(rows) for rows in (order[:n], order[n : 2 * n], order[2 * n :]))
    nil = nil_count(len(NAMED) * n)
    gone = known.take(chance.permutation(len(known.strings))[:nil])
    return examples.join(
        [
            examples.itself(equal.strings, equal.concepts),
            examples.with_noise(index, noisy.strings, noisy.concepts, hide=False, seed=seed),
            examples.abbreviated(index, longer.strings, longer.concepts, most=n // ABBREVIATED, seed=seed),
            examples.short_forms(
                index, lambda one: not is_learned_from(index, one, drawn_from), most=n // ABBREVIATED, seed=seed
            ),
            examples.synonyms(index, held.strings, held.concepts),
            examples.removed(gone.strings, gone.concepts),
            examples.foreign(index, nil, seed=seed),
        ]
    )


def in_mixture(kinds: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    """Choose of examples to learn from, by their (n,) kinds, as many of each as the mixture has; labelled ones all."""
    chosen = kinds == LABELLED
    n = min(int((kinds == kind).sum()) for kind in NAMED)
    for some, wanted in ((NAMED, n), ((REMOVED, FOREIGN), nil_count(len(NAMED) * n))):
        for kind in some:
            rows = np.flatnonzero(kinds == kind)
            chosen[np.random.default_rng(seed).permutation(rows)[:wanted]] = True
    return chosen


def nil_count(named: int) -> int:
    """Return how many NIL examples of each of the two kinds belong to so many mentions that name a concept."""
    return round(named * POPULATION_NIL_SHARE / (1 - POPULATION_NIL_SHARE) / 2)


def _removed(known: Known, count: int, seed: int) -> Examples:
    chosen = known.take(np.random.default_rng(seed).permutation(len(known.strings))[:count])
    return examples.removed(chosen.strings, chosen.concepts)


def labelled(index: Index, labels: Sequence[Label]) -> Examples:
    """Return the mentions that a person mapped; those of concepts that the index does not have are left out."""
    ids = [label.concept_id for label in labels]
    rows = index.concept_rows([one or "" for one in ids]) if ids else np.zeros(0, np.int64)
    kept = [row for row, one in enumerate(ids) if one is None or rows[row] >= 0]
    if labels and not kept:
        raise InputError("no labelled mention has a concept of this index", value=ids[0], remedy="check the ids")
    if len(kept) < len(labels):
        unknown = next(one for one, row in zip(ids, rows.tolist(), strict=True) if one is not None and row < 0)
        progress.say(
            f"{len(labels) - len(kept):,} labelled mentions left out: this index has no concept {shorten(unknown)!r}"
        )
    nothing = np.full(len(kept), -1)
    concepts = np.where([ids[row] is None for row in kept], -1, rows[kept]) if kept else nothing
    return Examples(
        [labels[row].mention for row in kept], concepts.astype(np.int64), nothing, nothing, [LABELLED] * len(kept)
    )


def every_second(strings: Sequence[str]) -> NDArray[np.bool_]:
    """Choose every second of the distinct strings, (len(strings),): what comes twice is on one side."""
    numbers = {string: number for number, string in enumerate(dict.fromkeys(strings))}
    return np.array([numbers[string] % 2 == 0 for string in strings], bool)
