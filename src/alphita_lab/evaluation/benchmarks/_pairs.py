"""Pairs of strings and people's judgement of them: relatedness, sts, mednli_s, and the tables that hold such pairs."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita import registry, textio
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, clean_many
from alphita_lab.evaluation.benchmarks import Source, benchmark
from alphita_lab.evaluation.benchmarks._terminology_targets import counted, terms_in
from alphita_lab.evaluation.scoring import pairs
from alphita_lab.evaluation.scoring.pairs import Pairs
from alphita_lab.evaluation.scoring.results import Metric, Result
from alphita_lab.evaluation.systems import ConceptSystem, System, VectorSystem
from alphita_lab.evaluation.systems.encoder import EncoderSystem


@dataclass(frozen=True)
class Layout:
    """Where a table holds what: by column names (case does not count), or by place from 0 without a header."""

    # "," (fields may stand in quotes) or a tab (quotes are text, but a spreadsheet's around a field are taken off).
    delimiter: str
    left: str | int
    right: str | int
    score: str | int
    concepts: tuple[str, str] | None = None
    # The column of the part, and its value for each part.
    split: tuple[str, dict[str, str]] | None = None

    @property
    def header(self) -> bool:
        return isinstance(self.left, str)

    @property
    def columns(self) -> dict[str, str | int]:
        columns = {"left": self.left, "right": self.right, "score": self.score}
        columns |= dict(zip(("concept1", "concept2"), self.concepts or (), strict=False))
        return columns | ({"split": self.split[0]} if self.split else {})

    def __str__(self) -> str:
        held = f"the columns {', '.join(map(str, self.columns.values()))}"
        between = f"a table with {'commas' if self.delimiter == ',' else 'tabs'} between"
        if self.header:
            return f"expected {between} and {held}"
        return f"expected {between}, of {1 + max(map(int, self.columns.values()))} columns"


def read_pairs(
    paths: Sequence[Path], name: str, layout: Layout, *, split: str | None = None
) -> tuple[Pairs, dict[str, int]]:
    """Read one set out of its files; return it, and notes of what was left out of it or mended in it."""
    empty = quoted = 0
    # Left, right, score and both concepts of each pair.
    table: list[tuple[str, str, float, tuple[str | None, str | None]]] = []
    for path in paths:
        lines = textio.held_rows(path, layout.delimiter)
        columns = layout.columns
        if layout.header:
            header = lines[0][1] if lines else []
            places_in_header = textio.places(header, [*map(str, columns.values())], path, remedy=str(layout))
            columns = dict(zip(columns, places_in_header, strict=True))
        places = {key: int(column) for key, column in columns.items()}
        for number, row in lines[1:] if layout.header else lines:
            if len(row) <= max(places.values()):
                raise InputError(f"a line of {len(row)} fields", file=path, line=number, remedy=str(layout))
            cells = {key: row[place] for key, place in places.items()}
            if split is not None and layout.split is not None and cells["split"] != layout.split[1][split]:
                continue
            left, right = cells["left"], cells["right"]
            if layout.delimiter == "\t":
                plain = [textio.unquoted(cell) for cell in (left, right)]
                quoted += (plain[0] != left) + (plain[1] != right)
                left, right = (cell.strip() for cell in plain)
            if not left or not right or cells["score"].lower() in ("", "nan", "na"):
                empty += 1
                continue
            score = _number(cells["score"], path, number)
            table.append((left, right, score, (cells.get("concept1") or None, cells.get("concept2") or None)))
    if not table:
        part = f" of the part {split!r}" if split else ""
        raise InputError(f"holds no pair{part}", file=paths[0], remedy=str(layout))
    lefts, rights, scores, concepts = (list(column) for column in zip(*table, strict=True))
    notes = {
        f"pairs of {name} left out for want of a string or score": empty,
        f"strings of {name} freed of quotes": quoted,
        f"pairs of {name} that stand there twice": len(table) - len(set(zip(lefts, rights, strict=True))),
    }
    return Pairs(name, lefts, rights, scores, concepts if layout.concepts else None), counted(notes)


def _number(cell: str, path: Path, line: int) -> float:
    try:
        value = float(cell.strip('"'))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError("the score is not a number", file=path, line=line, value=cell)
    return value


@dataclass(frozen=True)
class Data:
    """The sets that are there, the names of their concepts, and notes for the reader."""

    sets: list[Pairs]
    names: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


UMNSRS = Layout(",", "Term1", "Term2", "Mean", ("CUI1", "CUI2"))
MINI = {score: Layout(",", "TERM1", "TERM2", score, ("CUI1", "CUI2")) for score in ("Physicians", "Coders")}
BIO_SIM = Layout("\t", 0, 1, 2)
# Set -> its file and where the file holds what.
SETS = {
    "UMNSRS similarity": ("UMNSRS_similarity.csv", UMNSRS),
    "UMNSRS relatedness": ("UMNSRS_relatedness.csv", UMNSRS),
    "MayoSRS": ("MayoSRS.csv", Layout(",", "TERM1", "TERM2", "Mean", ("CUI1", "CUI2"))),
    "MiniMayoSRS physicians": ("MiniMayoSRS.csv", MINI["Physicians"]),
    "MiniMayoSRS coders": ("MiniMayoSRS.csv", MINI["Coders"]),
    "EHR-RelB": ("EHR-RelB.tsv", Layout("\t", "snomed_label_1", "snomed_label_2", "mean_rating", ("CUI_1", "CUI_2"))),
    "Bio-SimLex": ("Bio-SimLex.txt", BIO_SIM),
    "Bio-SimVerb": ("Bio-SimVerb.txt", BIO_SIM),
}
# The column that tells a pair's set and how many of its terms the terminology has: "UMNSRS similarity, both".
COVERED = "terms in the terminology"
COVERAGE = ("none", "one", "both")
TRANSLATED = ("Term1", "Term2", "Translation1", "Translation2")


class RelatednessOptions(Config):
    """Terms or concepts, and in which language."""

    by: Literal["term", "concept"] = Field(
        "term", description="compare the terms of the set, or (needs a terminology) all names of their CUIs"
    )
    language: str | None = Field(None, description="with by=concept: only names in this language; all by default")
    translations: Path | None = Field(
        None,
        description="a CSV file with the columns Term1,Term2,Translation1,Translation2 (Amore Bondarenko et al. 2022 "
        "translated MayoSRS and UMNSRS); pairs without one are left out and counted",
    )


def _evaluate_relatedness(data: Data, system: System | ConceptSystem, options: RelatednessOptions) -> Result:
    """Score one system."""
    notes = dict(data.notes)
    if isinstance(system, ConceptSystem) and not isinstance(system, System):
        notes["compared"] = "by concept: the system knows no strings"
        ids = _concepts(data.sets)
        known = dict(zip(ids, system.encode_concepts(ids), strict=True))
        similarity = [_by_concept(pair_set, known) for pair_set in data.sets]
    elif options.by == "term":
        rules = system.rules
        similarity = [
            system.similarity(clean_many(pair_set.left, rules), clean_many(pair_set.right, rules))
            for pair_set in data.sets
        ]
    elif isinstance(system, VectorSystem):
        known = _mean_vectors(data, system)
        similarity = [_by_concept(pair_set, known) for pair_set in data.sets]
    else:
        raise UsageError(
            f"relatedness by concept needs a system that has vectors, which {system.name} has not: by=term"
        )
    subsets = (COVERED,) if any(COVERED in pair_set.columns for pair_set in data.sets) else ()
    return pairs.result_of(data.sets, similarity, (pairs.SPEARMAN, pairs.PEARSON), subsets=subsets, notes=notes)


@benchmark(RelatednessOptions, _evaluate_relatedness)
def relatedness(source: Source, options: RelatednessOptions) -> Data:
    """Relatedness of medical terms as people judge it: UMNSRS, MayoSRS, MiniMayoSRS, EHR-RelB, Bio-SimLex, Bio-SimVerb.

    Spearman's correlation of a system's similarity with people's scores, set by set. By term: the two terms are
    compared as the set writes them. By concept: their CUIs are compared, each as the mean of the unit vectors of its
    names in the terminology; systems that only know concepts are always asked so. MiniMayoSRS has two scores a pair and
    counts as two sets.

    With a terminology, figures by term are also broken down by how many of a pair's two terms are names in it: what a
    system learned from a terminology shows where both are.
    """
    if options.by == "concept" and options.translations is not None:
        raise UsageError(
            "relatedness by concept compares names of the terminology, not translations: give one of the two"
        )
    sets: list[Pairs] = []
    notes: dict[str, Any] = {}
    for name, (file, layout) in SETS.items():
        path = source.file(file, optional=True)
        if path is None:
            notes[name] = f"not run: no {file}; where to get it: {source.where}"
            continue
        pair_set, counts = read_pairs([path], name, layout)
        sets.append(pair_set)
        notes |= counts
    if not sets:
        source.file(*dict.fromkeys(file for file, _ in SETS.values()))
    if options.translations is not None:
        sets = _translated(sets, options.translations, notes)
    if options.by == "term":
        if source.terminology is not None:
            sets = [_with_coverage(pair_set, source.terminology) for pair_set in sets]
        return Data(sets, notes=notes)
    names = _names(source.require_terminology(), sets, options.language)
    notes |= {"concepts of the sets": len(_concepts(sets)), "concepts of the sets in the terminology": len(names)}
    return Data(sets, names, notes)


def _with_coverage(pair_set: Pairs, terminology: Terminology) -> Pairs:
    terms = dict.fromkeys((*pair_set.left, *pair_set.right))
    known = {term: terminology.find_key(clean(term)) is not None for term in terms}
    counts = [known[left] + known[right] for left, right in zip(pair_set.left, pair_set.right, strict=True)]
    covered = [f"{pair_set.name}, {COVERAGE[count]}" for count in counts]
    return replace(pair_set, columns={**pair_set.columns, COVERED: covered})


def _translated(sets: list[Pairs], path: Path, notes: dict[str, Any]) -> list[Pairs]:
    """Return the sets in translation, without the pairs that have none; these are counted in `notes`."""
    lines = textio.held_rows(path, ",")
    header = lines[0][1] if lines else []
    places = textio.places(header, TRANSLATED, path, remedy=f"expected the columns {','.join(TRANSLATED)}")
    known: dict[tuple[str, str], tuple[str, str]] = {}
    for number, row in lines[1:]:
        if len(row) <= max(places):
            raise InputError(f"a line of {len(row)} fields, for {len(header)} columns", file=path, line=number)
        first, second, *translation = (row[place] for place in places)
        if all(translation):
            known[clean(first), clean(second)] = (translation[0], translation[1])
            known.setdefault((clean(second), clean(first)), (translation[1], translation[0]))
    translated: list[Pairs] = []
    for pair_set in sets:
        keys = zip(map(clean, pair_set.left), map(clean, pair_set.right), strict=True)
        kept = {row: known[key] for row, key in enumerate(keys) if key in known}
        notes[f"pairs of {pair_set.name} left out for want of a translation"] = len(pair_set) - len(kept)
        if kept:
            left, right = (list(side) for side in zip(*kept.values(), strict=True))
            gold = [pair_set.gold[row] for row in kept]
            concepts = None if pair_set.concepts is None else [pair_set.concepts[row] for row in kept]
            translated.append(replace(pair_set, left=left, right=right, gold=gold, concepts=concepts))
    if not translated:
        raise InputError("translates no pair of the sets that are there", file=path)
    return translated


def _names(terminology: Terminology, sets: list[Pairs], language: str | None) -> dict[str, list[str]]:
    """Return the names of the sets' concepts that the terminology has; a CUI may stand there bare or after UMLS: ."""
    rows, offsets = terms_in(terminology, language)
    strings = terminology.terms.column("string")
    names: dict[str, list[str]] = {}
    for concept in _concepts(sets):
        for written in (f"UMLS:{concept}", concept):
            try:
                row = terminology.resolve(written)
            except InputError:
                continue
            strings_of = strings.take(rows[offsets[row] : offsets[row + 1]]).to_pylist()
            if strings_of:
                names[concept] = strings_of
            break
    return names


