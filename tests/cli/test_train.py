"""`alphita train` and what it exports; the recipes themselves have their own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.training.engine import runs
from tests.cli.command import alphita
from tests.lab.training.linked_texts import graph_of, mentions_of
from tests.tiny import tiny_model, tiny_terminology


@pytest.fixture(scope="module")
def words(tmp_path_factory) -> list[str]:
    """A command that injects a graph in a few steps, but for its output."""
    folder = tmp_path_factory.mktemp("data")
    terminology = tiny_terminology(folder / "t.terminology")
    model = tiny_model(folder / "model")
    ids = [terminology.concept_id(row) for row in range(terminology.n_concepts)]
    settings = {
        "mentions": mentions_of(terminology, model, folder / "x.mentions"),
        "graph": graph_of(ids, folder / "x.vectors"),
        "layer": 1,
        "nearest": 5,
        "steps": 4,
        "warmup_steps": 1,
        "precision": "fp32",
    }
    sets = [f"--set={key}={value}" for key, value in settings.items()]
    return ["train", "kge_injection", "-t", str(terminology.path), "--encoder", str(model), "--threads", "1", *sets]


EXPORT = ["--export", "distilled", "--export-set=steps=3", "--export-set=warmup_steps=1", "--export-set=dev_synonyms=5"]


def test_an_injected_model_is_exported_as_a_plain_one(words: list[str], tmp_path: Path, capsys) -> None:
    out = tmp_path / "m"
    assert alphita(*words, "-o", out, *EXPORT) == 0
    told = capsys.readouterr().out
    for part in (f"model: {out}\n", f"model: {out}.distilled\n", "dev_acc1_injected: ", "dev_cosine: "):
        assert part in told
    assert isinstance(TermEncoder.load(out).module.model, InjectedBert)
    plain = tmp_path / "m.distilled"
    assert not isinstance(TermEncoder.load(plain).module.model, InjectedBert)
    assert artefact.verify(plain, "model")["injected"] == TermEncoder.load(out).content_hash
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.distilled"]


def test_a_model_that_is_there_is_exported_without_more_training(words: list[str], tmp_path: Path, capsys) -> None:
    out = tmp_path / "m"
    assert alphita(*words, "-o", out) == 0
    before = artefact.open_manifest(out, "model")["content_hash"]
    assert alphita(*words, "-o", out, *EXPORT, "--resume", "--dry-run") == 0
    assert "3 steps: about" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert alphita(*words, "-o", out, *EXPORT, "--resume") == 0
    assert "training kge_injection" not in capsys.readouterr().err
    assert artefact.open_manifest(out, "model")["content_hash"] == before
    assert (tmp_path / "m.distilled").exists()
    out.rename(tmp_path / "elsewhere")
    assert alphita(*words, "-o", out, *EXPORT) == 2
    assert "m.distilled already exists" in capsys.readouterr().err
    assert not out.exists()


def test_a_run_that_was_to_replace_a_model_is_gone_on_with(
    words: list[str], tmp_path: Path, capsys, monkeypatch
) -> None:
    out, plain = tmp_path / "m", tmp_path / "m.distilled"
    command = [*words, "--set=checkpoint_every=2", "-o", out, *EXPORT]
    assert alphita(*command, "--set=seed=1") == 0
    old, old_plain = (artefact.open_manifest(one, "model")["content_hash"] for one in (out, plain))
    assert alphita(*command, "--resume", "--force") == 2
    assert f"no unfinished run of {out}" in capsys.readouterr().err
    for number, unsaved in enumerate((out, plain)):
        save = runs.save_model

        def cut(folder: Path, *given, unsaved: Path = unsaved, save=save, **further) -> None:
            if folder == unsaved:
                raise AlphitaError("the power is gone")
            save(folder, *given, **further)

        with monkeypatch.context() as patch:
            patch.setattr(runs, "save_model", cut)
            assert alphita(*command, *(["--resume"] if number else []), "--force") == 1
        assert (artefact.open_manifest(out, "model")["content_hash"] == old) is (number == 0)
        assert artefact.open_manifest(plain, "model")["content_hash"] == old_plain
        capsys.readouterr()
        if out == unsaved:
            assert alphita(*words, "--set=checkpoint_every=2", "-o", out, "--resume") == 1
            assert "use --force, and --resume too if an unfinished run was to replace it" in capsys.readouterr().err
    trained = artefact.open_manifest(out, "model")["content_hash"]
    assert alphita(*command, "--resume", "--force") == 0
    told = capsys.readouterr()
    assert "training kge_injection" not in told.err
    assert f"model: {plain}" in told.out
    assert artefact.open_manifest(out, "model")["content_hash"] == trained != old
    assert artefact.open_manifest(plain, "model")["content_hash"] != old_plain
    whole = tmp_path / "whole"
    assert alphita(*words, "--set=checkpoint_every=2", "-o", whole) == 0
    assert artefact.hash_file(whole / "model.safetensors") == artefact.hash_file(out / "model.safetensors")


@pytest.mark.parametrize(
    ("recipe", "options", "told"),
    [
        ("kge_margin", ["--export", "distilled"], "its models are plain encoders already"),
        ("kge_injection", ["--export", "onnx"], "it takes distilled"),
        ("kge_injection", ["--export-set=steps=3"], "--export-set needs --export"),
        ("kge_injection", ["--export", "distilled", "--export-set=step=3"], "step"),
    ],
)
def test_an_export_that_cannot_be_is_refused_before_training(
    words: list[str], tmp_path: Path, capsys, recipe: str, options: list[str], told: str
) -> None:
    command = ["train", recipe, *words[2:]] if recipe == "kge_injection" else ["train", recipe, *words[2:8]]
    assert alphita(*command, "-o", tmp_path / "m", *options) == 2
    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("out", "flags"), [(".", []), ("..", ["--force"]), ("x/..", EXPORT)])
def test_a_model_without_a_name_of_its_own_is_refused(words: list[str], out: str, flags: list[str], capsys) -> None:
    assert alphita(*words, "-o", out, *flags) == 2
    assert "cannot be the model's folder, which must be a new one; give its name" in capsys.readouterr().err


def test_several_seeds_are_trained_and_scored_in_one_command(tmp_path: Path, capsys) -> None:
    terminology = tiny_terminology(tmp_path / "t.terminology")
    model = tiny_model(tmp_path / "model")
    assert alphita("terminology", "split", terminology.path, "-o", tmp_path / "t.split", "--fraction", "0.5") == 0
    settings = ["--set=steps=3", "--set=pairs=8", "--set=precision=fp32", "--set=dev_synonyms=3"]
    words = ["train", "sapbert", "-t", terminology.path, "--split", tmp_path / "t.split", "--encoder", model, *settings]
    assert alphita(*words, "-o", tmp_path / "x", "--seeds", "1,1") == 2
    assert alphita(*words, "-o", tmp_path / "x", "--evaluate", "sts") == 2
    capsys.readouterr()
    assert alphita(*words, "-o", tmp_path / "all", "--seeds", "1,2") == 0
    told = capsys.readouterr().out
    summary = json.loads((tmp_path / "all" / "seeds.json").read_text())
    dev = [artefact.verify(tmp_path / "all" / f"seed-{seed}", "model")["figures"]["dev_acc1"] for seed in (1, 2)]
    assert summary["training"]["dev_acc1"] == {"mean": sum(dev) / 2, "sd": pytest.approx(abs(dev[0] - dev[1]) / 2**0.5)}
    report = json.loads((tmp_path / "all" / "report" / "report.json").read_text())
    first = {one["name"]: one["figures"][0]["value"] for one in report["benchmarks"][0]["systems"]}
    found = summary["benchmarks"]["held_out_synonyms"]["accuracy@1"]
    assert found["mean"] == pytest.approx((first["seed-1"] + first["seed-2"]) / 2)
    assert found["start"] == first["start"]
    assert "held_out_synonyms, accuracy@1: " in told
    # What is there is not trained again, and any two systems of the report are compared.
    assert alphita(*words, "-o", tmp_path / "all", "--seeds", "1,2", "--resume") == 0
    both = tmp_path / "all" / "report"
    assert alphita("evaluate", "--compare", f"{both},name=seed-1", f"{both},name=start", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert {(row["first_system"], row["second_system"]) for row in rows} == {("seed-1", "start")}
    assert rows[0]["first"] == first["seed-1"]
    assert alphita("evaluate", "--compare", both, f"{both},name=other") == 2
    assert "unknown system of the report 'other'" in capsys.readouterr().err
