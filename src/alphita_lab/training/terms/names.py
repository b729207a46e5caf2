"""The names that train: each concept's synonyms without what is held out, and a small dev set taken from them.

A share of them may also train as people write them: mistyped, in another order, cut short (`normalizer.noise`). Such a
twin is one more name of its concept, the same throughout a run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.calibrate.noise import noisy
from alphita.errors import InputError
from alphita.terminology.languages import among, by_tag
from alphita.terminology.text import DEFAULT_RULES, clean_many
from alphita_lab.training.engine.settings import NameTraining, TermTraining, language_weights

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Dev


class TrainingNames:
    """The distinct cleaned names of each concept, end to end, concept by concept."""

    def __init__(
        self,
        terminology: Terminology,
        *,
        exclude: frozenset[str] = frozenset(),
        dev: int = 0,
        seed: int = 0,
        languages: Mapping[str, float] | None = None,
        noise: float = 0.0,
        rules: Sequence[str] = DEFAULT_RULES,
    ) -> None:
        rows, offsets = terminology.training_terms(exclude=exclude, languages=languages or None)
        spoken = terminology.terms["language"].take(rows)
        self.languages = sorted(filter(None, spoken.unique().to_pylist()))  # BCP-47 tags of the names, sorted
        for tag in languages or ():
            if not among(self.languages, [tag]):
                has = sorted(filter(None, terminology.terms["language"].unique().to_pylist()))
                raise InputError(
                    f"no name to train on is in the language {tag!r}",
                    file=terminology.path,
                    remedy=f"its languages are {', '.join(has)}; machine translations do not train",
                )
        if len(rows) == 0:
            raise InputError(
                "no name is left to train on", file=terminology.path, remedy="look at --split and languages"
            )
        strings = clean_many(terminology.terms["string"].take(rows).to_pylist(), rules)
        concepts = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        if tuple(rules) != DEFAULT_RULES:
            # Names may have become alike, empty, or what is held out.
            first = {
                pair: place for place, pair in reversed([*enumerate(zip(concepts.tolist(), strings, strict=True))])
            }
            chosen = np.sort([place for (_, string), place in first.items() if string and string not in exclude])
            strings, concepts = [strings[place] for place in chosen], concepts[chosen]
            spoken, offsets = spoken.take(pa.array(chosen)), np.searchsorted(concepts, np.arange(len(offsets)))
        taken = _choose_dev(strings, offsets, dev, seed)
        if dev and not len(taken):
            raise InputError(
                "no synonym can be held out for the dev score: no concept has two names, one of them its alone",
                file=terminology.path,
                field="dev_synonyms",
                value=dev,
                remedy="set dev_synonyms=0",
            )
        self.dev_strings = [strings[place] for place in taken]
        self.dev_concepts = concepts[taken]  # (len(dev_strings),) the concept each of them names
        kept = np.ones(len(strings), bool)
        kept[taken] = False
        self.strings = [string for string, keep in zip(strings, kept, strict=True) if keep]
        self._concepts = concepts[kept]
        # (n,) how much likelier than others of its concept a name is to be drawn; None: all alike.
        self.weights: NDArray[np.float64] | None = None
        if languages:
            weights = by_tag(self.languages, languages)
            self.weights = np.array([weights[tag] for tag in spoken.to_pylist()])[kept]
        # Where the names stand that are no twins: dev synonyms are searched among these.
        self._own = np.arange(len(self.strings))
        self.twins = 0
        if noise > 0:
            # Every term of the terminology, those that do not train too.
            self._add_twins(noise, seed, clean_many(terminology.terms["string"].to_pylist()), exclude)
        counts = np.bincount(self._concepts, minlength=len(offsets) - 1)
        self.offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)  # (n_concepts + 1,) int64

    @classmethod
    def of(
        cls,
        config: TermTraining,
        terminology: Terminology,
        split: Split | None,
        *,
        exclude: frozenset[str] = frozenset(),
    ) -> TrainingNames:
        """Return the names that a config asks for, without those held out by `split` and without `exclude`."""
        return cls(
            terminology,
            exclude=exclude | split.cleaned if split else exclude,
            dev=config.dev_synonyms,
            seed=config.seed,
            languages=language_weights(config.languages),
            noise=config.noise if isinstance(config, NameTraining) else 0.0,
            rules=config.rules,
        )

    def _add_twins(self, noise: float, seed: int, known: Iterable[str], exclude: frozenset[str]) -> None:
        """Put noisy twins of a share of the names behind those of their concepts."""
        chance = random.Random(seed)
        chosen = [place for place in range(len(self.strings)) if chance.random() < noise]
        twins = pa.array(clean_many([noisy(self.strings[place], chance) for place in chosen]), pa.large_string())
        taken = pc.is_in(twins, value_set=pa.array([*known, *exclude, ""], pa.large_string()))
        # One that came out twice names one concept once, and two concepts not at all.
        number = twins.dictionary_encode().indices.to_numpy()
        concept = self._concepts[chosen]
        _, first, same = np.unique(number, return_index=True, return_inverse=True)
        once = np.zeros(len(chosen), bool)
        once[first] = np.bincount(same, weights=concept != concept[first][same], minlength=len(first)) == 0
        free = np.flatnonzero(once & ~taken.to_numpy(zero_copy_only=False))
        twins = twins.take(pa.array(free)).to_pylist()
        self.twins = len(twins)
        of = np.concatenate([np.arange(len(self.strings)), np.array(chosen, np.int64)[free]])
        order = np.argsort(self._concepts[of], kind="stable")
        together = [*self.strings, *twins]
        self._own = np.flatnonzero(order < len(self.strings))
        self.strings = [together[place] for place in order.tolist()]
        self._concepts = self._concepts[of][order]
        self.weights = self.weights if self.weights is None else self.weights[of][order]

    def describe(self) -> str:
        """Return a line on how many they are."""
        each = np.diff(self.offsets)
        twins = f"; {self.twins:,} noisy twins among them" if self.twins else ""
        return (
            f"names: {len(self.strings):,} of {int((each > 0).sum()):,} concepts, {int((each > 1).sum()):,} of them "
            f"with several{twins}"
        )

    def string_numbers(self) -> NDArray[np.int32]:
        """Return a number for each name, (n,), the same for names of equal strings (homonyms)."""
        numbers: NDArray[np.int32] = pa.array(self.strings).dictionary_encode().indices.to_numpy()
        return numbers

    def dev_accuracy(self, encoder: TermEncoder) -> dict[str, float]:
        """Return the share of dev synonyms, 1 or more, whose nearest name is of the right concept."""
        names = encoder.encode([self.strings[place] for place in self._own.tolist()])
        queries = encoder.encode(self.dev_strings)
        nearest = nearest_rows(queries, names)
        return {"dev_acc1": float((self._concepts[self._own[nearest]] == self.dev_concepts).mean())}

    @property
    def dev(self) -> Dev | None:
        """The dev score, or None where no synonym is held out."""
        return self.dev_accuracy if self.dev_strings else None


def begin(run: Run, terminology: Terminology, split: Split | None) -> tuple[TrainingNames, NDArray[np.int32]]:
    """Make sure that the run may begin, and return its names and what must not train beside them."""
    from alphita_lab.training.terms.samplers import between_pairs

    cleaned = {"cleaning_rules": list(run.config.rules)}
    run.begin(terminology=terminology.content_hash, split=split.hash if split else None, **cleaned)
    names = TrainingNames.of(run.config, terminology, split)
    held_out = np.empty((0, 2), np.int32) if split is None else split.triple_pairs(terminology)
    if split is not None:
        triples = int(between_pairs(np.asarray(terminology.triples), held_out).sum()) if len(held_out) else 0
        run.say(f"held out by the split: {len(split.cleaned):,} strings and {triples:,} triples")
    return names, held_out


def _choose_dev(strings: list[str], offsets: NDArray[np.int64], wanted: int, seed: int) -> NDArray[np.int64]:
    """Return the places of `wanted` names, one a concept, each not its concept's first name nor a homonym."""
    if wanted == 0:
        return np.empty(0, np.int64)
    rng = np.random.default_rng([seed, 2])
    several = np.flatnonzero(np.diff(offsets) > 1)
    chosen = rng.permutation(several)
    places = offsets[chosen] + 1 + rng.integers(0, np.diff(offsets)[chosen] - 1)
    _, first, count = np.unique(np.array(strings, dtype=object), return_index=True, return_counts=True)
    single = np.zeros(len(strings), bool)
    single[first[count == 1]] = True
    return np.sort(places[single[places]][:wanted])


def nearest_rows(queries: NDArray[np.float32], among: NDArray[np.float32], size: int = 512) -> NDArray[np.int64]:
    """Return the row of `among` (n, d) with the greatest inner product with each query (q, d): (q,)."""
    blocks = (queries[start : start + size] for start in range(0, len(queries), size))
    return np.concatenate([(block @ among.T).argmax(1) for block in blocks])
