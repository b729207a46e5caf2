"""`alphita server`, on a real PostgreSQL, with a stand-in for the encoder."""

from __future__ import annotations

import json

import pytest

from alphita.cli import server
from alphita.index.store import build
from tests.cli.command import alphita
from tests.doubles import ROWS, HashEncoder, SmallTerminology


def test_an_index_is_loaded_searched_updated_listed_and_dropped(database, index_path, tmp_path, capsys, monkeypatch):
    to = ("--to", database, "--name", "small")
    assert alphita("server", "load", index_path, *to, "--release", "2026-01") == 0
    assert capsys.readouterr().out == (
        "small: release 2026-01, 12 strings of 14 terms; the nearest string is found for 100.0% of 12 misspelt ones\n"
    )
    model = ("--model", index_path / "model")
    assert alphita("server", "search", "Seizures!", "headache", *to, *model, "--top", 1) == 0
    out = capsys.readouterr().out
    assert out.startswith("Seizures!  (release 2026-01)\n  0.")
    assert "\n  1.000  T:2  Headache  (Headache)\n" in out
    assert alphita("server", "search", "cold", *to, *model, "--top", 1, "--json", "--source", "TEST") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mention"] == "cold"
    assert [hit["concept_id"] for hit in found["hits"]] == ["T:3", "T:5", "T:4"]
    assert found["hits"][0]["release"] == "2026-01"
    assert alphita("server", "search", "cold", *to, *model, "--language", "it", "--type", "x") == 0
    assert capsys.readouterr().out == "cold\n"

    rows = [row for row in ROWS if row[1] != "Fits"] + [("T:9", "Cough", "exact")]
    build(SmallTerminology(rows, retired=["T:6"]), HashEncoder(), tmp_path / "new.index")
    assert alphita("server", "update", tmp_path / "new.index", *to, "--release", "2026-02") == 0
    assert capsys.readouterr().out == (
        "small: release 2026-02, strings +1 -1, terms +1 -1, 13 as before; the nearest string is found for 100.0% of "
        "12 misspelt ones\n"
    )
    monkeypatch.setenv("ALPHITA_SERVER", database)
    assert alphita("server", "list") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("small  release 2026-01, loaded 20")
    assert second.startswith("small  release 2026-02, loaded 20")
    assert second.endswith(": 12 strings, 14 terms")

    assert alphita("server", "drop", "--name", "small") == 2
    assert "this removes the index small with release 2026-02; say --yes" in capsys.readouterr().err
    assert alphita("server", "drop", "--name", "small", "--yes") == 0
    assert capsys.readouterr().out == "small: removed\n"
    assert alphita("server", "list") == 0
    assert capsys.readouterr().err.endswith("there is no index\n")


def test_what_is_wrong_is_said_in_one_line_before_the_work(database, index_path, tmp_path, capsys, monkeypatch):
    to = ("--to", database, "--name", "small")

    def error(*arguments: object) -> str:
        assert alphita("server", *arguments) in (1, 2)
        return str(capsys.readouterr().err.splitlines()[-1])

    # The server is asked first: nothing of the index was opened.
    lost = ("--to", "postgresql://me:secret@127.0.0.1:1/db", "--name", "small")
    said = error("load", tmp_path / "none.index", *lost, "--release", "1")
    assert said.startswith("error: cannot connect to PostgreSQL at me@127.0.0.1:1/db")
    assert "secret" not in said
    assert "none.index" in error("load", tmp_path / "none.index", *to, "--release", "1")
    assert "cannot be the name of a server index" in error(
        "load", index_path, "--to", database, "--name", "A b", "--release", "1"
    )
    assert "no server is known for this address" in error("list", "--to", "mysql://x")
    assert "there is no index 'small'" in error("update", index_path, *to, "--release", "1")
    assert "there is no index 'small'" in error("search", "cold", *to, "--model", index_path / "model")
    assert "there is no index 'small'" in error("drop", *to)
    assert alphita("server", "load", index_path, *to, "--release", "1") == 0
    assert "already" in error("load", index_path, *to, "--release", "2")
    assert alphita("server", "load", index_path, *to, "--release", "2", "--force") == 0
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: HashEncoder(seed=1))
    assert "was made by another model" in error("search", "cold", *to, "--model", "other")
    assert "does not belong to this index" in error("load", index_path, *to, "--release", "3", "--force")


@pytest.mark.parametrize("command", ["load", "update", "search", "list", "drop"])
def test_help_is_there(command, capsys):
    assert alphita("server", command, "--help") == 0
    assert "ALPHITA_SERVER" in capsys.readouterr().out
    assert server.app.info.help
