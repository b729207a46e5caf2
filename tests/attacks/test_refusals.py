"""Wrong requests to every endpoint: the status, the shape of the error, and nothing sent in its message."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from alphita.review.records import Project
from tests.service.review_service import code_of, service
from tests.service.test_fhir import checked

# A cell may hold `<x*5>` for xxxxx and `\\n` for a line feed; `text` is a part of the answer: a field, code or message.
TABLE = Path(__file__).with_name("refusals.tsv").read_text(encoding="utf-8").splitlines()
ROWS = list(csv.DictReader(TABLE, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture(scope="module")
def lab(tmp_path_factory, index):
    made = service(tmp_path_factory.mktemp("store"), index, max_rows=10, max_characters=50)
    made.store.add_project(Project("other", "LAB", "", "", "", "", ""))
    yield made
    made.store.close()


def written(cell: str) -> str:
    repeated = re.sub(r"<(.)\*(\d+)>", lambda match: match[1] * int(match[2]), cell)
    return repeated.replace("\\n", "\n")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['method']} {row['path'][:60]} {row['body'][:40]}")
def test_a_wrong_request_is_refused(lab, row):
    sent = {"content": written(row["body"]).encode(), "headers": {"Content-Type": row["type"]}} if row["body"] else {}
    answer = lab.as_("ann", "administrators").request(
        row["method"], written(row["path"]), **sent, follow_redirects=False
    )
    if row["path"].startswith("/fhir"):
        checked(answer, "r5" if "/r5/" in row["path"] else "r4", int(row["status"]))
    else:
        assert answer.status_code == int(row["status"]), answer.text
        assert code_of(answer)
        assert answer.json()["error"]["message"]
    assert row["text"] in answer.text.replace("\\u2018", "'"), answer.text
    assert "secret" not in answer.text
    assert answer.status_code != 405 or answer.headers["allow"]
    assert {project.name for project in lab.store.projects()} == {"lab", "other"}
    assert not list(lab.store.history("lab"))
