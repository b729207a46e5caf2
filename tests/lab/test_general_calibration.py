"""The general calibration: fitted on simulated targets, used by every index that has none of its own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.answer import calibration_store
from alphita.answer.calibration_store import FOLDER, Calibration
from alphita.answer.decision import ACCEPT, NIL, NONE, OTHER, RIGHT, WITH_ERROR
from alphita.answer.features import Asked, Cosines, Featurizer
from alphita.answer.normalizer import DEFAULT_ERROR, Normalizer
from alphita.answer.pipeline import Pipeline
from alphita.calibrate import fitting
from alphita.calibrate.examples import FOREIGN, ITSELF, NOISE, SYNONYM
from alphita.calibrate.fitting import Crossed
from alphita.calibrate.transfer import adapt, carry_over
from alphita.cli.normalize import text_of
from alphita.errors import InputError, UsageError
from alphita.index.lookup import WHOLE, How, lookup
from alphita.index.store import Index, build
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.mention.abbreviations import Abbreviations
from alphita_lab import general_calibration
from alphita_lab.general_calibration import NIL_PARTS, NIL_SHARE, Population, fit_general, threshold
from alphita_lab.simulated_targets import EVERYDAY, FAR, LABELS, NEAR, NO_FINDING, OTHER_NAME, Made, Target
from tests.answer.synthetic import VocabularyEncoder, quick_fit, quickly, synthetic_terminology
from tests.doubles import SmallTerminology, small_terminology
from tests.lab.simulated import made

ENCODER = VocabularyEncoder()
TARGETS = {
    Target("one"): (400, 1),
    Target("one", LABELS, 200): (400, 1),
    Target("two"): (240, 2),
    Target("ICD-10-CM"): (160, 3),
}


def fit_some(targets: list[Made], **options) -> Calibration:
    """Fit as `fit_general` does, in some seconds."""
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        patch.setattr(general_calibration, "EPOCHS", 6)
        patch.setattr(general_calibration.TermEncoder, "load", lambda _: ENCODER)
        return fit_general(targets, NAMED, **options)


NAMED = [{"name": name, "version": "1", "licence": "made up"} for name in ("ICD-10-CM", "one", "two")]


@pytest.fixture(scope="module")
def targets(tmp_path_factory) -> list[Made]:
    """Targets of vocabularies that share some concepts, as real ones do."""
    return made(tmp_path_factory.mktemp("general"), TARGETS)


@pytest.fixture(scope="module")
def fitted(targets) -> Calibration:
    return fit_some(targets, seed=3)


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


def test_it_says_what_it_was_fitted_on(fitted):
    assert fitted.is_general
    assert fitted.fields["model_hash"] == ENCODER.content_hash
    assert "index_hash" not in fitted.fields
    assert fitted.fields["vocabularies"] == NAMED
    assert fitted.definitions is None
    figures = fitted.figures
    assert figures["population"].endswith("4 simulated targets, each answered by what was fitted on other vocabularies")
    assert {OTHER_NAME, EVERYDAY, SYNONYM, ITSELF, NOISE, NEAR, FAR, NO_FINDING, FOREIGN} <= set(figures["tested_on"])
    assert set(figures["by_target"]) == {target.name for target in TARGETS}
    for kind in WITH_ERROR:
        assert set(figures["all"][kind]) == {f"{error:g}" for error in fitting.ERRORS}
    assert figures["calibration"]["mean_confidence"] == pytest.approx(figures["calibration"]["right"], abs=0.1)


def test_it_keeps_its_errors_and_answers(fitted):
    for thresholds in (fitted.accept, fitted.nil):
        known = [one for one in thresholds.values() if one is not None]
        assert known == sorted(known, reverse=True)
    at = fitted.figures["all"][ACCEPT][f"{DEFAULT_ERROR:g}"]
    assert at["share"] > 1 / 3
    assert at["wrong"] <= DEFAULT_ERROR


def test_every_string_is_answered_by_what_was_fitted_on_other_vocabularies():
    names = np.array(["a"] * 50 + ["b"] * 30 + ["c"] * 20 + ["d"] * 10 + ["e"] * 5)
    folds = general_calibration._folds(names)
    of = {name: set(folds[names == name].tolist()) for name in "abcde"}
    assert all(len(some) == 1 for some in of.values())
    assert of["d"] == of["e"]
    assert set(folds.tolist()) == set(range(general_calibration.FOLDS))


def some_seen(rng: np.random.Generator, targets: list[str]) -> tuple[SimpleNamespace, np.ndarray, np.ndarray]:
    """Return strings of targets, with kinds and targets."""
    kinds = np.array([OTHER_NAME, EVERYDAY, SYNONYM, ITSELF, NOISE, NEAR, FAR, NO_FINDING, FOREIGN])
    drawn = np.concatenate([np.tile(np.arange(9), len(targets)), rng.integers(0, 9, 300)])
    of = np.concatenate([np.repeat(targets, 9), rng.choice(targets, 300)])
    return SimpleNamespace(examples=SimpleNamespace(concepts=np.where(drawn > 4, -1, 7))), kinds[drawn], of


@pytest.mark.parametrize("seed", range(3))
def test_what_names_nothing_weighs_its_share_of_each_target(seed):
    seen, kinds, targets = some_seen(np.random.default_rng(seed), ["V, labels, 3", "ICD-10-CM, synonyms, 1"])
    by_kind = {OTHER_NAME: 3.0, ITSELF: 0.5}
    weight = general_calibration._weights(seen, kinds, targets, by_kind)
    for name in np.unique(targets):
        own = targets == name
        total = {kind: weight[own & (kinds == kind)].sum() for kind in np.unique(kinds)}
        nil = {kind: total[kind] for kind in (*NIL_PARTS, FOREIGN)}
        assert sum(nil.values()) / weight[own].sum() == pytest.approx(NIL_SHARE)
        # There is a code for everything else.
        wanted = NIL_PARTS | {FOREIGN: 1 - sum(NIL_PARTS.values())} | ({NEAR: 0} if name.startswith("ICD") else {})
        for kind, part in wanted.items():
            assert nil[kind] == pytest.approx(sum(nil.values()) * part / sum(wanted.values())), kind
        for kind in (OTHER_NAME, EVERYDAY, ITSELF):
            assert total[kind] == pytest.approx(by_kind.get(kind, 1.0) * (own & (kinds == kind)).sum())
    # A kind that a target has not leaves its share to the others.
    few = kinds != FAR
    some = SimpleNamespace(examples=SimpleNamespace(concepts=seen.examples.concepts[few]))
    weight = general_calibration._weights(some, kinds[few], targets[few], {})
    nil = some.examples.concepts < 0
    assert weight[nil].sum() / weight.sum() == pytest.approx(NIL_SHARE)


def test_each_target_counts_alike(targets):
    """Whatever its size: for the decision, of what has a candidate."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(general_calibration.TermEncoder, "load", lambda _: ENCODER)
        quickly(patch)
        patch.setattr(general_calibration, "EPOCHS", 1)
        patch.setattr(general_calibration, "_figures", lambda _, population: {"population": population})
        population: Population = fit_general(targets, NAMED).figures["population"]
    totals = [population.weight[population.targets == target.name].sum() for target in TARGETS]
    assert totals == pytest.approx([len(population.kinds) / 4] * 4)
    assert len({(population.targets == target.name).sum() for target in TARGETS}) > 1
    nil = population.crossed.outcome == NONE
    assert population.weight[nil].sum() / population.weight.sum() == pytest.approx(NIL_SHARE, abs=0.05)


