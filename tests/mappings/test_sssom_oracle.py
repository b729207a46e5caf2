"""sssom-pydantic, which is not ours, reads the SSSOM that we write; what it writes we read, to convert and to merge."""

from __future__ import annotations

import sssom_pydantic

from alphita.errors import Rejects
from alphita.mappings.formats import sssom
from alphita.terminology import sssom as merging
from tests.mappings import sample

HEAD = sample.header(
    source_vocabulary="LAB",
    prefixes={"LAB": "http://lab.example/"},
    version="2026-01-31",
    date="2026-01-31",
    tool_version="0.1",
)
# sssom-pydantic 0.6 passes over strings without a code and over names of reviewers, and does not undo the escape of `|`
# in a matched term, which the specification asks for: none of them is here.
MAPPINGS = [
    sample.mapping(mention_code="1", relation="exact", confidence=0.25, similarity=0.5, routes="vectors"),
    sample.mapping("knee\tpain", "HP:0002829", row=2, mention_code="2", relation="broad", concept_name='say "ah"'),
    sample.mapping("two\nlines", "MONDO:0000004", row=3, mention_code="3", relation="narrow", comment="5' nail"),
    sample.mapping("#1 toe", "HP:0000003", row=4, mention_code="4", relation="exact", status="rejected"),
    sample.mapping("pipe|d", row=5, mention_code="5", relation="exact", method="exact", matched_term="a b;c"),
    sample.mapping("no toe", None, row=6, mention_code="6"),
]


def said_by_pydantic(path):
    return [
        (
            one.subject.curie,
            one.subject.name,
            one.predicate.curie,
            bool(one.predicate_modifier),
            one.object.curie,
            one.confidence,
            one.match_string,
        )
        for one in sssom_pydantic.read(path).mappings
    ]


def said_by_us(mappings):
    return [
        (
            f"LAB:{one.mention_code}",
            one.mention,
            sssom.PREDICATES[one.relation or "exact"],
            one.status == "rejected",
            one.concept_id or sssom.NO_TERM,
            one.confidence,
            [one.matched_term] if one.matched_term else None,
        )
        for one in mappings
    ]


def said_when_merging(path):
    return merging.read(path, Rejects(strict=True)).mappings


def test_it_reads_ours_and_we_read_its(tmp_path):
    ours, its = tmp_path / "ours.sssom.tsv", tmp_path / "its.sssom.tsv"
    sample.write(sssom, HEAD, MAPPINGS, ours)
    assert said_by_pydantic(ours) == said_by_us(MAPPINGS)
    pack = sssom_pydantic.read(ours)
    sssom_pydantic.write(pack.mappings, its, metadata=pack.mapping_set, converter=pack.converter)
    assert its.read_bytes() != ours.read_bytes()
    assert sample.read(sssom, HEAD, its) == sample.read(sssom, HEAD, ours)
    assert said_when_merging(its) == said_when_merging(ours)
    assert [(one.subject, one.label, one.predicate, one.negated, one.object) for one in said_when_merging(its)] == [
        row[:5] for row in said_by_us(MAPPINGS[:5])
    ]
