"""OBO files (format 1.0 to 1.4): HPO, DOID, Uberon, ... line by line, so that every complaint has its line.

Read: id, name, synonym (all scopes and types), def, xref, is_a, relationship, alt_id, is_obsolete, replaced_by,
consider, subset, comment, namespace, property_value where it is a mapping (skos:*Match), equivalent_to; synonymtypedef,
[Typedef] names, and the header's version and licence. Left out and counted in the manifest: [Instance] stanzas, logical
definitions (intersection_of, union_of, disjoint_from), creator, dates and other property values, trailing qualifiers;
is_a and relationship that hold in a context only, which the qualifiers gci_relation and gci_filler say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, Rejects
from alphita.terminology import model, prefixes
from alphita.terminology.languages import Language
from alphita.terminology.loaders import _columns, _files
from alphita.terminology.loaders._columns import Columns, type_by_branches
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Beginning, Look
from alphita.terminology.model import Tables

DESCRIPTION = "OBO ontologies: HPO, DOID, Uberon, ..."

# Names of the files that are read, where they lie among others.
ENDINGS = (".obo",)
SCOPES = {"EXACT": "exact", "NARROW": "narrow", "BROAD": "broad", "RELATED": "related"}
# OBO 1.0 wrote the scope into the tag.
OLD_SYNONYMS = {f"{scope}_synonym": scope for scope in model.SCOPES}
# Mondo's file writes them without a prefix, others as URIs.
MAPPING = re.compile(
    r'"?(?:skos:|http://www\.w3\.org/2004/02/skos/core#)?((?:exact|close|broad|narrow|related)Match)"?'
)

_TAG = re.compile(r"([A-Za-z][\w.\-]*)\s*:(?!//)\s*(.*)")
_STANZA = re.compile(r"\[(\w+)\]\s*(?:!.*)?")
_OBO = re.compile(r"^(?:format-version\s*:|\[Term\])", re.MULTILINE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*')
_ESCAPE = re.compile(r"\\(.)")
_COMMENT = re.compile(r"(?<!\\)\s+!.*")
# {source="PMID:1", note="a \"b\""}, and the comment after it. Braces with anything else in them belong to the value.
# Nothing is given back once it is taken, or a run of spaces would be looked at again from each of them. Of groups by
# (?>...), for of (...)*+ Python up to 3.11.4 matches too much (https://github.com/python/cpython/issues/106052).
_QUALIFIER = r"""[^\s={}",]++\s*+=\s*+(?:"(?>(?:[^"\\]|\\.)*)"|[^\s={}",]*+)"""
_QUALIFIERS = re.compile(rf"(?<!\\)\{{\s*+(?>({_QUALIFIER}\s*+(?:,\s*+{_QUALIFIER}\s*+)*)?)\}}\s*+(?:!.*)?$")
_BRACES = re.compile(r"\s*(?<!\\)\{[^{}]*\}\s*$")
_IN_A_CONTEXT = re.compile(r"\bgci_(?:relation|filler)\s*=")
_ESCAPED = {"n": "\n", "t": "\t", "W": " "}
# Line, tag and value.
Clauses = list[tuple[int, str, str]]


class Options(Config):
    """Options of the OBO loader."""

    language: Language = Field("en", description="BCP-47 tag of names, synonyms and definitions; OBO does not state it")
    encoding: str = Field("utf-8", description="encoding of the file")
    missing_scope: str = Field(
        "",
        pattern="^(|exact|narrow|broad|related)$",
        description="scope of synonym lines that have none (OBO 1.2: related); empty: reject such lines",
    )
    semantic_type: str = _columns.semantic_type("HP:0000118", ", because OBO has none")


def recognises(seen: Look) -> dict[str, str] | None:
    """See `Loader.recognises`: its first line is a tag or a stanza, and it says its format or has a term."""
    return seen.settings(_is_obo, ENDINGS)


def load(paths: Sequence[Path], options: Options, rejects: Rejects) -> Tables:
    """Read OBO files into tables; ids must be unique over all of them."""
    reader = _Reader(options, rejects)
    sources = [reader.read(file) for file in _files.chosen(paths, ENDINGS, reader.columns.dropped)]
    type_by_branches(reader.columns, options.semantic_type)
    return reader.columns.tables(sources)


def _is_obo(file: Beginning) -> bool:
    first = next((line for _, line in file.lines() if line.strip() and not line.startswith("!")), "")
    return bool((_TAG.fullmatch(first) or _STANZA.fullmatch(first)) and _OBO.search(file.text))


class _Reader:
    """Reads files one after another into columns."""

    def __init__(self, options: Options, rejects: Rejects) -> None:
        self.options, self.columns = options, Columns(rejects)
        self.first_line: dict[str, str] = {}

    def read(self, member: Member) -> dict[str, Any]:
        self.member, self.columns.file = member, member.place
        self.header: dict[str, list[str]] = {}
        self.typedefs: dict[str, str] = {}
        self.relation_lines: list[tuple[str, str, str, int]] = []
        n_terms = 0
        for kind, line, clauses in self._stanzas():
            if kind == "Term":
                n_terms += 1
                self._term(line, clauses)
            elif kind == "Typedef":
                self._typedef(clauses)
            else:
                self.columns.dropped[f"[{kind}] stanza"] += 1
        if not n_terms:
            raise InputError("no [Term] in this file: not an OBO ontology, or one cut short", file=self.member.place)
        self._relations()
        return self._source()

    def _stanzas(self) -> Iterator[tuple[str, int, Clauses]]:
        """Yield (kind, line of its head, clauses) of each stanza; the header is read on the way."""
        kind, start, clauses = "", 0, Clauses()
        seen = False
        for number, line in _files.lines(self.member, self.options.encoding, self.columns.rejects):
            if not line or line.isspace() or line.startswith("!"):
                continue
            if line.startswith("[") and (stanza := _STANZA.fullmatch(line)):
                if kind:
                    yield kind, start, clauses
                else:
                    self._header(clauses)
                kind, start, clauses, seen = stanza[1], number, [], True
                continue
            if match := _TAG.fullmatch(line):
                clauses.append((number, match[1], match[2].rstrip()))
                seen = True
            elif not seen:
                problem = "not an OBO file: its first line should be 'format-version: …' or another 'tag: value'"
                raise InputError(problem, file=self.member.place, line=number, value=line)
            else:
                self.columns.refuse("not of the form 'tag: value'", number, None, line)
        if kind:
            yield kind, start, clauses

    def _header(self, clauses: Clauses) -> None:
        for _, tag, value in clauses:
            self.header.setdefault(tag, []).append(value)
        self.synonym_types = {}
        for value in self.header.get("synonymtypedef", ()):
            identifier, _, rest = value.partition(" ")
            described = _QUOTED.match(rest)
            # A speaking id is the better name; of an id like HP:0034334 the description is.
            name = _unescape(described[1]) if described and ":" in identifier else identifier
            self.synonym_types[identifier] = model.term_type(name) or identifier

    def _source(self) -> dict[str, Any]:
        name = self.header.get("ontology", [self.member.name.split(".")[0]])[0].removesuffix(".obo")
        version = next((self.header[tag][0] for tag in ("data-version", "version", "date") if tag in self.header), None)
        licences = [
            value.split(maxsplit=1)[1].strip('"').split('" ')[0]
            for value in self.header.get("property_value", ())
            if re.match(r"\S*\b(license|licence|rights)\s+\S", value, re.IGNORECASE)
        ]
        licence = next((url for url in licences if url.startswith("http")), licences[0] if licences else None)
        return _files.source(self.member, name=name, version=version, licence=licence)

    def _term(self, start: int, clauses: Clauses) -> None:
        identifier = next((value for _, tag, value in clauses if tag == "id"), "")
        concept = prefixes.normalize(_plain(identifier))
        if not concept:
            self.columns.refuse("a [Term] without id", start, "id")
            return
        if concept in self.first_line:
            self.columns.refuse(f"this id was defined before, at {self.first_line[concept]}", start, "id", concept)
            return
        self.first_line[concept] = f"{self.member.name}:{start}"
        prefix, _, local = concept.rpartition(":")
        self.concept, self.source, self.code = concept, prefix, local
        self.n_names = 0
        retired = any(tag == "is_obsolete" and value.startswith("true") for _, tag, value in clauses)
        self.columns.put("concepts", start, id=concept, source=prefix, retired=retired)
        for line, tag, given in clauses:
            value, qualifiers = _parted(given)
            if qualifiers:
                self.columns.dropped["trailing qualifiers"] += 1
            reader = _CLAUSES.get(tag)
            if tag in ("is_a", "relationship") and _IN_A_CONTEXT.search(qualifiers):
                self.columns.dropped[f"{tag} that holds in a context only"] += 1
            elif reader is not None:
                reader(self, line, tag, value)
            elif tag not in ("id", "is_obsolete"):
                self.columns.dropped[tag] += 1
        own = any(tag == "namespace" for _, tag, _ in clauses)
        if self.options.semantic_type == "namespace" and not own and (default := self.header.get("default-namespace")):
            self._add("semantic_types", start, semantic_type=_plain(default[0]))
        if self.n_names == 0 and not retired:
            problem = "a [Term] without name; the concept is kept and shown by its id"
            self.columns.refuse(problem, start, "name", concept)

    def _name(self, line: int, _tag: str, value: str) -> None:
        value = _unescape(_uncommented(value))
        if not self.columns.fits(value, line, "name"):
            return
        if self.n_names:
            self.columns.refuse("a second name", line, "name", value)
            return
        self.n_names = 1
        self._add_term(line, string=value, scope="exact", preferred=True)

    def _quoted(self, line: int, tag: str, value: str, problem: str, limit: int) -> tuple[str, str]:
        """Return the string in quotes that a value begins with, and what follows; ("", "") after a report."""
        if (quoted := _QUOTED.match(value)) is None:
            self.columns.refuse(problem, line, tag, value)
            return "", ""
        string = _unescape(quoted[1])
        return (string, value[quoted.end() :]) if self.columns.fits(string, line, tag, limit) else ("", "")

    def _synonym(self, line: int, tag: str, value: str) -> None:
        problem = 'a synonym must begin with a string in quotes: synonym: "…" EXACT []'
        string, rest = self._quoted(line, tag, value, problem, model.MAX_TERM_CHARACTERS)
        if not string:
            return
        words, bracket, reference = rest.partition("[")
        scope, *kinds = [*words.split(), ""][:3]
        if tag in OLD_SYNONYMS:
            scope = OLD_SYNONYMS[tag]
        elif scope in SCOPES:
            scope = SCOPES[scope]
        elif self.options.missing_scope and (not scope or scope in self.synonym_types):
            scope, kinds = self.options.missing_scope, [scope]
        else:
            problem = "a synonym without a scope (EXACT, BROAD, NARROW or RELATED); missing_scope=related would take it"
            self.columns.refuse(problem, line, tag, value)
            return
        kind = kinds[0] if kinds else ""
        self._add_term(
            line,
            string=string,
            scope=scope,
            preferred=False,
            term_type=kind or None,
            type=self.synonym_types.get(kind, model.term_type(kind)),
            reference=reference.rpartition("]")[0].strip() or None if bracket else None,
        )

    def _add_term(self, line: int, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        self._add("terms", line, language=self.options.language, code=self.code, **values)

    def _def(self, line: int, tag: str, value: str) -> None:
        problem = "a definition must be in quotes"
        text, rest = self._quoted(line, tag, value, problem, model.MAX_TEXT_CHARACTERS)
        if text:
            reference = _BRACES.sub("", rest).strip().removeprefix("[").removesuffix("]").strip()
            self._add("definitions", line, text=text, language=self.options.language, reference=reference or None)

    def _is_a(self, line: int, _tag: str, value: str) -> None:
        self.relation_lines.append((self.concept, model.IS_A, prefixes.normalize(_plain(value)), line))

    def _relationship(self, line: int, tag: str, value: str) -> None:
        parts = _plain(value).split()
        if len(parts) != 2:
            self.columns.refuse("a relationship must be 'relation target'", line, tag, value)
            return
        self.relation_lines.append((self.concept, parts[0], prefixes.normalize(parts[1]), line))

    def _xref(self, line: int, _tag: str, value: str) -> None:
        target = _plain(re.split(r'\s+"', value, maxsplit=1)[0])
        self._add("xrefs", line, predicate=model.XREF, object=prefixes.normalize(_unescape(target)))

    def _reference(self, line: int, tag: str, value: str) -> None:
        table, column, predicate = _REFERENCES[tag]
        self._add(table, line, **{column: prefixes.normalize(_plain(value))}, **predicate)

    def _property(self, line: int, tag: str, value: str) -> None:
        if tag == "property_value":
            name, _, target = value.partition(" ")
            if not (mapping := MAPPING.fullmatch(name)):
                self.columns.dropped[f"property_value {name}"] += 1
                return
            target = prefixes.normalize(_plain(target.strip().strip('"').split('" ')[0]))
            self._add("xrefs", line, predicate=f"skos:{mapping[1]}", object=target)
            return
        value = _unescape(_uncommented(value)) if tag == "comment" else _plain(value)
        if not self.columns.fits(value, line, tag, model.MAX_TEXT_CHARACTERS):
            return
        if tag == "namespace" and self.options.semantic_type == "namespace":
            self._add("semantic_types", line, semantic_type=value)
        self._add("properties", line, name=tag, value=value)

    def _add(self, table: str, line: int, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        self.columns.put(table, line, concept=self.concept, source=self.source, **values)

    def _typedef(self, clauses: Clauses) -> None:
        values = {tag: value for _, tag, value in reversed(clauses)}
        if "id" in values and "name" in values:
            self.typedefs[_plain(values["id"])] = _unescape(_uncommented(_parted(values["name"])[0]))
        self.columns.dropped["[Typedef] stanza, beyond its id and name"] += 1

    def _relations(self) -> None:
        """Add the relations, each under its id if that speaks, else under its name: BFO:0000050 -> part_of."""
        labels = {label for _, label, _, _ in self.relation_lines}
        names = _columns.relation_labels(
            {label: self.typedefs.get(label, "") if ":" in label else "" for label in labels}
        )
        for head, label, tail, line in self.relation_lines:
            source = head.rpartition(":")[0]
            self.columns.put("relations", line, head=head, relation=names.get(label, label), tail=tail, source=source)


# tag -> table, column that the id goes to, and what else is in the row.
_REFERENCES: dict[str, tuple[str, str, dict[str, str]]] = {
    "alt_id": ("aliases", "alias", {}),
    "equivalent_to": ("xrefs", "object", {"predicate": "owl:equivalentClass"}),
    "replaced_by": ("replacements", "object", {"predicate": model.REPLACED_BY}),
    "consider": ("replacements", "object", {"predicate": model.CONSIDER}),
}
_CLAUSES: dict[str, Any] = {
    "name": _Reader._name,
    "def": _Reader._def,
    "is_a": _Reader._is_a,
    "relationship": _Reader._relationship,
    **dict.fromkeys(("synonym", *OLD_SYNONYMS), _Reader._synonym),
    **dict.fromkeys(("xref", "xref_analog"), _Reader._xref),
    **dict.fromkeys(_REFERENCES, _Reader._reference),
    **dict.fromkeys(("subset", "comment", "namespace", "property_value"), _Reader._property),
}


def _parted(value: str) -> tuple[str, str]:
    """Return a value without the qualifiers that trail it, and the qualifiers."""
    match = _QUALIFIERS.search(value) if "}" in value else None
    return (value[: match.start()].rstrip(), match[0]) if match else (value, "")


def _uncommented(value: str) -> str:
    """Return a value without the comment that follows it; a mark that no space stands before is text."""
    return _COMMENT.sub("", value) if "!" in value else value


def _plain(value: str) -> str:
    """Return an identifier without the comment and the qualifiers, or other words in braces, that may follow it."""
    value = _uncommented(_parted(value)[0])
    if value.endswith("}"):
        value = _BRACES.sub("", value)
    return value.strip()


def _unescape(value: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value) if "\\" in value else value
