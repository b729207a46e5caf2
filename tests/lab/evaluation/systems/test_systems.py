from __future__ import annotations

import gzip
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import InputError, UsageError
from alphita.index.choice import Choice
from alphita.terminology.text import DEFAULT_RULES, RULES, clean_many
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.systems import PACKAGE, ConceptSystem, System, VectorSystem, _shared, encoder, load_system
from alphita_lab.evaluation.systems._lexical import Bm25System
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from alphita_lab.evaluation.systems.normalizer import NormalizerOptions, NormalizerSystem
from tests.doubles import HashEncoder
from tests.reference import bm25 as reference
from tests.reference import metrics
from tests.tiny import tiny_model

FILES = Path(__file__).parents[3] / "fixtures" / "systems"
SPECS = {
    "exact_match": "exact_match",
    "tfidf": "tfidf",
    "bm25": "bm25",
    "edit_distance": "edit_distance",
    "word_vectors": f"word_vectors:{FILES / 'glove.txt'}",
    "concept_vectors": f"concept_vectors:{FILES / 'concepts.csv'}",
}
TEXT = ("bm25", "edit_distance", "encoder", "exact_match", "normalizer", "tfidf", "word_vectors")
# Its vectors are made as they are tested, in test_graph_vectors.py.
ELSEWHERE = ("graph_vectors",)
# Those that go by an encoder, which has a vector for every string.
ENCODED = ("encoder", "normalizer")
# Cosines may be below 0 and, by rounding, a little above 1; BM25 has no upper bound.
RANGES = {"exact_match": (0, 1), "tfidf": (0, 1.00001), "edit_distance": (0, 1), "bm25": (0, math.inf)}
STRINGS = (
    "heart attack|attack heart|kidney failure|heart failure|failure of the heart|heart|kidney|x|alzheimer's|糖尿病|(+)|"
    f"🫀|{'a' * 500}|unheard of|heart heart attack|ß|type 2|e\u0301"
).split("|")
ODD = ["", "?", "heart", "HEART", "heart  attack", "\u200b", "糖", "zzz qqq", "🫀🫀", "-", "\t", "alzheimer's heart"]


class Encoder(HashEncoder):
    pooling, max_length, precision = "mean", 32, "fp32"


def system_of(kind: str):
    if kind == "encoder":
        return EncoderSystem(Encoder(), "hash", rules=DEFAULT_RULES, facts={"kind": "encoder"})
    if kind == "normalizer":
        options = NormalizerOptions(ranking="fusion", choice=Choice(borrow=False, learn="no"))
        return NormalizerSystem(Encoder(), "hash", options, {"kind": "normalizer"})
    return load_system(SPECS[kind])


def test_every_kind_is_tested() -> None:
    assert sorted([*SPECS, *ENCODED, *ELSEWHERE]) == registry.names(PACKAGE)
    systems = {kind: system_of(kind) for kind in [*SPECS, *ENCODED]}
    assert {kind for kind, system in systems.items() if isinstance(system, System)} == set(TEXT)
    for kind, system in systems.items():
        assert system.name
        assert system.facts["kind"] == kind
        assert json.loads(json.dumps(system.facts)) == system.facts


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_every_kind_refuses_what_it_does_not_know(kind) -> None:
    for spec, message in (
        (f"{SPECS[kind]},colour=red", "colour"),
        (f"{SPECS[kind]},colour", "not of the form option=value"),
        (kind if ":" in SPECS[kind] else f"{kind}:something", f"{kind} (takes no argument|needs a file)"),
    ):
        with pytest.raises(UsageError, match=message):
            load_system(spec)


def table(name: str) -> list[list[str]]:
    """Return the rows of a table beside this file; {FILES} in a cell is the folder of fixtures."""
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").replace("{FILES}", str(FILES)).splitlines()
    return [line.split("\t") for line in lines[1:]]


@pytest.mark.parametrize(("error", "spec", "message"), table("refused.tsv"))
def test_a_system_that_cannot_be_opened(error, spec, message) -> None:
    with pytest.raises({"usage": UsageError, "input": InputError}[error], match=message):
        load_system(spec)


