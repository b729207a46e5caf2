"""Decisions carried from one release of a terminology to the next.

Of every decision in force:

    follows    its concept was replaced by one other concept, or is now an alternative id of one: a new decision names
               that one, and takes the place of the old
    reopened   its concept is gone, retired without a replacement or with several, has another name or domain, or is no
               longer standard; the term that spoke for it is no more a term of it; or the mention is now a name of
               other concepts: the row is open again, for all its reviewers
    (stands)   everything else: nothing is written

A forgotten decision that does not stand is taken back, so that restoring it does not bring back what the new release
does not have.

No decision is changed or deleted. A project is migrated whole or not at all, and then is of the new release: a run that
was interrupted goes on with the next project, and one that is run again finds nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from alphita import artefact
from alphita.errors import UsageError
from alphita.mappings import record
from alphita.review.records import FINAL, Decision, Project, Rebase, ReviewRow, Standing
from alphita.review.release_changes import FOLLOWS, REOPENED, Fate, Releases
from alphita.terminology.store import Terminology

if TYPE_CHECKING:
    from alphita.review.store import ReviewStore

REVIEWER = "migration"

# Gives rows their candidates in the new release, best first, by row id.
Ranking = Callable[[Sequence[ReviewRow]], Mapping[int, Sequence[record.Mapping]]]


@dataclass(frozen=True, slots=True)
class Change:
    """One decision that does not stand: a line of the table.

    Attributes:
        project: name.
        row: id of the row.
        code: the input's own code.
        mention: the string.
        frequency: how often it occurs.
        decision: id of the decision.
        reviewer: who took it.
        kind: what was done.
        fate: "follows" or "reopened".
        reason: see `fates.REASONS`.
        old_concept: what was decided; "" for NIL and a plain rejection.
        old_name: its name in the old release.
        new_concept: what it follows to, as `old_concept`; for a re-opened one what may be meant now, joined by " | ".
        new_name: its name in the new release; several likewise.
        detail: more about the reason.
    """

    project: str
    row: int
    code: str
    mention: str
    frequency: int
    decision: int
    reviewer: str
    kind: str
    fate: str
    reason: str
    old_concept: str
    old_name: str
    new_concept: str
    new_name: str
    detail: str


COLUMNS = tuple(Change.__slots__)


@dataclass(frozen=True)
class Part:
    """What a migration does to one project.

    Attributes:
        project: as it is now.
        follow: decisions that follow a replacement, by id: what takes their place.
        reopen: rows that are open again.
        unsettled: rows that will have to be decided, the re-opened ones among them.
        standing: decisions that stand.
        lost: forgotten decisions that do not stand, by id.
        seen: id of the newest decision there is.
    """

    project: Project
    follow: dict[int, Decision] = field(default_factory=dict)
    reopen: set[int] = field(default_factory=set)
    unsettled: list[ReviewRow] = field(default_factory=list)
    standing: int = 0
    lost: set[int] = field(default_factory=set)
    seen: int = 0


@dataclass(frozen=True)
class MigrationPlan:
    """What a migration changes.

    Attributes:
        old: the old release: name, content_hash, versions.
        new: the new one.
        changes: the decisions that do not stand, by project and row.
        parts: the projects that are of the old release.
        migrated: names of those that are of the new one already.
        others: names of those that are of neither: they are left alone.
    """

    old: dict[str, Any]
    new: dict[str, Any]
    changes: tuple[Change, ...]
    parts: tuple[Part, ...]
    migrated: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def diff(self) -> str:
        """Sha256 of what changes: a dry run and what is then applied have the same."""
        return artefact.hash_json([asdict(change) for change in self.changes])

    def to_json(self, *, by: str, at: str, applied: bool, earlier: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the signed diff as JSON has it."""
        projects = [
            {
                "name": part.project.name,
                "standing": part.standing,
                "reopened_rows": len(part.reopen),
                "lost": len(part.lost),
            }
            for part in self.parts
        ]
        changes = [asdict(change) for change in self.changes]
        if earlier is not None and (earlier["from"], earlier["to"]) == (self.old, self.new):
            projects = [project for project in earlier["projects"] if project["name"] in self.migrated] + projects
            changes = [change for change in earlier["changes"] if change["project"] in self.migrated] + changes
        counts = Counter(f"{change['fate']}: {change['reason']}" for change in changes)
        return {
            "by": by,
            "at": at,
            "applied": applied,
            "diff": artefact.hash_json(changes),
            "from": self.old,
            "to": self.new,
            "projects": projects,
            "other_releases": list(self.others),
            "counts": dict(counts.most_common()),
            "standing": sum(project["standing"] for project in projects),
            "reopened_rows": sum(project["reopened_rows"] for project in projects),
            "lost": sum(project.get("lost", 0) for project in projects),
            "changes": changes,
        }


