from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.graph.store import EntityVectors
from alphita_lab.recipes import kge_injection
from alphita_lab.training.mentions import injection
from alphita_lab.training.mentions.injection import InjectionSteps
from alphita_lab.training.mentions.store import Mentions
from tests.killing import cut_at
from tests.lab.training.linked_texts import graph_of, mentions_of, texts_of

SMALL: dict[str, Any] = {
    "layer": 1,
    "nearest": 5,
    "batch": 6,
    "steps": 40,
    "warmup_steps": 5,
    "learning_rate": 2e-3,
    "precision": "fp32",
    "log_every": 1,
    "checkpoint_every": 10,
}


def config(paths: dict[str, str], **changes: object) -> kge_injection.Config:
    return kge_injection.Config(**SMALL | paths | changes)


def same_files(one: Path, other: Path) -> None:
    files = sorted(file.name for file in one.glob("*.safetensors"))
    assert files == ["masked_language_head.safetensors", "model.safetensors"]
    for name in files:
        assert artefact.hash_file(one / name) == artefact.hash_file(other / name), name


def test_it_learns_to_link_and_its_model_is_one_like_others(terminology, model, tmp_path, capsys) -> None:
    ids = [terminology.concept_id(row) for row in range(terminology.n_concepts) if row % 8]
    texts = texts_of(terminology, 400)
    paths = {
        "mentions": str(mentions_of(terminology, model, tmp_path / "x.mentions", texts=texts)),
        "graph": str(graph_of(ids, tmp_path / "x.vectors", dim=12)),
    }
    settings = config(
        paths, steps=300, dev_sequences=20, batch=12, learning_rate=5e-3, share=0.05, dropout=0.0, checkpoint_every=0
    )
    figures = kge_injection.train(terminology, str(model), tmp_path / "m", settings)
    log = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert figures["linking"] < 0.6 * log[0]["linking"]
    assert figures["language"] < log[0]["language"]
    assert figures["dev_linking_acc1"] > 0.7 > 0.2 > log[0]["linked"]
    assert figures["rows_per_second"] > 0
    manifest = artefact.verify(tmp_path / "m", "model")
    assert (manifest["layer"], manifest["split"]) == (1, None)
    assert manifest["mentions"] == Mentions.load(paths["mentions"]).content_hash
    assert manifest["graph"] == artefact.open_manifest(paths["graph"], "graph_vectors")["content_hash"]
    assert manifest["counts"]["without_entity"] > 0
    told = capsys.readouterr().err
    assert f"{manifest['counts']['without_entity']:,} whose concept the graph lacks" in told
    assert "entities are added after layer 1 of 2" in told
    assert not (tmp_path / "m.training").exists()

    # On bare terms, and linked right: a term is its own mention.
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32")
    injected = encoder.module.model
    assert isinstance(injected, InjectedBert)
    vectors = EntityVectors.load(paths["graph"])
    np.testing.assert_array_equal(injected.injection.entities.numpy(), vectors.vectors)
    linked = zip(Mentions.load(paths["mentions"]).strings.to_pylist(), _golds(paths, terminology), strict=True)
    wanted = {string: gold for string, gold in linked if gold >= 0}
    strings = list(wanted)
    assert np.isfinite(encoder.encode(strings)).all()
    with torch.no_grad():
        found = injected(*encoder.pad(encoder.tokenize(strings))).candidates[:, 0]
    assert np.mean(found.numpy() == np.array(list(wanted.values()))) > 0.7


def _golds(paths: dict[str, str], terminology: Terminology) -> list[int]:
    hash_ = Mentions.load(paths["mentions"]).manifest["tokenizer_hash"]
    found: list[int] = injection.read_linked(paths["mentions"], paths["graph"], terminology, hash_).gold.tolist()
    return found


def test_the_frozen_entities_are_in_no_checkpoint(terminology, model, paths, tmp_path) -> None:
    with cut_at(InjectionSteps, 11):
        kge_injection.train(terminology, str(model), tmp_path / "cut", config(paths, steps=12))
    newest = max((tmp_path / "cut.training").glob("step-*"))
    assert {file.stem for file in newest.glob("*.safetensors")} == {
        *("encoder", "injection", "masked_language_head", "optimizer")
    }
    assert not [name for file in newest.glob("*.safetensors") for name in load_file(file) if "entities" in name]


def test_a_loss_that_is_not_finite_stops_the_run_and_names_its_terms(
    terminology, model, paths, tmp_path, monkeypatch
) -> None:
    make = InjectionSteps._losses
    calls = []

    def broken(self: InjectionSteps, part: Any, ready: Any) -> dict[str, torch.Tensor]:
        calls.append(part)
        found = make(self, part, ready)
        return {name: value * (float("nan") if len(calls) == 13 else 1) for name, value in found.items()}

    monkeypatch.setattr(InjectionSteps, "_losses", broken)
    with pytest.raises(
        AlphitaError, match=r"no longer finite at step 13 on the terms .*smaller learning_rate"
    ) as caught:
        kge_injection.train(terminology, str(model), tmp_path / "m", config(paths))
    terms = (tmp_path / "m.training" / "not_finite.txt").read_text().strip().split(", ")
    assert set(terms) <= set(Mentions.load(paths["mentions"]).strings.to_pylist())
    assert terms[0] in str(caught.value)
    assert (tmp_path / "m.training" / "step-00000012" / "state.json").exists()


