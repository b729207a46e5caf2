"""What the words of a mention and of the name that answers it say against each other.

Near strings are not enough: "strong pulse" is no weak one, "anorchia" no anonychia, "aPTT" alone does not say that it
is prolonged, and "N/V/D" names more than nausea and vomiting. Each of these is a rule about words of `lexicon` or parts
of words of `morphemes`; none knows a concept.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Container, Sequence
from typing import NamedTuple

from alphita.normalizer.answering import lexicon, morphemes
from alphita.normalizer.answering.morphemes import levelled
from alphita.normalizer.answering.spelling import IDLE
from alphita.normalizer.cues import bare

OPPOSITE = "opposite: the mention says the opposite of the name"
OTHER_WORD = "word: the mention has another word than the name"
UNSAID = "unsaid: the name says more than the mention"
UNEXPLAINED = "unexplained: the mention says what the name does not"
NO_FINDING = "modifier: the name is no finding, and the mention says more"
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
# A value and its unit: "30 s", "<10".
_VALUE = re.compile(
    r"[<>≤≥=]? ?(?<![^\W_])\d[\d.,:/-]*(?: ?(?:mm?ol|[mukn]?g|iu|m?iu|u|s|sec|ms|mm|cm|%|fl|pg)(?:/\w+)?\b)?"
)
_CODED = re.compile(r"([^\W\d_]{1,4})(\d+)")
# Beginnings that turn a word into its opposite, alone or in place of another.
_NOT = ("un", "in", "im", "ir", "il", "an", "a", "non", "dis")
_TURNED = (
    *(("micro", "macro"), ("hypo", "hyper"), ("brady", "tachy"), ("brachy", "dolicho"), ("oligo", "poly")),
    *(("eu", other) for other in ("a", "an", "ar", "dys")),
)
_STEM = 4
# Words this like each other in their letters, 0 to 1, may be taken for each other.
ALIKE = 0.6
BLOOD = "blood"
# A beginning of a word with less of its letters is not that word.
CUT = 0.6
# Words more than these beside a whole name are of something else.
MOST_UNEXPLAINED = 2
# Words this like each other are one, misspelt.
MISSPELT = 0.75
# Letters by which one word's inflections differ.
INFLECTION = 3
SHORTEST_MADE = 5
# Beginnings that are not heard, or heard as another; of words as `key` has them.
_SILENT = r"^(?:p(?=[nst])|h|e(?=u)|g(?=n)|c(?=n)|[sxc](?=[sxcei])|m(?=n))"
# Words of less that tell a place or a form too.
_OF_FORM = frozenset({"lower", "down", "short", "small"})
# Beginnings of words that say less, and what parts of words mean that do.
_LESS = ("hypo", "micro", "under", "oligo", "brady")
_LESS_MEANT = frozenset(
    {"low", "lack", "not", "few", "small", "short", "slow", "ill", "narrowing", "fall", "half", "atony", "weakness"}
)
# Marks of a positive result are as good as the word.
_POSITIVE = re.compile(r"\+|\bpos\b")


class Rest(NamedTuple):
    """What of two strings stands in one alone, words levelled."""

    said: list[str]
    named: list[str]


def contradiction(
    mention: str,
    names: Sequence[str],
    *,
    expansion: str | None = None,
    spelling: str | None = None,
    common: Container[str] = (),
) -> str | None:
    """Return what the words of a mention say against a name, as `OPPOSITE` and its like; None: nothing.

    Args:
        mention: as written.
        names: the name that answers it, and the preferred name of its concept.
        expansion: what the mention's short forms stand for; None: it has none.
        spelling: the mention with its words put right; None: none was.
        common: words of common language, in lower case.
    """
    said = expansion or mention
    matched, *others = names
    for each in dict.fromkeys((mention, said)):
        if is_opposite(each, matched) or any(is_at_other_end(each, name) for name in others):
            return OPPOSITE
    if _is_more_than_modifier(mention, matched, common):
        return NO_FINDING
    rest = rest_of(said, matched)
    if not rest.said and not rest.named and expansion is None:
        return None
    if is_apart(said, matched, rest) or (_says_less(rest) and not any(map(_tells_less, names))):
        return OPPOSITE
    if is_other_word(said, rest, common) or (spelling and is_other_word(mention, rest_of(mention, spelling))):
        return OTHER_WORD
    if any(says_more(said, rest_of(said, name)) for name in (names if expansion else names[:1])):
        return UNSAID
    return UNEXPLAINED if is_unexplained(mention, expansion, rest) else None


def is_opposite(mention: str, name: str) -> bool:
    """Tell whether a mention has a word whose opposite the name has: "pain sensitivity" is no "pain insensitivity".

    A word that says that all is well, and that the name lacks, is one: "clear cornea" is no clouded one.
    """
    said, named = _differing(mention, name)
    less = lexicon.axes()[0].less
    if (
        said & lexicon.bare_words("fine")
        and not (said & less)
        and less.isdisjoint(_LETTERS.findall(mention.casefold()))
    ):
        return True
    if is_at_other_end(mention, name):
        return True
    return any(_turned(word, other) for word in said for other in named)


def is_at_other_end(mention: str, name: str) -> bool:
    """Tell whether a mention says more where the name says less, as "thick" and "thin", or the other way round."""
    said, named = _differing(mention, name)
    return any(
        bool(said & ours and named & theirs and not named & ours and not said & theirs)
        for axis in lexicon.axes()
        for ours, theirs in ((axis.more, axis.less), (axis.less, axis.more))
    )


def _differing(mention: str, name: str) -> tuple[set[str], set[str]]:
    said, named = ({bare(word) for word in _LETTERS.findall(text.casefold())} for text in (mention, name))
    return said - named, named - said


def _turned(word: str, other: str) -> bool:
    """Tell whether one of two words is the other with a beginning that turns it round, or both have such beginnings."""
    short, long = sorted((word, other), key=len)
    if len(short) > _STEM and long.endswith(short) and long.removesuffix(short) in _NOT:
        return True
    # "Sensitive" is not insensitivity.
    if any(long.startswith(no) and shared(long[len(no) :], short) > _STEM + 1 for no in _NOT if len(no) > 1):
        return True
    return any(
        one.startswith(first) and two.startswith(second) and one[len(first) :] == two[len(second) :]
        for first, second in _TURNED
        for one, two in ((word, other), (other, word))
        if len(one) >= len(first) + _STEM
    )


def rest_of(said: str, named: str) -> Rest:
    """Return the words of two strings that the other lacks, whatever their spelling, hyphens and plurals."""
    mine, other = (tuple(levelled(word) for word in _WORD.findall(text.casefold())) for text in (said, named))
    keys = {key(word) for word in mine}, {key(word) for word in other}
    joined = _joined(mine, keys[1]), _joined(other, keys[0])
    return Rest(
        [word for word in mine if key(word) not in keys[1] and word not in joined[0] and not _has(joined[1], word)],
        [word for word in other if key(word) not in keys[0] and word not in joined[1] and not _has(joined[0], word)],
    )


def _joined(words: Sequence[str], others: Container[str]) -> dict[str, str]:
    """Return the words that make one of the others when they are written together, each with it."""
    return {
        word: one + two for one, two in itertools.pairwise(words) if key(one + two) in others for word in (one, two)
    }


def _has(joined: dict[str, str], word: str) -> bool:
    return any(key(whole) == key(word) for whole in joined.values())


@functools.lru_cache(maxsize=morphemes.REMEMBERED)
def key(word: str) -> str:
    """Return what the spellings of one levelled word have in common: British, American, with y or i, single or double
    letters, and plurals.
    """
    for spelling, common in (("ph", "f"), ("y", "i"), ("k", "c"), ("rh", "r"), ("th", "t"), ("z", "s")):
        word = word.replace(spelling, common)
    word = re.sub(r"(.)\1", r"\1", word)
    word = re.sub(r"our(?=ed|s|$)", "or", word)
    word = re.sub(r"re(?=s?$)", "er", word)
    return word.removesuffix("s") if len(word) > _STEM else word


def is_apart(said: str, name: str, rest: Rest) -> bool:
    """Tell whether a mention is of another kind or place than a name: muscle for bone, plasma for liquor."""
    sorts = lexicon.meanings("apart")
    mine, other = ({sorts[word] for word in words if word in sorts} for words in (rest.said, rest.named))
    if any(one != two and one.split()[0] == two.split()[0] for one in mine for two in other):
        return True
    measured, named = (_measured([levelled(word) for word in _WORD.findall(text.casefold())]) for text in (said, name))
    return BLOOD in measured and bool(named) and not measured & named


def _says_less(rest: Rest) -> bool:
    """Tell whether a mention says, and the name does not, that something is less, not of which place or form it is."""
    return not (lexicon.axes()[0].less - _OF_FORM).isdisjoint(rest.said)


def _tells_less(name: str) -> bool:
    """Tell whether a name says in any way that something is less, or is not as it should be."""
    words = [levelled(word) for word in _WORD.findall(name.casefold())]
    less = frozenset().union(*(axis.less for axis in lexicon.axes()))
    amiss = less | (_changes() - lexicon.axes()[0].more - {"positivity", "positive"})
    return any(
        word in amiss
        or word.startswith(_LESS)
        or any(not _LESS_MEANT.isdisjoint(parts) for parts in morphemes.readings(word))
        for word in words
    )


def is_other_word(said: str, rest: Rest, common: Container[str] = ()) -> bool:
    """Tell whether a word that the name lacks is another one than the name's that looks like it."""
    from rapidfuzz.distance import Indel

    is_alone = len(_WORD.findall(said)) == 1
    axis = lexicon.axes()[0]
    is_measured = not (axis.more | axis.less).isdisjoint(map(bare, _WORD.findall(said.casefold())))
    for word in rest.said:
        near = max(rest.named, key=lambda other: Indel.normalized_similarity(word, other), default="")
        if not near:
            return False
        if _is_other_code(word, near) or (is_measured and _is_cut_short(word, near)):
            return True
        if Indel.normalized_similarity(word, near) < ALIKE:
            continue
        if is_alone and (_is_common_otherwise(word, near, common) or _is_fragment(word, near, common)):
            return True
        if len(word) >= SHORTEST_MADE and _is_made_otherwise(word, near, is_alone or is_measured, len(rest.said)):
            return True
    return False


