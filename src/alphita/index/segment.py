"""A segment: an immutable part of an index, and its files.

strings.arrow   the distinct cleaned strings, sorted by bytes: row s of `vectors.npy` is the vector of string s
vectors.npy     (n_strings, dim) float32 or float16, of length 1
offsets.npy     (n_strings + 1,) int64: the terms of string s are the rows offsets[s] up to offsets[s + 1] of
terms.arrow     the displayed data of each term; within a string: exact scope first, preferred first, official first
standing.npy    (n_terms,) uint8: the rank of a term for its concept, 0 best: scope before preference; from
                `RETIRED_STANDING` on, terms of retired concepts, which lead to the replacement, and of non-standard
                OMOP concepts, which also lead to their targets (the column `retired_concept` names either); from
                `EXTERNAL_STANDING` on, external names (the column `borrowed_as` has the own name that each accompanies)
short_forms.arrow   the meanings of clinical and external short forms (see `enrichment`), if it has any
codes.arrow         codes of other vocabularies, and their concepts (see `concepts`)
maps_to.npy     (2, m) int32, sorted: rows of non-standard OMOP concepts, and of the standard ones they map to, if any
words.arrow         the words of the strings, and in how many each occurs
elsewhere.npy       hashes of other vocabularies' names that the index lacks (see `out_of_scope_names`), if any
concepts.arrow  id, name and other data of each concept that has a term here; with parents.npy,
                parent_offsets.npy, known_ids.arrow and known_rows.npy (see `concepts`)
ngrams/         (see `ngrams`), unless left out
hnsw.faiss, ivf_pq.faiss      the files of a backend, if any
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.index import concepts
from alphita.index.concepts import Concepts
from alphita.index.neighbours import Vectors
from alphita.index.ngrams import SortedStrings
from alphita.terminology import arrow_files, prefixes
from alphita.terminology.rules.lexicon import WORD
from alphita.terminology.text import clean_many

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

# In the order in which the terms of a string are shown.
SCOPES = ("exact", "narrow", "broad", "related")
STATUSES = ("official", "candidate", "machine")
# The columns of a term, in addition to its string and its concept.
TERM_COLUMNS = ("scope", "language", "source", "code", "type", "status")
RETIRED_STANDING = 2 * (len(SCOPES) + 1)
EXTERNAL_STANDING = 2 * RETIRED_STANDING
STRINGS_AT_ONCE, COUNTED_AT_ONCE = 1_000_000, 65_536
# Files of every current segment, which those of earlier builds may lack.
ADDED = {
    "parents.npy": "the ancestors of concepts",
    "known_ids.arrow": "ids that were replaced",
    "codes.arrow": "codes of other vocabularies",
    "words.arrow": "counts of words, so it takes longer to start",
}
ADDED_COLUMNS = {"retired_concept": "the names of retired concepts"}
SHORT_FORMS, ELSEWHERE, CODES, MAPS_TO = "short_forms.arrow", "elsewhere.npy", "codes.arrow", "maps_to.npy"
WORDS = "words.arrow"


class Segment:
    """One segment, memory-mapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The content hash of its index, once that has opened it.
        self.index_hash = ""
        try:
            self.strings = SortedStrings(arrow_files.read(path / "strings.arrow").column("string").chunk(0))
            self.vectors: Vectors = self._load("vectors")
            self.offsets: NDArray[np.int64] = self._load("offsets")
            self.standing: NDArray[np.uint8] = self._load("standing")
            self.terms = arrow_files.read(path / "terms.arrow")
            self.concepts = arrow_files.read(path / "concepts.arrow")
            self.term_concept: NDArray[np.int32] = self.terms.column("concept").chunk(0).to_numpy()
            self.short_forms: pa.Table | None = (
                arrow_files.read(path / SHORT_FORMS) if (path / SHORT_FORMS).exists() else None
            )
            has_elsewhere = (path / ELSEWHERE).exists()
            self.elsewhere: NDArray[np.uint64] = self._load("elsewhere") if has_elsewhere else np.zeros(0, np.uint64)
            has_targets = (path / MAPS_TO).exists()
            self.maps_to: NDArray[np.int32] = self._load("maps_to") if has_targets else np.zeros((2, 0), np.int32)
            self._open_concepts()
        except (OSError, ValueError, KeyError, IndexError, pa.ArrowException) as error:
            raise InputError(f"damaged index segment: {error}", file=path, remedy="build the index again") from None
        n = len(self.strings)
        fits = (
            self.vectors.ndim == 2
            and self.vectors.dtype in (np.float32, np.float16)
            and len(self.vectors) == n
            and self.offsets.shape == (n + 1,)
            and int(self.offsets[-1]) == len(self.terms) == len(self.standing)
        )
        if not fits:
            raise InputError(
                "the files of this index segment do not fit together", file=path, remedy="build the index again"
            )

    @functools.cached_property
    def word_counts(self) -> dict[str, int]:
        """The number of strings in which each word occurs."""
        if not (self.path / WORDS).exists():
            return count_words(_listed(self.strings.array))
        table = arrow_files.read(self.path / WORDS)
        return dict(zip(table.column("word").to_pylist(), table.column("count").to_pylist(), strict=True))

    def _load(self, name: str) -> NDArray[Any]:
        # Mapped; the class of mapped arrays makes each operation slower.
        return np.asarray(np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def _open_concepts(self) -> None:
        """Open the graph and the ids, which indexes of earlier versions lack."""
        self.parents: NDArray[np.int32] | None = None
        self.parent_offsets: NDArray[np.int64] | None = None
        if (self.path / "parents.npy").exists():
            self.parents = self._load("parents")
            self.parent_offsets = self._load("parent_offsets")
        if (self.path / "known_ids.arrow").exists():
            ids = arrow_files.read(self.path / "known_ids.arrow").column("id").chunk(0)
            self._known_rows: NDArray[np.int32] = self._load("known_rows")
        else:
            ids = concepts.text(self.concepts.column("id"))
            order = pc.sort_indices(ids)
            ids, self._known_rows = ids.take(order), order.to_numpy().astype(np.int32)
        self._known_ids = SortedStrings(ids)
        self._codes: pa.Table | None = arrow_files.read(self.path / CODES) if (self.path / CODES).exists() else None

    @property
    def lacking(self) -> tuple[str, ...]:
        """The files that this segment, from an earlier build, lacks, in words."""
        lacks = [what for file, what in ADDED.items() if not (self.path / file).exists()]
        return (*lacks, *(what for name, what in ADDED_COLUMNS.items() if name not in self.terms.column_names))

    @functools.cached_property
    def borrowed(self) -> NDArray[np.bool_]:
        """Whether each term is an external name, (n_terms,)."""
        return np.asarray(self.standing) >= EXTERNAL_STANDING

    def concept_rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of the concept with each CURIE, -1 if there is none: (len(ids),) int64."""
        place = self._known_ids.rows(ids)
        for wrong in np.flatnonzero(place < 0).tolist():
            place[wrong] = self._known_ids.rows([prefixes.normalize(ids[wrong])])[0]
        return np.where(place >= 0, self._known_rows[np.maximum(place, 0)], -1).astype(np.int64)

    def coded(self, codes: Sequence[str]) -> list[list[int]]:
        """Return the rows of the concepts to which each code of another vocabulary maps, if any."""
        if self._codes is None or not len(self._codes):
            return [[] for _ in codes]
        places = SortedStrings(self._codes.column("id").chunk(0)).rows(codes).tolist()
        concepts = self._codes.column("concepts")
        return [concepts[place].as_py() if place >= 0 else [] for place in places]

    def mapped_homonyms(self, string: NDArray[np.int64], concept: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of the other concepts of a string have it only through a mapping from or to this concept.

        Args:
            string, concept: (n,) rows; each concept has a term of that string.
        """
        known, counts = self._mapped_homonyms
        keys = string * len(self.concepts) + concept
        place = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        return np.where(known[place] == keys, counts[place], 0) if len(known) else np.zeros(len(keys), np.int64)

    @functools.cached_property
    def _mapped_homonyms(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The strings and concepts that a mapping connects with others, as sorted keys, and the number of these."""
        if "retired_concept" not in self.terms.column_names:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        retired = concepts.text(self.terms.column("retired_concept"))
        copies = np.flatnonzero(pc.is_valid(retired).to_numpy(zero_copy_only=False))
        place = pc.index_in(retired.take(pa.array(copies)), value_set=concepts.text(self.concepts.column("id")))
        source = pc.fill_null(place, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        # Retired concepts are not indexed.
        copies, source = copies[source >= 0], source[source >= 0]
        string = np.searchsorted(self.offsets, copies, "right") - 1
        pairs = np.unique(np.stack([string, self.term_concept[copies].astype(np.int64), source], axis=1), axis=0)
        ends = np.concatenate([pairs[:, 0] * len(self.concepts) + pairs[:, end] for end in (1, 2)])
        keys, counts = np.unique(ends, return_counts=True)
        return keys, counts.astype(np.int64)

    def parents_of(self, concept: int) -> NDArray[np.int32]:
        """Return the rows of a concept's nearest indexed ancestors, sorted."""
        if self.parents is None or self.parent_offsets is None:
            return np.zeros(0, np.int32)
        return np.asarray(self.parents[self.parent_offsets[concept] : self.parent_offsets[concept + 1]])

    def children_of(self, concept: int) -> NDArray[np.int64]:
        """Return the rows of the concepts of which it is a nearest indexed ancestor, sorted."""
        if self.parents is None or self.parent_offsets is None:
            return np.zeros(0, np.int64)
        return np.searchsorted(self.parent_offsets, np.flatnonzero(self.parents == concept), "right") - 1

    def targets_of(self, concept: int) -> list[int]:
        """Return the rows of the standard concepts that a non-standard one maps to (OMOP), sorted."""
        first, last = np.searchsorted(self.maps_to[0], np.array([concept, concept + 1], np.int32))
        targets: list[int] = self.maps_to[1, first:last].tolist()
        return targets

    def ancestors(self, concepts: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which concepts are above some, (n_concepts,), perhaps some of these."""
        above = np.zeros(len(concepts), bool)
        if self.parents is None or self.parent_offsets is None:
            return above
        child, count = np.repeat(np.arange(len(concepts)), np.diff(self.parent_offsets)), -1
        while count < (count := int(above.sum())):
            above[self.parents[(concepts | above)[child]]] = True
        return above

    def tops(self) -> NDArray[np.int32]:
        """Return the rows of the concepts that have others below them and none above, sorted."""
        if self.parents is None or self.parent_offsets is None:
            return np.zeros(0, np.int32)
        above = np.unique(self.parents)
        return above[self.parent_offsets[above] == self.parent_offsets[above + 1]]

    def descendants(self, concept: int) -> NDArray[np.int64]:
        """Return the rows of all concepts below one, sorted, without itself; cycles are followed once."""
        if self.parents is None or self.parent_offsets is None:
            raise InputError(
                "this index was built without parents of concepts", file=self.path, remedy="build the index again"
            )
        child = np.repeat(np.arange(len(self.concepts)), np.diff(self.parent_offsets))
        below = np.zeros(len(self.concepts), bool)
        below[concept] = True
        count = 0
        while count < (count := int(below.sum())):
            below[child[below[self.parents]]] = True
        below[concept] = False
        return np.flatnonzero(below)


class Content(NamedTuple):
    """The content of a segment apart from its vectors; see the module for each."""

    strings: pa.LargeStringArray
    offsets: NDArray[np.int64]
    terms: pa.Table
    standing: NDArray[np.uint8]
    concepts: Concepts
    codes: pa.Table
    maps_to: NDArray[np.int32]


class Given(NamedTuple):
    """The additions to a segment beyond its terminology; see the module for each."""

    short_forms: pa.Table | None = None
    elsewhere: NDArray[np.uint64] | None = None


NOTHING_GIVEN = Given()


def collect(terminology: Terminology, rules: Sequence[str], exclude: frozenset[str]) -> Content:
    """Collect the content of a segment: live concepts of a terminology, and the concepts that they replace."""

    stands_for = concepts.replacements(terminology)
    own = np.asarray(terminology.term_concept)
    written = terminology.terms.column("string")
    blocks = [
        pa.array(clean_many(written.slice(start, STRINGS_AT_ONCE).to_pylist(), tuple(rules)), pa.large_string())
        for start in range(0, len(written), STRINGS_AT_ONCE)
    ]
    cleaned = pa.concat_arrays(blocks) if blocks else pa.array([], pa.large_string())
    kept = (stands_for[own] >= 0) & pc.not_equal(cleaned, "").to_numpy(zero_copy_only=False)
    if exclude:
        excluded = pc.is_in(cleaned, value_set=pa.array(sorted(exclude), pa.large_string()))
        kept &= ~excluded.to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(kept)
    mapped = concepts.mapped(terminology)
    rows, concept = _with_mapped(rows, own, stands_for, mapped)
    new = _not_named_already(cleaned.take(pa.array(rows)), own[rows], concept)
    rows, concept = rows[new], concept[new]
    if len(rows) == 0:
        raise InputError("no terms of live concepts are left to index")
    strings, string_row = _distinct(cleaned.take(pa.array(rows)))

    table = terminology.terms.take(pa.array(rows))
    own = own[rows]
    other = concept != own
    preferred = table.column("preferred").to_numpy() & ~other
    standing = 2 * _rank(table, "scope", SCOPES) + ~preferred + RETIRED_STANDING * other
    order = np.lexsort((concept, _rank(table, "status", STATUSES), standing, string_row))
    offsets = np.searchsorted(string_row[order], np.arange(len(strings) + 1)).astype(np.int64)

    used, place = np.unique(concept[order], return_inverse=True)
    table = table.take(pa.array(order))
    columns = {"string": table.column("string").cast(pa.large_string()), "concept": pa.array(place.astype(np.int32))}
    columns |= {name: table.column(name) for name in TERM_COLUMNS if name in table.column_names}
    columns["preferred"] = pa.array(preferred[order])
    columns["retired_concept"] = concepts.text(terminology.concept_ids).take(pa.array(own[order], mask=~other[order]))
    terms = pa.table(columns)
    known = concepts.gather(terminology, used.astype(np.int64), stands_for)
    place_of = np.full(len(stands_for), -1, np.int32)
    place_of[used] = np.arange(len(used))
    of_others = concepts.codes_of(terminology, terms, known, place_of)
    maps_to = place_of[mapped]
    maps_to = maps_to[(maps_to >= 0).all(axis=1)].T.copy()
    return Content(strings, offsets, terms, standing[order].astype(np.uint8), known, of_others, maps_to)


def _distinct(cleaned: pa.LargeStringArray) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """Return the distinct strings, sorted, and the position of each string among them."""
    strings = pc.unique(cleaned)
    strings = strings.take(pc.sort_indices(strings))
    return strings, pc.index_in(cleaned, value_set=strings).to_numpy(zero_copy_only=False).astype(np.int64)


def _with_mapped(
    rows: NDArray[np.int64], own: NDArray[np.int32], stands_for: NDArray[np.int32], mapped: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows of terms, those of non-standard concepts again for each target, and the concept of each."""
    first, end = (np.searchsorted(mapped[:, 0], own[rows], side) for side in ("left", "right"))
    counts = end - first
    again = np.repeat(rows, counts)
    place = np.arange(len(again)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    targets = mapped[place, 1].astype(np.int32)
    return np.concatenate([rows, again]), np.concatenate([stands_for[own[rows]], targets])


def _not_named_already(
    cleaned: pa.LargeStringArray, own: NDArray[np.int32], concept: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which terms to keep: another concept's term is left out if the concept itself has the same string."""
    other = concept != own
    if not other.any():
        return np.ones(len(own), bool)
    string = _distinct(cleaned)[1]
    pairs = string * (int(concept.max()) + 1) + concept
    return ~(other & np.isin(pairs, pairs[~other]))


def write(path: Path, content: Content, given: Given = NOTHING_GIVEN) -> None:
    """Write a segment, except its vectors, into the folder `path`."""
    path.mkdir(parents=True)
    if given.short_forms is not None:
        arrow_files.write(path / SHORT_FORMS, given.short_forms)
    if given.elsewhere is not None:
        np.save(path / ELSEWHERE, given.elsewhere, allow_pickle=False)
    arrow_files.write(path / "strings.arrow", pa.table({"string": content.strings}))
    counts = count_words(_listed(content.strings))
    numbers = pa.array(list(counts.values()), pa.int32())
    arrow_files.write(path / WORDS, pa.table({"word": pa.array(list(counts), pa.large_string()), "count": numbers}))
    arrow_files.write(path / "terms.arrow", content.terms)
    arrow_files.write(path / "concepts.arrow", content.concepts.table)
    arrow_files.write(path / CODES, content.codes)
    arrow_files.write(path / "known_ids.arrow", pa.table({"id": content.concepts.known_ids}))
    parts = content.concepts
    arrays: dict[str, NDArray[Any]] = {
        "offsets": content.offsets,
        "standing": content.standing,
        "parents": parts.parents,
    }
    arrays |= {"parent_offsets": parts.parent_offsets, "known_rows": parts.known_rows}
    if content.maps_to.size:
        arrays["maps_to"] = content.maps_to
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array, allow_pickle=False)


def count_words(strings: Iterable[str]) -> Counter[str]:
    """Return the number of cleaned strings in which each word occurs."""
    return Counter(word for string in strings for word in dict.fromkeys(WORD.findall(string)))


def _listed(strings: pa.LargeStringArray) -> Iterator[str]:
    for start in range(0, len(strings), COUNTED_AT_ONCE):
        yield from strings.slice(start, COUNTED_AT_ONCE).to_pylist()


def _rank(table: pa.Table, name: str, order: Sequence[str]) -> NDArray[np.int64]:
    """Return each row's position in `order`; unlisted values come last."""
    if name not in table.column_names:
        return np.zeros(len(table), dtype=np.int64)
    place = pc.index_in(table.column(name).cast(pa.string()), value_set=pa.array(order))
    return pc.fill_null(place, len(order)).to_numpy().astype(np.int64)
