"""Answers that can be billed: a heading leads to its unspecified code, or to the codes below it, for review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphita.answer.filters import Filters
from alphita.answer.normalizer import Normalizer
from alphita.errors import Rejects, UsageError
from alphita.index.store import Index, build
from alphita.mention.assertion import BARE_CODE
from alphita.terminology.loaders import icd10cm, loinc, omop, rxnorm
from alphita.terminology.store import load_terminology, save
from tests.doubles import HashEncoder, small_terminology

FIXTURES = Path(__file__).parents[1] / "fixtures" / "terminology"
# Code, whether it can be billed, title.
CODES = """\
A01    0 Sea fever
A010   1 Sea fever with rash
A019   1 Sea fever, unspecified
A02    0 Broken oar
A020   0 Broken oar of hand
A0201  1 Broken oar of right hand
A0202  1 Broken oar of left hand
A0209  1 Broken oar of unspecified hand
A021   0 Broken oar of foot
A021XXA1 Broken oar of foot, initial encounter
A021XXD1 Broken oar of foot, subsequent encounter
A03    0 Land sickness
A030   1 Land sickness on islands
A04    1 Deck rash
A05    0 Hold sickness
A051   1 Mild hold sickness, uncomplicated
A059   0 Other and unspecified hold sickness
A0590  0 Unspecified hold sickness
A05901 1 Unspecified hold sickness with rash
A05909 1 Unspecified hold sickness, uncomplicated
A0599  1 Other hold sickness
"""
SECTION = """\
<section id="A01-A04"><desc>Diseases of sailors (A01-A04)</desc>{codes}</section>"""


def order(folder: Path) -> Path:
    rows = [
        f"{number:05} {line[:7]} {line[7]} {line[9:]:<60} {line[9:]}\n"
        for number, line in enumerate(CODES.splitlines(), 1)
    ]
    path = folder / "icd10cm_order_2026.txt"
    path.write_text("".join(rows), encoding="utf-8")
    return path


def tabular(folder: Path) -> Path:
    """The same codes as a tabular list, which has no flag, in a section."""
    text, opened = "", []
    for line in CODES.splitlines():
        bare = line[:7].strip()
        while opened and not bare.startswith(opened[-1]):
            text, _ = text + "</diag>", opened.pop()
        opened.append(bare)
        text += f"<diag><name>{bare[:3]}{'.' + bare[3:] if bare[3:] else ''}</name><desc>{line[9:]}</desc>"
    codes = text + "</diag>" * len(opened)
    path = folder / "icd10cm-tabular-2026.xml"
    path.write_text(
        "<ICD10CM.tabular><version>2026</version><chapter><name>1</name><desc>Sailors (A00-A09)</desc>"
        f"{SECTION.format(codes=codes)}</chapter></ICD10CM.tabular>",
        encoding="utf-8",
    )
    return path


def indexed(loader: Any, paths: list[Path], folder: Path) -> Index:
    save(loader.load(paths, loader.Options(), Rejects()), folder / "x.terminology")
    return build(load_terminology(folder / "x.terminology"), HashEncoder(), folder / "x.index")


@pytest.fixture(scope="module", params=[order, tabular])
def icd(request, tmp_path_factory) -> Index:
    """From the flags of an order file, and from what is below what in a tabular list."""
    folder = tmp_path_factory.mktemp("icd")
    return indexed(icd10cm, [request.param(folder)], folder)


def answers(index: Index, *mentions: str, top: int = 8, **options: Any) -> list[list[str]]:
    """Return the codes of the candidates, the answer first; none for NIL."""
    found = Normalizer(index, encoder=HashEncoder(), **options).normalize(list(mentions), top_k=top)
    return [[one.concept_id.partition(":")[2] for one in each.candidates] if each.concept_id else [] for each in found]


def test_a_heading_is_answered_by_its_unspecified_code_and_the_reason_says_so(icd):
    normalizer = Normalizer(icd, encoder=HashEncoder(), billable=True)
    named, given, plain = normalizer.normalize(["sea fever", "ICD10CM:A01", "deck rash"], explain=True)
    for found in (named, given):
        assert found.concept_id == "ICD10CM:A01.9"
        assert "ICD10CM:A01 is a heading, and this is its unspecified code" in str(found.explanation)
    assert (plain.concept_id, plain.explanation.heading) == ("ICD10CM:A04", None)


def test_a_heading_without_an_unspecified_code_goes_to_review_with_the_codes_below_it(icd):
    normalizer = Normalizer(icd, encoder=HashEncoder(), billable=True)
    for mention in ("broken oar of foot", "ICD10CM:A02.1"):
        [found] = normalizer.normalize([mention], top_k=2, explain=True)
        assert [one.concept_id for one in found.candidates] == ["ICD10CM:A02.1XXA", "ICD10CM:A02.1XXD"], mention
        assert found.concept_id == "ICD10CM:A02.1XXA"
        assert found.decision in (None, "review")
        assert "heading: ICD10CM:A02.1 cannot be billed; choose a code below it" in str(found.explanation)
    below = ["A02.09", "A02.1XXA", "A02.1XXD"]
    assert [sorted(codes[:3]) for codes in answers(icd, "broken oar", "ICD10CM:A02", billable=True)] == [below, below]


def test_the_only_code_below_a_heading_is_its_answer(icd):
    assert [codes[0] for codes in answers(icd, "land sickness", "ICD10CM:A03", billable=True)] == ["A03.0", "A03.0"]


def test_other_and_unspecified_and_uncomplicated_lead_to_the_unspecified_code(icd):
    found = answers(icd, "hold sickness", "ICD10CM:A05", "ICD10CM:A05.9", billable=True)
    assert [codes[0] for codes in found] == ["A05.909"] * 3


def test_a_code_without_its_prefix_is_read_and_one_without_a_dot_goes_to_review(icd):
    """P53 is a code, and a gene."""
    plain = Normalizer(icd, encoder=HashEncoder()).normalize(["A01.9", " A01", "A019", "A99", "a01"], top_k=2)
    assert [one.concept_id for one in plain][:3] == ["ICD10CM:A01.9", "ICD10CM:A01", "ICD10CM:A01.9"]
    doubts = [one.candidates[0].contradictions for one in plain]
    assert doubts[:3] == [(), (BARE_CODE,), (BARE_CODE,)]
    assert [one.method == "exact" for one in plain] == [True] * 3 + [False] * 2
    assert [codes[:1] for codes in answers(icd, "A01", "A02.1", billable=True)] == [["A01.9"], ["A02.1XXA"]]


def test_the_side_that_is_said_is_kept(icd):
    assert [codes[0] for codes in answers(icd, "broken oar of left hand", "broken oar of hand", billable=True)] == [
        "A02.02",
        "A02.09",
    ]


def test_no_candidate_is_a_heading(icd):
    mentions = ["sea fever", "broken oar", "oar broken", "sickness", "land sicknes", "ICD10CM:A02", "rash", "fever"]
    codes = {code for found in answers(icd, *mentions, billable=True) for code in found}
    bare = {line[:7].strip() for line in CODES.splitlines() if line[7] == "1"}
    assert {code.replace(".", "") for code in codes} <= bare


def test_by_default_headings_keep_their_codes(icd):
    assert answers(icd, "ICD10CM:A01", "ICD10CM:A02.1", "broken oar of foot", top=1) == [["A01"], ["A02.1"], ["A02.1"]]


def test_ranges_are_answers_only_where_they_are_asked_for(tmp_path):
    index = indexed(icd10cm, [tabular(tmp_path)], tmp_path)
    found = answers(index, "diseases of sailors", "sailors", "sea fever", ranking="vectors", floor=-1.0)
    assert not {code for codes in found for code in codes} & {"A00-A09", "A01-A04"}
    assert answers(index, "diseases of sailors", filters=Filters(types=("section",)))[0] == ["A01-A04"]
    assert answers(index, "diseases of sailors", filters=Filters(types=("section", "code")))[0][0] == "A01-A04"
    assert answers(index, "ICD10CM:A01-A04", top=1) == [["A01-A04"]]
    for chosen in ("ICD10CM:A01-A04", "ICD10CM:A00-A09"):
        below = answers(index, chosen, filters=Filters(billable=True))[0]
        assert below[:2] == ["A01.9", "A02.09"]
        assert "-" not in "".join(below)


def test_a_filter_that_leaves_the_unspecified_code_out_keeps_the_heading(tmp_path):
    index = indexed(icd10cm, [tabular(tmp_path)], tmp_path)
    assert answers(index, "sea fever", filters=Filters(types=("category",)), top=1) == [["A01"]]


def test_other_filters_hold_with_it(icd):
    filters = Filters(under=("ICD10CM:A02",), billable=True)
    found = answers(icd, "sea fever", "broken oar", filters=filters, ranking="vectors", floor=-1.0)
    assert {code[:3] for codes in found for code in codes} == {"A02"}


@pytest.mark.parametrize(
    ("loader", "folder", "kind", "prefix"),
    [(loinc, "loinc", "term", "LOINC:9"), (loinc, "loinc", "part", "LOINC:LP"), (rxnorm, "rxnorm", "SCD", "RXNORM:")],
)
def test_kinds_of_concept_are_types(tmp_path, loader, folder, kind, prefix):
    index = indexed(loader, [FIXTURES / folder], tmp_path)
    ids = index.segment.concepts.column("id").to_pylist()
    left = [one for one, kept in zip(ids, Filters(types=(kind,)).concepts(index.segment), strict=True) if kept]
    assert left
    assert len(left) < len(ids)
    assert all(one.startswith(prefix) for one in left)
    if kind == "SCD":
        names = dict(zip(ids, index.segment.concepts.column("name").to_pylist(), strict=True))
        assert {"Oral Tablet" in names[one] for one in left} == {True}


def test_the_classes_of_omop_are_a_flag(tmp_path):
    rows = [
        ("101", "Sea fever", "Condition", "ICD10CM", "3-char nonbill code", "", "A01"),
        ("102", "Sea fever, unspecified", "Condition", "ICD10CM", "4-char billing code", "", "A01.9"),
        ("103", "Sea fever with rash, unspecified", "Condition", "ICD10CM", "4-char billing code", "", "A01.0"),
        ("104", "Fever of sailors", "Condition", "SNOMED", "Disorder", "S", "77"),
    ]
    head = "concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code"
    dates = "\t20200101\t20991231\t\n"
    lines = ["\t".join(row) + dates for row in rows]
    (tmp_path / "omop").mkdir()
    (tmp_path / "omop" / "CONCEPT.csv").write_text(
        "\t".join([*head.split(), "valid_start_date", "valid_end_date", "invalid_reason"]) + "\n" + "".join(lines)
    )
    index = indexed(omop, [tmp_path / "omop"], tmp_path)
    ids = index.segment.concepts.column("id").to_pylist()
    kept = Filters(billable=True).concepts(index.segment)
    assert sorted(one for one, is_kept in zip(ids, kept, strict=True) if is_kept) == ["ICD10CM:A01.0", "ICD10CM:A01.9"]


def test_headings_in_a_circle_end(icd, monkeypatch):
    assignment = Normalizer(icd, encoder=HashEncoder(), billable=True)._pipeline.assignment
    a02 = int(icd.concept_rows(["ICD10CM:A02"])[0])
    children = type(icd.segment).children_of
    monkeypatch.setattr(
        type(icd.segment), "children_of", lambda self, row: np.append(children(self, row), [a02]).astype(np.int64)
    )
    ids = icd.segment.concepts.column("id")
    assert ids[assignment.codes(a02)[0]].as_py() == "ICD10CM:A02.09"


def test_an_index_that_does_not_tell_is_refused(tmp_path):
    index = build(small_terminology(), HashEncoder(), tmp_path / "x.index")
    with pytest.raises(UsageError, match="tells neither which codes can be billed"):
        Normalizer(index, encoder=HashEncoder(), billable=True)
