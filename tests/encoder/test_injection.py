from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertModel, DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel

from alphita import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.encoder import injected_bert
from alphita_lab.encoder.bert import Packing, mean_pool
from alphita_lab.encoder.injected_bert import (
    InjectedBert,
    Injection,
    nearest_entities,
    packed_mentions,
    packed_states,
    term_mentions,
)
from alphita_lab.objectives.entity_linking import entity_linking
from alphita_lab.training.engine.forward import TermForward
from alphita_lab.training.mentions.injection import inject
from tests.reference import kge as reference

from .conftest import TERMS, bert_config, write_model

CLS, SEP, PAD = 2, 3, 0
LAYERS = 4


def bert(seed: int = 0, **changes) -> BertModel:
    torch.manual_seed(seed)
    return BertModel(bert_config(num_hidden_layers=LAYERS, **changes)).eval()


def entity_vectors(count: int = 30, d: int = 6, seed: int = 1) -> torch.Tensor:
    return torch.randn(count, d, generator=torch.Generator().manual_seed(seed))


def injected(layer: int = 2, nearest: int = 5, *, loud: bool = True, model: BertModel | None = None) -> InjectedBert:
    """With `loud`, projections so large that what is injected is plain to see."""
    model = model or bert()
    torch.manual_seed(2)
    step = Injection(entity_vectors(), 32, nearest=nearest)
    step.follow(model.encoder.layer[layer - 1].output.LayerNorm)
    if loud:
        for linear in (step.down, step.up):
            torch.nn.init.normal_(linear.weight, std=0.5)
            torch.nn.init.normal_(linear.bias, std=0.5)
    return InjectedBert(model, step, layer=layer, outside=(CLS, SEP)).eval()


