from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from alphita import TermEncoder
from alphita.errors import AlphitaError, InputError, UsageError
from alphita_lab.encoder import bert
from alphita_lab.encoder.torch_runtime import choose

from .conftest import TERMS, VOCABULARY, write_model, write_tokenizer

WORDS = st.sampled_from(["heart", "attack", "lung", "of", "disease", "zz", "type 2", "é", "-"])
STRINGS = st.lists(st.lists(WORDS, max_size=9).map(" ".join), max_size=25)


def naive(encoder: TermEncoder, string: str) -> np.ndarray:
    """One term, by the transformer's own forward, in the words of the definition."""
    model = encoder.module.model
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor(encoder.tokenize([string]))).last_hidden_state[0].double().numpy()
    vector = hidden.mean(0) if encoder.pooling == "mean" else hidden[0]
    return vector / np.linalg.norm(vector) if encoder.normalize else vector


def test_vectors_are_those_of_the_definition(encoder, monkeypatch):
    vectors = encoder.encode(TERMS)
    assert vectors.shape == (len(TERMS), 32)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [naive(encoder, term) for term in TERMS], atol=1e-5)
    # Batches do not matter, nor oneDNN's private operators, which another torch may lack.
    monkeypatch.setattr(type(encoder._runtime), "BUDGET", {"cpu": 1})
    np.testing.assert_allclose(encoder.encode(TERMS), vectors, atol=1e-5)
    monkeypatch.setattr("alphita.encoder.encoder.STRINGS_AT_ONCE", 2)
    np.testing.assert_allclose(encoder.encode(TERMS), vectors, atol=1e-5)
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    plain = TermEncoder.load(encoder.folder, precision="fp32", device="cpu")
    np.testing.assert_allclose(plain.encode(TERMS), vectors, atol=1e-5)


def test_equal_strings_are_encoded_once(encoder, monkeypatch):
    counted = []
    run = encoder._runtime.run
    monkeypatch.setattr(encoder._runtime, "run", lambda batch: counted.append(batch.rows) or run(batch))
    vectors = encoder.encode(["lung", "cold", "lung", "lung"])
    assert sum(counted) == 2
    assert (vectors[0] == vectors[2]).all()
    assert (vectors[0] == vectors[3]).all()
    assert not np.allclose(vectors[0], vectors[1], atol=1e-2)


@settings(deadline=None, max_examples=25)
@given(STRINGS, st.randoms(use_true_random=False))
def test_order_and_company_do_not_matter(encoder, strings, chance):
    vectors = encoder.encode(strings)
    order = list(range(len(strings)))
    chance.shuffle(order)
    np.testing.assert_allclose(encoder.encode([strings[place] for place in order]), vectors[order], atol=1e-5)
    for place in order[:3]:
        np.testing.assert_allclose(encoder.encode([strings[place]])[0], vectors[place], atol=1e-5)


