from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.answer.calibration_store import ESTIMATED, FOLDER
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.examples import LEAST
from alphita.calibrate.fitting import held_out
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.head import FILE, Head
from alphita.errors import InputError
from alphita.index import enrichment, learning
from alphita.index.choice import Choice
from alphita.index.enrichment import Enrichment, assumed_share, own_names
from alphita.index.external_names import shipped_names
from alphita.index.learning import HeadSettings, Learned, Scores, Variants, is_held_back, learn
from alphita.index.segment import collect
from alphita.index.sources import enrichment_of, reusing, terminology_of
from alphita.index.store import Index, build
from alphita.terminology.store import load_terminology
from alphita.terminology.text import DEFAULT_RULES
from tests.reference import head as reference
from tests.reference import multi_similarity as loss_reference
from tests.reference.multi_similarity import slopes

GENTLE = {"alpha": 3.0, "beta": 7.0, "lam": 0.3, "eps": 0.25}
USUAL = {"alpha": 2.0, "beta": 50.0, "lam": 0.6, "eps": 0.1}
DIM, HIDDEN = 24, 32
QUICK = HeadSettings(hidden=HIDDEN, batch=128, most_steps=80, rate=1e-2)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def vocabulary(concepts: int = 400, names: int = 4, seed: int = 0, spread: float = 0.3):
    """Names of a concept lie near each other in half of the numbers; the other half says nothing.

    Returns:
        Vectors, string and concept rows, and which strings are held back.
    """
    random = np.random.default_rng(seed)
    concept = np.repeat(np.arange(concepts), names)
    means, says_nothing = (random.standard_normal((size, DIM // 2)) for size in (concepts, len(concept)))
    meaning = means[concept] + spread * random.standard_normal((len(concept), DIM // 2))
    vectors = unit(np.concatenate([meaning, says_nothing], axis=1)).astype(np.float32)
    synonym = np.arange(len(concept)) % names > 0
    held_back = is_held_back([f"name {row}" for row in range(len(concept))]) & synonym
    return vectors, (np.arange(len(concept)), concept), held_back


def small_weights(seed: int) -> learning.Weights:
    random = np.random.default_rng(seed)
    return learning.Weights(*(random.standard_normal(shape) for shape in ((6, 4), (6,), (4, 6), (4,))))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 12), concepts=st.integers(1, 6), seed=st.integers(0, 10**6), gentle=st.booleans())
def test_the_loss_equals_the_reference(n, concepts, seed, gentle):
    random = np.random.default_rng(seed)
    concept = random.integers(0, concepts, n)
    y = unit(random.standard_normal((concepts, 5))[concept] + random.standard_normal((n, 5)))
    setting = GENTLE if gentle else USUAL
    value, _ = learning.multi_similarity(y, concept, **(GENTLE if gentle else {}))
    assert value == pytest.approx(loss_reference.term_term(y, concept.tolist(), **setting), rel=1e-9, abs=1e-12)
    single, slope = learning.multi_similarity(y.astype(np.float32), concept, **setting)
    assert slope.dtype == np.float32
    assert np.isfinite(single)


@pytest.mark.parametrize("seed", range(4))
def test_every_slope_equals_the_reference(seed):
    """Of the whole of it, loss of network of weights, by central differences over the reference's loops."""
    random = np.random.default_rng(seed)
    concept = random.integers(0, 3, 7)
    x = random.standard_normal((7, 4))
    weights = small_weights(seed)

    def loss() -> float:
        return loss_reference.term_term(reference.rows(x, *weights), concept.tolist(), **GENTLE)

    seen = learning.forward(weights, x)
    np.testing.assert_allclose(seen.y, reference.rows(x, *weights), atol=1e-12)
    value, slope = learning.multi_similarity(seen.y, concept, **GENTLE)
    assert value == pytest.approx(loss(), rel=1e-10)
    found = learning.backward(weights, seen, slope)
    for weight, gradient in zip(weights, found, strict=True):
        expected = slopes(loss, weight)
        np.testing.assert_allclose(gradient, expected, atol=1e-7)
    assert max(np.abs(gradient).max() for gradient in found) > 1e-3


def test_adam_steps_as_its_authors_have_it():
    weights = small_weights(0)
    before = [weight.copy() for weight in weights]
    slopes_of = [small_weights(seed) for seed in (1, 2)]
    adam = learning.Adam(weights)
    for gradients in slopes_of:
        adam.step(gradients, 0.1)
    for place, weight in enumerate(before):
        m = v = 0.0
        for t, gradients in enumerate(slopes_of, 1):
            g = gradients[place]
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            weight -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(weights[place], weight, rtol=1e-9)


def test_a_tenth_is_held_back_by_the_string_alone():
    strings = [f"disease of kind {number}" for number in range(20_000)]
    found = is_held_back(strings)
    assert 0.09 < found.mean() < 0.11
    order = np.random.default_rng(0).permutation(len(strings))
    assert np.array_equal(is_held_back([strings[row] for row in order]), found[order])
    other = is_held_back(strings, seed=1)
    assert 0.05 < other[found].mean() < 0.15
    # Calibration, later and elsewhere, draws from the same: what is held back must never change.
    assert np.flatnonzero(found[:40]).tolist() == [5, 15, 28, 36, 37]
    assert len(is_held_back([])) == 0


def test_learns_what_says_nothing():
    vectors, groups, held_back = vocabulary()
    learned = learn(vectors, groups, held_back, settings=QUICK)
    report = learned.report
    assert learned.head is not None, report
    assert report["after"]["accuracy_at_1"] > report["before"]["accuracy_at_1"] + 0.1
    json.dumps(report)
    # Of names that it has never seen, too.
    others, (_, concept), _ = vocabulary(seed=5)
    for name, made in (("without", others), ("with", learned.head(others))):
        alike = made @ made.T
        np.fill_diagonal(alike, -1)
        report[name] = float((concept[alike.argmax(1)] == concept).mean())
    assert report["with"] > report["without"] + 0.1


def test_the_seed_alone_decides():
    vectors, groups, held_back = vocabulary()
    noised = Variants(unit(vectors + 0.1).astype(np.float32), np.arange(len(vectors)))
    heads = [learn(vectors, groups, held_back, noised=noised, seed=seed, settings=QUICK) for seed in (0, 0, 1)]
    hashes = [learned.head.content_hash for learned in heads]
    assert hashes[0] == hashes[1] != hashes[2]
    timed = ("seconds", "processor_seconds")
    reports = [{name: value for name, value in one.report.items() if name not in timed} for one in heads]
    assert reports[0] == reports[1]


def test_half_precision_and_order_of_the_groups_make_no_difference(tmp_path):
    vectors, (string, concept), held_back = vocabulary()
    stored = vectors.astype(np.float16)
    np.save(tmp_path / "v.npy", stored)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    order = np.random.default_rng(3).permutation(len(string))
    again = np.concatenate([order, order[:10]])
    one = learn(stored.astype(np.float32), (string, concept), held_back, settings=QUICK)
    other = learn(mapped, (string[again], concept[again]), held_back, settings=QUICK)
    assert one.head.content_hash == other.head.content_hash


def test_no_name_that_is_held_back_or_of_two_concepts_is_learned_from(monkeypatch):
    vectors, (string, concept), held_back = vocabulary(concepts=200)
    homonyms = np.flatnonzero(~held_back)[:5]
    string, concept = np.concatenate([string, homonyms]), np.concatenate([concept, (concept[homonyms] + 1) % 200])
    noised = Variants(vectors * np.float32(0.5), np.arange(len(vectors)))
    seen = []

    def forward(weights: learning.Weights, x: np.ndarray) -> learning.Forward:
        seen.append(x)
        return forward_of(weights, x)

    forward_of = learning.forward
    monkeypatch.setattr(learning, "forward", forward)
    learn(vectors, (string, concept), held_back, noised=noised, settings=replace(QUICK, noise=0.0))
    rows = np.unique((np.concatenate(seen) @ vectors.T).argmax(1))
    allowed = np.setdiff1d(np.flatnonzero(~held_back), homonyms)
    assert np.isin(rows, allowed).all()
    assert len(rows) > 0.9 * len(allowed)


def scores(right: list[int], noisy: list[int]) -> Scores:
    return Scores(np.repeat([True, False], right), np.repeat([True, False], noisy))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (scores([120, 80], [80, 20]), ""),
        (scores([120, 80], [70, 30]), "of 100 noisy strings it wins 0 and loses 10"),
        (scores([120, 80], [79, 21]), ""),
        (scores([101, 99], [80, 20]), "of 200 held-back synonyms it wins 1 and loses 0: no gain to rely on"),
        (scores([100, 100], [90, 10]), "of 200 held-back synonyms it wins 0 and loses 0: no gain to rely on"),
        (scores([60, 140], [90, 10]), "of 200 held-back synonyms it wins 0 and loses 40: no gain to rely on"),
    ],
)
def test_a_head_must_gain_and_not_harm(after, said):
    assert learning._objection(scores([100, 100], [80, 20]), after, HeadSettings()) == said


def test_where_the_whole_head_harms_a_part_of_it_is_tried(monkeypatch):
    vectors, groups, held_back = vocabulary()
    noised = Variants(unit(vectors + np.float32(0.2)), groups[0])
    said = iter(["harm", ""])
    monkeypatch.setattr(learning, "_objection", lambda *_: next(said))
    learned = learn(vectors, groups, held_back, noised=noised, settings=QUICK)
    assert learned.head is not None
    assert learned.report["strength"] == learning.STRENGTHS[1]
    monkeypatch.setattr(learning, "_objection", lambda *_: "harm")
    learned = learn(vectors, groups, held_back, noised=noised, settings=QUICK)
    assert learned.head is None
    assert learned.report["reason"] == "harm"


@pytest.mark.parametrize("bunch", [1, 4])
def test_a_batch_has_two_names_of_each_concept_and_pairs_of_name_and_variant(bunch):
    vectors, (_, concept), _ = vocabulary(concepts=20, names=3)
    of = np.arange(0, 60, 5)
    lessons = learning._examples(vectors, concept, [(vectors[of], of)])
    batches = learning._batches(lessons, HeadSettings(batch=10, bunch=bunch, variants=0.4), np.random.default_rng(0))
    met = []
    for _ in range(3):
        rows, of_rows = next(batches)
        names, pairs = rows[:12].reshape(6, 2).T, rows[12:].reshape(4, 2)
        assert (names < 60).all()
        assert (names[0] != names[1]).all()
        assert np.array_equal(concept[names[0]], concept[names[1]])
        assert np.array_equal(of[pairs[:, 1] - 60], pairs[:, 0])
        assert np.array_equal(of_rows, np.concatenate([concept[names.T.ravel()], concept[pairs[:, 0]].repeat(2)]))
        met.extend(concept[names[0]].tolist())
    assert len(set(met)) == 18


def test_what_lies_near_each_other_comes_together():
    vectors, (rows, concept), _ = vocabulary(concepts=6, names=50, spread=0.1)
    vectors[:, DIM // 2 :] = 0
    order = learning._in_bunches(vectors, rows, 5, np.random.default_rng(0))
    assert np.array_equal(np.sort(order), rows)
    neighbours = (concept[order][1:] == concept[order][:-1]).mean()
    assert neighbours > 0.8


def test_what_cannot_help_gives_no_head(monkeypatch):
    vectors, (rows, concept), held_back = vocabulary()
    nothing, empty = np.zeros(len(vectors), bool), np.zeros(0, np.int64)
    shuffled = np.random.default_rng(0).permutation(concept)
    for groups, held, reason in (
        ((rows, shuffled), held_back, "no gain to rely on"),
        ((rows, rows), nothing, "concepts with two names to learn from: 0"),
        ((rows, rows // 2), nothing, "held-back synonyms to try a head on: 0"),
        ((empty, empty), nothing, "concepts with two names to learn from: 0"),
    ):
        learned = learn(vectors, groups, held, settings=QUICK)
        assert learned.head is None
        assert reason in learned.report["reason"]
    # Of a large terminology a part is learned from.
    monkeypatch.setattr(learning, "MAX_STRINGS", 500)
    report = learn(vectors, (rows, concept), held_back, settings=QUICK).report
    assert report["strings"] < 500
    assert report["candidates"] + report["questions"] <= 500


# A head that is learned when an index is built: in its vectors, its model folder, its answers and its updates.

TERMS = "id,term\nX:1,Headache\nX:1,Cephalgia\nX:2,Fever\nX:2,Pyrexia\nX:3,Cough\n"


@pytest.fixture(scope="module")
def encoder() -> TermEncoder:
    return TermEncoder.load("alphita-en")


@pytest.fixture(scope="module")
def head(encoder) -> Head:
    chance = np.random.default_rng(0)
    shapes = {"w1": (16, encoder.dim), "b1": (16,), "w2": (encoder.dim, 16), "b2": (encoder.dim,)}
    return Head(**{name: 0.3 * chance.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("head")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        (folder / "terms.csv").write_text(TERMS, encoding="utf-8")
        return terminology_of(folder / "terms.csv")


@pytest.fixture(scope="module")
def index(encoder, head, source, tmp_path_factory) -> Index:
    out = tmp_path_factory.mktemp("index") / "x.index"
    with pytest.MonkeyPatch.context() as patch:
        report = {"reason": "better", "strings": 5, "seconds": 1.0, "processor_seconds": 1.0}
        patch.setattr(enrichment, "learn", lambda *given, **options: Learned(head, report))
        return build(load_terminology(source), encoder, out, enrichment=Enrichment(None, None, "seconds"))


def test_the_index_answers_with_the_head(index, encoder, head):
    expected = head(encoder.encode(list(index.strings)))
    np.testing.assert_allclose(index.vectors, expected, atol=1e-6)
    assert (index.model_path / FILE).is_file()
    assert index.manifest["head"] == {"reason": "better", "strings": 5}
    loaded = TermEncoder.load(index.model_path)
    assert loaded.content_hash == index.manifest["model_hash"] != index.base_model_hash == encoder.content_hash
    assert loaded.base_hash == encoder.content_hash
    np.testing.assert_allclose(loaded.encode(["sore head"]), head(encoder.encode(["sore head"])), atol=1e-6)
    index.check_encoder(loaded)
    with pytest.raises(InputError, match="does not belong to this index"):
        index.check_encoder(encoder)
    # The general calibration is for it too.
    normalizer = Normalizer(index)
    assert (index.model_path / FOLDER).is_dir()
    assert normalizer.assurance == ESTIMATED
    (result,) = normalizer.normalize(["headache"])
    assert (result.concept_id, result.decision) == ("X:1", "accept")


def test_an_update_keeps_the_head_and_so_the_vectors(index, source, tmp_path):
    own = TermEncoder.load(index.model_path)
    again = build(
        load_terminology(source),
        own,
        tmp_path / "new.index",
        blocks=reusing(index, own),
        enrichment=Enrichment(None, None, "seconds"),
    )
    assert again.vectors.tobytes() == index.vectors.tobytes()
    assert again.manifest["head"] == {"reason": "the one of the index that was updated"}


def test_too_few_synonyms_are_said_and_the_rest_works(encoder, source, tmp_path):
    index = build(
        load_terminology(source), encoder, tmp_path / "x.index", enrichment=enrichment_of(Choice(borrow=False))
    )
    assert "two names to learn from: 2" in index.manifest["head"]["reason"]
    assert index.manifest["model_hash"] == index.base_model_hash
    assert not (index.model_path / FILE).exists()


def test_own_names_are_the_exact_ones_that_the_terminology_has(source):
    content = collect(load_terminology(source), DEFAULT_RULES, frozenset())
    own, strings = own_names(content), content.strings.to_pylist()
    assert [strings[row] for row in own.string[own.preferred]] == ["cough", "fever", "headache"]
    assert {strings[row] for row in own.string} == {"cephalgia", "cough", "fever", "headache", "pyrexia"}


def test_what_is_calibrated_on_is_what_the_head_did_not_learn(index, monkeypatch):

    drawn = [f"name {number}" for number in range(20 * LEAST)]
    monkeypatch.setattr(
        "alphita.calibrate.examples.own_synonyms", lambda *_, **__: (drawn, np.zeros(len(drawn), np.int64))
    )
    known = held_out(index, None, 0)
    assert set(known.strings) == {one for one, held in zip(drawn, is_held_back(drawn), strict=True) if held}
    assert "head was not taught" in known.origin


def test_the_list_knows_how_often_an_external_short_form_is_meant(source):
    shares = [assumed_share(short) for short in ("a", "DM", "D.M.", "FSGS", "EICAR", "type 1 DM")]
    assert shares == sorted(shares)
    assert shares[1] == shares[2] < 0.2 < 0.7 < shares[-1] <= 1
    content = collect(load_terminology(source), DEFAULT_RULES, frozenset())
    listed = pl.DataFrame(
        [("CLL", "chronic lymphocytic leukemia", 1.0, "en", None), ("HA", "Kopfschmerz", 0.9, "de", "headache")],
        ["short", "long", "share", "language", "english"],
        orient="row",
    ).with_columns(pl.col("share").cast(pl.Float32))
    lent = [("cll", "Chronic lymphocytic leukemia", "x"), ("HA", "Headache", "x"), ("PUO", "fever", "x")]
    found = enrichment.short_forms_table(content, listed, lent, DEFAULT_RULES).to_pylist()
    assert {(row["short"], row["long"].lower(), round(row["share"], 2), row["source"]) for row in found} == {
        ("CLL", "chronic lymphocytic leukemia", 1.0, "list"),
        ("HA", "kopfschmerz", 0.9, "list"),
        ("HA", "headache", 0.9, "list"),
        ("PUO", "fever", round(assumed_share("PUO"), 2), "x"),
    }


def test_what_another_vocabulary_names_and_this_one_lacks_is_no_concept_of_it(encoder, source, tmp_path):
    def asked(index: Index) -> tuple[str | None, str]:
        (result,) = Normalizer(index, encoder=encoder).normalize(["Appendectomy"], explain=True)
        return result.concept_id, result.explanation.answer

    terminology = load_terminology(source)
    borrowing = build(terminology, encoder, tmp_path / "a.index", enrichment=Enrichment(shipped_names(), None, "no"))
    assert borrowing.manifest["elsewhere"] == len(borrowing.segment.elsewhere) > 100_000
    assert asked(borrowing)[0] is None
    assert asked(borrowing)[1].startswith("NIL: a name that other vocabularies have")
    bare = build(terminology, encoder, tmp_path / "b.index", enrichment=Enrichment(None, None, "no"))
    assert not len(bare.segment.elsewhere)
    assert not asked(bare)[1].startswith("NIL: a name that other vocabularies have")
