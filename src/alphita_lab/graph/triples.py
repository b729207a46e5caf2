"""Triples of a terminology for graph models (Amore Bondarenko et al. 2022), and ranks of their ends among all entities.

Rare and inverse relations are left out; 90/6/4 % train, test and validate. Ranks are realistic and filtered.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Division:
    """Triples of numbered entities and relations, in three parts."""

    entities: list[str]  # the n concept ids that some triple has, sorted
    concepts: Int  # (n,) their rows in the terminology
    relations: list[str]
    train: Int  # (t, 3) int64 head, relation, tail; so are the next two
    test: Int
    validation: Int  # for the choices of training
    known: Int  # (k, 3) all of them: other true answers, which are no competitors
    notes: dict[str, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, Any]:
        """Return how many there are of each, and the notes."""
        parts = ("train", "test", "validation", "entities", "relations")
        return {**{part: len(getattr(self, part)) for part in parts}, **self.notes}

    @functools.cached_property
    def train_hash(self) -> str:
        """What is trained on, whatever the numbers of its entities; see `triples_hash`."""
        return triples_hash(self.entities, self.relations, self.train)


def divide(
    terminology: Terminology,
    *,
    rare: int = 10,
    inverse: float = 0.8,
    test: float = 0.06,
    validation: float = 0.04,
    seed: int = 0,
    held_out: Split | None = None,
    split_path: Path | None = None,
) -> Division:
    """Choose and split a terminology's triples."""
    if test + validation >= 1:
        raise UsageError("test and validation must leave triples to train on")
    triples, notes = usable_triples(terminology, rare=rare, inverse=inverse)
    if not len(triples):
        raise InputError(
            f"of {terminology.n_relations:,} relations none is left: {notes['rare_relations_left_out']} kinds have "
            f"fewer than {rare} triples of live concepts",
            file=terminology.path,
            remedy="give a terminology with more relations, or allow rarer ones: rare=1",
        )
    asked = np.zeros(len(triples), bool)
    if held_out is not None:
        pairs, facts = held_out_pairs(terminology, held_out, split_path)
        triples, asked, unseen = _asked_about(triples, pairs)
        notes |= facts | {"held_out_triples_of_something_unseen_left_out": unseen}
    concepts, numbered = np.unique(triples[:, [0, 2]], return_inverse=True)
    relations, labels = np.unique(triples[:, 1], return_inverse=True)
    ends = numbered.reshape(-1, 2)
    triples = np.stack([ends[:, 0], labels.ravel(), ends[:, 1]], axis=1).astype(np.int64)
    new = held_out is None
    rest, tested, kept = split(triples[~asked], test=test if new else 0, validation=validation, seed=seed)
    if not new:
        tested = triples[asked]
    if not len(tested) and not new:
        raise InputError(
            f"none of {len(triples)} triples is held out: none of the split's is of a relation that is scored",
            file=split_path,
            remedy="hold out a greater share, or allow rarer relations: rare=1",
        )
    if not len(tested) and test:
        raise InputError(
            f"none of {len(triples)} triples can be held out: each pair of concepts has the last of a concept or "
            "relation, or more of them than the share given",
            file=terminology.path,
            remedy="give a terminology with more relations, or train without a test part: test=0",
        )
    return Division(
        [terminology.concept_id(row) for row in concepts],
        concepts.astype(np.int64),
        [terminology.relation_labels[row] for row in relations],
        rest,
        tested,
        kept,
        triples,
        notes,
    )


def held_out_pairs(
    terminology: Terminology, split: Split, path: Path | None = None
) -> tuple[NDArray[np.int32], dict[str, Any]]:
    """Return the pairs of concepts (p, 2) whose triples a split holds out, and what to note of it."""
    if not split.triples:
        raise InputError(
            "this split holds no triples out",
            file=path,
            remedy="make one that does: alphita terminology split ... --triples 0.1",
        )
    pairs = split.triple_pairs(terminology)
    return pairs, {
        "test part": "held-out triples of a saved split",
        "split": split.hash,
        "split, triples held out": len(split.triples),
        "split, triples not of this terminology": len(split.triples) - len(pairs),
    }


def _asked_about(triples: Int, pairs: NDArray[np.int32]) -> tuple[Int, NDArray[np.bool_], int]:
    """Return the triples that are used, which of them are held out, and how many of the latter are left out."""
    held_out = between_pairs(triples, pairs)
    train = triples[~held_out]
    seen = np.isin(triples[:, [0, 2]], train[:, [0, 2]]).all(axis=1) & np.isin(triples[:, 1], train[:, 1])
    return triples[seen], held_out[seen], int((~seen).sum())


