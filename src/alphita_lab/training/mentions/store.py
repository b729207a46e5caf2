"""The artefact of mentions: forms, the concepts they name, windows and sequences, memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import artefact
from alphita.errors import InputError
from alphita.terminology.reading import rows_of
from alphita.terminology.store import Terminology
from alphita_lab.training.text.corpora import Specials

if TYPE_CHECKING:
    from alphita.terminology.splits import Split

KIND = "mentions"
REMEDY = "make it with: alphita mentions CORPUS -t X.terminology -o X.mentions"
WINDOWS, SEQUENCES = "windows", "sequences"
_AT_ONCE = 1 << 20
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Tokens:
    """A sequence of tokens with its mentions."""

    ids: Int32  # (t,) int32, without special tokens
    mentions: Int32  # (m, 3) int32 first token, the one behind the last, form
    own: int = 0  # the mention that a window is about; 0 in sequences


@dataclass(frozen=True)
class MentionBatch:
    """Sequences side by side, special tokens added."""

    input_ids: Int64  # (b, t) int64
    attention_mask: Int64  # (b, t) int64, 0 where padded
    mentions: Int64  # (m, 4) int64: row, first token, the token behind the last, form; the tags lie outside
    own: Int64  # (b,) the places in `mentions` of those that windows are about; of sequences, of their first


class TokenSets:
    """n sequences of tokens with their mentions; see `Tokens`."""

    def __init__(self, folder: Path, name: str, specials: Specials) -> None:

        def load(part: str) -> Any:  # noqa: ANN401
            return np.load(folder / f"{name}_{part}.npy", mmap_mode="r", allow_pickle=False)

        self.ids: Int32 = load("ids")  # (tokens,) int32, end to end, without special tokens
        self.offsets: Int64 = load("offsets")  # (n + 1,) int64 into `ids`
        self.mentions: Int32 = load("mentions")  # (m, 3) int32 first token, the one behind the last, form; end to end
        self.mention_offsets: Int64 = load("mention_offsets")  # (n + 1,) int64 into `mentions`
        self.own: Int32 = load("own")  # (n,) int32 which of its mentions each window is about; 0 in sequences
        self._specials = specials
        n = len(self.own)
        if (len(self.offsets), len(self.mention_offsets)) != (n + 1, n + 1) or (
            (int(self.offsets[-1]), int(self.mention_offsets[-1])) != (len(self.ids), len(self.mentions))
        ):
            raise ValueError(f"the files of {name} do not fit together")

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, row: int) -> Tokens:
        """Return one of them."""
        low, high = self.mention_offsets[row], self.mention_offsets[row + 1]
        ids = np.asarray(self.ids[self.offsets[row] : self.offsets[row + 1]])
        return Tokens(ids, np.asarray(self.mentions[low:high]), int(self.own[row]))

    @property
    def forms(self) -> Int32:
        """The form of each one's own mention, (n,)."""
        return np.asarray(self.mentions[self.mention_offsets[:-1] + self.own, 2])

    def batch(self, rows: Sequence[int] | Int64, *, tags: tuple[int, int] | None = None) -> MentionBatch:
        """Return some of them side by side, as long as the longest."""
        texts: list[Int64] = []
        mentions: list[Int64] = []
        own: list[int] = []
        before = len(self._specials.before)
        for place, row in enumerate(rows):
            one = self[int(row)]
            ids, spans = one.ids.astype(np.int64), one.mentions.astype(np.int64)
            if tags is not None:
                start, end = spans[one.own, :2]
                ids = np.concatenate([ids[:start], tags[:1], ids[start:end], tags[1:], ids[end:]])
                first, last = spans[:, 0].copy(), spans[:, 1].copy()
                spans[:, 0] += (first >= start) * 1 + (first >= end)
                spans[:, 1] += (last > start) * 1 + (last > end)
            own.append(sum(map(len, mentions)) + one.own)
            mentions.append(np.column_stack([np.full(len(spans), place), spans[:, :2] + before, spans[:, 2]]))
            texts.append(np.concatenate([self._specials.before, ids, self._specials.behind]).astype(np.int64))
        length = max(map(len, texts), default=0)
        input_ids = np.full((len(texts), length), self._specials.pad, np.int64)
        attention_mask = np.zeros_like(input_ids)
        for place, ids in enumerate(texts):
            input_ids[place, : len(ids)] = ids
            attention_mask[place, : len(ids)] = 1
        found = np.concatenate([*mentions, np.empty((0, 4), np.int64)]).astype(np.int64)
        return MentionBatch(input_ids, attention_mask, found, np.array(own, np.int64))


