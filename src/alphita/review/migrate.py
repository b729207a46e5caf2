"""Decisions carried from one release of a terminology to the next. Of every decision in force:

    follows    one other concept replaces its concept, has its id now, or is the standard one that OMOP maps it to: a
               new decision takes the place of the old
    reopened   any other change of `REASONS`: the row is open again, for all its reviewers
    (stands)   everything else: nothing is written

Of a concept with several codes (joined by "|") each is judged: one reopened code reopens the decision. A forgotten
decision that does not stand is undone, so that `restore` does not bring it back. A project is migrated whole or not at
all; an interrupted run goes on with the next project, and a repeated one finds nothing to do.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita.mappings import record
from alphita.review.records import FINAL, Decision, Project, Rebase, ReviewRow, Standing
from alphita.terminology import prefixes
from alphita.terminology.changes import JOINT, changed_prefixes, facts, under
from alphita.terminology.store import DOMAIN, MAPS_TO, STANDARD, Concept, Terminology
from alphita.terminology.text import clean

if TYPE_CHECKING:
    from alphita.review.store import ReviewStore

FOLLOWS, REOPENED = "follows", "reopened"
# reason -> what it means.
REASONS = {
    "replaced": "the concept is retired; one other replaces it",
    "prefix": "the release has the concept under another prefix, with the same number and name",
    "merged": "the concept's id is an alternative id of one other now",
    "removed": "the new release does not know the concept",
    "retired": "the concept is retired and nothing live replaces it; those to consider are named",
    "split": "several concepts replace it, or have its id as an alternative one",
    "renamed": "the concept has another preferred term",
    "no longer standard": "the concept lost OMOP's standard flag; what it maps to, if it is one concept, replaces it",
    "domain": "the concept, or what replaces it, is of another domain of OMOP, and belongs in another table",
    "term lost": "the term that spoke for the concept is no more one of its terms",
    "newly named": "the mention is a name of other concepts in the new release, and was not in the old one",
    "beside": "another decision about the row is re-opened",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a decision that does not stand; `new_concept` of a REOPENED one: candidates joined by JOINT."""

    fate: str
    reason: str
    old_name: str = ""
    new_concept: str = ""
    new_name: str = ""
    detail: str = ""


