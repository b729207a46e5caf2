"""What every recipe must do that learns from names and relations alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from alphita import artefact, registry
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita_lab.recipes import coder
from alphita_lab.training.terms.batches import TermSteps
from alphita_lab.training.terms.names import TrainingNames
from tests.contracts.recipe_cases import OF_NAMES, Given, name_of
from tests.tiny import nearest_is_synonym, tiny_terminology

# Those that train on texts beside names.
TEXTS = ("biolord", "alphita")


@pytest.fixture(params=OF_NAMES)
def recipe(request) -> ModuleType:
    return registry.load("alphita_lab.recipes", request.param)


def test_it_learns_the_synonyms_of_a_few_concepts(
    recipe: ModuleType, given: Given, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    figures = given.train(recipe, tmp_path / "m")
    assert nearest_is_synonym(tmp_path / "m", terminology) > max(0.8, nearest_is_synonym(model, terminology) + 0.3)
    assert figures["loss"] >= 0
    assert figures["rows_per_second"] > 0


def test_a_dry_run_tells_the_names(recipe: ModuleType, given: Given, tmp_path: Path, capsys) -> None:
    given.train(recipe, tmp_path / "m", dry_run=True)
    told = capsys.readouterr().err
    assert "names: 88 of 32 concepts" in told
    assert "term rows" in told


def test_a_split_of_triples_alone_is_a_split(
    recipe: ModuleType, given: Given, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    head, relation, tail = terminology.triples[0].tolist()
    triple = (terminology.concept_id(head), terminology.relation_labels[relation], terminology.concept_id(tail))
    split = Split([], [], [], triples=[triple])
    recipe.train(terminology, str(model), tmp_path / "m", given.config(recipe, steps=1), split=split)
    assert artefact.open_manifest(tmp_path / "m", "model")["split"] == split.hash


def test_a_loss_that_is_not_finite_stops_the_run_and_names_its_terms(
    recipe: ModuleType, given: Given, terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    encode = TermSteps._encode

    def broken(self: TermSteps, ready: Any, part: int, number: int) -> torch.Tensor:
        vectors = encode(self, ready, part, number)
        return vectors * float("nan") if number == 3 else vectors

    monkeypatch.setattr(TermSteps, "_encode", broken)
    with pytest.raises(
        AlphitaError, match=r"no longer finite at step 4 on the terms .*smaller learning_rate"
    ) as caught:
        given.train(recipe, tmp_path / "m")
    work = tmp_path / "m.training"
    terms = (work / "not_finite.txt").read_text().strip().split(", ")
    names = set(TrainingNames(terminology).strings)
    assert set(terms) & names
    assert set(terms) <= names or name_of(recipe) in TEXTS
    assert terms[0] in str(caught.value)
    assert (work / "step-00000003" / "state.json").exists()


@pytest.mark.parametrize("name", ["coder", "coder_transe", "sapbert"])
def test_copies_of_a_name_have_dropout_masks_of_their_own_unless_shared(
    name: str, given: Given, tmp_path: Path, monkeypatch
) -> None:
    encode, seen = TermSteps._encode, []

    def spying(self: TermSteps, ready: Any, part: int, number: int) -> torch.Tensor:
        vectors = encode(self, ready, part, number)
        seen.append((ready.batch.terms, ready.batch.rows, vectors.detach()))
        return vectors

    monkeypatch.setattr(TermSteps, "_encode", spying)
    settings = {"steps": 1, "dropout": 0.3}
    for more in ({}, {"dropout_masks": "shared"}, {"dropout": 0.0}):
        recipe = registry.load("alphita_lab.recipes", name)
        given.train(recipe, tmp_path / f"m{len(seen)}", **settings | more)
    (own, rows, vectors), *others = seen
    distinct = len(set(own.tolist()))
    assert len(own) == rows > distinct
    assert len(vectors.unique(dim=0)) == rows
    assert [len(terms) for terms, *_ in others] == [distinct, distinct]


def test_an_encoder_that_is_not_like_bert_is_refused(
    given: Given, terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    from transformers import T5Config, T5Model

    folder = tmp_path / "t5"
    T5Model(T5Config(vocab_size=100, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    with pytest.raises(InputError, match="T5Model does not encode a term as BERT does"):
        coder.train(terminology, str(folder), tmp_path / "m", given.config(coder))


NEEDS = {
    "coder": ("relations",),
    "coder_transe": ("relations", "synonyms", "types"),
    "sapbert": ("synonyms",),
    "coder_pp": ("synonyms",),
    "biolord": ("relations",),
    "alphita": (),
    "kge_margin": ("synonyms",),
}


@pytest.mark.parametrize("lacking", ["relations", "synonyms", "types"])
def test_a_terminology_without_what_it_needs_is_a_clear_error(
    recipe: ModuleType, given: Given, lacking: str, model: Path, tmp_path: Path
) -> None:
    name = name_of(recipe)
    terminology = tiny_terminology(
        tmp_path / "poor.terminology",
        types=lacking != "types",
        relations=lacking != "relations",
        synonyms=lacking != "synonyms",
    )
    settings = given.config(recipe, steps=2)
    if lacking in NEEDS[name]:
        told = {"relations": "relation", "synonyms": "name", "types": "semantic type"}[lacking]
        with pytest.raises(InputError, match=told) as caught:
            recipe.train(terminology, str(model), tmp_path / "m", settings)
        assert ";" in str(caught.value), "an error says what to do"
    else:
        assert recipe.train(terminology, str(model), tmp_path / "m", settings)["loss"] >= 0


def test_the_best_weights_are_kept(
    recipe: ModuleType, given: Given, terminology: Terminology, model: Path, tmp_path: Path, monkeypatch
) -> None:
    scores = iter([0.2, 0.9, 0.1, 0.3])
    monkeypatch.setattr(TrainingNames, "dev_accuracy", lambda *_: {"dev_acc1": next(scores)})
    settings = {"dev_synonyms": 4, "evaluate_every": 2, "schedule": "constant"}
    recipe.train(terminology, str(model), tmp_path / "best", given.config(recipe, steps=8, keep="best", **settings))
    # A run that ends where the score was best; the learning rate is constant, so its length decides nothing else.
    scores = iter([0.2, 0.9])
    recipe.train(terminology, str(model), tmp_path / "four", given.config(recipe, steps=4, **settings))
    best, four = (TermEncoder.load(tmp_path / name, precision="fp32").content_hash for name in ("best", "four"))
    assert best == four
