"""Who may do what: each right at each route, rights by project, and what nobody sees who has to decide blindly."""

from __future__ import annotations

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.errors import InputError
from alphita.review.records import Decision, Project
from alphita.service import access, app, keys
from alphita.service.settings import Settings
from tests.cli.command import alphita
from tests.doubles import HashEncoder
from tests.service.review_service import client_of, code_of, rows_of, service
from tests.service.test_fhir import SYSTEM

# A role for each right, with `read` where nothing could be asked for without it; and one of one project.
BY_RIGHT = "".join(f'[{right}]\nrights = ["{right}"]\n' for right in access.RIGHTS)
ONE_PROJECT = '[lab]\nrights = ["read"]\nprojects = ["lab"]\n["lab too"]\nrights = ["review"]\nprojects = ["lab"]\n'
SAMPLE = {"{name}": "lab", "{row}": "1", "{identifier:path}": "AX:1", "{path:path}": "x"}


def routes_of(made) -> dict[str, str]:
    """Return "METHOD path" of every route of an app that is no file, and an address of each."""
    found, left = {}, list(made.router.routes)
    while left:
        route = left.pop()
        if hasattr(route, "original_router"):
            left += route.original_router.routes
        elif hasattr(route, "methods"):
            address = route.path
            for name, value in SAMPLE.items():
                address = address.replace(name, value)
            found |= {f"{method} {route.path}": f"{method} {address}" for method in route.methods}
    return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory, index):
    made = service(tmp_path_factory.mktemp("store"), index, rights=BY_RIGHT + ONE_PROJECT)
    made.store.add_project(Project("other", "LAB", "", "", "", "", "", blind=False), rows_of())
    yield made
    made.store.close()


def test_every_route_has_a_right_and_every_right_a_route(lab, index, tmp_path):
    rights = tmp_path / "rights.toml"
    rights.write_text(BY_RIGHT)
    options = {"oidc_issuer": "https://a.example", "oidc_client": "c", "oidc_url": "https://b.example"}
    normalizer = Normalizer(index, encoder=HashEncoder())
    apps = [lab.app, app.create(Settings(rights=rights, **options), normalizer), app.create(Settings(), normalizer)]
    found = set().union(*(routes_of(made) for made in apps))
    assert {route for route in found if access.needed(*route.split(" ")) is None} == set()
    assert access.ROUTES.keys() - found == set()
    assert {*access.ROUTES.values()} == {*access.RIGHTS, access.OPEN, access.KNOWN}


def test_a_route_that_is_in_no_table_is_refused(index):
    made = app.create(Settings(), Normalizer(index, encoder=HashEncoder()))
    made.get("/new")(lambda: "open")
    with client_of(Normalizer(index, encoder=HashEncoder())) as client:
        client.app = client._transport.app = made
        assert client.get("/new").status_code == 403


@pytest.mark.parametrize("right", access.RIGHTS)
def test_a_right_opens_its_routes_and_no_other(lab, right):
    client = lab.as_("eve", right)
    for route, address in routes_of(lab.app).items():
        method, path = address.split(" ")
        answer = client.request(method, path, follow_redirects=False)
        needed = access.needed(*route.split(" "))
        assert (answer.status_code == 403) == (needed in access.RIGHTS and needed != right), (route, answer.text)
    assert client.get("/api/me").json()["rights"] == [right]


def test_who_has_no_role_is_known_and_may_nothing(lab):
    client = lab.as_("eve", "unknown, *")
    assert client.get("/api/me").json() | {"rights": [], "projects": []} == client.get("/api/me").json()
    assert code_of(client.get("/api/projects")) == "no_right"
    assert client.get("/health").status_code == 200


