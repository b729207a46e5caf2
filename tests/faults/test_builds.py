"""Long work that one build of a version began, and another of the same version finds: refused, or told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alphita import artefact
from alphita.errors import UsageError
from alphita_lab.training.engine import loop
from tests.faults.writers import WRITERS, Place, broken_off, content
from tests.lab.training.engine.test_loop import PLAN, Plain, losses, make_net

JOBS = [writer for writer in WRITERS if writer.name in ("job-csv", "annotation-jsonl")]


@pytest.fixture
def another(monkeypatch: pytest.MonkeyPatch):
    """Make this another build of the same version."""
    return lambda: monkeypatch.setattr(artefact, "code_hash", lambda *parts: "f" * 64)


@pytest.mark.parametrize("writer", JOBS, ids=[writer.name for writer in JOBS])
def test_a_job_goes_on_under_the_build_that_began_it_only(writer, place: Place, tmp_path: Path, another) -> None:
    out = tmp_path / f"out{writer.suffix}"
    broken_off(writer, place, out)
    before, left = artefact.build(), content(tmp_path)
    another()
    with pytest.raises(UsageError) as refused:
        writer.write(place, out)
    assert f"alphita build was '{before}' when the job began and is '0.1.0+ffffffffffff' now" in str(refused.value)
    assert "--force" in str(refused.value)
    assert content(tmp_path) == left


def test_training_goes_on_under_another_build_and_says_so(tmp_path: Path, capsys, another) -> None:
    def run(stop_at: int | None, *, resume: bool = False) -> None:
        net: torch.nn.Module = make_net()
        work = tmp_path / "run"
        loop.fit(loop.Training({"net": net}, Plain(losses(net, stop_at)), PLAN, work, fingerprint="f", resume=resume))

    with pytest.raises(KeyboardInterrupt):
        run(9)
    with pytest.raises(KeyboardInterrupt):
        run(17, resume=True)
    assert "begun by" not in capsys.readouterr().err
    before = artefact.build(artefact.TRAINING)
    another()
    run(None, resume=True)
    assert f"begun by alphita {before}, gone on with by 0.1.0+ffffffffffff: start again" in capsys.readouterr().err


def test_the_code_of_each_is_there_and_tells_two_builds() -> None:
    root = Path(artefact.__file__).parent
    assert all((root / part).exists() for part in (*artefact.ANSWERING, *artefact.TRAINING))
    assert artefact.build() == artefact.build() != artefact.build(artefact.TRAINING)
