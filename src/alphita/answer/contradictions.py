"""Contradictions between the words of a mention and of a candidate's name.

Similar strings are not enough: "strong pulse" is not weak pulse, "anorchia" is not anonychia, "aPTT" alone does not
mean that it is prolonged, "N/V/D" means more than nausea and vomiting, and a "nose bleed seat" is a seat. For each of
these there is a rule about words of `lexicon.tsv` or parts of words of `morphemes.tsv`, but none about single concepts.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Container, Sequence

from alphita.mention import word_pairs
from alphita.mention.spelling import IDLE
from alphita.mention.word_pairs import (
    ALIKE,
    INFLECTION,
    MISSPELT,
    SHORTEST_STEM,
    WORD,
    WordDiff,
    bare_words,
    is_form,
    is_inflected,
    is_other_word,
    is_turned,
    levelled,
    levelled_words,
    shared,
    uninflected,
    word_diff,
)
from alphita.terminology.rules import lexicon, sets
from alphita.terminology.rules.sets import AGE_GROUP, BODY_SITE, LATERALITY

OPPOSITE = "opposite: the mention says the opposite of the name"
OTHER_WORD = "word: the mention has another word than the name"
UNSAID = "unsaid: the name says more than the mention"
UNEXPLAINED = "unexplained: the mention says what the name does not"
NO_FINDING = "modifier: the name is no finding, and the mention says more"
_LETTERS = re.compile(r"[^\W\d_]+")
_VALUE = re.compile(  # A value and its unit: "30 s", "<10".
    r"[<>≤≥=]? ?(?<![^\W_])\d[\d.,:/-]*(?: ?(?:mm?ol|[mukn]?g|iu|m?iu|u|s|sec|ms|mm|cm|%|fl|pg)(?:/\w+)?\b)?"
)
_LAST = 16  # Pairs that are examined in one batch.
BLOOD = "blood"
MAX_UNEXPLAINED = 2  # If a mention contains a whole name and more other words than this, it means something else.
_NOT = re.compile(  # Words that negate the words after them.
    r"n['’]t\b|\b(?:no|not|cannot|unable|never|without|non|senza|nicht|keine?|ohne|pas|sans|jamais|sin|nunca)\b"
)
_CONTRACTED = re.compile(r"n['’]t\b|\b(?:is|are|was|were|has|have|had|do|does|did)nt\b")
SHORT_FORM = 6  # Maximum letters.
# Words for less that also tell a place or a form.
_OF_FORM = frozenset({"lower", "down", "short", "small"})
_ENDS = "hyper|hypo|over|under|micro|macro|brady|tachy|poly|oligo"
_TWO_ENDS = re.compile(rf"\b(?:{_ENDS})-? ?(?:or|and|and/or|[/,&]|oder|und|et|ou|o|e|y|u) ?(?:{_ENDS})")
_UP_OR_DOWN = (" up", " down")
_CAPITAL = re.compile(r"(?<![^\W_])(?<!\d )(?<!/)[A-HJ-Z](?![^\W_+/])")
# Prefixes that mean less, and the meanings of word parts that do.
_LESS = ("hypo", "micro", "under", "oligo", "brady")
_LESS_MEANT = frozenset(
    {"low", "lack", "not", "few", "small", "short", "slow", "ill", "narrowing", "fall", "half", "atony", "weakness"}
)
# Signs of a positive result are equal to the word.
_POSITIVE = re.compile(r"\+|\bpos(?:itive)?\b")
# Words before where, when or of what it is.
PREPOSITIONS = frozenset(
    ["after", "before", "between", "by", "during", "from", "in", "inside", "near", "of", "on", "over", "since", "to"]
).union(["under", "w", "with", "without"])
_BRINGING = PREPOSITIONS | {"at", "for", "when", "while"}
_DOUBLED = re.compile(r"(.)\1(?:ed|ing|er|y)")
# Words that connect a thing with its property.
_HAVING = frozenset(["with", "w", "having", "has", "without"])
# Wordings for being unable to do, or having, something.
_SAYS_LITTLE = frozenset(["can", "cannot", "couldn", "doesn", "t", "unable", "won"]).union(
    ["condition", "conditions", "disease", "diseases", "syndrome", "syndromes"]
)
_LISTED = re.compile(r"[,;/&+]|\band\b")
# Cosines below which a mention with different words, more words, or another meaning does not match a name.
FAR, FAR_UNSAID, FAR_OTHER = 0.75, 0.8, 0.84


def contradiction(
    mention: str,
    names: Sequence[str],
    *,
    expansion: str | None = None,
    spelling: str | None = None,
    similarity: float = 1.0,
    common: Container[str] = (),
    synonyms: Container[tuple[str, str]] | None = None,
) -> str | None:
    """Return the contradiction of a mention to a name, such as `OPPOSITE`; None if there is none."""
    mention = unicodedata.normalize("NFKC", mention)
    wording = expansion or mention
    matched, *others = names
    for each in dict.fromkeys((mention, wording)):
        if is_opposite(each, matched) or any(is_at_other_end(each, name) for name in others):
            return OPPOSITE
        if _has_both_ends(each, matched):
            return UNEXPLAINED
    if _is_more_than_modifier(mention, matched, common):
        return NO_FINDING
    if _is_denied(mention, matched):
        return OPPOSITE
    if expansion and is_everyday_short_form(mention, expansion, matched, common):
        return OTHER_WORD
    diff = word_diff(wording, matched)
    if not diff.extra and not diff.missing and expansion is None:
        return None
    if is_apart(wording, matched, diff) or (_says_less(diff) and not any(map(_tells_less, names))):
        return OPPOSITE
    if expansion and is_beside_short_form(mention, expansion, names, common):
        return UNEXPLAINED
    is_other = is_other_word(wording, diff, common) or (
        spelling and is_other_word(mention, word_diff(mention, spelling))
    )
    if is_other and not _is_form_of(wording, others):
        return OTHER_WORD
    if _is_spelt_to_other_kind(mention, matched, diff):
        return OTHER_WORD
    if any(says_more(wording, word_diff(wording, name)) for name in (names if expansion else names[:1])):
        return UNSAID
    if is_unexplained(mention, expansion, matched, diff) or (" " not in matched and _is_spelt_beside_others(diff)):
        return UNEXPLAINED
    if synonyms is not None and is_worded_otherwise(mention, spelling or wording, matched, synonyms):
        return OTHER_WORD
    if (
        is_of_one_side(wording, matched)
        or is_of_another_thing(wording, names, common)
        or is_too_dissimilar(wording, names, similarity, common)
    ):
        return UNEXPLAINED
    if is_narrowed(wording, matched) or _is_modified_otherwise(diff):
        return UNSAID
    # "Hip dislocation" is not congenital hip dislocation.
    how = lexicon.bare_words("modifier") - PREPOSITIONS - {"very"}
    is_more = diff.missing and not diff.extra and how.issuperset(diff.missing)
    return UNSAID if is_more and all(how.intersection(word_diff(wording, name).missing) for name in others) else None


def is_opposite(mention: str, name: str) -> bool:
    """Tell whether a mention has a word whose opposite the name has: "pain sensitivity" is not "pain insensitivity"."""
    mention_words, name_words = _differing(mention, name)
    less = lexicon.axes()[0].less
    if (
        mention_words & lexicon.bare_words("fine")
        and not (mention_words & less)
        and less.isdisjoint(_LETTERS.findall(mention.casefold()))
    ):
        return True
    if is_at_other_end(mention, name):
        return True
    if "other than" in mention.casefold() and "other than" not in name.casefold():
        return True
    with_it, without = ("without" in WORD.findall(text.casefold()) for text in (name, mention))
    if without and not with_it and "with" in WORD.findall(name.casefold()):
        return True
    # "Can hear" is not "can't hear".
    if not mention_words and _NOT.search(name.casefold()) and not _NOT.search(mention.casefold()):
        return True
    return any(is_turned(word, other) for word in mention_words for other in name_words)


def is_at_other_end(mention: str, name: str) -> bool:
    """Tell whether a mention means more and the name means less, such as "thick" and "thin", or the other way round."""
    mention_words, name_words = _differing(mention, name)
    return any(
        bool(mention_words & ours and name_words & theirs and not name_words & ours and not mention_words & theirs)
        for axis in lexicon.axes()
        for ours, theirs in ((axis.more, axis.less), (axis.less, axis.more))
    )


def _is_denied(mention: str, name: str) -> bool:
    """Tell whether a mention negates a whole name with a contracted verb: "isn't short of breath"."""
    if not _CONTRACTED.search(mention.casefold()) or _NOT.search(name.casefold()):
        return False
    return lexicon.bare_words("filler").issuperset(word_diff(mention, name).missing)


def _has_both_ends(mention: str, name: str) -> bool:
    """Tell whether a mention states an increase and a decrease, and the name only one of these."""
    if _TWO_ENDS.search(mention.casefold()) and not _TWO_ENDS.search(name.casefold()):
        return True
    axis = lexicon.axes()[0]
    mention_words, name_words = (
        {lexicon.bare(word) for word in _LETTERS.findall(text.casefold())} for text in (mention, name)
    )
    both = not mention_words.isdisjoint(axis.more) and not mention_words.isdisjoint(axis.less - _OF_FORM)
    return both and name_words.isdisjoint(axis.more) != name_words.isdisjoint(axis.less)


@functools.lru_cache(maxsize=_LAST)
def _differing(mention: str, name: str) -> tuple[set[str], set[str]]:
    mention_words, name_words = (
        {lexicon.bare(word) for word in _LETTERS.findall(text.casefold())} for text in (mention, name)
    )
    return mention_words - name_words, name_words - mention_words


def _is_form_of(wording: str, names: Sequence[str]) -> bool:
    """Tell whether a mention is a single word, and a form of a name's word: "stutters" for "stuttering"."""
    words = levelled_words(wording)
    name_words = {word for name in names for word in levelled_words(name)}
    return len(words) == 1 and any(not set(uninflected(words[0])).isdisjoint(uninflected(word)) for word in name_words)


