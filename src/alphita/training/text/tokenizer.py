"""The tokenizer of an encoder for whole texts: it neither cuts nor pads, and its special tokens are known."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphita.encoder import layout
from alphita.encoder.resolve import resolve
from alphita.encoder.term_tokenizer import TermTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Specials:
    """The tokens that an encoder puts around a text, and its padding."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    pad: int


def open_tokenizer(encoder: str | Path) -> tuple[Tokenizer, str, Specials]:
    """Return an encoder's tokenizer, which neither cuts nor pads, its hash, and the tokens it puts around a text.

    Raises:
        InputError: no such encoder, or its tokenizer cannot be read.
    """
    from tokenizers import Tokenizer, normalizers

    transformer, facts = layout.read(resolve(str(encoder)))
    own = TermTokenizer(transformer, facts)
    with tempfile.TemporaryDirectory() as scratch:
        own.save(Path(scratch))
        tokenizer = Tokenizer.from_file(f"{scratch}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if facts.lower_case:
        normalizer = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *normalizer])
    around = tokenizer.encode("a")
    inner = [place for place, special in enumerate(around.special_tokens_mask) if not special]
    before, behind = around.ids[: inner[0]], around.ids[inner[-1] + 1 :]
    return tokenizer, own.hash, Specials(tuple(before), tuple(behind), own.pad_id)
