"""A WordPiece tokenizer trained from nothing: for an encoder that is to be trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from alphita.encoder import wordpieces

# BERT's special tokens, in its order.
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def empty(*, lower_case: bool = True, accents: bool = False) -> Tokenizer:
    """Return a tokenizer that knows the special tokens only, and divides texts as BERT's does.

    Args:
        lower_case: whether case is dropped.
        accents: whether accents are kept; BERT's uncased models drop them.
    """
    return _tokenizer(dict(zip(SPECIAL, range(len(SPECIAL)), strict=True)), lower_case=lower_case, accents=accents)


def train(
    words: Mapping[str, int],
    size: int,
    file: Path,
    *,
    lower_case: bool = True,
    accents: bool = False,
    min_frequency: int = 2,
) -> int:
    """Train a vocabulary on counted words and write its tokenizer to `file`; the same words give the same file.

    Args:
        words: how often each occurs, from `wordpieces.count_words` with the tokenizer `empty`.
        size: tokens at most, special ones counted.
        file: tokenizer.json.
        lower_case: see `empty`; so are accents.
        accents: there.
        min_frequency: occurrences that a character and a joined pair need.

    Returns:
        How many tokens it has.

    Raises:
        UsageError: `size` is below the number of characters, or no word is left.
    """
    like = empty(lower_case=lower_case, accents=accents)
    learnt = wordpieces.train_wordpiece(words, size - len(SPECIAL), like=like, min_frequency=min_frequency)
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*SPECIAL, *learnt]))}
    _tokenizer(vocabulary, lower_case=lower_case, accents=accents).save(str(file))
    return len(vocabulary)


def _tokenizer(vocabulary: dict[str, int], *, lower_case: bool, accents: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case, strip_accents=not accents)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer
