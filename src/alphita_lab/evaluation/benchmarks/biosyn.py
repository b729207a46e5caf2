"""Sets in the layout of BioSyn and SapBERT, in which AskAPatient, COMETA, SMM4H, TwiMed and others travel.

One folder a set, with a dictionary, `id||name` a line (several ids with | between: all have the name), and its queries:

- BioSyn: processed_test/*.concept, `document||start|end||type||mention||id` a line; a mention of several concepts has
  its parts and its ids with | between (or + between ids);
- SapBERT: X.fold-0.test.preprocessed_query.txt (or test_query.txt), `id||mention` a line;
- COMETA: splits/NAME/test.csv, a table with tabs and the columns Term and General SNOMED ID; each split is a dataset of
  its own, "cometa/zeroshot_general".

So scored by BioSyn and SapBERT, the first place is right if any of its name's ids is: "accuracy@1 (any concept of the
name)". Every part of a mention of several concepts must be right, and any of the mention's ids is right for a part.

Portelli et al. 2022, whose setting Remy et al. 2023 use, rank mentions against the preferred terms of MedDRA (released
code: the English terms of the level PT): run_0/test.csv, a table with commas and the columns ae and term_code (MedDRA's
code of the preferred term). The targets are those of a UMLS given as --terminology, or of a file meddra.txt. Folds and
targets are not those of the benchmarks cadec and psytar; the figures stand under "dataset=NAME (portelli)", never in
one column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita_lab.evaluation.benchmarks import Source, _folds, _terminology_targets, about
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import System
from alphita_lab.training.sentences.scored_pairs import listed

INFO, PUBLISHED = about(__name__)
PORTELLI = " (portelli)"
# The id of a mention that the annotators found no concept for.
NO_ID = "-1"
# Where a dictionary without mentions is looked for; test_dictionary.txt holds the training mentions, too.
_DICTIONARIES = ("train_dictionary.txt", "dictionary.txt", "*.dict.txt", "COMETA_*dictionary.txt")
# Parts that systems may have been trained on.
_BEFORE = {"test": ("traindev", "train", "dev", "validation"), "dev": ("train",)}


class Options(Config):
    """Which sets, and how they are scored."""

    dataset: str = Field(
        "", description="names of sub-folders, joined by commas; by default all with a dictionary, for portelli a run_*"
    )
    protocol: Literal["sapbert", "portelli"] = Field(
        "sapbert",
        description="sapbert: BioSyn's, SapBERT's and COMETA's files; portelli: run_*/test.csv and MedDRA's preferred "
        "terms (Portelli et al. 2022, Remy et al. 2023)",
    )
    part: Literal["test", "dev"] = Field("test", description="part to score")
    mentions: Literal["none", "train"] = Field(
        "none",
        description="none: rank against the dictionary only; train: also against the training mentions "
        "(test_dictionary.txt if it exists), as BioSyn and SapBERT are scored",
    )


# The parts of a mention, any of whose ids is right for each.
Query = tuple[tuple[str, ...], frozenset[str]]
Reader = Callable[[Path], list[Query]]


def load(source: Source, options: Options) -> _folds.Parts:
    """Read the sets."""
    parts = [part for name in listed(options.dataset) or _all(source, options) for part in _read(source, options, name)]
    notes: dict[str, Any] = {"protocol": options.protocol, "names besides the dictionary": options.mentions}
    without = sum(gold[0] == {NO_ID} for part in parts for gold in part.queries.gold)
    return _folds.Parts(parts, notes | ({"queries without an id, counted as wrong": without} if without else {}))


def _all(source: Source, options: Options) -> list[str]:
    """Return the names of all sub-folders that hold a dictionary, or for `portelli` a run."""
    probe = replace(source, read=[])
    if options.protocol == "portelli":
        return sorted({path.parents[1].name for path in probe.files(f"*/run_*/{options.part}.csv")})
    wanted = [f"*/{name}" for name in (*_DICTIONARIES, f"{options.part}_dictionary.txt")]
    folders = {path.parent.name for name in wanted for path in probe.files(name, optional=True)}
    return sorted(folders or {path.parent.name for path in probe.files(*wanted)})


def _read(source: Source, options: Options, name: str) -> list[_folds.Part]:
    """Read one set: one part a fold."""
    path = _dictionary_of(source, options, name)
    targets = _meddra(source) if path is None else _targets(path)
    holds_mentions = path is not None and path.name.split(".")[0] == f"{options.part}_dictionary"
    add_mentions = options.mentions == "train" and not holds_mentions
    readers = dict(_FORMS[options.protocol])
    paths = source.files(*(f"{name}/{form.format(part=options.part, split='*', fold='*')}" for form in readers))
    form = next(form for form in readers if _fits(form, options.part, paths[0]))
    # The files of each split and fold; "" where the form has none.
    folds: dict[tuple[str, str], list[Path]] = {}
    for file in paths:
        match = _fits(form, options.part, file)
        named = match.groupdict() if match else {}
        folds.setdefault((named.get("split", ""), named.get("fold", "")), []).append(file)
    parts = []
    for (split, fold), files in folds.items():
        queries = [query for file in files for query in readers[form](file)]
        if not queries:
            raise InputError("holds no query", file=files[0])
        before = [f"{name}/{form.format(part=part, split=split, fold=fold)}" for part in _BEFORE[options.part]]
        trained_files = [file for pattern in before for file in source.files(pattern, optional=True)]
        trained = [query for file in trained_files for query in readers[form](file)]
        if add_mentions and not trained:
            raise InputError(
                f"finds no training mentions of {name} to rank against",
                file=files[0].parent,
                remedy="set mentions=none, or add the training part",
            )
        label = f"{name}/{split}" if split else name
        label += PORTELLI if options.protocol == "portelli" else ""
        columns: dict[str, Sequence[Any]] = {_folds.DATASET: [label] * len(queries)}
        if fold:
            columns[_folds.FOLD] = [fold] * len(queries)
        strings = [strings for strings, _ in queries]
        seen = _folds.seen(strings, (part for parts, _ in trained for part in parts)) if trained else None
        gold = [(ids,) * len(parts) for parts, ids in queries]
        own_targets = _add(targets, trained) if add_mentions else targets
        parts.append(_folds.Part(Queries(strings, gold, columns, seen), own_targets))
    return parts


def _fits(form: str, part: str, path: Path) -> re.Match[str] | None:
    """Match a path with a layout; the groups "split" and "fold" are what stands in the places of these."""
    pattern = re.escape(form.format(part=part, split="<split>", fold="<fold>")).replace(r"\*", "[^/]*")
    return re.search("/" + re.sub("<(split|fold)>", r"(?P<\1>[^/]+)", pattern) + r"(\.gz)?$", path.as_posix())


def _dictionary_of(source: Source, options: Options, name: str) -> Path | None:
    """Return the file of a set's targets; None: they are a terminology's, for there is none (portelli)."""
    files = [f"{name}/{file}" for file in _DICTIONARIES]
    if options.mentions == "train":
        files.insert(0, f"{name}/{options.part}_dictionary.txt")
    portelli = options.protocol == "portelli"
    if portelli:
        files.append("meddra.txt")
    return source.file(*files, optional=portelli and source.terminology is not None)


def _meddra(source: Source) -> Targets:
    """Return the English preferred terms of MedDRA in the terminology, by MedDRA's codes."""
    terminology = source.require_terminology()
    wanted = {"source": "MEDDRA", "language": "en", "term_type": "PT"}
    kept = [_terminology_targets.has(terminology, column, value.__eq__) for column, value in wanted.items()]
    rows = np.flatnonzero(np.logical_and.reduce(kept))
    codes = terminology.terms.column("code").take(pa.array(rows)).to_pylist()
    pairs = zip(codes, _terminology_targets.strings_of(terminology, rows), strict=True)
    named = [(code, name) for code, name in pairs if code]
    if not named:
        raise UsageError(
            f"{terminology.path.name} holds no preferred term of MedDRA: import a UMLS with its source MDR, or write "
            "MedDRA's preferred terms to meddra.txt, code||name a line"
        )
    return Targets(ids=[code for code, _ in named], names=[name for _, name in named])