def _is_spelt_to_other_kind(mention: str, name: str, diff: WordDiff) -> bool:
    """Tell whether a mention is a single word that only resembles a short form, or a word for how something is."""
    if len(diff.extra) != 1 or len(WORD.findall(mention)) > 1:
        return False
    is_short_form = len(name) <= SHORT_FORM and sum(sign.isupper() for sign in name) > 1
    if is_short_form:
        return diff.extra[0].removesuffix("s") != levelled(name.casefold())
    return _is_modifier(name) and sorted(diff.extra[0]) != sorted(levelled(name.casefold()))


def is_apart(wording: str, name: str, diff: WordDiff) -> bool:
    """Tell whether a mention is about another tissue or sample than a name: muscle for bone, plasma for liquor."""
    sorts = lexicon.meanings("apart")
    mine, other = ({sorts[word] for word in words if word in sorts} for words in (diff.extra, diff.missing))
    if any(one != two and one.split()[0] == two.split()[0] for one in mine for two in other):
        return True
    measured, measured_in_name = (measured_in(levelled_words(text)) for text in (wording, name))
    return BLOOD in measured and bool(measured_in_name) and not measured & measured_in_name


def _says_less(diff: WordDiff) -> bool:
    """Tell whether a mention, but not the name, states that something is less, apart from words for a place or form."""
    return not (lexicon.axes()[0].less - _OF_FORM).isdisjoint(diff.extra)


