"""SSSOM/TSV. Specification: https://mapping-commons.github.io/sssom/spec-formats-tsv/
Version 1.1, in its canonical form: rows and prefixes sorted, no empty column, numbers of at most three decimals.

A mention with a code is a subject of the prefix `source_vocabulary`; one without is an `rdfs literal`. NIL is
`sssom:NoTermFound` as object of skos:exactMatch, with the target system as object_source: a CURIE without a local part,
which stands for the URI of its prefix. Its comment names the nearest concept, unless a person wrote one. A rejection
has the predicate_modifier `Not`. A mapping whose relation is not known makes the weakest claim there is, and is
counted: skos:relatedMatch, or if it is rejected Not skos:exactMatch. Further candidates and rejections of NIL, which
would say nothing in SSSOM, are left out, and counted.

match_string and reviewer_label have several values, joined by `|`. A matched term is one of them, whatever marks it
holds; reviewers are joined by `|` in a mapping as well.

Rows are sorted in memory when the file is finished: about 1 GB for a million. Rows alike in all are written once: of
strings without codes, those that occur twice.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, Problem, _curies, _fields
from alphita.mappings.formats._fields import split_complete
from alphita.mappings.record import Mapping, bare
from alphita.terminology import prefixes
from alphita.terminology.sssom import LITERAL, NO_TERM, SssomFile

__all__ = ["split_complete"]
DESCRIPTION = "SSSOM/TSV 1.1, a table of mappings with their justification"
SUFFIXES = (".sssom.tsv",)
STREAMS = False
READS = True
PREFIXED = True
LOSSES = _fields.all_but("mention", "confidence", "comment")

# In the order of the specification's table.
SLOTS = (
    *("subject_id", "subject_label", "predicate_id", "predicate_modifier", "object_id", "object_label"),
    *("mapping_justification", "reviewer_label", "subject_type", "object_source", "review_date", "confidence"),
    *("match_string", "similarity_score", "similarity_measure", "comment"),
)
# Said once in the metadata where all rows agree.
PROPAGATED = ("subject_type", "object_source", "similarity_measure")
COSINE = "cosine similarity"
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
_SAFE = "-._~!$&'()*+,;=:@"
# Prefixes that need no declaration.
BUILT_IN = ("owl", "rdf", "rdfs", "semapv", "skos", "sssom")
_MARKS = re.compile(r"[\\|]")
_ESCAPED = re.compile(r"\\([\\|])")
_CURIE = re.compile(r"[A-Za-z_][\w.-]*:[^\s|\"<>]+")


def begin(header: Header) -> bytes:
    """Return nothing: the metadata are written at the end, when the prefixes in use are known."""
    if not header.set_id:
        raise UsageError("SSSOM needs an id of the mapping set: --set-id https://example.org/mappings/mine.sssom.tsv")
    if not header.licence:
        raise UsageError(
            "SSSOM needs the licence of the mapping set: --licence https://creativecommons.org/publicdomain/zero/1.0/"
        )
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
    used = sorted(
        {prefix for name in ("subject_id", "object_id", "object_source") for prefix in prefixes_in(rows[name])}
    )
    needed = ("subject_label", "predicate_id", "object_id", "mapping_justification")
    columns = [
        name
        for name in SLOTS
        if name not in common and ((rows[name] != "").any() or (not len(rows) and name in needed))
    ]
    with _fields.made_of(part, out, "w", newline="\n") as file:
        file.writelines(f"#{line}\n" for line in metadata_lines(header, used, common))
        file.write("\t".join(columns) + "\n")
        for row in rows.select(columns).iter_rows():
            file.write("\t".join(map(cell, row)) + "\n")
    if repeats := written - len(rows):
        header.tell(f"{out}: {repeats:,} rows that repeat another one in all were left out")


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
    own = (header.source_vocabulary,)
    return _fields.lost(
        mappings, lambda mapping: _why(header, mapping), lambda mapping: _mapping(own, _slots(header, mapping), 1)
    )


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file. Subjects are numbered in its order; an unknown predicate or subject type sets a row aside."""
    file = SssomFile.open(path)
    own = {header.source_vocabulary, _only_prefix(file)}
    rows = file.rows(("predicate_id", "mapping_justification"), PROPAGATED, rejects)
    number, last = 0, None
    for line, slots in _fields.warn_unused_columns(rows, SLOTS, path, header.tell):
        subject = (slots.get("subject_id"), slots.get("subject_label"))
        number += subject != last
        last = subject
        try:
            mapping = _mapping(own, slots, number, file)
        except InputError as error:
            rejects.add(error.problem, file=path, line=line, field=error.field, value=error.value)
        else:
            _count_lost(header, mapping, slots)
            yield mapping


