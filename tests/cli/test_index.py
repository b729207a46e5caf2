"""`alphita index`, with a stand-in for the encoder."""

from __future__ import annotations

import pytest

from alphita.index.store import Index
from tests.cli.command import alphita
from tests.doubles import HashEncoder, small_terminology


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: HashEncoder())
    monkeypatch.setattr("alphita.terminology.store.load_terminology", lambda path: small_terminology())
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)


def test_what_it_is_given_beside_the_terminology_is_told(tmp_path, capsys):
    out = tmp_path / "x.index"
    assert alphita("index", "--model", "m", "--terminology", "t", "-o", out) == 0
    said, index = capsys.readouterr().out, Index.open(out)
    borrowed = int(index.segment.borrowed.sum())
    assert borrowed > 10
    assert f"{borrowed:,} of the names are borrowed from other vocabularies (--no-borrow" in said
    assert "head: this encoder takes none" in said
    assert len(index.segment.short_forms) > 1_000
    assert alphita("index", "--model", "m", "--terminology", "t", "-o", out, "--force", "--learn", "no") == 0
    assert "head:" not in capsys.readouterr().out
    assert alphita("index", "--model", "m", "--terminology", "t", "-o", out, "--force", "--learn", "days") == 2
    assert "unknown learning 'days'" in capsys.readouterr().err


def test_held_out_strings_are_left_out(tmp_path, capsys, monkeypatch):
    class Held:
        cleaned = frozenset({"cephalgia"})

    monkeypatch.setattr("alphita.terminology.splits.Split.load", lambda path: Held())
    out = tmp_path / "x.index"
    assert alphita("index", "--model", "m", "--terminology", "t", "-o", out, "--exclude-split", "s", "--no-borrow") == 0
    assert "(1 held-out strings left out)" in capsys.readouterr().out
    assert Index.open(out).rows(["cephalgia"]).tolist() == [-1]


@pytest.mark.parametrize(
    ("option", "what"), [("terminology", "terminology"), ("model", "model"), ("exclude-split", "split")]
)
def test_what_is_read_is_not_replaced(tmp_path, capsys, option, what):
    folder = tmp_path / "x"
    folder.mkdir()
    given = {"terminology": "t", "model": "m", option: folder}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    assert alphita("index", *options, "-o", folder, "--force") == 2
    assert capsys.readouterr().err == f"error: {folder} is the {what}; choose another name for the output\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_an_engine_encodes(tmp_path, capsys, monkeypatch):
    from tests.jobs.test_indexing import InProcess

    class Named(HashEncoder):
        precision = "fp32"

    asked = []
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: Named())
    monkeypatch.setattr("alphita.jobs.engines.open_engine", lambda *given: asked.append(given) or InProcess())
    out, parts = tmp_path / "x.index", tmp_path / "p"
    options = ["--engine", "ray", "--workers", 2, "--address", "head:6379", "--gpus-per-worker", 0.5, "--parts", parts]
    assert alphita("index", "--model", "m", "--terminology", "t", "-o", out, *options) == 0
    assert asked == [("ray", 2, "head:6379", 0.5)]
    assert f"{out}: " in capsys.readouterr().out
    assert alphita("index", "--model", "m", "--terminology", "t", "-o", tmp_path / "alone.index") == 0
    assert Index.open(out).content_hash == Index.open(tmp_path / "alone.index").content_hash


def test_an_index_is_updated_with_its_own_model(tmp_path, capsys):
    old, out = tmp_path / "old.index", tmp_path / "new.index"
    assert alphita("index", "--model", "m", "--terminology", "t", "-o", old) == 0
    capsys.readouterr()
    assert alphita("index", "--update", old, "--terminology", "t", "-o", out) == 0
    assert f"vectors of {len(Index.open(old))} strings taken from {old}, 0 encoded" in capsys.readouterr().err
    assert Index.open(out).vectors.tobytes() == Index.open(old).vectors.tobytes()


def test_the_whole_encoder_is_trained_on_demand(tmp_path, capsys, monkeypatch):
    out, asked, loaded = tmp_path / "x.index", [], []
    monkeypatch.setattr("alphita_lab.front.train", lambda *given, **settings: asked.append((given, settings)))
    monkeypatch.setattr(
        "alphita.encoder.encoder.TermEncoder.load", lambda path, **_: loaded.append(path) or HashEncoder()
    )
    assert alphita("index", "--terminology", "t", "-o", out, "--learn", "full") == 0
    ((recipe, terminology, model), settings) = asked[0]
    assert (recipe, str(terminology), model) == ("coder", "t", tmp_path / "x.index.model")
    assert (settings["resume"], settings["steps"]) == (True, 800)
    assert loaded[0] == str(model)
    assert alphita("index", "--terminology", "t", "-o", tmp_path / "y", "--learn", "full", "--model", "m") == 2
    assert "leave out --model" in capsys.readouterr().err
