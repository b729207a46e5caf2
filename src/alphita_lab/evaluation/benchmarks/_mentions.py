"""Benchmarks whose files list mentions with their concepts, ranked against a terminology or a file of names."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.terminology.reading import rows_of
from alphita_lab.evaluation.benchmarks import Source, benchmark
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._folds import seen
from alphita_lab.evaluation.benchmarks._pubtator import documents
from alphita_lab.evaluation.benchmarks._terminology_targets import Data, counted, evaluate, umls_dictionary
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import System

CUI = re.compile(r"C\d{7}")


@dataclass
class Mentions:
    """Mentions in the order of the files, each with its gold ids and a value in every column."""

    strings: list[str] = field(default_factory=list)
    gold: list[tuple[str, ...]] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, string: str, ids: Sequence[str], **columns: object) -> None:
        self.strings.append(string)
        self.gold.append(tuple(ids))
        for name, value in columns.items():
            self.columns.setdefault(name, []).append(value)

    def ids(self) -> list[str]:
        return [one_id for ids in self.gold for one_id in ids]

    def require(self, problem: str, path: Path) -> None:
        if not self.strings:
            raise InputError(problem, file=path)

    def data(
        self,
        dictionary: names.Dictionary,
        columns: Mapping[str, Sequence[Any]],
        subsets: tuple[str, ...],
        notes: Mapping[str, Any] | None = None,
        sizes: Sequence[int] | None = None,
    ) -> Data:
        """Return the queries with their gold concepts in a dictionary."""
        gold = [(dictionary.gold(ids),) for ids in self.gold]
        queries = Queries([(string,) for string in self.strings], gold, columns)
        all_notes = dictionary.notes | dict(notes or {}) | names.repeated(queries)
        return Data(queries, dictionary.targets, all_notes, subsets, sizes)


class E3cOptions(names.NameOptions):
    """Which mentions, and which names they are ranked against."""

    layer: Literal["layer1", "layer2", "all"] = Field(
        "layer1", description="annotation layer: layer1 by people, layer2 by machine"
    )


@benchmark(E3cOptions, evaluate)
def e3c_concepts(source: Source, options: E3cOptions) -> Data:
    """E3C: mentions of findings and disorders in English clinical cases, linked to UMLS.

    A table with the columns layer, mention and cui. Layer 1 was annotated by people, layer 2 by machine, so only layer
    1 is scored unless you ask for more. Mentions without a CUI, or marked CUILESS, are left out and counted, as are
    CUIs that are none.
    """
    path = source.files("e3c_*.tsv")[0]
    mentions, left_out = Mentions(), {"without a CUI": 0, "CUILESS": 0, "malformed CUI": 0}
    for line, (layer, mention, cui) in textio.columns(path, ("layer", "mention", "cui"), "\t", quotes=None):
        if layer not in ("layer1", "layer2"):
            raise InputError("is neither layer1 nor layer2", file=path, line=line, field="layer", value=layer)
        if not mention:
            raise InputError("is empty", file=path, line=line, field="mention")
        if options.layer not in (layer, "all"):
            continue
        if CUI.fullmatch(cui):
            mentions.add(mention, [cui], layer=layer)
        else:
            left_out["without a CUI" if not cui else "CUILESS" if cui == "CUILESS" else "malformed CUI"] += 1
    mentions.require(f"holds no mention of {options.layer} with a CUI", path)
    dictionary = umls_dictionary(source, mentions.ids(), options)
    columns: dict[str, Sequence[Any]] = {**mentions.columns, "semantic_type": dictionary.types_of(mentions.gold)}
    data = mentions.data(dictionary, columns, ("layer",) if options.layer == "all" else ())
    data.notes.update(counted({f"mentions left out, {why}": count for why, count in left_out.items()}))
    return data


class MedMentionsOptions(names.NameOptions):
    """Which part is scored, whether in its text, and which names it is ranked against."""

    part: Literal["test", "dev"] = Field("test", description="part of the corpus to score")
    context: bool = Field(True, description="show each mention's abstract to systems that read it")


# Part -> how the corpus calls it.
MEDMENTIONS = {"train": "trng", "dev": "dev", "test": "test"}


@benchmark(MedMentionsOptions, evaluate)
def medmentions(source: Source, options: MedMentionsOptions) -> Data:
    """MedMentions: mentions in 4,392 abstracts, linked to UMLS, each in its abstract.

    The full corpus or ST21pv, whichever folder is given. Systems that read the text around a mention (normalizer:MODEL)
    are shown the abstract; encoders see the mention alone. "seen" tells whether the mention, as cleaned, is among those
    of the training part.
    """
    corpus = source.files("corpus_pubtator.txt*", "data/corpus_pubtator.txt*")[0]
    listed = {}
    for part in ("train", options.part):
        name = f"corpus_pubtator_pmids_{MEDMENTIONS[part]}.txt"
        listed[part] = set(textio.read_text(source.files(name, f"data/{name}")[0]).split())
    mentions, contexts, trained = Mentions(), [], []
    left_out = Counter[str]()
    for document in documents(corpus):
        if document.name in listed["train"]:
            trained += [mention.text for mention in document.mentions]
        if document.name not in listed[options.part] or document.again:
            continue
        for mention in document.mentions:
            ids = [one.removeprefix(names.UMLS) for one in mention.ids]
            if ids and all(CUI.fullmatch(one) for one in ids):
                mentions.add(mention.text, ids, semantic_type=mention.type.partition(",")[0])
                contexts.append(document.text.strip())
            else:
                left_out["mentions left out, without a CUI"] += 1
    mentions.require(f"holds no mention of the part {options.part} with a CUI", corpus)
    dictionary = umls_dictionary(source, mentions.ids(), options)
    data = mentions.data(dictionary, mentions.columns, ("seen",))
    known = seen([(string,) for string in mentions.strings], trained)
    shown: list[str | None] | None = [*contexts] if options.context else None
    queries = Queries(data.queries.parts, data.queries.gold, data.queries.columns, known, shown)
    return replace(data, queries=queries, notes=data.notes | counted(left_out))


GSC_LINE = re.compile(r"\[\d+::\d+\]\tHP[_:](\d{7}) \| (.+)")


@benchmark(names.NameFilter, evaluate)
def hpo_gsc_plus(source: Source, options: names.NameFilter) -> Data:
    """GSC+: 228 abstracts annotated with HPO concepts, to be found again from the mention alone.

    The ids are of 2016. One that has been merged into another concept stands for that one, and one that was retired for
    the concept that replaced it, if it is one only; the rest is not covered. How many are still live is in the notes.
    """
    mentions, terminology = Mentions(), source.require_terminology()
    for path in source.files("ann/*", "GSC+/ann/*"):
        for number, line in textio.lines(path):
            match = GSC_LINE.fullmatch(line.rstrip())
            if not match:
                raise InputError("is not [from::to], a tab, HP_... | mention", file=path, line=number, value=line)
            mentions.add(match[2].strip(), [f"HP:{match[1]}"])
    mentions.require("the files hold no annotation", source.read[0])
    dictionary = names.terminology_dictionary(terminology, {curie: curie for curie in mentions.ids()}, options)
    how = [dictionary.how[curie] for curie in mentions.ids()]
    columns: dict[str, Sequence[Any]] = {"id": how, "semantic_type": dictionary.types_of(mentions.gold)}
    return mentions.data(dictionary, columns, ("id",), {"queries whose id is live": how.count("live")})


XL_BEL_LANGUAGES = ("de", "en", "es", "fi", "ja", "ko", "ru", "th", "tr", "zh")
ANIMALS = ("Animal", "Invertebrate", "Vertebrate", "Amphibian", "Bird", "Fish", "Reptile", "Mammal")
SPECIES = frozenset({"Plant", "Alga", "Eukaryote", *ANIMALS})


class XlBelOptions(names.NameOptions):
    """Which queries, and which names they are ranked against."""

    species: Literal["all", "without"] = Field(
        "all",
        description="without: leave out plant and animal species by semantic type (Remy et al. 2023); needs a "
        "terminology with UMLS semantic types; queries of unknown type stay and are counted",
    )


@benchmark(XlBelOptions, evaluate)
def xl_bel(source: Source, options: XlBelOptions) -> Data:
    """XL-BEL: mentions from Wikipedia in ten languages, linked to UMLS.

    A line is `CUI||mention`; where a mention has several CUIs ("C2051831|C0016842") any of them is right. Many of the
    mentions are names of plants and animals, which Remy et al. 2023 leave out by their semantic types; which types
    those were is not said. Here they are the plants, algae and animals of the UMLS semantic network without man, and
    eukaryotes, for that is where insects and other invertebrates stand.
    """
    mentions = Mentions()
    for path in source.files("*_1k_test_query.txt"):
        language = path.name.split("_")[0]
        if language not in XL_BEL_LANGUAGES:
            raise InputError("is no language of XL-BEL", file=path, value=language)
        for number, line in textio.lines(path):
            cuis, bars, mention = line.partition("||")
            ids = [cui.strip() for cui in cuis.split("|")]
            if not bars or not mention.strip() or not all(ids):
                raise InputError("is not CUI||mention", file=path, line=number, value=line)
            mentions.add(mention.strip(), ids, language=language)
    mentions.require("the files hold no query", source.read[0])
    dictionary = umls_dictionary(source, mentions.ids(), options)
    types = [{name for cui in ids for name in dictionary.types.get(cui, [])} for ids in mentions.gold]
    species = [not SPECIES.isdisjoint(of_mention) if of_mention else None for of_mention in types]
    if options.species == "without" and not any(types):
        raise UsageError(
            "species=without needs semantic types, and the targets have none for any gold CUI; import the UMLS with "
            "its MRSTY and give it as --terminology"
        )
    kept = Mentions()
    for row, (string, gold) in enumerate(zip(mentions.strings, mentions.gold, strict=True)):
        if options.species == "all" or not species[row]:
            language = mentions.columns["language"][row]
            kept.add(string, gold, language=language, semantic_type=dictionary.type_of(gold), species=species[row])
    missing = sorted(set(XL_BEL_LANGUAGES) - set(mentions.columns["language"]))
    notes: dict[str, Any] = {"queries of unknown semantic type": species.count(None)}
    notes |= counted({"queries left out as plants and animals": len(mentions.strings) - len(kept.strings)})
    notes |= {"languages that are not there": ", ".join(missing)} if missing else {}
    subsets = ("language", *(["species"] if options.species == "all" and any(species) else []))
    return kept.data(dictionary, kept.columns, subsets, notes)


MANTRA_LANGUAGES = {"english": "en", "spanish": "es", "french": "fr", "dutch": "nl", "german": "de"}
MANTRA_CORPORA = {"medline": "Medline", "emea": "EMEA", "patent": "Patents", "patents": "Patents"}


class Annotation(NamedTuple):
    """One concept at one place of MANTRA's text, as the file writes it."""

    language: str
    corpus: str
    unit: str
    span: str
    mention: str
    cui: str
    group: str
    line: int | None = None


