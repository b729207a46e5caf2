"""Words of common language: those of an encoder's vocabulary, which every encoder brings along, and a dictionary's."""

from __future__ import annotations

import functools
import gzip
import importlib.resources
import json
from pathlib import Path

WORDPIECE, BYTES = "##", "Ġ"
MARKS = (WORDPIECE, "▁", BYTES)


@functools.lru_cache(maxsize=4)
def whole_words(model: Path) -> tuple[list[str], list[str]]:
    """Return the whole words (of 3 letters and more) and the pieces of words of a model folder's tokenizer."""
    try:
        entries = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        entries = sorted(entries, key=entries.__getitem__) if isinstance(entries, dict) else entries
        tokens = [entry if isinstance(entry, str) else entry[0] for entry in entries]
    except (OSError, ValueError, KeyError, TypeError):
        return [], []
    # SentencePiece ("▁") and byte-level BPE ("Ġ") mark what begins a word, WordPiece ("##") what does not.
    mark = max(MARKS, key=lambda sign: sum(token.startswith(sign) for token in tokens))
    if mark == BYTES:
        # Its other letters stand for bytes.
        tokens = [token for token in tokens if token.removeprefix(mark).isascii()]
    whole: list[str] = []
    pieces: list[str] = []
    for token in tokens:
        inside = token.startswith(mark) == (mark == WORDPIECE)
        letters = token.removeprefix(mark)
        if letters.isalpha() and len(letters) >= (2 if inside else 3):
            (pieces if inside else whole).append(letters.lower())
    return list(dict.fromkeys(whole)), list(dict.fromkeys(pieces))


@functools.lru_cache(maxsize=4)
def common_words(model: Path) -> frozenset[str]:
    """Return the whole words of a model folder's tokenizer, as a set."""
    return frozenset(whole_words(model)[0])


@functools.lru_cache(maxsize=4)
def everyday_words(model: Path) -> frozenset[str]:
    """Return the common words of a model folder and the English ones, made once: the union takes milliseconds."""
    return common_words(model) | english_words()


@functools.cache
def english_words() -> frozenset[str]:
    """Return the 160,000 English words, with their inflections, that pyspellchecker carries, in lower case."""
    words = importlib.resources.files("spellchecker").joinpath("resources", "en.json.gz").read_bytes()
    return frozenset(json.loads(gzip.decompress(words)))
