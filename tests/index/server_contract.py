"""What every server index passes, and the content that their tests load.

A test module gives the fixtures `server` (an empty one, that is to be called 'terms'), `few` (one called 'few', loaded
with vectors of 24 numbers, and its content) and `mixed` (one loaded with `mixed_rows`, and its content), and runs the
contract:

class TestContract(ServerContract):
    pass
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from alphita.errors import UsageError
from alphita.index.neighbours import unit
from alphita.index.servers import Content, ServerIndex, ServerTerm
from alphita.terminology.languages import speaks

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


class ServerContract:
    @pytest.mark.parametrize("queries", [1, 19, 120])
    @pytest.mark.parametrize("k", [1, 5, 150])
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

    def test_k_beyond_n_gives_every_row_once(self, server):
        content = plain(unit(np.random.default_rng(1).standard_normal((7, 24)).astype(np.float32)))
        loaded(server, content)
        similarity, rows = ask(server, content, content.vectors[:3], 50)
        assert similarity.shape == (3, 7)
        assert [sorted(line) for line in rows.tolist()] == [list(range(7))] * 3
        assert rows[:, 0].tolist() == [0, 1, 2]

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

    def test_equals_come_by_row_number(self, server):
        content = plain(np.tile(np.float32([[1, 0]]), (40, 1)))
        loaded(server, content)
        assert (ask(server, content, np.float32([[1, 0]] * 30), 40)[1] == np.arange(40)).all()
        assert [hit.string for hit in server.search(np.float32([[1, 0]]), 40)[0]] == list(content.rows)

    def test_wrong_dimension_is_said(self, few):
        with pytest.raises(UsageError, match=r"queries of shape \(2, 23\).*'few' holds vectors of 24"):
            few[0].search(few[1].vectors[:2, :23], 1)
        with pytest.raises(UsageError, match="queries of shape"):
            few[0].search(few[1].vectors[0], 1)
        with pytest.raises(UsageError, match="k must be 0 or more, not -1"):
            few[0].search(few[1].vectors[:2], -1)

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