@pytest.mark.parametrize("kind", TEXT)
def test_neighbours_of_text(kind) -> None:
    system = system_of(kind)
    assert set(system.rules) <= set(RULES)
    terms = list(dict.fromkeys(clean_many(STRINGS, system.rules)))
    for k in (1, 3, len(terms), len(terms) + 5):
        # An empty query is one that cleaning left nothing of.
        queries = clean_many([*STRINGS, *ODD], system.rules)
        similarity, rows = system.neighbours(queries, terms, k)
        assert similarity.shape == rows.shape == (len(queries), min(k, len(terms)))
        assert similarity.dtype == np.float32
        assert rows.dtype == np.int64
        assert np.isfinite(similarity).all()
        low, high = RANGES.get(kind, (-1.00001, 1.00001))
        assert ((similarity >= low) & (similarity <= high)).all()
        for values, found in zip(similarity.tolist(), rows.tolist(), strict=True):
            answered = [row for row in found if row >= 0]
            assert found == answered + [-1] * (len(found) - len(answered))
            assert values[len(answered) :] == [0] * (len(found) - len(answered))
            assert len(set(answered)) == len(answered)
            assert all(0 <= row < len(terms) for row in answered)
            pairs = list(zip([-value for value in values], found, strict=True))[: len(answered)]
            assert pairs == sorted(pairs)
        # A smaller k is the head of a greater one, wherever ties fall.
        whole = system.neighbours(queries, terms, len(terms))
        if kind not in ENCODED:
            assert rows.tolist() == whole[1][:, :k].tolist()
    assert (system.neighbours(["heart attack"], terms, 1)[1] == 0).all()


@pytest.mark.parametrize("kind", TEXT)
def test_neighbours_of_nothing(kind) -> None:
    system = system_of(kind)
    similarity, rows = system.neighbours([], ["heart", "kidney"], 5)
    assert similarity.shape == rows.shape == (0, 2)
    if kind not in ENCODED:
        assert system.neighbours(["", "zzz"], ["", "ö"], 2)[1].tolist() == [[-1, -1], [-1, -1]]


@pytest.mark.parametrize("kind", TEXT)
def test_similarity_of_pairs(kind) -> None:
    system = system_of(kind)
    left = clean_many(["heart attack", "heart attack", "heart", "kidney failure", "heart attack"], system.rules)
    right = clean_many(["heart attack", "attack heart", "kidney", "", "attack failure"], system.rules)
    values = system.similarity(left, right)
    assert values.shape == (5,)
    assert values.dtype == np.float32
    assert np.isfinite(values[:3]).all()
    assert values[0] >= values[1:3].max() - 1e-6
    if kind not in ("bm25",):
        assert values[0] == pytest.approx(1)
    if kind not in ENCODED:
        assert np.isnan(values[3])
    np.testing.assert_allclose(system.similarity(right, left), values, rtol=1e-5)
    low, high = RANGES.get(kind, (-1.00001, 1.00001))
    assert ((values[:3] >= low) & (values[:3] <= high)).all()
    assert system.similarity([], []).shape == (0,)


