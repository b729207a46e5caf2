from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import multilingual as bench
from alphita.errors import InputError
from alphita.terminology.splits import Split, hold_out_concepts, hold_out_synonyms
from alphita.terminology.store import Terminology
from tests.doubles import HashEncoder
from tests.tables import terminology_of

ROWS = [
    # concept, string, language, preferred, scope, status
    ("T:1", "Cardiac pain", "en", False),
    ("T:1", "Heart pain", "en", True),
    ("T:1", "Angina", "en", False),
    ("T:1", "Heart", "en", False, "broad"),
    ("T:1", "Dolore cardiaco", "it", True),
    ("T:1", "dolore  Cardiaco", "it", False),
    ("T:1", "Angina", "it", False),
    ("T:1", "Herzschmerz", "de", True, "exact", "machine"),
    ("T:1", "Mal di cuore", "it", False, "exact", "candidate"),
    ("T:1", "Cuore", "it", False, "related"),
    ("T:2", "Skin pain", "en", True),
    ("T:2", "Dermal pain", "en", False),
    ("T:2", "Angina", "en", False),
    ("T:2", "Dolore della pelle", "it", True),
    ("T:3", "Bone pain", "en", True),
    ("T:3", "Schmerz", "de", True),
    ("T:3", "Old pain", "en", False, "exact", "official", "obsolete"),
    ("T:4", "Gone", "en", True),
    ("T:4", "Andato", "it", True),
    ("T:4", "Lost", "en", False),
]


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    return terminology_of(ROWS, tmp_path_factory.mktemp("bench") / "t.terminology", retired=["T:4"])


def held(terminology: Terminology, *ids: str) -> Split:
    """Return a split like those of `hold_out_concepts`, of these concepts."""
    every = hold_out_concepts(terminology, fraction=1.0, seed=0)
    rows = [row for row, concept in enumerate(every.concept_ids) if concept in ids]
    chosen = [[column[row] for row in rows] for column in (every.strings, every.concept_ids, every.parts)]
    return Split(*chosen, every.facts | {"held_out_concepts": len(ids)})


def test_what_is_asked_and_searched(terminology: Terminology) -> None:
    given = bench.questions(terminology, held(terminology, "T:1", "T:3"))
    named = dict(zip(given.names, given.concepts, strict=True))
    # Exact, official names of live concepts; a homonym stands once, with both concepts.
    assert named == {
        "cardiac pain": {0},
        "heart pain": {0},
        "angina": {0, 1},
        "skin pain": {1},
        "dermal pain": {1},
        "bone pain": {2},
    }
    # Not the machine's, the candidate, the related one, the one spelt as in English, nor those of T:2.
    assert given.asked["it"] == ["dolore cardiaco"]
    assert given.asked["de"] == ["schmerz"]
    assert (given.answers["it"], given.answers["de"]) == ([0], [2])
    assert given.untranslated == {"de": 0, "it": 1}
    assert given.official == {"de": 1, "it": 4}
    # One English synonym a concept: not the preferred one, not the homonym, none of a concept of a single name.
    assert dict(zip(given.asked[bench.ALL], given.answers[bench.ALL], strict=True)) == {
        "cardiac pain": 0,
        "dermal pain": 1,
    }
    assert given.asked[bench.HELD_OUT] == ["cardiac pain"]


def test_other_splits_are_refused(terminology: Terminology) -> None:
    with pytest.raises(InputError, match="does not hold out whole concepts"):
        bench.questions(terminology, hold_out_synonyms(terminology, fraction=0.5, seed=0))
    split = held(terminology, "T:1")
    other = Split(split.strings, split.concept_ids, split.parts, split.facts | {"terminology_hash": "x"})
    with pytest.raises(InputError, match="another terminology"):
        bench.questions(terminology, other)


def test_a_score_is_that_of_a_loop(terminology: Terminology, monkeypatch) -> None:
    monkeypatch.setattr(bench, "BLOCK", 2)
    given = bench.questions(terminology, held(terminology, "T:1", "T:2", "T:3"))

    class Encoder(HashEncoder):
        def encode(self, strings: list[str], *, show_progress: bool = False) -> np.ndarray:
            return 2 * super().encode(strings)

    encoder = Encoder(dim=256)
    expected = {}
    for group, queries in given.asked.items():
        expected[group] = []
        for query, answer in zip(queries, given.answers[group], strict=True):
            among = [name for name in given.names if not (group.startswith("English") and name == query)]
            nearest = max(among, key=lambda name: float(encoder.encode([query])[0] @ encoder.encode([name])[0]))
            expected[group].append(int(answer in given.concepts[given.names.index(nearest)]))
    assert bench.score(encoder, given) == expected
    assert {0, 1} == {one for of_group in expected.values() for one in of_group}


def cell(right: dict[str, list[int]], **training: Any) -> dict[str, Any]:
    return {"right": right, "training": training}


def test_gains_and_means_are_those_of_the_numbers(monkeypatch) -> None:
    groups = {"it": 4, "ja": 2, "nna": 2, bench.ALL: 4}
    given = SimpleNamespace(
        asked={group: ["x"] * n for group, n in groups.items()},
        official={"it": 1200, "ja": 5000, "nna": 3},
        untranslated={"it": 1, "ja": 0, "nna": 0},
    )
    before = [
        cell({"it": [1, 0, 0, 0], "ja": [0, 0], "nna": [1, 1], bench.ALL: [1, 1, 1, 0]}),
        cell({"it": [0, 0, 0, 0], "ja": [1, 0], "nna": [1, 1], bench.ALL: [1, 1, 1, 0]}),
    ]
    after = [
        cell({"it": [1, 1, 1, 0], "ja": [0, 0], "nna": [0, 0], bench.ALL: [1, 1, 1, 0]}, pairs={"it": 7}),
        cell({"it": [1, 1, 0, 0], "ja": [0, 1], "nna": [0, 0], bench.ALL: [1, 1, 0, 0]}, pairs={"it": 7}),
    ]
    rows = bench.rows_of_table(given, before, after)
    assert [row["group"] for row in rows] == ["ja", "it", "nna", bench.ALL]
    by_group = {row["group"]: row for row in rows}
    assert by_group["it"]["before"] == [0.25, 0.0]
    assert by_group["it"]["after"] == [0.75, 0.5]
    assert by_group["it"]["gain"] == pytest.approx(0.375)
    assert by_group[bench.ALL]["gain"] == pytest.approx(-0.125)
    low, high = by_group["it"]["gain_interval"]
    assert low < 0.375 < high
    assert [by_group[group]["trained"] for group in ("it", "ja")] == [True, False]
    found = {row["group"]: row for row in bench.means(rows)}
    assert [row["languages"] for row in found.values()] == [["ja", "it"], ["it"], ["it"]]
    assert found["mean of languages with 1,000"]["gain"] == pytest.approx((0.375 + 0.25) / 2)
    assert found["mean of languages with 1,000"]["before"] == pytest.approx([0.125, 0.25])
    assert found["mean of those in Latin script"]["gain"] == pytest.approx(0.375)
    # Without a trained model: what the others score.
    plain = bench.rows_of_table(given, before, [])
    assert "gain" not in plain[0]
    assert bench.means(plain)[0]["before"] == pytest.approx([0.125, 0.25])
