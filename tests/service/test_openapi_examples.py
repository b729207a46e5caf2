"""Every example request of the OpenAPI document, sent: the answer has the status and the shape that it shows."""

from __future__ import annotations

import jsonschema
import pytest
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.answer.records import lines
from alphita.errors import Rejects
from alphita.index.store import build
from alphita.review.records import ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import review_files
from alphita.service.app import create
from alphita.service.settings import Settings
from alphita.terminology.loaders import obo
from alphita.terminology.store import load_terminology, save
from tests.doubles import HashEncoder


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Ask an app whose index has a seizure, and whose one project has a row of it."""
    folder = tmp_path_factory.mktemp("examples")
    source = folder / "hp.obo"
    source.write_text(
        'format-version: 1.2\n\n[Term]\nid: HP:0001250\nname: Seizure\nsynonym: "Epileptic fit" EXACT []\n'
    )
    save(obo.load([source], obo.Options(), Rejects(strict=True)), folder / "hp.terminology")
    index = build(load_terminology(folder / "hp.terminology"), HashEncoder(), folder / "x.index")
    normalizer = Normalizer(index, encoder=HashEncoder())
    with ReviewStore.open(folder / "reviews.sqlite", create=True) as store:
        facts = review_files.project_of("lab", "LAB", "text", index)
        (found,) = normalizer.normalize(["seizur"], top_k=3)
        rows = [ReviewRow(0, "lab", 1, "L1", "seizur", 1, {}, tuple(lines(1, found, 3)))]
        review_files.add(store, facts, rows, index)
        with TestClient(create(Settings(rate=0), normalizer, store)) as asking:
            yield asking


def resolved(schema, document):
    """Return a schema whose references are found."""
    return {**schema, "components": document["components"]}


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
            assert path == "/api/projects", f"{path} shows no example"
            continue
        headers = {"Content-Type": media} if media else {}
        answer = client.request(method, address, params=query, headers=headers, json=body)
        where = f"{method} {address} {query} {body}: {answer.status_code} {answer.text[:300]}"
        # Of the good answers it shows one; nothing was given that would be wrong.
        shown = [int(status) for status in operation["responses"] if status.startswith("2")]
        assert answer.status_code in shown, where
        content = operation["responses"][str(answer.status_code)].get("content", {})
        kind = answer.headers["content-type"].partition(";")[0]
        # An export is a file of the format that is asked for.
        assert kind in content or path.endswith("/export"), where
        if "json" in kind:
            jsonschema.validate(answer.json(), resolved(content[kind].get("schema", {}), document))
        tried.add(path)
    assert tried == set(document["paths"])


def test_an_example_that_is_wrong_would_be_found(client):
    document = client.get("/openapi.json").json()
    schema = document["components"]["schemas"]["Mentions"]
    for example in schema["examples"]:
        jsonschema.validate(example, resolved(schema, document))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"mention": "one"}, resolved(schema, document))
    assert client.post("/normalize", json={"mention": "one"}).status_code == 422
