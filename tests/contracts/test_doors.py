"""The same answer from every door: twenty awkward mentions, each door by its own way, with every option.

Every mention goes through every door. One is started for it: a server with --max-characters 4000, for the default of
1,000 refuses 3,000 letters. And FHIR asks for local codes, which stand for the mentions: a code may not be blank.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contracts import doors

OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "three candidates and more errors": {"top_k": 3, "error": 0.1, "nil_error": 0.1},
}
MENTIONS = list(doors.MENTIONS.values())
PROCESSES = "command line, processes"
OTHERS = [door for door in doors.DOORS if door not in (doors.REFERENCE, PROCESSES)]


@pytest.fixture(scope="module")
def asked(request, to: str, tmp_path_factory) -> Any:
    return doors.Asked(to, MENTIONS, tmp_path_factory.mktemp("door"), **OPTIONS[request.param])


@pytest.fixture(scope="module")
def right(asked: Any) -> list[Any]:
    return doors.DOORS[doors.REFERENCE](asked)


@pytest.mark.parametrize("asked", OPTIONS, indirect=True)
def test_the_answers_are_worth_comparing(right: list[Any]) -> None:
    by_name = dict(zip(doors.MENTIONS, right, strict=True))
    assert all(one.decision is not None for one in right)
    assert {one.decision for one in right} >= {"accept", "nil"}
    assert by_name["misspelt"].concept_id == "T:0014"
    assert by_name["names nothing"].concept_id is None


@pytest.mark.parametrize("door", OTHERS)
@pytest.mark.parametrize("asked", OPTIONS, indirect=True)
def test_every_door_answers_alike(asked: Any, door: str, right: list[Any]) -> None:
    assert differing(asked, door, right) == {}


# They take five seconds to start. tests/distributed has them without options.
@pytest.mark.parametrize("asked", ["three candidates and more errors"], indirect=True)
def test_processes_answer_alike(asked: Any, right: list[Any]) -> None:
    assert differing(asked, PROCESSES, right) == {}


def differing(asked: Any, door: str, right: list[Any]) -> dict[str, str]:
    """Return where a door does not say what is right."""
    found = doors.DOORS[door](asked)
    return {
        name: f"{other}, not {one}"
        for name, one, other in zip(doors.MENTIONS, right, found, strict=True)
        if not one.agrees(other)
    }


def test_what_a_file_defines_is_known_where_it_is_told(to: str, tmp_path: Path) -> None:
    """The one way in which a file is more than its rows: what one of them defines serves all, by every door."""
    mentions = ["loss of consciousness (LOC)", "LOC"]
    asked = doors.Asked(to, mentions, tmp_path)
    of_file = asked.csv()
    assert of_file[0].concept_id == of_file[1].concept_id
    assert not of_file[1].agrees(asked.one_at_a_time()[1])
    asked.normalizer.prepare(mentions)
    for found in (asked.one_at_a_time(), asked.stream(), asked.rest_one_at_a_time()):
        assert all(one.agrees(other) for one, other in zip(of_file, found, strict=True))
