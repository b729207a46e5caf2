"""The opened terminology: memory-mapped columns, dense int32 rows inside, CURIEs outside.

    t = alphita.load_terminology("hpo.terminology")
    t.concept("HP:0001250").name            # "Seizure"
    [t.concept_id(row) for row in t.search("epileptic seizure")]

Nothing is read before it is needed, and no object is made per row. Rows never leave their folder: keep CURIEs.
"""

from __future__ import annotations

import bisect
import difflib
import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError
from alphita.terminology import arrow_files, prefixes, text
from alphita.terminology.languages import among
from alphita.terminology.text import clean

# What OMOP says of a concept: a property, the predicate of an xref, the code of a semantic type.
STANDARD, MAPS_TO, DOMAIN = "standard_concept", "OMOP:maps_to", "domain_id"
# As OMOP spells them, where that is not to be seen from a concept's CURIE.
VOCABULARY, CODE = "vocabulary_id", "concept_code"


@dataclass(frozen=True)
class Term:
    """One string that names a concept; the fields are those of `Terminology.terms`."""

    string: str
    language: str
    scope: str
    preferred: bool
    type: str | None
    status: str
    source: str
    code: str | None
    term_type: str | None
    reference: str | None


@dataclass(frozen=True)
class Definition:
    """One definition of a concept, with where the source took it from."""

    text: str
    language: str
    source: str
    reference: str | None


@dataclass(frozen=True)
class Concept:
    """All that a terminology knows of one concept.

    Attributes:
        id: CURIE.
        row: its row; of no use outside the folder it was read from.
        name: the preferred term.
        source: prefix of the terminology it comes from.
        retired: no longer to be used.
        terms: all terms, the preferred one first.
        definitions: of all sources and languages.
        semantic_types: names of its categories.
        parents: CURIEs.
        children: CURIEs.
        relations: (label, CURIE of the tail) of every triple with this concept as head, parents included.
        xrefs: (predicate, CURIE in another terminology).
        alt_ids: other ids it answers to.
        replaced_by: what to use instead of it, if retired.
        consider: what to look at instead of it, if retired.
        properties: (name, value): subset, comment, level, ...
    """

    id: str
    row: int
    name: str
    source: str
    retired: bool
    terms: list[Term]
    definitions: list[Definition]
    semantic_types: list[str]
    parents: list[str]
    children: list[str]
    relations: list[tuple[str, str]]
    xrefs: list[tuple[str, str]]
    alt_ids: list[str]
    replaced_by: list[str]
    consider: list[str]
    properties: list[tuple[str, str]]


if TYPE_CHECKING:
    from alphita.terminology.model import save as save

