from __future__ import annotations

import json
import logging
import threading

import numpy as np
import pytest
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.index.choice import Building
from alphita.index.store import Index, build
from alphita.service import normalizing
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import HashEncoder, small_terminology
from tests.service.asking import client_of, code_of
from tests.waiting import SECONDS, wait_until

MENTIONS = ["Seizure", "head ache", "COLD", "", "T2DM", "xyzzy", "Seizure", "mal di schiena é 癫痫"]


@pytest.fixture
def client(normalizer):
    with client_of(normalizer) as client:
        yield client


def normalized(client: TestClient, **asked) -> list[dict]:
    answer = client.post("/normalize", json=asked)
    assert answer.status_code == 200
    # What the OpenAPI document promises.
    normalizing.Answers.model_validate(answer.json(), strict=False)
    return answer.json()["results"]


def wait_until_ready(client: TestClient) -> None:
    wait_until(lambda: client.get("/ready").status_code == 200)


@pytest.mark.parametrize("top", [1, 2, 5])
@pytest.mark.parametrize("explain", [False, True])
def test_answers_are_the_normalisers(client, normalizer, top, explain):
    answers = normalized(client, mentions=MENTIONS, top=top, explain=explain)
    for answer, result in zip(answers, normalizer.normalize(MENTIONS, top_k=top, explain=explain), strict=True):
        for name in ("mention", "concept_id", "concept_name", "matched_term", "method", "confidence", "decision"):
            assert answer[name] == getattr(result, name)
        assert answer["similarity"] == pytest.approx(result.similarity, abs=1e-5)
        assert answer["explanation"] == (str(result.explanation) if explain else None)
        assert [one["concept_id"] for one in answer["candidates"]] == [
            one.concept_id for one in result.candidates[:top]
        ]
        assert all(set(one) == set(normalizing._CANDIDATE) for one in answer["candidates"])


def test_a_calibrated_index_gives_confidence_and_decision(tmp_path):
    encoder = VocabularyEncoder()
    index = build(synthetic_terminology(120), encoder, tmp_path / "x.index")
    normalizer = Normalizer(index, encoder=encoder, calibration=quick_fit(index, encoder))
    mentions = [index.strings[7], "acute drall swelling", "no such thing at all"]
    with client_of(normalizer) as client:
        answers = normalized(client, mentions=mentions)
        assert client.get("/ready").json()["calibrated"] is True
    for answer, result in zip(answers, normalizer.normalize(mentions, top_k=5), strict=True):
        assert answer["confidence"] == pytest.approx(result.confidence, abs=1e-4)
        assert answer["decision"] == result.decision
    assert all(0 <= one["confidence"] <= 1 for one in answers)


def test_contexts_and_languages_reach_the_normaliser(normalizer, monkeypatch):
    asked = []
    normalize = normalizer.normalize

    def noted(mentions, **options):
        asked.append((list(mentions), options))
        return normalize(mentions, **options)

    monkeypatch.setattr(normalizer, "normalize", noted)
    with client_of(normalizer) as client:
        normalized(client, mentions=["a", "b"], contexts=["ctx", None], languages=[None, "de"])
        normalized(client, mentions=["a", "b"], contexts=[None, None])
    assert (["a", "b"], {"top_k": 5, "explain": False, "contexts": ["ctx", None], "languages": [None, "de"]}) in asked
    assert (["a", "b"], {"top_k": 5, "explain": False, "contexts": None, "languages": None}) in asked


