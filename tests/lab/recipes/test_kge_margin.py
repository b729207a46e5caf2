from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import Split, hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita_lab.encoder.vocabulary import TAGS, with_tags
from alphita_lab.graph.store import EntityVectors
from alphita_lab.recipes import kge_margin
from alphita_lab.training.mentions.building import MentionSettings, build
from alphita_lab.training.mentions.margin_phase import sampler_of
from alphita_lab.training.mentions.rows import MentionRows, mention_rows
from alphita_lab.training.mentions.store import Mentions
from alphita_lab.training.terms.batches import TermSteps
from alphita_lab.training.terms.names import TrainingNames
from tests.killing import cut_at
from tests.reference import kge as reference
from tests.tiny import nearest_is_synonym, tiny_model

SMALL = {
    "prototypes": 4,
    "positives": 4,
    "negatives": 6,
    "steps": 12,
    "warmup_steps": 4,
    "accumulation": 2,
    "learning_rate": 2e-3,
    "precision": "fp32",
    "log_every": 1,
    "checkpoint_every": 5,
    "refresh_every": 8,
}
ONE_BATCH = SMALL | {"steps": 1, "accumulation": 1, "dropout": 0.0, "learning_rate": 1e-30, "prototypes": 8}


def matched(terminology: Terminology, model: Path, out: Path, split: Split | None = None, **settings: object) -> Path:
    """Texts in which every name stands a few times, and what was matched in them."""
    chance = random.Random(0)
    names = TrainingNames(terminology).strings
    fillers = ["then", "seen", "again", "was", "not", "here"]
    lines = []
    for name in names * 4:
        words = [*chance.choices(fillers, k=4), chance.choice(names), *chance.choices(fillers, k=3)]
        words.insert(chance.randint(0, 3), name)
        lines.append(" ".join(words) + "\n")
    corpus = out.with_suffix(".txt")
    corpus.write_text("".join(lines), encoding="utf-8")
    build([corpus], terminology, model, out, MentionSettings(window=24, **settings), split=split)
    return out


@pytest.fixture(scope="module")
def mentions(terminology: Terminology, model: Path, tmp_path_factory) -> Path:
    return matched(terminology, model, tmp_path_factory.mktemp("mentions") / "x.mentions")


def graph_of(terminology: Terminology, out: Path, facts: dict[str, object] | None = None, every: int = 1) -> Path:
    """Vectors of every concept, or of every second one, as a graph model would have learnt them."""
    ids = sorted(terminology.concept_ids.to_pylist())[::every]
    rng = np.random.default_rng(5)
    vectors = (rng.normal(size=(len(ids), 10)) + 0.7).astype(np.float32)
    EntityVectors(ids, vectors, ["is a"], np.zeros((1, 10), np.float32), "complex", facts or {}).save(out)
    return out


@pytest.fixture(scope="module")
def graph(terminology: Terminology, tmp_path_factory) -> Path:
    return graph_of(terminology, tmp_path_factory.mktemp("graph") / "x.vectors")


def config_of(mentions: Path | None = None, graph: Path | None = None, **changes: object) -> kge_margin.Config:
    paths = {"mentions": str(mentions or ""), "graph": str(graph or ""), "version": "v3" if graph else "v2"}
    return kge_margin.Config(**SMALL | paths | changes)


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]


