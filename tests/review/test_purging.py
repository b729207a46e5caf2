"""What is old and settled goes for good, with all that was decided about it, and what went is noted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from alphita.errors import InputError
from alphita.review import tables
from alphita.review.records import Decision
from alphita.review.store import Unknown
from tests.review.samples import FOOT, TOE, Say, project, row, store

pytestmark = pytest.mark.usefixtures("each_database")
OLD, NEW, LIMIT = "2020-01-31T09:30:00.000+00:00", "2025-01-31T09:30:00.000+00:00", "2022-01-01T00:00:00.000+00:00"


@pytest.fixture
def reviews(tmp_path):
    """Of seven rows, 1 and 2 are old and settled; of "past", all."""
    with store(tmp_path, [row(number) for number in range(1, 8)]) as made:
        say = Say(made)
        say("ann", 1, "accept", at=OLD), say("bob", 1, "accept", at=OLD)
        say("ann", 2, "skip", at=OLD), say("ann", 2, "choose", FOOT, at=OLD), say("bob", 2, "nil", at=OLD)
        say("cy", 2, "adjudicate", FOOT, at=OLD)
        say("ann", 3, "accept", at=OLD), say("ann", 3, "accept", at=NEW)
        say("ann", 4, "accept", at=OLD), say("bob", 4, "nil", at=OLD)
        say("ann", 5, "flag", at=OLD), say("ann", 6, "accept", at=NEW)
        made.add_project(project("past", source="OLD"))
        made.add_rows("past", [row(1, 1.0), row(2, 1.0)])
        of_past = Say(made, "past")
        of_past("ann", 8, "accept", at=OLD), of_past("ann", 9, "accept", at=OLD)
        yield made


def counts(reviews) -> dict[str, int]:
    with reviews.database.reading() as connection:
        every = tables.METADATA.tables.items()
        return {name: connection.execute(select(func.count()).select_from(table)).scalar_one() for name, table in every}


def told(found) -> list[tuple[object, ...]]:
    return [(one.project, one.rows, one.decisions, one.left) for one in found]


def test_what_is_old_and_settled_goes_and_nothing_else(reviews):
    before, stays = counts(reviews), [reviews.standing(number) for number in range(3, 8)]
    kept = [one for one in reviews.history("codes") if one.row > 2]
    expected = [("codes", 2, 6, 5), ("past", 2, 2, 0)]
    assert told(reviews.purgeable(None, LIMIT)) == expected
    assert told(reviews.purgeable("codes", "2019-01-01")) == []
    assert counts(reviews) == before
    assert told(reviews.purge(None, LIMIT, "boss")) == expected
    assert told(reviews.purge(None, LIMIT, "boss")) == []
    gone = {"row": 4, "detail": 4, "decision": 8, "in_force": 7, "project": 1, "forgetting": -2}
    after = counts(reviews)
    assert {name: n - after[name] for name, n in before.items() if n != after[name]} == gone
    assert [reviews.standing(number) for number in range(3, 8)] == stays
    assert list(reviews.history("codes")) == kept
    assert reviews.progress("codes").rows == 5
    assert reviews.remembered("LAB", ["mention 1", "mention 3"]).keys() == {"mention 3"}
    for number in (1, 8):
        with pytest.raises(Unknown, match="unknown row"):
            reviews.row(number)
    with reviews.database.reading() as connection:
        noted = connection.execute(select(tables.forgetting).where(tables.forgetting.c.what == "purge")).all()
    assert [json.loads(one.name) for one in noted] == [
        {"project": name, "rows": rows, "decisions": decisions, "before": LIMIT}
        for name, rows, decisions, _ in expected
    ]
    assert {one.reviewer for one in noted} == {"boss"}
    assert all(one.at > NEW for one in noted)


def test_no_number_is_given_twice_and_the_guards_are_there_again(reviews):
    newest = max(one.id for one in reviews.history("past"))
    reviews.purge("past", LIMIT, "boss")
    reviews.add_rows("codes", [row(50)])
    assert [one.row.id for one in reviews.queue("codes", state="all", search="mention 50")[1]] == [10]
    assert reviews.decide(Decision("last", "codes", 10, "zoe", "accept", TOE)).id > newest
    reviews.bulk("codes", "zoe", "b", threshold=1.0)
    for table in tables.APPENDED:
        for change in (f"DELETE FROM {table}", f"UPDATE {table} SET reviewer = 'bob'"):
            refused = pytest.raises(DBAPIError, match="only ever added to")
            with refused, reviews.database.backend.engine.begin() as connection:
                connection.exec_driver_sql(change)


def test_what_a_file_brought_is_brought_again_after_it_was_removed(reviews):
    brought = row(50, decided=(Decision("import:x:file", "codes", 0, "ann", "accept", TOE, at=OLD),))
    for _ in range(2):
        assert reviews.add_rows("codes", [brought]).decided == 1
        assert reviews.add_rows("codes", [brought]).decided == 0
        assert told(reviews.purge("codes", LIMIT, "boss"))[0][1] in (1, 3)


def test_what_breaks_off_removes_nothing(reviews, monkeypatch):
    before = counts(reviews)
    with pytest.raises(InputError, match="must not be empty"):
        reviews.purge(None, LIMIT, " ")

    def fails(*_: object) -> None:
        raise RuntimeError("broken off")

    monkeypatch.setattr("alphita.review.purging.delete", fails)
    with pytest.raises(RuntimeError):
        reviews.purge(None, LIMIT, "boss")
    assert counts(reviews) == before


def test_the_file_holds_nothing_of_it(reviews, each_database):
    if each_database == "postgresql":
        reviews.shrink()
        return
    secret = "a mention to be gone " * 1_000
    reviews.add_rows("codes", [row(60, mention=secret)])
    reviews.decide(Decision("last", "codes", 10, "ann", "accept", TOE, at=OLD))
    reviews.shrink()
    path = Path(reviews.address)
    size = path.stat().st_size
    reviews.purge("codes", LIMIT, "boss")
    reviews.shrink()
    assert path.stat().st_size < size
    assert b"to be gone" not in b"".join(file.read_bytes() for file in path.parent.iterdir())
