"""A store in lists, written from the definitions alone: everything is worked out anew at each question."""

from __future__ import annotations

from dataclasses import replace

from alphita.review.records import Decision, Project, ReviewRow

FINAL = ("accept", "choose", "nil", "reject", "adjudicate")


class Naive:
    def __init__(self) -> None:
        self.projects: dict[str, Project] = {}
        self.rows: dict[int, ReviewRow] = {}
        self.decisions: list[Decision] = []
        self.forgotten: dict[tuple[str, str], set[int]] = {}

    # What there is

    def is_forgotten(self, one: Decision) -> bool:
        return any(one.id in ids for ids in self.forgotten.values())

    def is_undone(self, one: Decision) -> bool:
        return any(other.undoes == one.id for other in self.decisions if other.kind == "undo")

    def counts(self, one: Decision) -> bool:
        return one.kind != "undo" and not self.is_undone(one) and not self.is_forgotten(one)

    def in_force(self, row: int) -> dict[str, Decision]:
        """By reviewer; the adjudication under ""."""
        slots: dict[str, Decision] = {}
        for decision in self.decisions:
            if decision.row == row and self.counts(decision):
                slots["" if decision.kind == "adjudicate" else decision.reviewer] = decision
        return slots

    def visible(self, row: int, reviewer: str | None) -> list[Decision]:
        slots = self.in_force(row)
        last = [slots.pop("")] if "" in slots else []
        blind = self.projects[self.rows[row].project].blind and reviewer is not None and not last
        own = [one for who, one in slots.items() if not blind or who == reviewer]
        return sorted(own, key=lambda one: one.id, reverse=True) + last

    @staticmethod
    def meaning(one: Decision) -> tuple[str, ...]:
        if one.kind == "reject":
            return ("rejected",)
        return ("means", one.concept_id, one.relation or "exact") if one.concept_id else ("nil",)

    def is_disputed(self, row: int) -> bool:
        said = [one for who, one in self.in_force(row).items() if who and one.kind in FINAL]
        return len({self.meaning(one) for one in said}) > 1

    def stand(self, row: int, reviewer: str | None) -> tuple[str, Decision | None]:
        visible = self.visible(row, reviewer)
        if visible and visible[-1].kind == "adjudicate":
            return "decided", visible[-1]
        said = [decision for decision in visible if decision.kind in FINAL]
        if len({self.meaning(one) for one in said}) > 1:
            return "disagreed", None
        telling = [decision for decision in visible if decision.kind != "skip"]
        if telling and telling[0].kind == "flag":
            return "flagged", None
        return ("decided", said[0]) if said else ("open", None)

    def queue(self, project: str, reviewer: str | None, order: str, state: str) -> list[int]:
        rows = [row for row in self.rows.values() if row.project == project]
        rows = [row for row in rows if state in ("all", self.stand(row.id, reviewer)[0])]
        keys = {
            "risk": lambda row: -row.risk,
            "frequency": lambda row: -row.frequency,
            "confidence": lambda row: -1.0 if row.confidence is None else row.confidence,
            "row": lambda row: 0,
        }
        rows.sort(key=lambda row: (keys[order](row), row.number, row.id))
        if reviewer is not None and state == "open":
            skipped = {row.id: self.in_force(row.id).get(reviewer) for row in rows}
            later = [value.row for value in skipped.values() if value is not None and value.kind == "skip"]
            later.sort(key=lambda id: skipped[id].id)
            return [row.id for row in rows if row.id not in later] + later
        return [row.id for row in rows]

    def remembered(self, source: str, form: str, cleaned: dict[int, str]) -> Decision | None:
        found = [
            self.stand(row.id, None)[1]
            for row in self.rows.values()
            if self.projects[row.project].source == source and cleaned[row.id] == form
        ]
        return max((one for one in found if one and one.kind != "reject"), key=lambda one: one.id, default=None)

    # What is done

    def decide(self, decision: Decision) -> Decision:
        self.decisions.append(replace(decision, id=len(self.decisions) + 1))
        return self.decisions[-1]

    def undo(self, project: str, reviewer: str, uid: str) -> list[int]:
        own = [decision for decision in self.decisions if decision.project == project and decision.reviewer == reviewer]
        own = [decision for decision in reversed(own) if self.counts(decision)]
        taken = own[:1]
        if taken and taken[0].bulk:
            taken = [decision for decision in own if decision.bulk == taken[0].bulk]
        for one in taken:
            self.decide(Decision(f"{uid} {one.id}", project, one.row, reviewer, "undo", undoes=one.id))
        return [decision.id for decision in taken]

    def bulk(self, project: str, reviewer: str, uid: str, threshold: float, types: list[str]) -> list[int]:
        found = []
        for row in sorted(self.rows.values(), key=lambda row: (row.number, row.id)):
            wanted = row.project == project and (not types or set(types) & set(row.types))
            sure = row.confidence is not None and row.confidence >= threshold
            if wanted and sure and self.stand(row.id, reviewer)[0] == "open":
                concept = row.candidates[0].concept_id
                kind = "accept" if concept else "nil"
                self.decide(Decision(f"{uid} {row.id}", project, row.id, reviewer, kind, concept, bulk=uid))
                found.append(row.id)
        return found

    def of(self, what: str, name: str) -> set[int]:
        def key(one: Decision) -> str:
            source = self.projects[one.project].source
            return {"source": source, "project": one.project, "reviewer": one.reviewer}[what]

        return {decision.id for decision in self.decisions if key(decision) == name}

    def forgotten_decisions(self) -> set[int]:
        some = (decision for decision in self.decisions if decision.kind != "undo" and self.is_forgotten(decision))
        return {one.id for one in some if not self.is_undone(one)}

    def forget(self, what: str, name: str) -> int:
        before = self.forgotten_decisions()
        self.forgotten[what, name] = self.of(what, name)
        return len(self.forgotten_decisions() - before)

    def restore(self, what: str, name: str) -> int:
        before = self.forgotten_decisions()
        self.forgotten.pop((what, name), None)
        return len(before - self.forgotten_decisions())
