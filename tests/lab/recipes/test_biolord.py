from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.recipes import biolord
from alphita_lab.recipes.biolord import Config
from alphita_lab.training.engine.runs import Phase
from alphita_lab.training.sentences.scored_pairs import SentenceTasks
from alphita_lab.training.terms import distillation
from alphita_lab.training.terms.batches import TermSteps
from alphita_lab.training.terms.distillation import ProjectionHead
from alphita_lab.training.text.definition_pairs import DefinitionPairs, HardNegatives
from tests.reference import info_nce as reference
from tests.stanzas import Stanza, defined, ontology
from tests.tiny import SITES, tiny_model, vectors_of

SMALL: dict[str, Any] = {
    "steps": 8,
    "batch": 12,
    "adapt_batch": 6,
    "distil_batch": 16,
    "dim": 6,
    "seeds": 2,
    "max_length": 48,
    "precision": "fp32",
    "learning_rate": 1e-3,
    "adapt_learning_rate": 1e-3,
    "distil_learning_rate": 1e-3,
    "log_every": 1,
    "checkpoint_every": 3,
}
# One step that changes nothing: its loss is that of the model it starts from.
STILL: dict[str, Any] = {"steps": 1, "dropout": 0.0} | dict.fromkeys(
    ("learning_rate", "adapt_learning_rate", "distil_learning_rate"), 1e-30
)
FOLDERS = ["adapted", "contrasted", "contrasted_adapted", "distilled_0", "distilled_1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A terminology, a model, scored pairs and triples."""
    folder = tmp_path_factory.mktemp("data")
    defined(folder / "t.terminology")
    tiny_model(folder / "model")
    pairs = [(a, b, 5.0 if a == b else 1.5) for a in SITES[:4] for b in SITES[:4]]
    rows = "".join(f"pain of the {a}\tthe {b} is bad\t{score}\n" for a, b, score in pairs)
    (folder / "sts.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    rows = "".join(f"the {a} is bad\tharm of the {a}\tthe {a} is good\n" for a in SITES)
    (folder / "nli.tsv").write_text("premise\tentailed\tcontradicted\n" + rows)
    return folder


@pytest.fixture(scope="module")
def terminology(data: Path) -> Terminology:
    from alphita.terminology.store import load_terminology

    return load_terminology(data / "t.terminology")


def config(data: Path, **changes: object) -> Config:
    files = {"scored": str(data / "sts.tsv"), "triples": str(data / "nli.tsv"), "dev_scored": str(data / "sts.tsv")}
    return Config(**SMALL | files | changes)


@pytest.fixture(scope="module")
def whole(data: Path, terminology: Terminology, tmp_path_factory) -> Path:
    """An unbroken run of all phases."""
    out = tmp_path_factory.mktemp("whole") / "m"
    biolord.train(terminology, str(data / "model"), out, config(data))
    return out


def weights(folder: Path) -> str:
    return artefact.hash_file(folder / "model.safetensors")


def test_all_phases_leave_models_that_sentence_transformers_opens(whole: Path, terminology: Terminology) -> None:
    from sentence_transformers import SentenceTransformer

    assert sorted(path.name for path in whole.with_name("m.phases").iterdir()) == sorted([*FOLDERS, "targets"])
    strings = ["pain of the heart", "There is too much water in what thinks."]
    hashes = set()
    for folder in [whole, *(whole.with_name("m.phases") / name for name in FOLDERS)]:
        artefact.verify(folder, "model")
        hashes.add(weights(folder))
        model = SentenceTransformer(str(folder), device="cpu")
        own = TermEncoder.load(folder, precision="fp32").encode(strings)
        np.testing.assert_allclose(model.encode(strings), own, atol=1e-5)
        # The head is beside the model, not in it.
        assert own.shape == (2, 32)
        assert (folder / "head.safetensors").exists() == folder.name.startswith("distilled")
    assert len(hashes) >= len(FOLDERS)


def test_each_phase_starts_from_the_right_model(whole: Path, data: Path, terminology: Terminology) -> None:
    """The students start from the adapted base; their targets come from the contrasted model, adapted again."""
    phases = whole.with_name("m.phases")

    def content(folder: Path) -> str:
        return TermEncoder.load(folder, precision="fp32", pooling="mean", max_length=48).content_hash

    def start(name: str) -> str:
        return artefact.open_manifest(phases / name, "model")["encoder"]

    assert start("adapted") == content(data / "model")
    assert start("contrasted") == content(phases / "adapted")
    assert start("contrasted_adapted") == content(phases / "contrasted")
    assert start("distilled_0") == start("distilled_1") == content(phases / "adapted")
    assert artefact.open_manifest(phases / "targets", "targets")["teacher"] == content(phases / "contrasted_adapted")


def test_the_manifest_tells_phases_texts_and_files(whole: Path, data: Path) -> None:
    manifest = artefact.verify(whole, "model")
    assert list(manifest["phases"]) == [*FOLDERS, "soup"]
    # 32 definitions, of which a tenth is held out for the dev score.
    assert manifest["texts"]["definition"] == 29
    assert manifest["texts"]["description"] > 20
    assert manifest["texts_left_out"]["description: concepts of which nothing can be told"] == 8
    assert manifest["data_files"] == {
        str(data / name): artefact.hash_file(data / name) for name in ("sts.tsv", "nli.tsv")
    }
    figures = manifest["phases"]["distilled_1"]
    assert figures["dev"] == pytest.approx((figures["dev_sts"] + figures["dev_retrieval"]) / 2)
    soup = manifest["figures"]
    assert soup["dev"] >= soup["best_member"] == max(manifest["phases"][f"distilled_{n}"]["dev"] for n in range(2))
    assert {one["member"] for one in manifest["soup"]} == {"distilled_0", "distilled_1"}


@pytest.mark.parametrize("hard", [0, 2])
@pytest.mark.parametrize("symmetric", [False, True])
def test_loss_of_a_contrastive_batch_is_the_papers(
    data: Path, terminology: Terminology, tmp_path: Path, hard: int, symmetric: bool
) -> None:
    settings = config(data, **STILL, hard_negatives=hard, symmetric=symmetric, temperature=0.3)
    read = biolord.read(terminology, settings)
    figures = biolord.contrast(settings, read, data / "model", Phase("contrasted", tmp_path / "m"))
    finder = None
    if hard:
        finder = HardNegatives(terminology, read.texts.concepts, count=hard, held_out=np.empty((0, 2), np.int32))
    drawn = DefinitionPairs(read.names, read.texts, batch=12, seed=0, hard=finder).draw(0)
    assert (len(drawn.hard) > 0) == (hard > 0)
    names = vectors_of(data / "model", [read.names.strings[name] for name in drawn.names])
    texts = vectors_of(data / "model", [read.texts.strings[text] for text in drawn.texts])
    extra = vectors_of(data / "model", [read.texts.strings[text] for text in drawn.hard]) if hard else ()
    takes = [[pair == of for of in drawn.hard_of] for pair in range(12)]
    expected = reference.info_nce(names, texts, drawn.group.tolist(), 0.3, symmetric, extra, takes)
    assert expected > 0.1
    assert figures["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("objective", ["cosine", "cosent"])
def test_losses_of_the_adaptation_are_those_of_its_sets(
    data: Path, terminology: Terminology, tmp_path: Path, objective: str
) -> None:
    settings = config(data, **STILL, adapt_objective=objective, adapt_turns="equal")
    read = biolord.read(terminology, settings)
    tasks = SentenceTasks(read.sets, rows=6, seed=0, turns="equal")
    kinds = set()
    for seed in range(6):
        changed = settings.model_copy(update={"seed": seed})
        figures = biolord.adapt(changed, read, data / "model", Phase("adapted", tmp_path / str(seed)))
        batch = SentenceTasks(read.sets, rows=6, seed=seed, turns="equal").batch(0)
        e = vectors_of(data / "model", [tasks.strings[term] for term in batch.terms])
        given = batch.arrays
        if "score" in given:
            expected = getattr(reference, objective)(e[given["left"]], e[given["right"]], given["score"])
        else:
            parts = (e[given[name]] for name in ("premise", "entailed", "contradicted"))
            expected = reference.triples(*parts, given["premise"], 0.05)
        kinds.add("score" in given)
        assert figures["loss"] == pytest.approx(expected, rel=1e-4)
    assert kinds == {True, False}


@pytest.mark.parametrize("start", ["random", "teacher"])
def test_loss_of_a_distillation_batch_is_the_papers(
    data: Path, terminology: Terminology, whole: Path, tmp_path: Path, start: str
) -> None:
    """MSE between the head's output for the vector at length 1 of each name and definition and its concept's target."""
    settings = config(data, head=start, **STILL)
    read = biolord.read(terminology, settings)
    targets = whole.with_name("m.phases") / "targets"
    figures = biolord.distil(settings, read, data / "model", targets, Phase("s", tmp_path / "m"), seed=5)
    every = read.variants()
    strings, owners = [*every.names, *every.texts], [*every.named.tolist(), *every.defined.tolist()]
    values = distillation.read(targets).values
    drawn = distillation.TargetBatches(np.array(owners), values, batch=16, seed=5).batch(0)
    head = ProjectionHead(32, 6, seed=5)
    W, b = head.weight.detach().double().numpy(), head.bias.detach().double().numpy()
    if start == "teacher":
        W = distillation.read(targets).components
        b = -W @ distillation.read(targets).mean
    total = 0.0
    rows = drawn.terms[drawn.arrays["place"]]
    for e, row in zip(vectors_of(data / "model", [strings[row] for row in rows]), rows, strict=True):
        o = W @ (e / np.sqrt(e @ e)) + b
        total += sum((o[m] - values[owners[row]][m]) ** 2 for m in range(6)) / 6
    assert figures["loss"] == pytest.approx(total / len(rows), rel=1e-4)


@pytest.mark.parametrize("wanted", ["preferred", "all"])
def test_targets_come_from_names_and_definitions_not_from_descriptions(
    data: Path, terminology: Terminology, tmp_path: Path, monkeypatch, wanted: str
) -> None:
    settings = config(data, target_names=wanted)
    read = biolord.read(terminology, settings)
    encoded: list[str] = []
    encode = TermEncoder.encode
    monkeypatch.setattr(TermEncoder, "encode", lambda self, rows, **_: encoded.extend(rows) or encode(self, rows))
    biolord.targets(settings, read, data / "model", tmp_path / "targets")
    definitions = [text for text, kind in zip(read.texts.strings, read.texts.kinds, strict=True) if kind == 0]
    firsts = [read.names.strings[place] for place in read.names.offsets[:-1]]
    assert sorted(encoded) == sorted((firsts if wanted == "preferred" else read.names.strings) + definitions)
    assert distillation.read(tmp_path / "targets").values.shape == (32, 6)


def cut_in(monkeypatch, count: int) -> Callable[[], None]:
    """Interrupt a run at its micro-batch `count`, counted over all phases."""
    done = iter(range(10_000))
    step = TermSteps.__call__

    def cut(self: TermSteps, number: int, share: float) -> dict[str, torch.Tensor]:
        if next(done) == count:
            raise KeyboardInterrupt
        return step(self, number, share)

    monkeypatch.setattr(TermSteps, "__call__", cut)
    return monkeypatch.undo


@pytest.mark.parametrize("count", [8, 21])
def test_a_run_that_was_cut_in_any_phase_goes_on_to_the_same_weights(
    data: Path, terminology: Terminology, whole: Path, tmp_path: Path, monkeypatch, count: int
) -> None:
    """Eight steps a phase: each is cut before or after its first checkpoint, or at its start."""
    cut_in(monkeypatch, count)
    with pytest.raises(KeyboardInterrupt):
        biolord.train(terminology, str(data / "model"), tmp_path / "m", config(data))
    monkeypatch.undo()
    begun = FOLDERS[count // 8]
    assert (tmp_path / "m.phases" / f"{begun}.training" / "run.json").exists()
    with pytest.raises(UsageError, match="go on with --resume"):
        biolord.train(terminology, str(data / "model"), tmp_path / "m", config(data))
    calls: list[int] = []
    step = TermSteps.__call__
    monkeypatch.setattr(TermSteps, "__call__", lambda *args: calls.append(1) or step(*args))
    figures = biolord.train(terminology, str(data / "model"), tmp_path / "m", config(data), resume=True)
    # What was done is not done again, but for the steps since the last checkpoint.
    assert len(calls) == 40 - count + (count % 8) % 3
    for name in FOLDERS:
        assert weights(tmp_path / "m.phases" / name) == weights(whole.with_name("m.phases") / name), name
    assert weights(tmp_path / "m") == weights(whole)
    assert figures["dev"] == artefact.open_manifest(whole, "model")["figures"]["dev"]
    assert not list(tmp_path.rglob("*.training"))


def test_a_dry_run_tells_of_each_phase_and_its_steps(
    data: Path, terminology: Terminology, tmp_path: Path, capsys
) -> None:
    settings = config(data, steps=0, adapt_epochs=2.0, epochs=1.0, distil_epochs=3.0)
    biolord.train(terminology, str(data / "model"), tmp_path / "m", settings, dry_run=True)
    told = capsys.readouterr().err
    assert [f"dry run of biolord, {name}:" in told for name in FOLDERS] == [True] * 4 + [False]
    assert "of 2 students" in told
    texts = len(biolord.read(terminology, settings).texts)
    # 16 pairs and 8 triples in batches of 6: 3 and 2 an epoch. 88 names and 29 definitions in batches of 16.
    assert f"  {5 * 2} steps: about" in told
    assert f"  {-(-texts // 12)} steps: about" in told
    assert f"  {-(-3 * (88 + 29) // 16)} steps: about" in told
    assert list(tmp_path.iterdir()) == []


def test_without_scored_sentences_nothing_is_adapted_and_it_is_said(
    data: Path, terminology: Terminology, tmp_path: Path, capsys
) -> None:
    settings = config(data, scored="", triples="", seeds=1, soup="uniform", dev_scored="", steps=2)
    biolord.train(terminology, str(data / "model"), tmp_path / "m", settings)
    assert "no scored sentences are given (scored, triples)" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "m.phases").iterdir()) == ["contrasted", "distilled_0", "targets"]
    with pytest.raises(UsageError, match="no phase is left to run"):
        biolord.train(terminology, str(data / "model"), tmp_path / "n", settings.model_copy(update={"phases": "adapt"}))


def test_distillation_and_soup_can_be_run_alone(
    data: Path, terminology: Terminology, whole: Path, tmp_path: Path
) -> None:
    """With the same start and teacher they give what they give within the whole run."""
    phases = whole.with_name("m.phases")
    distil = config(data, phases="distil", seeds=1, teacher=str(phases / "contrasted_adapted"))
    biolord.train(terminology, str(phases / "adapted"), tmp_path / "s", distil)
    assert weights(tmp_path / "s") == weights(phases / "distilled_0")
    members = f"{phases / 'distilled_0'},{phases / 'distilled_1'},{tmp_path / 's'}"
    soup = config(data, phases="soup", soup="uniform", members=members)
    figures = biolord.train(terminology, "unused", tmp_path / "soup", soup)
    assert figures["members"] == 3
    found = load_file(tmp_path / "soup" / "model.safetensors")
    zero, one = (load_file(phases / f"distilled_{n}" / "model.safetensors") for n in range(2))
    for name, value in found.items():
        torch.testing.assert_close(value, (2 * zero[name] + one[name]) / 3, msg=name)


def test_what_is_held_out_shows_in_no_name_and_no_text(
    data: Path, terminology: Terminology, tmp_path: Path, monkeypatch
) -> None:
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    assert len(split) > 3
    seen: set[str] = set()
    tokenize = TermEncoder.tokenize
    monkeypatch.setattr(TermEncoder, "tokenize", lambda self, rows: seen.update(rows) or tokenize(self, rows))
    settings = config(data, scored="", triples="", steps=1)
    biolord.train(terminology, str(data / "model"), tmp_path / "m", settings, split=split)
    assert len(seen) > 60
    for string in split.cleaned:
        assert not any(f" {string} " in f" {text.lower().rstrip('.')} " for text in seen), string
    assert artefact.open_manifest(tmp_path / "m", "model")["split"] == split.hash
    assert artefact.open_manifest(tmp_path / "m.phases" / "contrasted", "model")["split"] == split.hash


@pytest.mark.parametrize(
    ("kinds", "present"),
    [
        ("definition", (True, False, False)),
        ("description", (False, True, False)),
        ("definition,description,name", (True, True, True)),
        ("name", (False, False, True)),
    ],
)
def test_kinds_of_texts_may_be_left_out_and_names_added(
    data: Path, terminology: Terminology, tmp_path: Path, capsys, kinds: str, present: tuple[bool, bool, bool]
) -> None:
    settings = config(data, kinds=kinds, scored="", triples="", seeds=1, steps=2)
    figures = biolord.train(terminology, str(data / "model"), tmp_path / "m", settings)
    counts = artefact.open_manifest(tmp_path / "m", "model")["texts"]
    assert (counts["definition"] > 0, counts["description"] > 0, counts["name"] > 0) == present
    each = np.diff(terminology.training_terms()[1])
    assert counts["name"] in (0, each[each > 1].sum())
    assert "dev_retrieval" in figures
    told = capsys.readouterr().err
    said = "no concept has a definition to train on: its descriptions stand for it" in told
    assert said == (kinds == "description")
    assert ("no concept has a definition to train on: its name stands for it" in told) == (kinds == "name")


def test_generated_definitions_train_and_are_distilled(data: Path, tmp_path: Path) -> None:
    terminology = defined(tmp_path / "bare.terminology", definitions=False)
    lines = [
        json.dumps({"concept_id": f"T:{number:07d}", "text": f"What one calls thing {number} of them all."})
        for number in range(1, 31)
    ]
    (tmp_path / "generated.jsonl").write_text("\n".join(lines) + "\n")
    settings = config(data, generated=str(tmp_path / "generated.jsonl"), phases="contrast", steps=1)
    read = biolord.read(terminology, settings)
    assert read.facts["texts"]["generated"] == 27
    assert read.facts["data_files"][str(tmp_path / "generated.jsonl")]
    assert len(read.variants().texts) == 27
    assert read.definitions is not None
    assert len(read.definitions.texts) == 3


def test_a_terminology_with_neither_definitions_nor_relations_is_a_clear_error(data: Path, tmp_path: Path) -> None:
    bare = defined(tmp_path / "bare.terminology", definitions=False, relations=False)
    with pytest.raises(InputError, match="no concept has a text") as error:
        biolord.train(bare, str(data / "model"), tmp_path / "m", config(data))
    assert error.value.remedy
    assert not list(tmp_path.glob("m*"))


def test_a_dev_synonym_stands_in_no_text_that_trains(data: Path, tmp_path: Path) -> None:
    texts = ["Heat", "Said of fever and of pyrexia", "Chill and ague at once", "Not coryza but its kin"]
    names = [["pyrexia", "fever"], ["chill", "ague"], ["coryza", "rhinitis"], ["tussis", "cough"]]
    stanzas = [Stanza(n, both, text) for n, (both, text) in enumerate(zip(names, texts, strict=True), 1)]
    terminology = ontology(tmp_path / "t.terminology", stanzas)
    every = biolord.read(terminology, config(data))
    some = biolord.read(terminology, config(data, dev_synonyms=4))
    held = set(some.names.dev_strings)
    words = {
        kind: {word for text in read.texts.strings for word in clean(text).lower().split()}
        for kind, read in (("every", every), ("some", some))
    }
    assert len(held) == 4
    assert held & words["every"]
    assert not held & words["some"]


@pytest.mark.parametrize(
    ("settings", "concepts", "told"),
    [
        ({"scored": "high"}, 30, r"high:3: the score is out of range"),
        ({"dev_scored": "high"}, 30, r"high:3: the score is out of range"),
        ({"scored": "gone"}, 30, r"gone: cannot be read"),
        ({"dev_scored": "equal"}, 30, r"equal.*all scores of its 2 pairs are equal"),
        ({"dev_scored": ""}, 5, r"too few concepts have a definition.*dev_scored=FILE or soup=uniform"),
        ({"members": "gone"}, 30, r"gone.*no model to average"),
        ({"dim": 33}, 30, "vectors of 32 numbers of 30 concepts.*set dim=29 or less"),
        ({"dim": 32, "dev_definitions": 0, "kinds": "definition"}, 30, "set dim="),
    ],
)
def test_what_a_later_phase_cannot_use_is_told_before_anything_is_trained(
    data: Path, tmp_path: Path, settings: dict[str, Any], concepts: int, told: str
) -> None:
    for name, score in (("equal", 2), ("high", 7)):
        (tmp_path / name).write_text(f"sentence1\tsentence2\tscore\na\tb\t2\nb\tc\t{score}\n")
    stanzas = [Stanza(n, [f"thing {n}"], f"Number {n} of them.") for n in range(1, concepts + 1)]
    few = ontology(tmp_path / "few.terminology", stanzas)
    files = ("equal", "high", "gone")
    given = {key: str(tmp_path / value) if value in files else value for key, value in settings.items()}
    with pytest.raises(InputError, match=told):
        biolord.train(few, str(data / "model"), tmp_path / "m", config(data, **given))
    assert not list(tmp_path.glob("m*"))
