"""Hard negatives by index (CODER++: Zeng, Yuan and Yu 2022): the names nearest to each anchor, mined anew.

Only the anchors drawn before the next mining are searched for. Vectors lie in a file meanwhile. Up to `exact_up_to`
names, and on a GPU, the search is exact; above, it looks into the nearest `PROBED` of sqrt(n) cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError
from alphita.index.backends import faiss as exact
from alphita.index.neighbours import Backend, nearest, unit
from alphita.terminology.text import plain_words
from alphita_lab.training.engine.loop import Refresh
from alphita_lab.training.terms.samplers import EpochWalk, Int32, Int64

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.terms.names import TrainingNames

ROWS_AT_ONCE = 65_536
ANCHORS_AT_ONCE = 4096
# Cells of the inverted file that a search looks into, and vectors a cell that the cells are learnt from.
PROBED = 64
LEARNT_FROM = 64


Vectors = NDArray[np.float32]
Encode = Callable[[Int64], Vectors]
"""(m,) rows -> (m, d) vectors, of any length but 0."""


class Encoder(Protocol):
    """What mining needs of an encoder; `TermEncoder` is one."""

    def encode(self, strings: Sequence[str]) -> Vectors:
        """Return (n, dim) float32."""
        ...


class MinedRows:
    """Rows near to some others (anchors), found with the weights of an optimiser step and kept in the run's folder.

    So a resumed run reads what the unbroken one found with weights that are gone by then. `others(backend, vectors,
    anchors)` finds; `step` is that of the weights, -1 before the first search.
    """

    def __init__(
        self,
        n: int,
        wanted: int,
        folder: Path,
        others: Callable[[Backend, Vectors, Int64], Int32],
        *,
        exact_up_to: int,
        kind: str,
        gpu: bool = False,
    ) -> None:
        self._n, self._wanted, self._folder, self._others = n, wanted, folder, others
        self._exact, self._kind, self._gpu = n <= exact_up_to, kind, gpu
        self.step = -1
        self._anchors: Int64 = np.empty(0, np.int64)
        self._rows: Int32 = np.empty((0, wanted), np.int32)

    def refresh(self, step: int, anchors: Int64, encode: Encode | None, *, needed_from: int = 0) -> None:
        """Read what was found at `step`, or search; files of steps before `needed_from` are dropped."""
        path, anchors = self._folder / f"{self._kind}-{step:08d}.npy", np.unique(anchors)
        if not path.exists():
            if encode is None:
                raise InputError(
                    f"the {self._kind} found at step {step} are gone, and so are the weights of that step",
                    file=path,
                    remedy="put the file back, or start again with --force",
                )
            rows = self._search(anchors, encode)
            with artefact.atomic_file(path) as file:
                np.save(file, rows)
            for old in path.parent.glob(f"{self._kind}-*.npy"):
                if int(old.stem.removeprefix(f"{self._kind}-")) < needed_from:
                    old.unlink()
        rows = np.load(path, allow_pickle=False)
        if rows.shape != (len(anchors), self._wanted):
            raise InputError(
                f"it holds the {self._kind} of {len(rows):,} rows; {len(anchors):,} are drawn",
                file=path,
                remedy="another version of alphita wrote it: start again with --force",
            )
        self.step, self._anchors, self._rows = step, anchors, rows

    def guess(self, anchors: Int64) -> None:
        """Give the anchors any rows: for a trial of the batches' size."""
        self._anchors = np.unique(anchors)
        shape = (len(self._anchors), self._wanted)
        self._rows = np.random.default_rng(0).integers(0, self._n, shape).astype(np.int32)

    def of(self, anchors: Int64) -> Int32:
        """Return the rows found for each anchor, nearest first, (n, wanted)."""
        return self._rows[np.searchsorted(self._anchors, anchors)]

    def _search(self, anchors: Int64, encode: Encode) -> Int32:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "vectors.draft"
        try:
            vectors: Vectors | None = None
            for start in range(0, self._n, ROWS_AT_ONCE):
                block = unit(encode(np.arange(start, min(start + ROWS_AT_ONCE, self._n))))
                if vectors is None:
                    vectors = np.memmap(path, np.float32, "w+", shape=(self._n, block.shape[1]))
                vectors[start : start + len(block)] = block
            assert vectors is not None, "there are rows"
            backend: Backend
            if self._gpu and torch.cuda.is_available():
                backend = OnGpu(vectors)
            else:
                backend = exact.attach(vectors) if self._exact else InvertedFile(vectors)
            return self._others(backend, vectors, anchors)
        finally:
            path.unlink(missing_ok=True)


