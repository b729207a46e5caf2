"""Residual classes of a classification: "unspecified" (NOS, not otherwise specified) and "other" (NEC).

"other and unspecified" leaves both open. "other" counts before a name only where it stands first or before
"specified", for "due to other causes" is no class of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from alphita.terminology.rules import Found, Text
from alphita.terminology.rules._lexicon import Lexicon, disjoint, nonzero, shared

DESCRIPTION = "residual classes: unspecified (NOS) or other (NEC)"
VETO = True

UNSPECIFIED, OTHER = 1, 2
_FIRST = 4
_LEXICON = Lexicon(
    {
        UNSPECIFIED: {
            "en": "unspecified|nos|not otherwise specified|not specified|unspec|without further specification",
            "it": "non specificato|non specificata|non specificati|non specificate|nas",
            "de": "nicht naher bezeichnet|nicht naher bezeichnete|nicht naher bezeichneter"
            "|nicht naher bezeichnetes|nnb",
            "fr": "sans precision|sans autre precision|non precise|non precisee|non precises|non precisees|sai",
            "es": "no especificado|no especificada|no especificados|no especificadas|sin especificar"
            "|sin otra especificacion",
            "pt": "nao especificado|nao especificada",
            "nl": "niet gespecificeerd|niet gespecificeerde",
        },
        OTHER: {
            "en": "other specified|not elsewhere classified|nec",
            "it": "altro specificato|altra specificata",
            "de": "sonstige naher bezeichnete|sonstige|sonstiger|sonstiges|anderenorts nicht klassifiziert",
            "fr": "autre precise|autre precisee|autres precises|autres precisees|non classe ailleurs",
            "es": "otro especificado|otra especificada|otros especificados|otras especificadas|neom",
        },
        OTHER | _FIRST: {
            "en": "other",
            "it": "altro|altra|altri|altre",
            "de": "andere|anderer|anderes",
            "fr": "autre|autres",
            "es": "otro|otra|otros|otras",
            "pt": "outro|outra|outros|outras",
            "nl": "andere|overige",
        },
    }
)

LANGUAGES = _LEXICON.languages
concerns = _LEXICON.concerns
speaks = nonzero
contradict = disjoint
agree = shared


def find(text: Text) -> list[Found]:
    """Return the residual classes that are named."""
    return [
        Found(one.value & ~_FIRST, one.words)
        for place, one in _LEXICON.find_at(text)
        if not (one.value & _FIRST and place)
    ]


def code(values: Sequence[int]) -> int:
    """Join them: each leaves itself open."""
    joined = 0
    for value in values:
        joined |= value
    return joined
