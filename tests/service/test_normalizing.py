from __future__ import annotations

import threading

import numpy as np
import pytest
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.index.choice import Building
from alphita.index.store import Index, build
from alphita.service import normalizing
from tests.answer.test_assigned import CODES, Classification
from tests.doubles import HashEncoder, small_terminology
from tests.service.review_service import client_of, code_of
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
            candidate.concept_id for candidate in result.candidates[:top]
        ]
        assert all(set(one) == set(normalizing._CANDIDATE) for one in answer["candidates"])


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
        assert [(answer["mention"], answer["concept_id"]) for answer in answers] == [
            (mention, expected[mention]) for mention in mentions
        ]


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


def test_vectors_are_those_of_the_index(client, normalizer):
    index = normalizer.index
    answer = client.post("/embed", json={"texts": ["Common  COLD", "T2DM"]}).json()
    assert answer["model"] == index.manifest["model_hash"]
    rows = index.rows(["common cold", "t2dm"])
    assert (rows >= 0).all()
    np.testing.assert_allclose(np.array(answer["vectors"]), index.vectors[rows], atol=1e-6)


def test_an_index_without_letters_is_searched_by_vectors(tmp_path):
    index = build(small_terminology(), HashEncoder(), tmp_path / "x.index", how=Building(letters=False))
    with client_of(Normalizer(index, encoder=HashEncoder())) as client:
        found = client.get("/search", params={"q": "epileptic seizures"}).json()["concepts"]
        assert found[0]["id"] == "T:1"
        found = client.get("/search", params={"q": "comm"}).json()["concepts"]
        assert (found[0]["id"], found[0]["matched_term"]) == ("T:3", "Common cold")


def test_mentions_come_with_their_places_and_what_the_text_says(normalizer):
    text = "🤮 No seizure, headache"
    with client_of(normalizer, seconds=600) as client:
        answer = client.post("/annotate", json={"texts": [text, ""], "exact": True})
    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert second == {"annotations": []}
    assert [text[one["start"] : one["end"]] for one in first["annotations"]] == ["seizure", "headache"]
    assert [one["context"][0]["cue"] for one in first["annotations"]] == ["No", "No"]


def test_billable_answers_are_asked_for_by_request(tmp_path, client):
    codes = Classification({code: CODES[code] for code in ("A00", "A00.9", "B02", "B02.2", "S93", "S93.1", "S93.2")})
    index = build(codes, HashEncoder(), tmp_path / "x.index")
    with client_of(Normalizer(index, encoder=HashEncoder())) as asked:
        found = [
            normalized(asked, mentions=["sprain of ankle", "cholera"], billable=billable)
            for billable in (False, True, False)
        ]
    assert [[one["concept_id"] for one in answers] for answers in found] == [
        ["ICD10CM:S93", "ICD10CM:A00.9"],
        ["ICD10CM:S93.1", "ICD10CM:A00.9"],
        ["ICD10CM:S93", "ICD10CM:A00.9"],
    ]
    answer = client.post("/normalize", json={"mentions": ["x"], "billable": True})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "billable")
