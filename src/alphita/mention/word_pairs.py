"""Compares two words: is one a misspelling or inflection of the other, or are they different words that look alike?

"Hypotonai" is a misspelling of "hypotonia"; "anorchia" is not one of "anonychia", nor "hyprtonia" of "hypotonia".
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from alphita import textio
from alphita.index.segment import Segment
from alphita.terminology.rules import lexicon

PREFIX, ROOT, SUFFIX, ENDING, THING = "prefix", "root", "suffix", "ending", "thing"
# The meanings of prefixes for much and little.
AMOUNTS = frozenset({"high", "low", "not"})
# Vowels that connect a root with the next part.
JOINING = "oi"
SHORTEST_ROOT = 2
MAX_LETTERS = 40
MAX_PARTS = 6
REMEMBERED = 100_000
WORD = re.compile(r"[^\W_]+")
_DIPHTHONG = re.compile(r"ae|oe(?!(?<=toe)s?$)")

Parts = tuple[str, ...]


@functools.lru_cache(maxsize=REMEMBERED)
def levelled(word: str) -> str:
    """Return a word in lower case without accents, with e for ae and oe, except in "toe"."""
    return _DIPHTHONG.sub("e", lexicon.bare(word))


@functools.lru_cache(maxsize=REMEMBERED)
def levelled_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, levelled."""
    return tuple(map(levelled, WORD.findall(text.casefold())))


@functools.lru_cache(maxsize=REMEMBERED)
def bare_words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, without accents."""
    return frozenset(map(lexicon.bare, WORD.findall(text.casefold())))


@functools.cache
def table() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return the meanings of each form, by kind."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in textio.packaged(__package__, "morphemes.tsv"):
        for form in row["forms"].split("|"):
            found[row["kind"]][levelled(form)].add(row["meaning"])
    return {kind: {form: frozenset(all_) for form, all_ in forms.items()} for kind, forms in found.items()}


@functools.lru_cache(maxsize=REMEMBERED)
def readings(word: str) -> frozenset[Parts]:
    """Return the meanings of a levelled word's parts, for every way to split it; none if it has unknown parts."""
    if len(word) > MAX_LETTERS:
        return frozenset()
    found: set[Parts] = set()
    _read(word, (), False, found)
    return frozenset(found)


def _read(diff: str, before: Parts, has_root: bool, found: set[Parts]) -> None:
    """Add to `found` every way to split the rest of a word after the parts `before`."""
    if len(before) > MAX_PARTS:
        return
    forms = table()
    if before:
        found.update((*before, meaning) for meaning in forms[SUFFIX].get(diff, ()))
    if has_root and diff in forms[ENDING]:
        found.add(before)
    for end in range(1, len(diff)):
        start, following = diff[:end], diff[end:]
        if not has_root:
            for meaning in forms[PREFIX].get(start, ()):
                _read(following, (*before, meaning), False, found)
        if end >= SHORTEST_ROOT:
            for meaning in forms[ROOT].get(start, ()):
                _read(following, (*before, meaning), True, found)
                if following[0] in JOINING and len(following) > 1:
                    _read(following[1:], (*before, meaning), True, found)


def is_suffix(end: str) -> bool:
    """Tell whether the end of a word is a suffix with a meaning."""
    return end in table()[SUFFIX]


def is_ending(end: str) -> bool:
    """Tell whether the end of a word is an inflection, or a suffix."""
    return end in table()[ENDING] or is_suffix(end)


@functools.lru_cache(maxsize=REMEMBERED)
def _ends(word: str) -> frozenset[str]:
    """Return the meanings of a word's longest suffix; empty if it has none after a stem."""
    forms = table()[SUFFIX]
    return next((forms[word[at:]] for at in range(SHORTEST_ROOT, len(word)) if word[at:] in forms), frozenset())


def end_otherwise(word: str, other: str) -> bool:
    """Tell whether two words have suffixes with different meanings: "viruria" is not viremia."""
    mine, theirs = _ends(word), _ends(other)
    return bool(mine and theirs) and mine.isdisjoint(theirs)


