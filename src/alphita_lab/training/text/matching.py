"""Surface forms of a terminology, and where they occur in texts: leftmost longest matches by Aho-Corasick (CACM 1975).

Texts and forms are compared folded; a mention never starts or ends inside a word; acronyms match in capitals only.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from alphita import textio
from alphita.errors import InputError, require
from alphita.terminology.languages import among
from alphita_lab.training.text.corpora import blocks
from alphita_lab.training.text.folding import BEGIN, BREAK, JOINT, WORD, Fold, as_folded, character_flags, marked

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

Ambiguous = Literal["leave_out", "keep"]
# What a key stands for where it is no form: a homonym that is left out, a held-out string, an acronym in small letters.
HOMONYM, HELD_OUT, NOTHING = -1, -2, -3
LONGEST_ACRONYM = 4
ACRONYM = re.compile(r"(?=.*[^\W\d_].*[^\W\d_])[^\W_]{2,4}", re.DOTALL)
# Words of the language that are also names of something ("all", "may"), and what terminologies list beside diseases.
STOP = frozenset(" ".join(row["words"] for row in textio.packaged(__package__, "stop_words.tsv")).split())


@dataclass
class Forms:
    """Distinct folded strings, and what each of them stands for.

    A form is a string that names something: a key as it may be written in any case, or, of a key that is an acronym of
    some concept, in capitals.
    """

    keys: list[str]  # the k folded strings that are searched, sorted
    any_case: NDArray[np.int32]  # (k,) int32 the form that a key stands for when not all in capitals
    capitals: NDArray[np.int32]  # (k,) and when it is
    strings: list[str]
    offsets: NDArray[np.int64]  # (f + 1,) int64; form i names the concepts offsets[i] up to offsets[i + 1]
    concepts: NDArray[np.int32]  # int32 rows of the terminology
    left_out: dict[str, int] = field(default_factory=dict)  # why -> how many strings of concepts are not searched


def collect(
    terminology: Terminology,
    fold: Fold,
    *,
    languages: Sequence[str] = (),
    held_out: Collection[str] = frozenset(),
    ambiguous: Ambiguous = "leave_out",
    least: int = 3,
    stop: Collection[str] = (),
) -> Forms:
    """Collect the surface forms of a terminology: the terms that train, folded."""
    rows, offsets = terminology.training_terms(exclude=held_out, languages=languages or None)
    spoken = terminology.terms["language"].take(rows).unique().to_pylist()
    if absent := [language for language in languages if not among(spoken, [language])]:
        there = sorted(filter(None, terminology.terms["language"].unique().to_pylist()))
        raise InputError(
            f"no name to search for is in the language {absent[0]!r}",
            file=terminology.path,
            remedy=f"its languages are {', '.join(there)}; machine translations are not searched",
        )
    strings: list[str] = terminology.terms["string"].take(rows).to_pylist()
    concepts = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)).tolist()
    kinds = list(zip(*(terminology.terms[name].take(rows).to_pylist() for name in ("source", "language")), strict=True))
    shouting = _in_capitals(strings, kinds)
    left_out: Counter[str] = Counter()
    hidden, common = set(fold.keys(sorted(held_out))) - {""}, STOP.union(stop)
    found: dict[str, _Named] = {}
    for string, key, concept, kind in zip(strings, fold.keys(strings), concepts, kinds, strict=True):
        is_acronym = is_acronym_of(string) and kind not in shouting
        reason = "held out" if key in hidden else why_not(key, least, stop if is_acronym else common)
        if reason is not None:
            left_out[reason] += 1
            continue
        named = found.setdefault(key, _Named())
        (named.acronym if is_acronym else named.plain).setdefault(concept, string.strip())
    if not found:
        raise InputError(
            "has no surface form to search for",
            file=terminology.path,
            remedy=f"left out: {dict(left_out)}" if left_out else "give one with exact names",
        )
    too_short = {key for key in hidden if why_not(key, least, ()) is not None}
    if too_short:
        left_out["held out and too short to be searched"] = len(too_short)
    return _numbered(found, hidden - too_short, ambiguous, left_out)


def is_acronym_of(string: str) -> bool:
    """Tell whether a term is an acronym: 2 to 4 letters and digits, two letters at least, none of them small."""
    string = string.strip()
    return ACRONYM.fullmatch(string) is not None and string.isupper()


def _in_capitals(strings: Sequence[str], kinds: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the sources, each with a language, that write most of their names of 5 and more characters in capitals."""
    balance: Counter[tuple[str, str]] = Counter()
    for string, kind in zip(strings, kinds, strict=True):
        if len(string) > LONGEST_ACRONYM:
            balance[kind] += 1 if string.isupper() else -1
    return {kind for kind, capitals in balance.items() if capitals > 0}


def why_not(key: str, least: int, stop: Collection[str]) -> str | None:
    """Return why a folded string is not searched; None if it is."""
    if not any(map(str.isalpha, key)):
        return "without a letter"
    flags = character_flags()
    spaced = any(flags[ord(sign)] & WORD for sign in key if sign.isalpha())
    if len(key) < (least if spaced else min(least, 2)):
        return "too short"
    return "stop word" if key in stop else None


class _Named:
    """What one key names: concept -> string, when in any case and when in capitals."""

    def __init__(self) -> None:
        self.plain: dict[int, str] = {}
        self.acronym: dict[int, str] = {}


def _numbered(found: dict[str, _Named], hidden: set[str], ambiguous: Ambiguous, left_out: Counter[str]) -> Forms:
    strings: list[str] = []
    named: list[list[int]] = []

    def number(concepts: dict[int, str]) -> int:
        if not concepts:
            return NOTHING
        if len(concepts) > 1 and ambiguous == "leave_out":
            left_out["homonym"] += 1
            return HOMONYM
        strings.append(min(concepts.values()))
        named.append(sorted(concepts))
        return len(named) - 1

    keys = sorted(found.keys() | hidden)
    any_case = np.full(len(keys), HELD_OUT, np.int32)
    capitals = any_case.copy()
    for place, key in enumerate(keys):
        if key in hidden:
            continue
        one = found[key]
        any_case[place] = number(one.plain)
        capitals[place] = any_case[place] if one.acronym.keys() <= one.plain.keys() else number(one.acronym | one.plain)
    offsets = np.concatenate([[0], np.cumsum([len(concepts) for concepts in named])]).astype(np.int64)
    flat = np.array([concept for concepts in named for concept in concepts], np.int32)
    return Forms(keys, any_case, capitals, strings, offsets, flat, dict(sorted(left_out.items())))


Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Matches:
    """Mentions in n texts, text by text, from left to right."""

    offsets: Int64  # (n + 1,) int64; text i has the mentions offsets[i] up to offsets[i + 1]
    starts: Int64  # (m,) int64 first character of each mention in its text as written
    ends: Int64  # (m,) int64 the character behind its last
    forms: NDArray[np.int32]  # (m,) int32 number of the form; HELD_OUT where a held-out string stands
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
