"""A BERT of two small layers with random weights, and an ontology of some diseases: both made in a moment."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.store import Terminology

SITES = ("heart", "liver", "kidney", "skin", "brain", "lung", "bone", "eye")
FINDINGS = (("pain", "ache"), ("swelling", "oedema"), ("bleeding", "haemorrhage"))


def tiny_model(folder: Path, *, dropout: float = 0.1, dim: int = 32) -> Path:
    """Write a model folder in the layout of transformers, with a WordPiece tokenizer over letters and some words."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    words += [*SITES, *itertools.chain(*FINDINGS), "of", "the", "disorder"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=dim,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def spread(folder: Path) -> Path:
    """Make a model's weights ten times as large, so that its random vectors lie well apart."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = {name: 10 * value if value.ndim > 1 else value for name, value in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})
    return folder


def tiny_terminology(
    folder: Path, *, types: bool = False, relations: bool = True, synonyms: bool = True
) -> Terminology:
    """Write and open an ontology: each finding at each site, three names each, below a disorder of that site.

    Args:
        folder: where it is written.
        types: give the concepts semantic types: each finding its own site's disorder is the root of.
        relations: place the findings below the disorders.
        synonyms: give the concepts more names than one.
    """
    from tests.stanzas import Stanza, disorders, ontology

    stanzas = [
        Stanza(one.number, one.names if synonyms else one.names[:1], parents=one.parents if relations else ())
        for one in disorders()
    ]
    roots = ",".join(f"T:{one.number:07d}" for one in disorders() if not one.parents)
    return ontology(folder, stanzas, roots if types else "")


def vectors_of(model: Path, strings: list[str]) -> NDArray[np.float64]:
    """Return the vectors of a model as training sees them, in float64."""
    import torch

    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.engine.forward import TermForward

    encoder = TermEncoder.load(model, precision="fp32", pooling="mean", max_length=48)
    forward = TermForward(encoder, precision="fp32")
    forward.module.eval()
    with torch.no_grad():
        return forward(encoder.tokenize(strings)).double().numpy()


def nearest_is_synonym(model: Path, terminology: Terminology) -> float:
    """Return the share of names whose nearest other name is of the same concept, by a model with mean pooling."""
    from alphita import TermEncoder
    from alphita_lab.training.terms.names import TrainingNames

    names = TrainingNames(terminology)
    concepts = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))
    vectors = TermEncoder.load(model, precision="fp32", pooling="mean").encode(names.strings)
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -1)
    return float((concepts[similarity.argmax(1)] == concepts).mean())
