"""OBO graphs in JSON, as made by ROBOT and the OBO Foundry: MAxO, DOID, HPO, Mondo, ...

Read: nodes with label, definition, synonyms (all scopes and types), cross-references, comments, subsets, whether they
are deprecated; of their other properties alternative ids, namespace, replacements and SKOS mappings; edges; sets of
equivalent nodes; the graph's version and licence. Left out and counted in the manifest: individuals, logical
definitions, other axioms, and other properties. A node that several graphs of one file tell of, as files with imports
do, is one concept that has what each of them says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, Rejects
from alphita.terminology import model, prefixes
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _columns, _files
from alphita.terminology.loaders._columns import Columns, type_by_branches
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look
from alphita.terminology.model import Tables

DESCRIPTION = "OBO graphs (JSON): MAxO, DOID, HPO, Mondo, ..."

# Names of the files that are read, where they lie among others.
ENDINGS = (".json",)
SYNONYMS = {f"has{scope.title()}Synonym": scope for scope in model.SCOPES}
MAPPINGS = frozenset(f"{kind}Match" for kind in ("exact", "close", "broad", "narrow", "related"))
# Parts of a graph that are not read, each a list.
AXIOMS = ("logicalDefinitionAxioms", "domainRangeAxioms", "propertyChainAxioms", "allValuesFromEdges")
# Names of synonym types of the OBO Metadata Ontology, which files use without labels.
SYNONYM_TYPES = {row["id"]: row["name"] for row in textio.packaged(__package__, "obographs_synonym_types.tsv")}
# Of many other graphs in JSON the nodes have no "lbl".
_GRAPHS = re.compile(r'\s*\{(?:\s*"graphs"\s*:\s*\[|(?=.*"nodes"\s*:).*"lbl"\s*:)', re.DOTALL)
_NUMBERED = re.compile(r"[A-Za-z]+[_:]\d+")


class Options(Config):
    """Options of the OBO graphs loader."""

    language: Language = Field(
        "en", description="BCP-47 tag of labels, synonyms and definitions; the format states none"
    )
    semantic_type: str = _columns.semantic_type("DOID:4")


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: a JSON object with graphs, or with nodes that have labels."""
    return None if seen.first(lambda file: _GRAPHS.match(file.text) is not None, ENDINGS) is None else {}


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read OBO graphs into tables; ids must be unique over all files."""
    reader = _Reader(options, rejects)
    sources = [reader.read(file) for file in _files.chosen(paths, ENDINGS, reader.columns.dropped)]
    type_by_branches(reader.columns, options.semantic_type)
    return reader.columns.tables(sources)


class _Reader:
    """Reads files one after another into columns."""

    def __init__(self, options: Options, rejects: Rejects) -> None:
        self.options, self.columns = options, Columns(rejects)
        self.first_file: dict[str, str] = {}

    def read(self, member: Member) -> dict[str, Any]:
        self.file, self.file_name = member.place, member.name
        content = _json(member)
        graphs = content.get("graphs", [content]) if isinstance(content, dict) else None
        if not isinstance(graphs, list) or not any(isinstance(_get(graph, "nodes"), list) for graph in graphs):
            raise InputError('no OBO graph: expected {"graphs": [{"nodes": […], "edges": […]}]}', file=self.file)
        self.concepts: dict[str, dict[str, Any]] = {}
        self.labels: dict[str, str] = {}
        self.left_out: set[str] = set()
        self.seen: set[tuple[Any, ...]] = set()
        self.properties: dict[str, str] = {}
        self.name, version, licence = _facts(graphs, member)
        for graph in graphs:
            self._property_names(graph)
        for number, graph in enumerate(graphs):
            self._nodes(graph, f"graphs[{number}].nodes")
        if not self.concepts:
            raise InputError("no class in this file's graphs", file=self.file)
        self._unlabelled()
        edges = [edge for number, graph in enumerate(graphs) for edge in self._edges(graph, f"graphs[{number}].edges")]
        self._relations(edges)
        for number, graph in enumerate(graphs):
            self._equivalent(graph, f"graphs[{number}].equivalentNodesSets")
            for axioms in AXIOMS:
                if count := len(_list(_get(graph, axioms))):
                    self.columns.dropped[axioms] += count
        return _files.source(member, name=self.name, version=version, licence=licence)

    def _property_names(self, graph: Any) -> None:  # noqa: ANN401 - JSON
        for node in _list(_get(graph, "nodes")):
            if _get(node, "type") == "PROPERTY":
                identifier, label = _get(node, "id"), _get(node, "lbl")
                if isinstance(identifier, str) and isinstance(label, str):
                    self.properties.setdefault(identifier, label)

    def _nodes(self, graph: Any, place: str) -> None:  # noqa: ANN401 - JSON
        here: set[str] = set()
        for number, node in enumerate(_list(_get(graph, "nodes"))):
            self.place = f"{place}[{number}]"
            identifier = self._string(_get(node, "id"), "id", model.MAX_TERM_CHARACTERS)
            if identifier is None:
                continue
            concept = prefixes.normalize(identifier)
            if not _columns.is_id(concept):
                self._refuse("not an id: empty, too long, or with a space in it", "id", identifier)
                continue
            kind = node.get("type")
            if kind in ("PROPERTY", "INDIVIDUAL"):
                self.columns.dropped[f"{kind} node" + (", beyond its id and label" if kind == "PROPERTY" else "")] += 1
                self.left_out.add(concept)
            elif kind not in ("CLASS", None):
                self._refuse("unknown type; it must be CLASS, PROPERTY or INDIVIDUAL", "type", str(kind))
            elif concept in here:
                self._refuse("this id was defined before, in the same graph", "id", concept)
            elif concept in self.first_file:
                self._refuse(f"this id was defined before, in {self.first_file[concept]}", "id", concept)
            elif "lbl" not in node and not node.get("meta"):
                self.columns.dropped["node that has only an id"] += 1
                self.left_out.add(concept)
            else:
                here.add(concept)
                self._concept(concept, node)

    def _concept(self, concept: str, node: dict[str, Any]) -> None:
        self._enter(concept)
        meta = node.get("meta") or {}
        if not isinstance(meta, dict):
            self._refuse("must be an object", "meta", str(meta))
            meta = {}
        if concept not in self.concepts:
            self.concepts[concept] = {"id": concept, "source": self.source, "retired": False, "file": self.file}
            self.columns.rows["concepts"].append(self.concepts[concept])
        self.concepts[concept]["retired"] |= meta.get("deprecated") is True
        self._label(node.get("lbl"))
        self._definition(meta.get("definition"))
        for place, synonym in self._entries(meta, "synonyms"):
            self._synonym(synonym, place)
        for place, xref in self._entries(meta, "xrefs"):
            if (target := self._string(_get(xref, "val"), place)) is not None:
                self._add("xrefs", predicate=model.XREF, object=prefixes.normalize(target))
        for name, field in (("comment", "comments"), ("subset", "subsets")):
            for place, value in self._entries(meta, field):
                text = self._string(value, place, model.MAX_TEXT_CHARACTERS)
                if text is not None:
                    self._add("properties", name=name, value=_fragment(text) if name == "subset" else text)
        for place, value in self._entries(meta, "basicPropertyValues"):
            self._property_value(value, place)

    def _enter(self, concept: str) -> None:
        self.concept, (self.source, self.code) = concept, prefixes.parse_curie(concept) or (self.name, concept)

    def _label(self, label: Any) -> None:  # noqa: ANN401 - JSON
        if label is None or (string := self._string(label, "lbl", model.MAX_TERM_CHARACTERS)) is None:
            return
        if self.concept in self.labels:
            if self.labels[self.concept] != string:
                self.columns.dropped["another label for a node, in another graph"] += 1
            return
        self.labels[self.concept] = string
        self._term(string=string, scope="exact", preferred=True)

    def _definition(self, definition: Any) -> None:  # noqa: ANN401 - JSON
        if definition is None:
            return
        text = self._string(_get(definition, "val"), "meta.definition", model.MAX_TEXT_CHARACTERS)
        if text is not None:
            reference = self._references(definition)
            self._add("definitions", text=text, language=self.options.language, reference=reference)

    def _synonym(self, synonym: Any, place: str) -> None:  # noqa: ANN401 - JSON
        scope = SYNONYMS.get(_fragment(str(_get(synonym, "pred"))))
        if scope is None:
            self._refuse(f"unknown kind of synonym; it must be one of {[*SYNONYMS]}", place, str(_get(synonym, "pred")))
            return
        string = self._string(_get(synonym, "val"), place, model.MAX_TERM_CHARACTERS)
        if string is None:
            return
        kind = _get(synonym, "synonymType")
        short = name = None
        if isinstance(kind, str) and kind:
            short = _fragment(kind) if "#" in kind else prefixes.normalize(kind)
            name = model.term_type(self.properties.get(kind) or SYNONYM_TYPES.get(short) or _fragment(kind))
        reference = self._references(synonym)
        self._term(string=string, scope=scope, preferred=False, type=name, term_type=short, reference=reference)

    def _property_value(self, value: Any, place: str) -> None:  # noqa: ANN401 - JSON
        predicate = self._string(_get(value, "pred"), place)
        if predicate is None:
            return
        name = _fragment(predicate)
        if name not in _PROPERTIES and name not in MAPPINGS:
            self.columns.dropped[f"property {name}"] += 1
            return
        target = self._string(_get(value, "val"), place, model.MAX_TEXT_CHARACTERS)
        if target is None:
            return
        if name in MAPPINGS:
            self._add("xrefs", predicate=f"skos:{name}", object=prefixes.normalize(target))
        elif name == "hasOBONamespace":
            if self.options.semantic_type == "namespace":
                self._add("semantic_types", semantic_type=target)
            self._add("properties", name="namespace", value=target)
        elif name == "hasAlternativeId":
            self._add("aliases", alias=prefixes.normalize(target))
        else:
            self._add("replacements", predicate=_PROPERTIES[name], object=prefixes.normalize(target))

    def _unlabelled(self) -> None:
        """Report classes without a label that are in use, and close the list of what this file defines."""
        for concept, row in self.concepts.items():
            if concept not in self.labels and not row["retired"]:
                problem = "a node without label; the concept is kept and shown by its id"
                self.columns.rejects.add(problem, file=self.file, field="lbl", value=concept)
        # One graph may only point at what another describes.
        self.left_out -= set(self.concepts)
        self.first_file.update(dict.fromkeys(self.concepts, self.file_name))

    def _edges(self, graph: Any, place: str) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401 - JSON
        for number, edge in enumerate(_list(_get(graph, "edges"))):
            self.place = f"{place}[{number}]"
            ends = [self._string(_get(edge, key), key) for key in ("sub", "pred", "obj")]
            if None in ends:
                continue
            head, label, tail = map(str, ends)
            head, tail = prefixes.normalize(head), prefixes.normalize(tail)
            if {head, tail} & self.left_out:
                self.columns.dropped["edge of a node that was left out"] += 1
            else:
                yield head, label, tail

    def _relations(self, edges: list[tuple[str, str, str]]) -> None:
        """Add the relations, each under its label if that names no other: BFO_0000050 -> part_of."""
        labels = dict.fromkeys(label for _, label, _ in edges)
        names = _columns.relation_labels({label: self.properties.get(label, "") for label in labels})
        for label in labels.keys() - names.keys():
            is_number = _NUMBERED.fullmatch(_fragment(label))
            names[label] = prefixes.normalize(label) if is_number else _fragment(label)
        for head, label, tail in edges:
            source = (prefixes.parse_curie(head) or (self.name, ""))[0]
            self.columns.add("relations", head=head, relation=names[label], tail=tail, source=source, file=self.file)

    def _equivalent(self, graph: Any, place: str) -> None:  # noqa: ANN401 - JSON
        for number, entry in enumerate(_list(_get(graph, "equivalentNodesSets"))):
            self.place = f"{place}[{number}]"
            members = [self._string(member, "nodeIds") for member in _list(_get(entry, "nodeIds"))]
            known = dict.fromkeys(prefixes.normalize(member) for member in members if member is not None)
            first = prefixes.normalize(str(_get(entry, "representativeNodeId") or ""))
            owner = first if first in self.concepts else next((name for name in known if name in self.concepts), None)
            if owner is None:
                self._refuse("a set of equivalent nodes none of which is in the file", "nodeIds", str(first))
                continue
            self._enter(owner)
            for other in known:
                if other != owner:
                    self._add("xrefs", predicate="owl:equivalentClass", object=other)

    def _entries(self, meta: dict[str, Any], field: str) -> Iterator[tuple[str, Any]]:
        for number, entry in enumerate(_list(meta.get(field))):
            yield f"meta.{field}[{number}]", entry

    def _references(self, entry: Any) -> str | None:  # noqa: ANN401 - JSON
        references = [reference for reference in _list(_get(entry, "xrefs")) if isinstance(reference, str)]
        return ", ".join(reference for reference in references if _is_text(reference)) or None

    def _string(self, value: Any, field: str, limit: int = 1000) -> str | None:  # noqa: ANN401 - JSON
        """Return a string stripped; None, and a reject, where it is none or not to be stored."""
        if not isinstance(value, str):
            self._refuse("must be a string", field, None if value is None else str(value))
        elif not value.strip():
            self._refuse("an empty string", field, None)
        elif problem := model.too_long(value, limit):
            self._refuse(problem, field, value)
        elif not _is_text(value):
            self._refuse("a NUL character or half a surrogate pair in it", field, ascii(value))
        else:
            return value.strip()
        return None

    def _term(self, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        self._add("terms", language=self.options.language, code=self.code, **values)

    def _add(self, table: str, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        # Graphs of one file repeat what they import from each other.
        key = (table, self.concept, *values.values())
        if key not in self.seen:
            self.seen.add(key)
            self.columns.add(table, concept=self.concept, source=self.source, file=self.file, **values)

    def _refuse(self, problem: str, field: str, value: str | None) -> None:
        # JSON is often one long line, so the place is told by the path to it.
        self.columns.rejects.add(problem, file=self.file, field=f"{self.place}.{field}", value=value)


_PROPERTIES = {
    "hasAlternativeId": "",
    "hasOBONamespace": "",
    "IAO_0100001": model.REPLACED_BY,
    "consider": model.CONSIDER,
}


def _json(member: Member) -> Any:  # noqa: ANN401 - JSON
    with member.open() as file:
        content = _files.read_whole(file, member.place)
    try:
        return textio.json_value(content)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON, or cut short: {error.msg}", file=member.place, line=error.lineno) from None
    except ValueError as error:
        remedy = "is there an OBO file of it? that is read line by line"
        raise InputError(f"not JSON that can be read: {error}", file=member.place, remedy=remedy) from None


def _facts(graphs: list[Any], member: Member) -> tuple[str, str | None, str | None]:
    """Return name, version and licence of the first graph that has nodes."""
    graph = next(graph for graph in graphs if isinstance(_get(graph, "nodes"), list))
    identifier, meta = _get(graph, "id"), _get(graph, "meta")
    name = _fragment(identifier).split(".")[0] if isinstance(identifier, str) and _is_text(identifier) else ""
    version = _get(meta, "version")
    licence = None
    for entry in _list(_get(meta, "basicPropertyValues")):
        predicate, value = str(_get(entry, "pred")), _get(entry, "val")
        if not isinstance(value, str) or not _is_text(value):
            continue
        if re.search(r"licen[cs]e$", predicate, re.IGNORECASE):
            licence = licence or value
        elif predicate.endswith("versionInfo"):
            version = version or value
    known = version if isinstance(version, str) and _is_text(version) else None
    return name or member.name.split(".")[0], known, licence


def _get(entry: Any, key: str) -> Any:  # noqa: ANN401 - JSON
    return entry.get(key) if isinstance(entry, dict) else None


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    return value if isinstance(value, list) else []


def _fragment(iri: str) -> str:
    """Return the last part of an IRI: ".../oboInOwl#hasExactSynonym" -> "hasExactSynonym"."""
    return re.split(r"[#/]", iri)[-1] or iri


def _is_text(string: str) -> bool:
    """Whether a string can be stored: JSON may hold NUL, and halves of surrogate pairs."""
    return "\0" not in string and (string.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in string))
