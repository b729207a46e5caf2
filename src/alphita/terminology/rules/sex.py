"""Sex: male, female.

Clashes: "male" is "badly" and "ache" in Italian, so it is passed over before Italian prepositions; "men" before a
number is a tumour syndrome; "man" is read as English. Spanish "niño" and German "Junge" may be a child or a young
person of either sex and are not read.
"""

from __future__ import annotations

from alphita.terminology.rules._lexicon import SILENT, Lexicon, disjoint, narrowest, nonzero, shared

DESCRIPTION = "sex: male or female"
VETO = True

MALE, FEMALE = 1, 2
_ITALIAN = "a|ad|al|alla|allo|alle|ai|agli|all|di|del|dei|della|dello|delle"
_MEN = "1|2|3|4|i|ii|iii|iv|1a|2a|2b|iia|iib|type|syndrome|syndromes"
_LEXICON = Lexicon(
    {
        MALE: {
            "en": "male|males|man|men|boy|boys",
            "it": "maschio|maschi|maschile|maschili|uomo|uomini|ragazzo|ragazzi",
            "de": "mann|manner|mannern|mannes|mannlich*|maennlich*",
            "fr": "homme|hommes|masculin|masculine|masculins|garcon|garcons",
            "es": "hombre|hombres|varon|varones|masculino|masculina|masculinos",
            "pt": "homem|homens|masculino|masculina",
            "nl": "mannelijk*|mannen",
            "zh": "男",
        },
        FEMALE: {
            "en": "female|females|woman|women|girl|girls",
            "it": "femmina|femmine|femminile|femminili|donna|donne|ragazza|ragazze",
            "de": "frau|frauen|weiblich*|madchen|maedchen",
            "fr": "femme|femmes|feminin|feminine|feminins|fille|filles",
            "es": "mujer|mujeres|femenino|femenina|femeninos|hembra",
            "pt": "mulher|mulheres|feminino|feminina",
            "nl": "vrouwelijk*|vrouw|vrouwen|meisje|meisjes",
            "zh": "女",
        },
        SILENT: {
            "it": "|".join(f"male {word}" for word in _ITALIAN.split("|")) + "|grande male|piccolo male",
            "en": "|".join(f"men {word}" for word in _MEN.split("|")),
            "zh": "子女|男女",
        },
    }
)

LANGUAGES = _LEXICON.languages
concerns = _LEXICON.concerns
find = _LEXICON.find
code = narrowest
speaks = nonzero
agree = shared
contradict = disjoint
