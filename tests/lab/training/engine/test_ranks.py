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
from tests.lab.training.engine.rank_job import RUNS
from tests.tiny import tiny_model, tiny_terminology
from tests.waiting import PYTHONPATH, SECONDS, free_port, wait_until

JOB = Path(__file__).with_name("rank_job.py")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model") / "tiny", dropout=0.0)


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    return tiny_terminology(tmp_path_factory.mktemp("data") / "tiny.terminology")


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


def job(*words: object) -> str:
    """Return what the processes of rank_job.py print."""
    command = [sys.executable, str(JOB), *map(str, words)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": PYTHONPATH}, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_give_the_loss_and_gradients_of_one(model: Path, tmp_path: Path) -> None:
    job("gradients", model, tmp_path)
    one, *others = (load_file(tmp_path / f"{size}-{at_once}") for size, at_once in RUNS)
    assert float(one["loss"]) > 0.1
    assert sum(float(value.abs().max()) > 1e-4 for value in one.values()) > 20
    for run, several in zip(RUNS[1:], others, strict=True):
        assert several.keys() == one.keys()
        for name, expected in one.items():
            torch.testing.assert_close(several[name], expected, atol=1e-6, rtol=1e-5, msg=f"{name} {run}")


SETTINGS = {
    "k": 16,
    "m": 4,
    "steps": 400,
    "warmup_steps": 6,
    "accumulation": 2,
    "learning_rate": 2e-3,
    "pooling": "mean",
    "precision": "fp32",
    "log_every": 5,
    "checkpoint_every": 5,
    "dropout": 0.0,
}


def command(terminology: Terminology, model: Path, out: Path, **changes: object) -> list[str]:
    return [*train_command("coder", terminology.path, model, SETTINGS | changes)[1:], "-o", str(out)]


def test_a_run_of_two_processes_is_a_run_of_one(terminology: Terminology, model: Path, tmp_path: Path) -> None:
    assert in_this_process([sys.executable, *command(terminology, model, tmp_path / "one", steps=12)]) == 0
    processes = start(command(terminology, model, tmp_path / "two", steps=12), 2)
    outputs = [process.communicate(timeout=SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert outputs[0][0].startswith("model: ")
    assert outputs[1][0] == ""  # only the first process reports
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=2e-4, rtol=1e-3, msg=name)
    assert not (tmp_path / "two.training").exists()


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_and_one_process_can_go_on(
    terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    processes = start(command(terminology, model, out), 2)
    wait_until(lambda: list(out.with_name("model.training").glob("step-*/state.json")), processes[0])
    os.kill(processes[1].pid, signal.SIGKILL)
    _, errors = processes[0].communicate(timeout=SECONDS)
    assert processes[0].returncode == 1
    assert "another process of this run has ended" in errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert not out.exists()
    processes[1].communicate()
    subprocess.run([sys.executable, *command(terminology, model, out), "--resume"], check=True, capture_output=True)
    assert artefact.verify(out, "model")["recipe"] == "coder"


def test_torchrun_says_why_it_ends(terminology: Terminology, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    run = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            *command(terminology, model, out, steps=100_000),
        ],
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


def test_what_has_no_gradient_on_any_process_stays_without() -> None:
    """An optimiser moves a gradient of zeros by its momentum and decay, and passes over none."""
    assert job("average").splitlines() == ["[0.5, 0.5] [2.0, 2.0] None"] * 2


def test_scratch_is_one_folder_for_all_and_gone_when_none_needs_it() -> None:
    assert job("scratch").splitlines() == ["made by the first False"] * 2


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
    terminology: Terminology, model: Path, tmp_path: Path, recipe: str, settings: dict[str, int]
) -> None:
    corpus = tmp_path / "notes.txt"
    corpus.write_text("".join(f"pain of the heart on day {day}, bleeding of the liver\n" for day in range(200)))
    settings = settings | {"corpus": corpus, "max_length": 24, "precision": "fp32"}
    words = train_command(recipe, terminology.path, model, settings)[1:]
    processes = start([*words, "-o", str(tmp_path / "out"), "--dry-run"], 2)
    outputs = [process.communicate(timeout=SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert "steps: about" in outputs[0][1]
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
