"""`alphita serve`, its --check and its --config, up to the point where it would listen."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import tempfile
from datetime import UTC, datetime, timedelta

import pytest

from alphita import load, machine
from alphita.cli import serve as command
from alphita.errors import AlphitaError, InputError, MissingExtra, Rejects, UsageError
from alphita.index import sources
from alphita.index.store import build
from alphita.quickstart import read_sample, sample_path
from alphita.review.store import ReviewStore
from alphita.service import app, keys, review_files
from alphita.service.settings import Settings
from alphita.terminology import store as terminologies
from alphita.terminology.loaders import table
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.cli.command import alphita
from tests.doubles import HashEncoder
from tests.review.reviews import candidate, row, say, store_of


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch, tmp_path):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr(machine, "set_threads", lambda threads: threads or 1)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def served(monkeypatch):
    """What would be served, and how."""
    found = {}
    monkeypatch.setattr("alphita.service.logs.configure", lambda **_: None)
    create = app.create

    def noted(settings, normalizer, store=None, terminology=None, further=(), reopen=None):
        found.update(settings=settings, store=store, further=list(further))
        return create(settings, normalizer, store, terminology, further, reopen)

    monkeypatch.setattr(app, "create", noted)
    monkeypatch.setattr(command, "run_app", lambda served, settings, listening, show: found.update(listening=listening))
    return found


@pytest.fixture
def said(index_path, capsys):
    """Check a server of the index with some more options; return the exit code and the lines printed."""

    def run(*options):
        code = alphita("serve", "--check", "--to", index_path, "--port", 0, *options)
        shown = capsys.readouterr()
        return code, shown.out.splitlines() + shown.err.splitlines()

    return run


def line(lines, part):
    (found,) = [line for line in lines if line.split()[1] == part]
    return found


def test_what_is_served(served, index_path, tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr("alphita.service.logs.warn", lambda _, message: warnings.append(message))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # What a killed server left of an upload.
    left = tmp_path / ".alphita.1-01234567.draft"
    left.mkdir()
    (left / "given").touch()
    path = tmp_path / "reviews.sqlite"
    options = {"window_ms": 3, "queue": 7, "rate": 0, "log_mentions": True, "seconds": 2, "max_rows": 9}
    command.serve(to=index_path, port=0, hosts=["review.local"], mappings=path, threads=3, **options)
    settings = served["settings"]
    assert {name: getattr(settings, name) for name in options} == options
    assert settings.access == "local"
    assert set(settings.hosts) == {"localhost", "127.0.0.1", "::1", "review.local"}
    # What asyncio looks at before it turns Nagle's algorithm off.
    assert served["listening"].proto == socket.IPPROTO_TCP
    assert not left.exists()
    assert path.stat().st_mode & 0o777 == 0o600
    assert served["store"] is not None
    (warning,) = warnings
    assert f"{index_path}/calibration does not exist, so answers have no confidence" in warning
    # A process a core answers by default, but for a GPU.
    assert len(served["further"]) == 2
    # Behind a proxy it goes by this machine's names too: otherwise a page of another site, by a name that points here,
    # could say who it is itself.
    proxied = {"trust_user_header": "X-User", "proxies": ["10.0.0.0/8"], "hosts": ["terms.example.org"]}
    command.serve(to=index_path, port=0, threads=3, device="cuda", **proxied)
    assert set(served["settings"].hosts) == {"localhost", "127.0.0.1", "::1", "terms.example.org"}
    assert (served["settings"].proxies, served["store"], served["further"]) == (("10.0.0.0/8",), None, [])
    command.serve(to=index_path, port=0, threads=3, processes=2)
    assert len(served["further"]) == 1


def test_phrases_confirmed_before_the_start_are_learned(served, index_path, tmp_path, monkeypatch):
    choices, index_of = [], sources.index_of
    monkeypatch.setattr(
        sources, "index_of", lambda to, given, **more: choices.append(given) or index_of(to, given, **more)
    )
    with store_of(tmp_path / "r.sqlite", [row("brain zaps", candidate("T:1", "headache"))], "") as store:
        say(store, 1, "accept", "T:1")
    command.serve(to=index_path, port=0, mappings=tmp_path / "r.sqlite", threads=1)
    assert [phrase.name for phrase in choices[0].confirmed] == ["brain zaps"]


def test_a_new_key_is_printed_once(tmp_path, capsys):
    path = tmp_path / "keys.tsv"
    command.serve(keys=path, new_key="ann", key_days=30)
    said = capsys.readouterr()
    (held,) = keys.load(path)
    assert held.digest == keys.digest(said.out.strip())
    assert held.last_day is not None
    assert said.out.strip() not in said.err


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({"host": "0.0.0.0"}, UsageError, "give --keys FILE"),
        ({"keys": "no-such.tsv"}, InputError, "no-such.tsv: cannot be read"),
        ({"keys": "k.tsv", "trust_user_header": "X-User"}, UsageError, "not both"),
        ({"new_key": "ann"}, UsageError, "--keys FILE"),
        ({"new_key": "ann", "keys": "k.tsv", "key_days": 10**9}, UsageError, "is not a valid date"),
        ({"demo": True}, UsageError, "--demo brings its own"),
        ({"to": None}, UsageError, "--to is missing"),
        ({"to": "no-such.index"}, InputError, "no-such.index"),
        ({"to": "hpoo"}, UsageError, "did you mean 'hpo'"),
        ({"error": 0.02}, UsageError, "0.02 needs a calibration"),
        ({"nil_error": 0.03}, UsageError, "0.03 needs a calibration"),
        ({"mappings": "no-such-folder/reviews.sqlite"}, AlphitaError, "no-such-folder"),
        ({"terminology": "no-such.terminology"}, InputError, "no-such.terminology"),
        ({"host": "256.256.256.256", "trust_user_header": "X-User"}, AlphitaError, "cannot listen.*try another --host"),
    ],
)
def test_wrong_use_is_told(served, index_path, tmp_path, options, kind, problem):
    paths = {name: tmp_path / value for name, value in options.items() if name in ("keys", "mappings", "terminology")}
    with pytest.raises(kind, match=problem):
        command.serve(**({"to": index_path, "port": 0} | options | paths))
    assert "listening" not in served


def test_a_terminology_that_is_not_the_indexs_is_told(served, tmp_path, capsys):
    paths = []
    for name in ("Headache", "Fever"):
        (tmp_path / "t.csv").write_text(f"id,term\nT:1,{name}\n")
        tables = table.load([tmp_path / "t.csv"], table.Options(), Rejects())
        paths.append(tmp_path / f"{name}.terminology")
        terminologies.save(tables, paths[-1], rejects=Rejects())
    index = build(terminologies.load_terminology(paths[0]), HashEncoder(), tmp_path / "x.index").path
    for path, told in ((paths[0], False), (paths[1], True)):
        capsys.readouterr()
        command.serve(to=index, terminology=path, port=0)
        assert (f"{index} was not built from {path} as it is" in capsys.readouterr().err) == told


def test_the_demo_brings_a_review(served, normalizer, index_path, tmp_path, monkeypatch):
    sample = tmp_path / "sample.csv"
    sample.write_text("mention,concept_id\nseizur,T:1\nhead ache,T:2\nxyzzy,NIL\n")
    monkeypatch.setattr(review_files, "DEMO_TO", index_path)
    monkeypatch.setattr("alphita.quickstart.sample_path", lambda: sample)
    command.serve(demo=True, port=0)
    with ReviewStore.open(review_files.DEMO_STORE) as store:
        assert [project.name for project in store.projects()] == [review_files.DEMO_PROJECT]
        _, rows = store.queue(review_files.DEMO_PROJECT)
    assert {row.row.mention for row in rows} == {"seizur", "head ache", "xyzzy"}
    # Asked for again, it goes on with the review that is there.
    assert review_files.fill_demo(review_files.DEMO_STORE, normalizer, sample) == 0


@pytest.mark.slow
def test_the_demo_is_made_from_nothing(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    mentions = read_sample(sample_path()).mentions
    path = tmp_path / "reviews.sqlite"
    assert review_files.fill_demo(path, load(review_files.DEMO_TO)) == len(set(mentions))
    with ReviewStore.open(path) as store:
        _, rows = store.queue(review_files.DEMO_PROJECT)
        assert all(0 <= row.row.confidence <= 1 for row in rows)


# --- --check and --config --------------------------------------------------------------------------------------------


def test_what_is_wrong_with_a_file_is_said_once(said, tmp_path):
    (tmp_path / "keys.tsv").write_text("ann\n")
    code, lines = said("--keys", "keys.tsv", "--audit", tmp_path)
    assert code == 1
    assert [line.split()[1] for line in lines if line.startswith("wrong")] == ["keys", "audit"]


def test_what_would_start_is_said_and_nothing_is_made(said, tmp_path):
    code, lines = said("--mappings", "reviews.sqlite")
    parts = [["ok", "keys"], ["ok", "address"], ["ok", "index"], ["note", "calibration"], ["ok", "reviews"]]
    assert (code, [line.split()[:2] for line in lines]) == (0, parts)
    assert list(tmp_path.glob("reviews*")) == []


@pytest.mark.parametrize(
    ("version", "code", "text"),
    [
        (99, 1, "wrong  reviews      … version 99; this program knows version 3; install a newer alphita"),
        (1, 1, "wrong  reviews      … with the alphita that made it, and import them into a new one"),
        (None, 1, "wrong  reviews      … its folder does not exist"),
    ],
)
def test_a_store_of_another_version_stays_as_it_is(said, version, code, text):
    path = "nowhere/reviews.sqlite" if version is None else "reviews.sqlite"
    if version is not None:
        ReviewStore.open(path, create=True).close()
        with sqlite3.connect(path) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
    exit_code, lines = said("--mappings", path)
    start, _, end = text.partition("… ")
    assert exit_code == code
    assert line(lines, "reviews").startswith(start)
    assert line(lines, "reviews").endswith(end)
    if version is not None:
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (version,)


def test_what_is_wrong_with_one_part_keeps_no_other_from_being_looked_at(said, index_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, lines = said("--port", port)
        with pytest.raises(AlphitaError, match="try another --port"):
            command.serve(to=index_path, port=port)
    assert code == 1
    assert line(lines, "address").startswith("wrong")
    assert line(lines, "address").endswith("try another --port")
    assert line(lines, "index").startswith("ok")

    def without_torch(*_, **__):
        raise MissingExtra("torch", "train")

    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", without_torch)
    code, lines = said("--device", "cuda")
    assert code == 1
    assert line(lines, "index").endswith("pip install 'alphita[train]'")


def test_the_address_of_the_login_is_one_of_the_servers_names(tmp_path):
    (tmp_path / "rights.toml").write_text('[coders]\nrights = ["read"]\n')
    of_issuer = {"oidc_issuer": "https://sso.example.org", "oidc_client": "c", "oidc_url": "https://Terms.example.org"}
    settings = command.usable(Settings(rights=tmp_path / "rights.toml", **of_issuer))
    assert set(settings.hosts) == {"localhost", "127.0.0.1", "::1", "terms.example.org"}


@pytest.mark.parametrize(("days", "state"), [(-1, "expired on"), (3, "expires on")])
def test_a_key_that_ends_is_told_with_the_command_for_a_new_one(said, tmp_path, capsys, days, state):
    path = tmp_path / "keys.tsv"
    renewal = f"alphita serve --keys {path} --new-key ann --key-days 90"
    keys.add(path, "ann", datetime.now(UTC).date() + timedelta(days=days))
    if days < 0:
        code, lines = said("--keys", path)
        (wrong,) = [line for line in lines if line.startswith("wrong  keys")]
        assert (code, "nobody could use the server" in wrong) == (1, True)
        # Nor does it start, and says the same before it opens anything.
        assert alphita("serve", "--keys", path, "--to", "no.index") == 1
        told = capsys.readouterr().err
        assert wrong.removeprefix("wrong  keys").strip() in told
        assert renewal in told
    keys.add(path, "bob")
    code, lines = said("--keys", path)
    assert code == 0
    told, of_bob = [line for line in lines if line.startswith("note") and " keys " in line]
    assert f"ann's key {state}" in told
    assert "bob's key never expires" in of_bob
    assert renewal in told


def test_a_pipe_is_no_file_of_keys_or_roles_and_is_not_waited_for(said, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for part in ("keys", "rights"):
        code, lines = said(f"--{part}", tmp_path / "pipe")
        assert code == 1
        assert "not a plain file" in line(lines, part)


def test_roles_that_nobody_has_or_defined_are_told(said, tmp_path):
    path, rights = tmp_path / "keys.tsv", tmp_path / "rights.toml"
    rights.write_text('[coders]\nrights = ["read"]\n[none]\nrights = []\n[named]\nrights = []\nusers = ["eve"]\n')
    keys.add(path, "ann", datetime.now(UTC).date() + timedelta(days=3), ["coders", "gone"])
    code, lines = said("--keys", path, "--rights", rights)
    notes = [line for line in lines if line.startswith("note") and ("keys" in line or "rights" in line)]
    assert code == 0
    assert notes[0].endswith("--new-key ann --key-days 90 --role coders --role gone")
    assert [("'gone'" in note, "'none'" in note) for note in notes[1:]] == [(True, False), (False, True)]
    rights.write_text('["*"]\nrights = ["read"]\nprojects = ["lab", "gone"]\n')
    ReviewStore.open("known.sqlite", create=True).close()
    code, lines = said("--rights", rights, "--mappings", "known.sqlite")
    assert (code, sum("names the project" in line for line in lines)) == (0, 2)
    (secret := tmp_path / "secret").write_text("x")
    # An issuer knows who is in which group.
    code, lines = said("--rights", rights, "--oidc-issuer", "http://127.0.0.1:9", "--oidc-client", "c")
    assert [line.split()[:2] for line in lines if " issuer " in line] == [["wrong", "issuer"]]
    _, lines = said(
        "--rights", rights, "--oidc-issuer", "http://127.0.0.1:9", "--oidc-client", "c", "--oidc-secret", secret
    )
    assert any(line.endswith(f"chmod 600 {secret}") for line in lines)
    assert not any("nobody has" in line for line in lines)


def test_a_calibration_that_is_not_there_any_more(monkeypatch, tmp_path, capsys):
    encoder = VocabularyEncoder()
    index = build(synthetic_terminology(120), encoder, tmp_path / "x.index")
    quick_fit(index, encoder).save(index.path / "calibration")
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda *_, **__: encoder)
    for state, said in (("ok", "certified"), ("note", "run alphita calibrate")):
        assert alphita("serve", "--check", "--to", index.path, "--port", 0) == 0
        told = line(capsys.readouterr().out.splitlines(), "calibration")
        assert told.startswith(state)
        assert said in told
        shutil.rmtree(index.path / "calibration", ignore_errors=True)


def test_options_from_a_file_and_the_command_line_wins(said, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = tmp_path / "serve.toml"
        config.write_text(f'port = {port}\nmappings = "reviews.sqlite"\nallow-host = ["a.example"]\n')
        code, lines = said("--config", "serve.toml")  # with --port 0
        assert code == 0
        assert "reviews.sqlite does not exist yet" in line(lines, "reviews")
        config.write_text(f'host = "127.0.0.1"\nport = {port}\n')
        assert alphita("serve", "--check", "--to", "hpo", "--config", "serve.toml") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\nprot = 8080\n", ":2: unknown option 'prot'; did you mean 'port' or 'proxy'"),
        ("port = \n", ":1: not valid TOML: Invalid value"),
        ("port = [1,\n2", ":2: not valid TOML: Unclosed array"),
        ("config = 'again.toml'\n", ":1: unknown option 'config'"),
        ("trust-user-header = '''x\nqueue = 1\n'''\nqueue = 0\n", ":4: Input should be greater than or equal to 1"),
        ("rate = 'fast'\n", ":1: Input should be a valid number"),
        ("port = true\n", ":1: must not be true or false"),
        ("log-mentions = 'no'\n", ":1: must be true or false"),
        ("allow-host = 'a.example'\n", ":1: must be a list"),
        ("[server]\nport = 1\n", ":1: unknown option 'server'"),
        ("server.port = 1\n", ":1: unknown option 'server'"),
    ],
)
def test_a_file_of_options_that_is_wrong_is_told_by_line_beside_the_other_parts(said, capsys, tmp_path, text, problem):
    (tmp_path / "serve.toml").write_text(text)
    code, lines = said("--config", "serve.toml")
    is_read = "TOML" not in problem
    assert code == (1 if is_read else 2)
    assert f"serve.toml{problem}" in line(lines, "options")
    assert line(lines, "index").startswith("ok")
    assert line(lines, "keys").startswith("ok" if is_read else "note   keys         not checked")
    assert alphita("serve", "--config", "serve.toml") == 1
    assert capsys.readouterr().err.startswith(f"error: serve.toml{problem}")


def test_options_that_are_wrong_are_told_beside_the_other_parts(index_path, capsys):
    options = ("--port=abc", "--queue", 0, "--host", "0.0.0.0", "--audit", "none/audit.jsonl")
    assert alphita("serve", "--check", "--json", *options) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(one["part"], one["text"]) for one in found if one["state"] == "wrong"]
    wanted = ("'--port'", "'--queue'", "let other machines in", "--to is missing", "none/audit.jsonl")
    assert all(word in text for word, (_, text) in zip(wanted, told, strict=True))
    assert [part for part, _ in told] == ["options"] * 3 + ["index", "audit"]
    assert alphita("serve", "--queue", 0, "--to", index_path) == 2
