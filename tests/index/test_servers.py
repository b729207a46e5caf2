"""An index in a real PostgreSQL: the backends' contract, filters, releases, and what can go wrong."""

from __future__ import annotations

import itertools
import random
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from alphita import registry
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.neighbours import unit
from alphita.index.servers import (
    SERVERS,
    Content,
    Hit,
    IndexContent,
    ServerIndex,
    ServerTerm,
    _postgres,
    check_name,
    connect,
    module_of,
    pgvector,
    probes_of,
)
from alphita.index.servers._postgres import Measure
from alphita.index.store import build
from alphita.terminology.languages import speaks
from tests.doubles import HashEncoder, small_terminology
from tests.waiting import wait_until

# Of a cosine whose vectors are float16 on the server.
HALF = 5e-4
FACTS = {"format": 1, "dim": 24, "model_hash": "m", "tokenizer_hash": "t", "cleaning_rules_hash": "c"}
FILTERS = [
    {"sources": ["A"]},
    {"sources": ["B"], "languages": ["it"]},
    {"types": ["drug", "site"]},
    {"types": ["rare"]},
    {"types": ["rare"], "sources": ["B"]},
    {"sources": ["A", "B"], "types": ["disease"], "languages": ["en", "it"]},
    {"languages": ["xx"]},
    {"sources": ["nix"], "types": ["drug"]},
    {"languages": ["it-CH", "fr"]},
]


class Rows:
    """A `Content` of given rows: string -> (vector, its terms)."""

    def __init__(
        self,
        rows: dict[str, tuple[np.ndarray, list[ServerTerm]]],
        during: Callable[[], None] | None = None,
        **facts: Any,
    ) -> None:
        self.rows, self.during = dict(sorted(rows.items(), key=lambda row: row[0].encode())), during
        self.vectors = np.array([vector for vector, _ in self.rows.values()], np.float32)
        languages = sorted({one.language for _, terms in rows.values() for one in terms})
        self.facts = FACTS | {"dim": self.vectors.shape[1], "languages": languages} | facts

    def strings(self, start: int, stop: int) -> list[str]:
        return list(self.rows)[start:stop]

    def terms(self, start: int, stop: int) -> list[tuple[int, ServerTerm]]:
        if self.during is not None:
            self.during()
        some = itertools.islice(self.rows.values(), start, stop)
        return [(row, term) for row, (_, terms) in enumerate(some, start) for term in terms]


def term(
    place: int, concept: str, *, source: str = "S", language: str = "en", types: tuple[str, ...] = ()
) -> ServerTerm:
    return ServerTerm(place, f"{source}:{concept}", f"name of {concept}", concept, "exact", source, language, types)


def plain(vectors: np.ndarray) -> Rows:
    """Return vectors as the vectors of strings that sort as their rows do, with a term each."""
    return Rows({f"{row:06d}": (vector, [term(0, str(row))]) for row, vector in enumerate(vectors)})


