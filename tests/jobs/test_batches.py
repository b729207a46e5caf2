"""Batches of Arrow: each row's answer is the one it has alone."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, UsageError
from alphita.index.store import Index
from alphita.jobs import batches
from alphita.jobs.answers import Memory
from alphita.jobs.batches import ADDED, NormalizerSettings, normalize_batches, opened, schema_of
from alphita.review.records import Decision
from tests.answer.one_by_one import naive
from tests.doubles import HashEncoder

MENTIONS = ["Seizure", "seizures", "headach", "cold", "T2DM", "qqqqq", "", " ", "diabetes type 1", None]
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
ASKED = NormalizerSettings("small.index")
PARTS = st.lists(st.lists(st.sampled_from(MENTIONS), max_size=6), max_size=4)


@pytest.fixture(scope="module")
def shared(index_path) -> Normalizer:
    return Normalizer(Index.open(index_path), encoder=HashEncoder())


def batch_of(mentions, kind=None, first=0) -> pa.RecordBatch:
    kind = kind or pa.string()
    return pa.record_batch({"id": range(first, first + len(mentions)), "mention": pa.array(mentions, kind)})


def same(one, other) -> bool:
    return one == pytest.approx(other, abs=2e-6) if isinstance(other, float) else one == other


@settings(max_examples=40)
@given(parts=PARTS, top_k=st.integers(1, 4), kind=st.sampled_from(KINDS))
def test_rows_are_those_answered_one_by_one(shared, parts, top_k, kind):
    asked = NormalizerSettings("small.index", top_k=top_k)
    given_ = [batch_of(mentions, kind, 100 * number) for number, mentions in enumerate(parts)]
    made = list(normalize_batches(iter(given_), asked, shared))
    assert len(made) == len(given_)
    for batch, number, mentions in zip(made, range(len(parts)), parts, strict=True):
        assert batch.schema == schema_of(asked, given_[number].schema)
        batch.validate(full=True)
        wanted = naive(shared, mentions, top_k)
        assert batch.column("id").to_pylist() == [100 * number + row for row, _ in wanted]
        assert batch.column("mention").to_pylist() == [mentions[row] for row, _ in wanted]
        found = [list(row.values()) for row in batch.select(ADDED).to_pylist()]
        assert len(found) == len(wanted)
        for one, (_, other) in zip(found, wanted, strict=True):
            assert all(map(same, one, other)), (one, other)


def test_equal_rows_are_answered_once(shared, monkeypatch):
    asked = []
    monkeypatch.setattr(batches, "QUESTIONS_AT_ONCE", 2)

    class Counting:
        omop = shared.omop

        def normalize(self, mentions, **options):
            asked.append(list(mentions))
            return shared.normalize(mentions, **options)

    batch = batch_of(["cold", "T2DM", "cold", "headach", "T2DM", "cold"])
    (made,) = normalize_batches(iter([batch]), ASKED, Counting())
    assert asked == [["cold", "T2DM"], ["headach"]]
    assert made.equals(next(normalize_batches(iter([batch]), ASKED, shared)))


def test_contexts_languages_and_explanations_are_passed_on(shared):
    asked = []

    class Noting:
        omop = shared.omop

        def normalize(self, mentions, **options):
            asked.append((list(mentions), options))
            return shared.normalize(mentions, **options)

    batch = pa.record_batch({"m": ["cold", "cold", "cold"], "c": ["a text", "", "a text"], "l": ["en", None, "en"]})
    told = NormalizerSettings("small.index", "m", "c", "l", top_k=2, explain=True)
    (made,) = normalize_batches(iter([batch]), told, Noting())
    ((mentions, options),) = asked
    assert mentions == ["cold", "cold"]
    assert options == {"contexts": ["a text", None], "languages": ["en", None], "top_k": 2, "explain": True}
    assert made.schema.names == ["m", "c", "l", *ADDED, "explanation"]
    assert made.column("explanation")[0].as_py()


def test_what_is_no_text_is_nil(shared):
    raw = pa.array([b"cold", b"\xff\xfe", None]).cast(pa.large_binary())
    broken = pa.Array.from_buffers(pa.large_string(), 3, raw.buffers())
    (made,) = normalize_batches(iter([pa.record_batch({"mention": broken})]), ASKED, shared)
    assert made.column("method").to_pylist() == ["exact", "nil", "nil"]


def test_empty_batches_open_nothing(tmp_path):
    batch = batch_of([])
    missing = NormalizerSettings(str(tmp_path / "missing.index"), top_k=2, explain=True)
    (made,) = normalize_batches(iter([batch]), missing)
    assert len(made) == 0
    assert made.schema == schema_of(missing, batch.schema)
    with pytest.raises(AlphitaError, match="no such index"):
        list(normalize_batches(iter([batch_of(["cold"])]), missing))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": ["a"]}, ["unknown column 'mention'", "text"]),
        ({"mention": [b"a"], "n": ["x"]}, ["'mention' has no strings but binary", "'n'"]),
        ({"mention": [1]}, ["'mention' has no strings but int64"]),
        ({"mention": ["a"], "rank": [1]}, ["'rank' already", "rename it"]),
    ],
)
def test_columns_that_cannot_be_used_are_named(shared, columns, words):
    with pytest.raises(UsageError) as caught:
        list(normalize_batches(iter([pa.record_batch(columns)]), ASKED, shared))
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_column_that_is_there_twice_is_refused():
    twice = pa.schema([("mention", pa.string()), ("mention", pa.string())])
    with pytest.raises(UsageError, match="2 columns 'mention'"):
        schema_of(ASKED, twice)


def test_a_memory_goes_along_and_does_not_open_the_index_again():
    memory = Memory({"cold": Decision("1", "lab", 1, "ann", "nil", shown=("T:1",))})
    told = NormalizerSettings("x.index", memory=memory)
    assert pickle.loads(pickle.dumps(told)).memory == memory
    assert Memory.from_json(json.loads(json.dumps(memory.to_json()))) == memory
    assert hash(told) == hash(NormalizerSettings("x.index"))
    assert told == NormalizerSettings("x.index")


def test_a_normaliser_is_opened_once(index_path):
    opened.cache_clear()
    told = NormalizerSettings(str(index_path), ranking="exact")
    assert opened(told) is opened(NormalizerSettings(str(index_path), ranking="exact"))
    batch = batch_of(["Seizure", "no such thing"])
    (made,) = normalize_batches(iter([batch]), told)
    assert made.column("concept_id").to_pylist() == ["T:1", None]
    opened.cache_clear()


TEXTS = [
    *("congestive heart failure (CHF)", "CHF", "chronic heart failure (CHF) and more", "seen in CHF"),
    *("no definition", "congestive heart failure (CHF) again", "Low back pain (LBP)", "low back pain (LBP)", "LBP"),
    "lower back pain (LBP)",
]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view()]
)
def test_rows_of_a_column_are_taken_whatever_its_type(kind):
    values = ["a", None, "bc"] if "string" in str(kind) else [b"a", None, b"bc"]
    found = batches.take(pa.array(values, kind), np.array([2, 0, 0, 1]))
    assert found.type == kind
    assert found.to_pylist() == [values[2], values[0], values[0], None]
