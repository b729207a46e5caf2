from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models

from alphita import artefact
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.encoder.vocabulary import TAGS, Extension, extend, with_tags
from tests.tiny import tiny_model

from .conftest import TERMS, VOCABULARY, bert_config, write_model, write_tokenizer

TOKENS = ["polmonite", "##monite", "lungs", "肺", "##gata"]
EMBEDDINGS = "embeddings.word_embeddings.weight"
SAME = [term for term in TERMS if "lungs" not in term]
# The fixture's vocabulary names one token twice, so that one id has none.
OLD = {token: number for number, token in enumerate(VOCABULARY)}


def load(folder: str | Path) -> TermEncoder:
    return TermEncoder.load(folder, precision="fp32", device="cpu")


def pieces(folder: Path, string: str) -> list[str]:
    return Tokenizer.from_file(str(folder / "tokenizer.json")).encode(string, add_special_tokens=False).tokens[:9]


@pytest.fixture(scope="module")
def extended(tiny, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("vocabulary") / "extended"
    assert extend(tiny, TOKENS, folder) == Extension(len(OLD), 5, 4, {})
    return folder


def test_new_tokens_are_found_by_the_greedy_split(extended, tiny):
    assert pieces(tiny, "Polmonite")[:3] == ["p", "##o", "##l"]
    assert [token for token in pieces(extended, "Polmonite") if token != "[PAD]"] == ["polmonite"]
    assert [token for token in pieces(extended, "bromonite, lungs") if token != "[PAD]"] == [
        "b",
        "##r",
        "##o",
        "##monite",
        "[UNK]",
        "lungs",
    ]
    assert pieces(extended, "肺 lung")[:2] == ["肺", "lung"]


def test_old_ids_stay_and_new_ones_follow_everywhere(extended):
    vocabulary = Tokenizer.from_file(str(extended / "tokenizer.json")).get_vocab()
    assert {token: vocabulary[token] for token in OLD} == OLD
    assert [vocabulary[token] for token in TOKENS] == list(range(len(VOCABULARY), len(VOCABULARY) + 5))
    lines = (extended / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert {token: number for number, token in enumerate(lines)} == vocabulary
    assert sorted(vocabulary.values()) == list(range(len(VOCABULARY) + 5))
    assert json.loads((extended / "config.json").read_text())["vocab_size"] == len(VOCABULARY) + 5
    theirs = transformers.AutoTokenizer.from_pretrained(extended)
    assert theirs("bromonite lungs 肺")["input_ids"] == load(extended).tokenize(["bromonite lungs 肺"])[0]


def test_embeddings_start_as_the_mean_of_the_pieces(extended, tiny):
    before = load_file(tiny / "model.safetensors")
    after = load_file(extended / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before if name != EMBEDDINGS)
    old, new = before[EMBEDDINGS].double().numpy(), after[EMBEDDINGS].double().numpy()
    assert new.shape == (len(VOCABULARY) + 5, 32)
    assert (new[: len(VOCABULARY)] == old).all()

    def mean(spelling: str) -> np.ndarray:
        return np.mean([old[OLD[piece]] for piece in spelling.split()], axis=0)

    start = len(VOCABULARY)
    np.testing.assert_allclose(new[start], mean("p ##o ##l ##m ##o ##n ##i ##t ##e"), rtol=1e-6)
    np.testing.assert_allclose(new[start + 1], mean("##m ##o ##n ##i ##t ##e"), rtol=1e-6)
    np.testing.assert_allclose(new[start + 2], mean("lung ##s"), rtol=1e-6)
    np.testing.assert_allclose(new[start + 4], mean("##g ##a ##t ##a"), rtol=1e-6)


def test_what_cannot_be_spelt_starts_about_the_mean_by_the_seed(tiny, tmp_path):
    scripts = [chr(0x4E00 + place) for place in range(400)]
    rows = []
    for number, seed in enumerate((0, 0, 1)):
        done = extend(tiny, scripts, tmp_path / str(number), seed=seed)
        assert (done.added, done.composed) == (400, 0)
        rows.append(load_file(tmp_path / str(number) / "model.safetensors")[EMBEDDINGS].double().numpy())
    assert (rows[0] == rows[1]).all()
    assert not np.isclose(rows[0][len(VOCABULARY) :], rows[2][len(VOCABULARY) :]).all(axis=1).any()
    old, new = rows[0][: len(VOCABULARY)], rows[0][len(VOCABULARY) :]
    # 400 draws: the mean lies within 5 standard errors, the deviation within a quarter.
    assert (np.abs(new.mean(0) - old.mean(0)) < 5 * old.std(0) / 20).all()
    np.testing.assert_allclose(new.std(0), old.std(0), rtol=0.25)
    manifests = [artefact.verify(tmp_path / str(number), "model") for number in range(3)]
    assert manifests[0]["content_hash"] == manifests[1]["content_hash"] != manifests[2]["content_hash"]


def test_vectors_stay_where_the_split_stays(extended, tiny):
    before, after = load(tiny), load(extended)
    assert before.tokenize(SAME) == after.tokenize(SAME)
    assert (before.encode(SAME) == after.encode(SAME)).all()
    # Of old tokens alone, but split otherwise now: another vector.
    (old,), (new,) = before.tokenize(["lungs"]), after.tokenize(["lungs"])
    assert old[1:-1] == [OLD["lung"], OLD["##s"]]
    assert new[1:-1] == [len(VOCABULARY) + 2]
    assert np.abs(before.encode(["lungs"]) - after.encode(["lungs"])).max() > 1e-3
    strings = [*TERMS, "Polmonite acuta", "bromonite lungs", "肺 cold", "delegata"]
    theirs = SentenceTransformer(str(extended), device="cpu").encode(strings)
    np.testing.assert_allclose(after.encode(strings), theirs, atol=1e-5)


def test_the_folder_is_a_model_that_says_where_it_comes_from(extended, tiny):
    manifest = artefact.verify(extended, "model")
    assert manifest["extended_from"] == load(tiny).content_hash != load(extended).content_hash
    assert [manifest[name] for name in ("tokens_before", "added", "composed", "left_out", "seed")] == [
        len(OLD),
        5,
        4,
        {},
        0,
    ]
    encoder = load(extended)
    assert (encoder.max_length, encoder.pooling, encoder.normalize) == (12, "mean", True)
    noted = json.loads((extended / "alphita.json").read_text())
    assert noted["tokenizer_hash"] == encoder.tokenizer_hash
    saved = extended.parent / "again"
    encoder.save(saved, onnx=False)
    assert load(saved).content_hash == encoder.content_hash
    assert noted["weights_hash"] == json.loads((saved / "alphita.json").read_text())["weights_hash"]


def test_an_extended_encoder_can_be_extended(extended, tmp_path):
    assert extend(extended, ["polmonite", "polmonitelungs"], tmp_path / "m") == Extension(
        len(VOCABULARY) + 5, 1, 1, {"known": 1}
    )
    rows = load_file(tmp_path / "m" / "model.safetensors")[EMBEDDINGS]
    old = {token: number for number, token in enumerate(TOKENS, len(VOCABULARY))} | OLD
    expected = rows[[old["polmonite"], *(old["##" + letter] for letter in "lung"), old["##s"]]]
    np.testing.assert_allclose(rows[-1], expected.mean(0), atol=1e-6)


def test_what_is_not_added_is_counted_and_wrong_use_refused(tiny, tmp_path):
    given = ["heart", "polmone", "polmone", "[ENT]", "2024", "Milza", "milza"]
    assert extend(tiny, given, tmp_path / "there", fields={"corpus": {"a.txt": "0"}}) == Extension(
        len(OLD), 2, 2, {"digits": 1, "known": 1, "never met": 1, "special": 1, "twice": 1}
    )
    manifest = artefact.open_manifest(tmp_path / "there", "model")
    assert manifest["corpus"] == {"a.txt": "0"}
    assert manifest["left_out"]["twice"] == 1
    other = write_model(tmp_path / "bpe")
    Tokenizer(models.BPE({"a": 0}, [])).save(str(other / "tokenizer.json"))
    for source, tokens, out, problem in (
        (tiny, ["heart", "2024"], "m", r"no token to add .* \{'known': 1, 'digits': 1\}"),
        (tiny, [], "m", "no token to add"),
        (tiny, TOKENS, "there", "already exists"),
        (other, TOKENS, "m", "of kind BPE"),
    ):
        with pytest.raises(UsageError, match=problem):
            extend(source, tokens, tmp_path / out)
    extend(tiny, TOKENS, str(tmp_path / "there"), force=True)
    assert (tmp_path / "there.old-1").is_dir()
    assert not (tmp_path / "m").exists()


def test_a_model_without_word_embeddings_of_its_own_name_is_refused(tiny, tmp_path):
    folder = write_model(tmp_path / "m")
    state = load_file(folder / "model.safetensors")
    state["twice." + EMBEDDINGS] = state[EMBEDDINGS].clone()
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"has 2 tensors named …word_embeddings\.weight"):
        extend(folder, TOKENS, tmp_path / "out")


@pytest.mark.parametrize("tied_weight_is_stored", [False, True])
def test_a_head_for_masked_tokens_is_extended_and_kept(tmp_path, tied_weight_is_stored):
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(bert_config())
    model.cls.predictions.bias.data.normal_()
    source = tmp_path / "mlm"
    model.save_pretrained(source)
    write_tokenizer(source)
    if tied_weight_is_stored:
        state = load_file(source / "model.safetensors")
        state["cls.predictions.decoder.weight"] = state["bert." + EMBEDDINGS].clone()
        state["cls.predictions.decoder.bias"] = state["cls.predictions.bias"].clone()
        save_file(state, source / "model.safetensors", metadata={"format": "pt"})
    extend(source, TOKENS, tmp_path / "extended")

    state = load_file(tmp_path / "extended" / "model.safetensors")
    bias, old = state["cls.predictions.bias"], model.cls.predictions.bias.detach()
    assert torch.equal(bias[: len(old)], old)
    spelt = [OLD[piece] for piece in ("lung", "##s")]
    np.testing.assert_allclose(bias[len(old) + 2], old[spelt].mean(), atol=1e-6)
    np.testing.assert_allclose(bias[len(old) + 3], old.mean(), atol=1e-6)
    if tied_weight_is_stored:
        assert torch.equal(state["cls.predictions.decoder.weight"], state["bert." + EMBEDDINGS])
        assert torch.equal(state["cls.predictions.decoder.bias"], bias)

    loaded, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "extended", output_loading_info=True)
    assert not info["missing_keys"]
    ids = torch.tensor(load(source).tokenize(["heart attack"]))
    with torch.no_grad():
        logits = loaded(input_ids=ids).logits
        np.testing.assert_allclose(logits[..., : len(old)], model.eval()(input_ids=ids).logits, atol=1e-5)
    assert logits.shape[-1] == len(old) + 5
    assert (load(source).encode(SAME) == load(tmp_path / "extended").encode(SAME)).all()