def is_of_what_ails(word: str, other: str) -> bool:
    """Tell whether a word names a cell or a substance, and a similar word a condition caused by it: "chondroblast"."""
    thing = next((end for end in table()[THING] if word.endswith(end) and len(word) > len(end) + SHORTEST_ROOT), None)
    return thing is not None and bool(_ends(other)) and not other.endswith(thing)


def differ_by_prefix(word: str, other: str) -> bool:
    """Tell whether two words differ in a prefix, except prefixes for much or little, which have other wordings too."""
    same = 0
    while same < min(len(word), len(other)) and word[-1 - same] == other[-1 - same]:
        same += 1
    if same <= MAX_PARTS:
        return False
    forms = table()[PREFIX]
    for kept in range(same, MAX_PARTS, -1):
        starts = word[: len(word) - kept], other[: len(other) - kept]
        if all(not start or start in forms for start in starts):
            one, two = (forms.get(start, frozenset()) for start in starts)
            # "Per-" and "peri-" differ by one letter.
            is_cut = all(starts) and (starts[0].startswith(starts[1]) or starts[1].startswith(starts[0]))
            return bool((one | two) - AMOUNTS) and one.isdisjoint(two) and not is_cut
    return False


_CODED = re.compile(r"([^\W\d_]{1,4})(\d+)")
# Prefixes that turn a word into its opposite, by themselves or in place of another prefix.
_NOT = ("un", "in", "im", "ir", "il", "an", "a", "non", "dis")
_TURNED = (
    *(("micro", "macro"), ("hypo", "hyper"), ("brady", "tachy"), ("brachy", "dolicho"), ("oligo", "poly")),
    *(("eu", other) for other in ("a", "an", "ar", "dys")),
)
_STEM = 4
# Words with at least this letter similarity, 0 to 1, can be confused.
ALIKE = 0.6
# Words with at least this similarity are the same word, misspelt.
MISSPELT = 0.75
# The beginning of a word with a smaller share of its letters is not that word.
CUT = 0.6
# Maximum letters by which inflections of a word differ.
INFLECTION = 3
# Length of the longest ending: "inflamed", "inflammation".
_ENDING = 6
SHORTEST_MADE = 5
# Pairs of strings that are compared in one batch.
LAST = 64
# A word with at most this many letters has at most one error.
ONE_SLIP_TO = 9
# A longer word has one more error per this many letters.
LETTERS_A_SLIP = 5
# Consonants that are confused because they sound alike; in words in the form of `key`.
_SOUNDS = ("cgqstx", "gj", "fvp", "dt", "bp", "mn", "vw", "ht")
# Endings of adjectives and verbs.
_FORM = re.compile(r"(?:ed|ing|ic|al|ive|e)$")
# Interchangeable endings; "" for no ending.
_ENDINGS = tuple(
    frozenset(endings.split("|"))
    for endings in (
        *("|s|es|ed|ing|ings|y|ly|ness", "e|es|ed|ing|ings|y|ely", "y|ies|ied|iness|ily"),
        *("ia|ic|ics|iac|iacs|ial|ical|y|ies|ias|ous", "a|al|ae|as|ic|atous|atic|ata|tic|tous", "um|a|al"),
        *("osis|otic|oses", "itis|itic|ides", "us|i|al|ic", "is|es|ic", "|al|ic|ous|ity|ty|tic|ally", "e|ous|al|ic"),
        *("ence|ent|ency|ences", "ance|ant|ancy|ances", "ation|ate|ated|ating|ations|ates", "ion|ions|ed|e"),
    )
)
SHORTEST_STEM = 3
_SYLLABLE = re.compile(r"[aeiou]+|[^aeiou]")
# Silent or ambiguous beginnings; of words in the form of `key`.
_SILENT = r"^(?:p(?=[nst])|h|e(?=u)|g(?=n)|c(?=n)|[sxc](?=[sxcei])|m(?=n))"


class WordDiff(NamedTuple):
    """The levelled words of a mention that a name lacks, and those of the name that the mention lacks."""

    extra: tuple[str, ...]
    missing: tuple[str, ...]


