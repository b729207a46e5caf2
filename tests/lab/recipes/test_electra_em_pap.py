from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from alphita import artefact
from alphita.config import resolve
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita_lab.encoder.electra import Generator
from alphita_lab.recipes import electra_em_pap
from alphita_lab.training.text import corpora, pretraining_data, sequences
from alphita_lab.training.text.masked_steps import ReplacedTokenSteps
from alphita_lab.training.text.sequences import Sequences
from tests.killing import cut_at
from tests.search.conftest import products_of
from tests.stanzas import Stanza, ontology
from tests.tables import terminology_of

SMALL: dict[str, Any] = {
    "vocabulary": 160,
    "layers": 2,
    "hidden": 32,
    "heads": 2,
    "max_length": 32,
    "batch": 8,
    "attribute_batch": 8,
    "steps": 6,
    "warmup_steps": 1,
    "rho": 0.3,
    "learning_rate": 2e-3,
    "precision": "fp32",
    "log_every": 1,
    "checkpoint_every": 3,
}
DRUGS = ("alvexin", "borvatel", "cendril", "dormaxol", "elvanor", "fostrin", "gelmadon", "hestrazol")
SYMPTOMS = ("cough", "fever", "back pain", "dry skin", "itching eye", "sore throat", "cold hands", "ringing ears")
FORMS = ("tablet", "syrup", "cream")


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    """Eight drugs in three forms; a drug treats three symptoms, whatever its form."""
    titles = [f"{drug} {form}" for drug, form in itertools.product(DRUGS, FORMS)]
    names = [*titles, *SYMPTOMS, *FORMS]
    number = {name: f"P:{place:02}" for place, name in enumerate(names)}
    triples = []
    for place, (drug, form) in enumerate(itertools.product(range(8), FORMS)):
        triples += [(number[titles[place]], "treats", number[SYMPTOMS[(drug + step) % 8]]) for step in (0, 1, 3)]
        triples.append((number[titles[place]], "has_form", number[form]))
    rows = [(one, name, "en", True) for name, one in number.items()]
    rows += [(number[form], f"{form} form", "en", False) for form in FORMS]
    return terminology_of(rows, tmp_path_factory.mktemp("data") / "drugs.terminology", relations=triples)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    lines = [
        f"day {day}: the {form} of {drug} against {symptom} was taken again"
        for day, (drug, symptom, form) in enumerate(itertools.product(DRUGS, SYMPTOMS, FORMS))
    ]
    file = tmp_path_factory.mktemp("corpus") / "notes.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def config(corpus: Path, **changes: object) -> electra_em_pap.Config:
    return electra_em_pap.Config(**SMALL | {"corpus": str(corpus)} | changes)