@pytest.mark.parametrize("own_decoder", [False, True])
def test_a_head_kept_beside_the_model_is_extended_alike(tmp_path, own_decoder):
    source = write_model(tmp_path / "source")
    rows = len(load_file(source / "model.safetensors")[EMBEDDINGS])
    chance = torch.Generator().manual_seed(1)
    shapes = {"dense.weight": (4, 4), "bias": (rows,)} | ({"decoder": (rows, 4)} if own_decoder else {})
    head = {name: torch.randn(shape, generator=chance) for name, shape in shapes.items()}
    save_file(head, source / "masked_language_head.safetensors")
    extend(source, TOKENS, tmp_path / "extended")
    kept = load_file(tmp_path / "extended" / "masked_language_head.safetensors")
    assert kept.keys() == head.keys()
    assert torch.equal(kept["dense.weight"], head["dense.weight"])
    for name in head.keys() - {"dense.weight"}:
        assert torch.equal(kept[name][:rows], head[name])
        assert len(kept[name]) == rows + 5
        np.testing.assert_allclose(kept[name][rows + 2], head[name][[OLD["lung"], OLD["##s"]]].mean(0), atol=1e-6)


def test_electra_has_narrower_embeddings_and_weights_may_be_in_several_files_and_in_half_precision(tmp_path):
    torch.manual_seed(0)
    narrow = transformers.ElectraConfig(
        vocab_size=len(VOCABULARY),
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=20,
    )
    electra, half = transformers.ElectraModel(narrow), transformers.BertModel(bert_config()).half()
    for name, model, size, dim, dtype in (
        ("e", electra, "9MB", 8, torch.float32),
        ("h", half, "20KB", 32, torch.float16),
    ):
        source, out = tmp_path / name, tmp_path / f"{name}.extended"
        model.save_pretrained(source, max_shard_size=size)
        write_tokenizer(source)
        assert (len(list(source.glob("*.safetensors"))) > 1) == (name == "h")
        extend(source, TOKENS, out)
        assert [file.name for file in out.glob("*.safetensors*")] == ["model.safetensors"]
        table = load_file(out / "model.safetensors")[EMBEDDINGS]
        assert (table.shape, table.dtype) == ((len(VOCABULARY) + 5, dim), dtype)
        assert (load(source).encode(SAME) == load(out).encode(SAME)).all()
        assert np.isfinite(load(out).encode(["polmonite 肺"])).all()


