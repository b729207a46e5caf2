from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.index.learning import held_back_of
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean_many
from alphita_lab.recipes import ensemble
from tests.stanzas import Stanza, defined, ontology
from tests.tiny import tiny_model, vectors_of

SMALL: dict[str, Any] = {
    "steps": 8,
    "batch": 12,
    "precision": "fp32",
    "learning_rate": 1e-3,
    "log_every": 1,
    "checkpoint_every": 3,
    "dropout": 0.0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A terminology with definitions, a student, and two teachers that a turn and some noise make of it."""
    made = tmp_path_factory.mktemp("data")
    defined(made / "t.terminology")
    student = TermEncoder.load(tiny_model(made / "student"), precision="fp32", device="cpu")
    for name in ("one", "two"):
        tiny_model(made / name)
        teacher = TermEncoder.load(student.folder, precision="fp32", device="cpu")
        rng = np.random.default_rng(len(name) + ord(name[0]))
        for value in teacher.module.parameters():
            value.data += torch.from_numpy(rng.normal(0, 0.02, tuple(value.shape)).astype(np.float32))
        teacher.module.model.save_pretrained(made / name)
    return made


@pytest.fixture(scope="module")
def terminology(folder: Path) -> Terminology:
    return load_terminology(folder / "t.terminology")


def taught_by(folder: Path, *names: str, **changes: Any) -> ensemble.Config:
    return ensemble.Config(**SMALL | {"teachers": ",".join(str(folder / name) for name in names)} | changes)


def test_the_mean_is_of_vectors_that_are_turned_onto_the_student_s() -> None:
    rng = np.random.default_rng(0)
    own = rng.normal(size=(50, 6)) + 0.5
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    others = []
    for moved in (0.1, 0.3):
        other = own @ turn + rng.normal(size=own.shape) * moved
        others.append(other / np.linalg.norm(other, axis=1, keepdims=True))
    sample = np.arange(0, 50, 2)
    want = np.zeros_like(own)
    for other in others:
        mean, centre = other[sample].mean(0), own[sample].mean(0)
        best, _ = orthogonal_procrustes(other[sample] - mean, own[sample] - centre)
        turned = (other - mean) @ best + centre
        want += turned / np.linalg.norm(turned, axis=1, keepdims=True)
    want /= np.linalg.norm(want, axis=1, keepdims=True)
    found = ensemble.mean_of([other.astype(np.float32) for other in others], sample, own[sample].astype(np.float32))
    np.testing.assert_allclose(found, want, atol=1e-6)
    assert (want * own).sum(1).mean() > 0.9


def test_the_loss_is_the_mean_squared_distance_to_the_teachers_mean(folder, terminology, tmp_path, trained) -> None:
    config = taught_by(folder, "one", "two", steps=1, learning_rate=1e-30, batch=10_000)
    figures = ensemble.train(terminology, str(folder / "student"), tmp_path / "m", config)
    student, one, two = (vectors_of(folder / name, trained[0]) for name in ("student", "one", "two"))
    student, one, two = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (student, one, two))
    target = ensemble.mean_of([one.astype(np.float32), two.astype(np.float32)], np.arange(len(one)), student)
    assert figures["loss"] == pytest.approx(((student - target) ** 2).mean(), rel=1e-3)
    assert artefact.open_manifest(tmp_path / "m", "model")["teachers"] == [
        TermEncoder.load(folder / name, precision="fp32").content_hash for name in ("one", "two")
    ]


def test_names_and_definitions_train_without_what_is_held_out_or_back(folder, terminology, tmp_path, trained) -> None:
    names = set(clean_many(terminology.terms["string"].to_pylist()))
    back = held_back_of(terminology)
    out = sorted(names - back)[:2]
    for number, changes in enumerate(({}, {"hold_back": False, "definitions": False})):
        config = taught_by(folder, "one", steps=1, noise=0, **changes)
        split = Split(out, ["T:1"] * 2, ["test"] * 2)
        ensemble.train(terminology, str(folder / "student"), tmp_path / str(number), config, split=split)
    defined_by = set(trained[0]) - names
    assert back
    assert names - back - set(out) == set(trained[0]) & names
    assert len(defined_by) > 5
    assert all(len(text.split()) > 2 for text in defined_by)
    assert set(trained[1]) == names - set(out)


@pytest.mark.parametrize("other", ["Loss of blood.", "What comes after cardialgia."])
def test_a_definition_in_which_a_held_out_string_stands_does_not_train(
    folder, tmp_path, trained, capsys, other
) -> None:
    terms = ontology(
        tmp_path / "t.terminology",
        [Stanza(1, ["heart pain", "cardialgia"], "What people mean by cardialgia."), Stanza(2, ["bleeding"], other)],
    )
    config = taught_by(folder, "one", steps=1, batch=2, noise=0, dev_synonyms=0, hold_back=False)
    split = Split(["cardialgia"], ["T:0000001"], ["test"])
    ensemble.train(terms, str(folder / "student"), tmp_path / "m", config, split=split)
    left = {other} if other == "Loss of blood." else set()
    assert set(trained[0]) - {"heart pain", "bleeding"} == left
    assert ("trained without definitions" in capsys.readouterr().err) == (not left)


def test_a_teacher_with_other_vectors_is_refused(folder, terminology, tmp_path) -> None:
    tiny_model(tmp_path / "wide", dim=48)
    config = taught_by(folder, "one").model_copy(update={"teachers": str(tmp_path / "wide")})
    with pytest.raises(InputError, match=r"the teacher's vectors have 48 numbers and the student's 32"):
        ensemble.train(terminology, str(folder / "student"), tmp_path / "m", config)


def test_no_teacher_is_an_error_that_says_what_to_set(folder, terminology, tmp_path) -> None:
    with pytest.raises(UsageError, match="--set teachers=MODEL,MODEL"):
        ensemble.train(terminology, str(folder / "student"), tmp_path / "m", ensemble.Config(**SMALL))
