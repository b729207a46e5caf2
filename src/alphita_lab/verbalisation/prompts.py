"""Prompts that ask a language model for a concept's definition: its names and its place in the graph; and their cost.

Nothing here calls a model: the prompts are strings, to be used with `generation.generate` or written to a file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology
from alphita_lab.verbalisation.definitions import Withheld, tidy
from alphita_lab.verbalisation.descriptions import readable, templates

MAX_NAMES = 8
MAX_NEIGHBOURS = 8
# What a price is estimated by.
ANSWER_TOKENS, CHARACTERS_PER_TOKEN = 80, 4
UNKNOWN = "UNKNOWN"  # what a model is to answer that does not know
TASK = (
    "Write a definition of the medical concept below, in English, in one to three sentences (at most 80 words). Say"
    " what it is, and what sets it apart from the concepts beside it. Do not begin with its name, do not only repeat"
    " its names, and do not mention this list or any code. Answer with the definition alone; if you do not know the"
    f" concept, answer {UNKNOWN}."
)


@dataclass(frozen=True)
class Cost:
    """What asking is estimated to take."""

    prompts: int
    input_tokens: int
    output_tokens: int
    price: float


def prompt(terminology: Terminology, row: int, withheld: Withheld | None = None) -> str:
    """Return the prompt for one concept: names, types, parents, children, siblings, relations, definition."""
    hidden = withheld or Withheld((), None, terminology.n_concepts)
    row = int(row)
    start, end = int(terminology.concept_terms[row]), int(terminology.concept_terms[row + 1])
    terms = terminology.terms.slice(start, end - start).select(["string", "language", "scope"]).to_pylist()
    exact = [term for term in terms if term["scope"] == "exact"] or terms
    english = [term for term in exact if term["language"].split("-")[0] == "en"] or exact
    names = dict.fromkeys(term["string"] for term in english if not hidden.is_in(term["string"]))
    parents = _apart(terminology.parents(row), row, hidden)
    children = _apart(terminology.children(row), row, hidden)
    siblings: dict[int, None] = {}
    for parent in parents[:MAX_NEIGHBOURS].tolist():
        siblings |= dict.fromkeys(_apart(terminology.children(parent)[: 4 * MAX_NEIGHBOURS], row, hidden).tolist())
    types = dict.fromkeys(terminology.semantic_types_of(row))
    lines = [
        ("Names", list(names)[:MAX_NAMES]),
        ("Semantic types", [name for name in types if not hidden.is_in(name)]),
        ("Is a kind of", _names(terminology, parents, hidden)),
        ("Narrower concepts", _names(terminology, children, hidden)),
        ("Concepts beside it", _names(terminology, np.array(list(siblings), np.int32), hidden)),
        *_relations(terminology, row, hidden),
        (
            "Existing definition",
            [text for text in map(tidy, _definitions(terminology, row)) if text and not hidden.is_in(text)][:1],
        ),
    ]
    return "\n".join([TASK, "", *(f"{label}: {'; '.join(values)}" for label, values in lines if values)])


def prompts(
    terminology: Terminology, rows: Iterable[int] | NDArray[np.integer[Any]], withheld: Withheld | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the CURIE and the prompt of each concept that has a name to show; of the others there is nothing to ask."""
    for row in rows:
        text = prompt(terminology, int(row), withheld)
        if "\nNames: " in text:
            yield terminology.concept_id(int(row)), text


def write_prompts(prompts: Iterable[tuple[str, str]], path: Path | str) -> int:
    """Write prompts as JSONL {"concept_id", "prompt"}, whole or not at all; return how many."""
    count = 0
    with artefact.atomic_file(path, "w", force=True) as file:
        for concept_id, text in prompts:
            file.write(json.dumps({"concept_id": concept_id, "prompt": text}, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_prompts(path: Path | str) -> Iterator[tuple[str, str]]:
    """Yield the CURIE and the prompt of each line of a file that `write_prompts` wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in textio.ended_lines(file, path):
                try:
                    entry = textio.json_value(line)
                    yield str(entry["concept_id"]), str(entry["prompt"])
                except (ValueError, KeyError, TypeError):
                    raise InputError(
                        'not a line of {"concept_id": ..., "prompt": ...}',
                        file=path,
                        line=number,
                        value=line.strip(),
                        remedy="write the prompts anew: alphita terminology verbalise … --prompts FILE",
                    ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the prompts cannot be read: {error}", file=path) from None


def estimate(texts: Iterable[str], *, price_per_million_input: float, price_per_million_output: float) -> Cost:
    """Estimate tokens and price of asking all prompts once, without a tokenizer."""
    if min(price_per_million_input, price_per_million_output) < 0:
        raise UsageError("prices must not be negative")
    lengths = [len(text) for text in texts]
    read = sum(-(-length // CHARACTERS_PER_TOKEN) for length in lengths)
    written = ANSWER_TOKENS * len(lengths)
    price = (read * price_per_million_input + written * price_per_million_output) / 1e6
    return Cost(len(lengths), read, written, price)


def _relations(terminology: Terminology, row: int, withheld: Withheld) -> list[tuple[str, list[str]]]:
    triples = terminology.outgoing(row)
    triples = triples[~withheld.joins(triples[:, 0], triples[:, 2]) & (triples[:, 2] != row)]
    children: dict[str, list[int]] = {}
    for _, relation, tail in triples.tolist():
        label = terminology.relation_labels[relation]
        if relation not in terminology.parent_relations and templates().of_relation(label) is not None:
            children.setdefault((readable(label) or "related to").capitalize(), []).append(tail)
    shown = list(children.items())[:MAX_NEIGHBOURS]
    return [(label, _names(terminology, np.unique(tails), withheld)) for label, tails in shown]


def _apart(rows: NDArray[np.int32], row: int, withheld: Withheld) -> NDArray[np.int32]:
    """Return the concepts other than `row` that make no held-out pair with it."""
    return rows[(rows != row) & ~withheld.joins(np.full(len(rows), row, np.int32), rows)]


def _names(terminology: Terminology, rows: Collection[Any] | NDArray[Any], withheld: Withheld) -> list[str]:
    """Return the preferred names of live concepts, at most eight."""
    lines: list[str] = []
    for row in np.asarray(rows).tolist():
        name = str(terminology.concept_names[row].as_py())
        if not terminology.retired[row] and not withheld.is_in(name):
            lines.append(name)
        if len(lines) == MAX_NEIGHBOURS:
            break
    return lines


def _definitions(terminology: Terminology, row: int) -> list[str]:
    table = terminology.side_table("definitions")
    concepts = table.column("concept").to_numpy()
    start, end = np.searchsorted(concepts, np.array([row, row + 1], concepts.dtype)).tolist()
    return list(table.column("text").slice(start, end - start).to_pylist())
