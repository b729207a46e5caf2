"""CHIP 2019: Chinese names of procedures (or symptoms) as doctors write them, mapped to a list of standard names.

Procedures: the list has a code and a name a line, the data the original and the standard name; where a doctor wrote of
several procedures, the standard names are joined by "##". Such a query is not cut up: the first place is right if it is
one of them, and "set F1" counts those that are not found. Symptoms (of IMCS): the list is the first object of
mappings.json. Standard names, not codes, are scored, for some names have several codes.

The dev part is scored and nothing is learnt from the train part; mentions that stand there too are told apart ("seen").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import Source, _folds, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)
COLUMNS = ("原始词", "标准词")
SEPARATOR = "##"
FOLDERS = ("", "chip2019_zh/")


class Options(Config):
    """Which of the two tasks."""

    task: Literal["procedures", "symptoms"] = Field(
        "procedures", description="procedures against 9,467 standard names (CHIP 2019), or symptoms against 444 (IMCS)"
    )


def load(source: Source, options: Options) -> Data:
    """Read the list and both parts."""
    if options.task == "procedures":
        standard, part = _codes(_file(source, "code.txt")), "chip_cdn"
    else:
        standard, part = _symptoms(_file(source, "mappings.json")), "imcs"
    mentions, gold, empty = _read(_file(source, f"{part}_dev.csv"))
    trained, _, _ = _read(_file(source, f"{part}_train.csv"))
    sizes = [len(names) for names in gold]
    queries = Queries(
        [(mention,) for mention in mentions],
        [(frozenset(names),) for names in gold],
        {"standard_names": ["one" if size == 1 else "several" for size in sizes]},
        _folds.seen(((mention,) for mention in mentions), trained),
    )
    distinct = list(dict.fromkeys(standard))
    notes: dict[str, Any] = {"standard names that stand in the list twice": len(standard) - len(distinct)}
    absent = {name for names in gold for name in names} - set(distinct)
    notes |= names.counted({"gold names that the list lacks": len(absent), "queries left out, empty": empty})
    subsets = ("standard_names",) if max(sizes) > 1 else ()
    return Data(queries, Targets(distinct, distinct), notes | names.repeated(queries), subsets, sizes)


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Score one system; accuracy is the main metric, for the F1 of sets rises where a system gives no answer."""
    result = names.evaluate(data, system, options)
    sets, others = result.metrics[:2], result.metrics[2:]
    result.metrics = (*others, *sets)
    return result


def _file(source: Source, name: str) -> Path:
    return source.files(*(folder + name for folder in FOLDERS))[0]


def _codes(path: Path) -> list[str]:
    found = []
    for number, fields in textio.rows(path, "\t"):
        if len(fields) != 2 or not all(fields):
            raise InputError("is not a code, a tab and a name", file=path, line=number, value="\t".join(fields))
        found.append(fields[1])
    if not found:
        raise InputError("holds no name", file=path)
    return found


def _symptoms(path: Path) -> list[str]:
    try:
        content = textio.json_value(textio.read_bytes(path))
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file=path) from None
    table = content[0] if isinstance(content, list) and content else None
    if not isinstance(table, dict) or not table:
        raise InputError("is not a list that begins with an object of symptoms", file=path)
    return list(table)


def _read(path: Path) -> tuple[list[str], list[Sequence[str]], int]:
    """Return mentions, the standard names of each, and how many lines were left out for want of one of them."""
    mentions: list[str] = []
    gold: list[Sequence[str]] = []
    empty = 0
    for _, (mention, standard) in textio.columns(path, COLUMNS, "\t", quotes=None):
        labels = list(dict.fromkeys(filter(None, (name.strip() for name in standard.split(SEPARATOR)))))
        if not mention or not labels:
            empty += 1
            continue
        mentions.append(mention)
        gold.append(labels)
    if not mentions:
        raise InputError("holds no query", file=path)
    return mentions, gold, empty
