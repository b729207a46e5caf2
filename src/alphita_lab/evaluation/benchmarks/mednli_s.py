"""MedNLI-S: is what follows from a clinical sentence nearer to it than what contradicts it?

MedNLI has three hypotheses a premise: entailed, neutral, contradicted. The score is the share of premises whose
entailed hypothesis is more similar to them than the contradicted one (Remy et al. 2023, appendix C). Equal similarity
is wrong, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks.sts import cut_strings
from alphita_lab.evaluation.scoring.results import Metric, Result
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)
PARTS = ("train", "dev", "test")
LABELS = ("entailment", "contradiction", "neutral")


class Options(Config):
    """Which part."""

    part: Literal["train", "dev", "test", "all"] = Field("test", description="part of MedNLI")


@dataclass(frozen=True)
class Data:
    """Triples of sentences, and what a reader must know of them."""

    premises: list[str]
    entailed: list[str]
    contradicted: list[str]
    notes: dict[str, Any] = field(default_factory=dict)


def load(source: Source, options: Options) -> Data:
    """Read the triples."""
    parts = PARTS if options.part == "all" else (options.part,)
    files = [source.files(f"mli_{part}_v1.jsonl", f"mli_{part}*.jsonl")[0] for part in parts]
    # Hypotheses of each premise by label, in the order of the file; a premise that stands there twice has two of each.
    premises: dict[str, dict[str, list[str]]] = {}
    empty = 0
    for path in files:
        for premise, hypothesis, label in _read(path):
            if premise and hypothesis:
                premises.setdefault(premise, {name: [] for name in LABELS})[label].append(hypothesis)
            else:
                empty += 1
    triples = [
        (premise, one, other)
        for premise, by_label in premises.items()
        for one, other in zip(by_label["entailment"], by_label["contradiction"], strict=False)
    ]
    if not triples:
        raise InputError("has no premise with an entailed and a contradicted hypothesis", file=files[0])
    alone = sum(abs(len(by_label["entailment"]) - len(by_label["contradiction"])) for by_label in premises.values())
    counted = {"hypotheses without their opposite, left out": alone, "lines with an empty sentence, left out": empty}
    first, second, third = (list(column) for column in zip(*triples, strict=True))
    return Data(first, second, third, {name: count for name, count in counted.items() if count})


def _read(path: Path) -> list[tuple[str, str, str]]:
    """Return premise, hypothesis and label of each line."""
    rows = []
    for number, line in textio.lines(path):
        try:
            entry = textio.json_value(line)
            premise, hypothesis, label = (entry[key] for key in ("sentence1", "sentence2", "gold_label"))
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "not a JSON object with sentence1, sentence2 and gold_label", file=path, line=number, value=line
            ) from None
        if label not in LABELS:
            raise InputError("not a label of MedNLI", file=path, line=number, field="gold_label", value=label)
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise InputError("the sentences are not strings", file=path, line=number, value=line)
        rows.append((premise.strip(), hypothesis.strip(), label))
    return rows


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Score one system."""
    n = len(data.premises)
    premises, entailed, contradicted = (
        clean_many(column, system.rules) for column in (data.premises, data.entailed, data.contradicted)
    )
    # In one call, so that a system that learns its weights from the strings has the same for both.
    similarity = system.similarity(premises * 2, entailed + contradicted)
    one, other = similarity[:n], similarity[n:]
    known = np.isfinite(one) & np.isfinite(other)
    rows = pl.DataFrame(
        {
            "query": np.arange(n),
            "premise": data.premises,
            "entailed": data.entailed,
            "contradicted": data.contradicted,
            "similarity_entailed": one,
            "similarity_contradicted": other,
            "right": [bool(right) if there else None for right, there in zip(one > other, known, strict=True)],
        }
    ).with_columns(pl.col("similarity_entailed", "similarity_contradicted").fill_nan(None))
    notes = {
        "triples": n,
        "triples without an answer": int((~known).sum()),
        "triples with equal similarity": int((one[known] == other[known]).sum()),
        **data.notes,
        **cut_strings(system, [*premises, *entailed, *contradicted]),
    }
    return Result(rows, (Metric("accuracy", ("right",)),), notes=notes)
