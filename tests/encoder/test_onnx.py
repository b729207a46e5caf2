from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from alphita import TermEncoder
from alphita.encoder.onnx_runtime import OnnxRuntime
from alphita.errors import AlphitaError, InputError, UsageError
from alphita_lab.encoder import onnx_export

from .conftest import TERMS, write_model

pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def saved(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx") / "saved"
    encoder.save(folder)
    encoder.export_onnx(folder, precision="fp32")
    return folder


@pytest.fixture(scope="module")
def int8(saved):
    return TermEncoder.load(saved, precision="int8")


def in_fp32(folder) -> TermEncoder:
    encoder = TermEncoder.load(folder, precision="int8")
    encoder._runtime = OnnxRuntime(folder, encoder.settings, encoder.tokenizer_hash, precision="fp32")
    return encoder


def test_int8_is_near_fp32_which_equals_torch(saved, int8, encoder):
    vectors = int8.encode(TERMS)
    assert int8.precision == "int8"
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TERMS), 32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * encoder.encode(TERMS)).sum(1).min() > 0.99
    np.testing.assert_allclose(in_fp32(saved).encode(TERMS), encoder.encode(TERMS), atol=1e-5)
    # It does not depend on the batch.
    np.testing.assert_allclose(np.concatenate([int8.encode([term]) for term in TERMS]), vectors, atol=1e-6)
    assert int8.encode([]).shape == (0, 32)
    sizes = [(saved / onnx_export.FILES[kind]).stat().st_size for kind in ("int8", "fp32")]
    assert sizes[0] < sizes[1]


def test_few_tokens_are_encoded_by_one_thread_to_the_same_vectors(saved, monkeypatch):
    encoder = TermEncoder.load(saved, precision="int8")
    encoder._runtime = OnnxRuntime(saved, encoder.settings, encoder.tokenizer_hash, threads=2)
    by_one = [encoder.encode([term]) for term in TERMS]
    assert encoder._runtime._single is not encoder._runtime._session
    monkeypatch.setattr("alphita.encoder.onnx_runtime.FEW_TOKENS", 0)
    np.testing.assert_array_equal(by_one, [encoder.encode([term]) for term in TERMS])


@pytest.mark.parametrize("pooling", ["cls", "legacy_coder"])
def test_other_poolings(tmp_path, tiny, pooling):
    torch_encoder = TermEncoder.load(tiny, precision="fp32", pooling=pooling)
    torch_encoder.save(tmp_path / "saved")
    torch_encoder.export_onnx(tmp_path / "saved", precision="fp32")
    expected = torch_encoder.encode(TERMS)
    np.testing.assert_allclose(in_fp32(tmp_path / "saved").encode(TERMS), expected, atol=1e-5)
    assert (TermEncoder.load(tmp_path / "saved", precision="int8").encode(TERMS) * expected).sum(1).min() > 0.99


def test_roberta(tmp_path):
    from transformers import RobertaConfig, RobertaModel

    from .conftest import VOCABULARY, write_tokenizer

    config = RobertaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=40,
        initializer_range=0.3,
        pad_token_id=1,
    )
    RobertaModel(config).save_pretrained(tmp_path / "m")
    write_tokenizer(tmp_path / "m")
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32")
    encoder.save(tmp_path / "saved")
    encoder.export_onnx(tmp_path / "saved", precision="fp32")
    np.testing.assert_allclose(in_fp32(tmp_path / "saved").encode(TERMS), encoder.encode(TERMS), atol=1e-5)


def test_saved_again_without_torch(int8, encoder, tmp_path):
    assert int8.content_hash == encoder.content_hash
    assert int8.tokenizer_hash == encoder.tokenizer_hash
    assert int8.tokenize(TERMS) == encoder.tokenize(TERMS)
    int8.save(tmp_path / "copy")
    copy = TermEncoder.load(tmp_path / "copy", precision="int8")
    assert (copy.encode(TERMS) == int8.encode(TERMS)).all()
    back = TermEncoder.load(tmp_path / "copy", precision="fp32")
    assert back.content_hash == encoder.content_hash
    np.testing.assert_allclose(back.encode(TERMS), encoder.encode(TERMS), atol=1e-6)


