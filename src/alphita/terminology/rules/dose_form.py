"""Dose forms of drugs.

A form is what is administered. "solution" and "suspension" leave open whether they are for injection, drops, a spray,
to drink or to inhale; "powder" whether it is for injection, to drink or to inhale; "pill" whether tablet or capsule.
"ointment", "cream" and "gel" exclude each other.
"""

from __future__ import annotations

from alphita.terminology.rules._lexicon import SILENT, Lexicon, disjoint, narrowest, nonzero, shared

DESCRIPTION = "dose form: tablet, capsule, solution, injection, cream, ..."
VETO = True

(
    TABLET,
    CAPSULE,
    LOZENGE,
    DRINK,
    SYRUP,
    DROPS,
    SPRAY,
    INHALATION,
    INJECTION,
    ENEMA,
    LIQUID,
    POWDER,
    GRANULES,
    CREAM,
    OINTMENT,
    GEL,
    LOTION,
    PASTE,
    FOAM,
    PATCH,
    SUPPOSITORY,
    PESSARY,
    IMPLANT,
    SHAMPOO,
) = (1 << bit for bit in range(24))
_SOLUTION = LIQUID | DRINK | SYRUP | DROPS | SPRAY | INHALATION | INJECTION | ENEMA
_LEXICON = Lexicon(
    {
        TABLET: {
            "en": "tablet|tablets|tab|tabs|caplet|caplets",
            "it": "compressa|compresse|cpr",
            "de": "tablette|tabletten|tbl|filmtablette|filmtabletten|dragee|dragees",
            "fr": "comprime|comprimes",
            "es": "comprimido|comprimidos|tableta|tabletas",
            "zh": "片剂|肠溶片|缓释片|分散片",
        },
        CAPSULE: {
            "en": "capsule|capsules|softgel|softgels",
            "it": "capsula rigida|capsule rigide|capsula molle|capsule molli",
            "de": "kapseln|hartkapsel|hartkapseln|weichkapsel|weichkapseln",
            "fr": "gelule|gelules",
            "es": "capsula dura|capsulas duras|capsula blanda|capsulas blandas",
            "zh": "胶囊|膠囊",
        },
        TABLET | CAPSULE: {
            "en": "pill|pills",
            "it": "pillola|pillole",
            "de": "pille|pillen",
            "fr": "pilule|pilules",
            "es": "pildora|pildoras|pastilla|pastillas",
        },
        LOZENGE: {
            "en": "lozenge|lozenges|pastille|pastilles",
            "it": "pastiglia|pastiglie",
            "de": "lutschtablette|lutschtabletten",
        },
        SYRUP: {"en": "syrup|elixir", "it": "sciroppo", "de": "sirup", "fr": "sirop", "es": "jarabe", "zh": "糖浆"},
        DRINK: {
            "en": "oral solution|oral suspension|oral liquid",
            "it": "soluzione orale|sospensione orale",
            "fr": "solution buvable|suspension buvable",
            "es": "solucion oral|suspension oral",
            "zh": "口服液",
        },
        DROPS: {
            "en": "drops|eye drop|ear drop",
            "it": "gocce|collirio",
            "de": "tropfen|augentropfen|ohrentropfen|nasentropfen",
            "fr": "gouttes|collyre",
            "es": "gotas|colirio",
            "zh": "滴眼液|滴剂",
        },
        SPRAY: {"en": "spray|sprays", "de": "nasenspray", "es": "pulverizador", "zh": "喷雾剂"},
        INHALATION: {
            "en": "inhaler|inhalers|aerosol|nebuliser solution|nebulizer solution|powder for inhalation"
            "|inhalation powder",
            "it": "inalatore",
            "de": "dosieraerosol|inhalator",
            "fr": "inhalateur",
            "es": "inhalador",
            "zh": "吸入剂",
        },
        INJECTION: {
            "en": "injection|injections|injectable|vial|vials|ampoule|ampoules|prefilled syringe|infusion",
            "it": "iniettabile|fiala|fiale|preparazione iniettabile|infusione",
            "de": "injektion*|ampulle|ampullen|infusion*|fertigspritze",
            "fr": "injectable|perfusion",
            "es": "inyectable|inyeccion|ampolla|infusion",
            "zh": "注射液|注射剂|注射用",
        },
        ENEMA: {"en": "enema|enemas", "it": "clistere", "de": "klistier", "fr": "lavement", "zh": "灌肠剂"},
        _SOLUTION: {
            "en": "solution|suspension|emulsion|liquid",
            "it": "soluzione|sospensione",
            "de": "losung|suspension",
            "fr": "solution",
            "es": "solucion",
            "zh": "溶液|混悬液",
        },
        POWDER | INJECTION | INHALATION | DRINK: {
            "en": "powder",
            "it": "polvere",
            "de": "pulver",
            "fr": "poudre",
            "es": "polvo",
            "zh": "粉剂",
        },
        GRANULES | DRINK: {
            "en": "granules",
            "it": "granulato",
            "de": "granulat",
            "fr": "granules",
            "es": "granulado",
            "zh": "颗粒剂",
        },
        CREAM: {"en": "cream|creams", "it": "crema", "de": "creme", "fr": "creme", "es": "crema", "zh": "乳膏"},
        OINTMENT: {
            "en": "ointment|ointments",
            "it": "unguento|pomata",
            "de": "salbe",
            "fr": "pommade",
            "es": "pomada|unguento",
            "zh": "软膏",
        },
        GEL: {"en": "gel|gels", "zh": "凝胶"},
        LOTION: {"en": "lotion|lotions", "it": "lozione", "es": "locion", "zh": "洗剂"},
        PASTE: {"en": "toothpaste|dental paste", "it": "dentifricio", "de": "zahnpasta"},
        FOAM: {"en": "cutaneous foam|rectal foam|topical foam", "it": "schiuma cutanea|schiuma rettale"},
        PATCH: {
            "en": "transdermal patch|transdermal system|medicated plaster",
            "it": "cerotto|cerotti|cerotto transdermico",
            "de": "pflaster|transdermales pflaster",
            "fr": "dispositif transdermique|patch transdermique",
            "es": "parche|parches|parche transdermico",
            "zh": "贴剂|贴片",
        },
        SUPPOSITORY: {
            "en": "suppository|suppositories",
            "it": "supposta|supposte",
            "de": "zapfchen|suppositorium|suppositorien",
            "fr": "suppositoire|suppositoires",
            "es": "supositorio|supositorios",
            "zh": "栓剂",
        },
        PESSARY: {
            "en": "pessary|pessaries|ovule|vaginal suppository",
            "it": "ovulo|ovuli",
            "fr": "ovules",
            "es": "ovulos",
        },
        IMPLANT: {"en": "subcutaneous implant|implant for injection", "it": "impianto sottocutaneo"},
        SHAMPOO: {"en": "shampoo", "it": "shampoo", "fr": "shampoing", "es": "champu"},
        SILENT: {
            "en": "conjunctival injection|scleral injection|ciliary injection|internal capsule|external capsule"
            "|joint capsule|lens capsule|capsule endoscopy|posterior capsule|anterior capsule|injection site"
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
