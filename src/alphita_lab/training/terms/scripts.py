"""Which script a language is written in: a light check of whether a string can be of that language.

It catches a translation that was left in another language of another script, or that was filed under a wrong tag, and
nothing finer: English and Italian look the same to it. A letter's script is the first word of its Unicode name. Latin
and Greek letters stand in names of every language (DNA, β-blocker), so they never make a string foreign.
"""

from __future__ import annotations

import functools
import unicodedata

from alphita.terminology.text import nfkc

LATIN, GREEK, HAN = "LATIN", "GREEK", "CJK"
# The languages of each script; those of several scripts stand under each. A language that is nowhere here is not
# checked.
_LANGUAGES = {
    LATIN: "af ak ay az br bs ca cs cy da de dtp en eo es et eu fi fil fo fr fy ga gd gl gn haw hr ht hu id ig is it "
    "ku la lb lt lv mg mi ms mt nb nl nn nna no oc pl pt qu ro rw sk sl sm so sq sr sv sw tk tl tn to tr tw uz vi wo "
    "xh yo zu",
    "CYRILLIC": "ab av az ba be bg bs ce cv kk ky mk mn os ru sr tg tk tt uk uz",
    "ARABIC": "ar arb az fa kk ku ky pa ps sd ug ur",
    "HEBREW": "he yi",
    GREEK: "el",
    HAN: "ja ko yue zh",
    "BOPOMOFO": "zh",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "HANGUL": "ko",
    "DEVANAGARI": "hi mr ne sa sd",
    "BENGALI": "as bn",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "TIBETAN": "bo dz",
    "MYANMAR": "my",
    "KHMER": "km",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
    "ETHIOPIC": "am ti",
    "THAANA": "dv",
    "MONGOLIAN": "mn",
}
# Scripts as a tag of BCP-47 names them: "sr-Latn".
_SUBTAGS = {
    "Latn": (LATIN,),
    "Cyrl": ("CYRILLIC",),
    "Arab": ("ARABIC",),
    "Hebr": ("HEBREW",),
    "Grek": (GREEK,),
    "Deva": ("DEVANAGARI",),
    "Hans": (HAN,),
    "Hant": (HAN,),
    "Hani": (HAN,),
    "Jpan": (HAN, "HIRAGANA", "KATAKANA"),
    "Kore": ("HANGUL", HAN),
    "Guru": ("GURMUKHI",),
    "Mong": ("MONGOLIAN",),
}
_ANYWHERE = frozenset({LATIN, GREEK})


@functools.lru_cache(maxsize=10_000)
def scripts_of_language(tag: str) -> frozenset[str]:
    """Return the scripts that a language is written in; none where that is not known."""
    language, *rest = tag.split("-")
    for subtag in rest:
        if subtag in _SUBTAGS:
            return frozenset(_SUBTAGS[subtag])
    return frozenset(script for script, tags in _LANGUAGES.items() if language in tags.split())


@functools.lru_cache(maxsize=100_000)
def script_of(letter: str) -> str | None:
    """Return the script of a letter; None of what is no letter, or of a script that no language here has."""
    if not letter.isalpha():
        return None
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in _LANGUAGES else None


def can_be(string: str, tag: str) -> bool:
    """Tell whether a string can be of a language, by its letters."""
    wanted = scripts_of_language(tag)
    string = nfkc(string)
    letters = {letter: script for letter in string if (script := script_of(letter)) is not None}
    if not wanted or not letters:
        return True
    scripts = set(letters.values())
    if scripts - wanted - _ANYWHERE:
        return False
    return bool(scripts & wanted) or all(letter.isupper() for letter in letters)
