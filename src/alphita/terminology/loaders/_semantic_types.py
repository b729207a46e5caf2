"""Semantic types out of the hierarchy, for sources that name none themselves; only when the user asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import polars as pl

from alphita.errors import UsageError
from alphita.terminology import model
from alphita.terminology.loaders._columns import Columns


def from_branches(columns: Columns, roots: Sequence[str]) -> None:
    """Give every concept below a root the semantic types that are the root's children above it, or itself.

    Raises:
        UsageError: a root is not among the concepts.
    """
    terms = model.complete("terms", columns.frame("terms")).filter("preferred")
    names = dict(terms.unique("concept", keep="first").select("concept", "string").iter_rows())
    known = set(columns.frame("concepts")["id"])
    children = defaultdict(list)
    relations = columns.frame("relations").filter(pl.col("relation") == model.IS_A)
    for parent, child in relations.select("tail", "head").iter_rows():
        children[parent].append(child)
    branches: dict[str, None] = {}
    for root in roots:
        if root not in known:
            raise UsageError(f"semantic_type: no concept has the id {root!r}")
        # A root that lies below another root is divided itself, not a type.
        branches |= dict.fromkeys(branch for branch in children[root] if branch not in roots)
    for branch in branches:
        seen, waiting = {branch}, [branch]
        while waiting:
            new = [child for child in children[waiting.pop()] if child not in seen]
            seen.update(new)
            waiting.extend(new)
        prefix, _, code = branch.rpartition(":")
        for concept in sorted(seen & known):
            name = names.get(branch, branch)
            columns.add("semantic_types", concept=concept, semantic_type=name, code=code, source=prefix)
