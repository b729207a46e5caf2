from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import AlphitaError, InputError
from alphita.index.neighbours import unit
from alphita.search import names
from alphita.search.catalogue import Owned
from alphita.search.names import Names
from tests.doubles import HashEncoder
from tests.reference import product_search as reference


def owned(groups: Sequence[Sequence[str]]) -> Owned:
    strings = sorted({one for group in groups for one in group}, key=str.encode)
    rows = [strings.index(one) for group in groups for one in group]
    offsets = [0, *itertools.accumulate(map(len, groups))]
    return Owned(pa.array(strings, pa.large_string()), np.array(offsets, np.int64), np.array(rows, np.int32))


def opened(groups: Sequence[Sequence[str]], folder: Path) -> Names:
    names.write(folder / "titles", owned(groups), HashEncoder(dim=16))
    return Names(folder / "titles")


word = st.text("abc é头痛", min_size=1, max_size=6).map(lambda text: " ".join(text.split())).filter(bool)
groups_of = st.lists(st.lists(word, min_size=1, max_size=3, unique=True), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(groups_of, st.lists(word, min_size=1, max_size=3))
def test_similarities_are_those_of_loops(groups: list[list[str]], queries: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = opened(groups, Path(folder))
        strings = list(found.strings)
        vectors = {one: HashEncoder(dim=16).encode([one])[0] for one in [*strings, *queries]}
        similarity = found.similarities(queries, unit(np.stack([vectors[query] for query in queries])))
        expected = [[reference.similarity(query, one, strings, vectors) for one in strings] for query in queries]
        np.testing.assert_allclose(similarity, expected, atol=2e-5)
        for row, query in enumerate(queries):
            by_owner = found.of_owners(similarity[row])
            for owner, group in enumerate(groups):
                own = [float(similarity[row][strings.index(one)]) for one in group]
                assert by_owner[owner] == max(own)
                assert strings[found.best(owner, similarity[row])] == group[own.index(max(own))]
            asked = int(found.strings.rows([query])[0])
            having = [owner for owner, group in enumerate(groups) if query in group]
            assert found.named(asked).tolist() == having


def test_only_the_equal_string_has_similarity_1(tmp_path: Path) -> None:
    found = opened([["ear ache"], ["aaaa"], ["aaaaa"]], tmp_path)
    similarity = found.similarities(["aaaa"], unit(HashEncoder(dim=16).encode(["aaaa"])))[0]
    # Their n-grams are the same.
    assert similarity[list(found.strings).index("aaaa")] == 1
    assert 0.9 < similarity[list(found.strings).index("aaaaa")] < 1


class Broken(HashEncoder):
    def __init__(self, wrong: np.ndarray) -> None:
        super().__init__(dim=4)
        self.wrong = wrong

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        return np.repeat(self.wrong[None], len(strings), axis=0)


def test_broken_vectors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not finite.*'a'"):
        names.write(tmp_path / "a", owned([["a"], ["b"]]), Broken(np.array([1, np.nan, 0, 0], np.float32)))
    with pytest.raises(AlphitaError, match=r"shape \(2, 3\) for 2 strings"):
        names.write(tmp_path / "b", owned([["a"], ["b"]]), Broken(np.ones(3, np.float32)))
