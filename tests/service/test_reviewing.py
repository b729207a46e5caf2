"""The review API: deciding, blindness, two tabs, bulk, undo, adjudication."""

from __future__ import annotations

import sqlite3

import pytest
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from tests.doubles import HashEncoder
from tests.service.review_service import client_of

ROWS = "/api/projects/lab/rows"


def decide(client, row, uid, kind="accept", seen=0, **fields):
    return client.post(f"{ROWS}/{row}/decisions", json={"uid": uid, "kind": kind, "seen": seen, **fields})


def test_who_asks_and_of_what(lab):
    found = lab.as_().get("/api/me").json()
    assert found["reviewer"] == "ann"
    assert [one["name"] for one in found["projects"]] == ["lab"]
    assert (found["assurance"], found["model"]) == (None, lab.index.manifest["model_hash"])
    assert found["release"] == "TEST 1"
    assert TestClient(lab.app).get("/api/me").status_code == 401
    assert lab.as_().get("/api/projects/lab").json()["source"] == "LAB"
    listed = lab.as_().get("/api/projects").json()
    assert [one["name"] for one in listed["projects"]] == ["lab"]
    assert "sssom" in listed["formats"]


def test_the_queue(lab):
    found = lab.as_().get(ROWS, params={"order": "risk", "limit": 2}).json()
    assert found["total"] == 4
    # Risk is frequency times 1 - confidence: 4 * 0.4, then 10 * 0.1.
    assert [one["code"] for one in found["rows"]] == ["L2", "L1"]
    first = found["rows"][0]
    assert first["risk"] == pytest.approx(1.6)
    nothing = {"matched_term": None, "decision": None}
    known = {"concept_id": "AX:4", "concept_name": "Fever", "similarity": 0.5, "confidence": 0.6, "relation": "exact"}
    assert first["answer"] == known | nothing
    assert (first["mine"], first["state"], first["settled"], first["context"]) == (None, "open", False, {"ward": "B"})
    assert [one["code"] for one in lab.as_().get(ROWS, params={"search": "FEV"}).json()["rows"]] == ["L2"]
    assert lab.as_().get(ROWS, params={"limit": 1, "offset": 3, "order": "row"}).json()["rows"][0]["code"] == ""


def test_a_row_with_its_candidates(lab):
    row = lab.ids()[0]
    found = lab.as_().get(f"{ROWS}/{row}").json()
    first = found["candidates"][0]
    assert first["concept_id"] == "AX:2"
    assert first["definition"].startswith("An ache that is felt in the head.")
    assert first["parents"] == [{"id": "AX:1", "name": "Ache", "omop": None}]
    assert set(first["synonyms"]) == {"Headache", "Head pain", "Kopfschmerz"}
    assert first["types"] == ["Finding"]
    assert (found["decisions"], found["newest"]) == ([], 0)


def test_a_decision_is_kept_once_and_names_the_next_row(lab):
    ann, rows = lab.as_(), lab.ids()
    answer = decide(ann, rows[1], "u1")
    assert answer.status_code == 201
    said = answer.json()
    assert (said["decision"]["concept_id"], said["decision"]["relation"]) == ("AX:4", "exact")
    assert said["standing"]["state"] == "decided"
    assert said["next"] == rows[0]
    again = decide(ann, rows[1], "u1")
    assert again.status_code == 201
    assert again.json()["decision"] == said["decision"]
    assert len(list(lab.store.history("lab"))) == 1
    assert ann.get(ROWS).json()["total"] == 3


def test_the_second_of_two_tabs_sees_the_first(lab):
    ann, row = lab.as_(), lab.ids()[0]
    first = decide(ann, row, "tab1").json()["decision"]
    second = decide(ann, row, "tab2", "nil")
    assert second.status_code == 409
    assert second.json()["newest"] == first
    assert second.json()["error"]["code"] == "conflict"
    assert decide(ann, row, "tab2", "nil", seen=first["id"]).status_code == 201
    # Another reviewer's decision is no conflict.
    assert decide(lab.as_("bob"), row, "bob1").status_code == 201


def test_a_disagreement_is_settled_whatever_was_taken_back(lab):
    ann, bob, row = lab.as_("ann"), lab.as_("bob"), lab.ids()[0]
    decide(ann, row, "a")
    decide(bob, row, "b", "choose", concept_id="AX:3")
    assert decide(bob, row, "c", "nil", seen=2).status_code == 201
    assert len(bob.post("/api/projects/lab/undo", json={"uid": "d"}).json()["undone"]) == 1
    for uid in ("e", "f"):
        (found,) = ann.get("/api/projects/lab/disagreements").json()["rows"]
        asked = {"uid": uid, "concept_id": "AX:3", "seen": found["newest"]}
        assert ann.post(f"{ROWS}/{row}/adjudicate", json=asked | {"uid": "g", "seen": 2}).status_code == 409
        assert ann.post(f"{ROWS}/{row}/adjudicate", json=asked).status_code == 201
        assert len(ann.post("/api/projects/lab/undo", json={"uid": f"undo {uid}"}).json()["undone"]) == 1


