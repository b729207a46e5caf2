"""Descriptions: English sentences made of a concept's parents, semantic types and relations by the templates.

"A kind of heart disease that has the symptom dyspnea and is found in heart valve." The concept itself is never named.
What is drawn follows from the seed, the concept's id and its facts alone. Siblings of which only the parent is known
get the same description: a loss over batches should not take an equal text for a negative.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import importlib.resources
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.verbalisation.definitions import Withheld

MAX_FACTS = 4
MAX_PARENTS = 2
CONCEPTS = 65_536  # worked on at a time

T = TypeVar("T")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_VERB_WORDS = "is are was were may can could must might should will do did be cause treat affect"
_PREPOSITION_WORDS = "of in to from by with at on for as into during within between under over near"
# Nouns in the plural, as tables of products call their columns; in -s, but no verbs.
_PLURAL_ENDINGS = ("ions", "ients", "toms", "ings", "ities", "gies", "nyms")
_PLURAL_WORDS = (
    "allergens brands categories classes codes companies diseases dosages doses drugs features forms genes genotypes "
    "groups names onsets packages parts phenotypes risks roles routes signs sites strengths substances tests traits "
    "treatments types units"
)
_PLURALS = frozenset(_PLURAL_WORDS.split())
_VERBS, _PREPOSITIONS = frozenset(_VERB_WORDS.split()), frozenset(_PREPOSITION_WORDS.split())


@dataclass(frozen=True)
class Templates:
    """What stands in templates.toml: phrasings by what they tell."""

    parents: list[str]
    types: list[str]
    nothing: list[str]
    joiners: list[str]
    type_clauses: list[str]
    general: dict[str, list[str]]
    relations: dict[str, list[str]]
    untold: frozenset[str]

    def of_relation(self, label: str) -> list[str] | None:
        """Return the phrasings of a relation's label; None for one that is not told."""
        words = readable(label)
        key = words.replace(" ", "_")
        if key in self.untold:
            return None
        known = self.relations.get(label) or self.relations.get(key)
        return known or [phrase.replace("{label}", words) for phrase in self.general[shape(words)]]