def test_rights_hold_in_their_projects(lab):
    client = lab.as_("ann", "lab, lab too")
    assert [(one["name"], one["rights"]) for one in client.get("/api/me").json()["projects"]] == [
        ("lab", ["read", "review"])
    ]
    assert [one["name"] for one in client.get("/api/projects").json()["projects"]] == ["lab"]
    first, other = lab.ids()[0], lab.ids("other")[0]
    for name, row, status in (("lab", first, 200), ("other", other, 403), ("unknown", other, 403)):
        for path in ("", "/progress", "/rows", f"/rows/{row}"):
            answer = client.get(f"/api/projects/{name}{path}")
            assert answer.status_code == status
            assert status == 200 or "other" not in answer.text
        assert client.get("/search", params={"q": "ache", "project": name}).status_code == status
        asked = {"source": "LAB", "mentions": ["x"], "project": name}
        assert client.post("/mappings", json=asked).status_code == status
        asked = {"uid": f"u-{name}", "kind": "skip", "seen": 0}
        assert client.post(f"/api/projects/{name}/rows/{row}/decisions", json=asked).status_code == (
            201 if status == 200 else status
        )
    # A row of another project is not reached by the name of one's own.
    assert client.get(f"/api/projects/lab/rows/{other}").status_code == 404
    assert client.get("/search", params={"q": "ache", "project": "other", "name": "lab"}).status_code == 403
    administrator = lab.as_("ann", "administer, lab")
    assert administrator.get("/api/projects/other/export").status_code == 200


def test_what_is_settled_in_projects_of_others_is_told_to_nobody(lab):
    row = lab.ids("other")[1]
    lab.store.decide(Decision("settled", "other", row, "bob", "accept", "AX:4"))
    asked = {"system": SYSTEM, "code": "L2"}
    for groups, seen in (("read", True), ("lab", False)):
        client = lab.as_("eve", groups)
        (told,) = client.post("/mappings", json={"source": "LAB", "mentions": ["fevr"]}).json()["mappings"]
        assert (told is not None) == seen
        by_fhir = client.get("/fhir/r4/ConceptMap/$translate", params=asked).text
        assert ('"match"' in by_fhir) == seen, by_fhir
        entry = {"request": {"method": "GET", "url": f"ConceptMap/$translate?system={SYSTEM}&code=L2"}}
        bundle = {"resourceType": "Bundle", "type": "batch", "entry": [entry]}
        assert ('"match"' in client.post("/fhir/r4", json=bundle).text) == seen


BOBS = {"concept_id": "BX:1", "comment": "what bob thinks"}
DONE = {
    "bob decided": [("bob", "choose", BOBS)],
    "bob and carol agree": [("bob", "choose", BOBS), ("carol", "choose", BOBS)],
    "bob and carol disagree": [("bob", "choose", BOBS), ("carol", "nil", {"comment": BOBS["comment"]})],
    "bob flagged": [("bob", "flag", {"comment": BOBS["comment"]})],
    "bob skipped": [("bob", "skip", {"comment": BOBS["comment"]})],
    "ann took hers back": [("bob", "choose", BOBS), ("ann", "nil", {}), ("ann", "undo", {})],
    "a settlement was taken back": [
        *(("bob", "choose", BOBS), ("ann", "nil", {}), ("carol", "reject", {}), ("carol", "adjudicate", BOBS)),
        *(("carol", "undo", {}), ("ann", "undo", {})),
    ],
}
PROJECT, ROW = "/api/projects/{name}", "/api/projects/{name}/rows/{row}"
SENT = {"uid": "u", "seen": 0}
EXPORTS = [{"settled": settled, "format": name} for settled in (False, True) for name in ("csv", "fhir_r4", "usagi")]
STATES = [{"state": state, "search": search} for state in ("all", "decided", "disagreed") for search in ("", "BX:1")]
# What ann asks at each door, in this order; the last lets her decide.
DOORS: dict[str, list[dict]] = {
    "GET /api/me": [{}],
    "GET /api/projects": [{}],
    f"GET {PROJECT}": [{}],
    f"GET {PROJECT}/rows": [{"params": one} for one in [{}, *STATES, {"state": "flagged"}, {"order": "learning"}]],
    f"GET {ROW}": [{}],
    f"GET {PROJECT}/progress": [{}],
    f"GET {PROJECT}/disagreements": [{}],
    f"GET {PROJECT}/export": [{"params": one} for one in EXPORTS],
    "POST /api/projects": [{"params": {"name": "lab", "source": "LAB"}, "content": b"mention\nx\n"}],
    f"POST {ROW}/adjudicate": [
        {"json": SENT | {"uid": f"a{number}", **more}}
        for number, more in enumerate([{}, {"seen": None}, {"concept_id": "AX:2", "relation": "exact", "seen": 99}])
    ],
    "POST /mappings": [{"json": {"source": "LAB", "mentions": ["headach"], "project": one}} for one in (None, "lab")],
    f"POST {PROJECT}/bulk": [{"json": {"uid": "b", "threshold": 0.99, "preview": one}} for one in (True, False)],
    f"POST {PROJECT}/undo": [{"json": {"uid": "none"}}],
    f"POST {ROW}/decisions": [
        {"json": SENT | {"uid": "d", "kind": "skip"}},
        {"json": SENT | {"kind": "nil", "seen": 99}},
    ],
}
TRANSLATED = [{"system": SYSTEM, "code": "L1"}, {"targetcode": "x", "system": "x", "code": "BX:1", "reverse": "true"}]


