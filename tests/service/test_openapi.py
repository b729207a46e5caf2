"""Requests drawn from the OpenAPI document, right ones and wrong ones: none may break the server."""

from __future__ import annotations

from contextlib import contextmanager

import hypothesis
import jsonschema
import pytest
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.answer.records import lines
from alphita.errors import Rejects
from alphita.index.store import build
from alphita.review.records import Decision, ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import review_files
from alphita.service.app import create
from alphita.service.failures import FORM
from alphita.service.settings import Settings
from alphita.terminology.loaders import obo
from alphita.terminology.store import load_terminology, save
from tests.doubles import HashEncoder

OURS = [
    *("/normalize", "/annotate", "/embed", "/search", "/concepts/{identifier}", "/mappings"),
    *("/health", "/ready", "/metrics"),
]


@contextmanager
def serving(folder):
    """Give an app whose index has a seizure, and whose one project has a row of it."""
    source = folder / "hp.obo"
    source.write_text(
        "format-version: 1.2\n\n[Term]\nid: HP:0012638\nname: Abnormal nervous system physiology\n\n"
        '[Term]\nid: HP:0001250\nname: Seizure\nsynonym: "Epileptic fit" EXACT []\nis_a: HP:0012638\n'
    )
    save(obo.load([source], obo.Options(), Rejects(strict=True)), folder / "hp.terminology")
    index = build(load_terminology(folder / "hp.terminology"), HashEncoder(), folder / "x.index")
    normalizer = Normalizer(index, encoder=HashEncoder())
    with ReviewStore.open(folder / "reviews.sqlite", create=True) as store:
        facts = review_files.project_of("lab", "LAB", "text", index)
        (found,) = normalizer.normalize(["seizur"], top_k=3)
        rows = [ReviewRow(0, "lab", 1, "L1", "seizur", 1, {}, tuple(lines(1, found, 3)))]
        review_files.add(store, facts, rows, index)
        # A disagreement to settle.
        for reviewer, kind in (("ann", "nil"), ("bob", "reject")):
            store.decide(Decision(reviewer, "lab", 1, reviewer, kind))
        yield create(Settings(rate=0, max_rows=50, max_top=20, seconds=60), normalizer, store)


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    schemathesis = pytest.importorskip("schemathesis")
    with serving(tmp_path_factory.mktemp("drawn")) as served:
        yield schemathesis.openapi.from_asgi("/openapi.json", served)


NOT_NOW = (("/ready", 503), ("/admin/reload", 503))


def try_out(document, paths, examples: int, *, promised: bool) -> None:
    import schemathesis
    from schemathesis.specs.openapi import checks

    names = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    for path in paths:
        for method in document[path]:
            operation = document[path][method]
            drawn = operation.as_strategy() | operation.as_strategy(schemathesis.GenerationMode.NEGATIVE)

            def run(case):
                response = case.call()
                # Until the model is warm, it says so by 503; and this server cannot open another index.
                assert response.status_code < 500 or (case.path, response.status_code) in NOT_NOW
                if promised:
                    case.validate_response(response, checks=[getattr(checks, name) for name in names])

            settings(hypothesis.given(drawn)(run))()


LONG = pytest.param(2_000, 100, marks=pytest.mark.slow, id="at length")


@pytest.mark.parametrize(("drawn", "_"), [pytest.param(20, 4, id="a few"), LONG])
@pytest.mark.parametrize("path", OURS)
def test_nothing_drawn_breaks_what_is_promised(document, path, drawn, _):
    try_out(document, [path], drawn, promised=True)


@pytest.mark.parametrize(("_", "drawn"), [pytest.param(20, 4, id="a few"), LONG])
def test_nothing_drawn_breaks_any_part(document, drawn, _):
    try_out(document, sorted(document), drawn, promised=False)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("examples")) as served, TestClient(served) as asking:
        yield asking


def examples(document):
    """Yield (method, path, operation, path with its examples, query, media type, body)."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            address, query = path, {}
            for one in operation.get("parameters", ()):
                shown = one.get("example", next(iter(one.get("schema", {}).get("examples", ())), None))
                if one["in"] == "path":
                    address = address.replace("{" + one["name"] + "}", str(shown))
                elif shown is not None:
                    query[one["name"]] = shown
            for media, content in operation.get("requestBody", {}).get("content", {"": {}}).items():
                schema = content.get("schema", {})
                if "$ref" in schema:
                    schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
                bodies = [content["example"]] if "example" in content else schema.get("examples", [])
                for body in bodies or [None]:
                    yield method, path, operation, address, query, media, body


def test_every_example_is_answered_as_it_is_shown(client):
    document = client.get("/openapi.json").json()
    tried = set()
    for method, path, operation, address, query, media, body in examples(document):
        if body is None and method == "post":
            assert path in ("/api/projects", "/admin/reload"), f"{path} shows no example"
            tried.add(path)
            continue
        headers = {"Content-Type": media} if media else {}
        sent = {"data" if media == FORM else "json": body}
        answer = client.request(method, address, params=query, headers=headers, **sent)
        where = f"{method} {address} {query} {body}: {answer.status_code} {answer.text[:300]}"
        # Of the good answers it shows one; nothing was given that would be wrong.
        shown = [int(status) for status in operation["responses"] if status.startswith("2")]
        assert answer.status_code in shown, where
        content = operation["responses"][str(answer.status_code)].get("content", {})
        kind = answer.headers["content-type"].partition(";")[0]
        # An export is a file of the format that is asked for.
        assert kind in content or path.endswith("/export"), where
        if "json" in kind:
            schema = content[kind].get("schema", {}) | {"components": document["components"]}
            jsonschema.validate(answer.json(), schema)
        tried.add(path)
    assert tried == set(document["paths"])
