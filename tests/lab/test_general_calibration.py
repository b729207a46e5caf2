"""The general calibration: fitted on several vocabularies, used by every index that has none of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alphita.answer import calibration_store
from alphita.answer.calibration_store import FOLDER, Calibration
from alphita.answer.features import Asked, Cosines, Featurizer
from alphita.answer.normalizer import DEFAULT_ERROR, Normalizer
from alphita.answer.pipeline import Pipeline
from alphita.calibrate import fitting
from alphita.calibrate.examples import FOREIGN, ITSELF, NOISE, NOISY_SYNONYM, REMOVED, SYNONYM
from alphita.calibrate.risk_coverage import Certificate
from alphita.calibrate.transfer import adapt, carry_over
from alphita.cli.normalize import text_of
from alphita.errors import InputError, UsageError
from alphita.index.lookup import WHOLE, How, lookup
from alphita.index.store import Index, build
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.mention.abbreviations import Abbreviations
from alphita_lab import general_calibration
from alphita_lab.general_calibration import Vocabulary, fit_general, thresholds
from tests.answer.synthetic import VocabularyEncoder, quick_fit, quickly, synthetic_terminology
from tests.doubles import SmallTerminology, small_terminology

ENCODER = VocabularyEncoder()
NAMES = ("one", "two", "three")


def fit_some(vocabularies: list[Vocabulary], **options) -> Calibration:
    """Fit as `fit_general` does, in some seconds."""
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        patch.setattr(general_calibration, "MAX_LEARNED", 900)
        patch.setattr(general_calibration, "MIN_TESTED", 100)
        return fit_general(vocabularies, ENCODER, **options)


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory) -> list[Vocabulary]:
    """Vocabularies of different sizes; they share some concepts, as real ones do."""
    folder = tmp_path_factory.mktemp("general")
    made = []
    for name, n in zip(NAMES, (400, 240, 160), strict=True):
        index = build(synthetic_terminology(n, seed=n), ENCODER, folder / f"{name}.index")
        made.append(Vocabulary(name, index, version=f"v{n}", licence="CC0"))
    return made


@pytest.fixture(scope="module")
def fitted(vocabularies) -> Calibration:
    return fit_some(vocabularies, seed=3)


@pytest.fixture
def encoder(fitted, tmp_path) -> VocabularyEncoder:
    """An encoder beside whose folder the general calibration lies."""
    fitted.save(tmp_path / "model" / FOLDER)
    made = VocabularyEncoder()
    made.folder = tmp_path / "model"
    return made


@pytest.fixture
def ward(encoder, tmp_path) -> Index:
    """A new index of twenty names, one a concept."""
    terms = synthetic_terminology(20, seed=9).terms.column("string").to_pylist()[::3][:20]
    return build(
        SmallTerminology([(f"W:{n}", name, "exact") for n, name in enumerate(terms)]), encoder, tmp_path / "ward.index"
    )


# Fitting.


def test_it_says_what_it_was_fitted_on(fitted, vocabularies):
    assert fitted.is_general
    assert fitted.fields["model_hash"] == ENCODER.content_hash
    assert "index_hash" not in fitted.fields
    told = fitted.fields["vocabularies"]
    assert [(one["name"], one["version"], one["licence"]) for one in told] == [
        ("one", "v400", "CC0"),
        ("two", "v240", "CC0"),
        ("three", "v160", "CC0"),
    ]
    assert told[0]["terminology_hash"] == vocabularies[0].index.manifest["terminology_hash"]
    assert fitted.definitions is None
    assert set(fitted.calibrators) == {"all"}
    assert "of one, two, three, each answered by what was fitted on the others" in fitted.figures["population"]
    assert set(fitted.figures["learned_from"]) == {SYNONYM, NOISE, NOISY_SYNONYM, ITSELF, REMOVED, FOREIGN}
    assert max(fitted.figures["learned_from"].values()) < 3 * 900


def test_each_vocabulary_is_answered_by_what_was_fitted_on_the_others(vocabularies):
    """Worked out by itself: a calibration of the first two answers the third as the figures say."""
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        patch.setattr(general_calibration, "MAX_LEARNED", 900)
        held = {one.name: general_calibration.hold(one, ENCODER, 0) for one in vocabularies}
        figures = general_calibration.fit_held(held).figures["left_out"]["three"]
        of_two = general_calibration.fit_held({name: held[name] for name in ("one", "two")})
        tested = held["three"].tested
        answers = of_two(tested.table, tested.features)
        # Its ranker is that of all three without the third, to the bit; its calibrators saw rankers of one vocabulary.
        places = fitting.places_of(tested.table, answers.order, tested.examples.concepts)
    kinds = np.array(tested.examples.kinds)
    assert figures["tested_on"] == fitting.counts_of(tested.examples)
    for k in (1, 5):
        share = (places[kinds == SYNONYM] < k).mean()
        assert figures["held_out_synonyms"][f"accuracy@{k}"] == pytest.approx(share)
    assert set(figures["nil"]["recognised"]) == {REMOVED, FOREIGN}
    assert 0 <= figures["calibration"]["low"] <= figures["calibration"]["value"] <= figures["calibration"]["high"] <= 1


def test_the_mixture_is_of_thirds_and_no_concept_is_learned_from_and_tested_on(vocabularies):
    held = general_calibration.hold(vocabularies[0], ENCODER, 0)
    counts = fitting.counts_of(held.tested.examples)
    assert counts[ITSELF] == counts[SYNONYM]
    assert counts[ITSELF] * 0.8 < counts[NOISE] <= counts[ITSELF]
    assert counts[REMOVED] == pytest.approx(0.05 * sum(counts.values()), abs=3)
    used = [set(one.examples.concepts.tolist()) | set(one.examples.hidden_concepts.tolist()) for one in held]
    assert used[0] & used[1] == {-1}


def test_equal_names_are_accepted_and_foreign_strings_are_not(fitted):
    at = fitted.figures["left_out"]["one"]["accepted"][f"{DEFAULT_ERROR:g}"]
    assert at[ITSELF] == {"share": pytest.approx(1.0, abs=0.02), "error": pytest.approx(0.0, abs=0.01)}
    assert at["share"] > 1 / 3
    assert at["error"] <= DEFAULT_ERROR
    assert fitted.figures["left_out"]["one"]["nil"]["recognised"][FOREIGN] > 0.8


def test_a_threshold_is_the_highest_that_any_vocabulary_needs():
    def certificates(*found: float | None) -> dict[float, Certificate]:
        return {
            error: Certificate(error, 0.05, 1000, threshold, 500, 1, None, 1)
            for error, threshold in zip(fitting.ERRORS, found, strict=True)
        }

    pooled = certificates(0.95, 0.9, 0.8, 0.7, 0.4)
    some = [certificates(None, 0.99, 0.7, 0.6, 0.5), certificates(0.98, 0.97, 0.85, 0.5, 0.3)]
    found = thresholds([pooled, *some])
    assert list(found.values()) == [None, 0.99, 0.85, 0.7, 0.5]


def test_a_seed_decides_everything(fitted, vocabularies):
    again = fit_some(vocabularies, seed=3)
    assert again.figures == fitted.figures
    assert again.accept == fitted.accept
    for name, values in fitted.ranker.to_arrays().items():
        np.testing.assert_array_equal(again.ranker.to_arrays()[name], values)


def test_what_cannot_be_fitted_on_is_refused(vocabularies, tmp_path):
    plain = [(f"P:{number}", f"plain name {number}", "exact") for number in range(30)]
    bare = build(SmallTerminology(plain), ENCODER, tmp_path / "bare.index")
    with pytest.raises(InputError, match="bare has too few synonyms to learn from some concepts"):
        fit_general([vocabularies[0], Vocabulary("bare", bare)], ENCODER)
    other = build(small_terminology(), VocabularyEncoder(seed=5), tmp_path / "other.index")
    with pytest.raises(InputError, match="does not belong to this index"):
        fit_general([Vocabulary("other", other)], ENCODER)


# In an index.


def test_a_new_index_answers_by_it_from_its_first_second(ward, fitted):
    normalizer = Normalizer.load(ward.path, encoder=ENCODER)
    assert (normalizer.ranking, normalizer.assurance, normalizer.error) == ("learned", "estimated", DEFAULT_ERROR)
    assert normalizer.accept == fitted.accept[DEFAULT_ERROR]
    names = ward.segment.concepts.column("name").to_pylist()
    results = normalizer.normalize(names)
    assert [result.concept_name for result in results] == names
    assert {result.decision for result in results} == {"accept"}
    assert {result.decision for result in normalizer.normalize(["river market 12", "silverium"])} == {"nil"}
    assert all(0 <= result.confidence <= 1 for result in results)


@pytest.mark.parametrize("n", [1, 3])
def test_an_index_of_very_few_names_is_answered_too(encoder, tmp_path, n):
    rows = [(f"W:{number}", name, "exact") for number, name in enumerate(("left drall ache", "sorvet stone", "quenna"))]
    index = build(SmallTerminology(rows[:n]), encoder, tmp_path / "few.index")
    normalizer = Normalizer(index, encoder=ENCODER)
    result = normalizer.normalize(["Left drall ache"])[0]
    assert (result.concept_id, result.decision) == ("W:0", "accept")
    assert normalizer.normalize(["garden bridge planet"])[0].decision == "nil"


def test_its_own_calibration_goes_first(encoder, tmp_path, fitted):
    index = build(synthetic_terminology(300, seed=1), encoder, tmp_path / "x.index")
    assert Normalizer(index, encoder=ENCODER).assurance == "estimated"
    own = quick_fit(index, ENCODER)
    own.save(index.path / FOLDER)
    assert own.figures["from_general"]
    normalizer = Normalizer(index, encoder=ENCODER, error=0.1)
    assert normalizer.assurance == "certified"
    assert normalizer.calibration.fields["index_hash"] == index.content_hash
    given = Normalizer(index, encoder=ENCODER, calibration=encoder.folder / FOLDER)
    assert given.assurance == "estimated"
    assert Normalizer(index, encoder=ENCODER, calibration=replace(fitted, abbreviations=None)).calibration.is_general


def test_a_general_ranker_of_another_version_is_not_learned_on_from(encoder, tmp_path, monkeypatch, capsys):
    index = build(synthetic_terminology(300, seed=1), encoder, tmp_path / "x.index")
    monkeypatch.setattr(calibration_store, "EVIDENCE", (*calibration_store.EVIDENCE, "another"))
    assert fitting._general(index) is None
    assert (
        "fitted from nothing, not from the general ranker: this calibration was made by another"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("ranking", ["exact", "letters", "vectors", "fusion"])
def test_another_ranking_goes_without(ward, ranking):
    normalizer = Normalizer(ward, encoder=ENCODER, ranking=ranking)
    assert (normalizer.ranking, normalizer.assurance, normalizer.accept) == (ranking, None, None)
    with pytest.raises(UsageError, match="needs a calibration"):
        Normalizer(ward, encoder=ENCODER, ranking=ranking, error=0.05)


def test_what_was_saved_is_what_was_fitted_with_the_abbreviations_of_the_index(ward, fitted):
    loaded = Calibration.load(ward.model_path / FOLDER, ward)
    assert (loaded.is_general, loaded.assurance(0.05), loaded.definitions) == (True, "estimated", None)
    assert loaded.accept == fitted.accept
    assert loaded.origin == "general calibration, fitted on one, two, three"
    assert loaded.abbreviations.to_json() == Abbreviations.of_index(ward).to_json()


def test_one_of_another_encoder_is_refused(encoder, tmp_path):
    index = build(small_terminology(), VocabularyEncoder(seed=5), tmp_path / "other.index")
    with pytest.raises(InputError, match="this calibration was made for another encoder"):
        Calibration.load(encoder.folder / FOLDER, index)
    with pytest.raises(InputError, match="made for another encoder"):
        Normalizer(index, calibration=encoder.folder / FOLDER)


def test_a_job_says_how_sure_its_confidence_is(ward, tmp_path):
    path = tmp_path / "input.csv"
    path.write_text("name\n" + ward.segment.concepts.column("name")[0].as_py() + "\nriver table\n")
    normalizer = Normalizer(ward, encoder=ENCODER)
    summary = run(normalizer, Job(MentionFile(path, column="name"), tmp_path / "out.csv"))
    assert (summary.assurance, summary.error, summary.accepted) == ("estimated", DEFAULT_ERROR, 1)
    text = text_of(summary)
    assert "1 accepted at an allowed error of 5%, 0 for review" in text
    assert "confidence: estimated (general calibration, fitted on one, two, three); 'alphita calibrate" in text
    plain = run(
        Normalizer(ward, encoder=ENCODER, ranking="vectors"), Job(MentionFile(path, column="name"), tmp_path / "v.csv")
    )
    assert (plain.assurance, plain.error) == (None, None)
    assert "confidence" not in text_of(plain)
    assert "confidence: certified" in text_of(replace(summary, assurance="certified", origin=""))


def test_it_can_be_taken_over_as_it_is(ward, encoder, fitted, tmp_path):
    index = build(synthetic_terminology(30, seed=2), ENCODER, tmp_path / "bare.index")
    carried = carry_over(index, lambda: pytest.fail("there are no definitions to encode"), ward)
    assert carried.accept == fitted.accept
    carried.save(index.path / FOLDER)
    normalizer = Normalizer(index, encoder=ENCODER)
    assert normalizer.assurance == "estimated"
    carried = normalizer.calibration.fields["carried_over_from"]
    assert "each answered by what was fitted on the others" in carried["population"]


def test_its_folder_is_small(encoder):
    files = [path for path in Path(encoder.folder / FOLDER).rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 5 * 10**6
    assert json.loads((encoder.folder / FOLDER / "figures.json").read_text())["left_out"]["one"]


# Lent to another encoder.


def test_it_is_lent_to_an_index_of_another_encoder(encoder, fitted, tmp_path):
    other = VocabularyEncoder(dim=96, seed=5)
    index = build(synthetic_terminology(300, seed=1), other, tmp_path / "other.index")
    lent = adapt(index, encoder, encoder.folder / FOLDER)
    lent.save(index.path / FOLDER)
    normalizer = Normalizer(index, encoder=other)
    assert (normalizer.assurance, normalizer.accept) == ("estimated", fitted.accept[DEFAULT_ERROR])
    assert normalizer.calibration.origin == "general calibration, lent by another model"
    kept = normalizer.calibration.cosines
    np.testing.assert_array_equal(kept.own, lent.cosines.own)
    np.testing.assert_array_equal(kept.lender, lent.cosines.lender)
    names = index.segment.concepts.column("name").to_pylist()[:60]
    results = normalizer.normalize(names)
    assert [result.concept_name for result in results] == names
    assert {result.decision for result in results} == {"accept"}
    # What is shown is the index's own cosine.
    assert {result.similarity for result in results} == {1.0}
    assert normalizer.normalize(["garden bridge planet"])[0].decision == "nil"


def test_a_cosine_is_read_as_the_one_of_its_rank():
    cosines = Cosines(np.array([0.8, 0.9, 1.0]), np.array([0.2, 0.6, 1.0]))
    found = cosines(np.array([0.5, 0.8, 0.85, 0.9, 0.95, 1.0], np.float32))
    np.testing.assert_allclose(found, [0.2, 0.2, 0.4, 0.6, 0.8, 1.0], atol=1e-6)
    assert found.dtype == np.float32


def test_features_are_those_of_the_lender_where_its_own_cosines_are_turned_round(encoder, tmp_path):
    """An encoder whose cosines are those of another, squeezed, is read as the other, to the rounding of quantiles."""
    index = build(synthetic_terminology(300, seed=1), encoder, tmp_path / "x.index")
    mentions = ["left drall swellin", "ache nebbin chronic", "fistel stone"]
    squeezed = Cosines(np.linspace(0.7, 1.0, 400), np.linspace(-1.0, 1.0, 400))

    def features(cosines: Cosines | None, change) -> np.ndarray:
        pipeline = Pipeline(index, lambda: ENCODER, cosines=cosines)
        asked, _ = pipeline.ask(mentions)
        table = pipeline.candidates(asked, featured=False).table
        table = table._replace(cosine=change(table.cosine), best_cosine=change(table.best_cosine))
        found = replace(lookup(index, lambda: ENCODER, asked.queries, How(described=range(3))), vectors=None)
        asked = Asked(asked.queries, np.arange(3), asked.mentions, found, WHOLE, range(3))
        return Featurizer(index, cosines=cosines)(asked, table).candidates

    plain = features(None, lambda cosine: cosine)
    read = features(squeezed, lambda cosine: np.float32(0.85) + np.float32(0.15) * cosine)
    np.testing.assert_allclose(read, plain, atol=1e-5)


def test_what_cannot_be_lent_is_refused(encoder, tmp_path):
    other = VocabularyEncoder(seed=5)
    few = build(synthetic_terminology(40), other, tmp_path / "few.index")
    with pytest.raises(InputError, match=r"it has \d+ strings; at least 200 are needed to compare"):
        adapt(few, encoder, encoder.folder / FOLDER)
    many = build(synthetic_terminology(300), other, tmp_path / "many.index")
    with pytest.raises(InputError, match="made for another encoder"):
        adapt(many, VocabularyEncoder(seed=7), encoder.folder / FOLDER)
