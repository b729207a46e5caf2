from __future__ import annotations

from alphita_lab.recipes import alphita, biolord, coder
from alphita_lab.training.engine.settings import ENGINE_ONLY, decisive


def test_what_does_not_decide_the_weights_is_left_out() -> None:
    one = decisive(coder.Config())
    assert not {*ENGINE_ONLY} & one.keys()
    assert {"steps", "learning_rate", "seed"} <= one.keys()


def test_a_run_without_noise_is_the_one_that_was_begun_before_there_was_noise() -> None:
    assert "noise" not in decisive(biolord.Config(noise=0))
    assert decisive(biolord.Config(noise=0.5))["noise"] == 0.5
    assert decisive(alphita.Config())["noise"] == alphita.Config().noise > 0
