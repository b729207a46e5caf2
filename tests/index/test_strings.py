"""Look-up in sorted, mapped strings."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from alphita.index.strings import SortedStrings

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
