"""What cross-lingual distillation trains on: pairs of all kinds, names without translation, dev pairs, and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError, Rejects
from alphita.index.neighbours import unit
from alphita.terminology.languages import among
from alphita_lab.training.terms.aligned_pairs import AlignedPairs, joined
from alphita_lab.training.terms.names import nearest_rows
from alphita_lab.training.terms.samplers import EpochWalk, Int64
from alphita_lab.training.terms.terminology_pairs import of_editions, read, source_names

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

HELD_OUT = "held out to score with"


def hold_out(pairs: AlignedPairs, wanted: int, seed: int) -> tuple[AlignedPairs, AlignedPairs]:
    """Hold out the pairs of whole concepts, one concept after the other, until `wanted` pairs are."""
    groups = concepts_of(pairs)
    order = np.random.default_rng([seed, 22]).permutation(int(groups.max()) + 1)
    sizes = np.bincount(groups)[order]
    n_held = int(np.searchsorted(np.cumsum(sizes), wanted)) + 1 if wanted else 0
    held = np.flatnonzero(np.isin(groups, order[:n_held]))
    dev = joined([replace(pairs.take(held), counts={})])
    strings = {*dev.sources, *dev.translations}
    shares = np.array([not strings.isdisjoint(row[:2]) for row in pairs.rows()], bool)
    if shares.all():
        raise InputError(
            f"holding out {wanted:,} pairs leaves none of {len(pairs):,} to train on",
            field="dev_pairs",
            value=wanted,
            remedy="set it to a tenth of them or less",
        )
    left = pairs.take(np.flatnonzero(~shares))
    counts = pairs.counts | ({HELD_OUT: int(shares.sum())} if wanted else {})
    return joined([replace(left, counts=counts)]), dev


def concepts_of(pairs: AlignedPairs) -> NDArray[np.int64]:
    """Return a number from 0 for each pair, (n,): one a concept or, where it is not known, a source."""
    number: dict[int | str, int] = {}
    keys = (concept if concept >= 0 else source for source, _, _, concept, _ in pairs.rows())
    return np.fromiter((number.setdefault(key, len(number)) for key in keys), np.int64, len(pairs))


def accuracy(pairs: AlignedPairs, encoder: TermEncoder) -> dict[str, float]:
    """Return accuracy@1 from translation to source: of all pairs, "dev_acc1", and of each language, "dev_acc1_it"."""
    concepts = concepts_of(pairs).tolist()
    place = {source: number for number, source in enumerate(dict.fromkeys(pairs.sources))}
    named = {(place[source], concept) for source, concept in zip(pairs.sources, concepts, strict=True)}
    among, queries = unit(encoder.encode(list(place))), unit(encoder.encode(pairs.translations))
    nearest = nearest_rows(queries, among).tolist()
    right = np.array([pair in named for pair in zip(nearest, concepts, strict=True)], bool)
    scores = {"dev_acc1": float(right.mean())}
    for number, tag in enumerate(pairs.languages):
        scores[f"dev_acc1_{tag}"] = float(right[pairs.language == number].mean())
    return scores


# What `splits` calls its splits.
WHOLE_CONCEPTS = "hold_out_concepts"


@dataclass(frozen=True)
class Translations:
    """The data of one run."""

    pairs: AlignedPairs
    names: list[str]
    dev: AlignedPairs
    made_of: dict[str, str]  # file or folder -> content hash of what pairs come from beside the terminology
    lacking: list[str]

    def lines(self) -> list[str]:
        """Return what to tell of it."""
        told = [f"pairs: {len(self.pairs):,} ({_listed(self.pairs.by_language())})"]
        if self.pairs.counts:
            told.append(f"pairs left out: {_listed(self.pairs.counts)}")
        told.append(f"names without translation: {len(self.names):,}")
        if len(self.dev):
            told.append(f"dev pairs: {len(self.dev):,} ({_listed(self.dev.by_language())})")
        return [*told, *self.lacking]

    def counts(self) -> dict[str, Any]:
        """Return how much it is, for the manifest."""
        return {
            "pairs": self.pairs.by_language(),
            "pairs_left_out": self.pairs.counts,
            "names": len(self.names),
            "dev_pairs": self.dev.by_language(),
        }


@dataclass(frozen=True)
class Wanted:
    """Which pairs are wanted."""

    source: str  # BCP-47 tag of the source language
    languages: Sequence[str] = ()  # take these languages only; all by default
    pairing: str = "labels"
    machine: bool = False
    editions: Sequence[str] = ()
    files: Sequence[str] = ()
    dev: int = 0
    seed: int = 0


def gather(
    terminology: Terminology, wanted: Wanted, *, split: Split | None = None, rejects: Rejects | None = None
) -> Translations:
    """Gather the pairs of a terminology, of editions that share its ids and of files, and hold some out to score
    with."""
    exclude, concepts = frozenset[str](), frozenset[str]()
    if split is not None:
        exclude = split.cleaned
        if split.facts.get("method") == WHOLE_CONCEPTS:
            concepts = frozenset(split.concept_ids)
    pairs, made_of, lacking = _pairs(terminology, wanted, exclude, concepts, rejects or Rejects())
    if not len(pairs):
        left_out = f"; left out: {_listed(pairs.counts)}" if pairs.counts else ""
        raise InputError(
            "no pair of a name and its translation to train on" + left_out,
            file=terminology.path,
            remedy="; ".join([*lacking, "set pairs=FILE or editions=FOLDER, or take a terminology with translations"]),
        )
    for tag in wanted.languages:
        if not among(pairs.languages, [tag]):
            raise InputError(
                "no translation is in this language",
                field="languages",
                value=tag,
                remedy=f"choose from {', '.join(pairs.languages)}",
            )
    pairs, held_out = hold_out(pairs, wanted.dev, wanted.seed)
    names = source_names(
        terminology,
        source=wanted.source,
        exclude=exclude.union(held_out.sources),
        exclude_concepts=concepts,
        beside=pairs,
    )
    return Translations(pairs, names, held_out, made_of, lacking)


def _pairs(
    terminology: Terminology, wanted: Wanted, exclude: frozenset[str], concepts: frozenset[str], rejects: Rejects
) -> tuple[AlignedPairs, dict[str, str], list[str]]:
    """Return all pairs without what is excluded, and `made_of` and `lacking` of `Translations`."""
    from alphita.terminology.store import load_terminology

    opened = [load_terminology(folder) for folder in wanted.editions]
    made_of = {folder: edition.content_hash for folder, edition in zip(wanted.editions, opened, strict=True)}
    parts, lacking = [], []
    for edition in (terminology, *opened):
        try:
            pairs = of_editions(
                terminology,
                edition,
                source=wanted.source,
                languages=wanted.languages or None,
                pairing=wanted.pairing,
                machine=wanted.machine,
                exclude=exclude,
                exclude_concepts=concepts,
            )
            parts.append(pairs)
        except InputError as error:
            # No matter, if others have translations.
            lacking.append(str(error))
    for file in wanted.files:
        pairs = read(
            file, rejects, source=wanted.source, terminology=terminology, exclude=exclude, exclude_concepts=concepts
        )
        made_of[file] = artefact.hash_file(file)
        if wanted.languages:
            spoken = np.isin(pairs.languages, among(pairs.languages, wanted.languages))
            pairs = joined([pairs.take(np.flatnonzero(spoken[pairs.language]))])
        parts.append(pairs)
    return joined(parts), made_of, lacking


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


@dataclass(frozen=True)
class Numbered:
    """The strings of pairs and names, each once, as a `TokenTable` wants them."""

    strings: list[str]
    sources: NDArray[np.int32]  # (n,) int32, the number of each pair's source
    translations: NDArray[np.int32]  # (n,) int32, of its translation
    names: NDArray[np.int32]  # (m,) int32, of each name without translation


def numbered(pairs: AlignedPairs, names: Sequence[str] = ()) -> Numbered:
    """Number the distinct strings: sources first, then names, then translations, each in its order."""
    place = {
        string: number for number, string in enumerate(dict.fromkeys([*pairs.sources, *names, *pairs.translations]))
    }
    columns = ([place[string] for string in column] for column in (pairs.sources, pairs.translations, names))
    return Numbered(list(place), *(np.array(column, np.int32) for column in columns))


@dataclass(frozen=True)
class PairBatch:
    """One batch."""

    pairs: Int64  # (p,) int64, rows of the pairs
    names: Int64  # (q,) int64, places among the names without translation; p + q is the batch's size


class PairBatches(EpochWalk):
    """Draws batches in shuffled epochs, in each of which every pair and every name stands once.

    With a temperature T above 1, or weights, the languages share an epoch's places for pairs otherwise: language l with
    n_l pairs and weight w_l gets them in proportion to w_l n_l^(1/T), one at least, as is usual for multilingual
    training (Conneau et al., ACL 2020, §3.1: there the exponent 1/T is 0.3). A large language then shows some of its
    pairs in an epoch and others in the next, a small one shows each several times: within a language the pairs take
    turns. The epoch stays as long as it was, and names stay as they are.
    """

    def __init__(
        self,
        pairs: AlignedPairs,
        names: int = 0,
        *,
        batch: int,
        seed: int,
        temperature: float = 1.0,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        weights = dict(weights or {})
        self.rows = len(pairs) + names
        if self.rows == 0:
            raise InputError(
                "there is neither a pair nor a name to train on", remedy="look at what was left out and why"
            )
        super().__init__(self.rows, batch, [seed, 21])
        self._n_pairs = len(pairs)
        counts = np.bincount(pairs.language, minlength=len(pairs.languages))
        wanted = np.array([weights.get(tag, 1.0) for tag in pairs.languages]) * counts ** (1 / temperature)
        quotas = counts if temperature == 1 and not weights else _shared_out(len(pairs), wanted)
        self.shown = dict(zip(pairs.languages, quotas.tolist(), strict=True))
        members = np.split(np.argsort(pairs.language, kind="stable"), np.cumsum(counts)[:-1]) if len(pairs) else []
        groups = [*zip(members, quotas.tolist(), strict=True), (len(pairs) + np.arange(names), names)]
        self._groups = [
            (group, EpochWalk(len(group), quota, [seed, 20, number]))
            for number, (group, quota) in enumerate(groups)
            if quota
        ]

    def batch(self, number: int) -> PairBatch:
        """Return batch `number` (from 0); the same number always gives the same batch."""
        drawn = self.places(number)
        is_pair = drawn < self._n_pairs
        return PairBatch(drawn[is_pair], drawn[~is_pair] - self._n_pairs)

    def shuffled(self, epoch: int, rng: np.random.Generator) -> Int64:
        """Return what stands in an epoch, in its order: pairs, and from the number of pairs on names, (rows,)."""
        return rng.permutation(np.concatenate([group[walk.places(epoch)] for group, walk in self._groups]))


def _shared_out(places: int, shares: NDArray[np.float64]) -> Int64:
    """Return whole numbers in proportion to `shares` that add up to `places`, one at least each; places >=
    len(shares)."""
    exact = (places - len(shares)) * shares / shares.sum()
    whole = np.floor(exact).astype(np.int64)
    order = np.argsort(whole - exact, kind="stable")
    whole[order[: places - len(shares) - int(whole.sum())]] += 1
    return whole + 1
