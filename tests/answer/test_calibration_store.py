"""The calibration of an index: kept inside it, used by it, refused by any other."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from alphita import artefact
from alphita.answer.calibration_store import (
    EVIDENCE,
    FOLDER,
    KIND,
    MIN_SHARE,
    OF_CANDIDATE,
    OF_MENTION,
    Calibration,
    evidence_of,
    ordered,
)
from alphita.answer.decision import ACCEPT, NIL
from alphita.answer.features import MENTION_NAMES, NAMES
from alphita.answer.filters import Filters
from alphita.answer.normalizer import DEFAULT_ERROR, Normalizer
from alphita.answer.pipeline import Pipeline
from alphita.calibrate.transfer import carry_over
from alphita.errors import InputError, UsageError
from alphita.index.choice import Building
from alphita.index.store import Index, build
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.reader import SHORT_CAPITALS
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import SmallTerminology

ENCODER = VocabularyEncoder()
MENTIONS = ["left drall swelling", "drall swellign, left", "hx of nebbin ache", "acute sorvet stone"]
MENTIONS += ["upper malcus pain", "rightdrall ache", "garden bridge", "silverium 20 mg", "?", "quenna"]
MENTIONS += ["chronic holvar bleeding", "lower tibrix weakness noted"]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("store") / "x.index")


@pytest.fixture(scope="module")
def fitted(index) -> Calibration:
    return quick_fit(index, ENCODER)


@pytest.fixture
def saved(fitted, tmp_path) -> Path:
    fitted.save(tmp_path / "calibration")
    return tmp_path / "calibration"


@pytest.fixture(scope="module")
def calibrated(index, fitted, tmp_path_factory) -> Path:
    """An index with its calibration inside."""
    path = tmp_path_factory.mktemp("calibrated") / "x.index"
    shutil.copytree(index.path, path)
    fitted.save(path / FOLDER)
    return path


def answers(calibration: Calibration, index: Index):
    pipeline = Pipeline(
        index, lambda: ENCODER, calibration.abbreviations, respell=True, definitions=calibration.definitions
    )
    asked, _ = pipeline.ask(MENTIONS)
    scored = pipeline.candidates(asked)
    return scored, calibration(scored.table, scored.features)


# On disk.


def test_what_was_saved_answers_the_same_bit_for_bit(index, fitted, saved):
    loaded = Calibration.load(saved, index)
    for one, other in zip(answers(fitted, index)[1], answers(loaded, index)[1], strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    assert loaded.figures == json.loads(json.dumps(fitted.figures))
    assert (loaded.accept, loaded.nil) == (fitted.accept, fitted.nil)
    assert loaded.abbreviations.to_json() == fitted.abbreviations.to_json()
    for name in ("row", "vectors"):
        np.testing.assert_array_equal(getattr(loaded.definitions, name), getattr(fitted.definitions, name))
    assert loaded.fields["index_hash"] == index.content_hash


def test_how_long_a_fit_took_is_no_part_of_the_artefact(fitted, saved, tmp_path):
    assert fitted.fields["seconds"] > 0
    dataclasses.replace(fitted, fields={**fitted.fields, "seconds": 0.5}).save(tmp_path / "again")
    first, second = (artefact.verify(path, KIND) for path in (saved, tmp_path / "again"))
    assert first["content_hash"] == second["content_hash"]
    assert first["seconds"] != second["seconds"]


def test_files_are_plain_and_nothing_is_unpickled(index, saved, monkeypatch):
    assert {path.name for path in saved.iterdir()} == {
        "manifest.json",
        "arrays.safetensors",
        "settings.json",
        "figures.json",
        "abbreviations.json",
        "reliability.svg",
        "risk_coverage.svg",
    }
    for path in saved.glob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    for path in saved.glob("*.svg"):
        assert path.read_text(encoding="utf-8").lstrip().startswith(("<?xml", "<svg"))

    def no(*_args, **_options):
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, no)
    Calibration.load(saved, index)


def test_an_existing_calibration_is_not_overwritten(fitted, saved):
    with pytest.raises(UsageError, match="already exists"):
        fitted.save(saved)
    (saved / "notes.txt").write_text("mine", encoding="utf-8")
    fitted.save(saved, force=True)
    assert saved.with_name("calibration.old-1").is_dir()


def test_another_index_refuses_it(saved, tmp_path):
    other = build(synthetic_terminology(300), ENCODER, tmp_path / "other.index")
    command = f"fit it again: alphita calibrate --index {re.escape(str(other.path))}"
    with pytest.raises(InputError, match=rf"made for another index.*{command}$"):
        Calibration.load(saved, other)
    shutil.copytree(saved, other.path / FOLDER)
    with pytest.raises(InputError, match=rf"made for another index.*{command} --force$"):
        Normalizer.load(other.path, encoder=ENCODER)
    # What it does not need it does not look at.
    assert Normalizer.load(other.path, encoder=ENCODER, ranking="vectors").calibration is None


@pytest.mark.parametrize("name", ["arrays.safetensors", "settings.json", "figures.json", "abbreviations.json"])
@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_damaged_file_is_noticed(index, saved, name, damage):
    path = saved / name
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(InputError, match=rf"{re.escape(name)}.*alphita calibrate"):
        Calibration.load(saved, index)


def test_what_is_no_calibration_is_refused(index, tmp_path):
    with pytest.raises(InputError, match=r"no such calibration.*alphita calibrate"):
        Calibration.load(tmp_path / "nothing", index)
    with pytest.raises(InputError, match="calibration"):
        Calibration.load(index.path, index)


def rewritten(saved: Path, out: Path, **files: bytes | None) -> Path:
    """Write a calibration with right hashes whose files are not as they should be."""
    manifest = json.loads((saved / "manifest.json").read_text(encoding="utf-8"))
    with artefact.create(out, KIND) as draft:
        for path in saved.iterdir():
            if path.name != "manifest.json":
                shutil.copyfile(path, draft.path / path.name)
        for name, content in files.items():
            path = next(path for path in draft.path.iterdir() if path.stem == name)
            path.unlink()
            if content is not None:
                path.write_bytes(content)
        draft.fields["index_hash"] = manifest["index_hash"]
    return out


@pytest.mark.parametrize(
    "files",
    [
        {"arrays": b"no safetensors"},
        {"arrays": None},
        {"settings": b"{}"},
        {"settings": b"[]"},
        {"settings": None},
        {"figures": b"{"},
        {"abbreviations": b"{"},
        {"abbreviations": b"[1]"},
    ],
)
def test_a_file_that_makes_no_sense_is_an_error_of_the_input(index, saved, tmp_path, files):
    path = rewritten(saved, tmp_path / "odd", **files)
    with pytest.raises(InputError, match=r"damaged (calibration|abbreviations): .*; .*calibrate"):
        Calibration.load(path, index)


def test_arrays_that_do_not_fit_the_features_are_refused(index, saved, tmp_path):
    from safetensors.numpy import load_file, save

    arrays = load_file(saved / "arrays.safetensors")
    without = {name: values for name, values in arrays.items() if not name.startswith("ranker.")}
    narrow = arrays | {"ranker.candidates.0.weight": arrays["ranker.candidates.0.weight"][:-1]}
    few = arrays | {"definitions.row": arrays["definitions.row"][:-1]}
    for number, changed in enumerate((without, narrow, few)):
        path = rewritten(saved, tmp_path / f"odd{number}", arrays=save(changed))
        with pytest.raises(InputError, match=r"damaged calibration.*alphita calibrate"):
            Calibration.load(path, index)


def test_another_version_with_other_features_is_refused(index, saved, tmp_path):
    settings = json.loads((saved / "settings.json").read_text(encoding="utf-8"))
    settings["features"] = settings["features"][:-1]
    path = rewritten(saved, tmp_path / "odd", settings=json.dumps(settings).encode())
    with pytest.raises(InputError, match=r"made by another version of alphita.*fit it again: alphita calibrate"):
        Calibration.load(path, index)


@pytest.mark.parametrize("error", [0.03, 0, 1, 2, -1, float("nan"), 0.05000000001])
def test_an_error_without_a_threshold_offers_the_others(fitted, error):
    for kind, name in ((ACCEPT, "error"), (NIL, "nil_error")):
        said = rf"no threshold was tested for an error of {error} \({name}\); choose from 0\.005, 0\.01"
        with pytest.raises(UsageError, match=said):
            fitted.threshold(kind, error)


def test_an_estimated_threshold_takes_the_place_of_one_that_is_not_certified(fitted):
    accept, estimated = {0.005: None, 0.1: 0.4}, {ACCEPT: {0.005: 0.8}}
    given = dataclasses.replace(fitted, accept=accept, nil={0.005: 0.9}, estimated=estimated)
    assert [given.threshold(ACCEPT, error) for error in (0.005, 0.1)] == [0.8, 0.4]
    assert given.threshold(NIL, 0.005) == 0.9
    assert dataclasses.replace(given, estimated={}).threshold(ACCEPT, 0.005) is None


# Answers.


def test_the_order_is_by_score_and_the_best_is_first(index, fitted):
    scored, found = answers(fitted, index)
    table = scored.table
    for request in range(len(table.offsets) - 1):
        rows = list(range(int(table.offsets[request]), int(table.offsets[request + 1])))
        expected = sorted(rows, key=lambda row: (-found.score[row], row))
        assert found.order[rows].tolist() == expected if rows else True
        assert found.top[request] == (expected[0] if rows else -1)
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    assert ((found.nil >= 0) & (found.nil <= 1)).all()


def test_scores_that_differ_by_rounding_alone_are_equal():
    table = SimpleNamespace(request=np.array([0, 0, 0]), offsets=np.array([0, 3]))
    order, top = ordered(table, np.array([1.0, 1.0 + 1e-12, 2.0]))
    assert (order.tolist(), top.tolist()) == ([2, 0, 1], [2])


def test_the_evidence_is_what_it_is_called(index, fitted):
    scored, _ = answers(fitted, index)
    table, features = scored.table, scored.features
    probabilities = fitted.ranker(features.candidates, features.mentions, table.offsets)
    order, top = ordered(table, probabilities.score)
    evidence = evidence_of(table, features, probabilities, order, top)
    assert evidence.shape == (len(top), len(EVIDENCE))
    for request, row in enumerate(top.tolist()):
        if row < 0:
            assert not evidence[request].any()
            continue
        own = probabilities.probability[table.offsets[request] : table.offsets[request + 1]]
        first, *rest = sorted(own.tolist(), reverse=True)
        second = max(rest[0] if rest else 0.0, 1e-9)
        nil = max(float(probabilities.nil[request]), 1e-9)
        expected = [np.log(first), np.log(first / second), np.log(first / nil), np.log(nil / max(1 - nil, 1e-9))]
        np.testing.assert_allclose(evidence[request, :4], expected, atol=1e-9)
        values = dict(zip(EVIDENCE, evidence[request].tolist(), strict=True))
        for name in OF_CANDIDATE:
            assert values[name] == features.candidates[row, NAMES.index(name)]
        for name in OF_MENTION:
            assert values[name] == features.mentions[request, MENTION_NAMES.index(name)]
        is_short = round(np.expm1(values["characters"])) <= SHORT_CAPITALS
        assert values["short_and_not_equal"] == (is_short and not values["equal"])
        share = max(features.candidates[row, NAMES.index("expansion_share")], MIN_SHARE)
        assert values["log_expansion_share"] == (pytest.approx(np.log(share)) if values["expanded"] else 0)


# In use.


def test_a_job_with_filters_says_that_confidence_was_measured_without(calibrated, tmp_path, capsys):
    source = tmp_path / "in.csv"
    source.write_text("mention\n" + "\n".join(MENTIONS) + "\n")
    concept = Index.open(calibrated).segment.concepts.column("id")[0].as_py()
    for name, filters in (("all", None), ("part", Filters(under=(concept,)))):
        normalizer = Normalizer.load(calibrated, encoder=ENCODER, filters=filters)
        run(normalizer, Job(MentionFile(source), tmp_path / f"{name}.csv"))
        assert ("measured without filters" in capsys.readouterr().err) == (name == "part")


def test_an_error_that_is_not_certified_is_accepted_by_estimate_or_not_at_all(index, fitted, calibrated):
    assert fitted.accept[0.005] is None
    for estimated in ({0.005: 0.9}, {}):
        given = dataclasses.replace(fitted, estimated={ACCEPT: estimated})
        normalizer = Normalizer(index, encoder=ENCODER, calibration=given, error=0.005)
        assert (normalizer.thresholds.accept, normalizer.assurance) == (estimated.get(0.005), "estimated")
        accepted = {one.confidence >= 0.9 for one in normalizer.normalize(MENTIONS) if one.decision == "accept"}
        assert accepted == ({True} if estimated else set())
    with pytest.raises(UsageError, match="choose from"):
        Normalizer.load(calibrated, encoder=ENCODER, error=0.03)


def test_what_is_estimated_survives_saving_and_is_not_taken_over(index, fitted, tmp_path):
    shutil.copytree(index.path, tmp_path / "x.index")
    estimated = {ACCEPT: {0.005: 0.75}, NIL: {0.01: 0.5}}
    dataclasses.replace(fitted, estimated=estimated).save(tmp_path / "x.index" / FOLDER)
    source = Index.open(tmp_path / "x.index")
    assert Calibration.load(source.path / FOLDER, source).estimated == estimated
    carried = carry_over(index, lambda: ENCODER, source)
    assert carried.estimated == {}
    assert carried.threshold(ACCEPT, 0.005) is None


def test_what_a_note_denies_is_never_accepted_for_a_name_that_is_near(fitted, tmp_path):
    names = ("inappropriate absence of fever", "no fever at all", "fever")
    rows = [(f"X:{number}", name, "exact") for number, name in enumerate(names)]
    index = build(SmallTerminology(rows), ENCODER, tmp_path / "few.index")
    sure = dataclasses.replace(
        fitted, accept={DEFAULT_ERROR: 0.0}, nil={DEFAULT_ERROR: None}, definitions=None, abbreviations=None
    )
    mentions = ["no absence of fever", "no fever at all", "fever"]
    found = Normalizer(index, encoder=ENCODER, calibration=sure).normalize(mentions, explain=True)
    assert [one.decision for one in found] == ["review", "accept", "accept"]
    assert found[0].explanation.contradictions == ("negation: the mention denies it",)


def test_an_allowed_error_without_a_calibration_is_refused(index, calibrated):
    assert Normalizer.load(calibrated, encoder=ENCODER).error == DEFAULT_ERROR
    assert Normalizer.load(index.path, encoder=ENCODER).thresholds is None
    for path, options in ((index.path, {}), (calibrated, {"ranking": "vectors"})):
        with pytest.raises(UsageError, match=r"an allowed error of 0\.02 needs a calibration"):
            Normalizer.load(path, encoder=ENCODER, error=0.02, **options)


def test_a_learned_ranking_needs_a_calibration(index):
    assert Normalizer(index, encoder=ENCODER).ranking == "vectors"
    with pytest.raises(UsageError, match=r"needs a calibration.*alphita calibrate --index"):
        Normalizer(index, encoder=ENCODER, ranking="learned")


def test_a_calibration_elsewhere_can_be_given(index, saved, fitted):
    given = Normalizer(index, encoder=ENCODER, calibration=saved).normalize(MENTIONS)
    assert given == Normalizer(index, encoder=ENCODER, calibration=str(saved)).normalize(MENTIONS)
    assert given == Normalizer(index, encoder=ENCODER, calibration=fitted).normalize(MENTIONS)


@pytest.mark.parametrize("top_k", [5, 12, 40])
def test_how_many_candidates_are_shown_does_not_change_the_answer(calibrated, top_k):
    normalizer = Normalizer.load(calibrated, encoder=ENCODER, error=0.1)
    one, more = normalizer.normalize(MENTIONS), normalizer.normalize(MENTIONS, top_k=top_k)
    for first, second in zip(one, more, strict=True):
        assert (first.concept_id, first.decision, first.confidence) == (
            second.concept_id,
            second.decision,
            second.confidence,
        )
        assert first.candidates == second.candidates[:1]


def test_what_an_input_defines_is_not_remembered_by_the_calibration(index, fitted):
    normalizer = Normalizer(index, encoder=ENCODER, calibration=fitted)
    before = fitted.abbreviations.to_json()
    normalizer.prepare(["left drall ache (LDA) was seen"])
    assert fitted.abbreviations.to_json() == before
    assert isinstance(normalizer.abbreviations, Abbreviations)
    assert normalizer.abbreviations is not fitted.abbreviations


def test_an_index_without_letters_is_normalised_by_its_calibration(tmp_path):
    path = tmp_path / "x.index"
    index = build(synthetic_terminology(), ENCODER, path, how=Building(letters=False))
    quick_fit(index, ENCODER).save(path / FOLDER)
    results = Normalizer.load(path, encoder=ENCODER).normalize(MENTIONS)
    assert results[0].concept_name == "left drall swelling"
    assert all(result.confidence is not None for result in results if result.candidates)
    with pytest.raises(UsageError, match=r"needs the letters.*built without them; build it again without --no-letters"):
        Normalizer.load(path, encoder=ENCODER, ranking="fusion")
