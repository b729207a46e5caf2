from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita.terminology.store import Terminology
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.text import definition_pairs
from alphita_lab.training.text.definition_pairs import (
    DefinitionPairs,
    HardNegatives,
    groups,
    joined,
    names_as_texts,
    with_names,
)
from alphita_lab.verbalisation.texts import Texts, verbalise
from tests.stanzas import Stanza, defined, ontology

NONE_HELD_OUT = np.empty((0, 2), np.int32)


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    return defined(tmp_path_factory.mktemp("data") / "t.terminology")


@pytest.fixture(scope="module")
def names(terminology: Terminology) -> TrainingNames:
    return TrainingNames(terminology)


@pytest.fixture(scope="module")
def texts(terminology: Terminology) -> Texts:
    return verbalise(terminology)


def texts_of(*rows: tuple[int, str]) -> Texts:
    concepts = np.array([concept for concept, _ in rows], np.int32)
    return Texts(concepts, [text for _, text in rows], np.zeros(len(rows), np.uint8), {})


def test_every_text_comes_once_an_epoch_with_a_name_of_its_concept(names: TrainingNames, texts: Texts) -> None:
    pairs = DefinitionPairs(names, texts, batch=8, seed=3)
    assert pairs.pairs == len(texts) > 32
    drawn = [pairs.draw(number) for number in range(len(texts) // 8)]
    seen = np.concatenate([one.texts for one in drawn])
    assert len(set(seen.tolist())) == len(seen)
    for one in drawn:
        concepts = texts.concepts[one.texts]
        assert (names.offsets[concepts] <= one.names).all()
        assert (one.names < names.offsets[concepts + 1]).all()
        assert len(one.hard) == 0


def test_all_names_are_drawn_in_time_and_all_follows_from_seed_and_number(names: TrainingNames, texts: Texts) -> None:
    pairs, again = (DefinitionPairs(names, texts, batch=16, seed=5) for _ in range(2))
    drawn = [pairs.draw(number) for number in range(60)]
    assert set(np.concatenate([one.names for one in drawn]).tolist()) == set(range(len(names.strings)))
    for number in (59, 3, 17):
        other = again.draw(number)
        for field in ("names", "texts", "group"):
            np.testing.assert_array_equal(getattr(drawn[number], field), getattr(other, field))
    assert (DefinitionPairs(names, texts, batch=16, seed=6).draw(0).texts != drawn[0].texts).any()


def test_weighted_names_are_drawn_by_their_weights(terminology: Terminology, texts: Texts) -> None:
    names = TrainingNames(terminology)
    names.weights = np.ones(len(names.strings))
    names.weights[names.offsets[:-1]] = 8
    pairs = DefinitionPairs(names, texts, batch=32, seed=1)
    drawn = np.concatenate([pairs.draw(number).names for number in range(100)])
    owners = np.searchsorted(names.offsets, drawn, "right") - 1
    three = np.diff(names.offsets)[owners] == 3
    assert (drawn == names.offsets[owners])[three].mean() == pytest.approx(0.8, abs=0.05)


def test_pairs_are_no_negatives_where_concept_name_or_text_is_shared(tmp_path: Path) -> None:
    """Looked at pair by pair: the same group if the concept, the drawn name or the text is shared, else not."""
    stanzas = [
        Stanza(1, ["cold", "common cold"]),
        Stanza(2, ["COLD", "lung disease"]),
        Stanza(3, ["fever"]),
        Stanza(4, ["hot", "heat"]),
        Stanza(5, ["pyrexia"]),
    ]
    names = TrainingNames(ontology(tmp_path / "t.terminology", stanzas))
    texts = texts_of(
        (0, "runny nose"), (0, "sneezing"), (1, "short breath"), (2, "Too warm."), (3, "warm"), (4, "too warm.")
    )
    pairs = DefinitionPairs(names, texts, batch=6, seed=0)
    kinds = set()
    for number in range(40):
        drawn = pairs.draw(number)
        strings = [names.strings[name] for name in drawn.names]
        cold = [strings[i] == "cold" for i in range(6)]
        for i in range(6):
            for j in range(6):
                a, b = texts.concepts[drawn.texts[i]], texts.concepts[drawn.texts[j]]
                same = a == b or {a, b} == {2, 4}
                if {a, b} == {0, 1}:
                    # Through another pair of these concepts too, whose name is the shared one.
                    same = any(cold[k] for k in range(6))
                assert (drawn.group[i] == drawn.group[j]) == same
                kinds.add((int(min(a, b)), int(max(a, b)), bool(same)))
    assert {(0, 1, True), (0, 1, False), (2, 4, True), (2, 3, False)} <= kinds


def test_a_text_that_names_another_concept_too_is_no_negative_of_its_names(tmp_path: Path) -> None:
    stanzas = [Stanza(1, ["cold", "rhinitis"]), Stanza(2, ["COLD", "chill", "frigor"]), Stanza(3, ["fever", "heat"])]
    names = TrainingNames(ontology(tmp_path / "t.terminology", stanzas))
    pairs = DefinitionPairs(names, texts_of((0, "cold"), (1, "chill"), (2, "heat")), batch=3, seed=0)
    drawn_names = set()
    for number in range(40):
        drawn = pairs.draw(number)
        group = dict(zip(drawn.texts.tolist(), drawn.group.tolist(), strict=True))
        drawn_names.add(names.strings[drawn.names[drawn.texts.tolist().index(1)]])
        assert group[0] == group[1] != group[2]
    assert drawn_names == {"cold", "frigor"}


def test_names_as_texts_stand_with_every_other_name_and_never_with_themselves(tmp_path: Path) -> None:
    stanzas = [Stanza(1, ["cold", "common cold", "coryza"]), Stanza(2, ["fever"]), Stanza(3, ["hot", "heat"])]
    names = TrainingNames(ontology(tmp_path / "t.terminology", stanzas))
    defined = texts_of((0, "runny nose"), (1, "too warm"))
    texts = joined(defined, names_as_texts(names, 3))
    assert list(zip(texts.concepts.tolist(), texts.strings, texts.kinds.tolist(), strict=True)) == [
        (0, "runny nose", 0),
        (0, "cold", 3),
        (0, "common cold", 3),
        (0, "coryza", 3),
        (1, "too warm", 0),
        (2, "hot", 3),
        (2, "heat", 3),
    ]
    pairs = DefinitionPairs(names, texts, batch=7, seed=0)
    drawn = [pairs.draw(number) for number in range(60)]
    met = {
        (names.strings[name], texts.strings[text])
        for one in drawn
        for name, text in zip(one.names.tolist(), one.texts.tolist(), strict=True)
    }
    cold = ("cold", "common cold", "coryza")
    assert met == {
        *((a, b) for a in cold for b in cold if a != b),
        *((name, "runny nose") for name in cold),
        ("fever", "too warm"),
        ("hot", "heat"),
        ("heat", "hot"),
    }


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=12))
def test_groups_are_the_connected_parts(keys: list[list[int]]) -> None:
    joined = [[bool(set(a) & set(b)) for b in keys] for a in keys]
    for _ in keys:
        for i in range(len(keys)):
            for j in range(len(keys)):
                joined[i][j] = any(joined[i][k] and joined[k][j] for k in range(len(keys)))
    rows = np.repeat(np.arange(len(keys)), [len(own) for own in keys])
    found = groups(rows, np.array([key for own in keys for key in own]), len(keys))
    assert [[bool(a == b) for b in found] for a in found] == joined


