"""An index built by an engine's workers: the bytes of the one built by a single process, whatever happens to them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index import encoding, store
from alphita.index.choice import Building
from alphita.index.store import Index
from alphita.jobs.engines import Opening, Receipt
from alphita.jobs.indexing import Blocks, EncoderOpening, build
from alphita.jobs.parts import Place
from tests.doubles import HashEncoder, SmallTerminology

BLOCK = 7


class InProcess:
    """An engine that does tasks here, last first, each opened anew, and may end before the last."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.done, self.checked = most, [], 0

    def facts(self) -> dict[str, str | int]:
        return {"engine": "in process"}

    def check(self, opening: Opening) -> None:
        self.checked += 1
        pickle.loads(pickle.dumps(opening))()

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        assert what == "Encoding terms"
        for task in reversed(tasks):
            if self.most is not None and len(self.done) >= self.most:
                raise AlphitaError("broken off")
            self.done.append(task)
            yield task, pickle.loads(pickle.dumps(opening))()(task)

    def release(self) -> None:
        self.released_after = len(self.done)

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def terms(number: int = 40, word: str = "pain") -> SmallTerminology:
    return SmallTerminology([(f"T:{n}", f"{word} of kind {n} grade {n % 3}", "exact") for n in range(number)])


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch):
    class Encoder(HashEncoder):
        precision = "fp32"

    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: Encoder())
    monkeypatch.setattr(encoding, "STRINGS_A_BLOCK", BLOCK)


def files_of(index: Path) -> dict[str, Any]:
    return json.loads((index / "manifest.json").read_text())["files"]


@pytest.mark.parametrize("half", [False, True])
def test_the_bytes_are_those_of_one_process(tmp_path, half):
    alone = store.build(terms(), HashEncoder(), tmp_path / "alone.index", how=Building(half=half))
    engine = InProcess()
    built = build(terms(), "m", tmp_path / "built.index", engine, how=Building(half=half))
    assert sorted(engine.done) == [0, 1, 2, 3, 4, 5]  # 40 strings in blocks of 7
    assert engine.checked == 1
    assert engine.released_after == len(engine.done)
    assert files_of(built.path) == files_of(alone.path)
    assert built.content_hash == alone.content_hash
    assert not (tmp_path / "built.index.parts").exists()


def test_a_job_goes_on_where_it_was_broken_off(tmp_path):
    out, parts = tmp_path / "x.index", tmp_path / "x.index.parts"
    with pytest.raises(AlphitaError, match="broken off"):
        build(terms(), "m", out, InProcess(most=2))
    assert not out.exists()
    assert sorted(path.name for path in (parts / "vectors").iterdir()) == ["00004.npy", "00005.npy"]
    # What a killed worker leaves half written counts for nothing.
    (parts / "drafts" / "00002.npy.0a1b2c3d4e5f").write_bytes(b"half")
    again = InProcess()
    built = build(terms(), "m", out, again)
    assert sorted(again.done) == [0, 1, 2, 3]
    assert built.content_hash == store.build(terms(), HashEncoder(), tmp_path / "alone.index").content_hash
    assert not parts.exists()


def test_the_parts_of_another_job_are_refused(tmp_path):
    out = tmp_path / "x.index"
    with pytest.raises(AlphitaError, match="broken off"):
        build(terms(word="ache"), "m", out, InProcess(most=3))
    with pytest.raises(UsageError, match=r"x\.index\.parts holds the parts of another job \(different: strings_hash\)"):
        build(terms(), "m", out, InProcess())
    with pytest.raises(UsageError, match=r"another job \(different: .*half"):
        build(terms(word="ache"), "m", out, InProcess(), how=Building(half=True))
    anew = InProcess()
    built = build(terms(), "m", out, anew, force=True)
    assert len(anew.done) == 6
    assert built.content_hash == store.build(terms(), HashEncoder(), tmp_path / "alone.index").content_hash


