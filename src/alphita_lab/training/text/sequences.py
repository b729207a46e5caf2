"""A corpus as packed sequences of tokens, with the spans (words, entities) that are masked whole where asked for.

Pieces with a held-out string are dropped; no cut goes through a span or a held-out string. The corpus is streamed.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import shutil
import sys
import unicodedata
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, machine, progress
from alphita.errors import InputError, Rejects, UsageError, require
from alphita.jobs.engines.processes import end_with_parent
from alphita.registry import unknown
from alphita_lab.training.engine.forward import TokenTable
from alphita_lab.training.text.corpora import Specials, blocks
from alphita_lab.training.text.folding import ALNUM, WORD, Fold, character_flags
from alphita_lab.training.text.matching import HeldOut, Matcher, collect

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from alphita.terminology.store import Terminology

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
# What a character is to a word: nothing; a letter or digit that joins those beside it; one by itself; what follows it.
NOTHING, JOINED, ALONE, FOLLOWS = 0, 1, 2, 3
_JOINT = "\x00"
_ZERO_WIDTH_SPACE = "\u200b"


class Segmenter(Protocol):
    """Finds words."""

    facts: dict[str, str]

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        """Return of each text, (m, 2), first characters of words and those behind their last, apart and in order."""
        ...


class Words:
    """Words by the letters and digits of Unicode."""

    def __init__(self) -> None:
        self.facts = {"segmenter": "words"}

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        begins = np.cumsum(lengths + 1) - lengths - 1
        kinds, follows = _kinds_of(_JOINT.join(texts))
        if not len(kinds):
            return [np.empty((0, 2), np.int64) for _ in texts]
        before, behind = np.append(NOTHING, kinds[:-1]), np.append(kinds[1:], NOTHING)
        begin = (kinds != NOTHING) & ~follows & ((kinds == ALONE) | (before != JOINED))
        end = (kinds != NOTHING) & (np.append(begin[1:], True) | (behind == NOTHING))
        spans = np.stack([np.flatnonzero(begin), np.flatnonzero(end) + 1], 1)
        cuts = np.append(np.searchsorted(spans[:, 0], begins), len(spans)).tolist()
        rows = zip(begins.tolist(), cuts, cuts[1:], strict=False)
        return [spans[low:high] - start for start, low, high in rows]


class Jieba:
    """Chinese words by jieba's dictionary and its model of unknown words; other words as `Words` has them."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # It is of 2020, and imports what setuptools no longer likes.
            warnings.simplefilter("ignore")
            engine = require("jieba", "chinese")
        self.facts = {"segmenter": "jieba", "version": str(engine.__version__)}
        self._words = Words()
        self._cutter: Any = engine.Tokenizer()
        # By itself it would read the dictionary from the folder for temporary files, where anyone may have put another.
        self._cutter.FREQ, self._cutter.total = self._cutter.gen_pfdict(self._cutter.get_dict_file())
        self._cutter.initialized = True
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        if self._pool is None and (machine.threads() == 1 or sum(map(len, texts)) < FOR_PROCESSES):
            return self.here(texts)
        if self._pool is None:
            # Spawned: a process that is forked beside the tokenizer's threads may stand still.
            self._pool = ProcessPoolExecutor(machine.threads(), multiprocessing.get_context("spawn"), _open_jieba)
            weakref.finalize(self, self._pool.shutdown, cancel_futures=True)
        parts = [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]
        return [spans for part in self._pool.map(_by_jieba, parts) for spans in part]

    def here(self, texts: Sequence[str]) -> list[Int64]:
        """Do what a call does, in this process."""
        return [self._joined(text, spans) for text, spans in zip(texts, self._words(texts), strict=True)]

    def _joined(self, text: str, words: Int64) -> Int64:
        """Return the words of one text, in which jieba's Chinese words replace what they lie over."""
        alone = _kinds_of(text)[0] == ALONE
        if not alone.any():
            return words
        numbers = np.full(len(text), -1, np.int64)
        for number, (start, end) in enumerate(words.tolist()):
            numbers[start:end] = number
        for number, (word, start, end) in enumerate(self._cutter.tokenize(text), len(words)):
            if len(word) > 1 and alone[start:end].any():
                numbers[start:end] = number
        return runs(numbers)


