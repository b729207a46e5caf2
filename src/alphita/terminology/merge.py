"""Several terminologies become one, by their cross-references and by SSSOM mapping files.

The policy says, by the kind of its predicate, what a statement "A predicate B" does: `join` takes A and B for one
concept, unless that would put two live concepts of one source together; `names` does so only where they have an exact
term in common; `relate` makes it a relation; `ignore` leaves it a cross-reference. Two concepts that refer to one third
concept, which is in no terminology, are joined over it. A merged concept has the id of its first source, in the order
of the terminologies. A statement about a retired concept with a single replacement is read as one about that.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita import machine
from alphita.config import Config
from alphita.errors import Rejects, UsageError
from alphita.terminology import model, prefixes, reading, sssom
from alphita.terminology.model import SIDE_TABLES, Tables
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

# --- policy ----------------------------------------------------------------------------------------------------------

Policy = Literal["join", "names", "relate", "ignore"]
# What a term says whose source and code are the id of another concept, as UMLS's terms do: "HP", "0001250".
CODE = "code of a term"
# predicate -> its kind.
MATCHES = ("exact", "close", "broad", "narrow", "related")
KINDS = {f"skos:{kind}Match": kind for kind in MATCHES}
KINDS |= {"owl:equivalentClass": "exact", "owl:sameAs": "exact", model.XREF: "xref", CODE: "code"}
# kind -> label of the relation it becomes under "relate".
LABELS = {kind: f"{kind}_match" for kind in MATCHES}
LABELS |= {"xref": "has_db_xref", "classification": "has_db_xref", "code": "has_code"}
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


# --- nodes -----------------------------------------------------------------------------------------------------------


class Nodes:
    """The nodes of one merge: the `n_real` concepts of the terminologies, then those known from mappings alone.

    `frame` has a row a node: id, source, retired, place (of its terminology; -1 for none), row (there), node.
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
        concepts = pl.concat(parts)
        self.frame = concepts.unique("id", keep="first", maintain_order=True).with_row_index("node")
        self.frame = self.frame.with_columns(pl.col("node").cast(pl.Int64))
        self.n_real = len(self.frame)
        numbers = self.frame.select("id", "node")
        self.node_of_row = [
            part.join(numbers, on="id", how="left", maintain_order="left")["node"].to_numpy() for part in parts
        ]
        self.n_repeated = len(concepts) - self.n_real
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
        """Number the subjects of mappings that no terminology has: they are concepts of a source, too."""
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
        node_of = dict(wanted.join(self.frame.select("id", "node"), on="id").iter_rows())
        for tables, nodes in zip(self.tables, self.node_of_row, strict=True):
            aliases = tables.aliases.select(pl.col("alias").alias("id"), "concept").join(wanted, on="id", how="semi")
            for alias, row in aliases.sort("id", "concept").iter_rows():
                node_of.setdefault(alias, int(nodes[row]))
        return node_of

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
        if node not in self._clean_names:
            self._clean_names[node] = clean(self.name(node))
        return self._clean_names[node]

    def exact_terms(self, nodes: Collection[int]) -> dict[int, set[str]]:
        """Return the cleaned exact terms of some nodes, with the label of each."""
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


# --- claims ----------------------------------------------------------------------------------------------------------


class Claim(NamedTuple):
    """A statement that two concepts are the same; level 0 is the strongest."""

    first: int
    second: int
    level: int
    order: tuple[object, ...]
    evidence: object = None

    @property
    def rank(self) -> tuple[int, tuple[object, ...]]:
        return self.level, self.order


# Best first: the preferred names are equal; some exact terms are; none are.
AGREE = ("preferred", "a synonym", "no")
NO = AGREE.index("no")
_NOTHING: frozenset[str] = frozenset()


class Evidence(NamedTuple):
    """The statements behind a claim: `ids` as they stand in them, from its first concept to its second."""

    ids: tuple[str, ...]
    arrows: tuple[tuple[bool, str], ...]

    def turned(self) -> Evidence:
        return Evidence(self.ids[::-1], tuple((not forward, label) for forward, label in self.arrows[::-1]))

    def __str__(self) -> str:
        """Write it as "DOID:1 -[predicate, source]-> UMLS:2 <-[predicate, source]- HP:3"."""
        parts = [self.ids[0]]
        for (forward, label), identifier in zip(self.arrows, self.ids[1:], strict=True):
            parts += [f"-[{label}]->" if forward else f"<-[{label}]-", identifier]
        return " ".join(parts)


