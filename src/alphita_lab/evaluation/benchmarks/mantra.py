"""MANTRA GSC: text of Medline titles, drug labels (EMEA) and patents in five languages, annotated with UMLS concepts.

A mention is annotated with a set of concepts, and a system answers with one. "set F1" is the F1 of the sets. The scorer
released with CODER reads one concept a line, so a mention with three concepts is three queries, each with one right
answer: that is "one-line score", and what Yuan et al. 2020 and 2022 print as F1.

Three layouts are read: the corpus as on GitHub (brat: LANGUAGE/CORPUS_*/UNIT.ann), as of the Mantra project (XML:
Medline_GSC_es_man.xml), and a table with the columns language, subcorpus, unit, span, mention, cui and group. The XML
layout was read only in files of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from alphita import textio
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate

INFO, PUBLISHED = about(__name__)
_LANGUAGES = {"en": "English", "es": "Spanish", "fr": "French", "nl": "Dutch", "de": "German"}
_CODES = {name.lower(): code for code, name in _LANGUAGES.items()}
_CORPORA = {"medline": "Medline", "emea": "EMEA", "patent": "Patents", "patents": "Patents"}
_TABLE = ("language", "subcorpus", "unit", "span", "mention", "cui", "group")
_CUI = re.compile(r"C\d{7}")


class Options(names.NameOptions):
    """Which names the mentions are ranked against."""


@dataclass(frozen=True)
class Annotation:
    """One concept at one place of the text."""

    language: str
    corpus: str
    unit: str
    span: str
    mention: str
    cui: str
    group: str


def load(source: Source, options: Options) -> Data:
    """Read the corpus, in whichever layout is there."""
    paths = source.files("Mantra-GSC/*/*/*.ann", "*/*_ec22-cui-best_man/*.ann", "*_GSC_*_man.xml", "mantra*.tsv")
    reader = {".ann": _read_brat, ".xml": _read_xml}.get(_unpacked(paths[0]).suffix, _read_table)
    sets: dict[tuple[str, str, str, str], list[Annotation]] = {}
    without_cui = 0
    for one in (annotation for path in paths for annotation in reader(path)):
        if not _CUI.fullmatch(one.cui):
            without_cui += 1
            continue
        sets.setdefault((one.language, one.corpus, one.unit, one.span), []).append(one)
    if not sets:
        raise InputError("holds no annotation", file=paths[0])
    gold = [list(dict.fromkeys(one.cui for one in found)) for found in sets.values()]
    dictionary = names.umls_dictionary(source, (cui for cuis in gold for cui in cuis), options)
    first = [found[0] for found in sets.values()]
    columns: names.Columns = {
        "part": [f"{one.language} {one.corpus}" for one in first],
        "language": [one.language for one in first],
        "corpus": [one.corpus for one in first],
        "group": [one.group if re.fullmatch("[A-Z]{4}", one.group) else None for one in first],
    }
    sizes = [len(cuis) for cuis in gold]
    data = dictionary.data([one.mention for one in first], gold, columns, tuple(columns), sizes=sizes)
    missing = [name for code, name in _LANGUAGES.items() if code not in columns["language"]]
    data.notes.update(names.counted({"annotations left out for want of a CUI": without_cui}))
    data.notes.update({"languages that are not there": ", ".join(missing)} if missing else {})
    return data


def _unpacked(path: Path) -> Path:
    return path.with_suffix("") if path.suffix == ".gz" else path


def _read_table(path: Path) -> Iterator[Annotation]:
    for number, (language, corpus, unit, span, mention, cui, group) in textio.columns(path, _TABLE, "\t", quotes=None):
        if not (mention and unit and span):
            raise InputError("has no mention, unit or span", file=path, line=number)
        # A span begins with its concept: "C0030705 3 11".
        yield Annotation(
            _code(language, path, number),
            _corpus(corpus, path, number),
            unit,
            span.partition(" ")[2] or span,
            mention,
            cui,
            group,
        )


def _read_brat(path: Path) -> Iterator[Annotation]:
    """Read one unit: "T33<TAB>C0030705 79 88<TAB>patients", and a note #33 with name, type and group of T33."""
    language, corpus = path.parts[-3], path.parts[-2].split("_")[0]
    bounds: dict[str, tuple[str, str, str]] = {}
    groups: dict[str, str] = {}
    for number, line in textio.lines(path):
        fields = line.split("\t")
        if line.startswith("T"):
            cui, _, span = fields[1].partition(" ") if len(fields) == 3 else ("", "", "")
            if not span or not fields[2].strip():
                raise InputError(
                    "is not an id, a concept with its place, and a mention", file=path, line=number, value=line
                )
            bounds[fields[0]] = (cui, span, fields[2].strip())
        elif line.startswith("#") and len(fields) == 3:
            groups[fields[1].partition(" ")[2]] = fields[2].rpartition(",")[2].strip(' "')
    code, name = _code(language, path), _corpus(corpus, path)
    for one, (cui, span, mention) in bounds.items():
        yield Annotation(code, name, _unpacked(path).stem, span, mention, cui, groups.get(one, ""))


def _read_xml(path: Path) -> Iterator[Annotation]:
    """Read one file: document elements hold unit elements, each with a text and an e with offset, len, cui and grp."""
    corpus, _, language = _unpacked(path).name.removesuffix("_man.xml").split("_")
    code, name = _code(_LANGUAGES.get(language, language), path), _corpus(corpus, path)
    try:
        root = ElementTree.fromstring(textio.read_text(path))
    except ElementTree.ParseError as error:
        raise InputError(f"not XML: {error}", file=path) from None
    for unit in root.iter("unit"):
        text = unit.findtext("text") or ""
        for element in unit.iter("e"):
            try:
                start, length = int(element.attrib["offset"]), int(element.attrib["len"])
                cuis, group = element.attrib["cui"], element.get("grp", "")
            except (KeyError, ValueError) as error:
                raise InputError(
                    f"an annotation lacks offset, len or cui: {error}", file=path, field="e", value=dict(element.attrib)
                ) from None
            mention = text[start : start + length].strip()
            if not mention:
                raise InputError(
                    "an annotation lies outside its text", file=path, field="e", value=dict(element.attrib)
                )
            for cui in re.split(r"[|,;\s]+", cuis):
                yield Annotation(code, name, unit.get("id", ""), f"{start} {length}", mention, cui, group.upper())


def _code(language: str, path: Path, line: int | None = None) -> str:
    if language.lower() not in _CODES:
        raise InputError(
            "is no language of MANTRA", file=path, line=line, value=language, remedy=f"one of {', '.join(_CODES)}"
        )
    return _CODES[language.lower()]


def _corpus(corpus: str, path: Path, line: int | None = None) -> str:
    if corpus.lower() not in _CORPORA:
        raise InputError("is no part of MANTRA", file=path, line=line, value=corpus, remedy="Medline, EMEA or Patents")
    return _CORPORA[corpus.lower()]
