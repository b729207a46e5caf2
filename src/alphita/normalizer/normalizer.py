"""The normaliser: clean-up, exact match, nearest terms, concepts, and NIL below a similarity floor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alphita.errors import UsageError
from alphita.index.store import Encoder, Index
from alphita.normalizer.candidates import Nearest, find
from alphita.normalizer.ranking import candidates_of, concepts_of
from alphita.normalizer.records import DEFAULT_FLOOR, EXACT, NEAREST, NIL, Candidate, Result
from alphita.terminology.text import clean_many

# Distinct mentions encoded and searched together.
MENTIONS_AT_ONCE = 16_384


class Normalizer:
    """Maps strings to concepts of one index. The encoder is loaded when the first string needs it."""

    def __init__(
        self,
        index: Index,
        *,
        encoder: Encoder | None = None,
        floor: float = DEFAULT_FLOOR,
        precision: str = "auto",
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        """Normalise with an opened index.

        Args:
            index: the terms and their vectors.
            encoder: use this one instead of loading the index's own; it must be the same model.
            floor: cosine, -1 to 1, below which the nearest term is no answer (NIL).
            precision: see `TermEncoder.load`.
            device: see `TermEncoder.load`.
            threads: see `TermEncoder.load`.

        Raises:
            UsageError: `floor` is out of range.
            InputError: `encoder` is not the one the index was built with.
        """
        if not -1.0 <= floor <= 1.0:
            raise UsageError(f"floor must be between -1 and 1, not {floor}")
        if encoder is not None:
            index.check_encoder(encoder)
        self.index, self.floor = index, floor
        self.precision, self.device, self.threads = precision, device, threads
        self._encoder = encoder

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        floor: float = DEFAULT_FLOOR,
        precision: str = "auto",
        device: str = "auto",
        threads: int | None = None,
        verify: bool | None = None,
    ) -> Normalizer:
        """Open the index at `path` and normalise with it; the other arguments are those of the class and `Index.open`.

        Raises:
            InputError: the index is damaged or its parts do not belong together.
        """
        index = Index.open(path, verify=verify)
        return cls(index, floor=floor, precision=precision, device=device, threads=threads)

    def encoder(self) -> Encoder:
        """Return the encoder, loading it the first time."""
        if self._encoder is None:
            from alphita.encoder.encoder import TermEncoder

            encoder: Encoder = TermEncoder.load(
                self.index.model_path, precision=self.precision, device=self.device, threads=self.threads
            )
            self.index.check_encoder(encoder)
            self._encoder = encoder
        return self._encoder

    def normalize(self, mentions: Sequence[str], *, top_k: int = 1) -> list[Result]:
        """Map each mention to its concept.

        Equal mentions (after cleaning) are looked up once. An empty mention is NIL without candidates.

        Args:
            mentions: the strings.
            top_k: candidates wanted for each: exactly so many concepts, if the index has them.

        Returns:
            One result per mention, in order.

        Raises:
            UsageError: `mentions` is not a list of strings, or `top_k` is below 1.
        """
        _check(mentions, top_k)
        cleaned = clean_many(list(mentions), self.index.rules)
        distinct = [string for string in dict.fromkeys(cleaned) if string]
        known: dict[str, tuple[bool, tuple[Candidate, ...]]] = {}
        for start in range(0, len(distinct), MENTIONS_AT_ONCE):
            block = distinct[start : start + MENTIONS_AT_ONCE]
            known.update(zip(block, self._answer(block, top_k), strict=True))
        nothing: tuple[bool, tuple[Candidate, ...]] = (False, ())
        return [
            self._result(mention, *known.get(string, nothing))
            for mention, string in zip(mentions, cleaned, strict=True)
        ]

    def _answer(self, cleaned: Sequence[str], top_k: int) -> list[tuple[bool, tuple[Candidate, ...]]]:
        near: list[Nearest] = find(self.index, self.encoder, cleaned, top_k)
        segment = self.index.segment
        candidates = candidates_of(segment, [concepts_of(segment, one, top_k) for one in near])
        return [(one.exact, found) for one, found in zip(near, candidates, strict=True)]

    def _result(self, mention: str, exact: bool, candidates: tuple[Candidate, ...]) -> Result:
        if not candidates:
            return Result(mention, None, None, None, None, None, NIL)
        best = candidates[0]
        if not exact and best.similarity < self.floor:
            return Result(mention, None, None, best.matched_term, best.similarity, None, NIL, candidates)
        return Result(
            mention, best.concept_id, best.concept_name, best.matched_term, best.similarity, None,
            EXACT if exact else NEAREST, candidates,
        )  # fmt: skip


def _check(mentions: Sequence[str], top_k: int) -> None:
    if isinstance(mentions, str):
        raise UsageError("normalize takes a list of strings, not one string: normalize([mention])")
    if top_k < 1:
        raise UsageError(f"top_k must be 1 or more, not {top_k}")
    for place, mention in enumerate(mentions):
        if not isinstance(mention, str):
            raise UsageError(f"mention {place} is no string but {type(mention).__name__}; give '' for a missing one")