class Statement(NamedTuple):
    """Subject, predicate and object, as a source states them; the node is the subject's."""

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
        targets = self.nodes.lookup(statement.object for statement in statements)
        # (first, second) -> the evidence for it, with its strength and policy.
        pairs: list[tuple[int, int, int, Policy, Evidence]] = []
        over: defaultdict[str, list[tuple[int, str, Statement]]] = defaultdict(list)
        known = prefixes.table().keys() | {identifier.partition(":")[0] for identifier in self.nodes.ids}
        leads_over = self.options.over != "ignore"
        for statement in statements:
            kind, prefix = self._kind(statement), statement.object.partition(":")[0]
            policy = self._policy(kind)
            self.statements[f"{statement.predicate}: {policy}"] += 1
            if policy == "ignore":
                continue
            if statement.object not in targets and prefix not in known:
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
            elif kind in ("exact", "close") or (leads_over and prefix in self.via):
                over[statement.object].append((node, kind, statement))
        pairs += self._pairs_over(over)
        return self._graded(pairs)

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
    """Return how far the names of the two concepts agree, in a word of `AGREE`."""
    return AGREE[claim.level % len(AGREE)]


# --- joining ---------------------------------------------------------------------------------------------------------

TAKEN, CONTESTED, CHAIN, VETOED = "taken", "contested", "chain", "vetoed"


@dataclass(frozen=True)
class Refusal:
    """A claim that was not followed, and the two concepts that it would have put together.

    These are of one source, or declared not to be the same.
    """

    kind: str
    claim: Claim
    kept_apart: tuple[int, int]
    chain: tuple[Claim, ...]


@dataclass
class Joined:
    """The result of a joining; `root` has for each concept the smallest number of those it was joined with."""

    root: NDArray[np.int64]
    used: list[Claim] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


def join(sources: Sequence[str], claims: Iterable[Claim], vetoes: Iterable[tuple[int, int]] = ()) -> Joined:
    """Join n concepts, of which the source of each is given, by claims: never two of one source.

    Claims are taken level by level, the strongest first.
    """
    joiner = _Joiner(sources, vetoes)
    best: dict[tuple[int, int], Claim] = {}
    for claim in claims:
        pair = (min(claim.first, claim.second), max(claim.first, claim.second))
        if claim.first != claim.second and (pair not in best or claim.rank < best[pair].rank):
            best[pair] = claim
    for _, level in groupby(sorted(best.values(), key=lambda claim: claim.rank), key=lambda claim: claim.level):
        joiner.take(list(level))
    root = np.arange(len(sources), dtype=np.int64)
    for concept in joiner.parent:
        root[concept] = joiner.find(concept)
    return Joined(root, joiner.used, joiner.refused)


# One end of a claim, its other end, the claim.
_Step = tuple[int, int, Claim]


class _Joiner:
    def __init__(self, sources: Sequence[str], vetoes: Iterable[tuple[int, int]]) -> None:
        self.sources = sources
        # Of what was joined to another: nearly all concepts have none.
        self.parent: dict[int, int] = {}
        # Of each root that has more than itself: its members by source; sets are small, for a source counts once.
        self.members: dict[int, dict[str, int]] = {}
        self.links: defaultdict[int, list[Claim]] = defaultdict(list)
        self.vetoes: defaultdict[int, set[int]] = defaultdict(set)
        for first, second in vetoes:
            self.vetoes[first].add(second)
            self.vetoes[second].add(first)
        self.used: list[Claim] = []
        self.refused: list[Refusal] = []

    def find(self, concept: int) -> int:
        root = concept
        while root in self.parent:
            root = self.parent[root]
        while concept != root:
            self.parent[concept], concept = root, self.parent[concept]
        return root

    def take(self, claims: Collection[Claim]) -> None:
        open_ = [claim for claim in claims if not self._refuse_if_impossible(claim, TAKEN)]
        contested = self._refuse_contested(open_)
        for claim in open_:
            if id(claim) not in contested and not self._refuse_if_impossible(claim, CHAIN):
                self._union(claim)

    def _refuse_contested(self, claims: Iterable[Claim]) -> set[int]:
        """Refuse the claims that tie what is one concept already to several of one source; return which they are."""
        # (root, source) -> concept of that source -> the claims that would bring it in, as (near end, far end, claim).
        groups: defaultdict[tuple[int, str], defaultdict[int, list[_Step]]] = defaultdict(lambda: defaultdict(list))
        for claim in claims:
            for near, far in ((claim.first, claim.second), (claim.second, claim.first)):
                root, other = self.find(near), self.find(far)
                if root != other:
                    for source, concept in self._members(other).items():
                        groups[root, source][concept].append((near, far, claim))
        refusals: dict[int, Refusal] = {}
        for group in groups.values():
            if len(group) > 1:
                first, second = list(group)[:2]
                for concept, steps in group.items():
                    rival = second if concept == first else first
                    rival_near, rival_far, rival_claim = group[rival][0]
                    over_rival = (rival_claim, *self._path(rival_far, rival))
                    for near, far, claim in steps:
                        chain = (*self._path(concept, far), claim, *self._path(near, rival_near), *over_rival)
                        refusals.setdefault(id(claim), Refusal(CONTESTED, claim, (concept, rival), chain))
        self.refused += refusals.values()
        return set(refusals)

    def _refuse_if_impossible(self, claim: Claim, kind: str) -> bool:
        first, second = self.find(claim.first), self.find(claim.second)
        if first == second:
            return False
        lefts, rights = self._members(first), self._members(second)
        shared = min(lefts.keys() & rights.keys(), default=None)
        apart = None if shared is None else (lefts[shared], rights[shared])
        if apart is None and self.vetoes:
            kind = VETOED
            vetoed = ((a, b) for a in lefts.values() for b in rights.values() if b in self.vetoes.get(a, ()))
            apart = min(vetoed, default=None)
        if apart is None:
            return False
        start, end = apart
        left, right = (claim.first, claim.second) if self.find(start) == first else (claim.second, claim.first)
        chain = (*self._path(start, left), claim, *self._path(right, end))
        self.refused.append(Refusal(kind, claim, apart, chain))
        return True

    def _members(self, root: int) -> Mapping[str, int]:
        return self.members.get(root) or {self.sources[root]: root}

    def _union(self, claim: Claim) -> None:
        self.used.append(claim)
        first, second = sorted((self.find(claim.first), self.find(claim.second)))
        if first == second:
            return
        self.links[claim.first].append(claim)
        self.links[claim.second].append(claim)
        members = {**self._members(first), **self._members(second)}
        self.parent[second] = first
        self.members.pop(second, None)
        self.members[first] = members

    def _path(self, start: int, end: int) -> list[Claim]:
        """Return the claims that joined `start` and `end`, in order."""
        came: dict[int, tuple[int, Claim] | None] = {start: None}
        waiting = deque([start])
        while waiting and end not in came:
            concept = waiting.popleft()
            for claim in self.links[concept]:
                neighbour = claim.second if claim.first == concept else claim.first
                if neighbour not in came:
                    came[neighbour] = (concept, claim)
                    waiting.append(neighbour)
        path: list[Claim] = []
        while step := came[end]:
            end, claim = step
            path.append(claim)
        return path[::-1]


