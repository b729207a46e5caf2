"""What is past or a relative's: read with the terminology's own words, or left out, by what it tells apart."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.answer.features import NAMES
from alphita.answer.pipeline import Pipeline
from alphita.index.lookup import Restricted
from alphita.index.store import build
from alphita.mention.axes import FAMILY, PAST
from tests.answer.synthetic import VocabularyEncoder
from tests.doubles import SmallTerminology

ENCODER = VocabularyEncoder()
THINGS = ["stroke", "asthma", "gout", "epilepsy", "migraine", "heart failure"]
FALL, OWN = "history of falling", "personal history of asthma"
KEPT, VETOED, AGREES, EQUAL = (0, 0, False), (1, 0, True), (0, 1, False), True


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


@pytest.mark.parametrize(
    ("told", "mention", "status", "expected"),
    [
        # A concept of its own.
        (True, "history of asthma", PAST, {OWN: (*AGREES, EQUAL), "asthma": VETOED}),
        (True, "h/o asthma", PAST, {OWN: (*AGREES, EQUAL), "asthma": VETOED}),
        (True, "asthma, history of", PAST, {OWN: (*AGREES, EQUAL), "asthma": VETOED}),
        (True, "pregressa asthma", PAST, {OWN: (*AGREES, EQUAL), "asthma": VETOED}),
        (True, "asthma", 0, {OWN: VETOED, "asthma": (*KEPT, EQUAL)}),
        # The thing.
        (False, "history of asthma", 0, {"asthma": (*KEPT, EQUAL)}),
        (False, "asthma, history of", 0, {"asthma": (*KEPT, EQUAL)}),
        # A relative's is never the patient's.
        (True, "family history of asthma", FAMILY, {"asthma": VETOED}),
        (False, "family history of asthma", FAMILY, {"asthma": VETOED}),
        # A name is not vetoed for what the mention says too.
        (False, FALL, 0, {FALL: (*AGREES, EQUAL)}),
        (False, "hx of falling", 0, {FALL: AGREES}),
        (False, "falling", 0, {FALL: VETOED}),
    ],
)
def test_what_is_past(pipelines, told, mention, status, expected):
    pipeline = pipelines[told]
    questions, _ = pipeline.ask([mention])
    assert questions.mentions[0].status == status
    scored = pipeline.candidates(questions)
    names = [pipeline.index.concept(row).name for row in scored.table.concept.tolist()]
    for name, wanted in expected.items():
        row = names.index(name)
        apart, agrees, equal = (
            scored.features.candidates[row, NAMES.index(one)] for one in ("status_apart", "status_agrees", "equal")
        )
        assert (apart, agrees, scored.features.vetoed[row], equal)[: len(wanted)] == wanted, name


def test_readers_by_fewer_strings_share_what_was_learned_and_find_less(pipelines):
    whole = pipelines[True].reader
    index = whole.index
    gone = index.rows([OWN])
    parts = [whole.narrowed(Restricted(index, np.arange(len(index)) != row)) for row in (gone[0], -1)]
    assert {id(part._speller) for part in parts} == {id(whole._speller)}
    assert [part.index.rows([OWN])[0] for part in parts] == [-1, gone[0]]
    assert parts[1].read(["astma"])[0].readings == whole.read(["astma"])[0].readings != ()
