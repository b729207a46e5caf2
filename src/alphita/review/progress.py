"""How far a project is, and how well its reviewers agree."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from itertools import combinations

from alphita.review import agreement
from alphita.review.records import Progress


def of(connection: sqlite3.Connection, project_id: int) -> Progress:
    """See `ReviewStore.progress`."""
    by_state = {
        state: (n, occurrences)
        for state, n, occurrences in connection.execute(
            "SELECT state, count(*), sum(frequency) FROM row WHERE project = ? GROUP BY state", (project_id,)
        )
    }
    by_kind: Counter[str] = Counter()
    by_reviewer: Counter[str] = Counter()
    said: dict[int, dict[str, str]] = defaultdict(dict)
    for row, reviewer, kind, meaning in connection.execute(
        "SELECT f.row, d.reviewer, f.kind, f.meaning FROM row r CROSS JOIN in_force f ON f.row = r.id"
        " JOIN decision d ON d.id = f.decision WHERE r.project = ?",
        (project_id,),
    ):
        by_kind[kind] += 1
        by_reviewer[reviewer] += 1
        if meaning is not None and kind != "adjudicate":
            said[row][reviewer] = meaning
    compared = [of_row for of_row in said.values() if len(of_row) > 1]
    pair, both = _pair(compared)
    disagreed = connection.execute(
        "SELECT id FROM row WHERE project = ? AND state = 'disagreed' ORDER BY number, id", (project_id,)
    )
    decided, decided_occurrences = by_state.get("decided", (0, 0))
    return Progress(
        rows=sum(n for n, _ in by_state.values()),
        occurrences=sum(n for _, n in by_state.values()),
        decided=decided,
        decided_occurrences=decided_occurrences,
        by_kind=dict(sorted(by_kind.items())),
        by_reviewer=dict(sorted(by_reviewer.items())),
        compared=len(compared),
        agreed=sum(len(set(of_row.values())) == 1 for of_row in compared),
        kappa=agreement.kappa(both),
        pair=pair,
        disagreed=tuple(id for (id,) in disagreed),
    )


def _pair(compared: list[dict[str, str]]) -> tuple[tuple[str, str] | None, list[tuple[str, str]]]:
    """Return the two reviewers with most rows in common (of as many, the first by name), and what they say of them."""
    common = Counter(pair for of_row in compared for pair in combinations(sorted(of_row), 2))
    if not common:
        return None, []
    first, second = min(common, key=lambda pair: (-common[pair], pair))
    return (first, second), [
        (of_row[first], of_row[second]) for of_row in compared if first in of_row and second in of_row
    ]
