"""`alphita serve` up to the point where it would listen."""

from __future__ import annotations

import socket
import tempfile

import pytest

import alphita
from alphita import machine
from alphita.cli import serve as command
from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.index.store import build
from alphita.quickstart import read_sample, sample_path
from alphita.review.store import ReviewStore
from alphita.service import app, keys, review_files
from alphita.terminology import store as terminologies
from alphita.terminology.loaders import table
from tests.doubles import HashEncoder


@pytest.fixture
def served(monkeypatch):
    """What would be served, and how."""
    found = {}
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
    monkeypatch.setattr(machine, "set_threads", lambda threads: threads or 1)
    monkeypatch.setattr("alphita.service.logs.configure", lambda **_: None)
    create = app.create

    def noted(settings, normalizer, store=None, terminology=None, further=()):
        found.update(
            settings=settings, normalizer=normalizer, store=store, terminology=terminology, further=list(further)
        )
        return create(settings, normalizer, store, terminology, further)

    monkeypatch.setattr(app, "create", noted)
    monkeypatch.setattr(command, "_serve", lambda served, settings, listening, show: found.update(listening=listening))
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
    command.serve(to=index_path, port=0, hosts=["review.local"], mappings=path, **options)
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
    assert f"{index_path}/calibration is not there, so that answers have no confidence" in warning


def test_behind_a_proxy_it_goes_by_this_machines_names_too(served, index_path):
    # Otherwise a page of another site, by a name that points here, could say who it is itself.
    proxied = {"trust_user_header": "X-User", "proxies": ["10.0.0.0/8"], "hosts": ["terms.example.org"]}
    command.serve(to=index_path, port=0, **proxied)
    assert set(served["settings"].hosts) == {"localhost", "127.0.0.1", "::1", "terms.example.org"}
    assert served["settings"].proxies == ("10.0.0.0/8",)
    assert served["store"] is None


def test_a_process_a_core_answers_by_default(served, index_path):
    command.serve(to=index_path, port=0, threads=3)
    assert len(served["further"]) == 2
    command.serve(to=index_path, port=0, threads=3, device="cuda")
    assert served["further"] == []
    command.serve(to=index_path, port=0, threads=3, processes=2)
    assert len(served["further"]) == 1


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
        ({"keys": "no-such.tsv"}, InputError, "the keys: cannot be read"),
        ({"keys": "k.tsv", "trust_user_header": "X-User"}, UsageError, "not both"),
        ({"new_key": "ann"}, UsageError, "--keys FILE"),
        ({"demo": True}, UsageError, "--demo brings its own"),
        ({"to": None}, UsageError, "say by --to"),
        ({"to": "no-such.index"}, InputError, "no-such.index"),
        ({"to": "hpoo"}, UsageError, "did you mean 'hpo'"),
        ({"mappings": "no-such-folder/reviews.sqlite"}, AlphitaError, "no-such-folder"),
        ({"terminology": "no-such.terminology"}, InputError, "no-such.terminology"),
        ({"host": "256.256.256.256", "trust_user_header": "X-User"}, AlphitaError, "cannot listen"),
    ],
)
def test_wrong_use_is_told(served, index_path, tmp_path, monkeypatch, options, kind, problem):
    monkeypatch.chdir(tmp_path)
    paths = {name: tmp_path / value for name, value in options.items() if name in ("keys", "mappings", "terminology")}
    with pytest.raises(kind, match=problem):
        command.serve(**({"to": index_path, "port": 0} | options | paths))
    assert "listening" not in served


def test_a_port_in_use_is_told(served, index_path):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(AlphitaError, match="try another --port"):
        command.serve(to=index_path, port=taken.getsockname()[1])


def test_a_terminology_that_is_not_the_indexs_is_told(served, tmp_path, capsys):
    paths = []
    for name in ("Headache", "Fever"):
        (tmp_path / "t.csv").write_text(f"id,term\nT:1,{name}\n")
        tables = table.load([tmp_path / "t.csv"], table.Options(), Rejects())
        paths.append(tmp_path / f"{name}.terminology")
        terminologies.save(tables, paths[-1], rejects=Rejects())
    index = build(terminologies.load_terminology(paths[0]), HashEncoder(), tmp_path / "x.index").path
    capsys.readouterr()
    command.serve(to=index, terminology=paths[0], port=0)
    assert "was not built from" not in capsys.readouterr().err
    command.serve(to=index, terminology=paths[1], port=0)
    assert f"{index} was not built from {paths[1]} as it is" in capsys.readouterr().err


def test_the_demo_brings_a_review(served, normalizer, index_path, tmp_path, monkeypatch):
    sample = tmp_path / "sample.csv"
    sample.write_text("mention,concept_id\nseizur,T:1\nhead ache,T:2\nxyzzy,NIL\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(review_files, "DEMO_TO", index_path)
    monkeypatch.setattr("alphita.quickstart.sample_path", lambda: sample)
    command.serve(demo=True, port=0)
    with ReviewStore.open(review_files.DEMO_STORE) as store:
        assert [project.name for project in store.projects()] == [review_files.DEMO_PROJECT]
        total, rows = store.queue(review_files.DEMO_PROJECT)
    assert total == 3
    assert {row.row.mention for row in rows} == {"seizur", "head ache", "xyzzy"}
    # Asked for again, it goes on with the review that is there.
    assert review_files.fill_demo(review_files.DEMO_STORE, normalizer, sample) == 0


@pytest.mark.slow
def test_the_demo_is_made_from_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    normalizer = alphita.load(review_files.DEMO_TO)
    mentions = read_sample(sample_path()).mentions
    assert review_files.fill_demo(tmp_path / "reviews.sqlite", normalizer) == len(set(mentions))
    with ReviewStore.open(tmp_path / "reviews.sqlite") as store:
        _, rows = store.queue(review_files.DEMO_PROJECT)
        assert all(0 <= row.row.confidence <= 1 for row in rows)
