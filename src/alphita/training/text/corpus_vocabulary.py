"""The tokens that a corpus would add to an encoder's vocabulary, and what they do to its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alphita.encoder import wordpieces
from alphita.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EXAMPLES = 12


@dataclass(frozen=True)
class Learnt:
    """New tokens.

    Attributes:
        tokens: to add.
        figures: trained, the tokens of the vocabulary trained; in_common, the share of them, 0 to 1, that the encoder
            has; added; composed, the share of those that its tokens spell; and of each counted text NAME,
            NAME_tokens_a_word_before and _after.
        examples: words whose new tokens save the most: word, tokens before, tokens after.
    """

    tokens: list[str]
    figures: dict[str, float]
    examples: list[list[Any]]


def learn(words: Mapping[str, Mapping[str, int]], size: int, *, like: Tokenizer, min_frequency: int = 2) -> Learnt:
    """Train a WordPiece vocabulary on counted words and compare it with an encoder's.

    Args:
        words: name of a text -> how often each word occurs in it, from `wordpieces.count_words`.
        size: tokens of the vocabulary, characters included, at most.
        like: the encoder's tokenizer.
        min_frequency: occurrences that a character and a joined pair need.

    Raises:
        UsageError: no token can be added; or `size` is below the number of characters.
    """
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