def test_an_unreadable_job_is_refused_and_unfinished_beginnings_are_not(tmp_path):
    parts = tmp_path / "p"
    (parts / "vectors").mkdir(parents=True)
    (parts / "job.json").write_text("{")
    with pytest.raises(UsageError, match="it cannot be read"):
        build(terms(), "m", tmp_path / "x.index", InProcess(), parts=str(parts))
    # Vectors without a job may be of other strings.
    (parts / "job.json").unlink()
    np.save(parts / "vectors" / "00000.npy", np.zeros((BLOCK, 64), np.float32))
    engine = InProcess()
    build(terms(), "m", tmp_path / "x.index", engine, parts=str(parts))
    assert 0 in engine.done


def test_parts_lie_on_any_file_system(tmp_path):
    build(terms(), "m", tmp_path / "x.index", InProcess(), parts="memory://jobs/x.parts")
    assert len(Index.open(tmp_path / "x.index")) == 40
    assert Place("memory://jobs/x.parts").names() == []
    with pytest.raises(UsageError, match=r"nosuch://x.* is no path or URL"):
        build(terms(), "m", tmp_path / "y.index", InProcess(), parts="nosuch://x")


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"not an array", ""), (np.zeros((3, 64), np.float32), r"its shape is \(3, 64\), not \(7, 64\)")],
)
def test_a_damaged_part_is_named(tmp_path, content, found):
    with pytest.raises(AlphitaError, match="broken off"):
        build(terms(), "m", tmp_path / "x.index", InProcess(most=1))
    damaged = tmp_path / "x.index.parts" / "vectors" / "00001.npy"
    damaged.write_bytes(content) if isinstance(content, bytes) else np.save(damaged, content)
    with pytest.raises(InputError, match=rf"vectors/00001\.npy: damaged: {found}.*; remove it and run"):
        build(terms(), "m", tmp_path / "x.index", InProcess())
    damaged.unlink()
    build(terms(), "m", tmp_path / "x.index", InProcess())


def test_a_machine_without_the_parts_or_with_another_model_is_refused(tmp_path, monkeypatch):
    opening = EncoderOpening("m", "fp32", "cpu", None, HashEncoder().content_hash, str(tmp_path / "p"), half=False)
    with pytest.raises(UsageError, match="not the folder that the job began in; give --parts"):
        opening()
    Blocks(Place(opening.parts), private=False).prepare()
    assert opening().encoder.content_hash == opening.content_hash
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: HashEncoder(seed=1))
    with pytest.raises(UsageError, match="put the same model on every machine"):
        opening()


def test_a_folder_that_cannot_be_written_is_said_at_the_start(tmp_path):
    (tmp_path / "file").write_text("x")
    engine = InProcess()
    with pytest.raises(AlphitaError, match=r"file/p could not be made"):
        build(terms(), "m", tmp_path / "x.index", engine, parts=str(tmp_path / "file" / "p"))
    assert engine.checked == 0
    (tmp_path / "x.index").mkdir()
    with pytest.raises(UsageError, match="already exists"):
        build(terms(), "m", tmp_path / "x.index", engine)
    with pytest.raises(UsageError, match="unknown backend"):
        build(terms(), "m", tmp_path / "y.index", engine, how=Building(backend="fais"))
    assert engine.checked == 0


def test_what_is_missing_on_a_machine_leaves_nothing_behind(tmp_path, monkeypatch):
    class Elsewhere(InProcess):
        def check(self, opening: Opening) -> None:
            raise UsageError("node7: no such encoder")

    with pytest.raises(UsageError, match="node7"):
        build(terms(), "m", tmp_path / "x.index", Elsewhere())
    assert list(tmp_path.iterdir()) == []
    # A job that was broken off keeps its parts.
    with pytest.raises(AlphitaError, match="broken off"):
        build(terms(), "m", tmp_path / "x.index", InProcess(most=2))
    with pytest.raises(UsageError, match="node7"):
        build(terms(), "m", tmp_path / "x.index", Elsewhere())
    again = InProcess()
    monkeypatch.chdir(tmp_path)
    build(terms(), "m", tmp_path / "x.index", again, parts="x.index.parts")
    assert len(again.done) == 4
