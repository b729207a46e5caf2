"""Fitting ranker and confidence as a whole, on a made-up terminology."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, UsageError
from alphita.index.store import Index, build
from alphita.normalizer import examples, fitting
from alphita.normalizer.abbreviations import Abbreviations
from alphita.normalizer.calibration_store import Calibration
from alphita.normalizer.candidates import DEPTH, LETTERS, VECTORS
from alphita.normalizer.features import MENTION_NAMES, NAMES
from alphita.normalizer.fitting import fit, held_out, see
from alphita.normalizer.labels import Label
from alphita.normalizer.pipeline import Pipeline
from alphita.terminology.splits import Split
from alphita.terminology.text import clean
from tests.doubles import small_terminology
from tests.normalizer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology

ENCODER = VocabularyEncoder()


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("fit") / "x.index")


@pytest.fixture(scope="module")
def fitted(index) -> Calibration:
    return quick_fit(index, ENCODER, seed=3)


@pytest.fixture(scope="module")
def pipeline(index) -> Pipeline:
    return Pipeline(index, lambda: ENCODER, Abbreviations.of_index(index), respell=True)


def split_of(index: Index, part: str = "calibration") -> Split:
    """Return a split that holds out one name of each concept."""
    strings, concepts = examples.own_synonyms(index, seed=0)
    ids = index.segment.concepts.column("id").take(concepts).to_pylist()
    one_each = dict(zip(ids, strings, strict=True))
    return Split(list(one_each.values()), list(one_each), [part] * len(one_each))


def same(one: Calibration, other: Calibration) -> bool:
    left, right = one.ranker.to_arrays(), other.ranker.to_arrays()
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def test_the_ranker_is_better_than_any_single_route(fitted):
    found = fitted.figures["rankings"]
    assert set(found) == {"exact", "letters", "vectors", "fusion", "learned"}
    others = [found[name] for name in ("exact", "letters", "vectors", "fusion")]
    assert found["learned"]["accuracy@1"] > max(one["accuracy@1"] for one in others) + 0.2
    assert found["learned"]["accuracy@5"] > max(one["accuracy@5"] for one in others)
    assert all(one["accuracy@1"] <= one["accuracy@5"] for one in found.values())
    # No held-out string equals one that is there.
    assert found["exact"] == {"accuracy@1": 0.0, "accuracy@5": 0.0}


def test_the_figures_say_what_was_measured_on_what(fitted, index):
    figures = fitted.figures
    tested = figures["tested_on"]
    assert f"{tested['synonym']:,} strings of the index's own synonyms" in figures["population"]
    assert figures["calibration"]["n"] == sum(tested.values())
    assert set(figures["learned_from"]) == {"synonym", "noise", "itself", "removed", "foreign"}
    nil = figures["nil"]
    assert nil["threshold"] == fitted.nil_threshold
    assert set(nil["recognised"]) == {"removed", "foreign"}
    assert nil["recognised"]["foreign"] > 0.8
    assert nil["lost"] < 0.2
    assert fitted.fields["index_hash"] == index.content_hash
    assert fitted.fields["split_hash"] is None
    assert fitted.fields["seed"] == 3
    share = fitted.figures["learned_from"]["synonym"] / (figures["learned_from"]["synonym"] + tested["synonym"])
    assert abs(share - fitting.LEARNED_FROM) < 0.1


def test_an_error_that_can_be_certified_has_a_threshold(fitted):
    assert set(fitted.accept) == set(fitting.ERRORS)
    given = [threshold for threshold in fitted.accept.values() if threshold is not None]
    assert given
    assert all(0.0 <= threshold <= 1.0 for threshold in given)
    # 400 strings cannot certify an error of half a percent.
    assert fitted.accept[0.005] is None


def test_a_seed_decides_everything(fitted, index):
    again = quick_fit(index, ENCODER, seed=3)
    assert same(fitted, again)
    assert fitted.figures == again.figures
    assert (fitted.accept, fitted.nil_threshold) == (again.accept, again.nil_threshold)
    assert fitted.pictures == again.pictures
    other = quick_fit(index, ENCODER, seed=4)
    assert not same(fitted, other)
    assert other.figures["tested_on"] != fitted.figures["tested_on"]


def test_what_is_tested_on_was_not_learned_from(index):
    """Other strings for the concepts that are tested leave ranker, calibrators and NIL threshold as they are."""
    plain = split_of(index)
    learned = [fitting._learned_from(index, int(row), 0) for row in index.concept_rows(plain.concept_ids)]
    strings = [string if kept else f"{string} altered" for string, kept in zip(plain.strings, learned, strict=True)]
    assert 0 < sum(learned) < len(learned)
    one = quick_fit(index, ENCODER, split=plain)
    other = quick_fit(index, ENCODER, split=Split(strings, plain.concept_ids, plain.parts))
    assert same(one, other)
    assert one.nil_threshold == other.nil_threshold
    for group, calibrator in one.calibrators.items():
        for name, values in calibrator.to_arrays().items():
            np.testing.assert_array_equal(values, other.calibrators[group].to_arrays()[name])
    assert one.figures["calibration"] != other.figures["calibration"]


def test_concepts_that_are_tested_on_are_in_no_example_to_learn_from(index):
    strings, concepts = examples.own_synonyms(index, seed=0)
    known = fitting.Known(strings, concepts, "")
    learning = np.array([fitting._learned_from(index, concept, 0) for concept in concepts.tolist()])
    taught = fitting._taught(index, known, learning, 0)
    used = set(taught.concepts[taught.concepts >= 0].tolist()) | set(taught.hidden_concepts.tolist())
    assert len(used) > 100
    assert not used & set(concepts[~learning].tolist())


# The encoder's training.


def trained(index: Index, **facts: object) -> Index:
    other = copy.copy(index)
    other.manifest = index.manifest | {"trained": {"recipe": "coder", **facts}}
    return other


def test_an_encoder_trained_on_all_synonyms_cannot_be_calibrated(index):
    own = trained(index, terminology=index.manifest["terminology_hash"], split=None)
    for split in (None, split_of(index)):
        with pytest.raises(UsageError, match=r"trained on all synonyms of this terminology.*alphita train"):
            held_out(own, split, 0)
    with pytest.raises(UsageError, match="trained on all synonyms"):
        fit(own, lambda: ENCODER)


def test_an_encoder_trained_with_a_split_needs_that_one(index):
    split = split_of(index)
    own = trained(index, terminology=index.manifest["terminology_hash"], split=split.hash)
    with pytest.raises(UsageError, match="give the split it was trained with: --split"):
        held_out(own, None, 0)
    other = Split(split.strings[1:], split.concept_ids[1:], split.parts[1:])
    with pytest.raises(UsageError, match="trained with another split; give that one: --split"):
        held_out(own, other, 0)
    assert held_out(own, split, 0).strings == split.strings


@pytest.mark.parametrize("split", [None, "another"])
def test_an_encoder_trained_on_another_terminology_may_use_the_synonyms(index, split, capsys):
    other = trained(index, terminology="another", split=split)
    assert held_out(other, None, 0).strings == held_out(index, None, 0).strings
    assert "trained on another terminology: if that holds these strings" in capsys.readouterr().err
    assert held_out(other, split_of(index), 0).strings == split_of(index).strings


def test_a_record_that_does_not_name_its_terminology_is_not_trusted(index):
    with pytest.raises(UsageError, match="trained on all synonyms"):
        held_out(trained(index), None, 0)


def test_an_index_tells_what_its_encoder_was_trained_on(index, tmp_path):
    encoder = VocabularyEncoder()
    encoder.folder = tmp_path
    split = split_of(index)
    record = {"recipe": "coder", "terminology": index.manifest["terminology_hash"], "split": split.hash}
    (tmp_path / "training.json").write_text(json.dumps(record))
    built = build(synthetic_terminology(), encoder, tmp_path / "x.index", exclude=split.cleaned)
    with pytest.raises(UsageError, match="give the split it was trained with"):
        fit(built, lambda: encoder)
    found = quick_fit(built, encoder, split=split)
    # The held-out strings are not indexed at all, and found all the same.
    assert found.figures["rankings"]["learned"]["accuracy@1"] > 0.5


def test_a_split_without_a_calibration_part_names_the_command(index):
    with pytest.raises(UsageError, match="no calibration part; make one with: alphita terminology split"):
        held_out(index, split_of(index, "test"), 0)


def test_too_few_held_out_strings(index, tmp_path):
    split = split_of(index)
    few = fitting.LEAST - 1
    some = Split(split.strings[:few], split.concept_ids[:few], split.parts[:few])
    with pytest.raises(InputError, match=f"only {few} held-out strings name concepts of this index; at least"):
        held_out(index, some, 0)
    # Concepts that the index does not have do not count.
    foreign = Split(split.strings, [f"X:{number}" for number in range(len(split))], split.parts)
    with pytest.raises(InputError, match="only 0 held-out strings"):
        held_out(index, foreign, 0)
    small = build(small_terminology(), ENCODER, tmp_path / "small.index")
    with pytest.raises(InputError, match=r"only \d held-out strings"):
        fit(small, lambda: ENCODER)


def test_a_split_is_used_and_remembered(index):
    split = split_of(index)
    found = quick_fit(index, ENCODER, split=split)
    assert found.fields["split_hash"] == split.hash
    assert found.fields["held_out"] == len(split)
    assert "the split's calibration part" in found.figures["population"]
    counts = [found.figures[name]["synonym"] for name in ("learned_from", "tested_on")]
    assert sum(counts) == len(split)


# Labels.


def test_labels_are_half_learned_from_and_half_tested_on(index, capsys):
    ids = index.segment.concepts.column("id").to_pylist()
    labels = [Label(f"said thing {number}", ids[number]) for number in range(20)]
    labels += [Label("no such thing at all", None), Label("?!", ids[0]), Label("a thing", "NO:1")]
    found = quick_fit(index, ENCODER, labels=labels)
    assert found.figures["learned_from"]["labelled"] == 11
    assert found.figures["tested_on"]["labelled"] == 10  # nothing is left of "?!" after cleaning
    assert "labelled mentions" in found.figures["population"]
    assert found.fields["labels"] == 22
    assert "1 labelled mentions left out: this index has no concept 'NO:1'" in capsys.readouterr().err


def test_a_mention_labelled_twice_stands_on_one_side():
    chosen = fitting._every_second(["a", "b", "a", "c", "b", "a"])
    assert chosen.tolist() == [True, False, True, True, False, True]
    assert fitting._every_second([]).tolist() == []


def test_labels_of_unknown_concepts_alone_are_refused(index):
    with pytest.raises(InputError, match=r"no labelled mention has a concept of this index.*NO:1.*check the ids"):
        quick_fit(index, ENCODER, labels=[Label("a thing", "NO:1"), Label("b thing", "NO:2")])


# Leaks.


def lists(index: Index, query: str, hidden: set[int], route: int) -> set[int]:
    """Return the strings that a route gives for a query if `hidden` were not there, from the definitions."""
    strings = list(index.strings)
    if route == VECTORS:
        row = index.rows([query])[0]
        vector = index.vectors[row] if row >= 0 else ENCODER.encode([query])[0]
        score = np.asarray(index.vectors, np.float64) @ vector
    else:
        grams = index.ngrams.vectorize([query])
        score = index.ngrams.pairwise(grams, np.zeros(len(strings), np.int64), np.arange(len(strings)))
    order = [row for row in np.argsort(-score, kind="stable").tolist() if row not in hidden]
    if route == LETTERS:
        order = [row for row in order if score[row] > 0]
    # Where strings are as near as the last one any of them may stand there.
    last = score[order[DEPTH - 1]] if len(order) >= DEPTH else -1.0
    return {row for row in order if score[row] >= last - 1e-6}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_hidden_stands_among_the_candidates(pipeline, index, data):
    strings, concepts = examples.own_synonyms(index, seed=0)
    rows = data.draw(st.lists(st.integers(0, len(strings) - 1), min_size=1, max_size=6))
    some, own = [strings[row] for row in rows], concepts[rows]
    parts = [examples.synonyms(index, some, own), examples.removed(some, own),
             examples.with_noise(index, some, own, hide=True, seed=1)]  # fmt: skip
    asked = examples.join([part for part in parts if part.mentions])
    order = data.draw(st.permutations(range(len(asked.mentions))))
    seen = see(pipeline, asked.take(order))
    table, found = seen.table, seen.examples
    for number in range(len(found.mentions)):
        own_rows = np.flatnonzero(table.request == number)
        assert found.hidden_strings[number] not in table.string[own_rows].tolist()
        assert found.hidden_concepts[number] not in table.concept[own_rows].tolist()
        if found.kinds[number] == examples.SYNONYM:
            assert found.hidden_strings[number] == index.rows([found.mentions[number]])[0] >= 0
        hidden = {int(found.hidden_strings[number])}
        concept = int(found.hidden_concepts[number])
        hidden |= {row for row in range(len(index)) if concept in index.segment.term_concept[
            index.segment.offsets[row] : index.segment.offsets[row + 1]].tolist()}  # fmt: skip
        # As many candidates as there would be if it were not there: no more, for none was to spare.
        asked_itself = own_rows[table.expansion[own_rows] == 0]
        for route in (VECTORS, LETTERS):
            of_route = {int(table.string[row]) for row in asked_itself if table.routes[row] & route}
            assert of_route <= lists(index, clean(found.mentions[number], index.rules), hidden, route)
    right = table.concept == found.concepts[table.request]
    np.testing.assert_array_equal(seen.training.right, right)
    np.testing.assert_array_equal(seen.training.nil, found.concepts < 0)


def test_an_example_is_seen_as_it_would_be_asked(pipeline, index):
    """What hides nothing has the candidates and features of a plain question."""
    mentions = ["drall swelling", "nebbin acke", "hx of sorvet bleeding", "table garden"]
    nothing = np.full(len(mentions), -1)
    hides = examples.removed(["left drall ache"], np.array([7]))
    plain = examples.Examples(mentions, nothing, nothing, nothing, [examples.FOREIGN] * len(mentions))
    seen = see(pipeline, examples.join([plain, hides]))
    asked, places = pipeline.ask(mentions)
    assert places == [0, 1, 2, 3]
    scored = pipeline.candidates(asked)
    end = int(seen.table.offsets[len(mentions)])
    np.testing.assert_array_equal(seen.table.concept[:end], scored.table.concept)
    np.testing.assert_allclose(seen.training.candidates[:end], scored.features.candidates, atol=1e-6)
    np.testing.assert_allclose(seen.training.mentions[: len(mentions)], scored.features.mentions, atol=1e-6)


def test_many_examples_are_seen_in_parts(pipeline, index, monkeypatch):
    strings, concepts = examples.own_synonyms(index, seed=0, most=40)
    asked = examples.join([examples.synonyms(index, strings, concepts), examples.removed(strings[:9], concepts[:9])])
    whole = see(pipeline, asked)
    monkeypatch.setattr(fitting, "EXAMPLES_AT_ONCE", 7)
    parts = see(pipeline, asked)
    for one, other in zip(whole.table, parts.table, strict=True):
        # Queries are counted anew in each part.
        if one is not whole.table.query:
            np.testing.assert_allclose(one, other, atol=1e-6)
    for one, other in zip(whole.training, parts.training, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_examples_with_nothing_in_them_are_left_out(pipeline, index):
    nothing = np.full(3, -1)
    some = examples.Examples(["", "drall ache", " \u200b "], nothing, nothing, nothing, [examples.LABELLED] * 3)
    seen = see(pipeline, some)
    assert seen.examples.mentions == ["drall ache"]
    assert seen.training.candidates.shape[1] == len(NAMES)
    assert seen.training.mentions.shape == (1, len(MENTION_NAMES))


def test_an_index_without_letters_can_be_calibrated_too(tmp_path):
    index = build(synthetic_terminology(), ENCODER, tmp_path / "x.index", letters=False)
    found = quick_fit(index, ENCODER)
    rankings = found.figures["rankings"]
    assert rankings["learned"]["accuracy@1"] > rankings["vectors"]["accuracy@1"] > 0
    assert rankings["letters"] == {"accuracy@1": 0.0, "accuracy@5": 0.0}
