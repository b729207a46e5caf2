"""Mentions of a terminology's names in a corpus, with contexts (Amore Bondarenko et al. 2022, §3.1, after KRISSBERT).

Windows hold a context for losses that compare mentions; sequences hold whole documents in pieces, with all mentions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import artefact, progress
from alphita.errors import InputError, Rejects
from alphita.terminology import arrow_files
from alphita_lab.training.mentions.settings import MentionSettings
from alphita_lab.training.mentions.store import KIND, SEQUENCES, WINDOWS, Tokens, Writer
from alphita_lab.training.text.corpora import blocks, documents, open_tokenizer
from alphita_lab.training.text.folding import Fold
from alphita_lab.training.text.matching import HELD_OUT, Forms, HeldOut, Matcher, Matches, collect
from alphita_lab.training.text.sequences import token_spans, word_starts

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
# Characters around a mention that surely hold a window: medical words have 2 to 6 characters a token.
CHARACTERS_A_TOKEN = 8
# Where no space is as near, a text has none between words.
LONGEST_WORD = 40
ENCODED_AT_ONCE, CONTEXTS_AT_ONCE = 1024, 4096
_SPACE = re.compile(r"\s")
_MIX = tuple(np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class Context:
    """A piece of text around a mention."""

    occurrence: int
    text: str
    mentions: Int64  # (m, 3) first character, the one behind the last, form; of all mentions in the piece
    own: int


class Reservoir:
    """Keeps at most `size` contexts of each form, all of its occurrences alike likely.

    Each occurrence has a pseudo-random number that follows from the seed, the form and how many occurrences came before
    it; those with the lowest stay. So what is kept does not depend on how the corpus is read.
    """

    def __init__(self, n_forms: int, size: int, *, window: int, seed: int) -> None:
        self.size, self.reach, self.seed = size, window * CHARACTERS_A_TOKEN, seed
        self.counts = np.zeros(n_forms, np.int64)
        self.held_out_nearby = 0
        self._worst = np.full(n_forms, np.iinfo(np.uint64).max, np.uint64)
        self._kept: dict[int, list[tuple[int, Context]]] = {}

    def add(self, texts: Sequence[str], matches: Matches) -> None:
        """Look at the mentions of some texts."""
        places = np.flatnonzero(matches.forms != HELD_OUT)
        forms = matches.forms[places]
        occurrences = self.counts[forms] + rank_in_group(forms, np.zeros(len(forms), np.uint64))
        self.counts += np.bincount(forms, minlength=len(self.counts))
        draws = _draws(self.seed, forms, occurrences)
        alone = ~self._near_held_out(matches, places)
        self.held_out_nearby += int((~alone).sum())
        places, forms, occurrences, draws = places[alone], forms[alone], occurrences[alone], draws[alone]
        chosen = np.flatnonzero((draws < self._worst[forms]) & (rank_in_group(forms, draws) < self.size))
        text_of = np.searchsorted(matches.offsets, places[chosen], side="right") - 1
        for one, text in zip(chosen.tolist(), text_of.tolist(), strict=True):
            form, draw = int(forms[one]), int(draws[one])
            kept = self._kept.setdefault(form, [])
            if len(kept) == self.size:
                if draw > kept[-1][0]:
                    continue
                kept.pop()
            kept.append((draw, self._context(texts[text], matches, text, int(places[one]), int(occurrences[one]))))
            kept.sort(key=lambda entry: entry[0])
            if len(kept) == self.size:
                self._worst[form] = kept[-1][0]

    def contexts(self) -> Iterator[tuple[int, Context]]:
        """Yield form and context, by form and occurrence."""
        for form in sorted(self._kept):
            for _, context in sorted(self._kept[form], key=lambda entry: entry[1].occurrence):
                yield form, context

    def _near_held_out(self, matches: Matches, places: Int64) -> NDArray[np.bool_]:
        """Tell of each mention whether a held-out string is within reach of it."""
        hidden = np.flatnonzero(matches.forms == HELD_OUT)
        near = np.zeros(len(places), bool)
        if not len(hidden):
            return near
        text = np.repeat(np.arange(len(matches.offsets) - 1), np.diff(matches.offsets))
        after = np.searchsorted(hidden, places)
        for neighbour in (after - 1, after):
            other = hidden[np.clip(neighbour, 0, len(hidden) - 1)]
            gap = np.maximum(matches.starts[other] - matches.ends[places], matches.starts[places] - matches.ends[other])
            near |= (text[other] == text[places]) & (gap < self.reach)
        return near

    def _context(self, text: str, matches: Matches, number: int, place: int, occurrence: int) -> Context:
        start, end = int(matches.starts[place]), int(matches.ends[place])
        first, last = max(0, start - self.reach), min(len(text), end + self.reach)
        # Where words have spaces the piece begins and ends with a whole one.
        if first and (space := _SPACE.search(text, first, min(start, first + LONGEST_WORD))):
            first = space.end()
        if last < len(text):
            tail = text[max(end, last - LONGEST_WORD) : last]
            last -= next((n for n, sign in enumerate(reversed(tail)) if sign.isspace()), 0)
        low, high = matches.offsets[number], matches.offsets[number + 1]
        inside = np.arange(
            low + np.searchsorted(matches.starts[low:high], first),
            low + np.searchsorted(matches.ends[low:high], last, side="right"),
        )
        inside = inside[matches.forms[inside] >= 0]
        mentions = np.stack([matches.starts[inside] - first, matches.ends[inside] - first, matches.forms[inside]], 1)
        return Context(occurrence, text[first:last], mentions, int(np.searchsorted(inside, place)))


def windows(contexts: Sequence[Context], tokenizer: Tokenizer, length: int) -> list[Tokens | None]:
    """Cut contexts to windows of `length` tokens with their mention in the middle, or as near to it as the text
    allows."""
    tokens: list[Tokens | None] = []
    for encoding, context in zip(_encoded(tokenizer, [context.text for context in contexts]), contexts, strict=True):
        ids, spans = _aligned(encoding, context.mentions)
        start, end = spans[context.own].tolist()
        if not 0 < end - start <= length:
            tokens.append(None)
            continue
        first = max(0, min(start - (length - (end - start)) // 2, len(ids) - length))
        last = min(len(ids), first + length)
        inside = np.flatnonzero((spans[:, 0] >= first) & (spans[:, 1] <= last) & (spans[:, 1] > spans[:, 0]))
        mentions = np.column_stack([spans[inside] - first, context.mentions[inside, 2]]).astype(np.int32)
        tokens.append(Tokens(ids[first:last], mentions, int(np.searchsorted(inside, context.own))))
    return tokens


def sequences(
    texts: Sequence[str], matches: Matches, tokenizer: Tokenizer, *, length: int, most: int
) -> Iterator[Tokens]:
    """Cut texts with mentions into sequences of at most `length` tokens and `most` mentions."""
    chosen = np.flatnonzero(np.diff(matches.offsets)).tolist()
    for number, encoding in zip(chosen, _encoded(tokenizer, [texts[n] for n in chosen]), strict=True):
        here = slice(matches.offsets[number], matches.offsets[number + 1])
        written = np.stack([matches.starts[here], matches.ends[here], matches.forms[here].astype(np.int64)], 1)
        ids, spans = _aligned(encoding, written)
        written, spans = written[spans[:, 1] > spans[:, 0]], spans[spans[:, 1] > spans[:, 0]]
        may_cut = word_starts(encoding)
        for start, end in spans.tolist():
            may_cut[start + 1 : end] = False
        latest = np.maximum.accumulate(np.where(may_cut, np.arange(len(ids) + 1), 0))
        hidden = written[:, 2] == HELD_OUT
        start = 0
        while start < len(ids):
            end = min(start + length, len(ids))
            first = int(np.searchsorted(spans[:, 0], start))
            if first + most < len(spans):
                end = max(min(end, int(spans[first + most, 0])), start + 1)
            end = int(latest[end]) if latest[end] > start else end
            # Of what is longer than a sequence no part is a mention, but of a held-out string each is one.
            some = np.arange(np.searchsorted(spans[:, 1], start, "right"), np.searchsorted(spans[:, 0], end))
            inside = some[((spans[some, 0] >= start) & (spans[some, 1] <= end)) | hidden[some]]
            clipped = np.clip(spans[inside], start, end) - start
            mentions = np.column_stack([clipped, written[inside, 2]]).astype(np.int32)
            yield Tokens(ids[start:end], mentions)
            start = end


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Encoding]:
    for start in range(0, len(texts), ENCODED_AT_ONCE):
        yield from tokenizer.encode_batch(list(texts[start : start + ENCODED_AT_ONCE]), add_special_tokens=False)


def _aligned(encoding: Encoding, mentions: Int64) -> tuple[Int32, Int64]:
    """Return the token ids, and of each mention the first token and the one behind the last that it has a part in."""
    return np.array(encoding.ids, np.int32), token_spans(encoding, mentions)


def rank_in_group(groups: NDArray[np.integer[Any]], values: NDArray[Any]) -> Int64:
    """Return of each member how many of its group have a lower value, or an equal one and stand before it."""
    order = np.lexsort((values, groups))
    ordered = groups[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else np.empty(0, np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(begins, np.diff(np.r_[begins, len(order)]))
    return ranks


def _draws(seed: int, forms: Int32, occurrences: Int64) -> NDArray[np.uint64]:
    """Return a pseudo-random 64-bit number for each occurrence of a form: two rounds of splitmix64."""
    state = np.full(len(forms), seed % (1 << 64), np.uint64)
    with np.errstate(over="ignore"):
        for part in (forms, occurrences):
            state = (state ^ part.astype(np.uint64)) + _MIX[0]
            state = (state ^ (state >> np.uint64(30))) * _MIX[1]
            state = (state ^ (state >> np.uint64(27))) * _MIX[2]
            state ^= state >> np.uint64(31)
    return state


AT_ONCE = 2_000_000
COUNTED = (
    *("documents", "empty", "words", "mentions", "homonyms", "held_out"),
    *("sequences", "sequences_without_mention", "sequences_with_held_out"),
)


def build(
    corpus: Sequence[Path],
    terminology: Terminology,
    encoder: str | Path,
    out: Path | str,
    settings: MentionSettings | None = None,
    *,
    split: Split | None = None,
    text_field: str = "text",
    rejects: Rejects | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Find the mentions of a terminology in a corpus and write them as an artefact."""
    out, settings = Path(out), settings or MentionSettings()
    artefact.refuse_existing(out, force, " (the old one is moved aside)")
    rejects = rejects if rejects is not None else Rejects()
    tokenizer, tokenizer_hash, specials = open_tokenizer(encoder)
    fold = Fold(settings.languages[0] if len(settings.languages) == 1 else None)
    hidden = split.cleaned if split else frozenset()
    forms = collect(
        terminology,
        fold,
        languages=settings.languages,
        held_out=hidden,
        ambiguous=settings.ambiguous,
        least=settings.least_characters,
        stop=fold.keys(settings.stop),
    )
    # Held-out strings are searched by themselves too: a name may cover one, or begin before it.
    matcher, held_out = Matcher(forms, fold), HeldOut(hidden)
    reservoir = Reservoir(len(forms.strings), settings.contexts, window=settings.window, seed=settings.seed)
    counts = dict.fromkeys(COUNTED, 0)
    with (
        artefact.create(out, KIND, force=force) as draft,
        Writer(draft.path, WINDOWS) as kept_windows,
        Writer(draft.path, SEQUENCES) as kept_sequences,
        progress.bar("matching", None, "words") as bar,
    ):
        for texts in blocks(_counted(documents(corpus, text_field=text_field, rejects=rejects), counts), AT_ONCE):
            matches = matcher(texts).hiding(held_out.spans(texts))
            bar.advance(matches.words)
            counts["words"] += matches.words
            counts["homonyms"] += matches.homonyms
            counts["held_out"] += int((matches.forms == HELD_OUT).sum())
            reservoir.add(texts, matches)
            if settings.sequence_tokens:
                _write_sequences(texts, matches, tokenizer, settings, kept_sequences, counts)
        met = reservoir.counts > 0
        counts |= {"mentions": int(reservoir.counts.sum()), "forms": int(met.sum()), "rejected": rejects.count}
        counts |= _write_windows(reservoir, tokenizer, settings.window, kept_windows)
        _check_found(counts, len(forms.strings), settings.window, corpus[0] if corpus else None)
        numbers = (np.cumsum(met) - 1).astype(np.int32)
        kept_windows.finish(numbers)
        kept_sequences.finish(numbers)
        counts["concepts"] = _write_forms(draft.path, forms, reservoir.counts, terminology)
        draft.fields.update(
            counts=counts,
            left_out=forms.left_out,
            config=asdict(settings),
            terminology=terminology.content_hash,
            split=split.hash if split else None,
            tokenizer_hash=tokenizer_hash,
            special_tokens=specials.__dict__,
            corpus={str(file): artefact.hash_file(file) for file in corpus},
        )
    return counts


