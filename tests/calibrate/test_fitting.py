"""Fitting ranker and confidence as a whole, on a made-up terminology."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from alphita.answer.calibration_store import Calibration, ordered
from alphita.answer.candidates import RANKINGS
from alphita.answer.decision import ACCEPT
from alphita.answer.normalizer import Normalizer
from alphita.answer.pipeline import Pipeline
from alphita.calibrate import examples, fitting
from alphita.calibrate.examples import (
    Examples,
    Known,
    Label,
    divide,
    every_second,
    held_out,
    is_learned_from,
    labelled,
    training_examples,
)
from alphita.calibrate.fitting import fit
from alphita.calibrate.noise import slip
from alphita.calibrate.scored_examples import see
from alphita.encoder import layout
from alphita.errors import InputError, UsageError
from alphita.index.choice import Building
from alphita.index.learning import is_held_back
from alphita.index.lookup import EXACT, LETTERS, VECTORS
from alphita.index.store import Index, build
from alphita.terminology.splits import Split
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import SmallTerminology, small_terminology

ENCODER = VocabularyEncoder()


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("fit") / "x.index")


@pytest.fixture(scope="module")
def fitted(index) -> Calibration:
    return quick_fit(index, ENCODER, seed=3)


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
    assert set(figures["learned_from"]) == {"synonym", "noise", "noisy synonym", "itself", "removed", "foreign"}
    nil = figures["nil"]
    assert set(nil["recognised"]) == {"removed", "foreign"}
    assert {float(error): one["threshold"] for error, one in nil["certificates"].items()} == fitted.nil
    assert nil["recognised"]["foreign"] > 0.8
    assert nil["error"].startswith("NIL at an allowed error of 5%: ")
    assert nil["lost"] < 0.05
    assert fitted.fields["index_hash"] == index.content_hash
    assert fitted.fields["split_hash"] is None
    assert fitted.fields["seed"] == 3
    share = fitted.figures["learned_from"]["synonym"] / (figures["learned_from"]["synonym"] + tested["synonym"])
    assert abs(share - examples.LEARNED_FROM) < 0.1
    # An error that can be certified has a threshold; what is not is estimated, or not accepted; and nothing is both.
    assert set(fitted.accept) == set(fitting.ERRORS)
    thresholds = {error: threshold for error, threshold in fitted.accept.items() if threshold is not None}
    assert thresholds
    assert all(0.0 <= threshold <= 1.0 for threshold in thresholds.values())
    assert not set(thresholds) & set(fitted.estimated[ACCEPT])


def test_a_half_of_the_concepts_is_tested_with_names_as_they_are_and_with_noise(index):
    to_learn, to_test = divide(index, held_out(index, None, 3), labelled(index, []), 3)
    counts = fitting.counts_of(to_test)
    assert counts["synonym"] == counts["itself"]
    assert 0.9 * counts["itself"] < counts["noise"] < 1.4 * counts["itself"]
    named = sum(counts[kind] for kind in examples.NAMED)
    assert 0.05 < (counts["removed"] + counts["foreign"]) / named < 0.15
    used = {int(one) for one in to_learn.concepts if one >= 0}
    assert not used & {int(one) for one in to_test.concepts if one >= 0}


def test_a_seed_decides_everything(fitted, index):
    again = quick_fit(index, ENCODER, seed=3)
    assert same(fitted, again)
    assert fitted.figures == again.figures
    assert (fitted.accept, fitted.nil, fitted.estimated) == (again.accept, again.nil, again.estimated)
    assert fitted.pictures == again.pictures
    other = quick_fit(index, ENCODER, seed=4)
    assert not same(fitted, other)
    assert other.figures["tested_on"] != fitted.figures["tested_on"]


def test_what_is_tested_on_was_not_learned_from(index):
    """Other strings for the concepts that are tested leave ranker and outcomes as they are."""
    plain = split_of(index)
    learned = [is_learned_from(index, int(row), 0) for row in index.concept_rows(plain.concept_ids)]
    strings = [string if kept else f"{string} altered" for string, kept in zip(plain.strings, learned, strict=True)]
    assert 0 < sum(learned) < len(learned)
    one = quick_fit(index, ENCODER, split=plain)
    other = quick_fit(index, ENCODER, split=Split(strings, plain.concept_ids, plain.parts))
    assert same(one, other)
    for name, values in one.outcomes.to_arrays().items():
        np.testing.assert_array_equal(values, other.outcomes.to_arrays()[name])
    assert one.figures["calibration"] != other.figures["calibration"]


def test_concepts_that_are_tested_on_are_in_no_example_to_learn_from(index):
    strings, concepts = examples.own_synonyms(index, seed=0)
    known = Known(strings, concepts, "")
    learning = np.array([is_learned_from(index, concept, 0) for concept in concepts.tolist()])
    made = training_examples(index, known.take(np.flatnonzero(learning)), 0)
    used = set(made.concepts[made.concepts >= 0].tolist()) | set(made.hidden_concepts.tolist())
    assert len(used) > 100
    assert not used & set(concepts[~learning].tolist())


# The encoder's training.


def trained(index: Index, **facts: object) -> Index:
    other = copy.copy(index)
    other.manifest = index.manifest | {"trained": {"recipe": "coder", **facts}}
    return other


def test_an_encoder_trained_on_all_synonyms_cannot_be_calibrated(index):
    own = trained(index, terminology=index.manifest["terminology_hash"], split=None)
    # A record that does not name its terminology is not trusted.
    for opened, split in ((own, None), (own, split_of(index)), (trained(index), None)):
        with pytest.raises(UsageError, match=r"trained on all synonyms of this terminology.*alphita train"):
            held_out(opened, split, 0)
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


def test_too_few_held_out_strings(index, tmp_path):
    with pytest.raises(UsageError, match="no calibration part; make one with: alphita terminology split"):
        held_out(index, split_of(index, "test"), 0)
    split = split_of(index)
    few = examples.LEAST - 1
    some = Split(split.strings[:few], split.concept_ids[:few], split.parts[:few])
    with pytest.raises(InputError, match=f"only {few} held-out strings name concepts of this index, and"):
        held_out(index, some, 0)
    # Concepts that the index does not have do not count.
    foreign = Split(split.strings, [f"X:{number}" for number in range(len(split))], split.parts)
    with pytest.raises(InputError, match="only 0 held-out strings"):
        held_out(index, foreign, 0)
    small = build(small_terminology(), ENCODER, tmp_path / "small.index")
    with pytest.raises(InputError, match=r"only \d held-out strings"):
        fit(small, lambda: ENCODER)
    names = [("T:1", f"name {number} of the one", "exact") for number in range(300)]
    few = build(SmallTerminology(names), ENCODER, tmp_path / "few.index")
    with pytest.raises(InputError, match=r"the 299 held-out strings are of 1 concepts: too few .*--from OTHER.index"):
        fit(few, lambda: ENCODER)


def test_a_split_is_used_and_remembered(index):
    split = split_of(index)
    found = quick_fit(index, ENCODER, split=split)
    assert found.fields["split_hash"] == split.hash
    assert found.fields["held_out"] == len(split)
    assert "the split's calibration part" in found.figures["population"]
    counts = [found.figures[name]["synonym"] for name in ("learned_from", "tested_on")]
    assert sum(counts) == len(split)


# The other rankings beside the learned one.

PLAIN = ("exact", "letters", "vectors", "fusion")


def named_part(index: Index, split: Split | None = None, labels: Sequence[Label] = (), seed: int = 0) -> Examples:
    """Return the held-out strings and labelled mentions that are tested on and name a concept."""
    tested = divide(index, held_out(index, split, seed), labelled(index, labels), seed)[1]
    kinds = np.isin(tested.kinds, (examples.SYNONYM, examples.LABELLED))
    return tested.take(np.flatnonzero(kinds & (tested.concepts >= 0)))


def test_a_plain_ranking_has_the_accuracy_of_a_normalizer_that_is_given_it(index, tmp_path):
    split = split_of(index)
    apart = build(synthetic_terminology(), ENCODER, tmp_path / "x.index", exclude=split.cleaned)
    strings, concepts = examples.own_synonyms(apart, seed=1)
    ids = apart.segment.concepts.column("id").to_pylist()
    pairs = [(string, ids[row]) for string, row in zip(strings, concepts.tolist(), strict=True)]
    labels = [Label(slip(string, random.Random(string)), one) for string, one in pairs]
    labels += [Label(string[:6], one) for string, one in pairs[:40]]
    found = quick_fit(apart, ENCODER, split=split, labels=labels).figures["rankings"]
    tested = named_part(apart, split, labels)
    wanted = [ids[row] for row in tested.concepts.tolist()]
    assert set(found) == {*PLAIN, "learned"}
    for name in PLAIN:
        results = Normalizer(apart, encoder=ENCODER, ranking=name, floor=-1).normalize(tested.mentions, top_k=5)
        listed = [[one.concept_id for one in result.candidates] for result in results]
        for k in (1, 5):
            right = [one in line[:k] for line, one in zip(listed, wanted, strict=True)]
            assert found[name][f"accuracy@{k}"] == pytest.approx(np.mean(right)), (name, k)
    # What the learned ranking is given beside, words put right, would have flattered them.
    seen = see(Pipeline(apart, lambda: ENCODER, respell=True), tested)
    order, _ = ordered(seen.table, RANKINGS["vectors"].score(seen.table))
    flattered = fitting.places_of(seen.table, order, tested.concepts) < 1
    assert flattered.mean() > found["vectors"]["accuracy@1"] + 0.02


def naive_places(index: Index, some: Examples, similarity: Callable[[str], np.ndarray]) -> list[int]:
    """Return the place of each example's concept by the most similar of its strings, if what is hidden were not there.

    Where concepts are equally near, the right one stands behind.
    """
    segment = index.segment
    owners = [
        segment.term_concept[segment.offsets[row] : segment.offsets[row + 1]].tolist() for row in range(len(index))
    ]
    places = []
    for mention, right, hidden in zip(some.mentions, some.concepts.tolist(), some.hidden_strings.tolist(), strict=True):
        best: dict[int, float] = {}
        for row, value in enumerate(similarity(mention)):
            for concept in owners[row] if row != hidden else ():
                best[concept] = max(best.get(concept, -1.0), round(float(value), 6))
        places.append(sum(value >= best[right] for concept, value in best.items() if concept != right))
    return places


def test_what_is_taken_as_not_there_is_not_there_for_a_plain_ranking(fitted, index):
    some = named_part(index, seed=3)
    assert (some.hidden_strings >= 0).all()
    stored = np.asarray(index.vectors, np.float64)
    places = np.array(naive_places(index, some, lambda mention: stored @ stored[index.rows([mention])[0]]))
    for k in (1, 5):
        assert fitted.figures["rankings"]["vectors"][f"accuracy@{k}"] == pytest.approx((places < k).mean())


@pytest.mark.parametrize("start", [1, 6])
@pytest.mark.parametrize("routes", [EXACT | VECTORS, EXACT | LETTERS])
def test_examples_with_too_few_candidates_are_looked_up_again_deeper(index, routes, start, monkeypatch):
    monkeypatch.setattr(fitting, "EXAMPLES_AT_ONCE", 50)
    some = named_part(index)
    plain = Pipeline(index, lambda: ENCODER)
    found: dict[int, list[int]] = {}
    times = np.zeros(len(some.mentions), int)
    for rows, table in fitting._look_up(plain, some, routes, depth=start):
        times[rows] += 1
        for place, row in enumerate(rows.tolist()):
            found[row] = table.concept[table.offsets[place] : table.offsets[place + 1]].tolist()
    # One string names one concept, and four no more than four: all are looked up three times. Six may be enough.
    assert times.min() == (3 if start == 1 else 1)
    assert times.max() > times.min() or start == 1
    assert all(len(concepts) >= 5 for concepts in found.values())
    # An example's candidates are those of its own question.
    for row in range(len(some.mentions)):
        depth = start * 4 ** (int(times[row]) - 1)
        alone = next(fitting._look_up(plain, some.take([row]), routes, depth=depth))[1]
        assert alone.concept.tolist() == found[row]


# Labels.


def test_labels_are_half_learned_from_and_half_named_part(index, capsys):
    ids = index.segment.concepts.column("id").to_pylist()
    labels = [Label(f"said thing {number}", ids[number]) for number in range(20)]
    with pytest.raises(InputError, match=r"no labelled mention has a concept of this index.*NO:1.*check the ids"):
        quick_fit(index, ENCODER, labels=[Label("a thing", "NO:1"), Label("b thing", "NO:2")])
    labels += [Label("no such thing at all", None), Label("?!", ids[0]), Label("a thing", "NO:1")]
    found = quick_fit(index, ENCODER, labels=labels)
    assert found.figures["learned_from"]["labelled"] == 11
    assert found.figures["tested_on"]["labelled"] == 10  # nothing is left of "?!" after cleaning
    assert "labelled mentions" in found.figures["population"]
    assert found.fields["labels"] == 22
    assert "1 labelled mentions left out: this index has no concept 'NO:1'" in capsys.readouterr().err
    # A mention labelled twice is on one side.
    assert every_second(["a", "b", "a", "c", "b", "a"]).tolist() == [True, False, True, True, False, True]


def test_a_label_that_comes_again_is_no_further_evidence(index, capsys):
    one, two = index.segment.concepts.column("id").to_pylist()[:2]
    labels = [Label("said thing", one)] * 1000 + [Label(" Said  thing", one), Label("said thing", two)]
    found = quick_fit(index, ENCODER, labels=[*labels, Label("nothing", None)])
    assert found.fields["labels"] == 3
    assert found.figures["tested_on"]["labelled"] + found.figures["learned_from"]["labelled"] == 3
    said = capsys.readouterr().err
    assert "1,000 labelled mentions left out: each is the same as another" in said
    assert "1 labels give a mention another concept than a label before" in said


def test_an_index_without_letters_can_be_calibrated_too(tmp_path):
    index = build(synthetic_terminology(), ENCODER, tmp_path / "x.index", how=Building(letters=False))
    found = quick_fit(index, ENCODER)
    rankings = found.figures["rankings"]
    assert rankings["learned"]["accuracy@1"] > rankings["vectors"]["accuracy@1"] > 0
    # Those by letters cannot be chosen here.
    assert set(rankings) == {"exact", "vectors", "learned"}
    for name in ("letters", "fusion"):
        with pytest.raises(UsageError, match="needs the letters"):
            Normalizer(index, encoder=ENCODER, ranking=name)


def test_what_the_encoder_was_trained_on_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("alphita.calibrate.examples.ENOUGH", 40)
    index = build(synthetic_terminology(), ENCODER, tmp_path / "x.index")
    strings, _ = examples.own_synonyms(index, seed=0)
    everything = held_out(index, None, 0)
    assert sorted(everything.strings) == sorted(strings)
    assert everything.origin == "the index's own synonyms, each taken as not there"
    layout.write_learned(index.model_path, strings[::2])
    known = held_out(index, None, 0)
    assert sorted(known.strings) == sorted(strings[1::2])
    assert known.origin == "the index's own synonyms that its encoder did not learn, each taken as not there"
    # With too few that it did not, those that it learned are asked too, and this is told.
    layout.write_learned(index.model_path, strings[20:])
    known = held_out(index, None, 0)
    assert sorted(known.strings) == sorted(strings)
    assert known.origin == (
        "the index's own synonyms that its encoder learned, so that figures are about a point too good, each taken as "
        "not there"
    )


def test_an_encoder_that_kept_strings_back_is_asked_for_these_whatever_it_was_trained_on(tmp_path):
    index = build(synthetic_terminology(), ENCODER, tmp_path / "x.index")
    strings, _ = examples.own_synonyms(index, seed=0)
    trained = {"recipe": "alphita", "terminology": index.manifest["terminology_hash"], "split": None}
    index.manifest["trained"] = trained | {"held_back": False}
    with pytest.raises(UsageError, match="trained on all synonyms of this terminology"):
        held_out(index, None, 0)
    for terminology in (trained["terminology"], "another"):
        index.manifest["trained"] = trained | {"terminology": terminology, "held_back": True}
        known = examples._own(index, 0)
        assert known.strings == [one for one, kept in zip(strings, is_held_back(strings), strict=True) if kept]
        assert known.origin == "the index's own synonyms that its encoder was not taught, each taken as not there"
        with pytest.raises(InputError, match=f"only {len(known.strings)} held-out strings"):
            held_out(index, None, 0)
