"""An index in the imitation of Qdrant: the backends' contract, filters, releases, and what can go wrong."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.neighbours import unit
from alphita.index.servers import Hit, _qdrant, _qdrant_loading, qdrant
from alphita.index.servers._content import IndexContent, probes_of
from alphita.index.store import build
from tests.doubles import HashEncoder, small_terminology
from tests.index.server_contract import HALF, Rows, ServerContract, changed, loaded, mixed_rows, plain

# The imitation says that it compares all and has no use for indexes of payloads.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
]


def imitation(name: str = "terms") -> qdrant.QdrantIndex:
    from qdrant_client import QdrantClient

    return qdrant.QdrantIndex(_qdrant.Connection(QdrantClient(":memory:"), "memory"), name)


def another(server: qdrant.QdrantIndex, name: str = "terms") -> qdrant.QdrantIndex:
    """Return a reader of the same server."""
    return qdrant.QdrantIndex(server._connection, name)


@pytest.fixture
def server() -> Iterator[qdrant.QdrantIndex]:
    with imitation() as opened:
        yield opened


@pytest.fixture(scope="module")
def few() -> tuple[qdrant.QdrantIndex, Rows]:
    content = plain(unit(np.random.default_rng(1).standard_normal((300, 24)).astype(np.float32)))
    server = imitation("few")
    loaded(server, content)
    return server, content


@pytest.fixture(scope="module")
def mixed() -> tuple[qdrant.QdrantIndex, Rows]:
    server, content = imitation("mixed"), mixed_rows(400)
    loaded(server, content)
    return server, content


class TestContract(ServerContract):
    """In the imitation."""


# The graph and its recall.


def test_recall_is_measured_and_recorded(few):
    server, content = few
    facts = server.facts()
    assert (facts["recall_at_1"], facts["probes"], facts["search"]["ef"]) == (1.0, 50, _qdrant_loading.STEPS[0])
    assert {name: facts[name] for name in content.facts} == content.facts
    found = _qdrant_loading._nearest(
        _qdrant_loading.Collection(server._connection.client, server.alias, ""), content, content.vectors[5:9], 1, 64
    )
    assert found.tolist() == [5, 6, 7, 8]


def missed(monkeypatch: pytest.MonkeyPatch, below: int) -> None:
    """Let searches that look at fewer than `below` find nothing near."""
    real = _qdrant_loading._nearest

    def nearest(collection: Any, content: Any, queries: Any, number: int, ef: int) -> Any:
        found = real(collection, content, queries, number, ef)
        return found if ef >= below else np.full_like(found, -1)

    monkeypatch.setattr(_qdrant_loading, "_nearest", nearest)


def test_a_wider_search_is_taken_where_it_is_needed(server, monkeypatch):
    content = plain(np.eye(9, dtype=np.float32))
    missed(monkeypatch, 512)
    assert loaded(server, content)["search"]["ef"] == 512
    asked: list[int] = []
    real = server._connection.client.query_batch_points

    def query(name: str, requests: Any, **options: Any) -> Any:
        asked.extend(request.params.hnsw_ef for request in requests)
        return real(name, requests, **options)

    monkeypatch.setattr(server._connection.client, "query_batch_points", query)
    server.search(content.vectors[:1], 2)
    assert asked == [512]


def test_a_search_that_misses_too_much_is_refused_and_leaves_nothing(server, monkeypatch):
    content = plain(np.eye(9, dtype=np.float32))
    missed(monkeypatch, 10**6)
    with pytest.raises(InputError, match=r"finds the nearest string for only 0.0% of 9 .*hnsw_ef = 2048; 99%"):
        loaded(server, content)
    assert server._connection.client.get_collections().collections == []
    with pytest.raises(InputError, match="there is no index 'terms' at memory"):
        server.facts()


# Filters and terms.


def test_too_few_are_completed_by_comparing_all(mixed, monkeypatch):
    server, content = mixed
    client, asked = server._connection.client, []
    real = client.query_batch_points

    def query(name: str, requests: Any, **options: Any) -> Any:
        asked.append([request.params.exact for request in requests])
        answers = real(name, requests, **options)
        for answer in answers[1:] if not requests[0].params.exact else []:
            del answer.points[2:]  # as a graph that does not reach the others
        return answers

    monkeypatch.setattr(client, "query_batch_points", query)
    found = server.search(content.vectors[:3], 5)
    assert asked == [[False] * 3, [True] * 2]
    assert [len({hit.string for hit in hits}) for hits in found] == [5, 5, 5]
    assert [hits[0].string for hits in found] == list(content.rows)[:3]


def test_an_index_is_found_as_it_is(server, tmp_path):
    encoder = HashEncoder()
    index = build(small_terminology(), encoder, tmp_path / "x.index", half=True)
    facts = server.load(IndexContent(index), release="2026-03", probes=probes_of(index, encoder))
    assert (facts["release"], facts["dim"], facts["model_hash"]) == ("2026-03", 64, encoder.content_hash)
    assert server.releases()[0][2:] == (12, 14)
    hits = server.exact(["cold", "nothing", "fits", "a\ud800"])
    assert [hit.concept_id for hit in hits[0]] == ["T:3", "T:5", "T:4"]
    assert hits[0][1] == Hit(
        "cold", 1.0, "T:5", "Chronic obstructive lung disease", "COLD", "exact", "TEST", "en", "2026-03"
    )
    assert [len(some) for some in hits] == [3, 0, 1, 0]
    found = server.search(encoder.encode(["cephalgia"]), 2)[0]
    assert found[0].string == "cephalgia"
    assert found[0].similarity == pytest.approx(1, abs=HALF)
    with pytest.raises(InputError, match="the encoder does not belong to this index"):
        probes_of(index, HashEncoder(seed=1))


# Releases.


def seen(server: qdrant.QdrantIndex) -> list[tuple[Any, ...]]:
    """Return what readers see: strings, vectors, terms."""
    number = server._read_current().number
    points, offset = server._connection.client.scroll(
        server.alias, scroll_filter=_qdrant_loading.visible(number), limit=10_000, with_vectors=True
    )
    assert offset is None
    return sorted(
        (point.payload["string"], point.vector["string"], json.dumps(point.payload["terms"])) for point in points
    )


@pytest.mark.parametrize("at_once", [7, 10_000])
def test_an_update_is_the_same_as_loading_anew(server, mixed, monkeypatch, at_once):
    monkeypatch.setattr(_qdrant_loading, "POINTS_AT_ONCE", at_once)
    monkeypatch.setattr(_qdrant_loading, "IDS_AT_ONCE", at_once)
    rows = dict(itertools.islice(mixed[1].rows.items(), 100))
    loaded(server, Rows(rows))
    anew = another(server, "anew")
    for seed in range(3):
        before, rows = rows, changed(rows, seed)
        change = server.update(Rows(rows), release=f"r{seed}")
        loaded(anew, Rows(rows), f"r{seed}", force=True)
        assert seen(server) == seen(anew)
        terms_before = {(string, one) for string, (_, terms) in before.items() for one in terms}
        terms_after = {(string, one) for string, (_, terms) in rows.items() for one in terms}
        assert change == (
            len(rows.keys() - before.keys()), len(before.keys() - rows.keys()),
            len(terms_after - terms_before), len(terms_before - terms_after), len(terms_after & terms_before),
        )  # fmt: skip
        assert server.facts()["recall_at_1"] >= 0.99
    assert [one.release for one in server.releases()] == ["one", "r0", "r1", "r2"]
    assert server.releases()[-1].strings == len(rows)


def test_what_did_not_change_is_not_written_and_comes_back_anew(server, mixed, monkeypatch):
    rows = dict(itertools.islice(mixed[1].rows.items(), 60))
    less = dict(itertools.islice(rows.items(), 50))
    loaded(server, Rows(rows))
    written: list[int] = []
    client = server._connection.client
    real = client.upsert
    monkeypatch.setattr(
        client, "upsert", lambda name, points, **o: (written.append(len(points)), real(name, points))[1]
    )
    change = server.update(Rows(less), release="two")
    assert (change.strings_added, change.strings_removed, change.terms_added) == (0, 10, 0)
    assert written == [1, 1]  # the release, and that readers see it
    assert client.count(server.alias).count == 60 + 2 + 2
    assert server.update(Rows(rows), release="three").strings_added == 10
    assert written == [1, 1, 10, 1, 1]
    assert [hits[0].release for hits in server.exact(list(rows))] == ["three"] * 60
    # What ended with the second release was deleted by the third. The others are releases, the current one, probes.
    assert client.count(server.alias).count == 60 + 3 + 2


def reading(server: qdrant.QdrantIndex, content: Rows, releases: dict[str, dict[str, Any]]) -> Callable[[], None]:
    """Return a look at all strings that must be one release's."""
    reader = another(server)
    strings = sorted({string for rows in releases.values() for string in rows})

    def look() -> None:
        for hits in (
            [hit for some in reader.exact(strings) for hit in some],
            reader.search(content.vectors[:1], 10_000)[0],
        ):
            [release] = {hit.release for hit in hits}
            assert sorted((hit.string, hit.concept_id) for hit in hits) == sorted(
                (string, one.concept_id) for string, (_, terms) in releases[release].items() for one in terms
            )
            looks.append(release)

    looks: list[str] = []
    look.looks = looks  # type: ignore[attr-defined]
    return look


