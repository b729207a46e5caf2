"""Names that the entries of ICD-10-CM's alphabetical index make.

A main term with its sub-terms makes a name: "Abscess / brain / amebic" is "amebic brain abscess".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

# The code that an entry leads to, and what may follow it: "E11.40, G59*", "A12 [B34]".
FIRST_CODE = re.compile(r"\s*([A-Z][0-9A-Z]{2}(?:\.[0-9A-Z]{1,4})?)\.?(-*)[*†‡+]?\s*(?:$|(?=[,;/\[(]|or\b|and\b)(.*))")

_UNSPECIFIED = re.compile(r"^(unspecified|not specified)\b", re.IGNORECASE)
# Words that say where in the list one is, or that nothing is said, and nothing of the disease.
_IDLE = re.compile(
    r"^note:.*|\bsee also\b.*|\s-+\s*(code|see)\b.*|\s*\[[^\]]*\]|\b(other )?specified(,? [\w ,/-]+?)?,? NEC\b"
    r"|\b(other )?specified (type|site|part|form|cause|complication|disorder|joint|symptom|organism|agent)\b.*"
    r"|^(other )?specified$|^site( specified)?( NEC)?$|\b(unspecified|not specified)\b.*|\b(NEC|NOS)\b"
    r"|, inconclusive, without diagnosis$",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"(due to|with|without|in|of|from|following|by|during|after|complicating|complicated by|resulting|caused|causing"
    r"|associated|for|to|on|at|involving|because|secondary to|affecting|before|under|through|as|and|or|when|where"
    r"|while|despite|between|within)(?![\w-])",
    re.IGNORECASE,
)
_ENDS_OPEN = re.compile(
    r"\b(due to|with|without|in|of|from|following|by|for|to|on|at|and|or|during|after|complicating|causing|affecting"
    r"|involving|before|under|where|between|into|against)$",
    re.IGNORECASE,
)
# Sub-terms that stand behind what they belong to: "alcohol abuse".
_TAILS = frozenset({"abuse", "dependence", "use"})
# Main terms that stand before all of their sub-terms: "irritable colon", "history of".
_ADJECTIVE = re.compile(
    r"(?!(?:removal|withdrawal|canal|colic|metal|panic|tic|need)$)\w+(?:al|ic|ed|ous|ive|able|ful)"
    r"|aberrant|adherent|floating|giant|ingrowing|patent|redundant|rudimentary|supernumerary",
    re.IGNORECASE,
)
_LEADS = {
    "Admission": "admission for",
    "Encounter": "encounter for",
    "History": "history of",
    "Screening": "screening for",
}
_WHOSE = frozenset({"personal", "family"})
# Words that others stand behind: "Turner's hypoplasia", "Rh incompatibility".
_BEFORE = re.compile(r"\S+(?:'s|s')|[A-Z]+(?:-?\d+)?|Rh")
# A species behind its genus: "Trypanosoma brucei"; and "trisomy 13", "vitamin A".
_SPECIES = re.compile(r"[a-z]+(?:i|ae|is|us|um|a|ans|ense|ens|ile|es)")
_NUMBER = re.compile(r"\d+|[A-Z]\d*|[IVX]+[ab]?")
_LISTED = re.compile(r"(?:.* )?(?:or|and) \w+(.*)")
# Not in "46,XY" and "2, 3 diphosphoglycerate".
_COMMA = re.compile(r",\s+(?!\d)|,$")
# Two forms of one word: they begin alike, or not quite.
_SAME_LETTERS = 3
_OTHER_FORMS = frozenset({"teeth", "testes", "torn", "worn"})


class IndexRow(NamedTuple):
    """One entry: its depth below a main term, its words, its code, if it has one, and the line where it stands."""

    level: int
    term: str
    code: str
    line: int = 0


def names(rows: Iterable[IndexRow]) -> Iterator[tuple[str, str]]:
    """Yield code and name of each entry that has a code, in the order of the index."""
    for row, name in named(rows):
        if name and (found := FIRST_CODE.match(row.code)):
            yield found[1], name


def named(rows: Iterable[IndexRow]) -> Iterator[tuple[IndexRow, str | None]]:
    """Yield the entries with a code, and their names where they make one."""
    path: list[IndexRow] = []
    for row in rows:
        # A level that was skipped is one that no row stands for.
        path[row.level :] = [IndexRow(0, "", "") for _ in range(row.level - len(path))] + [row]
        if row.code.strip():
            # "Unspecified site" has its parent's name, if that has no code to have it.
            says_nothing = len(path) > 1 and not path[-2].code and _UNSPECIFIED.search(row.term)
            yield row, _name([step.term for step in (path[:-1] if says_nothing else path)])


@dataclass
class _Phrase:
    """A part of a name: "due to" and "blood loss". An empty end waits for words, without one (None) none can come."""

    begin: str = ""
    end: str | None = ""

    def __str__(self) -> str:
        return f"{self.begin} {self.end or ''}".strip()


def _name(path: list[str]) -> str | None:
    main, *parts = ([piece for piece in _pieces(term) if piece] for term in path)
    # What adds nothing to its main term is no name of its own.
    if not main or (parts and not parts[-1]):
        return None
    rest = [piece for part in [main[1:], *parts] for piece in part]
    phrases = [_beginning(main[0], rest)]
    before = ""
    for piece in rest:
        last, is_open = phrases[-1], _ENDS_OPEN.search(piece) is not None
        if last.end == "":
            last.begin, last.end = (f"{last.begin} {piece}", "") if is_open else (last.begin, piece)
            before = piece
        elif is_open or _BEHIND.match(piece):
            if before == "complicated" and piece == "by":
                piece, phrases[0].end = "complicated by", (phrases[0].end or "").removeprefix("complicated ")
            phrases.append(_Phrase(piece, "" if is_open else None))
        else:
            before = _placed(last if last.end else phrases[0], piece, before)
    if phrases[-1].end == "":
        if len(phrases) != 2 or _BEHIND.match(phrases[-1].begin):
            return None
        # "Colostomy / attention to"
        phrases = [phrases[-1], _Phrase(_inside(str(phrases[0])))]
    return " ".join(" ".join(map(str, phrases)).split())


def _beginning(head: str, rest: list[str]) -> _Phrase:
    """Return a main term as the first phrase, without an end where all sub-terms come behind it."""
    if rest and head in _LEADS and not _BEHIND.match(rest[0]):
        whose = f"{rest.pop(0)} " if rest[0] in _WHOSE else ""
        return _Phrase(f"{whose}{_LEADS[head]}")
    is_first = rest and (_ENDS_OPEN.search(head) or _ADJECTIVE.fullmatch(head))
    return _Phrase(head) if is_first else _Phrase(end=head)


def _placed(phrase: _Phrase, piece: str, before: str) -> str:
    """Put a piece to a phrase, in its place; return the words that a number or a species would stand behind."""
    end = phrase.end or ""
    is_genus = before[:1].isupper() and before.replace(" ", "").isalpha()
    if end.startswith(before) and (_NUMBER.fullmatch(piece) or (is_genus and _SPECIES.fullmatch(piece))):
        before = before or end
        phrase.end = f"{before} {piece}{end.removeprefix(before)}"
        return f"{before} {piece}"
    if piece in _TAILS or _BEFORE.fullmatch(end) or _ADJECTIVE.fullmatch(end):
        phrase.end = f"{end} {piece}"
        return ""
    phrase.end = f"{piece} {_inside(end)}"
    return piece


def _inside(name: str) -> str:
    """Return a name as it is written behind another word: "Abscess" as "abscess", "Still's disease" as it is."""
    first = name.split(" ", 1)[0]
    return name[0].lower() + name[1:] if first[1:].islower() and "'" not in first else name


def _pieces(term: str) -> list[str]:
    """Return the words of a term in the order in which they are spoken, in two pieces where a preposition divides
    them."""
    first, *others = [part.strip() for part in _COMMA.split(_IDLE.sub("", term))]
    others = [other for other in others if other]
    if not others:
        return [first]
    start = first.rpartition(" ")[2][:_SAME_LETTERS].lower()
    if others[0][:_SAME_LETTERS].lower() == start or others[0] in _OTHER_FORMS:
        return [first]
    if (listed := _LISTED.fullmatch(others[-1])) and not _BEHIND.match(others[0]):
        # "sedative, hypnotic, or anxiolytic use"
        return [first if " " in first else first + listed[1]]
    behind = [other for other in others if _BEHIND.match(other)]
    front = [other for other in others if other not in behind]
    link = _BEHIND.match(first)
    begin, rest = (link[0], first[link.end() :].strip()) if link else ("", _inside(first) if front and first else first)
    return [" ".join([begin, *reversed(front), rest]).strip(), " ".join(behind)]
