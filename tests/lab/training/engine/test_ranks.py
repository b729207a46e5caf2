from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from alphita import artefact
from alphita.terminology.store import Terminology
from tests.killing import in_this_process, train_command
from tests.lab.training.engine.rank_job import AT_ONCE
from tests.waiting import PYTHONPATH, SECONDS, free_port, wait_until

JOB = Path(__file__).with_name("rank_job.py")


def start(command: list[str], size: int, **options: object) -> list[subprocess.Popen[str]]:
    """Start `size` processes of one run, as torchrun would."""
    shared = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(size),
        "PYTHONPATH": PYTHONPATH,
    }
    return [
        subprocess.Popen(
            [sys.executable, *command],
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,  # type: ignore[call-overload]
        )
        for rank in range(size)
    ]


SETTINGS = {
    "k": 16,
    "m": 4,
    "steps": 12,
    "warmup_steps": 6,
    "accumulation": 2,
    "learning_rate": 2e-3,
    "pooling": "mean",
    "precision": "fp32",
    "log_every": 5,
    "checkpoint_every": 5,
    "dropout": 0.0,
}


def command(terminology: Terminology, undropped: Path, **changes: object) -> list[str]:
    return train_command("coder", terminology.path, undropped, SETTINGS | changes)


@pytest.fixture(scope="module")
def done(terminology: Terminology, undropped: Path, tmp_path_factory) -> Path:
    """The folder in which rank_job.py did all its jobs, and a run of one process."""
    out = tmp_path_factory.mktemp("ranks")
    words = command(terminology, undropped)
    job = [sys.executable, str(JOB), str(undropped), str(out), *words[3:]]
    ended = subprocess.run(job, env=os.environ | {"PYTHONPATH": PYTHONPATH}, text=True, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert in_this_process([*words, "-o", str(out / "one")]) == 0
    return out


def printed(folder: Path, stream: str = "out") -> list[str]:
    """Return what each process printed."""
    return [(folder / f"{stream}-{rank}").read_text() for rank in (0, 1)]


@pytest.mark.slow
def test_several_processes_give_the_loss_and_gradients_of_one(done: Path) -> None:
    one, *others = (load_file(done / str(size)) for size in AT_ONCE)
    assert float(one["loss"]) > 0.1
    assert sum(float(value.abs().max()) > 1e-4 for value in one.values()) > 20
    for several in others:
        assert several.keys() == one.keys()
        for name, expected in one.items():
            torch.testing.assert_close(several[name], expected, atol=1e-6, rtol=1e-5, msg=name)


@pytest.mark.slow
def test_a_run_of_two_processes_is_a_run_of_one(done: Path) -> None:
    first, second = printed(done / "trained")
    assert first.startswith("model: ")
    assert second == ""  # only the first process reports
    one, two = (load_file(done / name / "model.safetensors") for name in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=2e-4, rtol=1e-3, msg=name)
    assert not (done / "two.training").exists()


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_and_one_process_can_go_on(
    done: Path, terminology: Terminology, undropped: Path
) -> None:
    errors = printed(done / "lost", "err")[0]
    assert "another process of this run has ended" in errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert not (done / "died").exists()
    assert in_this_process([*command(terminology, undropped), "-o", str(done / "died"), "--resume"]) == 0
    assert artefact.verify(done / "died", "model")["recipe"] == "coder"


@pytest.mark.slow
def test_gradients_are_averaged_and_scratch_is_one_folder_for_all_and_gone_when_none_needs_it(done: Path) -> None:
    """An optimiser moves a gradient of zeros by its momentum and decay, and passes over one that no process has."""
    assert printed(done / "two processes") == ["[0.5, 0.5] [2.0, 2.0] None\nmade by the first False\n"] * 2


@pytest.mark.slow
def test_torchrun_says_why_it_ends(terminology: Terminology, undropped: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.Popen(
        [*torchrun, *command(terminology, undropped, steps=100_000)[1:], "-o", str(out)],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
    )
    wait_until(lambda: list(out.with_name("model.training").glob("step-*/state.json")), run)
    workers = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(int(workers[-1]), signal.SIGKILL)
    _, errors = run.communicate(timeout=SECONDS)
    assert run.returncode != 0
    assert "another process of this run has ended" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("ext_bert", {"vocabulary": 120, "batch": 4, "epochs": 1}),
        (
            "electra_em_pap",
            {"vocabulary": 120, "layers": 1, "hidden": 16, "heads": 2, "batch": 4, "rho": 0, "steps": 4},
        ),
    ],
)
def test_several_processes_try_a_run_on_what_the_first_prepares(
    terminology: Terminology, undropped: Path, tmp_path: Path, recipe: str, settings: dict[str, int]
) -> None:
    corpus = tmp_path / "notes.txt"
    corpus.write_text("".join(f"pain of the heart on day {day}, bleeding of the liver\n" for day in range(200)))
    settings = settings | {"corpus": corpus, "max_length": 24, "precision": "fp32"}
    words = train_command(recipe, terminology.path, undropped, settings)[1:]
    processes = start([*words, "-o", str(tmp_path / "out"), "--dry-run"], 2)
    outputs = [process.communicate(timeout=SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert "steps: about" in outputs[0][1]
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