@functools.lru_cache(maxsize=REMEMBERED)
def is_turned(word: str, other: str) -> bool:
    """Tell whether one of two words is the other with a prefix of opposite meaning, or both have such prefixes."""
    short, long = sorted((word, other), key=len)
    if len(short) > _STEM and long.endswith(short) and long.removesuffix(short) in _NOT:
        return True
    # "Sensitive" does not mean insensitivity, and "insensitive" does not mean sensitivity.
    if any(
        one.startswith(no) and shared(one[len(no) :], two) > _STEM + 1
        for one, two in ((word, other), (other, word))
        for no in _NOT
        if len(no) > 1
    ):
        return True
    return any(
        one.startswith(first) and two.startswith(second) and one[len(first) :] == two[len(second) :]
        for first, second in _TURNED
        for one, two in ((word, other), (other, word))
        if len(one) >= len(first) + _STEM
    )


def _is_nearer_to_opposite(word: str, other: str) -> bool:
    """Tell whether a word similar to another is equally similar to its opposite: "hyprtonia" is not hypotonia."""
    from rapidfuzz.distance import Indel

    return (
        word != other
        and word[:2] == other[:2]
        and any(
            Indel.distance(word, second + other[len(first) :]) <= Indel.distance(word, other)
            for pair in _TURNED
            for first, second in (pair, pair[::-1])
            if other.startswith(first) and not other.startswith(second) and len(other) >= len(first) + _STEM
        )
    )


@functools.lru_cache(maxsize=LAST)
def word_diff(mention: str, name: str) -> WordDiff:
    """Return the words of each string that the other lacks, ignoring spelling, hyphens and plurals."""
    mine, other = levelled_words(mention), levelled_words(name)
    keys = {key(word) for word in mine}, {key(word) for word in other}
    lacking = [word for word in mine if key(word) not in keys[1]], [word for word in other if key(word) not in keys[0]]
    if lacking == ([], []):
        return WordDiff((), ())
    joined = _joined(mine, keys[1]), _joined(other, keys[0])
    return WordDiff(
        tuple(word for word in lacking[0] if word not in joined[0] and not _has(joined[1], word)),
        tuple(word for word in lacking[1] if word not in joined[1] and not _has(joined[0], word)),
    )


def _joined(words: Sequence[str], others: Container[str]) -> dict[str, str]:
    """Return the words that form one of the others when they are joined, each with that word."""
    return {
        word: one + two for one, two in itertools.pairwise(words) if key(one + two) in others for word in (one, two)
    }


def _has(joined: dict[str, str], word: str) -> bool:
    return any(key(whole) == key(word) for whole in joined.values())


@functools.lru_cache(maxsize=REMEMBERED)
def key(word: str) -> str:
    """Return a key that all spellings of a levelled word share: British, American, with y or i, single or double
    letters, and plurals."""
    for spelling, common in (("ph", "f"), ("y", "i"), ("k", "c"), ("rh", "r"), ("th", "t"), ("z", "s")):
        word = word.replace(spelling, common)
    word = re.sub(r"(.)\1", r"\1", word)
    word = re.sub(r"our(?=ed|s|$)", "or", word)
    word = re.sub(r"re(?=s?$)", "er", word)
    return word.removesuffix("s") if len(word) > _STEM else word


def is_other_word(mention: str, diff: WordDiff, common: Container[str] = ()) -> bool:
    """Tell whether a word that the name lacks is a different word from the name's similar word."""
    from rapidfuzz.distance import Indel

    is_alone = len(WORD.findall(mention)) == 1
    is_measured = not lexicon.amounts().isdisjoint(bare_words(mention))
    for word in diff.extra:
        near = max(diff.missing, key=lambda other: Indel.normalized_similarity(word, other), default="")
        if not near:
            return False
        if _is_other_code(word, near) or (is_measured and _is_cut_short(word, near)):
            return True
        if Indel.normalized_similarity(word, near) < ALIKE:
            continue
        if _is_nearer_to_opposite(word, near) or end_otherwise(word, near):
            return True
        if _lacks_root(word, near, diff.extra):
            return True
        # "Tibula" is equally similar to tibia and fibula.
        if word[1:] == near[1:] and _sound_otherwise(word[0], near[0]):
            return True
        if is_alone and (
            _is_replaced(word, near)
            or (word in common and not is_form(word, near) and not readings(word) & readings(near))
            or any(_is_common_otherwise(each, near, common) for each in uninflected(word))
            or _is_fragment(word, near, common)
            or _is_misspelt_too_far(word, near)
            or is_of_what_ails(word, near)
        ):
            return True
        if len(word) >= SHORTEST_MADE and _is_made_otherwise(word, near, is_alone or is_measured, len(diff.extra)):
            return True
    return False