def _tells_less(name: str) -> bool:
    """Tell whether a name states in any way that something is less or abnormal."""
    less = frozenset().union(*(axis.less for axis in lexicon.axes()))
    amiss = less | (changes() - lexicon.axes()[0].more - {"positivity", "positive"})
    return any(
        word in amiss
        or word.startswith(_LESS)
        or any(not _LESS_MEANT.isdisjoint(parts) for parts in word_pairs.readings(word))
        for word in levelled_words(name)
    )


def says_more(wording: str, diff: WordDiff) -> bool:
    """Tell whether a name has all words of the mention and states a change, or is a longer name of a single word."""
    circumstance = lexicon.bare_words("circumstance")
    if not circumstance.isdisjoint(diff.missing) and circumstance.isdisjoint(bare_words(wording)):
        return True
    left = set(levelled_words(_VALUE.sub(" ", wording.casefold())))
    filler = lexicon.bare_words("filler")
    mine = [
        word
        for word in diff.extra
        if word in left and word not in filler and not any(is_inflected(word, other) for other in diff.missing)
    ]
    if mine:
        return False
    # With "+" the mention states that it is positive.
    if _POSITIVE.search(wording):
        return False
    inflected = [word for word in diff.missing if any(is_inflected(word, other) for other in diff.extra)]
    more = [word for word in diff.missing if word not in filler and word not in inflected]
    if len(left) == 1 and not more and BLOOD in diff.missing:
        return True
    left_out = changes() | lexicon.bare_words("head")
    if more and all(word in left_out for word in more):
        return True
    return bool(more) and len(left) == 1