def between_pairs(triples: NDArray[np.integer[Any]], pairs: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which triples are between a pair of concepts, in either direction and under any relation, (n,).

    triples: (n, 3) head, relation, tail; pairs: (p, 2) concepts, as `Split.triple_pairs` gives them.
    """
    return np.isin(pair_keys(triples[:, 0], triples[:, 2]), pair_keys(pairs[:, 0], pairs[:, 1]))


def pair_keys(left: NDArray[np.integer[Any]], right: NDArray[np.integer[Any]]) -> Int:
    """Return a number for each unordered pair of concepts."""
    keys: Int = (np.minimum(left, right).astype(np.int64) << 32) | np.maximum(left, right)
    return keys


def split(triples: Int, *, test: float, validation: float, seed: int) -> tuple[Int, Int, Int]:
    """Split triples into (train, test, validation) so that all entities and relations are seen in training.

    Args:
        triples: (t, 3).
    """
    order = np.random.default_rng(seed).permutation(len(triples))
    entity_left = np.bincount(triples[:, [0, 2]].ravel()).tolist()
    relation_left = np.bincount(triples[:, 1]).tolist()
    sizes = {"test": round(test * len(triples)), "validation": round(validation * len(triples))}
    wanted = sum(sizes.values())
    pairs, of_pair = np.unique(pair_keys(triples[:, 0], triples[:, 2]), return_inverse=True)
    by_pair, starts = np.argsort(of_pair, kind="stable"), np.searchsorted(np.sort(of_pair), np.arange(len(pairs) + 1))
    drawn = np.zeros(len(pairs), bool)
    out: list[int] = []
    # How many triples are held out after each pair that is.
    ends = [0]
    for pair in of_pair[order].tolist():
        if len(out) == wanted:
            break
        if drawn[pair]:
            continue
        drawn[pair] = True
        rows = by_pair[starts[pair] : starts[pair + 1]]
        head, _, tail = triples[rows[0]].tolist()
        relations = triples[rows, 1].tolist()
        needed = len(relations) * (2 if head == tail else 1)
        if (
            len(out) + len(relations) <= wanted
            and min(entity_left[head], entity_left[tail]) > needed
            and all(relation_left[relation] > relations.count(relation) for relation in relations)
        ):
            entity_left[head] -= len(relations)
            entity_left[tail] -= len(relations)
            for relation in relations:
                relation_left[relation] -= 1
            out.extend(rows.tolist())
            ends.append(len(out))
    held = np.array(out, np.int64)
    # Where fewer could be taken than asked, both parts shrink alike; no pair is cut.
    cut = max(end for end in ends if end <= round(len(held) * sizes["test"] / max(1, wanted)))
    kept = np.ones(len(triples), bool)
    kept[held] = False
    return triples[kept], triples[np.sort(held[:cut])], triples[np.sort(held[cut:])]


def usable_triples(terminology: Terminology, *, rare: int, inverse: float) -> tuple[Int, dict[str, Any]]:
    """Return the triples (t, 3) of live concepts, no self-loops, without rare and inverse relations."""
    triples = np.unique(np.asarray(terminology.triples, np.int64), axis=0)
    live = ~terminology.retired[triples[:, 0]] & ~terminology.retired[triples[:, 2]]
    triples = triples[live & (triples[:, 0] != triples[:, 2])]
    labels, few, turned_round = terminology.relation_labels, 0, []
    kept: list[int] = []
    counts = np.bincount(triples[:, 1], minlength=len(labels))
    turned = _turned_round(triples[counts[triples[:, 1]] >= rare], terminology.n_concepts)
    for relation in np.lexsort((np.arange(len(labels)), -counts)).tolist():
        if not counts[relation]:
            continue
        if counts[relation] < rare:
            few += 1
            continue
        shares = ((other, turned.get((relation, other), 0) / counts[relation]) for other in kept)
        other = next((kind for kind, share in shares if share >= inverse), None)
        if other is not None:
            turned_round.append(f"{labels[relation]} (turns {labels[other]} round)")
            continue
        kept.append(relation)
    facts = {"rare_relations_left_out": few, "inverse_relations_left_out": turned_round}
    return triples[np.isin(triples[:, 1], kept)], facts


def _turned_round(triples: Int, concepts: int) -> dict[tuple[int, int], int]:
    """Return how many triples (a, r, b) there are with (b, s, a), by (r, s); pairs of relations without are left out.

    Args:
        triples: (t, 3), none twice.
    """
    triples = triples[np.lexsort((triples[:, 2], triples[:, 0]))]
    keys = triples[:, 0] * concepts + triples[:, 2]
    wanted = triples[:, 2] * concepts + triples[:, 0]
    first = np.searchsorted(keys, wanted)
    met = np.searchsorted(keys, wanted, side="right") - first
    places = np.repeat(first - np.cumsum(met) + met, met) + np.arange(met.sum())
    pairs, times = np.unique(
        np.stack([np.repeat(triples[:, 1], met), triples[places, 1]], axis=1), axis=0, return_counts=True
    )
    return {(int(one), int(other)): int(count) for (one, other), count in zip(pairs, times, strict=True)}


def triples_hash(entities: Sequence[str], relations: Sequence[str], triples: Int) -> str:
    """Return the sha256 of triples by their ids and labels, in whatever order and numbering."""
    return artefact.hash_json(sorted([entities[h], relations[r], entities[t]] for h, r, t in triples.tolist()))


SIDES = ("tail", "head")
# Scores held at once: 64 MiB of float32.
SCORES_AT_ONCE = 16_000_000

Scores = NDArray[np.float32]


@runtime_checkable
class TripleScorer(Protocol):
    """What tells how likely triples of numbered entities and relations are; greater is likelier."""

    def score_tails(self, heads: Int, relations: Int) -> Scores:
        """Return the score of every entity as tail, (b, n_entities), of b heads and relations; -inf: not known."""
        ...

    def score_heads(self, relations: Int, tails: Int) -> Scores:
        """Return the score of every entity as head, (b, n_entities), of b relations and tails; -inf: not known."""
        ...


def ranks(
    scorer: TripleScorer, test: Int, n_entities: int, *, known: Int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the realistic rank of each test triple's tail and head among all entities, 1 at best.

    Args:
        test: (m, 3) head, relation, tail.
    """
    by_side = {}
    block = max(1, SCORES_AT_ONCE // n_entities)
    for side in SIDES:
        given, wanted = (0, 2) if side == "tail" else (2, 0)
        answers = None if known is None else _Answers(known, given, wanted, n_entities)
        parts = []
        for start in range(0, len(test), block):
            batch = test[start : start + block]
            if side == "tail":
                scores = scorer.score_tails(batch[:, 0], batch[:, 1])
            else:
                scores = scorer.score_heads(batch[:, 1], batch[:, 2])
            if scores.shape != (len(batch), n_entities):
                raise ValueError(f"the scorer gives {scores.shape} scores for {(len(batch), n_entities)}")
            if np.isnan(scores).any():
                raise AlphitaError(
                    "the scorer gives scores that are not numbers, as a model that diverged does: train it with a "
                    "smaller learning_rate"
                )
            parts.append(_realistic_ranks(scores, batch[:, wanted], None if answers is None else answers.of(batch)))
        by_side[side] = np.concatenate(parts) if parts else np.empty(0)
    return by_side


def figures(found: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Return MRR, hits@k and MR (mean rank) over both sides of `ranks`; nothing where nothing was asked."""
    rank = np.concatenate([found[side] for side in SIDES])
    if not len(rank):
        return {}
    hits = {f"hits@{k}": float((rank <= k).mean()) for k in (1, 3, 10)}
    return {"MRR": float((1 / rank).mean()), **hits, "MR": float(rank.mean())}


def _realistic_ranks(scores: Scores, gold: Int, others: tuple[Int, Int] | None) -> NDArray[np.float64]:
    own = scores[np.arange(len(gold)), gold][:, None]
    before, equal = (scores > own), (scores == own)
    if others is not None:
        before[others], equal[others] = False, False
    equal[np.arange(len(gold)), gold] = True
    # Optimistic: 1 + before. Pessimistic: before + equal, the gold one among these.
    return 0.5 * (1 + 2.0 * before.sum(axis=1) + equal.sum(axis=1))


class _Answers:
    """The known answers to (given, relation), in CSR form."""

    def __init__(self, known: Int, given: int, wanted: int, n_entities: int) -> None:
        self._given, self._n = given, n_entities
        keys = known[:, 1].astype(np.int64) * n_entities + known[:, given]
        order = np.argsort(keys, kind="stable")
        self._keys, self._answers = keys[order], known[order, wanted]

    def of(self, batch: Int) -> tuple[Int, Int]:
        """Return (row in the batch, entity) of all known answers."""
        keys = batch[:, 1].astype(np.int64) * self._n + batch[:, self._given]
        start, end = np.searchsorted(self._keys, keys, "left"), np.searchsorted(self._keys, keys, "right")
        counts = end - start
        lines = np.repeat(np.arange(len(batch)), counts)
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
        return lines, self._answers[places]