# Characters of a call from which on processes are worth their start, and texts that one of them takes at once.
FOR_PROCESSES, AT_ONCE = 200_000, 64
_JIEBA: list[Jieba] = []


def _open_jieba() -> None:
    end_with_parent()
    _JIEBA.append(Jieba())


def _by_jieba(texts: Sequence[str]) -> list[Int64]:
    return _JIEBA[0].here(texts)


class NoWords:
    """No words."""

    def __init__(self) -> None:
        self.facts = {"segmenter": "none"}

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        return [np.empty((0, 2), np.int64) for _ in texts]


SEGMENTERS: dict[str, Callable[[], Segmenter]] = {"words": Words, "jieba": Jieba, "none": NoWords}


def load(name: str) -> Segmenter:
    """Return a segmenter by its name."""
    if name not in SEGMENTERS:
        raise UsageError(unknown("segmenter", name, SEGMENTERS))
    return SEGMENTERS[name]()


def runs(numbers: Int64) -> Int64:
    """Return where equal numbers stand side by side in (n,), negative ones aside: (m, 2) first places, those behind."""
    if not len(numbers):
        return np.empty((0, 2), np.int64)
    edges = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    starts, ends = np.append(0, edges), np.append(edges, len(numbers))
    kept = numbers[starts] >= 0
    return np.stack([starts[kept], ends[kept]], 1)


def _kinds_of(text: str) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return of each character its kind, that of a mark being its letter's, and which are marks."""
    kinds = _kinds()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)]
    follows = kinds == FOLLOWS
    if follows.any():
        bases = np.maximum.accumulate(np.where(follows, 0, np.arange(len(kinds))))
        kinds = kinds[bases]
        # A mark at the very beginning has no letter.
        kinds[kinds == FOLLOWS] = NOTHING
    return kinds, follows


@functools.cache
def _kinds() -> NDArray[np.uint8]:
    flags = character_flags()
    kinds = np.where(flags & ALNUM, np.where(flags & WORD, JOINED, ALONE), NOTHING).astype(np.uint8)
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        # Joiners and soft hyphens too; but a space of no width stands between words.
        if unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf") and sign != _ZERO_WIDTH_SPACE:
            kinds[code] = FOLLOWS
    return kinds


# Characters matched, and documents tokenized, at once.
CHARACTERS, DOCUMENTS = 2_000_000, 1024
NOTE = "sequences.json"
_BLOCK = 1 << 22
_NO_SPANS = np.empty((0, 2), np.int64)


class Marker(Protocol):
    """Finds the tokens that belong together, those of a word, say."""

    counts: dict[str, int]

    def __call__(self, texts: Sequence[str], encodings: Sequence[Encoding]) -> Sequence[Int64]:
        """Return of each text, (m, 2), first tokens of spans and those behind their last, apart and in order."""
        ...


@dataclass(frozen=True)
class Piece:
    """Tokens of a text."""

    ids: Int32  # (t,) int32
    spans: Int64  # (m, 2) first token, and that behind the last, of each span


