"""Splits: which strings and triples are kept out of training, to calibrate and to test with.

A split is an artefact (an `X.split` folder).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError, UsageError
from alphita.terminology.reading import rows_of
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many

KIND = "split"
PARTS = ("calibration", "test")
FILE = "held_out.json"
TRIPLES_FILE = "held_out_triples.json"


@dataclass(frozen=True)
class Split:
    """Held-out strings and the concepts they name.

    Attributes:
        concept_ids: (n,) the CURIE that each of them names.
        parts: (n,) "calibration" or "test".
        triples: held-out triples: the CURIE of the head, the relation, the CURIE of the tail.
    """

    strings: list[str]
    concept_ids: list[str]
    parts: list[str]
    facts: dict[str, Any] = field(default_factory=dict)
    triples: list[tuple[str, str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        """Return how many strings are held out."""
        return len(self.strings)

    def __bool__(self) -> bool:
        """Return True: a split that holds out triples alone, or nothing, is one all the same."""
        return True

    @functools.cached_property
    def cleaned(self) -> frozenset[str]:
        """The held-out strings after cleaning: neither trained on nor, in an evaluation, indexed."""
        return frozenset(clean_many(self.strings))

    @functools.cached_property
    def hash(self) -> str:
        """Sha256 of what is held out, whatever it was called when saved."""
        held_out: list[Any] = [self.strings, self.concept_ids, self.parts]
        return artefact.hash_json([*held_out, self.triples] if self.triples else held_out)

    def triple_pairs(self, terminology: Terminology) -> NDArray[np.int32]:
        """Return the two concept rows of each held-out triple in a terminology; merged ones by their new rows.

        Returns:
            (n, 2) int32, one row a held-out triple both of whose concepts are there: `len(split.triples)` less n are
        """
        rows = rows_of(terminology, (end for head, _, tail in self.triples for end in (head, tail)))
        triples = [(rows[head], rows[tail]) for head, _, tail in self.triples if head in rows and tail in rows]
        if self.triples and not triples:
            raise InputError(
                "no held-out triple of this split is between concepts of this terminology",
                file=terminology.path,
                value=self.triples[0][0],
                remedy="give the split that was made of it",
            )
        return np.array(triples, np.int32).reshape(-1, 2)

    def part(self, name: str) -> Split:
        """Return only the "calibration" or the "test" strings."""
        if name not in PARTS:
            raise UsageError(f"a split has the parts {list(PARTS)}, not {name!r}")
        rows = zip(self.strings, self.concept_ids, self.parts, strict=True)
        chosen = [(string, concept_id) for string, concept_id, part in rows if part == name]
        strings, ids = ([row[place] for row in chosen] for place in range(2))
        return Split(strings, ids, [name] * len(chosen), self.facts | {"only": name}, self.triples)

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write the split as an artefact."""
        with artefact.create(Path(path), KIND, force=force) as draft:
            _write_rows(draft.path / FILE, zip(self.strings, self.concept_ids, self.parts, strict=True))
            if self.triples:
                _write_rows(draft.path / TRIPLES_FILE, self.triples)
            counts = {"held_out": len(self), "held_out_triples": len(self.triples)}
            draft.fields.update({"split_hash": self.hash, **counts, "facts": self.facts})

    @classmethod
    def load(cls, path: Path | str) -> Split:
        """Read a split."""
        manifest = artefact.open_manifest(path, KIND)
        try:
            rows = _read_rows(Path(path) / FILE)
            strings, concept_ids, parts = ([row[place] for row in rows] for place in range(3))
            triples = _read_rows(Path(path) / TRIPLES_FILE) if (Path(path) / TRIPLES_FILE).exists() else []
        except (OSError, ValueError, IndexError, TypeError) as error:
            raise InputError(f"damaged split: {error}", file=path, remedy="make it again") from None
        split = cls(strings, concept_ids, parts, dict(manifest.get("facts", {})), triples)
        if split.hash != manifest.get("split_hash"):
            raise InputError("its strings or triples are not those that were saved", file=path, remedy="make it again")
        return split


