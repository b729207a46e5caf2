"""The records of a review. A decision is never changed: who thinks again decides again, and an undo is one too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from alphita.errors import AlphitaError, UsageError
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
        column: the column of the mentions, e.g. "description".
        terminology, model: content hashes; release: the terminology's version, "" if unknown.
        blind: reviewers do not see each other's decisions until a row is adjudicated.
        filters: which concepts may be answered, JSON of `jobs.spec.Concepts`; empty: all.
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
    """One string of a project, with the normalizer's candidates.

    Attributes:
        number: 1-based number of the first input row with it.
        code: the input's own code, or "".
        context: other columns of the input, by name.
        candidates: best first; NIL is one without a concept.
        types: semantic types of the answer's concept, if known.
        decided: decisions that a file brings with the row; () of a stored row.
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
        uid: chosen by the client, so that a decision sent twice is kept once.
        concept_id: CURIE that the row means; None for nil, reject, skip, flag and undo.
        relation: exact, broad, narrow or related; None without a concept.
        at: ISO 8601, UTC; "" until it is stored, and of an imported one without a time.
        id: ascending in the order of deciding; 0 until it is stored.
        undoes: id of the decision that an undo takes back.
        bulk: uid of the action of several decisions that it was part of, or "".
        confidence: of the answer as it was shown; so are `shown` (candidate ids), terminology, release, model.
        forgotten: its influence was removed (see `ReviewStore.forget`).
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
    """Numbers of new and known rows, and of decisions taken, or overtaken by a newer one or another answer."""

    new: int
    known: int
    decided: int = 0
    overtaken: int = 0


@dataclass(frozen=True, slots=True)
class Bulk:
    """A bulk action, or its preview (without decisions); `expected_wrong` is the sum of 1 - confidence."""

    rows: int
    occurrences: int
    expected_wrong: float
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebase:
    """A project's change of release.

    Attributes:
        candidates, types: new ones by row id; other rows keep theirs.
        follow: by id of a decision in force, the one that replaces its concept, name, relation and comment.
        reopen: ids of rows of which all decisions are taken back; lost: of forgotten decisions taken back too.
        seen: id of the newest decision that was known when this was worked out.
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
        state: decided (all agree, or adjudicated), disagreed, flagged (and nobody has decided since), or open.
        concept_id: what it means, if that is settled; None for NIL, too, and for a rejection.
    """

    row: ReviewRow
    decisions: tuple[Decision, ...]
    state: State
    concept_id: str | None
    settled: bool


class QueuedRow(NamedTuple):
    """What decides when a row is asked: its id, mention, frequency and confidence, and whether it is settled."""

    id: int
    mention: str
    frequency: int
    confidence: float | None
    settled: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a project is; kappa is Cohen's, of the pair of reviewers with most rows in common, None if undefined."""

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


class Conflict(AlphitaError):
    """The row was decided by the same reviewer in the meantime, in another tab, say; `newest` is that decision."""

    def __init__(self, newest: Decision) -> None:
        super().__init__(f"row {newest.row} was decided in the meantime ({newest.kind}, {newest.at}); look at it again")
        self.newest = newest


class NoDisagreement(AlphitaError):
    """The row has no disagreement that could be adjudicated."""


class Unknown(UsageError):
    """There is no such project or row."""


class OfStore(AlphitaError):
    """A store cannot be used now. The message names the store, `problem` does not: clients are not told where it is."""

    def __init__(self, store: object, problem: str) -> None:
        super().__init__(f"{store}: {problem}")
        self.store, self.problem = store, problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.problem)


class Busy(OfStore):
    """Another program is writing to the store, or its server is away; trying again may help, and counts once."""


class Away(Busy):
    """The database cannot be reached. The message names its address, which clients are not told."""


class NotStored(OfStore):
    """The store cannot be written: the disk is full, the file read-only or damaged. Nothing of the request is kept."""
