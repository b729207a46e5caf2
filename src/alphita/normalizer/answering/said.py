"""What a mention itself says: an identifier, a finding that is denied, only possible or over, or a name's opposite."""

from __future__ import annotations

import re

from alphita.normalizer import cues
from alphita.terminology import prefixes

# Each with a label, as the contradictions of the rules have it.
POSSIBLE, FAMILY = "certainty: the mention is only possible", "family: the mention is of the family"
DENIED, SEVERAL = "negation: the mention denies it", "several: the mention names several"
WELL = "negation: the mention says that it is as it should be"
NO_UNIT = "value: neither unit nor range stands with it"
IN_RANGE, NO_NAME = "value: it is in its range", "value: there is no name for it here"
USUAL_RANGE = "value: compared with the usual range of adults"
# Of these nothing is said that a concept could be.
SAYS_NOTHING = (NO_UNIT, IN_RANGE, NO_NAME)
OVER = "time: the mention says that it is over"
OPPOSITE = "opposite: the mention says the opposite of the name"
AMBIGUOUS = "ambiguous: the short form stands for other things too"
SHARED_CODE = "ambiguous: the code is that of several concepts"
_IDENTIFIER = re.compile(
    r"(?:https?://\S+|(?:[A-Za-z][A-Za-z0-9._-]*:|[A-Za-z][A-Za-z0-9.]*_)[A-Za-z0-9._-]*\d[A-Za-z0-9._-]*)"
)
# The kinds of things that SNOMED CT and other lists write behind a name.
_TAG = re.compile(
    r"(?<=\S) ?\((?:"
    r"disorder|disease|syndrome|finding|clinical finding|symptom|sign|diagnosis|condition|problem|"
    r"situation|procedure|regime/therapy|event|observable entity|body structure|"
    r"morphologic abnormality|cell|cell structure|substance|product|medicinal product|clinical drug|"
    r"organism|specimen|physical object|qualifier value"
    r")\)$"
)
_DOUBTS = {"possible": POSSIBLE, "family": FAMILY}
# What forms and notes put behind a finding, or before it, that is not there, not known yet, or no more.
_MARKS = (
    (
        DENIED,
        r"[☐□✗✘❌∅]|\[\s*\]|\s[-–—−]+$|\(\s*(?:[-–—−]+|n|no|neg|negative|nil)\s*\)$|\s(?:neg|n/a|nil|n|0)\.?$|"
        r":\s*(?:n|no|nil|none|neg|negative|absent|0)\.?$",
    ),
    (
        POSSIBLE,
        r"\?\)?$|\b(?:query|pending|requested|ordered|awaited|awaiting|not done|declined|screen|screening|clinic|alert|"
        r"risk)\)?$",
    ),
    (OVER, r"\b(?:resolved|closed|closure|cured|in remission)\)?$"),
)
_MARKED = tuple((doubt, re.compile(pattern, re.IGNORECASE)) for doubt, pattern in _MARKS)
_WORD = re.compile(r"[^\W\d_]+")
_LESS = frozenset(
    {"low", "lower", "lowered", "reduced", "decreased", "diminished", "short", "shortened", "small", "down"}
)
_MORE = frozenset({"high", "higher", "raised", "increased", "elevated", "prolonged", "long", "large", "up"})
# What notes say of what is as it should be.
_FINE = frozenset(
    {"able", "calm", "calms", "clear", "competent", "descended", "easily", "easy", "equal", "fine", "good", "healthy"}
    | {"hydrated", "regular", "steady", "straight", "sufficient", "symmetric", "symmetrical", "well"}
)
# Beginnings that turn a word into its opposite, alone or in place of another.
_NOT = ("un", "in", "im", "ir", "il", "an", "a", "non", "dis")
_TURNED = (
    *(("micro", "macro"), ("hypo", "hyper"), ("brady", "tachy"), ("brachy", "dolicho"), ("oligo", "poly")),
    *(("eu", other) for other in ("a", "an", "ar", "dys")),
)
_STEM = 4


def identifier_of(mention: str) -> str | None:
    """Return the CURIE that a mention is, as "HP:0001250", "HP_0001250" or its IRI; None: it is none."""
    mention = mention.strip()
    if not _IDENTIFIER.fullmatch(mention):
        return None
    if "://" not in mention and ":" not in mention:
        mention = mention.replace("_", ":", 1)
    return prefixes.normalize(mention)


def without_tag(cleaned: str) -> str:
    """Return a cleaned string without the kind of thing behind it: "seizure (disorder)" is "seizure"."""
    return _TAG.sub("", cleaned)


def doubt_of(mention: str) -> str | None:
    """Return why a mention does not say that the patient has it, e.g. `POSSIBLE` or `DENIED`; None: nothing says so."""
    if doubt := _DOUBTS.get(cues.beginning(mention) or ""):
        return doubt
    mention = mention.strip()
    return next((doubt for doubt, pattern in _MARKED if pattern.search(mention)), None)


def is_opposite(mention: str, name: str) -> bool:
    """Tell whether a mention has a word whose opposite the name has: "pain sensitivity" is no "pain insensitivity".

    A word that says that all is well, and that the name lacks, is one: "clear cornea" is no clouded one.
    """
    said, named = ({word.casefold() for word in _WORD.findall(text)} for text in (mention, name))
    said, named = said - named, named - said
    if said & _FINE:
        return True
    if (said & _LESS and named & _MORE and not named & _LESS) or (said & _MORE and named & _LESS and not named & _MORE):
        return True
    return any(_turned(word, other) for word in said for other in named)


def _turned(word: str, other: str) -> bool:
    """Tell whether one of two words is the other with a beginning that turns it round, or both have such beginnings."""
    short, long = sorted((word, other), key=len)
    if len(short) > _STEM and long.endswith(short) and long.removesuffix(short) in _NOT:
        return True
    return any(
        one.startswith(first) and two.startswith(second) and one[len(first) :] == two[len(second) :]
        for first, second in _TURNED
        for one, two in ((word, other), (other, word))
        if len(one) >= len(first) + _STEM
    )
