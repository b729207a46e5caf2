"""`alphita graph train`."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.terminology import splits
from alphita_lab.graph import kge
from alphita_lab.graph.store import EntityVectors
from tests.cli.command import alphita
from tests.lab.graph.graphs import ring

QUICK = ["--set", "dim=8", "--set", "epochs=2", "--set", "negatives=10", "--threads", "1"]


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ring") / "ring.terminology"
    ring(folder)
    return folder


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    monkeypatch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)


def test_vectors_are_trained_and_figures_printed(terminology, tmp_path, capsys) -> None:
    pytest.importorskip("pykeen")
    out = tmp_path / "ring.vectors"
    assert alphita("graph", "train", "complex", "-t", terminology, "-o", out, *QUICK) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"vectors: {out}\n  MRR: ")
    figures = [line.split(":")[0].strip() for line in printed.splitlines()[1:]]
    assert figures == ["MRR", "hits@1", "hits@3", "hits@10", "MR"]
    vectors = EntityVectors.load(out)
    assert vectors.model == "complex"
    assert vectors.facts["config"]["epochs"] == 2
    assert alphita("graph", "train", "complex", "-t", terminology, "-o", out, *QUICK) == 2
    assert "already exists; choose another name or use --force" in capsys.readouterr().err
    assert alphita("graph", "train", "transe", "-t", terminology, "-o", out, *QUICK, "--force") == 0


def test_a_stopped_run_goes_on_with_resume_only(terminology, tmp_path, capsys, monkeypatch) -> None:
    pytest.importorskip("pykeen")
    out = tmp_path / "ring.vectors"
    arguments = ["graph", "train", "transe", "-t", terminology, "-o", out, *QUICK, "--set", "checkpoint_every=1"]
    train_epoch = kge._Run._train_epoch

    def killed(run):
        if run.epoch == 1:
            raise KeyboardInterrupt
        return train_epoch(run)

    with monkeypatch.context() as patch:
        patch.setattr(kge._Run, "_train_epoch", killed)
        assert alphita(*arguments) == 130
    assert alphita(*arguments) == 2
    assert "holds an unfinished run; go on with --resume" in capsys.readouterr().err
    assert alphita(*arguments, "--resume") == 0
    assert EntityVectors.load(out).facts["epochs"] == 2
    assert not out.with_name("ring.vectors.training").exists()


def test_a_splits_held_out_triples_are_scored(terminology, tmp_path) -> None:
    pytest.importorskip("pykeen")
    from alphita.terminology.store import load_terminology

    split = splits.with_triples(splits.Split([], [], []), load_terminology(terminology), fraction=0.1, seed=1)
    split.save(tmp_path / "x.split")
    out = tmp_path / "ring.vectors"
    arguments = ["graph", "train", "transe", "-t", terminology, "-o", out, *QUICK, "--split", tmp_path / "x.split"]
    assert alphita(*arguments) == 0
    assert EntityVectors.load(out).facts["split_hash"] == split.hash


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["transe", "--set", "epoch=3"], "unknown option 'epoch'; did you mean 'epochs'?"),
        (["transe", "--set", "epochs=-1"], "option 'epochs'"),
        (["transe", "--device", "cudo"], "unknown device 'cudo'; did you mean 'cuda'?"),
        (["transe", "--resume", "--force"], "there is no unfinished run of"),
        (["complex", "--set", "dim=7"], "dim must be a multiple of 2, not 7"),
    ],
)
def test_wrong_use(arguments, message, terminology, tmp_path, capsys) -> None:
    name, *rest = arguments
    assert alphita("graph", "train", name, "-t", terminology, "-o", tmp_path / "x.vectors", *rest) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
