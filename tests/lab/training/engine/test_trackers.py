"""Logs go to any tracker that accelerate knows; a model goes to the hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alphita.errors import AlphitaError, UsageError
from alphita_lab import model_card
from alphita_lab.training.engine.runs import Log

tracking = pytest.importorskip("accelerate.tracking")


class Kept(tracking.GeneralTracker):
    """Keeps what it is told."""

    name = "kept"
    requires_logging_directory = False
    told: list = []  # noqa: RUF012 - of all

    def __init__(self, run_name: str) -> None:
        super().__init__()
        self.told.append(run_name)

    def log(self, values: dict, step: int | None = None, **_: object) -> None:
        self.told.append((step, values))

    def finish(self) -> None:
        self.told.append("finished")

    @property
    def tracker(self) -> list:
        return self.told


def test_a_tracker_is_told_every_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "kept", Kept)
    with Log(tmp_path, 0, tensorboard=False, first=True, trackers="kept, tensorboard", name="m") as log:
        log.write({"step": 5, "loss": 0.5})
        log.write({"step": 5, "dev_acc1": 0.25})
    assert Kept.told == ["m", (5, {"loss": 0.5}), (5, {"dev_acc1": 0.25}), "finished"]
    assert [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [5, 5]
    assert list((tmp_path / "tensorboard").rglob("events.*"))


def test_an_unknown_tracker_or_one_that_is_not_installed_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown tracker 'wandbb'; did you mean 'wandb'"):
        Log(tmp_path, 0, tensorboard=False, first=True, trackers="wandbb")
    with pytest.raises(UsageError, match=r"the tracker aim is not installed.*pip install aim"):
        Log(tmp_path, 0, tensorboard=False, first=True, trackers="aim")
    assert not (tmp_path / "log.jsonl").exists()


def test_a_model_is_pushed_to_a_private_repository(tmp_path: Path, monkeypatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    calls = []
    monkeypatch.setattr(hub, "create_repo", lambda *given, **more: calls.append((given, more)) or "https://x/me/m")
    monkeypatch.setattr(hub, "upload_folder", lambda **given: calls.append(given))
    assert model_card.push(tmp_path / "m", "me/m") == "https://x/me/m"
    assert calls[0] == (("me/m",), {"private": True, "exist_ok": True})
    assert calls[1]["folder_path"] == tmp_path / "m"

    def refuse(**_: object) -> None:
        raise OSError("no network\nmore")

    monkeypatch.setattr(hub, "upload_folder", refuse)
    with pytest.raises(AlphitaError, match=r"m is whole, but could not be pushed to 'me/m': no network; log in"):
        model_card.push(tmp_path / "m", "me/m")