def _is_other_code(word: str, near: str) -> bool:
    """Tell whether two words are the same letters with other numbers, "c8" and "c18"."""
    one, two = _CODED.fullmatch(word), _CODED.fullmatch(near)
    return bool(one and two and one[1] == two[1] and one[2] != two[2])


def _is_cut_short(word: str, near: str) -> bool:
    """Tell whether a word of three or four letters is only the beginning of a longer one: "tau" is no taurine."""
    if not (word.isalpha() and INFLECTION <= len(word) <= _STEM and near.startswith(word)):
        return False
    return len(near) > len(word) + 2 and not morphemes.is_suffix(near.removeprefix(word))


def _is_common_otherwise(word: str, near: str, common: Container[str]) -> bool:
    """Tell whether a word of common language, or "un-" and such a word, is another one than that of a name."""
    for no in ("", *_NOT):
        if word.startswith(no) and word.removeprefix(no) in common and (not no or near.startswith(no)):
            one, two = word.removeprefix(no), near.removeprefix(no)
            if shared(one, two) < max(_STEM, min(len(one), len(two)) - 2):
                return True
    return False


def _is_fragment(word: str, near: str, common: Container[str]) -> bool:
    """Tell whether a word is a piece of another: it begins otherwise, or ends too soon."""
    if near.startswith(word):
        return len(word) < CUT * len(near) and word not in common
    one, two = ({each[:1], re.sub(_SILENT, "", each)[:1]} for each in (key(word), key(near)))
    return not one & two


