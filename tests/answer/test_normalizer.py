"""From mentions to concepts."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.answer.normalizer import Normalizer
from alphita.answer.records import Candidate
from alphita.errors import InputError, UsageError
from alphita.index.choice import Building
from alphita.index.store import Index, build
from alphita.mention.assertion import ONE_SIDE, TOP
from alphita.mention.spelling import SHORTENED
from alphita.terminology.model import Tables
from alphita.terminology.store import load_terminology, save
from alphita.terminology.text import clean
from tests.doubles import ROWS, HashEncoder, SmallTerminology


def test_an_exact_match_needs_no_encoder(index_path):
    def no_encoder():
        raise AssertionError("the encoder was asked for")

    normalizer = Normalizer(Index.open(index_path))
    normalizer.encoder = no_encoder
    result = normalizer.normalize(["  CEPHALGIA "])[0]
    assert (result.mention, result.concept_id, result.concept_name) == ("  CEPHALGIA ", "T:2", "Headache")
    assert (result.matched_term, result.similarity, result.method) == ("Cephalgia", 1.0, "exact")
    assert result.confidence is None
    assert result.candidates == (
        Candidate(
            "T:2",
            "Headache",
            "Cephalgia",
            1.0,
            scope="exact",
            language="en",
            source="TEST",
            code="2",
            routes=("exact",),
        ),
    )


def test_a_misspelling_goes_to_the_nearest_term(normalizer):
    result = normalizer.normalize(["headace"])[0]
    assert (result.concept_id, result.matched_term, result.method) == ("T:2", "Headache", "nearest")
    expected = float(HashEncoder().encode(["headace"])[0] @ HashEncoder().encode(["headache"])[0])
    assert result.similarity == pytest.approx(expected, abs=1e-6)
    assert 0.5 < expected < 1.0


def test_further_candidates_of_an_exact_match_use_the_stored_vector(normalizer):
    encoder = normalizer.encoder()
    candidates = normalizer.normalize(["Common cold"], top_k=2)[0].candidates
    assert encoder.encoded == []
    assert [candidate.concept_id for candidate in candidates][:1] == ["T:3"]
    expected = float(HashEncoder().encode(["common cold"])[0] @ HashEncoder().encode(["cold"])[0])
    assert candidates[1].similarity == pytest.approx(expected, abs=1e-6)


def test_an_exact_match_stands_above_a_term_with_the_same_vector(tmp_path):
    class Unaccented(HashEncoder):
        def encode(self, strings):
            return super().encode([string.replace("é", "e") for string in strings])

    rows = [("T:1", "mal leger", "exact"), ("T:2", "mal léger", "related")]
    index = build(SmallTerminology(rows), Unaccented(), tmp_path / "x.index")
    normalizer = Normalizer(index, encoder=Unaccented())
    assert [c.concept_id for c in normalizer.normalize(["mal léger"], top_k=2)[0].candidates] == ["T:2", "T:1"]
    # Neither equals this one and both are as near: the exact synonym comes first.
    near = normalizer.normalize(["mal leger x"], top_k=2)[0].candidates
    assert near[0].similarity == near[1].similarity
    assert [c.concept_id for c in near] == ["T:1", "T:2"]


def test_below_the_floor_is_nil_with_its_candidates_in_sight(index_path):
    index = Index.open(index_path)
    mention = "cephalalgia"
    similarity = Normalizer(index, encoder=HashEncoder(), floor=-1).normalize([mention])[0].similarity
    assert 0 < similarity < 1
    above = Normalizer(index, encoder=HashEncoder(), floor=similarity).normalize([mention])[0]
    assert (above.concept_id, above.method) == ("T:2", "nearest")
    below = Normalizer(index, encoder=HashEncoder(), floor=similarity + 1e-5).normalize([mention], top_k=2)[0]
    assert (below.concept_id, below.concept_name, below.method) == (None, None, "nil")
    assert (below.matched_term, below.similarity) == ("Cephalgia", similarity)
    assert below.candidates[0].concept_id == "T:2"
    # An equal string is no matter of similarity.
    assert Normalizer(index, encoder=HashEncoder(), floor=1.0).normalize(["headache"])[0].concept_id == "T:2"


def test_equal_mentions_are_encoded_once(normalizer):
    results = normalizer.normalize(["Headace", "headache", " headace ", "HEADACE", "xyz"])
    assert normalizer.encoder().encoded == ["headace", "xyz"]
    assert [result.mention for result in results] == ["Headace", "headache", " headace ", "HEADACE", "xyz"]
    assert [result.concept_id for result in results][:4] == ["T:2"] * 4


def test_a_giant_mention_is_cut_for_the_encoder_only(normalizer):
    mention = "headache " * 20_000
    result = normalizer.normalize([mention])[0]
    assert result.mention == mention
    assert len(normalizer.encoder().encoded[0]) == 4096


@pytest.mark.parametrize(
    ("mentions", "top_k", "said"),
    [
        ("headache", 1, "a list of strings, not one string"),
        (["a", float("nan")], 1, "mention 1 is no string but float"),
        ([None], 1, "mention 0 is no string but NoneType; give '' for a missing one"),
        (None, 1, "a list of strings, not NoneType"),
        ({"a": "headache"}, 1, "a list of strings, not dict"),
        (["a"], 0, "top_k must be 1 or more, not 0"),
        (["a"], "2", "top_k must be 1 or more, not '2'"),
        (["a"], 1.5, "top_k must be 1 or more, not 1.5"),
    ],
)
def test_wrong_use_is_said(normalizer, mentions, top_k, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        normalizer.normalize(mentions, top_k=top_k)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"floor": 50}, "floor must be between -1 and 1, not 50"),
        ({"floor": float("nan")}, "floor must be between -1 and 1, not nan"),
        ({"floor": None}, "floor must be a number, not None"),
        ({"floor": "low"}, "floor must be a number, not 'low'"),
        ({"error": "0.05"}, "error must be a number, not '0.05'"),
        ({"nil_error": [0.05]}, "nil_error must be a number, not [0.05]"),
    ],
)
def test_a_wrong_option_is_said(index_path, options, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        Normalizer(Index.open(index_path), **options)


def test_an_encoder_of_another_dimension_is_refused(index_path):
    with pytest.raises(InputError, match="its dimension is 32, the index was built with 64"):
        Normalizer(Index.open(index_path), encoder=HashEncoder(dim=32))


odd_case = st.sampled_from([str.lower, str.upper, str.title, lambda s: f"  {s}\t"])


@settings(max_examples=50, deadline=None)
@given(row=st.sampled_from([row for row in ROWS if row[0] != "T:6"]), change=odd_case, top_k=st.integers(1, 4))
def test_a_term_always_finds_its_concepts_first(index_path, row, change, top_k):
    concept, string, _ = row
    result = Normalizer(Index.open(index_path), encoder=HashEncoder()).normalize([change(string)], top_k=top_k)[0]
    expected = {c for c, s, _ in ROWS if clean(s) == clean(string)}
    assert result.method == "exact"
    first = result.candidates[0]
    assert {first.concept_id, *first.homonyms} == expected
    assert concept in expected
    head = [candidate.concept_id for candidate in result.candidates][: len(expected)]
    assert set(head) <= expected


words = st.text("abcdef ", min_size=1, max_size=8).filter(lambda s: clean(s) != "")


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from("123456"), words), min_size=1, max_size=25), asked=words)
def test_candidates_are_those_of_brute_force(tmp_path_factory, rows, asked):
    rows = [(f"T:{concept}", string, "exact") for concept, string in dict.fromkeys(rows)]
    path = tmp_path_factory.mktemp("brute") / "x.index"
    build(SmallTerminology(rows), HashEncoder(), path, how=Building(backend="exact"))
    found = Normalizer(Index.open(path), encoder=HashEncoder(), floor=-1).normalize([asked], top_k=10)[0].candidates
    query = HashEncoder().encode([clean(asked)])[0]
    best: dict[str, float] = {}
    for concept, string, _ in rows:
        similarity = 1.0 if clean(string) == clean(asked) else float(HashEncoder().encode([clean(string)])[0] @ query)
        best[concept] = max(best.get(concept, -1.0), similarity)
    assert {c.concept_id: c.similarity for c in found} == pytest.approx(best, abs=2e-6)
    assert np.all(np.diff([c.similarity for c in found]) <= 0)


def test_blocks_change_nothing(index_path, monkeypatch):
    index = Index.open(index_path)
    mentions = [variant for term in index.strings for variant in (term, term.upper(), term + " x", "", term[:-1])]
    normalizer = Normalizer(index, encoder=HashEncoder())
    whole = normalizer.normalize(mentions, top_k=2)
    monkeypatch.setattr("alphita.answer.normalizer.MENTIONS_AT_ONCE", 3)
    assert normalizer.normalize(mentions, top_k=2) == whole


def test_several_threads_may_ask_at_once(index_path):
    normalizer = Normalizer(Index.open(index_path), encoder=HashEncoder())
    terms = [term[:-1] for term in normalizer.index.strings]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda term: normalizer.normalize([term])[0], terms * 3))
    assert found == normalizer.normalize(terms * 3)


def accepted(path, parents, asked):
    """Return what is made of each mention, accepted by its rank, where each name, of several with "|" between, is a
    concept beneath another.
    """
    ids = {names: f"T:{number}" for number, names in enumerate(parents, 1)}
    terms = [(concept, name) for names, concept in ids.items() for name in names.split("|")]
    edges = [(ids[names], ids[parent]) for names, parent in parents.items() if parent]
    same = {"source": pl.lit("T"), "language": pl.lit("en")}
    tables = Tables(
        concepts=pl.DataFrame({"id": list(ids.values()), "source": "T"}),
        terms=pl.DataFrame(terms, ["concept", "string"], orient="row").with_columns(**same),
        relations=pl.DataFrame(edges, ["head", "tail"], orient="row").with_columns(
            source=pl.lit("T"), relation=pl.lit("is_a")
        ),
    )
    save(tables, path / "t.terminology")
    index = build(load_terminology(path / "t.terminology"), HashEncoder(), path / "t.index")
    normalizer = Normalizer(index, encoder=HashEncoder(), ranking="vectors")
    for mention, answer in asked.items():
        result = replace(normalizer.normalize([answer])[0], decision="accept")
        first = replace(result.candidates[0], routes=("exact", SHORTENED))
        if mention != answer:
            result = replace(result, candidates=(first, *result.candidates[1:]))
        (read,) = normalizer._pipeline.reader.read([mention])
        found = normalizer._builder.apply_vetoes(read, result)
        yield found.decision, found.candidates[0].contradictions


def test_the_concept_above_all_others_is_never_accepted_by_its_name(tmp_path):
    parents = {"All": None, "Seizure": "All", "Cold": "All"}
    asked = {"all": "all", "T:1": "T:1", "seizure": "seizure"}
    assert list(accepted(tmp_path, parents, asked)) == [("review", (TOP,)), ("accept", ()), ("accept", ())]


def test_a_side_is_no_concept_of_both_sides_nor_one_that_has_another_of_one_side_beneath(tmp_path):
    parents = dict.fromkeys(
        ["Hydronephrosis", "Renal agenesis", "Bilateral lung agenesis|Absent lungs", "Knee pain"], "All"
    )
    parents |= {"All": None, "Unilateral renal agenesis": "Renal agenesis"}
    asked = {
        "left hydronephrosis": "hydronephrosis",
        "renal agenesis, left": "renal agenesis",
        "right lungs absent": "absent lungs",
        "pain of the knee": "knee pain",
    }
    held = ("review", (ONE_SIDE,))
    assert list(accepted(tmp_path, parents, asked)) == [("accept", ()), held, held, ("accept", ())]