class Mentions:
    """Mentions of concepts in a corpus."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Settings, counts, hashes of terminology, split, tokenizer and corpus.
        self.manifest = artefact.open_checked(path, KIND)
        self.content_hash: str = self.manifest["content_hash"]
        try:
            noted = self.manifest["special_tokens"]
            specials = Specials(tuple(noted["before"]), tuple(noted["behind"]), int(noted["pad"]))
            forms, concepts = (_read_arrow(path / f"{name}.arrow") for name in ("forms", "concepts"))
            self.strings: pa.Array = forms["string"].combine_chunks()  # (f,) each form as the terminology writes it
            self.counts: Int64 = forms["count"].to_numpy()  # (f,) int64 how often each was met
            self.concept_ids: list[str] = concepts["id"].to_pylist()  # (c,) the CURIEs of the concepts that were met
            # (f + 1,) int64; form i names the concepts form_offsets[i] up to form_offsets[i + 1].
            self.form_offsets: Int64 = np.load(path / "form_offsets.npy", mmap_mode="r", allow_pickle=False)
            self.form_concepts: Int32 = np.load(path / "form_concepts.npy", mmap_mode="r", allow_pickle=False)
            self.windows = TokenSets(path, WINDOWS, specials)
            # Whole documents in pieces, in the order of the corpus; none unless they were asked for.
            self.sequences = TokenSets(path, SEQUENCES, specials)
            if (len(self.strings) + 1, len(self.form_concepts)) != (len(self.form_offsets), int(self.form_offsets[-1])):
                raise ValueError("its files do not fit together")
        except (OSError, ValueError, KeyError, IndexError, TypeError, pa.ArrowException) as error:
            raise InputError(f"damaged mentions: {error}", file=path, remedy=REMEDY) from None

    @classmethod
    def load(cls, path: Path | str, *, tokenizer_hash: str | None = None) -> Mentions:
        """Open mentions."""
        mentions = cls(Path(path))
        if tokenizer_hash is not None and mentions.manifest.get("tokenizer_hash") != tokenizer_hash:
            raise InputError(
                "its tokens are of another tokenizer than the encoder's",
                file=path,
                remedy="make it again with this encoder: alphita mentions CORPUS --encoder …",
            )
        return mentions

    @property
    def form_concept(self) -> Int32:
        """The concept of each form, (f,), by its place in `concept_ids`; of a homonym that was kept, the first."""
        return np.asarray(self.form_concepts[self.form_offsets[:-1]])

    def rows_in(self, terminology: Terminology) -> Int64:
        """Return the row of each concept, (c,), in a terminology; -1 where it has none."""
        rows = rows_of(terminology, self.concept_ids)
        return np.array([rows.get(identifier, -1) for identifier in self.concept_ids], np.int64)


def _read_arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


class Writer:
    """Writes sequences of tokens one after the other, so that they need not fit into memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._ids = open(folder / f"{name}_ids.raw", "wb")  # noqa: SIM115
        self._mentions = open(folder / f"{name}_mentions.raw", "wb")  # noqa: SIM115
        self._lengths: list[int] = []
        self._counts: list[int] = []
        self._own: list[int] = []

    def add(self, tokens: Tokens) -> None:
        """Write one sequence."""
        self._ids.write(tokens.ids.astype(np.int32).tobytes())
        self._mentions.write(tokens.mentions.astype(np.int32).tobytes())
        self._lengths.append(len(tokens.ids))
        self._counts.append(len(tokens.mentions))
        self._own.append(tokens.own)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._ids.close()
        self._mentions.close()

    def finish(self, form_numbers: Int32) -> None:
        """Give the forms their last numbers, and close; form_numbers: (old forms,) the new number of each."""
        self.close()
        offsets, mention_offsets = (
            np.concatenate([[0], np.cumsum(n)]).astype(np.int64) for n in (self._lengths, self._counts)
        )
        own = np.array(self._own, np.int32)
        for part, array in (("offsets", offsets), ("mention_offsets", mention_offsets), ("own", own)):
            np.save(self.folder / f"{self.name}_{part}.npy", array, allow_pickle=False)
        for part, shape in (("ids", (int(offsets[-1]),)), ("mentions", (int(mention_offsets[-1]), 3))):
            raw = self.folder / f"{self.name}_{part}.raw"
            with open(raw, "rb") as source, open(self.folder / f"{self.name}_{part}.npy", "wb") as target:
                header = {"descr": "<i4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(target, header)
                while block := source.read(12 * _AT_ONCE):
                    if part == "mentions":
                        rows = np.frombuffer(block, "<i4").reshape(-1, 3).copy()
                        rows[:, 2] = form_numbers[rows[:, 2]]
                        block = rows.tobytes()
                    target.write(block)
            raw.unlink()


def check_split(mentions: Mentions, split: Split | None) -> None:
    """Make sure that no text of `mentions` holds what `split` holds out."""
    noted, wanted = mentions.manifest.get("split"), split.hash if split else None
    if noted != wanted:
        if wanted is None:
            made, remedy = "with a split, and training has none", "train with that split, or make it without one"
        else:
            made = "with another split than training's" if noted else "without a split, and training has one"
            remedy = "make it with that of training"
        raise InputError(
            f"it was made {made}", file=mentions.path, remedy=f"{remedy}: alphita mentions --split X.split"
        )
