"""An index built by spawned processes has the bytes of the one built by a single process."""

from __future__ import annotations

from alphita.encoder.encoder import TermEncoder
from alphita.index import encoding, store
from alphita.jobs import indexing
from alphita.jobs.engines.processes import open_engine
from tests.tiny import tiny_model, tiny_terminology


def test_two_processes_build_the_index_of_one(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "STRINGS_A_BLOCK", 9)
    monkeypatch.chdir(tmp_path)
    model, terminology = tiny_model(tmp_path / "model"), tiny_terminology(tmp_path / "t.terminology")
    alone = store.build(terminology, TermEncoder.load(model), "alone.index")
    with open_engine(2) as engine:
        built = indexing.build(terminology, "model", "built.index", engine)
    assert len(built) > 9 * 5
    assert built.content_hash == alone.content_hash
    assert built.manifest["files"] == alone.manifest["files"]
    assert not (tmp_path / "built.index.parts").exists()
