"""A store in PostgreSQL: several servers on one, a database that goes away, passwords, and what differs from a file."""

from __future__ import annotations

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import DBAPIError

from alphita.answer.normalizer import Normalizer
from alphita.errors import InputError, MissingExtra, UsageError, masked
from alphita.review import tables
from alphita.review.memory import FinalMappings
from alphita.review.records import Decision
from alphita.review.rules import settle
from alphita.review.store import Busy, Conflict, NotStored, ReviewStore
from tests.doubles import HashEncoder
from tests.review.samples import FOOT, TOE, Say, project, row
from tests.review.test_opening import N_ROWS, check, start
from tests.service.review_service import client_of, index_of, rows_of
from tests.waiting import wait_until

KILLS = 2


@pytest.fixture
def address(schema):
    """Return the address of a store with a project of seven rows."""
    made = schema()
    with ReviewStore.open(made, create=True) as reviews:
        reviews.add_project(project(), [row(number) for number in range(1, N_ROWS + 1)])
    return made


def test_one_of_two_servers_is_killed(address):
    """Two programs decide in one database; one is killed, again and again: nothing acknowledged is lost or twice."""
    chance = random.Random(7)
    acknowledged = {"ann": -1, "bob": -1}
    for turn in range(KILLS):
        servers = [start(address, {who: last}) for who, last in acknowledged.items()]
        try:
            lines = [servers[turn % 2].stdout.readline() for _ in range(chance.randint(5, 25))]
        finally:
            servers[turn % 2].kill()
        # The other goes on.
        lines += [servers[1 - turn % 2].stdout.readline() for _ in range(20)]
        servers[1 - turn % 2].kill()
        for server in servers:
            lines += server.communicate()[0].splitlines(keepends=True)
        for who, number in sorted((line.split()[0], int(line.split()[1])) for line in lines if line.endswith("\n")):
            assert number == acknowledged[who] + 1
            acknowledged[who] += 1
        check(address, acknowledged)
    assert min(acknowledged.values()) > KILLS


def test_forty_decide_about_one_row_at_once(address):
    start = threading.Barrier(20)

    def decide(number: int) -> list[Decision | Conflict]:
        start.wait()
        made = []
        for turn in range(2):
            concept = (TOE, FOOT)[number % 2]
            one = Decision(f"u{number} {turn}", "codes", 1, f"r{number % 10}", "choose", concept)
            try:
                made.append(reviews[number % 2].decide(one, seen=0 if turn else None))
            except Conflict as conflict:
                made.append(conflict)
        return made

    with ReviewStore.open(address, timeout=60) as one, ReviewStore.open(address, timeout=60) as other:
        reviews = (one, other)
        with ThreadPoolExecutor(20) as threads:
            made = [answer for some in threads.map(decide, range(20)) for answer in some]
        stored = [answer for answer in made if isinstance(answer, Decision)]
        history = list(one.history("codes"))
        # Each sees that its reviewer has decided before: exactly the first of each.
        assert len(stored) == 20
        assert history == list(other.history("codes")) == sorted(stored, key=lambda decision: decision.id)
        assert [decision.at for decision in history] == sorted(decision.at for decision in history)
        last = {decision.reviewer: decision for decision in history}
        standing = one.standing(1)
        assert set(standing.decisions) == set(last.values())
        assert standing.state == settle(last.values())[0] == "disagreed"
        assert one.progress("codes").disagreed == (1,)
        with one.database.reading() as connection:
            in_force = connection.exec_driver_sql("SELECT slot, decision FROM in_force").all()
        assert dict(in_force) == {who: decision.id for who, decision in last.items()}


def test_it_recovers_when_the_server_is_there_again(address, server):
    """Whoever is cut off is told to send it again; what was sent twice counts once."""

    def cut_off() -> None:
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'alphita';")

    with ReviewStore.open(address) as reviews:
        say = Say(reviews)
        first = say("ann", 1, "accept")
        # Between two requests nobody notices.
        cut_off()
        assert list(reviews.history("codes")) == [first]

        def rows():
            yield row(50)
            cut_off()
            yield row(51)

        with pytest.raises(Busy, match=r"postgresql://.*cannot be reached.*try again.*nothing counts twice"):
            reviews.add_rows("codes", rows())
        assert reviews.progress("codes").rows == N_ROWS
        assert say("ann", 2, "accept").id > first.id
        assert reviews.is_there()
    with pytest.raises(Busy, match="cannot be reached"):
        ReviewStore.open("postgresql://nobody:secret@127.0.0.1:9/none")


