"""What is past or a relative's: read with the terminology's own words, or left out, by what it tells apart."""

from __future__ import annotations

import pytest

from alphita.answer.features import NAMES, Features
from alphita.answer.pipeline import Pipeline, Scored
from alphita.index.store import build
from alphita.mention.axes import FAMILY, PAST
from tests.answer.synthetic import VocabularyEncoder
from tests.doubles import SmallTerminology

ENCODER = VocabularyEncoder()
THINGS = ["stroke", "asthma", "gout", "epilepsy", "migraine", "heart failure"]
FALL = "history of falling"


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory) -> dict[bool, Pipeline]:
    """Of a terminology that tells history apart, and of one that does not, but has a name of it."""
    folder = tmp_path_factory.mktemp("reader")
    made = {}
    for told, names in {True: [f"personal history of {thing}" for thing in THINGS], False: [FALL]}.items():
        rows = [(f"X:{number}", name, "exact") for number, name in enumerate([*THINGS, *names])]
        index = build(SmallTerminology(rows), ENCODER, folder / f"{told}.index")
        made[told] = Pipeline(index, lambda: ENCODER, respell=True)
    return made


def candidates(pipeline: Pipeline, mention: str) -> tuple[dict[str, int], Scored]:
    """Return the row of each candidate, by its name, and what was found."""
    questions, _ = pipeline.ask([mention])
    scored = pipeline.candidates(questions)
    names = pipeline.index.segment.concepts.column("name").to_pylist()
    return {names[concept]: row for row, concept in enumerate(scored.table.concept.tolist())}, scored


def values(features: Features, row: int) -> tuple[float, float, bool]:
    """Return what the features say of the status, and whether the candidate is vetoed."""
    found = [float(features.candidates[row, NAMES.index(f"status_{name}")]) for name in ("apart", "agrees")]
    return (*found, bool(features.vetoed[row]))


@pytest.mark.parametrize("mention", ["history of asthma", "h/o asthma", "asthma, history of", "pregressa asthma"])
def test_the_past_is_a_concept_of_its_own_where_it_is_told_apart(pipelines, mention):
    (read,) = pipelines[True].reader.read([mention])
    assert read.status == PAST
    rows, scored = candidates(pipelines[True], mention)
    past, thing = rows["personal history of asthma"], rows["asthma"]
    assert scored.features.candidates[past, NAMES.index("equal")]
    assert values(scored.features, past) == (0, 1, False)
    assert values(scored.features, thing) == (1, 0, True)


def test_a_thing_is_not_its_past(pipelines):
    rows, scored = candidates(pipelines[True], "asthma")
    assert values(scored.features, rows["asthma"]) == (0, 0, False)
    assert values(scored.features, rows["personal history of asthma"]) == (1, 0, True)


@pytest.mark.parametrize("mention", ["history of asthma", "asthma, history of"])
def test_elsewhere_the_past_is_the_thing(pipelines, mention):
    (read,) = pipelines[False].reader.read([mention])
    assert (read.status, [one.string for one in read.readings]) == (0, ["asthma"])
    rows, scored = candidates(pipelines[False], mention)
    assert scored.features.candidates[rows["asthma"], NAMES.index("equal")]
    assert values(scored.features, rows["asthma"]) == (0, 0, False)


@pytest.mark.parametrize("told", [True, False])
def test_a_relatives_is_never_the_patients(pipelines, told):
    (read,) = pipelines[told].reader.read(["family history of asthma"])
    assert read.status == FAMILY
    rows, scored = candidates(pipelines[told], "family history of asthma")
    assert values(scored.features, rows["asthma"]) == (1, 0, True)


@pytest.mark.parametrize("mention", [FALL, "hx of falling"])
def test_a_name_is_not_vetoed_for_what_the_mention_says_too(pipelines, mention):
    rows, scored = candidates(pipelines[False], mention)
    assert values(scored.features, rows[FALL]) == (0, 1, False)
    rows, scored = candidates(pipelines[False], "falling")
    assert values(scored.features, rows[FALL]) == (1, 0, True)