KIND = "terminology"
REMEDY = "import it again: alphita terminology import …"
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def load_terminology(path: Path | str) -> Terminology:
    """Open a terminology folder."""
    return Terminology(Path(path))


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    # `save` lives in `model`, which imports polars; who only opens a terminology need not wait for that.
    if name == "save":
        from alphita.terminology.model import save

        return save
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Terminology:
    """A terminology, memory-mapped.

    Attributes:
        manifest: sources with versions and licences, config, counts, hashes.
        content_hash: hash of the content.
        concept_ids: (n_concepts,) CURIEs, sorted by bytes; a concept's position here is its row.
        concept_names: (n_concepts,) the preferred term of each; its id if it has no term.
        retired: (n_concepts,) bool.
        terms: pa.Table of n_terms rows, concept by concept, the preferred ones first: string, language, scope,
            preferred, type, status, source, code, term_type, reference.
        term_concept: (n_terms,) int32, the concept of each term.
        concept_terms: (n_concepts + 1,) int64, offsets of each concept's terms.
        term_key: (n_terms,) int32; two terms have the same key if their cleaned strings are equal.
        triples: (n_relations, 3) int32 head, relation, tail; sorted.
        relation_labels: name of each relation.
        parent_relations: the numbers of the relations that lead to parents.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.manifest = artefact.open_checked(self.path, KIND)
        self.content_hash: str = self.manifest["content_hash"]
        if self.manifest.get("cleaning_version") != text.CLEANING_VERSION:
            raise InputError("made with other cleaning rules than this version's", file=self.path, remedy=REMEDY)
        try:
            self._open()
        except (OSError, ValueError, KeyError, IndexError, TypeError, pa.ArrowException) as error:
            raise InputError(f"damaged terminology: {error}", file=self.path, remedy=REMEDY) from None

    def _open(self) -> None:
        concepts = self._table("concepts")
        self.concept_ids: pa.LargeStringArray = _column(concepts, "id")
        self.concept_names: pa.LargeStringArray = _column(concepts, "name")
        self.concept_sources: pa.DictionaryArray = _column(concepts, "source")
        self.retired: NDArray[np.bool_] = self._array("retired")
        self.terms = self._table("terms")
        self.term_concept: Int32 = self._array("term_concept")
        self.concept_terms: Int64 = self._array("concept_terms")
        self.term_key: Int32 = self._array("term_key")
        self._key_terms: Int32 = self._array("key_terms")
        self._key_offsets: Int64 = self._array("key_offsets")
        self.triples: Int32 = self._array("triples")
        self._head_offsets: Int64 = self._array("head_offsets")
        self._tail_triples: Int32 = self._array("tail_triples")
        self._tail_offsets: Int64 = self._array("tail_offsets")
        labels = textio.json_file(self.path / "labels.json")
        self.relation_labels: list[str] = labels["relations"]
        self._relation_sources: list[str] = labels["relation_sources"]
        self.parent_relations = [self.relation_labels.index(name) for name in labels["parent_relations"]]
        lengths = [
            (len(self.retired), len(self.concept_ids)),
            (len(self.term_concept), len(self.terms)),
            (len(self.concept_terms), len(self.concept_ids) + 1),
            (int(self.concept_terms[-1]), len(self.terms)),
            (len(self._head_offsets), len(self.concept_ids) + 1),
            (int(self._head_offsets[-1]), len(self.triples)),
        ]
        if any(length != wanted for length, wanted in lengths):
            raise ValueError("its files do not fit together")

    @property
    def n_concepts(self) -> int:
        """Number of concepts, including retired ones."""
        return len(self.concept_ids)

    @property
    def n_terms(self) -> int:
        """Number of terms."""
        return len(self.term_concept)

    @property
    def n_relations(self) -> int:
        """Number of triples."""
        return len(self.triples)

    @property
    def summary(self) -> str:
        """How large it is: "3 concepts, 5 terms, 2 relations"."""
        return f"{self.n_concepts:,} concepts, {self.n_terms:,} terms, {self.n_relations:,} relations"

    def __repr__(self) -> str:
        """Show where it lies and how large it is."""
        return f"Terminology({str(self.path)!r}: {self.summary})"

    # --- ids ---------------------------------------------------------------------------------------------------------

    def concept_id(self, row: int) -> str:
        """Return the CURIE of a row."""
        return str(self.concept_ids[int(row)].as_py())

    def resolve(self, curie: str) -> int:
        """Return the row of a concept by its id or one of its alternative ids.

        Raises:
            InputError: no concept has this id; the message suggests a similar one.
        """
        curie = prefixes.normalize(curie)
        row = _find(self.concept_ids, curie)
        if row is not None:
            return row
        aliases = self._table("aliases")
        place = _find(_column(aliases, "alias"), curie)
        if place is not None:
            return int(_column(aliases, "concept")[place].as_py())
        raise InputError("no concept has this id", file=self.path, value=curie, remedy=self._suggestion(curie))

    def _suggestion(self, curie: str) -> str | None:
        near = bisect.bisect_left(range(self.n_concepts), curie, key=self.concept_id)
        around = [self.concept_id(row) for row in range(max(0, near - 20), min(self.n_concepts, near + 20))]
        matches = difflib.get_close_matches(curie, around, n=1, cutoff=0.0)
        return f"did you mean {matches[0]!r}?" if matches else None

    # --- strings -----------------------------------------------------------------------------------------------------

    def search(self, string: str, *, exact_only: bool = False) -> list[int]:
        """Return the rows of all concepts with a term equal to `string` after cleaning, live ones first.

        Args:
            string: any string; it is cleaned.
            exact_only: leave out broad, narrow and related terms.
        """
        key = self.find_key(clean(string))
        if key is None:
            return []
        terms = self.terms_of_key(key)
        if exact_only:
            terms = terms[self._codes("scope")[terms] == self._code("scope", "exact")]
        rows = np.unique(self.term_concept[terms])
        return [int(row) for row in rows[np.argsort(self.retired[rows], kind="stable")]]

    def find_key(self, cleaned: str) -> int | None:
        """Return the key of a cleaned string (see `term_key`), or None if no term has it."""
        strings = _column(self.terms, "string")

        def string_of(key: int) -> str:
            return clean(strings[int(self._key_terms[self._key_offsets[key]])].as_py())

        place = bisect.bisect_left(range(self.n_keys), cleaned, key=string_of)
        return place if place < self.n_keys and string_of(place) == cleaned else None

    @property
    def n_keys(self) -> int:
        """Number of distinct cleaned strings."""
        return len(self._key_offsets) - 1

    def terms_of_key(self, key: int) -> Int32:
        """Return the term rows that share a key."""
        return np.asarray(self._key_terms[self._key_offsets[key] : self._key_offsets[key + 1]])

    def training_terms(
        self, *, exclude: Collection[str] = frozenset(), languages: Collection[str] | None = None
    ) -> tuple[Int32, Int64]:
        """Return the terms that are positives in training, concept by concept.

        They are exact, not machine-translated, not obsolete, and belong to live concepts; of a concept's terms that are
        equal after cleaning, only the first is returned. The preferred term comes first.

        Args:
            exclude: cleaned strings to leave out, such as a split's held-out ones.
            languages: BCP-47 tags; "de" includes "de-CH"; all by default.

        Returns:
            (m,) int32 term rows and (n_concepts + 1,) int64 offsets into them.
        """
        wanted = (
            (self._codes("scope") == self._code("scope", "exact"))
            & (self._codes("status") != self._code("status", "machine"))
            & (self._codes("type") != self._code("type", "obsolete"))
            & ~self.retired[self.term_concept]
        )
        if languages is not None:
            spoken = _column(self.terms, "language").dictionary.to_pylist()
            tags = [self._code("language", tag) for tag in among(spoken, languages)]
            wanted &= np.isin(self._codes("language"), tags)
        left_out = [self.find_key(string) for string in {"", *exclude}]
        dropped = np.zeros(self.n_keys, bool)
        dropped[[key for key in left_out if key is not None]] = True
        wanted &= ~dropped[self.term_key]
        rows = np.flatnonzero(wanted)
        pairs = self.term_concept[rows].astype(np.int64) * self.n_keys + self.term_key[rows]
        _, first = np.unique(pairs, return_index=True)
        rows = rows[np.sort(first)]
        counts = np.bincount(self.term_concept[rows], minlength=self.n_concepts)
        return rows.astype(np.int32), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    # --- graph -------------------------------------------------------------------------------------------------------

    def outgoing(self, row: int) -> Int32:
        """Return the triples (m, 3) that have the concept as head."""
        return np.asarray(self.triples[self._head_offsets[row] : self._head_offsets[row + 1]])

    def incoming(self, row: int) -> Int32:
        """Return the triples (m, 3) that have the concept as tail."""
        return np.asarray(self.triples[self._tail_triples[self._tail_offsets[row] : self._tail_offsets[row + 1]]])

    def parents(self, row: int) -> Int32:
        """Return the rows of the direct parents, sorted."""
        triples = self.outgoing(row)
        return np.unique(triples[np.isin(triples[:, 1], self.parent_relations), 2])

    def children(self, row: int) -> Int32:
        """Return the rows of the direct children, sorted."""
        triples = self.incoming(row)
        return np.unique(triples[np.isin(triples[:, 1], self.parent_relations), 0])

    def ancestors(self, row: int) -> Int32:
        """Return the rows of all ancestors, sorted, without the concept itself; cycles are followed once."""
        return self._closure(row, self.parents)

    def descendants(self, row: int) -> Int32:
        """Return the rows of all descendants, sorted, without the concept itself; cycles are followed once."""
        return self._closure(row, self.children)

    def _closure(self, row: int, step: Callable[[int], Int32]) -> Int32:
        seen, waiting = {int(row)}, [int(row)]
        while waiting:
            new = set(step(waiting.pop()).tolist()) - seen
            seen |= new
            waiting += new
        seen.discard(int(row))
        return np.array(sorted(seen), np.int32)

    @functools.cached_property
    def triple_sources(self) -> tuple[NDArray[np.uint16], list[str]]:
        """Return each triple's source as a number, (n_relations,), and the names of the sources."""
        return self._array("triple_source"), self._relation_sources

    # --- one concept -------------------------------------------------------------------------------------------------

    def side_table(self, name: str) -> pa.Table:
        """Return a whole side table, sorted by its column `concept` (a row of this terminology).

        Args:
            name: definitions, semantic_types, xrefs, aliases, replacements or properties.
        """
        return self._table(name)

    def semantic_types_of(self, row: int, code: str | None = None) -> list[str]:
        """Return the names of the concept's semantic types; if a code is given, only of those with this code."""
        entries = self._side_rows("semantic_types", row)
        return [entry["semantic_type"] for entry in entries if code in (None, entry["code"])]

    def concept(self, identifier: str | int) -> Concept:
        """Return all data about one concept.

        Args:
            identifier: its CURIE (or an alternative id), or its row.

        Raises:
            InputError: there is no such concept.
        """
        row = self.resolve(identifier) if isinstance(identifier, str) else int(identifier)
        if not 0 <= row < self.n_concepts:
            raise InputError(f"rows run from 0 to {self.n_concepts - 1}", file=self.path, value=row)
        start, end = int(self.concept_terms[row]), int(self.concept_terms[row + 1])
        replacements = self._side_rows("replacements", row)
        aliases = self._table("aliases")
        alias_concepts, by_concept = self._alias_concepts
        first, last = np.searchsorted(alias_concepts, np.array([row, row + 1], alias_concepts.dtype))
        return Concept(
            id=self.concept_id(row),
            row=row,
            name=str(self.concept_names[row].as_py()),
            source=str(self.concept_sources[row].as_py()),
            retired=bool(self.retired[row]),
            terms=[Term(**entry) for entry in self.terms.slice(start, end - start).to_pylist()],
            definitions=[Definition(**entry) for entry in self._side_rows("definitions", row)],
            semantic_types=self.semantic_types_of(row),
            parents=self._ids(self.parents(row)),
            children=self._ids(self.children(row)),
            relations=[
                (self.relation_labels[label], self.concept_id(tail)) for _, label, tail in self.outgoing(row).tolist()
            ],
            xrefs=[(entry["predicate"], entry["object"]) for entry in self._side_rows("xrefs", row)],
            alt_ids=_column(aliases, "alias").take(pa.array(by_concept[first:last])).to_pylist(),
            replaced_by=[entry["object"] for entry in replacements if entry["predicate"] == "replaced_by"],
            consider=[entry["object"] for entry in replacements if entry["predicate"] == "consider"],
            properties=[(entry["name"], entry["value"]) for entry in self._side_rows("properties", row)],
        )

    @functools.cached_property
    def _alias_concepts(self) -> tuple[Int32, NDArray[np.int64]]:
        """The concepts of the aliases in order, and the row of each in the table, which is sorted by alias."""
        concepts = _column(self._table("aliases"), "concept").to_numpy()
        order = np.argsort(concepts, kind="stable")
        return concepts[order], order

    def _ids(self, rows: Iterable[int]) -> list[str]:
        return [self.concept_id(row) for row in rows]

    def _side_rows(self, name: str, row: int) -> list[dict[str, Any]]:
        table = self._table(name)
        concepts = _column(table, "concept").to_numpy()
        # Sought as a number of the column's own type: with another, NumPy copies the whole column first.
        start, end = np.searchsorted(concepts, np.array([row, row + 1], concepts.dtype))
        return table.slice(start, end - start).drop_columns(["concept"]).to_pylist()

    # --- columns -----------------------------------------------------------------------------------------------------

    def _codes(self, column: str) -> NDArray[Any]:
        """Return a dictionary column of the terms as numbers, (n_terms,); -1 for null."""
        codes = _column(self.terms, column).indices
        return codes.fill_null(-1).to_numpy() if codes.null_count else codes.to_numpy()

    def _code(self, column: str, value: str) -> int:
        """Return the number of a value in a dictionary column; -2 where no term has it."""
        place = pc.index(_column(self.terms, column).dictionary, value).as_py()
        return place if place >= 0 else -2

    @functools.cached_property
    def _tables(self) -> dict[str, pa.Table]:
        return {}

    def _table(self, name: str) -> pa.Table:
        if name not in self._tables:
            self._tables[name] = arrow_files.read(self.path / f"{name}.arrow")
        return self._tables[name]

    def _array(self, name: str) -> NDArray[Any]:
        return np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def _column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array, without copying where it is one already."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _find(strings: pa.LargeStringArray, wanted: str) -> int | None:
    """Return the first place of a string in a sorted array; UTF-8 bytes sort as code points do."""
    place = bisect.bisect_left(range(len(strings)), wanted, key=lambda row: strings[row].as_py())
    return place if place < len(strings) and strings[place].as_py() == wanted else None