def hold_out_synonyms(terminology: Terminology, *, fraction: float = 0.3, calibration: float = 0.0, seed: int) -> Split:
    """Hold out one exact synonym of about `fraction` of the live concepts that have several, to test on."""
    _check_fractions(fraction, calibration, fraction + calibration)
    rows, concepts = _candidates(terminology)
    chosen: list[int] = []
    parts: list[str] = []
    distinct, starts = np.unique(concepts, return_index=True)
    for start, end in itertools.pairwise([*starts.tolist(), len(rows)]):
        identifier = terminology.concept_id(concepts[start])
        place = uniform(seed, "concept", identifier)
        if place < fraction + calibration:
            parts.append("test" if place < fraction else "calibration")
            strings = _strings(terminology, rows[start:end])
            best = min(range(len(strings)), key=lambda number: (uniform(seed, "string", strings[number]), number))
            chosen.append(int(rows[start + best]))
    return _split(
        terminology,
        np.array(chosen, np.int64),
        parts,
        {"method": "hold_out_synonyms", "fraction": fraction, "seed": seed, "concepts_with_several": len(distinct)}
        | ({"calibration": calibration} if calibration else {}),
    )


def assign(
    terminology: Terminology, *, train: float = 0.8, calibration: float = 0.1, test: float = 0.1, seed: int
) -> Split:
    """Assign every exact synonym to train, calibration or test by a seeded hash of its cleaned string."""
    _check_fractions(train, calibration, test)
    if abs(train + calibration + test - 1) > 1e-9:
        raise UsageError(f"train, calibration and test must add up to 1, not {train + calibration + test:g}")
    rows, _ = _candidates(terminology)
    parts: list[str] = []
    chosen: list[int] = []
    for row, cleaned in zip(rows.tolist(), clean_many(_strings(terminology, rows)), strict=True):
        place = uniform(seed, "cleaned", cleaned)
        if place < calibration + test:
            chosen.append(row)
            parts.append("calibration" if place < calibration else "test")
    facts = {"method": "assign", "train": train, "calibration": calibration, "test": test, "seed": seed}
    return _split(terminology, np.array(chosen, np.int64), parts, facts)


def with_triples(split: Split, terminology: Terminology, *, fraction: float, seed: int) -> Split:
    """Return the split with held-out triples beside its strings."""
    _check_fractions(fraction)
    _, offsets = terminology.training_terms()
    named = np.diff(offsets) > 0
    triples = np.unique(np.asarray(terminology.triples), axis=0)
    triples = triples[named[triples[:, 0]] & named[triples[:, 2]] & (triples[:, 0] != triples[:, 2])]
    low, high = triples[:, [0, 2]].min(1).astype(np.int64), triples[:, [0, 2]].max(1)
    pairs, which = np.unique(low * terminology.n_concepts + high, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(pairs) + 1))
    degree = np.bincount(triples[:, [0, 2]].ravel(), minlength=terminology.n_concepts)
    uses = np.bincount(triples[:, 1], minlength=len(terminology.relation_labels))
    chosen: list[tuple[float, int]] = []
    ids: list[str] = terminology.concept_ids.to_pylist()
    for number, pair in enumerate(pairs.tolist()):
        # Rows are in the order of the ids, so the lower row is the lower id.
        lower, higher = divmod(pair, terminology.n_concepts)
        place = uniform(seed, "triple", f"{ids[lower]}\0{ids[higher]}")
        if place < fraction:
            chosen.append((place, number))
    held_out: list[int] = []
    needed = 0
    for _, number in sorted(chosen):
        members = order[starts[number] : starts[number + 1]]
        labels, counts = np.unique(triples[members, 1], return_counts=True)
        ends = triples[members[0], [0, 2]]
        if (degree[ends] <= len(members)).any() or (uses[labels] <= counts).any():
            needed += 1
            continue
        degree[ends] -= len(members)
        uses[labels] -= counts
        held_out += members.tolist()
    labels_of = terminology.relation_labels
    # In the order of their ids, not in that of the choice.
    rows = triples[np.array(held_out, np.int64)].tolist()
    held_out_triples = sorted((ids[head], labels_of[label], ids[tail]) for head, label, tail in rows)
    facts = split.facts | {
        "terminology_hash": terminology.content_hash,
        "triples_fraction": fraction,
        "triples_seed": seed,
        "triples_held_out": len(held_out_triples),
        "pairs_held_out": len(chosen) - needed,
        "pairs_kept_for_a_concept_or_relation_needs_them": needed,
    }
    return Split(split.strings, split.concept_ids, split.parts, facts, held_out_triples)


def _write_rows(path: Path, rows: Iterable[tuple[str, ...]]) -> None:
    text = ",\n".join(json.dumps(list(row), ensure_ascii=False) for row in rows)
    path.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def _read_rows(path: Path) -> list[tuple[str, str, str]]:
    rows = textio.json_file(path)
    return [(str(first), str(second), str(third)) for first, second, third in rows]