def log(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_sizes_of_a_new_encoder_are_not_looked_at_where_there_is_one() -> None:
    assert resolve(electra_em_pap.Config, sets=["scratch=false", "hidden=33"]).hidden == 33


def test_a_run_that_was_cut_goes_on_where_its_text_was_moved(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    electra_em_pap.train(terminology, str(model), tmp_path / "whole", config(corpus))
    with cut_at(ReplacedTokenSteps, 2):
        electra_em_pap.train(terminology, str(model), tmp_path / "cut", config(corpus))
    moved = Path(shutil.copy(corpus, tmp_path / "moved.txt"))
    # What is there is not made again.
    monkeypatch.setattr(sequences, "pack_spans", None)
    electra_em_pap.train(terminology, str(model), tmp_path / "cut", config(moved), resume=True)
    assert [line["loss"] for line in log(tmp_path / "cut")] == [line["loss"] for line in log(tmp_path / "whole")]


def test_entities_may_be_those_of_another_terminology(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    others = [Stanza(1, ["cough", "sore throat"]), Stanza(2, ["against"])]
    named = ontology(tmp_path / "others.terminology", others)
    settings = {"rho": 0.0, "steps": 1, "warmup_steps": 0}
    of = {}
    for name, path in (("own", ""), ("other", str(named.path))):
        electra_em_pap.train(terminology, str(model), tmp_path / name, config(corpus, entities_from=path, **settings))
        of[name] = artefact.open_manifest(tmp_path / name, "model")
    # Each line says "against" once, and in one of four cough or sore throat.
    assert of["other"]["sequences"]["entities"] == 192 + 192 // 4 != of["own"]["sequences"]["entities"]
    assert of["other"]["entities"] == named.content_hash
    assert "entities" not in of["own"]


def test_what_is_prepared_is_kept_for_other_trainings(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    settings = {"rho": 0.0, "steps": 2, "prepared": str(tmp_path / "kept"), "mask_tokens": 0.85}
    electra_em_pap.train(terminology, str(model), tmp_path / "first", config(corpus, **settings))
    monkeypatch.setattr(sequences, "pack_spans", None)
    monkeypatch.setattr(pretraining_data, "_train_vocabulary", None)
    electra_em_pap.train(terminology, str(model), tmp_path / "second", config(corpus, **settings))
    assert [line["loss"] for line in log(tmp_path / "first")] == [line["loss"] for line in log(tmp_path / "second")]


def test_lines_that_cannot_be_used_are_told_and_counted(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    lines = [json.dumps({"text": line}) for line in corpus.read_text().splitlines()]
    file = tmp_path / "notes.jsonl"
    file.write_text("\n".join([*lines, '{"txt": "fever"}', "[1]", "not JSON"]) + "\n")
    settings = config(file, rho=0.0)
    told = f"3 lines of the corpus left out; see {tmp_path / 'm.rejects.csv'}"
    electra_em_pap.train(terminology, str(model), tmp_path / "m", settings, dry_run=True)
    assert "3 lines of the corpus left out; --dry-run lists none" in capsys.readouterr().err
    assert not (tmp_path / "m.rejects.csv").exists()
    with cut_at(ReplacedTokenSteps, 2):
        electra_em_pap.train(terminology, str(model), tmp_path / "m", settings)
    assert told in capsys.readouterr().err
    monkeypatch.setattr(sequences, "pack_spans", None)
    electra_em_pap.train(terminology, str(model), tmp_path / "m", settings, resume=True)
    assert told in capsys.readouterr().err
    assert artefact.open_manifest(tmp_path / "m", "model")["sequences"]["rejected"] == 3
    assert [row.split(",")[1] for row in (tmp_path / "m.rejects.csv").read_text().splitlines()] == [
        "line",
        "193",
        "194",
        "195",
    ]


def test_a_corpus_of_which_no_line_can_be_used(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('{"txt": "fever"}\n' * 4)
    with pytest.raises(InputError, match=r"no word to learn from; 4 lines .* see .*m\.rejects\.csv"):
        electra_em_pap.train(terminology, str(model), tmp_path / "m", config(file))
    assert len((tmp_path / "m.rejects.csv").read_text().splitlines()) == 5
    with pytest.raises(InputError, match=r"no text to train on: 0 documents.* 4 lines that cannot be used; look at"):
        electra_em_pap.train(terminology, str(model), tmp_path / "m", config(file, scratch=False))


def test_a_vocabulary_without_room_for_the_characters_says_what_it_needs(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"vocabulary=20 is below the \d+ characters .* the 5 special") as error:
        electra_em_pap.train(terminology, str(model), tmp_path / "m", config(corpus, vocabulary=20))
    least = int(str(error.value).split("set vocabulary=")[1].split()[0])
    with pytest.raises(UsageError, match=f"set vocabulary={least} or more"):
        electra_em_pap.train(terminology, str(model), tmp_path / "m", config(corpus, vocabulary=least - 1))
    electra_em_pap.train(terminology, str(model), tmp_path / "m", config(corpus, vocabulary=least, steps=1))
    sizes = json.loads((tmp_path / "m" / "config.json").read_text())
    assert sizes["vocab_size"] == least


def test_what_is_wrong_with_the_products_is_told_before_text_is_read(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(corpora, "documents", None)
    lone = products_of([("Otocalm", "route", "auricular")], tmp_path / "t.terminology")
    settings = config(corpus, rho=0.5, dev_attributes=5, keep="best", evaluate_every=2)
    with pytest.raises(InputError, match="no value of a product can be held out") as error:
        electra_em_pap.train(lone, str(model), tmp_path / "m", settings)
    assert error.value.field == "dev_attributes"
    with pytest.raises(UsageError, match="unknown attribute 'treat'; did you mean 'treats'"):
        electra_em_pap.train(terminology, str(model), tmp_path / "m", config(corpus, attributes="treat"))
    assert list(tmp_path.glob("m*")) == []


def test_both_tasks_are_learnt_and_the_model_is_one_like_others(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    settings = config(
        corpus,
        steps=500,
        learning_rate=3e-3,
        rho=0.5,
        gamma=2.0,
        dev_sequences=8,
        dev_attributes=12,
        pooling="mean",
        dropout=0.0,
        log_every=10,
        checkpoint_every=0,
    )
    figures = electra_em_pap.train(terminology, str(model), tmp_path / "m", settings)
    assert figures["dev_replaced_auc"] > 0.75
    # Of eight symptoms, up to five are candidates.
    assert figures["dev_attribute_acc1"] > 0.5
    lines = log(tmp_path / "m")
    found = [[line[name] for line in lines if name in line] for name in ("generator_loss", "attribute_loss")]
    assert all(np.mean(values[-5:]) < 0.7 * np.mean(values[:3]) for values in found)
    manifest = artefact.verify(tmp_path / "m", "model")
    assert manifest["sequences"]["entities"] > 300
    assert manifest["products"]["training"] > 80
    files = {path.stem for path in (tmp_path / "m").glob("*.safetensors")}
    assert files == {"model", "generator", "replaced_head", "attribute_projection"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]
    assert TermEncoder.load(tmp_path / "m").max_length == 32


def test_entities_and_words_are_masked_whole_unless_told_otherwise(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    packed: list[Sequences] = []
    read = sequences.read_spans
    monkeypatch.setattr(sequences, "read_spans", lambda folder: packed.append(read(folder)) or packed[-1])
    for name, changes in (
        ("all", {}),
        ("words", {"entities": False}),
        ("none", {"entities": False, "segmenter": "none"}),
    ):
        electra_em_pap.train(terminology, str(model), tmp_path / name, config(corpus, steps=1, rho=0.0, **changes))
    longest, words, none = (np.diff(one.spans, axis=1) for one in packed)
    # "itching eye" and "alvexin" are several tokens.
    assert longest.max() >= words.max() > 1
    assert len(longest) < len(words)
    assert len(none) == 0
    for name in ("all", "words", "none"):
        assert not (tmp_path / name / "attribute_projection.safetensors").exists()


def test_text_with_a_held_out_string_is_left_out(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    split = hold_out_synonyms(terminology, fraction=1.0, seed=1)
    assert any(string.endswith(" form") for string in split.cleaned)
    held = "tablet form"
    assert held in split.cleaned
    file = tmp_path / "more.txt"
    file.write_text(corpus.read_text() + "the tablet form was zzyzx\n" * 5)
    electra_em_pap.train(terminology, str(model), tmp_path / "m", config(file, steps=2), split=split)
    manifest = artefact.open_manifest(tmp_path / "m", "model")
    assert manifest["sequences"]["pieces_with_held_out"] >= 1


def test_an_encoder_goes_on_with_its_own_generator(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    first = config(corpus)
    electra_em_pap.train(terminology, str(model), tmp_path / "first", first)
    made: list[Generator] = []
    of = Generator.of
    monkeypatch.setattr(Generator, "of", lambda *a, **k: made.append(of(*a, **k)) or made[-1])
    frozen = {"scratch": False, "steps": 1, "learning_rate": 1e-30, "warmup_steps": 0}
    electra_em_pap.train(terminology, str(tmp_path / "first"), tmp_path / "second", config(corpus, **frozen))
    for name in ("model", "generator", "replaced_head", "attribute_projection"):
        one, other = (load_file(tmp_path / run / f"{name}.safetensors") for run in ("first", "second"))
        for key, value in one.items():
            torch.testing.assert_close(other[key], value, msg=f"{name} {key}")
    assert len(made) == 1
    # Another size: a new one.
    electra_em_pap.train(
        terminology, str(tmp_path / "first"), tmp_path / "third", config(corpus, generator=1.0, **frozen)
    )
    assert len(load_file(tmp_path / "third" / "generator.safetensors")) < 60


def test_the_encoders_vocabulary_is_taken_where_none_is_trained(
    terminology: Terminology, model: Path, corpus: Path, tmp_path: Path
) -> None:
    electra_em_pap.train(terminology, str(model), tmp_path / "m", config(corpus, vocabulary=0, steps=1))
    made, given = (TermEncoder.load(folder) for folder in (tmp_path / "m", model))
    assert made.tokenize(["dry skin"]) == given.tokenize(["dry skin"])
    assert made.content_hash != given.content_hash


def test_bad_input_is_a_clear_error(terminology: Terminology, model: Path, corpus: Path, tmp_path: Path) -> None:
    def fails(error: type[AlphitaError], told: str, **changes: object) -> None:
        with pytest.raises(error, match=told):
            electra_em_pap.train(terminology, str(model), tmp_path / "m", electra_em_pap.Config(**given | changes))

    given = SMALL | {"corpus": str(corpus)}
    fails(UsageError, "set corpus=", corpus="")
    fails(InputError, "no such file", corpus=str(tmp_path / "no.txt"))
    (tmp_path / "empty.txt").write_text("\n \n")
    fails(InputError, "no word to learn from", corpus=str(tmp_path / "empty.txt"))
    fails(InputError, "none of them left to train on", dev_sequences=10_000)


def test_a_terminology_without_relations_trains_on_text_alone(model: Path, corpus: Path, tmp_path: Path) -> None:
    lone = terminology_of([("P:1", "fever", "en", True)], tmp_path / "x.terminology")
    with pytest.raises(InputError, match="there are no products"):
        electra_em_pap.train(lone, str(model), tmp_path / "m", config(corpus))
    assert electra_em_pap.train(lone, str(model), tmp_path / "n", config(corpus, rho=0.0))["loss"] > 0
