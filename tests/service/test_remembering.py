from __future__ import annotations

import pytest

from alphita.review.records import Decision, ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import review_files
from tests.service.asking import client_of, code_of


@pytest.fixture
def store(tmp_path, normalizer):
    with ReviewStore.open(tmp_path / "reviews.sqlite", create=True) as store:
        facts = review_files.project_of("one", "LAB", "text", normalizer.index, blind=False)
        rows = [ReviewRow(0, "one", number, "", mention, 1) for number, mention in enumerate(("Fits", "x?", "odd"), 1)]
        review_files.add(store, facts, rows, normalizer.index)
        ids = {one.row.mention: one.row.id for one in store.queue("one")[1]}
        store.decide(Decision("u1", "one", ids["Fits"], "ann", "choose", "T:1", "exact"))
        store.decide(Decision("u2", "one", ids["x?"], "ann", "nil"))
        yield store


def test_what_was_decided_is_told(normalizer, store):
    with client_of(normalizer, store=store) as client:
        asked = {"source": "LAB", "mentions": ["FITS", "unknown", "x?", "odd"]}
        first, second, third, fourth = client.post("/mappings", json=asked).json()["mappings"]
        assert (first["mention"], first["kind"], first["concept_id"], first["reviewer"]) == (
            "FITS",
            "choose",
            "T:1",
            "ann",
        )
        assert (second, fourth) == (None, None)
        assert (third["kind"], third["concept_id"]) == ("nil", None)
        elsewhere = client.post("/mappings", json=asked | {"source": "OTHER"}).json()
        assert elsewhere == {"mappings": [None] * 4}


def test_bad_questions(normalizer, store):
    with client_of(normalizer, store=store, max_rows=2) as client:
        asked = {"source": "LAB", "mentions": ["a"]}
        assert code_of(client.post("/mappings", json=asked | {"project": "two"})) == "unknown_project"
        assert code_of(client.post("/mappings", json=asked | {"mentions": ["a"] * 3})) == "too_many"
        assert code_of(client.post("/mappings", json={"mentions": []})) == "invalid"
        assert code_of(client.post("/mappings", content=b"{}")) == "not_json"
        surrogate = {"Content-Type": "application/json"}
        for field in ("source", "project"):
            text = f'{{"source": "LAB", "mentions": [], "{field}": "\\ud800"}}'.encode()
            assert code_of(client.post("/mappings", content=text, headers=surrogate)) == "no_text"


def test_without_a_store_there_is_no_memory(normalizer):
    with client_of(normalizer) as client:
        assert client.post("/mappings", json={"source": "LAB", "mentions": []}).status_code == 404
