"""SSSOM/TSV, checked by hand and by sssom-py's own parser and validators."""

from __future__ import annotations

import io
import logging

import pytest
import yaml
from sssom.parsers import parse_sssom_table
from sssom.validators import SchemaValidationType, validate

from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, fhir_r4, sssom
from tests.mappings import sample
from tests.mappings.sample import header, mapping


class LogCapture(logging.Handler):
    """The warnings of a block."""

    def __enter__(self):
        self.texts = []
        logging.getLogger().addHandler(self)
        return self

    def emit(self, record):
        if record.levelno >= logging.WARNING:
            self.texts.append(record.getMessage())

    def __exit__(self, *error):
        logging.getLogger().removeHandler(self)


CHECKS = [
    SchemaValidationType.JsonSchema,
    SchemaValidationType.PrefixMapCompleteness,
    SchemaValidationType.StrictCurieFormat,
]
HEAD = header(
    version="3",
    date="2026-01-31",
    source_version="2025",
    sources={"HP": "2026-01-01", "MONDO": "2"},
    tool_version="0.1",
)


def validated(path):
    """Return what sssom-py makes of a file without a warning; its strict mode refuses every file there is."""
    with LogCapture() as log:
        found = parse_sssom_table(io.StringIO(path.read_text(encoding="utf-8")), sep="\t")
    assert log.texts == []
    reports = validate(found, CHECKS, fail_on_error=False)
    assert {kind: [one.message for one in report.results] for kind, report in reports.items()} == {
        kind: [] for kind in CHECKS
    }
    return found.df


def rows(path):
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
    return [dict(zip(lines[0].split("\t"), line.split("\t"), strict=True)) for line in lines[1:]]