def _check_found(counts: dict[str, int], names: int, window: int, file: Path | None) -> None:
    """Refuse a corpus in which no mention is found, or none that fits a window."""
    if not counts["mentions"]:
        problem = f"no name of the terminology occurs in it: {counts['words']:,} words, {names:,} names"
        raise InputError(problem, file=file, remedy="look at --language and --text-field")
    if not counts["windows"] and not counts["sequences"] and not counts["windows_near_held_out"]:
        problem, remedy = f"none of its {counts['mentions']:,} mentions fits", "give a longer one: the paper's is 32"
        raise InputError(problem, field="window", value=window, file=file, remedy=remedy)


def _counted(texts: Iterable[str], counts: dict[str, int]) -> Iterator[str]:
    """Yield the texts that are not empty, and count both kinds."""
    for text in texts:
        if not text or text.isspace():
            counts["empty"] += 1
        else:
            counts["documents"] += 1
            yield text


def _write_sequences(
    texts: Sequence[str],
    matches: Matches,
    tokenizer: Tokenizer,
    settings: MentionSettings,
    writer: Writer,
    counts: dict[str, int],
) -> None:
    length, most = settings.sequence_tokens, settings.most_mentions
    for tokens in sequences(texts, matches, tokenizer, length=length, most=most):
        hidden = tokens.mentions[:, 2] == HELD_OUT
        if hidden.any():
            counts["sequences_with_held_out"] += 1
        elif not len(hidden):
            counts["sequences_without_mention"] += 1
        else:
            counts["sequences"] += 1
            writer.add(tokens)


