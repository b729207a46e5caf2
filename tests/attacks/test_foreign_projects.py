"""Who may read one project is told of no other, whatever they ask: not that it exists, and nothing of its rows."""

from __future__ import annotations

import pytest

from alphita.review.records import Project
from tests.service.review_service import rows_of, service

# The project "later" is not made yet, and "oncology" is of others.
RIGHTS = '["*"]\nrights = ["read", "review", "adjudicate", "administer"]\nprojects = ["lab", "later"]\n'
DECIDED, SETTLED = {"uid": "u", "kind": "skip", "seen": 0}, {"uid": "u", "concept_id": "AX:4"}
ASKED = [
    *(("GET", f"/api/projects/{{name}}{path}", {}) for path in ("", "/rows", "/progress", "/disagreements", "/export")),
    *(("GET", f"/api/projects/{{name}}/rows/{row}", {}) for row in ("{other}", "999")),
    *(("POST", f"/api/projects/{{name}}/rows/{row}/decisions", DECIDED) for row in ("{other}", "999")),
    *(("POST", f"/api/projects/{{name}}/rows/{row}/adjudicate", SETTLED) for row in ("{other}", "999")),
    ("POST", "/api/projects/{name}/undo", {"uid": "u"}),
    ("POST", "/api/projects/{name}/bulk", {"uid": "u", "threshold": 0.5}),
    ("GET", "/search?q=ache&project={name}", {}),
    ("POST", "/mappings", {"source": "LAB", "mentions": ["fevr"], "project": "{name}"}),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory, index):
    made = service(tmp_path_factory.mktemp("store"), index, rights=RIGHTS)
    made.store.add_project(Project("oncology", "LAB", "", "", "", "", "", blind=True), rows_of())
    yield made
    made.store.close()


@pytest.mark.parametrize(("method", "path", "body"), ASKED, ids=[f"{method} {path}" for method, path, _ in ASKED])
def test_a_project_that_does_not_exist_yet_names_no_other(lab, method, path, body):
    client, other = lab.as_("eve"), lab.ids("oncology")[0]
    for name in ("later", "oncology", "lab") if "/rows/" in path else ("later", "oncology"):
        said = {key: value.format(name=name) if isinstance(value, str) else value for key, value in body.items()}
        answer = client.request(method, path.format(name=name, other=other), json=said or None)
        assert answer.status_code == (403 if name == "oncology" else 404), answer.text
        assert "oncology" not in answer.text
        assert answer.status_code == 403 or "/rows/" not in path or name == "later" or "unknown row" in answer.text
