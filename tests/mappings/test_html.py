"""The HTML page: what it shows, what it folds, and that nothing in a mention can become a part of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import fields, replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from alphita.cli.mappings import app
from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, html
from alphita.mappings.record import Mapping
from tests.mappings import sample

VOID = {"meta", "base", "input", "br", "col"}
HEAD = Header(date="2026-02-03", target_system="HP", sources={"HP": "2025-01-16"}, source_vocabulary="CLINIC")
TEXTS = [one.name for one in fields(Mapping) if one.type in ("str", "str | None") and one.name != "status"]
TOE = {"concept_name": "Toe pain", "matched_term": "sore toe", "similarity": 0.91, "routes": "letters|vectors"}


class Page(HTMLParser):
    """Reads a page, strictly: every element that opens closes."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.elements: Counter[str] = Counter()
        self.links: list[str] = []
        self.mentions: list[dict[str, str]] = []
        self.content, self.said = content, ""
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements[tag] += 1
        if tag == "a":
            self.links.append(given["href"])
        else:
            assert not given.keys() & {"src", "href"}, "the page loads nothing"
        assert not [name for name in given if name.startswith("on")]
        if tag == "tbody":
            self.mentions.append(given | {"text": "", "folded": ""})
        if tag not in VOID:
            self.open.append((tag, given))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.said += data
        inside = [tag for tag, _ in self.open]
        if "tbody" in inside:
            self.mentions[-1]["folded" if "details" in inside and "summary" not in inside else "text"] += data


def page(tmp_path, lines, head=HEAD, runs=None):
    out = sample.write_runs(html, head, [lines] if runs is None else runs, tmp_path / "out.html")
    return Page(out.read_text(encoding="utf-8"))


def answer(row=1, **changed):
    return sample.mapping(**{**TOE, "row": row, "mention_code": f"T{row}", **changed})


def candidate(row=1, rank=2, **changed):
    return answer(row, **{"rank": rank, "concept_id": "HP:0000002", "concept_name": "Toe", **changed})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"method": "exact", "routes": "exact"}, "Equal to “sore toe” (similarity 0.91); found by equal letters"),
        ({"method": "abbreviation", "expansion": "a b"}, "Short for “a b”, equal or nearest to “sore toe”"),
        ({"expansion": "sore toes"}, "Nearest to “sore toe”, read as “sore toes”"),
        ({"method": "reviewed", "matched_term": None, "status": "approved"}, "Settled by people before"),
        ({"matched_term": None}, "Method: nearest"),
        ({"homonyms": "HP:3|HP:4"}, "also names HP:3, HP:4"),
        ({"contradictions": "laterality: left against right"}, "Contradiction: laterality: left against right"),
        ({"relation": "broad"}, "the concept is broader than the mention"),
        ({"mapping_type": "maps_to_value"}, "maps to value"),
    ],
)
def test_what_it_says_in_plain_words(tmp_path, changed, said):
    assert said in page(tmp_path, [answer(**changed)]).mentions[0]["text"]


# A value of its own for every field; of several values each.
EACH: dict[str, object] = {one.name: f"«{one.name}»" for one in fields(Mapping)} | {
    "row": 12,
    "frequency": 77,
    "rank": 4,
    "similarity": 0.61,
    "confidence": 0.83,
    "mapping_type": "«kind»",
    "routes": "«a»|«b»",
    "homonyms": "«c»|«d»",
    "contradictions": "«e»|«f»",
    "extra": '{"«g»": "«h»"}',
}


@pytest.mark.parametrize("status", ["rejected", "unreviewed"])
def test_all_that_a_mapping_says_is_there(tmp_path, status):
    one = Mapping(**EACH | {"status": status})
    # What nobody looked at is a further candidate of an answer.
    first = sample.mapping("«mention»", "X:1", row=12, mention_code="«mention_code»", frequency=77)
    found = page(tmp_path, [first, one] if status == "unreviewed" else [one])
    [row] = found.mentions
    shown = row["text"] + row["folded"] + "".join(re.findall(r"<li value=(\d+)>", found.content))
    for name, value in EACH.items():
        if name != "status":
            words = ["«g»", "«h»"] if name == "extra" else str(value).split("|")
            assert all(word in shown for word in words), name
    assert status == "unreviewed" or status in shown
    assert html.losses(HEAD, [one]) == {}


def test_the_allowed_errors_and_the_nearest_concept_of_a_nil(tmp_path):
    nil = answer(concept_id=None, concept_name=None, nearest_id="HP:0000002", nearest_name="Toe")
    found = page(tmp_path, [nil], replace(HEAD, error=0.05, nil_error=0.01))
    assert "5% of accepted answers, 1% of NIL answers" in found.said
    assert "nearest found: “sore toe”, Toe HP:0000002" in found.mentions[0]["text"]
    assert "Allowed error" not in page(tmp_path, [nil]).said


