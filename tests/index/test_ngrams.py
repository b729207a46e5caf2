"""N-gram similarity against a loop over dicts in float64."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, UsageError
from alphita.index import ngrams
from alphita.index.ngrams import DENSE_SCRIPTS, Ngrams, SortedStrings, build, cut

STRINGS = ["acute renal failure", "chronic renal failure", "fit", "fits", "kidney", "renal", "x", "糖尿", "糖尿病"]

text = st.text(st.sampled_from("ab c糖尿😀"), max_size=9)
lists = st.lists(text.filter(bool), min_size=1, max_size=12, unique=True)


def grams(string: str) -> set[str]:
    padded = f" {string} "
    found = {padded[start : start + 3] for start in range(len(padded) - 2)}
    found |= {
        padded[start : start + 2]
        for start in range(len(padded) - 1)
        if max(padded[start : start + 2]) >= chr(DENSE_SCRIPTS)
    }
    return found


def naive(strings: list[str], queries: list[str]) -> np.ndarray:
    """Return the cosine of every query to every string."""
    df: dict[str, int] = {}
    for string in strings:
        for piece in grams(string):
            df[piece] = df.get(piece, 0) + 1
    idf = {piece: math.log((1 + len(strings)) / (1 + count)) + 1 for piece, count in df.items()}

    def unit(string: str) -> dict[str, float]:
        known = {piece: idf[piece] for piece in grams(string) if piece in idf}
        length = math.sqrt(sum(value**2 for value in known.values()))
        return {piece: value / length for piece, value in known.items()}

    rows = [unit(string) for string in strings]
    return np.array(
        [
            [sum(value * row.get(piece, 0.0) for piece, value in unit(query).items()) for row in rows]
            for query in queries
        ]
    ).reshape(len(queries), len(strings))


def made(strings: list[str], folder) -> Ngrams:
    build(strings, folder)
    return Ngrams.open(folder)


def check(strings: list[str], queries: list[str], folder) -> None:
    letters = made(strings, folder)
    expected = naive(strings, queries)
    vectors = letters.vectorize(queries)
    every = np.indices(expected.shape).reshape(2, -1)
    found = letters.pairwise(vectors, every[0], every[1]).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    for k in (1, 3, len(strings) + 2):
        similarity, rows = letters.search(vectors, k)
        for name, value in (("ONE_BY_ONE", 0), ("ADD", "which SciPy lacks")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ngrams, name, value)
                for one, other in zip(letters.search(vectors, k), (similarity, rows), strict=True):
                    np.testing.assert_array_equal(one, other)
        assert similarity.shape == rows.shape == (len(queries), k)
        assert similarity.dtype == np.float32
        assert rows.dtype == np.int64
        best = np.sort(expected, axis=1)[:, ::-1][:, :k]
        best = np.pad(best, ((0, 0), (0, k - best.shape[1])))
        np.testing.assert_allclose(similarity, best, atol=2e-6)
        assert ((rows == -1) == (best == 0)).all()
        for query in range(len(queries)):
            named = rows[query][rows[query] >= 0]
            assert len(set(named.tolist())) == len(named)
            np.testing.assert_allclose(expected[query, named], similarity[query, : len(named)], atol=2e-6)


@settings(max_examples=60, deadline=None)
@given(lists, st.lists(text, min_size=1, max_size=4), st.data())
def test_what_only_strings_that_are_not_there_have_is_unknown(tmp_path_factory, strings, queries, data):
    gone = [data.draw(st.lists(st.sampled_from(strings), unique=True, max_size=3)) for _ in queries]
    letters = made(strings, tmp_path_factory.mktemp("ngrams") / "x")
    found = letters.vectorize(queries, gone).toarray()
    place = {piece: number for number, piece in enumerate(pieces_of(letters))}
    for query, some, row in zip(queries, gone, found, strict=True):
        left = {piece for string in strings if string not in some for piece in grams(string)}
        known = {place[piece]: letters.idf[place[piece]] for piece in grams(query) & left}
        length = math.sqrt(sum(float(value) ** 2 for value in known.values()))
        expected = np.zeros(len(row))
        expected[list(known)] = [value / length for value in known.values()]
        np.testing.assert_allclose(row, expected, atol=1e-6)


def pieces_of(letters: Ngrams) -> list[str]:
    """Return the n-grams of the index, in their order."""
    found = []
    for code in letters.codes.tolist():
        points = [code >> shift & (1 << 21) - 1 for shift in (42, 21, 0)]
        found.append("".join(map(chr, points[1:] if code >> 63 else points)))
    return found


@settings(max_examples=60, deadline=None)
@given(strings=lists, queries=st.lists(text, max_size=8))
def test_similarity_is_that_of_the_definition(strings, queries, tmp_path_factory):
    check(strings, queries, tmp_path_factory.mktemp("n") / "ngrams")


def test_blocks_do_not_show(tmp_path, monkeypatch):
    monkeypatch.setattr(ngrams, "STRINGS_AT_ONCE", 2)
    for name in ("QUERIES_AT_ONCE", "PAIRS_AT_ONCE", "TABLE_NUMBERS", "STRINGS_A_SHARD"):
        monkeypatch.setattr(ngrams, name, 2)
    check(STRINGS, ["renal failure", "fitz", "", "糖尿", "acute kidney", "zzz"], tmp_path / "ngrams")


def test_pairs_may_come_in_any_order(tmp_path):
    letters = made(STRINGS, tmp_path / "ngrams")
    queries = ["renal failure", "fits"]
    pairs = np.array([[1, 3], [0, 0], [1, 2], [0, 5], [1, 3]])
    found = letters.pairwise(letters.vectorize(queries), pairs[:, 0], pairs[:, 1])
    np.testing.assert_allclose(found, naive(STRINGS, queries)[pairs[:, 0], pairs[:, 1]], atol=2e-6)
    assert len(letters.pairwise(letters.vectorize(queries), pairs[:0, 0], pairs[:0, 1])) == 0


def test_rows_are_unit_and_sorted(tmp_path):
    letters = made(STRINGS, tmp_path / "ngrams")
    vectors = letters.vectorize([*STRINGS, "", "zzz"])
    assert vectors.shape == (len(STRINGS) + 2, len(letters.codes))
    assert vectors.dtype == np.float32
    lengths = np.sqrt(vectors.multiply(vectors).sum(axis=1)).A1
    np.testing.assert_allclose(lengths, [1.0] * len(STRINGS) + [0.0, 0.0], atol=1e-6)
    assert all((np.diff(vectors[row].indices) > 0).all() for row in range(vectors.shape[0]))
    assert len(letters) == len(STRINGS)


def test_equals_come_by_row_also_at_the_last_place(tmp_path):
    # All but the first two have the same n-grams as each other.
    strings = ["a thing", "other", *("ab" * repeats for repeats in range(4, 40))]
    letters = made(strings, tmp_path / "ngrams")
    similarity, rows = letters.search(letters.vectorize(["abababab"]), 7)
    assert rows.tolist() == [list(range(2, 9))]
    np.testing.assert_allclose(similarity, 1.0, atol=1e-6)


def test_an_ngram_counts_once_and_none_collide():
    codes, owner = cut(["aaaa", "", "糖a"])
    assert owner.tolist() == [0, 0, 0, 0, 2, 2, 2, 2]
    assert len(set(codes.tolist())) == 3 + 4  # " aa", "aaa", "aa "; " 糖a", "糖a ", " 糖", "糖a"


@pytest.mark.parametrize("one_by_one", [0, 1000])
def test_frequent_ngrams_are_left_out_of_the_search_but_not_of_the_similarity(tmp_path, monkeypatch, one_by_one):
    monkeypatch.setattr(ngrams, "ONE_BY_ONE", one_by_one)
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 5)) for _ in range(60)]
    strings = sorted({" ".join(rng.choice(words, 3)) for _ in range(800)})
    letters = made(strings, tmp_path / "ngrams")
    queries = [string[1:] for string in strings[::40]]
    vectors = letters.vectorize(queries)
    exact, exact_rows = letters.search(vectors, 3)
    monkeypatch.setattr(ngrams, "POSTINGS_A_QUERY", 300)
    asked, cut_short = letters._affordable(vectors)
    assert cut_short.any()
    assert asked.nnz < vectors.nnz
    assert (np.diff(asked.indptr) > 0).all()
    similarity, rows = letters.search(vectors, 3)
    assert (rows[:, 0] == exact_rows[:, 0]).all()
    np.testing.assert_allclose(similarity[:, 0], exact[:, 0], atol=1e-6)
    expected = naive(strings, queries)
    np.testing.assert_allclose(np.take_along_axis(expected, rows, axis=1), similarity, atol=2e-6)
    # At its narrowest only the rarest n-gram of each query is looked up, and something is still found.
    monkeypatch.setattr(ngrams, "POSTINGS_A_QUERY", 0)
    assert (np.diff(letters._affordable(vectors)[0].indptr) == 1).all()
    assert (letters.search(vectors, 1)[1] >= 0).all()


def test_wrong_use_and_damage(tmp_path):
    letters = made(STRINGS, tmp_path / "ngrams")
    assert letters.search(letters.vectorize(["x"]), 0)[1].shape == (1, 0)
    assert letters.search(letters.vectorize([]), 3)[1].shape == (0, 3)
    with pytest.raises(UsageError, match="k must be 0 or more, not -1"):
        letters.search(letters.vectorize(["x"]), -1)
    np.save(tmp_path / "ngrams/idf.npy", np.ones(3, np.float32))
    with pytest.raises(InputError, match="damaged n-grams: its files do not fit together"):
        Ngrams.open(tmp_path / "ngrams")
    (tmp_path / "ngrams/idf.npy").unlink()
    with pytest.raises(InputError, match=r"damaged n-grams.*build the index again"):
        Ngrams.open(tmp_path / "ngrams")


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(known=st.sets(text, min_size=1, max_size=40), asked=st.lists(st.text(max_size=6)))
def test_every_string_is_found_at_its_row_and_nothing_else(known, asked):
    ordered = sorted(known, key=lambda string: string.encode())
    strings = SortedStrings(pa.array(ordered, pa.large_string()))
    assert strings.rows(ordered).tolist() == list(range(len(ordered)))
    # Also lone surrogates, which st.text may give and which no index holds.
    assert strings.rows(asked).tolist() == [ordered.index(s) if s in known else -1 for s in asked]
    assert list(strings) == ordered


def test_a_slice_of_an_array_is_read_at_its_offset():
    strings = SortedStrings(pa.array(["a", "b", "ça", "é"], pa.large_string()).slice(1, 3))
    assert strings.rows(["a", "b", "é"]).tolist() == [-1, 0, 2]
    assert strings[1] == "ça"
    assert len(strings) == 3
