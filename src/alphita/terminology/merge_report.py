"""What a merge says of itself: a row for each claim that joined or was refused, and counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.joining import Claim, Refusal
from alphita.terminology.merge_claims import Claims, Evidence, names_agree
from alphita.terminology.merge_nodes import Nodes

JOINED_COLUMNS = ("id", "first", "first_name", "second", "second_name", "names_agree", "evidence")
CONFLICT_COLUMNS = (
    "kind",
    "source",
    "concept",
    "name",
    "other",
    "other_name",
    "refused_first",
    "refused_second",
    "names_agree",
    "chain",
)


def joined_row(nodes: Nodes, claim: Claim, root: NDArray[np.int64]) -> dict[str, str]:
    """Return a row of `JOINED_COLUMNS` for a claim that joined two nodes."""
    first, second = claim.first, claim.second
    values = (
        nodes.ids[root[first]],
        nodes.ids[first],
        nodes.name(first),
        nodes.ids[second],
        nodes.name(second),
        names_agree(claim),
        str(claim.evidence),
    )
    return dict(zip(JOINED_COLUMNS, values, strict=True))


def conflict_row(nodes: Nodes, refusal: Refusal) -> dict[str, str]:
    """Return a row of `CONFLICT_COLUMNS` for a claim that was refused."""
    concept, other = refusal.kept_apart
    source = nodes.sources[concept] if nodes.sources[concept] == nodes.sources[other] else ""
    values = (
        refusal.kind,
        source,
        nodes.ids[concept],
        nodes.name(concept),
        nodes.ids[other],
        nodes.name(other),
        nodes.ids[refusal.claim.first],
        nodes.ids[refusal.claim.second],
        names_agree(refusal.claim),
        _chain(nodes, refusal),
    )
    return dict(zip(CONFLICT_COLUMNS, values, strict=True))


def counts(
    nodes: Nodes, claims: Claims, root: NDArray[np.int64], conflicts: Sequence[Mapping[str, str]]
) -> dict[str, dict[str, int]]:
    """Return what was read, joined, refused and left out."""
    members = Counter(root[: nodes.n_real].tolist())
    clusters: defaultdict[int, set[str]] = defaultdict(set)
    for node in np.flatnonzero(root[: nodes.n_real] != np.arange(nodes.n_real)).tolist():
        clusters[int(root[node])] |= {nodes.sources[node], nodes.sources[root[node]]}
    together = Counter(" + ".join(sorted(found)) for found in clusters.values())
    return {
        "concepts": {
            "read": sum(len(tables.concepts) for tables in nodes.tables),
            "distinct ids": nodes.n_real,
            "after the merge": len(members),
            "made of several": len(clusters),
        },
        "merged concepts by their sources": ordered(together),
        "refused": ordered(Counter(row["kind"] for row in conflicts)),
        "refused, by source of the concepts kept apart": ordered(
            Counter(row["source"] for row in conflicts if row["source"])
        ),
        "statements by policy": ordered(claims.statements),
        "relations made of mappings": ordered(Counter(label for _, label, _, _ in claims.relations)),
        "left out": ordered(claims.dropped),
    }


def ordered(counts: Counter[str]) -> dict[str, int]:
    """Return the counts above 0, the greatest first."""
    return dict(sorted(((name, n) for name, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))


def _chain(nodes: Nodes, refusal: Refusal) -> str:
    at = refusal.kept_apart[0]
    text = nodes.ids[at]
    for claim in refusal.chain:
        evidence = claim.evidence
        assert isinstance(evidence, Evidence)
        evidence = evidence if claim.first == at else evidence.turned()
        # A statement may name a concept by an alternative id, or by that of a retired one.
        if evidence.ids[0] != nodes.ids[at]:
            text += f" (as {evidence.ids[0]})"
        at = claim.second if claim.first == at else claim.first
        text += str(evidence)[len(evidence.ids[0]) :]
        if evidence.ids[-1] != nodes.ids[at]:
            text += f" (that is {nodes.ids[at]})"
    return text