def test_only_the_page_s_own_script_may_run(tmp_path):
    content = page(tmp_path, [answer()]).content
    [script] = re.findall(r"<script>(.*?)</script>", content, re.DOTALL)
    said = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{said}'" in content
    assert "url(" not in content
    assert "@import" not in content


ODD = st.text(st.one_of(st.sampled_from("<>&\"'/=\0\t\n\r|;`$\u202e\u2028\x7f\ud800"), st.characters()), max_size=20)


@settings(max_examples=100, deadline=None)
@given(values=st.dictionaries(st.sampled_from(TEXTS), ODD), ranks=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_no_text_becomes_a_part_of_the_page(tmp_path_factory, values, ranks):
    if "extra" in values:
        values = values | {"extra": json.dumps({values["extra"]: values["extra"]})}
    lines = [replace(answer(), rank=rank, **values) for rank in ranks]
    folder = tmp_path_factory.mktemp("odd")
    head = replace(HEAD, source_version=values.get("mention", ""), sources={values.get("comment", ""): "1"})
    found = page(folder, lines, head)
    plain = page(folder, [replace(answer(), rank=rank) for rank in ranks])
    assert len(found.mentions) == 1
    assert {"script", "style", "table", "form"} & found.elements.keys() == {"script", "style", "table", "form"}
    assert found.elements.keys() <= plain.elements.keys() | {"p", "bdi", "code", "i", "b", "a", "span", "ol", "li"}
    assert found.elements["script"] == 1
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f]", found.content)
    assert all(link.startswith(("http://", "https://")) for link in found.links)


def test_what_cannot_be_shown_has_a_sign(tmp_path):
    found = page(tmp_path, [answer(mention="a\0b\nc\x7fd\x85e\ud800f <b>&amp;</b>")])
    assert "a␀b␊c␡d\ufffde\ufffdf <b>&amp;</b>" in found.mentions[0]["text"]
    shown = page(tmp_path, [answer(mention="頭痛", matched_term="ألم", language='ar" x="')]).content
    assert "<bdi class=m>頭痛</bdi>" in shown
    assert '<bdi lang="ar&quot; x=&quot;">ألم</bdi>' in shown


def test_only_addresses_of_the_web_are_links(tmp_path):
    head = replace(
        HEAD,
        prefixes={"A": "javascript:alert(1)//", "B": "https://b.org/x#", "C": "https://fhir.org/system", "D": "urn:d:"},
    )
    lines = [answer(row, concept_id=f"{prefix}:1") for row, prefix in enumerate("ABCDE", 1)]
    lines += [answer(6, concept_id="HP:1|LOINC:2"), answer(7, concept_id="no curie")]
    assert page(tmp_path, lines, head).links == [
        "https://b.org/x#1",
        "http://purl.obolibrary.org/obo/HP_1",
        "https://loinc.org/2",
    ]


def test_a_page_cannot_be_read(tmp_path):
    out = sample.write(html, HEAD, [answer()], tmp_path / "out.html")
    with pytest.raises(InputError, match=r"out\.html: an HTML page is for people.*; give the mappings as csv, jsonl"):
        html.read(out, HEAD, Rejects())
    for options in ([], ["--from", "html"]):
        found = CliRunner().invoke(app, ["convert", str(out), "-o", str(tmp_path / "back.csv"), *options])
        assert isinstance(found.exception, InputError)
        assert "out.html" in str(found.exception)
    assert [one.name for one in tmp_path.iterdir()] == ["out.html"]


@pytest.mark.parametrize(
    ("number", "shown"), [(1.0, "1.00"), (0.9999, ">0.99"), (0.994, "0.99"), (0.004, "<0.01"), (0.0, "0.00")]
)
def test_no_confidence_is_rounded_to_certainty(tmp_path, number, shown):
    row = page(tmp_path, [answer(confidence=number)]).mentions[0]
    assert shown in row["text"]
    assert float(row["data-c"]) == pytest.approx(number)


def test_a_page_of_too_many_mentions_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(html, "MANY", 2)
    told = []
    head = replace(HEAD, tell=told.append)
    page(tmp_path, [answer(row) for row in (1, 2)], head)
    assert told == []
    page(tmp_path, [answer(row) for row in (1, 2, 3)], head)
    assert told == [f"{tmp_path / 'out.html'}: 3 mentions are much for one page; a browser shows up to 2 at ease"]