class Releases:
    """Two releases of a terminology, the older first, asked concept by concept: nothing is read that is not asked."""

    def __init__(self, old: Terminology, new: Terminology) -> None:
        self.old, self.new = old, new
        self._outcomes: dict[str, Outcome | None] = {}
        self._concepts: dict[tuple[str, str], Concept | None] = {}

    @functools.cached_property
    def prefixes(self) -> dict[str, str]:
        """The prefixes that changed, old -> new; asked where an id is not found."""
        return changed_prefixes(self.old, self.new)

    def fate(self, row: ReviewRow, decision: Decision) -> Outcome | None:
        """Return what becomes of a decision that says what a row means; None: it stands."""
        curies = decision.concept_id.split("|") if decision.concept_id is not None else []
        fates = {curie: fate for curie in curies if (fate := self._of_concept(curie)) is not None}
        for curie, fate in fates.items():
            if fate.fate == REOPENED:
                named = f"{curie}: {fate.detail}" if fate.detail else curie
                return fate if len(curies) == 1 else replace(fate, detail=named)
        if not fates:
            return self._term_lost(row, decision.concept_id, curies) or self._newly_named(row.mention, curies)
        found = self._joined(curies, fates)
        # What the mention itself names now is a better guess than what its concept was merged into.
        return self._newly_named(row.mention, found.new_concept.split("|"), found.old_name) or found

    def concerns(self, row: ReviewRow) -> bool:
        """Tell whether an undecided row needs other candidates: one of its own changed, or a concept is named so."""
        curies = [curie for one in row.candidates for curie in (one.concept_id or "").split("|") if curie]
        is_changed = any(self._of_concept(curie) is not None for curie in curies)
        return not curies or is_changed or self._newly_named(row.mention, curies) is not None

    def _joined(self, curies: Sequence[str], fates: Mapping[str, Outcome]) -> Outcome:
        """Return the fate of several codes of one concept, of which those in `fates` follow and the others stand."""
        if len(curies) == 1:
            return fates[curies[0]]
        ids = [fates[curie].new_concept if curie in fates else curie for curie in curies]
        old_name, new_name = _names(self._found(self.old, curies)), _names(self._found(self.new, ids))
        detail = "; ".join(f"{one} -> {fate.new_concept}" for one, fate in fates.items())
        reason = next(iter(fates.values())).reason
        return Outcome(FOLLOWS, reason, old_name, "|".join(dict.fromkeys(ids)), new_name, detail)

    def _of_concept(self, curie: str) -> Outcome | None:
        """Return what became of a concept, told once for all decisions."""
        if curie not in self._outcomes:
            self._outcomes[curie] = self._concept_outcome(curie)
        return self._outcomes[curie]

    def _concept_outcome(self, curie: str) -> Outcome | None:
        was, heirs = self._find(self.old, curie), self._heirs(curie)
        old_name = was.name if was is not None else ""
        if not heirs:
            return Outcome(REOPENED, "removed", old_name)
        if len(heirs) > 1:
            return self._open("split", old_name, heirs)
        now = heirs[0]
        if now.retired:
            return self._replaced(was, now, old_name)
        # An alternative id then and now says the same as before.
        same = now.id == prefixes.normalize(curie) or (was is not None and was.id == now.id)
        is_moved = not same and now.id == under(prefixes.normalize(curie), self.prefixes)
        if not same and not is_moved:
            return self._settled(was, now, "merged", old_name)
        if is_moved and was is not None and clean(was.name) == clean(now.name):
            return self._settled(was, now, "prefix", old_name)
        if was is None or clean(was.name) == clean(now.name):
            return None if was is None else self._settled(was, now, "", old_name)
        kept = clean(was.name) in _strings(now)
        detail = "the old name is a synonym now" if kept else "the old name is none of its terms now"
        return Outcome(REOPENED, "renamed", old_name, now.id, now.name, detail)

    def _settled(
        self, was: Concept | None, now: Concept, reason: str, old_name: str, detail: str = ""
    ) -> Outcome | None:
        """Return the fate of a concept that is a live one now: what OMOP says of it must be as before.

        Where it is not standard any more, the single standard concept that it maps to takes its place.
        """
        if was is not None and _is_standard(was) and not _is_standard(now):
            targets = [target for predicate, target in now.xrefs if predicate == MAPS_TO and target != now.id]
            found = self._found(self.new, dict.fromkeys(targets))
            if len(found) != 1 or found[0].retired or not _is_standard(found[0]):
                return self._open("no longer standard", old_name, found)
            now, reason = found[0], reason or "no longer standard"
        before = was.row if was is not None else None
        domains = ["" if before is None else JOINT.join(self.old.semantic_types_of(before, DOMAIN))]
        domains.append(JOINT.join(self.new.semantic_types_of(now.row, DOMAIN)))
        if "" not in domains and domains[0] != domains[1]:
            return Outcome(REOPENED, "domain", old_name, now.id, now.name, " -> ".join(domains))
        return Outcome(FOLLOWS, reason, old_name, now.id, now.name, detail) if reason else None

    def _replaced(self, was: Concept | None, now: Concept, old_name: str) -> Outcome | None:
        """Return the fate of a concept that is retired: it follows single replacements until a live concept comes."""
        passed = [now.id]
        while now.retired:
            targets = list(dict.fromkeys(now.replaced_by))
            if not targets:
                return self._open("retired", old_name, self._found(self.new, now.consider))
            heirs = [heir for target in targets for heir in self._heirs(target)]
            heirs = list({heir.id: heir for heir in heirs}.values())
            if len(targets) > 1 or len(heirs) > 1:
                return self._open("split", old_name, heirs)
            if not heirs or heirs[0].id in passed:
                problem = "leads in a circle" if heirs else f"{targets[0]} is not known"
                return Outcome(REOPENED, "retired", old_name, detail=f"its replacement {problem}")
            now = heirs[0]
            passed.append(now.id)
        return self._settled(was, now, "replaced", old_name, " -> ".join(passed) if len(passed) > 2 else "")

    def _term_lost(self, row: ReviewRow, concept: str | None, curies: Sequence[str]) -> Outcome | None:
        """Return a fate if the term by which the concept was found was its own before, and is not now."""
        terms = [
            candidate.matched_term
            for candidate in row.candidates
            if candidate.concept_id == concept and candidate.matched_term
        ]
        if concept is None or not terms:
            return None
        term = clean(str(terms[0]))
        was, now = self._found(self.old, curies), self._found(self.new, curies)
        was_own, is_own = (any(term in _strings(known) for known in release) for release in (was, now))
        if not now or not was_own or is_own:
            return None
        owners = [owner for owner in self._named(self.new, term) if not owner.retired]
        fate = self._open("term lost", _names(was), owners)
        where = "a term of these now" if owners else "no concept's term now"
        return replace(fate, detail=f"{terms[0]!r} is {where}")

    def _newly_named(self, mention: str, curies: Sequence[str], old_name: str = "") -> Outcome | None:
        """Return a fate if the mention names live concepts that it did not name before, and no decided one."""
        now = {concept.id: concept for concept in self._named(self.new, mention) if not concept.retired}
        if not now or any(concept.id in now for concept in self._found(self.new, curies)):
            return None
        before = {concept.id for concept in self._named(self.old, mention)}
        fresh = [concept for name, concept in now.items() if name not in before]
        was = old_name or _names(self._found(self.old, curies))
        return self._open("newly named", was, fresh) if fresh else None

    @staticmethod
    def _open(reason: str, old_name: str, meant: list[Concept]) -> Outcome:
        ids, names = (JOINT.join(getattr(concept, name) for concept in meant) for name in ("id", "name"))
        return Outcome(REOPENED, reason, old_name, ids, names)

    def _heirs(self, curie: str) -> list[Concept]:
        """Return the concept of the new release with this id; else those that have it as an alternative one."""
        normal = prefixes.normalize(curie)
        found = self._find(self.new, curie)
        if found is None and self.prefixes:
            normal = under(normal, self.prefixes)
            found = self._find(self.new, normal)
        if found is None or found.id == normal:
            return [] if found is None else [found]
        aliases = self.new.side_table("aliases")
        owners = aliases.filter(pc.equal(aliases.column("alias"), normal)).column("concept").to_pylist()
        return [self.new.concept(row) for row in dict.fromkeys(owners)]

    def _find(self, release: Terminology, curie: str) -> Concept | None:
        """Return a concept by its id or an alternative one; None: it is not there."""
        key = (release.content_hash, curie)
        if key not in self._concepts:
            try:
                self._concepts[key] = release.concept(curie)
            except InputError:
                self._concepts[key] = None
        return self._concepts[key]

    def _found(self, release: Terminology, curies: Iterable[str]) -> list[Concept]:
        return [concept for concept in (self._find(release, curie) for curie in curies) if concept is not None]

    @staticmethod
    def _named(release: Terminology, string: str) -> list[Concept]:
        """Return the concepts of which a string, cleaned, is an exact term."""
        wanted = clean(string)

        def is_named(concept: Concept) -> bool:
            return any(term.scope == "exact" and clean(term.string) == wanted for term in concept.terms)

        return [found for found in map(release.concept, release.search(string)) if is_named(found)]