@pytest.mark.parametrize("done", DONE)
def test_nobody_sees_what_others_decided_on_a_row_that_is_theirs_to_decide(tmp_path, index, done):
    lab = service(tmp_path, index)
    row = lab.ids()[0]
    for number, (who, kind, more) in enumerate(DONE[done]):
        if kind == "undo":
            lab.store.undo("lab", who, f"undo {number}")
        else:
            lab.store.decide(Decision(f"u{number}", "lab", row, who, kind, **more))
    doors = {door for door in routes_of(lab.app) if door.split(" ")[1].startswith(("/api", "/mappings"))}
    assert doors == DOORS.keys()
    ann, name = lab.as_("ann"), index.concept(int(index.concept_rows(["BX:1"])[0])).name
    answers = {}
    for door, requests in DOORS.items():
        method, path = door.replace("{name}", "lab").replace("{row}", str(row)).split(" ")
        for sent in requests:
            headers = {"Content-Type": "text/csv"} if "content" in sent else {}
            answers[f"{door} {sent}"] = ann.request(method, path, headers=headers, **sent)
    for release in ("r4", "r5"):
        path = f"/fhir/{release}/ConceptMap/$translate"
        answers |= {f"{path} {one}": ann.get(path, params=one) for one in TRANSLATED}
    for asked, answer in answers.items():
        for secret in ("BX:1", name, BOBS["comment"], "bob", "carol"):
            assert secret not in answer.text, (asked, answer.text)
    statuses: dict[str, set[int]] = {}
    for asked, answer in answers.items():
        statuses.setdefault(asked.partition(" {'")[0].removesuffix(" {}"), set()).add(answer.status_code)
    assert statuses[f"POST {ROW}/adjudicate"] == {409}
    assert statuses[f"GET {PROJECT}/rows"] == {200}
    assert statuses[f"GET {PROJECT}/export"] == statuses["POST /api/projects"] == {403}
    assert 201 in statuses[f"POST {ROW}/decisions"]
    # Others are shown what an administrator may export, and a reader what is final.
    assert BOBS["comment"] in lab.as_("ann", "administrators").get("/api/projects/lab/export?settled=false").text
    lab.store.close()


def test_an_adjudicator_who_does_not_review_sees_every_disagreement(tmp_path, index):
    rights = '[judges]\nrights = ["read", "adjudicate"]\n[reviewers]\nrights = ["read", "review"]\n'
    lab = service(tmp_path, index, rights=rights)
    row = lab.ids()[0]
    lab.store.decide(Decision("a", "lab", row, "ann", "nil"))
    judge = lab.as_("cy", "judges")
    settling = f"/api/projects/lab/rows/{row}/adjudicate"
    assert code_of(judge.post(settling, json={"uid": "1"})) == "no_disagreement"
    lab.store.decide(Decision("b", "lab", row, "bob", "choose", "AX:3"))
    assert [one["id"] for one in judge.get("/api/projects/lab/disagreements").json()["rows"]] == [row]
    assert lab.as_("ann", "reviewers").post(settling, json={"uid": "2"}).status_code == 403
    assert judge.post(settling, json={"uid": "3", "concept_id": "AX:3"}).status_code == 201
    # Settled again, it is still a disagreement.
    assert judge.post(settling, json={"uid": "4"}).status_code == 201
    lab.store.close()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no role"),
        ("a = 1", r"field 'a', .* write it as"),
        ("[a]", r"Field required \(field 'a.rights'"),
        ('[a]\nrights = "read"', "must be a list"),
        ("[a]\nrights = [1]", r"Input should be 'read'.* \(field 'a.rights.0'"),
        ('[a]\nrights = ["reed"]', r"Input should be 'read'.* value 'reed'"),
        ('[a]\nrights = []\nproject = ["lab"]', r"not permitted \(field 'a.project'"),
        ("[a", "not valid TOML"),
    ],
)
def test_a_file_of_roles_that_is_not_as_it_should_be(tmp_path, text, problem):
    path = tmp_path / "rights.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        access.load(path)


