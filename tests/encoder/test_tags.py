from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita_lab.encoder.vocabulary import TAGS, with_tags
from tests.tiny import tiny_model

STRINGS = ["pain of the heart", "liver swelling", "", "xyz"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tags") / "tiny")


def opened(folder: str | Path) -> TermEncoder:
    return TermEncoder.load(folder, precision="fp32", device="cpu")


def test_strings_without_tags_keep_their_vectors_and_a_tag_is_one_token(model: Path, tmp_path: Path) -> None:
    tagged = with_tags(model, tmp_path)
    assert tagged.encoder == str(tmp_path)
    before, after = opened(model), opened(tagged.encoder)
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


def test_an_encoder_that_has_tags_stays_and_still_reads_what_was_made_without(model: Path, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = with_tags(model, tmp_path / "first")
    second = with_tags(first.encoder, tmp_path / "second")
    assert (second.encoder, second.ids, second.tokenizer_hashes) == (first.encoder, first.ids, first.tokenizer_hashes)


def test_an_encoder_without_word_embeddings_is_refused(model: Path, tmp_path: Path) -> None:
    from transformers import T5Config, T5Model

    folder = tmp_path / "t5"
    config = T5Config(vocab_size=100, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    T5Model(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes())
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="so it cannot get tags"):
        with_tags(folder, tmp_path / "out")