def _is_made_otherwise(word: str, near: str, is_alone: bool, others: int) -> bool:
    """Tell whether a word is well made, and of other parts than the one that looks like it."""
    if morphemes.differ_by_prefix(word, near):
        return True
    mine = morphemes.readings(word)
    if not mine:
        return False
    theirs = morphemes.readings(near)
    if mine & theirs or (not theirs and shared(word, near) >= min(len(word), len(near)) - 2):
        return False
    is_part = any(set(one) <= set(two) for one in mine for two in theirs)
    if max(map(len, mine)) == 1:
        return is_alone and bool(theirs) and not is_part
    # "Endometrial inflammation" is endometritis.
    return not (is_part and others > 1)


def shared(word: str, other: str) -> int:
    """Return how many letters two words have in common at their beginning."""
    length = 0
    for one, two in zip(word, other, strict=False):
        if one != two:
            break
        length += 1
    return length


def _is_inflected(word: str, other: str) -> bool:
    return shared(word, other) >= max(_STEM, min(len(word), len(other)) - INFLECTION)


def says_more(said: str, rest: Rest) -> bool:
    """Tell whether a name has all that is said, and that it is changed, or else is a longer name of one word's.

    "aPTT" does not say that it is prolonged, "velvet" nothing of skin.
    """
    valued = _VALUE.sub(" ", said.casefold())
    left = {levelled(word) for word in _WORD.findall(valued)}
    filler = lexicon.bare_words("filler")
    mine = [
        word
        for word in rest.said
        if word in left and word not in filler and not any(_is_inflected(word, other) for other in rest.named)
    ]
    if mine:
        return False
    # With "+" the mention says that it is positive.
    if _POSITIVE.search(said):
        return False
    inflected = [word for word in rest.named if any(_is_inflected(word, other) for other in rest.said)]
    more = [word for word in rest.named if word not in filler and word not in inflected]
    changes = _changes()
    if more and all(word in changes for word in more):
        return True
    return bool(more) and len(left) == 1


