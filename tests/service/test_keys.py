from __future__ import annotations

import asyncio
import hmac
import time
from datetime import date

import pytest

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.service import keys
from alphita.service.failures import Refusal
from alphita.service.limits import PAUSE
from alphita.service.settings import Settings, is_loopback
from tests.service.review_service import client_of, code_of

TODAY = date(2030, 6, 15)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.tsv"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_new_key_is_found_and_not_written_down(path):
    ann = keys.add(path, "ann")
    ben = keys.add(path, "Dr. Ben Ö", date(2030, 1, 1))
    assert ann != ben
    assert ann not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    held = keys.load(path)
    assert [(key.name, key.last_day) for key in held] == [("ann", None), ("Dr. Ben Ö", date(2030, 1, 1))]
    assert keys.find(held, ann, TODAY).name == "ann"
    assert keys.find(held, ann + "x", TODAY) is None
    assert keys.find(held, "", TODAY) is None


def test_a_key_is_appended_to_a_file_without_a_last_newline(path):
    path.write_text(f"# reviewers\nann\t{'a' * 64}")
    keys.add(path, "ben")
    assert [one.name for one in keys.load(path)] == ["ann", "ben"]


def test_a_key_holds_through_its_last_day():
    held = [keys.Key("ann", keys.digest("k"), TODAY)]
    assert keys.find(held, "k", TODAY).name == "ann"
    with pytest.raises(Refusal, match="last day was 2030-06-15") as refused:
        keys.find(held, "k", date(2030, 6, 16))
    assert (refused.value.status, refused.value.code) == (401, "expired_key")


def test_every_entry_is_compared_in_constant_time(monkeypatch):
    held = [keys.Key(name, keys.digest(name), None) for name in "abc"]
    compared = []

    def compare(left, right):
        compared.append(left)
        return hmac.compare_digest(left, right)

    monkeypatch.setattr(keys, "hmac", type("Hmac", (), {"compare_digest": staticmethod(compare)}))
    assert keys.find(held, "a", TODAY).name == "a"
    assert len(compared) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no key"),
        ("# only a comment\n\n", "has no key"),
        ("ann\n", ":1: 1 cells"),
        (f"ann\t{'a' * 64}\t2030-01-01\treader\tmore\n", "5 cells"),
        ("ann\tmy-secret-key\n", "not a SHA-256"),
        (f"ann\t{'a' * 63}\n", "not a SHA-256"),
        (f"\t{'a' * 64}\n", "not a valid reviewer name"),
        (f"{'n' * 101}\t{'a' * 64}\n", "not a valid reviewer name"),
        (f"ann\t{'a' * 64}\ttomorrow\n", "not a date"),
        (f"ann\t{'a' * 64}\nben\t{'A' * 64}\n", ":2: the same key is there twice"),
    ],
)
def test_a_bad_keys_file_is_told_of_without_what_might_be_a_key(path, text, problem):
    path.write_text(text)
    with pytest.raises(InputError, match=problem) as error:
        keys.load(path)
    assert "my-secret-key" not in str(error.value)


def test_a_keys_file_that_is_not_there_or_no_text(path):
    with pytest.raises(InputError, match="cannot be read"):
        keys.load(path)
    path.write_bytes(b"my-secret-key\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8") as error:
        keys.load(path)
    assert "my-secret-key" not in str(error.value)


def test_a_key_is_not_added_to_another_file_or_for_no_name(path, tmp_path):
    path.write_text("mention,code\nx,y\n")
    with pytest.raises(InputError):
        keys.add(path, "ann")
    assert path.read_text() == "mention,code\nx,y\n"
    for name in ("", " ann", "a\nb", "a\tb", "#ann"):
        with pytest.raises(InputError, match="not a valid reviewer name"):
            keys.add(tmp_path / "other.tsv", name)
    with pytest.raises(AlphitaError, match="cannot be written"):
        keys.add(tmp_path / "no such folder" / "keys.tsv", "ann")


