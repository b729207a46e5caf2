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
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita.config import Config
from alphita.errors import Rejects, UsageError
from alphita.terminology import joining, model, prefixes, reading, sssom
from alphita.terminology.joining import Claim, Refusal
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

Policy = Literal["join", "names", "relate", "ignore"]
# predicate -> its kind.
KINDS = {
    "skos:exactMatch": "exact", "owl:equivalentClass": "exact", "owl:sameAs": "exact", "skos:closeMatch": "close",
    "skos:broadMatch": "broad", "skos:narrowMatch": "narrow", "skos:relatedMatch": "related", model.XREF: "xref",
}  # fmt: skip
# kind -> label of the relation it becomes under "relate".
LABELS = {
    "exact": "exact_match", "close": "close_match", "broad": "broad_match", "narrow": "narrow_match",
    "related": "related_match", "xref": "has_db_xref", "classification": "has_db_xref",
}  # fmt: skip
# A mapping whose subject is not there, read from its object.
INVERSE = {"skos:broadMatch": "skos:narrowMatch", "skos:narrowMatch": "skos:broadMatch"}
# kind -> how strong a claim is; over a third concept the weaker of its two statements counts, and one more.
STRENGTH = {"exact": 0, "close": 2, "xref": 4, "classification": 6}
# Best first: the preferred names are equal; some exact terms are; none are.
AGREE = ("preferred", "a synonym", "no")
NO = AGREE.index("no")
_NOTHING: frozenset[str] = frozenset()
# A third concept that more than so many refer to is no meaning but a placeholder.
MOST_OVER_ONE = 50
_FEW = frozenset(
    {"source", "language", "scope", "type", "status", "term_type", "predicate", "semantic_type", "relation"}
)
SIDE_TABLES = ("definitions", "semantic_types", "xrefs", "replacements", "properties")
JOINED_COLUMNS = ("id", "first", "first_name", "second", "second_name", "names_agree", "evidence")
CONFLICT_COLUMNS = (
    "kind", "source", "concept", "name", "other", "other_name", "refused_first", "refused_second", "names_agree",
    "chain",
)  # fmt: skip


class Options(Config):
    """The policy: what each kind of statement does."""

    exact: Policy = Field("join", description="skos:exactMatch, owl:equivalentClass, owl:sameAs")
    close: Policy = Field("relate", description="skos:closeMatch")
    xref: Policy = Field("join", description="oboInOwl:hasDbXref (the xref of OBO), except to a classification")
    classification: Policy = Field("names", description="oboInOwl:hasDbXref to a classification")
    classifications: str = Field(
        "ICD9,ICD9CM,ICD10,ICD10CM,ICD10PCS,ICD11,ICDO,ICF,ATC,MEDDRA",
        description="prefixes of classifications: their codes are often wider than what refers to them",
    )
    via: str = Field(
        "UMLS,SNOMEDCT,MESH,NCIT,MONDO,ORPHA,OMIM",
        description="prefixes over which cross-references join two concepts that both refer to one of their ids, "
        "where no terminology has it; exact matches do so over any prefix",
    )
    over: Literal["join", "names", "ignore"] = Field(
        "names", description="cross-references of two concepts to one id of such a prefix"
    )
    agreement: float = Field(
        0.3, ge=0, le=1,
        description="cross-references between two sources join without a common name only where at least this share of "
        "those between the two has one; 0: always",
    )  # fmt: skip
    confidence: float = Field(0.0, ge=0, le=1, description="mappings of less confidence are left out")


class Evidence(NamedTuple):
    """The statements behind a claim: `ids` as they stand in them, from its first concept to its second.

    Attributes:
        ids: of one statement (first, second); over a third concept (first, third, second).
        arrows: of each statement whether it leads that way, and its predicate and source.
    """

    ids: tuple[str, ...]
    arrows: tuple[tuple[bool, str], ...]

    def turned(self) -> Evidence:
        """Return it as read from the second concept."""
        return Evidence(self.ids[::-1], tuple((not forward, label) for forward, label in self.arrows[::-1]))

    def __str__(self) -> str:
        """Write it as "DOID:1 -[predicate, source]-> UMLS:2 <-[predicate, source]- HP:3"."""
        parts = [self.ids[0]]
        for (forward, label), identifier in zip(self.arrows, self.ids[1:], strict=True):
            parts += [f"-[{label}]->" if forward else f"<-[{label}]-", identifier]
        return " ".join(parts)


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
        return _Merger(terminologies, sets, options or Options()).run()


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