def _candidates(terminology: Terminology) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the term rows that may be held out, and their concepts: the first name of each concept is not."""
    rows, offsets = terminology.training_terms()
    first = np.zeros(len(rows) + 1, bool)
    first[offsets[:-1]] = True
    rows = rows[~first[:-1]]
    return rows, terminology.term_concept[rows]


def _split(terminology: Terminology, rows: NDArray[np.int64], parts: Sequence[str], facts: dict[str, Any]) -> Split:
    """Drop the strings that another live concept has too, and gather the rest."""
    single = ~_shared_keys(terminology)[terminology.term_key[rows]]
    kept = rows[single]
    facts = facts | {
        "terminology_hash": terminology.content_hash,
        "held_out": len(kept),
        "dropped_as_equal_to_a_kept_term": len(rows) - len(kept),
    }
    kept_parts = [part for part, keep in zip(parts, single, strict=True) if keep]
    return Split(*_strings_and_ids(terminology, kept), kept_parts, facts)


def _shared_keys(terminology: Terminology) -> NDArray[np.bool_]:
    """Return, for each cleaned string, whether terms of several live concepts have it; (n_keys,)."""
    live = np.flatnonzero(~terminology.retired[terminology.term_concept])
    keys, concepts = terminology.term_key[live], terminology.term_concept[live]
    lowest = np.full(terminology.n_keys, np.iinfo(np.int32).max, np.int32)
    highest = np.full(terminology.n_keys, -1, np.int32)
    np.minimum.at(lowest, keys, concepts)
    np.maximum.at(highest, keys, concepts)
    return highest > lowest


def _strings(terminology: Terminology, rows: NDArray[Any]) -> list[str]:
    return list(terminology.terms.column("string").take(rows).to_pylist())


def _strings_and_ids(terminology: Terminology, rows: NDArray[Any]) -> tuple[list[str], list[str]]:
    return _strings(terminology, rows), [terminology.concept_id(row) for row in terminology.term_concept[rows]]


def uniform(seed: int, purpose: str, value: str) -> float:
    """Return a number in [0, 1) that depends on nothing but its arguments."""
    digest = hashlib.blake2b(f"{seed}\0{purpose}\0{value}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def _check_fractions(*fractions: float) -> None:
    for fraction in fractions:
        if not 0 <= fraction <= 1:
            raise UsageError(f"a fraction must lie between 0 and 1, not {fraction:g}")


def hold_out_concepts(terminology: Terminology, *, fraction: float, seed: int) -> Split:
    """Hold out about `fraction` of the live, named concepts, each with all of its names."""
    _check_fractions(fraction)
    train, offsets = terminology.training_terms()
    named = np.flatnonzero(np.diff(offsets) > 0)
    chosen = np.zeros(terminology.n_concepts, bool)
    for row in named.tolist():
        chosen[row] = uniform(seed, "whole concept", terminology.concept_id(row)) < fraction
    rows = np.flatnonzero(chosen[terminology.term_concept])
    pairs = terminology.term_concept[rows].astype(np.int64) * terminology.n_keys + terminology.term_key[rows]
    _, first = np.unique(pairs, return_index=True)
    rows = rows[np.sort(first)]
    held = np.zeros(terminology.n_keys, bool)
    held[terminology.term_key[rows]] = True
    others = ~chosen[terminology.term_concept[train]]
    lost = others & held[terminology.term_key[train]]
    left = np.unique(terminology.term_concept[train[others & ~lost]])
    touched = np.unique(terminology.term_concept[train[lost]])
    facts = {
        "method": "hold_out_concepts",
        "fraction": fraction,
        "seed": seed,
        "terminology_hash": terminology.content_hash,
        "concepts": len(named),
        "held_out_concepts": int(chosen.sum()),
        "held_out": len(rows),
        "other_concepts_that_lose_a_name": len(touched),
        "other_concepts_left_without_a_name": len(np.setdiff1d(touched, left)),
    }
    return Split(*_strings_and_ids(terminology, rows), ["test"] * len(rows), facts)


def names_of(terminology: Terminology, curies: Iterable[str]) -> NDArray[np.int64]:
    """Return the term rows of all names, in any language, of some concepts."""
    wanted = np.zeros(terminology.n_concepts, bool)
    wanted[list(rows_of(terminology, curies).values())] = True
    return np.flatnonzero(wanted[terminology.term_concept])