# --- merging ---------------------------------------------------------------------------------------------------------


@dataclass
class Merged:
    """The result of a merge."""

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
    joined = join(nodes.sources, claims.claims, claims.vetoes)
    root, refused = joined.root, joined.refused
    dropped = claims.dropped
    dropped["concepts with an id that an earlier terminology has"] = nodes.n_repeated
    merged = Merged(_Gatherer(nodes, claims).tables(root))
    # How many concepts of the terminologies each node was joined with, itself among them.
    sizes = np.bincount(root[: nodes.n_real], minlength=len(root))[root]
    merged.joined = [joined_row(nodes, claim, root) for claim in joined.used if sizes[claim.first] > 1]
    shown = [refusal for refusal in refused if sizes[refusal.claim.first] and sizes[refusal.claim.second]]
    merged.conflicts = [conflict_row(nodes, refusal) for refusal in shown]
    dropped["refused claims about concepts of no terminology"] = len(refused) - len(shown)
    merged.tables.dropped = ordered(dropped)
    merged.counts = counts(nodes, claims, root, merged.conflicts)
    return merged


JOINED_COLUMNS = ("id", "first", "first_name", "second", "second_name", "names_agree", "evidence")
CONFLICT_COLUMNS = (
    *("kind", "source", "concept", "name", "other", "other_name"),
    *("refused_first", "refused_second", "names_agree", "chain"),
)


def joined_row(nodes: Nodes, claim: Claim, root: NDArray[np.int64]) -> dict[str, str]:
    """Return a row of `JOINED_COLUMNS` for a claim that joined two nodes."""
    ends = [text for node in (claim.first, claim.second) for text in (nodes.ids[node], nodes.name(node))]
    values = (nodes.ids[root[claim.first]], *ends, names_agree(claim), str(claim.evidence))
    return dict(zip(JOINED_COLUMNS, values, strict=True))


def conflict_row(nodes: Nodes, refusal: Refusal) -> dict[str, str]:
    """Return a row of `CONFLICT_COLUMNS` for a claim that was refused."""
    concept, other = refusal.kept_apart
    source = nodes.sources[concept] if nodes.sources[concept] == nodes.sources[other] else ""
    ends = [text for node in (concept, other) for text in (nodes.ids[node], nodes.name(node))]
    refused = [nodes.ids[node] for node in (refusal.claim.first, refusal.claim.second)]
    values = (refusal.kind, source, *ends, *refused, names_agree(refusal.claim), _chain(nodes, refusal))
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


class _Gatherer:
    def __init__(self, nodes: Nodes, claims: Claims) -> None:
        self.nodes, self.claims = nodes, claims
        self.dropped: Counter[str] = claims.dropped

    def tables(self, root: NDArray[np.int64]) -> Tables:
        """Return the merged tables: the concepts are the roots, in the order of the nodes."""
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