@benchmark(names.NameOptions, evaluate)
def mantra(source: Source, options: names.NameOptions) -> Data:
    """MANTRA GSC: Medline titles, drug labels (EMEA) and patents in five languages, annotated with UMLS concepts.

    A mention is annotated with a set of concepts, and a system answers with one. "set F1" is the F1 of the sets. The
    scorer released with CODER reads one concept a line, so a mention with three concepts is three queries, each with
    one right answer: that is "one-line score", and what Yuan et al. 2020 and 2022 print as F1.

    Two layouts are read: the corpus as on GitHub (brat: LANGUAGE/CORPUS_*/UNIT.ann), and a table with the columns
    language, subcorpus, unit, span, mention, cui and group.
    """
    paths = source.files("Mantra-GSC/*/*/*.ann", "*/*_ec22-cui-best_man/*.ann", "mantra*.tsv")
    kind = paths[0].name.removesuffix(".gz").rpartition(".")[2]
    sets: dict[tuple[str, str, str, str], list[Annotation]] = {}
    without_cui = 0
    for path in paths:
        for annotation in (_read_brat if kind == "ann" else _read_table)(path):
            language = _known(annotation.language, MANTRA_LANGUAGES, "is no language of MANTRA", path, annotation.line)
            corpus = _known(annotation.corpus, MANTRA_CORPORA, "is no part of MANTRA", path, annotation.line)
            if CUI.fullmatch(annotation.cui):
                sets.setdefault((language, corpus, annotation.unit, annotation.span), []).append(annotation)
            else:
                without_cui += 1
    mentions = Mentions()
    for (language, corpus, _, _), concepts in sets.items():
        first = concepts[0]
        mentions.add(
            first.mention,
            list(dict.fromkeys(annotation.cui for annotation in concepts)),
            part=f"{language} {corpus}",
            language=language,
            corpus=corpus,
            group=first.group if re.fullmatch("[A-Z]{4}", first.group) else None,
        )
    mentions.require("holds no annotation", paths[0])
    dictionary = umls_dictionary(source, mentions.ids(), options)
    sizes = [len(cuis) for cuis in mentions.gold]
    data = mentions.data(dictionary, mentions.columns, tuple(mentions.columns), sizes=sizes)
    missing = [name.title() for name, tag in MANTRA_LANGUAGES.items() if tag not in mentions.columns["language"]]
    data.notes.update(counted({"annotations left out for want of a CUI": without_cui}))
    data.notes.update({"languages that are not there": ", ".join(missing)} if missing else {})
    return data