def test_yaml_scalars_are_what_they_were(tmp_path):
    for value in ("2026-01-31", "1.0", "yes", "null", "a: b", "x #y", "- z", "it's", '"q"', "tab\tbed", "ß", "1e3"):
        path = sample.write(sssom, header(version=value, source_version=value), [mapping()], tmp_path / "a.tsv")
        block = "".join(line[1:] for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
        assert yaml.safe_load(block)["mapping_set_version"] == value
        assert yaml.safe_load(block)["subject_source_version"] == value


def test_a_string_without_a_code_is_a_literal(tmp_path):
    path = sample.write(
        sssom, header(source_vocabulary=""), [mapping("sore toe"), mapping("#1 toe")], tmp_path / "a.tsv"
    )
    assert "#subject_type: rdfs literal\n" in path.read_text()
    assert "LOCAL" not in path.read_text()
    frame = validated(path)
    assert sorted(frame["subject_label"]) == ["#1 toe", "sore toe"]
    back = sample.read(sssom, header(), path)
    assert [(one.mention, one.mention_code) for one in back] == [("#1 toe", None), ("sore toe", None)]
    coded = mapping(mention_code="1", relation="exact")
    assert sssom.losses(header(source_vocabulary=""), [coded]) == {"mention_code": 1}


@pytest.mark.parametrize(
    ("fields", "justification"),
    [
        ({"method": "exact"}, "LexicalMatching"),
        ({"routes": "letters"}, "LexicalSimilarityThresholdMatching"),
        ({"routes": "vectors"}, "SemanticSimilarityThresholdMatching"),
        ({"routes": "letters|vectors"}, "CompositeMatching"),
        ({"method": "abbreviation"}, "CompositeMatching"),
        ({"concept_id": None}, "CompositeMatching"),
        ({}, "UnspecifiedMatching"),
        ({"status": "approved"}, "ManualMappingCuration"),
        ({"status": "approved", "routes": "vectors"}, "MappingReview"),
        ({"status": "rejected", "routes": "vectors"}, "MappingReview"),
    ],
)
def test_justification(tmp_path, fields, justification):
    path = sample.write(sssom, HEAD, [mapping(**fields)], tmp_path / "a.tsv")
    assert [row["mapping_justification"] for row in rows(path)] == [f"semapv:{justification}"]
    validated(path)


@pytest.mark.parametrize(
    ("number", "text"), [(0.0005, "0.001"), (0.12345, "0.123"), (1.0, "1"), (0.0, "0"), (0.9995, "1"), (0.5, "0.5")]
)
def test_three_decimals_rounded_up(tmp_path, number, text):
    path = sample.write(sssom, HEAD, [mapping(confidence=number)], tmp_path / "a.tsv")
    assert [row["confidence"] for row in rows(path)] == [text]


def test_undeclared_prefixes_say_how_to_declare_them():
    with pytest.raises(UsageError, match=r"--prefix MINE=https://"):
        sssom.begin(header(source_vocabulary="MINE"))
    with pytest.raises(UsageError, match=r"--prefix XYZ=https://"):
        sssom.encode(HEAD, [mapping(concept_id="XYZ:1")])


def test_a_set_without_id_and_licence_has_those_of_its_rows_and_says_so(tmp_path):
    told = []
    nameless = header(set_id="", licence="", tell=told.append)
    first = sample.write(sssom, nameless, [mapping()], tmp_path / "a.sssom.tsv").read_text()
    assert sample.write(sssom, nameless, [mapping()], tmp_path / "b.sssom.tsv").read_text() == first
    other = sample.write(sssom, nameless, [mapping("heel")], tmp_path / "c.sssom.tsv").read_text()
    ids = [text.partition('#mapping_set_id: "urn:uuid:')[2][:36] for text in (first, other)]
    assert len(ids[0]) == 36
    assert ids[0] != ids[1]
    assert f"#license: {sssom.NO_LICENCE}" in first
    assert [line.rpartition("--")[2] for line in told[:2]] == ["set-id", "licence"]


def test_what_cannot_be_written():
    assert sssom.validate(HEAD, mapping(concept_id="no curie")).field == "concept_id"
    assert sssom.validate(HEAD, mapping("")).field == "mention"
    assert sssom.validate(HEAD, mapping("", mention_code="1")) is None
    assert sssom.losses(HEAD, [mapping(concept_id="no curie")]) == {"not a CURIE": 1}
    assert sssom.encode(HEAD, [mapping(concept_id="no curie")]) == b""


def test_rows_alike_in_all_are_written_once(tmp_path):
    told = []
    lines = [mapping(row=1), mapping(row=2), mapping(row=3, mention_code="7"), mapping(row=4, concept_id="HP:0000002")]
    path = sample.write(sssom, header(tell=told.append), lines, tmp_path / "a.tsv", pieces=2)
    found = [(row["subject_id"], row["subject_label"], row["object_id"]) for row in rows(path)]
    assert found == [
        ("", "sore toe", "HP:0000001"),
        ("", "sore toe", "HP:0000002"),
        ("LOCAL:7", "sore toe", "HP:0000001"),
    ]
    assert told == [f"{path}: left out: 1 row equal to an earlier one"]


def test_reading_what_others_wrote(tmp_path):
    path = tmp_path / "in.sssom.tsv"
    path.write_text(
        "# curie_map:\n#   mesh2: http://id.nlm.nih.gov/mesh/\n# mapping_set_id: https://example.org/x\n"
        "subject_id\tsubject_label\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification\tconfidence\n"
        "A:1\tCold\tskos:closeMatch\t\tmesh2:D1\tsemapv:LexicalMatching\t0.9\n"
        "A:1\tCold\trdfs:subClassOf\t\tmesh2:D2\tsemapv:ManualMappingCuration\t\n"
        "A:2\tWart\tskos:exactMatch\tMaybe\tmesh2:D2\tsemapv:LexicalMatching\t\n"
        "A:3\tWart\tex:like\t\tmesh2:D2\tsemapv:LexicalMatching\t\n"
        "A:4\tWart\tskos:exactMatch\t\tD2\tsemapv:LexicalMatching\t\n"
        "A:5\tWart\tskos:exactMatch\t\tmesh2:D2\tsemapv:LexicalMatching\tvery\n"
        "\tWart\tskos:exactMatch\t\tmesh2:D2\tsemapv:LexicalMatching\t\n"
        "A:6\tMole\tskos:exactMatch\tNot\tmesh2:D2\tsemapv:MappingReview\t1\n"
    )
    with Rejects(tmp_path / "rejects.csv") as rejects:
        back = list(sssom.read(path, header(), rejects))
    assert [(one.row, one.mention_code, one.concept_id, one.relation, one.status, one.method) for one in back] == [
        (1, "1", "MESH:D1", "related", "unreviewed", "exact"),
        (1, "1", "MESH:D2", "broad", "approved", "nearest"),
        (3, "3", "MESH:D2", None, "unreviewed", "exact"),
        (7, "6", "MESH:D2", "exact", "rejected", "nearest"),
    ]
    assert [line.split(",")[1:3] for line in (tmp_path / "rejects.csv").read_text().splitlines()[1:]] == [
        ["7", "predicate_modifier"],
        ["9", "object_id"],
        ["10", "confidence"],
        ["11", "subject_id"],
    ]


@pytest.mark.parametrize(
    ("subjects", "declared", "codes"),
    [
        (["ICD10CM:R56.9", "ICD10CM:R05"], ["ICD10CM"], [("ICD10CM", "R56.9"), ("ICD10CM", "R05")]),
        (["MINE:0012", ""], ["MINE"], [("MINE", "0012"), (None, None)]),
        (["MINE:1"], [], [("MINE", "1")]),
        # Of several, one code may be that of two.
        (["MINE:1", "YOURS:1"], ["MINE", "YOURS"], [("MINE", "1"), ("YOURS", "1")]),
    ],
)
def test_a_code_stands_beside_its_vocabulary(tmp_path, subjects, declared, codes):
    path = tmp_path / "in.sssom.tsv"
    path.write_text(
        "#curie_map:\n#  HP: http://purl.obolibrary.org/obo/HP_\n"
        + "".join(f"#  {prefix}: https://example.org/{prefix}/\n" for prefix in declared)
        + "subject_id\tsubject_label\tsubject_type\tpredicate_id\tobject_id\tmapping_justification\n"
        + "".join(
            f"{subject}\tx\t{'' if subject else 'rdfs literal'}\tskos:exactMatch\tHP:1\tsemapv:LexicalMatching\n"
            for subject in subjects
        )
    )
    back = sample.read(sssom, Header(), path)
    assert [(one.mention_vocabulary, one.mention_code) for one in back] == codes
    out = sample.write(sssom, sssom.said(path, Header()), back, tmp_path / "out.sssom.tsv")
    assert sorted(filter(None, (row.get("subject_id") for row in rows(out)))) == sorted(filter(None, subjects))


@pytest.mark.parametrize(
    ("field", "slot", "value", "written"),
    [
        ("matched_term", "match_string", "a|b", r"a\|b"),
        ("matched_term", "match_string", "c\\d", r"c\\d"),
        ("matched_term", "match_string", "e\\|f", r"e\\\|f"),
        ("reviewer", "reviewer_label", "ann|bob\\", r"ann|bob\\"),
    ],
)
def test_slots_of_several_values(tmp_path, field, slot, value, written):
    line = mapping(method="exact", relation="exact", **{field: value})
    path = sample.write(sssom, HEAD, [line], tmp_path / "a.tsv")
    assert [row[slot] for row in rows(path)] == [written]
    assert [getattr(one, field) for one in sample.read(sssom, HEAD, path)] == [value]
    assert field not in sssom.losses(HEAD, [line])


def test_several_values_that_others_wrote(tmp_path):
    path = sample.write(sssom, HEAD, [mapping(method="exact", matched_term="x", reviewer="y")], tmp_path / "a.tsv")
    text = path.read_text().replace("\tx", "\tfits|seizure\\|x|c\\d|e\\\\").replace("\ty", "\tann|bob")
    path.write_text(text)
    (back,) = sample.read(sssom, HEAD, path)
    assert (back.matched_term, back.reviewer) == ("fits|seizure|x|c\\d|e\\", "ann|bob")


def test_a_nil_says_where_no_term_was_found(tmp_path):
    head = header(target_system="MONDO")
    lines = [mapping("no toe", None, row=1), mapping("toe", row=2)]
    path = sample.write(sssom, head, lines, tmp_path / "a.tsv")
    assert {row["subject_label"]: row["object_source"] for row in rows(path)} == {"no toe": "MONDO:", "toe": ""}
    assert "#  MONDO: http://purl.obolibrary.org/obo/MONDO_\n" in path.read_text()
    validated(path)
    path = sample.write(sssom, head, lines[:1], tmp_path / "b.tsv")
    assert '#object_source: "MONDO:"\n' in path.read_text()
    validated(path)
    assert sample.read(sssom, head, path)[0].concept_id is None
    with pytest.raises(UsageError, match="--prefix XYZ="):
        sssom.begin(header(target_system="XYZ"))


def test_a_uri_of_the_curie_map_that_is_no_utf_8_is_refused(tmp_path):
    path = tmp_path / "in.sssom.tsv"
    path.write_bytes(
        b"#comment: caf\xe9\n#curie_map:\n#  MINE: http://purl.obolibrary.org/obo/HP_\xe9\n"
        b"subject_id\tpredicate_id\tobject_id\tmapping_justification\n"
        b"A:1\tskos:exactMatch\tMINE:12\tsemapv:ManualMappingCuration\n"
    )
    with pytest.raises(InputError, match=r"in\.sssom\.tsv:3: not valid UTF-8 text \(field 'MINE'"):
        list(sssom.read(path, header(), Rejects()))


def test_words_of_others_are_written_again_or_counted(tmp_path):
    path = tmp_path / "in.sssom.tsv"
    path.write_text(
        "#similarity_measure: Jaccard\n"
        "subject_id\tpredicate_id\tobject_id\tmapping_justification\tsimilarity_score\n"
        "A:1\tskos:closeMatch\tHP:1\tsemapv:LogicalReasoning\t0.5\n"
        "A:2\towl:sameAs\tHP:1\tsemapv:LexicalMatching\t\n"
        "A:3\tskos:exactMatch\tsssom:NoTermFound\tsemapv:MappingReview\t\n"
    )
    head = header()
    back = sample.read(sssom, head, path)
    assert (len(back), head.lost) == (3, {})
    out = sample.write(sssom, sssom.said(path, Header()), back, tmp_path / "out.sssom.tsv")
    assert sample.read(sssom, head, out) == back
    assert fhir_r4.losses(Header(with_review=True), back[:2]) == {
        "predicate_id skos:closeMatch": 1,
        "predicate_id owl:sameAs": 1,
        "mapping_justification semapv:LogicalReasoning": 1,
        "similarity": 1,
        "method": 1,
        "routes": 1,
        "similarity_measure": 2,
    }


def test_a_rejection_of_nil_is_left_out(tmp_path):
    line = mapping(concept_id=None, status="rejected")
    assert rows(sample.write(sssom, HEAD, [line], tmp_path / "a.tsv")) == []
    assert sssom.losses(HEAD, [line]) == {"rejections of NIL": 1}
