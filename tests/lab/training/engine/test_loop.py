from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

from alphita.errors import AlphitaError, InputError
from alphita_lab.recipes import alphita, biolord, coder
from alphita_lab.training.engine import loop, run
from alphita_lab.training.engine.loop import Training, fit
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.engine.settings import ENGINE_ONLY, LoopPlan, decisive

PLAN = LoopPlan(
    steps=12,
    warmup_steps=3,
    learning_rate=0.05,
    accumulation=2,
    clip=1.0,
    weight_decay=0.01,
    log_every=2,
    evaluate_every=0,
    checkpoint_every=4,
)


class Plain:
    """Micro-steps of a function that returns the loss with its graph."""

    waited = 0.0
    kinds = ()

    def __init__(self, micro_loss: Callable[[int], dict[str, torch.Tensor]], *, seed: int = 0) -> None:
        self._loss, self._seed = micro_loss, seed

    def start(self, first: int, last: int, until: int | None = None) -> None: ...

    def allow(self, until: int) -> None: ...

    def stop(self) -> None: ...

    def names(self, number: int) -> list[str]:
        return [f"row {number}"]

    def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
        # One generator seed a micro-batch: dropout is then the same whether or not the run was resumed.
        torch.manual_seed((self._seed << 32) + number)
        scalars = self._loss(number)
        (scalars["loss"] * share).backward()
        return {name: value.detach() for name, value in scalars.items()}


def make_net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Dropout(0.3), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def losses(net: torch.nn.Module, stop_at: int | None = None):
    def micro_loss(number: int) -> dict[str, torch.Tensor]:
        if number == stop_at:
            raise KeyboardInterrupt
        data = torch.randn(16, 5, generator=torch.Generator().manual_seed(number))
        return {"loss": (net(data).squeeze(1) - data.sum(1)).pow(2).mean(), "rows": torch.tensor(16.0)}

    return micro_loss


def test_accumulation_averages_the_micro_batches(tmp_path) -> None:
    plan = dataclasses.replace(PLAN, steps=1, warmup_steps=0, accumulation=4, weight_decay=0.0, clip=1e9)
    net = torch.nn.Linear(1, 1, bias=False)
    seen = []

    def micro_loss(number: int) -> dict[str, torch.Tensor]:
        seen.append(number)
        return {"loss": (number + 1.0) * net.weight.sum(), "rows": torch.tensor(3.0)}

    figures = fit(Training({"net": net}, Plain(micro_loss), plan, tmp_path / "run", fingerprint="f"))
    assert seen == [0, 1, 2, 3]
    assert figures["gradient_norm"] == pytest.approx(2.5)  # mean of 1, 2, 3, 4
    assert net.training is False


class InParts(Plain):
    def __init__(self, loss, tokens_at_once: int) -> None:
        super().__init__(loss)
        self.tokens_at_once, self.kinds = tokens_at_once, (self,)


def test_a_resumed_run_keeps_the_size_of_its_parts_whatever_memory_is_free(tmp_path) -> None:
    def run(fits: int, *, asked: int = 0, stop_at: int | None = None) -> int:
        net = make_net()
        micro = InParts(losses(net, stop_at), fits)
        plan = dataclasses.replace(PLAN, tokens_at_once=asked)
        resume = (tmp_path / "run").exists()
        if stop_at is None:
            fit(Training({"net": net}, micro, plan, tmp_path / "run", fingerprint="f", resume=resume))
        else:
            with pytest.raises(KeyboardInterrupt):
                fit(Training({"net": net}, micro, plan, tmp_path / "run", fingerprint="f", resume=resume))
        return micro.tokens_at_once

    assert run(300, stop_at=10) == 300
    assert run(70, stop_at=12) == 300
    assert run(400, asked=20, stop_at=14) == 20
    # What was asked for when memory ran out holds from then on.
    assert run(400) == 20


def test_resuming_where_nothing_is_begins_and_says_so(tmp_path, capsys) -> None:
    net = make_net()
    fit(
        Training(
            {"net": net}, Plain(losses(net)), PLAN, tmp_path / "run", fingerprint="f", resume=True, label="training x"
        )
    )
    assert f"training x: nothing to resume in {tmp_path / 'run'}; starting at step 0" in capsys.readouterr().err
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 6