def _known(value: str, known: Mapping[str, str], problem: str, path: Path, line: int | None) -> str:
    if value.lower() not in known:
        raise InputError(problem, file=path, line=line, value=value, remedy=f"use one of {', '.join(known)}")
    return known[value.lower()]


def _read_table(path: Path) -> Iterator[Annotation]:
    columns = ("language", "subcorpus", "unit", "span", "mention", "cui", "group")
    for line, (language, corpus, unit, span, *rest) in textio.columns(path, columns, "\t", quotes=None):
        mention, cui, group = rest
        if not (mention and unit and span):
            raise InputError("has no mention, unit or span", file=path, line=line)
        # A span begins with its concept: "C0030705 3 11".
        yield Annotation(language, corpus, unit, span.partition(" ")[2] or span, mention, cui, group, line)


def _read_brat(path: Path) -> Iterator[Annotation]:
    """Read one unit: "T33<TAB>C0030705 79 88<TAB>patients", and a note #33 with name, type and group of T33."""
    concepts: dict[str, tuple[str, str, str]] = {}
    groups: dict[str, str] = {}
    for number, line in textio.lines(path):
        fields = line.split("\t")
        if line.startswith("T"):
            cui, _, span = fields[1].partition(" ") if len(fields) == 3 else ("", "", "")
            if not span or not fields[2].strip():
                raise InputError(
                    "is not an id, a concept with its place, and a mention", file=path, line=number, value=line
                )
            concepts[fields[0]] = (cui, span, fields[2].strip())
        elif line.startswith("#") and len(fields) == 3:
            groups[fields[1].partition(" ")[2]] = fields[2].rpartition(",")[2].strip(' "')
    language, corpus = path.parts[-3], path.parts[-2].split("_")[0]
    for key, (cui, span, mention) in concepts.items():
        unit = path.name.removesuffix(".gz").removesuffix(".ann")
        yield Annotation(language, corpus, unit, span, mention, cui, groups.get(key, ""))


