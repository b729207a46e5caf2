"""What recipes of names and texts learn from and are chosen by: both, scored sentences, and what is held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, progress, registry
from alphita.errors import InputError, Rejects
from alphita.index.neighbours import unit
from alphita_lab.training.engine.settings import NameTraining, language_weights
from alphita_lab.training.sentences.scored_pairs import ScoredPairs, Triples, listed, read_files
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.text.definition_pairs import joined, names_as_texts, subset, with_names
from alphita_lab.verbalisation.generation import read_generated
from alphita_lab.verbalisation.texts import KINDS, Texts, verbalise

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

# Of the concepts with a definition, one in so many is held out at most.
MIN_SHARE = 10
BLOCK = 512
# Equal strings' similarities may differ by so much.
ROUNDING = np.float32(1e-6)


@dataclass(frozen=True)
class DevDefinitions:
    """Definitions, and the names among which each must find one of its concept."""

    texts: list[str]
    concepts: NDArray[np.int64]  # (q,) the concept of each
    names: list[str]
    name_concepts: NDArray[np.int64]  # (m,) the concept of each

    def accuracy(self, encoder: TermEncoder) -> float:
        """Return the share of definitions whose nearest name, by cosine, is of their concept: accuracy@1."""
        names, queries = unit(encoder.encode(self.names)), unit(encoder.encode(self.texts))
        # A string may name several concepts: it stands once for each, and any of them will do.
        right = 0
        for start in range(0, len(queries), BLOCK):
            similarity = queries[start : start + BLOCK] @ names.T
            best = similarity.max(1, keepdims=True)
            own = self.concepts[start : start + BLOCK, None] == self.name_concepts[None, :]
            right += int(((similarity >= best - ROUNDING) & own).any(1).sum())
        return right / len(self.texts)


def hold_out(
    texts: Texts, kinds: Sequence[int], names: TrainingNames, *, wanted: int, most_names: int, seed: int
) -> tuple[Texts, DevDefinitions | None]:
    """Take the definitions of some concepts out of the texts."""
    defines = np.isin(texts.kinds, np.array(kinds, np.uint8))
    defined = np.unique(texts.concepts[defines])
    count = min(wanted, len(defined) // MIN_SHARE)
    if count == 0:
        return texts, None
    rng = np.random.default_rng([seed, 14])
    chosen = np.sort(rng.choice(defined, count, replace=False))
    taken = defines & np.isin(texts.concepts, chosen)
    places = np.flatnonzero(taken)
    first = places[np.unique(texts.concepts[places], return_index=True)[1]]
    rest = subset(texts, ~taken)
    owners = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))
    own = np.isin(owners, chosen)
    others = rng.permutation(np.flatnonzero(~own))[: max(0, most_names - int(own.sum()))]
    searched = np.sort(np.concatenate([np.flatnonzero(own), others]))
    return rest, DevDefinitions(
        [texts.strings[i] for i in first.tolist()],
        texts.concepts[first].astype(np.int64),
        [names.strings[i] for i in searched.tolist()],
        owners[searched].astype(np.int64),
    )


def correlation(encoder: TermEncoder, pairs: ScoredPairs) -> float:
    """Return Pearson's correlation of the cosines of scored pairs with their scores, -1 to 1."""
    if np.ptp(pairs.scores) == 0:
        raise InputError("all dev scores are equal, so nothing correlates with them", field="score")
    left, right = (unit(encoder.encode(side)) for side in (pairs.left, pairs.right))
    similarity = (left * right).sum(1)
    if np.ptp(similarity) == 0:
        return 0.0
    return float(np.corrcoef(similarity.astype(np.float64), pairs.scores.astype(np.float64))[0, 1])


# Of what names can be trained against: the kinds of texts, and a concept's other names.
NAME = "name"
TRAINED = (*KINDS, NAME)


class TextTraining(NameTraining):
    """Base of the configs of recipes that learn from texts of concepts: what `read` asks for.

    A recipe gives each its own default and source; see `recipes.biolord` for what they mean.
    """

    kinds: str
    descriptions: int
    generated: str
    distil_kinds: str
    dev_scored: str
    dev_definitions: int
    dev_names: int


