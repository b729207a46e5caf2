"""The mapping memory in a job: what people settled about a string answers it, before the index is asked.

A memory is read once, when a job begins: what is decided while the job runs is for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from alphita import artefact
from alphita.errors import UsageError
from alphita.jobs.answers import FIELDS, Answer, answer
from alphita.mappings.record import REVIEW, REVIEWED
from alphita.review.records import Decision
from alphita.review.store import ReviewStore
from alphita.terminology.text import clean

if TYPE_CHECKING:
    from alphita.answer.normalizer import Normalizer

# What a row asks: mention, context, language.
Asked = tuple[str, str | None, str | None]


@dataclass(frozen=True)
class Memory:
    """What was settled."""

    decisions: Mapping[str, Decision]

    @classmethod
    def read(cls, path: Path | str, *, source: str | None = None, project: str | None = None) -> Memory:
        """Read what counts in a store of reviews now."""
        with ReviewStore.open(path) as store:
            sources = sorted({one.source for one in store.projects()})
            if source is None and project is None and len(sources) > 1:
                raise UsageError(
                    f"say whose decisions count: --mappings-source {' or '.join(map(repr, sources))}, or --project"
                )
            if source is not None and project is not None and store.project(project).source != source:
                raise UsageError(f"the project {project!r} is of the source {store.project(project).source!r}")
            return cls(store.settled(source=source, project=project))

    @property
    def content_hash(self) -> str:
        """Sha256 of all that it answers."""
        told = {form: [one.uid, one.concept_id, one.relation, one.comment] for form, one in self.decisions.items()}
        return artefact.hash_json(told)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {form: asdict(one) for form, one in self.decisions.items()}

    @classmethod
    def from_json(cls, read: Mapping[str, dict[str, Any]]) -> Memory:
        """Return the memory that `to_json` told of."""
        return cls({form: Decision(**one | {"shown": tuple(one["shown"])}) for form, one in read.items()})

    def prefixes(self) -> set[str]:
        """Return the prefixes of the concepts that it answers with."""
        ids = [one.concept_id for one in self.decisions.values() if one.concept_id is not None]
        return {curie.partition(":")[0] for several in ids for curie in several.split("|")}

    def answer(self, mention: str, *, explain: bool = False) -> Answer | None:
        """Return the answer to a mention, its values those of `FIELDS` and `REVIEW`; None: nothing is settled."""
        decision = self.decisions.get(clean(mention))
        if decision is None:
            return None
        why = ", ".join(filter(None, (f"reviewed: {decision.kind} by {decision.reviewer}", decision.at)))
        values = {
            "concept_id": decision.concept_id,
            "concept_name": decision.concept_name,
            "relation": decision.relation,
            "decision": REVIEWED,
            "method": REVIEWED,
            "explanation": why if explain else None,
            "status": "approved",
            "mapping_type": "maps_to",
            "reviewer": decision.reviewer,
            "reviewed_at": decision.at or None,
            "comment": decision.comment or None,
        }
        return (tuple(values.get(name) for name in (*FIELDS, *REVIEW)),)


class Wanted(Protocol):
    """How questions are answered; a job of one file says so, and `NormalizerSettings`."""

    @property
    def top_k(self) -> int: ...
    @property
    def explain(self) -> bool: ...
    @property
    def memory(self) -> Memory | None: ...


def answer_all(
    asked: Sequence[Asked], normalizer: Normalizer, wanted: Wanted, *, contexts: bool, languages: bool
) -> list[Answer]:
    """Answer questions by what was settled before, or else, all of them together, by the index."""
    memory, explain, top_k = wanted.memory, wanted.explain, wanted.top_k
    settled = [None if memory is None else memory.answer(mention, explain=explain) for mention, _, _ in asked]
    left = [one for one, known in zip(asked, settled, strict=True) if known is None]
    results = (
        normalizer.normalize(
            [mention for mention, _, _ in left],
            top_k=top_k,
            explain=explain,
            contexts=[context for _, context, _ in left] if contexts else None,
            languages=[language for _, _, language in left] if languages else None,
        )
        if left
        else []
    )
    answered = (answer(result, top_k) for result in results)
    return [next(answered) if known is None else known for known in settled]
