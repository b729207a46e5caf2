"""POST /annotate: the limits, errors and silence of the other routes."""

from __future__ import annotations

import logging

import pytest

from tests.service.asking import client_of, code_of


def test_mentions_come_with_their_places_and_what_the_text_says(normalizer):
    text = "🤮 No seizure, headache"
    with client_of(normalizer) as client:
        answer = client.post("/annotate", json={"texts": [text, ""], "exact": True})
    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert second == {"annotations": []}
    assert [text[one["start"] : one["end"]] for one in first["annotations"]] == ["seizure", "headache"]
    assert [one["context"][0]["cue"] for one in first["annotations"]] == ["No", "No"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"texts": ["a"] * 4}, "texts"),
        ({"texts": ["b", "c" * 31]}, "texts.1"),
        ({"texts": ["\ud800"]}, "texts.0"),
        ({"texts": ["a"], "precision": 0.9}, "precision"),
        ({"texts": ["a"], "precision": 0.9, "exact": True}, "precision"),
        ({"texts": ["a"], "precision": 2}, "precision"),
        ({"texts": ["a"], "under": "HP:1"}, "under"),
        ({"texts": "a"}, "texts"),
    ],
)
def test_what_is_wrong_is_named_by_its_place_not_its_text(normalizer, asked, field):
    with client_of(normalizer, max_rows=3, max_context=30) as client:
        import json

        answer = client.post("/annotate", content=json.dumps(asked), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    code_of(answer)
    assert answer.json()["error"]["field"] == field
    assert "ccc" not in answer.text


def test_only_json_is_taken(normalizer):
    with client_of(normalizer) as client:
        assert code_of(client.post("/annotate", content=b"{}", headers={"Content-Type": "text/plain"})) == "not_json"


def test_no_text_is_logged_unless_it_is_asked_for(normalizer, caplog):
    with caplog.at_level(logging.INFO), client_of(normalizer) as client:
        client.post("/annotate", json={"texts": ["Seizure of Mrs Rossi"]})
    assert "Rossi" not in caplog.text
