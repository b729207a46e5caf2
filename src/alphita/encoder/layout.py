"""The model folder: the layout of sentence-transformers, read and written without that library.

config.json, model.safetensors, tokenizer.json, ...   the transformer
modules.json, 1_Pooling/, 2_Normalize/                what follows it
sentence_bert_config.json                             the maximal length
alphita.json                                          pooling, length, normalisation again, for alphita
onnx/                                                 the same model for the runtime without torch
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError, UsageError
from alphita.registry import unknown

if TYPE_CHECKING:
    import torch

LEGACY_LENGTH = 32
"""Tokens to which the published CODER code pads every name (Yuan et al. 2020, §4.1)."""


def cls(hidden: torch.Tensor) -> torch.Tensor:
    """Return the first token's state h_[CLS], (n, d), of hidden states (n, length, d) (Yuan et al. 2022, §3.2)."""
    return hidden[:, 0]


def mean(hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return the mean over the real tokens, (n, d) (Yuan et al. 2022, §3.2).

    Args:
        hidden: (n, length, d) last hidden states.
        mask: (n, length), 1 at tokens and 0 at padding; None where nothing is padded.
    """
    if mask is None:
        return hidden.mean(1)
    weights = mask.to(hidden.dtype).unsqueeze(-1)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def legacy_coder(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return BERT's pooler output, tanh(W h_[CLS] + b), (n, d): the term vector of the code of Yuan et al. 2020.

    Args:
        hidden: (n, 32, d) last hidden states.
        weight: (d, d) of the pooler.
        bias: (d,) of the pooler.
    """
    return (hidden[:, 0] @ weight.T + bias).tanh()


Pooling = Literal["mean", "cls", "legacy_coder"]
POOLINGS: tuple[Pooling, ...] = ("mean", "cls", "legacy_coder")
SETTINGS = "alphita.json"
# The file of a head (`encoder.head`).
HEAD = "index_head.safetensors"
DEFAULT_MAX_LENGTH = 64
SHORTEST = 3
# What stands before the model_type of a BERT with entities injected, in config.json: no other library knows it.
INJECTED = "kge_injected_"
# The module of sentence-transformers for what it has none for, and what alphita.json then says.
OWN_MODULE = "alphita.integrations.sentence_transformers.EncoderModule"
OPENS_ALONE = {
    "opens_with": "alphita.TermEncoder.load; beside alphita, SentenceTransformer(folder, trust_remote_code=True)"
}
# A head that guesses masked tokens, trained with the encoder and kept beside it under this name.
MASKED_LANGUAGE_HEAD = "masked_language_head"
# Weights as torch pickles them, in one file, or in several that a list names.
PICKLED, PICKLED_SHARDS = "pytorch_model.bin", "pytorch_model.bin.index.json"
ONNX_FILES = {"int8": "onnx/model_int8.onnx", "fp32": "onnx/model.onnx"}
# What a tokenizer needs beside tokenizer.json, under transformers.
TOKENIZER_FILES = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json"),
    *("merges.txt", "sentencepiece.bpe.model", "spiece.model"),
)


@dataclass(frozen=True)
class ModelSettings:
    """How a transformer's output becomes a term vector.

    Attributes:
        pooling: mean over tokens, [CLS], or legacy_coder (the published CODER code's tanh pooler, PAD attended).
        max_length: tokens a term, special ones counted; longer terms are cut.
        normalize: whether vectors are scaled to length 1.
        lower_case: whether terms are lower-cased before the tokenizer sees them.
    """

    pooling: Pooling
    max_length: int
    normalize: bool
    lower_case: bool = False


def read(folder: Path, *, pooling: str | None = None, max_length: int | None = None) -> tuple[Path, ModelSettings]:
    """Return the transformer's folder and the settings of the model in `folder`."""
    if pooling is not None and pooling not in POOLINGS:
        raise UsageError(unknown("pooling", pooling, POOLINGS))
    if max_length is not None and max_length < SHORTEST:
        raise UsageError(f"max_length must be {SHORTEST} or more, not {max_length}")
    transformer = folder
    if (folder / SETTINGS).is_file():
        settings = _own(folder / SETTINGS)
    elif (folder / "modules.json").is_file():
        transformer, settings = _sentence_transformers(folder)
    else:
        settings = ModelSettings("mean", DEFAULT_MAX_LENGTH, normalize=True)
    if not (transformer / "config.json").is_file():
        raise InputError("not a model folder: no config.json", file=folder, remedy="give a trained or downloaded model")
    if pooling is not None:
        settings = replace(settings, pooling=pooling)
    length = min(max_length or settings.max_length, _positions(transformer / "config.json"))
    if settings.pooling == "legacy_coder":
        length = min(length, LEGACY_LENGTH)
    return transformer, replace(settings, max_length=length)


