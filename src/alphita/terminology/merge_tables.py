"""The content of a merged terminology: every fact of its members, with its source, no row twice."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.terminology import model
from alphita.terminology.merge_claims import Claims
from alphita.terminology.merge_nodes import Nodes
from alphita.terminology.model import Tables

_FEW = frozenset(
    {"source", "language", "scope", "type", "status", "term_type", "predicate", "semantic_type", "relation"}
)
SIDE_TABLES = ("definitions", "semantic_types", "xrefs", "replacements", "properties")


def merged_tables(nodes: Nodes, claims: Claims, root: NDArray[np.int64]) -> Tables:
    """Return the merged terminology.

    Args:
        nodes: of the merge.
        claims: what goes into it beside their content: relations and cross-references; counts what is left out.
        root: (n_nodes,) of each node the first of those it was joined with.
    """
    return _Gatherer(nodes, claims).tables(root)


class _Gatherer:
    """Gathers the tables one after another."""

    def __init__(self, nodes: Nodes, claims: Claims) -> None:
        self.nodes, self.claims = nodes, claims
        self.dropped: Counter[str] = claims.dropped

    def tables(self, root: NDArray[np.int64]) -> Tables:
        """Gather all tables: the concepts are the roots, in the order of the nodes.

        Args:
            root: (n_nodes,) of each node the first of those it was joined with.

        Returns:
            The merged terminology; its tables name concepts by their row. What is left out is counted in the claims.
        """
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
        found = pl.concat(parts).sort("node", maintain_order=True)
        # The same row of the same concept in two terminologies (two releases of one, say) is one fact.
        return found.unique(maintain_order=True)

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
        found = pl.concat(parts)
        kept = found.filter(pl.col("head") != pl.col("tail"))
        if len(found) > len(kept):
            self.dropped["relations between concepts that became one"] += len(found) - len(kept)
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
    """Leave, of a concept's preferred terms in one language, those of its first member.

    A merged concept is called by its first term, and so by its first member: where no term of that is preferred, the
    one it is called by becomes so, or else the name of a later member would come before it.
    """
    of_several = (pl.col("node").first() != pl.col("node").last()).over("concept")
    is_name = pl.int_range(pl.len()).over("concept") == 0
    terms = terms.with_columns(preferred=pl.col("preferred") | (of_several & is_name))
    first = pl.col("node").filter(pl.col("preferred")).min().over("concept", "language")
    return terms.with_columns(preferred=pl.col("preferred") & (pl.col("node") == first)).drop("node")
