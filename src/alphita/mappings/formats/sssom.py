"""SSSOM/TSV. Specification: https://mapping-commons.github.io/sssom/spec-formats-tsv/
Version 1.1, in its canonical form: rows and prefixes sorted, no empty column, numbers of at most three decimals.

A mention with a code is a subject with the prefix of its vocabulary; one without is an `rdfs literal`. NIL is
`sssom:NoTermFound` as object of skos:exactMatch, with the target system as object_source: a CURIE without a local part,
which stands for the URI of its prefix. Its comment names the nearest concept, unless a person wrote one. A rejection
has the predicate_modifier `Not`. A mapping whose relation is not known makes the weakest claim there is, and is
counted: skos:relatedMatch, or if it is rejected Not skos:exactMatch. Further candidates and rejections of NIL, which
would say nothing in SSSOM, are left out, and counted.

match_string and reviewer_label have several values, joined by `|`. A matched term is one of them, whatever marks it
holds; reviewers are joined by `|` in a mapping as well.

What a file says of a row in other words and other slots is kept in the mapping's `extra`, what it says of the whole set
in the header, and both are written again. A set without an id has one made of its rows.

Rows are sorted in memory when the file is finished: about 1 GB for a million. Rows alike in all are written once: of
strings without codes, those that occur twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from alphita.errors import InputError, Rejects, UsageError, counted
from alphita.mappings.formats import Header, Problem, _curies, _fields, day_of
from alphita.mappings.formats._fields import split_complete
from alphita.mappings.record import Mapping, bare
from alphita.terminology.sssom import LITERAL, NO_TERM, SssomFile

__all__ = ["split_complete"]
DESCRIPTION = "SSSOM/TSV 1.1, a table of mappings with their justification"
SUFFIXES = (".sssom.tsv",)
STREAMS = False
READS = True
PREFIXED = True
LOSSES = _fields.all_but("mention", "confidence", "comment")
HOLDS = ("set_id", "version", "licence", "date", "tool", "source_version", "sources", "curies", "metadata")

# In the order of the specification's table.
SLOTS = (
    *("record_id", "subject_id", "subject_label", "subject_category", "predicate_id", "predicate_label"),
    *("predicate_modifier", "object_id", "object_label", "object_category", "mapping_justification", "author_id"),
    *("author_label", "reviewer_id", "reviewer_label", "creator_id", "creator_label", "license", "subject_type"),
    *("subject_source", "subject_source_version", "object_type", "object_source", "object_source_version"),
    *("predicate_type", "mapping_provider", "mapping_source", "mapping_cardinality", "cardinality_scope"),
    *("mapping_tool", "mapping_tool_id", "mapping_tool_version", "mapping_date", "publication_date", "review_date"),
    *("confidence", "reviewer_agreement", "curation_rule", "curation_rule_text", "subject_match_field"),
    *("object_match_field", "match_string", "subject_preprocessing", "object_preprocessing", "similarity_score"),
    *("similarity_measure", "see_also", "issue_tracker_item", "other", "comment"),
)
# Those of CURIEs.
ENTITIES = (
    *("subject_id", "predicate_id", "object_id", "author_id", "reviewer_id", "creator_id", "subject_source"),
    *("object_source", "mapping_source", "mapping_tool_id", "curation_rule", "issue_tracker_item", "record_id"),
    *("subject_match_field", "object_match_field", "subject_preprocessing", "object_preprocessing"),
)
# Slots of the metadata, and the attributes of a header that hold them.
OF_THE_SET = {
    "mapping_set_id": "set_id",
    "mapping_set_version": "version",
    "license": "licence",
    "subject_source_version": "source_version",
}
# Said once in the metadata where all rows agree.
PROPAGATED = ("subject_type", "object_source", "similarity_measure")
COSINE = "cosine similarity"
# SSSOM's own word for a set whose licence nobody has said.
NO_LICENCE = "https://w3id.org/sssom/license/unspecified"
PREDICATES = {
    "exact": "skos:exactMatch",
    "broad": "skos:broadMatch",
    "narrow": "skos:narrowMatch",
    "related": "skos:relatedMatch",
}
RELATIONS = {predicate: relation for relation, predicate in PREDICATES.items()} | {
    "skos:closeMatch": "related",
    "owl:equivalentClass": "exact",
    "owl:sameAs": "exact",
    "rdfs:subClassOf": "broad",
}
LEXICAL, THRESHOLD, SEMANTIC = (
    "semapv:LexicalMatching",
    "semapv:LexicalSimilarityThresholdMatching",
    "semapv:SemanticSimilarityThresholdMatching",
)
COMPOSITE, UNSPECIFIED = "semapv:CompositeMatching", "semapv:UnspecifiedMatching"
MANUAL, REVIEW = "semapv:ManualMappingCuration", "semapv:MappingReview"
# How a mapping came to be, as far as its justification says so: method and routes.
MADE: dict[str, tuple[str, str | None]] = {
    LEXICAL: ("exact", "exact"),
    THRESHOLD: ("nearest", "letters"),
    SEMANTIC: ("nearest", "vectors"),
}
_PLAIN = Header()
_SAFE = "-._~!$&'()*+,;=:@"
# Prefixes that need no declaration.
BUILT_IN = ("owl", "rdf", "rdfs", "semapv", "skos", "sssom")
_MARKS = re.compile(r"[\\|]")
_ESCAPED = re.compile(r"\\([\\|])")
_CURIE = re.compile(r"[A-Za-z_][\w.-]*:[^\s|\"<>]+")


def begin(header: Header) -> bytes:
    """Return nothing: the metadata are written at the end, when the prefixes in use are known."""
    for prefix in (header.source_vocabulary, header.target_system):
        if prefix:
            _curies.uri(header, prefix)
    return b""


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the rows as JSON Lines of their slots."""
    dump = json.JSONEncoder(ensure_ascii=False).encode
    written = (mapping for mapping in _fields.one_by_one(mappings) if not _why(header, mapping))
    return "".join(dump(_slots(header, mapping)) + "\n" for mapping in written).encode("utf-8")


