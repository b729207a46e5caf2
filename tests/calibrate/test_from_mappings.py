"""What is learned from decisions."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.calibrate import from_mappings as learning
from alphita.calibrate.examples import Label
from alphita.errors import InputError, Rejects
from alphita.index.store import build
from alphita.review import migrate
from alphita_lab.training.sentences.scored_pairs import Triples, read
from tests.doubles import HashEncoder
from tests.review.reviews import add, candidate, row, say, store_of
from tests.review.test_migrate import NEW, OLD, release
from tests.tiny import tiny_terminology


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny_terminology(tmp_path_factory.mktemp("base") / "t.terminology")


def reviewed(mention, concept_id, decision):
    """A settled mention without wrong candidates."""
    return learning.Reviewed(mention, concept_id, "exact" if concept_id else None, (), None, decision, True)


def ids(base):
    """Return each concept's id by its name."""
    return dict(zip(base.concept_names.to_pylist(), base.concept_ids.to_pylist(), strict=True))


@pytest.fixture
def store(base, tmp_path):
    """Thirty rows; every kind of decision among them."""
    of = ids(base)
    pain, ache = of["pain of the heart"], of["swelling of the liver"]
    rows = [
        row(f"mention {n}", candidate(pain, "heart pain"), candidate(ache, "liver oedema", rank=2), number=n)
        for n in range(1, 31)
    ]
    with store_of(tmp_path / "r.sqlite", rows, base.content_hash) as made:
        for n in range(1, 21):
            say(made, n, "accept", pain)
        say(made, 21, "choose", ache)
        say(made, 22, "choose", ache, relation="broad")
        say(made, 23, "choose", of["bleeding of the skin"])
        say(made, 24, "nil")
        say(made, 25, "reject")
        say(made, 26, "skip")
        say(made, 27, "accept", pain)
        say(made, 28, "choose", ache)
        yield made


def test_decisions_are_taken_oldest_first_and_the_newest_fifth_is_held_out(store):
    found = learning.in_time(store)
    settled = [f"mention {n}" for n in (*range(1, 26), 27, 28)]
    assert [one.mention for one in found.learned] == settled[:22]
    # The rejection says nothing of what the mention means.
    assert [one.mention for one in found.held_out] == [one for one in settled[22:] if one != "mention 25"]
    assert found.left_out == {}
    assert [one.decision for one in found.learned] == sorted(one.decision for one in found.learned)


def test_the_time_of_deciding_counts_and_not_the_row(store, base):
    say(store, 1, "choose", ids(base)["swelling of the liver"])
    assert learning.in_time(store).held_out[-1].mention == "mention 1"


def test_wrong_candidates_are_those_passed_over(store):
    found = {one.mention: one for one in [*learning.in_time(store, share=0).learned]}
    assert found["mention 1"].wrong == ()
    assert found["mention 21"].wrong == ("heart pain",)
    assert found["mention 23"].wrong == ("heart pain",)
    assert found["mention 24"].wrong == ("heart pain",)
    assert found["mention 25"].wrong == ("heart pain",)
    assert (found["mention 24"].label, found["mention 25"].label) == (True, False)


def test_what_nobody_looked_at_or_means_several_things_is_left_out(store, base):
    of = ids(base)
    add(
        store,
        [
            row("Mention  1", candidate(of["pain of the eye"], "eye pain")),
            row("mention 2", candidate(of["pain of the heart"], "heart pain")),
            row("sure", candidate(of["pain of the eye"], "eye pain", confidence=0.99)),
        ],
        "h",
        "q",
    )
    say(store, 31, "accept", of["pain of the eye"])
    say(store, 32, "accept", of["pain of the heart"])
    store.bulk("q", "ana", "all", threshold=0.9)
    found = learning.in_time(store, share=0)
    assert found.left_out == {"accepted in bulk": 1, "means several things": 2, "the same mention": 1}
    assert {"mention 1", "sure"}.isdisjoint(one.mention for one in found.learned)
    # Decided again, it is as new as that.
    assert found.learned[-1].mention == "mention 2"


