from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from alphita.objectives.replaced_token import drawn
from alphita.training.text.entity_masking import NOT_MASKED
from alphita.training.text.replaced_token_steps import DRAWN

PROGRAM = Path(__file__).parents[2] / "bench" / "electra_speed.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_electra_speed", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_electra_speed"] = module
    spec.loader.exec_module(module)
    return module


bench = load()
TINY = bench.SIZES["tiny"]


@pytest.mark.parametrize("fill", [1.0, 0.3])
def test_both_loops_have_the_same_loss_and_gradients_on_the_same_draws(fill: float) -> None:
    sequences = bench.random_sequences(24, TINY, fill)
    ours = bench.our_steps(TINY, sequences, precision="fp32", device="cpu", dropout=0.0)
    with torch.no_grad():  # losses must not be those of even guesses
        for module in (ours.generator, ours.head):
            for parameter in module.parameters():
                parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    plain = bench.Plain(ours)
    number = 2
    batch = bench.padded_batch(ours, number)
    masked = int((batch.labels != NOT_MASKED).sum())
    lots = 1 - np.random.default_rng([ours.seed, DRAWN, number]).random(masked, dtype=np.float32)
    loss = plain.loss(batch, lambda logits: drawn(logits, torch.from_numpy(lots)))
    loss.backward()
    ours.start(number, number + 1)
    found = ours(number, 1.0)
    ours.stop()
    assert float(found["loss"]) == pytest.approx(float(loss.detach()), rel=1e-5)
    theirs = dict(plain.discriminator.named_parameters())
    for name, value in ours.forward.module.model.named_parameters():
        torch.testing.assert_close(value.grad, theirs[f"electra.{name}"].grad, atol=2e-5, rtol=1e-3, msg=name)
    guessing = plain.generator
    pairs = [
        (ours.generator.bias, guessing.generator_lm_head.bias),
        (ours.generator.dense.weight, guessing.generator_predictions.dense.weight),
        (ours.generator.project.weight, guessing.electra.embeddings_project.weight),
        (ours.head.out.weight, plain.discriminator.discriminator_predictions.dense_prediction.weight),
    ]
    for number, (own, other) in enumerate(pairs):
        torch.testing.assert_close(own.grad, other.grad, atol=2e-5, rtol=1e-3, msg=str(number))
    mine = [p for part in (ours.forward.module, ours.generator, ours.head) for p in part.parameters()]
    assert sum(p.numel() for p in mine) == sum(p.numel() for p in plain.parameters())


def test_rows_are_as_full_as_asked_and_spans_lie_apart() -> None:
    full = bench.random_sequences(9, TINY, 1.0)
    assert set(np.diff(full.tokens.offsets).tolist()) == {TINY["length"]}
    some = bench.random_sequences(200, TINY, 0.5)
    lengths = np.diff(some.tokens.offsets)
    assert (lengths.min(), lengths.max()) == (TINY["length"] // 2, TINY["length"])
    spans = some.spans_of(np.arange(200))
    for row in range(200):
        own = spans[spans[:, 0] == row, 1:]
        assert own[:, 0].tolist() == [1, *own[:-1, 1].tolist()]
        assert own[-1, 1] == lengths[row] - 1
        assert set(np.diff(own, axis=1).ravel().tolist()) <= {1, 2, 3}


def test_matrix_products_are_counted() -> None:
    ours = bench.our_steps(TINY, bench.random_sequences(8, TINY, 1.0), precision="fp32", device="cpu", dropout=0.0)
    hidden, wide, layers, length = TINY["hidden"], TINY["intermediate"], TINY["layers"], TINY["length"]
    # Forward and backward of the discriminator's layers alone, with their attention.
    least = 6 * layers * (4 * hidden**2 + 2 * hidden * wide + 2 * hidden * length)
    assert least < bench.operations(ours) < 2 * least


def test_a_tiny_run_prints_a_table_and_writes_a_report(tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "report.json"
    monkeypatch.setattr(bench, "MATRIX", {"cpu": 64})
    monkeypatch.setattr(bench.machine, "set_threads", lambda _: None)
    given = ["electra_speed", "--size=tiny", "--rounds=3", "--precision=fp32", "--fill=0.5", f"--output={out}"]
    monkeypatch.setattr(sys, "argv", given)
    bench.main()
    printed = capsys.readouterr().out
    assert "| transformers |" in printed
    figures = json.loads(out.read_text())
    theirs, own = (np.array(figures["seconds"][name]) for name in ("transformers", "alphita"))
    assert len(theirs) == len(own) == 3
    assert figures["ratio"] == pytest.approx(float(np.median(theirs / own)))
    assert figures["precision"] == "fp32"
    assert figures["provenance"]["config"]["batch"] == TINY["batch"]
