from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import Rejects
from alphita.terminology.loaders import obo
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology, load_terminology, save
from alphita_lab.recipes import coder_transe
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.terms.names import TrainingNames
from alphita_lab.training.terms.samplers import NameGroupSampler, usable_triples
from tests.reference import relational
from tests.reference.multi_similarity import term_term
from tests.tiny import tiny_terminology

SMALL = {
    "batch_terms": 60,
    "most_names": 2,
    "steps": 60,
    "warmup_steps": 6,
    "accumulation": 1,
    "learning_rate": 2e-3,
    "pooling": "mean",
    "precision": "fp32",
    "log_every": 5,
    "checkpoint_every": 10,
}
ONE_BATCH = SMALL | {"steps": 1, "warmup_steps": 0, "log_every": 1, "dropout": 0.0, "learning_rate": 1e-30}


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    """Disorders of eight sites, three names each, below a disorder of the site; typed by their finding."""
    folder = tmp_path_factory.mktemp("data")
    tiny_terminology(folder / "tiny")
    with Rejects() as rejects:
        save(typed(obo.load([folder / "tiny.obo"], obo.Options(), rejects)), folder / "changed")
    return load_terminology(folder / "changed")


def typed(tables: Tables) -> Tables:
    """Pain, swelling and bleeding are types; pains of the heart and swellings of the liver have two of them."""
    preferred = tables.terms.filter(pl.col("preferred"))
    rows = []
    for concept, name in preferred.select("concept", "string").iter_rows():
        first = name.split()[0]
        if first != "disorder":
            rows.append((concept, first))
        if name in ("pain of the heart", "swelling of the liver"):
            rows.append((concept, "bleeding"))
    types = pl.DataFrame(rows, schema=["concept", "semantic_type"], orient="row").with_columns(source=pl.lit("T"))
    # A third name for the sites' disorders too, so that `most_names` tells.
    third = preferred.filter(pl.col("string").str.starts_with("disorder")).with_columns(
        string="the " + pl.col("string"), preferred=pl.lit(False)
    )
    return dataclasses.replace(tables, terms=pl.concat([tables.terms, third]), semantic_types=types)


def sampled(terminology: Terminology, config: coder_transe.Config):
    """The names, and batch 0 of a run."""
    names = TrainingNames(terminology)
    triples = usable_triples(
        terminology.triples, names.offsets, len(terminology.relation_labels), inverse=config.inverse_relations
    )
    sampler = NameGroupSampler(
        triples, names.offsets, rows=config.batch_terms, most=config.most_names, seed=config.seed
    )
    return names, sampler.batch(0)


@pytest.mark.parametrize("mining", [True, False])
def test_loss_of_a_batch_is_the_papers_sum(terminology: Terminology, model: Path, tmp_path: Path, mining: bool) -> None:
    """The logged losses equal loops in float64 over all rows, repeats too; the step's rate leaves r, W, b as drawn."""
    constants = {"alpha": 3.0, "beta": 20.0, "lam": 0.9, "eps": 0.002, "mining": mining}
    weights = {"mu": 0.7, "margin": 2.0, "semantic_type_weight": 0.1}
    config = coder_transe.Config(**ONE_BATCH | constants | weights)
    figures = coder_transe.train(terminology, str(model), tmp_path / "m", config)
    names, batch = sampled(terminology, config)
    encoder = TermEncoder.load(model, precision="fp32", pooling="mean", max_length=32)
    forward = TermForward(encoder, precision="fp32")
    with torch.no_grad():
        h, t, corrupted = (
            forward(encoder.tokenize([names.strings[term] for term in terms])).double().numpy()
            for terms in (batch.head_term, batch.tail_term, batch.corrupted_term)
        )
    assert len(h) == 20
    e, concepts = np.concatenate([h, t, corrupted]), np.concatenate([batch.head, batch.tail, batch.corrupted])
    vectors = load_file(tmp_path / "m" / "relations.safetensors")["vectors"].astype(float)
    assert vectors.shape == (2, encoder.dim)
    expected_transe = relational.transe_margin(h, batch.relation, t, corrupted, vectors, 2.0)
    linear = load_file(tmp_path / "m" / "semantic_types.safetensors")
    types = artefact.open_manifest(tmp_path / "m", "model")["semantic_types"]
    assert types == ["bleeding", "pain", "swelling"]
    y = [[name in terminology.semantic_types_of(concept) for name in types] for concept in concepts]
    assert {sum(row) for row in y} == {0, 1, 2}
    expected_type = relational.semantic_type(e, y, linear["linear.weight"].astype(float), linear["linear.bias"])
    expected_term = term_term(e, concepts, **constants)
    assert min(expected_term, expected_transe, expected_type) > 0.1
    assert figures["term_loss"] == pytest.approx(expected_term, rel=1e-4)
    assert figures["transe_loss"] == pytest.approx(expected_transe, rel=1e-4)
    assert figures["type_loss"] == pytest.approx(expected_type, rel=1e-4)
    expected = expected_term + 0.7 * expected_transe + 0.1 * expected_type
    assert figures["loss"] == pytest.approx(expected, rel=1e-4)


def test_switched_off_losses_leave_nothing_behind(terminology: Terminology, model: Path, tmp_path: Path) -> None:
    config = coder_transe.Config(**SMALL | {"mu": 0, "steps": 2, "log_every": 1})
    figures = coder_transe.train(terminology, str(model), tmp_path / "m", config)
    assert figures["loss"] == figures["term_loss"]
    assert not {"transe_loss", "type_loss"} & set(figures)
    assert not list((tmp_path / "m").glob("relations*"))
    assert not list((tmp_path / "m").glob("semantic_types*"))


def test_held_out_triples_do_not_train(terminology: Terminology, model: Path, tmp_path: Path, monkeypatch) -> None:
    head, relation, tail = terminology.triples[3].tolist()
    curie = terminology.concept_id
    triple = (curie(head), terminology.relation_labels[relation], curie(tail))
    trained: list[np.ndarray] = []
    start = NameGroupSampler.__init__

    def spying(self: NameGroupSampler, triples: np.ndarray, *args: object, **kwargs: object) -> None:
        trained.append(triples)
        start(self, triples, *args, **kwargs)

    monkeypatch.setattr(NameGroupSampler, "__init__", spying)
    config = coder_transe.Config(**SMALL | {"steps": 1})
    for split, folder in ((None, "whole"), (Split([], [], [], {}, [triple]), "split")):
        coder_transe.train(terminology, str(model), tmp_path / folder, config, split=split)
    whole, kept = ({tuple(one) for one in triples.tolist()} for triples in trained)
    assert whole - kept == {(head, relation, tail), (tail, relation + 1, head)}
    assert kept < whole