class _Statement(NamedTuple):
    """ "subject predicate object", the subject a node."""

    node: int
    subject: str
    predicate: str
    object: str
    source: str


class _Merger:
    """One merge. A node is a distinct concept id over all terminologies, numbered by priority and then by id."""

    def __init__(self, terminologies: Sequence[Terminology], sets: list[sssom.MappingSet], options: Options) -> None:
        self.terminologies, self.sets, self.options = terminologies, sets, options
        self.tables = [reading.tables_of(terminology) for terminology in terminologies]
        self.classifications = _prefixes(options.classifications)
        self.via = _prefixes(options.via)
        self.dropped: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self.relations: list[tuple[int, str, int, str]] = []
        self.extra_xrefs: list[tuple[int, str, str, str]] = []
        self.clean_names: dict[int, str] = {}

    def run(self) -> Merged:
        self._number()
        statements, vetoes = self._all_statements()
        claims = self._claims(statements)
        joined, back = self._join(claims, vetoes)
        root = np.arange(len(self.nodes), dtype=np.int64)
        for local, first in enumerate(joined.root):
            root[back[local]] = back[first]
        merged = Merged(self._merged_tables(root))
        sizes = np.bincount(root[: self.n_real], minlength=len(root))
        merged.joined = [
            self._joined_row(claim, back, root) for claim in joined.used if sizes[root[back[claim.first]]] > 1
        ]
        told = [refusal for refusal in joined.refused if self._matters(refusal.claim, back, sizes[root])]
        merged.conflicts = [self._conflict_row(refusal, back) for refusal in told]
        self.dropped["refused claims about concepts of no terminology"] = len(joined.refused) - len(told)
        merged.tables.dropped = _ordered(self.dropped)
        merged.counts = self._counts(merged, root)
        return merged

    # --- numbering ---------------------------------------------------------------------------------------------------

    def _number(self) -> None:
        """Give every id a node, and every row of every terminology its node."""
        parts = [
            tables.concepts.select("id", pl.col("source").cast(pl.String), "retired").with_columns(
                place=pl.lit(place, pl.Int32), row=pl.int_range(pl.len(), dtype=pl.Int64)
            )
            for place, tables in enumerate(self.tables)
        ]
        every = pl.concat(parts)
        self.nodes = every.unique("id", keep="first", maintain_order=True).with_row_index("node")
        self.nodes = self.nodes.with_columns(pl.col("node").cast(pl.Int64))
        self.n_real = len(self.nodes)
        numbers = self.nodes.select("id", "node")
        self.node_of_row = [
            part.join(numbers, on="id", how="left", maintain_order="left")["node"].to_numpy() for part in parts
        ]
        self.dropped["concepts with an id that an earlier terminology has"] = len(every) - self.n_real
        self.retired = self.nodes["retired"].to_numpy()
        self.replacement = self._replacements()
        self._add_stubs()

    def _replacements(self) -> dict[int, int]:
        """Return the node that replaces each retired node that has a single replacement."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        for tables, nodes in zip(self.tables, self.node_of_row, strict=True):
            frame = tables.replacements.filter(pl.col("predicate").cast(pl.String) == model.REPLACED_BY)
            for row, curie in frame.select("concept", "object").iter_rows():
                if self.retired[nodes[row]]:
                    found[int(nodes[row])].add(curie)
        single = {node: next(iter(curies)) for node, curies in found.items() if len(curies) == 1}
        known = self._lookup(single.values())
        return {node: known[curie] for node, curie in single.items() if curie in known}

    def _add_stubs(self) -> None:
        """Number the subjects of mappings that no terminology has: they too are concepts of a source.

        So mappings of a terminology that one does not hold (MONDO, say) still join those that one does.
        """
        labels: dict[str, str] = {}
        for mapping in (mapping for found in self.sets for mapping in found.mappings):
            labels[mapping.subject] = min(filter(None, (labels.get(mapping.subject), mapping.label)), default="")
        known = self._lookup(labels)
        stubs = sorted(curie for curie in labels if curie not in known)
        self.labels = {node: labels[curie] for node, curie in enumerate(stubs, self.n_real)}
        frame = pl.DataFrame(
            {"id": stubs, "source": [curie.partition(":")[0] for curie in stubs]},
            schema={"id": pl.String, "source": pl.String},
        ).with_columns(
            retired=pl.lit(False), place=pl.lit(-1, pl.Int32), row=pl.lit(-1, pl.Int64),
            node=pl.int_range(self.n_real, self.n_real + len(stubs), dtype=pl.Int64),
        )  # fmt: skip
        self.nodes = pl.concat([self.nodes, frame.select(self.nodes.columns)])
        self.ids: list[str] = self.nodes["id"].to_list()
        self.sources: list[str] = self.nodes["source"].to_list()
        self.places: list[int] = self.nodes["place"].to_list()
        self.rows: list[int] = self.nodes["row"].to_list()

    def _lookup(self, curies: Iterable[str]) -> dict[str, int]:
        """Return the node of each CURIE that is an id or, failing that, an alternative id."""
        wanted = pl.DataFrame({"id": sorted(set(curies))}, schema={"id": pl.String})
        found = dict(wanted.join(self.nodes.select("id", "node"), on="id").iter_rows())
        for tables, nodes in zip(self.tables, self.node_of_row, strict=True):
            aliases = tables.aliases.select(pl.col("alias").alias("id"), "concept").join(wanted, on="id", how="semi")
            for alias, row in aliases.sort("id", "concept").iter_rows():
                found.setdefault(alias, int(nodes[row]))
        return found

    def _live(self, node: int) -> int | None:
        """Return the node, or the single replacement of a retired one; None where there is none."""
        for _ in range(10):  # two that replace each other are no answer
            if node >= self.n_real or not self.retired[node]:
                return node
            if node not in self.replacement:
                return None
            node = self.replacement[node]
        return None

    # --- statements --------------------------------------------------------------------------------------------------

    def _all_statements(self) -> tuple[list[_Statement], list[tuple[int, int]]]:
        """Gather what cross-references and mappings say, and the pairs that mappings declare to differ."""
        found = [statement for place in range(len(self.tables)) for statement in self._xrefs(place)]
        subjects = self._lookup(mapping.subject for set_ in self.sets for mapping in set_.mappings)
        objects = self._lookup(mapping.object for set_ in self.sets for mapping in set_.mappings)
        vetoes = []
        for set_ in self.sets:
            self.dropped.update(set_.dropped)
            for mapping in set_.mappings:
                subject, object_ = subjects[mapping.subject], objects.get(mapping.object)
                if mapping.negated:
                    if KINDS.get(mapping.predicate) in ("exact", "xref", "close") and object_ is not None:
                        vetoes.append((subject, object_))
                elif mapping.confidence < self.options.confidence:
                    self.dropped["mappings of less confidence than asked for"] += 1
                else:
                    self._keep_as_xref(mapping, set_.name, subject, object_)
                    values = (mapping.subject, mapping.predicate, mapping.object, set_.name)
                    found.append(_Statement(subject, *values))
        return found, vetoes

    def _xrefs(self, place: int) -> Iterable[_Statement]:
        """Yield the cross-references of one terminology that the policy looks at."""
        tables, nodes = self.tables[place], self.node_of_row[place]
        xrefs = tables.xrefs.select(
            "concept", pl.col("predicate").cast(pl.String), "object", pl.col("source").cast(pl.String)
        )
        other = xrefs.filter(~pl.col("predicate").is_in(list(KINDS)))
        for predicate, count in other.group_by("predicate").len().iter_rows():
            self.dropped[f"cross-references {predicate}: no policy, kept as they are"] += count
        for row, predicate, object_, source in xrefs.filter(pl.col("predicate").is_in(list(KINDS))).iter_rows():
            node = int(nodes[row])
            yield _Statement(node, self.ids[node], predicate, object_, source)

    def _keep_as_xref(self, mapping: sssom.Mapping, name: str, subject: int, object_: int | None) -> None:
        if subject < self.n_real:
            self.extra_xrefs.append((subject, mapping.predicate, mapping.object, name))
        elif object_ is not None and object_ < self.n_real:
            inverse = INVERSE.get(mapping.predicate, mapping.predicate)
            self.extra_xrefs.append((object_, inverse, mapping.subject, name))
        else:
            self.dropped["mappings between concepts of neither terminology"] += 1

    # --- claims ------------------------------------------------------------------------------------------------------

    def _kind(self, statement: _Statement) -> str:
        kind = KINDS.get(statement.predicate, "")
        if kind == "xref" and statement.object.partition(":")[0] in self.classifications:
            return "classification"
        return kind

    def _policy(self, kind: str) -> Policy:
        if kind in ("broad", "narrow", "related"):
            return "relate"
        return getattr(self.options, kind) if kind else "ignore"

    def _claims(self, statements: Sequence[_Statement]) -> list[Claim]:
        """Turn statements into claims of sameness, and into relations."""
        targets = self._lookup(statement.object for statement in statements)
        # (first, second) -> the evidence for it, with its strength and policy.
        pairs: list[tuple[int, int, int, Policy, Evidence]] = []
        over: defaultdict[str, list[tuple[int, str, _Statement]]] = defaultdict(list)
        for statement in statements:
            kind = self._kind(statement)
            policy = self._policy(kind)
            self.statements[f"{statement.predicate}: {policy}"] += 1
            if policy == "ignore":
                continue
            node, target = self._live(statement.node), targets.get(statement.object)
            target = None if target is None else self._live(target)
            if node is None or (target is None and statement.object in targets):
                self.dropped["statements about retired concepts without a single replacement"] += 1
            elif policy == "relate":
                if target is not None and max(node, target) < self.n_real:
                    self.relations.append((node, LABELS[kind], target, statement.source))
            elif target is not None:
                pairs.append((node, target, STRENGTH[kind], policy, _evidence(statement)))
            elif kind in ("exact", "close") or self._leads_over(statement.object):
                over[statement.object].append((node, kind, statement))
        pairs += self._pairs_over(over)
        return self._graded(pairs)

    def _leads_over(self, curie: str) -> bool:
        return self.options.over != "ignore" and curie.partition(":")[0] in self.via

    def _pairs_over(
        self, over: dict[str, list[tuple[int, str, _Statement]]]
    ) -> Iterable[tuple[int, int, int, Policy, Evidence]]:
        """Yield the pairs of concepts that refer to the same concept outside."""
        for third, citing in over.items():
            if len({node for node, _, _ in citing}) > MOST_OVER_ONE:
                self.dropped[f"ids that more than {MOST_OVER_ONE} concepts refer to: nothing is joined over them"] += 1
                continue
            for (node, kind, statement), (other, other_kind, other_statement) in combinations(citing, 2):
                if node == other or self.sources[node] == self.sources[other]:
                    continue
                strength = max(STRENGTH[kind], STRENGTH[other_kind]) + 1
                strict = {self._policy(kind), self._policy(other_kind)}
                if "xref" in (kind, other_kind):
                    strict.add(self.options.over)
                policy: Policy = "names" if "names" in strict else "join"
                left, right = _evidence(statement), _evidence(other_statement).turned()
                evidence = Evidence((left.ids[0], third, right.ids[1]), (*left.arrows, *right.arrows))
                yield node, other, strength, policy, evidence

    def _graded(self, pairs: list[tuple[int, int, int, Policy, Evidence]]) -> list[Claim]:
        """Return the claims, stronger where the two have their name, or any exact term, in common."""
        names = self._names({node for pair in pairs for node in pair[:2]})
        claims, doubtful = [], []
        # (source, source) -> the pairs of concepts, by whether their names agree.
        seen: defaultdict[tuple[str, str], tuple[set[object], set[object]]] = defaultdict(lambda: (set(), set()))
        for first, second, strength, policy, evidence in pairs:
            if first == second:
                continue
            agree = self._agreement(first, second, names)
            if policy == "names" and agree == NO:
                self.dropped["statements not followed because the names differ"] += 1
                continue
            if first > second:
                first, second, evidence = second, first, evidence.turned()
            order = (first, second, *evidence)
            claim = Claim(first, second, len(AGREE) * strength + agree, order, evidence)
            claims.append(claim)
            if policy == "join" and strength >= STRENGTH["xref"]:
                seen[self._between(claim)][agree == NO].add((first, second))
                doubtful += [claim] if agree == NO else []
        return self._credible(claims, doubtful, seen)

    def _credible(
        self, claims: list[Claim], doubtful: list[Claim], seen: dict[tuple[str, str], tuple[set[object], set[object]]]
    ) -> list[Claim]:
        """Leave out cross-references between sources where hardly any of them joins concepts of one name.

        There they say something else: that a therapy uses a substance, say.
        """
        low = {
            pair for pair, (agree, differ) in seen.items()
            if len(agree) < self.options.agreement * (len(agree) + len(differ))
        }  # fmt: skip
        left_out = {id(claim) for claim in doubtful if self._between(claim) in low}
        for claim in doubtful:
            if id(claim) in left_out:
                between = " and ".join(self._between(claim))
                self.dropped[f"cross-references between {between}: names differ, as most there do"] += 1
        return [claim for claim in claims if id(claim) not in left_out]

    def _between(self, claim: Claim) -> tuple[str, str]:
        first, second = sorted((self.sources[claim.first], self.sources[claim.second]))
        return first, second

    def _agreement(self, first: int, second: int, names: dict[int, set[str]]) -> int:
        """Return the place in `AGREE` of how far the names of two nodes agree."""
        if names.get(first, _NOTHING).isdisjoint(names.get(second, _NOTHING)):
            return NO
        return AGREE.index("preferred" if self._clean_name(first) == self._clean_name(second) else "a synonym")

    def _clean_name(self, node: int) -> str:
        if node not in self.clean_names:
            self.clean_names[node] = clean(self._name(node))
        return self.clean_names[node]

    def _names(self, nodes: Collection[int]) -> dict[int, set[str]]:
        """Return the cleaned exact terms of nodes."""
        wanted = np.zeros(len(self.nodes), bool)
        wanted[list(nodes)] = True
        found: defaultdict[int, set[str]] = defaultdict(set)
        for node, label in self.labels.items():
            if cleaned := clean(label):
                found[node].add(cleaned)
        for tables, node_of_row in zip(self.tables, self.node_of_row, strict=True):
            frame = tables.terms.select(
                pl.Series("node", node_of_row[tables.terms["concept"].to_numpy()]), "string",
                exact=pl.col("scope").cast(pl.String) == "exact",
            )  # fmt: skip
            keep = wanted[frame["node"].to_numpy()] & frame["exact"].to_numpy()
            for node, string in frame.filter(keep).select("node", "string").iter_rows():
                if cleaned := clean(string):
                    found[node].add(cleaned)
        return found

    def _join(self, claims: list[Claim], vetoes: list[tuple[int, int]]) -> tuple[joining.Joined, list[int]]:
        """Join over the nodes that any claim names, renumbered; return also the way back."""
        back = sorted({node for claim in claims for node in (claim.first, claim.second)})
        local = {node: place for place, node in enumerate(back)}
        renumbered = [
            Claim(local[claim.first], local[claim.second], claim.level, claim.order, claim.evidence) for claim in claims
        ]
        known = [(local[first], local[second]) for first, second in vetoes if first in local and second in local]
        return joining.join([self.sources[node] for node in back], renumbered, known), back

    # --- the merged tables -------------------------------------------------------------------------------------------

    def _merged_tables(self, root: NDArray[np.int64]) -> Tables:
        real = root[: self.n_real]
        is_root = real == np.arange(self.n_real)
        row_of_node = (np.cumsum(is_root) - 1)[real]
        nodes = self.nodes.head(self.n_real)
        concepts = nodes.filter(is_root).select("id", "source", "retired")

        def gather(name: str) -> pl.DataFrame:
            return self._gathered(name, row_of_node)

        sources = [source for tables in self.tables for source in tables.sources] + [set_.source for set_ in self.sets]
        parents = dict.fromkeys(label for tables in self.tables for label in tables.parent_relations)
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
        for tables, nodes in zip(self.tables, self.node_of_row, strict=True):
            frame = model.complete(name, getattr(tables, name))
            node = nodes[frame["concept"].to_numpy()]
            parts.append(_plain(frame).with_columns(pl.Series("concept", row_of_node[node]), pl.Series("node", node)))
        if name == "xrefs" and self.extra_xrefs:
            extra = pl.DataFrame(self.extra_xrefs, schema=["node", "predicate", "object", "source"], orient="row")
            extra = _plain(extra).with_columns(pl.Series("concept", row_of_node[extra["node"].to_numpy()]))
            parts.append(extra.with_columns(pl.col("node").cast(pl.Int64)).select(parts[0].columns))
        found = pl.concat(parts).sort("node", maintain_order=True)
        # The same row of the same concept in two terminologies (two releases of one, say) is one fact.
        return found.unique(maintain_order=True)

    def _merged_relations(self, row_of_node: NDArray[np.int64]) -> pl.DataFrame:
        parts = []
        for tables, nodes in zip(self.tables, self.node_of_row, strict=True):
            ends = {
                end: pl.Series(row_of_node[nodes[tables.relations[end].to_numpy()]], dtype=pl.Int32)
                for end in ("head", "tail")
            }
            parts.append(_plain(tables.relations).with_columns(**ends))
        if self.relations:
            extra = pl.DataFrame(self.relations, schema=["head", "relation", "tail", "source"], orient="row")
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

    # --- reports -----------------------------------------------------------------------------------------------------

    def _name(self, node: int) -> str:
        place, row = self.places[node], self.rows[node]
        return self.labels[node] if place < 0 else str(self.terminologies[place].concept_names[row].as_py())

    def _matters(self, claim: Claim, back: list[int], sizes: NDArray[np.int64]) -> bool:
        """Tell whether a claim would have joined concepts that are in the terminologies."""
        return bool(sizes[back[claim.first]] and sizes[back[claim.second]])

    def _joined_row(self, claim: Claim, back: list[int], root: NDArray[np.int64]) -> dict[str, str]:
        first, second = back[claim.first], back[claim.second]
        values = (
            self.ids[root[first]], self.ids[first], self._name(first), self.ids[second], self._name(second),
            _agree(claim), str(claim.evidence),
        )  # fmt: skip
        return dict(zip(JOINED_COLUMNS, values, strict=True))

    def _conflict_row(self, refusal: Refusal, back: list[int]) -> dict[str, str]:
        concept, other = (back[node] for node in refusal.kept_apart)
        source = self.sources[concept] if self.sources[concept] == self.sources[other] else ""
        values = (
            refusal.kind, source, self.ids[concept], self._name(concept), self.ids[other], self._name(other),
            self.ids[back[refusal.claim.first]], self.ids[back[refusal.claim.second]], _agree(refusal.claim),
            self._chain(refusal, back),
        )  # fmt: skip
        return dict(zip(CONFLICT_COLUMNS, values, strict=True))

    def _chain(self, refusal: Refusal, back: list[int]) -> str:
        at = refusal.kept_apart[0]
        text = self.ids[back[at]]
        for claim in refusal.chain:
            evidence = claim.evidence
            assert isinstance(evidence, Evidence)
            evidence = evidence if claim.first == at else evidence.turned()
            # A statement may name a concept by an alternative id, or by that of a retired one.
            if evidence.ids[0] != self.ids[back[at]]:
                text += f" (as {evidence.ids[0]})"
            at = claim.second if claim.first == at else claim.first
            text += str(evidence)[len(evidence.ids[0]) :]
            if evidence.ids[-1] != self.ids[back[at]]:
                text += f" (that is {self.ids[back[at]]})"
        return text

    def _counts(self, merged: Merged, root: NDArray[np.int64]) -> dict[str, dict[str, int]]:
        members = Counter(root[: self.n_real].tolist())
        clusters: defaultdict[int, set[str]] = defaultdict(set)
        for node in np.flatnonzero(root[: self.n_real] != np.arange(self.n_real)).tolist():
            clusters[int(root[node])] |= {self.sources[node], self.sources[root[node]]}
        together = Counter(" + ".join(sorted(found)) for found in clusters.values())
        return {
            "concepts": {
                "read": sum(len(tables.concepts) for tables in self.tables), "distinct ids": self.n_real,
                "after the merge": len(members), "made of several": len(clusters),
            },
            "merged concepts by their sources": _ordered(together),
            "refused": _ordered(Counter(row["kind"] for row in merged.conflicts)),
            "refused, by source of the concepts kept apart": _ordered(
                Counter(row["source"] for row in merged.conflicts if row["source"])
            ),
            "statements by policy": _ordered(self.statements),
            "relations made of mappings": _ordered(Counter(label for _, label, _, _ in self.relations)),
            "left out": _ordered(self.dropped),
        }  # fmt: skip


def _prefixes(names: str) -> frozenset[str]:
    return frozenset(prefixes.canonical(name) for name in names.split(",") if name.strip())


def _evidence(statement: _Statement) -> Evidence:
    label = f"{statement.predicate}, {statement.source}"
    return Evidence((statement.subject, statement.object), ((True, label),))


def _agree(claim: Claim) -> str:
    return AGREE[claim.level % len(AGREE)]


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(((name, n) for name, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with its columns of few distinct values as Categorical, so that frames can be put together."""
    few = [name for name in frame.columns if name in _FEW or isinstance(frame.schema[name], pl.Enum)]
    return frame.with_columns(pl.col(few).cast(pl.Categorical))


def _one_preferred(terms: pl.DataFrame) -> pl.DataFrame:
    """Leave, of a concept's preferred terms in one language, those of its first member."""
    first = pl.col("node").filter(pl.col("preferred")).min().over("concept", "language")
    return terms.with_columns(preferred=pl.col("preferred") & (pl.col("node") == first)).drop("node")