def test_the_module_agrees_with_and_without_padding(encoder):
    expected = encoder.encode(TERMS)
    ids, mask = encoder.pad(encoder.tokenize(TERMS))
    assert ids.shape == mask.shape == (len(TERMS), int(mask.sum(1).max()))
    with torch.no_grad():
        padded = torch.nn.functional.normalize(encoder.module(ids, mask), dim=1)
        alone = torch.nn.functional.normalize(encoder.module(torch.tensor(encoder.tokenize(["lung"]))), dim=1)
    np.testing.assert_allclose(padded.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(alone[0].numpy(), expected[TERMS.index("lung")], atol=1e-5)


def test_empty_and_odd_input(encoder):
    assert encoder.encode([]).shape == (0, 32)
    assert encoder.encode([]).dtype == np.float32
    odd = ["", "   ", "\x00", "a" * 100_000, "lung " * 50_000, "\ud800 cold", "日本語 😀", "‮abc"]
    vectors = encoder.encode(odd)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert encoder.encode(("lung", "cold")).shape == (2, 32)


def test_long_terms_are_cut(encoder):
    assert max(map(len, encoder.tokenize(TERMS))) == 12
    np.testing.assert_allclose(*encoder.encode(["lung " * 10, "lung " * 99]), atol=1e-6)


@pytest.mark.parametrize(
    ("strings", "problem"),
    [
        ("lung", "not one string"),
        (["lung", None], "item 1 .*NoneType"),
        ([b"lung"], "item 0 .*bytes"),
        ([1.5], "float"),
    ],
)
def test_what_is_no_string_is_refused(encoder, strings, problem):
    with pytest.raises(UsageError, match=problem):
        encoder.encode(strings)


def test_bf16_is_near_fp32(tiny, encoder):
    half = TermEncoder.load(tiny, precision="bf16", device="cpu")
    assert half.precision == "bf16"
    vectors = half.encode(TERMS)
    assert vectors.dtype == np.float32
    assert (vectors * encoder.encode(TERMS)).sum(1).min() > 0.99
    assert half.content_hash == encoder.content_hash


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", True), ("mean", False), ("cls", False)])
def test_pooling_and_length_follow_the_model_as_in_sentence_transformers(tmp_path, pooling, normalize):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = TermEncoder.load(write_model(tmp_path / "m", pooling=pooling, normalize=normalize), precision="fp32")
    assert (encoder.pooling, encoder.normalize, encoder.max_length) == (pooling, normalize, 12)
    np.testing.assert_allclose(encoder.encode(TERMS), [naive(encoder, term) for term in TERMS], atol=2e-5)
    original = sentence_transformers.SentenceTransformer(str(tmp_path / "m"), device="cpu")
    np.testing.assert_allclose(original.encode(TERMS), encoder.encode(TERMS), atol=1e-5)
    train_a_little(encoder)
    encoder.save(tmp_path / "saved")
    saved = sentence_transformers.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert saved.max_seq_length == 12
    np.testing.assert_allclose(saved.encode(TERMS), encoder.encode(TERMS), atol=1e-5)
    assert not np.allclose(saved.encode(TERMS), original.encode(TERMS), atol=1e-2)


def train_a_little(encoder: TermEncoder) -> None:
    optimizer = torch.optim.AdamW(encoder.module.parameters(), lr=0.05, fused=True)
    encoder.module(*encoder.pad(encoder.tokenize(TERMS))).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_encode_follows_training(tiny, tmp_path, precision):
    encoder = TermEncoder.load(tiny, precision=precision, device="cpu")
    before, hash_before = encoder.encode(TERMS), encoder.content_hash
    train_a_little(encoder)
    assert not np.allclose(encoder.encode(TERMS), before, atol=0.05)
    assert encoder.content_hash != hash_before
    encoder.save(tmp_path / "saved")
    again = TermEncoder.load(tmp_path / "saved", precision=precision, device="cpu")
    assert again.content_hash == encoder.content_hash
    assert again.tokenizer_hash == encoder.tokenizer_hash
    np.testing.assert_allclose(again.encode(TERMS), encoder.encode(TERMS), atol=1e-6)


def test_gradients_reach_every_weight_in_use(encoder, tiny):
    module = TermEncoder.load(tiny, precision="fp32").module
    module(torch.tensor([[2, 5, 6, 3]]), torch.tensor([[1, 1, 1, 1]])).square().sum().backward()
    without = {name for name, value in module.named_parameters() if value.grad is None}
    assert without == {"model.pooler.dense.weight", "model.pooler.dense.bias"}
    with torch.autocast("cpu", torch.bfloat16):
        assert module(torch.tensor([[2, 5, 3]])).shape == (1, 32)
    broken = TermEncoder.load(tiny, precision="fp32")
    with torch.no_grad():
        broken.module.model.embeddings.word_embeddings.weight[5] = torch.nan
    with pytest.raises(AlphitaError, match="not finite"):
        broken.encode(["heart"])


def test_hash_names_weights_settings_and_tokenizer(tiny, encoder, tmp_path):
    assert TermEncoder.load(tiny, precision="fp32").content_hash == encoder.content_hash
    assert TermEncoder.load(tiny, precision="fp32", pooling="cls").content_hash != encoder.content_hash
    assert TermEncoder.load(tiny, precision="fp32", max_length=9).content_hash != encoder.content_hash
    assert TermEncoder.load(tiny, precision="fp32", max_length=9).tokenizer_hash == encoder.tokenizer_hash
    other = TermEncoder.load(write_model(tmp_path / "other", seed=1), precision="fp32")
    assert other.content_hash != encoder.content_hash
    assert other.tokenizer_hash == encoder.tokenizer_hash


def test_legacy_coder_against_a_direct_reading(tiny, tmp_path):
    """Lower-cased names, padded to 32, no mask, tanh pooler: as the published code calls the model."""
    from transformers import BertModel

    encoder = TermEncoder.load(tiny, precision="fp32", pooling="legacy_coder")
    assert encoder.max_length == 12
    encoder = TermEncoder.load(tiny, precision="fp32", pooling="legacy_coder", max_length=32)
    model = BertModel.from_pretrained(tiny).eval()
    names = ["Heart-Attack NOS", "lung (disorder)", "the heart of the cold lung disease"]
    vectors = encoder.encode(names)
    for name, vector in zip(["heart attack", "lung", names[2]], vectors, strict=True):
        pieces = [
            VOCABULARY.index("[CLS]"),
            *(VOCABULARY.index(word) for word in name.split()),
            VOCABULARY.index("[SEP]"),
        ]
        with torch.no_grad():
            expected = model(torch.tensor([pieces + [0] * (32 - len(pieces))])).pooler_output[0].numpy()
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)
    with torch.no_grad():
        module = encoder.module(*encoder.pad(encoder.tokenize(names)))
    np.testing.assert_allclose(torch.nn.functional.normalize(module, dim=1).numpy(), vectors, atol=1e-5)
    encoder.save(tmp_path / "saved", onnx=False)
    np.testing.assert_allclose(TermEncoder.load(tmp_path / "saved", precision="fp32").encode(names), vectors, atol=1e-5)


