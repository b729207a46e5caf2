from __future__ import annotations

from typing import Any

import numpy as np
import torch

from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.engine.steps import SwitchingSteps


class Told:
    """Micro-steps that note what they are asked for."""

    def __init__(self, tokens_at_once: int) -> None:
        self.tokens_at_once, self.ranks, self.waited = tokens_at_once, Ranks(), 0.5
        self.asked: list[tuple[Any, ...]] = []
        self.kinds = (self,)

    def start(self, first: int, last: int, until: int | None = None) -> None:
        self.asked.append(("start", first, last, until))

    def allow(self, until: int) -> None:
        self.asked.append(("allow", until))

    def stop(self) -> None:
        self.asked.append(("stop",))

    def sizes(self, number: int) -> dict[str, float]:
        return {"tokens": float(10 * self.tokens_at_once + number), "rows": 1.0}

    def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
        self.asked.append((number, share))
        return {name: torch.tensor(float(number)) for name in ("loss", "rows", "near")}


def switching(steps: int = 200, accumulation: int = 1, seed: int = 0, share: float = 0.3) -> tuple[Any, Told, Told]:
    usual, other = Told(7), Told(9)
    made = SwitchingSteps(usual, other, share=share, steps=steps, accumulation=accumulation, seed=seed, prefix="other_")
    return made, usual, other


def test_each_kind_goes_through_its_own_batches_in_order() -> None:
    steps, usual, other = switching()
    steps.start(0, 200)
    for number in range(200):
        scalars = steps(number, 0.25)
        kind, own = steps.of_kind(number)
        assert (other if kind else usual).asked[-1] == (own, 0.25)
        assert set(scalars) == ({"loss", "rows", "other_loss", "other_near"} if kind else {"loss", "rows", "near"})
    for one, count in zip((usual, other), steps.shares, strict=True):
        assert one.asked == [("start", 0, count, None), *((number, 0.25) for number in range(count))]
    assert 40 < steps.shares[1] < 80
    assert steps.waited == 1.0
    assert steps.tokens_at_once == 9
    assert steps.kinds == [usual, other]
    steps.stop()
    assert usual.asked[-1] == other.asked[-1] == ("stop",)


def test_all_batches_of_a_step_are_of_one_kind() -> None:
    steps, _, _ = switching(steps=50, accumulation=4)
    kinds = np.array([steps.of_kind(number)[0] for number in range(200)]).reshape(50, 4)
    assert (kinds == kinds[:, :1]).all()
    assert 0 < kinds.mean() < 1


def test_a_run_may_begin_anywhere_and_be_held_up() -> None:
    steps, usual, other = switching()
    kinds = [steps.of_kind(number)[0] for number in range(200)]
    steps.start(60, 200, 90)
    before, until = sum(kinds[:60]), sum(kinds[:90])
    assert other.asked == [("start", before, sum(kinds), until)]
    assert usual.asked == [("start", 60 - before, 200 - sum(kinds), 90 - until)]
    steps.allow(120)
    assert other.asked[-1] == ("allow", sum(kinds[:120]))
    steps(60, 1.0)
    kind, own = steps.of_kind(60)
    assert (other if kind else usual).asked[-1] == (own, 1.0)
    assert own == (before if kind else 60 - before)
