"""Migration: hand-made releases in which every outcome happens once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alphita.errors import UsageError
from alphita.review import migrate
from alphita.review import rows as stored_rows
from alphita.review.migrate import REASONS
from alphita.review.records import Busy
from alphita.terminology.changes import changes
from alphita.terminology.loaders import obo, omop
from tests.review.reviews import add, candidate, decisions, row, say, store_of
from tests.tables import loaded
from tests.terminology import omop_download as download
from tests.terminology.omop_download import related, write_download

pytestmark = pytest.mark.usefixtures("each_database")


def table(name):
    """Return the lines of a table beside this file, without its head."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[1:]]


# id, name, synonyms, further lines
OLD, NEW = (
    [
        (id, label, [one for one in names.split("|") if one], more.replace("|", "\n"))
        for of, id, label, names, more in lines
    ]
    for lines in ([line for line in table("releases.tsv") if line[0] == release] for release in ("old", "new"))
)
ROWS = [(mention, concept or None, term, kind) for mention, concept, term, kind, *_ in table("migrated_rows.tsv")]
OUTCOMES = {mention: (outcome, *more) for mention, _, _, _, outcome, *more in table("migrated_rows.tsv") if outcome}


def release(folder, name, concepts):
    """Write and open a terminology."""
    lines = ["format-version: 1.2", f"data-version: {name}", ""]
    for concept, label, synonyms, more in concepts:
        lines += [
            "[Term]",
            f"id: {concept}",
            f"name: {label}",
            *(f'synonym: "{synonym}" EXACT []' for synonym in synonyms),
        ]
        lines += [more, ""] if more else [""]
    source = folder / f"{name}.obo"
    source.write_text("\n".join(lines), encoding="utf-8")
    return loaded(obo, [source], folder / f"{name}.terminology")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    return release(tmp_path_factory.mktemp("old"), "one", OLD)


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    return release(tmp_path_factory.mktemp("new"), "two", NEW)


def decided(store):
    """Decide as `ROWS` says."""
    for number, (_, concept, _, kind) in enumerate(ROWS, 1):
        say(store, number, kind, None if kind in ("nil", "reject") else concept)


def rows():
    """Return `ROWS` as rows, each with its answer."""
    return [
        row(mention, candidate(concept or "X:7", term), number=number, frequency=10, code=f"c{number}")
        for number, (mention, concept, term, _) in enumerate(ROWS, 1)
    ]


@pytest.fixture
def store(old, tmp_path):
    with store_of(tmp_path / "r.sqlite", rows(), old.content_hash) as made:
        decided(made)
        yield made


def test_every_decision_has_its_outcome_and_everything_else_stands(store, old, new, monkeypatch):
    monkeypatch.setattr(stored_rows, "AT_ONCE", 3)
    planned = migrate.plan(store, old, new)
    assert {change.mention: (change.fate, change.reason, change.new_concept) for change in planned.changes} == OUTCOMES
    assert planned.parts[0].standing == len(ROWS) - len(OUTCOMES)
    assert {change.reason for change in planned.changes} | {"beside", "prefix", "no longer standard", "domain"} == set(
        REASONS
    )
    assert len(decisions(store)) == len(ROWS)
    details = {change.mention: change.detail for change in planned.changes}
    assert details["hayfever"] == "X:2 -> X:20 -> X:21"
    assert details["deaf"] == "the old name is a synonym now"
    assert details["no smell"] == "its replacement leads in a circle"
    assert details["coryza, acute"] == "'Coryza' is a term of these now"
    names = {change.mention: (change.old_name, change.new_name) for change in planned.changes}
    assert names["dizzy"] == ("Vertigo", "Spinning vertigo | Swaying vertigo")
    assert names["wax in ear"] == ("Wax plug", "Cerumen impaction")


def test_a_mention_that_has_a_concept_of_its_own_now_does_not_follow_another(old, new, tmp_path):
    two = [row("Burning mouth", candidate("X:3", "Cerumen"), code="1"), row("wax", candidate("X:3", "Cerumen"))]
    with store_of(tmp_path / "r.sqlite", two, old.content_hash) as store:
        for number in (1, 2):
            say(store, number, "accept", "X:3")
        found = migrate.plan(store, old, new).changes
    assert [(one.mention, one.fate, one.reason, one.old_name, one.new_concept) for one in found] == [
        ("Burning mouth", "reopened", "newly named", "Wax plug", "X:26"),
        ("wax", "follows", "merged", "Wax plug", "X:22"),
    ]


