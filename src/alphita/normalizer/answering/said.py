"""What a mention says before any candidate is looked at: an identifier, or a finding that is only possible."""

from __future__ import annotations

import re

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
# How notes begin what is only thought of, or what a relative has: in English, Italian, German, French, Spanish.
_CUES = {
    POSSIBLE: re.compile(
        r"\?|(?:r/o|r\\o|rule[ds]? out|possible|possibly|probable|suspected|suspicion (?:of|for)|suspicious for|query|"
        r"questionable|concern for|evaluate for|sospett[oaie](?: d[ia])?|da escludere|possibile|probabile|v\.? ?a\.?|"
        r"verdacht auf|ausschluss|suspicion de|éliminer|sospecha de|posible|descartar)\b",
        re.IGNORECASE,
    ),
    FAMILY: re.compile(
        r"(?:family (?:history|hx)|fhx?|fam\.? ?hx|(?:mother|father|sister|brother|aunt|uncle|grandmother|grandfather)"
        r"(?:'s| has| had| with)|anamnesi familiare|familiarità|familienanamnese|antécédents familiaux|"
        r"antecedentes familiares)\b",
        re.IGNORECASE,
    ),
}


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
    """Return why a mention does not say that the patient has it, `POSSIBLE` or `FAMILY`; None: nothing says so."""
    mention = mention.strip()
    return next((reason for reason, cue in _CUES.items() if cue.match(mention)), None)
