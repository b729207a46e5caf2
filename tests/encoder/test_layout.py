from __future__ import annotations

import json

import pytest

from alphita.encoder import layout
from alphita.encoder.layout import ModelSettings
from alphita.errors import InputError, UsageError

from .conftest import write_model


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
        (
            "1_Pooling/config.json",
            '{"pooling_mode_max_tokens": true, "pooling_mode_cls_token": true}',
            "reads mean and cls",
        ),
        ("config.json", "not JSON", r"config\.json: cannot be read"),
        ("alphita.json", '{"pooling": "mean"}', "lacks 'max_length'"),
        (
            "alphita.json",
            '{"pooling": "means", "max_length": 9, "normalize": true, "lower_case": false}',
            "did you mean 'mean'",
        ),
        (
            "alphita.json",
            '{"pooling": "mean", "max_length": "9", "normalize": true, "lower_case": false}',
            "not a length",
        ),
    ],
)
def test_damaged_files_are_named(folder, file, text, problem):
    (folder / file).write_text(text)
    with pytest.raises(InputError, match=problem):
        layout.read(folder)


def test_no_model_folder(tmp_path):
    with pytest.raises(InputError, match=r"no config\.json"):
        layout.read(tmp_path)
