from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alphita import artefact
from alphita.errors import InputError
from alphita_lab.training.terms import distillation
from alphita_lab.training.terms.distillation import TargetBatches, make, mean_vectors, read
from tests.doubles import HashEncoder
from tests.reference import distillation as reference

NAMES = (["heart pain", "pain of the heart", "fever", "a cold", "leg"], np.array([0, 0, 1, 2, 3]))
TEXTS = (["harm of what pumps", "too warm", "warmth", "runny nose"], np.array([0, 1, 1, 2]))
FACTS = {"terminology": "t"}


class Loud(HashEncoder):
    """An encoder whose vectors have lengths of their own, as those of models that do not normalise."""

    def encode(self, strings):
        return super().encode(strings) * np.array([[1 + len(string)] for string in strings], np.float32)


@pytest.mark.parametrize("at_once", [65_536, 2, 1])
def test_means_are_of_vectors_at_length_1(tmp_path: Path, monkeypatch, at_once: int) -> None:
    monkeypatch.setattr(distillation, "AT_ONCE", at_once)
    found = mean_vectors(Loud(16), *TEXTS, 4, tmp_path / "x.npy")
    single = {text: HashEncoder(16).encode([text])[0] for text in TEXTS[0]}
    expected = [single[TEXTS[0][0]], (single[TEXTS[0][1]] + single[TEXTS[0][2]]) / 2, single[TEXTS[0][3]], np.zeros(16)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_targets_are_the_references(tmp_path: Path) -> None:
    """PCA of the means of name and text at length 1; the concept without a text has its name alone."""
    encoder = Loud(8)
    make(tmp_path / "targets", encoder, NAMES, TEXTS, 4, dim=2, facts=FACTS)
    names = mean_vectors(encoder, *NAMES, 4, tmp_path / "n.npy")
    texts = mean_vectors(encoder, *TEXTS, 4, tmp_path / "t.npy")
    z = reference.mixed(names, texts, [True, True, True, False])
    mean, covariance = reference.covariance(z)
    _, vectors = reference.leading(covariance, 2)
    expected = (np.array(z) - mean) @ vectors.T
    found = read(tmp_path / "targets")
    np.testing.assert_allclose(np.abs(found.values), np.abs(expected), atol=1e-4)
    assert found.components.shape == (2, 8)
    manifest = artefact.verify(tmp_path / "targets", "targets")
    assert sorted(manifest["files"]) == ["components.npy", "explained.npy", "mean.npy", "values.npy"]


def test_they_are_made_once_and_others_are_refused(tmp_path: Path) -> None:
    folder, encoder = tmp_path / "targets", HashEncoder(8)
    make(folder, encoder, NAMES, TEXTS, 4, dim=2, facts=FACTS)
    before, encoded = artefact.hash_file(folder / "values.npy"), len(encoder.encoded)
    make(folder, encoder, NAMES, TEXTS, 4, dim=2, facts=FACTS)
    assert len(encoder.encoded) == encoded
    assert artefact.hash_file(folder / "values.npy") == before
    for teacher, dim, facts in ((HashEncoder(8, 1), 2, FACTS), (encoder, 3, FACTS), (encoder, 2, {"terminology": "u"})):
        with pytest.raises(InputError, match="of another teacher, terminology or config"):
            make(folder, teacher, NAMES, TEXTS, 4, dim=dim, facts=facts)


def test_too_many_numbers_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"8 numbers, fewer than the targets.*set dim=8 or less"):
        make(tmp_path / "targets", HashEncoder(8), NAMES, TEXTS, 4, dim=9, facts=FACTS)
    with pytest.raises(InputError, match="no such targets"):
        read(tmp_path / "targets")


def test_batches_hold_every_string_once_an_epoch_with_its_concepts_target() -> None:
    owners, values = np.array([0, 0, 1, 2, 0, 2]), np.arange(6, dtype=np.float32).reshape(3, 2)
    batches = TargetBatches(owners, values, batch=4, seed=7)
    seen: list[int] = []
    for number in range(3):
        batch = batches.batch(number)
        rows = batch.terms[batch.arrays["place"]]
        np.testing.assert_array_equal(batch.arrays["target"], values[owners[rows]])
        assert batch.rows == len(rows) == 4
        assert len(set(batch.terms.tolist())) == len(batch.terms)
        seen += rows.tolist()
    assert sorted(seen[:6]) == sorted(seen[6:]) == [0, 1, 2, 3, 4, 5]
    again = TargetBatches(owners, values, batch=4, seed=7).batch(2)
    np.testing.assert_array_equal(again.terms, batch.terms)