def test_reviewers_are_blind_to_each_other_until_a_row_is_adjudicated(lab):
    ann, bob, row = lab.as_("ann"), lab.as_("bob"), lab.ids()[0]
    decide(ann, row, "a", comment="sure")
    seen = bob.get(f"{ROWS}/{row}").json()
    blind = {"decisions": [], "mine": None, "state": "open", "settled": False, "newest": 0}
    assert {name: seen[name] for name in blind} == blind
    assert bob.get(ROWS, params={"state": "decided"}).json()["total"] == 0
    decide(bob, row, "b", "choose", concept_id="AX:3")
    assert "sure" not in bob.get(f"{ROWS}/{row}").text
    carol = lab.as_("carol").get("/api/projects/lab/disagreements")
    assert carol.json() == {"total": 0, "rows": []}
    found = bob.get("/api/projects/lab/disagreements").json()["rows"]
    assert [one["id"] for one in found] == [row]
    assert {one["reviewer"] for one in found[0]["decisions"]} == {"ann", "bob"}
    assert [one["concept_id"] for one in found[0]["candidates"]] == ["AX:2", "AX:3"]
    settled = ann.post(f"{ROWS}/{row}/adjudicate", json={"uid": "c", "concept_id": "AX:3", "comment": "agreed"})
    assert settled.status_code == 201
    assert (settled.json()["standing"]["settled"], settled.json()["standing"]["concept_id"]) == (True, "AX:3")
    assert len(bob.get(f"{ROWS}/{row}").json()["decisions"]) == 3
    assert bob.get("/api/projects/lab/disagreements").json() == {"total": 0, "rows": []}
    nil = ann.post(f"{ROWS}/{row}/adjudicate", json={"uid": "d", "concept_id": None})
    assert nil.json()["standing"]["concept_id"] is None


def test_undo_and_bulk(lab):
    ann, rows = lab.as_(), lab.ids()
    body = {"uid": "bulk", "threshold": 0.65, "preview": True}
    found = ann.post("/api/projects/lab/bulk", json=body).json()
    assert found["expected_wrong"] == pytest.approx(0.1 + 0.05 + 0.3)
    assert (found["rows"], found["occurrences"], found["applied"]) == (3, 13, False)
    assert not list(lab.store.history("lab"))
    done = ann.post("/api/projects/lab/bulk", json=body | {"preview": False}).json()
    assert (done["rows"], done["applied"]) == (3, True)
    progress = ann.get("/api/projects/lab/progress").json()
    assert (progress["rows"], progress["occurrences"], progress["decided_occurrences"]) == (4, 17, 13)
    assert (progress["by_reviewer"], progress["learned"]) == ({"ann": 3}, None)
    assert ann.post("/api/projects/lab/bulk", json=body | {"preview": False}).json()["rows"] == 3
    assert len(list(lab.store.history("lab"))) == 3
    decide(ann, rows[1], "x", "flag")
    assert ann.post("/api/projects/lab/undo", json={"uid": "u1"}).json()["row"] == rows[1]
    undone = ann.post("/api/projects/lab/undo", json={"uid": "u2"}).json()
    assert len(undone["undone"]) == 3
    assert ann.post("/api/projects/lab/undo", json={"uid": "u3"}).json() == {"undone": [], "row": None}
    assert ann.get(ROWS).json()["total"] == 4


def test_without_a_store(index):
    with client_of(Normalizer(index, encoder=HashEncoder())) as client:
        assert client.get("/api/me").json()["projects"] == []
        answer = client.get("/api/projects")
        assert answer.status_code == 404
        assert "--mappings" in answer.json()["error"]["message"]
        assert client.post("/mappings", json={"source": "LAB", "mentions": []}).status_code == 404


def test_a_locked_store_is_told_and_nothing_is_lost_or_kept_twice(lab):
    ann, row = lab.as_(), lab.ids()[0]
    other = sqlite3.connect(lab.store.address, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer = decide(ann, row, "u")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    # Who only reads does not wait.
    assert ann.get(f"{ROWS}/{row}").json()["newest"] == 0
    other.execute("ROLLBACK")
    other.close()
    assert decide(ann, row, "u").status_code == 201
    assert len(list(lab.store.history("lab"))) == 1


def test_what_was_decided_is_told(lab):
    ann, rows = lab.as_(), lab.ids()
    decide(ann, rows[0], "1", "choose", concept_id="AX:3")
    decide(ann, rows[3], "2", "nil")
    asked = {"source": "LAB", "mentions": ["HEADACH", "unknown", "dulorin", "fevr"]}
    first, second, third, fourth = ann.post("/mappings", json=asked).json()["mappings"]
    told = [first[name] for name in ("mention", "kind", "concept_id", "reviewer")]
    assert told == ["HEADACH", "choose", "AX:3", "ann"]
    assert (second, fourth) == (None, None)
    assert (third["kind"], third["concept_id"]) == ("nil", None)
    assert ann.post("/mappings", json=asked | {"source": "OTHER"}).json() == {"mappings": [None] * 4}