def plan(store: ReviewStore, old: Terminology, new: Terminology, *, projects: Sequence[str] = ()) -> MigrationPlan:
    """Find out what has to change; nothing is written."""
    if old.content_hash == new.content_hash:
        raise UsageError(f"{old.path} and {new.path} are the same release: there is nothing to migrate")
    chosen = [store.project(name) for name in projects] if projects else store.projects()
    migrated = tuple(project.name for project in chosen if project.terminology == new.content_hash)
    todo = [project for project in chosen if project.terminology in (old.content_hash, "")]
    others = tuple(project.name for project in chosen if project.name not in migrated and project not in todo)
    if others and not todo and not migrated:
        raise UsageError(
            f"no project is of {old.path} ({old.content_hash[:12]}); give as --from the release that they are of: "
            + ", ".join(
                f"{project.name} is of {project.terminology[:12]} {project.release}".rstrip() for project in chosen[:5]
            )
        )
    releases, told = Releases(old, new), facts(new)
    changes: list[Change] = []
    parts = []
    for project in todo:
        # Before the rows are read: what is decided after that is not missed.
        seen, forgotten = _past(store, project.name)
        part = Part(project, seen=seen)
        standing = 0
        for one in store.every(project.name):
            found = _fates(releases, one)
            changes += [_change(one.row, decision, fate) for decision, fate in found]
            standing += sum(decision.kind in FINAL for decision in one.decisions) - len(found)
            follow = {decision.id: _following(decision, fate, told) for decision, fate in found if fate.fate == FOLLOWS}
            part.follow.update(follow)
            part.lost.update(
                late.id for late in forgotten.get(one.row.id, ()) if releases.fate(one.row, late) is not None
            )
            if len(found) > len(follow):
                part.reopen.add(one.row.id)
            if len(found) > len(follow) or not one.settled:
                part.unsettled.append(one.row)
        parts.append(replace(part, standing=standing))
    return MigrationPlan(facts(old), told, tuple(changes), tuple(parts), migrated, others)


def apply(
    store: ReviewStore,
    planned: MigrationPlan,
    *,
    by: str,
    ranking: Ranking | None = None,
    model: str = "",
    types: Callable[[str], Sequence[str]] | None = None,
) -> int:
    """Do what is planned, project by project; return how many were migrated."""
    for part in planned.parts:
        candidates = dict(ranking(part.unsettled)) if ranking is not None and part.unsettled else {}
        answers = {row: found[0].concept_id for row, found in candidates.items() if found}
        named = {} if types is None else {row: types(one) for row, one in answers.items() if one is not None}
        name = part.project.name
        change = Rebase(
            terminology=planned.new["content_hash"],
            release=_release(planned.new),
            model=model or part.project.model,
            candidates=candidates,
            follow={number: replace(one, comment=f"{one.comment}; run by {by}") for number, one in part.follow.items()},
            reopen=part.reopen,
            types=named,
            lost=part.lost,
            seen=part.seen,
        )
        uid = f"migration:{artefact.hash_json([name, planned.old, planned.new])[:32]}"
        store.rebase(name, REVIEWER, uid, change)
    return len(planned.parts)


def facts(terminology: Terminology) -> dict[str, Any]:
    """Return a release's name, content_hash and versions."""
    versions = [str(source["version"]) for source in terminology.manifest.get("sources", []) if source.get("version")]
    return {"name": terminology.path.name, "content_hash": terminology.content_hash, "versions": versions}


def _past(store: ReviewStore, project: str) -> tuple[int, dict[int, list[Decision]]]:
    """Return the id of the newest decision, and the forgotten ones that restoring would bring back, by row."""
    newest, undone, forgotten = 0, set(), []
    for one in store.history(project):
        newest = one.id
        if one.undoes is not None:
            undone.add(one.undoes)
        elif one.forgotten and one.kind in FINAL:
            forgotten.append(one)
    by_row: dict[int, list[Decision]] = {}
    for one in forgotten:
        if one.id not in undone:
            by_row.setdefault(one.row, []).append(one)
    return newest, by_row


def _fates(releases: Releases, standing: Standing) -> list[tuple[Decision, Fate]]:
    """Return those of a row's decisions that do not stand, with what becomes of them."""
    final = [decision for decision in standing.decisions if decision.kind in FINAL]
    found = [(decision, releases.fate(standing.row, decision)) for decision in final]
    if not any(fate is not None and fate.fate == REOPENED for _, fate in found):
        return [(decision, fate) for decision, fate in found if fate is not None]
    # Who decided otherwise looks again too: one half of a disagreement says little by itself.
    beside = Fate(REOPENED, "beside")
    return [(decision, fate if fate is not None and fate.fate == REOPENED else beside) for decision, fate in found]


def _change(row: ReviewRow, decision: Decision, fate: Fate) -> Change:
    return Change(
        row.project,
        row.id,
        row.code,
        row.mention,
        row.frequency,
        decision.id,
        decision.reviewer,
        decision.kind,
        fate.fate,
        fate.reason,
        decision.concept_id or "",
        fate.old_name,
        fate.new_concept,
        fate.new_name,
        fate.detail,
    )


def _following(decision: Decision, fate: Fate, new: dict[str, Any]) -> Decision:
    """Return what takes the place of a decision whose concept was replaced."""
    said = f"{decision.comment}; " if decision.comment else ""
    return replace(
        decision,
        concept_id=fate.new_concept,
        concept_name=fate.new_name,
        comment=f"{said}{REVIEWER}: {decision.concept_id} {fate.reason} in {_release(new) or new['name']}",
    )


def _release(told: dict[str, Any]) -> str:
    return str(told["versions"][0]) if told["versions"] else ""