def finish(header: Header, part: Path, out: Path) -> None:
    """Sort the rows, write metadata and each distinct row aside, rename, remove the part, and tell of repeats."""
    import polars as pl

    schema = dict.fromkeys(SLOTS, pl.String)
    rows = pl.read_ndjson(part, schema=schema) if os.stat(part).st_size else pl.DataFrame(schema=schema)
    written = len(rows)
    rows = rows.fill_null("").unique().sort(SLOTS)
    common = {name: rows[name][0] for name in PROPAGATED if len(rows) and rows[name].n_unique() == 1 and rows[name][0]}
    used = sorted({prefix for name in ENTITIES for prefix in prefixes_in(rows[name])})
    needed = ("subject_label", "predicate_id", "object_id", "mapping_justification")
    columns = [
        name
        for name in SLOTS
        if name not in common and ((rows[name] != "").any() or (not len(rows) and name in needed))
    ]
    header = _identified(header, rows, out)
    for prefix in used:
        if _curies.subject_uri(header, prefix).startswith(_curies.SOURCE):
            header.tell(f"{out}: nobody has declared the prefix {prefix}; declare it: --prefix {prefix}=https://...")
    with _fields.made_of(part, out, "w", newline="\n") as file:
        file.writelines(f"#{line}\n" for line in metadata_lines(header, used, common))
        file.write("\t".join(columns) + "\n")
        for row in rows.select(columns).iter_rows():
            file.write("\t".join(map(cell, row)) + "\n")
    if repeats := written - len(rows):
        header.tell(f"{out}: left out: {counted(repeats, 'row')} equal to an earlier one")


def _identified(header: Header, rows: Any, out: Path) -> Header:  # noqa: ANN401 - a polars DataFrame
    """Return the header with an id of the set, made of its rows, and a licence, if nobody has given them."""
    if not header.set_id:
        content = "\n".join("\t".join(row) for row in rows.iter_rows())
        header = replace(header, set_id=_curies.made_id(content.encode()))
        header.tell(f"{out}: the id of the set is {header.set_id}; give your own with --set-id")
    if not header.licence:
        header = replace(header, licence=NO_LICENCE)
        header.tell(f"{out}: the licence is {NO_LICENCE}; give yours with --licence")
    return header