def _names(concepts: Sequence[Concept]) -> str:
    return JOINT.join(dict.fromkeys(concept.name for concept in concepts))


def _is_standard(concept: Concept) -> bool:
    return (STANDARD, "S") in concept.properties


def _strings(concept: Concept) -> set[str]:
    return {clean(term.string) for term in concept.terms}


REVIEWER = "migration"

# Gives rows their candidates in the new release, best first, by row id.
Ranking = Callable[[Sequence[ReviewRow]], Mapping[int, Sequence[record.Mapping]]]


@dataclass(frozen=True, slots=True)
class Change:
    """One decision that does not stand: a line of the table; `old_concept` "": NIL or a plain rejection."""

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
    """What a migration does to one project; `unsettled`: rows that need other candidates."""

    project: Project
    follow: dict[int, Decision] = field(default_factory=dict)
    reopen: set[int] = field(default_factory=set)
    unsettled: list[ReviewRow] = field(default_factory=list)
    standing: int = 0
    lost: set[int] = field(default_factory=set)
    seen: int = 0


@dataclass(frozen=True)
class MigrationPlan:
    """What a migration from one release (name, content_hash, versions) to another changes."""

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
            found = _outcomes(releases, one)
            changes += [_change(one.row, decision, fate) for decision, fate in found]
            standing += sum(decision.kind in FINAL for decision in one.decisions) - len(found)
            follow = {decision.id: _following(decision, fate, told) for decision, fate in found if fate.fate == FOLLOWS}
            part.follow.update(follow)
            part.lost.update(
                late.id for late in forgotten.get(one.row.id, ()) if releases.fate(one.row, late) is not None
            )
            if len(found) > len(follow):
                part.reopen.add(one.row.id)
            if len(found) > len(follow) or (not one.settled and releases.concerns(one.row)):
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
            types=named,
            **{name: getattr(part, name) for name in ("reopen", "lost", "seen")},
        )
        uid = f"migration:{artefact.hash_json([name, planned.old, planned.new])[:32]}"
        store.rebase(name, REVIEWER, uid, change)
    return len(planned.parts)


def _past(store: ReviewStore, project: str) -> tuple[int, dict[int, list[Decision]]]:
    """Return the id of the newest decision, and the forgotten ones that restoring would bring back, by row."""
    newest, undone, forgotten = 0, set(), []
    for decision in store.history(project):
        newest = decision.id
        if decision.undoes is not None:
            undone.add(decision.undoes)
        elif decision.forgotten and decision.kind in FINAL:
            forgotten.append(decision)
    by_row: dict[int, list[Decision]] = {}
    for decision in forgotten:
        if decision.id not in undone:
            by_row.setdefault(decision.row, []).append(decision)
    return newest, by_row


def _outcomes(releases: Releases, standing: Standing) -> list[tuple[Decision, Outcome]]:
    """Return those of a row's decisions that do not stand, with what becomes of them."""
    final = [decision for decision in standing.decisions if decision.kind in FINAL]
    found = [(decision, releases.fate(standing.row, decision)) for decision in final]
    if not any(fate is not None and fate.fate == REOPENED for _, fate in found):
        return [(decision, fate) for decision, fate in found if fate is not None]
    # Who decided otherwise looks again too: one half of a disagreement says little by itself.
    beside = Outcome(REOPENED, "beside")
    return [(decision, fate if fate is not None and fate.fate == REOPENED else beside) for decision, fate in found]


def _change(row: ReviewRow, decision: Decision, fate: Outcome) -> Change:
    about = (row.project, row.id, row.code, row.mention, row.frequency)
    by = (decision.id, decision.reviewer, decision.kind)
    return Change(*about, *by, old_concept=decision.concept_id or "", **asdict(fate))


def _following(decision: Decision, fate: Outcome, new: dict[str, Any]) -> Decision:
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
