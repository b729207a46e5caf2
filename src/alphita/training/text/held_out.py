"""Held-out strings in texts that train: where they stand, and the texts without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.training.text.corpora import blocks
from alphita.training.text.folding import Fold
from alphita.training.text.forms import HELD_OUT, Forms, why_not
from alphita.training.text.matching import Matcher

Int64 = NDArray[np.int64]
# Characters matched at once.
CHARACTERS = 2_000_000
# Characters of a held-out string that is searched; in scripts without spaces 2 are enough.
LEAST = 3
_NO_SPANS = np.empty((0, 2), np.int64)
_DOTTED = str.maketrans("\u0130\u0131", "ii")


class HeldOut:
    """Held-out strings, found in texts by the rules of `matching`, accents and case aside.

    So are the dots of i, whose capitals another language pairs otherwise: "Isı" is found as "ısı" and as "ISI".

    Attributes:
        too_short: how many are too short to be searched.
    """

    def __init__(self, cleaned: Iterable[str]) -> None:
        """Search for the strings of a split, `split.cleaned`; there may be none."""
        fold = Fold(None, "strip")
        given = set(fold.keys([_dotted(string) for string in sorted(cleaned)])) - {""}
        keys = sorted(key for key in given if why_not(key, LEAST, ()) is None)
        self.too_short = len(given) - len(keys)
        self._matcher: Matcher | None = None
        if keys:
            hidden = np.full(len(keys), HELD_OUT, np.int32)
            forms = Forms(keys, hidden, hidden, [], np.zeros(1, np.int64), np.empty(0, np.int32))
            self._matcher = Matcher(forms, fold)

    def spans(self, texts: Sequence[str]) -> list[Int64]:
        """Return of each text the (m, 2) first characters of held-out strings and those behind their last."""
        if self._matcher is None:
            return [_NO_SPANS] * len(texts)
        found = self._matcher([_dotted(text) for text in texts])
        return np.split(np.stack([found.starts, found.ends], 1), found.offsets[1:-1]) if texts else []

    def cut_out(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield texts with a space where a held-out string stands."""
        for block in blocks(texts, CHARACTERS):
            for text, spans in zip(block, self.spans(block), strict=True):
                kept, behind = [], 0
                for start, end in spans.tolist():
                    kept.append(text[behind:start])
                    behind = end
                yield " ".join([*kept, text[behind:]])


def _dotted(text: str) -> str:
    return text if text.isascii() else text.translate(_DOTTED)
