"""What a merge joins: a node is a distinct concept id over all terminologies, numbered by priority and then by id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import polars as pl

from alphita.terminology import model, reading, sssom
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean


class Nodes:
    """The nodes of one merge.

    Attributes:
        tables: the content of each terminology.
        node_of_row: of each terminology, the node of each of its rows.
        frame: a row a node: id, source, retired, place (of its terminology; -1 for none), row (there), node.
        n_real: how many of them are concepts of a terminology; those after are known from mappings alone.
        n_repeated: concepts with an id that an earlier terminology has.
    """

    def __init__(self, terminologies: Sequence[Terminology], sets: Sequence[sssom.MappingSet]) -> None:
        self.terminologies = terminologies
        self.tables = [reading.tables_of(terminology) for terminology in terminologies]
        self._clean_names: dict[int, str] = {}
        self._number()
        self._add_stubs(sets)

    def _number(self) -> None:
        """Give every id a node, and every row of every terminology its node."""
        parts = [
            tables.concepts.select("id", pl.col("source").cast(pl.String), "retired").with_columns(
                place=pl.lit(place, pl.Int32), row=pl.int_range(pl.len(), dtype=pl.Int64)
            )
            for place, tables in enumerate(self.tables)
        ]
        every = pl.concat(parts)
        self.frame = every.unique("id", keep="first", maintain_order=True).with_row_index("node")
        self.frame = self.frame.with_columns(pl.col("node").cast(pl.Int64))
        self.n_real = len(self.frame)
        numbers = self.frame.select("id", "node")
        self.node_of_row = [
            part.join(numbers, on="id", how="left", maintain_order="left")["node"].to_numpy() for part in parts
        ]
        self.n_repeated = len(every) - self.n_real
        self.retired = self.frame["retired"].to_numpy()
        self.replacement = self._replacements()

    def _replacements(self) -> dict[int, int]:
        """Return the node that replaces each retired node that has a single replacement."""
        names: defaultdict[int, set[str]] = defaultdict(set)
        for tables, nodes in zip(self.tables, self.node_of_row, strict=True):
            frame = tables.replacements.filter(pl.col("predicate").cast(pl.String) == model.REPLACED_BY)
            for row, curie in frame.select("concept", "object").iter_rows():
                if self.retired[nodes[row]]:
                    names[int(nodes[row])].add(curie)
        single = {node: next(iter(curies)) for node, curies in names.items() if len(curies) == 1}
        known = self.lookup(single.values())
        return {node: known[curie] for node, curie in single.items() if curie in known}

    def _add_stubs(self, sets: Sequence[sssom.MappingSet]) -> None:
        """Number the subjects of mappings that no terminology has: they too are concepts of a source."""
        labels: dict[str, str] = {}
        for mapping in (mapping for mapping_set in sets for mapping in mapping_set.mappings):
            labels[mapping.subject] = min(filter(None, (labels.get(mapping.subject), mapping.label)), default="")
        known = self.lookup(labels)
        stubs = sorted(curie for curie in labels if curie not in known)
        self.labels = {node: labels[curie] for node, curie in enumerate(stubs, self.n_real)}
        frame = pl.DataFrame(
            {"id": stubs, "source": [curie.partition(":")[0] for curie in stubs]},
            schema={"id": pl.String, "source": pl.String},
        ).with_columns(
            retired=pl.lit(False),
            place=pl.lit(-1, pl.Int32),
            row=pl.lit(-1, pl.Int64),
            node=pl.int_range(self.n_real, self.n_real + len(stubs), dtype=pl.Int64),
        )
        self.frame = pl.concat([self.frame, frame.select(self.frame.columns)])
        self.ids: list[str] = self.frame["id"].to_list()
        self.sources: list[str] = self.frame["source"].to_list()
        self.places: list[int] = self.frame["place"].to_list()
        self.rows: list[int] = self.frame["row"].to_list()

    def lookup(self, curies: Iterable[str]) -> dict[str, int]:
        """Return the node of each CURIE that is an id or, failing that, an alternative id."""
        wanted = pl.DataFrame({"id": sorted(set(curies))}, schema={"id": pl.String})
        found = dict(wanted.join(self.frame.select("id", "node"), on="id").iter_rows())
        for tables, nodes in zip(self.tables, self.node_of_row, strict=True):
            aliases = tables.aliases.select(pl.col("alias").alias("id"), "concept").join(wanted, on="id", how="semi")
            for alias, row in aliases.sort("id", "concept").iter_rows():
                found.setdefault(alias, int(nodes[row]))
        return found

    def live(self, node: int) -> int | None:
        """Return the node, or the single replacement of a retired one; None where there is none."""
        for _ in range(10):  # two that replace each other are no answer
            if node >= self.n_real or not self.retired[node]:
                return node
            if node not in self.replacement:
                return None
            node = self.replacement[node]
        return None

    def name(self, node: int) -> str:
        """Return the name that a node is shown by."""
        place, row = self.places[node], self.rows[node]
        return self.labels[node] if place < 0 else str(self.terminologies[place].concept_names[row].as_py())

    def clean_name(self, node: int) -> str:
        """Return that name, cleaned."""
        if node not in self._clean_names:
            self._clean_names[node] = clean(self.name(node))
        return self._clean_names[node]

    def exact_terms(self, nodes: Collection[int]) -> dict[int, set[str]]:
        """Return the cleaned exact terms of nodes."""
        wanted = np.zeros(len(self.frame), bool)
        wanted[list(nodes)] = True
        members: defaultdict[int, set[str]] = defaultdict(set)
        for node, label in self.labels.items():
            if cleaned := clean(label):
                members[node].add(cleaned)
        for tables, node_of_row in zip(self.tables, self.node_of_row, strict=True):
            frame = tables.terms.select(
                pl.Series("node", node_of_row[tables.terms["concept"].to_numpy()]),
                "string",
                exact=pl.col("scope").cast(pl.String) == "exact",
            )
            keep = wanted[frame["node"].to_numpy()] & frame["exact"].to_numpy()
            for node, string in frame.filter(keep).select("node", "string").iter_rows():
                if cleaned := clean(string):
                    members[node].add(cleaned)
        return members