def test_keys_have_the_rights_of_their_roles(normalizer, tmp_path, capsys):
    path, rights = tmp_path / "keys.tsv", tmp_path / "rights.toml"
    rights.write_text('[lab]\nrights = ["read"]\nprojects = ["lab"]\n[heads]\nrights = ["metrics"]\nusers = ["ann"]\n')

    def new(*options):
        assert alphita("serve", "--keys", path, "--rights", rights, "--new-key", *options) == 0
        told = capsys.readouterr()
        return told.out.strip(), told.err.partition("it may: ")[2].strip()

    usual, may = new("ann", "--key-days", "9")
    assert may == "read, review, adjudicate, metrics"
    monitor, may = new("grafana", "--role", "monitor")
    assert may == "metrics"
    several, may = new("bob", "--role", "lab", "--role", "administrator")
    assert may == ", ".join(access.RIGHTS)
    assert alphita("serve", "--keys", path, "--new-key", "eve", "--role", "lab") == 2
    assert "unknown role 'lab'" in capsys.readouterr().err
    assert alphita("serve", "--keys", path, "--to", "hpo", "--role", "reader") == 2
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    assert [line[3:] for line in lines] == [[], ["monitor"], ["lab,administrator"]]
    # One of a role that there is not gives nothing.
    path.write_text(path.read_text() + f"old\t{keys.digest('old')}\t\tgone\n")
    with client_of(normalizer, keys=path, rights=rights) as client:
        for key, metrics, read in ((usual, 200, 200), (monitor, 200, 403), (several, 200, 200), ("old", 403, 403)):
            sent = {"Authorization": f"Bearer {key}"}
            assert client.get("/metrics", headers=sent).status_code == metrics
            assert client.get("/search?q=cold", headers=sent).status_code == read


def test_keys_and_roles_are_read_anew_once_a_minute(normalizer, tmp_path, monkeypatch):
    path, rights = tmp_path / "keys.tsv", tmp_path / "rights.toml"
    ann = {"Authorization": f"Bearer {keys.add(path, 'ann', roles=['own'])}"}
    rights.write_text('[own]\nrights = ["read"]\n')
    with client_of(normalizer, keys=path, rights=rights) as client:

        def statuses(sent=ann):
            return [client.get(where, headers=sent).status_code for where in ("/search?q=cold", "/metrics")]

        assert statuses() == [200, 403]
        rights.write_text('[own]\nrights = ["metrics"]\n')
        bob = {"Authorization": f"Bearer {keys.add(path, 'bob')}"}
        assert (statuses(), statuses(bob)) == ([200, 403], [401, 401])
        monkeypatch.setattr(keys, "LOOK", 0.0)
        assert (statuses(), statuses(bob)) == ([403, 200], [200, 403])
        # A file that is damaged, or was taken away, changes nothing.
        rights.write_text("[own")
        assert statuses() == [403, 200]
        path.unlink()
        assert statuses() == [403, 200]


def test_a_proxys_groups_are_believed_in_one_header(normalizer, tmp_path):
    rights = tmp_path / "rights.toml"
    rights.write_text('["heads of Köln"]\nrights = ["metrics"]\n["*"]\nrights = ["read"]\n')
    known = {"trust_user_header": "X-User", "trust_groups_header": "X-Groups", "rights": rights}
    with client_of(normalizer, **known) as client:
        for groups, may in ((None, ["read"]), (b"x, heads of K\xc3\xb6ln ", ["read", "metrics"]), (b"heads", ["read"])):
            sent = {"X-User": "ann"} | ({"X-Groups": groups} if groups else {})
            assert client.get("/api/me", headers=sent).json()["rights"] == may
        twice = [("X-User", "ann"), ("X-Groups", "a"), ("X-Groups", "heads of Köln".encode())]
        assert code_of(client.get("/api/me", headers=twice)) == "no_user"
    # Without a file, a proxy's users may do what they could before there were roles.
    with client_of(normalizer, trust_user_header="X-User") as client:
        sent = {"X-User": "ann", "X-Groups": "administrator"}
        assert client.get("/api/me", headers=sent).json()["rights"] == ["read", "review", "adjudicate"]