def test_what_is_applied_adds_decisions_and_changes_none(store, old, new):
    before = decisions(store)
    assert migrate.apply(store, migrate.plan(store, old, new), by="eva") == 1
    assert decisions(store)[: len(before)] == before
    standing = {one[0]: store.standing(number) for number, one in enumerate(ROWS, 1)}
    assert standing["hayfever"].concept_id == "X:21"
    assert standing["hayfever"].settled
    assert standing["wax in ear"].concept_id == "X:22"
    assert standing["ear ache"].concept_id == "X:1"
    for mention, (fate, _, _) in OUTCOMES.items():
        assert (standing[mention].state == "open") == (fate == "reopened"), mention
    written = standing["hayfever"].decisions[0]
    assert (written.reviewer, written.relation, written.concept_name) == ("ana", "exact", "Allergic rhinitis")
    assert (written.terminology, written.release) == (new.content_hash, "two")
    assert written.comment == "migration: X:2 replaced in two; run by eva"


def test_of_a_row_that_is_reopened_all_reviewers_look_again(store, old, new):
    say(store, 4, "choose", "X:1", "ben")
    say(store, 5, "choose", "X:2", "ben")
    planned = migrate.plan(store, old, new)
    found = {
        (change.row, change.reviewer): (change.fate, change.reason)
        for change in planned.changes
        if change.row in (4, 5)
    }
    assert found == {
        (4, "ana"): ("reopened", "renamed"),
        (4, "ben"): ("reopened", "beside"),
        (5, "ana"): ("reopened", "split"),
        (5, "ben"): ("reopened", "beside"),
    }
    migrate.apply(store, planned, by="eva")
    assert store.standing(4).decisions == store.standing(5).decisions == ()


def test_reviewers_follow_each_for_themselves(store, old, new):
    say(store, 2, "choose", "X:2", "ben")
    say(store, 3, "choose", "X:2", "ben", comment="sure")
    migrate.apply(store, migrate.plan(store, old, new), by="eva")
    assert store.standing(2).concept_id == "X:21"
    assert {decision.reviewer for decision in store.standing(2).decisions} == {"ana", "ben"}
    assert store.standing(3).state == "disagreed"
    comments = {decision.reviewer: decision.comment for decision in store.standing(3).decisions}
    assert comments["ben"] == "sure; migration: X:2 replaced in two; run by eva"


def test_rows_to_be_decided_get_candidates_of_the_new_release(store, old, new):
    asked = []

    def ranking(rows):
        asked.extend(row.mention for row in rows)
        return {row.id: [candidate("X:21", "Hay fever", "Allergic rhinitis", 0.4)] for row in rows}

    add(store, [row("sneezing", candidate("X:2", "Hay fever"))], old.content_hash, "q")
    planned = migrate.plan(store, old, new)
    migrate.apply(store, planned, by="eva", ranking=ranking, model="m2", types=lambda curie: [f"type of {curie}"])
    assert set(asked) == {"sneezing"} | {mention for mention, (fate, _, _) in OUTCOMES.items() if fate == "reopened"}
    last = len(ROWS) + 1
    assert store.row(last).candidates[0].concept_id == "X:21"
    assert store.row(last).types == ("type of X:21",)
    assert store.row(2).candidates[0].concept_id == "X:2"
    assert {store.project(name).terminology for name in "pq"} == {new.content_hash}
    assert store.project("p").model == "m2"


def test_the_next_release_finds_what_migration_decided(store, old, new, tmp_path):
    migrate.apply(store, migrate.plan(store, old, new), by="eva")
    third = release(
        tmp_path,
        "three",
        [(c, n, s, m) for c, n, s, m in NEW if c != "X:21"] + [("X:31", "Allergy of the nose", [], "alt_id: X:21")],
    )
    planned = migrate.plan(store, new, third)
    assert [(change.mention, change.reviewer, change.new_concept) for change in planned.changes] == [
        ("hayfever", "ana", "X:31")
    ]
    migrate.apply(store, planned, by="eva")
    assert store.standing(2).concept_id == "X:31"


def test_undecided_skipped_and_flagged_rows_are_left_alone(old, new, tmp_path):
    three = [row("hayfever", candidate("X:2", "Hay fever"), code=str(number)) for number in range(3)]
    with store_of(tmp_path / "r.sqlite", three, old.content_hash) as store:
        say(store, 1, "skip")
        say(store, 2, "flag")
        planned = migrate.plan(store, old, new)
    assert (planned.changes, planned.parts[0].standing) == ((), 0)
    assert {one.id for one in planned.parts[0].unsettled} == {1, 2, 3}