def test_only_the_newest_checkpoints_are_kept_and_none_unpickles(tmp_path) -> None:
    net = make_net()
    fit(
        Training(
            {"net": net}, Plain(losses(net)), dataclasses.replace(PLAN, checkpoint_every=2), tmp_path, fingerprint="f"
        )
    )
    kept = sorted(path.name for path in tmp_path.glob("step-*"))
    assert kept == ["step-00000008", "step-00000010"]
    suffixes = {path.suffix for path in (tmp_path / kept[0]).iterdir()}
    assert suffixes == {".safetensors", ".json"}


def test_checkpoints_come_by_time_where_minutes_are_set(tmp_path, monkeypatch) -> None:
    """A step takes a minute by this clock: of the steps 2, 4, ... 10 only 6 comes five minutes after the last one."""
    net, clock = make_net(), [0.0]
    loss = losses(net)

    def minute(number: int) -> dict[str, torch.Tensor]:
        clock[0] += 60 / PLAN.accumulation
        return loss(number)

    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])
    plan = dataclasses.replace(PLAN, checkpoint_every=2, checkpoint_minutes=5.0)
    fit(Training({"net": net}, Plain(minute), plan, tmp_path, fingerprint="f"))
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-00000006"]


def test_a_checkpoint_of_other_modules_is_refused(tmp_path) -> None:
    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters())
    loop.save_checkpoint(tmp_path, 3, {"net": net}, optimizer)
    with pytest.raises(InputError, match="relations"):
        loop.load_checkpoint(tmp_path, {"net": net, "relations": torch.nn.Linear(1, 1)}, optimizer)


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
@pytest.mark.parametrize("fused", [True, False])
def test_a_fused_optimizer_has_all_its_state_on_the_parameters_device(tmp_path, fused: bool) -> None:
    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    loop.save_checkpoint(tmp_path, 1, {"net": net}, optimizer)
    elsewhere = make_net().to("meta")
    again = torch.optim.AdamW(elsewhere.parameters())
    # PyTorch makes no fused optimiser on this device, which stands for a GPU here.
    again.param_groups[0]["fused"] = fused
    assert loop.load_checkpoint(tmp_path, {"net": elsewhere}, again) == 1
    assert len(again.state) == 4
    for state in again.state.values():
        assert {key: value.device.type for key, value in state.items()} == {
            "step": "meta" if fused else "cpu",
            "exp_avg": "meta",
            "exp_avg_sq": "meta",
        }


def test_a_full_disk_at_a_checkpoint_is_one_clear_error(tmp_path, monkeypatch) -> None:
    from safetensors import SafetensorError

    def full(*_arguments: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    net = make_net()
    optimizer = torch.optim.AdamW(net.parameters())
    loop.save_checkpoint(tmp_path, 1, {"net": net}, optimizer)
    monkeypatch.setattr(loop, "save_file", full)
    with pytest.raises(AlphitaError, match=r"No space left on device.*--resume"):
        loop.save_checkpoint(tmp_path, 2, {"net": net}, optimizer)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_dry_run_counts_the_work() -> None:
    """A layer of 8 x 8 on 4 rows: 2 * 4 * 8 * 8 operations forward, and as many for the weights' gradient."""
    layer = torch.nn.Linear(8, 8, bias=False)

    class Rows:
        tokens_at_once, ranks = 100, Ranks()

        def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
            layer(torch.ones(4, 8)).sum().mul(share).backward()
            return {}

        def sizes(self, number: int) -> dict[str, float]:
            return {"rows": 4}

        def start(self, first: int, last: int) -> None: ...

        def stop(self) -> None: ...

    plan = LoopPlan(10**12, 0, 0.1, 2, 1.0, 0.0, 0, 0, 0)
    told, _ = run.estimate("layer", "", Rows(), {"layer": layer}, plan, bf16=False)  # type: ignore[arg-type]
    assert "work: 2.05 PFLOP; at least 20 seconds on a GPU" in told


def test_what_does_not_decide_the_weights_is_left_out() -> None:
    one = decisive(coder.Config())
    assert not {*ENGINE_ONLY} & one.keys()
    assert {"steps", "learning_rate", "seed"} <= one.keys()


def test_a_run_without_noise_is_the_one_that_was_begun_before_there_was_noise() -> None:
    assert "noise" not in decisive(biolord.Config(noise=0))
    assert decisive(biolord.Config(noise=0.5))["noise"] == 0.5
    assert decisive(alphita.Config())["noise"] == alphita.Config().noise > 0