@pytest.mark.parametrize("kind", ["encoder", "word_vectors"])
def test_vectors_have_length_one(kind) -> None:
    system = system_of(kind)
    assert isinstance(system, VectorSystem)
    assert not isinstance(system, ConceptSystem)
    vectors = system.encode(["heart attack", "kidney"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_an_encoder_is_asked_once_for_a_string(monkeypatch) -> None:
    monkeypatch.setattr(encoder, "KEPT", 4 * 64 * 4)  # four vectors
    system = system_of("encoder")
    shapes = [system.encode(strings).shape for strings in ([], [""], ["", ""], ["heart"], [])]
    assert shapes == [(0, 64), (1, 64), (2, 64), (1, 64), (0, 64)]
    both = system.encode(["kidney", "heart", "kidney"])
    assert system.encoder.encoded == ["", "heart", "kidney"]
    np.testing.assert_array_equal(both, system_of("encoder").encode(["kidney", "heart", "kidney"]))
    both[:] = 0  # a copy: what is kept stays
    assert system.encode(["kidney"]).any()
    # A fifth string does not fit: all are forgotten but those of this call. A list too long by itself is kept.
    system.encode(["heart", "lung", "liver"])
    assert system.encoder.encoded[3:] == ["heart", "lung", "liver"]
    long = [str(number) for number in range(6)]
    for _ in range(2):
        assert system.encode(long).shape == (6, 64)
    assert system.encoder.encoded[6:] == long


@pytest.mark.parametrize("kept", [1 << 30, 30 * 64 * 4, 0])
def test_the_terms_of_a_ranking_are_encoded_once(monkeypatch, kept) -> None:
    monkeypatch.setattr(encoder, "KEPT", kept)
    monkeypatch.setattr(linking, "QUERIES_AT_ONCE", 2)
    monkeypatch.setattr(linking, "STRINGS_PER_CONCEPT", 1)
    # The two nearest names are of one concept, so that each block is asked for more of them.
    names = [f"part {concept} {'x' * number}" for concept in range(4) for number in range(9)]
    targets = linking.Targets(ids=[name.split()[1] for name in names], names=names)
    queries = [f"part {number % 4} of it {number}" for number in range(8)]
    system = system_of("encoder")
    found = linking.rank(system, queries, targets, 2)
    encoded = system.encoder.encoded
    assert {encoded.count(name) for name in dict.fromkeys(clean_many(names, system.rules))} == {1}
    monkeypatch.undo()
    expected = linking.rank(system_of("encoder"), queries, targets, 2)
    np.testing.assert_array_equal(found.concepts, expected.concepts)
    np.testing.assert_allclose(found.similarity, expected.similarity, rtol=1e-5)


def test_a_few_strings_do_not_put_out_a_long_list(monkeypatch) -> None:
    monkeypatch.setattr(encoder, "KEPT", 0)
    system = system_of("encoder")
    long = [str(number) for number in range(20)]
    kept = system.encode(long)
    few = ["3", "few", "strings", "few"]
    np.testing.assert_array_equal(system.encode(few), system_of("encoder").encode(few))
    np.testing.assert_array_equal(system.encode(long), kept)
    assert system.encoder.encoded == [*long, "few", "strings"]
    # A quarter as many take their place.
    other = ["1", "a", "b", "c", "d"]
    system.encode(other)
    system.encode(other)
    assert system.encoder.encoded[22:] == other


def test_terms_that_change_are_encoded_again() -> None:
    system = system_of("encoder")
    terms = ["heart", "kidney"]
    assert system.neighbours(["lung"], terms, 1)[0][0, 0] < 0.99
    terms[1] = "lung"
    similarity, rows = system.neighbours(["lung"], terms, 1)
    assert (similarity[0, 0], rows[0, 0]) == (pytest.approx(1), 1)


def test_the_vectors_of_terms_are_not_copied() -> None:
    system = system_of("encoder")
    terms = [f"term {number}" for number in range(50)]
    system.neighbours(["heart", "term 3"], terms, 1)
    assert np.shares_memory(system._shared(terms[10:]), system._shared(terms[:20]))
    assert not np.shares_memory(system.encode(terms), system._shared(terms))


WORDS = st.lists(st.sampled_from(["a", "b", "c", "dd", "糖", "尿", "e1"]), max_size=5)


@settings(max_examples=80)
@given(
    terms=st.lists(WORDS, min_size=1, max_size=12),
    queries=st.lists(WORDS, min_size=1, max_size=4),
    k=st.integers(1, 6),
    k1=st.sampled_from([0.0, 1.2, 2.0]),
    b=st.sampled_from([0.0, 0.75, 1.0]),
)
def test_bm25_equals_the_reference(terms, queries, k, k1, b) -> None:
    terms = list({" ".join(term): term for term in terms}.values())
    system = Bm25System(k1, b)
    k = min(k, len(terms))
    similarity, rows = system.neighbours([", ".join(query) for query in queries], [" ".join(term) for term in terms], k)
    for query, values, found in zip(queries, similarity, rows.tolist(), strict=True):
        expected = [reference.score(query, term, terms, k1, b) for term in terms]
        best = sorted(range(len(terms)), key=lambda row, scores=expected: (-round(scores[row], 5), row))[:k]
        best = [row for row in best if expected[row] > 0]
        assert found[: len(best)] == best
        np.testing.assert_allclose(values[: len(best)], [expected[row] for row in best], rtol=1e-5)
        assert found[len(best) :] == [-1] * (k - len(best))
    pairs = list(zip(queries, terms, strict=False))
    left, right = [" ".join(one) for one, _ in pairs], [" ".join(other) for _, other in pairs]
    everything = [one for one, _ in pairs] + [other for _, other in pairs]
    for value, (one, other) in zip(system.similarity(left, right), pairs, strict=True):
        if not one or not other:
            assert np.isnan(value)
            continue
        both = [reference.score(*two, everything, k1, b) for two in ((one, other), (other, one))]
        assert value == pytest.approx(sum(both) / 2, rel=1e-5)


def test_bm25_words() -> None:
    found = ["il", "2", "α", "chain", "e", "g", "x", "2", "型", "糖", "尿", "病", "ป", "ว", "ด", "カ", "ゼ"]
    assert _shared.words("il 2 (α-chain), e.g._x 2型糖尿病 ปวด カゼ") == found


def test_bm25_is_named_by_its_options() -> None:
    system = load_system("bm25,k1=2,b=0.5")
    assert (system.name, system.k1, system.b) == ("bm25,k1=2,b=0.5", 2.0, 0.5)
    assert load_system("bm25,k1=2,name=other").name == "other"


@settings(max_examples=60)
@given(
    queries=st.lists(st.text("abc é", max_size=6), min_size=1, max_size=4),
    terms=st.lists(st.text("abc é", max_size=6), min_size=1, max_size=12, unique=True),
    k=st.integers(1, 6),
    at_once=st.sampled_from([1, 30, 10**6]),
)
def test_edit_distance_equals_the_reference(queries, terms, k, at_once) -> None:
    system, k = load_system("edit_distance"), min(k, len(terms))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alphita_lab.evaluation.systems._lexical.NUMBERS_AT_ONCE", at_once)
        similarity, rows = system.neighbours(queries, terms, k)
    for query, values, found in zip(queries, similarity, rows.tolist(), strict=True):
        expected = [np.float32(reference.edit_similarity(query, term)) if query else 0 for term in terms]
        best = sorted(range(len(terms)), key=lambda row, scores=expected: (-scores[row], row))[:k]
        best = [row for row in best if expected[row] > 0]
        assert found == best + [-1] * (k - len(best))
        np.testing.assert_allclose(values[: len(best)], [expected[row] for row in best], rtol=1e-6)


@settings(max_examples=40)
@given(
    queries=st.lists(st.text("ab ", max_size=5), min_size=1, max_size=4),
    terms=st.lists(st.text("ab ", max_size=6), min_size=1, max_size=12, unique=True),
    k=st.integers(1, 6),
)
def test_tfidf_equals_the_reference(queries, terms, k) -> None:
    similarity, _ = load_system("tfidf").neighbours(queries, terms, k)
    for query, values in zip(queries, similarity, strict=True):
        expected = sorted(metrics.tfidf_cosines(query, terms), reverse=True)[: min(k, len(terms))]
        np.testing.assert_allclose(values, expected, atol=1e-6)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), q=st.integers(0, 5), n=st.integers(1, 40), k=st.integers(1, 8))