def batch(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids, mask


LONG = [CLS, 5, 6, 7, 8, 9, 10, 11, SEP]
SHORT = [CLS, 12, 13, 14, SEP]
MENTIONS = torch.tensor([[0, 1, 3], [0, 5, 8], [1, 2, 4]])


def test_the_step_is_the_printed_one() -> None:
    random = torch.Generator().manual_seed(3)
    hidden = torch.randn(2, 9, 7, generator=random, dtype=torch.float64)
    step = Injection(entity_vectors(20, 4), 7, nearest=3, eps=1e-5).double()
    for parameter in step.parameters():
        torch.nn.init.normal_(parameter, std=0.7, generator=random)
    linked = step(hidden, MENTIONS)
    down, up = ([part.detach().numpy() for part in (linear.weight, linear.bias)] for linear in (step.down, step.up))
    gain, shift = step.norm.weight.detach().numpy(), step.norm.bias.detach().numpy()
    expected = reference.inject(
        hidden.numpy(), MENTIONS.tolist(), step.entities.numpy(), 3, down, up, gain, shift, eps=1e-5
    )
    np.testing.assert_allclose(linked.last_hidden_state.detach().numpy(), expected, atol=1e-10)
    assert linked.projected.shape == (3, 4)
    assert linked.candidates.shape == linked.logits.shape == (3, 3)
    exact = linked.projected @ step.entities.T
    torch.testing.assert_close(linked.logits, exact.gather(1, linked.candidates))
    torch.testing.assert_close(linked.logits, exact.sort(1, descending=True).values[:, :3])


@settings(max_examples=30, deadline=None)
@given(
    m=st.integers(0, 5),
    count=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    block=st.integers(1, 50),
    share=st.floats(0, 1),
)
def test_nearest_entities_are_those_of_a_full_sort(m, count, seed, block, share) -> None:
    n = max(1, round(share * count))
    entities, queries = entity_vectors(count, 3, seed), entity_vectors(max(1, m), 3, seed + 1)[:m]
    expected = (queries @ entities.T).argsort(dim=1, descending=True, stable=True)[:, :n]
    assert nearest_entities(queries, entities, n, block=block).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("layer", range(1, LAYERS + 1))
def test_the_layer_is_honoured(kind, layer) -> None:
    """The model's own forward pass, with the step hooked behind layer i, gives the same; behind another it does not."""
    if kind == "bert":
        plain = bert()
    else:
        torch.manual_seed(0)
        facts = bert_config(num_hidden_layers=LAYERS).to_dict() | {"model_type": "roberta", "pad_token_id": 0}
        plain = RobertaModel(RobertaConfig(**facts)).eval()
    model = injected(layer, model=copy.deepcopy(plain))
    rows = batch([LONG, SHORT])
    states = model(*rows, MENTIONS).last_hidden_state
    for other in range(1, LAYERS + 1):
        hook = plain.encoder.layer[other - 1].register_forward_hook(
            lambda _layer, _inputs, hidden: model.injection(hidden, MENTIONS).last_hidden_state
        )
        expected = plain(input_ids=rows[0], attention_mask=rows[1]).last_hidden_state
        hook.remove()
        real = rows[1].bool()
        assert torch.allclose(states[real], expected[real], atol=1e-5) == (other == layer)


def test_the_norm_of_the_step_starts_as_that_of_its_layer() -> None:
    norm, step = torch.nn.LayerNorm(32), Injection(entity_vectors(), 32, nearest=5)
    torch.nn.init.normal_(norm.weight, mean=0.6, std=0.1)
    torch.nn.init.normal_(norm.bias, mean=0.3, std=0.2)
    hidden = norm(torch.randn(50, 32)).detach()
    fresh = (step.norm(hidden).detach() - hidden).norm() / hidden.norm()
    step.follow(norm)
    assert (step.norm(hidden).detach() - hidden).norm() / hidden.norm() < 0.3 < fresh


def test_entities_are_frozen() -> None:
    source = entity_vectors().requires_grad_()
    step = Injection(source, 32, nearest=4)
    assert "entities" not in dict(step.named_parameters())
    assert not step.entities.requires_grad
    assert step.entities.data_ptr() != source.data_ptr()
    model = injected().train()
    before = model.injection.entities.clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    linked = model(*batch([LONG, SHORT]), MENTIONS)
    loss = linked.last_hidden_state.square().sum()
    loss = loss + entity_linking(linked.projected, torch.tensor([3, 9, -1]), model.injection.entities)
    loss.backward()
    weights = model.injection.down.weight.clone()
    optimizer.step()
    assert torch.equal(model.injection.entities, before)
    assert not torch.equal(model.injection.down.weight, weights)


def test_gradients_flow_through_the_linker() -> None:
    """From the states alone, without the linking loss: through the softmax to the projection and the layers below."""
    model = injected()
    linked = model(*batch([LONG, SHORT]), MENTIONS)
    # One number, for the sum of the squares hardly changes behind a layer norm.
    linked.last_hidden_state[:, 0, 0].sum().backward()
    for parameter in (model.injection.down.weight, model.injection.down.bias, model.injection.up.weight):
        assert parameter.grad.abs().max() > 1e-6
    # The linking loss reaches the layers up to i and no later one.
    model.zero_grad()
    linked = model(*batch([LONG, SHORT]), MENTIONS)
    entity_linking(linked.projected, torch.tensor([3, 9, 0]), model.injection.entities).backward()
    layers = model.model.encoder.layer
    assert layers[1].output.dense.weight.grad.abs().max() > 1e-6
    assert layers[2].output.dense.weight.grad is None
    assert model.injection.up.weight.grad is None


def test_under_autocast_and_in_bf16_the_linker_computes_in_float32() -> None:
    model = injected()
    expected = model(*batch([LONG, SHORT]), MENTIONS)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(*batch([LONG, SHORT]), MENTIONS)
    assert mixed.projected.dtype == mixed.logits.dtype == torch.float32
    low = copy.deepcopy(model).bfloat16()(*batch([LONG, SHORT]), MENTIONS)
    assert (low.last_hidden_state.dtype, low.projected.dtype) == (torch.bfloat16, torch.float32)
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(mixed.projected, expected.projected).min() > 0.99
    assert cosine(low.projected, expected.projected).min() > 0.99


def test_a_term_is_its_own_mention() -> None:
    model = injected()
    ids, mask = batch([LONG, SHORT, [CLS, SEP]])
    mentions = term_mentions(ids, mask, (CLS, SEP))
    assert mentions.tolist() == [[0, 1, 8], [1, 1, 4]]
    linked, expected = model(ids, mask), model(ids, mask, mentions)
    assert torch.equal(linked.last_hidden_state, expected.last_hidden_state)
    assert torch.equal(linked.candidates, expected.candidates)
    assert torch.equal(model(ids[:1]).projected, model(ids[:1], mask[:1]).projected)
    # Padding to the left, and tags, which belong to no mention.
    left = torch.tensor([[PAD, PAD, CLS, 40, 5, 6, 41, SEP]])
    assert term_mentions(left, (left != PAD).long(), (CLS, SEP, 40, 41)).tolist() == [[0, 4, 6]]
    assert term_mentions(left, None, ()).tolist() == [[0, 0, 8]]
    packing = packing_of([LONG, [CLS, SEP], [CLS, 40, 5, 6, 41, 7, SEP]])
    assert packed_mentions(packing, (CLS, SEP)).tolist() == [[0, 1, 8], [2, 1, 6]]
    inside = packed_mentions(packing, (CLS, SEP, 40, 41), packing.rows == 2)
    assert inside.tolist() == [[2, 2, 6]]
    assert packed_mentions(packing, range(50)).tolist() == []


def packing_of(rows: list[list[int]]) -> Packing:
    return Packing(np.array([token for row in rows for token in row]), np.array([len(row) for row in rows]))


some_rows = st.lists(
    st.lists(st.integers(5, 48), max_size=20).map(lambda inner: [CLS, *inner, SEP]), min_size=1, max_size=30
)


@settings(max_examples=30, deadline=None)
@given(rows=some_rows, seed=st.integers(0, 99))
def test_without_padding_it_is_the_same(rows: list[list[int]], seed: int) -> None:
    model, packing, random = injected(nearest=30), packing_of(rows), np.random.default_rng(seed)
    drawn = [
        (row, *sorted(random.choice(len(rows[row]) + 1, 2, replace=False)))
        for row in random.integers(len(rows), size=len(rows))
    ]
    with torch.no_grad():
        for mentions in (None, torch.tensor(drawn, dtype=torch.int64)):
            found, expected = model.packed(packing, mentions), model(*batch(rows), mentions)
            for row, tokens in enumerate(rows):
                first = int(packing.first[row])
                torch.testing.assert_close(
                    found.last_hidden_state[first : first + len(tokens)],
                    expected.last_hidden_state[row, : len(tokens)],
                    atol=2e-5,
                    rtol=1e-3,
                )
            torch.testing.assert_close(found.projected, expected.projected, atol=2e-5, rtol=1e-3)
            # Nearest first; which of two that are as near comes first is open.
            torch.testing.assert_close(found.logits, expected.logits, atol=1e-4, rtol=1e-3)


def test_without_padding_gradients_are_the_same() -> None:
    model, rows = injected(), [LONG, SHORT, [CLS, SEP], [*SHORT[:2], *LONG[1:]]]
    packing = packing_of(rows)
    target = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))

    def gradients(vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        model.zero_grad()
        (vectors * target).sum().backward()
        return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}

    ours = gradients(mean_pool(model.packed(packing).last_hidden_state, packing))
    own = gradients(torch.stack([model(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]))
    assert ours.keys() == own.keys()
    assert "injection.down.weight" in own
    for name, gradient in own.items():
        torch.testing.assert_close(ours[name], gradient, atol=2e-5, rtol=1e-3, msg=name)


def test_without_padding_the_parts_of_a_pair_are_told_apart() -> None:
    model, packing = injected(), packing_of([SHORT, LONG])
    numbers = [[0, 0, 0, 1, 1], [0] * 4 + [1] * 5]
    types = torch.tensor([numbers[0] + [0] * 4, numbers[1]])
    laid = packing.lay_out(np.array(numbers[0] + numbers[1]))
    ids, mask = batch([SHORT, LONG])
    with torch.no_grad():
        found = packed_states(model, packing, types=laid)
        expected = model(ids, mask, token_type_ids=types).last_hidden_state
    for row, tokens in enumerate([SHORT, LONG]):
        first = int(packing.first[row])
        torch.testing.assert_close(
            found[first : first + len(tokens)], expected[row, : len(tokens)], atol=1e-5, rtol=1e-4
        )
    assert not torch.allclose(found, packed_states(model, packing), atol=1e-2)


def test_an_encoder_without_that_layer() -> None:
    for layer in (0, -1):
        with pytest.raises(UsageError, match=f"layer must be 1 or more, .*not {layer}"):
            InjectedBert(bert(), Injection(entity_vectors(), 32, nearest=5), layer=layer, outside=())
    with pytest.raises(InputError, match=r"no such layer .*layer.*value '5'.*up to 4"):
        InjectedBert(bert(), Injection(entity_vectors(), 32, nearest=5), layer=5, outside=())
    other = DistilBertModel(DistilBertConfig(vocab_size=50, dim=32, hidden_dim=48, n_layers=2, n_heads=4))
    with pytest.raises(InputError, match=r"BERT and RoBERTa encoders only .*DistilBertModel"):
        InjectedBert(other, Injection(entity_vectors(), 32, nearest=5), layer=1, outside=())


def test_unusable_entities() -> None:
    for shape in [(0, 4), (4, 0), (4,)]:
        with pytest.raises(InputError, match="neither 0"):
            Injection(torch.zeros(shape), 32, nearest=1)
    broken = entity_vectors()
    broken[7, 2] = torch.nan
    with pytest.raises(InputError, match=r"not finite .*row.*'7'"):
        Injection(broken, 32, nearest=1)
    for nearest in (0, 31):
        with pytest.raises(UsageError, match=f"nearest must be from 1 to 30, .* not {nearest}"):
            Injection(entity_vectors(), 32, nearest=nearest)


def test_damaged_folders_are_named(tmp_path) -> None:
    model = injected()
    with pytest.raises(InputError, match=r"config.json: is not the config of an injected model"):
        injected_bert.load(tmp_path)
    model.save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text()
    for old, new in [("kge_injection", "other"), ('"layer": 2', '"layer": 9'), ('"nearest": 5', '"nearest": 99')]:
        assert old in text
        (tmp_path / "config.json").write_text(text.replace(old, new))
        with pytest.raises(InputError, match=r"config.json: is not the config"):
            injected_bert.load(tmp_path)
    (tmp_path / "config.json").write_text(text.replace(" 30,\n   6", " 30,\n   8").replace('"layer": 2', '"layer": 1'))
    with pytest.raises(InputError, match=r"model.safetensors: the weights cannot be loaded: size mismatch"):
        injected_bert.load(tmp_path)
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match=r"model.safetensors: the weights cannot be loaded"):
        injected_bert.load(tmp_path)


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
    with pytest.raises(InputError, match="layer"):
        inject(plain, entities(), layer=3, nearest=5)
    np.testing.assert_array_equal(plain.encode(TERMS), before)
    # Special tokens and tags belong to no mention.
    assert inject(plain, entities(), layer=1, nearest=5, outside=[30, 31]).outside == (2, 3, 30, 31)


def test_training_encodes_it_by_its_own_forward(encoder) -> None:
    forward = TermForward(encoder, precision="fp32", dropout=0.0)
    vectors = forward(encoder.tokenize(TERMS))
    unit = torch.nn.functional.normalize(vectors, dim=1)
    np.testing.assert_allclose(unit.detach().numpy(), encoder.encode(TERMS), atol=1e-5)
    vectors.square().sum().backward()
    lacking = {name for name, value in encoder.module.named_parameters() if value.grad is None}
    assert lacking == set()