OMOP_MATCH = ("target_concept_id", "target_concept_name", "predicate")
PREDICATES = ("exactMatch", "broadMatch")


class OmopOptions(names.NameFilter):
    """Which names the terms are ranked against."""

    names: Literal["auto", "terminology", "file"] = Field(
        "auto",
        description="targets: the names of the terminology, or the target names of the file itself; auto: the "
        "terminology if it has any of the target ids, else the file's",
    )


@benchmark(OmopOptions, evaluate)
def omop_exact_matching(source: Source, options: OmopOptions) -> Data:
    """OMOP exact matching: names of source vocabularies, to be mapped to OMOP standard concepts.

    A table of source_term, target_concept_id, target_concept_name and predicate (exactMatch, broadMatch), and where the
    annotators saw a second target the same with _b. Either target is right. Targets are the names of a terminology with
    OMOP ids; without one, the target names of the file itself, which is a far shorter list and an easier task.
    """
    path = source.files("exact_matching_gs.csv")[0]
    mentions, file_names, without_target = Mentions(), dict[tuple[str, str], None](), 0
    columns = ("source_term", *OMOP_MATCH, *(f"{name}_b" for name in OMOP_MATCH))
    for line, (term, *cells) in textio.columns(path, columns, ","):
        if not term:
            raise InputError("is empty", file=path, line=line, field="source_term")
        matches = [match for place in (0, 3) if (match := _match(cells[place : place + 3], path, line))]
        if not matches:
            without_target += 1
            continue
        file_names |= dict.fromkeys((omop_id, name) for omop_id, name, _ in matches)
        predicates = {omop_id: predicate for omop_id, _, predicate in matches}
        mentions.add(term, list(predicates), predicate=next(iter(predicates.values())))
    mentions.require("holds no pair", path)
    curies = {omop_id: f"OMOP:{omop_id}" for omop_id in mentions.ids()}
    terminology = source.terminology if options.names == "auto" else None
    if terminology is not None and not rows_of(terminology, curies.values()):
        terminology = None
    if options.names == "terminology":
        terminology = source.require_terminology()
    if terminology is not None:
        dictionary = names.terminology_dictionary(terminology, curies, options)
    else:
        names.refuse_filter(options)
        found = {omop_id: frozenset([omop_id]) for omop_id in curies}
        targets = Targets(ids=[omop_id for omop_id, _ in file_names], names=[name for _, name in file_names])
        notes = {"targets": "the target names of the file itself", "gold ids": len(curies)}
        dictionary = names.Dictionary(targets, found, {}, notes=notes)
    left_out = counted({"terms left out, without a target": without_target})
    return mentions.data(dictionary, mentions.columns, ("predicate",), left_out)