def is_narrowed(wording: str, name: str) -> bool:
    """Tell whether a name's age or site excludes part of the mention's: "child" does not imply "infancy"."""
    for rule in (AGE_GROUP, BODY_SITE):
        values = [rule.values(text) for text in (wording, name)]
        if all(values):
            wide, narrow = map(rule.code, values)
            if wide & ~narrow:
                return True
    return False


def is_unexplained(mention: str, expansion: str | None, name: str, diff: WordDiff) -> bool:
    """Tell whether a mention, but not the name, states a sample of an analyte, or more in short forms."""
    if not lexicon.bare_words("undone").isdisjoint(map(lexicon.bare, diff.extra)):
        return True
    ways = lexicon.amounts()
    # "Babinski down", "VMA up".
    if (
        mention.casefold().endswith(_UP_OR_DOWN)
        and not {"up", "down"}.isdisjoint(diff.extra)
        and ways.isdisjoint(diff.missing)
        and not _tells_less(name)
    ):
        return True
    left = [word for word in diff.extra if not any(is_inflected(word, other) for other in diff.missing)]
    is_of_analyte = not ways.isdisjoint(bare_words(expansion or mention))
    # "Hb S high" is about another haemoglobin.
    if is_of_analyte and not set(_CAPITAL.findall(mention)).issubset(_CAPITAL.findall(name.upper())):
        return True
    if is_of_analyte and measured_in(left) - measured_in(diff.missing) - {BLOOD}:
        return True
    if expansion is None and not diff.missing and _content(left) > MAX_UNEXPLAINED:
        return True
    if expansion is None or (" " in mention.strip() and "/" not in mention):
        return False
    known = lexicon.bare_words("filler") | ways
    return any(word not in known and not word.isdigit() for word in left)


def _is_spelt_beside_others(diff: WordDiff) -> bool:
    """Tell whether a name is a single word that only resembles one of several words in a mention: "drops things" is not
    dropsy."""
    from rapidfuzz.distance import Indel

    if len(diff.missing) != 1 or word_pairs.readings(diff.missing[0]):
        return False
    others = [word for word in diff.extra if Indel.normalized_similarity(word, diff.missing[0]) < ALIKE]
    if len(others) == len(diff.extra):
        return False
    return any(word not in non_content_words() and not word.isdigit() and not measured_in([word]) for word in others)


def _is_modified_otherwise(diff: WordDiff) -> bool:
    """Tell whether a mention describes a finding in another way than the name: "stable" is not compensatory."""
    from rapidfuzz.distance import Indel

    how = lexicon.bare_words("modifier") - PREPOSITIONS
    # A single side means unilateral.
    mine = [word for word in diff.extra if word in how and not AGE_GROUP.values(word) and not _is_side(word)]
    other = [
        word
        for word in diff.missing
        if word not in lexicon.bare_words("filler") | PREPOSITIONS
        and not _is_side(word)
        and not any(shared(word, each) >= INFLECTION for each in diff.extra)
    ]
    return any(Indel.normalized_similarity(word, each) < ALIKE for word in mine for each in other)


