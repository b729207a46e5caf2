"""What a new release of a terminology means for one decision.

Of a concept that has several codes (joined by "|") each has its fate: the decision stands if all stand, it follows if
those that do not stand follow, and it is re-opened if one is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from alphita.errors import InputError
from alphita.review.records import Decision, ReviewRow
from alphita.terminology import prefixes
from alphita.terminology.changes import changed_prefixes, under
from alphita.terminology.store import DOMAIN, MAPS_TO, STANDARD, Concept, Terminology
from alphita.terminology.text import clean

FOLLOWS, REOPENED = "follows", "reopened"
JOINT = " | "
# reason -> what it means.
REASONS = {
    "replaced": "the concept is retired; one other replaces it",
    "prefix": "the release has the concept under another prefix, with the same number and name",
    "merged": "the concept's id is an alternative id of one other now",
    "removed": "the new release does not know the concept",
    "retired": "the concept is retired and nothing live replaces it; those to consider are named",
    "split": "several concepts replace it, or have its id as an alternative one",
    "renamed": "the concept has another preferred term",
    "no longer standard": "the concept lost OMOP's standard flag; what it maps to now is named",
    "domain": "the concept is of another domain of OMOP, and belongs in another table",
    "term lost": "the term that spoke for the concept is no more one of its terms",
    "newly named": "the mention is a name of other concepts in the new release, and was not in the old one",
    "beside": "another decision about the row is re-opened",
}


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a decision that does not stand.

    Attributes:
        fate: FOLLOWS or REOPENED.
        reason: one of `REASONS`.
        old_name: the decided concept's name in the old release; "" without a concept.
        new_concept: what it follows to (several codes of one concept joined by "|"), or what may be meant now (several
            concepts joined by " | ").
        new_name: its name, likewise.
        detail: more about the reason.
    """

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
        self._fates: dict[str, Fate | None] = {}
        self._concepts: dict[tuple[str, str], Concept | None] = {}

    @functools.cached_property
    def prefixes(self) -> dict[str, str]:
        """The prefixes that changed, old -> new; asked where an id is not found."""
        return changed_prefixes(self.old, self.new)

    def fate(self, row: ReviewRow, decision: Decision) -> Fate | None:
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

    def _joined(self, curies: Sequence[str], fates: Mapping[str, Fate]) -> Fate:
        """Return the fate of several codes of one concept, of which those in `fates` follow and the others stand."""
        if len(curies) == 1:
            return fates[curies[0]]
        ids = [fates[curie].new_concept if curie in fates else curie for curie in curies]
        old_name, new_name = _names(self._found(self.old, curies)), _names(self._found(self.new, ids))
        detail = "; ".join(f"{one} -> {fate.new_concept}" for one, fate in fates.items())
        reason = next(iter(fates.values())).reason
        return Fate(FOLLOWS, reason, old_name, "|".join(dict.fromkeys(ids)), new_name, detail)

    def _of_concept(self, curie: str) -> Fate | None:
        """Return what became of a concept, told once for all decisions."""
        if curie not in self._fates:
            self._fates[curie] = self._concept_fate(curie)
        return self._fates[curie]

    def _concept_fate(self, curie: str) -> Fate | None:
        was, heirs = self._find(self.old, curie), self._heirs(curie)
        old_name = was.name if was is not None else ""
        if not heirs:
            return Fate(REOPENED, "removed", old_name)
        if len(heirs) > 1:
            return self._open("split", old_name, heirs)
        now = heirs[0]
        if now.retired:
            return self._replaced(now, old_name)
        # An alternative id then and now says the same as before.
        same = now.id == prefixes.normalize(curie) or (was is not None and was.id == now.id)
        is_moved = not same and now.id == under(prefixes.normalize(curie), self.prefixes)
        if not same and not is_moved:
            return Fate(FOLLOWS, "merged", old_name, now.id, now.name)
        if is_moved and was is not None and clean(was.name) == clean(now.name):
            return Fate(FOLLOWS, "prefix", old_name, now.id, now.name)
        if was is None or clean(was.name) == clean(now.name):
            return None if was is None else self._restated(was, now)
        kept = clean(was.name) in _strings(now)
        detail = "the old name is a synonym now" if kept else "the old name is none of its terms now"
        return Fate(REOPENED, "renamed", old_name, now.id, now.name, detail)

    def _restated(self, was: Concept, now: Concept) -> Fate | None:
        """Return the fate of a concept of the same name that is no longer standard, or of another domain."""
        standard = STANDARD, "S"
        if standard in was.properties and standard not in now.properties:
            targets = [target for predicate, target in now.xrefs if predicate == MAPS_TO and target != now.id]
            return self._open("no longer standard", was.name, self._found(self.new, targets))
        domains = [
            JOINT.join(release.semantic_types_of(known.row, DOMAIN))
            for release, known in ((self.old, was), (self.new, now))
        ]
        if "" in domains or domains[0] == domains[1]:
            return None
        return Fate(REOPENED, "domain", was.name, now.id, now.name, " -> ".join(domains))

    def _replaced(self, now: Concept, old_name: str) -> Fate:
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
                return Fate(REOPENED, "retired", old_name, detail=f"its replacement {problem}")
            now = heirs[0]
            passed.append(now.id)
        return Fate(FOLLOWS, "replaced", old_name, now.id, now.name, " -> ".join(passed) if len(passed) > 2 else "")

    def _term_lost(self, row: ReviewRow, concept: str | None, curies: Sequence[str]) -> Fate | None:
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

    def _newly_named(self, mention: str, curies: Sequence[str], old_name: str = "") -> Fate | None:
        """Return a fate if the mention names live concepts that it did not name before, and no decided one."""
        now = {concept.id: concept for concept in self._named(self.new, mention) if not concept.retired}
        if not now or any(concept.id in now for concept in self._found(self.new, curies)):
            return None
        before = {concept.id for concept in self._named(self.old, mention)}
        fresh = [concept for name, concept in now.items() if name not in before]
        was = old_name or _names(self._found(self.old, curies))
        return self._open("newly named", was, fresh) if fresh else None

    @staticmethod
    def _open(reason: str, old_name: str, meant: list[Concept]) -> Fate:
        ids, names = (JOINT.join(getattr(concept, name) for concept in meant) for name in ("id", "name"))
        return Fate(REOPENED, reason, old_name, ids, names)

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

    def _found(self, release: Terminology, curies: Sequence[str]) -> list[Concept]:
        """Return those concepts that are there."""
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


def _strings(concept: Concept) -> set[str]:
    return {clean(term.string) for term in concept.terms}