def test_equals_at_the_last_place_are_taken_by_row(seed, q, n, k) -> None:
    from scipy import sparse

    rng = np.random.default_rng(seed)
    k = min(k, n)
    queries = rng.integers(0, 3, (q, 4)).astype(np.float32)
    terms = (rng.random((n, 4)) < 0.4).astype(np.float32)
    products = queries @ terms.T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_shared, "QUERIES_AT_ONCE", 2)
        patch.setattr(_shared, "NUMBERS_AT_ONCE", 50)
        found = _shared.greatest_products(sparse.csr_matrix(queries), sparse.csr_matrix(terms), k)
    for values, rows in (found, _shared.greatest(products, k)):
        for line, value, row in zip(products.tolist(), values.tolist(), rows.tolist(), strict=True):
            best = [at for at in sorted(range(n), key=lambda at, line=line: (-line[at], at))[:k] if line[at] > 0]
            assert row == best + [-1] * (k - len(best))
            assert value == [line[at] for at in best] + [0] * (k - len(best))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), q=st.integers(0, 30), n=st.integers(0, 40), k=st.integers(1, 8))
def test_equal_vectors_are_taken_by_row(seed, q, n, k) -> None:
    rng = np.random.default_rng(seed)
    # Small whole numbers have exact products, so that equals are equal however they are multiplied.
    queries, terms = (rng.integers(-1, 2, (size, 3)).astype(np.float32) for size in (q, n))
    values, rows = _shared.nearest_vectors(queries, terms, k)
    assert values.shape == rows.shape == (q, min(k, n))
    for line, value, row in zip((queries @ terms.T).tolist(), values.tolist(), rows.tolist(), strict=True):
        best = sorted(range(n), key=lambda at, line=line: (-line[at], at))[:k]
        assert row == best
        assert value == [line[at] for at in best]


# Word vectors

