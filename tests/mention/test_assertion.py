"""Identifiers are their concepts; what is only possible or of the family is not accepted, nor one of several names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from alphita.answer.filters import Filters
from alphita.answer.normalizer import Normalizer
from alphita.index.store import build
from alphita.mention.assertion import DENIED, FAMILY, OVER, POSSIBLE, SHARED_CODE, doubt_of, identifier_of, without_tag
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology

ENCODER = VocabularyEncoder()
XREFS = pa.table(
    {"concept": [7, 8, 9], "predicate": ["oboInOwl:hasDbXref"] * 3, "object": ["MESH:D7", "SNOMEDCT:89", "SNOMEDCT:89"]}
)


@pytest.mark.parametrize(
    ("mention", "curie"),
    [
        ("HP:0001250", "HP:0001250"),
        (" HP_0001250 ", "HP:0001250"),
        ("hp:0001250", "HP:0001250"),
        ("http://purl.obolibrary.org/obo/HP_0001250", "HP:0001250"),
        ("SNOMEDCT_US:91175000", "SNOMEDCT:91175000"),
        ("MSH:D012640", "MESH:D012640"),
        ("seizure", None),
        ("grade:2 fever", None),
        ("I10", None),
        ("K+ 2.8", None),
        ("stage_iv", None),
        ("", None),
    ],
)
def test_identifiers(mention, curie):
    assert identifier_of(mention) == curie


@pytest.mark.parametrize(
    ("cleaned", "name"),
    [
        ("seizure (disorder)", "seizure"),
        ("appendectomy (procedure)", "appendectomy"),
        ("essential (primary) hypertension", "essential (primary) hypertension"),
        ("(disorder)", "(disorder)"),
        ("pain (knee)", "pain (knee)"),
        ("disorder", "disorder"),
    ],
)
def test_the_tag_of_a_kind_is_no_part_of_a_name(cleaned, name):
    assert without_tag(cleaned) == name


@pytest.mark.parametrize(
    ("mention", "doubt"),
    [
        ("?pneumonia", POSSIBLE),
        ("r/o meningitis", POSSIBLE),
        ("Rule out stroke", POSSIBLE),
        ("V.a. Fraktur", POSSIBLE),
        ("Verdacht auf Pneumonie", POSSIBLE),
        ("sospetta polmonite", POSSIBLE),
        ("suspicion de fracture", POSSIBLE),
        ("Family history of seizures", FAMILY),
        ("mother with asthma", FAMILY),
        ("Fam. Hx: stroke", FAMILY),
        ("möglicher Infarkt", POSSIBLE),
        ("twin pregnancy", None),
        ("anamnesi familiare di diabete", FAMILY),
        ("pneumonia", None),
        ("maternal diabetes", None),
        ("vasculitis", None),
        ("queryable", None),
        ("hx of seizures", None),
    ],
)
def test_doubts(mention, doubt):
    assert doubt_of(mention) == doubt


@pytest.fixture(scope="module")
def normalizer(tmp_path_factory) -> Normalizer:
    terminology = synthetic_terminology()
    terminology.side_table = lambda name: XREFS if name == "xrefs" else pa.table({})
    index = build(terminology, ENCODER, tmp_path_factory.mktemp("said") / "x.index")
    return Normalizer(index, encoder=ENCODER, calibration=quick_fit(index, ENCODER), error=0.1)


def test_an_identifier_is_its_concept(normalizer):
    name = normalizer.index.concept(normalizer.index.concept_rows(["T:0007"])[0]).name
    for mention in ("T:0007", "T_0007"):
        (found,) = normalizer.normalize([mention], explain=True)
        assert (found.mention, found.concept_id, found.concept_name) == (mention, "T:0007", name)
        assert (found.method, found.confidence, found.decision) == ("exact", 1.0, "accept")
        assert str(found.explanation).startswith(f"the identifier of {name!r}")
    unknown, *_ = normalizer.normalize(["T:9999"])
    assert unknown.decision != "accept"


def test_a_code_of_a_cross_reference_is_its_concept(normalizer):
    own = normalizer.index.segment.concepts.column("id")
    for mention in ("MESH:D7", "MSH:D7"):
        (found,) = normalizer.normalize([mention], top_k=3)
        assert (found.concept_id, found.method, found.decision) == (own[7].as_py(), "exact", "accept")
    (shared,) = normalizer.normalize(["SNOMEDCT_US:89"], top_k=3, explain=True)
    assert [each.concept_id for each in shared.candidates] == own.to_pylist()[8:10]
    assert (shared.decision, shared.confidence) == ("review", 0.5)
    assert shared.explanation.contradictions == (SHARED_CODE,)
    assert len(normalizer.normalize(["SNOMEDCT_US:89"])[0].candidates) == 1


def test_an_identifier_that_may_not_be_answered_is_read_as_text(normalizer):
    filtered = Normalizer(
        normalizer.index, encoder=ENCODER, calibration=normalizer.calibration, filters=Filters(under=("T:0001",))
    )
    assert [found.concept_id for found in filtered.normalize(["T:0001"])] == ["T:0001"]
    assert filtered.normalize(["T:0007"])[0].concept_id in (None, "T:0001")


@pytest.mark.parametrize("cue", ["?", "r/o ", "possible ", "family history of "])
def test_what_is_doubtful_is_for_review(normalizer, cue):
    name = normalizer.index.concept(0).name
    plain, doubtful = normalizer.normalize([name, cue + name], explain=True)
    assert plain.decision == "accept"
    assert doubtful.decision != "accept"
    if doubtful.decision == "review" and doubtful.confidence >= normalizer.accept:
        assert doubtful.candidates[0].contradictions == doubtful.explanation.contradictions == (doubt_of(cue),)


@pytest.mark.parametrize("join", [" and ", ", ", "; ", "/"])
def test_two_names_are_not_accepted_as_one(normalizer, join):
    first, second = normalizer.index.concept(0).name, normalizer.index.concept(9).name
    (found,) = normalizer.normalize([first + join + second])
    assert found.decision != "accept"
    if found.decision == "review":
        assert "several: the mention names several" in found.candidates[0].contradictions


def test_a_tagged_name_is_answered_as_the_name(normalizer):
    name = normalizer.index.concept(0).name
    plain, tagged = normalizer.normalize([name, f"{name} (disorder)"])
    assert tagged.concept_id == plain.concept_id
    assert (tagged.method, tagged.confidence, tagged.decision) == (plain.method, plain.confidence, plain.decision)


@pytest.mark.parametrize(
    ("doubt", "mentions"),
    [
        (DENIED, ["urine ketones neg", "tremor -", "ANA (-)", "clubbing: n", "clubbing N", "hypotonia: no", "rash ∅"]),
        (DENIED, ["ptosis [ ]", "☐ seizures", "ketonuria 0", "hypotonia n/a", "proteinuria (neg)", "diarrhoea ✗"]),
        (POSSIBLE, ["hypotonia?", "hypotonia (query)", "aPTT pending", "ANA requested", "DDH screen", "TIA clinic"]),
        (POSSIBLE, ["poss seizures", "prob. asthma", "susp epilepsy", "(?) asthma", "± fever", "(+/-) cough"]),
        (DENIED, ["(-) fever", "- ve ketonuria", "−ve ketonuria", "neg. ketonuria", "w/out cough", "no longer obese"]),
        (DENIED, ["0 café au lait spots", "zero teeth", "instead of chorea", "rules out myasthenia", "outgrew asthma"]),
        (POSSIBLE, ["migraine likely", "asthma probable", "TIA suspected", "gout possibly"]),
        (DENIED, ["unlikely to be autism", "improbabile autismo", "unwahrscheinlich Autismus"]),
        (POSSIBLE, ["vaccinated against measles", "geimpft gegen Masern", "vacuna contra sarampión"]),
        (DENIED, ["negative photophobia", "excl appendicitis", "neg febbre", "non più obeso", "ya no fiebre"]),
        (OVER, ["AKI resolved", "PFO closed", "PFO closure"]),
        (
            DENIED,
            ["febbre: no", "Fieber nein", "Fieber ausgeschlossen", "hipotonía no", "fièvre : absente", "rash = no"],
        ),
        (DENIED, ["seizures not seen", "clubbing (none)", "Ptosis nicht vorhanden", "fiebre descartada"]),
        (
            POSSIBLE,
            [
                "at risk of falls",
                "Hypotonie fraglich",
                "atassia da escludere",
                "fièvre en attente",
                "riesgo de sordera",
            ],
        ),
        (OVER, ["ittero risolto", "Ikterus abgeklungen", "ictère guéri", "anemia resuelta"]),
        (None, ["reflexes absent", "riflessi assenti", "Reflexe fehlen", "réflexes absents", "reflejos ausentes"]),
        (
            None,
            ["short-stature", "hepatitis B", "vitamin B12 deficiency", "loss of vision", "screening colonoscopy pain"],
        ),
        (None, ["low plts", "type 1 diabetes", "T2DM", "seizures [focal]", "stage 10", "no"]),
    ],
)
def test_marks_that_forms_and_notes_set(doubt, mentions):
    assert {mention: doubt_of(mention) for mention in mentions} == dict.fromkeys(mentions, doubt)