def test_tokens_beside_the_vocabulary_and_spare_rows_keep_their_places(tmp_path):
    torch.manual_seed(0)
    source = tmp_path / "m"
    model = transformers.BertModel(bert_config(vocab_size=80))
    model.embeddings.word_embeddings.weight.data[75:] = 1e6  # of no token, so of no weight in the mean of all
    model.save_pretrained(source)
    words = {token: number for number, token in enumerate(dict.fromkeys(VOCABULARY))}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    write_tokenizer(source)
    whole = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = whole.normalizer, whole.pre_tokenizer
    tokenizer.add_special_tokens(["[M_s]", "[M_e]"])
    tokenizer.save(str(source / "tokenizer.json"))
    (source / "vocab.txt").unlink()
    assert tokenizer.token_to_id("[M_e]") == len(words) + 1
    extend(source, TOKENS, tmp_path / "extended")

    after = Tokenizer.from_file(str(tmp_path / "extended" / "tokenizer.json"))
    assert after.encode("[M_s] polmonite [M_e]").ids == [len(words), len(words) + 2, len(words) + 1]
    assert after.add_tokens(["[LATER]"]) == 1
    assert after.token_to_id("[LATER]") == len(words) + 2 + len(TOKENS)  # an id of its own
    rows = load_file(tmp_path / "extended" / "model.safetensors")[EMBEDDINGS]
    assert len(rows) == 80  # the spare ones were enough
    assert rows[len(words) + 5].abs().max() < 10
    np.testing.assert_allclose(rows[len(words) + 4], rows[[words["lung"], words["##s"]]].mean(0), atol=1e-6)
    assert not (tmp_path / "extended" / "vocab.txt").exists()


