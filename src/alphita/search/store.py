"""What a search needs, in one folder, memory-mapped.

X.search/
  manifest.json        hashes of every file, of the terminology and the model
  catalogue.json       attributes, and what the folder was made of
  products.arrow       id and title of each product            values.arrow      id and name of each value
  triples.npy          (m, 3) int32 product, attribute, value; sorted
  titles/, values/     the names of products and of values, with vectors and letters (see `names`)
  predicted.npy        (products, attributes, d') float32: f(E(t + n)), where the model has a projection f
  projection.safetensors      f itself (see `projection`)
  model/               the encoder that made the vectors
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import artefact, progress, textio
from alphita.errors import InputError
from alphita.index import encoding, ngrams
from alphita.index.encoding import Encoder
from alphita.index.neighbours import unit
from alphita.index.ngrams import Ngrams, SortedStrings
from alphita.search import catalogue, projection
from alphita.search.catalogue import Catalogue, Owned
from alphita.search.projection import Projection
from alphita.terminology import arrow_files
from alphita.terminology.text import CLEANING_VERSION, clean

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

STRINGS_AT_ONCE = 65_536


def write_names(folder: Path, names: Owned, encoder: Encoder) -> None:
    """Write names into a new folder."""
    folder.mkdir(parents=True)
    arrow_files.write(folder / "strings.arrow", pa.table({"string": names.strings}))
    np.save(folder / "offsets.npy", names.offsets, allow_pickle=False)
    np.save(folder / "rows.npy", names.rows, allow_pickle=False)
    strings = names.strings.to_pylist()
    vectors = np.lib.format.open_memmap(
        folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(len(strings), encoder.dim)
    )
    for start, block in encoded(strings, encoder, f"Encoding {folder.name}"):
        vectors[start : start + len(block)] = unit(block)
    vectors.flush()
    ngrams.build(SortedStrings(names.strings), folder / "ngrams")


def encoded(strings: Sequence[str], encoder: Encoder, label: str) -> Any:  # noqa: ANN401 - an iterator
    """Yield the vectors of strings block by block, checked: (place of the first, (block, dim) float32)."""
    with progress.bar(label, total=len(strings), unit="strings") as bar:
        for start in range(0, len(strings), STRINGS_AT_ONCE):
            block = strings[start : start + STRINGS_AT_ONCE]
            yield start, encoding.checked(block, encoder)
            bar.advance(len(block))


class Names:
    """The names of some owners: titles of products, or values."""

    def __init__(self, folder: Path) -> None:
        self.strings = SortedStrings(arrow_files.read(folder / "strings.arrow").column("string").chunk(0))
        self.vectors: NDArray[np.float32] = self._array(folder, "vectors")
        self.offsets: NDArray[np.int64] = self._array(folder, "offsets")
        self.rows: NDArray[np.int32] = self._array(folder, "rows")
        self.ngrams = Ngrams.open(folder / "ngrams")
        n = len(self.strings)
        if not len(self.vectors) == len(self.ngrams) == n or int(self.offsets[-1]) != len(self.rows):
            raise ValueError("the files of its names do not fit together")

    @staticmethod
    def _array(folder: Path, name: str) -> NDArray[Any]:
        return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def similarities(self, queries: Sequence[str], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return how near each query is to each string, (q, n) from 0 to 1, for query vectors (q, dim) of length 1.

        It is the mean of cosine (0 where negative) and n-gram similarity.
        """
        similarity: NDArray[np.float32] = np.maximum(vectors @ self.vectors.T, 0)
        grams = self.ngrams.vectorize(queries)
        every = np.arange(len(self.strings))
        for row in range(len(queries)):
            similarity[row] += self.ngrams.pairwise(grams[row], np.zeros_like(every), every)
        similarity /= 2
        equal = self.strings.rows(queries)
        equal_rows = np.flatnonzero(equal >= 0)
        np.minimum(similarity, 1, out=similarity)
        similarity[equal_rows, equal[equal_rows]] = 1
        return similarity

    def of_owners(self, similarity: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the greatest similarity of each owner's names: (n strings,) -> (owners,)."""
        greatest: NDArray[np.float32] = np.maximum.reduceat(similarity[self.rows], self.offsets[:-1])
        return greatest

    def best(self, owner: int, similarity: NDArray[np.float32]) -> int:
        """Return the row of the owner's nearest name, the earlier of equals."""
        own = self.rows[self.offsets[owner] : self.offsets[owner + 1]]
        return int(own[int(np.argmax(similarity[own]))])

    def named(self, string: int) -> NDArray[np.int64]:
        """Return the owners, ascending, that a string names; none for the row -1."""
        entries = np.flatnonzero(self.rows == string)
        return np.unique(np.searchsorted(self.offsets, entries, side="right") - 1)


KIND = "product_search"
REBUILD = "build it again: alphita search build --model MODEL -t TERMINOLOGY -o X.search --force"
CATALOGUE, PREDICTED, PROJECTION = "catalogue.json", "predicted.npy", "projection.safetensors"
# `predicted` is measured on so many triples; below this AUC `fused` leaves it out.
TRIPLES_ASKED, MIN_AUC = 500, 0.8


def build(
    terminology: Terminology,
    encoder: Encoder,
    out: Path | str,
    *,
    attributes: Collection[str] = (),
    languages: Collection[str] = (),
    split: Split | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Encode the products of a terminology and write the search folder, whole or not at all."""
    artefact.refuse_existing(Path(out), force, " (the old one is moved aside)")
    collected = catalogue.collect(terminology, attributes=attributes, languages=languages, split=split)
    projected = projection.read(encoder)
    with artefact.create(Path(out), KIND, force=force) as draft:
        folder = draft.path
        _write_table(folder / "products.arrow", {"id": collected.product_ids, "title": collected.titles})
        _write_table(folder / "values.arrow", {"id": collected.value_ids, "name": collected.values})
        np.save(folder / "triples.npy", collected.triples, allow_pickle=False)
        write_names(folder / "titles", collected.title_names, encoder)
        write_names(folder / "values", collected.value_names, encoder)
        auc = None if projected is None else _write_predicted(folder, collected, encoder, projected)
        encoder.save(folder / "model")
        counts = {
            "products": len(collected.titles),
            "titles": len(collected.title_names.strings),
            "values": len(collected.values),
            "attributes": len(collected.attributes),
            "triples": len(collected.triples),
            "held_out_triples": collected.held_out,
            "unnamed_triples": collected.unnamed,
            "unnamed_products": collected.unnamed_products,
        }
        facts = {
            "attributes": collected.attributes,
            "languages": sorted(languages),
            "dim": encoder.dim,
            "cleaning_version": CLEANING_VERSION,
            "terminology_hash": terminology.content_hash,
            "model_hash": encoder.content_hash,
            "tokenizer_hash": encoder.tokenizer_hash,
            "trained": encoding.keep(encoder, folder / "model"),
            "split_hash": None if split is None else split.hash,
            "projection": None if projected is None else {"gamma": projected.gamma, "auc": auc},
            "counts": counts,
        }
        text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
        (folder / CATALOGUE).write_text(text, encoding="utf-8")
        draft.fields.update(facts)
        manifest = terminology.manifest
        draft.fields.update({name: manifest[name] for name in ("sources", "licence", "licences") if name in manifest})
    return counts | {"auc": auc}


def _write_predicted(folder: Path, found: Catalogue, encoder: Encoder, projected: Projection) -> float:
    """Write f(E(t + n)) of every title t and attribute n, and f; return how well it tells products apart."""
    owned = found.title_names
    preferred = owned.strings.take(pa.array(owned.rows[owned.offsets[:-1]])).to_pylist()
    n = len(found.attributes)
    shape = (len(preferred), n, len(projected.weight))
    written = np.lib.format.open_memmap(folder / PREDICTED, mode="w+", dtype=np.float32, shape=shape)
    flat = written.reshape(-1, shape[2])
    bare, label = projection.unscaled(encoder), "Encoding titles with attributes"
    texts = [catalogue.title_with_attribute(title, name) for title in preferred for name in found.attributes]
    for start, block in encoded(texts, bare, label):
        flat[start : start + len(block)] = projected(block)
    written.flush()
    shutil.copyfile(Path(encoder.folder) / projection.FILE, folder / PROJECTION)  # type: ignore[attr-defined]
    sample = np.sort(np.random.default_rng(0).permutation(len(found.triples))[:TRIPLES_ASKED])
    values = projected(bare.encode([clean(found.values[value]) for value in found.triples[sample, 2].tolist()]))
    return projection.told_apart(projected, written, found.triples, sample, values)


@dataclass(frozen=True)
class Opened:
    """An opened search folder: see the module; `product_triples` (products + 1,) is where the triples of each begin."""

    path: Path
    facts: dict[str, Any]
    products: pa.Table
    values: pa.Table
    attributes: list[str]
    triples: NDArray[np.int32]
    product_triples: NDArray[np.int64]
    title_names: Names
    value_names: Names
    predicted: NDArray[np.float32] | None
    projection: Projection | None

    @property
    def model_path(self) -> Path:
        return self.path / "model"

    @property
    def predicts(self) -> bool:
        """Whether the projection tells products that have a value from those that lack it (see `told_apart`)."""
        return self.projection is not None and self.facts["projection"].get("auc", 0.0) >= MIN_AUC

    def check_encoder(self, encoder: Encoder) -> None:
        """Raise `InputError` unless this encoder computed the search's vectors."""
        pairs = (
            ("dimension", encoder.dim, self.facts["dim"]),
            ("model hash", encoder.content_hash, self.facts["model_hash"]),
            ("tokenizer hash", encoder.tokenizer_hash, self.facts["tokenizer_hash"]),
        )
        for name, actual, expected in pairs:
            if actual != expected:
                raise InputError(
                    f"the encoder does not belong to this search: its {name} is {actual}, it was built with {expected}",
                    file=self.path,
                    remedy=REBUILD,
                )


def load(path: Path | str, *, verify: bool | None = None) -> Opened:
    """Open a search folder."""
    path = Path(path)
    artefact.open_checked(path, KIND, verify)
    try:
        return _open(path)
    except (OSError, ValueError, KeyError, IndexError, TypeError, pa.ArrowException) as error:
        raise InputError(f"damaged search: {error}", file=path, remedy=REBUILD) from None


def _open(path: Path) -> Opened:
    facts = textio.json_file(path / CATALOGUE)
    if facts["cleaning_version"] != CLEANING_VERSION:
        raise InputError("the cleaning rules have changed since this search was built", file=path, remedy=REBUILD)
    products, values = (arrow_files.read(path / f"{name}.arrow") for name in ("products", "values"))
    triples: NDArray[np.int32] = np.load(path / "triples.npy", mmap_mode="r", allow_pickle=False)
    titles, of_values = Names(path / "titles"), Names(path / "values")
    predicted = projected = None
    if (path / PREDICTED).exists():
        predicted = np.asarray(np.load(path / PREDICTED, mmap_mode="r", allow_pickle=False))
        projected = projection.read_file(path / PROJECTION, facts["dim"], facts["projection"])
        if predicted.shape != (len(products), len(facts["attributes"]), len(projected.weight)):
            raise ValueError("its predicted vectors do not fit the rest")
    if len(titles) != len(products) or len(of_values) != len(values) or titles.vectors.shape[1] != facts["dim"]:
        raise ValueError("its files do not fit together")
    starts = np.searchsorted(triples[:, 0], np.arange(len(products) + 1))
    return Opened(
        path, facts, products, values, facts["attributes"], triples, starts, titles, of_values, predicted, projected
    )


def _write_table(path: Path, columns: dict[str, list[str]]) -> None:
    table = pa.table({name: pa.array(column, pa.large_string()) for name, column in columns.items()})
    arrow_files.write(path, table)
