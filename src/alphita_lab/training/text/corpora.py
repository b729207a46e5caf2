"""Corpora, read as a stream, and vocabularies of them: an encoder's tokenizer, tokens to add to it, and a new one.

FILE.txt or .md has a document a line, FILE.jsonl an object a line; either may be .gz. Unreadable lines are set aside.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from alphita import artefact, textio
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.text import whole_characters
from alphita_lab.encoder import wordpieces
from alphita_lab.training.sentences.scored_pairs import listed

JSON_LINES = (".jsonl", ".ndjson", ".json")
PLAIN = (".txt", ".md", "")
# A longer line is taken for several documents, so that no line is too large for memory.
LONGEST = 1 << 22


def files_of(corpus: str) -> dict[str, str]:
    """Return the files that a setting lists, each with its hash.

    Raises:
        UsageError: it lists none.
        InputError: one is not there.
    """
    files = [Path(file) for file in listed(corpus)]
    if not files:
        raise UsageError("no text to learn from is given: set corpus=FILE,FILE")
    for file in files:
        if not file.is_file():
            raise InputError("no such file", file=file, field="corpus", remedy="give files of text, or of JSON Lines")
    return {str(file): artefact.hash_file(file) for file in files}


def documents(paths: Iterable[Path], *, text_field: str = "text", rejects: Rejects | None = None) -> Iterator[str]:
    """Yield the text of every document; empty ones too."""
    aside = rejects if rejects is not None else Rejects()
    files = [(path, _ending(path)) for path in paths]
    for path, ending in files:
        is_json = ending in JSON_LINES
        try:
            with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb") as file:
                stream = cast(BinaryIO, file)
                if ending == ".json":
                    _check_lines(stream, path)
                for number, line in textio.ended_lines(stream, path) if is_json else _pieces(stream):
                    text = _text(line, text_field if is_json else None, path, number, aside)
                    if text is not None:
                        yield whole_characters(text)
        except (OSError, EOFError, zlib.error) as error:
            problem = getattr(error, "strerror", None) or str(error)
            raise InputError(f"cannot be read: {problem}", file=path) from None


def _ending(path: Path) -> str:
    """Return the ending of a file's name, in lower case, that of compression aside."""
    ending = path.suffix.lower()
    if ending == ".gz":
        ending = path.with_suffix("").suffix.lower()
    if ending not in JSON_LINES + PLAIN:
        raise InputError(
            f"is no corpus by its ending, {ending!r}",
            file=path,
            remedy="give text with a document a line as FILE.txt, or FILE.jsonl with the text in a field of its own, "
            "either plain or .gz",
        )
    return ending


def _check_lines(file: BinaryIO, path: Path) -> None:
    """Refuse a file that is one JSON value, and not one a line; leave `file` at its start."""
    first = next((line for line in iter(lambda: file.readline(LONGEST), b"") if line.strip()), b"{}")
    file.seek(0)
    try:
        # A line that is longer is cut and cannot be looked at.
        entry = textio.json_value(first) if len(first) < LONGEST else {}
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or first.lstrip().startswith(b"["):
        raise InputError(
            "is one JSON value, not an object a line",
            file=path,
            remedy="write each document as an object on a line of its own: jq -c '.[]' FILE.json > FILE.jsonl",
        )


def blocks(texts: Iterable[str], characters: int) -> Iterator[list[str]]:
    """Yield the texts in lists of so many characters, or a few more; the last may have fewer."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if size >= characters:
            yield block
            block, size = [], 0
    if block:
        yield block


def _pieces(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, those that are too long in pieces that end with a word."""
    number, rest = 1, b""
    while line := file.readline(LONGEST):
        line = rest + line
        rest = b""
        whole = line.endswith(b"\n")
        if not whole and len(line) >= LONGEST:
            cut = line.rfind(b" ") + 1 or _last_character(line)
            line, rest = line[:cut], line[cut:]
        yield number, line
        number += whole
    if rest:
        yield number, rest


def _last_character(line: bytes) -> int:
    """Return where the last character of UTF-8 begins, which may lack its end."""
    start = len(line) - 1
    while start > len(line) - 4 and line[start] & 0xC0 == 0x80:
        start -= 1
    return start


def _text(line: bytes, field: str | None, path: Path, number: int, rejects: Rejects) -> str | None:
    """Return the text of one line, None if it is set aside; of a blank line of JSON Lines too."""
    try:
        decoded = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        rejects.add(f"no UTF-8: {error.reason}", file=path, line=number)
        return None
    if field is None:
        return decoded
    if not decoded.strip():
        return None
    try:
        entry: Any = textio.json_value(decoded)
    except ValueError as error:
        rejects.add(f"no JSON: {error}", file=path, line=number)
        return None
    if not isinstance(entry, dict):
        rejects.add("no JSON object", file=path, line=number)
    elif not isinstance(entry.get(field), str):
        rejects.add(f"no text in the field {field!r}", file=path, line=number, field=field)
    else:
        return str(entry[field])
    return None


@dataclass(frozen=True)
class Specials:
    """The tokens that an encoder puts around a text, and its padding."""

    before: tuple[int, ...]
    behind: tuple[int, ...]
    pad: int


def open_tokenizer(encoder: str | Path) -> tuple[Tokenizer, str, Specials]:
    """Return an encoder's tokenizer, which neither cuts nor pads, its hash, and the tokens it puts around a text."""
    tokenizer, own = wordpieces.uncut(encoder)
    around = tokenizer.encode("a")
    inner = [place for place, special in enumerate(around.special_tokens_mask) if not special]
    before, behind = around.ids[: inner[0]], around.ids[inner[-1] + 1 :]
    return tokenizer, own.hash, Specials(tuple(before), tuple(behind), own.pad_id)


EXAMPLES = 12


@dataclass(frozen=True)
class Learnt:
    """New tokens."""

    tokens: list[str]
    figures: dict[str, float]  # trained, the tokens of the vocabulary trained
    examples: list[list[Any]]  # words whose new tokens save the most: word, tokens before, tokens after


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