def test_other_transformers(tmp_path):
    """RoBERTa runs without padding too (its positions start at 2); DistilBERT by its own forward."""
    from transformers import DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel

    shape = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 40, "initializer_range": 0.3, "pad_token_id": 0}
    torch.manual_seed(0)
    roberta = RobertaModel(
        RobertaConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, hidden_act="relu", **shape
        )
    )
    distil = DistilBertModel(DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, **shape))
    for number, (model, flat) in enumerate([(roberta, True), (distil, False)]):
        folder = tmp_path / str(number)
        model.save_pretrained(folder)
        write_tokenizer(folder)
        encoder = TermEncoder.load(folder, precision="fp32")
        assert bert.supports(encoder.module.model) is flat
        vectors = encoder.encode(TERMS)
        np.testing.assert_allclose(vectors, [naive(encoder, term) for term in TERMS], atol=1e-5)
        half = TermEncoder.load(folder, precision="bf16").encode(TERMS)
        assert (half * vectors).sum(1).min() > 0.99
        encoder.save(tmp_path / f"{number}.saved")
        np.testing.assert_allclose(
            TermEncoder.load(tmp_path / f"{number}.saved", precision="fp32").encode(TERMS), vectors
        )


def test_a_vocabulary_file_is_enough_and_lower_case_is_a_setting(tmp_path, encoder):
    folder = write_model(tmp_path / "m")
    whole = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").unlink()
    old = TermEncoder.load(folder, precision="fp32")
    assert old.tokenize(TERMS) == encoder.tokenize(TERMS)
    old.save(tmp_path / "saved")
    assert TermEncoder.load(tmp_path / "saved", precision="fp32").content_hash == old.content_hash
    (folder / "tokenizer.json").write_text(whole.replace('"lowercase": true', '"lowercase": false'))
    settings = folder / "sentence_bert_config.json"
    settings.write_text(settings.read_text().replace('"do_lower_case": false', '"do_lower_case": true'))
    cased = TermEncoder.load(folder, precision="fp32")
    assert cased.tokenize(["LUNG"]) == cased.tokenize(["lung"])
    cased.save(tmp_path / "cased")
    assert TermEncoder.load(tmp_path / "cased").tokenize(["LUNG"]) == cased.tokenize(["lung"])


