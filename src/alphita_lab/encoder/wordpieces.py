"""Which WordPieces to add to an encoder's vocabulary: trained on texts, chosen by the tokens they save.

    like = open_wordpiece("minilm")
    words = count_words(texts, like)
    tokens = propose(words, 30_000, like=like, keep=15_000)

Texts are normalised and divided into words as the encoder's own tokenizer does it, for its embeddings were trained on
such words: an uncased BERT lower-cases, strips accents (`perché` becomes `perche`) and divides Chinese into characters.
Splits are greedy, as WordPiece's are: from the left, the longest piece of the vocabulary each time.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita import drafts
from alphita.encoder import layout
from alphita.encoder.resolve import resolve
from alphita.encoder.term_tokenizer import TermTokenizer
from alphita.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# White space at which every tokenizer divides: between these a text may be taken apart before it is normalised.
PLAIN_WORD = re.compile(r"[^ \t\r\n]+")
SPECIAL = re.compile(r"\[.+\]|<.+>")
# Copies of a word that are handed to the trainer as one text.
COPIES = 10_000


class TooSmall(UsageError):
    """A vocabulary has no room for the `characters` of its texts; those inside a word count too (a and ##a)."""

    def __init__(self, size: int, characters: int) -> None:
        super().__init__(f"size {size:,} is below the {characters:,} characters of the texts; take a larger one")
        self.characters = characters


def uncut(encoder: str | Path) -> tuple[Tokenizer, TermTokenizer]:
    """Return an encoder's tokenizer, which neither cuts nor pads, and what was opened for it."""
    from tokenizers import Tokenizer, normalizers

    transformer, settings = layout.read(resolve(str(encoder)))
    own = TermTokenizer(transformer, settings)
    with drafts.scratch() as scratch:
        own.save(scratch)
        tokenizer = Tokenizer.from_file(f"{scratch}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if settings.lower_case:
        normalizer = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *normalizer])
    return tokenizer, own


def open_wordpiece(encoder: str | Path) -> Tokenizer:
    """Return an encoder's tokenizer, which neither cuts nor pads."""
    tokenizer, _ = uncut(encoder)
    kind = type(tokenizer.model).__name__
    if kind != "WordPiece":
        raise UsageError(
            f"the tokenizer of {encoder} is of kind {kind}; only WordPiece vocabularies can be extended: BERT's, "
            "MiniLM's, ELECTRA's, DistilBERT's and their like"
        )
    return tokenizer


def count_words(texts: Iterable[str], like: Tokenizer) -> Counter[str]:
    """Count the words of texts, as the tokenizer `like` normalises and divides them."""
    plain: Counter[str] = Counter()
    for text in texts:
        plain.update(PLAIN_WORD.findall(text))
    words: Counter[str] = Counter()
    for part, count in plain.items():
        for word in words_of(part, like):
            words[word] += count
    return words