def test_what_cannot_be_done_is_said(saved, int8, encoder, tiny, tmp_path):
    with pytest.raises(InputError, match=r"no onnx/model_int8\.onnx.*TermEncoder\.load"):
        TermEncoder.load(tiny, precision="int8")
    with pytest.raises(UsageError, match="pools by mean, not by cls"):
        TermEncoder.load(saved, precision="int8", pooling="cls")
    with pytest.raises(AlphitaError, match="cannot be trained"):
        _ = int8.module
    with pytest.raises(UsageError, match="unknown precision 'int4'"):
        encoder.export_onnx(saved, precision="int4")
    with pytest.raises(InputError, match="not the saved folder of this model"):
        encoder.export_onnx(tmp_path, precision="int8")


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("cut", r"model_int8\.onnx: cannot be opened"),
        ("empty", r"model_int8\.onnx"),
        ("tokenizer", "tokenizer is not the one"),
        ("weights", "exported from other weights"),
    ],
)
def test_damaged_exports_are_refused(tmp_path, encoder, saved, how, problem):
    folder = tmp_path / "saved"
    shutil.copytree(saved, folder)
    file, tokenizer = folder / "onnx" / "model_int8.onnx", folder / "tokenizer.json"
    if how in ("cut", "empty"):
        file.write_bytes(file.read_bytes()[: 500 if how == "cut" else 0])
    elif how == "tokenizer":
        tokenizer.write_text(tokenizer.read_text().replace('"lowercase":true', '"lowercase":false'))
    else:
        TermEncoder.load(write_model(tmp_path / "other", seed=1), precision="fp32").save(folder, onnx=False)
    with pytest.raises(InputError, match=problem):
        TermEncoder.load(folder, precision="int8")


WITHOUT_TORCH = """
import importlib.abc, json, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "sentence_transformers", "onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
from importlib import util
find, absent = util.find_spec, ("torch", "transformers", "onnx")
util.find_spec = lambda name, package=None: None if name in absent else find(name, package)

from alphita import TermEncoder
from alphita.errors import AlphitaError
saved, plain, copy, terms = json.loads(sys.argv[1])
encoder = TermEncoder.load(saved)
encoder.save(copy)
try:
    TermEncoder.load(plain)
    problem = None
except AlphitaError as error:
    problem = str(error)
try:
    TermEncoder.load(saved, precision="bf16")
    bf16 = None
except AlphitaError as error:
    bf16 = str(error)
print(json.dumps({
    "precision": encoder.precision, "vectors": encoder.encode(terms).tolist(), "hash": encoder.content_hash,
    "problem": problem, "bf16": bf16, "again": TermEncoder.load(copy).content_hash, "loaded": sorted(sys.modules),
}))
"""


def test_core_install_encodes_without_torch(saved, tiny, int8, tmp_path):
    arguments = json.dumps([str(saved), str(tiny), str(tmp_path / "copy"), TERMS])
    home = tmp_path / "home"
    home.mkdir()
    left_out = {"XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, arguments],
        env={name: value for name, value in os.environ.items() if name not in left_out} | {"HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    # ONNX Runtime would keep an id there that it sends to its maker.
    assert list(home.rglob("*device*")) == []
    said = json.loads(done.stdout)
    assert said["precision"] == "int8"
    np.testing.assert_allclose(said["vectors"], int8.encode(TERMS), atol=1e-6)
    assert said["hash"] == said["again"] == int8.content_hash
    assert "pip install 'alphita[train]'" in said["problem"]
    assert "pip install 'alphita[train]'" in said["bf16"]
    assert not {"torch", "transformers", "onnx"} & set(said["loaded"])