LAYOUTS = ["glove.txt", "word2vec.txt", "word2vec.bin", "fasttext.vec"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("file", LAYOUTS)
def test_word_vectors_are_the_same_in_every_layout(file, packed, tmp_path) -> None:
    path = FILES / file
    if packed:
        path = tmp_path / f"{file}.gz"
        path.write_bytes(gzip.compress((FILES / file).read_bytes()))
    system = load_system(f"word_vectors:{path}")
    vectors = system.encode(["heart attack", "heart zzz", "zzz", "", "alzheimer's", "alzheimer, heart", "糖尿病"])
    means = [[0.75, 0.5, 0.25], [1, 0, 0.5], None, None, [0.125, 0.25, -1], [1, 0.5, 0.75], [0.125, 0.375, 0.25]]
    for vector, mean in zip(vectors, means, strict=True):
        if mean is None:
            assert np.isnan(vector).all()
        else:
            np.testing.assert_allclose(vector, np.array(mean) / np.linalg.norm(mean), rtol=1e-6)
    assert system.facts["dimension"] == 3
    assert len(system.facts["sha256"]) == 64
    assert system.name == path.name


@pytest.mark.parametrize("file", LAYOUTS)
def test_a_word_in_another_case(file) -> None:
    system = load_system(f"word_vectors:{FILES / file}")
    assert "lowercase" in system.rules
    np.testing.assert_allclose(system.encode(["parkinson"]), [[0, 0.8320503, -0.5547002]], rtol=1e-6)
    # "heart" stands before "HEART", and is the string as it is asked for.
    np.testing.assert_allclose(system.encode(["heart"]), [[0.8944272, 0, 0.4472136]], rtol=1e-6)
    cased = load_system(f"word_vectors:{FILES / file},lower=false,name=cased")
    assert cased.name == "cased"
    assert "lowercase" not in cased.rules
    vectors = cased.encode(["HEART", "Heart", "parkinson", "Parkinson"])
    np.testing.assert_allclose(vectors[0], [-0.57735, -0.57735, -0.57735], rtol=1e-5)
    np.testing.assert_allclose(vectors[1], [0.8944272, 0, 0.4472136], rtol=1e-6)
    assert np.isnan(vectors[2]).all()
    assert np.isfinite(vectors[3]).all()


def test_a_word_before_each_string_is_encoded_with_it(tmp_path: Path) -> None:
    tiny = tiny_model(tmp_path / "model")
    plain, asked = (load_system(f"{tiny}{more}") for more in ("", ",prefix= query: "))
    assert asked.name.endswith(",prefix=query:")
    assert (asked.facts["prefix"], plain.facts.get("prefix")) == ("query: ", None)
    wanted = plain.encode(["query: heart pain", "query: fever"])
    np.testing.assert_allclose(asked.encode(["heart pain", "fever"]), wanted, atol=1e-6)
    assert np.abs(plain.encode(["heart pain"]) - wanted[:1]).max() > 0.01


@pytest.mark.parametrize(
    ("content", "vector"),
    [
        # The form asked for wins wherever it stands; tokens with a space are passed over.
        ("Cold 1 0\nCOLD 0 1\ncold -1 0\ncold 0 -1\n", [-1, 0]),
        ("heart 1 0\n. . 0.5 0.5\nat name@x.org 0.5 0.25\n\ncold 0 1\n", [0, 1]),
    ],
)
def test_which_vector_is_a_words(tmp_path, content, vector) -> None:
    (tmp_path / "v.txt").write_text(content)
    assert load_system(f"word_vectors:{tmp_path / 'v.txt'}").encode(["cold"]).tolist() == [vector]


@pytest.mark.parametrize("file", LAYOUTS)
def test_only_the_first_words(file) -> None:
    system = load_system(f"word_vectors:{FILES / file},limit=2")
    assert system.facts["limit"] == 2
    assert np.isfinite(system.encode(["heart", "attack", "kidney"])).all(axis=1).tolist() == [True, True, False]


def test_the_file_is_read_only_for_words_that_are_new(monkeypatch) -> None:
    system = load_system(SPECS["word_vectors"])
    first = system.encode(["heart attack", "zzz"])
    monkeypatch.setattr("alphita_lab.evaluation.systems.word_vectors._text_entries", None)
    assert np.array_equal(system.encode(["zzz", "attack heart"])[1], first[0])


def test_neighbours_leave_out_strings_without_a_known_word() -> None:
    system = load_system(SPECS["word_vectors"])
    similarity, rows = system.neighbours(["heart", "zzz"], ["yyy", "kidney", "heart attack", "qqq"], 4)
    assert rows.tolist() == [[2, 1, -1, -1], [-1, -1, -1, -1]]
    assert similarity[0, 2:].tolist() == [0, 0]


# Concept vectors


def test_concept_vectors() -> None:
    system = load_system(SPECS["concept_vectors"])
    assert isinstance(system, ConceptSystem)
    assert not isinstance(system, System)
    ids = ["C0000003", "C9", "C0000001", "C0000003"]
    vectors = system.encode_concepts(ids)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[[0, 2, 3]], [[-0.5, 0.125, 0.2], [0.5, -1, 0.25], [-0.5, 0.125, 0.2]])
    assert np.isnan(vectors).any(axis=1).tolist() == [False, True, False, False]
    assert system.encode_concepts(["C0000002"]).tolist() == [[1, 0, 0]]
    assert system.encode_concepts([]).shape == (0, 3)
    assert system.facts["dimension"] == 3


