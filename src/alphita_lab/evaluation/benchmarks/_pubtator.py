"""NCBI Disease and BC5CDR: corpora in PubTator's layout, mapped to dictionaries in MEDIC's or CTD's layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import Source, _folds, benchmark
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Result, merge_notes
from alphita_lab.evaluation.systems import System

LAYOUT = (
    "expected PubTator's layout: 123|t|title, 123|a|abstract, then lines of document, start, end, mention, type and "
    "ids with tabs between"
)
DICTIONARY_LAYOUT = (
    "expected lines of id|other ids||name|synonyms (MEDIC), of id||name (BioSyn), or CTD's table, whose comment "
    "'# Fields:' is followed by one with the names of the columns"
)
_CDR = "CDR_Data/CDR.Corpus.v010516/"
# Benchmark -> part -> names of its file.
CORPORA: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ncbi_disease": {
        "test": ("NCBItestset_corpus.txt",),
        "dev": ("NCBIdevelopset_corpus.txt",),
        "train": ("NCBItrainset_corpus.txt",),
    },
    "bc5cdr": {
        part: (f"CDR_{name}Set.PubTator.txt", f"{_CDR}CDR_{name}Set.PubTator.txt", f"{part}_corpus.txt")
        for part, name in (("test", "Test"), ("dev", "Development"), ("train", "Training"))
    },
}
# Which parts systems may have been trained on.
BEFORE = {"test": ("train", "dev"), "dev": ("train",)}
# At the head of a corpus.
TITLE = re.compile(r"\s*\d+\|t\|")
_TEXT = re.compile(r"(\d+)\|([ta])\|")
_AND = re.compile(r",?\s+(?:and/or|and|or)\s+")


class Options(Config):
    """What is scored, and against which names."""

    part: Literal["test", "dev"] = Field("test", description="part of the corpus to score")
    mentions: Literal["none", "train"] = Field(
        "none",
        description="none: ranked against the dictionary only; train: also against the mentions of the parts before "
        "(train; train and dev for test), as BioSyn and SapBERT are scored",
    )


def _evaluate(data: _folds.Parts, system: System, options: Options) -> Result:
    """Score one system."""
    return _folds.evaluate(system, data, subsets=("type", "composite"))


@benchmark(Options, _evaluate)
def ncbi_disease(source: Source, options: Options) -> _folds.Parts:
    """NCBI Disease: diseases in 793 abstracts, mapped to MEDIC (MeSH and OMIM).

    Mentions are ranked against all names of the dictionary, alone or with the names of the training mentions among
    them, as BioSyn and SapBERT are scored. Ids are sought among all ids of a concept. Of a mention of several concepts
    every part must be right; see `_pubtator.queries`. "accuracy@1 (any concept of the name)" is the figure of those two
    papers.
    """
    mentions, before, notes = _read_parts(source, "ncbi_disease", options)
    dictionary = read_dictionary(source.files("medic*.txt", "CTD_diseases*.tsv")[0])
    part, counts = _ranked(mentions, dictionary, before, with_mentions=options.mentions == "train")
    return _folds.Parts([part], dict(notes) | counts)


@benchmark(Options, _evaluate)
def bc5cdr(source: Source, options: Options) -> _folds.Parts:
    """BC5CDR: diseases and chemicals in 1,500 abstracts, mapped to MeSH through CTD's dictionaries.

    Diseases are ranked against the names of diseases and chemicals against those of chemicals, alone or with the names
    of the training mentions; without a dictionary of chemicals these are left out and counted. Everything else is as in
    `ncbi_disease`; the corpus itself tells the parts of most mentions of several concepts.
    """
    mentions, before, corpus_notes = _read_parts(source, "bc5cdr", options)
    parts, notes = [], [dict(corpus_notes)]
    dictionaries = {
        "Disease": source.file("CTD_diseases*.tsv", "medic*.txt"),
        "Chemical": source.file("CTD_chemicals*.tsv", "ctd_chemical*.txt", optional=True),
    }
    for kind, path in dictionaries.items():
        of_kind, before_of_kind = (
            None if part is None else [mention for mention in part if mention.type == kind]
            for part in (mentions, before)
        )
        assert of_kind is not None
        if path is None:
            notes.append({"chemicals left out, for want of a dictionary": len(of_kind)})
        elif of_kind:
            with_mentions = options.mentions == "train"
            part, counts = _ranked(of_kind, read_dictionary(path), before_of_kind, with_mentions=with_mentions)
            parts.append(part)
            notes.append(counts)
    if not parts:
        problem = "has no mention of the type Disease (nor Chemical, with its dictionary)"
        raise InputError(problem, file=source.read[0])
    return _folds.Parts(parts, merge_notes(*notes))


def _read_parts(
    source: Source, name: str, options: Options
) -> tuple[list[Mention], list[Mention] | None, Counter[str]]:
    """Return the mentions to score, those of the parts before (None if a file is missing and not needed), and notes."""
    mentions, notes = read_corpus(source.files(*CORPORA[name][options.part])[0])
    paths = [source.file(*CORPORA[name][part], optional=options.mentions != "train") for part in BEFORE[options.part]]
    before = [path for path in paths if path is not None]
    if len(before) < len(paths):
        return mentions, None, notes
    return mentions, [mention for path in before for mention in read_corpus(path)[0]], notes


def _ranked(
    mentions: list[Mention], dictionary: Dictionary, before: list[Mention] | None, *, with_mentions: bool
) -> tuple[_folds.Part, dict[str, int]]:
    scored = queries(mentions, dictionary, None if before is None else [mention.text for mention in before])
    composite = Counter(kind for kind in scored.columns["composite"] if kind)
    notes = dict(dictionary.notes) | dictionary.notes_on(gold_id for mention in mentions for gold_id in mention.ids)
    notes |= {f"mentions of several concepts, {how}": composite[how] for how in sorted(composite)}
    more: list[tuple[str, str]] = []
    if with_mentions:
        concepts = [(concepts_of(mention, dictionary), mention.text) for mention in before or ()]
        more = [(concept_id, text) for found, text in concepts if len(found) == 1 for concept_id in sorted(found[0])]
        several = sum(len(found) > 1 for found, _ in concepts)
        notes |= {"training mentions among the names": len(set(more))}
        notes |= {"training mentions of several concepts, left out of the names": several} if several else {}
    return _folds.Part(scored, dictionary.targets(more)), notes


@dataclass(frozen=True)
class Mention:
    """One annotation: bare ids (several for "breast and ovarian cancer", none for -1) and the parts, where told."""

    start: int
    end: int
    text: str
    type: str
    ids: tuple[str, ...]
    parts: tuple[str, ...]
    document: Document


@dataclass
class Document:
    """Title and abstract with a space between, as offsets count them; `again`: its number was there before."""

    name: str
    again: bool
    text: str
    mentions: list[Mention] = field(default_factory=list, repr=False)


def documents(path: Path) -> list[Document]:
    """Read the documents of a corpus; lines of relations are skipped."""
    found: list[Document] = []
    known: set[str] = set()
    for number, line in textio.lines(path):
        text = _TEXT.match(line)
        if text and text[2] == "t":
            found.append(Document(text[1], text[1] in known, line[text.end() :]))
            known.add(text[1])
        elif text and found:
            found[-1].text += f" {line[text.end() :]}"
        if text:
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        start, end = (textio.whole_number(cell) for cell in [*cells, "", ""][1:3])
        if len(cells) == 4 and start is None:
            continue
        if len(cells) not in (6, 7) or start is None or end is None:
            raise InputError("is no annotation", file=path, line=number, value=line, remedy=LAYOUT)
        above = found[-1].name if found else "none"
        if cells[0] != above:
            problem = f"annotates the document {cells[0]}, but stands under {above}"
            raise InputError(problem, file=path, line=number, remedy=LAYOUT)
        if not cells[3]:
            raise InputError("has no mention", file=path, line=number, field="mention", value=line)
        ids = dict.fromkeys(
            concept_id for part in re.split(r"[|+]", cells[5]) if (concept_id := bare(part)) not in ("", "-1")
        )
        parts = tuple(part.strip() for part in cells[6].split("|")) if len(cells) == 7 else ()
        found[-1].mentions.append(Mention(start, end, cells[3], cells[4], tuple(ids), parts, found[-1]))
    return found


def read_corpus(path: Path) -> tuple[list[Mention], Counter[str]]:
    """Return the mentions of a corpus that have an id, and how many were left out."""
    mentions: list[Mention] = []
    notes: Counter[str] = Counter()
    for document in documents(path):
        for mention in document.mentions:
            if document.again:
                notes["mentions left out, their document stands there twice"] += 1
            elif not mention.ids:
                notes["mentions left out, without an id"] += 1
            else:
                mentions.append(mention)
    if not mentions:
        raise InputError("holds no mention", file=path, remedy=LAYOUT)
    return mentions, notes


def queries(mentions: Sequence[Mention], dictionary: Dictionary, trained: Iterable[str] | None) -> Queries:
    """Return the queries of mentions; one of several concepts is taken apart where that can be told."""
    parts: list[tuple[str, ...]] = []
    gold: list[tuple[frozenset[str], ...]] = []
    composite: list[str | None] = []
    for mention in mentions:
        concepts = concepts_of(mention, dictionary)
        strings: tuple[str, ...] = (mention.text,)
        if len(concepts) > 1:
            given = mention.parts if len(mention.parts) == len(concepts) and all(mention.parts) else ()
            strings = given or split(mention.text, len(concepts)) or strings
        every = frozenset(concept for gold_id in mention.ids for concept in dictionary.find(gold_id))
        parts.append(strings)
        gold.append((every,) * len(strings))
        composite.append(None if len(concepts) == 1 else "whole" if len(strings) == 1 else "taken apart")
    columns: dict[str, Sequence[Any]] = {"type": [mention.type for mention in mentions], "composite": composite}
    seen = None if trained is None else _folds.seen(parts, trained)
    return Queries(parts, gold, columns, seen, [mention.document.text.strip() or None for mention in mentions])


def concepts_of(mention: Mention, dictionary: Dictionary) -> list[frozenset[str]]:
    """Return the distinct concepts that a mention's ids stand for; those of an ambiguous other id are one answer."""
    mesh = [gold_id for gold_id in mention.ids if not gold_id.isdigit()]
    return list(dict.fromkeys(map(dictionary.find, mesh or mention.ids)))


