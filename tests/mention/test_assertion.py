"""What a mention says of itself: identifiers, several names, what is denied, possible or over; and its answer."""

from __future__ import annotations

import numpy as np
import pytest

from alphita import textio
from alphita.answer.decision import Thresholds
from alphita.answer.filters import Filters
from alphita.answer.normalizer import Normalizer
from alphita.mention import assertion, cues
from alphita.mention.assertion import SHARED_CODE, STATUS_APART, doubt_of, name_several, names_in, parts_of

ROWS = [tuple(row.values()) for row in textio.packaged(__package__, "assertions.tsv")]
NAMES = ["seizure", "hypotonia", "fever", "cough", "rash", "nausea", "vomiting", "hepatitis", "virus", "cleft lip"]
NAMES += ["carcinoma", "breast", "febbre", "tosse", "kopfschmerz", "fieber", "low set ears", "rotated ears"]
JOINED = ["short fingers", "curved fingers", "absent thumb", "absent radius", "seizure and vomiting"]


def rows_of(names):
    return lambda strings: np.array([names.index(name) if name in names else -1 for name in strings], np.int64)


CHECKS = {
    "identifier": lambda mention: assertion.identifier_of(mention) or "",
    "without_tag": assertion.without_tag,
    "doubt": lambda mention: doubt_of(mention) or "",
    "several": lambda mention: "yes" if name_several([mention], rows_of(NAMES))[0] else "no",
    "names": lambda mention: "|".join(names_in(mention, rows_of([*NAMES, *JOINED]))),
}


@pytest.mark.parametrize(("check", "mention", "expected"), ROWS)
def test_what_a_mention_says(check, mention, expected):
    assert CHECKS[check](mention) == (getattr(assertion, expected) if check == "doubt" and expected else expected)


def test_every_phrase_that_can_end_a_mention_is_found():
    for words in cues._endings()[0]:
        assert cues.ending(f"fever {' '.join(words)}") or not all(map(str.isalnum, words)), words


def test_each_mention_is_read_for_itself():
    mentions = ["fever, cough", "fever", "rash; virus", "rash; none", "low-set, rotated ears"]
    assert name_several(mentions, rows_of(NAMES)).tolist() == [True, False, True, False, True]
    assert parts_of("fever, cough and  rash") == ["fever", "cough", "rash"]


def test_an_identifier_is_its_concept(normalizer):
    name = normalizer.index.concept(normalizer.index.concept_rows(["T:0007"])[0]).name
    for mention in ("T:0007", "T_0007"):
        (found,) = normalizer.normalize([mention], explain=True)
        assert (found.mention, found.concept_id, found.concept_name) == (mention, "T:0007", name)
        assert (found.method, found.confidence, found.decision) == ("exact", 1.0, "accept")
        assert str(found.explanation).startswith(f"the identifier of {name}")
    assert normalizer.normalize(["T:9999"])[0].decision != "accept"
    options = {"calibration": normalizer.calibration, "filters": Filters(under=("T:0001",))}
    filtered = Normalizer(normalizer.index, encoder=normalizer.encoder(), **options)
    first, other = filtered.normalize(["T:0001", "T:0007"])
    assert first.concept_id == "T:0001"
    assert other.concept_id in (None, "T:0001")


def test_a_code_of_a_cross_reference_is_its_concept(normalizer):
    own = normalizer.index.segment.concepts.column("id")
    for mention in ("MESH:D7", "MSH:D7"):
        (found,) = normalizer.normalize([mention], top_k=3)
        assert (found.concept_id, found.method, found.decision) == (own[7].as_py(), "exact", "accept")
    (shared,) = normalizer.normalize(["SNOMEDCT_US:89"], top_k=3, explain=True)
    assert [candidate.concept_id for candidate in shared.candidates] == own.to_pylist()[8:10]
    assert (shared.decision, shared.confidence) == ("review", 0.5)
    assert shared.explanation.contradictions == (SHARED_CODE,)
    assert len(normalizer.normalize(["SNOMEDCT_US:89"])[0].candidates) == 1


@pytest.mark.parametrize("cue", ["?", "r/o ", "possible ", "family history of "])
def test_what_is_doubtful_is_for_review(normalizer, cue):
    name = normalizer.index.concept(0).name
    plain, doubtful = normalizer.normalize([name, cue + name], explain=True)
    assert plain.decision == "accept"
    assert doubtful.decision != "accept"
    if doubtful.decision == "review" and doubtful.confidence >= normalizer.thresholds.accept:
        assert doubtful.candidates[0].contradictions == doubtful.explanation.contradictions
        assert doubtful.explanation.contradictions in ((doubt_of(cue),), (STATUS_APART,))


@pytest.mark.parametrize(
    "join", [" and ", ", ", "; ", "/", " + ", " & ", " with ", " w/ ", " und ", " mit ", " avec ", " con "]
)
def test_two_names_are_for_review_and_neither_accepted_as_one_nor_nil(normalizer, join):
    first, second = normalizer.index.concept(0).name, normalizer.index.concept(9).name
    # Whatever can be NIL is.
    lenient = Normalizer(normalizer.index, encoder=normalizer._encoder, calibration=normalizer.calibration, error=0.1)
    lenient.thresholds = Thresholds(2.0, 0.0)
    for answering in (normalizer, lenient):
        found, other = answering.normalize([first + join + second, "quite another thing"])
        assert found.decision == "review"
        assert "several: the mention names several" in found.candidates[0].contradictions
    assert other.decision == "nil"


def test_a_tagged_name_is_answered_as_the_name(normalizer):
    name = normalizer.index.concept(0).name
    plain, tagged = normalizer.normalize([name, f"{name} (disorder)"])
    assert tagged.concept_id == plain.concept_id
    assert (tagged.method, tagged.confidence, tagged.decision) == (plain.method, plain.confidence, plain.decision)
