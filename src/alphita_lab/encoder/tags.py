"""The tags [M_s] and [M_e], which a text has before and behind a mention, as tokens of an encoder.

They are special tokens, one id each, which the tokenizer never divides. Their embeddings start as the mean of all plus
noise of their standard deviation, as in `vocabulary.extend`. Strings without a tag keep the vectors that they had.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita_lab.encoder.vocabulary import EMBEDDINGS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TAGS = ("[M_s]", "[M_e]")


@dataclass(frozen=True)
class Tagged:
    """An encoder with tags.

    Attributes:
        tokenizer_hashes: of its tokenizer with and without them; either divides a text without tags alike.
    """

    encoder: str
    ids: tuple[int, int]
    tokenizer_hashes: frozenset[str]


def with_tags(encoder: str | Path, folder: Path, *, seed: int = 0) -> Tagged:
    """Write an encoder with tags into `folder`; one that has them already is left where it is."""
    from tokenizers import AddedToken, Tokenizer

    source = TermEncoder.load(encoder, precision="fp32", device="cpu")
    source.save(folder, onnx=False)
    file = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if all(tokenizer.token_to_id(tag) is not None for tag in TAGS):
        return Tagged(str(encoder), _ids(tokenizer), frozenset({source.tokenizer_hash, _hash_without(tokenizer)}))
    taken = set(tokenizer.get_vocab().values())
    tokenizer.add_special_tokens([AddedToken(tag, normalized=False, special=True) for tag in TAGS])
    ids = _ids(tokenizer)
    if taken & set(ids):
        raise InputError("its tokenizer gives a new token an id that is in use", file=source.folder)
    tokenizer.save(str(file), pretty=False)
    _extend(folder, ids, seed, source.folder)
    hashes = {source.tokenizer_hash, hashlib.sha256(tokenizer.to_str().encode()).hexdigest()}
    return Tagged(str(folder), ids, frozenset(hashes))


def _ids(tokenizer: Tokenizer) -> tuple[int, int]:
    start, end = (tokenizer.token_to_id(tag) for tag in TAGS)
    assert start is not None and end is not None, "the tags were added"  # noqa: PT018
    return start, end


def _hash_without(tokenizer: Tokenizer) -> str:
    """Return the hash that the tokenizer had before the tags were added."""
    from tokenizers import Tokenizer

    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] not in TAGS]
    return hashlib.sha256(Tokenizer.from_str(json.dumps(content)).to_str().encode()).hexdigest()


def _extend(folder: Path, ids: tuple[int, int], seed: int, source: Path) -> None:
    """Give the word embeddings of the model in `folder`, a copy of `source`, a row for each tag."""
    import torch
    from safetensors.torch import load_file, save_file

    weights, config = folder / "model.safetensors", layout.read(folder)[0] / "config.json"
    state = load_file(weights) if weights.is_file() else {}
    names = [name for name in state if name.endswith(EMBEDDINGS)]
    if len(names) != 1:
        raise InputError(
            f"the encoder has {len(names)} tensors named …{EMBEDDINGS}, not one, so it cannot get tags",
            file=source,
            remedy="take an encoder such as BERT, RoBERTa, XLM-R or ELECTRA",
        )
    old = state[names[0]].double()
    used = old[: min(ids)]
    extended = torch.zeros(max(len(old), max(ids) + 1), old.shape[1], dtype=torch.float64)
    extended[: len(old)] = old
    chance = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(ids), old.shape[1], generator=chance, dtype=torch.float64)
    extended[list(ids)] = used.mean(0) + used.std(0, correction=0) * noise
    state[names[0]] = extended.to(state[names[0]].dtype)
    facts = json.loads(config.read_text(encoding="utf-8")) | {"vocab_size": len(extended)}
    config.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    save_file(state, weights, metadata={"format": "pt"})
