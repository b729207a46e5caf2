"""What there is to search: the products of a terminology, their attributes and values.

A product is a concept that is the head of an attribute's triple, the tail is a value of that attribute; so a table of
products (`alphita terminology import products`) is one, and so are rare diseases with their phenotypes. What such a
table calls a product, its semantic type, is one without any value too: its title can be found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.terminology.languages import among
from alphita.terminology.text import clean, clean_many

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

REMEDY = "import a table of products: alphita terminology import products TABLE.csv -o X.terminology"


class Owned(NamedTuple):
    """The n distinct cleaned names, sorted by their UTF-8 bytes, of some concepts, called owners.

    Owner o has the names rows[offsets[o]] up to rows[offsets[o + 1]] of `strings`, one or more, the preferred first.
    """

    strings: pa.LargeStringArray
    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]


class Catalogue(NamedTuple):
    """Products with their attributes, by rows of their own.

    Attributes:
        titles, values: preferred names (where these do not train, the first that do), as written.
        attributes: their names, sorted.
        triples: (m, 3) int32 product, attribute, value; sorted and distinct.
        unnamed: triples left out because product or value has no name to be found by: none in the languages, none that
            a split does not hold out, or the concept is retired.
        unnamed_products: products left out because they have none, or no value that has one.
    """

    product_ids: list[str]
    titles: list[str]
    title_names: Owned
    value_ids: list[str]
    values: list[str]
    value_names: Owned
    attributes: list[str]
    triples: NDArray[np.int32]
    held_out: int
    unnamed: int
    unnamed_products: int


def collect(
    terminology: Terminology,
    *,
    attributes: Collection[str] = (),
    languages: Collection[str] = (),
    split: Split | None = None,
) -> Catalogue:
    """Gather the products of a terminology: live concepts with a name that trains, and so their values."""
    from alphita.terminology.model import PRODUCT

    labels = attribute_labels(terminology, attributes)
    known = set(filter(None, terminology.terms.column("language").unique().to_pylist()))
    for tag in languages:
        if not among(known, [tag]):
            raise UsageError(unknown("language", tag, known))
    rows, offsets = terminology.training_terms(
        exclude=frozenset() if split is None else split.cleaned, languages=languages or None
    )
    usable = np.diff(offsets) > 0
    every = np.unique(np.asarray(terminology.triples), axis=0)
    every = every[np.isin(every[:, 1], labels) & (every[:, 0] != every[:, 2])]
    triples = every[usable[every[:, 0]] & usable[every[:, 2]]]
    if not len(triples):
        raise _nothing(terminology, len(every), languages)
    types = terminology.side_table("semantic_types")
    named = types["concept"].filter(pc.equal(types["semantic_type"], PRODUCT)).to_numpy().astype(np.int64)
    products = np.union1d(triples[:, 0], named[usable[named]])
    product = np.searchsorted(products, triples[:, 0])
    values, value = np.unique(triples[:, 2], return_inverse=True)
    used, attribute = np.unique(triples[:, 1], return_inverse=True)
    names = [terminology.relation_labels[label] for label in used.tolist()]
    place = np.argsort(np.argsort(names))
    table = np.stack([product, place[attribute], value], axis=1).astype(np.int32)
    kept = np.ones(len(table), bool) if split is None else ~_held_out(terminology, triples, split)
    table = table[kept]
    strings = terminology.terms.column("string")
    return Catalogue(
        _taken(terminology.concept_ids, products),
        _taken(strings, rows[offsets[products]]),
        _owned(terminology, rows, offsets, products),
        _taken(terminology.concept_ids, values),
        _taken(strings, rows[offsets[values]]),
        _owned(terminology, rows, offsets, values),
        sorted(names),
        table[np.lexsort(table.T[::-1])],
        int((~kept).sum()),
        len(every) - len(triples),
        len(np.union1d(every[:, 0], named)) - len(products),
    )


def attribute_labels(terminology: Terminology, attributes: Collection[str] = ()) -> list[int]:
    """Return the numbers of the relations that are attributes, as `collect` takes them."""
    names = terminology.relation_labels
    for name in attributes:
        if name not in names:
            raise UsageError(unknown("attribute", name, names))
    chosen = set(attributes) or {name for row, name in enumerate(names) if row not in terminology.parent_relations}
    return [row for row, name in enumerate(names) if name in chosen]


def title_with_attribute(title: str, attribute: str) -> str:
    """Return title and attribute's name as one text, t + n of Liu et al. 2022, section 3.2."""
    return f"{title} {clean(attribute)}"


def _nothing(terminology: Terminology, unnamed: int, languages: Collection[str]) -> InputError:
    """Return the error of a terminology without a triple to search by; `unnamed` are those without names."""
    if not unnamed:
        return InputError("no concept of this terminology has an attribute", file=terminology.path, remedy=REMEDY)
    spoken = f" in {', '.join(languages)}" if languages else ""
    return InputError(
        f"of {unnamed:,} triples of attributes none is between two concepts with names to be found by{spoken}",
        file=terminology.path,
        remedy="take other attributes or languages, or a split that holds out less",
    )


def _held_out(terminology: Terminology, triples: NDArray[np.int32], split: Split) -> NDArray[np.bool_]:
    """Return which triples are between two concepts that a split holds out, in whatever direction."""
    pairs = split.triple_pairs(terminology).astype(np.int64)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    n = terminology.n_concepts
    held: NDArray[np.bool_] = np.isin(triples[:, 0].astype(np.int64) * n + triples[:, 2], both[:, 0] * n + both[:, 1])
    return held


def _taken(column: pa.Array | pa.ChunkedArray, rows: NDArray[Any]) -> list[str]:
    taken: list[str] = column.take(pa.array(rows)).to_pylist()
    return taken


def _owned(
    terminology: Terminology, rows: NDArray[np.int32], offsets: NDArray[np.int64], owners: NDArray[Any]
) -> Owned:
    counts = offsets[owners + 1] - offsets[owners]
    ends = np.cumsum(counts)
    places = np.arange(ends[-1]) + np.repeat(offsets[owners] - (ends - counts), counts)
    written: Sequence[str] = terminology.terms.column("string").take(pa.array(rows[places])).to_pylist()
    cleaned = pa.array(clean_many(written), pa.large_string())
    strings = pc.unique(cleaned)
    strings = strings.take(pc.sort_indices(strings))
    own = pc.index_in(cleaned, value_set=strings).to_numpy(zero_copy_only=False).astype(np.int32)
    return Owned(strings, np.concatenate([[0], ends]).astype(np.int64), own)
