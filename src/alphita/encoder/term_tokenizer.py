"""Strings to token ids, by the Rust tokenizer, without transformers."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import textio
from alphita.encoder import layout
from alphita.errors import InputError
from alphita.terminology.text import legacy_coder


@dataclass(frozen=True)
class Batch:
    """Token lists laid end to end, longest first: `ids` (tokens,), and `runs` of equally long ones, (rows, length)."""

    ids: NDArray[np.int64]
    runs: list[tuple[int, int]]

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.runs)


def by_token_budget(
    token_lists: Sequence[Sequence[int]], budget: int, *, one_length: bool = False
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """Yield batches and the row numbers they hold, longest rows first: what is too large for the memory fails at
    once."""
    lengths = np.fromiter((len(row) for row in token_lists), np.int64, len(token_lists))
    order = np.argsort(-lengths, kind="stable")
    sizes = lengths[order]
    ends = np.cumsum(sizes)
    start = 0
    while start < len(order):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + budget, side="right")))
        if one_length:
            stop = min(stop, int(np.searchsorted(-sizes, -sizes[start], side="right")))
        rows = order[start:stop]
        ids = np.fromiter((token for row in rows for token in token_lists[row]), np.int64, int(ends[stop - 1]) - before)
        values, counts = np.unique(-sizes[start:stop], return_counts=True)
        yield rows, Batch(ids, [(int(count), -int(value)) for value, count in zip(values, counts, strict=True)])
        start = stop


# Without these a masked language model's tokenizer has no [MASK] for transformers.
SPECIAL = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "unk_token": "[UNK]"}


class TermTokenizer:
    """A tokenizer set to cut at a length; its `hash`, sha256, does not depend on that length."""

    def __init__(self, folder: Path, settings: layout.ModelSettings) -> None:
        self.folder, self.settings = folder, settings
        self._tokenizer = _open(folder)
        known, size = _noted(folder, "vocab_size"), self._tokenizer.get_vocab_size()
        if isinstance(known, int) and size > known:
            raise InputError(
                f"the tokenizer has {size:,} tokens, the model {known:,}: they are of two models",
                file=folder,
                remedy="fetch the model again, all of its files",
            )
        # A saved tokenizer may be set to pad or cut; what it says of strings is the same.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.hash = hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()
        pads = (_noted(folder, "pad_token_id"), *map(self._tokenizer.token_to_id, ("[PAD]", "<pad>")))
        self.pad_id = next((number for number in pads if isinstance(number, int)), 0)
        self._tokenizer.enable_truncation(settings.max_length)

    def __call__(self, strings: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each string, special ones included, cut to the maximal length."""
        texts = list(strings)
        if self.settings.pooling == "legacy_coder":
            texts = [legacy_coder(text) for text in texts]
        if self.settings.lower_case:
            texts = [text.lower() for text in texts]
        try:
            encodings = self._tokenizer.encode_batch_fast(texts)
        except (TypeError, UnicodeEncodeError):
            # Half a surrogate pair is no Unicode text: it becomes "?".
            texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
            encodings = self._tokenizer.encode_batch_fast(texts)
        # A tokenizer without special tokens gives an empty string no token at all.
        return [encoding.ids or [self.pad_id] for encoding in encodings]

    def random_terms(self, n: int) -> list[str]:
        """Return `n` terms of 1 to 5 random words of the vocabulary, always the same."""
        vocabulary = (token.removeprefix("▁").removeprefix("Ġ") for token in self._tokenizer.get_vocab())
        words = sorted({word for word in vocabulary if word.isalpha()}) or ["a"]
        chance = random.Random(0)
        return [" ".join(chance.choices(words, k=chance.randint(1, 5))) for _ in range(n)]

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and what transformers wants beside it."""
        if not (self.folder / "tokenizer.json").is_file():
            _by_transformers(self.folder).save_pretrained(folder)
        else:
            layout.copy_files(self.folder, folder, layout.TOKENIZER_FILES)
        self._tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        config = folder / "tokenizer_config.json"
        facts = textio.json_file(config) if config.is_file() else {}
        facts = {"tokenizer_class": "PreTrainedTokenizerFast", **facts, "model_max_length": self.settings.max_length}
        # Notes of an earlier padding or cutting would be applied again.
        for key in ("max_length", "pad_to_multiple_of", "stride", "truncation_strategy"):
            facts.pop(key, None)
        if "pad_token" not in facts and (token := self._tokenizer.id_to_token(self.pad_id)) is not None:
            facts["pad_token"] = token
        known = {name: token for name, token in SPECIAL.items() if self._tokenizer.token_to_id(token) is not None}
        facts = known | facts
        config.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _open(folder: Path) -> Any:  # noqa: ANN401 - a tokenizers.Tokenizer
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if file.is_file():
        try:
            return Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises bare Exception
            raise InputError(f"cannot be read: {error}", file=file) from None
    if importlib.util.find_spec("transformers") is None:
        raise InputError(
            "has no tokenizer.json",
            file=folder,
            remedy="open and save it once with 'alphita[train]' installed: TermEncoder.load(FOLDER).save(NEW)",
        )
    return Tokenizer.from_str(_by_transformers(folder).backend_tokenizer.to_str())


def _by_transformers(folder: Path) -> Any:  # noqa: ANN401 - a transformers tokenizer
    import transformers

    if not any(
        (folder / name).is_file() for name in ("vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")
    ):
        raise InputError("has no tokenizer: neither tokenizer.json nor a vocabulary file", file=folder)
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # many kinds, for damaged files
        raise InputError(f"the tokenizer cannot be loaded: {error}", file=folder) from error


def _noted(folder: Path, key: str) -> object:
    """Return what the model's config says of a key; None where it does not, or there is none to be read."""
    try:
        return textio.json_file(folder / "config.json").get(key)
    except (OSError, ValueError, AttributeError):
        return None