def by_hand(rows: MentionRows, encoder: TermEncoder, tags: tuple[int, int]) -> np.ndarray:
    """The vector of every row, encoded by itself: the mean of the states between its tags, or of all."""
    found = []
    with torch.no_grad():
        for row in range(len(rows)):
            ids = rows.tokens.rows(np.array([row]))[0].tolist()
            states = encoder.module.eval().model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
            inside = slice(ids.index(tags[0]) + 1, ids.index(tags[1])) if tags[0] in ids else slice(None)
            found.append(states[inside].mean(0))
    return np.stack(found)


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        ("v1", {"lam": 0.8, "mining": False}),
        ("v1", {}),
        ("v2", {"lambda_p": 0.9, "lambda_n": 0.6}),
        ("v3", {}),
        ("v3", {"every": 2}),
        ("v3", {"mining": False, "alpha": 3.0, "beta": 9.0, "detach_margin": False}),
    ],
)
def test_loss_of_a_batch_is_the_printed_equation_over_prototypes_positives_and_negatives(
    terminology: Terminology, model: Path, mentions: Path, tmp_path: Path, version: str, changes: dict[str, object]
) -> None:
    """The logged loss equals loops in float64 over a batch made by hand; half of the concepts may lack a vector."""
    changes = dict(changes)
    graph = graph_of(terminology, tmp_path / "x.vectors", every=int(changes.pop("every", 1)))
    config = config_of(mentions, graph, **ONE_BATCH | changes | {"version": version})
    figures = kge_margin.train(terminology, str(model), tmp_path / "m", config)

    (tmp_path / "tagged").mkdir()
    tagged = with_tags(model, tmp_path / "tagged")
    encoder = TermEncoder.load(tagged.encoder, precision="fp32", max_length=32)
    rows = mention_rows(TrainingNames(terminology), encoder, terminology, Mentions.load(mentions), tags=tagged.ids)
    assert rows.windows == 4 * 88
    e = by_hand(rows, encoder, tagged.ids)
    unit = e / np.linalg.norm(e, axis=1, keepdims=True)
    drawn = sampler_of(rows, config)[0]
    batch = {*drawn.prototypes.tolist(), *np.concatenate(drawn.positives).tolist()}
    for prototype in drawn.prototypes.tolist():
        others = np.flatnonzero(rows.concepts != rows.concepts[prototype])
        near = np.argsort(-(unit[others] @ unit[prototype]), kind="stable")[:6]
        batch |= set(others[near].tolist())
    terms = sorted(batch)
    concept = rows.concepts[terms].tolist()
    constants = {"alpha": config.alpha, "beta": config.beta, "eps": config.eps, "mining": config.mining}
    if version == "v1":
        expected = reference.v1(e[terms], concept, lam=config.lam, **constants)
    elif version == "v2":
        expected = reference.v2(e[terms], concept, lambda_p=config.lambda_p, lambda_n=config.lambda_n, **constants)
    else:
        vectors = EntityVectors.load(graph)
        places = vectors.rows([terminology.concept_id(row) for row in concept])
        assert (places < 0).any() == (len(vectors) < terminology.n_concepts)
        known = (places >= 0).tolist()
        expected = reference.v3(e[terms], concept, vectors.vectors[places].astype(float), known, **constants)
    assert figures["loss"] == pytest.approx(expected, rel=2e-4)
    assert figures["loss"] > 0.01


def test_it_learns_from_contexts_with_the_graphs_margins(
    terminology: Terminology, model: Path, mentions: Path, graph: Path, tmp_path: Path
) -> None:
    """Names encode to their synonyms even where they trained in context only."""
    config = config_of(mentions, graph, bare=False, steps=80, accumulation=1, positives=8)
    kge_margin.train(terminology, str(model), tmp_path / "m", config)
    assert nearest_is_synonym(tmp_path / "m", terminology) > max(0.8, nearest_is_synonym(model, terminology) + 0.2)
    (ids,) = TermEncoder.load(tmp_path / "m", device="cpu").tokenize([f"{TAGS[0]} pain {TAGS[1]}"])
    assert len(ids) == 5
    manifest = artefact.verify(tmp_path / "m", "model")
    assert manifest["mentions"] == Mentions.load(mentions).content_hash
    assert manifest["graph"] == artefact.open_manifest(graph, "graph_vectors")["content_hash"]
    assert manifest["concepts_without_graph"] == 0


