"""The mapping memory in a job: what people settled about a string answers it, before the index is asked.

A memory is read once, when a job begins: what is decided while the job runs is for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from alphita import artefact
from alphita.errors import UsageError
from alphita.mappings.record import REVIEW, Method
from alphita.mappings.review.records import Decision
from alphita.mappings.review.store import ReviewStore
from alphita.normalizer.answers import FIELDS, Answer
from alphita.terminology.text import clean

REVIEWED: Method = "reviewed"


@dataclass(frozen=True)
class Memory:
    """What was settled.

    Attributes:
        decisions: by cleaned string.
    """

    decisions: Mapping[str, Decision]

    @classmethod
    def read(cls, path: Path | str, *, source: str | None = None, project: str | None = None) -> Memory:
        """Read what counts in a store of reviews now.

        Args:
            path: the store.
            source: what was settled of strings that come from there; None: from anywhere, if a project is given, and
                else from the store's only source.
            project: only what was settled in this one.

        Raises:
            InputError: no such store.
            UsageError: neither is given and there are several sources, or the project's is another.
            Unknown: there is no such source or project.
        """
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
        told = {form: [one.uid, one.concept_id, one.relation] for form, one in self.decisions.items()}
        return artefact.hash_json(told)

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
            "concept_id": decision.concept_id, "concept_name": decision.concept_name, "relation": decision.relation,
            "method": REVIEWED, "explanation": why if explain else None, "status": "approved",
            "mapping_type": "maps_to", "reviewer": decision.reviewer, "reviewed_at": decision.at or None,
            "comment": decision.comment or None,
        }  # fmt: skip
        return (tuple(values.get(name) for name in (*FIELDS, *REVIEW)),)