def test_each_key_is_a_reviewer_and_nothing_is_answered_without_one(normalizer, path):
    ann, old = keys.add(path, "ann"), keys.add(path, "old", date(2001, 1, 1))
    with client_of(normalizer, keys=path) as client:
        for url in ("/search?q=a", "/metrics", "/openapi.json", "/docs", "/concepts/T:1", "/api/me", "/nothing"):
            refused = client.get(url)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert code_of(refused) == "no_key"
        assert client.post("/normalize", json={"mentions": ["cold"]}).status_code == 401
        assert code_of(client.get("/search?q=a", headers=bearer("wrong"))) == "wrong_key"
        assert code_of(client.get("/search?q=a", headers={"Authorization": f"Basic {ann}"})) == "wrong_key"
        assert code_of(client.get("/search?q=a", headers=bearer(old))) == "expired_key"
        twice = [("Authorization", f"Bearer {ann}"), ("Authorization", f"Bearer {ann}")]
        assert code_of(client.get("/search?q=a", headers=twice)) == "no_key"
        assert client.get("/search?q=a", headers=bearer(ann)).status_code == 200
        assert client.get("/search?q=a", headers={"Authorization": f"bearer {ann}"}).status_code == 200
        assert client.get("/api/me", headers=bearer(ann)).json()["reviewer"] == "ann"
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code in (200, 503)
        assert client.post("/health").status_code == 401


def test_wrong_keys_are_slowed_down(normalizer, path, monkeypatch):
    # However long the first ones take, the bucket does not fill again.
    monkeypatch.setattr(keys, "WRONG_A_SECOND", 1e-6)
    ann = keys.add(path, "ann")
    with client_of(normalizer, keys=path) as client:
        codes = [client.get("/search?q=a", headers=bearer("wrong")).status_code for _ in range(20)]
        assert set(codes) == {401}
        start = time.monotonic()
        assert client.get("/search?q=a", headers=bearer("wrong")).status_code == 429
        assert time.monotonic() - start >= PAUSE
        assert client.get("/search?q=a", headers=bearer(ann)).status_code == 200


def test_a_proxys_header_says_who_asks(normalizer):
    header = {"X-User": "Dr. Ben Ö".encode()}
    with client_of(normalizer, trust_user_header="X-User") as client:
        assert client.get("/api/me", headers=header).json()["reviewer"] == "Dr. Ben Ö"
        assert code_of(client.get("/api/me")) == "no_user"
        assert code_of(client.get("/api/me", headers={"X-User": " "})) == "no_user"
        twice = [("X-User", "ann"), ("X-User", "ben")]
        assert code_of(client.get("/api/me", headers=twice)) == "no_user"


@pytest.mark.parametrize("value", [b"\xff", b"a\tb", b"x" * 101, "a\u202eb".encode()])
def test_a_header_that_is_no_name_is_refused(value):
    doors = keys.Authentication(lambda *_: None, Settings(trust_user_header="X-User"))
    with pytest.raises(Refusal, match="valid user name"):
        asyncio.run(doors.identify({"type": "http", "headers": [(b"x-user", value)], "client": ("127.0.0.1", 1)}))


def test_the_header_is_believed_from_the_proxy_only(normalizer):
    header = {"X-User": "ann"}
    with client_of(normalizer, trust_user_header="X-User", peer="10.0.0.9") as client:
        assert code_of(client.get("/api/me", headers=header)) == "not_the_proxy"
        sent = header | {"X-Forwarded-For": "127.0.0.1"}
        assert code_of(client.get("/api/me", headers=sent)) == "not_the_proxy"
    with client_of(normalizer, trust_user_header="X-User", peer="10.0.0.9", proxies=("10.0.0.0/24",)) as client:
        assert client.get("/api/me", headers=header).json()["reviewer"] == "ann"
    with client_of(normalizer, trust_user_header="X-User", peer="::ffff:127.0.0.1") as client:
        assert client.get("/api/me", headers=header).json()["reviewer"] == "ann"
    with client_of(normalizer, trust_user_header="X-User", peer="no address") as client:
        assert code_of(client.get("/api/me", headers=header)) == "not_the_proxy"


def test_on_this_machine_alone_nobody_needs_a_key(normalizer):
    with client_of(normalizer) as client:
        assert client.get("/api/me", headers={"X-User": "ann"}).json()["reviewer"] == keys.LOCAL


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
def test_other_machines_are_not_let_in_unknown(host, path):
    with pytest.raises(UsageError, match="give --keys FILE"):
        Settings(host=host).check()
    Settings(host=host, keys=path).check()
    Settings(host=host, trust_user_header="X-User").check()


def test_addresses_of_this_machine():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "localhost.example.org", "10.0.0.1", "")))