def _lacks_root(word: str, near: str, others: Sequence[str]) -> bool:
    """Tell whether a name's word is the mention's with a root added: "proliferative", "membranoproliferative"."""
    root = near.removesuffix(word)
    if root == near or len(word) <= _ENDING or not readings(f"{root}itis"):
        return False
    return not any(other[:_STEM] == root[:_STEM] for other in others)


def _is_other_code(word: str, near: str) -> bool:
    """Tell whether two words have the same letters and different numbers, "c8" and "c18"."""
    one, two = _CODED.fullmatch(word), _CODED.fullmatch(near)
    return bool(one and two and one[1] == two[1] and one[2] != two[2])


def _is_cut_short(word: str, near: str) -> bool:
    """Tell whether a word of three or four letters is only the beginning of a longer one: "tau" is not taurine."""
    if not (word.isalpha() and INFLECTION <= len(word) <= _STEM and near.startswith(word)):
        return False
    return len(near) > len(word) + 2 and not is_suffix(near.removeprefix(word))


def _is_replaced(word: str, near: str) -> bool:
    """Tell whether two short words differ by one substituted letter, not by an added, missing or moved one."""
    from rapidfuzz.distance import LCSseq

    if len(word) > SHORTEST_MADE or sorted(word) == sorted(near):
        return False
    return LCSseq.similarity(word, near) < min(len(word), len(near))