def test_a_run_goes_on_where_mentions_and_graph_lie_elsewhere_but_not_with_others(
    terminology: Terminology, model: Path, mentions: Path, graph: Path, tmp_path: Path
) -> None:
    config = config_of(mentions, graph)
    with cut_at(TermSteps, 2 * 8):
        kge_margin.train(terminology, str(model), tmp_path / "m", config)
    elsewhere = [shutil.copytree(path, tmp_path / "elsewhere" / path.name) for path in (mentions, graph)]
    with pytest.raises(InputError, match="another recipe, config"):
        kge_margin.train(terminology, str(model), tmp_path / "m", config_of(mentions, None), resume=True)
    kge_margin.train(terminology, str(model), tmp_path / "m", config_of(*elsewhere), resume=True)
    assert artefact.open_manifest(tmp_path / "m", "model")["config"]["mentions"] == str(elsewhere[0])


def test_negatives_are_found_anew_every_epoch_with_the_weights_of_then(
    terminology: Terminology, model: Path, mentions: Path, tmp_path: Path, capsys
) -> None:
    config = config_of(mentions, refresh_every=0, prototypes=12, steps=9, checkpoint_every=4)
    with cut_at(TermSteps, 2 * 8):
        kge_margin.train(terminology, str(model), tmp_path / "m", config)
    # 32 concepts have 3 prototypes each, of which a step draws 2 times 12.
    assert "96 in all; an epoch is 4.0 steps, training takes 9" in capsys.readouterr().err
    work = tmp_path / "m.training"
    found = {int(path.stem[-8:]): np.load(path) for path in (work / "mined").iterdir()}
    # What a checkpoint may go back to is kept: those of steps 4 and 8.
    assert sorted(found) == [4, 8]
    (tmp_path / "tagged").mkdir()
    tagged = with_tags(model, tmp_path / "tagged")
    encoder = TermEncoder.load(tagged.encoder, precision="fp32", max_length=32)
    rows = mention_rows(TrainingNames(terminology), encoder, terminology, Mentions.load(mentions), tags=tagged.ids)
    # An epoch has all prototypes; of the third there is one step, and those of no other are looked for.
    sampler = sampler_of(rows, config)
    prototypes, last = np.unique(sampler.prototypes), sampler.drawn(16, 18)
    assert (len(found[4]), len(found[8])) == (len(prototypes), len(last)) == (96, 24)
    # With the weights of then.
    before = found[4][np.searchsorted(prototypes, last)]
    changed = [len({*a} & {*b}) / 6 for a, b in zip(before.tolist(), found[8].tolist(), strict=True)]
    assert np.mean(changed) < 0.9


def test_it_trains_without_a_corpus_and_without_contexts_alike(
    terminology: Terminology, model: Path, mentions: Path, tmp_path: Path
) -> None:
    for name, config in (("none", config_of()), ("zero", config_of(mentions, contexts=0))):
        kge_margin.train(terminology, str(model), tmp_path / name, config)
    assert losses(tmp_path / "none") == losses(tmp_path / "zero")
    encoders = [TermEncoder.load(tmp_path / name, precision="fp32") for name in ("none", "zero")]
    assert encoders[0].content_hash == encoders[1].content_hash
    assert encoders[0].tokenizer_hash == TermEncoder.load(model).tokenizer_hash


