"""Surface forms: the strings of a terminology that are searched in texts, and which are not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.terminology.languages import among
from alphita_lab.training.text.folding import WORD, Fold, character_flags

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

Ambiguous = Literal["leave_out", "keep"]
# What a key stands for where it is no form: a homonym that is left out, a held-out string, an acronym in small letters.
HOMONYM, HELD_OUT, NOTHING = -1, -2, -3
LONGEST_ACRONYM = 4
ACRONYM = re.compile(r"(?=.*[^\W\d_].*[^\W\d_])[^\W_]{2,4}", re.DOTALL)
# Words of the language that are also names of something ("all", "may"), and what terminologies list beside diseases.
_STOP = (
    "and are all any but can did does for from had has have her his how its may not now off one other our out own per "
    "she some than that the their them then there these they this those too was were what when who why will with yes "
    "you none normal unknown unspecified "
    "che chi come con cui dal dei del della delle dello degli gli hai hanno loro mai non nei nel nella per più poi qui "
    "sia sono suo sua tra una uno altro altri normale nessuno nessuna "
    "aux avec ces ceci cela des deux donc dont elle est eux les leur mais même nous par pas plus pour que qui sans ses "
    "son sont sur une vous autre autres aucun "
    "como del los las este esta esto fue hay más muy otra otro otros para pero por que sin son una uno ninguno "
    "als auch auf aus bei das dem den der des die ein eine einer für hat ihr ist kein keine mit nach nicht noch nur "
    "oder sich sie sind und von vom war wie wird zum zur andere"
)
STOP = frozenset(_STOP.split())


@dataclass
class Forms:
    """Distinct folded strings, and what each of them stands for.

    A form is a string that names something: a key as it may be written in any case, or, of a key that is an acronym of
    some concept, in capitals.

    Attributes:
        keys: the k folded strings that are searched, sorted.
        any_case: (k,) int32 the form that a key stands for when not all in capitals; or HOMONYM, HELD_OUT, NOTHING.
        capitals: (k,) and when it is.
        offsets: (f + 1,) int64; form i names the concepts offsets[i] up to offsets[i + 1].
        concepts: int32 rows of the terminology.
        left_out: why -> how many strings of concepts are not searched; homonyms count once.
    """

    keys: list[str]
    any_case: NDArray[np.int32]
    capitals: NDArray[np.int32]
    strings: list[str]
    offsets: NDArray[np.int64]
    concepts: NDArray[np.int32]
    left_out: dict[str, int] = field(default_factory=dict)


def collect(
    terminology: Terminology,
    fold: Fold,
    *,
    languages: Sequence[str] = (),
    held_out: Collection[str] = frozenset(),
    ambiguous: Ambiguous = "leave_out",
    acronyms: bool = True,
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
        is_acronym = acronyms and is_acronym_of(string) and kind not in shouting
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