def mined_neighbours(strings: Sequence[str], neighbours: int, folder: Path, *, exact_up_to: int) -> MinedRows:
    """Return what finds the names nearest to some of `strings`, but themselves; see `encode_names`."""
    wanted = min(neighbours, len(strings) - 1)

    def others(backend: Backend, vectors: Vectors, anchors: Int64) -> Int32:
        names = np.empty((len(anchors), wanted), np.int32)
        for start in range(0, len(anchors), ANCHORS_AT_ONCE):
            block = anchors[start : start + ANCHORS_AT_ONCE]
            _, rows = nearest(backend, vectors.shape, vectors[block], wanted + 1)
            # The anchor itself is nearest, but among names of the very same vector it may be anywhere, or missing.
            own = rows == block[:, None]
            own[~own.any(1), -1] = True
            names[start : start + len(block)] = rows[~own].reshape(len(block), wanted)
        return names

    return MinedRows(len(strings), wanted, folder, others, exact_up_to=exact_up_to, kind="neighbours", gpu=True)


def encode_names(strings: Sequence[str], encoder: Encoder) -> Encode:
    """Return what encodes names by their numbers."""
    return lambda rows: encoder.encode(strings[rows[0] : rows[-1] + 1])


def refreshing(
    run: Run, mined: MinedRows, encode: Encode, drawn: Callable[[int, int], Int64], what: str, *, steps: int, every: int
) -> Refresh:
    """Return what mines every so many steps, with the weights of then, or reads what was found.

    `drawn(first, end)` gives the anchors of the micro-batches from `first` to before `end`; `what` is said to be done.
    """
    config = run.config

    def refresh(step: int) -> None:
        start = step - step % every
        if start == mined.step:
            return
        anchors = drawn(start * config.accumulation, min(start + every, steps) * config.accumulation)
        if run.phase.dry_run:
            mined.guess(anchors)
            return
        if step == start:
            run.say(f"step {step:,}: {what}")
        needed_from = oldest_needed(step, every, config.checkpoint_every)
        # Where the weights of the search are gone, what it found must be there.
        now = encode if step == start else None
        run.ranks.one_by_one(lambda: mined.refresh(start, anchors, now, needed_from=needed_from))

    return Refresh(refresh, every)


def oldest_needed(step: int, refresh_every: int, checkpoint_every: int) -> int:
    """Return the earliest mining that a run may ask for again: it may go on from one of the two newest checkpoints."""
    oldest = step - step % checkpoint_every - checkpoint_every if checkpoint_every else 0
    return oldest - oldest % refresh_every


