from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphita.config import resolve
from alphita.encoder.encoder import TermEncoder
from alphita.errors import UsageError
from alphita.recipes import alphita
from alphita.terminology.store import Terminology, load_terminology
from alphita.training.definition_pairs import DefinitionPairs
from tests.stanzas import defined
from tests.tiny import tiny_model

SMALL: dict[str, Any] = {
    "steps": 8, "batch": 12, "precision": "fp32", "learning_rate": 1e-3, "log_every": 1, "checkpoint_every": 3,
    "keep_rows": 6,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("data")
    defined(made / "t.terminology")
    tiny_model(made / "model")
    return made


@pytest.fixture(scope="module")
def terminology(folder: Path) -> Terminology:
    return load_terminology(folder / "t.terminology")


def test_a_batch_s_loss_is_the_sum_of_its_parts(folder, terminology, tmp_path, monkeypatch) -> None:
    """One step that changes nothing: contrast as the reference has it, and nothing to keep yet."""
    drawn = []
    batch = DefinitionPairs.batch
    monkeypatch.setattr(DefinitionPairs, "batch", lambda self, number: drawn.append(batch(self, number)) or drawn[-1])
    still = SMALL | {"steps": 1, "learning_rate": 1e-30, "dropout": 0.0, "hard_negatives": 0, "symmetric": False}
    figures = alphita.train(terminology, str(folder / "model"), tmp_path / "m", alphita.Config(**still))
    assert figures["kept"] == pytest.approx(0, abs=1e-9)
    assert figures["loss"] == pytest.approx(figures["contrast"], rel=1e-6)
    assert figures["contrast"] > 0.1


def test_what_the_base_knows_is_kept_the_better_the_more_it_weighs(folder, terminology, tmp_path) -> None:
    strings = [name for name in terminology.terms["string"].to_pylist() if name][:40]

    def nearness(model: Path) -> np.ndarray:
        vectors = TermEncoder.load(model, precision="fp32", pooling="mean").encode(strings)
        return vectors @ vectors.T

    base, moved = nearness(folder / "model"), []
    for mu in (0.0, 1000.0):
        out = tmp_path / str(mu)
        alphita.train(terminology, str(folder / "model"), out, alphita.Config(**SMALL | {"steps": 30, "mu": mu}))
        moved.append(float(((nearness(out) - base) ** 2).mean()))
    assert moved[1] < moved[0] / 2


@pytest.mark.parametrize("bad", ["kinds=", "kinds=definition,lyrics", "batch=1", "temperature=0"])
def test_impossible_settings_are_refused(bad: str) -> None:
    with pytest.raises(UsageError, match=bad.split("=")[0]):
        resolve(alphita.Config, sets=[bad])