def test_readers_see_the_old_or_the_new_release_whole(server, mixed, monkeypatch):
    # Looks between any two steps of an update, and of a loading that replaces the index.
    first = dict(itertools.islice(mixed[1].rows.items(), 40))
    second, third = changed(first, 1), changed(first, 2)
    loaded(server, Rows(first), "first")
    look: Any = reading(server, mixed[1], {"first": first, "second": second, "third": third})
    client = server._connection.client
    for step in ("upsert", "set_payload", "delete", "update_collection_aliases", "delete_collection"):

        def stepping(*given: Any, real: Any = getattr(client, step), **options: Any) -> Any:
            look()
            done = real(*given, **options)
            look()
            return done

        monkeypatch.setattr(client, step, stepping)
    look()
    server.update(Rows(second), release="second")
    look()
    loaded(server, Rows(third), "third", force=True)
    look()
    assert list(dict.fromkeys(look.looks)) == ["first", "second", "third"]
    assert len(look.looks) > 30


def test_a_reader_that_was_overtaken_searches_again(server, mixed, monkeypatch):
    first = dict(itertools.islice(mixed[1].rows.items(), 30))
    second = changed(first, 1)
    loaded(server, Rows(first), "first")
    reader = another(server)
    reader.facts()
    client, writer = server._connection.client, another(server)
    steps: list[Callable[[], Any]] = [
        lambda: writer.update(Rows(second), release="second"),
        lambda: loaded(writer, Rows(first), "anew", force=True),
    ]
    real = client.scroll

    def scroll(*given: Any, **options: Any) -> Any:
        if steps and options["limit"] == len(first):  # the reader's
            steps.pop(0)()
        return real(*given, **options)

    monkeypatch.setattr(client, "scroll", scroll)
    found = reader.exact(list(first))
    assert not steps
    assert {hit.release for hits in found for hit in hits} == {"anew"}
    assert all(found)


