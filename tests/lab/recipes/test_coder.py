from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita_lab.objectives.multi_similarity import term_term
from alphita_lab.objectives.term_relation_term import RelationMatrices, term_relation_term
from alphita_lab.recipes import coder
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.terms.samplers import TripleSampler, usable_triples
from tests.stanzas import Stanza, ontology

SMALL = {
    "k": 16,
    "m": 4,
    "steps": 60,
    "warmup_steps": 6,
    "accumulation": 1,
    "learning_rate": 2e-3,
    "pooling": "mean",
    "precision": "fp32",
    "log_every": 5,
    "checkpoint_every": 10,
}


def test_micro_loss_is_the_papers_sum(terminology: Terminology, model: Path, tmp_path: Path) -> None:
    """The first logged loss equals both losses computed here, row by row, without sharing repeated rows."""
    config = coder.Config(**SMALL | {"steps": 1, "warmup_steps": 0, "log_every": 1, "dropout": 0.0, "mu": 0.5})
    figures = coder.train(terminology, str(model), tmp_path / "m", config)
    names = TrainingNames(terminology)
    triples = usable_triples(terminology.triples, names.offsets, len(terminology.relation_labels), inverse=True)
    batch = TripleSampler(triples, names.offsets, k=config.k, m=config.m, seed=config.seed).batch(0)
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean", max_length=32)
    forward = TermForward(encoder, precision="fp32")
    with torch.no_grad():
        heads, tails = (
            forward(encoder.tokenize([names.strings[term] for term in terms]))
            for terms in (batch.head_term, batch.tail_term)
        )
    head, relation, tail = (torch.from_numpy(a) for a in (batch.head, batch.relation, batch.tail))
    expected_term = term_term(torch.cat([heads, tails]), torch.cat([head, tail]))
    matrices = RelationMatrices(2 * len(terminology.relation_labels), encoder.dim, kind="diagonal")
    expected_relation = term_relation_term(heads, relation, tails, tail, matrices)
    assert figures["term_loss"] == pytest.approx(float(expected_term), rel=1e-4)
    assert figures["relation_loss"] == pytest.approx(float(expected_relation.detach()), rel=1e-4)
    assert figures["loss"] == pytest.approx(float(expected_term + 0.5 * expected_relation.detach()), rel=1e-4)


def test_names_train_with_noise_too_but_held_out_ones_in_no_form(
    terminology: Terminology, model: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    split = hold_out_synonyms(terminology, fraction=0.5, seed=1)
    plain = TrainingNames(terminology, exclude=split.cleaned)
    noised: list[str] = []

    def spying(string: str, _: object) -> str:
        noised.append(string)
        return f"{string} today"

    monkeypatch.setattr("alphita_lab.training.terms.names.noisy", spying)
    config = coder.Config(**SMALL | {"steps": 2, "noise": 1.0})
    coder.train(terminology, str(model), tmp_path / "m", config, split=split)
    assert sorted(noised) == sorted(plain.strings)
    assert f"training on {2 * len(plain.strings):,} names" in capsys.readouterr().err
    assert artefact.verify(tmp_path / "m", "model")["config"]["noise"] == 1.0


def test_names_are_cleaned_as_the_released_code_does_and_what_is_held_out_stays_out(tmp_path: Path) -> None:
    stanzas = [
        Stanza(1, ("Heart pain, NOS", "heart pain", "Heart pain NOS (disorder)", "(all)")),
        Stanza(2, ("X-linked pain (acute)", "pain")),
    ]
    terminology = ontology(tmp_path / "t", stanzas)
    names = TrainingNames(terminology, rules=coder.Config().rules, exclude=frozenset(["x linked pain"]))
    assert names.strings == ["heart pain", "pain"]
    assert names.offsets.tolist() == [0, 1, 2]
    plain = TrainingNames(terminology, rules=coder.Config(name_rule="none").rules)
    assert len(plain.strings) == 6


@pytest.mark.parametrize("kind", ["full", "low_rank"])
def test_relation_matrices_are_saved_with_their_labels(
    kind: str, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    config = coder.Config(**SMALL | {"steps": 3, "relation_matrix": kind, "rank": 2})
    coder.train(terminology, str(model), tmp_path / "m", config)
    tensors = load_file(tmp_path / "m" / "relations.safetensors")
    labels = artefact.open_manifest(tmp_path / "m", "model")["relation_labels"]
    assert labels == ["is_a", "inverse of is_a"]
    assert all(len(tensor) == len(labels) for tensor in tensors.values())


def test_without_relations_there_are_no_matrices(terminology: Terminology, model: Path, tmp_path: Path) -> None:
    figures = coder.train(terminology, str(model), tmp_path / "m", coder.Config(**SMALL | {"steps": 2, "mu": 0}))
    assert "relation_loss" not in figures
    assert not (tmp_path / "m" / "relations.safetensors").exists()
