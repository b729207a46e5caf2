from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.training.engine.runs import Phase
from alphita_lab.training.engine.settings import TermTraining
from alphita_lab.training.engine.soup import SoupRun
from tests.tiny import tiny_model

CONFIG = TermTraining(
    max_length=32,
    pooling="mean",
    steps=1,
    accumulation=1,
    learning_rate=1e-3,
    warmup_steps=0,
    schedule="linear",
    weight_decay=0.0,
    clip=1.0,
    precision="fp32",
)
WORD = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def members(tmp_path_factory) -> dict[str, Path]:
    """Four models around one, as seeds leave them: far, near, near on the other side, and the furthest."""
    folder = tmp_path_factory.mktemp("members")
    tiny_model(folder / "base")
    made = {}
    for name, shift in (("far", 0.4), ("near", 0.1), ("other", -0.12), ("furthest", 0.9)):
        TermEncoder.load(folder / "base", precision="fp32", pooling="mean").save(folder / name)
        weights = load_file(folder / name / "model.safetensors")
        weights[WORD] = weights[WORD] + shift
        save_file(weights, folder / name / "model.safetensors", metadata={"format": "pt"})
        made[name] = folder / name
    made["base"] = folder / "base"
    return made


def only(members: dict[str, Path], *names: str) -> dict[str, Path]:
    return {name: members[name] for name in names}


def nearness(members: dict[str, Path]):
    """A dev score: minus the distance of the word vectors from the base's."""
    goal = load_file(members["base"] / "model.safetensors")[WORD]

    def dev(encoder: TermEncoder) -> dict[str, float]:
        return {"dev": -float((encoder.module.model.state_dict()[WORD] - goal).abs().mean()), "dev_other": 1.0}

    return dev


def test_a_greedy_soup_keeps_what_helps_and_tells_order_and_gains(
    members: dict[str, Path], tmp_path: Path, capsys
) -> None:
    four = only(members, "far", "near", "other", "furthest")
    run = SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, four, {})
    assert run.done is None
    figures = run.cook(nearness(members), greedy=True)
    # near alone 0.1; with other 0.01; far and furthest take it away again.
    assert figures["members"] == 2
    assert figures["dev"] == pytest.approx(-0.01, abs=1e-4)
    assert figures["best_member"] == pytest.approx(-0.1, abs=1e-4)
    told = artefact.verify(tmp_path / "m", "model")["soup"]
    assert [(one["member"], one["kept"]) for one in told] == [
        ("near", True),
        ("other", True),
        ("far", False),
        ("furthest", False),
    ]
    assert told[1]["gain"] == pytest.approx(0.09, abs=1e-4)
    printed = capsys.readouterr().err
    assert "1. near: alone -0.1000, adds +0.0000: kept" in printed
    assert "2. other: alone -0.1200, adds +0.0900: kept" in printed
    assert "4. furthest: alone -0.9000" in printed
    assert "the soup of 2 of 4 models, dev -0.0100" in printed
    lines = (tmp_path / "m" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["member"] for line in lines] == ["near", "other", "far", "furthest"]
    found = load_file(tmp_path / "m" / "model.safetensors")
    both = [load_file(members[name] / "model.safetensors") for name in ("near", "other")]
    for name, value in found.items():
        torch.testing.assert_close(value, (both[0][name] + both[1][name]) / 2, msg=name)
    assert not (tmp_path / "m.training").exists()


def test_a_finished_soup_is_known_by_its_members(members: dict[str, Path], tmp_path: Path) -> None:
    two = only(members, "far", "near")
    figures = SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, two, {}).cook(lambda _: {}, greedy=False)
    resumed = Phase("soup", tmp_path / "m", resume=True)
    assert SoupRun("r", resumed, CONFIG, two, {}).done == figures
    with pytest.raises(InputError, match="another recipe, config"):
        SoupRun("r", resumed, CONFIG, only(members, "far", "other"), {})
    with pytest.raises(UsageError, match="already exists"):
        SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, two, {})


def test_members_that_do_not_fit_are_named(members: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone: no model to average"):
        SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, {"gone": tmp_path / "gone"}, {})
    wide = tmp_path / "wide"
    tiny_model(wide)
    weights = load_file(wide / "model.safetensors")
    weights[WORD] = torch.zeros(len(weights[WORD]) + 1, weights[WORD].shape[1])
    save_file(weights, wide / "model.safetensors", metadata={"format": "pt"})
    run = SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, {**only(members, "far"), "wide": wide}, {})
    with pytest.raises(InputError, match=rf"'wide' has another shape of '{WORD}'"):
        run.cook(nearness(members), greedy=True)
    assert not (tmp_path / "m").exists()


def test_members_that_make_vectors_otherwise_are_refused(members: dict[str, Path], tmp_path: Path) -> None:
    for name, changes in (("cls", {"pooling": "cls"}), ("short", {"max_length": 16})):
        TermEncoder.load(members["far"], precision="fp32", **changes).save(tmp_path / name)
    TermEncoder.load(members["far"], precision="fp32").save(tmp_path / "words")
    file = tmp_path / "words" / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["heart"], vocabulary["a"] = vocabulary["a"], vocabulary["heart"]
    file.write_text(json.dumps(tokenizer))
    for name, problem in (
        ("cls", "pooling cls instead of mean"),
        ("short", "max_length 16 instead of 64"),
        ("words", "tokenizer [0-9a-f]{12} instead of [0-9a-f]{12}"),
    ):
        with pytest.raises(InputError, match=rf"the member '{name}' differs from 'far': {problem}; average models"):
            SoupRun("r", Phase("soup", tmp_path / "m"), CONFIG, {**only(members, "far"), name: tmp_path / name}, {})