def _only_prefix(file: SssomFile) -> str:
    """Return the prefix that all subjects have, if it is declared; "" otherwise."""
    subject_prefixes = {slots.get("subject_id", "").partition(":")[0] for _, slots in file.rows((), (), Rejects())} - {
        ""
    }
    only = subject_prefixes.pop() if len(subject_prefixes) == 1 else ""
    return only if only in file.curies or prefixes.canonical(only) in prefixes.table() else ""


def _count_lost(header: Header, mapping: Mapping, slots: Dictionary[str, str]) -> None:
    is_known = slots["mapping_justification"] in (*MADE, COMPOSITE, MANUAL, REVIEW)
    _fields.read_as(
        header,
        slots,
        predicate_id=PREDICATES[mapping.relation or "exact"],
        mapping_justification=None if is_known else UNSPECIFIED,
        similarity_measure=None if mapping.similarity is None else COSINE,
    )


def _left_out(mapping: Mapping) -> str | None:
    if why := _fields.left_out(mapping, ("ignored",)):
        return why
    return "rejections of NIL" if mapping.status == "rejected" and mapping.concept_id is None else None


def _why(header: Header, mapping: Mapping) -> str | None:
    problem = validate(header, mapping)
    return _left_out(mapping) or (problem and problem.problem)


def _subject(header: Header, mapping: Mapping) -> str:
    if not header.source_vocabulary or not mapping.mention_code:
        return ""
    return f"{header.source_vocabulary}:{quote(mapping.mention_code, safe=_SAFE)}"


def _slots(header: Header, mapping: Mapping) -> dict[str, str]:
    subject = _subject(header, mapping)
    if mapping.concept_id is not None:
        _curies.uri(header, mapping.concept_id.partition(":")[0])
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
        "object_source": f"{header.target_system}:" if nil and header.target_system else "",
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


def _mapping(own: Collection[str], slots: Dictionary[str, str], number: int, file: SssomFile | None = None) -> Mapping:
    """Return the mapping of a row's slots; codes have no prefix of `own`."""
    predicate, modifier = slots["predicate_id"], slots.get("predicate_modifier", "")
    if predicate not in RELATIONS:
        raise InputError(f"must be one of {sorted(RELATIONS)}", field="predicate_id", value=predicate)
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
    return bare(
        number,
        _code(own, subject),
        label,
        concept,
        concept_name=slots.get("object_label") or None,
        matched_term=joined(slots.get("match_string", "")) or None,
        similarity=_number(slots, "similarity_score"),
        confidence=_number(slots, "confidence"),
        method="nil" if nil else method,
        routes=None if nil else routes,
        relation=None if nil else RELATIONS[predicate],
        status=status,
        reviewer=joined(slots.get("reviewer_label", "")) or None,
        reviewed_at=slots.get("review_date") or None,
        **{"comment": comment} | (_fields.nearest_in(comment) if nil else {}),
    )


def _code(own: Collection[str], subject: str) -> str | None:
    prefix, _, local = subject.partition(":")
    return (unquote(local) if prefixes.canonical(prefix) in map(prefixes.canonical, own) else subject) or None


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
    return {
        prefix for prefix in ids.str.split(":").list.first().unique().to_list() if prefix and prefix not in BUILT_IN
    }


def metadata_lines(header: Header, used: Sequence[str], common: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the YAML block, in the order of the specification's table."""
    yield 'sssom_version: "1.1"'
    if used:
        yield "curie_map:"
        for prefix in used:
            yield f"  {yaml(prefix)}: {yaml(_curies.uri(header, prefix))}"
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