def _own(file: Path) -> ModelSettings:
    facts = _json(file)
    try:
        settings = ModelSettings(**{field.name: facts[field.name] for field in fields(ModelSettings)})
    except (KeyError, TypeError) as error:
        raise InputError(f"lacks {error}", file=file, remedy="save the model again") from None
    if settings.pooling not in POOLINGS:
        raise InputError(unknown("pooling", str(settings.pooling), POOLINGS), file=file, field="pooling")
    if type(settings.max_length) is not int or settings.max_length < SHORTEST:
        raise InputError(
            "not a length", file=file, field="max_length", value=settings.max_length, remedy=f"{SHORTEST} or more"
        )
    return settings


def _sentence_transformers(folder: Path) -> tuple[Path, ModelSettings]:
    listing = folder / "modules.json"
    try:
        by_kind = {module["type"].rsplit(".", 1)[-1]: folder / module["path"] for module in _json(listing)}
    except (TypeError, KeyError, AttributeError):
        raise InputError("is not a list of modules with type and path", file=listing) from None
    if "Transformer" not in by_kind:
        raise InputError("has no Transformer module", file=listing)
    others = set(by_kind) - {"Transformer", "Pooling", "Normalize"}
    if others:
        raise InputError(f"has modules that alphita cannot reproduce: {sorted(others)}", file=listing)
    pooling = _pooling(by_kind["Pooling"] / "config.json") if "Pooling" in by_kind else "mean"
    file = by_kind["Transformer"] / "sentence_bert_config.json"
    facts: dict[str, Any] = _json(file) if file.is_file() else {}
    tokenizer = by_kind["Transformer"] / "tokenizer_config.json"
    # Newer versions of that library note the length in the tokenizer's config.
    length = facts.get("max_seq_length") or (
        _json(tokenizer).get("model_max_length") if tokenizer.is_file() else DEFAULT_MAX_LENGTH
    )
    settings = ModelSettings(
        pooling, int(length or DEFAULT_MAX_LENGTH), "Normalize" in by_kind, bool(facts.get("do_lower_case"))
    )
    return by_kind["Transformer"], settings


def _pooling(file: Path) -> Pooling:
    facts = _json(file)
    mode = facts.get("pooling_mode")
    if mode is None:
        old = [
            key.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
            for key, value in facts.items()
            if key.startswith("pooling_mode_") and value
        ]
        mode = old[0] if len(old) == 1 else old or "mean"
    if mode not in ("mean", "cls"):
        raise InputError("pools otherwise than alphita can: it reads mean and cls", file=file, value=mode)
    result: Pooling = mode
    return result


BEHIND_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")


def _positions(file: Path) -> int:
    """Return how many tokens a row may have, by the number of position embeddings."""
    config = _json(file)
    positions = config.get("max_position_embeddings") if isinstance(config, dict) else None
    if not isinstance(positions, int):
        return 512
    # RoBERTa's positions start behind the padding token's.
    kind = str(config.get("model_type")).removeprefix(INJECTED)
    padding = config.get("pad_token_id")
    before = (1 if padding is None else padding) + 1 if kind in BEHIND_PADDING else 0
    return positions - before


def pickled(folder: Path) -> bool:
    """Tell whether the weights of the model in `folder` are pickled, and come in no other form."""
    safe = (*folder.glob("*.safetensors"), *folder.glob("0_*/*.safetensors"))
    return not safe and bool([*folder.glob(f"{PICKLED}*"), *folder.glob(f"0_*/{PICKLED}*")])


def int8_alone(folder: Path) -> bool:
    """Tell whether the model in `folder` has no weights for torch, only the form that is exported to int8."""
    weights = (*folder.glob("*.safetensors*"), *folder.glob("pytorch_model*"))
    return {path.name for path in weights} <= {HEAD} and (folder / ONNX_FILES["int8"]).is_file()