def _is_side(word: str) -> bool:
    return bool(LATERALITY.values(word))


def _content(words: Sequence[str]) -> int:
    """Return the number of content words."""
    filler = lexicon.bare_words("filler") | IDLE
    return sum(word not in filler and not word[0].isdigit() for word in words)


def _is_more_than_modifier(mention: str, name: str, common: Container[str] = ()) -> bool:
    """Tell whether a name only describes how something is, and the mention names the thing, or the reverse."""
    diff = word_diff(mention, name)
    if not diff.extra:
        return bool(diff.missing) and _is_modifier(mention)
    if not _is_modifier(name):
        return False
    # "Chronicle" does not mean chronic.
    if len(diff.extra) == 1 and mention.casefold() in common:
        return True
    from rapidfuzz.distance import Indel

    filler = lexicon.bare_words("filler")
    return any(
        word not in filler
        and not word.isdigit()
        and not any(
            is_inflected(word, other) or Indel.normalized_similarity(word, other) > MISSPELT for other in diff.missing
        )
        for word in diff.extra
    )


def _is_modifier(text: str) -> bool:
    """Tell whether a string only describes how something is."""
    words = bare_words(text)
    return bool(words) and words <= lexicon.bare_words("modifier") | lexicon.amounts()


def is_of_another_thing(wording: str, names: Sequence[str], common: Container[str]) -> bool:
    """Tell whether the last word of a mention, its head noun, is a common word that no name has."""
    words = WORD.findall(wording.casefold())
    odd = other_things(wording, names, common)
    is_whole = lexicon.bare_words("filler").issuperset(word_diff(wording, names[0]).missing)
    is_brought = not _BRINGING.isdisjoint(words[1:-1]) and not _LISTED.search(wording)
    if odd and is_whole and is_brought and odd[-1] == words[-1] and odd[-1] not in lexicon.bare_words("setting"):
        return True
    if odd and is_whole and odd[0] == words[0] and not _HAVING.isdisjoint(words[1:2]) and not _is_whose(odd[0]):
        return True
    if len(odd) != 1 or not _BRINGING.isdisjoint(words[1:-1]):
        return False
    return odd[0] == words[-1] or (is_whole and not lexicon.amounts().isdisjoint(bare_words(wording)))


def _is_whose(word: str) -> bool:
    """Tell whether a word is about a person with a finding, or the circumstances: "fetus", "born", "presented"."""
    return word in lexicon.bare_words("setting") or word.endswith(("ed", "ing")) or bool(AGE_GROUP.values(word))


def is_too_dissimilar(wording: str, names: Sequence[str], similarity: float, common: Container[str]) -> bool:
    """Tell whether a mention is dissimilar to a name, with different words: "dwarf buffalo" is not buffalo hump."""
    diff = word_diff(wording, names[0])
    if similarity >= FAR_OTHER or not lexicon.amounts().isdisjoint(bare_words(wording)):
        return False
    unexplained, unsaid = (
        [word for word in mine if not any(_is_like(word, other, MISSPELT) for other in others)]
        for mine, others in (diff, diff[::-1])
    )
    if similarity < FAR:
        return bool(unexplained or unsaid)
    if non_content_words().issuperset(unsaid):
        return False
    return similarity < FAR_UNSAID or bool(other_things(wording, names, common))


def is_worded_otherwise(mention: str, wording: str, name: str, synonyms: Container[tuple[str, str]]) -> bool:
    """Tell whether a mention has another word in place of one of a name, and terms do not interchange them."""
    diff = word_diff(wording, name)
    if not lexicon.amounts().isdisjoint(bare_words(wording)):
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


