"""A corpus as sequences of tokens in which the spans are known that are masked whole: entities and words.

Entities are the surface forms of a terminology, found as `matching` finds them; words are a segmenter's, where
no entity stands. A token belongs to the entity of which it holds a character, the first if there are two, else to the
word likewise, else to none. Tokens side by side of one entity or word are a span; what an entity leaves of a word is
one, too. A span is never cut, but where it is longer than a sequence.

    segmenter = segmenters.load("words")
    pack(texts, tokenizer, specials, folder, segmenter=segmenter, forms=surface_forms(terminology), held_out=held_out)
    sequences = read(folder)
    mask_by_span(ids, sequences.spans_of(rows), masking, random)

How texts are cut, packed and read as a stream is `corpus_sequences`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import Rejects
from alphita_lab.training.engine.tokens import TokenTable
from alphita_lab.training.text import corpus_sequences
from alphita_lab.training.text.corpus_vocabulary import Specials
from alphita_lab.training.text.folding import Fold
from alphita_lab.training.text.forms import collect
from alphita_lab.training.text.matching import HeldOut, Matcher
from alphita_lab.training.text.segmenters import Segmenter, runs

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from alphita.terminology.store import Terminology

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Sequences:
    """n sequences of tokens with m spans, memory-mapped.

    Attributes:
        tokens: the sequences, special tokens included.
        span_offsets: (n + 1,) int64; sequence i has the spans span_offsets[i] up to span_offsets[i + 1].
        spans: (m, 2) int32 first token in its sequence and the one behind the last, of each span; they lie apart.
        counts: of the making: documents, pieces, tokens, sequences, spans and so on; "entities" are those met in the
            documents, in pieces with held-out strings too.
    """

    tokens: TokenTable
    span_offsets: Int64
    spans: Int32
    counts: dict[str, int]

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.tokens)

    def spans_of(self, rows: NDArray[np.integer]) -> Int64:
        """Return the spans of some sequences as `mask_by_span` takes them.

        Args:
            rows: (b,) numbers of sequences.

        Returns:
            (k, 3) place in `rows`, first token, the token behind the last.
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


def pack(
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
    corpus_sequences.pack(
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
        "forms": _hash(forms) if forms else None,
    }


def made_with(folder: Path) -> Any:  # noqa: ANN401 - see `made_of`
    """Return what the sequences in `folder` were made with, see `made_of`; None if there are none."""
    return corpus_sequences.made_with(folder)


def read(folder: Path) -> Sequences:
    """Return the sequences in `folder`."""
    tokens, counts = corpus_sequences.read(folder)
    offsets, spans = (
        np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ("span_offsets", "spans")
    )
    return Sequences(tokens, offsets, spans, counts)


class _Marker:
    """Marks entities and words in tokenized texts; see `corpus_sequences.Marker`."""

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


def _hash(forms: Matcher) -> str:
    """Return a hash of what is searched."""
    searched = [(numbers >= 0).tolist() for numbers in (forms.forms.any_case, forms.forms.capitals)]
    # Letters that not every language folds alike.
    return artefact.hash_json([forms.forms.keys, searched, forms.fold.keys(["I", "É"])])
