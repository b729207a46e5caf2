from __future__ import annotations

import numpy as np
import pytest

from alphita.config import resolve
from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology
from alphita_lab.recipes import coder
from alphita_lab.training.engine.settings import language_weights
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.terms.samplers import TripleSampler
from tests.tables import terminology_of
from tests.tiny import tiny_terminology


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    """Ten concepts with a name in English, two in Italian and one in German; one name is the same in all."""
    rows = [
        (f"T:{number}", name, language)
        for number in range(10)
        for name, language in (
            (f"disease {number}", "en"),
            (f"malattia {number}", "it"),
            (f"morbo {number}", "it"),
            (f"Krankheit {number}", "de"),
            (f"x{number}", "en"),
            (f"x{number}", "it"),
        )
    ]
    return terminology_of(rows, tmp_path_factory.mktemp("names") / "t.terminology")


def test_without_languages_all_names_train_alike(terminology: Terminology) -> None:
    names = TrainingNames(terminology)
    assert len(names.strings) == 50  # x0 to x9 once each
    assert names.weights is None


def test_only_the_languages_asked_for_train_each_name_with_its_weight(terminology: Terminology) -> None:
    names = TrainingNames(terminology, languages={"it": 4.0, "de": 1.0})
    assert names.weights is not None
    found = dict(zip(names.strings, names.weights.tolist(), strict=True))
    assert len(found) == 40
    assert found["malattia 3"] == found["x3"] == 4.0
    assert found["krankheit 3"] == 1.0
    assert "disease 3" not in found
    assert np.diff(names.offsets).tolist() == [4] * 10


def test_a_heavier_language_is_drawn_more_readily(terminology: Terminology) -> None:
    names = TrainingNames(terminology, languages={"it": 3.0, "de": 1.0})
    triples = np.array([[0, 0, 1], [1, 0, 0]], np.int32)
    sampler = TripleSampler(triples, names.offsets, k=2, m=1, seed=0, weights=names.weights)
    drawn = [names.strings[term] for number in range(2000) for term in sampler.batch(number).head_term]
    german = sum(name.startswith("krankheit") for name in drawn) / len(drawn)
    assert german == pytest.approx(1 / (1 + 3 * 3), abs=0.02)


def test_a_language_without_names_is_a_clear_error(terminology: Terminology) -> None:
    with pytest.raises(InputError, match=r"language 'fr'.*its languages are de, en, it"):
        TrainingNames(terminology, languages={"fr": 1.0})
    with pytest.raises(InputError, match="no name is left"):
        TrainingNames(terminology, exclude=frozenset(TrainingNames(terminology).strings))


def test_a_language_takes_its_regions_each_with_the_narrowest_weight(tmp_path) -> None:
    tagged = [("colour", "en-GB"), ("color", "en-US"), ("hue", "en"), ("tinta", "it"), ("farbe", "de")]
    terminology = terminology_of([("T:1", *one) for one in tagged], tmp_path / "t.terminology")
    names = TrainingNames(terminology, languages={"en": 1.0, "en-GB": 4.0, "it": 2.0})
    assert names.weights is not None
    found = dict(zip(names.strings, names.weights.tolist(), strict=True))
    assert found == {"colour": 4.0, "color": 1.0, "hue": 1.0, "tinta": 2.0}
    assert names.languages == ["en", "en-GB", "en-US", "it"]
    assert TrainingNames(terminology, languages={"en-US": 1.0}).strings == ["color"]
    # A region is not its language.
    with pytest.raises(InputError, match="in the language 'it-IT'"):
        TrainingNames(terminology, languages={"en": 1.0, "it-IT": 1.0})


@pytest.mark.parametrize(
    ("text", "expected"), [("", {}), ("en", {"en": 1.0}), ("en:1, ita:4.5", {"en": 1.0, "it": 4.5})]
)
def test_languages_are_read(text: str, expected: dict[str, float]) -> None:
    assert language_weights(text) == expected


