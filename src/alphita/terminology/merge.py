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

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import Rejects, UsageError
from alphita.terminology import joining, model, sssom
from alphita.terminology.joining import Claim, Refusal
from alphita.terminology.merge_claims import Claims, Evidence, Nodes, names_agree
from alphita.terminology.merge_claims import Options as Options
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology


@dataclass
class Merged:
    """What came of a merge."""

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
    """Merge terminologies, the one whose ids win first."""
    if not terminologies or (len(terminologies) == 1 and not mappings):
        raise UsageError("give at least two terminologies, or one and a mapping file")
    rejects = rejects if rejects is not None else Rejects(None)
    sets = [sssom.read(Path(path), rejects) for path in mappings]
    with machine.uncollected():
        return _merged(terminologies, sets, options or Options())


def _merged(terminologies: Sequence[Terminology], sets: Sequence[sssom.MappingSet], options: Options) -> Merged:
    nodes = Nodes(terminologies, sets)
    claims = Claims(nodes, sets, options)
    root, used, refused = _join(nodes, claims)
    dropped = claims.dropped
    dropped["concepts with an id that an earlier terminology has"] = nodes.n_repeated
    merged = Merged(merged_tables(nodes, claims, root))
    # How many concepts of the terminologies each node was joined with, itself among them.
    sizes = np.bincount(root[: nodes.n_real], minlength=len(root))[root]
    merged.joined = [joined_row(nodes, claim, root) for claim in used if sizes[claim.first] > 1]
    told = [refusal for refusal in refused if sizes[refusal.claim.first] and sizes[refusal.claim.second]]
    merged.conflicts = [conflict_row(nodes, refusal) for refusal in told]
    dropped["refused claims about concepts of no terminology"] = len(refused) - len(told)
    merged.tables.dropped = ordered(dropped)
    merged.counts = counts(nodes, claims, root, merged.conflicts)
    return merged


def _join(nodes: Nodes, claims: Claims) -> tuple[NDArray[np.int64], list[Claim], list[Refusal]]:
    """Join over the nodes that claims name, renumbered; return each node's root, and the claims used and refused."""
    back = sorted({node for claim in claims.claims for node in (claim.first, claim.second)})
    local = {node: place for place, node in enumerate(back)}
    renumbered = [claim._replace(first=local[claim.first], second=local[claim.second]) for claim in claims.claims]
    known = [(local[first], local[second]) for first, second in claims.vetoes if first in local and second in local]
    joined = joining.join([nodes.sources[node] for node in back], renumbered, known)
    root = np.arange(len(nodes.frame), dtype=np.int64)
    for place, first in enumerate(joined.root):
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
        for refusal in joined.refused
    ]
    return root, [restored(claim) for claim in joined.used], refused


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
    together = Counter(" + ".join(sorted(members)) for members in clusters.values())
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


_FEW = frozenset(
    {"source", "language", "scope", "type", "status", "term_type", "predicate", "semantic_type", "relation"}
)
SIDE_TABLES = ("definitions", "semantic_types", "xrefs", "replacements", "properties")


def merged_tables(nodes: Nodes, claims: Claims, root: NDArray[np.int64]) -> Tables:
    """Return the merged terminology."""
    return _Gatherer(nodes, claims).tables(root)