def test_a_release_under_another_prefix_is_followed_where_the_name_is_the_same(old, tmp_path):
    later = [
        (one.replace("X:", "Y:"), "Other name" if one == "X:4" else label, synonyms, more.replace("X:", "Y:"))
        for one, label, synonyms, more in OLD
    ]
    new = release(tmp_path, "prefixed", later)
    decided_on = [
        row("glue", candidate("X:1", "Earache"), number=1),
        row("deaf", candidate("X:4", "Deafness"), number=2),
    ]
    with store_of(tmp_path / "r.sqlite", decided_on, old.content_hash) as store:
        say(store, 1, "accept", "X:1")
        say(store, 2, "accept", "X:4")
        planned = migrate.plan(store, old, new)
    found = {change.mention: (change.fate, change.reason, change.new_concept) for change in planned.changes}
    assert found == {"glue": ("follows", "prefix", "Y:1"), "deaf": ("reopened", "renamed", "Y:4")}


def test_the_wrong_old_release_is_an_error(store, old, new, tmp_path):
    other = release(tmp_path, "other", OLD[:3])
    with pytest.raises(UsageError, match=r"no project is of .*p is of .* one"):
        migrate.plan(store, other, new)
    with pytest.raises(UsageError, match="the same release"):
        migrate.plan(store, old, old)


def test_projects_are_migrated_each_for_itself(store, old, new):
    one = [row("hayfever", candidate("X:2", "Hay fever"))]
    add(store, one, "", "unsaid")
    add(store, one, "e" * 64, "other")
    for number in (len(ROWS) + 1, len(ROWS) + 2):
        say(store, number, "accept", "X:2")
    planned = migrate.plan(store, old, new)
    assert ([part.project.name for part in planned.parts], planned.others) == (["p", "unsaid"], ("other",))
    only = migrate.plan(store, old, new, projects=["unsaid"])
    assert [change.project for change in only.changes] == ["unsaid"]
    assert migrate.apply(store, only, by="eva") == 1
    rest = migrate.plan(store, old, new)
    assert ([part.project.name for part in rest.parts], rest.migrated) == (["p"], ("unsaid",))
    assert store.standing(len(ROWS) + 2).concept_id == "X:2"


def test_what_came_after_a_decision_still_does_when_it_follows(store, old, new):
    say(store, 2, "flag", reviewer="bob")
    assert store.standing(2).state == "flagged"
    (before,) = (decision for decision in store.standing(2).decisions if decision.reviewer == "ana")
    # Of two mentions that are alike the newer decision is remembered.
    add(store, [row("Hayfever", candidate("X:9", "Hay fever"), code="z")], old.content_hash, "q")
    say(store, 3, "choose", "X:3")
    say(store, len(ROWS) + 1, "accept", "X:9")
    migrate.apply(store, migrate.plan(store, old, new), by="eva")
    assert store.standing(2).state == "flagged"
    (moved,) = (decision for decision in store.standing(2).decisions if decision.reviewer == "ana")
    assert (moved.concept_id, moved.at) == ("X:21", before.at)
    assert store.remembered("LAB", ["hayfever"])["hayfever"].concept_id == "X:9"


def test_what_is_decided_while_it_is_worked_out_is_not_passed_over(store, old, new):
    planned = migrate.plan(store, old, new)

    def ranked(rows):
        say(store, 7, "choose", "X:2", reviewer="cid")
        return {}

    count = len(decisions(store))
    with pytest.raises(Busy, match=r"project 'p': somebody decided .* run it again"):
        migrate.apply(store, planned, by="eva", ranking=ranked)
    assert len(decisions(store)) == count + 1
    assert store.project("p").terminology == old.content_hash
    assert migrate.apply(store, migrate.plan(store, old, new), by="eva") == 1
    assert store.standing(7).state == "open"


def test_a_forgotten_decision_that_does_not_stand_is_not_restored(store, old, new):
    say(store, 5, "choose", "X:21", reviewer="bob")
    undone = say(store, 3, "accept", "X:3", reviewer="bob")
    store.undo("p", "bob", "back")
    assert store.forget(reviewer="ana", by="eva") == len(ROWS)
    planned = migrate.plan(store, old, new)
    (part,) = planned.parts
    lost = {
        decision.id
        for decision in decisions(store)
        if decision.reviewer == "ana" and ROWS[decision.row - 1][0] in OUTCOMES
    }
    assert part.lost == lost
    assert undone.id not in part.lost
    assert planned.to_json(by="eva", at="", applied=False)["lost"] == len(OUTCOMES)
    migrate.apply(store, planned, by="eva")
    assert store.restore(reviewer="ana", by="eva") == len(ROWS) - len(OUTCOMES)
    for number, (mention, concept, _, kind) in enumerate(ROWS, 1):
        standing = store.standing(number)
        if number != 5:
            assert (standing.state == "open") == (mention in OUTCOMES), mention
        if mention not in OUTCOMES and kind == "accept":
            assert standing.concept_id == concept