def split(mention: str, n: int) -> tuple[str, ...]:
    """Take a mention of n concepts apart; nothing if that cannot be told."""
    forms = (_of(mention), _one_head(mention), _slash(mention), tuple(mention.split()))
    return next((parts for parts in forms if len(parts) == n and all(parts)), ())


def _items(string: str) -> list[str]:
    """Return the items of "a, b and c"; "the" and "both" before an item are taken off."""
    items = (item.strip() for part in _AND.split(string) for item in part.split(","))
    return [re.sub(r"^(?:(?:both|the)\s+)+", "", item) for item in items if item]


def _of(mention: str) -> tuple[str, ...]:
    head, of, rest = mention.partition(" of ")
    return tuple(f"{head} of {item}" for item in _items(rest)) if of and _AND.search(rest) else ()


def _one_head(mention: str) -> tuple[str, ...]:
    """ "a, b and c head": the head is all but the first word after the last "and"."""
    *before, last = _AND.split(mention)
    word, _, head = last.removeprefix("the ").partition(" ")
    items = _items(", ".join(before))
    return tuple(f"{item} {head.strip()}" for item in (*items, word.rstrip(","))) if items and head.strip() else ()


def _slash(mention: str) -> tuple[str, ...]:
    words = mention.split()
    places = [place for place, word in enumerate(words) if "/" in word]
    if len(places) != 1 or words[places[0]] == "and/or":
        return ()
    place = places[0]
    return tuple(" ".join((*words[:place], part, *words[place + 1 :])) for part in words[place].split("/") if part)