KINDS = (OTHER_NAME, EVERYDAY, SYNONYM, FAR)
answered = st.tuples(
    st.integers(0, 3), st.integers(0, 20), st.integers(0, 20), st.booleans(), st.booleans(), st.booleans()
)


def population_of(rows) -> tuple[Population, np.ndarray]:
    """Return strings, and the probabilities of their outcomes."""
    kinds = np.array([KINDS[row[0]] for row in rows])
    chance = np.array([[row[1], 1, row[2]] for row in rows], float)
    outcome = np.where(kinds == FAR, NONE, np.where([row[3] for row in rows], RIGHT, OTHER))
    vetoed, inexact = (np.array([row[place] for row in rows], bool) for place in (4, 5))
    weight = 1.0 + np.arange(len(rows)) % 3
    crossed = Crossed(chance / chance.sum(axis=1, keepdims=True), outcome, vetoed)
    return Population(crossed, kinds, np.array(["V"] * len(rows)), inexact, weight), crossed.evidence


@given(st.lists(answered, min_size=8, max_size=60), st.sampled_from(WITH_ERROR), st.sampled_from([0.13, 0.41]))
def test_a_threshold_keeps_its_error_on_each_kind(rows, kind, error):
    rows = [*((place, 3, 3, True, False, True) for place in range(4)), *rows]
    population, evidence = population_of(rows)
    least = threshold(population, lambda _: evidence, kind, error)
    given_, kept = population.crossed.given(lambda _: evidence, kind), population.crossed.kept(kind)
    none = population.inexact & (population.kinds == FAR)

    def least_of(weights) -> float | None:
        """Return the least probability at which few of what is decided are wrong, by each weighting."""
        kept_at = []
        for at in np.unique(given_[given_ > 0]).tolist():
            taken = [weight * (given_ >= at) for weight in weights]
            if all(some.any() and (some * ~kept).sum() <= error * some.sum() + 1e-12 for some in taken):
                kept_at.append(at)
        return min(kept_at, default=None)

    together, of_kinds = population.weight * population.inexact, []
    for name in KINDS[:3]:
        named = population.weight * (population.inexact & (population.kinds == name))
        share = named.sum() * NIL_SHARE / (1 - NIL_SHARE) / population.weight[none].sum()
        of_kinds.append(named + population.weight * none * share)
    wanted = least_of([together]) if kind == NIL else least_of(of_kinds)
    if kind == ACCEPT and wanted is not None:
        of_target = least_of([together])
        wanted = max(wanted, 1.0 if of_target is None else of_target)
    assert least == wanted


