"""Published checkpoints whose weights are pickled."""

from __future__ import annotations

import json
import os
import shutil
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertForMaskedLM

from alphita import TermEncoder, artefact
from alphita.errors import InputError
from alphita_lab.recipes import coder
from tests.tiny import tiny_terminology

from .conftest import TERMS, bert_config, write_tokenizer


def published(folder: Path, *, shards: int = 1) -> dict[str, torch.Tensor]:
    """Write a folder as CODER's and PubMedBERT's are: a pickled masked language model of TensorFlow's time."""
    folder.mkdir()
    write_tokenizer(folder)
    (folder / "tokenizer.json").unlink()
    torch.manual_seed(0)
    model = BertForMaskedLM(bert_config())
    model.config.save_pretrained(folder)
    state = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in model.state_dict().items()
    }
    if shards == 1:
        torch.save(state, folder / "pytorch_model.bin")
        return state
    files = {name: f"pytorch_model-{place % shards + 1:05d}.bin" for place, name in enumerate(state)}
    for file in set(files.values()):
        torch.save({name: state[name] for name in state if files[name] == file}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    return state


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("shards", [1, 3])
def test_they_are_converted_once_and_say_so(tmp_path, capsys, shards):
    state = published(tmp_path / "m", shards=shards)
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32")
    assert "converted to safetensors in" in capsys.readouterr().err
    note = json.loads((encoder.folder / "converted.json").read_text())
    assert note["sha256"] == {path.name: artefact.hash_file(path) for path in (tmp_path / "m").glob("*.bin")}
    weights = encoder.module.model.state_dict()
    for name in ("embeddings.word_embeddings.weight", "encoder.layer.1.output.LayerNorm.weight"):
        there = f"bert.{name.replace('LayerNorm.weight', 'LayerNorm.gamma')}"
        torch.testing.assert_close(weights[name], state[there])
    again = TermEncoder.load(tmp_path / "m", precision="fp32")
    assert again.folder == encoder.folder
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(again.encode(TERMS), encoder.encode(TERMS))


def test_they_train_and_their_heads_are_kept(tmp_path):
    from alphita_lab.training.text.masked_language import _saved

    published(tmp_path / "m")
    terminology = tiny_terminology(tmp_path / "t.terminology")
    config = coder.Config(k=16, m=4, steps=2, accumulation=1, warmup_steps=0, precision="fp32", max_length=16)
    figures = coder.train(terminology, str(tmp_path / "m"), tmp_path / "out", config)
    assert figures["loss"] > 0
    assert TermEncoder.load(tmp_path / "out").dim == 32
    _, head = _saved(TermEncoder.load(tmp_path / "m", precision="fp32").folder)
    assert set(head) >= {"dense.weight", "norm.weight", "bias"}


class Command:
    def __reduce__(self):
        return os.mkdir, ("ran",)


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        ({"weight": torch.zeros(2), "bias": Command()}, r"holds more than tensors \(\w+\.mkdir\), which could run"),
        (torch.nn.Linear(2, 2), r"holds more than tensors \(torch.nn.modules.linear.Linear\)"),
        ({"model": {"weight": torch.zeros(2)}}, "holds more than tensors by name"),
        ([torch.zeros(2)], "holds more than tensors by name"),
        (None, "cannot be read as tensors"),
    ],
)
def test_what_is_not_tensors_is_refused(tmp_path, monkeypatch, held, problem):
    monkeypatch.chdir(tmp_path)
    published(tmp_path / "m")
    file = tmp_path / "m" / "pytorch_model.bin"
    if held is None:
        file.write_bytes(file.read_bytes()[:500])
    else:
        torch.save(held, file)
    with pytest.raises(InputError, match=rf"pytorch_model\.bin: {problem}"):
        TermEncoder.load(tmp_path / "m")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("safe", [True, False])
def test_a_hub_gives_them_only_where_there_is_nothing_else(tmp_path, monkeypatch, safe):
    import huggingface_hub

    published(tmp_path / "m")
    if safe:
        shutil.copytree(TermEncoder.load(tmp_path / "m", precision="fp32").folder, tmp_path / "m", dirs_exist_ok=True)

    def downloaded(_name, *, allow_patterns):
        for file in (tmp_path / "m").iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                (tmp_path / "hub").mkdir(exist_ok=True)
                shutil.copyfile(file, tmp_path / "hub" / file.name)
        return str(tmp_path / "hub")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", downloaded)
    assert TermEncoder.load("owner/model", precision="fp32").encode(TERMS).shape == (len(TERMS), 32)
    assert (tmp_path / "hub" / "pytorch_model.bin").exists() is not safe
