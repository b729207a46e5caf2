"""Similarity of sentences as people judge it: BIOSSES, MedSTS, SICK, and STS-B in seven languages.

Pearson's correlation of a system's similarity with people's scores, set by set, as Remy et al. 2023 report it; and
Spearman's. A term encoder cuts strings to few tokens: open it with max_length=128 for sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from alphita import registry
from alphita.config import Config
from alphita.errors import UsageError
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks._pair_files import Layout, read_pairs
from alphita_lab.evaluation.scoring import pairs
from alphita_lab.evaluation.scoring.pairs import Pairs
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import System
from alphita_lab.evaluation.systems.encoder import EncoderSystem

INFO, PUBLISHED = about(__name__)
PARTS = ("train", "dev", "test")
BLUE = Layout("\t", "sentence1", "sentence2", "score")
SICK = Layout(
    "\t",
    "sentence_A",
    "sentence_B",
    "relatedness_score",
    split=("SemEval_set", {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}),
)
MULTI_MT = Layout(",", 0, 1, 2)
STS_BENCHMARK = Layout("\t", 5, 6, 4)
# Tokens that hold nearly every sentence of these sets.
SENTENCE_LENGTH = 128


class Options(Config):
    """Which part and languages."""

    part: Literal["train", "dev", "test", "all"] = Field(
        "test", description="part of MedSTS, SICK and STS-B; BIOSSES, with 100 pairs, is always used completely"
    )
    languages: str | None = Field(None, description="languages of STS-B, e.g. en,it; by default all available ones")


@dataclass(frozen=True)
class Data:
    """The sets that are there, and what a reader must know of them."""

    sets: list[Pairs]
    notes: dict[str, Any] = field(default_factory=dict)


def load(source: Source, options: Options) -> Data:
    """Read the sets whose files are there."""
    parts = PARTS if options.part == "all" else (options.part,)
    split = None if options.part == "all" else options.part
    # Set -> its files, how they are laid out, and which part to take of a file that holds all.
    found: dict[str, tuple[list[Path], Layout, str | None]] = {
        "BIOSSES": (_blue(source, "BIOSSES", PARTS), BLUE, None),
        "MedSTS": (_blue(source, "MedSTS", parts), BLUE, None),
        "SICK": (source.files("SICK.txt", "SICK/SICK.txt", optional=True), SICK, split),
    }
    languages = _stsb(source, parts)
    wanted = (
        list(languages)
        if options.languages is None
        else [language.strip() for language in options.languages.split(",")]
    )
    for language in wanted:
        if language not in languages and languages:
            raise UsageError(registry.unknown("language of STS-B", language, languages))
    found |= {f"STS-B {language}": (*languages[language], None) for language in wanted if language in languages}
    sets: list[Pairs] = []
    notes: dict[str, Any] = {}
    for name, (files, layout, part) in found.items():
        if not files:
            notes[name] = f"not run: its files are not there; where to get them: {INFO.where}"
            continue
        one, counts = read_pairs(files, name, layout, split=part)
        sets.append(replace(one, columns={"language": [_language(name)] * len(one)}))
        notes |= counts.notes(name)
    if not languages:
        notes["STS-B"] = f"not run: its files are not there; where to get them: {INFO.where}"
    if not sets:
        source.file("BIOSSES/test.tsv", "MedSTS/test.tsv", "SICK.txt", "stsb-en-test.csv", "sts-test.csv")
    return Data(sets, notes)


def _language(name: str) -> str:
    return name.removeprefix("STS-B ") if name.startswith("STS-B ") else "en"


def _blue(source: Source, name: str, parts: Sequence[str]) -> list[Path]:
    return [path for part in parts for path in source.files(f"{name}/{part}.tsv", optional=True)]


def _stsb(source: Source, parts: Sequence[str]) -> dict[str, tuple[list[Path], Layout]]:
    """Return the files of each language, English first."""
    languages: dict[str, tuple[list[Path], Layout]] = {}
    for part in parts:
        for path in source.files(f"stsb-*-{part}.csv", f"stsb_multi_mt/stsb-*-{part}.csv", optional=True):
            languages.setdefault(path.name.split("-")[1], ([], MULTI_MT))[0].append(path)
    if "en" not in languages:
        own = [path for part in parts for path in source.files(f"sts-{part}.csv", optional=True)]
        if own:
            languages["en"] = (own, STS_BENCHMARK)
    return {language: languages[language] for language in sorted(languages, key=lambda one: (one != "en", one))}


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Score one system."""
    cleaned = [[clean_many(side, system.rules) for side in (pair_set.left, pair_set.right)] for pair_set in data.sets]
    similarity = [system.similarity(left, right) for left, right in cleaned]
    notes = {**data.notes, **cut_strings(system, [string for sides in cleaned for side in sides for string in side])}
    return pairs.result_of(data.sets, similarity, (pairs.PEARSON, pairs.SPEARMAN), subsets=("language",), notes=notes)


def cut_strings(system: System, strings: Sequence[str]) -> dict[str, Any]:
    """Return a note of how many strings fill all tokens that an encoder takes: cut, but for those that just fit."""
    if not isinstance(system, EncoderSystem):
        return {}
    length = system.encoder.max_length
    full = int(np.sum([len(tokens) >= length for tokens in system.encoder.tokenize(list(dict.fromkeys(strings)))]))
    if not full:
        return {}
    remedy = f"; open the system with max_length={SENTENCE_LENGTH}" if length < SENTENCE_LENGTH else ""
    return {f"strings cut to {length} tokens (or just as long)": f"{full} of {len(set(strings))}{remedy}"}