def bare(concept_id: str) -> str:
    """Return an id without "MESH:" or "OMIM:", as MEDIC and BioSyn write it: these cannot be confused."""
    return concept_id.strip().removeprefix("MESH:").removeprefix("OMIM:").strip()


@dataclass
class Dictionary:
    """Names, each with its concept's first id, bare; all first ids; and other id -> first ids."""

    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    main: set[str] = field(default_factory=set)
    other: dict[str, set[str]] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)

    def add(self, ids: Sequence[str], names: Iterable[str]) -> None:
        """Add a concept with its ids, the main one first, and its names; empty names are counted."""
        first, *others = ids
        self.main.add(first)
        for other in others:
            self.other.setdefault(other, set()).add(first)
        for name in dict.fromkeys(name.strip() for name in names):
            if name:
                self.ids.append(first)
                self.names.append(name)
            else:
                self.notes["empty names left out of the dictionary"] += 1

    def find(self, gold_id: str) -> frozenset[str]:
        """Return the concepts that a gold id stands for; the id itself where the dictionary does not have it."""
        return frozenset([gold_id]) if gold_id in self.main else frozenset(self.other.get(gold_id, {gold_id}))

    def notes_on(self, gold: Iterable[str]) -> dict[str, Any]:
        """Return how many of the distinct gold ids were found in which way."""
        counts = Counter(
            "first id" if gold_id in self.main else "other id" if gold_id in self.other else "not in the dictionary"
            for gold_id in set(gold)
        )
        return {f"gold ids, {how}": counts[how] for how in sorted(counts)}

    def targets(self, more: Iterable[tuple[str, str]] = ()) -> Targets:
        """Return the names, and after them `more` (concept, name) that are not among them."""
        pairs = dict.fromkeys([*zip(self.ids, self.names, strict=True), *more])
        return Targets(ids=[concept_id for concept_id, _ in pairs], names=[name for _, name in pairs])