def validate(header: Header, mapping: Mapping) -> Problem | None:
    """Return why a mapping cannot be written, or None."""
    if not _subject(header, mapping) and not mapping.mention:
        return Problem("neither a code nor a mention", "mention", mapping.mention)
    for concept_id in (mapping.concept_id or NO_TERM).split("|"):
        if not _CURIE.fullmatch(concept_id):
            return Problem("not a CURIE", "concept_id", concept_id)
    return None


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count what the file does not hold."""

    def held(mapping: Mapping) -> Mapping:
        slots = _slots(header, mapping)
        return _mapping(slots, 1).with_extras(slots)

    return _fields.lost(mappings, lambda mapping: _why(header, mapping), held)


def said(path: Path, header: Header) -> Header:
    """Return a header with a file's metadata, where it says nothing yet."""
    file = SssomFile.open(path)
    known: dict[str, Any] = {attribute: file.metadata.get(slot, "") for slot, attribute in OF_THE_SET.items()}
    with contextlib.suppress(UsageError):
        known["date"] = day_of(file.metadata.get("mapping_date", ""))
    if tool := file.metadata.get("mapping_tool"):
        known |= {"tool": tool, "tool_version": file.metadata.get("mapping_tool_version", "")}
    written = {*OF_THE_SET, "sssom_version", "mapping_date", "mapping_tool", "mapping_tool_version", *PROPAGATED}
    return replace(
        header,
        **{name: value for name, value in known.items() if value and getattr(header, name) == getattr(_PLAIN, name)},
        curies=file.curies,
        metadata={slot: lines for slot, lines in file.lines.items() if slot not in written},
    )


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file. Subjects are numbered in its order; an unknown predicate or subject type sets a row aside."""
    file = SssomFile.open(path)
    rows = file.rows(("predicate_id", "mapping_justification"), PROPAGATED, rejects)
    number, last = 0, None
    for line, slots in rows:
        subject = (slots.get("subject_id"), slots.get("subject_label"))
        number += subject != last
        last = subject
        try:
            mapping = _mapping(slots, number, file)
        except InputError as error:
            rejects.add(error.problem, file=path, line=line, field=error.field, value=error.value)
        else:
            yield _fields.with_extras(mapping, slots, _told(mapping, slots))


def _told(mapping: Mapping, slots: Dictionary[str, str]) -> dict[str, str]:
    """Return the slots of a row that its mapping holds, by what would be written of it: ids and numbers always."""
    own = _own_slots(mapping, _subject(_PLAIN, mapping), "")
    return own | {name: slots.get(name, "") for name in ("subject_id", "object_id", "confidence", "similarity_score")}


def _left_out(mapping: Mapping) -> str | None:
    if why := _fields.left_out(mapping, ("ignored",)):
        return why
    return "rejections of NIL" if mapping.status == "rejected" and mapping.concept_id is None else None


def _why(header: Header, mapping: Mapping) -> str | None:
    problem = validate(header, mapping)
    return _left_out(mapping) or (problem and problem.problem)


def _subject(header: Header, mapping: Mapping) -> str:
    prefix = header.source_vocabulary or _curies.prefix_of(header, mapping.mention_vocabulary or "")
    if not prefix or not mapping.mention_code:
        return ""
    return f"{prefix}:{quote(_curies.local_code(prefix, mapping.mention_code), safe=_SAFE)}"


def _slots(header: Header, mapping: Mapping) -> dict[str, str]:
    """Return the slots of a mapping, in the words of the file that it was read from where they say the same."""
    if mapping.concept_id is not None:
        _curies.uri(header, mapping.concept_id.partition(":")[0])
    source = f"{header.target_system}:" if mapping.concept_id is None and header.target_system else ""
    own = _own_slots(mapping, _subject(header, mapping), source)
    return _fields.overlaid(own, mapping, SLOTS, lambda slots: _mapping(slots, 1))


def _own_slots(mapping: Mapping, subject: str, source: str) -> dict[str, str]:
    justification = _justification(mapping)
    similarity = mapping.similarity if mapping.similarity is not None and mapping.similarity >= 0 else None
    nil, rejected = mapping.concept_id is None, mapping.status == "rejected"
    # To deny that two things are related at all is to claim the most.
    unknown = "exact" if nil or rejected else "related"
    slots = {
        "subject_id": subject,
        "subject_label": mapping.mention,
        "predicate_id": PREDICATES[unknown if nil else mapping.relation or unknown],
        "predicate_modifier": "Not" if rejected else "",
        "object_id": mapping.concept_id or NO_TERM,
        "object_label": mapping.concept_name or "",
        "mapping_justification": justification,
        "reviewer_label": "|".join(map(value_of, (mapping.reviewer or "").split("|"))),
        "subject_type": "" if subject else LITERAL,
        "object_source": source,
        "review_date": (mapping.reviewed_at or "")[:10] if mapping.reviewer else "",
        "confidence": decimals(mapping.confidence),
        "match_string": value_of(mapping.matched_term or "") if justification == LEXICAL else "",
        "similarity_score": decimals(similarity),
        "similarity_measure": "" if similarity is None else COSINE,
        "comment": mapping.comment or _fields.nearest_comment(mapping) or "",
    }
    return {name: value for name, value in slots.items() if value}


def _justification(mapping: Mapping) -> str:
    if mapping.status in ("approved", "rejected"):
        by_machine = mapping.routes or mapping.similarity is not None or mapping.confidence is not None
        return REVIEW if by_machine else MANUAL
    if mapping.method == "exact":
        return LEXICAL
    if mapping.routes == "letters":
        return THRESHOLD
    if mapping.routes == "vectors":
        return SEMANTIC
    return COMPOSITE if mapping.routes or mapping.method in ("abbreviation", "nil") else UNSPECIFIED


def _mapping(slots: Dictionary[str, str], number: int, file: SssomFile | None = None) -> Mapping:
    """Return the mapping of a row's slots; of a predicate that is none of ours, no relation is known."""
    predicate, modifier = slots["predicate_id"], slots.get("predicate_modifier", "")
    if not _CURIE.fullmatch(predicate):
        raise InputError("not a CURIE", field="predicate_id", value=predicate)
    if modifier not in ("", "Not"):
        raise InputError("must be Not or empty", field="predicate_modifier", value=modifier)
    subject, label = slots.get("subject_id", ""), slots.get("subject_label", "")
    if not subject and not (label and slots.get("subject_type") == LITERAL):
        raise InputError("neither subject_id nor a literal with a label", field="subject_id", value=subject or None)
    object_ = slots.get("object_id", "")
    if not _CURIE.fullmatch(object_):
        raise InputError("not a CURIE", field="object_id", value=object_)
    nil = object_ == NO_TERM
    justification = slots["mapping_justification"]
    reviewed = justification in (MANUAL, REVIEW)
    method, routes = MADE.get(justification, ("nearest", None))
    status = "rejected" if modifier else "approved" if reviewed else "unreviewed"
    comment = slots.get("comment") or None
    concept = None if nil else file.curie(object_) if file else object_
    vocabulary, colon, local = (file.curie(subject) if file else subject).partition(":")
    return bare(
        number,
        (unquote(local) if colon else subject) or None,
        label,
        concept,
        concept_name=slots.get("object_label") or None,
        matched_term=joined(slots.get("match_string", "")) or None,
        similarity=_number(slots, "similarity_score"),
        confidence=_number(slots, "confidence"),
        method="nil" if nil else method,
        routes=None if nil else routes,
        relation=None if nil else RELATIONS.get(predicate),
        mention_vocabulary=vocabulary if colon else None,
        status=status,
        reviewer=joined(slots.get("reviewer_label", "")) or None,
        reviewed_at=slots.get("review_date") or None,
        **{"comment": comment} | (_fields.nearest_in(comment) if nil else {}),
    )


