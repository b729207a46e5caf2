"""More tokens for an encoder: WordPieces of another language or domain (`extend`), and tags around mentions.

A new WordPiece starts as the mean of the old pieces that spell it, as in ext-BERT; else as the mean of all plus noise.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita import artefact, drafts, textio
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import resolve, with_weights
from alphita.errors import InputError, UsageError
from alphita_lab.encoder.wordpieces import new_ids, open_wordpiece, split, why_not

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

EMBEDDINGS = "word_embeddings.weight"
# What a masked language model has a row of for each token: BERT, ELECTRA's generator, MPNet, DistilBERT.
HEADS = (
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
    "cls.predictions.bias",
    "generator_lm_head.weight",
    "generator_lm_head.bias",
    "lm_head.decoder.weight",
    "lm_head.decoder.bias",
    "lm_head.bias",
    "vocab_projector.weight",
    "vocab_projector.bias",
)


@dataclass(frozen=True)
class Extension:
    """What was done."""

    tokens_before: int  # tokens of the old vocabulary
    added: int  # tokens that are new
    composed: int
    left_out: dict[str, int]  # why (see `wordpieces.why_not`; "twice") -> how many of the given tokens were not added


def extend(
    encoder: str | Path,
    tokens: Sequence[str],
    out: Path | str,
    *,
    seed: int = 0,
    fields: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Extension:
    """Write an encoder with more tokens, as a model artefact."""
    out = Path(out)
    artefact.refuse_existing(out, force, " (the old one is moved aside)")
    like = open_wordpiece(encoder)
    reasons = Counter(reason for token in dict.fromkeys(tokens) if (reason := why_not(token, like)))
    added = [token for token in dict.fromkeys(tokens) if why_not(token, like) is None]
    if repeated := len(tokens) - len(set(tokens)):
        reasons["twice"] = repeated
    if not added:
        raise UsageError(f"there is no token to add to the vocabulary; left out: {dict(reasons)}")
    ids = new_ids(added, like)
    # The ids of the old pieces that spell each token; none where they cannot.
    old, prefix = like.get_vocab(with_added_tokens=False), like.model.continuing_subword_prefix
    spelt = [[old[piece] for piece in split(token, old, prefix) or ()] for token in added]
    done = Extension(like.get_vocab_size(), len(added), sum(map(bool, spelt)), dict(sorted(reasons.items())))
    source = TermEncoder.load(encoder, precision="fp32", device="cpu")
    with drafts.scratch() as scratch:
        stage = scratch
        source.save(stage, onnx=False)
        _extend_tokenizer(stage, ids, {token.content: n for n, token in like.get_added_tokens_decoder().items()})
        _extend_weights(layout.read(with_weights(resolve(str(encoder))))[0], stage, list(ids.values()), spelt, seed)
        with artefact.create(out, "model", force=force) as draft:
            # Loaded and saved once more, its hashes are those of what it now is.
            TermEncoder.load(stage, precision="fp32", device="cpu").save(draft.path, onnx=False)
            # The source's own names of the weights, and with them the head.
            layout.copy_files(stage, draft.path, ("config.json", "model.safetensors"))
            _extend_head(source.folder, draft.path, list(ids.values()), spelt, seed)
            draft.fields.update({"extended_from": source.content_hash, "seed": seed, **asdict(done), **(fields or {})})
    return done


def _extend_tokenizer(folder: Path, ids: Mapping[str, int], added: Mapping[str, int]) -> None:
    """Put tokens into tokenizer.json, and into vocab.txt where there is one."""
    file = folder / "tokenizer.json"
    content = textio.json_file(file)
    vocabulary = content["model"]["vocab"] | added | ids
    by_id = {number: token for token, number in vocabulary.items()}
    by_id |= {number: f"[unused_id_{number}]" for number in range(max(by_id)) if number not in by_id}
    by_id = dict(sorted(by_id.items()))
    content["model"]["vocab"] = vocabulary | {token: number for number, token in by_id.items()}
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    if (folder / "vocab.txt").is_file():
        (folder / "vocab.txt").write_text("\n".join(by_id.values()) + "\n", encoding="utf-8")


def _extend_weights(source: Path, target: Path, ids: list[int], spelt: list[list[int]], seed: int) -> None:
    """Write the weights in `source` with the new rows, and the config, into `target`."""
    from safetensors.torch import save_file

    state = _weights(source)
    embeddings = [name for name in state if name.endswith(EMBEDDINGS)]
    if len(embeddings) != 1:
        problem = f"has {len(embeddings)} tensors named …{EMBEDDINGS}, not one"
        raise InputError(problem, file=source, remedy="take an encoder such as BERT, RoBERTa or ELECTRA")
    before = len(state[embeddings[0]])
    for name, tensor in state.items():
        if (name in embeddings or name.endswith(HEADS)) and len(tensor) == before:
            state[name] = _with_rows(tensor, ids, spelt, seed)
    config = textio.json_file(source / "config.json")
    config["vocab_size"] = len(state[embeddings[0]])
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for shard in target.glob("model*.safetensors*"):
        shard.unlink()
    save_file(state, target / "model.safetensors", metadata={"format": "pt"})


def _extend_head(source: Path, target: Path, ids: list[int], spelt: list[list[int]], seed: int) -> None:
    """Write the head that lies beside the model in `source`, where there is one, with the new rows into `target`."""
    from safetensors.torch import load_file, save_file

    name = f"{layout.MASKED_LANGUAGE_HEAD}.safetensors"
    if not (source / name).is_file():
        return
    state = load_file(source / name)
    for tensor in {"bias", "decoder"} & state.keys():
        state[tensor] = _with_rows(state[tensor], ids, spelt, seed)
    save_file(state, target / name)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a model, by name, from one file or from several."""
    from safetensors.torch import load_file

    listing = folder / "model.safetensors.index.json"
    files = {"model.safetensors"}
    if listing.is_file():
        files = set(textio.json_file(listing)["weight_map"].values())
    return {name: tensor for file in sorted(files) for name, tensor in load_file(folder / file).items()}


def _with_rows(tensor: torch.Tensor, ids: list[int], spelt: list[list[int]], seed: int) -> torch.Tensor:
    """Return a tensor with a row for each new token.

    Args:
        tensor: (old,) or (old, dim), a row for each id, and perhaps spare ones.
        ids: (new,) ids, ascending.
        spelt: (new,) ids of the old pieces of each.

    Returns:
        (max(old, ids + 1),) or (max(old, ids + 1), dim) of the same type.
    """
    import torch

    old = tensor.double()
    rows = max(len(old), ids[-1] + 1)
    extended = torch.zeros(rows, *old.shape[1:], dtype=torch.float64)
    extended[: len(old)] = old
    used = old[: ids[0]]
    mean, deviation = used.mean(0), used.std(0, correction=0)
    chance = torch.Generator().manual_seed(seed)
    for number, pieces in zip(ids, spelt, strict=True):
        if pieces:
            extended[number] = old[pieces].mean(0)
        elif old.ndim == 1:
            extended[number] = mean
        else:
            extended[number] = mean + deviation * torch.randn(mean.shape, generator=chance, dtype=torch.float64)
    return extended.to(tensor.dtype)


TAGS = ("[M_s]", "[M_e]")


@dataclass(frozen=True)
class Tagged:
    """An encoder with tags."""

    encoder: str
    ids: tuple[int, int]
    tokenizer_hashes: frozenset[str]  # of its tokenizer with and without them; either divides a text without tags alike


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
    transformer, _ = layout.read(folder)
    _extend_weights(transformer, transformer, list(ids), [[] for _ in ids], seed)
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
