from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alphita.encoder.batches import by_token_budget

TOKEN_LISTS = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), max_size=30)


@given(TOKEN_LISTS, st.integers(1, 40), st.booleans())
def test_every_row_once_within_the_budget(token_lists, budget, one_length):
    seen = []
    for rows, batch in by_token_budget(token_lists, budget, one_length=one_length):
        assert len(rows) == batch.rows
        assert len(batch.ids) <= budget or len(rows) == 1
        assert len(batch.runs) == 1 or not one_length
        at, place = 0, 0
        for count, length in batch.runs:
            for _ in range(count):
                assert batch.ids[at : at + length].tolist() == token_lists[rows[place]]
                at, place = at + length, place + 1
        assert at == len(batch.ids)
        seen.extend(rows.tolist())
    assert sorted(seen) == list(range(len(token_lists)))


def test_longest_first_and_runs_of_one_length():
    ((rows, batch),) = by_token_budget([[1], [2, 3, 4], [5], [6, 7]], 100)
    assert rows.tolist() == [1, 3, 0, 2]
    assert batch.ids.tolist() == [2, 3, 4, 6, 7, 1, 5]
    assert batch.runs == [(1, 3), (1, 2), (2, 1)]