STRINGS = ["pain of the heart", "liver swelling", "", "xyz"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tags") / "tiny")


def test_strings_without_tags_keep_their_vectors_and_a_tag_is_one_token(model: Path, tmp_path: Path) -> None:
    tagged = with_tags(model, tmp_path)
    assert tagged.encoder == str(tmp_path)
    before, after = load(model), load(tagged.encoder)
    np.testing.assert_array_equal(before.encode(STRINGS), after.encode(STRINGS))
    assert before.tokenize(STRINGS) == after.tokenize(STRINGS)
    start, end = tagged.ids
    assert start != end
    cls, sep = before.tokenize([""])[0]
    (ids,) = after.tokenize([f"pain {TAGS[0]} heart {TAGS[1]}"])
    (plain,) = before.tokenize(["pain heart"])
    assert ids == [cls, plain[1], start, plain[2], end, sep]
    assert tagged.tokenizer_hashes == {before.tokenizer_hash, after.tokenizer_hash}


def test_embeddings_start_as_the_mean_of_all_with_noise_of_the_seed(model: Path, tmp_path: Path) -> None:
    rows = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / name).mkdir()
        tagged = with_tags(model, tmp_path / name, seed=seed)
        state = load_file(tmp_path / name / "model.safetensors")
        table = state["embeddings.word_embeddings.weight"].double().numpy()
        assert len(table) == max(tagged.ids) + 1
        assert json.loads((tmp_path / name / "config.json").read_text())["vocab_size"] == len(table)
        rows.append(table)
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0][-2:], rows[2][-2:])
    old = rows[0][:-2]
    noise = (rows[0][-2:] - old.mean(0)) / old.std(0)
    assert not np.array_equal(noise[0], noise[1])
    assert abs(noise.mean()) < 0.5
    assert 0.7 < noise.std() < 1.3


def test_an_encoder_that_has_tags_stays_and_one_without_word_embeddings_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = with_tags(model, tmp_path / "first")
    second = with_tags(first.encoder, tmp_path / "second")
    # It still reads what was made without tags.
    assert (second.encoder, second.ids, second.tokenizer_hashes) == (first.encoder, first.ids, first.tokenizer_hashes)
    folder = tmp_path / "t5"
    config = transformers.T5Config(vocab_size=100, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    transformers.T5Model(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="has 0 tensors named"):
        with_tags(folder, tmp_path / "out")