def test_the_best_weights_are_kept(terminology, model, paths, tmp_path, monkeypatch) -> None:
    settings = {"dev_sequences": 10, "evaluate_every": 5, "schedule": "constant", "warmup_steps": 0}
    scores = iter([0.2, 0.9, 0.1, 0.3, 0.9])
    monkeypatch.setattr(injection, "linking_accuracy", lambda *_, **__: {"dev_linking_acc1": next(scores)})
    best = config(paths, steps=20, keep="best", **settings)
    assert kge_injection.train(terminology, str(model), tmp_path / "best", best)["dev_linking_acc1"] == 0.9
    monkeypatch.undo()
    kge_injection.train(terminology, str(model), tmp_path / "ten", config(paths, steps=10, **settings))
    # A head is no part of an encoder's vectors, but of the state that was best.
    same_files(tmp_path / "best", tmp_path / "ten")


def test_some_of_the_starting_weights_are_averaged_in(terminology, model, paths, tmp_path) -> None:
    for name, share in (("plain", 0.0), ("mixed", 0.25)):
        kge_injection.train(terminology, str(model), tmp_path / name, config(paths, steps=3, start_share=share))
    plain, mixed = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "mixed"))
    before = load_file(model / "model.safetensors")
    for name, value in mixed.items():
        start = before.get(name.removeprefix("model."), plain[name])
        torch.testing.assert_close(value, 0.75 * plain[name] + 0.25 * start, atol=1e-6, rtol=1e-5, msg=name)


def test_what_is_held_out_does_not_train(terminology, model, paths, tmp_path, monkeypatch) -> None:
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    made = mentions_of(terminology, model, tmp_path / "split.mentions", split=split)
    seen: list[list[int]] = []
    draw = InjectionSteps.draw

    def noted(self: InjectionSteps, number: int) -> Any:
        rows = self.batches.batch(number).terms
        seen.extend(row.tolist() for row in self.data.mentions.sequences.batch(rows).input_ids)
        return draw(self, number)

    monkeypatch.setattr(InjectionSteps, "draw", noted)
    settings = config(paths | {"mentions": str(made)}, steps=12)
    kge_injection.train(terminology, str(model), tmp_path / "m", settings, split=split)
    assert artefact.open_manifest(tmp_path / "m", "model")["split"] == split.hash
    tokens = [" ".join(map(str, row)) + " " for row in seen]
    held = [" ".join(map(str, row[1:-1])) + " " for row in TermEncoder.load(model).tokenize(sorted(split.cleaned))]
    assert len(tokens) > 30
    assert not [one for one in held if any(one in row for row in tokens)]


def test_two_thirds_of_the_layers_and_a_layer_that_is_not_there(terminology, model, paths, tmp_path) -> None:
    kge_injection.train(terminology, str(model), tmp_path / "m", config(paths, steps=1, layer=0))
    assert artefact.open_manifest(tmp_path / "m", "model")["layer"] == 1
    assert TermEncoder.load(tmp_path / "m").module.model.layer == 1
    kge_injection.train(terminology, str(model), tmp_path / "last", config(paths, steps=1, layer=2))
    assert TermEncoder.load(tmp_path / "last").module.model.layer == 2
    with pytest.raises(InputError, match=r"no such layer.*8.*up to 2"):
        kge_injection.train(terminology, str(model), tmp_path / "n", config(paths, layer=8))
    with pytest.raises(UsageError, match="nearest must be from 1 to 28"):
        kge_injection.train(terminology, str(model), tmp_path / "n", config(paths, nearest=29))
    with pytest.raises(InputError, match="entities injected already"):
        kge_injection.train(terminology, str(tmp_path / "m"), tmp_path / "n", config(paths))
    with pytest.raises(InputError, match="none of them left to train on"):
        kge_injection.train(terminology, str(model), tmp_path / "n", config(paths, dev_sequences=10_000))
    assert not list(tmp_path.glob("n*"))


def test_encoders_that_cannot_be_injected(terminology, model, paths, tmp_path) -> None:
    from transformers import BertConfig, BertModel, ElectraConfig, ElectraModel

    size = json.loads((model / "config.json").read_text())["vocab_size"]
    sizes = {"vocab_size": size, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    models = {
        "electra": ElectraModel(ElectraConfig(**sizes, embedding_size=16, intermediate_size=16)),
        "short": BertModel(BertConfig(**sizes, intermediate_size=16, max_position_embeddings=20)),
    }
    told = {
        "electra": "BERT and RoBERTa encoders only",
        "short": r"longest sequence has 2\d tokens, and the encoder has 20 positions; .*--sequence-tokens 18",
    }
    for name, one in models.items():
        one.save_pretrained(tmp_path / name)
        (tmp_path / name / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
        with pytest.raises(InputError, match=told[name]):
            kge_injection.train(terminology, str(tmp_path / name), tmp_path / "m", config(paths))
