from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from alphita.errors import InputError
from alphita_lab.training.terms.mining import NearNames, mined_neighbours, same_words
from alphita_lab.training.terms.names import TrainingNames
from tests.stanzas import Stanza, ontology

# Cleaned names, each with a place on a circle in degrees: what is near has another meaning, or none.
PLACES = {
    "acute pain": 0,
    "pain, acute": 1,
    "chronic pain": 3,
    "ache": 6,
    "long pain": 8,
    "pains, acute": 2,
    "fever": 180,
    "heat": 183,
}


class Circle:
    """Encodes by `PLACES`, turned by `turn` degrees for some."""

    dim = 2

    def __init__(self, turn: dict[str, int] | None = None) -> None:
        self.turn, self.encoded = turn or {}, 0

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        self.encoded += len(strings)
        angles = np.radians([PLACES[one] + self.turn.get(one, 0) for one in strings])
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


@pytest.fixture
def near(tmp_path: Path) -> tuple[NearNames, TrainingNames]:
    stanzas = [
        Stanza(1, ["acute pain", "ache"]),
        Stanza(2, ["chronic pain", "long pain"]),
        Stanza(3, ["fever", "heat"]),
        Stanza(4, ["pain, acute"]),
        Stanza(5, ["pains, acute"]),
    ]
    terminology = ontology(tmp_path / "t.terminology", stanzas)
    names = TrainingNames(terminology)
    return NearNames(terminology, names, tmp_path / "mined", every=10), names


def drawn(near: NearNames, names: TrainingNames, name: str) -> set[str]:
    rng, place = np.random.default_rng(0), names.strings.index(name)
    found = [near.draw(np.array([place]), rng) for _ in range(60)]
    assert all(of.tolist() == [0] for _, of in found)
    return {names.strings[row] for rows, _ in found for row in rows.tolist()}


def test_what_is_near_of_another_concept_is_drawn_but_not_the_same_words(near, monkeypatch) -> None:
    made, names = near
    made.mine(0, Circle())
    assert drawn(made, names, "acute pain") == {"chronic pain", "long pain", "fever", "heat"}
    monkeypatch.setattr("alphita_lab.training.terms.mining.DRAWN_FROM", 2)
    assert drawn(made, names, "acute pain") == {"chronic pain", "long pain"}
    assert drawn(made, names, "fever") == {"long pain", "ache"}


def test_another_vocabulary_is_left_out(near) -> None:
    made, names = near
    made.mine(0, Circle())
    made._vocabulary[names.strings.index("chronic pain")] += 1
    assert "chronic pain" not in drawn(made, names, "acute pain")
    made._vocabulary[:] = np.arange(len(names.strings))
    rows, of = made.draw(np.arange(len(names.strings)), np.random.default_rng(0))
    assert (len(rows), len(of)) == (0, 0)


def test_names_are_mined_when_it_is_time_and_read_again_when_a_run_goes_on(near, tmp_path: Path) -> None:
    made, names = near
    encoder = Circle()
    for step in range(20):
        made.mine(step, encoder)
    assert encoder.encoded == 2 * len(names.strings)
    again = NearNames.__new__(NearNames)
    again.__dict__.update(made.__dict__)
    again._mined = mined_neighbours(names.strings, 32, tmp_path / "mined", exact_up_to=100)
    again.mine(13, encoder)
    assert encoder.encoded == 2 * len(names.strings)
    assert drawn(again, names, "fever") == drawn(made, names, "fever")
    with pytest.raises(InputError, match="neighbours found at step 20 are gone"):
        again.mine(27, encoder)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("acute pain", "pains, acute", True),
        ("cancer of the lung", "lung cancers", True),
        ("pain", "pains", True),
        ("acute pain", "chronic pain", False),
        ("type 1", "type 2", False),
        ("s", "", False),
    ],
)
def test_same_words(one: str, other: str, same: bool) -> None:
    assert (same_words(one) == same_words(other)) == same