@pytest.mark.parametrize("layout", ["text", "text without a first line", "binary", "packed"])
def test_concept_vectors_in_the_layouts_of_word2vec(layout, tmp_path) -> None:
    rows = {"C0000001": [0.5, -1.0, 0.25], "C0000002": [1.0, 0.0, 0.0], "SNOMED:12": [3.0, 4.0, 5.0]}
    lines = [f"{key} {' '.join(map(str, numbers))}\n".encode() for key, numbers in rows.items()]
    content = b"3 3\n" + b"".join(lines)
    if layout == "text without a first line":
        content = b"".join(lines)
    elif layout == "binary":
        packed = [key.encode() + b" " + np.array(numbers, "<f4").tobytes() + b"\n" for key, numbers in rows.items()]
        content = b"3 3\n" + b"".join(packed)
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(content) if layout == "packed" else content)
    system = load_system(f"concept_vectors:{path},prefix=UMLS")
    assert system.facts["dimension"] == 3
    found = system.encode_concepts(["UMLS:C0000002", "C0000001", "UMLS:C9"])
    assert found[:2].tolist() == [rows["C0000002"], rows["C0000001"]]
    assert np.isnan(found[2]).all()


@pytest.mark.parametrize("packed", [False, True])
def test_concept_vectors_of_other_writing(packed, tmp_path) -> None:
    content = '\ufeff"a, c","1",2\r\nplain,3,"4"\r\n\r\nSNOMED:12,5,6'.encode()
    path = tmp_path / "c.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    system = load_system(f"concept_vectors:{path}")
    assert system.encode_concepts(["a, c", "plain", "SNOMED:12"]).tolist() == [[1, 2], [3, 4], [5, 6]]


DAMAGED = [
    (kind, content.encode().decode("unicode_escape").encode("latin-1"), line, problem)
    for kind, content, line, problem in table("damaged_vectors.tsv")
]
PACKED = "the gzip file is damaged or cut short"
DAMAGED += [
    ("word_vectors", gzip.compress(b"heart 1 2 3\n" * 100)[:-12], "", PACKED),
    ("word_vectors", gzip.compress(b"heart 1 2 3\n" * 10_000)[:-12], "", "cannot be read on: .*; fetch it again"),
    ("word_vectors", pickle.dumps({"heart": [1.0, 2.0]}), "1", "not a file of word vectors"),
]


@pytest.mark.parametrize(("kind", "content", "line", "problem"), DAMAGED, ids=[row[3] for row in DAMAGED])
def test_damaged_vectors(kind, content, line, problem, tmp_path) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)
    asked = {
        "word_vectors": lambda system: system.encode(["heart", "kidney"]),
        "concept_vectors": lambda system: system.encode_concepts(["C1", "C2"]),
    }
    with pytest.raises(InputError, match=problem) as caught:
        asked[kind](load_system(f"{kind}:{path}"))
    assert caught.value.file == path
    if line:
        assert caught.value.line == int(line)


def test_published_encoders_have_short_names(monkeypatch, tmp_path):
    from alphita_lab.evaluation import systems
    from alphita_lab.evaluation.systems import encoder

    opened = []
    monkeypatch.setattr(encoder, "load", lambda argument, options: opened.append((argument, dict(options))))
    monkeypatch.chdir(tmp_path)
    systems.load_system("sapbert-xlmr")
    systems.load_system("medcpt,max_length=32,name=mine")
    assert opened == [
        (
            "cambridgeltl/SapBERT-UMLS-2020AB-all-lang-from-XLMR",
            {"name": "sapbert-xlmr", "pooling": "cls", "max_length": "25"},
        ),
        ("ncbi/MedCPT-Query-Encoder", {"name": "mine", "pooling": "cls", "max_length": "32"}),
    ]
    # A folder of that name is the user's own.
    (tmp_path / "medcpt").mkdir()
    systems.load_system("medcpt")
    assert opened[-1] == ("medcpt", {})
