from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tokens_per_word as bench
from alphita.errors import InputError
from alphita_lab.encoder import vocabulary
from alphita_lab.encoder.wordpieces import open_wordpiece
from tests.tiny import tiny_model, tiny_terminology


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    tiny_model(folder / "before")
    vocabulary.extend(folder / "before", ["pleuro", "##polmonare", "ipotensione"], folder / "after", seed=0)
    tiny_terminology(folder / "t.terminology")
    lines = ["The heart, the lung; pleuropolmonare ipotensione.", "3 heart aches of an ox: a disorder, bleeding 123456"]
    (folder / "notes.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_examples_are_split_as_by_hand(made: Path) -> None:
    before, after = (open_wordpiece(made / name) for name in ("before", "after"))
    # The tiny vocabulary holds letters only.
    assert bench.pieces("Ipotensione", before) == ["i", *(f"##{letter}" for letter in "potensione")]
    assert bench.pieces("Ipotensione", after) == ["ipotensione"]
    assert bench.pieces("pleuropolmonare", after) == ["pleuro", "##polmonare"]
    assert bench.pieces("heart pain", after) == ["heart", "pain"]


def test_figures_are_those_of_the_words(made: Path) -> None:
    before, after = (open_wordpiece(made / name) for name in ("before", "after"))
    words = Counter({"heart": 3, "pleuropolmonare": 2, "ox": 1, "€": 1})
    found = bench.figures(words, before, after)
    # Tokens: 1 of heart, 15 letters, 2 letters, 1 unknown; then 1, 2, 2, 1.
    assert found["tokens_a_word"] == [(3 + 30 + 2 + 1) / 7, (3 + 4 + 2 + 1) / 7]
    assert (found["words"], found["distinct_words"]) == (7, 4)
    assert found["one_token"] == [3 / 7, 3 / 7]
    assert found["unknown"] == [1 / 7, 1 / 7]
    assert found["split_otherwise"] == 2 / 7


def test_what_is_counted(made: Path) -> None:
    like = open_wordpiece(made / "before")
    found = bench.words_in(made / "t.terminology", [made / "notes.txt"], "en", like)
    assert found["names"]["disorder"] == 16
    assert found["corpus"]["heart"] == 2
    assert found["corpus"]["ipotensione"] == 1
    # Of the text what stands in a name too, and is long: not "heart", no number.
    assert found["medical words of the corpus"] == Counter({"disorder": 1, "bleeding": 1})
    assert list(bench.words_in(None, [made / "notes.txt"], "en", like)) == ["corpus"]
    with pytest.raises(InputError, match="no name in the language 'it'"):
        bench.words_in(made / "t.terminology", [], "it", like)
