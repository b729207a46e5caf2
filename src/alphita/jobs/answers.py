"""The answers of a job: each distinct question is answered once, by earlier decisions or else by the index.

An answer holds, for each candidate, the values of `FIELDS`: what a line says beside the row's own values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from alphita import artefact
from alphita.answer.records import Explain, Result, lines
from alphita.errors import InputError, UsageError
from alphita.jobs.reading import MentionRow
from alphita.mappings.record import COLUMNS, OF_FILES, OMOP, REVIEW, REVIEWED, Mapping, OmopConcept, omop_cells
from alphita.mention.laboratory_tests import parted
from alphita.terminology.text import clean

if TYPE_CHECKING:
    from alphita.answer.normalizer import Normalizer
    from alphita.index.choice import ConfirmedName
    from alphita.review.records import Decision

# What a line has of its row; the answer's values follow these in the record.
OF_THE_ROW = ("row", "mention_code", "mention", "frequency", "rank")
FIELDS = tuple(name for name in COLUMNS if name not in OF_THE_ROW + REVIEW + OF_FILES)
METHOD, DECISION = FIELDS.index("method"), FIELDS.index("decision")
# Answers are kept until they take about so many bytes. What comes after is answered chunk by chunk, and not kept.
MAX_BYTES = 2 * 2**30
# Of a question and of a candidate, beside the characters, where no string is shared.
QUESTION_BYTES, CANDIDATE_BYTES = 200, 700

LOINC = "LOINC:"

Question = str | tuple[str, bytes, str | None, str | None]
Answer = tuple[tuple[Any, ...], ...]

_values = attrgetter(*FIELDS)
_dump = json.JSONEncoder(separators=(",", ":")).encode


def question(row: MentionRow) -> Question:
    """Return what a usable row asks; equal questions have equal answers. Of a context only a hash is kept."""
    if row.context is row.language is row.domain is None:
        return row.asked
    context = hashlib.blake2b((row.context or "").encode(), digest_size=16).digest()
    return row.asked, context, row.language, row.domain


def answer(result: Result, top_k: int, explain: Explain = True) -> Answer:
    """Return the values that the lines of a result have."""
    return tuple(map(_values, lines(0, result, top_k, explain)))


def lines_of(row: MentionRow, answer_lines: Answer) -> list[Mapping]:
    """Return the lines of a row."""
    mention = row.mention or ""
    return [
        Mapping(row.number, row.code, mention, row.frequency, rank, *values)
        for rank, values in enumerate(answer_lines, 1)
    ]


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

    def __contains__(self, query: Question) -> bool:
        return query in self._known

    def __getitem__(self, query: Question) -> Answer:
        return self._known[query]

    def add(self, answered: Iterable[tuple[Question, Answer]]) -> bytes:
        """Keep new answers, as far as there is room, and return what is appended to the file for them."""
        written = []
        for asking, reply in answered:
            if self._left <= 0:
                break
            line = _dump(reply)
            self._keep(asking, reply, len(line))
            written.append(line + "\n")
        return "".join(written).encode()

    def restore(self, queries: Iterable[Question], content: bytes) -> None:
        """Keep the answers to these questions that `add` returned."""
        written = content.splitlines()
        kept = 0
        try:
            for asking in queries:
                if self._left <= 0:
                    break
                self._keep(asking, json.loads(written[kept]), len(written[kept]))
                kept += 1
        except (ValueError, IndexError, TypeError):
            kept = -1
        if kept != len(written):
            raise InputError("the answers kept are not those of this job", remedy="begin anew with --force")

    def _keep(self, asking: Question, reply: Sequence[Sequence[Any]], characters: int) -> None:
        shared = self._strings.setdefault
        self._known[asking] = tuple(
            tuple([shared(value, value) if type(value) is str else value for value in line]) for line in reply
        )
        mention = asking if isinstance(asking, str) else asking[0]
        self._left -= QUESTION_BYTES + len(mention) + CANDIDATE_BYTES * len(reply) + characters


# What a row asks: mention, context, language, domain.
Asked = tuple[str, str | None, str | None, str | None]


@dataclass(frozen=True)
class Memory:
    """What was settled, by cleaned mention; `confirmed` are the phrases that an index learns from it."""

    decisions: Dictionary[str, Decision]
    confirmed: tuple[ConfirmedName, ...] = ()

    @classmethod
    def read(cls, path: Path | str, *, source: str | None = None, project: str | None = None) -> Memory:
        """Read the settled decisions of a review store, those of one source or project."""
        from alphita.calibrate.from_mappings import confirmed
        from alphita.review.store import ReviewStore

        with ReviewStore.open(path) as store:
            sources = sorted({known_project.source for known_project in store.projects()})
            if source is None and project is None and len(sources) > 1:
                raise UsageError(
                    f"say whose decisions count: --mappings-source {' or '.join(map(repr, sources))}, or --project"
                )
            if source is not None and project is not None and store.project(project).source != source:
                raise UsageError(f"the project {project!r} is of the source {store.project(project).source!r}")
            settled = store.settled(source=source, project=project)
            return cls(settled, confirmed(store, source=source, project=project))

    @property
    def content_hash(self) -> str:
        facts = {
            form: [decision.uid, decision.concept_id, decision.relation, decision.comment]
            for form, decision in self.decisions.items()
        }
        return artefact.hash_json(facts)

    def to_json(self) -> dict[str, Any]:
        return {form: asdict(decision) for form, decision in self.decisions.items()}

    @classmethod
    def from_json(cls, read: Dictionary[str, dict[str, Any]]) -> Memory:
        from alphita.review.records import Decision

        return cls({form: Decision(**record | {"shown": tuple(record["shown"])}) for form, record in read.items()})

    def prefixes(self) -> set[str]:
        """Return the prefixes of the concepts that it answers with."""
        ids = [decision.concept_id for decision in self.decisions.values() if decision.concept_id is not None]
        return {curie.partition(":")[0] for several in ids for curie in several.split("|")}

    def answer(
        self, mention: str, omop: Callable[[str | None], OmopConcept | None] | None = None, *, explain: bool = False
    ) -> Answer | None:
        """Return the answer to a mention, its values those of `FIELDS` and `REVIEW`; None: nothing is settled."""
        label = parted(mention)[0]
        decision = self.decisions.get(clean(mention)) or self.decisions.get(clean(label))
        if decision is None:
            return None
        if label != mention and (decision.concept_id or "").startswith(LOINC):
            # "Creatinine" was settled for some specimen and unit, which the store does not tell.
            return None
        why = ", ".join(filter(None, (f"reviewed: {decision.kind} by {decision.reviewer}", decision.at)))
        values = dict(zip(OMOP, omop_cells(omop and omop(decision.concept_id)), strict=True)) | {
            **{name: getattr(decision, name) for name in ("concept_id", "concept_name", "relation", "reviewer")},
            **dict.fromkeys(("decision", "method"), REVIEWED),
            "explanation": why if explain else None,
            "status": "approved",
            "mapping_type": "maps_to",
            "reviewed_at": decision.at or None,
            "comment": decision.comment or None,
        }
        return (tuple(values.get(name) for name in (*FIELDS, *REVIEW)),)


class Wanted(Protocol):
    """How questions are answered; a job of one file says so, and `NormalizerSettings`."""

    @property
    def top_k(self) -> int: ...
    @property
    def explain(self) -> Explain: ...
    @property
    def memory(self) -> Memory | None: ...


def answer_all(
    queries: Sequence[Asked], normalizer: Normalizer, wanted: Wanted, *, contexts: bool, languages: bool
) -> list[Answer]:
    """Answer questions by what was settled before, or else, all of them together, by the index."""
    memory, explain, top_k = wanted.memory, wanted.explain, wanted.top_k
    omop = normalizer.omop.of_id
    settled = [
        None if memory is None else memory.answer(mention, omop, explain=bool(explain)) for mention, *_ in queries
    ]
    left = [query for query, known in zip(queries, settled, strict=True) if known is None]
    results: list[Result] = []
    if left:
        mentions, in_contexts, in_languages, domains = map(list, zip(*left, strict=True))
        given = {"contexts": in_contexts if contexts else None, "languages": in_languages if languages else None}
        types = {"types": domains} if any(domains) else {}
        results = normalizer.normalize(mentions, top_k=top_k, explain=bool(explain), **given, **types)
    answered = (answer(result, top_k, explain) for result in results)
    return [next(answered) if known is None else known for known in settled]
