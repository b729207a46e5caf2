"""A corpus as sequences of tokens for masked language modelling, packed so that short documents share one.

A document is cut into pieces that fit a sequence, each cut where a word begins, as late as possible. Pieces that hold a
held-out string are dropped, and no cut goes through one. The others are put end to end, the token behind a text
([SEP]) between them, as many as fit; none is divided for that. A corpus larger than memory works: it is read as a
stream, and the sequences lie in a file. `span_sequences` packs so too, and knows which tokens belong together.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, progress
from alphita.errors import InputError, Rejects
from alphita_lab.training.engine.tokens import TokenTable
from alphita_lab.training.text.corpora import blocks
from alphita_lab.training.text.corpus_vocabulary import Specials
from alphita_lab.training.text.matching import HeldOut

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
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
    """Tokens of a text.

    Attributes:
        ids: (t,) int32.
        spans: (m, 2) first token, and that behind the last, of each span.
    """

    ids: Int32
    spans: Int64


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


def choose_dev(n: int, share: float, seed: int) -> tuple[Int64, Int64]:
    """Return the numbers of sequences that train and of those held out to score with."""
    count = max(1, round(share * n)) if share else 0
    if count >= n:
        raise InputError(
            f"the corpus gives {n} sequences, none of them left to train on",
            field="dev_share",
            value=share,
            remedy="give more text, or set dev_share=0",
        )
    held = np.zeros(n, bool)
    held[np.random.default_rng([seed, 5]).permutation(n)[:count]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


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
                closed = _tokens_of(encoding, characters)
                for first, last in _cuts(encoding, np.concatenate([closed, spans]), room):
                    held = bool(((closed[:, 0] < last) & (closed[:, 1] > first)).any())
                    counts["pieces_with_held_out" if held else "pieces"] += 1
                    if not held:
                        inside = spans[(spans[:, 0] < last) & (spans[:, 1] > first)]
                        yield Piece(ids[first:last], np.clip(inside, first, last) - first)


def _tokens_of(encoding: Encoding, spans: Int64) -> Int64:
    """Return (m, 2): of each span of characters the first token that has a part in it, and that behind the last."""
    if not len(spans):
        return spans
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    first = np.searchsorted(offsets[:, 1], spans[:, 0], side="right")
    last = np.searchsorted(offsets[:, 0], spans[:, 1], side="left")
    return np.stack([first, np.maximum(first, last)], 1)


def _cuts(encoding: Encoding, closed: Int64, room: int) -> Iterator[tuple[int, int]]:
    """Yield pieces of at most `room` tokens: first token, the one behind the last."""
    n = len(encoding.ids)
    if n <= room:
        yield 0, n
        return
    words = np.array([-1 if word is None else word for word in encoding.word_ids], np.int64)
    may_cut = np.ones(n + 1, bool)
    may_cut[1:-1] = words[1:] != words[:-1]
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