def test_an_update_that_breaks_off_changes_nothing_and_is_undone(server, mixed, monkeypatch):
    first = dict(itertools.islice(mixed[1].rows.items(), 40))
    second, third = changed(first, 1), changed(first, 2)
    loaded(server, Rows(first), "first")
    before = seen(server)
    client = server._connection.client
    for step in ("set_payload", "retrieve"):  # after the new strings; after the old ones were marked
        real, calls = getattr(client, step), []

        def broken(*given: Any, real: Any = real, calls: Any = calls, **options: Any) -> Any:
            calls.append(given)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return real(*given, **options)

        with monkeypatch.context() as patched:
            patched.setattr(client, step, broken)
            with pytest.raises(KeyboardInterrupt):
                server.update(Rows(second), release="second")
        assert client.count(server.alias).count > len(first) + 3
        assert seen(server) == before
        assert [one.release for one in server.releases()] == ["first"]
    server.update(Rows(third), release="third")
    anew = another(server, "anew")
    loaded(anew, Rows(third), "third")
    assert seen(server) == seen(anew)


def test_an_update_that_breaks_off_between_its_last_two_notes_can_be_made_again(server, mixed, monkeypatch):
    """The release is written down before readers are turned to it."""
    first = dict(itertools.islice(mixed[1].rows.items(), 20))
    second = changed(first, 1)
    loaded(server, Rows(first), "first")
    before, client = seen(server), server._connection.client
    real = client.upsert

    def broken(name: str, points: Any, **options: Any) -> Any:
        if (points[0].payload or {}).get("kind") == "now":
            raise KeyboardInterrupt
        return real(name, points, **options)

    with monkeypatch.context() as patched:
        patched.setattr(client, "upsert", broken)
        with pytest.raises(KeyboardInterrupt):
            server.update(Rows(second), release="second")
    assert seen(server) == before
    assert [one.release for one in server.releases()] == ["first"]
    server.update(Rows(second), release="second")
    assert [one.release for one in server.releases()] == ["first", "second"]
    anew = another(server, "anew")
    loaded(anew, Rows(second), "second")
    found, expected = seen(server), seen(anew)
    assert [(string, terms) for string, _, terms in found] == [(string, terms) for string, _, terms in expected]
    # The client in memory scales a vector again where a point takes a deleted one's place.
    np.testing.assert_allclose([one[1] for one in found], [one[1] for one in expected], atol=1e-6)


