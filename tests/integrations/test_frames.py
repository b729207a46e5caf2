"""Columns of polars and pandas frames, and iterators."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import UsageError
from alphita.integrations.frames import normalize_column, normalize_iter, normalize_series
from alphita.jobs import batches
from alphita.jobs.answers import Memory
from alphita.jobs.batches import ADDED
from alphita.review.records import Decision
from tests.answer.one_by_one import naive
from tests.integrations.conftest import HIDDEN

MENTIONS = ["Seizure", "seizures", "headach", "cold", "T2DM", "qqqqq", "", " ", "diabetes type 1", None]
columns = st.lists(st.sampled_from(MENTIONS), max_size=12)


class Counting:
    """Passes questions on to a normaliser, and keeps what was asked."""

    def __init__(self, normalizer) -> None:
        self.normalizer, self.calls, self.asked, self.omop = normalizer, 0, [], normalizer.omop

    def normalize(self, mentions, **options):
        self.calls += 1
        self.asked.append((list(mentions), options))
        return self.normalizer.normalize(mentions, **options)


def same(values, wanted) -> bool:
    pairs = list(zip(values, wanted, strict=True))
    return all(
        (pd.isna(one) and other is None)
        or (one == pytest.approx(other, abs=2e-6) if isinstance(other, float) else one == other)
        for one, other in pairs
    )


@settings(max_examples=60, deadline=None)
@given(mentions=columns, top_k=st.integers(1, 4), data=st.data())
def test_rows_are_those_answered_one_by_one_under_their_labels(normalizer, mentions, top_k, data):
    size = len(mentions)
    wanted = naive(normalizer, mentions, top_k)
    frame = pl.DataFrame({"id": range(size), "text": pl.Series(mentions, dtype=pl.String)})
    made = normalize_column(frame, "text", normalizer, top_k=top_k)
    index = data.draw(st.lists(st.sampled_from("abc"), min_size=size, max_size=size))
    missing = data.draw(st.sampled_from([None, np.nan, pd.NA]))
    text = pd.Series([missing if mention is None else mention for mention in mentions], index=index, dtype=object)
    given_ = pd.DataFrame({"id": np.arange(size), "text": text}, index=index)
    before = given_.copy()
    labelled = normalize_column(given_, "text", normalizer, top_k=top_k)
    pd.testing.assert_frame_equal(given_, before)
    assert labelled.index.tolist() == [index[row] for row, _ in wanted]
    assert made["text"].to_list() == [mentions[row] for row, _ in wanted]
    for frame in (made, labelled):
        assert list(frame.columns) == ["id", "text", *ADDED]
        assert list(frame["id"]) == [row for row, _ in wanted]
    for rows in (made.select(list(ADDED)).rows(), labelled[list(ADDED)].itertuples(index=False, name=None)):
        assert all(same(row, values) for row, (_, values) in zip(rows, wanted, strict=True))


@settings(max_examples=40, deadline=None)
@given(mentions=columns)
def test_each_question_is_asked_once_in_blocks(normalizer, mentions):
    counting = Counting(normalizer)
    frame = pl.DataFrame({"text": pl.Series(mentions, dtype=pl.String)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "QUESTIONS_AT_ONCE", 3)
        made = normalize_column(frame, "text", counting)
    asked = [mention for some, _ in counting.asked for mention in some]
    assert asked == list(dict.fromkeys(mention or "" for mention in mentions))
    assert all(len(some) <= 3 for some, _ in counting.asked)
    assert made.equals(normalize_column(frame, "text", normalizer))


def test_the_types_are_the_same_whatever_was_found(normalizer):
    nothing = pl.DataFrame({"text": pl.Series([], dtype=pl.String)})
    some = pl.DataFrame({"text": ["cold", "qqqqq"]})
    schemas = [normalize_column(one, "text", normalizer).schema for one in (nothing, some)]
    assert schemas[0] == schemas[1]
    (row,) = normalize_column(pl.DataFrame({"text": [None]}), "text", normalizer).rows(named=True)
    assert {name: value for name, value in row.items() if value is not None} == {"rank": 1, "method": "nil"}
    assert (schemas[0]["rank"], schemas[0]["confidence"], schemas[0]["decision"]) == (pl.Int64, pl.Float64, pl.String)
    empty = normalize_column(pd.DataFrame({"text": pd.Series([], dtype=object)}), "text", normalizer)
    assert list(empty.columns) == ["text", *ADDED]
    assert len(empty) == 0


def test_context_and_language_go_along_and_make_questions_distinct(normalizer):
    counting = Counting(normalizer)
    frame = pl.DataFrame({"text": ["cold"] * 4, "note": ["a", "b", "a", None], "lang": ["en", "en", "en", None]})
    made = normalize_column(frame, "text", counting, context="note", language="lang", prefix="a_")
    ((mentions, options),) = counting.asked
    assert mentions == ["cold"] * 3
    assert (options["contexts"], options["languages"]) == (["a", "b", None], ["en", "en", None])
    assert made["a_concept_id"].to_list() == ["T:3"] * 4


@pytest.mark.parametrize("kind", [pl, pd])
def test_what_was_settled_answers_first(normalizer, kind):
    memory = Memory({"seizure": Decision("1", "lab", 1, "ann", "choose", "X:7", "broad", "seen", "2026-01-02")})
    given_ = kind.DataFrame({"text": ["headach", "SEIZURE", "headach"]})
    made = normalize_column(given_, "text", normalizer, memory=memory, explain=True)
    plain = normalize_column(given_, "text", normalizer, explain=True)
    assert list(made.columns) == [*plain.columns, "status", "mapping_type", "reviewer", "reviewed_at", "comment"]
    if kind is pd:
        made, plain = pl.from_pandas(made), pl.from_pandas(plain)
    assert made[::2][plain.columns].equals(plain[::2])
    assert made.row(1, named=True) | {"concept_id": "X:7", "relation": "broad", "method": "reviewed"} | {
        "explanation": "reviewed: choose by ann, 2026-01-02",
        "status": "approved",
        "reviewer": "ann",
        "reviewed_at": "2026-01-02",
        "comment": "seen",
        "similarity": None,
        "rank": 1,
    } == made.row(1, named=True)
    assert made["status"].to_list() == ["unreviewed", "approved", "unreviewed"]
    assert made["mapping_type"].to_list() == ["maps_to"] * 3
    assert made["reviewer"].to_list() == [None, "ann", None]
    series = normalize_series(given_["text"], normalizer, memory=memory)
    assert list(series["concept_id"]) == made["concept_id"].to_list()


def test_a_lazy_frame_stays_lazy(normalizer):
    frame = pl.DataFrame({"text": ["cold", "cold"]})
    made = normalize_column(frame.lazy(), "text", normalizer, prefix="x_")
    assert isinstance(made, pl.LazyFrame)
    assert made.collect().equals(normalize_column(frame, "text", normalizer, prefix="x_"))


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(["cold", None], dtype=pl.Categorical),
        pl.Series(["cold", None], dtype=pl.Enum(["cold"])),
        pd.Series(["cold", None], dtype="category"),
        pd.Series(["cold", None], dtype="string"),
    ],
    ids=["polars-categorical", "polars-enum", "pandas-category", "pandas-string"],
)
def test_other_kinds_of_string_columns(normalizer, column):
    made = normalize_series(column, normalizer)
    assert made["concept_id"][0] == "T:3"
    assert list(made["method"]) == ["exact", "nil"]


def test_a_series_becomes_a_frame_with_it(normalizer):
    made = normalize_series(pl.Series("text", ["cold"]), normalizer, prefix="x_")
    assert made.columns == ["text", *("x_" + name for name in ADDED)]
    assert normalize_series(pl.Series(["cold"]), normalizer).columns[0] == "mention"
    made = normalize_series(pd.Series(["cold", "T2DM"], index=[7, 3]), normalizer)
    assert (made.columns[0], made.index.tolist(), made["concept_id"].tolist()) == ("mention", [7, 3], ["T:3", "T:7"])
    made = normalize_series(pd.Series(["cold"], name="text"), normalizer, top_k=3, explain=True)
    assert made["text"].tolist() == ["cold"] * 3
    assert made["rank"].tolist() == [1, 2, 3]
    assert 'equal to the name "Cold"; next best: ' in made["explanation"].iloc[0]


def test_an_iterator_without_end_is_read_a_batch_ahead(normalizer):
    counting, read = Counting(normalizer), []

    def endless():
        for number in itertools.count():
            read.append(number)
            yield "cold" if number % 2 else "T2DM"

    results = normalize_iter(endless(), counting, batch_size=4)
    assert (read, counting.calls) == ([], 0)
    found = [result.concept_id for result in itertools.islice(results, 6)]
    assert found == ["T:7", "T:3"] * 3
    assert (len(read), counting.calls) == (8, 2)


@settings(max_examples=30, deadline=None)
@given(mentions=st.lists(st.sampled_from([one for one in MENTIONS if one is not None])), batch=st.integers(1, 5))
def test_an_iterator_gives_what_a_list_gives(normalizer, mentions, batch):
    found = list(normalize_iter(iter(mentions), normalizer, batch_size=batch, top_k=2))
    wanted = normalizer.normalize(mentions, top_k=2)
    assert [one.mention for one in found] == mentions
    assert [[c.concept_id for c in one.candidates] for one in found] == [
        [c.concept_id for c in one.candidates] for one in wanted
    ]


FRAME = pl.DataFrame({"text": ["a"], "code": ["b"], "n": [1]})


@pytest.mark.parametrize(
    ("frame", "column", "options", "problem"),
    [
        (FRAME, "n", {"prefix": "a_"}, r"column 'n' has no strings but Int64.*cast\(pl.String\)"),
        (FRAME, "text", {"context": "n", "prefix": "a_"}, "column 'n' has no strings"),
        (pd.DataFrame({"n": ["a", 1]}), "n", {}, r"column 'n' has in row 2 no string but int.*astype\('string'\)"),
        (FRAME, "texd", {"prefix": "a_"}, "unknown column 'texd'; did you mean 'text'"),
        (pd.DataFrame({"text": ["a"]}), "texd", {}, "unknown column 'texd'; did you mean 'text'"),
        (pd.DataFrame([["a", "b"]], columns=["text", "text"]), "text", {}, "has 2 columns 'text'; rename all but one"),
        (FRAME, "text", {}, "has a column 'code'.*prefix='alphita_'"),
        (FRAME.rename({"code": "x_code"}), "text", {"prefix": "x_"}, "another prefix, as prefix='x_alphita_'"),
        (pd.DataFrame({"text": ["a"], "code": ["b"]}), "text", {}, "has a column 'code'.*prefix='alphita_'"),
        (["a"], "text", {}, "takes a frame of polars or pandas, not list"),
        (pd.Series(["a"]), "text", {}, "takes a frame of polars or pandas, not Series"),
    ],
)
def test_wrong_frames_are_told_before_anything_is_looked_up(normalizer, frame, column, options, problem):
    counting = Counting(normalizer)
    with pytest.raises(UsageError, match=problem):
        normalize_column(frame, column, counting, **options)
    with pytest.raises(UsageError, match="takes a series of polars or pandas, not list"):
        normalize_series(["cold"], counting)
    assert counting.calls == 0


def test_importing_loads_neither_polars_nor_pandas_and_polars_does_without_pandas(index_path):
    code = (
        HIDDEN.format("pandas") + "\n"
        "import sys, alphita.integrations.frames\n"
        "print(sorted({'polars', 'pandas', 'torch', 'faiss', 'spacy'} & set(sys.modules)))\n"
        "import polars as pl\n"
        "from alphita.index.store import Index\n"
        "from alphita.answer.normalizer import Normalizer\n"
        "from alphita.integrations.frames import normalize_column\n"
        f"normalizer = Normalizer(Index.open({str(index_path)!r}))\n"
        "print(normalize_column(pl.DataFrame({'text': ['cold']}), 'text', normalizer)['concept_id'][0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\nT:3\n", "")


def test_wrong_use_of_an_iterator_is_told_at_once(normalizer):
    with pytest.raises(UsageError, match="takes many strings, not one"):
        normalize_iter("cold", normalizer)
    with pytest.raises(UsageError, match="batch_size must be 1 or more, not 0"):
        normalize_iter(["cold"], normalizer, batch_size=0)