def test_what_followed_a_release_counts_as_what_was_decided_before(tmp_path):
    old, new = release(tmp_path, "one", OLD), release(tmp_path, "two", NEW)
    rows = [row(f"hay {n}", candidate("X:2", "Hay fever", confidence=n / 100), number=n) for n in range(1, 41)]
    with store_of(tmp_path / "r.sqlite", rows, old.content_hash) as store:
        for number in range(1, 21):
            say(store, number, "accept", "X:2")
        store.bulk("p", "ana", "all", threshold=0.3)
        migrate.apply(store, migrate.plan(store, old, new), by="eva")
        found = learning.in_time(store, share=0)
    assert found.left_out == {"accepted in bulk": 11}
    assert {one.concept_id for one in found.learned} == {"X:21"}
    assert len(found.learned) == 20


def test_too_few_decisions_are_an_error(base, tmp_path):
    with store_of(tmp_path / "r.sqlite", [row("one", candidate("T:1", "x"))], "h") as store:
        say(store, 1, "accept", "T:1")
        with pytest.raises(InputError, match="1 mention settled by a person"):
            learning.in_time(store)


def test_the_overlay_adds_synonyms_and_keeps_the_rest(store, base, tmp_path):
    of = ids(base)
    found = learning.in_time(store, share=0).learned
    extra = reviewed("heart ache", of["pain of the heart"], 99)
    gone = reviewed("lost", "T:9999", 99)
    counts = learning.overlay(base, [*found, extra, gone], tmp_path / "o.terminology")
    # 20 + 1 accepted, 4 chosen; "heart ache" is a name already.
    assert counts == {
        "added": 25,
        "a term of its concept already": 1,
        "of a concept that this terminology has not, or has retired": 1,
    }
    made = learning.load_terminology(tmp_path / "o.terminology")
    assert made.n_concepts == base.n_concepts
    assert made.n_terms == base.n_terms + 25
    concept = made.concept(of["swelling of the liver"])
    terms = {term.string: term for term in concept.terms}
    assert (terms["mention 21"].scope, terms["mention 21"].source) == ("exact", "REVIEWED")
    # The concept is broader than the mention: as its term, the mention is narrow.
    assert terms["mention 22"].scope == "narrow"
    assert (terms["mention 21"].language, terms["mention 21"].status) == ("en", "candidate")
    before = base.concept(of["swelling of the liver"])
    assert [term for term in concept.terms if term.source != "REVIEWED"] == before.terms
    assert (concept.name, concept.parents) == (before.name, before.parents)
    trained, _ = made.training_terms()
    strings = {made.terms.column("string")[int(term)].as_py() for term in trained}
    assert "mention 21" in strings
    assert "mention 22" not in strings
    with pytest.raises(InputError, match="no accepted mention is new"):
        learning.overlay(base, [], tmp_path / "p.terminology")