def _targets(path: Path) -> Targets:
    pairs = [
        (concept_id, name)
        for ids, name in _fields(path, (2,), "an id, || and a name")
        for concept_id in _split_ids(ids)
    ]
    if not pairs:
        raise InputError("holds no name", file=path)
    return Targets(ids=[concept_id for concept_id, _ in pairs], names=[name for _, name in pairs])


def _add(targets: Targets, trained: list[Query]) -> Targets:
    more = [(concept_id, parts[0]) for parts, ids in trained if len(parts) == 1 for concept_id in sorted(ids - {NO_ID})]
    pairs = dict.fromkeys([*zip(targets.ids, targets.names, strict=True), *more])
    return Targets(ids=[concept_id for concept_id, _ in pairs], names=[name for _, name in pairs])


def _split_ids(ids: str) -> list[str]:
    return [part.strip() for part in re.split(r"[|+]", ids) if part.strip()]


def _fields(path: Path, count: Iterable[int], what: str) -> Iterator[list[str]]:
    for number, line in textio.lines(path):
        fields = [cell.strip() for cell in line.split("||")]
        if len(fields) not in count or not all(fields):
            raise InputError(f"not {what}", file=path, line=number, value=line)
        yield fields


def _concepts(path: Path) -> list[Query]:
    """Read a .concept file; one without a line is a document without a mention."""
    queries = []
    for fields in _fields(path, (5,), "document||start|end||type||mention||id"):
        parts, ids = (tuple(part.strip() for part in field.split("|") if part.strip()) for field in fields[3:])
        if not parts or not ids:
            raise InputError("has an empty mention or id", file=path, value="||".join(fields))
        queries.append((parts, frozenset(_split_ids(fields[4]))))
    return queries