def test_requests_at_once_each_get_their_own(normalizer):
    expected = {one.mention: one.concept_id for one in normalizer.normalize(MENTIONS, top_k=5)}
    found: dict[int, list] = {}
    with client_of(normalizer) as client:

        def ask(number: int) -> None:
            mentions = MENTIONS[number % 5 :]
            found[number] = [mentions, normalized(client, mentions=mentions)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 20
    for mentions, answers in found.values():
        assert [(one["mention"], one["concept_id"]) for one in answers] == [(one, expected[one]) for one in mentions]


def test_nothing_asked_nothing_answered(client):
    assert normalized(client, mentions=[]) == []
    assert client.post("/embed", json={"texts": []}).json()["vectors"] == []


BAD = [
    ({}, "mentions"),
    ({"mentions": "cold"}, "mentions"),
    ({"mentions": ["cold", 3]}, "mentions.1"),
    ({"mentions": ["cold", None]}, "mentions.1"),
    ({"mentions": ["cold"], "top": 0}, "top"),
    ({"mentions": ["cold"], "top": 101}, "top"),
    ({"mentions": ["cold"], "top": 10**400}, "top"),
    ({"mentions": ["cold"], "tops": 5}, "tops"),
    ({"mentions": ["cold"], "contexts": []}, "contexts"),
    ({"mentions": ["cold"], "contexts": ["x" * 10_001]}, "contexts.0"),
    ({"mentions": ["cold"], "languages": ["en", "de"]}, "languages"),
    ({"mentions": ["cold"] * 11}, "mentions"),
    ({"mentions": ["ok", "x" * 51]}, "mentions.1"),
    (["cold"], None),
    ("cold", None),
]


@pytest.mark.parametrize(("asked", "field"), BAD)
def test_bad_questions_are_told_where(normalizer, asked, field):
    with client_of(normalizer, max_rows=10, max_characters=50) as client:
        refused = client.post("/normalize", json=asked)
        assert refused.status_code == 422
        code_of(refused)
        assert refused.json()["error"]["field"] == field


def test_what_was_sent_is_not_repeated_in_an_error(client):
    secret = "John-Doe-had-a-seizure"
    for asked in ({"mentions": [secret] * 1_001}, {"mentions": secret}, {"mentions": [secret * 100]}, {secret: 1}):
        refused = client.post("/normalize", json=asked)
        assert refused.status_code == 422
        if secret not in asked:
            assert secret not in refused.text


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"mentions": ["\xff"]}', b"[" * 100_000, b"null", b'{"mentions": ["\\ud800"]}']
)
def test_a_body_that_is_no_json_or_no_text(client, body):
    refused = client.post("/normalize", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    code_of(refused)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_other_content_types(client, kind):
    for path in ("/normalize", "/embed"):
        refused = client.post(path, content=b'{"mentions": []}', headers={"Content-Type": kind})
        assert refused.status_code == 415
        assert code_of(refused) == "not_json"
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert client.post("/normalize", content=b'{"mentions": []}', headers=charset).status_code == 200


def test_html_in_a_mention_comes_back_as_json_text(client):
    mention = "<script>alert(1)</script>"
    answer = client.post("/normalize", json={"mentions": [mention]})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["results"][0]["mention"] == mention


def test_an_encoder_that_fails_is_an_error_of_that_request_alone(index_path, caplog):
    class Failing(HashEncoder):
        def encode(self, strings):
            if any("explode" in one for one in strings):
                raise RuntimeError("it exploded on " + strings[0])
            return super().encode(strings)

    normalizer = Normalizer(Index.open(index_path), encoder=Failing())
    with client_of(normalizer) as client:
        answers: dict[str, int] = {}

        def ask(mention: str) -> None:
            answers[mention] = client.post("/normalize", json={"mentions": [mention]}).status_code

        threads = [threading.Thread(target=ask, args=(one,)) for one in ("headach", "explode", "seizur", "cephalgi")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = client.post("/normalize", json={"mentions": ["explode"]})
    assert answers == {"headach": 200, "explode": 500, "seizur": 200, "cephalgi": 200}
    assert code_of(failed) == "internal"
    assert "explode" not in failed.text


def test_a_full_queue_is_503(index_path):
    held = threading.Event()

    class Waiting(HashEncoder):
        def encode(self, strings):
            held.wait(SECONDS)
            return super().encode(strings)

    normalizer = Normalizer(Index.open(index_path), encoder=Waiting())
    with client_of(normalizer, queue=2) as client:
        # What warms the server up fills it.
        wait_until(lambda: "alphita_queue_depth 2.0" in client.get("/metrics").text)
        refused = client.post("/normalize", json={"mentions": ["seizur", "cephalgi"]})
        held.set()
        assert refused.status_code == 503
        assert code_of(refused) == "queue_full"
        assert int(refused.headers["retry-after"]) >= 1
        wait_until_ready(client)
        assert client.post("/normalize", json={"mentions": ["seizur", "cephalgi"]}).status_code == 200


def test_an_answer_that_takes_too_long_is_504(index_path):
    held = threading.Event()

    class Waiting(HashEncoder):
        def encode(self, strings):
            held.wait(SECONDS)
            return super().encode(strings)

    with client_of(Normalizer(Index.open(index_path), encoder=Waiting()), seconds=0.1) as client:
        refused = client.post("/normalize", json={"mentions": ["headach"]})
        held.set()
    assert refused.status_code == 504
    assert code_of(refused) == "timeout"


def test_vectors_are_those_of_the_index(client, normalizer):
    index = normalizer.index
    answer = client.post("/embed", json={"texts": ["Common  COLD", "T2DM"]}).json()
    assert answer["model"] == index.manifest["model_hash"]
    rows = index.rows(["common cold", "t2dm"])
    assert (rows >= 0).all()
    np.testing.assert_allclose(np.array(answer["vectors"]), index.vectors[rows], atol=1e-6)


def test_embed_is_limited_too(normalizer):
    with client_of(normalizer, max_rows=2, max_characters=5) as client:
        assert code_of(client.post("/embed", json={"texts": ["a"] * 3})) == "too_many"
        assert code_of(client.post("/embed", json={"texts": ["a" * 6]})) == "too_long"
        assert code_of(client.post("/embed", json={"text": ["a"]})) == "invalid"


def test_an_index_without_letters_is_searched_by_vectors(tmp_path):
    index = build(small_terminology(), HashEncoder(), tmp_path / "x.index", how=Building(letters=False))
    with client_of(Normalizer(index, encoder=HashEncoder())) as client:
        found = client.get("/search", params={"q": "epileptic seizures"}).json()["concepts"]
        assert found[0]["id"] == "T:1"
        found = client.get("/search", params={"q": "comm"}).json()["concepts"]
        assert (found[0]["id"], found[0]["matched_term"]) == ("T:3", "Common cold")


def test_search(client):
    found = client.get("/search", params={"q": "cold", "top": 3}).json()["concepts"]
    assert [one["id"] for one in found] == ["T:3", "T:5", "T:4"]
    assert set(found[0]) == {"id", "name", "matched_term", "similarity"}
    assert client.get("/search", params={"q": ""}).json() == {"concepts": []}
    assert code_of(client.get("/search")) == "invalid"
    assert code_of(client.get("/search", params={"q": "x" * 1_001})) == "too_long"
    for top in ("0", "-1", "101", "x", "1e3", "9" * 400):
        assert client.get("/search", params={"q": "a", "top": top}).status_code == 422


def test_surrogates_and_control_characters_in_a_query(client):
    for raw in (b"/search?q=%00", b"/search?q=%ed%a0%80", b"/search?q=%ff", b"/search?q=%F0%9F%98%80"):
        assert client.get(raw.decode()).status_code == 200


def test_answers_are_compact_json(client):
    text = client.post("/normalize", json={"mentions": ["癫痫"]}).content
    assert "癫痫".encode() in text
    assert json.loads(text)["results"][0]["mention"] == "癫痫"


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