def _concepts(sets: list[Pairs]) -> list[str]:
    return list(
        dict.fromkeys(concept for pair_set in sets for pair in pair_set.concepts or () for concept in pair if concept)
    )


def _mean_vectors(data: Data, system: VectorSystem) -> dict[str, NDArray[np.float32]]:
    strings = clean_many([name for names in data.names.values() for name in names], system.rules)
    offsets = np.cumsum([0, *(len(names) for names in data.names.values())])
    if not strings:
        return {}
    return dict(zip(data.names, pairs.mean_of_names(system.encode(strings), offsets), strict=True))


def _by_concept(pair_set: Pairs, known: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the cosine of each pair of concepts; NaN where a concept has no vector."""
    similarity = np.full(len(pair_set), np.nan, np.float32)
    for row, (left, right) in enumerate(pair_set.concepts or ()):
        if left in known and right in known:
            similarity[row] = pairs.cosine(known[left], known[right])
    return similarity


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


class StsOptions(Config):
    """Which part and languages."""

    part: Literal["train", "dev", "test", "all"] = Field(
        "test", description="part of MedSTS, SICK and STS-B; BIOSSES, with 100 pairs, is always used completely"
    )
    languages: str | None = Field(None, description="languages of STS-B, e.g. en,it; by default all available ones")


def _evaluate_sts(data: Data, system: System, options: StsOptions) -> Result:
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


@benchmark(StsOptions, _evaluate_sts)
def sts(source: Source, options: StsOptions) -> Data:
    """Similarity of sentences as people judge it: BIOSSES, MedSTS, SICK, and STS-B in seven languages.

    Pearson's correlation of a system's similarity with people's scores, set by set, as Remy et al. 2023 report it; and
    Spearman's. A term encoder cuts strings to few tokens: open it with max_length=128 for sentences.
    """
    parts = PARTS if options.part == "all" else (options.part,)
    split = None if options.part == "all" else options.part

    def blue(name: str, parts: Sequence[str]) -> list[Path]:
        return [path for part in parts for path in source.files(f"{name}/{part}.tsv", optional=True)]

    # Set -> its language, its files, their layout, and which part to take of a file that holds all.
    known: dict[str, tuple[str, list[Path], Layout, str | None]] = {
        "BIOSSES": ("en", blue("BIOSSES", PARTS), BLUE, None),
        "MedSTS": ("en", blue("MedSTS", parts), BLUE, None),
        "SICK": ("en", source.files("SICK.txt", "SICK/SICK.txt", optional=True), SICK, split),
    }
    languages = _stsb(source, parts)
    wanted = list(languages)
    if options.languages is not None:
        wanted = [language.strip() for language in options.languages.split(",")]
    for language in wanted:
        if language in languages:
            known[f"STS-B {language}"] = (language, *languages[language], None)
        elif languages:
            raise UsageError(registry.unknown("language of STS-B", language, languages))
    sets: list[Pairs] = []
    notes: dict[str, Any] = {}
    not_run = f"not run: its files are not there; where to get them: {source.where}"
    for name, (language, files, layout, part) in known.items():
        if not files:
            notes[name] = not_run
            continue
        pair_set, counts = read_pairs(files, name, layout, split=part)
        sets.append(replace(pair_set, columns={"language": [language] * len(pair_set)}))
        notes |= counts
    if not languages:
        notes["STS-B"] = not_run
    if not sets:
        source.file("BIOSSES/test.tsv", "MedSTS/test.tsv", "SICK.txt", "stsb-en-test.csv", "sts-test.csv")
    return Data(sets, notes=notes)


def _stsb(source: Source, parts: Sequence[str]) -> dict[str, tuple[list[Path], Layout]]:
    """Return the files of each language, English first."""
    languages: dict[str, tuple[list[Path], Layout]] = {}
    for part in parts:
        for path in source.files(f"stsb-*-{part}.csv", f"stsb_multi_mt/stsb-*-{part}.csv", optional=True):
            languages.setdefault(path.name.split("-")[1], ([], MULTI_MT))[0].append(path)
    if "en" not in languages:
        benchmark_files = [path for part in parts for path in source.files(f"sts-{part}.csv", optional=True)]
        if benchmark_files:
            languages["en"] = (benchmark_files, STS_BENCHMARK)
    return {tag: languages[tag] for tag in sorted(languages, key=lambda tag: (tag != "en", tag))}


LABELS = ("entailment", "contradiction", "neutral")


class MednliOptions(Config):
    """Which part."""

    part: Literal["train", "dev", "test", "all"] = Field("test", description="part of MedNLI")


@dataclass(frozen=True)
class Triples:
    """A premise, what it entails and what it contradicts, as columns."""

    premises: list[str]
    entailed: list[str]
    contradicted: list[str]
    notes: dict[str, Any] = field(default_factory=dict)


def _evaluate_mednli(data: Triples, system: System, options: MednliOptions) -> Result:
    """Score one system."""
    n = len(data.premises)
    premises, entailed, contradicted = (
        clean_many(column, system.rules) for column in (data.premises, data.entailed, data.contradicted)
    )
    # In one call, so that a system that learns its weights from the strings has the same for both.
    similarity = system.similarity(premises * 2, entailed + contradicted)
    near, far = similarity[:n], similarity[n:]
    known = np.isfinite(near) & np.isfinite(far)
    rows = pl.DataFrame(
        {
            "query": np.arange(n),
            "premise": data.premises,
            "entailed": data.entailed,
            "contradicted": data.contradicted,
            "similarity_entailed": near,
            "similarity_contradicted": far,
            "right": [bool(right) if there else None for right, there in zip(near > far, known, strict=True)],
        }
    ).with_columns(pl.col("similarity_entailed", "similarity_contradicted").fill_nan(None))
    notes = {
        "triples": n,
        "triples without an answer": int((~known).sum()),
        "triples with equal similarity": int((near[known] == far[known]).sum()),
        **data.notes,
        **cut_strings(system, [*premises, *entailed, *contradicted]),
    }
    return Result(rows, (Metric("accuracy", ("right",)),), notes=notes)


@benchmark(MednliOptions, _evaluate_mednli)
def mednli_s(source: Source, options: MednliOptions) -> Triples:
    """MedNLI-S: is what follows from a clinical sentence nearer to it than what contradicts it?

    MedNLI has three hypotheses a premise: entailed, neutral, contradicted. The score is the share of premises whose
    entailed hypothesis is more similar to them than the contradicted one (Remy et al. 2023, appendix C). Equal
    similarity is wrong, and counted.
    """
    parts = PARTS if options.part == "all" else (options.part,)
    files = [source.files(f"mli_{part}_v1.jsonl", f"mli_{part}*.jsonl")[0] for part in parts]
    # Hypotheses of each premise by label, in the order of the file; a premise that stands there twice has two of each.
    premises: dict[str, dict[str, list[str]]] = {}
    empty = 0
    for path in files:
        for number, line in textio.lines(path):
            premise, hypothesis, label = _mednli_row(path, number, line)
            if premise and hypothesis:
                premises.setdefault(premise, {name: [] for name in LABELS})[label].append(hypothesis)
            else:
                empty += 1
    triples = [
        (premise, entailed, contradicted)
        for premise, by_label in premises.items()
        for entailed, contradicted in zip(by_label["entailment"], by_label["contradiction"], strict=False)
    ]
    if not triples:
        raise InputError("has no premise with an entailed and a contradicted hypothesis", file=files[0])
    alone = sum(abs(len(by_label["entailment"]) - len(by_label["contradiction"])) for by_label in premises.values())
    notes = {"hypotheses without their opposite, left out": alone, "lines with an empty sentence, left out": empty}
    first, second, third = (list(column) for column in zip(*triples, strict=True))
    return Triples(first, second, third, counted(notes))


def _mednli_row(path: Path, number: int, line: str) -> tuple[str, str, str]:
    fail = functools.partial(InputError, file=path, line=number)
    try:
        row = textio.json_value(line)
        premise, hypothesis, label = (row[key] for key in ("sentence1", "sentence2", "gold_label"))
    except (ValueError, KeyError, TypeError):
        raise fail("not a JSON object with sentence1, sentence2 and gold_label", value=line) from None
    if label not in LABELS:
        raise fail("not a label of MedNLI", field="gold_label", value=label)
    if not isinstance(premise, str) or not isinstance(hypothesis, str):
        raise fail("the sentences are not strings", value=line)
    return premise.strip(), hypothesis.strip(), label