@functools.cache
def templates() -> Templates:
    """Read templates.toml."""
    text = importlib.resources.files(__package__).joinpath("templates.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return Templates(**tables | {"untold": frozenset(tables["untold"]["labels"])})


def readable(label: str) -> str:
    """Return a relation's label as words: has_phenotype, hasPhenotype and RO:has_phenotype are "has phenotype"."""
    label = re.sub(r"\s*\([^()]*\)\s*$", "", label)
    local = label.rsplit(":", 1)[-1]
    if local != label and not re.search("[A-Za-z]{2}", local):
        return ""
    return " ".join(re.sub(r"[_\-]+", " ", _CAMEL.sub(" ", local)).lower().split())


def shape(words: str) -> str:
    """Say how a readable label is put into a clause: verb, preposition, noun, or code for an empty one."""
    parts = words.split()
    if not parts:
        return "code"
    first = parts[1] if parts[0].endswith("ly") and len(parts) > 1 else parts[0]
    is_noun = first.endswith(("ss", "us", "is", *_PLURAL_ENDINGS)) or first in _PLURALS
    if first in _VERBS or (first.endswith("s") and not is_noun):
        return "verb"
    return "preposition" if parts[-1] in _PREPOSITIONS or parts[0] in _PREPOSITIONS else "noun"


def descriptions(
    terminology: Terminology, most: int, seed: int, withheld: Withheld, counts: Counter[str]
) -> tuple[NDArray[np.int32], list[str]]:
    """Return at most `most` descriptions of each live concept: (n,) int32 rows, ascending, and n texts."""
    concepts: list[int] = []
    texts: list[str] = []
    silent = 0
    named = _first_names(terminology)
    for start in range(0, terminology.n_concepts, CONCEPTS):
        end = min(start + CONCEPTS, terminology.n_concepts)
        ids = terminology.concept_ids.slice(start, end - start).to_pylist()
        facts = _Facts(terminology, start, end, named, withheld, counts)
        for place, identifier in enumerate(ids):
            parents, types, attributes = facts.of(place)
            if not (parents or types or attributes):
                silent += not terminology.retired[start + place]
                continue
            for text in tell(_Draws(seed, identifier), parents, types, attributes, most):
                if withheld.is_in(text):
                    counts["description: holds a held-out string"] += 1
                else:
                    concepts.append(start + place)
                    texts.append(text)
    if silent:
        counts["description: concepts of which nothing can be told"] += silent
    return np.array(concepts, np.int32), texts


def tell(
    draws: _Draws, parents: list[str], types: list[str], attributes: list[tuple[str, str]], most: int
) -> Iterator[str]:
    """Yield at most `most` sentences, each of other facts and of at most four."""
    parents, types = draws.some(parents, most * MAX_PARENTS), draws.some(types, most)
    attributes = draws.some(attributes, most * MAX_FACTS)
    used: set[tuple[frozenset[str], str | None, frozenset[tuple[str, str]]]] = set()
    place = 0
    for number in range(most):
        above = _turn(parents, number * MAX_PARENTS, 1 + draws.below(MAX_PARENTS))
        kind = types[number % len(types)] if types and (not above or draws.below(2)) else None
        room = MAX_FACTS - len(above) - (kind is not None)
        # The first one tells as much as there is room for.
        chosen = _turn(attributes, place, room if number == 0 else 1 + draws.below(room))
        place += len(chosen)
        facts = (frozenset(above), kind, frozenset(chosen))
        if facts not in used:
            used.add(facts)
            yield _sentence(draws, above, kind, chosen)


def _sentence(draws: _Draws, parents: list[str], kind: str | None, attributes: list[tuple[str, str]]) -> str:
    phrases = templates()
    clauses: list[str] = []
    if parents:
        opening = draws.choose(phrases.parents).replace("{names}", _listed(parents))
        if kind is not None:
            clauses.append(draws.choose(phrases.type_clauses).replace("{names}", kind))
    elif kind is not None:
        opening = draws.choose(phrases.types).replace("{names}", kind)
    else:
        opening = draws.choose(phrases.nothing)
    tails: dict[str, list[str]] = {}
    for label, name in attributes:
        tails.setdefault(label, []).append(name)
    for label, names in tails.items():
        clauses.append(draws.choose(_phrasings(label) or []).replace("{names}", _listed(names)))
    return opening + (draws.choose(phrases.joiners) + _listed(clauses) if clauses else "") + "."


@functools.cache
def _phrasings(label: str) -> list[str] | None:
    return templates().of_relation(label)


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _turn(values: list[T], start: int, count: int) -> list[T]:
    """Return `count` values from a place on, going round; each at most once."""
    return [values[(start + number) % len(values)] for number in range(min(count, len(values)))]


class _Draws:
    """Numbers that follow from the seed and the concept's id alone."""

    def __init__(self, seed: int, identifier: str) -> None:
        self._key = f"{seed}\0describe\0{identifier}\0"
        self._blocks = itertools.count()
        self._left: list[int] = []

    def below(self, n: int) -> int:
        if not self._left:
            block = hashlib.blake2b(f"{self._key}{next(self._blocks)}".encode()).digest()
            self._left = [int.from_bytes(block[place : place + 4], "big") for place in range(0, len(block), 4)]
        return self._left.pop() % n

    def choose(self, values: list[T]) -> T:
        return values[self.below(len(values))]

    def some(self, values: list[T], most: int) -> list[T]:
        """Draw at most `most` of `values`, in an order that is drawn too."""
        values = list(values)
        for place in range(min(most, len(values) - 1)):
            other = place + self.below(len(values) - place)
            values[place], values[other] = values[other], values[place]
        return values[:most]


def _first_names(terminology: Terminology) -> NDArray[np.int32]:
    """Return the row of each concept's first English term that trains; -1 where there is none. (n_concepts,) int32."""
    rows, offsets = terminology.training_terms(languages=["en"])
    first = np.full(terminology.n_concepts, -1, np.int32)
    has = np.diff(offsets) > 0
    first[has] = rows[offsets[:-1][has]]
    return first


class _Facts:
    """What may be told of the concepts of rows `start` to `end`."""

    def __init__(
        self,
        terminology: Terminology,
        start: int,
        end: int,
        named: NDArray[np.int32],
        withheld: Withheld,
        counts: Counter[str],
    ) -> None:
        triples = _between(terminology.triples, start, end)
        labels = terminology.relation_labels
        phrased = np.array([_phrasings(label) is not None for label in labels], bool)
        is_parent = np.zeros(len(labels), bool)
        is_parent[terminology.parent_relations] = True
        # The parents first, under one number whatever their relation; labels are in order in every terminology.
        rank = np.where(is_parent, 0, np.arange(1, len(labels) + 1)).astype(np.int32)
        self._labels = ["", *labels]

        heads, relations, tails = triples.T
        live = ~terminology.retired[heads] & (heads != tails) & (is_parent | phrased)[relations]

        def count(keep: NDArray[np.bool_], why: str) -> NDArray[np.bool_]:
            if not keep.all():
                counts[f"description: facts not told: {why}"] += int((~keep).sum())
            return keep

        triples = triples[live]
        triples = triples[count(named[triples[:, 2]] >= 0, "their other concept has no English name")]
        triples = triples[count(~withheld.joins(triples[:, 0], triples[:, 2]), "held out")]

        concepts, which = np.unique(triples[:, 2], return_inverse=True)
        strings = terminology.terms.column("string").take(named[concepts]).to_pylist()
        fit = np.array([not withheld.is_in(string) for string in strings], bool)
        terms = slice(int(terminology.concept_terms[start]), int(terminology.concept_terms[end]))
        own = terminology.term_concept[terms].astype(np.int64) * terminology.n_keys + terminology.term_key[terms]
        keys = triples[:, 0].astype(np.int64) * terminology.n_keys + terminology.term_key[named[triples[:, 2]]]
        is_own = np.isin(keys, own)
        kept = count(fit[which], "the name holds a held-out string") & count(~is_own, "the concept's own name")
        self._names = [string.replace("_", " ") for string in strings]
        rows = np.stack([triples[:, 0] - start, rank[triples[:, 1]], which.astype(np.int32)], 1)[kept]
        rows = rows[np.lexsort(rows.T[::-1])]
        self._rows = rows[np.r_[True, (rows[1:] != rows[:-1]).any(1)]] if len(rows) else rows
        self._offsets = np.searchsorted(self._rows[:, 0].copy(), np.arange(end - start + 1)).tolist()
        self._types = _types(terminology, start, end, own, withheld)

    def of(self, place: int) -> tuple[list[str], list[str], list[tuple[str, str]]]:
        """Return the parents, semantic types and attributes of the concept of row `start` + `place`."""
        parents: list[str] = []
        attributes: list[tuple[str, str]] = []
        for _, rank, name in self._rows[self._offsets[place] : self._offsets[place + 1]].tolist():
            if rank == 0:
                parents.append(self._names[name])
            else:
                attributes.append((self._labels[rank], self._names[name]))
        return parents, self._types.get(place, []), attributes


def _between(triples: NDArray[np.int32], start: int, end: int) -> NDArray[np.int32]:
    """Return the triples whose heads are `start` to `end` - 1; they are sorted by head, and not all are read."""
    first, last = (
        bisect.bisect_left(range(len(triples)), row, key=lambda place: int(triples[place, 0])) for row in (start, end)
    )
    return np.array(triples[first:last])


def _types(
    terminology: Terminology, start: int, end: int, own: NDArray[np.int64], withheld: Withheld
) -> dict[int, list[str]]:
    """Return place -> names of its semantic types, sorted, of the live concepts `start` to `end` - 1."""
    table = terminology.side_table("semantic_types")
    concepts = table.column("concept").to_numpy()
    first, last = np.searchsorted(concepts, np.array([start, end], concepts.dtype)).tolist()
    names = table.column("semantic_type").slice(first, last - first).to_pylist()
    keys = {name: terminology.find_key(clean(name)) for name in set(names) if not withheld.is_in(name)}
    taken = set(own[np.isin(own % terminology.n_keys, [key for key in keys.values() if key is not None])].tolist())
    types: dict[int, set[str]] = {}
    for concept, name in zip(concepts[first:last].tolist(), names, strict=True):
        if name in keys and not terminology.retired[concept]:
            key = keys[name]
            if key is None or concept * terminology.n_keys + key not in taken:
                types.setdefault(concept - start, set()).add(name)
    return {place: sorted(kinds) for place, kinds in types.items()}
