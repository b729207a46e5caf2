"""Self-supervised mentions: where the names of a terminology stand in a corpus, and what stands around them.

Amore Bondarenko, D., Ferrod, R. and Di Caro, L.: Combining Contrastive Learning and Knowledge Graph Embeddings to
develop medical word embeddings for the Italian language, §3.1, which follows KRISSBERT (Zhang et al., EMNLP 2022):
surface forms are matched in unlabelled text, and a mention's context is a window of 32 tokens around it.

    build([Path("notes.jsonl.gz")], terminology, "minilm", Path("notes.mentions"), MentionSettings(languages=("it",)))
    mentions = Mentions.load("notes.mentions")
    mentions.windows.batch([0, 1], tags=(tag_before, tag_behind))

A corpus is read once, as a stream: in memory are some millions of its characters and the contexts that are kept, at
most 4 a form. `text.matching` says what counts as a mention. Windows hold a context for the losses that compare
mentions; sequences hold whole documents in pieces, with all mentions, for training that reads text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import artefact, progress
from alphita.errors import InputError, Rejects
from alphita.terminology.model import write_arrow
from alphita_lab.training.mentions.contexts import Context, Reservoir, sequences, windows
from alphita_lab.training.mentions.settings import MentionSettings
from alphita_lab.training.mentions.store import KIND, SEQUENCES, WINDOWS, Writer
from alphita_lab.training.text.corpora import blocks, documents
from alphita_lab.training.text.corpus_vocabulary import open_tokenizer
from alphita_lab.training.text.folding import Fold
from alphita_lab.training.text.forms import HELD_OUT, Forms, collect
from alphita_lab.training.text.matching import HeldOut, Matcher, Matches

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

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
    fold = Fold(settings.languages[0] if len(settings.languages) == 1 else None, settings.accents)
    hidden = split.cleaned if split else frozenset()
    forms = _forms(terminology, fold, settings, hidden)
    # Held-out strings are searched by themselves too: a name may cover one, or begin before it.
    matcher, held_out = Matcher(forms, fold), HeldOut(frozenset() if settings.held_out_text else hidden)
    reservoir = _reservoir(forms, settings)
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
        counts["mentions"] = int(reservoir.counts.sum())
        _check_mentions(counts, forms, corpus)
        met = reservoir.counts > 0
        counts |= {"forms": int(met.sum()), "rejected": rejects.count}
        counts |= _write_windows(reservoir, tokenizer, settings.window, kept_windows)
        _check_windows(counts, settings.window, corpus)
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


def _forms(terminology: Terminology, fold: Fold, settings: MentionSettings, held_out: frozenset[str]) -> Forms:
    return collect(
        terminology,
        fold,
        languages=settings.languages,
        held_out=held_out,
        ambiguous=settings.ambiguous,
        acronyms=settings.acronyms,
        least=settings.least_characters,
        stop=fold.keys(settings.stop),
    )


def _reservoir(forms: Forms, settings: MentionSettings) -> Reservoir:
    return Reservoir(
        len(forms.strings),
        settings.contexts,
        window=settings.window,
        seed=settings.seed,
        spare_held_out=not settings.held_out_text,
    )


def _check_mentions(counts: dict[str, int], forms: Forms, corpus: Sequence[Path]) -> None:
    """Refuse a corpus in which nothing was found."""
    if not counts["mentions"]:
        raise InputError(
            f"no name of the terminology occurs in it: {counts['words']:,} words, {len(forms.strings):,} names",
            file=corpus[0] if corpus else None,
            remedy="look at --language and --text-field",
        )


def _check_windows(counts: dict[str, int], window: int, corpus: Sequence[Path]) -> None:
    """Refuse mentions of which nothing is kept."""
    if not counts["windows"] and not counts["sequences"] and not counts["windows_near_held_out"]:
        raise InputError(
            f"none of its {counts['mentions']:,} mentions fits a window",
            field="window",
            value=window,
            file=corpus[0] if corpus else None,
            remedy="give a longer one, such as the paper's 32",
        )


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
        if hidden.any() and not settings.held_out_text:
            counts["sequences_with_held_out"] += 1
        elif hidden.all():
            counts["sequences_without_mention"] += 1
        else:
            counts["sequences"] += 1
            writer.add(tokens.without(hidden))


def _write_windows(reservoir: Reservoir, tokenizer: Tokenizer, length: int, writer: Writer) -> dict[str, int]:
    counts = {"windows": 0, "windows_too_long": 0, "windows_near_held_out": reservoir.held_out_nearby}
    for contexts in _some(context for _, context in reservoir.contexts()):
        for tokens in windows(contexts, tokenizer, length):
            counts["windows_too_long" if tokens is None else "windows"] += 1
            if tokens is not None:
                writer.add(tokens)
    return counts


def _some(contexts: Iterator[Context], size: int = 4096) -> Iterator[list[Context]]:
    while block := list(itertools.islice(contexts, size)):
        yield block


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
    write_arrow(folder / "forms.arrow", {"string": strings, "count": pa.array(counts[met], pa.int64())})
    ids = pa.array(terminology.concept_ids.take(pa.array(rows)).to_pylist(), pa.large_string())
    write_arrow(folder / "concepts.arrow", {"id": ids})
    return len(rows)