def is_own(folder: Path) -> bool:
    """Tell whether Alphita saved the model in `folder`."""
    return (folder / SETTINGS).is_file()


def injected(folder: Path) -> bool:
    """Tell whether the model in `folder` has entities injected (see `injected_bert`)."""
    config = _json(folder / "config.json")
    return isinstance(config, dict) and str(config.get("model_type")).startswith(INJECTED)


def noted(folder: Path, key: str) -> Any:  # noqa: ANN401 - a JSON value
    """Return what alphita noted in alphita.json when it saved the model; None for a model from elsewhere."""
    return _json(folder / SETTINGS).get(key) if is_own(folder) else None


def write(folder: Path, settings: ModelSettings, dim: int, **notes: str) -> None:
    """Write what turns a transformers folder into one that `SentenceTransformer(folder)` opens with the same
    vectors."""
    alone = settings.pooling == "legacy_coder" or injected(folder) or int8_alone(folder) or (folder / HEAD).exists()
    _write(folder / SETTINGS, {**asdict(settings), "dim": dim, **notes, **(OPENS_ALONE if alone else {})})
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    if alone:
        _write(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": OWN_MODULE}])
        return
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")] + [("Normalize", "2_Normalize")] * settings.normalize
    for _, path in kinds[1:]:
        (folder / path).mkdir(exist_ok=True)
    # The old module names and keys: every version of that library reads them.
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (kind, path) in enumerate(kinds)
    ]
    _write(folder / "modules.json", modules)
    pooling = {"word_embedding_dimension": dim} | {
        f"pooling_mode_{mode}": mode.startswith(settings.pooling)
        for mode in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    }
    pooling["pooling_mode_mean_sqrt_len_tokens"] = False
    _write(folder / "1_Pooling" / "config.json", pooling)
    _write(
        folder / "sentence_bert_config.json",
        {"max_seq_length": settings.max_length, "do_lower_case": settings.lower_case},
    )


def copy_files(source: Path, target: Path, names: tuple[str, ...]) -> None:
    """Copy those of `names` that `source` has."""
    for name in names:
        # An encoder may be saved where it was loaded from.
        if (source / name).is_file() and source.resolve() != target.resolve():
            shutil.copyfile(source / name, target / name)


def _json(file: Path) -> Any:  # noqa: ANN401
    try:
        return textio.json_file(file)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", file=file) from None


def _write(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def fill(head: torch.nn.Module, saved: Mapping[str, torch.Tensor], file: Path, name: str) -> None:
    """Give a head the weights that were saved for it; it keeps its own where there are none."""
    if not saved:
        return
    try:
        head.load_state_dict(saved)
    except RuntimeError as error:
        problem = str(error).strip().splitlines()[-1].strip()
        raise InputError(
            f"the {name} does not fit the encoder: {problem}",
            file=file,
            remedy="take the encoder that it was trained with, or remove it",
        ) from None


LEARNED = "learned.npy"


def write_learned(folder: Path, strings: Iterable[str]) -> None:
    """Note in a model's folder that it was trained on these cleaned strings."""
    with artefact.atomic_file(folder / LEARNED) as file:
        np.save(file, np.unique(_string_hashes(list(strings))))


def copy_learned(source: Path, folder: Path) -> None:
    """Copy the list of one model's folder, if there is one, into another's."""
    if has_learned_list(source) and source.resolve() != folder.resolve():
        shutil.copyfile(source / LEARNED, folder / LEARNED)


def has_learned_list(folder: Path) -> bool:
    """Tell whether the model of a folder has a list."""
    return (folder / LEARNED).is_file()


def has_learned(folder: Path, strings: Sequence[str]) -> NDArray[np.bool_]:
    """Tell which cleaned strings the model of a folder was trained on, (n,); none where it has no list."""
    if not has_learned_list(folder):
        return np.zeros(len(strings), bool)
    return np.isin(_string_hashes(strings), np.load(folder / LEARNED, allow_pickle=False))


def _string_hashes(strings: Sequence[str]) -> NDArray[np.uint32]:
    return np.fromiter(
        (zlib.crc32(string.encode("utf-8", "surrogatepass")) for string in strings), np.uint32, len(strings)
    )