class AdaptedTraining(TextTraining):
    """Base of those that adapt the encoder to scored sentences too."""

    scored: str
    triples: str


@dataclass(frozen=True)
class Data:
    """What is learned from and chosen by."""

    terminology: Terminology
    held_out: NDArray[np.int32]  # (p, 2) pairs of concepts whose triples must not train
    names: TrainingNames
    texts: Texts  # the texts that train, each of a concept with a name; their kinds are places in `TRAINED`
    defines: list[int]  # places in `KINDS` of the kinds that stand for a concept's definition
    sets: Mapping[str, ScoredPairs | Triples]
    definitions: DevDefinitions | None  # the definitions held out for the dev score, if any
    sentences: Mapping[str, ScoredPairs]  # scored pairs for the dev score, by file
    facts: dict[str, Any]  # hashes of all sources, and counts, for the manifest

    def dev(self, encoder: TermEncoder) -> dict[str, float]:
        """Return the dev scores of a model, the mean of them first; none where nothing is held out."""
        scores = {}
        if self.sentences:
            scores["dev_sts"] = float(np.mean([correlation(encoder, pairs) for pairs in self.sentences.values()]))
        if self.definitions is not None:
            scores["dev_retrieval"] = self.definitions.accuracy(encoder)
        return {"dev": sum(scores.values()) / len(scores), **scores} if scores else {}

    def describe(self) -> str:
        """Return a line on how much it is."""
        texts = self.texts
        return f"{self.names.describe()}; texts: {len(texts):,} of {len(np.unique(texts.concepts)):,} concepts"

    def variants(self) -> Variants:
        """Return all names and all texts that define concepts."""
        each = np.diff(self.names.offsets)
        named = np.flatnonzero(each)
        rows = np.flatnonzero(np.isin(self.texts.kinds, self.defines))
        return Variants(
            self.names.strings,
            np.repeat(np.arange(len(named)), each[named]),
            [self.texts.strings[row] for row in rows.tolist()],
            np.searchsorted(named, self.texts.concepts[rows]),
            len(named),
        )


