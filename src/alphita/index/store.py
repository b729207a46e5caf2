"""The index: a terminology's strings with their vectors, self-contained and memory-mapped.

X.index/
  manifest.json      hashes of every file, of the terminology, model, tokenizer and cleaning rules
  segments/000/      strings, vectors, n-grams, terms, concepts (see `segment`)
  model/             the encoder of the vectors, so that nothing else is needed to normalise
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, progress, registry, textio
from alphita.errors import AlphitaError, InputError
from alphita.index import backends, encoding, ngrams
from alphita.index import segment as segments
from alphita.index.backends import AUTO, EVERY, choose
from alphita.index.backends._approximate import TooFewFound
from alphita.index.choice import BACKENDS, REVIEWED, Building
from alphita.index.encoding import Blocks, Encoder, encoded_here
from alphita.index.neighbours import Vectors, nearest, unit
from alphita.index.ngrams import Ngrams, SortedStrings
from alphita.index.segment import Segment
from alphita.terminology.text import CLEANING_VERSION, RULES

if TYPE_CHECKING:
    from alphita.index.enrichment import Enrichment
    from alphita.terminology.store import Terminology

KIND = "index"
REBUILD = "build it again: alphita index --model MODEL --terminology TERMINOLOGY -o INDEX --force"


def build(
    terminology: Terminology,
    encoder: Encoder,
    out: Path | str,
    how: Building | None = None,
    *,
    exclude: frozenset[str] = frozenset(),
    force: bool = False,
    blocks: Blocks | None = None,
    enrichment: Enrichment | None = None,
    update: Index | None = None,
) -> Index:
    """Encode every distinct cleaned string of the live concepts and write the index folder.

    Args:
        update: an earlier index with the same encoder and head; its search keeps what it learned of the vectors.
    """
    how = how or Building()
    how.check()
    # Confirmed phrases may be patient data.
    private = enrichment is not None and enrichment.sources is not None and REVIEWED in enrichment.sources.given
    with artefact.create(Path(out), KIND, force=force, private=private) as draft:
        folder = draft.path / "segments" / "000"
        content = segments.collect(terminology, how.rules, exclude)
        given = segments.NOTHING_GIVEN
        added: dict[str, Any] = {}
        if enrichment is not None:
            from alphita.index.enrichment import enrich

            content, given, added = enrich(content, terminology, enrichment, how.rules)
        segments.write(folder, content, given)
        shape = (len(content.strings), encoder.dim)
        encoded = (blocks or encoded_here)(content.strings, encoder)
        _write_vectors(encoded, shape, np.float16 if how.half else np.float32, folder / "vectors.npy")
        if enrichment is not None and enrichment.learn != "no":
            from alphita.index.enrichment import learn_head

            encoder, added["head"] = learn_head(content, encoder, folder / "vectors.npy", enrichment.learn)
        backend = choose(len(content.strings)) if how.backend == AUTO else how.backend
        try:
            file = f"{backend}.faiss"
            if update is not None and update.manifest["model_hash"] == encoder.content_hash:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(update.segment.path / file, folder / file)
            search = _prepare(backend, SortedStrings(content.strings), encoder, folder)
        except TooFewFound as error:
            if how.backend != AUTO:
                raise
            progress.say(f"{error}; so all are compared, which takes longer for each mention")
            (folder / file).unlink()
            backend, search = EVERY, {}
        if how.letters:
            ngrams.build(SortedStrings(content.strings), folder / "ngrams")
        encoder.save(draft.path / "model")
        trained = encoding.keep(encoder, draft.path / "model")
        encoding.keep_calibration(encoder, draft.path / "model")
        facts = {
            "backend": backend,
            "search": search,
            "letters": ngrams.SETTINGS if how.letters else None,
            "dim": encoder.dim,
            "vectors": "float16" if how.half else "float32",
            "cleaning_rules": list(how.rules),
            "cleaning_rules_hash": _rules_hash(how.rules),
            "terminology_hash": terminology.content_hash,
            "model_hash": encoder.content_hash,
            "base_model_hash": getattr(encoder, "base_hash", encoder.content_hash),
            "tokenizer_hash": encoder.tokenizer_hash,
            "trained": trained,
            "excluded": {"strings": len(exclude), "hash": artefact.hash_json(sorted(exclude))},
            "counts": {
                "strings": len(content.strings),
                "terms": len(content.terms),
                "concepts": len(content.concepts.table),
            },
            **added,
        }
        # The manifest shows these to people; the copy in a hashed file reveals changes.
        (draft.path / "facts.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.fields.update(facts)
        manifest = terminology.manifest
        draft.fields.update({name: manifest[name] for name in ("sources", "licence", "licences") if name in manifest})
    return Index.open(out)


class IndexedConcept(NamedTuple):
    """The index's data about a concept; fields that an index of an earlier version lacks are None or empty."""

    id: str
    name: str
    source: str | None
    definition: str | None
    parents: tuple[str, ...]
    semantic_types: tuple[str, ...]