def many(n: int, dim: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors in clusters, and queries near some of them."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n // 20, dim))
    vectors = unit((centres[rng.integers(0, len(centres), n)] + 0.4 * rng.standard_normal((n, dim))).astype(np.float32))
    noisy = vectors[rng.integers(0, n, 200)] + 0.05 * rng.standard_normal((200, dim))
    return vectors, unit(noisy.astype(np.float32))


def mixed_rows(count: int) -> Rows:
    """Return strings of one to three terms; sources, languages and types from frequent to rare."""
    chance = random.Random(5)
    rows = {}
    for row, vector in enumerate(many(count, 16)[0]):
        terms = [
            term(
                place,
                f"{row}-{place}",
                source=chance.choice("AAAAB"),
                language=chance.choice(["en"] * 9 + ["it", "it-CH"]),
                types=tuple(sorted(chance.sample(["disease", "drug", "site"], chance.randrange(3))))
                + (("rare",) if row % (count // 4) == 3 else ()),
            )
            for place in range(chance.randint(1, 3))
        ]
        rows[f"{row:06d}"] = (vector, terms)
    return Rows(rows)


def changed(rows: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return rows of which some are gone, some are new, and some have other terms."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    kept = {string: row for string, row in rows.items() if chance.random() < 0.8}
    for string, (vector, terms) in list(kept.items()):
        if chance.random() < 0.2:
            terms = [*terms[1:], term(0, f"{seed}", types=("new",))][: chance.randint(1, 3)]
            kept[string] = (vector, [one._replace(place=place) for place, one in enumerate(terms)])
    for number in range(30):
        vector = unit(rng.standard_normal((1, 16)).astype(np.float32))[0]
        kept[f"new {seed} {number}"] = (
            vector,
            [term(place, f"{seed}-{place}") for place in range(chance.randint(1, 3))],
        )
    return kept


def first(content: Rows, n: int) -> dict[str, Any]:
    return dict(itertools.islice(content.rows.items(), n))


def loaded(server: ServerIndex, content: Content, release: str = "one", **options: Any) -> dict[str, Any]:
    return server.load(content, release=release, probes=lambda: np.array(content.vectors[:50]), **options)


def ask(server: ServerIndex, rows: Rows, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return similarities (q, k) and rows (q, k) of what a server finds among `rows`."""
    row_of = {string: row for row, string in enumerate(rows.rows)}
    strings = [{hit.string: hit.similarity for hit in hits} for hits in server.search(queries, k)]
    similarity = np.array([list(line.values()) for line in strings], np.float32)
    places = np.array([[row_of[string] for string in line] for line in strings], np.int64)
    k = min(k, len(rows.rows))
    return similarity.reshape(len(queries), k), places.reshape(len(queries), k)


def brute_force(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    rows = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(products, rows, axis=1), rows


def filtered(
    content: Rows, query: np.ndarray, k: int, sources: list[str], types: list[str], languages: list[str]
) -> list[tuple[str, str, float]]:
    """Return (string, concept, similarity) of the k nearest strings with a term that passes, by a plain loop."""
    found = []
    for string, (vector, terms) in content.rows.items():
        passing = [
            one
            for one in terms
            if (not sources or one.source in sources)
            and (not types or set(types) & set(one.types))
            and (not languages or any(speaks(one.language, wanted) for wanted in languages))
        ]
        if passing:
            found.append((float(vector.astype(float) @ query.astype(float)), string, passing))
    found.sort(key=lambda one: (-one[0], one[1]))
    return [(string, one.concept_id, similarity) for similarity, string, passing in found[:k] for one in passing]


@pytest.fixture
def server(database: str) -> Iterator[pgvector.PostgresIndex]:
    with pgvector.connect(database, "terms") as opened:
        yield opened


@pytest.fixture(scope="module")
def few(postgres: str) -> Iterator[tuple[pgvector.PostgresIndex, Rows]]:
    content = plain(unit(np.random.default_rng(1).standard_normal((700, 24)).astype(np.float32)))
    with pgvector.connect(postgres, "few") as opened:
        loaded(opened, content)
        yield opened, content
        opened.drop()


def explained(server: pgvector.PostgresIndex, filters: list[str], **parameters: Any) -> str:
    """Return how the server would search for one query."""
    from pgvector import HalfVector

    connection = server._database.connection
    parameters["queries"] = [HalfVector(np.ones(server.facts()["dim"]))]
    statement = b"EXPLAIN " + server._nearest(filters).as_bytes(connection)
    return "\n".join(line for (line,) in connection.execute(statement, parameters).fetchall())


def linked(server: pgvector.PostgresIndex) -> bool:
    """Return whether a search of one query walks the graph."""
    return "Index Scan using vectors" in explained(server, [], k=1, taken=1)


@pytest.fixture(scope="module")
def mixed(postgres: str) -> Iterator[tuple[pgvector.PostgresIndex, Rows]]:
    content = mixed_rows(2000)
    with pgvector.connect(postgres, "mixed") as opened:
        loaded(opened, content)
        yield opened, content
        opened.drop()


class TestContract:
    @pytest.mark.parametrize(("queries", "k"), [(1, 1), (19, 5), (120, 150)])
    def test_neighbours_are_those_of_brute_force(self, few, queries, k):
        asked = unit(np.random.default_rng(2).standard_normal((queries, 24)).astype(np.float32))
        similarity, rows = ask(*few, asked, k)
        expected, expected_rows = brute_force(few[1].vectors, asked, k)
        assert similarity.shape == rows.shape == (queries, k)
        assert similarity.dtype == np.float32
        assert rows.dtype == np.int64
        np.testing.assert_allclose(similarity, expected, atol=HALF)
        # Neighbours nearer to each other than float16 can tell may change places.
        np.testing.assert_allclose(np.einsum("qd,qkd->qk", asked, few[1].vectors[rows]), expected, atol=2 * HALF)
        assert (rows[:, 0] == expected_rows[:, 0]).mean() > 0.97

    def test_edges(self, few):
        server, content = few
        assert ask(*few, content.vectors[:4], 0)[1].shape == (4, 0)
        assert ask(*few, content.vectors[:0], 3)[1].shape == (0, 3)
        assert server.search(content.vectors[:2], 0) == [[], []]
        assert server.search(content.vectors[:0], 3) == []
        assert server.exact([]) == []
        assert ask(*few, content.vectors[10:40], 1)[1][:, 0].tolist() == list(range(10, 40))
        # Brought to length 1, and of length 0.
        assert server.search(7 * content.vectors[:1], 1)[0][0].similarity == pytest.approx(1, abs=HALF)
        assert [hit.similarity for hit in server.search(np.zeros((1, 24), np.float32), 3)[0]] == [0, 0, 0]
        with pytest.raises(UsageError, match=r"queries of shape \(2, 23\).*'few' holds vectors of 24"):
            server.search(content.vectors[:2, :23], 1)
        with pytest.raises(UsageError, match="queries of shape"):
            server.search(content.vectors[0], 1)
        with pytest.raises(UsageError, match="k must be 0 or more, not -1"):
            server.search(content.vectors[:2], -1)

    def test_equals_come_by_row_number_and_k_beyond_n_gives_every_row_once(self, server):
        content = plain(np.tile(np.float32([[1, 0]]), (40, 1)))
        loaded(server, content)
        assert (ask(server, content, np.float32([[1, 0]] * 30), 50)[1] == np.arange(40)).all()
        assert [hit.string for hit in server.search(np.float32([[1, 0]]), 40)[0]] == list(content.rows)

    @pytest.mark.parametrize("filters", FILTERS, ids=str)
    def test_filters_are_those_of_a_plain_loop(self, mixed, filters):
        server, content = mixed
        every: dict[str, list[str]] = {"sources": [], "types": [], "languages": []} | filters
        n = len(content.vectors)
        # Nearest neighbours that are far apart, so that float16 does not change their order.
        queries = content.vectors[[3, n // 5, n // 4 + 3, n - 1]]
        for query, hits in zip(queries, server.search(queries, 8, **filters), strict=True):
            expected = filtered(content, query, 8, **every)
            assert len(hits) == len(expected)
            assert sorted(hit.similarity for hit in hits) == pytest.approx(sorted(one[2] for one in expected), abs=HALF)
            # Those that float16 cannot tell apart may change places, at the end even with one that is left out.
            last = min((one[2] for one in expected), default=0.0)
            sure = {one[:2] for one in expected if one[2] > last + 2 * HALF}
            assert sure <= {(hit.string, hit.concept_id) for hit in hits}

    def test_long_strings_and_odd_letters_are_kept(self, server):
        strings = ["x" * 9000, 'it\'s \\ "quoted"\t{a,b}', "痛", "é\U0001f600"]  # a tree index would not take the first
        vectors = np.eye(4, 24, dtype=np.float32)
        content = Rows(
            {s: (v, [term(0, s, types=("a,b", 'c"d', "{}"))]) for s, v in zip(sorted(strings), vectors, strict=True)}
        )
        loaded(server, content)
        assert [hits[0].term for hits in server.exact(strings)] == strings
        assert [hits[0].string for hits in server.search(content.vectors, 1, types=['c"d'])] == list(content.rows)


# The graph and its recall.


def test_the_graph_finds_the_nearest_and_its_recall_is_recorded(server):
    vectors, asked = many(6000, 32)
    content = plain(vectors)
    facts = server.load(content, release="one", probes=lambda: asked[:100])
    assert linked(server)
    assert facts["recall_at_1"] >= 0.99
    assert (facts["probes"], facts["release"]) == (100, "one")
    similarity, rows = ask(server, content, asked[100:], 10)
    expected, expected_rows = brute_force(vectors, asked[100:], 10)
    assert (rows[:, 0] == expected_rows[:, 0]).mean() >= 0.98
    np.testing.assert_allclose(similarity[:, 0], expected[:, 0], atol=HALF)
    # More than the graph gives in one go, and all.
    assert len({hit.string for hit in server.search(asked[:1], 1500)[0]}) == 1500
    assert ask(server, content, asked[:1], 6000)[1][0].tolist() != list(range(6000))


def test_more_are_taken_where_the_graph_is_not_searched_widely_enough(server, monkeypatch):
    monkeypatch.setattr(_postgres, "SPARSE", {"neighbours": 12, "ef_construction": 40})
    monkeypatch.setattr(_postgres, "STEPS", ((2, 1), (2, 40), (2, 400), (2, 2000)))
    vectors, asked = many(6000, 32)
    far = unit(asked + 0.15 * np.random.default_rng(9).standard_normal(asked.shape).astype(np.float32))
    facts = server.load(plain(vectors), release="one", probes=lambda: far)
    assert linked(server)
    assert facts["search"]["taken"] > 1
    assert facts["recall_at_1"] >= 0.99
    nearest_row = brute_force(vectors, far, 1)[1][:, 0]
    found = [int(hits[0].string) for hits in server.search(far, 1)]
    assert (found == nearest_row).mean() >= 0.98


def test_recall_is_the_share_of_queries_whose_row_is_as_near_as_the_nearest():
    vectors, asked = many(500, 8)
    rows = brute_force(vectors, asked, 2)[1]
    assert Measure(vectors, asked).recall(rows[:, 0]) == 1.0
    some = np.where(np.arange(200) < 150, rows[:, 0], rows[:, 1])
    assert Measure(vectors, asked).recall(some) == 0.75
    assert Measure(vectors, asked).recall(np.full(200, -1)) == 0.0
    assert Measure(vectors.astype(np.float16), asked).recall(rows[:, 0]) > 0.95


def test_a_graph_that_misses_too_much_is_refused_and_leaves_nothing(server, monkeypatch):
    # Every vector on a circle of its own neighbours: a graph of two links each, looked at one by one.
    monkeypatch.setattr(_postgres, "STEPS", ((1, 1),))
    monkeypatch.setattr(_postgres, "SPARSE", {"neighbours": 2, "ef_construction": 4})
    vectors = many(6000, 32)[0]
    probes = unit(np.random.default_rng(9).standard_normal((200, 32)).astype(np.float32))
    with pytest.raises(InputError, match=r"only \d+\.\d% of 200 misspelt strings, even with .*'ef_search': 1, .*; 99%"):
        server.load(plain(vectors), release="one", probes=lambda: probes)
    with pytest.raises(InputError, match="there is no index 'terms'"):
        server.facts()


def test_many_strings_are_linked_more_densely_and_stay_so(server, monkeypatch):
    def options() -> dict[str, str]:
        connection = server._database.connection
        rows = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'alphita_terms.vectors'::regclass")
        return dict(option.split("=") for option in rows.fetchone()[0])

    content = mixed_rows(300)
    monkeypatch.setattr(_postgres, "DENSE_FROM", 301)
    sparse = loaded(server, content)["search"]
    assert options() == {"m": str(sparse["neighbours"]), "ef_construction": str(sparse["ef_construction"])}
    assert _postgres.SPARSE.items() <= sparse.items()

    # What has outgrown its graph is told to be linked anew.
    monkeypatch.setattr(_postgres, "DENSE_FROM", 300)
    fewer = Rows(first(content, 299))
    with monkeypatch.context() as patched:
        patched.setattr(_postgres, "RECALL", 1.1)
        with pytest.raises(InputError, match="nothing was changed; load the index anew with --force"):
            server.update(content, release="two")
        with pytest.raises(InputError, match="nothing was changed; use the embedded index"):
            server.update(fewer, release="two")
    dense = loaded(server, content, force=True)["search"]
    assert options() == {"m": str(dense["neighbours"]), "ef_construction": str(dense["ef_construction"])}
    assert _postgres.DENSE.items() <= dense.items()
    assert dense["neighbours"] > sparse["neighbours"]

    # An update links what is new as the graph is linked, whatever would be chosen now.
    monkeypatch.setattr(_postgres, "DENSE_FROM", 10**9)
    server.update(Rows(first(content, 200)), release="two")
    assert _postgres.DENSE.items() <= server.facts()["search"].items()


# Filters and terms.


def test_too_few_of_the_graph_are_completed_by_comparing_all(database, monkeypatch):
    # The graph gives some 20 here, and what passes is rare.
    vectors, asked = many(6000, 16)
    rare = list(range(7, 6000, 700))
    content = Rows(
        {
            f"{row:06d}": (vector, [term(0, str(row), source="R" if row in rare else "S")])
            for row, vector in enumerate(vectors)
        }
    )
    with pgvector.connect(database, "terms") as server:
        loaded(server, content)
        for setting in (
            "enable_seqscan = off",
            "enable_hashjoin = off",
            "enable_mergejoin = off",
            "enable_sort = off",
            "hnsw.max_scan_tuples = 20",
        ):
            server._database.connection.execute(f"SET {setting}")
        assert linked(server)
        assert "Index Scan using vectors" in explained(server, ["source"], source=["R"], k=9, taken=1)
        with monkeypatch.context() as patch:
            patch.setattr(pgvector, "ALL_COMPARED", "")
            assert any(len(hits) < 9 for hits in server.search(asked[:3], 9, sources=["R"]))
        for hits in server.search(asked[:3], 9, sources=["R"]):
            assert sorted(hit.string for hit in hits) == [f"{row:06d}" for row in rare]


def test_an_index_is_found_as_it_is(server, tmp_path):
    encoder = HashEncoder()
    index = build(small_terminology(), encoder, tmp_path / "small.index")
    facts = server.load(IndexContent(index), release="2026-01", probes=probes_of(index, encoder))
    assert facts["model_hash"] == encoder.content_hash
    assert facts["cleaning_rules"] == list(index.rules)
    assert facts["terminology_hash"] == small_terminology().content_hash
    assert [(one.release, one.strings, one.terms) for one in server.releases()] == [("2026-01", 12, 14)]
    asked = encoder.encode(["seizures", "colds", "diabetes melitus 1"])
    similarity, rows = index.search(asked, 3)
    for line, hits in enumerate(server.search(asked, 3)):
        assert list(dict.fromkeys(hit.string for hit in hits))[:1] == [index.strings[rows[line, 0]]]
        assert hits[0].similarity == pytest.approx(similarity[line, 0], abs=HALF)
    # A homonym gives its terms in the order in which the index shows them.
    cold = [
        Hit("cold", 1.0, "T:3", "Cold", "Cold", "exact", "TEST", "en", "2026-01"),
        Hit("cold", 1.0, "T:5", "Chronic obstructive lung disease", "COLD", "exact", "TEST", "en", "2026-01"),
        Hit("cold", 1.0, "T:4", "Low body temperature", "Cold", "related", "TEST", "en", "2026-01"),
    ]
    assert server.exact(["cold", "nothing", "", "co\0ld", "\ud800", "cold"]) == [cold, [], [], [], [], cold]
    with pytest.raises(InputError, match="does not belong to this index"):
        probes_of(index, HashEncoder(seed=1))


# Releases.


def stored(server: pgvector.PostgresIndex) -> list[tuple[Any, ...]]:
    rows = server._database.connection.execute(
        f"SELECT s.string, s.vector::text, t.place, t.hash, t.concept_id, t.concept_name, t.term, t.scope, t.source, "
        f"t.language, t.types FROM {server.schema}.strings s LEFT JOIN {server.schema}.terms t ON t.string = s.id "
        "ORDER BY 1, 3"
    ).fetchall()
    orphans = server._database.connection.execute(
        f"SELECT count(*) FROM {server.schema}.terms t WHERE t.string NOT IN (SELECT id FROM {server.schema}.strings)"
    ).fetchone()
    assert orphans == (0,)
    return rows


@pytest.mark.parametrize("blocks", [7, 10_000])
def test_an_update_is_the_same_as_loading_anew(server, database, mixed, monkeypatch, blocks):
    monkeypatch.setattr(_postgres, "STRINGS_AT_ONCE", blocks)
    rows = first(mixed[1], 300)
    loaded(server, Rows(rows))
    with pgvector.connect(database, "anew") as anew:
        for seed in range(3):
            before, rows = rows, changed(rows, seed)
            change = server.update(Rows(rows), release=f"r{seed}")
            loaded(anew, Rows(rows), f"r{seed}", force=True)
            assert stored(server) == stored(anew)
            terms_before = {(string, one) for string, (_, terms) in before.items() for one in terms}
            terms_after = {(string, one) for string, (_, terms) in rows.items() for one in terms}
            assert change == (
                len(rows.keys() - before.keys()),
                len(before.keys() - rows.keys()),
                len(terms_after - terms_before),
                len(terms_before - terms_after),
                len(terms_after & terms_before),
            )
            assert server.facts()["recall_at_1"] >= 0.99
    assert [one.release for one in server.releases()] == ["one", "r0", "r1", "r2"]
    assert server.releases()[-1].strings == len(rows)


def test_what_did_not_change_is_not_written(server, mixed):
    rows = first(mixed[1], 100)
    loaded(server, Rows(rows))
    where = f"SELECT ctid::text, xmin::text FROM {server.schema}.strings UNION ALL SELECT ctid::text, xmin::text FROM "
    where += f"{server.schema}.terms"
    before = server._database.connection.execute(where).fetchall()
    # The vectors' last bits are not compared: they may differ with the strings that were encoded together.
    same = Rows({string: (vector * np.float32(1.0001), terms) for string, (vector, terms) in rows.items()})
    change = server.update(same, release="two")
    assert (change.strings_added, change.terms_added, change.terms_kept) == (0, 0, len(before) - 100)
    assert server._database.connection.execute(where).fetchall() == before
    assert server.exact([next(iter(rows))])[0][0].release == "two"


def test_readers_see_the_old_or_the_new_release_whole(database, mixed):
    rows = first(mixed[1], 100)
    renamed = {s: (v, [t._replace(concept_name="new") for t in terms]) for s, (v, terms) in rows.items()}
    strings, seen = list(rows), []

    def look() -> None:
        for hits in reader.exact(strings) + reader.search(mixed[1].vectors[:20], 3, sources=["A", "B"]):
            seen.append({(hit.release, hit.concept_name == "new") for hit in hits})

    with pgvector.connect(database, "terms") as writer, pgvector.connect(database, "terms") as reader:
        loaded(writer, Rows(rows))
        look()
        writer.update(Rows(renamed, during=look), release="two")
        assert all(one == {("one", False)} for one in seen)
        seen.clear()
        look()
        assert all(one == {("two", True)} for one in seen)
        # Replaced at once, likewise: the reader has the old one's settings in hand.
        seen.clear()
        loaded(writer, Rows(rows, during=look), "three", force=True)
        assert all(one == {("two", True)} for one in seen)
        seen.clear()
        look()
        assert all(one == {("three", False)} for one in seen)


def test_a_reader_takes_over_the_settings_of_what_was_loaded_anew_under_the_same_name(database, mixed):
    rows = first(mixed[1], 60)
    spoken = {s: (v, [t._replace(language="en-GB") for t in terms]) for s, (v, terms) in rows.items()}
    with pgvector.connect(database, "terms") as writer, pgvector.connect(database, "terms") as reader:
        loaded(writer, Rows({s: (v, [t._replace(language="en") for t in terms]) for s, (v, terms) in rows.items()}))
        assert all(reader.search(mixed[1].vectors[:4], 3, languages=["en"]))
        loaded(writer, Rows(spoken), force=True)
        found = reader.search(mixed[1].vectors[:4], 3, languages=["en"])
        assert {hit.language for hits in found for hit in hits} == {"en-GB"}
        assert all(len({hit.string for hit in hits}) == 3 for hits in found)
        assert reader.facts() == writer.facts()


def test_readers_at_work_while_it_is_replaced_see_no_error(database, mixed):
    rows = first(mixed[1], 50)
    renamed = {s: (v, [t._replace(concept_name="b") for t in terms]) for s, (v, terms) in rows.items()}
    done, errors, releases = threading.Event(), [], set()

    def read() -> None:
        try:
            with pgvector.connect(database, "terms") as reader:
                while not done.is_set():
                    for hits in reader.search(mixed[1].vectors[:3], 2):
                        assert len({(hit.release[0], hit.concept_name == "b") for hit in hits}) == 1
                        assert all((hit.release[0] == "b") == (hit.concept_name == "b") for hit in hits)
                        releases.add(hits[0].release)
        except Exception as error:
            errors.append(error)

    with pgvector.connect(database, "terms") as writer:
        loaded(writer, Rows(rows), "a")
        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for number in range(4):
            loaded(writer, Rows(renamed if number % 2 == 0 else rows), f"{'ba'[number % 2]}{number}", force=True)
            updated = f"{'ab'[number % 2]}u{number}"
            writer.update(Rows(rows if number % 2 == 0 else renamed), release=updated)
            wait_until(lambda updated=updated: errors or updated in releases)
        done.set()
        for reader in readers:
            reader.join()
    assert errors == []


def test_an_update_that_breaks_off_changes_nothing(server, mixed):
    rows = first(mixed[1], 60)
    loaded(server, Rows(rows))
    before = stored(server)
    calls = itertools.count()

    def fail() -> None:
        if next(calls) == 1:  # after the comparison, while what changed is written
            raise RuntimeError("pulled the plug")

    with pytest.raises(RuntimeError, match="pulled the plug"):
        server.update(Rows(changed(rows, 1), during=fail), release="two")
    assert next(calls) == 2
    assert stored(server) == before
    assert server.facts()["release"] == "one"
    server.update(Rows(changed(rows, 1)), release="two")


def test_what_cannot_be_updated_is_said_before_anything_is_written(server, mixed):
    rows = first(mixed[1], 20)
    with pytest.raises(InputError, match=r"there is no index 'terms' at .*alphita server load"):
        server.update(Rows(rows), release="two")
    loaded(server, Rows(rows))
    with pytest.raises(InputError, match=r"has model_hash m, this index has other; .*load it again"):
        server.update(Rows(rows, model_hash="other"), release="two")
    with pytest.raises(InputError, match="has cleaning_rules_hash c, this index has d"):
        server.update(Rows(rows, cleaning_rules_hash="d"), release="two")
    short = {string: (vector[:5], terms) for string, (vector, terms) in rows.items()}
    with pytest.raises(InputError, match="has dim 16, this index has 5"):
        server.update(Rows(short), release="two")
    with pytest.raises(UsageError, match=r"release 'one' was loaded before; loaded were \['one'\]"):
        server.update(Rows(rows), release="one")
    for empty in ("", "  ", "a\0"):
        with pytest.raises(UsageError, match="a release needs a name"):
            server.update(Rows(rows), release=empty)
        with pytest.raises(UsageError, match="a release needs a name"):
            loaded(server, Rows(rows), empty, force=True)
    with pytest.raises(UsageError, match=r"there is an index 'terms' already.*--force"):
        loaded(server, Rows(rows), "two")
    assert [one.release for one in server.releases()] == ["one"]


def test_two_do_not_change_an_index_at_once(database, mixed):
    rows = first(mixed[1], 20)
    said = []

    def also() -> None:
        with pgvector.connect(database, "terms") as other:
            for attempt in (
                lambda: other.update(Rows(rows), release="x"),
                other.drop,
                lambda: loaded(other, Rows(rows)),
            ):
                with pytest.raises(AlphitaError, match="'terms' is being loaded, updated or dropped by another"):
                    attempt()
                said.append(True)

    with pgvector.connect(database, "terms") as server:
        loaded(server, Rows(rows))
        server.update(Rows(rows, during=also), release="two")
    assert said


def test_an_index_is_listed_and_dropped(database, mixed):
    rows = first(mixed[1], 20)
    assert pgvector.names(database) == []
    with pgvector.connect(database, "b") as one, pgvector.connect(database, "a") as other:
        loaded(one, Rows(rows))
        loaded(other, Rows(rows))
        assert pgvector.names(database) == ["a", "b"]
        one.drop()
        assert pgvector.names(database) == ["a"]
        for gone in (
            one.drop,
            one.facts,
            one.releases,
            lambda: one.search(mixed[1].vectors[:1], 1),
            lambda: one.exact(["a"]),
        ):
            with pytest.raises(InputError, match=r"there is no index 'b' at .*alphita server load"):
                gone()


@pytest.mark.parametrize(
    ("graph", "most", "own", "expected"),
    [
        ("SPARSE", 8 << 20, "64MB", "64MB"),
        ("SPARSE", 8 << 20, "1MB", "4316kB"),
        ("DENSE", 8 << 20, "1MB", "8066kB"),
        ("SPARSE", 2048, "1MB", "2MB"),
    ],
)
def test_memory_for_the_graph_is_what_it_takes_and_no_less_than_the_servers(
    server, mixed, monkeypatch, graph, most, own, expected
):
    monkeypatch.setattr(_postgres, "MAX_MEMORY_KB", most)
    connection = server._database.connection
    connection.execute(f"SET maintenance_work_mem = '{own}'")
    with connection.transaction(force_rollback=True):
        server._database.create_extension()
        monkeypatch.setattr(_postgres.Schema, "statement", lambda *_: "SELECT")
        _postgres.link(_postgres.Schema(connection, "x"), mixed[1], getattr(_postgres, graph))
        assert connection.execute("SHOW maintenance_work_mem").fetchone() == (expected,)
    assert connection.execute("SHOW maintenance_work_mem").fetchone() == (own,)


def test_a_graph_is_built_without_shared_memory_where_there_is_little(server, mixed):
    # As in a container that was given 64 MB of it.
    connection = server._database.connection
    server._database.create_extension()
    connection.execute(
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF current_setting('max_parallel_maintenance_workers') <> '0' AND current_query() LIKE '%USING hnsw%' THEN "
        "RAISE EXCEPTION 'could not resize shared memory segment' USING ERRCODE = '53100'; END IF; END $$"
    )
    connection.execute("CREATE EVENT TRIGGER refuse ON ddl_command_start EXECUTE FUNCTION refuse()")
    loaded(server, Rows(first(mixed[1], 50)))
    assert server.search(mixed[1].vectors[:1], 1)[0][0].string == "000000"
    assert connection.execute("SHOW max_parallel_maintenance_workers").fetchone() != ("0",)


# What can go wrong at the start.


def test_the_servers_are_the_files():
    assert registry.names(SERVERS) == ["pgvector"]
    assert module_of("POSTGRESQL://x/y") is pgvector
    with pytest.raises(UsageError, match=r"no server is known for this address.*postgresql://") as refused:
        connect("mysql://me:secret@host/db", "terms")
    assert "secret" not in str(refused.value)
    for name in ("", "A", "1a", "a-b", 'a"b', "a" * 41, "a\n"):
        with pytest.raises(UsageError, match="cannot be the name of a server index"):
            check_name(name)
    check_name("a" * 40)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secr:et@host:port/db",
        "postgresql://me:se/cret@host/db",
        "postgresql://me:12/cret@host/db",
        "postgresql://me@1:secret@host/db",
        "postgresql://me:secret@host:99999/db",
        "postgresql://me:secret@127.0.0.1:1/db",
        "postgresql://me:secret@/db?host=/nowhere/at/all",
        "postgresql://me:secret@127.0.0.1:1/db?nonsense=secret",
        "postgresql://me:secret@nowhere.invalid/db",
    ],
)
def test_a_wrong_address_is_said_without_the_password(address):
    with pytest.raises(AlphitaError, match=r"not well formed|cannot connect to PostgreSQL at me@") as refused:
        connect(address, "terms")
    for part in ("secret", "secr", "cret"):
        assert part not in str(refused.value)
    assert "secr" not in "".join(traceback.format_exception(refused.value))


@pytest.fixture
def visitor(postgres: str, database: str) -> Iterator[str]:
    """The address of a user with a password and no rights."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        (file,) = connection.execute("SHOW hba_file").fetchone() or ("",)
        with open(file, encoding="utf-8") as before:
            rules = before.read()
        connection.execute("CREATE ROLE visitor LOGIN PASSWORD 's3cret'")
        with open(file, "w", encoding="utf-8") as after:
            after.write("local all visitor scram-sha-256\n" + rules)
        connection.execute("SELECT pg_reload_conf()")
        yield database.replace("postgres:@", "visitor:s3cret@")
        with open(file, "w", encoding="utf-8") as after:
            after.write(rules)
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("DROP OWNED BY visitor; DROP ROLE visitor")


def test_a_user_without_rights_or_password_is_told(visitor, database, mixed):
    import psycopg

    rows = first(mixed[1], 20)
    for wrong in (visitor.replace("s3cret", "wr0ng"), visitor.replace(":s3cret", "")):
        with pytest.raises(AlphitaError, match=r"cannot connect to PostgreSQL at visitor@.*password") as refused:
            connect(wrong, "terms")
        assert "wr0ng" not in str(refused.value)
    with connect(visitor, "terms") as server:
        with pytest.raises(AlphitaError, match=r"no pgvector yet, and this user may not.*CREATE EXTENSION vector"):
            loaded(server, Rows(rows))
        with pytest.raises(InputError, match="there is no index 'terms'"):
            server.facts()
    with connect(database, "terms") as server:
        loaded(server, Rows(rows))
    with connect(visitor, "terms") as server:
        with pytest.raises(AlphitaError, match=r"does not allow it: permission denied .*GRANT CREATE ON DATABASE"):
            loaded(server, Rows(rows), force=True)
        with pytest.raises(AlphitaError, match="permission denied for schema alphita_terms"):
            server.facts()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("GRANT USAGE ON SCHEMA alphita_terms TO visitor")
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA alphita_terms TO visitor")
        assert server.search(mixed[1].vectors[:1], 1)[0][0].string == "000000"  # may read now, and only that
        with pytest.raises(AlphitaError, match="does not allow it"):
            server.drop()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("REVOKE ALL ON ALL TABLES IN SCHEMA alphita_terms FROM visitor")
            connection.execute("REVOKE ALL ON SCHEMA alphita_terms FROM visitor")


def test_a_server_without_the_extension_is_told(database, monkeypatch):
    with pytest.raises(AlphitaError, match="has no pgvector, which the server needs; on Debian: apt install"):
        connect(database + "&options=-c%20extension_control_path%3D/nowhere", "terms")
    monkeypatch.setattr(_postgres, "OLDEST", (99, 1))
    with pytest.raises(AlphitaError, match=r"has pgvector 0\.\d+\.\d+; 0.8.0 or later is needed: on Debian"):
        connect(database, "terms")


def test_the_extension_may_stand_in_any_schema(database, mixed):
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "Some where"')
        connection.execute('CREATE EXTENSION vector SCHEMA "Some where"')
    with connect(database, "terms") as server:
        loaded(server, Rows(first(mixed[1], 50)))
        assert server.search(mixed[1].vectors[:1], 1)[0][0].string == "000000"


def test_what_another_version_wrote_is_told(server, database, mixed):
    rows = first(mixed[1], 20)
    loaded(server, Rows(rows))
    server._database.connection.execute(f"UPDATE {server.schema}.releases SET facts = facts || '{{\"format\": 99}}'")
    server.close()
    server = pgvector.connect(database, "terms")
    with pytest.raises(InputError, match="format 99; this alphita reads 1; load it again"):
        server.search(mixed[1].vectors[:1], 1)
    loaded(server, Rows(rows), "two", force=True)
    assert server.search(mixed[1].vectors[:1], 1)[0][0].release == "two"
    server.close()


def test_a_lost_connection_is_told(server, mixed, database):
    import psycopg

    loaded(server, Rows(first(mixed[1], 20)))
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [server._database.connection.info.backend_pid])
    with pytest.raises(AlphitaError, match="PostgreSQL at postgres@"):
        server.search(mixed[1].vectors[:1], 1)
