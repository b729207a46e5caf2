"""`alphita serve --check` and `--config`: each thing that is wrong is told with what to do."""

from __future__ import annotations

import shutil
import socket
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from alphita import machine
from alphita.errors import MissingExtra
from alphita.index.store import build
from alphita.review.store import ReviewStore
from alphita.service import keys
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.cli.command import alphita
from tests.doubles import HashEncoder


@pytest.fixture
def said(monkeypatch, index_path, tmp_path, capsys):
    """Check a server of the index with some more options; return the exit code and the lines printed."""
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr(machine, "set_threads", lambda threads: threads or 1)
    monkeypatch.chdir(tmp_path)

    def run(*options):
        code = alphita("serve", "--check", "--to", index_path, "--port", 0, *options)
        shown = capsys.readouterr()
        return code, shown.out.splitlines() + shown.err.splitlines()

    return run


def line(lines, part):
    (found,) = [line for line in lines if line.split()[1] == part]
    return found


def test_what_would_start_is_said_and_nothing_is_made(said, tmp_path):
    code, lines = said("--mappings", "reviews.sqlite")
    assert (code, [line.split()[:2] for line in lines]) == (
        0,
        [["ok", "keys"], ["ok", "address"], ["ok", "index"], ["note", "calibration"], ["ok", "reviews"]],
    )
    assert list(tmp_path.glob("reviews*")) == []


@pytest.mark.parametrize(
    ("version", "code", "text"),
    [
        (99, 1, "wrong  reviews      … version 99; this program knows version 3; install a newer alphita"),
        (1, 0, "note   reviews      … copy it before"),
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


def test_what_is_wrong_with_one_part_keeps_no_other_from_being_looked_at(said, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, lines = said("--port", taken.getsockname()[1])
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


@pytest.mark.parametrize(("days", "state"), [(-1, "expired on"), (3, "ends on")])
def test_a_key_that_ends_is_told_with_the_command_for_a_new_one(said, tmp_path, days, state):
    path = tmp_path / "keys.tsv"
    keys.add(path, "ann", datetime.now(UTC).date() + timedelta(days=days))
    keys.add(path, "bob")
    code, lines = said("--keys", path)
    assert code == 0
    (told,) = [line for line in lines if line.startswith("note") and " keys " in line]
    assert f"ann's key {state}" in told
    assert f"alphita serve --keys {path} --new-key ann --key-days 90" in told


def test_keys_that_have_all_expired(said, tmp_path, capsys):
    path = tmp_path / "keys.tsv"
    keys.add(path, "ann", datetime.now(UTC).date() - timedelta(days=1))
    code, lines = said("--keys", path)
    assert code == 1
    (wrong,) = [line for line in lines if line.startswith("wrong  keys")]
    assert "nobody could ask" in wrong
    # Nor does it start, and says the same before it opens anything.
    assert alphita("serve", "--keys", path, "--to", "no.index") == 1
    told = capsys.readouterr().err
    assert wrong.removeprefix("wrong  keys").strip() in told
    assert f"alphita serve --keys {path} --new-key ann --key-days 90" in told


def test_a_calibration_that_is_not_there_any_more(monkeypatch, tmp_path, capsys):
    encoder = VocabularyEncoder()
    index = build(synthetic_terminology(120), encoder, tmp_path / "x.index")
    quick_fit(index, encoder).save(index.path / "calibration")
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda *_, **__: encoder)
    monkeypatch.setattr(machine, "set_threads", lambda threads: threads or 1)
    for state, said in (("ok", "certified"), ("note", "if it was, put it back")):
        assert alphita("serve", "--check", "--to", index.path, "--port", 0) == 0
        told = line(capsys.readouterr().out.splitlines(), "calibration")
        assert told.startswith(state)
        assert said in told
        shutil.rmtree(index.path / "calibration", ignore_errors=True)


def test_options_from_a_file_and_the_command_line_wins(said, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "serve.toml").write_text(
            f'port = {port}\nmappings = "reviews.sqlite"\nallow-host = ["a.example"]\n'
        )
        code, lines = said("--config", "serve.toml")  # with --port 0
        assert code == 0
        assert "reviews.sqlite is not there yet" in line(lines, "reviews")
        (tmp_path / "serve.toml").write_text(f'host = "127.0.0.1"\nport = {port}\n')
        assert alphita("serve", "--check", "--to", "hpo", "--config", "serve.toml") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prot = 8080\n", "unknown option 'prot'; did you mean 'port'? choose from ["),
        ("port = \n", "not valid TOML"),
        ("config = 'again.toml'\n", "unknown option 'config'"),
    ],
)
def test_a_file_of_options_that_is_wrong(said, tmp_path, text, problem):
    (tmp_path / "serve.toml").write_text(text)
    code, lines = said("--config", "serve.toml")
    assert code == 1
    assert lines[0].startswith("error: serve.toml: ")
    assert problem in lines[0]


def test_a_value_in_a_file_is_checked_like_one_of_the_command_line(said, tmp_path):
    (tmp_path / "serve.toml").write_text("queue = 0\n")
    code, lines = said("--config", "serve.toml")
    assert code == 2
    assert "--queue" in " ".join(lines)
