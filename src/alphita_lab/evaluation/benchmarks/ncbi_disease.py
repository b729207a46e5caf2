"""NCBI Disease: diseases in 793 abstracts, mapped to MEDIC (MeSH and OMIM).

Mentions are ranked against all names of the dictionary, alone or with the names of the training mentions among them, as
BioSyn and SapBERT are scored. Ids are sought among all ids of a concept. Of a mention of several concepts every part
must be right; see `_pubtator.queries`. "accuracy@1 (any concept of the name)" is the figure of those two papers.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import Field

from alphita.config import Config
from alphita_lab.evaluation.benchmarks import Source, _dictionary, _folds, _pubtator, about
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)
CORPUS = {
    "test": ("NCBItestset_corpus.txt",),
    "dev": ("NCBIdevelopset_corpus.txt",),
    "train": ("NCBItrainset_corpus.txt",),
}
# Which parts systems may have been trained on.
BEFORE = {"test": ("train", "dev"), "dev": ("train",)}


class Options(Config):
    """What is scored, and against which names."""

    part: Literal["test", "dev"] = Field("test", description="part of the corpus to score")
    mentions: Literal["none", "train"] = Field(
        "none",
        description="none: ranked against the dictionary only; train: also against the mentions of the parts before "
        "(train; train and dev for test), as BioSyn and SapBERT are scored",
    )


def load(source: Source, options: Options) -> _folds.Parts:
    """Read the corpus and the dictionary."""
    corpus = _pubtator.read(source.files(*CORPUS[options.part])[0])
    dictionary = _dictionary.read(source.files("medic*.txt", "CTD_diseases*.tsv")[0])
    before = training(source, [CORPUS[part] for part in BEFORE[options.part]], needed=options.mentions == "train")
    part, notes = ranked(corpus, dictionary, before, with_mentions=options.mentions == "train")
    return _folds.Parts([part], notes)


def training(source: Source, files: list[tuple[str, ...]], *, needed: bool) -> list[_pubtator.Mention] | None:
    """Return the mentions of the parts before; None if a file is not there and not needed."""
    found: list[Path] = []
    for names in files:
        paths = source.files(*names, optional=not needed)
        if not paths:
            return None
        found.append(paths[0])
    return [mention for path in found for mention in _pubtator.read(path).mentions]


def ranked(
    corpus: _pubtator.Corpus,
    dictionary: _dictionary.Dictionary,
    before: list[_pubtator.Mention] | None,
    *,
    with_mentions: bool,
) -> tuple[_folds.Part, dict[str, int]]:
    """Return the queries of a corpus with their targets, and the notes."""
    queries = _pubtator.queries(
        corpus.mentions, dictionary, None if before is None else [mention.text for mention in before]
    )
    composite = Counter(kind for kind in queries.columns["composite"] if kind)
    notes = dict(corpus.notes) | dict(dictionary.notes)
    notes |= dictionary.notes_on(gold_id for mention in corpus.mentions for gold_id in mention.ids)
    notes |= {f"mentions of several concepts, {how}": composite[how] for how in sorted(composite)}
    more: list[tuple[str, str]] = []
    if with_mentions:
        more, several = _pubtator.names(before or (), dictionary)
        notes |= {"training mentions among the names": len(set(more))}
        notes |= {"training mentions of several concepts, left out of the names": several} if several else {}
    return _folds.Part(queries, dictionary.targets(more)), notes


def evaluate(data: _folds.Parts, system: System, options: Options) -> Result:
    """Score one system."""
    return _folds.evaluate(system, data, subsets=("type", "composite"))