@pytest.mark.parametrize("text", ["xx1", "en:0", "en:-1", "en:many", "en:nan", "en:inf"])
def test_impossible_languages_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="languages"):
        resolve(coder.Config, sets=[f"languages={text}"])


def test_noisy_twins_are_names_of_their_concepts_and_weigh_what_these_do(terminology, monkeypatch) -> None:
    monkeypatch.setattr("alphita_lab.training.terms.names.noisy", lambda string, _: f"{string} Nos")
    plain = TrainingNames(terminology, languages={"en": 1.0, "it": 3.0})
    names = TrainingNames(terminology, languages={"en": 1.0, "it": 3.0}, noise=0.5, seed=3)
    assert 5 < names.twins == len(names.strings) - len(plain.strings) < 25
    weights = dict(zip(names.strings, names.weights.tolist(), strict=True))
    for concept in range(10):
        own = plain.strings[plain.offsets[concept] : plain.offsets[concept + 1]]
        found = names.strings[names.offsets[concept] : names.offsets[concept + 1]]
        assert found[: len(own)] == own
        for twin in found[len(own) :]:
            name = twin.removesuffix(" nos")  # cleaned
            assert name != twin
            assert name in own
            assert weights[twin] == weights[name]


def test_the_seed_decides_on_twins(terminology: Terminology) -> None:
    one, same, other = (TrainingNames(terminology, noise=0.5, seed=seed).strings for seed in (3, 3, 4))
    assert one == same != other


def test_a_twin_is_never_a_string_that_means_something_or_must_not_train(terminology, monkeypatch) -> None:
    plain = TrainingNames(terminology, languages={"en": 1.0}, dev=3)
    [dev, *_] = plain.dev_strings
    # A held-out string, a dev synonym, a name in a language that does not train, one of these names, and nothing.
    made = ["held out", dev, "malattia 3", plain.strings[0], " "]
    for string in made:
        monkeypatch.setattr("alphita_lab.training.terms.names.noisy", lambda *_, string=string: string)
        names = TrainingNames(
            terminology, languages={"en": 1.0}, dev=3, noise=1.0, exclude=frozenset(["held out"]), seed=0
        )
        assert (names.twins, names.strings) == (0, plain.strings)


def test_a_twin_of_two_concepts_is_left_out_and_one_that_comes_twice_stands_once(terminology, monkeypatch) -> None:
    monkeypatch.setattr("alphita_lab.training.terms.names.noisy", lambda *_: "sick")
    assert TrainingNames(terminology, noise=1.0).twins == 0
    monkeypatch.setattr("alphita_lab.training.terms.names.noisy", lambda string, _: f"sick {string[-1]}")
    names = TrainingNames(terminology, noise=1.0)
    assert names.twins == 10
    for concept in range(10):
        own = names.strings[names.offsets[concept] : names.offsets[concept + 1]]
        assert own[-1] == f"sick {concept}"
        assert len(set(own)) == len(own)


class Letters:
    """An encoder of strings by their letters alone; remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    def encode(self, strings: list[str]) -> np.ndarray:
        self.given.append(strings)
        found = np.zeros((len(strings), 128), np.float32)
        for row, string in enumerate(strings):
            for letter in string:
                found[row, ord(letter) % 128] += 1
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_dev_synonyms_that_cannot_be_had_are_a_clear_error(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no synonym can be held out.*set dev_synonyms=0"):
        TrainingNames(tiny_terminology(tmp_path / "t.terminology", synonyms=False), dev=5)


def test_dev_synonyms_are_searched_among_the_names_as_they_are(terminology: Terminology) -> None:
    plain, noised = TrainingNames(terminology, dev=6), TrainingNames(terminology, dev=6, noise=1.0)
    assert noised.twins > 10
    encoders = Letters(), Letters()
    assert plain.dev_accuracy(encoders[0]) == noised.dev_accuracy(encoders[1])
    assert encoders[0].given == encoders[1].given == [plain.strings, plain.dev_strings]
