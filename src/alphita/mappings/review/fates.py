"""What a new release of a terminology means for one decision."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from alphita.errors import InputError
from alphita.mappings.review.records import Decision, Row
from alphita.terminology import prefixes
from alphita.terminology.concept import Concept
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

FOLLOWS, REOPENED = "follows", "reopened"
JOINT = " | "
# reason -> what it means.
REASONS = {
    "replaced": "the concept is retired; one other replaces it",
    "merged": "the concept's id is an alternative id of one other now",
    "removed": "the new release does not know the concept",
    "retired": "the concept is retired and nothing live replaces it; those to consider are named",
    "split": "several concepts replace it, or have its id as an alternative one",
    "renamed": "the concept has another preferred term",
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
        new_concept: what it follows to, or what may be meant now; several joined by " | ".
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
        """Take them as they are."""
        self.old, self.new = old, new
        self._fates: dict[str, Fate | None] = {}
        self._concepts: dict[tuple[str, str], Concept | None] = {}

    def fate(self, row: Row, decision: Decision) -> Fate | None:
        """Return what becomes of a decision that says what a row means; None: it stands."""
        concept = decision.concept_id
        found = self._of_concept(concept) if concept is not None else None
        if found is None:
            return self._term_lost(row, concept) or self._newly_named(row.mention, concept)
        if found.fate == FOLLOWS:
            # What the mention itself names now is a better guess than what its concept was merged into.
            return self._newly_named(row.mention, found.new_concept, found.old_name) or found
        return found

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
        if not same:
            return Fate(FOLLOWS, "merged", old_name, now.id, now.name)
        if was is None or clean(was.name) == clean(now.name):
            return None
        kept = clean(was.name) in _strings(now)
        detail = "the old name is a synonym now" if kept else "the old name is none of its terms now"
        return Fate(REOPENED, "renamed", old_name, now.id, now.name, detail)

    def _replaced(self, now: Concept, old_name: str) -> Fate:
        """Return the fate of a concept that is retired: it follows single replacements until a live concept comes."""
        passed = [now.id]
        while now.retired:
            targets = list(dict.fromkeys(now.replaced_by))
            if not targets:
                considered = [one for one in (self._find(self.new, curie) for curie in now.consider) if one is not None]
                return self._open("retired", old_name, considered)
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

    def _term_lost(self, row: Row, curie: str | None) -> Fate | None:
        """Return a fate if the term by which the concept was found was its own before, and is not now."""
        terms = [one.matched_term for one in row.candidates if one.concept_id == curie and one.matched_term]
        if curie is None or not terms:
            return None
        term = clean(str(terms[0]))
        was, now = self._find(self.old, curie), self._find(self.new, curie)
        if was is None or now is None or term not in _strings(was) or term in _strings(now):
            return None
        owners = [one for one in self._named(self.new, term) if not one.retired]
        fate = self._open("term lost", was.name, owners)
        where = "a term of these now" if owners else "no concept's term now"
        return Fate(fate.fate, fate.reason, was.name, fate.new_concept, fate.new_name, f"{terms[0]!r} is {where}")

    def _newly_named(self, mention: str, curie: str | None, old_name: str = "") -> Fate | None:
        """Return a fate if the mention names live concepts that it did not name before, and not the decided one."""
        now = {one.id: one for one in self._named(self.new, mention) if not one.retired}
        known = self._find(self.new, curie) if curie is not None else None
        if not now or (known is not None and known.id in now):
            return None
        before = {one.id for one in self._named(self.old, mention)}
        fresh = [one for name, one in now.items() if name not in before]
        was = self._find(self.old, curie) if curie is not None and not old_name else None
        return self._open("newly named", was.name if was is not None else old_name, fresh) if fresh else None

    @staticmethod
    def _open(reason: str, old_name: str, meant: list[Concept]) -> Fate:
        ids, names = (JOINT.join(getattr(one, name) for one in meant) for name in ("id", "name"))
        return Fate(REOPENED, reason, old_name, ids, names)

    def _heirs(self, curie: str) -> list[Concept]:
        """Return the concept of the new release with this id; else those that have it as an alternative one."""
        normal = prefixes.normalize(curie)
        found = self._find(self.new, curie)
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

    @staticmethod
    def _named(release: Terminology, string: str) -> list[Concept]:
        """Return the concepts of which a string, cleaned, is an exact term."""
        wanted = clean(string)

        def is_named(concept: Concept) -> bool:
            return any(term.scope == "exact" and clean(term.string) == wanted for term in concept.terms)

        return [one for one in (release.concept(row) for row in release.search(string)) if is_named(one)]


def _strings(concept: Concept) -> set[str]:
    return {clean(term.string) for term in concept.terms}