def pack(
    texts: Iterable[str],
    tokenizer: Tokenizer,
    specials: Specials,
    folder: Path,
    *,
    length: int,
    held_out: HeldOut,
    made_with: Any = None,  # noqa: ANN401 - anything JSON has
    marker: Marker | None = None,
    rejects: Rejects | None = None,
) -> None:
    """Write the sequences of some texts into `folder`, which appears whole or not at all."""
    aside = folder.with_name(f".{folder.name}.draft")
    for old in (folder, aside):
        shutil.rmtree(old, ignore_errors=True)
    aside.mkdir(parents=True)
    room = length - len(specials.before) - len(specials.behind)
    counts = dict.fromkeys(("documents", "empty", "pieces", "pieces_with_held_out", "tokens", "sequences"), 0)
    counts["held_out_too_short"] = held_out.too_short
    lengths: list[int] = []
    numbers: list[int] = []
    try:
        with (
            open(aside / "ids.raw", "wb") as file,
            open(aside / "spans.raw", "wb") as spans,
            progress.bar("tokenizing the corpus", None, "documents") as bar,
        ):
            pieces = _pieces(texts, tokenizer, room, held_out, marker, counts, bar)
            for sequence in _joined(pieces, specials.behind, room):
                whole = np.concatenate([specials.before, sequence.ids, specials.behind]).astype("<i4")
                file.write(whole.tobytes())
                spans.write((sequence.spans + len(specials.before)).astype("<i4").tobytes())
                lengths.append(len(whole))
                numbers.append(len(sequence.spans))
        if rejects is not None:
            counts["rejected"] = rejects.count
        if not lengths:
            unread = f", {rejects.count:,} lines that cannot be used" if rejects is not None and rejects.count else ""
            raise InputError(
                f"the corpus has no text to train on: {counts['documents']:,} documents, {counts['empty']:,} of them "
                f"empty, {counts['pieces_with_held_out']:,} pieces with held-out strings{unread}",
                remedy="look at corpus, text_field and --split",
            )
        counts["sequences"], counts["tokens"] = len(lengths), sum(lengths)
        np.save(aside / "offsets.npy", _offsets(lengths), allow_pickle=False)
        _with_header(aside / "ids.raw", aside / "ids.npy", (counts["tokens"],))
        if marker is None:
            (aside / "spans.raw").unlink()
        else:
            counts |= {"spans": sum(numbers), **marker.counts}
            np.save(aside / "span_offsets.npy", _offsets(numbers), allow_pickle=False)
            _with_header(aside / "spans.raw", aside / "spans.npy", (counts["spans"], 2))
        note = json.dumps({"made_with": made_with, "counts": counts})
        (aside / NOTE).write_text(note, encoding="utf-8")
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def made_with(folder: Path) -> Any:  # noqa: ANN401 - see `pack`
    """Return what the sequences in `folder` were made with; None if there are none."""
    if not (folder / NOTE).is_file():
        return None
    return json.loads((folder / NOTE).read_text(encoding="utf-8"))["made_with"]


def read(folder: Path) -> tuple[TokenTable, dict[str, int]]:
    """Return the sequences in `folder`, special tokens included, memory-mapped, and the counts of their making."""
    ids, offsets = (np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ("ids", "offsets"))
    counts: dict[str, int] = json.loads((folder / NOTE).read_text(encoding="utf-8"))["counts"]
    return TokenTable(ids, offsets), counts


def hold_out(
    n: int, wanted: int, seed: Sequence[int], *, field: str = "dev_sequences", file: Path | None = None
) -> tuple[Int64, Int64]:
    """Return the numbers of the sequences that train, of n, and of those held out to score with, each ascending."""
    if wanted >= n:
        raise InputError(
            f"the corpus gives {n:,} sequences, none of them left to train on with {wanted:,} held out",
            file=file,
            field=field,
            remedy="give more text, or hold out fewer",
        )
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[wanted:]), np.sort(order[:wanted])


def _pieces(
    texts: Iterable[str],
    tokenizer: Tokenizer,
    room: int,
    held_out: HeldOut,
    marker: Marker | None,
    counts: dict[str, int],
    bar: progress.Bar,
) -> Iterator[Piece]:
    """Yield the pieces of documents that may train, of 1 to `room` tokens; count the others."""
    for block in blocks(texts, CHARACTERS):
        hidden = held_out.spans(block)
        for start in range(0, len(block), DOCUMENTS):
            some = block[start : start + DOCUMENTS]
            counts["documents"] += len(some)
            bar.advance(len(some))
            encodings = tokenizer.encode_batch(some, add_special_tokens=False)
            marked: Sequence[Int64] = marker(some, encodings) if marker else [_NO_SPANS] * len(some)
            here = hidden[start : start + DOCUMENTS]
            for encoding, characters, spans in zip(encodings, here, marked, strict=True):
                ids = np.array(encoding.ids, np.int32)
                if not len(ids):
                    counts["empty"] += 1
                    continue
                closed = token_spans(encoding, characters)
                for first, last in _cuts(encoding, np.concatenate([closed, spans]), room):
                    held = bool(((closed[:, 0] < last) & (closed[:, 1] > first)).any())
                    counts["pieces_with_held_out" if held else "pieces"] += 1
                    if not held:
                        inside = spans[(spans[:, 0] < last) & (spans[:, 1] > first)]
                        yield Piece(ids[first:last], np.clip(inside, first, last) - first)


