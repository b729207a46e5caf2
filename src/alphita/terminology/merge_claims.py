"""From statements to claims of sameness: which concepts cross-references and mappings would join, and how strongly.

The policy says what each kind of statement does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field

from alphita.config import Config
from alphita.terminology import model, prefixes, sssom
from alphita.terminology.joining import Claim
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean


class Nodes:
    """The nodes of one merge.

    Attributes:
        frame: a row a node: id, source, retired, place (of its terminology; -1 for none), row (there), node.
        n_real: how many of them are concepts of a terminology; those after are known from mappings alone.
    """

    def __init__(self, terminologies: Sequence[Terminology], sets: Sequence[sssom.MappingSet]) -> None:
        self.terminologies = terminologies
        self.tables = [model.tables_of(terminology) for terminology in terminologies]
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


Policy = Literal["join", "names", "relate", "ignore"]
# What a term says whose source and code are the id of another concept, as UMLS's terms do: "HP", "0001250".
CODE = "code of a term"
# predicate -> its kind.
KINDS = {
    "skos:exactMatch": "exact",
    "owl:equivalentClass": "exact",
    "owl:sameAs": "exact",
    "skos:closeMatch": "close",
    "skos:broadMatch": "broad",
    "skos:narrowMatch": "narrow",
    "skos:relatedMatch": "related",
    model.XREF: "xref",
    CODE: "code",
}
# kind -> label of the relation it becomes under "relate".
LABELS = {
    "exact": "exact_match",
    "close": "close_match",
    "broad": "broad_match",
    "narrow": "narrow_match",
    "related": "related_match",
    "xref": "has_db_xref",
    "classification": "has_db_xref",
    "code": "has_code",
}
# A mapping whose subject is not there, read from its object.
INVERSE = {"skos:broadMatch": "skos:narrowMatch", "skos:narrowMatch": "skos:broadMatch"}
# kind -> how strong a claim is; over a third concept the weaker of its two statements counts, and one more.
STRENGTH = {"exact": 0, "close": 2, "xref": 4, "code": 4, "classification": 6}
# A third concept that more than so many refer to is no meaning but a placeholder.
MAX_OVER_ONE = 50


class Options(Config):
    """The policy: what each kind of statement does."""

    exact: Policy = Field("join", description="skos:exactMatch, owl:equivalentClass, owl:sameAs")
    close: Policy = Field("relate", description="skos:closeMatch")
    xref: Policy = Field("join", description="oboInOwl:hasDbXref (the xref of OBO), except to a classification")
    classification: Policy = Field("names", description="oboInOwl:hasDbXref to a classification")
    code: Policy = Field("join", description="exact terms whose source and code are another concept's id, as in UMLS")
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
        0.3,
        ge=0,
        le=1,
        description="cross-references between two sources join without a common name only where at least this share of "
        "those between the two has one; 0: always",
    )
    confidence: float = Field(0.0, ge=0, le=1, description="mappings of less confidence are left out")


# Best first: the preferred names are equal; some exact terms are; none are.
AGREE = ("preferred", "a synonym", "no")
NO = AGREE.index("no")
_NOTHING: frozenset[str] = frozenset()


class Evidence(NamedTuple):
    """The statements behind a claim: `ids` as they stand in them, from its first concept to its second."""

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


class Statement(NamedTuple):
    """ "subject predicate object", the subject a node."""

    node: int
    subject: str
    predicate: str
    object: str
    source: str


class Claims:
    """The claims of one merge, and what else its statements lead to."""

    def __init__(self, nodes: Nodes, sets: Sequence[sssom.MappingSet], options: Options) -> None:
        self.nodes, self.sets, self.options = nodes, sets, options
        self.classifications = _prefixes(options.classifications)
        self.via = _prefixes(options.via)
        self.dropped: Counter[str] = Counter()
        self.statements: Counter[str] = Counter()
        self.relations: list[tuple[int, str, int, str]] = []
        self.extra_xrefs: list[tuple[int, str, str, str]] = []
        self.vetoes: list[tuple[int, int]] = []
        self.claims = self._claims(self._all_statements())

    # --- statements --------------------------------------------------------------------------------------------------

    def _all_statements(self) -> list[Statement]:
        """Gather what cross-references and mappings say, and the pairs that mappings declare to differ."""
        statements = [statement for place in range(len(self.nodes.tables)) for statement in self._xrefs(place)]
        if self.options.code != "ignore":
            statements += [statement for place in range(len(self.nodes.tables)) for statement in self._codes(place)]
        subjects = self.nodes.lookup(mapping.subject for set_ in self.sets for mapping in set_.mappings)
        objects = self.nodes.lookup(mapping.object for set_ in self.sets for mapping in set_.mappings)
        for set_ in self.sets:
            self.dropped.update(set_.dropped)
            for mapping in set_.mappings:
                subject, object_ = subjects[mapping.subject], objects.get(mapping.object)
                if mapping.negated:
                    if KINDS.get(mapping.predicate) in ("exact", "xref", "close") and object_ is not None:
                        self.vetoes.append((subject, object_))
                elif mapping.confidence < self.options.confidence:
                    self.dropped["mappings of less confidence than asked for"] += 1
                else:
                    self._keep_as_xref(mapping, set_.name, subject, object_)
                    values = (mapping.subject, mapping.predicate, mapping.object, set_.name)
                    statements.append(Statement(subject, *values))
        return statements

    def _xrefs(self, place: int) -> Iterable[Statement]:
        """Yield the cross-references of one terminology that the policy looks at."""
        tables, nodes = self.nodes.tables[place], self.nodes.node_of_row[place]
        xrefs = tables.xrefs.select(
            "concept", pl.col("predicate").cast(pl.String), "object", pl.col("source").cast(pl.String)
        )
        other = xrefs.filter(~pl.col("predicate").is_in(list(KINDS)))
        for predicate, count in other.group_by("predicate").len().iter_rows():
            self.dropped[f"cross-references {predicate}: no policy, kept as they are"] += count
        for row, predicate, object_, source in xrefs.filter(pl.col("predicate").is_in(list(KINDS))).iter_rows():
            node = int(nodes[row])
            yield Statement(node, self.nodes.ids[node], predicate, object_, source)

    def _codes(self, place: int) -> Iterable[Statement]:
        """Yield, of one terminology, the terms whose source and code are the id of another concept of the merge."""
        nodes = self.nodes
        tables, node_of_row = nodes.tables[place], nodes.node_of_row[place]
        known = pl.concat([nodes.frame.select("id"), *(other.aliases.select(id="alias") for other in nodes.tables)])
        exact, obsolete = pl.col("scope").cast(pl.String) == "exact", pl.col("type").cast(pl.String) == "obsolete"
        terms = tables.terms.filter(exact, ~obsolete.fill_null(False))
        codes = terms.select(
            "concept",
            id=pl.concat_str(pl.col("source").cast(pl.String), pl.lit(":"), "code"),
            own=nodes.frame["id"].gather(node_of_row[terms["concept"].to_numpy()]),
        )
        # Nearly all are the concept's own.
        codes = codes.filter(pl.col("id") != pl.col("own")).drop("own")
        codes = codes.join(known.unique(), on="id", how="semi").unique().sort("concept", "id")
        targets = nodes.lookup(codes["id"])
        for row, curie in codes.iter_rows():
            node = int(node_of_row[row])
            if targets[curie] != node:
                yield Statement(node, nodes.ids[node], CODE, curie, nodes.sources[node])

    def _keep_as_xref(self, mapping: sssom.Mapping, name: str, subject: int, object_: int | None) -> None:
        if subject < self.nodes.n_real:
            self.extra_xrefs.append((subject, mapping.predicate, mapping.object, name))
        elif object_ is not None and object_ < self.nodes.n_real:
            inverse = INVERSE.get(mapping.predicate, mapping.predicate)
            self.extra_xrefs.append((object_, inverse, mapping.subject, name))
        else:
            self.dropped["mappings between concepts of neither terminology"] += 1

    # --- claims ------------------------------------------------------------------------------------------------------

    def _kind(self, statement: Statement) -> str:
        kind = KINDS.get(statement.predicate, "")
        if kind == "xref" and statement.object.partition(":")[0] in self.classifications:
            return "classification"
        return kind

    def _policy(self, kind: str) -> Policy:
        if kind in ("broad", "narrow", "related"):
            return "relate"
        return getattr(self.options, kind) if kind else "ignore"

    def _claims(self, statements: Sequence[Statement]) -> list[Claim]:
        """Turn statements into claims of sameness, and into relations."""
        targets = self.nodes.lookup(statement.object for statement in statements)
        # (first, second) -> the evidence for it, with its strength and policy.
        pairs: list[tuple[int, int, int, Policy, Evidence]] = []
        over: defaultdict[str, list[tuple[int, str, Statement]]] = defaultdict(list)
        known = prefixes.table().keys() | {identifier.partition(":")[0] for identifier in self.nodes.ids}
        for statement in statements:
            kind = self._kind(statement)
            policy = self._policy(kind)
            self.statements[f"{statement.predicate}: {policy}"] += 1
            if policy == "ignore":
                continue
            if statement.object not in targets and statement.object.partition(":")[0] not in known:
                self.dropped["statements to ids of unknown prefixes: followed only where two concepts share one"] += 1
            node, target = self.nodes.live(statement.node), targets.get(statement.object)
            target = None if target is None else self.nodes.live(target)
            if node is None or (target is None and statement.object in targets):
                self.dropped["statements about retired concepts without a single replacement"] += 1
            elif policy == "relate":
                if target is not None and max(node, target) < self.nodes.n_real:
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
        self, over: dict[str, list[tuple[int, str, Statement]]]
    ) -> Iterable[tuple[int, int, int, Policy, Evidence]]:
        """Yield the pairs of concepts that refer to the same concept outside."""
        for third, citing in over.items():
            if len({node for node, _, _ in citing}) > MAX_OVER_ONE:
                self.dropped[f"ids that more than {MAX_OVER_ONE} concepts refer to: nothing is joined over them"] += 1
                continue
            for (node, kind, statement), (other, other_kind, other_statement) in combinations(citing, 2):
                if node == other or self.nodes.sources[node] == self.nodes.sources[other]:
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
        names = self.nodes.exact_terms({node for pair in pairs for node in pair[:2]})
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
        """Leave out cross-references between sources where hardly any of them joins concepts of one name."""
        low = {
            pair
            for pair, (agree, differ) in seen.items()
            if len(agree) < self.options.agreement * (len(agree) + len(differ))
        }
        left_out = {id(claim) for claim in doubtful if self._between(claim) in low}
        for claim in doubtful:
            if id(claim) in left_out:
                between = " and ".join(self._between(claim))
                self.dropped[f"cross-references between {between}: names differ, as most there do"] += 1
        return [claim for claim in claims if id(claim) not in left_out]

    def _between(self, claim: Claim) -> tuple[str, str]:
        first, second = sorted((self.nodes.sources[claim.first], self.nodes.sources[claim.second]))
        return first, second

    def _agreement(self, first: int, second: int, names: dict[int, set[str]]) -> int:
        """Return the place in `AGREE` of how far the names of two nodes agree."""
        if names.get(first, _NOTHING).isdisjoint(names.get(second, _NOTHING)):
            return NO
        return AGREE.index(
            "preferred" if self.nodes.clean_name(first) == self.nodes.clean_name(second) else "a synonym"
        )


def _prefixes(names: str) -> frozenset[str]:
    return frozenset(prefixes.canonical(name) for name in names.split(",") if name.strip())


def _evidence(statement: Statement) -> Evidence:
    label = f"{statement.predicate}, {statement.source}"
    return Evidence((statement.subject, statement.object), ((True, label),))


def names_agree(claim: Claim) -> str:
    """Tell how far the names of the two concepts agree, in a word of `AGREE`."""
    return AGREE[claim.level % len(AGREE)]
