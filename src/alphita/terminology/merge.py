"""Several terminologies become one, by their cross-references and by SSSOM mapping files.

What a statement "A predicate B" does is a matter of policy, by the kind of its predicate:

    join     A and B are taken for one concept, unless that would put two live concepts of one source together
    names    the same, but only where A and B have an exact term in common
    relate   A and B stay apart; a relation leads from A to B
    ignore   it stays what it is, a cross-reference

Two concepts that both refer to the same third one, which is in none of the terminologies (a UMLS CUI, say), are joined
over it. A merged concept has the id of its first source, in the order the terminologies are given in; it answers to the
ids of the others too. Every fact keeps its source. Retired concepts are not joined: a statement about one that has a
single replacement is read as being about that.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita.errors import Rejects, UsageError
from alphita.terminology import joining, merge_report, sssom
from alphita.terminology.joining import Claim, Refusal
from alphita.terminology.merge_claims import Claims
from alphita.terminology.merge_nodes import Nodes
from alphita.terminology.merge_policy import Options as Options
from alphita.terminology.merge_report import CONFLICT_COLUMNS as CONFLICT_COLUMNS
from alphita.terminology.merge_report import JOINED_COLUMNS as JOINED_COLUMNS
from alphita.terminology.merge_tables import merged_tables
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology


@dataclass
class Merged:
    """What came of a merge.

    Attributes:
        tables: the merged terminology, to be saved.
        joined: a row for each claim that joined two concepts, `JOINED_COLUMNS`.
        conflicts: a row for each claim that was refused, `CONFLICT_COLUMNS`.
        counts: what was read, joined, refused and left out.
    """

    tables: Tables
    joined: list[dict[str, str]] = field(default_factory=list)
    conflicts: list[dict[str, str]] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)


def merge(
    terminologies: Sequence[Terminology],
    mappings: Sequence[Path] = (),
    options: Options | None = None,
    rejects: Rejects | None = None,
) -> Merged:
    """Merge terminologies, the one whose ids win first.

    Args:
        terminologies: in the order of their priority.
        mappings: SSSOM/TSV files.
        options: the policy.
        rejects: takes bad rows of the mapping files.

    Raises:
        InputError: a mapping file is none.
        UsageError: there is nothing to merge.
    """
    if not terminologies or (len(terminologies) == 1 and not mappings):
        raise UsageError("give at least two terminologies, or one and a mapping file")
    rejects = rejects if rejects is not None else Rejects(None)
    sets = [sssom.read(Path(path), rejects) for path in mappings]
    with _uncollected():
        return _merged(terminologies, sets, options or Options())


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from walking, again and again, over millions of tuples that live to the end."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _merged(terminologies: Sequence[Terminology], sets: Sequence[sssom.MappingSet], options: Options) -> Merged:
    nodes = Nodes(terminologies, sets)
    claims = Claims(nodes, sets, options)
    root, used, refused = _join(nodes, claims)
    dropped = claims.dropped
    dropped["concepts with an id that an earlier terminology has"] = nodes.n_repeated
    merged = Merged(merged_tables(nodes, claims, root))
    # How many concepts of the terminologies each node was joined with, itself among them.
    sizes = np.bincount(root[: nodes.n_real], minlength=len(root))[root]
    merged.joined = [merge_report.joined_row(nodes, claim, root) for claim in used if sizes[claim.first] > 1]
    told = [refusal for refusal in refused if sizes[refusal.claim.first] and sizes[refusal.claim.second]]
    merged.conflicts = [merge_report.conflict_row(nodes, refusal) for refusal in told]
    dropped["refused claims about concepts of no terminology"] = len(refused) - len(told)
    merged.tables.dropped = merge_report.ordered(dropped)
    merged.counts = merge_report.counts(nodes, claims, root, merged.conflicts)
    return merged


def _join(nodes: Nodes, claims: Claims) -> tuple[NDArray[np.int64], list[Claim], list[Refusal]]:
    """Join over the nodes that claims name, renumbered; return each node's root, and the claims used and refused."""
    back = sorted({node for claim in claims.claims for node in (claim.first, claim.second)})
    local = {node: place for place, node in enumerate(back)}
    renumbered = [claim._replace(first=local[claim.first], second=local[claim.second]) for claim in claims.claims]
    known = [(local[first], local[second]) for first, second in claims.vetoes if first in local and second in local]
    found = joining.join([nodes.sources[node] for node in back], renumbered, known)
    root = np.arange(len(nodes.frame), dtype=np.int64)
    for place, first in enumerate(found.root):
        root[back[place]] = back[first]

    def restored(claim: Claim) -> Claim:
        return claim._replace(first=back[claim.first], second=back[claim.second])

    refused = [
        Refusal(
            refusal.kind,
            restored(refusal.claim),
            (back[refusal.kept_apart[0]], back[refusal.kept_apart[1]]),
            tuple(map(restored, refusal.chain)),
        )
        for refusal in found.refused
    ]
    return root, [restored(claim) for claim in found.used], refused
