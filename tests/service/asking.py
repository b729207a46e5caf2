"""Apps under test, and clients that ask them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.service.app import create
from alphita.service.settings import Settings

HERE = "http://127.0.0.1:8080"


@contextmanager
def client_of(
    normalizer: Normalizer,
    *,
    store: Any = None,
    terminology: Any = None,
    further: Any = (),
    peer: str = "127.0.0.1",
    **settings: Any,
) -> Iterator[TestClient]:
    """Give a client of a new app that has started."""
    app = create(Settings(**settings), normalizer, store, terminology, further)
    with TestClient(app, base_url=HERE, client=(peer, 40_000), raise_server_exceptions=False) as client:
        yield client


def code_of(response: Any) -> str:
    """Return the code of an error, whose body has the one shape."""
    content = response.json()
    assert list(content) == ["error"]
    assert list(content["error"]) == ["code", "message", "field"]
    assert response.headers["content-type"] == "application/json"
    return content["error"]["code"]