@dataclass(frozen=True)
class Variants:
    """What stands for each of n concepts: its names, the preferred one first, and its definitions."""

    names: list[str]
    named: NDArray[np.int64]  # (names,) the concept of each, 0 to n - 1, ascending
    texts: list[str]
    defined: NDArray[np.int64]  # (texts,) the concept of each, ascending
    n: int  # concepts, each with a name

    def preferred(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return the preferred name of each concept, and the concepts."""
        concepts, first = np.unique(self.named, return_index=True)
        return [self.names[place] for place in first.tolist()], concepts


def read(
    terminology: Terminology,
    config: TextTraining,
    split: Split | None = None,
    *,
    rejects: Path | None = None,
    held_back: frozenset[str] = frozenset(),
) -> Data:
    """Return names and texts without what the split holds out, and the scored sentences."""
    languages = language_weights(config.languages)
    exclude = (split.cleaned if split else frozenset()) | held_back
    held_out = split.triple_pairs(terminology) if split else np.empty((0, 2), np.int32)
    files = _files(config, terminology, rejects)
    if split is not None:
        say(f"held out by the split: {len(split.cleaned):,} strings")
    names = TrainingNames.of(config, terminology, split, exclude=held_back)
    trained, defining = _places(config.kinds), _places(config.distil_kinds)
    # Definitions are read even where they shall not train: the dev score is then the same whatever trains.
    kinds = [kind for place, kind in enumerate(KINDS) if place in (*trained, *defining)]
    names_train = TRAINED.index(NAME) in trained
    wanted = {
        "exclude": exclude.union(names.dev_strings),
        "held_out": held_out,
        "languages": tuple(languages) or spoken(names.languages),
        "kinds": kinds,
        "descriptions": config.descriptions,
        "generated": files.generated,
        "seed": config.seed,
    }
    texts = with_names(_verbalised(terminology, wanted, optional=names_train), names)
    texts, definitions = hold_out(
        texts,
        _present(defining, texts),
        names,
        wanted=config.dev_definitions,
        most_names=config.dev_names,
        seed=config.seed,
    )
    texts = subset(texts, np.isin(texts.kinds, trained))
    defines = _present(defining, texts)
    instead = "descriptions stand" if len(texts) else "name stands"
    if names_train:
        texts = joined(texts, names_as_texts(names, TRAINED.index(NAME)))
    if defines != defining:
        say(f"no concept has a definition to train on: its {instead} for it")
    counts = _told(texts, definitions)
    read_from = [*files.sets, *files.sentences, *filter(None, [config.generated])]
    return Data(
        terminology,
        held_out,
        names,
        texts,
        defines,
        files.sets,
        definitions,
        files.sentences,
        {
            "terminology": terminology.content_hash,
            "split": split.hash if split else None,
            "data_files": {file: artefact.hash_file(file) for file in read_from},
            "rejects": files.rejected,
            "texts": counts,
            "texts_left_out": texts.counts,
        },
    )


def _told(texts: Texts, definitions: DevDefinitions | None) -> dict[str, int]:
    """Say how many texts of each kind train, and return it."""
    counts = {kind: int((texts.kinds == place).sum()) for place, kind in enumerate(TRAINED)}
    say(
        f"texts to train on: {', '.join(f'{kind} {count:,}' for kind, count in counts.items())}; definitions held out "
        f"for the dev score: {len(definitions.texts) if definitions else 0:,}"
    )
    return counts


def _verbalised(terminology: Terminology, wanted: Mapping[str, Any], *, optional: bool) -> Texts:
    """Return the texts that are wanted; none where there are none and they are optional."""
    try:
        return verbalise(terminology, **wanted)
    except InputError as error:
        if optional:
            return Texts(np.empty(0, np.int32), [], np.empty(0, np.uint8), {})
        there = sorted(set(terminology.side_table("definitions")["language"].to_pylist()))
        raise InputError(
            f"{error.problem} in {', '.join(wanted['languages'])}; its definitions are in "
            f"{', '.join(there) or 'no language'}",
            file=error.file,
            remedy=error.remedy,
        ) from None


class _Files(NamedTuple):
    """What the files of a config hold, by file, and how many of their rows are wrong."""

    sets: dict[str, ScoredPairs | Triples]
    sentences: dict[str, ScoredPairs]
    generated: dict[str, list[str]] | None
    rejected: int


def _files(config: TextTraining, terminology: Terminology, rejects: Path | None) -> _Files:
    """Read the files of a config, and say how many rows are left out; see `read`."""
    with Rejects(rejects if _is_first() else None) as aside:
        sentences = read_files(config.dev_scored, ScoredPairs, aside, part="dev")
        sets: dict[str, ScoredPairs | Triples] = (
            {**read_files(config.scored, ScoredPairs, aside), **read_files(config.triples, Triples, aside)}
            if isinstance(config, AdaptedTraining)
            else {}
        )
        generated = read_generated(config.generated, terminology, aside) if config.generated else None
    for file, pairs in sentences.items():
        if np.ptp(pairs.scores) == 0:
            raise InputError(
                f"all scores of its {len(pairs.scores):,} pairs are equal, so nothing correlates with them",
                file=file,
                field="dev_scored",
                remedy="give pairs with several scores",
            )
    aside.tell(say)
    return _Files(sets, sentences, generated, aside.count)


def some_of(choices: Sequence[str], value: str, what: str) -> str:
    """Return a setting that lists some of the choices."""
    for name in (given := listed(value)):
        if name not in choices:
            raise ValueError(registry.unknown(what, name, choices))
    if not given:
        raise ValueError(f"give some of {', '.join(choices)}")
    return value


def spoken(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the languages of texts for names of these languages: theirs without regions, and English."""
    return tuple(sorted({"en", *(tag.partition("-")[0] for tag in tags)}))


def _places(setting: str) -> list[int]:
    """Return the places in `TRAINED` of the kinds that a setting lists."""
    return [place for place, kind in enumerate(TRAINED) if kind in listed(setting)]


def _present(kinds: list[int], texts: Texts) -> list[int]:
    """Return these kinds, or all where no text is of them."""
    return kinds if np.isin(texts.kinds, kinds).any() else list(range(len(KINDS)))


def say(text: str) -> None:
    """Print a line, once for all processes."""
    if _is_first():
        progress.say(text)


def _is_first() -> bool:
    from alphita_lab.training.engine import ranks

    return ranks.connect().first
