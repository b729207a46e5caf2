"""Requests drawn from the OpenAPI document, right ones and wrong ones: none may break the server."""

from __future__ import annotations

import hypothesis
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.answer.records import lines
from alphita.index.store import build
from alphita.review.records import ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import review_files
from alphita.service.app import create
from alphita.service.settings import Settings
from tests.doubles import HashEncoder, small_terminology

schemathesis = pytest.importorskip("schemathesis")
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

OURS = (
    "/normalize",
    "/annotate",
    "/embed",
    "/search",
    "/concepts/{identifier}",
    "/mappings",
    "/health",
    "/ready",
    "/metrics",
)
PROMISED = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The document of an app with a store that has three rows, none of which is decided."""
    folder = tmp_path_factory.mktemp("openapi")
    index = build(small_terminology(), HashEncoder(), folder / "x.index")
    normalizer = Normalizer(index, encoder=HashEncoder())
    with ReviewStore.open(folder / "reviews.sqlite", create=True) as store:
        facts = review_files.project_of("lab", "LAB", "text", index)
        found = normalizer.normalize(["seizur", "cold", "xyzzy"], top_k=3)
        rows = [
            ReviewRow(0, "lab", n, "", one.mention, n, {}, tuple(lines(n, one, 3))) for n, one in enumerate(found, 1)
        ]
        review_files.add(store, facts, rows, index)
        app = create(Settings(rate=0, max_rows=50, max_top=20, seconds=60), normalizer, store)
        yield schemathesis.openapi.from_asgi("/openapi.json", app)


def try_out(document, paths, examples: int, checks) -> None:
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
                # Until the model is warm, it says so by 503.
                assert response.status_code < 500 or (case.path, response.status_code) == ("/ready", 503)
                if checks:  # none would mean all
                    case.validate_response(response, checks=checks)

            settings(hypothesis.given(drawn)(run))()


@pytest.mark.parametrize("path", OURS)
def test_nothing_drawn_breaks_what_is_promised(document, path):
    try_out(document, [path], 20, PROMISED)


def test_nothing_drawn_breaks_any_part(document):
    try_out(document, sorted(document), 4, ())


@pytest.mark.slow
@pytest.mark.parametrize("path", OURS)
def test_nothing_drawn_breaks_what_is_promised_at_length(document, path):
    try_out(document, [path], 2_000, PROMISED)


@pytest.mark.slow
def test_nothing_drawn_breaks_any_part_at_length(document):
    try_out(document, sorted(document), 100, ())
