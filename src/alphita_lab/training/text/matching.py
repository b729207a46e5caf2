"""Surface forms found in texts: the leftmost, of these the longest, by Aho-Corasick, many texts at a time.

Aho, A. V. and Corasick, M. J.: Efficient string matching, CACM 18 (1975). The rules:

1. Text and form are folded (`folding`), and equal.
2. A mention neither begins nor ends inside a word. What divides words are spaces and all signs that are neither letters
   nor digits: in "dell'ipertensione" and "post-operative pain" *ipertensione* and *pain* may be found. Scripts without
   spaces (Chinese, Japanese, Thai) have no such rule, and a Korean word no end.
3. Of all that fit the one that begins first is taken, of those that begin there the longest; the search goes on behind
   it. So mentions never overlap.
4. An acronym is found in capitals only. A homonym of several concepts that is left out, a held-out string, and an
   acronym in small letters take the place that they have in the text: nothing is found inside them.

A held-out string that some name covers, or begins before, is not met that way; `Matches.hiding` puts it in the place of
such names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import require
from alphita_lab.training.text.corpora import blocks
from alphita_lab.training.text.folding import BEGIN, BREAK, JOINT, Fold, as_folded, marked
from alphita_lab.training.text.forms import HELD_OUT, HOMONYM, Forms, why_not

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Matches:
    """Mentions in n texts, text by text, from left to right.

    Attributes:
        offsets: (n + 1,) int64; text i has the mentions offsets[i] up to offsets[i + 1].
        starts: (m,) int64 first character of each mention in its text as written.
        ends: (m,) int64 the character behind its last.
        forms: (m,) int32 number of the form; HELD_OUT where a held-out string stands.
    """

    offsets: Int64
    starts: Int64
    ends: Int64
    forms: NDArray[np.int32]
    words: int
    homonyms: int

    def hiding(self, spans: Sequence[Int64]) -> Matches:
        """Return the mentions with held-out strings in the place of all that have a part in one."""
        if not any(map(len, spans)):
            return self
        text = np.repeat(np.arange(len(spans)), np.diff(self.offsets))
        kept = np.ones(len(text), bool)
        for number, hidden in enumerate(spans):
            if len(hidden):
                here = slice(self.offsets[number], self.offsets[number + 1])
                after = np.searchsorted(hidden[:, 1], self.starts[here], side="right")
                begins = np.append(hidden[:, 0], np.iinfo(np.int64).max)[after]
                kept[here] = begins >= self.ends[here]
        added = np.concatenate(spans)
        text = np.concatenate([text[kept], np.repeat(np.arange(len(spans)), [len(span) for span in spans])])
        starts, ends = (
            np.concatenate([own[kept], added[:, place]]) for place, own in enumerate((self.starts, self.ends))
        )
        forms = np.concatenate([self.forms[kept], np.full(len(added), HELD_OUT, np.int32)])
        order = np.lexsort((starts, text))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(text, minlength=len(spans)))]).astype(np.int64)
        return Matches(offsets, starts[order], ends[order], forms[order], self.words, self.homonyms)


class Matcher:
    """Finds surface forms in texts."""

    def __init__(self, forms: Forms, fold: Fold) -> None:
        engine = require("ahocorasick_rs", "train")
        self.forms, self.fold = forms, fold
        patterns = marked(as_folded(BREAK.join(forms.keys)))[0].split(BREAK)
        self._automaton: Any = engine.AhoCorasick(
            patterns, matchkind=engine.MatchKind.LeftmostLongest, store_patterns=False
        )
        self._cased = forms.any_case != forms.capitals

    def __call__(self, texts: Sequence[str]) -> Matches:
        """Return the mentions in some texts; millions of characters at a time cost least."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        begins = np.cumsum(lengths + 1) - lengths - 1
        joined = JOINT.join(text.replace(JOINT, " ") for text in texts)
        folded = self.fold(joined)
        haystack, places = marked(folded)
        matches = self._automaton.find_matches_as_indexes(haystack)
        flat = np.fromiter(itertools.chain.from_iterable(matches), np.int64, 3 * len(matches)).reshape(-1, 3)
        first = np.searchsorted(places, flat[:, 1])
        last = np.searchsorted(places, flat[:, 2]) - 1
        starts, ends = folded.starts[first], folded.ends[last]
        patterns = flat[:, 0]
        forms = self.forms.any_case[patterns]
        for place in np.flatnonzero(self._cased[patterns]).tolist():
            if joined[starts[place] : ends[place]].isupper():
                forms[place] = self.forms.capitals[patterns[place]]
        homonyms = int((forms == HOMONYM).sum())
        kept = (forms >= 0) | (forms == HELD_OUT)
        starts, ends, forms = starts[kept], ends[kept], forms[kept]
        text = np.searchsorted(begins, starts, side="right") - 1
        counts = np.bincount(text, minlength=len(texts)) if len(texts) else np.empty(0, np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Matches(offsets, starts - begins[text], ends - begins[text], forms, haystack.count(BEGIN), homonyms)


# Characters matched at once.
CHARACTERS = 2_000_000
# Characters of a held-out string that is searched; in scripts without spaces 2 are enough.
LEAST = 3
_NO_SPANS = np.empty((0, 2), np.int64)
_DOTTED = str.maketrans("\u0130\u0131", "ii")


class HeldOut:
    """Held-out strings, found in texts by the rules of `matching`, accents and case aside.

    So are the dots of i, whose capitals another language pairs otherwise: "Isı" is found as "ısı" and as "ISI".
    """

    def __init__(self, cleaned: Iterable[str]) -> None:
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
        matches = self._matcher([_dotted(text) for text in texts])
        return np.split(np.stack([matches.starts, matches.ends], 1), matches.offsets[1:-1]) if texts else []

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