class OnGpu:
    """Exact search on the GPU, in half precision: two vectors may change places whose cosines differ by 0.001."""

    def __init__(self, vectors: NDArray[np.float32], device: str = "cuda") -> None:
        self._vectors = torch.from_numpy(vectors).to(device, torch.float16)

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products (q, k) and rows (q, k); see `Backend`."""
        asked = torch.from_numpy(queries).to(self._vectors)
        similarity, rows = torch.topk(asked @ self._vectors.T, k)
        return similarity.float().cpu().numpy(), rows.cpu().numpy()


class InvertedFile:
    """Approximate search: k-means cells, of which the nearest few are looked into (FAISS's IVF)."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        import faiss

        n, dim = vectors.shape
        cells = max(1, math.isqrt(n))
        self._index = faiss.index_factory(dim, f"IVF{cells},SQfp16", faiss.METRIC_INNER_PRODUCT)
        learnt_from = np.random.default_rng(0).choice(n, min(n, LEARNT_FROM * cells), replace=False)
        self._index.train(vectors[np.sort(learnt_from)])
        for start in range(0, n, ROWS_AT_ONCE):
            self._index.add(np.ascontiguousarray(vectors[start : start + ROWS_AT_ONCE]))

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products (q, k) and rows (q, k); see `Backend`."""
        import faiss

        cells = faiss.extract_index_ivf(self._index)
        cells.nprobe = PROBED
        while True:
            similarity, rows = self._index.search(queries, k)
            # Row -1 says that the cells held fewer than k vectors; all of them hold enough.
            if (rows >= 0).all():
                return similarity, rows
            cells.nprobe *= 2


class AnchorSampler:
    """Draws anchors, and with each some names of its own concept."""

    def __init__(self, term_offsets: Int64, *, anchors: int, synonyms: int, least: int, seed: int) -> None:
        """Take `term_offsets`: (n_concepts + 1,) CSR offsets: concept c has the terms offsets[c] to offsets[c + 1]."""
        counts = np.diff(term_offsets)
        if int(counts.max(initial=0)) < max(2, least):
            raise InputError(
                f"no concept has {max(2, least)} names to train on, so no anchor has a positive",
                remedy="import the terminology with its synonyms, or hold fewer of them out",
            )
        self._offsets = term_offsets
        self.concepts = np.repeat(np.arange(len(counts)), counts)  # (n_terms,) the concept of each term
        self._eligible = np.flatnonzero(counts[self.concepts] >= least)
        # Two walks, for the anchors to mine for are listed while batches are drawn in another thread.
        self._walk, self._ahead = (EpochWalk(len(self._eligible), anchors, [seed, 6]) for _ in range(2))
        self._synonyms, self._seed = synonyms, seed

    def anchors(self, number: int) -> Int64:
        """Return the anchors of batch `number`, (anchors,)."""
        return self._eligible[self._walk.places(number)]

    def anchors_of(self, first: int, end: int) -> Int64:
        """Return the anchors of the batches from number `first` to before `end`."""
        return self._eligible[self._ahead.places(first, end - first)]

    def synonyms(self, number: int, anchors: Int64) -> list[Int64]:
        """Return, for each anchor of batch `number`, other names of its concept, at random, each once."""
        rng = np.random.default_rng([self._seed, 7, number])
        drawn = []
        for anchor in anchors.tolist():
            concept = self.concepts[anchor]
            others = np.arange(self._offsets[concept], self._offsets[concept + 1])
            others = others[others != anchor]
            drawn.append(others[rng.permutation(len(others))[: self._synonyms]])
        return drawn


class Meanings:
    """The concepts that each string names: equal strings of two concepts (homonyms) name both."""

    def __init__(self, string: Int32, concepts: Int64) -> None:
        """Take `string`: (n,) the same number for names of equal strings; `concepts`: (n,) the concept of each name."""
        homonyms = np.flatnonzero(np.bincount(string)[string] > 1)
        homonyms = homonyms[np.argsort(string[homonyms], kind="stable")]
        self._string, self._concepts = string, concepts
        self._homonym_strings, self._homonym_concepts = string[homonyms], concepts[homonyms]

    def different(self, terms: Int64) -> NDArray[np.bool_]:
        """Return (u, u): whether there is no concept that both of two names name."""
        first = np.searchsorted(self._homonym_strings, self._string[terms], "left")
        counts = np.searchsorted(self._homonym_strings, self._string[terms], "right") - first
        places = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        own = self._concepts[terms]
        different: NDArray[np.bool_] = own[:, None] != own[None, :]
        # Few names are homonyms: only they are looked up in all their meanings. No matrix product, whose threads would
        # take the processor from training.
        row = np.repeat(np.arange(len(terms)), counts)
        concept = self._homonym_concepts[places]
        for homonym in np.unique(row):
            shared = np.isin(own, concept[row == homonym])
            shared[row[np.isin(concept, concept[row == homonym])]] = True
            different[homonym, shared] = different[shared, homonym] = False
        return different


# Of so many nearest names of each, the first few that mean something else are drawn from.
SEARCHED, DRAWN_FROM = 32, 6
# Up to so many names the search is exact without a GPU; with one it always is.
EXACT_UP_TO = 100_000


class NearNames:
    """Draws names that lie near others and mean something else, mined anew every so many steps: further negatives.

    A name near the drawn one teaches what a word more, another site or an opposite changes. But vocabularies that were
    merged leave concepts apart that mean the same, so a name is taken only from a concept of the same vocabulary, which
    keeps its own concepts apart, and not where it has the same words in another order or number.
    """

    def __init__(
        self, terminology: Terminology, names: TrainingNames, folder: Path, *, every: int, checkpoint_every: int = 0
    ) -> None:
        self._every, self._checkpoint_every = every, checkpoint_every
        self._concept = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))
        prefixes = [concept_id.partition(":")[0] for concept_id in terminology.concept_ids.to_pylist()]
        self._vocabulary = _numbers(prefixes)[self._concept]
        self._words = _numbers(list(map(same_words, names.strings)))
        self._strings = names.strings
        self._mined = mined_neighbours(names.strings, SEARCHED, folder, exact_up_to=EXACT_UP_TO)

    def mine(self, step: int, encoder: Encoder) -> None:
        """Before `step`, search anew with the weights as they are, where it is time."""
        start = step - step % self._every
        if start != self._mined.step:
            needed_from = oldest_needed(step, self._every, self._checkpoint_every)
            encode = encode_names(self._strings, encoder) if step == start else None
            self._mined.refresh(start, np.arange(len(self._concept)), encode, needed_from=needed_from)

    def guess(self) -> None:
        """Take any names for the nearest: for a trial of the batches' size."""
        self._mined.guess(np.arange(len(self._concept)))

    def draw(self, names: Int64, rng: np.random.Generator) -> tuple[Int64, Int64]:
        """Draw one for each of n names; none for those that have none.

        Returns:
            (m,) numbers of names, and (m,) the place among the n that each is for.
        """
        neighbours = self._mined.of(names).astype(np.int64)
        fit = self._vocabulary[neighbours] == self._vocabulary[names][:, None]
        fit &= self._concept[neighbours] != self._concept[names][:, None]
        fit &= self._words[neighbours] != self._words[names][:, None]
        rank = np.cumsum(fit, axis=1)
        some = np.minimum(rank[:, -1], DRAWN_FROM)
        wanted = 1 + (rng.random(len(names)) * some).astype(np.int64)
        of = np.flatnonzero(some)
        return neighbours[of, (fit & (rank == wanted[:, None])).argmax(1)[of]], of


def same_words(string: str) -> str:
    """Return a cleaned string's words, sorted, each once and in the singular, without those that say nothing."""
    return " ".join(sorted({*plain_words(string)} - {""}))


def _numbers(strings: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each string, (n,), the same for equal ones."""
    return pa.array(strings).dictionary_encode().indices.to_numpy().astype(np.int64)