def read_dictionary(path: Path) -> Dictionary:
    """Read a dictionary in MEDIC's or CTD's layout."""
    lines = textio.read_text(path).split("\n")
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    dictionary = _read_medic(path, lines) if "||" in first and "\t" not in first else _read_ctd(path, lines)
    if not dictionary.names:
        raise InputError("holds no name", file=path, remedy=DICTIONARY_LAYOUT)
    return dictionary


def _read_medic(path: Path, lines: Sequence[str]) -> Dictionary:
    dictionary = Dictionary()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        ids, between, names = line.partition("||")
        listed = [bare(listed_id) for listed_id in ids.split("|")]
        if not between or not all(listed) or not names.strip():
            raise InputError("not ids, || and names", file=path, line=number, value=line, remedy=DICTIONARY_LAYOUT)
        dictionary.add(listed, names.split("|"))
    return dictionary


def _read_ctd(path: Path, lines: Sequence[str]) -> Dictionary:
    dictionary = Dictionary()
    columns: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            cells = line.removeprefix("#").strip().split("\t")
            columns = cells if len(cells) > 1 else columns
            continue
        if not line.strip():
            continue
        cells = line.split("\t")
        if not columns or len(cells) != len(columns):
            problem = (
                f"has {len(cells)} fields, not {len(columns)}" if columns else "is not a dictionary in a known layout"
            )
            raise InputError(problem, file=path, line=number, value=line, remedy=DICTIONARY_LAYOUT)
        row = dict(zip(columns, cells, strict=True))
        kind = next((kind for kind in ("Disease", "Chemical") if {f"{kind}Name", f"{kind}ID"} <= set(row)), None)
        if kind is None:
            problem = f"has no column DiseaseName or ChemicalName, or none of ids ({', '.join(row)})"
            raise InputError(problem, file=path, remedy=DICTIONARY_LAYOUT)
        if not row[f"{kind}ID"]:
            raise InputError("has no id", file=path, line=number, value=line)
        others = row.get(f"Alt{kind}IDs", "").split("|")
        synonyms = [cell for column, cell in row.items() if column.endswith("Synonyms") and cell]
        ids = [bare(part) for part in (row[f"{kind}ID"], *filter(None, others))]
        dictionary.add(ids, [row[f"{kind}Name"], *(name for cell in synonyms for name in cell.split("|"))])
    return dictionary