def token_spans(encoding: Encoding, spans: Int64) -> Int64:
    """Return (m, 2): of each span of characters the first token that has a part in it, and that behind the last."""
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    first = np.searchsorted(offsets[:, 1], spans[:, 0], side="right")
    last = np.searchsorted(offsets[:, 0], spans[:, 1], side="left")
    return np.stack([first, np.maximum(first, last)], 1)


def word_starts(encoding: Encoding) -> NDArray[np.bool_]:
    """Return before which tokens, (n + 1,) the end included, a word starts."""
    words = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
    starts = np.ones(len(words) + 1, bool)
    starts[1:-1] = words[1:] != words[:-1]
    return starts


def _cuts(encoding: Encoding, closed: Int64, room: int) -> Iterator[tuple[int, int]]:
    """Yield pieces of at most `room` tokens: first token, the one behind the last."""
    n = len(encoding.ids)
    if n <= room:
        yield 0, n
        return
    may_cut = word_starts(encoding)
    some = closed[closed[:, 1] > closed[:, 0]]
    opened = np.bincount(some[:, 0] + 1, minlength=n + 1) - np.bincount(some[:, 1], minlength=n + 1)
    may_cut &= np.cumsum(opened) == 0
    latest = np.maximum.accumulate(np.where(may_cut, np.arange(n + 1), 0))
    start = 0
    while start < n:
        end = min(start + room, n)
        end = int(latest[end]) if latest[end] > start else end
        yield start, end
        start = end


def _joined(pieces: Iterable[Piece], between: Sequence[int], room: int) -> Iterator[Piece]:
    """Yield pieces end to end, `between` between them, as many as go into `room` tokens."""
    gap = np.array(between, np.int32)
    kept: list[Int32] = []
    spans: list[Int64] = []
    size = 0
    for piece in pieces:
        if kept and size + len(gap) + len(piece.ids) > room:
            yield Piece(np.concatenate(kept), np.concatenate(spans))
            kept, spans, size = [], [], 0
        if kept:
            kept.append(gap)
            size += len(gap)
        kept.append(piece.ids)
        spans.append(piece.spans + size)
        size += len(piece.ids)
    if kept:
        yield Piece(np.concatenate(kept), np.concatenate(spans))


