"""The answers that a job has: each distinct question of a file is answered once, however many rows ask it.

An answer is what an output's lines say of a mention beside the row's own numbers: for each candidate the values of
`FIELDS`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from alphita.answer.records import Result, lines
from alphita.errors import InputError
from alphita.jobs.reading.rows import MentionRow
from alphita.mappings.record import COLUMNS, REVIEW, Mapping

# What a line has of its row; the answer's values follow these in the record.
OF_THE_ROW = ("row", "mention_code", "mention", "frequency", "rank")
FIELDS = tuple(name for name in COLUMNS if name not in OF_THE_ROW + REVIEW)
METHOD, DECISION = FIELDS.index("method"), FIELDS.index("decision")
# Answers are kept until they take about so many bytes. What comes after is answered chunk by chunk, and not kept.
MAX_BYTES = 2 * 2**30
# Of a question and of a candidate, beside the characters, where no string is shared.
QUESTION_BYTES, CANDIDATE_BYTES = 200, 700

Question = str | tuple[str, bytes, str | None]
Answer = tuple[tuple[Any, ...], ...]

_values = attrgetter(*FIELDS)
_dump = json.JSONEncoder(separators=(",", ":")).encode


def question(row: MentionRow) -> Question:
    """Return what a usable row asks; equal questions have equal answers. Of a context only a hash is kept."""
    if row.context is None and row.language is None:
        return row.asked
    context = hashlib.blake2b((row.context or "").encode(), digest_size=16).digest()
    return row.asked, context, row.language


def answer(result: Result, top_k: int) -> Answer:
    """Return the values that the lines of a result have."""
    return tuple(map(_values, lines(0, result, top_k)))


def lines_of(row: MentionRow, found: Answer) -> list[Mapping]:
    """Return the lines of a row."""
    mention = row.mention or ""
    return [Mapping(row.number, row.code, mention, row.frequency, rank, *one) for rank, one in enumerate(found, 1)]


class AnswerStore:
    """The answers kept, by question, until they take `most_bytes`.

    Which are kept depends on the questions and their answers alone, in order; so it is the same in a job that was
    broken off and goes on.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._left = MAX_BYTES if most_bytes is None else most_bytes
        self._known: dict[Question, Answer] = {}
        # Equal strings are kept once: concepts, sources and languages come again and again.
        self._strings: dict[str, str] = {}

    def __contains__(self, asked: Question) -> bool:
        """Return whether its answer is kept."""
        return asked in self._known

    def __getitem__(self, asked: Question) -> Answer:
        """Return a kept answer."""
        return self._known[asked]

    def add(self, asked: Iterable[tuple[Question, Answer]]) -> bytes:
        """Keep new answers, as far as there is room, and return what is appended to the file for them."""
        written = []
        for asking, found in asked:
            if self._left <= 0:
                break
            line = _dump(found)
            self._keep(asking, found, len(line))
            written.append(line + "\n")
        return "".join(written).encode()

    def restore(self, asked: Iterable[Question], content: bytes) -> None:
        """Keep the answers to these questions that `add` returned."""
        written = content.splitlines()
        kept = 0
        try:
            for asking in asked:
                if self._left <= 0:
                    break
                self._keep(asking, json.loads(written[kept]), len(written[kept]))
                kept += 1
        except (ValueError, IndexError, TypeError):
            kept = -1
        if kept != len(written):
            raise InputError("the answers kept are not those of this job", remedy="begin anew with --force")

    def _keep(self, asking: Question, found: Sequence[Sequence[Any]], characters: int) -> None:
        shared = self._strings.setdefault
        self._known[asking] = tuple(
            tuple([shared(value, value) if type(value) is str else value for value in one]) for one in found
        )
        mention = asking if isinstance(asking, str) else asking[0]
        self._left -= QUESTION_BYTES + len(mention) + CANDIDATE_BYTES * len(found) + characters