def _lines(path: Path) -> list[Query]:
    """Read lines of an id and a mention, and perhaps its context."""
    return [((fields[1],), frozenset(_split_ids(fields[0]))) for fields in _fields(path, (2, 3), "id||mention")]


def _table(delimiter: str, *names: str) -> Reader:
    """Return the reader of a table with a column of mentions and one of ids."""

    def read(path: Path) -> list[Query]:
        queries: list[Query] = []
        for line, (mention, concept_id) in textio.columns(path, names, delimiter):
            if not mention or not concept_id:
                raise InputError(f"a row without {names[0]!r} or {names[1]!r}", file=path, line=line)
            queries.append(((mention,), frozenset([concept_id])))
        if not queries:
            raise InputError("holds no row", file=path)
        return queries

    return read


# The layouts of queries, each with what reads it; {split} and {fold} stand for any name.
_FORMS: dict[str, tuple[tuple[str, Reader], ...]] = {
    "sapbert": (
        ("processed_{part}/*.concept", _concepts),
        ("*.fold-{fold}.{part}.preprocessed_query.txt", _lines),
        ("{part}_query.txt", _lines),
        ("splits/{split}/{part}.csv", _table("\t", "Term", "General SNOMED ID")),
    ),
    "portelli": (("run_{fold}/{part}.csv", _table(",", "ae", "term_code")), ("processed_{part}/*.concept", _concepts)),
}


def evaluate(data: _folds.Parts, system: System, options: Options) -> Result:
    """Score one system on all sets and folds."""
    folds = any(_folds.FOLD in part.queries.columns for part in data.parts)
    return _folds.evaluate(system, data, subsets=(_folds.DATASET, *((_folds.FOLD,) if folds else ())))