def _number(slots: Dictionary[str, str], name: str) -> float | None:
    text = slots.get(name, "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InputError("must be a number from 0 to 1", field=name, value=text)
    return number


def value_of(text: str) -> str:
    """Return a string as one value of a slot of several."""
    return _MARKS.sub(r"\\\g<0>", text)


def joined(values: str) -> str:
    """Return the values of a slot of several, joined by `|` without escapes."""
    return _ESCAPED.sub(r"\1", values)


def decimals(number: float | None) -> str:
    """Return a number of at most three decimals."""
    if number is None:
        return ""
    text = format(Decimal(repr(number)).quantize(Decimal("0.001"), ROUND_HALF_UP), "f")
    return text.rstrip("0").rstrip(".")


def prefixes_in(ids: Any) -> set[str]:  # noqa: ANN401 - a polars Series
    """Return the prefixes in some CURIEs that need a declaration."""
    found = ids.str.split("|").explode().str.extract(r"^([A-Za-z_][\w.-]*):(?:[^/]|$)").unique().to_list()
    return {prefix for prefix in found if prefix and prefix not in BUILT_IN}


def metadata_lines(header: Header, used: Sequence[str], common: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the YAML block, in the order of the specification's table."""
    yield 'sssom_version: "1.1"'
    if declared := {**header.curies, **{prefix: _curies.subject_uri(header, prefix) for prefix in used}}:
        yield "curie_map:"
        for prefix in sorted(declared):
            yield f"  {yaml(prefix)}: {yaml(declared[prefix])}"
    objects = [prefix for prefix in used if prefix != header.source_vocabulary and prefix in header.sources]
    slots = {
        "mapping_set_id": header.set_id,
        "mapping_set_version": header.version,
        "license": header.licence,
        "subject_type": common.get("subject_type", ""),
        "subject_source_version": header.source_version,
        "object_source": common.get("object_source", ""),
        "object_source_version": "; ".join(f"{prefix} {header.sources[prefix]}" for prefix in objects),
        "mapping_tool": header.tool,
        "mapping_tool_version": header.tool_version,
        "mapping_date": header.date,
        "similarity_measure": common.get("similarity_measure", ""),
    }
    for name, value in slots.items():
        if value:
            yield f"{name}: {value if name == 'mapping_date' else yaml(value)}"
    for name, lines in header.metadata.items():
        yield from () if slots.get(name) else lines


def yaml(text: str) -> str:
    """Return a string as a YAML scalar: plain where that is a string, else in double quotes (as JSON)."""
    plain = re.fullmatch(r"[A-Za-z][\w./#~+,;() -]*(://[\w./#~+,;()?=&%-]*)?[\w/_#=]", text)
    words = ("null", "true", "false", "yes", "no", "on", "off")
    return text if plain and " #" not in text and text.lower() not in words else json.dumps(text, ensure_ascii=False)


def cell(text: str) -> str:
    """Return a cell, in quotes where it needs them."""
    if any(mark in text for mark in '\t\n\r"'):
        return '"' + text.replace('"', '""') + '"'
    return text