def test_a_loading_that_breaks_off_leaves_what_was_there(server, mixed, monkeypatch):
    first = dict(itertools.islice(mixed[1].rows.items(), 20))
    loaded(server, Rows(first), "first")
    before = seen(server)
    client = server._connection.client
    client.create_collection(f"{server.alias}__broken", vectors_config={})  # its process was killed
    with monkeypatch.context() as patched:
        patched.setattr(_qdrant_loading, "_wait", lambda collection: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loaded(server, Rows(changed(first, 1)), "second", force=True)
    assert seen(server) == before
    assert len(client.get_collections().collections) == 1


def test_what_cannot_be_updated_is_said_before_anything_is_written(server, mixed, monkeypatch):
    rows = dict(itertools.islice(mixed[1].rows.items(), 20))
    with pytest.raises(InputError, match="there is no index 'terms' at memory; load it"):
        server.update(Rows(rows), release="two")
    loaded(server, Rows(rows))
    for step in ("upsert", "set_payload", "delete"):
        monkeypatch.setattr(server._connection.client, step, lambda *given, **options: pytest.fail("written"))
    for field in ("model_hash", "tokenizer_hash", "cleaning_rules_hash"):
        with pytest.raises(InputError, match=rf"'terms' has {field} ., this index has other.*--force"):
            server.update(Rows(rows, **{field: "other"}), release="two")
    with pytest.raises(InputError, match="has dim 16, this index has 24"):
        server.update(plain(np.eye(24, dtype=np.float32)), release="two")
    with pytest.raises(UsageError, match="release 'one' was loaded before"):
        server.update(Rows(rows), release="one")
    for release in ("", " "):
        with pytest.raises(UsageError, match="a release needs a name"):
            server.update(Rows(rows), release=release)
    with pytest.raises(UsageError, match=r"there is an index 'terms' already.*--force"):
        loaded(server, Rows(rows), "two")


def test_an_index_is_listed_and_dropped(server, monkeypatch):
    content = plain(np.eye(5, dtype=np.float32))
    loaded(server, content)
    loaded(another(server, "more"), content)
    client = server._connection.client
    client.create_collection("theirs", vectors_config={})
    monkeypatch.setattr(_qdrant, "connect", lambda address: server._connection)
    monkeypatch.setattr(client, "close", lambda: None)
    assert qdrant.names("http://x") == ["more", "terms"]
    qdrant.connect("http://x", "terms").drop()
    assert qdrant.names("http://x") == ["more"]
    assert len(client.get_collections().collections) == 2
    for call in (server.drop, server.facts, server.releases, lambda: server.search(content.vectors, 1)):
        with pytest.raises(InputError, match="there is no index 'terms' at memory"):
            call()
    with pytest.raises(InputError, match="there is no index 'terms' at memory"):
        server.exact(["000001"])


def test_what_another_version_wrote_is_told(server):
    loaded(server, plain(np.eye(5, dtype=np.float32)))
    client = server._connection.client
    [now] = client.retrieve(server.alias, [_qdrant_loading.NOW])
    client.set_payload(server.alias, {"facts": now.payload["facts"] | {"format": 99}}, points=[_qdrant_loading.NOW])
    with pytest.raises(InputError, match=r"has format 99; this alphita reads 1.*--force"):
        server.search(np.eye(5, dtype=np.float32), 1)
    client.delete(server.alias, [_qdrant_loading.NOW])
    with pytest.raises(InputError, match="is not a collection that alphita loaded"):
        server.facts()


# What can go wrong at the start: a server of a few fixed answers.


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    """Return what starts a server that answers paths with (status, text), and gives its address."""
    started = []

    def start(answers: dict[str, tuple[int, str]], keys: list[str | None] | None = None) -> str:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if keys is not None:
                    keys.append(self.headers.get("api-key"))
                status, text = answers.get(self.path, (404, "no"))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def version(number: str) -> tuple[int, str]:
    return 200, json.dumps({"title": "qdrant - vector search engine", "version": number})


NO_ALIASES = (200, json.dumps({"result": {"aliases": []}, "status": "ok", "time": 0.1}))


def test_a_server_is_opened_with_the_key_of_the_environment(answering, monkeypatch):
    keys: list[str | None] = []
    address = answering({"/": version("1.15.1"), "/aliases": NO_ALIASES}, keys)
    assert qdrant.names(address) == []
    monkeypatch.setenv(_qdrant.KEY, "top-secret")
    with pytest.warns(UserWarning, match="insecure connection"):
        qdrant.connect(address, "terms").close()
    assert keys[0] is None
    assert keys[-1] == "top-secret"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"/": version("1.15.1"), "/aliases": (401, "top-secret")}, "refuses .HTTP 401.: .*ALPHITA_QDRANT_KEY"),
        ({"/": version("1.9.7"), "/aliases": NO_ALIASES}, "has version 1.9; 1.10 or later is needed"),
        ({"/": (200, '{"name": "elasticsearch"}')}, "what answers at 127.0.0.1:.* is no Qdrant"),
        ({"/": (200, "<html>")}, "what answers at 127.0.0.1:.* is no Qdrant"),
        ({}, "answers HTTP 404: no"),
        ({"/": (503, "busy\nbusy")}, "answers HTTP 503: busy busy"),
    ],
)
def test_what_a_server_answers_is_told(answering, answers, said):
    with pytest.raises(AlphitaError, match=said) as refused:
        qdrant.connect(answering(answers), "terms")
    assert "top-secret" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "http://nowhere.invalid:6333", "http://", "http://host:port", "http://[::1"]
)
def test_a_wrong_address_is_told(address):
    with pytest.raises(AlphitaError, match=r"not well formed|cannot reach Qdrant at"):
        qdrant.connect(address, "terms")


def test_a_key_is_neither_taken_from_an_address_nor_sent_in_the_open(monkeypatch):
    for address in ("https://secret@host:6333", "https://me:secret@host:6333", "https://host:6333?api_key=secret"):
        with pytest.raises(UsageError, match=r"holds no key; put it into .*ALPHITA_QDRANT_KEY") as refused:
            qdrant.connect(address, "terms")
        assert "secret" not in str(refused.value)
    monkeypatch.setenv(_qdrant.KEY, "secret")
    with pytest.raises(UsageError, match="would send it to host:6333 unencrypted"):
        qdrant.connect("http://host:6333", "terms")


def test_a_server_that_goes_away_is_told(answering):
    server = qdrant.connect(answering({"/": version("1.15.1"), "/aliases": NO_ALIASES}), "terms")
    with pytest.raises(InputError, match=r"there is no index 'terms' at 127\.0\.0\.1"):
        server.facts()
    with server, pytest.raises(InputError, match="there is no index"):
        server.search(np.eye(3, dtype=np.float32), 1)
