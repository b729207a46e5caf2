"""Phrases that people confirmed in a review become names of an index: whose, how they are marked, and until when."""

from __future__ import annotations

import pyarrow as pa
import pytest

import alphita
from alphita.calibrate.from_mappings import confirmed
from alphita.errors import InputError
from alphita.index.choice import REVIEWED, Choice, ConfirmedName
from alphita.index.sources import index_of
from alphita.mappings.record import REVIEWED as ANSWERED_BY_REVIEW
from alphita.review.store import ReviewStore
from alphita.service import concepts
from tests.cli.command import alphita as command
from tests.review.reviews import add, candidate, row, say, store_of

TABLE = "id,term\nX:1,Headache\nX:1,Cephalgia\nX:2,Fever\nX:3,Cough\nX:4,Insomnia\nX:5,Nausea\n"
# Mention, decision, concept, relation, whether it is learned.
DECIDED = [
    ("brain zaps at night", "choose", "X:1", "exact", True),
    ("COU", "choose", "X:3", "exact", True),
    ("cold sweats", "choose", "X:2", "broad", True),
    ("no idea", "nil", None, "", False),
    ("that is wrong", "reject", None, "", False),
    ("Fever", "choose", "X:4", "exact", True),
    ("old code", "choose", "X:99", "exact", True),
    ("two things", "choose", "X:4", "exact", False),
    ("Two  things", "choose", "X:5", "exact", False),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    (folder / "findings.csv").write_text(TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        yield folder / "findings.csv"


@pytest.fixture
def store(tmp_path):
    rows = [row(mention, candidate("X:5", "Nausea"), number=n) for n, (mention, *_) in enumerate(DECIDED, 1)]
    with store_of(tmp_path / "r.sqlite", rows, "") as made:
        for number, (_, kind, concept, relation, _) in enumerate(DECIDED, 1):
            say(made, number, kind, concept, **({"relation": relation} if relation else {}))
        add(made, [row("sure", candidate("X:5", "Nausea", confidence=0.99))], "", "bulk")
        made.bulk("bulk", "ana", "all", threshold=0.9)
        yield made


def learned(index):
    """Return id, string, source, scope and language of what an index learned."""
    ids = index.segment.concepts.column("id").to_pylist()
    rows = index.segment.terms.filter(pa.array(index.segment.borrowed)).to_pylist()
    named = [one for one in rows if one["source"] == REVIEWED]
    return {(ids[one["concept"]], one["string"], one["scope"], one["language"]) for one in named}


def test_what_a_person_settled_individually_is_learned(store):
    scopes = {"exact": "exact", "broad": "narrow"}
    expected = {(concept, mention, scopes[relation]) for mention, _, concept, relation, taken in DECIDED if taken}
    assert {name[:3] for name in confirmed(store)} == expected
    assert confirmed(store, project="bulk") == confirmed(store, source="RIS") == ()
    assert confirmed(store, source="LAB", project="p") == confirmed(store)


def test_phrases_are_marked_and_are_never_the_terminologys_own(source, store):
    index = index_of(source, Choice(confirmed=confirmed(store)))
    # "Fever" is another concept's name, and there is no X:99.
    names = {("X:1", "brain zaps at night", "exact"), ("X:3", "COU", "exact"), ("X:2", "cold sweats", "narrow")}
    assert learned(index) == {(*name, "en") for name in names}
    assert index.learned == 3
    found = concepts.find_concept("X:1", index, None)
    assert "brain zaps at night" not in str(found)
    assert index.path.stat().st_mode & 0o077 == 0
    assert "reviewed" in index.path.name


def test_a_job_says_what_a_decision_names_that_is_not_there_and_what_contradicts(source, store, tmp_path, capsys):
    (tmp_path / "in.csv").write_text("mention\nold code\n")
    words = [tmp_path / "in.csv", "--to", source, "--mappings", store.address, "--mappings-source", "LAB"]
    assert command("normalize", *words, "-o", tmp_path / "out.csv") == 0
    told = capsys.readouterr().err
    assert f"decisions name 1 concept that {source} lacks, such as 'X:99'; they still answer" in told
    assert "2 rows with the string of another row and another concept; the newest decision answers" in told


def test_a_phrase_is_answered_a_similar_one_improves_and_both_are_taken_back(source, store):
    asked = ["brain zaps at night", "brain zaps", "headache", "cold sweats"]

    def answers():
        results = alphita.normalize(asked, to=source, mappings=store.address, explain=True)
        return [(result.candidates[0].concept_id if result.candidates else None, result) for result in results]

    (exact, first), (similar, _), (own, _), (broader, sweats) = answers()
    assert (exact, similar, own, broader) == ("X:1", "X:1", "X:1", "X:2")
    assert (first.candidates[0].source, sweats.candidates[0].relation) == (REVIEWED, "broad")
    assert "phrase confirmed in a review" in str(first.explanation)
    plain = alphita.normalize(asked, to=source)
    assert [result.concept_id == "X:1" for result in plain[:3]] == [False, False, True]
    assert [result.concept_id for _, result in answers()[:3]] == ["X:1", "X:1", "X:1"]
    say(store, 1, "choose", "X:5")
    assert [concept for concept, _ in answers()[:2]] == ["X:5", "X:5"]
    say(store, 1, "nil")
    assert REVIEWED not in {candidate.source for candidate in answers()[1][1].candidates}


def test_the_index_depends_on_what_stands(source, store):
    before = index_of(source, Choice(confirmed=confirmed(store)))
    say(store, 4, "nil", reviewer="bob")
    assert index_of(source, Choice(confirmed=confirmed(store))).path == before.path
    say(store, 1, "choose", "X:5")
    after = index_of(source, Choice(confirmed=confirmed(store)))
    assert after.path != before.path
    assert index_of(source).learned is None


def test_a_decision_precedes_what_vocabularies_say(source):
    own = Choice(confirmed=(ConfirmedName("X:5", "Pyrexia", "exact", None),))
    assert {name[:2] for name in learned(index_of(source, own))} == {("X:5", "Pyrexia")}
    (result,) = alphita.load(source, confirmed=own.confirmed).normalize(["pyrexia"], top_k=3)
    assert ("X:5", REVIEWED) in {(one.concept_id, one.source) for one in result.candidates}


def test_phrases_that_would_lead_each_other_astray_are_not_learned(source, capsys):
    ids = {"Headache": "X:1", "Fever": "X:2", "Cough": "X:3", "Insomnia": "X:4", "Nausea": "X:5"}
    alike = [ConfirmedName(one, f"{name} (on the sheet of ward 9)", "exact", None) for name, one in ids.items()]
    index = index_of(source, Choice(confirmed=tuple(sorted(alike))))
    assert (index.learned, learned(index)) == (0, set())
    assert "confirmed phrases not learned: they would lead 0 of each other right, and" in capsys.readouterr().err


def test_a_job_says_how_many_phrases_it_learned(source, store, tmp_path, capsys):
    words, out = tmp_path / "words.txt", tmp_path / "out.csv"
    words.write_text("brain zaps\nBrain zaps at night\n")
    assert command("normalize", words, "--to", source, "--mappings", store.address, "-o", out) == 0
    assert "learned from 3 phrases that reviewers confirmed" in capsys.readouterr().out
    similar, equal = out.read_text().splitlines()[1:]
    assert "X:1" in similar
    assert ANSWERED_BY_REVIEW in equal
    index = index_of(source)
    assert command("normalize", words, "--to", index.path, "--mappings", store.address, "-o", out, "--force") == 0
    told = capsys.readouterr()
    assert "so it learns no phrases from the review" in told.err
    assert "learned from" not in told.out


def test_a_store_that_is_none_is_an_error(source, tmp_path):
    (tmp_path / "bad.sqlite").write_text("id,term\n")
    with pytest.raises(InputError, match="not a review store"):
        alphita.load(source, mappings=tmp_path / "bad.sqlite")
    with pytest.raises(InputError, match="no such review store"):
        alphita.load(source, mappings=tmp_path / "none.sqlite")
    with ReviewStore.open(tmp_path / "empty.sqlite", create=True) as store:
        assert alphita.load(source, mappings=store.address).index.learned is None
