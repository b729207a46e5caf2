from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.layout import ModelSettings
from alphita.encoder.term_tokenizer import by_token_budget
from alphita.errors import InputError, UsageError
from alphita.terminology.text import legacy_coder
from tests.tiny import tiny_model

from .conftest import write_model

OWN = '{"pooling": "mean", "max_length": 9, "normalize": true, "lower_case": false}'


def edit(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "model")


def test_sentence_transformers_layout(tiny):
    assert layout.read(tiny) == (tiny, ModelSettings("mean", 12, normalize=True))


def test_newer_layout(folder):
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"embedding_dimension": 32, "pooling_mode": "cls"}))
    (folder / "sentence_bert_config.json").write_text("{}")
    edit(folder / "tokenizer_config.json", model_max_length=20)
    listed = json.loads((folder / "modules.json").read_text())[:2]
    listed[1]["type"] = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
    (folder / "modules.json").write_text(json.dumps(listed))
    assert layout.read(folder)[1] == ModelSettings("cls", 20, normalize=False)


def test_plain_layout_gets_the_mean(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        layout.read(tmp_path)
    folder = write_model(tmp_path / "plain", pooling=None)
    # The model has positions for 40 tokens only.
    assert layout.read(folder)[1] == ModelSettings("mean", 40, normalize=True)


@pytest.mark.parametrize(
    ("facts", "positions"),
    [
        ({"model_type": "mpnet", "pad_token_id": 1}, 512),
        ({"model_type": "roberta"}, 512),
        ({"model_type": "bert"}, 514),
        ({"model_type": "xlm-roberta", "pad_token_id": None}, 512),
    ],
)
def test_positions_that_stand_behind_the_paddings_are_fewer(tmp_path, facts, positions):
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 514, **facts}))
    assert layout.read(tmp_path, max_length=999)[1].max_length == positions


def test_choices_replace_the_folders_own(tiny):
    assert layout.read(tiny, pooling="cls", max_length=7)[1] == ModelSettings("cls", 7, normalize=True)
    assert layout.read(tiny, pooling="legacy_coder", max_length=64)[1].max_length == 32
    assert layout.read(tiny, max_length=999)[1].max_length == 40
    with pytest.raises(UsageError, match=r"unknown pooling 'meen'; did you mean 'mean'"):
        layout.read(tiny, pooling="meen")
    with pytest.raises(UsageError, match="3 or more, not 2"):
        layout.read(tiny, max_length=2)


@pytest.mark.parametrize("settings", [ModelSettings("mean", 9, True), ModelSettings("cls", 30, False, True)])
def test_written_and_read_again(tmp_path, settings):
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 64}))
    layout.write(tmp_path, settings, 32, weights_hash="abc")
    assert layout.read(tmp_path) == (tmp_path, settings)
    assert layout.noted(tmp_path, "weights_hash") == "abc"
    (tmp_path / "alphita.json").unlink()
    assert layout.read(tmp_path) == (tmp_path, settings)


def test_a_legacy_model_says_what_opens_it(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    layout.write(tmp_path, ModelSettings("legacy_coder", 32, True), 32)
    assert layout.OWN_MODULE in (tmp_path / "modules.json").read_text()
    assert "TermEncoder.load" in layout.noted(tmp_path, "opens_with")
    assert layout.read(tmp_path)[1].pooling == "legacy_coder"


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("modules.json", "[{", r"modules\.json: cannot be read"),
        ("modules.json", "{}", "no Transformer"),
        ("modules.json", '[{"path": ""}]', "not a list of modules"),
        ("modules.json", '[{"path": "", "type": "a.Transformer"}, {"path": "3_Dense", "type": "a.Dense"}]', "Dense"),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "reads mean and cls.*max"),
        ("config.json", "not JSON", r"config\.json: cannot be read"),
        ("alphita.json", '{"pooling": "mean"}', "lacks 'max_length'"),
        ("alphita.json", OWN.replace('"mean"', '"means"'), "did you mean 'mean'"),
        ("alphita.json", OWN.replace("9", '"9"'), "not a length"),
    ],
)
def test_damaged_files_are_named(folder, file, text, problem):
    (folder / file).write_text(text)
    with pytest.raises(InputError, match=problem):
        layout.read(folder)