@functools.cache
def _changes() -> frozenset[str]:
    axis = lexicon.axes()[0]
    return frozenset(map(levelled, lexicon.bare_words("change") | axis.more | axis.less)) - {"up", "down"}


def is_unexplained(mention: str, expansion: str | None, rest: Rest) -> bool:
    """Tell whether a mention says, and the name does not, in what an analyte is measured, or more by short forms."""
    axis = lexicon.axes()[0]
    ways = axis.more | axis.less
    left = [word for word in rest.said if not any(_is_inflected(word, other) for other in rest.named)]
    is_of_analyte = not ways.isdisjoint(map(bare, _WORD.findall((expansion or mention).casefold())))
    if is_of_analyte and _measured(left) - _measured(rest.named) - {BLOOD}:
        return True
    if expansion is None and not rest.named and _content(left) > MOST_UNEXPLAINED:
        return True
    if expansion is None or (" " in mention.strip() and "/" not in mention):
        return False
    known = lexicon.bare_words("filler") | ways
    return any(word not in known and not word.isdigit() for word in left)


def _content(words: Sequence[str]) -> int:
    """Return how many of some words say something."""
    filler = lexicon.bare_words("filler") | IDLE
    return sum(word not in filler and not word[0].isdigit() for word in words)


def _measured(words: Sequence[str]) -> set[str]:
    """Return in what something is measured, as the table names it."""
    padded = f" {' '.join(words)} "
    found = {meaning for word, meaning in lexicon.meanings("measured").items() if f" {levelled(word)} " in padded}
    return found | ({"urine"} if "uria " in padded else set())


def _is_more_than_modifier(mention: str, name: str, common: Container[str] = ()) -> bool:
    """Tell whether a name says only how something is, and the mention says of what; or the mention says only that."""
    rest = rest_of(mention, name)
    if not rest.said:
        return bool(rest.named) and _is_modifier(mention)
    if not _is_modifier(name):
        return False
    # A chronicle is not chronic.
    if len(rest.said) == 1 and mention.casefold() in common:
        return True
    from rapidfuzz.distance import Indel

    filler = lexicon.bare_words("filler")
    return any(
        word not in filler
        and not word.isdigit()
        and not any(
            _is_inflected(word, other) or Indel.normalized_similarity(word, other) > MISSPELT for other in rest.named
        )
        for word in rest.said
    )


def _is_modifier(text: str) -> bool:
    """Tell whether a string says only how something is."""
    axis = lexicon.axes()[0]
    words = {bare(word) for word in _WORD.findall(text.casefold())}
    return bool(words) and words <= lexicon.bare_words("modifier") | axis.more | axis.less
