"""Vocabularies of a corpus: an encoder's own tokenizer, the tokens that the corpus would add to it, and a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from alphita import drafts
from alphita.encoder import layout, wordpieces
from alphita.encoder.resolve import resolve
from alphita.encoder.term_tokenizer import TermTokenizer
from alphita.errors import UsageError


@dataclass(frozen=True)
class Specials:
    """The tokens that an encoder puts around a text, and its padding."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    pad: int


def open_tokenizer(encoder: str | Path) -> tuple[Tokenizer, str, Specials]:
    """Return an encoder's tokenizer, which neither cuts nor pads, its hash, and the tokens it puts around a text."""
    transformer, facts = layout.read(resolve(str(encoder)))
    own = TermTokenizer(transformer, facts)
    with drafts.scratch() as scratch:
        own.save(scratch)
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


EXAMPLES = 12


@dataclass(frozen=True)
class Learnt:
    """New tokens.

    Attributes:
        figures: trained, the tokens of the vocabulary trained; in_common, the share of them, 0 to 1, that the encoder
            has; added; composed, the share of those that its tokens spell; and of each counted text NAME,
            NAME_tokens_a_word_before and _after.
        examples: words whose new tokens save the most: word, tokens before, tokens after.
    """

    tokens: list[str]
    figures: dict[str, float]
    examples: list[list[Any]]


def learn(words: Mapping[str, Mapping[str, int]], size: int, *, like: Tokenizer, min_frequency: int = 2) -> Learnt:
    """Train a WordPiece vocabulary on counted words and compare it with an encoder's."""
    together: Counter[str] = Counter()
    for counted in words.values():
        together.update(counted)
    trained = wordpieces.train_wordpiece(together, size, like=like, min_frequency=min_frequency)
    reasons = {token: wordpieces.why_not(token, like) for token in trained}
    tokens = [token for token, reason in reasons.items() if reason is None]
    known = sum(reason == "known" for reason in reasons.values())
    if not tokens:
        raise UsageError(
            f"the vocabulary gains nothing: of {len(trained):,} tokens trained {known:,} are known, and none of the "
            "others can be added; give other text or a larger vocabulary, or set vocabulary=0 for masked language "
            "modelling alone"
        )
    old, prefix = like.get_vocab(with_added_tokens=False), like.model.continuing_subword_prefix
    spelt = sum(wordpieces.split(token, old, prefix) is not None for token in tokens)
    figures: dict[str, float] = {
        "trained": len(trained),
        "in_common": known / len(trained),
        "added": len(tokens),
        "composed": spelt / len(tokens),
    }
    new = wordpieces.extended_model(tokens, like)
    for name, counted in words.items():
        for when, model in (("before", like.model), ("after", new)):
            figures[f"{name}_tokens_a_word_{when}"] = wordpieces.fertility(counted, model).tokens_a_word
    return Learnt(tokens, figures, _examples(together, like.model, new))


def _examples(words: Mapping[str, int], old: Any, new: Any) -> list[list[Any]]:  # noqa: ANN401 - WordPiece models
    saved = []
    for word, count in words.items():
        before, after = ([piece.value for piece in model.tokenize(word)] for model in (old, new))
        saved.append((count * (len(after) - len(before)), word, before, after))
    return [[word, before, after] for gain, word, before, after in sorted(saved)[:EXAMPLES] if gain < 0]


# BERT's special tokens, in its order.
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def empty(*, lower_case: bool = True, accents: bool = False) -> Tokenizer:
    """Return a tokenizer that knows the special tokens only, and divides texts as BERT's does."""
    return _tokenizer(dict(zip(SPECIAL, range(len(SPECIAL)), strict=True)), lower_case=lower_case, accents=accents)


def train(words: Mapping[str, int], size: int, file: Path, *, lower_case: bool = True, accents: bool = False) -> int:
    """Train a vocabulary on counted words and write its tokenizer to `file`; the same words give the same file."""
    like = empty(lower_case=lower_case, accents=accents)
    learnt = wordpieces.train_wordpiece(words, size - len(SPECIAL), like=like)
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
