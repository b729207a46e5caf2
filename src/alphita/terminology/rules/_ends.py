"""Opposite ends that names are told apart by, and mentions are not: no rule of the normalizer."""

from __future__ import annotations

from alphita.terminology.rules._lexicon import Lexicon, disjoint, narrowest, shared

_ENDS = (
    ("with|mit|con|avec|com|met", "without|without mention of|with no|ohne|senza|sin|sans|sem|zonder"),
    ("upper|superior*|supérieur*|obere|oberer|oberes|oberen", "lower|inferior*|inférieur*|untere|unterer|unteren"),
    ("benign*|bénin|bénigne|gutartig*|non malignant|nonmalignant", "malign*|bösartig*"),
    ("anterior*|antérieur*|vordere*", "posterior*|postérieur*|hintere*"),
    ("proximal*|prossimal*", "distal*"),
    ("medial*", "lateral|laterale|laterali"),
    ("internal|interne|interno|interna", "external|externe|esterno|esterna|externo|externa"),
    ("central|centrale|zentral*", "periph*|perife*|périph*"),
    ("dominant*", "recessiv*|rezessiv*|récessi*|recesiv*"),
)
# The bits of each pair; those of the first are opposites only where all other words are the same.
AXES = tuple(3 << 2 * axis for axis in range(len(_ENDS)))
WITH = AXES[0]
_LEXICON = Lexicon(
    {1 << 2 * axis + end: {"": phrases} for axis, ends in enumerate(_ENDS) for end, phrases in enumerate(ends)}
)

concerns = _LEXICON.concerns
find = _LEXICON.find
code = narrowest
# Of one pair at a time.
agree = shared
contradict = disjoint