def _write_windows(reservoir: Reservoir, tokenizer: Tokenizer, length: int, writer: Writer) -> dict[str, int]:
    counts = {"windows": 0, "windows_too_long": 0, "windows_near_held_out": reservoir.held_out_nearby}
    contexts = (context for _, context in reservoir.contexts())
    while block := list(itertools.islice(contexts, CONTEXTS_AT_ONCE)):
        for tokens in windows(block, tokenizer, length):
            counts["windows_too_long" if tokens is None else "windows"] += 1
            if tokens is not None:
                writer.add(tokens)
    return counts


def _write_forms(folder: Path, forms: Forms, counts: NDArray[np.int64], terminology: Terminology) -> int:
    """Write the forms that were met and their concepts; return how many concepts."""
    met = np.flatnonzero(counts)
    lengths = np.diff(forms.offsets)[met]
    places = np.repeat(forms.offsets[met] - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
    rows, concepts = np.unique(forms.concepts[places], return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    np.save(folder / "form_offsets.npy", offsets, allow_pickle=False)
    np.save(folder / "form_concepts.npy", concepts.astype(np.int32), allow_pickle=False)
    strings = pa.array([forms.strings[form] for form in met.tolist()], pa.large_string())
    arrow_files.write(folder / "forms.arrow", pa.table({"string": strings, "count": pa.array(counts[met], pa.int64())}))
    ids = pa.array(terminology.concept_ids.take(pa.array(rows)).to_pylist(), pa.large_string())
    arrow_files.write(folder / "concepts.arrow", pa.table({"id": ids}))
    return len(rows)
