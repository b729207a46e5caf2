"""Training: it learns, stops in time, goes on after a stop, keeps held-out triples out, and says what is wrong."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from alphita.errors import AlphitaError, InputError, MissingExtra, UsageError
from alphita.terminology import splits
from alphita_lab.graph import kge, models
from alphita_lab.graph.store import EntityVectors
from alphita_lab.graph.triples import divide, figures, ranks
from tests.lab.graph.graphs import MODELS, STEPS

pytest.importorskip("pykeen")
SMALL = {"dim": 16, "epochs": 6, "batch_size": 32, "negatives": 20, "evaluate_every": 2, "checkpoint_every": 2}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(graph, name: str, folder: Path, **settings) -> tuple[dict[str, float], EntityVectors]:
    split = settings.pop("split", None)
    config = models.load(name).Config(**(SMALL | settings))
    out = folder / f"{name}.vectors"
    found = kge.train(graph, name, out, config, work=folder / "work", split=split, progress=False)
    return found, EntityVectors.load(out)


@pytest.mark.parametrize("name", MODELS)
def test_it_learns_a_ring(name: str, graph, tmp_path: Path) -> None:
    settings = {"epochs": 60, "evaluate_every": 10, "patience": 9, "test": 0.2, "dim": 32, "learning_rate": 0.03}
    found, vectors = trained(graph, name, tmp_path, regularization=0.0 if name == "rotate" else 0.02, **settings)
    division = divide(graph, test=0.2)
    assert vectors.ids == division.entities
    assert vectors.relations == sorted(STEPS)
    assert vectors.vectors.shape == (40, 32)
    # What the artefact says is what its vectors give.
    scorer = vectors.scorer(division.entities, division.relations)
    assert found == pytest.approx(figures(ranks(scorer, division.test, 40, known=division.known)))
    on_train = figures(ranks(scorer, division.train, 40, known=division.known))
    assert on_train["MRR"] > 0.3  # by chance it is 0.1
    facts = vectors.facts
    assert facts["figures"]["test"] == found
    assert facts["terminology_hash"] == graph.content_hash
    assert facts["train_hash"] == division.train_hash
    assert facts["split_hash"] is None
    assert facts["concepts_without_a_vector"] == 1
    assert (
        facts["triples"] | {"train": 91, "test": 24, "validation": 5, "rare_relations_left_out": 1} == facts["triples"]
    )
    assert facts["triples"]["inverse_relations_left_out"] == ["before (turns next round)"]
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("name", ["rotate", "complex"])
def test_a_stopped_run_goes_on_to_the_same_vectors(name: str, graph, tmp_path: Path, monkeypatch) -> None:
    figures_whole, whole = trained(graph, name, tmp_path / "whole")
    real = kge._Run._train_epoch

    def killed(run) -> float:
        if run.epoch == 5:
            raise KeyboardInterrupt
        return real(run)

    monkeypatch.setattr(kge._Run, "_train_epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(graph, name, tmp_path)
    assert not (tmp_path / f"{name}.vectors").exists()
    assert [file.name for file in (tmp_path / "work").iterdir()] == [kge.STATE_FILE]
    done = []
    monkeypatch.setattr(kge._Run, "_train_epoch", lambda run: done.append(run.epoch) or real(run))
    figures_resumed, resumed = trained(graph, name, tmp_path)
    assert done == [4, 5]
    assert np.array_equal(resumed.vectors, whole.vectors)
    assert np.array_equal(resumed.relation_vectors, whole.relation_vectors)
    assert figures_resumed == figures_whole


def test_a_fused_optimizer_has_all_its_state_on_the_parameters_device(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    tmp_path.joinpath("work").mkdir()
    kge.save_state(tmp_path / "work", {"epoch": 1}, model, optimizer, {})
    elsewhere = torch.nn.Linear(3, 2, device="meta")
    again = torch.optim.Adam(elsewhere.parameters())
    # PyTorch makes no fused optimiser on this device, which stands for a GPU here.
    again.param_groups[0]["fused"] = True
    assert kge.load_state(tmp_path / "work", elsewhere, again) == ({"epoch": 1}, {})
    assert {value.device.type for state in again.state.values() for value in state.values()} == {"meta"}


def test_unfinished_work_of_another_run_is_refused(graph, tmp_path: Path, monkeypatch) -> None:
    real = kge._Run._train_epoch
    monkeypatch.setattr(kge._Run, "_train_epoch", lambda run: real(run) if run.epoch < 2 else sys.exit("killed"))
    with pytest.raises(SystemExit):
        trained(graph, "transe", tmp_path)
    with pytest.raises(InputError, match=r"has other settings.*start again with --force"):
        trained(graph, "transe", tmp_path, learning_rate=0.5)
    with pytest.raises(InputError, match=r"cannot be resumed.*has the shape"):
        trained(graph, "transe", tmp_path, dim=8)
    (tmp_path / "work" / kge.STATE_FILE).write_bytes(b"\x00" * 40)
    with pytest.raises(InputError, match="cannot be resumed"):
        trained(graph, "transe", tmp_path)


def test_it_stops_when_validation_grows_no_more_and_keeps_the_best(graph, tmp_path: Path, monkeypatch) -> None:
    looks = iter([0.1, 0.4, 0.3, 0.4, 0.2, 0.9])
    kept = []
    real = kge._Run._look

    def look(run, row, shown) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kge, "figures", lambda found: {"MRR": next(looks)})
            real(run, row, shown)
        kept.append(kge.vectors_of(run.model)["entities"].numpy())

    monkeypatch.setattr(kge._Run, "_look", look)
    _, vectors = trained(graph, "transe", tmp_path, epochs=100, patience=3, schedule="constant")
    assert [row["MRR"] for row in vectors.facts["figures"]["validation"]] == [0.1, 0.4, 0.3, 0.4, 0.2]
    assert (vectors.facts["best_epoch"], vectors.facts["epochs"]) == (4, 10)
    assert np.array_equal(vectors.vectors, kept[1])


def test_a_rate_that_falls_goes_on_to_the_end(graph, tmp_path: Path, monkeypatch) -> None:
    rates = []
    real = torch.optim.Adam.step

    def step(self, *arguments, **more):
        rates.append(self.param_groups[0]["lr"])
        return real(self, *arguments, **more)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    monkeypatch.setattr(kge, "figures", lambda found: {"MRR": 0.5})
    _, vectors = trained(graph, "transe", tmp_path, epochs=10, patience=1, learning_rate=0.1)
    assert (vectors.facts["best_epoch"], vectors.facts["epochs"]) == (2, 10)
    steps = 10 * -(-vectors.facts["triples"]["train"] // 32)
    assert len(rates) == steps == 40
    # 5 % of the steps, two, are warm-up.
    assert rates == pytest.approx([0.05, 0.1, *(0.1 * (steps - step) / (steps - 2) for step in range(2, steps))])


def test_the_passes_and_the_rate() -> None:
    config = models.load("complex").Config
    assert config().epochs_of(400_000) == 21
    assert config().epochs_of(20_000) == 400
    assert config().epochs_of(10**7) == 16
    assert config(epochs=3).epochs_of(20_000) == config(epochs=3, schedule="constant").epochs_of(20_000) == 3
    constant = config(schedule="constant", learning_rate=0.3)
    assert constant.epochs_of(400_000) == 200
    assert [constant.rate_at(step, 9) for step in range(9)] == [0.3] * 9
    assert config(learning_rate=0.3).rate_at(0, 1) == pytest.approx(0.3)


def test_without_validation_triples_the_last_vectors_are_kept(graph, tmp_path: Path) -> None:
    _, vectors = trained(graph, "transe", tmp_path, validation=0.0, test=0.0, epochs=5, patience=1)
    assert (vectors.facts["best_epoch"], vectors.facts["epochs"]) == (5, 5)
    assert all("MRR" not in row for row in vectors.facts["figures"]["validation"])
    text = (tmp_path / "transe.vectors" / "manifest.json").read_text(encoding="utf-8")
    manifest = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert manifest["facts"]["figures"]["test"] == {}


def test_held_out_triples_never_train(graph, tmp_path: Path, monkeypatch) -> None:
    split = splits.with_triples(splits.Split([], [], []), graph, fraction=0.15, seed=1)
    seen: set[frozenset[str]] = set()
    real = kge.loss_of
    ids = divide(graph, held_out=split).entities

    def watched(module, model, triples, false):
        seen.update(frozenset((ids[h], ids[t])) for h, _, t in triples.tolist())
        return real(module, model, triples, false)

    monkeypatch.setattr(kge, "loss_of", watched)
    found, vectors = trained(graph, "transe", tmp_path, epochs=2, split=split)
    assert len(seen) > 50
    assert not seen & {frozenset((head, tail)) for head, _, tail in split.triples}
    assert vectors.facts["split_hash"] == split.hash
    assert vectors.facts["triples"]["test"] > 5
    assert found["MRR"] > 0


def test_transe_keeps_entities_at_length_1_and_rotate_its_turns(graph, tmp_path: Path) -> None:
    _, vectors = trained(graph, "transe", tmp_path, epochs=2)
    np.testing.assert_allclose(np.linalg.norm(vectors.vectors, axis=1), 1, rtol=1e-5)
    _, vectors = trained(graph, "rotate", tmp_path, epochs=2)
    real, imaginary = np.split(vectors.relation_vectors, 2, axis=1)
    np.testing.assert_allclose(np.hypot(real, imaginary), 1, rtol=1e-5)


def test_bad_input(graph, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(UsageError, match="dim must be a multiple of 2, not 15"):
        trained(graph, "complex", tmp_path, dim=15)
    with pytest.raises(UsageError, match="unknown model 'compex'; did you mean 'complex'"):
        kge.train(graph, "compex", tmp_path / "x", models.load("complex").Config(), work=tmp_path / "work")
    with pytest.raises(InputError, match="none is left"):
        trained(graph, "transe", tmp_path, rare=99)
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="finds no such GPU"):
            kge.train(
                graph, "transe", tmp_path / "x", models.load("transe").Config(), work=tmp_path / "work", device="cuda"
            )
    with pytest.raises(AlphitaError, match="training diverged in epoch 1; take a smaller learning_rate"):
        trained(graph, "complex", tmp_path, learning_rate=1e30)
    monkeypatch.setitem(sys.modules, "pykeen", None)
    with pytest.raises(MissingExtra, match=r"pip install 'alphita\[graph\]'"):
        trained(graph, "transe", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_pytorchs_own_look_ups(name: str) -> None:
    """Rows come several times in a step, and others in the next; most come in none."""
    module = models.load(name)
    ours = kge.build(module, 50, 3, module.Config(dim=8)).double()
    theirs = copy.deepcopy(ours)
    gradients = kge.RowGradients(ours)
    rng = np.random.default_rng(2)
    for _ in range(3):
        triples = torch.from_numpy(np.stack([rng.integers(0, n, 7) for n in (20, 2, 20)], axis=1))
        false = torch.from_numpy(rng.integers(0, 20, (2, 4)))
        for model in (ours, theirs):
            model.zero_grad(set_to_none=True)
            kge.loss_of(module, model, triples, false).backward()
        assert any(own.grad is not None and own.grad.is_sparse for own in ours.parameters())
        gradients.whole()
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(own.grad, other.grad, rtol=1e-12, atol=1e-14)


def test_tables_keep_their_gradients_apart() -> None:
    tables = torch.nn.ModuleList([torch.nn.Embedding(5, 2), torch.nn.Embedding(4, 2)])
    gradients = kge.RowGradients(tables)
    for first, second in (([0, 0, 3], [1]), ([4], [1, 2])):
        tables.zero_grad(set_to_none=True)
        (tables[0](torch.tensor(first)).sum() + 2 * tables[1](torch.tensor(second)).sum()).backward()
        gradients.whole()
        expected = [np.bincount(first, minlength=5), 2 * np.bincount(second, minlength=4)]
        for table, counts in zip(tables, expected, strict=True):
            assert table.weight.grad is not None
            assert table.weight.grad[:, 0].tolist() == counts.tolist()
