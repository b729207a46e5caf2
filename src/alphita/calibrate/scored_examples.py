"""Examples with the candidates that a pipeline finds for them, for fitting and measuring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.answer.candidates import CandidateTable
from alphita.answer.decision import NONE, OTHER, RIGHT
from alphita.answer.features import Features
from alphita.answer.pipeline import Pipeline, Questions
from alphita.calibrate import examples
from alphita.calibrate.examples import LABELLED, SYNONYM, Examples
from alphita.calibrate.hiding import Hidden
from alphita.calibrate.ranker_training import Training

EXAMPLES_AT_ONCE = 4096
# Weight of a held-out string or a labelled mention, relative to one with noise: it is closer to real queries.
WEIGHT = 4.0


class Seen(NamedTuple):
    """Examples with their candidates; `vetoed` (c,) candidates are never accepted."""

    examples: Examples
    table: CandidateTable
    training: Training
    vetoed: NDArray[np.bool_]

    @property
    def features(self) -> Features:
        """The candidates' features."""
        reasons = [""] * (len(self.table.offsets) - 1)
        return Features(self.training.candidates, self.training.mentions, self.vetoed, reasons)

    def outcome(self, top: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what came of each example, (n,), whose best candidate is in row `top` (-1: none)."""
        right = np.append(self.training.right, False)[top]
        return np.where(right, RIGHT, np.where(self.examples.concepts >= 0, OTHER, NONE))


def see(pipeline: Pipeline, some: Examples) -> Seen:
    """Find the candidates of examples, and which of them are right."""
    parts = []
    with progress.bar("Looking up examples", total=len(some.mentions), unit="mentions") as bar:
        for start in range(0, len(some.mentions), EXAMPLES_AT_ONCE):
            parts.append(
                _seen(pipeline, some.take(np.arange(start, min(start + EXAMPLES_AT_ONCE, len(some.mentions)))))
            )
            bar.advance(len(parts[-1].examples.mentions))
    return together(parts)


def hidden(pipeline: Pipeline, some: Examples) -> Hidden:
    """Return the view of an index without the strings that each example hides."""
    return Hidden(pipeline.index, some.hidden_strings, some.hidden_concepts)


def ask_each(pipeline: Pipeline, some: Examples) -> tuple[Examples, Questions]:
    """Look up each example separately: equal strings may hide different strings."""
    questions, places = pipeline.ask(some.mentions, view=hidden(pipeline, some))
    kept = [row for row, place in enumerate(places) if place >= 0]
    return some.take(kept), questions.take([places[row] for row in kept])


def _seen(pipeline: Pipeline, some: Examples) -> Seen:
    some, questions = ask_each(pipeline, some)
    scored = pipeline.candidates(questions, view=hidden(pipeline, some))
    features = scored.features
    assert features is not None
    table = scored.table
    if pipeline.assigned is not None:
        some = some._replace(concepts=np.where(some.concepts < 0, some.concepts, pipeline.assigned[0, some.concepts]))
    right = table.concept == some.concepts[table.request]
    nil = some.concepts < 0
    weight = np.where(np.isin(some.kinds, (SYNONYM, LABELLED)), WEIGHT, 1.0)
    training = Training(features.candidates, features.mentions, table.offsets, right, nil, weight)
    return Seen(some, table, training, features.vetoed)


def together(parts: Sequence[Seen]) -> Seen:
    """Return several as one; the rows that the table counts (strings, concepts) are those of each part's own index."""
    shift_requests = np.cumsum([0, *(len(part.examples.mentions) for part in parts)])
    shift_rows = np.cumsum([0, *(len(part.table.request) for part in parts)])
    offsets = np.concatenate(
        [[0], *(part.table.offsets[1:] + shift for part, shift in zip(parts, shift_rows[:-1], strict=True))]
    )
    requests = [part.table.request + shift for part, shift in zip(parts, shift_requests[:-1], strict=True)]
    columns = [np.concatenate(column) for column in zip(*(part.table[2:] for part in parts), strict=True)]
    table = CandidateTable(offsets.astype(np.int64), np.concatenate(requests), *columns)
    numbers = [
        np.concatenate(column)
        for column in zip(*((*part.training[:2], *part.training[3:]) for part in parts), strict=True)
    ]
    training = Training(numbers[0], numbers[1], table.offsets, numbers[2], numbers[3], numbers[4])
    vetoed = np.concatenate([part.vetoed for part in parts])
    return Seen(examples.join([part.examples for part in parts]), table, training, vetoed)
