"""What stands in a mention beside a name, and may make it another thing: a "nose bleed seat" is a seat."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Sequence

from alphita.mention import lexicon
from alphita.mention.cues import bare
from alphita.mention.spelling import IDLE
from alphita.mention.word_pairs import (
    ALIKE,
    INFLECTION,
    MISSPELT,
    SHORTEST_STEM,
    WORD,
    is_form,
    is_inflected,
    levelled,
    word_diff,
)
from alphita.terminology.rules import age_group, body_site, laterality, read

# What brings in where, when or of what it is.
PREPOSITIONS = frozenset(
    ["after", "before", "between", "by", "during", "from", "in", "inside", "near", "of", "on", "over", "since", "to"]
).union(["under", "w", "with", "without"])
_BRINGING = PREPOSITIONS | {"at", "for", "when", "while"}
_DOUBLED = re.compile(r"(.)\1(?:ed|ing|er|y)")
# What joins a thing to what it has.
_HAVING = frozenset(["with", "w", "having", "has", "without"])
# Ways to say that someone can't, or has something.
_SAYS_LITTLE = frozenset(["can", "cannot", "couldn", "doesn", "t", "unable", "won"]).union(
    ["condition", "conditions", "disease", "diseases", "syndrome", "syndromes"]
)
_LISTED = re.compile(r"[,;/&+]|\band\b")
# Cosines of a mention and a name below which one that says other words, more, or another thing is not that name.
FAR, FAR_UNSAID, FAR_OTHER = 0.75, 0.8, 0.84


def is_of_another_thing(said: str, names: Sequence[str], common: Container[str]) -> bool:
    """Tell whether the last word of a mention, which says of what it is, is one of common language that no name has."""
    words = WORD.findall(said.casefold())
    odd = other_things(said, names, common)
    is_whole = lexicon.bare_words("filler").issuperset(word_diff(said, names[0]).missing)
    is_brought = not _BRINGING.isdisjoint(words[1:-1]) and not _LISTED.search(said)
    if odd and is_whole and is_brought and odd[-1] == words[-1] and odd[-1] not in lexicon.bare_words("setting"):
        return True
    if odd and is_whole and odd[0] == words[0] and not _HAVING.isdisjoint(words[1:2]) and not _is_whose(odd[0]):
        return True
    if len(odd) != 1 or not _BRINGING.isdisjoint(words[1:-1]):
        return False
    axis = lexicon.axes()[0]
    return odd[0] == words[-1] or (is_whole and not (axis.more | axis.less).isdisjoint(map(bare, words)))


def _is_whose(word: str) -> bool:
    """Tell whether a word is of someone who may have a finding, or of how that is: "fetus", "born", "presented"."""
    return word in lexicon.bare_words("setting") or word.endswith(("ed", "ing")) or bool(age_group.find(read(word)))


def is_far(said: str, names: Sequence[str], similarity: float, common: Container[str]) -> bool:
    """Tell whether a mention means little of what a name does, and says other words: "dwarf buffalo" is no hump."""
    diff, axis = word_diff(said, names[0]), lexicon.axes()[0]
    is_amount = not (axis.more | axis.less).isdisjoint(map(bare, WORD.findall(said.casefold())))
    if similarity >= FAR_OTHER or is_amount:
        return False
    unexplained, unsaid = (
        [word for word in mine if not any(_is_like(word, other, MISSPELT) for other in others)]
        for mine, others in (diff, diff[::-1])
    )
    if similarity < FAR:
        return bool(unexplained or unsaid)
    if non_content_words().issuperset(unsaid):
        return False
    return similarity < FAR_UNSAID or bool(other_things(said, names, common))


def is_worded_otherwise(mention: str, said: str, name: str, synonyms: Container[tuple[str, str]]) -> bool:
    """Tell whether a mention has one word in place of another of a name, and terms never say the one for the other."""
    diff, axis = word_diff(said, name), lexicon.axes()[0]
    if not (axis.more | axis.less).isdisjoint(map(bare, WORD.findall(said.casefold()))):
        return False
    short = {word.casefold() for word in WORD.findall(mention) if word.isupper() or len(word) < SHORTEST_STEM}
    idle = non_content_words() | lexicon.bare_words("filler") | _SAYS_LITTLE | short
    mine, theirs = ([word for word in words if word not in idle and word.isalpha()] for words in diff)
    unexplained, unsaid = (
        [word for word in some if not any(_is_like(word, other, MISSPELT) or is_form(word, other) for other in others)]
        for some, others in ((mine, diff.missing), (theirs, diff.extra))
    )
    if len(unexplained) != 1 or len(unsaid) != 1:
        return False
    return (unexplained[0], unsaid[0]) not in synonyms


def is_of_one_side(said: str, name: str) -> bool:
    """Tell whether a mention has a side, and what the name says is another finding on one side of the body."""
    cleaned, sorts = said.casefold(), lexicon.meanings("sideless")
    found = {sorts[word] for word in map(levelled, WORD.findall(name.casefold())) if word in sorts}
    if not found or laterality.find(read(name)) or laterality.sided(cleaned) is None:
        return False
    return "of both" in found or not body_site.find(read(said))


def is_everyday_short_form(mention: str, expansion: str, name: str, words: Container[str]) -> bool:
    """Tell whether what was read as a short form is a word, written as one, in a phrase of others: "coq au vin"."""
    said = WORD.findall(mention)
    meant = [set(WORD.findall(text.casefold())) for text in (expansion, name)]
    axis = lexicon.axes()[0]
    if not meant[0].isdisjoint(axis.more | axis.less):
        return False
    short = [
        word
        for word in said
        if not word.isupper()
        and word.casefold() not in meant[0] | non_content_words()
        and bare(word.casefold()) in words
    ]
    idle = non_content_words() - changes()
    others = [word for word in map(str.casefold, said) if word in meant[0] and word not in idle]
    return bool(short and others) and meant[1].isdisjoint(others)


def is_beside_short_form(mention: str, expansion: str, names: Sequence[str], common: Container[str]) -> bool:
    """Tell whether what stands beside a short form makes it another thing: "ODD one out", "school suspects ADHD"."""
    words = set(WORD.findall(mention.casefold())) - lexicon.bare_words("setting")
    return any(word in words and len(word) > 2 for word in other_things(expansion, names, common))


def other_things(said: str, names: Sequence[str], common: Container[str]) -> list[str]:
    """Return the words of a mention that are of common language, and of other things than its names."""
    diff = word_diff(said, " ".join(names))
    named = [levelled(word) for name in names for word in WORD.findall(name.casefold())]
    return [
        word
        for word in WORD.findall(said.casefold())
        if levelled(word) in diff.extra and _is_thing(word, named, common)
    ]


def _is_thing(word: str, named: Sequence[str], common: Container[str]) -> bool:
    """Tell whether a word is of common language, unlike those of a name, and says neither how nor where it is."""
    plain = bare(word)
    if (
        not word.isalpha()
        or plain not in common
        or plain in non_content_words()
        or body_site.find(read(plain))
        or measured_in([levelled(plain)])
    ):
        return False
    like = levelled(word)
    return not any(_is_like(like, other, ALIKE) and not _is_compound(plain, other, common) for other in named)


def _is_compound(word: str, other: str, common: Container[str]) -> bool:
    """Tell whether a word is another with one more of common language behind it: "birthday" is no birth."""
    diff = word.removeprefix(other)
    if diff == word or len(diff) < INFLECTION or diff not in common:
        return False
    # "Skinned" is of skin.
    return not is_form(word, other) and not _DOUBLED.fullmatch(word[len(other) - 1 :])


def _is_like(word: str, other: str, least: float) -> bool:
    """Tell whether a word is another inflected, or has at least a share `least` of its letters."""
    from rapidfuzz.distance import Indel

    return is_inflected(word, other) or Indel.normalized_similarity(word, other) >= least


@functools.cache
def non_content_words() -> frozenset[str]:
    """Return the words that say how or how much something is, or nothing."""
    kinds = (lexicon.bare_words(kind) for kind in ("beside", "filler", "modifier", "fine", "well"))
    amounts = (axis.more | axis.less for axis in lexicon.axes())
    return frozenset().union(changes(), IDLE, *kinds, *amounts)


@functools.cache
def changes() -> frozenset[str]:
    """Return the words that say that something is changed, levelled."""
    axis = lexicon.axes()[0]
    return frozenset(map(levelled, lexicon.bare_words("change") | axis.more | axis.less)) - {"up", "down"}


def measured_in(words: Sequence[str]) -> set[str]:
    """Return in what something is measured, as the table names it."""
    padded = f" {' '.join(words)} "
    found = {meaning for word, meaning in lexicon.meanings("measured").items() if f" {levelled(word)} " in padded}
    return found | ({"urine"} if "uria " in padded else set())