def test_epochs_and_warm_up_give_the_steps(terminology: Terminology, model: Path, tmp_path: Path, monkeypatch) -> None:
    """88 prototypes of names, 8 a step: 11 steps an epoch, and 40% of the steps are warm-up."""
    config = config_of(steps=0, epochs=1.5, warmup_steps=-1, refresh_every=0)
    kge_margin.train(terminology, str(model), tmp_path / "m", config)
    rates = [json.loads(line)["learning_rate"] for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert len(rates) == 17
    assert int(np.argmax(rates)) + 1 == 7


def test_what_is_held_out_stands_neither_in_names_nor_in_contexts(
    terminology: Terminology, model: Path, mentions: Path, tmp_path: Path, monkeypatch
) -> None:
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    made = matched(terminology, model, tmp_path / "split.mentions", split)
    seen: list[MentionRows] = []
    collect = mention_rows

    def noted(*given: object, **options: object) -> MentionRows:
        seen.append(collect(*given, **options))
        return seen[-1]

    monkeypatch.setattr("alphita_lab.training.mentions.rows.mention_rows", noted)
    kge_margin.train(terminology, str(model), tmp_path / "m", config_of(made, steps=1), split=split)
    (rows,) = seen
    assert rows.windows > 20
    text = "," + ",".join(map(str, rows.tokens.ids.tolist())) + ","
    encoder = TermEncoder.load(model)

    def stands(string: str) -> bool:
        return "," + ",".join(map(str, encoder.tokenize([string])[0][1:-1])) + "," in text

    assert not any(stands(string) for string in split.cleaned)
    assert all(stands(string) for string in set(TrainingNames(terminology, exclude=split.cleaned).strings))
    for other, given, told in (
        (mentions, split, "without a split"),
        (made, None, "with a split"),
        (made, hold_out_synonyms(terminology, fraction=0.3, seed=2), "another split"),
    ):
        with pytest.raises(InputError, match=told) as error:
            kge_margin.train(terminology, str(model), tmp_path / "n", config_of(other, steps=1), split=given)
        assert "alphita mentions" in str(error.value.remedy)


def test_vectors_that_may_know_held_out_triples_are_refused(
    terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    called, labels = terminology.concept_id, terminology.relation_labels
    table = np.asarray(terminology.triples)[:3].tolist()
    split = Split([], [], [], {}, [(called(head), labels[relation], called(tail)) for head, relation, tail in table])
    for name, facts in (("none", {}), ("other", {"split_hash": "0" * 64}), ("same", {"split_hash": split.hash})):
        config = config_of(graph=graph_of(terminology, tmp_path / f"{name}.vectors", facts), steps=1)
        if name == "same":
            kge_margin.train(terminology, str(model), tmp_path / "m", config, split=split)
            continue
        told = "without a split" if name == "none" else "with another split"
        with pytest.raises(InputError, match=told) as error:
            kge_margin.train(terminology, str(model), tmp_path / "m", config, split=split)
        assert "--split" in str(error.value.remedy)


def test_wrong_inputs_say_what_to_do(
    terminology: Terminology, model: Path, mentions: Path, tmp_path: Path, tmp_path_factory
) -> None:
    with pytest.raises(UsageError, match="alphita graph train"):
        kge_margin.train(terminology, str(model), tmp_path / "m", config_of(version="v3"))
    strange = EntityVectors(["X:1"], np.ones((1, 4), np.float32), ["is a"], np.zeros((1, 4), np.float32), "transe", {})
    strange.save(tmp_path / "strange.vectors")
    with pytest.raises(InputError, match="none of the 1 concepts of these vectors"):
        kge_margin.train(terminology, str(model), tmp_path / "m", config_of(graph=tmp_path / "strange.vectors"))
    other = tiny_model(tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match="of another tokenizer") as error:
        kge_margin.train(terminology, str(other), tmp_path / "m", config_of(mentions))
    assert "--encoder" in str(error.value.remedy)
    assert not (tmp_path / "m").exists()


def test_windows_longer_than_the_encoder_has_positions_are_refused(
    terminology: Terminology, model: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "long.txt"
    corpus.write_text("".join(f"{'x' * 40} {name} {'y' * 40}\n" for name in TrainingNames(terminology).strings))
    build([corpus], terminology, model, tmp_path / "long.mentions", MentionSettings(window=70))
    with pytest.raises(InputError, match="more than the encoder has positions for") as error:
        kge_margin.train(terminology, str(model), tmp_path / "m", config_of(tmp_path / "long.mentions"))
    assert "--window" in str(error.value.remedy)


def test_a_concept_without_a_vector_is_counted(terminology: Terminology, model: Path, tmp_path: Path, capsys) -> None:
    graph = graph_of(terminology, tmp_path / "half.vectors", every=2)
    kge_margin.train(terminology, str(model), tmp_path / "m", config_of(graph=graph, steps=2))
    assert "16 of 32 concepts that train are not in it" in capsys.readouterr().err
    assert artefact.open_manifest(tmp_path / "m", "model")["concepts_without_graph"] == 16