class _Gatherer:
    """Gathers the tables one after another."""

    def __init__(self, nodes: Nodes, claims: Claims) -> None:
        self.nodes, self.claims = nodes, claims
        self.dropped: Counter[str] = claims.dropped

    def tables(self, root: NDArray[np.int64]) -> Tables:
        """Gather all tables: the concepts are the roots, in the order of the nodes."""
        real = root[: self.nodes.n_real]
        is_root = real == np.arange(self.nodes.n_real)
        row_of_node = (np.cumsum(is_root) - 1)[real]
        nodes = self.nodes.frame.head(self.nodes.n_real)
        concepts = nodes.filter(is_root).select("id", "source", "retired")

        def gather(name: str) -> pl.DataFrame:
            return self._gathered(name, row_of_node)

        sources = [source for tables in self.nodes.tables for source in tables.sources] + [
            set_.source for set_ in self.claims.sets
        ]
        parents = dict.fromkeys(label for tables in self.nodes.tables for label in tables.parent_relations)
        return Tables(
            concepts=concepts,
            terms=_one_preferred(gather("terms")),
            relations=self._merged_relations(row_of_node),
            aliases=self._merged_aliases(gather("aliases"), nodes, row_of_node, is_root),
            sources=list({str(source): source for source in sources}.values()),
            parent_relations=tuple(parents),
            **{name: gather(name).drop("node") for name in SIDE_TABLES},  # type: ignore[arg-type]
        )

    def _gathered(self, name: str, row_of_node: NDArray[np.int64]) -> pl.DataFrame:
        """Return a table of all terminologies, its concepts as merged rows, in order of priority; no row twice."""
        parts = []
        for tables, nodes in zip(self.nodes.tables, self.nodes.node_of_row, strict=True):
            frame = model.complete(name, getattr(tables, name))
            node = nodes[frame["concept"].to_numpy()]
            parts.append(_plain(frame).with_columns(pl.Series("concept", row_of_node[node]), pl.Series("node", node)))
        if name == "xrefs" and self.claims.extra_xrefs:
            extra = pl.DataFrame(
                self.claims.extra_xrefs, schema=["node", "predicate", "object", "source"], orient="row"
            )
            extra = _plain(extra).with_columns(pl.Series("concept", row_of_node[extra["node"].to_numpy()]))
            parts.append(extra.with_columns(pl.col("node").cast(pl.Int64)).select(parts[0].columns))
        merged = pl.concat(parts).sort("node", maintain_order=True)
        # The same row of the same concept in two terminologies (two releases of one, say) is one fact.
        return merged.unique(maintain_order=True)

    def _merged_relations(self, row_of_node: NDArray[np.int64]) -> pl.DataFrame:
        parts = []
        for tables, nodes in zip(self.nodes.tables, self.nodes.node_of_row, strict=True):
            ends = {
                end: pl.Series(row_of_node[nodes[tables.relations[end].to_numpy()]], dtype=pl.Int32)
                for end in ("head", "tail")
            }
            parts.append(_plain(tables.relations).with_columns(**ends))
        if self.claims.relations:
            extra = pl.DataFrame(self.claims.relations, schema=["head", "relation", "tail", "source"], orient="row")
            moved = [pl.Series(end, row_of_node[extra[end].to_numpy()], dtype=pl.Int32) for end in ("head", "tail")]
            parts.append(_plain(extra.with_columns(moved)).select(parts[0].columns))
        merged = pl.concat(parts)
        kept = merged.filter(pl.col("head") != pl.col("tail"))
        if len(merged) > len(kept):
            self.dropped["relations between concepts that became one"] += len(merged) - len(kept)
        return kept

    def _merged_aliases(
        self, aliases: pl.DataFrame, nodes: pl.DataFrame, row_of_node: NDArray[np.int64], is_root: NDArray[np.bool_]
    ) -> pl.DataFrame:
        """Return the alternative ids: those there were, and the ids of the members."""
        members = _plain(
            nodes.select(pl.Series("concept", row_of_node), pl.col("id").alias("alias"), "source").filter(~is_root)
        )
        old = aliases.select(members.columns).join(nodes.select(alias="id"), on="alias", how="anti")
        if len(old) < len(aliases):
            self.dropped["alternative ids that are concepts of their own"] += len(aliases) - len(old)
        return pl.concat([members, old]).unique().sort("alias", "concept", pl.col("source").cast(pl.String))


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with its columns of few distinct values as Categorical, so that frames can be put together."""
    few = [name for name in frame.columns if name in _FEW or isinstance(frame.schema[name], pl.Enum)]
    return frame.with_columns(pl.col(few).cast(pl.Categorical))


def _one_preferred(terms: pl.DataFrame) -> pl.DataFrame:
    """Leave, of a concept's preferred terms in one language, those of its first member."""
    of_several = (pl.col("node").first() != pl.col("node").last()).over("concept")
    is_name = pl.int_range(pl.len()).over("concept") == 0
    terms = terms.with_columns(preferred=pl.col("preferred") | (of_several & is_name))
    first = pl.col("node").filter(pl.col("preferred")).min().over("concept", "language")
    return terms.with_columns(preferred=pl.col("preferred") & (pl.col("node") == first)).drop("node")
