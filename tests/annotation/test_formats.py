"""Every format writes what it can hold, and counts what it cannot."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from alphita import registry
from alphita.annotation.formats import PACKAGE, Header, chosen, jsonl
from alphita.annotation.spans import Annotated, Annotation, Context, Document, Modifier, Place
from alphita.errors import UsageError

TEXT = "<b>No</b> seizures.\nShort and curved fingers on the left. Mother: migraine.\ttail \ud800 🧠"


def annotation(mention, concept, *, context=(), pieces=None, modifiers=()):
    start = TEXT.index(mention)
    end = start + len(mention)
    return Annotation(
        start,
        end,
        mention,
        pieces or (Place(start, end),),
        concept,
        concept.lower(),
        mention,
        0.91,
        "accept",
        "exact",
        tuple(Context(category, TEXT.index(cue), TEXT.index(cue) + len(cue), cue) for category, cue in context),
        modifiers,
    )


SHORT, FINGERS = TEXT.index("Short"), TEXT.index("fingers")
LEFT = TEXT.index("left")
DOCUMENT = Annotated(
    Document("a|b c", TEXT),
    (
        annotation("seizures", "HP:1", context=[("negated", "No")]),
        annotation(
            "Short and curved fingers",
            "HP:2",
            pieces=(Place(SHORT, SHORT + 5), Place(FINGERS, FINGERS + 7)),
            modifiers=(Modifier("laterality", "left", LEFT, LEFT + 4),),
        ),
        annotation("migraine", "MONDO:3", context=[("family", "Mother")]),
    ),
)
EMPTY = Annotated(Document("empty", "Nothing."), ())


def written(name, *documents):
    header = Header("2026-01-31", ({"name": "hp", "version": "1"},), len(documents))
    return header, list(chosen(name, "").write(header, iter(documents)))


@pytest.mark.parametrize("name", registry.names(PACKAGE))
def test_every_format_says_what_it_is_and_writes_utf8(name):
    module = registry.load(PACKAGE, name)
    assert module.DESCRIPTION
    assert module.SUFFIXES
    _, pieces = written(name, DOCUMENT, EMPTY)
    contents = [content for _, content in pieces] if module.FOLDER else pieces
    assert all(content.decode("utf-8") for content in contents if content)
    assert chosen("", f"out{module.SUFFIXES[0]}") is module


def test_an_unknown_format_or_name_is_told():
    with pytest.raises(UsageError, match="did you mean 'jsonl'"):
        chosen("jsonle", "x")
    with pytest.raises(UsageError, match="cannot tell the format"):
        chosen("", "out.docx")


def test_json_lines_hold_all_and_are_read_back():
    assert jsonl.read_line(jsonl.line_of(DOCUMENT)) == DOCUMENT


def test_csv_has_a_row_a_mention():
    header, pieces = written("csv", DOCUMENT, EMPTY)
    rows = list(csv.DictReader(io.StringIO(b"".join(pieces).decode())))
    assert [row["context"] for row in rows] == ["negated", "affirmed", "family"]
    assert rows[1]["laterality"] == "left"
    assert rows[1]["pieces"] == f"{SHORT}-{SHORT + 5}|{FINGERS}-{FINGERS + 7}"
    assert header.lost == {"documents without mentions": 1}


def test_pubtators_places_are_those_of_its_own_text():
    header, pieces = written("pubtator", DOCUMENT)
    lines = b"".join(pieces).decode().split("\n")
    title, abstract = (line.split("|", 2)[2] for line in lines[:2])
    for line in lines[2:5]:
        name, start, end, mention, _, _ = line.split("\t")
        assert name == "a_b_c"
        assert f"{title}\n{abstract}"[int(start) : int(end)] == mention
    assert header.lost == {"contexts": 2, "parts of mentions": 1}


def test_brats_fragments_are_the_texts():
    _, files = written("brat", DOCUMENT, DOCUMENT)
    found = dict(files)
    assert set(found) == {"annotation.conf", "a_b_c.txt", "a_b_c.ann", "a_b_c.2.txt", "a_b_c.2.ann"}
    text, ann = found["a_b_c.txt"].decode(), found["a_b_c.ann"].decode()
    for places, words in re.findall(r"^T\d+\tConcept ([\d ;]+)\t(.*)$", ann, re.MULTILINE):
        fragments = [tuple(map(int, one.split())) for one in places.split(";")]
        assert " ".join(text[start:end] for start, end in fragments) == words
    assert "Negated T1" in ann
    assert ann.count("Reference") == 3


def test_a_phenopacket_excludes_what_is_negated_and_leaves_the_family_out():
    header, pieces = written("phenopackets", DOCUMENT)
    packet = json.loads(b"".join(pieces))
    features = {one["type"]["id"]: one for one in packet["phenotypicFeatures"]}
    assert set(features) == {"HP:1", "HP:2"}
    assert features["HP:1"]["excluded"] is True
    assert "excluded" not in features["HP:2"]
    assert features["HP:2"]["modifiers"] == [{"id": "HP:0012835", "label": "Left"}]
    assert [one["namespacePrefix"] for one in packet["metaData"]["resources"]] == ["HP"]
    assert packet["metaData"]["phenopacketSchemaVersion"] == "2.0.0"
    assert header.lost == {"family mentions": 1}
    cohort = json.loads(b"".join(written("phenopackets", DOCUMENT, EMPTY)[1]))
    assert [len(one["phenotypicFeatures"]) for one in cohort["members"]] == [2, 0]


def test_a_bundle_is_valid_fhir_and_says_what_is_refuted():
    from fhir.resources.R4B.bundle import Bundle

    plain = annotation("migraine", "MONDO:3", context=[("negated", "Mother")])
    document = Annotated(DOCUMENT.document, (*DOCUMENT.annotations[:2], plain))
    _, pieces = written("fhir", document, EMPTY)
    bundle = json.loads(b"".join(pieces))
    Bundle.model_validate(bundle)
    resources = [one["resource"] for one in bundle["entry"]]
    assert [resource["resourceType"] for resource in resources] == [
        "Patient",
        "Observation",
        "Observation",
        "Condition",
        "Patient",
    ]
    assert [resource["valueBoolean"] for resource in resources[1:3]] == [False, True]
    assert resources[3]["verificationStatus"]["coding"][0]["code"] == "refuted"
    assert "clinicalStatus" not in resources[3]


def test_the_page_shows_each_mention_in_its_colour_and_escapes_the_text():
    _, pieces = written("html", DOCUMENT, EMPTY)
    page = b"".join(pieces).decode()
    assert "&lt;b&gt;" in page
    assert "<b>No" not in page
    assert '<mark class="negated" tabindex=0 title="HP:1 hp:1, confidence 0.91, negated (No)">seizures</mark>' in page
    assert page.count('<mark class="affirmed"') == 2
    assert "no mention" in page
    shown = re.sub(r"<[^>]*>", "", page.split('<p class="text">')[1].split("</p>")[0])
    assert shown.startswith("&lt;b&gt;No&lt;/b&gt; seizures.\nShort and curved fingers on the left.")
