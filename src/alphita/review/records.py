"""The records of a review: a project's rows, and what people decided about them.

Store, service, page and command line take their names from here. A decision is never changed: who thinks again decides
again, and an undo is a decision too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from alphita.mappings.record import Mapping

# accept: the answer shown first. choose: another concept. nil: none fits. reject: what is shown is wrong, and the right
# one is not known. skip: later. flag: somebody else should look. undo: takes back the decision `undoes`. adjudicate:
# settles a row on which reviewers disagree.
Kind = Literal["accept", "choose", "nil", "reject", "skip", "flag", "undo", "adjudicate"]
KINDS: tuple[Kind, ...] = ("accept", "choose", "nil", "reject", "skip", "flag", "undo", "adjudicate")
# Those that say what a row means.
FINAL: tuple[Kind, ...] = ("accept", "choose", "nil", "reject", "adjudicate")
Order = Literal["risk", "frequency", "confidence", "row", "learning"]
State = Literal["open", "decided", "flagged", "disagreed", "all"]


@dataclass(frozen=True, slots=True)
class Project:
    """One file of codes under review.

    Attributes:
        source: where the codes come from, e.g. "LAB_SYSTEM"; decisions are remembered by it.
        column: the column of the mentions there, e.g. "description".
        terminology: content hash of the terminology that rows were normalised against.
        release: its version, as the terminology says it; "" if it does not.
        model: content hash of the encoder.
        created_at: ISO 8601 with time zone.
        blind: reviewers do not see each other's decisions until a row is adjudicated.
        filters: which concepts may be answered, as `jobs.spec.Concepts` says it in JSON; empty: all.
    """

    name: str
    source: str
    column: str
    terminology: str
    release: str
    model: str
    created_at: str
    blind: bool = True
    filters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """One string of a project, with what the normaliser said of it.

    Attributes:
        project: its name.
        number: 1-based number of the input row where it stood first.
        code: the input's own code, "" if it has none.
        frequency: how often it occurs; 1 if the input does not say.
        context: other columns of the input, by name.
        candidates: best first; NIL is one without a concept.
        types: semantic types of the answer's concept, as far as whoever adds the row knows them.
        decided: decisions that a file brings with the row; () of a row that the store gives.
    """

    id: int
    project: str
    number: int
    code: str
    mention: str
    frequency: int
    context: dict[str, str] = field(default_factory=dict)
    candidates: tuple[Mapping, ...] = ()
    types: tuple[str, ...] = ()
    decided: tuple[Decision, ...] = ()

    @property
    def confidence(self) -> float | None:
        """Of the answer; None without calibration."""
        return self.candidates[0].confidence if self.candidates else None

    @property
    def risk(self) -> float:
        """Expected number of wrong occurrences: frequency times the chance of a wrong answer (1/2 if unknown)."""
        return self.frequency * (1.0 - (0.5 if self.confidence is None else self.confidence))


@dataclass(frozen=True, slots=True)
class Decision:
    """What one reviewer decided about one row.

    Attributes:
        uid: chosen by whoever decides, so that a decision sent twice is kept once; see `files.import_uid`.
        concept_id: CURIE that the row means; None for nil, reject, skip, flag and undo.
        relation: how the concept stands to the mention: exact, broad, narrow or related; None without a concept.
        at: ISO 8601, UTC; "" until it is stored, and of an imported one whose file names no time.
        id: of the store, ascending in the order of deciding; 0 until it is stored.
        undoes: id of the decision that an undo takes back.
        bulk: uid of the action (bulk, undo of one, change of release) that it was part of; "" if taken by itself.
        confidence: of the answer as it was shown; so are `shown` (ids of the candidates), terminology, release, model.
        concept_name: the concept's preferred term, for exports; None: that of the candidate, if it is one.
        forgotten: its influence was removed (see `ReviewStore.forget`); it is history only.
    """

    uid: str
    project: str
    row: int
    reviewer: str
    kind: Kind
    concept_id: str | None = None
    relation: str | None = None
    comment: str = ""
    at: str = ""
    id: int = 0
    undoes: int | None = None
    bulk: str = ""
    confidence: float | None = None
    shown: tuple[str, ...] = ()
    terminology: str = ""
    release: str = ""
    model: str = ""
    concept_name: str | None = None
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """How many rows handed in are new, and known (those stay as they are); and how many decisions came with them.

    Overtaken are decisions that were not taken over: not newer than what the store has of that reviewer about the row,
    or a rejection of another concept than the row's answer here.
    """

    new: int
    known: int
    decided: int = 0
    overtaken: int = 0


@dataclass(frozen=True, slots=True)
class Bulk:
    """A bulk action, or the preview of one, which has no decisions.

    Attributes:
        occurrences: of the rows in the source, by frequency.
        expected_wrong: how many of these rows to expect to be wrong: the sum of 1 - confidence.
    """

    rows: int
    occurrences: int
    expected_wrong: float
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebase:
    """A project's change of release, worked out.

    Attributes:
        terminology: content hash of the new one.
        model: content hash of the encoder.
        candidates: new ones, by row id; rows left out keep theirs.
        follow: by id of a decision in force, what takes its place: `concept_id`, `concept_name`, `relation` and
            `comment` are taken from it, all else from the old one. A concept accepted becomes one chosen, unless it
            is the answer.
        reopen: ids of rows of which all decisions are taken back.
        types: new semantic types of the answers, by row id.
        lost: ids of forgotten decisions that are taken back too, so that `restore` does not bring them back.
        seen: id of the newest decision of the project that was known when this was worked out.
    """

    terminology: str
    release: str
    model: str
    candidates: Dictionary[int, Sequence[Mapping]] = field(default_factory=dict)
    follow: Dictionary[int, Decision] = field(default_factory=dict)
    reopen: Collection[int] = ()
    types: Dictionary[int, Sequence[str]] = field(default_factory=dict)
    lost: Collection[int] = ()
    seen: int | None = None

    @property
    def target(self) -> dict[str, Any]:
        """What a project on the new release says of it."""
        return {"terminology": self.terminology, "release": self.release, "model": self.model}


@dataclass(frozen=True, slots=True)
class Rebased:
    """What a change of release did: decisions that followed a replaced concept, and rows that are open again."""

    followed: int
    reopened: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How a row stands.

    Attributes:
        decisions: those in force that the asker may see, one a reviewer, newest first; then the adjudication.
        state: of what the asker may see: decided (all who say what it means agree on concept and relation, or it is
            adjudicated), disagreed, flagged (and nobody has decided since), or open: all else, a skipped row, too.
        concept_id: what it means, if that is settled; None for NIL, too, and for a rejection.
        settled: whether the state is decided. A rejection settles that the answer is wrong, and no more.
    """

    row: ReviewRow
    decisions: tuple[Decision, ...]
    state: State
    concept_id: str | None
    settled: bool


class Asked(NamedTuple):
    """What decides when a row is asked: its id, mention, frequency and confidence, and whether it is settled."""

    id: int
    mention: str
    frequency: int
    confidence: float | None
    settled: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a project is.

    Attributes:
        occurrences: of the rows in the source, by frequency.
        by_kind: decisions in force of each kind.
        compared: rows that two reviewers or more have decided; agreed: how many of these alike.
        kappa: Cohen's, of the pair of reviewers with most rows in common; None with fewer than two such rows, and where
            both always said one and the same, for then it is not defined.
        disagreed: ids of rows to adjudicate.
    """

    rows: int
    occurrences: int
    decided: int
    decided_occurrences: int
    by_kind: dict[str, int]
    by_reviewer: dict[str, int]
    compared: int
    agreed: int
    kappa: float | None
    pair: tuple[str, str] | None
    disagreed: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}
