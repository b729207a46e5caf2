"""What FHIR's ConceptMap has in common in R4 and R5: groups of source and target system, elements, targets.

A mention is an element, by its code and its string. What is said of it twice is written once; where it has both a
target and a NIL, in whatever groups, the target stands. How many were left out is told when the document is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from alphita import textio
from alphita.errors import InputError, Rejects, UsageError, counted
from alphita.mappings.formats import Header, Problem, _curies, _fields, day_of
from alphita.mappings.record import Mapping, bare

Target = dict[str, Any]
NARROWER = "The target is narrower in meaning than the source."
INEXACT = "The target is related to the source, but neither equal to it nor wider or narrower."
COMMENTS = (NARROWER, INEXACT)
# Attributes of a map, and those of a header that hold them; what else is written of every map.
OF_THE_MAP = {"url": "set_id", "version": "version", "copyright": "licence"}
WRITTEN = ("name", "status", "date", "group")
HOLDS = ("set_id", "version", "licence", "date", "tool", "source_version", "sources")
NO_PLACE = ("rejected", "flagged", "ignored")
# FHIR's types code and string.
_CODE = re.compile(r"[^\s]+( [^\s]+)*")
_STRING = re.compile(r"[ \r\n\t\S]+")


class Release(Protocol):
    """What differs between the releases."""

    # The attribute of a target that says how it stands to its source, and its words for our relations.
    RELATION: str
    RELATIONS: dict[str, Any]
    # What the resource says beside url, version, status and the groups.
    FIELDS: dict[str, Any]

    @staticmethod
    def group(source: str, source_version: str, target: str, target_version: str) -> dict[str, Any]:
        """Return a group without its elements; what is not known is ""."""
        ...

    @staticmethod
    def target_system(group: dict[str, Any]) -> str:
        """Return the target system of a group, "" if it has none."""
        ...

    @staticmethod
    def target(mapping: Mapping, code: str, word: str = "") -> Target:
        """Return the target of a mapping; `word`: for its relation, instead of ours."""
        ...

    @staticmethod
    def nil(mapping: Mapping) -> Target | None:
        """Return the target that says NIL; None: the element itself says it."""
        ...

    @staticmethod
    def element(targets: list[Target]) -> dict[str, Any]:
        """Return what an element says beside code and display; no target means that there is no mapping."""
        ...

    @staticmethod
    def facts(target: Target) -> dict[str, Any] | None:
        """Return the fields of a mapping that a target gives, or None if it says that there is no mapping."""
        ...


class Document:
    """The ConceptMap of one release: what a format's module offers (see `Format`)."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def begin(self, header: Header) -> bytes:
        if header.source_vocabulary and not header.source_system:
            _curies.fhir_system(header, header.source_vocabulary)
        return b""

    def encode(self, header: Header, mappings: Sequence[Mapping]) -> bytes:
        """Return JSON Lines: both systems, code, display and target of each mapping, and the target of a NIL."""
        dump = json.JSONEncoder(ensure_ascii=False).encode
        lines = []
        for mapping in _fields.one_by_one(mappings):
            if self._why(header, mapping):
                continue
            system, target = self._target(header, mapping)
            nil = None if target else self._release.nil(mapping)
            lines.append(
                dump(
                    {
                        "source_system": _curies.source_system(header, mapping.mention_vocabulary),
                        "target_system": system,
                        "code": _source_code(mapping),
                        "display": _display(mapping),
                        "target": dump(target) if target else "",
                        "nil": dump(nil) if nil else "",
                    }
                )
                + "\n"
            )
        return "".join(lines).encode("utf-8")

    def finish(self, header: Header, part: Path, out: Path) -> None:
        """Write the document aside, one element a line, rename it, remove the part, and tell what was left out."""
        import polars as pl

        schema = dict.fromkeys(("source_system", "target_system", "code", "display", "target", "nil"), pl.String)
        rows = pl.read_ndjson(part, schema=schema) if os.stat(part).st_size else pl.DataFrame(schema=schema)
        written = len(rows)
        rows = rows.unique([name for name in schema if name != "nil"], keep="first", maintain_order=True)
        repeats, distinct = written - len(rows), len(rows)
        has_target = pl.col("target") != ""
        # That there is none in one terminology goes to a group of its own, where readers would take it for an answer.
        rows = rows.filter(has_target | ~has_target.any().over("source_system", "code", "display"))
        nils = distinct - len(rows)
        rows = rows.sort("source_system", "target_system", "code", "display", maintain_order=True)
        header = _identified(header, part, out)
        versions = {_system(header, prefix): version for prefix, version in header.sources.items()}
        with _fields.made_of(part, out, "w", newline="\n") as file:
            head = json.dumps(_head(self._release, header), ensure_ascii=False, indent=1).removesuffix("\n}")
            file.write(head + (',\n "group": [' if len(rows) else ""))
            for place, ((source, system), group) in enumerate(groupby(rows.iter_rows(), key=lambda row: row[:2])):
                facts = self._release.group(source, header.source_version, system, versions.get(system, ""))
                start = json.dumps(facts, ensure_ascii=False).removesuffix("}")
                file.write(("," if place else "") + "\n" + start + (", " if facts else "") + '"element": [')
                for count, (key, some) in enumerate(groupby(group, key=lambda row: row[2:4])):
                    targets = [textio.json_value(row[4] or row[5]) for row in some if row[4] or row[5]]
                    element = {name: value for name, value in zip(("code", "display"), key, strict=True) if value}
                    written_element = json.dumps(element | self._release.element(targets), ensure_ascii=False)
                    file.write(("," if count else "") + "\n" + written_element)
                file.write("\n]}")
            file.write("\n ]\n}\n" if len(rows) else "\n}\n")
        if repeats:
            header.tell(f"{out}: left out: {counted(repeats, 'mapping')} equal to an earlier one")
        if nils:
            header.tell(f"{out}: left out: {counted(nils, 'NIL')} of a code and string that has a target")

    def validate(self, header: Header, mapping: Mapping) -> Problem | None:
        """Return why a mapping cannot be written, or None; None, too, for one that is left out anyway."""
        if _left_out(header, mapping):
            return None
        if mapping.mention_code and not _CODE.fullmatch(mapping.mention_code):
            why = "no code in FHIR: it has outer, double or odd white space"
            return Problem(why, "mention_code", mapping.mention_code)
        if not mapping.mention_code and not _display(mapping):
            return Problem("neither a code nor a mention", "mention", mapping.mention)
        if mapping.mention and not _STRING.fullmatch(mapping.mention):
            return Problem("a character that FHIR has no place for", "mention", mapping.mention)
        for concept_id in mapping.concept_id.split("|") if mapping.concept_id is not None else ():
            prefix, _, local = concept_id.partition(":")
            if not prefix or not _CODE.fullmatch(local):
                return Problem("not a CURIE", "concept_id", concept_id)
        return None

    def losses(self, header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
        """Return how many mappings lose each field in this format."""

        def held(mapping: Mapping) -> Mapping:
            system, target = self._target(header, mapping)
            nil = self._release.nil(mapping) or {}
            facts = self._release.facts(target) if target else _fields.nearest_in(nil.get("comment"))
            concept = _curies.from_fhir(header, system, target["code"]) if target else None
            source = _curies.vocabulary_of(header, _curies.source_system(header, mapping.mention_vocabulary))
            back = _mapping(1, source, _source_code(mapping), _display(mapping), concept, facts)
            return back.with_extras(target or {})

        return _fields.lost(mappings, lambda mapping: self._why(header, mapping), held)

    def _target(self, header: Header, mapping: Mapping) -> tuple[str, Target | None]:
        """Return target system and target of a mapping, with the word of the file that it was read from."""
        if mapping.concept_id is None:
            return (_curies.fhir_system(header, header.target_system) if header.target_system else ""), None
        prefix = mapping.concept_id.partition(":")[0]
        target = self._release.target(mapping, _curies.fhir_code(mapping.concept_id))
        word = mapping.extras.get(self._release.RELATION)
        if word in self._release.RELATIONS and self._release.RELATIONS[word] == mapping.relation:
            target = self._release.target(mapping, target["code"], word)
        return _curies.fhir_system(header, prefix), target

    def said(self, path: Path, header: Header) -> Header:
        """Return a header with what a document says of the whole map, where it says nothing yet."""
        document = _document(path)
        texts = {name: document[name] for name in document if isinstance(document[name], str)}
        known = {attribute: texts.get(name, "") for name, attribute in OF_THE_MAP.items()}
        with contextlib.suppress(UsageError):
            known["date"] = day_of(texts.get("date", "")[:10])
        written = _head(self._release, header) | _head(self._release, replace(header, set_id=known["set_id"]))
        header.lost.update(name for name in document if name not in (*written, *OF_THE_MAP, *WRITTEN))
        if texts.get("status", "draft") != "draft":
            header.lost[f"status {texts['status']}"] += 1
        return replace(header, **{name: text for name, text in known.items() if text and not getattr(header, name)})

    def _why(self, header: Header, mapping: Mapping) -> str | None:
        problem = self.validate(header, mapping)
        return _left_out(header, mapping) or (problem and problem.problem)

    def read(self, path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
        """Yield the mappings of a ConceptMap; what is no mapping goes to the rejects."""
        number = 0
        for where, group in _each(_groups(path), "group"):
            try:
                _check(group, where, texts=("target",))
                elements = list(_each(_listed(group, "element", where), f"{where}.element"))
            except InputError as error:
                rejects.add(error.problem, file=path, field=error.field, value=error.value)
                continue
            system = self._release.target_system(group)
            source = _curies.vocabulary_of(header, str(group.get("source") or "").partition("|")[0])
            header.lost.update({"unmapped": 1} if group.get("unmapped") else {})
            for place, element in elements:
                number += 1
                try:
                    _check(element, place, texts=("code", "display"))
                    targets = list(_each(_listed(element, "target", place), f"{place}.target"))
                    code, display = element.get("code"), element.get("display") or ""
                    if not code and not display:
                        raise InputError("an element without code and display", field=place)
                except InputError as error:
                    rejects.add(error.problem, file=path, line=number, field=error.field, value=error.value)
                    continue
                meant = False
                nearest: dict[str, Any] = {}
                for at, target in targets:
                    try:
                        concept, facts = self._said(header, system, where, target, at)
                    except InputError as error:
                        rejects.add(error.problem, file=path, line=number, field=error.field, value=error.value)
                        meant = True
                        continue
                    if concept is not None:
                        mapping = _mapping(number, source, code, display, concept, facts)
                        yield self._with_words(header, mapping, target)
                        meant = True
                    else:
                        nearest = nearest or facts or {}
                # That it is not this concept says little where another is named.
                if not meant:
                    yield _mapping(number, source, code, display, None, nearest)

    def _said(
        self, header: Header, system: str, group: str, target: Target, at: str
    ) -> tuple[str | None, dict[str, Any] | None]:
        _check(target, at, texts=("code", "display", "comment", "equivalence", "relationship"))
        for name in ("property", "dependsOn", "product"):
            for place, item in _each(_listed(target, name, at), f"{at}.{name}"):
                _check(item, place, texts=("code",) if name == "property" else ())
        try:
            facts = self._release.facts(target)
        except InputError as error:
            raise InputError(error.problem, field=f"{at}.{error.field}", value=error.value) from None
        if facts is None:
            if (code := target.get("equivalence") or target.get("relationship")) != "unmatched":
                header.lost[f"targets that are {code}"] += 1
            return None, _fields.nearest_in(target.get("comment"))
        if not target.get("code"):
            raise InputError("a target without a code", field=f"{at}.code")
        concept = _curies.from_fhir(header, system, target["code"])
        if concept is None:
            problem = f"no prefix is known for this system; declare one: --prefix NAME={system}"
            raise InputError(problem, field=f"{group}.target", value=system)
        return concept, facts

    def _with_words(self, header: Header, mapping: Mapping, target: Target) -> Mapping:
        """Return a mapping with its target's word for the relation; count what else it does not hold."""
        held = self._release.target(mapping, "")
        properties = {property_["code"] for property_ in held.get("property", ())}
        others = [
            f"property {property_.get('code')}"
            for property_ in target.get("property") or ()
            if property_.get("code") not in properties
        ]
        header.lost.update([*others, *(name for name in ("dependsOn", "product") if target.get(name))])
        name = self._release.RELATION
        return _fields.with_extras(mapping, {name: target.get(name) or ""}, held)


def text(value: str | None) -> str | None:
    """Return a string if it is one in FHIR, which knows no control characters and no blank strings; else None."""
    return value if value and value.strip() and _STRING.fullmatch(value) else None


def _left_out(header: Header, mapping: Mapping) -> str | None:
    return _fields.left_out(mapping, NO_PLACE, not header.with_review)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = textio.json_value(textio.read_bytes(path))
    except ValueError as error:
        raise InputError(f"not JSON that can be read: {error}", file=path) from None
    if not isinstance(document, dict) or document.get("resourceType") != "ConceptMap":
        raise InputError("no ConceptMap: its resourceType is another", file=path)
    return document


def _groups(path: Path) -> list[Any]:
    document = _document(path)
    try:
        return _listed(document, "group", "")
    except InputError as error:
        raise InputError(error.problem, file=path, field=error.field, value=error.value) from None


def _listed(of: dict[str, Any], name: str, path: str) -> list[Any]:
    """Return the list `name` of the object at `path`; the empty one, if there is none."""
    value = of.get(name)
    if value is not None and not isinstance(value, list):
        raise InputError("must be a list", field=f"{path}.{name}".lstrip("."), value=value)
    return value or []


def _each(items: list[Any], path: str) -> Iterator[tuple[str, Any]]:
    return ((f"{path}[{at}]", item) for at, item in enumerate(items))


def _check(item: Any, path: str, texts: Sequence[str]) -> None:  # noqa: ANN401 - whatever JSON holds
    """Raise InputError unless `found` is an object whose `texts` are strings, where it has them."""
    if not isinstance(item, dict):
        raise InputError("must be an object", field=path, value=item)
    for name in texts:
        value = item.get(name)
        if value is not None and not (isinstance(value, str) and textio.is_text(value)):
            raise InputError("must be a string of valid text", field=f"{path}.{name}", value=value)


def _system(header: Header, prefix: str) -> str:
    try:
        return _curies.fhir_system(header, prefix)
    except UsageError:
        return ""


def _source_code(mapping: Mapping) -> str:
    """Return the code of a mention in its FHIR system."""
    code, vocabulary = mapping.mention_code or "", mapping.mention_vocabulary or ""
    return _curies.fhir_code(f"{vocabulary}:{code}") if code and _curies.PREFIX.fullmatch(vocabulary) else code


def _identified(header: Header, part: Path, out: Path) -> Header:
    """Return the header with a url made of the mappings, if nobody has given one."""
    if header.set_id:
        return header
    header = replace(header, set_id=_curies.made_id(part.read_bytes()))
    header.tell(f"{out}: the url is {header.set_id}; give your own with --set-id")
    return header


def _display(mapping: Mapping) -> str:
    return mapping.mention if mapping.mention.strip() else ""


def _head(release: Release, header: Header) -> dict[str, Any]:
    name = re.sub(r"[^A-Za-z0-9]+", "_", header.set_id.rstrip("/").rpartition("/")[2]).strip("_")
    facts = {
        "resourceType": "ConceptMap",
        "url": header.set_id,
        "version": header.version,
        "name": f"Map_{name}"[:255] if name else "Map",
        "status": "draft",
        "date": header.date,
        "description": f"Made by {header.tool} {header.tool_version}.",
        "copyright": header.licence,
        **release.FIELDS,
    }
    return {key: value for key, value in facts.items() if value}


def _mapping(
    number: int,
    vocabulary: str | None,
    code: str | None,
    display: str,
    concept: str | None,
    facts: dict[str, Any] | None,
) -> Mapping:
    """Return the mapping of an element and one of its targets."""
    local = _curies.local_code(vocabulary, code) if vocabulary and code else code
    return bare(number, local or None, display, concept, mention_vocabulary=vocabulary, **facts or {})
