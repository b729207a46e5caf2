"""The quickstart's sample: read as people save it, and refused before anything is trained."""

from __future__ import annotations

import pytest

from alphita.errors import InputError
from alphita.quickstart import read_sample, run


def test_as_spreadsheets_write_it(tmp_path):
    path = tmp_path / "sample.csv"
    path.write_bytes(b"\xef\xbb\xbfmention,concept_id\r\nsore toe,HP:1\r\nnew address,NIL\r\n")
    assert read_sample(path) == (["sore toe", "new address"], ["HP:1", None])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mention,concept_id\na,HP:1\nb\n", "row 2 lacks"), ("mention,concept_id\na,\n", "row 1 lacks"),
        ("mention,concept\na,HP:1\n", "needs the columns"), ("mention,concept_id\n", "needs the columns"),
    ],
)  # fmt: skip
def test_a_bad_sample_stops_it_at_once(tmp_path, text, problem):
    path = tmp_path / "sample.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        run(tmp_path / "out", path)
    assert not (tmp_path / "out").exists()
