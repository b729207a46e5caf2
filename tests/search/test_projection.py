from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita.index.neighbours import unit
from alphita.search import projection
from alphita.search.projection import FILE, Projection
from tests.doubles import HashEncoder
from tests.reference import product_search as reference
from tests.search.conftest import ProjectingEncoder, write_projection
from tests.tiny import tiny_model


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5), st.sampled_from([0.1, 1.0, 30.0]))
def test_similarity_is_that_of_a_loop(seed: int, dim: int, out: int, scale: float):
    rng = np.random.default_rng(seed)
    weight, bias = (rng.normal(size=shape).astype(np.float32) for shape in ((out, dim), (out,)))
    query, texts = (scale * rng.normal(size=shape).astype(np.float32) for shape in ((dim,), (4, dim)))
    texts[0] = query
    f = Projection(weight, bias, gamma=4.0)
    projected = f(texts)
    found = f.similarities(f(query[None])[0], projected, np.einsum("nd,nd->n", projected, projected))
    expected = [reference.predicted(query, text, weight, bias, 4.0) for text in texts]
    # The distance of equal vectors is 0 but for rounding, which its root makes larger.
    np.testing.assert_allclose(found, expected, atol=0.02 if scale > 1 else 2e-3)
    assert found.argmax() == 0


def test_far_vectors_are_at_0_without_a_warning(recwarn: pytest.WarningsRecorder):
    f = Projection(np.eye(2, dtype=np.float32), np.zeros(2, np.float32), gamma=4.0)
    far = np.array([[1e6, 0]], np.float32)
    assert f.similarities(np.zeros(2, np.float32), far, (far**2).sum(axis=1))[0] < 1e-30
    assert len(recwarn) == 0


@given(st.integers(0, 10_000))
def test_products_are_told_apart_as_by_a_loop_over_all_that_lack_the_value(seed: int):
    rng = np.random.default_rng(seed)
    f = Projection(np.eye(3, dtype=np.float32), np.zeros(3, np.float32), gamma=4.0)
    texts, values = rng.normal(size=(6, 2, 3)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    triples = np.unique(rng.integers(0, (6, 2, 4), (10, 3)), axis=0).astype(np.int32)
    asked = np.sort(rng.permutation(len(triples))[:5])
    expected = []
    for product, attribute, value in triples[asked].tolist():
        similar = [-float(np.linalg.norm(text - values[value])) for text in texts[:, attribute]]
        lacking = [other for other in range(6) if [other, attribute, value] not in triples.tolist()]
        expected.append(np.mean([similar[product] > similar[other] for other in lacking]) if lacking else None)
    known = [share for share in expected if share is not None]
    found = projection.told_apart(f, texts, triples, asked, values[triples[asked, 2]])
    assert found == pytest.approx(np.mean(known) if known else 0.5)
    # No product lacks the value.
    everyone, values = np.array([[0, 0, 0], [1, 0, 0]], np.int32), np.ones((2, 3), np.float32)
    assert projection.told_apart(f, np.ones((2, 1, 3), np.float32), everyone, np.arange(2), values) == 0.5


def test_it_is_read_beside_the_weights_with_its_margin(tmp_path: Path):
    assert projection.read(HashEncoder()) is None
    assert projection.read(ProjectingEncoder(tmp_path)) is None
    weight, bias = write_projection(tmp_path)
    found = projection.read(ProjectingEncoder(tmp_path))
    assert found is not None
    np.testing.assert_array_equal(found.weight, weight)
    np.testing.assert_array_equal(found.bias, bias)
    assert found.gamma == 4.0
    write_projection(tmp_path, gamma=6)
    assert projection.read(ProjectingEncoder(tmp_path)).gamma == 6.0  # type: ignore[union-attr]
    for record, problem in (("{", "damaged record of training"), ('{"config": {"gamma": "wide"}}', "wide")):
        (tmp_path / "training.json").write_text(record)
        with pytest.raises(InputError, match=problem):
            projection.read(ProjectingEncoder(tmp_path))


def dense(weight: tuple[int, int], bias: int, value: float = 0.0) -> dict[str, np.ndarray]:
    return {"dense.weight": np.full(weight, value, np.float32), "dense.bias": np.zeros(bias, np.float32)}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (None, "damaged attribute projection"),
        ({"dense.weight": np.zeros((3, 64), np.float32)}, "damaged attribute projection: 'dense.bias'"),
        (dense((3, 5), 3), "the encoder gives 64 numbers"),
        (dense((3, 64), 2), "the encoder gives 64 numbers"),
        (dense((3, 64), 3, np.nan), "not finite"),
    ],
)
def test_damaged_projections_are_refused(tmp_path: Path, tensors: dict[str, np.ndarray] | None, message: str):
    if tensors is None:
        (tmp_path / FILE).write_bytes(b"no tensors")
    else:
        save_file(tensors, tmp_path / FILE)
    with pytest.raises(InputError, match=message):
        projection.read(ProjectingEncoder(tmp_path))


def test_it_is_the_module_that_is_trained(tmp_path: Path):
    import torch
    from safetensors.torch import save_file as save_tensors

    from alphita_lab.objectives.attribute_prediction import AttributeProjection, attribute_distance

    module = AttributeProjection(64, 8)
    save_tensors(module.state_dict(), tmp_path / FILE)
    found = projection.read(ProjectingEncoder(tmp_path))
    assert found is not None
    vectors = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    with torch.inference_mode():
        expected = module(torch.from_numpy(vectors))
        distance = attribute_distance(expected[:1], expected)
    projected = found(vectors)
    np.testing.assert_allclose(projected, expected.numpy(), atol=1e-6)
    similarity = found.similarities(projected[0], projected, (projected**2).sum(axis=1))
    np.testing.assert_allclose(similarity[1:], torch.sigmoid(4.0 - distance[1:]).numpy(), atol=1e-4)


def test_vectors_are_those_of_training_not_scaled(tmp_path: Path):
    encoder = TermEncoder.load(tiny_model(tmp_path / "tiny"), precision="fp32")
    bare = projection.unscaled(encoder)
    strings = ["heart pain", "skin"]
    vectors = bare.encode(strings)
    assert encoder.normalize
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(strings), axis=1), 1, atol=1e-5)
    assert (np.abs(np.linalg.norm(vectors, axis=1) - 1) > 0.1).all()
    np.testing.assert_allclose(unit(vectors), encoder.encode(strings), atol=1e-6)
    token_lists = encoder.tokenize(strings)
    import torch

    with torch.inference_mode():
        np.testing.assert_allclose(vectors, encoder.module(*encoder.pad(token_lists)).numpy(), atol=1e-5)