def test_where_one_kind_never_keeps_the_error_nothing_is_accepted():
    rows = [(place, 15, 1, right, False, True) for place, right in ((0, True), (1, True), (2, False), (3, False))] * 5
    population, evidence = population_of(rows)
    assert threshold(population, lambda _: evidence, ACCEPT, 0.1) is None
    # Nor where the same probability is as often wrong.
    rows = [(place, 15, 1, right, False, True) for place in range(3) for right in (True, False)]
    population, evidence = population_of([*rows, (3, 0, 15, False, False, True)])
    assert threshold(population, lambda _: evidence, ACCEPT, 0.1) is None
    assert threshold(population, lambda _: evidence, ACCEPT, 0.7) == pytest.approx(15 / 17)
    assert threshold(population, lambda _: evidence, NIL, 0.1) == pytest.approx(15 / 16)


# In an index.


def test_a_new_index_answers_by_it_from_its_first_second(ward, fitted):
    normalizer = Normalizer.load(ward.path, encoder=ENCODER)
    assert (normalizer.ranking, normalizer.assurance, normalizer.error) == ("learned", "estimated", DEFAULT_ERROR)
    assert normalizer.thresholds == (fitted.accept[DEFAULT_ERROR], fitted.nil[DEFAULT_ERROR])
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
    assert (normalizer.ranking, normalizer.assurance, normalizer.thresholds) == (ranking, None, None)
    with pytest.raises(UsageError, match="needs a calibration"):
        Normalizer(ward, encoder=ENCODER, ranking=ranking, error=0.05)


def test_what_was_saved_is_what_was_fitted_with_the_abbreviations_of_the_index(ward, fitted):
    loaded = Calibration.load(ward.model_path / FOLDER, ward)
    assert (loaded.is_general, loaded.assurance(0.05), loaded.definitions) == (True, "estimated", None)
    assert loaded.accept == fitted.accept
    assert loaded.origin == "general calibration, fitted on ICD-10-CM, one, two"
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
    assert "1 accepted at an allowed error of 5%, 1 NIL at an allowed error of 5%, 0 for review" in text
    assert "confidence: estimated (general calibration, fitted on ICD-10-CM, one, two); 'alphita calibrate" in text
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
    assert "each answered by what was fitted on other vocabularies" in carried["population"]


# Lent to another encoder.


def test_it_is_lent_to_an_index_of_another_encoder(encoder, fitted, tmp_path):
    other = VocabularyEncoder(dim=96, seed=5)
    index = build(synthetic_terminology(300, seed=1), other, tmp_path / "other.index")
    lent = adapt(index, encoder, encoder.folder / FOLDER)
    lent.save(index.path / FOLDER)
    normalizer = Normalizer(index, encoder=other)
    assert (normalizer.assurance, normalizer.thresholds.accept) == ("estimated", fitted.accept[DEFAULT_ERROR])
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