HIDDEN = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [100.0, 100.0]], [[5.0, 5.0], [7.0, 9.0], [9.0, 13.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


def test_mean_and_cls():
    assert layout.mean(HIDDEN, MASK).tolist() == [[2.0, 4.0], [7.0, 9.0]]  # padding is left out
    assert layout.mean(HIDDEN[1:], None).tolist() == [[7.0, 9.0]]
    assert layout.mean(HIDDEN, torch.zeros(2, 3)).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert layout.cls(HIDDEN).tolist() == [[1.0, 2.0], [5.0, 5.0]]


def test_legacy_coder_is_the_tanh_pooler():
    weight, bias = torch.tensor([[0.1, 0.2], [0.0, -0.1]]), torch.tensor([0.05, 0.0])
    expected = [[math.tanh(0.1 * x + 0.2 * y + 0.05), math.tanh(-0.1 * y)] for x, y in [(1.0, 2.0), (5.0, 5.0)]]
    torch.testing.assert_close(layout.legacy_coder(HIDDEN, weight, bias), torch.tensor(expected))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("Diabetes Mellitus NOS", "diabetes mellitus"),
        ("Beta-Thalassaemia (disorder)", "beta thalassaemia"),
        ("NOSology", "nosology"),
        ("", ""),
    ],
)
def test_legacy_names(name, read):
    assert legacy_coder(name) == read


def test_a_list_tells_what_was_learned_and_goes_with_the_model(tmp_path: Path) -> None:
    asked = ["cold", "fever", "k\u00e4lte", "\ud800", ""]
    folder = tiny_model(tmp_path / "model")
    assert not layout.has_learned(folder, asked).any()
    layout.write_learned(folder, ["fever", "\ud800", "fever", "k\u00e4lte"])
    assert layout.has_learned(folder, asked).tolist() == [False, True, True, True, False]
    TermEncoder.load(folder, precision="fp32").save(tmp_path / "copy", onnx=False)
    assert layout.has_learned(tmp_path / "copy", asked).tolist() == [False, True, True, True, False]
    assert layout.has_learned(folder, []).tolist() == []
    # Of other strings few are taken for learned.
    layout.write_learned(tmp_path, (f"learned {number}" for number in range(100_000)))
    assert layout.has_learned(tmp_path, [f"learned {number}" for number in range(0, 100_000, 7)]).all()
    assert layout.has_learned(tmp_path, [f"new {number}" for number in range(100_000)]).mean() < 0.001


TOKEN_LISTS = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), max_size=30)


@given(TOKEN_LISTS, st.integers(1, 40), st.booleans())
def test_every_row_once_within_the_budget(token_lists, budget, one_length):
    seen = []
    for rows, batch in by_token_budget(token_lists, budget, one_length=one_length):
        assert len(rows) == batch.rows
        assert len(batch.ids) <= budget or len(rows) == 1
        assert len(batch.runs) == 1 or not one_length
        at, place = 0, 0
        for count, length in batch.runs:
            for _ in range(count):
                assert batch.ids[at : at + length].tolist() == token_lists[rows[place]]
                at, place = at + length, place + 1
        assert at == len(batch.ids)
        seen.extend(rows.tolist())
    assert sorted(seen) == list(range(len(token_lists)))


def test_longest_first_and_runs_of_one_length():
    ((rows, batch),) = by_token_budget([[1], [2, 3, 4], [5], [6, 7]], 100)
    assert rows.tolist() == [1, 3, 0, 2]
    assert batch.ids.tolist() == [2, 3, 4, 6, 7, 1, 5]
    assert batch.runs == [(1, 3), (1, 2), (2, 1)]