def test_a_service_on_it_says_when_it_is_away_and_recovers_by_itself(server, tmp_path, caplog):
    server.psql("CREATE DATABASE away;")
    address = server.get_uri().replace("/postgres?", "/away?")

    def away(*, is_away: bool) -> None:
        server.psql(f"ALTER DATABASE away WITH ALLOW_CONNECTIONS {not is_away};")
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'away';")

    def decide():
        return client.post("/api/projects/lab/rows/1/decisions", json={"uid": "u", "kind": "accept", "seen": 0})

    normalizer = Normalizer(index_of(tmp_path), encoder=HashEncoder())
    with ReviewStore.open(address, create=True) as reviews, client_of(normalizer, store=reviews) as client:
        reviews.add_project(project("lab"), rows_of())
        wait_until(lambda: client.get("/ready").json()["status"] == "ready")
        away(is_away=True)
        assert (client.get("/ready").status_code, client.get("/ready").json()["status"]) == (503, "unwritable")
        refused = decide()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        assert refused.json()["error"]["message"] == "the database does not answer; try again later"
        (cause,) = [
            record.fields["cause"] for record in caplog.records if record.msg == "the reviews cannot be reached"
        ]
        assert "cannot be reached" in cause
        assert "/away?" in cause
        assert client.post("/normalize", json={"mentions": ["headach"]}).status_code == 200
        away(is_away=False)
        assert decide().status_code == decide().status_code == 201
        assert client.get("/ready").status_code == 200
        assert [one.uid for one in reviews.history("lab")] == ["u"]
        # A file that is sent is read by a process of its own, and what is final is looked up.
        made = client.post(
            "/api/projects?name=more&source=LAB",
            content=b"mention,mention_code,concept_id,rank\nfeverish,F1,AX:4,1\n",
            headers={"Content-Type": "text/csv"},
        )
        assert (made.status_code, made.json()["new"]) == (201, 1)
        found = FinalMappings(reviews.database)
        assert [one.concept_id for one in found.by_code("L1")] == ["AX:2"]
        assert [one.mention for one in found.by_concept("AX:2".__eq__)] == ["headach"]


def test_who_waits_too_long_is_told_so(address):
    with ReviewStore.open(address, timeout=0.2) as one, ReviewStore.open(address, timeout=0.2) as other:
        with one.database.writing(), pytest.raises(Busy, match="another program is writing"):
            Say(other)("ann", 1, "accept")
        assert Say(other)("ann", 1, "accept").row == 1


def test_what_was_done_cannot_be_changed(address):
    with ReviewStore.open(address) as reviews:
        Say(reviews)("ann", 1, "accept")
        for table in tables.APPENDED:
            for statement in (
                f"DELETE FROM {table}",
                f"UPDATE {table} SET reviewer = 'bob'",
                f"TRUNCATE {table} CASCADE",
            ):
                with (
                    pytest.raises(DBAPIError, match="only ever added to"),
                    reviews.database.backend.engine.begin() as to,
                ):
                    to.exec_driver_sql(statement)
        assert [decision.concept_id for decision in reviews.history("codes")] == [TOE]


def test_what_it_cannot_hold_is_told_without_what_it_is(address):
    with ReviewStore.open(address) as reviews:
        for mention in ("sore\0toe", "sore \ud800"):
            with pytest.raises(InputError, match="not valid text") as refused:
                reviews.add_rows("codes", [row(60, mention=mention)])
            assert "sore" not in str(refused.value)
        long = "".join(random.Random(1).choices("abcdefghij", k=20_000))
        for _ in range(2):
            reviews.add_rows("codes", [row(60, mention=long, code=long)])
        assert reviews.progress("codes").rows == N_ROWS + 1
        with pytest.raises(InputError, match="too long for PostgreSQL"):
            reviews.decide(Decision(long, "codes", 1, "ann", "accept", TOE))


def test_which_databases_are_refused(schema, server):
    empty = schema()
    with pytest.raises(InputError, match="no review store in this database"):
        ReviewStore.open(empty)
    with ReviewStore.open(empty, create=True) as reviews:
        with reviews.database.backend.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alphita_store SET version = 99")
        with pytest.raises(InputError, match="version 99; this program knows version 3"):
            ReviewStore.open(empty)
    other = schema()
    server.psql(f"CREATE TABLE {other.rpartition('%3D')[2]}.project (name text);")
    with pytest.raises(InputError, match="a table project that is no review store's"):
        ReviewStore.open(other, create=True)
    with pytest.raises(UsageError, match=r"mysql://ann:\*\*\*@host/x: a review store is in SQLite or PostgreSQL"):
        ReviewStore.open("mysql://ann:secret@host/x")
    with pytest.raises(UsageError, match="not an address; as in postgresql://user@host/database"):
        ReviewStore.open("postgresql://ann:secret@host:port/x")


def test_a_standby_is_told_to_be_one(address, monkeypatch):
    with ReviewStore.open(address) as reviews:
        monkeypatch.setattr(type(reviews.database.backend), "begin_writing", "SET TRANSACTION READ ONLY")
        with pytest.raises(NotStored, match="read-only, a standby perhaps"):
            Say(reviews)("ann", 1, "accept")
        assert reviews.progress("codes").rows == N_ROWS


def test_several_make_it_at_once(schema):
    address = schema()
    with ThreadPoolExecutor(4) as threads:
        for reviews in threads.map(lambda _: ReviewStore.open(address, create=True), range(4)):
            reviews.close()
    with ReviewStore.open(address) as reviews:
        assert reviews.projects() == []


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:s%3Fc@host:5432/x", "postgresql://ann:***@host:5432/x"),
        ("postgresql://ann:a@b:c/d@host/x?sslmode=require", "postgresql://ann:***@host/x?sslmode=require"),
        ("postgresql://host/x?user=ann&password=secret&port=1", "postgresql://host/x?user=ann&password=***&port=1"),
        ("postgresql://ann@host/x", "postgresql://ann@host/x"),
        ("--mappings=postgresql://:secret@/x", "--mappings=postgresql://:***@/x"),
        ("/data/a:b@c.sqlite", "/data/a:b@c.sqlite"),
    ],
)
def test_a_password_is_never_shown(address, shown):
    assert masked(address) == shown


def test_without_the_driver_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'alphita\[postgresql\]'"):
        ReviewStore.open("postgresql://ann@host/x")
