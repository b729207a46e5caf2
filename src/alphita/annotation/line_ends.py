"""A text with one line feed for each line end, of whatever kind, and its annotations at their places in the given text.

Line ends are LF, CRLF, CR, and Unicode's NEL, LS and PS. CR CR LF, which a text has whose CRLF was converted twice, is
one too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace
from typing import NamedTuple

from alphita.annotation.spans import Annotation, Place

_OTHER = re.compile("[\r\x85\u2028\u2029]")
_LINE_END = re.compile("\r{0,2}\n|[\r\x85\u2028\u2029]")


class Lines(NamedTuple):
    """A text, as it was given and with line feeds.

    Attributes:
        longer: the places in `text`, ascending, of line ends that are longer in `given`, once a further character.
    """

    given: str
    text: str
    longer: list[int]

    def given_place(self, start: int, end: int) -> Place:
        """Return where a part of `text` stands in `given`."""
        return Place(start + bisect_left(self.longer, start), end + bisect_left(self.longer, end))

    def given_annotation(self, found: Annotation) -> Annotation:
        """Return an annotation of `text` as one of `given`."""
        if self.text is self.given:
            return found
        start, end = self.given_place(found.start, found.end)
        context = [(one, self.given_place(one.start, one.end)) for one in found.context]
        modifiers = [(one, self.given_place(one.start, one.end)) for one in found.modifiers]
        return replace(
            found,
            start=start,
            end=end,
            mention=self.given[start:end],
            pieces=tuple(self.given_place(*piece) for piece in found.pieces),
            context=tuple(replace(one, **place._asdict(), cue=self.given[slice(*place)]) for one, place in context),
            modifiers=tuple(replace(one, **place._asdict()) for one, place in modifiers),
        )


def lines_of(given: str) -> Lines:
    """Return a text with line feeds."""
    if not _OTHER.search(given):
        return Lines(given, given, [])
    longer: list[int] = []
    for end in _LINE_END.finditer(given):
        longer += [end.start() - len(longer)] * (len(end[0]) - 1)
    return Lines(given, _LINE_END.sub("\n", given), longer)