def test_the_signed_diff_is_json_and_an_interrupted_runs_is_kept_by_the_next(store, old, new):
    planned = migrate.plan(store, old, new)
    reported = planned.to_json(by="eva", at="2026-02-01T00:00:00Z", applied=False)
    assert json.loads(json.dumps(reported)) == reported | {"changes": list(reported["changes"])}
    assert (reported["by"], reported["at"], reported["applied"]) == ("eva", "2026-02-01T00:00:00Z", False)
    assert reported["from"]["content_hash"] == old.content_hash
    assert reported["to"] == {"name": "two.terminology", "content_hash": new.content_hash, "versions": ["two"]}
    assert reported["reopened_rows"] == sum(outcome == "reopened" for outcome, _, _ in OUTCOMES.values())
    assert sum(reported["counts"].values()) == len(reported["changes"]) == len(OUTCOMES)
    assert tuple(reported["changes"][0]) == migrate.COLUMNS
    again = planned.to_json(by="eva", at="", applied=True, earlier=reported)
    assert again["changes"] == reported["changes"]
    migrate.apply(store, planned, by="eva")  # and was killed before it said so
    count = len(decisions(store))
    assert migrate.apply(store, planned, by="eva") == 1  # which does nothing
    done = migrate.plan(store, old, new)
    assert (done.parts, done.changes, done.migrated) == ((), (), ("p",))
    assert len(decisions(store)) == count
    signed = done.to_json(by="eva", at="2026-02-02T00:00:00Z", applied=True, earlier=reported)
    kept = ("changes", "counts", "diff", "standing", "reopened_rows", "projects")
    assert {name: signed[name] for name in kept} == {name: reported[name] for name in kept}
    assert signed["applied"]
    # A report of other releases is not taken over.
    other = reported | {"to": reported["from"]}
    assert done.to_json(by="eva", at="", applied=True, earlier=other)["changes"] == []


@pytest.mark.parametrize(
    ("mention", "codes", "term", "change"),
    [
        ("odd", "X:1|X:8", "odd", None),
        ("odd", "X:1|X:2", "odd", ("follows", "replaced", "X:1|X:21", "X:2 -> X:21")),
        ("odd", "X:3|X:2", "odd", ("follows", "merged", "X:22|X:21", "X:3 -> X:22; X:2 -> X:21")),
        ("odd", "X:2|X:6", "odd", ("reopened", "removed", "", "X:6")),
        ("odd", "X:1|X:4", "odd", ("reopened", "renamed", "X:4", "X:4: the old name is a synonym now")),
        ("odd", "X:1|X:9", "Coryza", ("reopened", "term lost", "X:25", "'Coryza' is a term of these now")),
        ("odd", "X:1|X:9", "Stuffy nose", None),
        ("Mouth on fire", "X:1|X:26", "x", None),
    ],
)
def test_each_of_several_codes_has_its_outcome(old, new, tmp_path, mention, codes, term, change):
    with store_of(tmp_path / "r.sqlite", [row(mention, candidate(codes, term))], old.content_hash) as store:
        say(store, 1, "accept", codes)
        planned = migrate.plan(store, old, new)
        changes = [(one.fate, one.reason, one.new_concept, one.detail) for one in planned.changes]
        assert changes == ([] if change is None else [change])
        migrate.apply(store, planned, by="ana")
        expected = codes if change is None else change[2] if change[0] == "follows" else None
        assert store.standing(1).concept_id == expected


def omop_release(folder, *concepts, related=()):
    """Return a terminology of concepts of OMOP: id, standard flag, domain."""
    folder.mkdir()
    rows = [download.concept(number, f"Name {number}", f"c{number}", standard=flag) for number, flag, _ in concepts]
    for cells, (_, _, domain) in zip(rows, concepts, strict=True):
        cells[2] = domain
    write_download(folder, CONCEPT=rows, CONCEPT_RELATIONSHIP=list(related))
    return loaded(omop, [folder], folder / "x.terminology")