def test_a_batch_is_laid_out_for_the_loss(terminology: Terminology, names: TrainingNames, texts: Texts) -> None:
    hard = HardNegatives(terminology, texts.concepts, count=2, held_out=NONE_HELD_OUT)
    pairs = DefinitionPairs(names, texts, batch=10, seed=2, hard=hard)
    drawn, batch = pairs.draw(4), pairs.batch(4)
    strings = [*names.strings, *texts.strings]
    shown = [strings[term] for term in batch.terms]
    assert len(set(batch.terms.tolist())) == len(batch.terms)
    assert [shown[place] for place in batch.arrays["name"]] == [names.strings[name] for name in drawn.names]
    assert [shown[place] for place in batch.arrays["text"]] == [texts.strings[text] for text in drawn.texts]
    assert [shown[place] for place in batch.arrays["extra"]] == [texts.strings[text] for text in drawn.hard]
    np.testing.assert_array_equal(batch.arrays["group"], drawn.group)
    assert batch.rows == 20 + len(drawn.hard)
    mask = batch.arrays["extra_negative"]
    assert mask.shape == (10, len(drawn.hard))
    assert mask.sum(0).tolist() == [1] * len(drawn.hard)
    assert mask.argmax(0).tolist() == drawn.hard_of.tolist()
    without = DefinitionPairs(names, texts, batch=10, seed=2).batch(4)
    assert without.arrays["extra"].shape == (0,)
    assert without.arrays["extra_negative"].shape == (10, 0)


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Terminology:
    """1 above 2, 3 and 4; 2 above 5 and 6; 5 above 7 and 8; and 3 is a parent of 7 too, so an uncle that is none."""
    parents = {1: [], 2: [1], 3: [1], 4: [1], 5: [2], 6: [2], 7: [5, 3], 8: [5]}
    stanzas = [Stanza(number, [f"thing {number}"], "", above) for number, above in parents.items()]
    return ontology(tmp_path_factory.mktemp("tree") / "t.terminology", stanzas)