class Index:
    """An opened index; its files are read when they are needed."""

    def __init__(self, path: Path, manifest: dict[str, Any], part: Segment, backend: str) -> None:
        self.path, self.manifest, self.segment = path, manifest, part
        settings = manifest.get("search") if backend == manifest["backend"] else None
        self.backend = registry.load(BACKENDS, backend).attach(part.vectors, part.path, settings)
        letters = part.path / "ngrams"
        self.ngrams: Ngrams | None = Ngrams.open(letters) if letters.is_dir() else None
        self.rules: tuple[str, ...] = tuple(manifest["cleaning_rules"])
        self.content_hash: str = manifest["content_hash"]
        part.index_hash = self.content_hash

    @classmethod
    def open(cls, path: Path | str, *, backend: str | None = None, verify: bool | None = None) -> Index:
        """Open an index, memory-mapped.

        Args:
            path: its folder.
            backend: search with this backend instead of the one with which the index was built.
            verify: check all hashes (True), sizes only (False), or hashes of large files only if they changed (None).

        Raises:
            InputError: it is not an index, a file is damaged, or the files do not belong together.
        """
        path = Path(path)
        manifest = artefact.open_checked(path, KIND, verify)
        _check_facts(path, manifest)
        part = Segment(path / "segments" / "000")
        if part.vectors.shape[1] != manifest["dim"]:
            raise InputError(
                f"the vectors have {part.vectors.shape[1]} numbers, the model gives {manifest['dim']}",
                file=path,
                remedy=REBUILD,
            )
        if part.lacking:
            progress.say(f"{path} was made by an earlier build and lacks {', '.join(part.lacking)}; {REBUILD}")
        return cls(path, manifest, part, backend or manifest["backend"])

    @property
    def model_path(self) -> Path:
        """The folder of the encoder that computed the vectors."""
        return self.path / "model"

    @property
    def learned(self) -> int | None:
        """Number of its names that people confirmed in a review; None if it was given none."""
        given = (self.manifest.get("borrowed") or {}).get("given") or []
        return next((counts["lent"] for counts in given if counts["source"] == REVIEWED), None)

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self.segment.vectors.shape[1])

    @property
    def strings(self) -> SortedStrings:
        """The distinct cleaned strings, sorted by their UTF-8 bytes."""
        return self.segment.strings

    @property
    def vectors(self) -> Vectors:
        """(n_strings, dim), of length 1, memory-mapped: float32, or float16 if the index was built with `--half`."""
        return self.segment.vectors

    def __len__(self) -> int:
        return len(self.segment.strings)

    @property
    def findable(self) -> int:
        """Number of strings that a search can find: here, all of them."""
        return len(self)

    def rows(self, cleaned: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each cleaned string, or -1 if it is not indexed: (len(cleaned),) int64."""
        return self.segment.strings.rows(cleaned)

    def concept_rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of the concept with each CURIE; see `Segment.concept_rows`."""
        return self.segment.concept_rows(ids)

    def coded(self, codes: Sequence[str]) -> list[list[int]]:
        """Return the rows of the concepts to which each code of another vocabulary maps; see `Segment.coded`."""
        return self.segment.coded(codes)

    def concept(self, row: int) -> IndexedConcept:
        """Return the index's data about one concept."""
        table = self.segment.concepts

        def shown(name: str) -> Any:  # noqa: ANN401 - a string or a list of them
            return table.column(name)[row].as_py() if name in table.column_names else None

        names = table.column("name")
        parents = tuple(names[parent].as_py() for parent in self.segment.parents_of(row).tolist())
        id, name, source, definition = map(shown, ("id", "name", "source", "definition"))
        return IndexedConcept(id, name, source, definition, parents, tuple(shown("semantic_types") or ()))

    def search(self, vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest strings of each vector by cosine; see `neighbours.nearest`."""
        vectors = unit(vectors) if vectors.ndim == 2 else vectors
        return nearest(self.backend, (len(self), self.dim), vectors, k)

    @property
    def base_model_hash(self) -> str:
        """Hash of the encoder that computed the vectors, without the head of this index."""
        return str(self.manifest.get("base_model_hash", self.manifest["model_hash"]))

    def check_encoder(self, encoder: Encoder, remedy: str = REBUILD) -> None:
        """Check that `encoder` is the one that computed the vectors.

        Args:
            encoder: any.
            remedy: the advice in the error message.

        Raises:
            InputError: `encoder` has another dimension, other weights or another tokenizer.
        """
        facts = (
            ("dimension", encoder.dim, self.manifest["dim"]),
            ("model hash", encoder.content_hash, self.manifest["model_hash"]),
            ("tokenizer hash", encoder.tokenizer_hash, self.manifest["tokenizer_hash"]),
        )
        for name, actual, expected in facts:
            if actual != expected:
                raise InputError(
                    f"the encoder does not belong to this index: its {name} is {actual}, the index was built with "
                    f"{expected}",
                    file=self.path,
                    remedy=remedy,
                )


def _write_vectors(
    blocks: Iterator[Vectors], shape: tuple[int, int], dtype: type[np.floating[Any]], path: Path
) -> None:
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    start = 0
    for block in blocks:
        vectors[start : start + len(block)] = block
        start += len(block)
    if start != len(vectors):
        raise AlphitaError(f"vectors of {start:,} strings came for {len(vectors):,}")
    vectors.flush()


def _prepare(backend: str, strings: SortedStrings, encoder: Encoder, folder: Path) -> dict[str, Any]:
    """Let the backend write its files; return its settings."""
    vectors = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)

    def varied() -> NDArray[np.float32]:
        return unit(encoder.encode(backends.probes(strings, encoder.content_hash)))

    settings: dict[str, Any] = registry.load(BACKENDS, backend).build(vectors, folder, varied)
    return settings


def _rules_hash(rules: Sequence[str]) -> str:
    return artefact.hash_json([CLEANING_VERSION, list(rules)])


def _check_facts(path: Path, manifest: dict[str, Any]) -> None:
    try:
        facts = textio.json_file(path / "facts.json")
    except (OSError, ValueError) as error:
        raise InputError(f"damaged index: {error}", file=path / "facts.json", remedy=REBUILD) from None
    for name, value in facts.items():
        if manifest.get(name) != value:
            raise InputError(
                "the manifest is not the one the index was built with",
                file=path / artefact.MANIFEST,
                field=name,
                value=manifest.get(name),
                remedy=REBUILD,
            )
    rules = facts["cleaning_rules"]
    unknown = [rule for rule in rules if rule not in RULES]
    if unknown:
        raise InputError(f"this alphita has no cleaning rules {unknown}", file=path, remedy=REBUILD)
    if _rules_hash(rules) != facts["cleaning_rules_hash"]:
        raise InputError("the cleaning rules have changed since this index was built", file=path, remedy=REBUILD)