def test_a_checkpoint_without_pooler(tmp_path, encoder):
    from transformers import BertModel

    folder = write_model(tmp_path / "m")
    BertModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(folder)
    plain = TermEncoder.load(folder, precision="fp32")
    assert plain.content_hash == encoder.content_hash
    with pytest.raises(InputError, match=r"weights are missing, e\.g\. pooler"):
        TermEncoder.load(folder, precision="fp32", pooling="legacy_coder")


def broken(folder, name):
    weights, config, tokenizer = (folder / name for name in ("model.safetensors", "config.json", "tokenizer.json"))
    if name == "missing layer":
        kept = {k: v for k, v in load_file(weights).items() if "layer.1.output" not in k}
        save_file(kept, weights, metadata={"format": "pt"})
    elif name == "cut weights":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    elif name == "other size":
        config.write_text(json.dumps(json.loads(config.read_text()) | {"hidden_size": 16}))
    elif name == "no weights":
        weights.unlink()
    elif name == "pickle":
        weights.rename(folder / "pytorch_model.bin")
    elif name == "no tokenizer":
        tokenizer.unlink()
        (folder / "vocab.txt").unlink()
    elif name == "bad tokenizer":
        tokenizer.write_text("{}")
    else:
        config.write_text(json.dumps({"model_type": "nonsense"}))
    return folder


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing layer", "weights are missing, e.g. encoder.layer.1.output"),
        ("cut weights", "cannot be loaded"),
        ("other size", "cannot be loaded"),
        ("no weights", "no weights that torch reads"),
        ("pickle", r"pytorch_model\.bin: cannot be read as tensors"),
        ("no tokenizer", "has no tokenizer"),
        ("bad tokenizer", r"tokenizer\.json: cannot be read"),
        ("unknown kind", "cannot be loaded"),
    ],
)
def test_broken_folders_give_one_clear_error(tmp_path, name, problem):
    with pytest.raises(InputError, match=problem) as caught:
        TermEncoder.load(broken(write_model(tmp_path / "m"), name), precision="fp32")
    assert "m" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"precision": "fp16"}, "unknown precision 'fp16'"),
        ({"pooling": "max"}, "unknown pooling 'max'"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
        ({"max_length": 1}, "3 or more"),
    ],
)
def test_unknown_options(tiny, options, problem):
    with pytest.raises(UsageError, match=problem):
        TermEncoder.load(tiny, **options)


def test_choice_of_device_and_precision(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no GPU"):
        choose("cuda", "auto")
    monkeypatch.setattr("alphita.machine.fast_bf16", lambda: True)
    assert choose("auto", "auto") == ("cpu", "bf16")
    monkeypatch.setattr("alphita.machine.fast_bf16", lambda: False)
    assert choose("auto", "auto") == ("cpu", "fp32")
    assert choose("auto", "bf16") == ("cpu", "bf16")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose("auto", "auto") == ("cuda", "bf16")


def test_the_source_folder_is_left_alone(tmp_path):
    folder = write_model(tmp_path / "m")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    encoder = TermEncoder.load(folder, precision="fp32")
    encoder.encode(TERMS)
    encoder.save(tmp_path / "saved")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    shutil.rmtree(folder)
    saved = TermEncoder.load(tmp_path / "saved", precision="fp32")
    assert saved.content_hash == encoder.content_hash
    # An encoder may be saved where it was loaded from.
    train_a_little(saved)
    saved.save(tmp_path / "saved")
    again = TermEncoder.load(tmp_path / "saved", precision="fp32")
    assert again.content_hash == saved.content_hash != encoder.content_hash
    np.testing.assert_allclose(again.encode(TERMS), saved.encode(TERMS), atol=1e-6)


def test_transformers_knows_the_special_tokens_of_a_tokenizer_saved_without_their_names(tmp_path):
    import transformers

    folder = write_model(tmp_path / "plain")
    (folder / "tokenizer_config.json").unlink()
    TermEncoder.load(str(folder)).save(tmp_path / "saved")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved", local_files_only=True)
    known = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "mask", "unk", "pad")}
    assert known.items() <= tokenizer.special_tokens_map.items()
    assert tokenizer.mask_token_id == tokenizer.convert_tokens_to_ids("[MASK]")