def _is_misspelt_too_far(word: str, near: str) -> bool:
    """Tell whether a word is not a misspelling of another: two errors in a short word, or another consonant."""
    from rapidfuzz.distance import OSA, LCSseq, Levenshtein

    mine, theirs = key(word), key(near)
    is_form = _FORM.search(word) is not None and shared(word, near) >= min(len(word), len(near)) - 2
    is_shortened = LCSseq.similarity(mine, theirs) == len(mine)
    is_same = sorted(mine) == sorted(theirs) or bool(readings(word) & readings(near))
    if is_form or is_shortened or is_same:
        return False
    syllables, others = _SYLLABLE.findall(mine), _SYLLABLE.findall(theirs)
    slips = min(OSA.distance(mine, theirs), OSA.distance(syllables, others))
    shorter = min(len(word), len(near))
    if slips > (1 if shorter <= ONE_SLIP_TO else 1 + shorter // LETTERS_A_SLIP):
        return True
    edits = (slip for slip in Levenshtein.editops(syllables, others) if slip.tag == "replace")
    return any(_sound_otherwise(syllables[slip.src_pos], others[slip.dest_pos]) for slip in edits)


def _sound_otherwise(letter: str, other: str) -> bool:
    """Tell whether two letters are consonants that are not confused with each other."""
    are_consonants = letter[0] not in "aeiou" and other[0] not in "aeiou"
    return are_consonants and not any(letter in sound and other in sound for sound in _SOUNDS)


def uninflected(word: str) -> tuple[str, ...]:
    """Return a word and its possible stems: "weed" for "weeding"."""
    stem = re.sub(r"(?:ing|ed|s)$", "", word)
    return (word,) if stem == word or len(stem) < _STEM else (word, stem, f"{stem}e")


def _is_common_otherwise(word: str, near: str, common: Container[str]) -> bool:
    """Tell whether a common word, or "un-" with a common word, is a different word from that of a name."""
    # "Nemea" does not make "anemea" a different word.
    for no in ("", *(no for no in _NOT if len(no) > 1)):
        if word.startswith(no) and word.removeprefix(no) in common and (not no or near.startswith(no)):
            one, two = word.removeprefix(no), near.removeprefix(no)
            if shared(one, two) < max(_STEM, min(len(one), len(two)) - 2):
                return True
    return False


def _is_fragment(word: str, near: str, common: Container[str]) -> bool:
    """Tell whether a word is only a part of another: it begins differently, or ends too early."""
    if near.startswith(word):
        diff = near.removeprefix(word)
        is_compound = len(diff) >= INFLECTION and diff in common and not is_ending(diff)
        return is_compound or (len(word) < CUT * len(near) and word not in common)
    one, two = ({each[:1], re.sub(_SILENT, "", each)[:1]} for each in (key(word), key(near)))
    return not one & two


def _is_made_otherwise(word: str, near: str, is_alone: bool, others: int) -> bool:
    """Tell whether a word consists of known parts, and of different ones than the word that looks like it."""
    if differ_by_prefix(word, near):
        return True
    mine = readings(word)
    if not mine:
        return False
    theirs = readings(near)
    if mine & theirs or (not theirs and shared(word, near) >= min(len(word), len(near)) - 2):
        return False
    is_part = any(set(one) <= set(two) for one in mine for two in theirs)
    if max(map(len, mine)) == 1:
        return is_alone and bool(theirs) and not is_part
    # "Endometrial inflammation" means endometritis.
    return not (is_part and others > 1)


@functools.lru_cache(maxsize=REMEMBERED)
def shared(word: str, other: str) -> int:
    """Return how many letters two words have in common at their beginning."""
    length = 0
    for one, two in zip(word, other, strict=False):
        if one != two:
            break
        length += 1
    return length


@functools.lru_cache(maxsize=REMEMBERED)
def is_inflected(word: str, other: str) -> bool:
    """Tell whether two words differ only in their last letters; "kyphoscoliosis" is not a form of "kyphosis"."""
    in_common = shared(word, other)
    return in_common >= max(_STEM, min(len(word), len(other)) - INFLECTION, max(len(word), len(other)) - _ENDING)


def is_form(word: str, other: str) -> bool:
    """Tell whether two words are forms of one, by their endings: "wobble" and "wobbly", not "chore" and "chorea"."""
    return any(
        any(word[stem:] in endings and other[stem:] in endings for endings in _ENDINGS)
        for stem in range(shared(word, other), SHORTEST_STEM - 1, -1)
    )


# Maximum names of a concept that are compared with each other.
MAX_NAMES = 40
# In terminologies with more terms, some concepts are skipped: frequent pairs are found among the others.
MAX_TERMS = 500_000


class WordSynonyms:
    """The pairs of words that are the only difference between two names of a concept; computed on first use."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._pairs: frozenset[tuple[str, str]] | None = None
        self._making = threading.Lock()

    def __contains__(self, words: object) -> bool:
        """Tell whether two words, in lower case, are interchangeable."""
        if not isinstance(words, tuple):
            return False
        with self._making:
            if self._pairs is None:
                self._pairs = _pairs(self._segment)
        one, other = (key(levelled(word)) for word in words)
        return (min(one, other), max(one, other)) in self._pairs


def _pairs(segment: Segment) -> frozenset[tuple[str, str]]:
    filler = {key(levelled(word)) for word in lexicon.bare_words("filler")}

    def words(row: int) -> frozenset[str]:
        return frozenset(key(levelled(word)) for word in WORD.findall(segment.strings.array[row].as_py())) - filler

    string = np.repeat(np.arange(len(segment.offsets) - 1), np.diff(segment.offsets))
    order = np.argsort(segment.term_concept, kind="stable")
    starts = np.flatnonzero(np.diff(segment.term_concept[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    several = np.flatnonzero(sizes > 1)[:: 1 + len(order) // MAX_TERMS]
    found = set()
    for start, size in zip(starts[several].tolist(), np.minimum(sizes[several], MAX_NAMES).tolist(), strict=True):
        names = {words(row) for row in string[order[start : start + size]].tolist()}
        for one, other in itertools.combinations(names, 2):
            mine, theirs = one - other, other - one
            if len(mine) == 1 and len(theirs) == 1 and one & other:
                first, second = sorted((*mine, *theirs))
                found.add((first, second))
    return frozenset(found)