def _offsets(lengths: Sequence[int]) -> Int64:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _with_header(raw: Path, target: Path, shape: tuple[int, ...]) -> None:
    """Turn a file of int32 numbers into an .npy file."""
    with open(raw, "rb") as source, artefact.atomic_file(target, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i4", "fortran_order": False, "shape": shape})
        shutil.copyfileobj(source, file, _BLOCK)
    raw.unlink()


@dataclass(frozen=True)
class Sequences:
    """n sequences of tokens with m spans, memory-mapped."""

    tokens: TokenTable  # the sequences, special tokens included
    span_offsets: Int64  # (n + 1,) int64; sequence i has the spans span_offsets[i] up to span_offsets[i + 1]
    spans: Int32  # (m, 2) int32 first token in its sequence and the one behind the last, of each span; they lie apart
    counts: dict[str, int]  # of the making: documents, pieces, tokens, sequences, spans and so on

    def __len__(self) -> int:
        return len(self.tokens)

    def spans_of(self, rows: NDArray[np.integer]) -> Int64:
        """Return the spans of some sequences as `mask_by_span` takes them.

        (k, 3) place in `rows`, first token, the token behind the last; rows: (b,) numbers of sequences.
        """
        starts = np.asarray(self.span_offsets[rows])
        lengths = np.asarray(self.span_offsets[np.asarray(rows) + 1]) - starts
        before = np.cumsum(lengths) - lengths
        places = np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
        return np.column_stack([np.repeat(np.arange(len(lengths)), lengths), self.spans[places]]).astype(np.int64)


def surface_forms(
    terminology: Terminology, *, languages: Sequence[str] = (), held_out: Collection[str] = frozenset()
) -> Matcher:
    """Return what finds the names of a terminology in texts, names of several concepts too: they are entities as
    well."""
    fold = Fold(languages[0] if len(languages) == 1 else None)
    return Matcher(collect(terminology, fold, languages=languages, held_out=held_out, ambiguous="keep"), fold)


def pack_spans(
    texts: Iterable[str],
    tokenizer: Tokenizer,
    specials: Specials,
    folder: Path,
    *,
    length: int = 128,
    segmenter: Segmenter,
    forms: Matcher | None,
    held_out: HeldOut,
    made_with: Any = None,  # noqa: ANN401 - anything JSON has
    rejects: Rejects | None = None,
) -> None:
    """Write the sequences of some texts and their spans into `folder`, which appears whole or not at all."""
    from alphita_lab.training.text.masked_language import masking_of

    mask = masking_of(tokenizer, specials).mask_id
    known = made_of(made_with, length=length, segmenter=segmenter, forms=forms)
    marker = _Marker(segmenter, forms, {*specials.before, *specials.behind, specials.pad, mask})
    pack(
        texts,
        tokenizer,
        specials,
        folder,
        length=length,
        held_out=held_out,
        made_with=known,
        marker=marker,
        rejects=rejects,
    )


def made_of(
    made_with: Any,  # noqa: ANN401 - see `pack`
    *,
    length: int,
    segmenter: Segmenter,
    forms: Matcher | None,
) -> dict[str, Any]:
    """Return what `pack` writes down that sequences were made with; those in a folder are the same if theirs is."""
    return {
        "made_with": made_with,
        "length": length,
        "segmenter": segmenter.facts,
        "forms": _hash_of(forms) if forms else None,
    }


def read_spans(folder: Path) -> Sequences:
    """Return the sequences in `folder`."""
    tokens, counts = read(folder)
    offsets, spans = (
        np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ("span_offsets", "spans")
    )
    return Sequences(tokens, offsets, spans, counts)


class _Marker:
    """Marks entities and words in tokenized texts; see `Marker`."""

    def __init__(self, segmenter: Segmenter, forms: Matcher | None, special_ids: set[int]) -> None:
        self.counts = {"entities": 0}
        self._segmenter, self._forms = segmenter, forms
        self._special_ids = np.array(sorted(special_ids), np.int64)

    def __call__(self, texts: Sequence[str], encodings: Sequence[Encoding]) -> list[Int64]:
        words, entities = self._segmenter(texts), self._entities(texts)
        return [self._spans(*text) for text in zip(encodings, entities, words, strict=True)]

    def _entities(self, texts: Sequence[str]) -> list[Int64]:
        """Return of each text, (m, 2), first characters of entities and those behind their last."""
        if self._forms is None:
            return [np.empty((0, 2), np.int64) for _ in texts]
        matches = self._forms(texts)
        kept = matches.forms >= 0
        self.counts["entities"] += int(kept.sum())
        before = np.concatenate([[0], np.cumsum(kept)])
        return np.split(np.stack([matches.starts, matches.ends], 1)[kept], before[matches.offsets[1:-1]])

    def _spans(self, encoding: Encoding, entities: Int64, words: Int64) -> Int64:
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        owner = _touched(offsets, words)
        if len(entities):
            entity = _touched(offsets, entities)
            owner = np.where(entity >= 0, len(words) + entity, owner)
        owner[np.isin(encoding.ids, self._special_ids)] = -1
        return runs(owner)


def _touched(tokens: Int64, spans: Int64) -> Int64:
    """Return the first span of which each token holds a character, (t,), -1 where there is none.

    Args:
        tokens: (t, 2) first character of each token and the one behind its last.
        spans: (m, 2) those of spans that lie apart and in order.
    """
    if not len(spans):
        return np.full(len(tokens), -1, np.int64)
    place = np.searchsorted(spans[:, 1], tokens[:, 0], side="right")
    starts = np.append(spans[:, 0], np.iinfo(np.int64).max)
    return np.where(starts[place] < tokens[:, 1], place, -1)


def _hash_of(forms: Matcher) -> str:
    """Return a hash of what is searched."""
    searched = [(numbers >= 0).tolist() for numbers in (forms.forms.any_case, forms.forms.capitals)]
    # Letters that not every language folds alike.
    return artefact.hash_json([forms.forms.keys, searched, forms.fold.keys(["I", "É"])])
