from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from alphita import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.encoder.injected_bert import InjectedBert
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.mentions.injection import inject

from .conftest import TERMS, write_model


def entities(count: int = 30) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 6)).astype(np.float32)


def loud(encoder: TermEncoder) -> TermEncoder:
    """With projections so large that what is injected is plain to see."""
    for part in (encoder.module.model.injection.down, encoder.module.model.injection.up):
        torch.nn.init.normal_(part.weight, std=0.5, generator=torch.Generator().manual_seed(0))
    return encoder


@pytest.fixture
def encoder(tmp_path) -> TermEncoder:
    plain = TermEncoder.load(write_model(tmp_path / "plain"), precision="fp32")
    torch.manual_seed(0)
    inject(plain, entities(), layer=1, nearest=5)
    return loud(plain)


def naive(encoder: TermEncoder, string: str) -> np.ndarray:
    """One term, its mention given by hand."""
    tokens = encoder.tokenize([string])
    mentions = torch.tensor([[0, 1, len(tokens[0]) - 1]][: len(tokens[0]) - 2], dtype=torch.int64).reshape(-1, 3)
    with torch.no_grad():
        hidden = encoder.module.model(torch.tensor(tokens), None, mentions).last_hidden_state[0].numpy()
    return hidden.mean(0) / np.linalg.norm(hidden.mean(0))


def test_bare_terms_are_encoded_as_any_model_does(encoder, tmp_path) -> None:
    vectors = encoder.encode(TERMS)
    np.testing.assert_allclose(vectors, [naive(encoder, term) for term in TERMS], atol=1e-5)
    plain = TermEncoder.load(tmp_path / "plain", precision="fp32").encode(TERMS)
    assert not np.allclose(vectors, plain, atol=0.05)
    np.testing.assert_allclose(encoder.encode(TERMS[::-1])[::-1], vectors, atol=1e-5)
    ids, mask = encoder.pad(encoder.tokenize(TERMS))
    with torch.no_grad():
        padded = torch.nn.functional.normalize(encoder.module(ids, mask), dim=1).numpy()
    np.testing.assert_allclose(padded, vectors, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_it_saves_and_loads_as_any_other(tmp_path, precision, kind) -> None:
    encoder = TermEncoder.load(write_model(tmp_path / "plain"), precision=precision, device="cpu")
    inject(encoder, entities().astype(kind), layer=2, nearest=5)
    assert encoder.module.model.injection.entities.dtype == (torch.float16 if kind is np.float16 else torch.float32)
    loud(encoder)
    before = encoder.content_hash
    encoder.module(*encoder.pad(encoder.tokenize(TERMS))).sum().backward()
    torch.optim.SGD(encoder.module.parameters(), lr=0.001).step()
    assert encoder.content_hash != before
    encoder.save(tmp_path / "saved")
    again = TermEncoder.load(tmp_path / "saved", precision=precision, device="cpu")
    assert isinstance(again.module.model, InjectedBert)
    assert again.content_hash == encoder.content_hash
    assert (again.max_length, again.pooling, again.normalize) == (12, "mean", True)
    np.testing.assert_allclose(again.encode(TERMS), encoder.encode(TERMS), atol=1e-6)
    full = TermEncoder.load(tmp_path / "saved", precision="fp32").encode(TERMS)
    assert (full * again.encode(TERMS)).sum(1).min() > 0.99
    again.save(tmp_path / "twice")
    assert TermEncoder.load(tmp_path / "twice").content_hash == encoder.content_hash


def test_the_folder_says_what_opens_it_and_nothing_else_does(encoder, tmp_path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = write_model(tmp_path / "saved")  # other libraries can open it, until the model is saved over it
    encoder.save(folder)
    assert "TermEncoder.load" in json.loads((folder / "alphita.json").read_text())["opens_with"]
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    opened = sentence_transformers.SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
    np.testing.assert_array_equal(opened.encode(TERMS), TermEncoder.load(folder).encode(TERMS))
    for precision in ("int8", "fp32"):
        with pytest.raises(InputError, match=r"can be exported to ONNX .*InjectedBert"):
            encoder.export_onnx(folder, precision=precision)
    with pytest.raises(InputError, match="no ONNX form"):
        TermEncoder.load(folder, precision="int8")
    with pytest.raises(InputError, match="legacy_coder reads a plain BERT"):
        TermEncoder.load(folder, pooling="legacy_coder")


def test_what_cannot_be_injected(encoder, tmp_path) -> None:
    with pytest.raises(InputError, match="injected already"):
        inject(encoder, entities(), layer=1, nearest=5)
    plain = TermEncoder.load(write_model(tmp_path / "other"), precision="fp32")
    before = plain.encode(TERMS)
    for layer, error in [(0, UsageError), (3, InputError)]:
        with pytest.raises(error, match="layer"):
            inject(plain, entities(), layer=layer, nearest=5)
    with pytest.raises(UsageError, match="nearest"):
        inject(plain, entities(), layer=1, nearest=31)
    np.testing.assert_array_equal(plain.encode(TERMS), before)


def test_special_tokens_and_tags_belong_to_no_mention(tmp_path) -> None:
    plain = TermEncoder.load(write_model(tmp_path / "plain"), precision="fp32")
    assert inject(plain, entities(), layer=1, nearest=5, outside=[30, 31]).outside == (2, 3, 30, 31)


def test_training_encodes_it_by_its_own_forward(encoder) -> None:
    forward = TermForward(encoder, precision="fp32", dropout=0.0)
    vectors = forward(encoder.tokenize(TERMS))
    unit = torch.nn.functional.normalize(vectors, dim=1)
    np.testing.assert_allclose(unit.detach().numpy(), encoder.encode(TERMS), atol=1e-5)
    vectors.square().sum().backward()
    lacking = {name for name, value in encoder.module.named_parameters() if value.grad is None}
    assert lacking == set()