def words_of(text: str, like: Tokenizer) -> list[str]:
    """Return the words of one text, normalised."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no Unicode text
    if like.normalizer is not None:
        text = like.normalizer.normalize_str(text)
    if like.pre_tokenizer is None:
        return [text] if text else []
    return [word for word, _ in like.pre_tokenizer.pre_tokenize_str(text)]


def propose(
    words: Mapping[str, int],
    size: int,
    *,
    like: Tokenizer,
    min_frequency: int = 2,
    keep: int | None = None,
    protected: Mapping[str, int] | None = None,
) -> list[str]:
    """Return tokens worth adding to a vocabulary."""
    if keep is not None and keep < 1:
        raise UsageError(f"the tokens to keep must be 1 or more, not {keep}")
    tokens = train_wordpiece(words, size, like=like, min_frequency=min_frequency)
    tokens = [token for token in tokens if why_not(token, like) is None]
    if protected:
        tokens = sparing(tokens, protected, like)
    return tokens if keep is None else most_saving(tokens, words, like)[:keep]


def why_not(token: str, like: Tokenizer) -> str | None:
    """Return why a token is not to be added to the vocabulary of `like`; None if it may be."""
    body = token.removeprefix(like.model.continuing_subword_prefix)
    if like.token_to_id(token) is not None:
        return "known"
    if SPECIAL.fullmatch(body):
        return "special"
    if len(body) > 1 and body.isdigit():
        return "digits"
    if len(body) > like.model.max_input_chars_per_word or words_of(body, like) != [body]:
        return "never met"
    return None


def most_saving(tokens: Sequence[str], words: Mapping[str, int], like: Tokenizer) -> list[str]:
    """Return the tokens, those first that save the most."""
    prefix, old = like.model.continuing_subword_prefix, like.get_vocab()
    uses: Counter[str] = Counter()
    model = extended_model(tokens, like)
    for word, count in words.items():
        for piece in model.tokenize(word):
            uses[piece.value] += count

    def rank(token: str) -> tuple[bool, int, str]:
        body = token.removeprefix(prefix)
        if len(body) == 1:
            return False, -uses[token], token
        pieces = split(token, old, prefix)
        return True, -uses[token] * ((len(pieces) if pieces else len(body)) - 1), token

    return sorted(tokens, key=rank)


def sparing(tokens: Sequence[str], words: Iterable[str], like: Tokenizer) -> list[str]:
    """Return those tokens that leave the split of every word as it was; words that were unknown do not count."""
    old = like.model
    before = {word: [piece.value for piece in old.tokenize(word)] for word in words}
    before = {word: pieces for word, pieces in before.items() if pieces != [old.unk_token]}
    tokens = list(tokens)
    # Where one token is gone another may take its place.
    while True:
        model, new = extended_model(tokens, like), set(tokens)
        harmful: set[str] = set()
        for word, pieces in before.items():
            after = [piece.value for piece in model.tokenize(word)]
            if after != pieces:
                harmful.update(new.intersection(after))
        if not harmful:
            return tokens
        tokens = [token for token in tokens if token not in harmful]


def split(token: str, vocabulary: Mapping[str, int], prefix: str = "##") -> list[str] | None:
    """Split a token into pieces of a vocabulary, the longest first from the left; None where that does not work out."""
    inside = token.startswith(prefix)
    body = token.removeprefix(prefix)
    pieces: list[str] = []
    start = 0
    while start < len(body):
        for end in range(len(body), start, -1):
            piece = (prefix if inside or start else "") + body[start:end]
            if piece in vocabulary:
                break
        else:
            return None
        pieces.append(piece)
        start = end
    return pieces or None


def extended_model(tokens: Sequence[str], like: Tokenizer) -> Any:  # noqa: ANN401 - a tokenizers.models.WordPiece
    """Return the WordPiece model of `like` with further tokens; the old ids stay, the new ones follow the last."""
    from tokenizers import models

    model = like.model
    return models.WordPiece(
        like.get_vocab(with_added_tokens=False) | new_ids(tokens, like),
        unk_token=model.unk_token,
        continuing_subword_prefix=model.continuing_subword_prefix,
        max_input_chars_per_word=model.max_input_chars_per_word,
    )


def new_ids(tokens: Sequence[str], like: Tokenizer) -> dict[str, int]:
    """Return the ids that new tokens get: behind the last of `like`, in their order."""
    first = max(like.get_vocab(with_added_tokens=True).values()) + 1
    return {token: first + place for place, token in enumerate(tokens)}


@dataclass(frozen=True)
class Fertility:
    """How many words there are, their tokens under a vocabulary (an unknown word is one), and the unknown words."""

    words: int
    tokens: int
    unknown: int

    @property
    def tokens_a_word(self) -> float:
        return self.tokens / self.words if self.words else 0.0

    @property
    def unknown_share(self) -> float:
        return self.unknown / self.words if self.words else 0.0


def fertility(words: Mapping[str, int], model: Any) -> Fertility:  # noqa: ANN401 - a tokenizers.models.WordPiece
    """Count the tokens of words (see `count_words`) under a WordPiece model."""
    tokens = unknown = 0
    for word, count in words.items():
        pieces = model.tokenize(word)
        tokens += count * len(pieces)
        unknown += count * (len(pieces) == 1 and pieces[0].value == model.unk_token)
    return Fertility(sum(words.values()), tokens, unknown)


def changed(words: Mapping[str, int], before: Any, after: Any) -> float:  # noqa: ANN401 - two WordPiece models
    """Return the share, 0 to 1, of words that two WordPiece models split differently; 0 without words."""
    differing = sum(
        count
        for word, count in words.items()
        if [piece.value for piece in before.tokenize(word)] != [piece.value for piece in after.tokenize(word)]
    )
    return differing / max(sum(words.values()), 1)


def train_wordpiece(words: Mapping[str, int], size: int, *, like: Tokenizer, min_frequency: int = 2) -> list[str]:
    """Train a WordPiece vocabulary on counted words; the same words in any order give the same one."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    prefix, longest = like.model.continuing_subword_prefix, like.model.max_input_chars_per_word
    frequency: Counter[str] = Counter()
    for word, count in words.items():
        frequency.update({character: count * word.count(character) for character in set(word)})
    alphabet = {character for character, count in frequency.items() if count >= min_frequency}
    words = {word: count for word, count in words.items() if alphabet.issuperset(word) and len(word) <= longest}
    if not words:
        raise UsageError(f"there is no word to train on whose characters occur {min_frequency} times or more")
    # The trainer numbers characters in the order in which it meets words, which is chance, and breaks ties by number;
    # given beforehand they have their places.
    characters = sorted(set().union(*words)) + sorted({prefix + letter for word in words for letter in word[1:]})
    if size < len(characters):
        raise TooSmall(size, len(characters))
    trained = Tokenizer(models.WordPiece({}, unk_token=like.model.unk_token, continuing_subword_prefix=prefix))
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=characters,
        continuing_subword_prefix=prefix,
        show_progress=False,
    )
    copies = (
        " ".join(itertools.repeat(word, min(COPIES, count - start)))
        for word, count in words.items()
        for start in range(0, count, COPIES)
    )
    trained.train_from_iterator(copies, trainer)
    ids = trained.get_vocab()
    return sorted(ids, key=ids.__getitem__)
