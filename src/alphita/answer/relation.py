"""How a concept stands to a mention: the same, broader, narrower or merely related.

By what is known without anyone's judgement: the matched term's own scope (a broad synonym names something broader than
its concept, so the concept is narrower than the mention), and which words or attributes one of the two has more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.answer.features import NAMES, Features
from alphita.mappings.record import Relation
from alphita.mention.spelling import shortened

COLUMN = {name: place for place, name in enumerate(NAMES)}
# Above this share of its weight all of a string's words stand in the other.
ALL_WORDS = 0.999
_WORD = re.compile(r"[^\W_]+")


def relations(
    features: Features, rows: NDArray[np.int64], scopes: Sequence[str | None], strings: Sequence[tuple[str, str]]
) -> list[Relation]:
    """Return the relation of some candidates to their mentions.

    Args:
        rows: (m,) the candidates asked about.
    """
    values = features.candidates[rows]
    equal = (values[:, COLUMN["equal"]] > 0) | (values[:, COLUMN["same_words"]] > 0)
    mention_in_term = values[:, COLUMN["words_of_mention_in_term"]] > ALL_WORDS
    term_in_mention = values[:, COLUMN["words_of_term_in_mention"]] > ALL_WORDS
    longer = term_in_mention & ~mention_in_term
    for place in np.flatnonzero(longer).tolist():
        longer[place] = not _without_notes_in(*strings[place])
    mention_more = (values[:, COLUMN["only_in_mention"]] > 0) | longer
    term_more = (values[:, COLUMN["only_in_term"]] > 0) | (mention_in_term & ~term_in_mention)
    apart = values[:, COLUMN["contradictions"]] > 0
    found: list[Relation] = []
    by_scope: dict[str | None, Relation] = {"broad": "narrow", "narrow": "broad", "related": "related"}
    for place, scope in enumerate(scopes):
        if scope in by_scope:
            found.append(by_scope[scope])
        elif apart[place] or (mention_more[place] and term_more[place]):
            found.append("related")
        elif equal[place]:
            found.append("exact")
        elif mention_more[place]:
            found.append("broad")
        elif term_more[place]:
            found.append("narrow")
        else:
            found.append("exact")
    return found


def _without_notes_in(mention: str, term: str) -> bool:
    """Return whether all words of a mention, but for those of notes around it, stand in a term."""
    return set(_WORD.findall(shortened(mention))) <= set(_WORD.findall(term))
