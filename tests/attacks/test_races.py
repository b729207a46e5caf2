"""Decisions that race, servers that are killed in the midst of them, and names that lead elsewhere."""

from __future__ import annotations

import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from alphita.review.store import ReviewStore
from tests.service.review_service import HEADER
from tests.service.test_serving import serving

RACERS = 12
CSV = {"Content-Type": "text/csv"}


@pytest.mark.parametrize("same", [True, False], ids=["one click sent often", "many windows"])
def test_of_decisions_that_race_one_is_kept(lab, same):
    (first, *_) = lab.ids()
    together, client = threading.Barrier(RACERS), lab.as_()

    def decide(number: int) -> int:
        body = {"uid": "u" if same else f"u{number}", "kind": "accept", "seen": 0}
        together.wait()
        # A store that is busy asks to come again.
        for _ in range(100):
            answer = client.post(f"/api/projects/lab/rows/{first}/decisions", json=body)
            if answer.status_code != 503:
                return answer.status_code
        return 503

    with client, ThreadPoolExecutor(RACERS) as pool:
        statuses = sorted(pool.map(decide, range(RACERS)))
    assert statuses == [201] * RACERS if same else statuses == [201] + [409] * (RACERS - 1)
    assert len(list(lab.store.history("lab"))) == 1


def test_a_kill_loses_no_decision_that_was_confirmed_and_no_line_of_its_audit(index_path, tmp_path):
    store, audit = tmp_path / "reviews.sqlite", tmp_path / "audit.jsonl"
    options = ("--index", index_path, "--mappings", store, "--audit", audit, "--trust-user-header", HEADER)
    (rights := tmp_path / "rights.toml").write_text('["*"]\nrights = ["read", "review", "administer"]\n')
    options = (*options, "--rights", rights)
    # A column that nobody reads, whose name would be a line of the log.
    upload = 'row,mention,concept_id,"\nJohn\n"\n' + "".join(f"{n},pain {n},T:1,\n" for n in range(400))
    confirmed: list[str] = []
    with serving(tmp_path, *options, "--rate", 0) as server:
        server.wait_for("ready")

        def decide(reviewer: str) -> None:
            with httpx.Client(base_url=server.url, headers={HEADER: reviewer}, timeout=30) as client:
                for row in range(1, 400):
                    said = {"uid": f"{reviewer} {row}", "kind": "accept", "seen": 0}
                    try:
                        answer = client.post(f"/api/projects/lab/rows/{row}/decisions", json=said)
                    except httpx.TransportError:
                        return
                    if answer.status_code == 201:
                        confirmed.append(said["uid"])
                    if len(confirmed) == 30:
                        server.process.send_signal(signal.SIGKILL)

        add = {"name": "lab", "source": "S"}
        asked = httpx.post(
            f"{server.url}/api/projects", params=add, content=upload, headers=CSV | {HEADER: "ann"}, timeout=60
        )
        assert asked.status_code == 201, asked.text
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(decide, ["ann", "ben", "cy", "dan"]))
    with ReviewStore.open(store) as opened:
        kept = {decision.uid for decision in opened.history("lab")}
    assert len(confirmed) >= 30
    assert set(confirmed) <= kept
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert set(confirmed) <= {line.get("uid") for line in lines}
    begun = sum(line["event"] == "asked" and line["path"].endswith("/decisions") for line in lines)
    assert begun >= len(kept)
    assert "John" not in (tmp_path / "log.jsonl").read_text()


@pytest.mark.parametrize("name", ["../../etc/x.csv", "a\0.csv"])
def test_the_name_of_an_upload_leads_nowhere(lab, tmp_path, name):
    before = set(tmp_path.parent.rglob("*"))
    asked = {"name": "new", "source": "S", "filename": name, "format": "csv"}
    sent = lab.as_("ann", "administrators").post(
        "/api/projects", params=asked, content="row,mention,concept_id\n1,x,AX:2\n", headers=CSV
    )
    assert sent.status_code == 201, sent.text
    assert {path.parent for path in set(tmp_path.parent.rglob("*")) - before} <= {tmp_path}


def test_the_name_of_a_project_is_no_header(lab):
    lab.store.add_project(replace(lab.store.project("lab"), name='a"; filename="é.exe'))
    told = (
        lab.as_("ann", "administrators").get('/api/projects/a"; filename="é.exe/export').headers["content-disposition"]
    )
    assert told.isascii()
    assert told.count('"') == 2