@pytest.mark.parametrize(
    ("concept", "expected"), [(7, {4, 6, 8}), (8, {3, 4, 6, 7}), (5, {3, 4, 6}), (2, {3, 4}), (3, {2, 4}), (1, set())]
)
@pytest.mark.parametrize("most", [0, 1000])
def test_hard_negatives_are_siblings_and_ancestors_siblings_never_ancestors(
    tree: Terminology, concept: int, expected: set[int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 7, 3 and 5 are parents and 2 an ancestor; of 3, 7 is below it. With ancestors kept, and found each time."""
    monkeypatch.setattr(definition_pairs, "MAX_ANCESTORS", most)
    hard = HardNegatives(tree, np.arange(8, dtype=np.int32), count=2, held_out=NONE_HELD_OUT)
    rng = np.random.default_rng(0)
    drawn = [hard.draw(np.array([concept - 1]), rng)[0].tolist() for _ in range(300)]
    assert {text + 1 for found in drawn for text in found} == expected
    assert max(map(len, drawn)) == min(2, len(expected))
    assert all(len(set(found)) == len(found) for found in drawn)


def test_held_out_edges_lead_to_no_sibling_but_their_ancestors_are_ruled_out(tree: Terminology) -> None:
    held_out = np.array([[2, 6]], np.int32)
    hard = HardNegatives(tree, np.arange(8, dtype=np.int32), count=3, held_out=held_out)
    rng = np.random.default_rng(0)
    assert {text + 1 for _ in range(200) for text in hard.draw(np.array([6]), rng)[0].tolist()} == {4, 6, 8}
    only = HardNegatives(tree, np.arange(8, dtype=np.int32), count=1, held_out=np.array([[0, 1]], np.int32))
    # 2 has no parent left, so that its siblings are not known.
    assert {text + 1 for _ in range(200) for text in only.draw(np.array([1]), rng)[0].tolist()} == set()


def test_hard_negatives_are_not_of_a_concept_that_the_name_names(tmp_path: Path) -> None:
    stanzas = [
        Stanza(1, ["all"]),
        Stanza(2, ["cold"], "", [1]),
        Stanza(3, ["COLD"], "", [1]),
        Stanza(4, ["hot"], "", [1]),
    ]
    terminology = ontology(tmp_path / "t.terminology", stanzas)
    texts = texts_of((1, "runny nose"), (2, "short breath"), (3, "too warm"))
    hard = HardNegatives(terminology, texts.concepts, count=2, held_out=NONE_HELD_OUT)
    pairs = DefinitionPairs(TrainingNames(terminology), texts, batch=3, seed=0, hard=hard)
    for number in range(20):
        drawn = pairs.draw(number)
        met = {(int(drawn.texts[pair]), int(text)) for pair, text in zip(drawn.hard_of, drawn.hard, strict=True)}
        assert met <= {(0, 2), (1, 2), (2, 0), (2, 1)}
        assert met


def test_without_texts_or_a_hierarchy_the_error_says_what_to_do(tmp_path: Path, names: TrainingNames) -> None:
    with pytest.raises(InputError, match="no text to train on; look at the kinds"):
        DefinitionPairs(names, texts_of(), batch=2, seed=0)
    flat = defined(tmp_path / "flat.terminology", relations=False)
    with pytest.raises(InputError, match=r"no concept has a parent.*hard_negatives=0"):
        HardNegatives(flat, np.arange(4, dtype=np.int32), count=1, held_out=NONE_HELD_OUT)


def test_texts_of_concepts_without_a_name_are_counted(terminology: Terminology, texts: Texts) -> None:
    left_out = frozenset({"pain of the heart", "heart pain", "heart ache"})
    names = TrainingNames(terminology, exclude=left_out)
    kept = with_names(texts, names)
    row = terminology.resolve("T:0000002")
    gone = int((texts.concepts == row).sum())
    assert gone > 0
    assert row not in kept.concepts
    assert len(kept) == len(texts) - gone
    assert kept.counts["of concepts without a name to train"] == gone