def test_hard_negatives_are_triples_that_recipes_read(store, base, tmp_path):
    found = learning.in_time(store, share=0).learned
    synonym = learning.Reviewed(
        "my pain", ids(base)["pain of the heart"], "exact", ("heart ache", "eye pain"), None, 9, True
    )
    out = tmp_path / "n.csv"
    assert learning.hard_negatives(base, [*found, synonym], out) == 4
    with Rejects() as rejects:
        triples = read(out, rejects)
    assert isinstance(triples, Triples)
    with open(out, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    # Not those of a broader concept, of NIL or of a rejection; no name of the right concept.
    assert rows == [
        ["mention 21", "swelling of the liver", "heart pain"],
        ["mention 23", "bleeding of the skin", "heart pain"],
        ["mention 28", "swelling of the liver", "heart pain"],
        ["my pain", "pain of the heart", "eye pain"],
    ]
    assert learning.hard_negatives(base, [*found, synonym], out, frozenset({"mention 21", "eye pain"})) == 2


def test_labels_are_what_fitting_takes(store):
    found = learning.labels(learning.in_time(store, share=0).learned)
    assert len(found) == 26
    assert Label("mention 24", None) in found
    assert not any(label.mention == "mention 25" for label in found)


def test_the_nearest_are_found_again_by_learned_synonyms(base, tmp_path):
    of = ids(base)
    encoder = HashEncoder(256)
    held = [
        reviewed("zzqx wug two", of["pain of the eye"], 2),
        reviewed("eye pain", of["pain of the eye"], 2),
        learning.Reviewed("of no concept", None, None, (), None, 3, True),
        reviewed("gone", "T:9999", 4),
    ]
    taught = [reviewed("zzqx wug one", of["pain of the eye"], 1)]
    learning.overlay(base, taught, tmp_path / "o.terminology")
    before = learning.found_nearest(base, encoder, held)
    after = learning.found_nearest(learning.load_terminology(tmp_path / "o.terminology"), encoder, held)
    assert before["n"] == after["n"] == 3
    assert (before["accuracy@1"], after["accuracy@1"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert learning.found_nearest(base, encoder, held[2:3]) == {"n": 0.0}


def test_what_a_normaliser_has_right_is_counted(base, tmp_path, monkeypatch):
    of = ids(base)
    normalizer = Normalizer(build(base, HashEncoder(), tmp_path / "x.index"), encoder=HashEncoder())
    held = [
        reviewed("eye pain", of["pain of the eye"], 1),
        reviewed("eye pain", of["pain of the heart"], 2),
        learning.Reviewed("", None, None, (), None, 3, True),
        reviewed("eye pain", "T:9999", 4),
    ]
    assert learning.found_right(normalizer, held) == {"n": 4, "accuracy": 0.5}
    assert learning.found_right(normalizer, []) == {"n": 0.0}

    class Said:
        def __init__(self, result, confidence):
            self.concept_id, self.confidence = result.concept_id, confidence

    class Sure:
        calibration, index = object(), normalizer.index

        def normalize(self, mentions):
            return [
                Said(one, sure) for one, sure in zip(normalizer.normalize(mentions), (0.9, 0.6, 0.8, None), strict=True)
            ]

    found = learning.found_right(Sure(), held)
    assert found["brier"] == pytest.approx(np.mean([0.01, 0.36, 0.04, 0]))
    assert found["log_loss"] == pytest.approx(-np.mean(np.log([0.9, 0.4, 0.8, 1 - 1e-6])))
    assert found["confidence"] == pytest.approx(2.3 / 4)


def test_a_run_that_goes_on_takes_what_it_began_with(store, base, tmp_path):
    found = learning.in_time(store)
    made, negatives, kept, counts = learning.training_input(base, found, tmp_path / "m")
    assert (made.path, negatives) == (tmp_path / "m.terminology", tmp_path / "m.hard_negatives.csv")
    assert counts["hard_negatives"] == negatives.read_text().count("\n") - 1 == 1
    assert (counts["learned"], counts["held_out"], counts["synonyms"]["added"]) == (22, 4, 22)
    strings = set(made.terms.column("string").to_pylist())
    assert {"mention 23", "mention 27", "mention 28"}.isdisjoint(strings)
    assert kept == found
    say(store, 29, "nil")
    # A mention that is learned from is settled again: it is among the newest now, and would be measured on.
    say(store, 1, "choose", ids(base)["swelling of the liver"])
    later = learning.in_time(store)
    assert "mention 1" in [one.mention for one in later.held_out]
    again = learning.training_input(base, later, tmp_path / "m", resume=True)
    assert again.terminology.content_hash == made.content_hash
    assert (again.hard_negatives, again.decisions, again.counts) == (negatives, found, counts)
    assert again.counts["synonyms"]["added"] == 22
    kept_file = tmp_path / "m.decisions.json"
    assert kept_file.stat().st_mode & 0o077 == 0
    kept_file.write_text('{"counts": {}}')
    with pytest.raises(InputError, match=r"m.decisions.json: is damaged .*start again with --force"):
        learning.training_input(base, later, tmp_path / "m", resume=True)


@pytest.mark.parametrize("missing", ["m.hard_negatives.csv", "m.decisions.json"])
def test_a_run_that_ended_before_all_was_there_begins_anew_from_the_decisions_of_now(store, base, tmp_path, missing):
    learning.training_input(base, learning.in_time(store), tmp_path / "m")
    (tmp_path / missing).unlink()
    say(store, 1, "choose", ids(base)["swelling of the liver"])
    later = learning.in_time(store)
    again = learning.training_input(base, later, tmp_path / "m", resume=True)
    assert again.decisions == later
    assert learning.training_input(base, later, tmp_path / "m", resume=True).decisions == later


def test_decisions_of_before_are_not_taken_with_a_new_terminology(store, base, tmp_path, monkeypatch):
    found = learning.in_time(store)
    learning.training_input(base, found, tmp_path / "m")
    with monkeypatch.context() as patched:
        patched.setattr(learning, "hard_negatives", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            learning.training_input(base, found, tmp_path / "m", force=True)
    assert not (tmp_path / "m.decisions.json").exists()