def test_a_concept_that_is_no_longer_standard_or_of_another_domain(tmp_path):
    before = [(1, "S", "Condition"), (2, "S", "Condition"), (3, "S", "Condition"), (4, "", "Drug"), (5, "S", "Drug")]
    after = [(1, "", "Condition"), (2, "S", "Observation"), (3, "S", "Condition"), (4, "S", "Drug"), (5, "", "Drug")]
    mapped = [related(1, 3, "Maps to"), related(3, 3, "Maps to"), related(4, 4, "Maps to")]
    old = omop_release(tmp_path / "old", *before, related=[related(1, 1, "Maps to")])
    new = omop_release(tmp_path / "new", *after, related=mapped)

    told = changes(old, new).table.select("kind", "concept", "old", "new", "detail").rows()
    assert told == [
        ("standard", "SNOMEDCT:c1", "S", "", "SNOMEDCT:c3"),
        ("standard", "SNOMEDCT:c4", "", "S", ""),
        ("standard", "SNOMEDCT:c5", "S", "", ""),
        ("domain", "SNOMEDCT:c2", "Condition", "Observation", ""),
    ]

    rows = [row(f"text {number}", candidate(f"SNOMEDCT:c{number}", f"Name {number}")) for number in range(1, 6)]
    with store_of(tmp_path / "r.sqlite", rows, old.content_hash) as store:
        for number in range(1, 6):
            say(store, number, "accept", f"SNOMEDCT:c{number}")
        planned = migrate.plan(store, old, new)
        assert [
            (change.old_concept, change.fate, change.reason, change.new_concept, change.detail)
            for change in planned.changes
        ] == [
            ("SNOMEDCT:c1", "follows", "no longer standard", "SNOMEDCT:c3", ""),
            ("SNOMEDCT:c2", "reopened", "domain", "SNOMEDCT:c2", "Condition -> Observation"),
            ("SNOMEDCT:c5", "reopened", "no longer standard", "", ""),
        ]
        migrate.apply(store, planned, by="ana")
        assert [store.standing(number).concept_id for number in range(1, 6)] == [
            "SNOMEDCT:c3", None, "SNOMEDCT:c3", "SNOMEDCT:c4", None,
        ]  # fmt: skip


def test_what_takes_the_place_of_a_concept_is_standard_and_of_its_domain(tmp_path):
    before = [(number, "S", "Condition") for number in range(1, 10)]
    after = [
        *((1, "", "Condition"), (2, "", "Condition"), (3, "", "Condition")),
        *((4, "S", "Condition"), (5, "S", "Condition"), (6, "S", "Observation"), (7, "", "Condition")),
    ]
    mapped = [(1, 4), (2, 4), (2, 5), (3, 6), (7, 5)]
    old = omop_release(tmp_path / "old", *before, related=[related(7, 7, "Maps to")])
    new = omop_release(tmp_path / "new", *after, related=[related(one, to, "Maps to") for one, to in mapped])

    told = changes(old, new).table.filter(kind="standard").select("concept", "detail").rows()
    assert told[1] == ("SNOMEDCT:c2", "SNOMEDCT:c4 | SNOMEDCT:c5")

    answers = ["SNOMEDCT:c1", "SNOMEDCT:c2", "SNOMEDCT:c3", "SNOMEDCT:c1|SNOMEDCT:c7"]
    rows = [row(f"text {number}", candidate(one, "x")) for number, one in enumerate(answers, 1)]
    with store_of(tmp_path / "r.sqlite", rows, old.content_hash) as store:
        for number, one in enumerate(answers, 1):
            say(store, number, "accept", one)
        planned = migrate.plan(store, old, new)
    assert [(one.fate, one.reason, one.new_concept, one.detail) for one in planned.changes] == [
        ("follows", "no longer standard", "SNOMEDCT:c4", ""),
        ("reopened", "no longer standard", "SNOMEDCT:c4 | SNOMEDCT:c5", ""),
        ("reopened", "domain", "SNOMEDCT:c6", "Condition -> Observation"),
        (
            *("follows", "no longer standard", "SNOMEDCT:c4|SNOMEDCT:c5"),
            "SNOMEDCT:c1 -> SNOMEDCT:c4; SNOMEDCT:c7 -> SNOMEDCT:c5",
        ),
    ]


def test_a_non_standard_concept_that_maps_to_others_now(tmp_path):
    concepts = [(1, "", "Condition"), (2, "S", "Condition"), (3, "S", "Condition")]
    old = omop_release(tmp_path / "old", *concepts, related=[related(1, 2, "Maps to")])
    new = omop_release(tmp_path / "new", *concepts, related=[related(1, 2, "Maps to"), related(1, 3, "Maps to")])
    assert changes(old, new).table.select("kind", "concept", "old", "new").rows() == [
        ("maps_to", "SNOMEDCT:c1", "SNOMEDCT:c2", "SNOMEDCT:c2 | SNOMEDCT:c3")
    ]