def is_of_one_side(wording: str, name: str) -> bool:
    """Tell whether a mention has a side, and the name's finding is a different finding if it is on one side only."""
    cleaned, sorts = wording.casefold(), lexicon.meanings("sideless")
    found = {sorts[word] for word in levelled_words(name) if word in sorts}
    if not found or LATERALITY.values(name) or sets.sided(cleaned) is None:
        return False
    return "of both" in found or not BODY_SITE.values(wording)


def is_everyday_short_form(mention: str, expansion: str, name: str, words: Container[str]) -> bool:
    """Tell whether a supposed short form is an ordinary word, written as such, in a phrase: "coq au vin"."""
    mention_words = WORD.findall(mention)
    meant = [set(WORD.findall(text.casefold())) for text in (expansion, name)]
    if not meant[0].isdisjoint(lexicon.amounts()):
        return False
    short = [
        word
        for word in mention_words
        if not word.isupper()
        and word.casefold() not in meant[0] | non_content_words()
        and lexicon.bare(word.casefold()) in words
    ]
    idle = non_content_words() - changes()
    others = [word for word in map(str.casefold, mention_words) if word in meant[0] and word not in idle]
    return bool(short and others) and meant[1].isdisjoint(others)


def is_beside_short_form(mention: str, expansion: str, names: Sequence[str], common: Container[str]) -> bool:
    """Tell whether the words around a short form change its meaning: "ODD one out", "school suspects ADHD"."""
    words = set(WORD.findall(mention.casefold())) - lexicon.bare_words("setting")
    return any(word in words and len(word) > 2 for word in other_things(expansion, names, common))


def other_things(wording: str, names: Sequence[str], common: Container[str]) -> list[str]:
    """Return the common words of a mention that are about other things than its names."""
    diff = word_diff(wording, " ".join(names))
    name_words = [word for name in names for word in levelled_words(name)]
    return [
        word
        for word in WORD.findall(wording.casefold())
        if levelled(word) in diff.extra and _is_thing(word, name_words, common)
    ]


def _is_thing(word: str, name_words: Sequence[str], common: Container[str]) -> bool:
    """Tell whether a word is a common word, unlike those of a name, and not about how or where something is."""
    plain = lexicon.bare(word)
    if (
        not word.isalpha()
        or plain not in common
        or plain in non_content_words()
        or BODY_SITE.values(plain)
        or measured_in([levelled(plain)])
    ):
        return False
    like = levelled(word)
    return not any(_is_like(like, other, ALIKE) and not _is_compound(plain, other, common) for other in name_words)


def _is_compound(word: str, other: str, common: Container[str]) -> bool:
    """Tell whether a word is a compound of another and a common word: "birthday" is not birth."""
    diff = word.removeprefix(other)
    if diff == word or len(diff) < INFLECTION or diff not in common:
        return False
    # "Skinned" is about skin.
    return not is_form(word, other) and not _DOUBLED.fullmatch(word[len(other) - 1 :])


def _is_like(word: str, other: str, least: float) -> bool:
    """Tell whether a word is an inflection of another, or has at least a share `least` of its letters."""
    from rapidfuzz.distance import Indel

    return is_inflected(word, other) or Indel.normalized_similarity(word, other) >= least


@functools.cache
def non_content_words() -> frozenset[str]:
    """Return the words about how or how much something is, and words without content."""
    kinds = (lexicon.bare_words(kind) for kind in ("beside", "filler", "modifier", "fine", "well"))
    amounts = (axis.more | axis.less for axis in lexicon.axes())
    return frozenset().union(changes(), IDLE, *kinds, *amounts)


@functools.cache
def changes() -> frozenset[str]:
    """Return the words that state a change, levelled."""
    return frozenset(map(levelled, lexicon.bare_words("change") | lexicon.amounts())) - {"up", "down"}


def measured_in(words: Sequence[str]) -> set[str]:
    """Return the sample in which something is measured, as named in the table."""
    padded = f" {' '.join(words)} "
    found = {meaning for word, meaning in lexicon.meanings("measured").items() if f" {levelled(word)} " in padded}
    return found | ({"urine"} if "uria " in padded else set())
