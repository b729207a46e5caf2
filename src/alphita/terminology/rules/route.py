"""Routes of administration.

"parenteral" leaves every injected route open, "topical" those of skin, eye, ear and nose.
"""

from __future__ import annotations

from alphita.terminology.rules import Found, Text
from alphita.terminology.rules._lexicon import Lexicon, disjoint, narrowest, nonzero, shared, word_set

DESCRIPTION = "route of administration: oral, intravenous, topical, ..."
VETO = True

(
    ORAL,
    SUBLINGUAL,
    RECTAL,
    VAGINAL,
    INTRAVENOUS,
    INTRAMUSCULAR,
    SUBCUTANEOUS,
    INTRADERMAL,
    INTRATHECAL,
    EPIDURAL,
    INTRAARTICULAR,
    INTRAARTERIAL,
    INHALED,
    NASAL,
    OPHTHALMIC,
    OTIC,
    CUTANEOUS,
    TRANSDERMAL,
    INTRAVITREAL,
) = (1 << bit for bit in range(19))
_INJECTED = (
    INTRAVENOUS
    | INTRAMUSCULAR
    | SUBCUTANEOUS
    | INTRADERMAL
    | INTRATHECAL
    | EPIDURAL
    | INTRAARTICULAR
    | INTRAARTERIAL
    | INTRAVITREAL
)
_LEXICON = Lexicon(
    {
        ORAL: {
            "en": "oral|orally|peroral|per os|by mouth|po",
            "it": "orale|orali|per bocca",
            "de": "oral|orale|oraler|orales|oralen|peroral*|zum einnehmen",
            "fr": "orale|orales|voie orale|par voie orale",
            "es": "oral|orales|via oral",
            "pt": "oral|via oral",
            "nl": "oraal|orale",
            "zh": "口服",
        },
        SUBLINGUAL: {
            "en": "sublingual|buccal",
            "it": "sublinguale",
            "de": "sublingual|sublinguale",
            "fr": "sublingual|sublinguale",
            "es": "sublingual",
            "zh": "舌下",
        },
        RECTAL: {
            "en": "rectal|rectally",
            "it": "rettale|rettali",
            "de": "rektal|rektale|rektaler",
            "fr": "rectale|rectales",
            "es": "rectal|rectales",
            "nl": "rectaal",
            "zh": "直肠给药",
        },
        VAGINAL: {
            "en": "vaginal|vaginally|intravaginal",
            "it": "vaginale|vaginali",
            "de": "vaginal|vaginale|vaginaler",
            "fr": "vaginal|vaginale|vaginales",
            "es": "vaginal|vaginales",
            "nl": "vaginaal",
        },
        INTRAVENOUS: {
            "en": "intravenous|intravenously|iv|i v",
            "it": "endovenoso|endovenosa|endovena",
            "de": "intravenos|intravenose|intravenoser|i v",
            "fr": "intraveineux|intraveineuse",
            "es": "intravenoso|intravenosa|endovenoso",
            "pt": "intravenoso|intravenosa",
            "nl": "intraveneus|intraveneuze",
            "zh": "静脉注射|静脉滴注",
        },
        INTRAMUSCULAR: {
            "en": "intramuscular|intramuscularly|im|i m",
            "it": "intramuscolare|intramuscolo",
            "de": "intramuskular|intramuskulare",
            "fr": "intramusculaire",
            "es": "intramuscular",
            "nl": "intramusculair",
            "zh": "肌内注射|肌肉注射",
        },
        SUBCUTANEOUS: {
            "en": "subcutaneous|subcutaneously|sc|s c|subcut",
            "it": "sottocutaneo|sottocutanea|sottocute",
            "de": "subkutan|subkutane|subkutaner",
            "fr": "sous cutane|sous cutanee",
            "es": "subcutaneo|subcutanea",
            "nl": "subcutaan|subcutane",
            "zh": "皮下注射",
        },
        INTRADERMAL: {
            "en": "intradermal",
            "it": "intradermico|intradermica",
            "de": "intradermal|intrakutan",
            "fr": "intradermique",
            "es": "intradermico|intradermica",
            "zh": "皮内注射",
        },
        INTRATHECAL: {
            "en": "intrathecal",
            "it": "intratecale",
            "de": "intrathekal",
            "fr": "intrathecal|intrathecale",
            "es": "intratecal",
            "zh": "鞘内",
        },
        EPIDURAL: {
            "en": "epidural|peridural",
            "it": "epidurale|peridurale",
            "de": "epidural|epidurale",
            "fr": "epidurale|peridurale",
            "es": "epidural",
        },
        INTRAARTICULAR: {
            "en": "intra articular|intraarticular",
            "it": "intrarticolare|intraarticolare",
            "de": "intraartikular",
            "fr": "intra articulaire",
            "es": "intraarticular",
        },
        INTRAARTERIAL: {"en": "intra arterial|intraarterial", "it": "endoarterioso", "es": "intraarterial"},
        INTRAVITREAL: {"en": "intravitreal", "it": "intravitreale", "fr": "intravitreen", "es": "intravitreo"},
        INHALED: {
            "en": "inhaled|by inhalation|for inhalation|inhalational|respiratory use",
            "it": "per inalazione|inalatorio|inalatoria",
            "de": "inhalativ|inhalative|zur inhalation",
            "fr": "inhale|inhalee|par inhalation",
            "es": "inhalado|inhalada|por inhalacion",
            "zh": "吸入",
        },
        NASAL: {
            "en": "nasal|nasally|intranasal",
            "it": "nasale|nasali|intranasale",
            "de": "nasal|nasale|nasaler|nasales",
            "fr": "nasal|nasale|nasales",
            "es": "nasal|nasales|intranasal",
            "nl": "nasaal",
            "zh": "滴鼻|鼻用",
        },
        OPHTHALMIC: {
            "en": "ophthalmic|ocular use",
            "it": "oftalmico|oftalmica|uso oculare",
            "de": "ophthalmisch*|am auge",
            "fr": "ophtalmique",
            "es": "oftalmico|oftalmica",
            "zh": "滴眼|眼用",
        },
        OTIC: {
            "en": "otic|auricular use",
            "it": "otologico|uso auricolare",
            "fr": "auriculaire",
            "es": "otico|otica",
            "zh": "滴耳|耳用",
        },
        CUTANEOUS: {
            "en": "cutaneous|external use",
            "it": "cutaneo|cutanea|uso esterno",
            "de": "kutan|kutane|kutaner",
            "fr": "cutane|cutanee",
            "es": "cutaneo|cutanea",
            "zh": "外用",
        },
        TRANSDERMAL: {
            "en": "transdermal|percutaneous",
            "it": "transdermico|transdermica",
            "de": "transdermal*",
            "fr": "transdermique",
            "es": "transdermico|transdermica",
            "zh": "透皮",
        },
        CUTANEOUS | TRANSDERMAL | OPHTHALMIC | OTIC | NASAL: {
            "en": "topical|topically",
            "it": "topico|topica",
            "de": "topisch*",
            "fr": "topique|voie topique",
            "es": "topico|topica",
        },
        _INJECTED: {
            "en": "parenteral|parenterally",
            "it": "parenterale|parenterali",
            "de": "parenteral*",
            "fr": "parenteral|parenterale",
            "es": "parenteral",
            "zh": "注射给药",
        },
    }
)

_SHORT = frozenset({"iv", "im", "sc", "po", "i v", "i m", "s c"})
_OF_DRUGS = word_set(
    "line access infusion infusions bolus drip push fluid fluids drug drugs user use abuse injection injections",
    "therapy antibiotic antibiotics contrast route infusione infusion tablet tablets vial mg g ml",
)

LANGUAGES = _LEXICON.languages
concerns = _LEXICON.concerns
code = narrowest
speaks = nonzero
agree = shared
contradict = disjoint


def find(text: Text) -> list[Found]:
    """Return the routes named; short ones only where a drug is spoken of."""
    of_drugs = any(not word.isalpha() for word in text.words) or not _OF_DRUGS.isdisjoint(text.words)
    return [
        found
        for place, found in _LEXICON.find_at(text)
        if found.words not in _SHORT or of_drugs or (place == 0 and found.words == "iv")
    ]