def _match(cells: Sequence[str], path: Path, line: int) -> tuple[str, str, str] | None:
    """Return id, name and predicate of one of the two targets; None where it is blank or NA."""
    omop_id, name, predicate = cells
    if omop_id in ("", "NA"):
        return None
    fail = functools.partial(InputError, file=path, line=line)
    if textio.whole_number(omop_id) is None or not name:
        raise fail("has no number or no name for the target", value=f"{omop_id} {name}".strip())
    if predicate not in PREDICATES:
        remedy = f"one of {', '.join(PREDICATES)}"
        raise fail("is no predicate of this set", field="predicate", value=predicate, remedy=remedy)
    return omop_id, name, predicate


class ChipOptions(Config):
    """Which of the two tasks."""

    task: Literal["procedures", "symptoms"] = Field(
        "procedures", description="procedures against 9,467 standard names (CHIP 2019), or symptoms against 444 (IMCS)"
    )


def _evaluate_chip(data: Data, system: System, options: ChipOptions) -> Result:
    """Score one system; accuracy is the main metric, for the F1 of sets rises where a system gives no answer."""
    result = evaluate(data, system, options)
    result.metrics = (*result.metrics[2:], *result.metrics[:2])
    return result


@benchmark(ChipOptions, _evaluate_chip)
def chip_cdn(source: Source, options: ChipOptions) -> Data:
    """CHIP 2019: Chinese names of procedures (or symptoms) as doctors write them, mapped to a list of standard names.

    Procedures: the list has a code and a name a line, the data the original and the standard name; where a doctor wrote
    of several procedures, the standard names are joined by "##". Such a query is not cut up: the first place is right
    if it is one of them, and "set F1" counts those that are not found. Symptoms (of IMCS): the list is the first object
    of mappings.json. Standard names, not codes, are scored, for some names have several codes.

    The dev part is scored and nothing is learnt from the train part; mentions that stand there too are told apart
    ("seen").
    """

    def file(name: str) -> Path:
        return source.files(name, f"chip2019_zh/{name}")[0]

    procedures = options.task == "procedures"
    standard = _procedures(file("code.txt")) if procedures else _symptoms(file("mappings.json"))
    part = "chip_cdn" if procedures else "imcs"
    mentions, empty = _read_chip(file(f"{part}_dev.csv"))
    trained, _ = _read_chip(file(f"{part}_train.csv"))
    parts = [(mention,) for mention in mentions.strings]
    queries = Queries(
        parts, [(frozenset(labels),) for labels in mentions.gold], mentions.columns, seen(parts, trained.strings)
    )
    distinct = list(dict.fromkeys(standard))
    sizes = [len(labels) for labels in mentions.gold]
    notes: dict[str, Any] = {"standard names that stand in the list twice": len(standard) - len(distinct)}
    absent = set(mentions.ids()) - set(distinct)
    notes |= counted({"gold names that the list lacks": len(absent), "queries left out, empty": empty})
    subsets = ("standard_names",) if max(sizes) > 1 else ()
    return Data(queries, Targets(ids=distinct, names=distinct), notes | names.repeated(queries), subsets, sizes)


def _procedures(path: Path) -> list[str]:
    standard = []
    for line, cells in textio.rows(path, "\t"):
        if len(cells) != 2 or not all(cells):
            raise InputError("is not a code, a tab and a name", file=path, line=line, value="\t".join(cells))
        standard.append(cells[1])
    if not standard:
        raise InputError("holds no name", file=path)
    return standard


def _symptoms(path: Path) -> list[str]:
    try:
        content = textio.json_value(textio.read_bytes(path))
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=path) from None
    table = content[0] if isinstance(content, list) and content else None
    if not isinstance(table, dict) or not table:
        raise InputError("is not a list that begins with an object of symptoms", file=path)
    return list(table)


def _read_chip(path: Path) -> tuple[Mentions, int]:
    """Return the mentions with their standard names, and how many lines were left out for want of one of them."""
    mentions, empty = Mentions(), 0
    for _, (mention, standard) in textio.columns(path, ("原始词", "标准词"), "\t", quotes=None):
        labels = list(dict.fromkeys(filter(None, (name.strip() for name in standard.split("##")))))
        if mention and labels:
            mentions.add(mention, labels, standard_names="one" if len(labels) == 1 else "several")
        else:
            empty += 1
    mentions.require("holds no query", path)
    return mentions, empty
