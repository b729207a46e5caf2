"""A tiny random BERT in the layout of sentence-transformers, made here: no download, and quick."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

_WORDS = "heart attack lung cold disease chronic ##s ##ed ##itis of the type 1 2"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = list(string.ascii_lowercase)
VOCABULARY = [*SPECIAL, *_WORDS.split(), *LETTERS, *(f"##{letter}" for letter in LETTERS)]

# What the tokenizers and models of others are asked.
_REAL = (
    "Seizure|seizure|epileptic fit|Type 2 diabetes mellitus|T2DM|mal di schiena|β-thalassaemia||chronic obstructive "
    "pulmonary disease with (acute) lower respiratory infection|心筋梗塞|Ménière's disease"
)
REAL_TERMS = [*_REAL.split("|"), "x " * 400, "a" * 300, "heart\tattack\n"]
_TERMS = (
    "heart attack|Heart Attack|attacks of the heart|lung|cold|chronic disease of the lung type 2|carditis|a||"
    "diseased lungs|heart attack|type 1|mal di schiena|the heart of the cold lung disease"
)
TERMS = _TERMS.split("|")


def write_tokenizer(folder: Path) -> None:
    vocabulary = {token: number for number, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_padding(length=16)  # as some published tokenizers are saved
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True, "pad_token": "[PAD]"})
    )


def bert_config(**changes):
    from transformers import BertConfig

    facts = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "initializer_range": 0.3,
        "pad_token_id": 0,
    }
    return BertConfig(**(facts | changes))


def write_model(folder: Path, *, pooling: str | None = "mean", normalize: bool = True, seed: int = 0) -> Path:
    """Write a model; with pooling None, a plain transformers folder."""
    from transformers import BertModel

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = BertModel(bert_config())
    for name, value in model.named_parameters():
        if name.endswith(("bias", "LayerNorm.weight")):  # as in a trained model, not all 0 or 1
            value.data += 0.2 * torch.randn_like(value)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    if pooling is not None:
        modules = [("Transformer", ""), ("Pooling", "1_Pooling")] + [("Normalize", "2_Normalize")] * normalize
        listed = [
            {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (kind, path) in enumerate(modules)
        ]
        (folder / "modules.json").write_text(json.dumps(listed))
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(
            json.dumps(
                {
                    "word_embedding_dimension": 32,
                    "pooling_mode_cls_token": pooling == "cls",
                    "pooling_mode_mean_tokens": pooling == "mean",
                    "pooling_mode_max_tokens": pooling == "max",
                }
            )
        )
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12, "do_lower_case": False}))
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """Mean pooling, normalised, 12 tokens, 32 numbers."""
    return write_model(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture(scope="session")
def encoder(tiny):
    from alphita import TermEncoder

    return TermEncoder.load(tiny, precision="fp32", device="cpu")
