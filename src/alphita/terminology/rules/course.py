"""Course and origin: five pairs of opposites, each compared for itself.

acute / subacute / chronic; congenital / acquired; transient / permanent; progressive / stationary; primary /
secondary. "acute on chronic" leaves both open. "recurrent" and "intermittent" exclude none of these.

Not read: "akut" and the like inside compounds; "stable" ("stable angina"); "idiopathic".
"""

from __future__ import annotations

from alphita.terminology.rules import Codes, Flags
from alphita.terminology.rules._lexicon import SILENT, Lexicon, disjoint, narrowest, nonzero, shared

DESCRIPTION = "course and origin: acute or chronic, congenital or acquired, transient, progressive, primary"
VETO = True

ACUTE, SUBACUTE, CHRONIC, CONGENITAL, ACQUIRED, TRANSIENT, PERMANENT, PROGRESSIVE, STATIONARY, PRIMARY, SECONDARY = (
    1 << bit for bit in range(11)
)
AXES = (
    ACUTE | SUBACUTE | CHRONIC,
    CONGENITAL | ACQUIRED,
    TRANSIENT | PERMANENT,
    PROGRESSIVE | STATIONARY,
    PRIMARY | SECONDARY,
)
_LEXICON = Lexicon(
    {
        ACUTE: {
            "en": "acute|acutely",
            "it": "acuto|acuta|acuti|acute",
            "de": "akut|akute|akuter|akutes|akuten|akutem",
            "fr": "aigu|aigue|aigus|aigues",
            "es": "agudo|aguda|agudos|agudas",
            "pt": "agudo|aguda|agudos|agudas",
            "nl": "acuut|acute",
            "zh": "急性",
        },
        SUBACUTE: {
            "en": "subacute|sub acute",
            "it": "subacuto|subacuta|subacuti",
            "de": "subakut*",
            "fr": "subaigu|subaigue|subaigues",
            "es": "subagudo|subaguda|subagudos|subagudas",
            "pt": "subagudo|subaguda",
            "nl": "subacuut|subacute",
            "zh": "亚急性|亞急性",
        },
        CHRONIC: {
            "en": "chronic|chronically",
            "it": "cronico|cronica|cronici|croniche",
            "de": "chronisch*",
            "fr": "chronique|chroniques",
            "es": "cronico|cronica|cronicos|cronicas",
            "pt": "cronico|cronica|cronicos|cronicas",
            "nl": "chronisch*",
            "zh": "慢性",
        },
        CONGENITAL: {
            "en": "congenital|congenitally|inborn|connatal|non acquired",
            "it": "congenito|congenita|congeniti|congenite",
            "de": "kongenital*|angeboren*|konnatal*",
            "fr": "congenital*|congenitaux",
            "es": "congenito|congenita|congenitos|congenitas",
            "pt": "congenito|congenita|congenitos|congenitas",
            "nl": "congenitaal|congenitale|aangeboren",
            "zh": "先天性",
        },
        ACQUIRED: {
            "en": "acquired",
            "it": "acquisito|acquisita|acquisiti|acquisite",
            "de": "erworben*",
            "fr": "acquis|acquise|acquises",
            "es": "adquirido|adquirida|adquiridos|adquiridas",
            "pt": "adquirido|adquirida|adquiridos|adquiridas",
            "nl": "verworven",
            "zh": "后天性|获得性|後天性|獲得性",
        },
        TRANSIENT: {
            "en": "transient|transiently|transitory|temporary",
            "it": "transitorio|transitoria|transitori|transitorie|temporaneo|temporanea",
            "de": "transitorisch*|transient*|vorubergehend*",
            "fr": "transitoire|transitoires|temporaire|temporaires",
            "es": "transitorio|transitoria|transitorios|transitorias",
        },
        PERMANENT: {
            "en": "permanent|permanently|persistent|persisting",
            "it": "permanente|permanenti|persistente|persistenti",
            "de": "permanent*|persistier*|dauerhaft*|bleibend*",
            "fr": "permanent*|persistant*",
            "es": "permanente|permanentes|persistente|persistentes",
        },
        PROGRESSIVE: {
            "en": "progressive|progressively",
            "it": "progressivo|progressiva|progressivi|progressive",
            "de": "progressiv*|progredient*|fortschreitend*",
            "fr": "progressif|progressive|progressifs|progressives",
            "es": "progresivo|progresiva|progresivos|progresivas",
        },
        STATIONARY: {
            "en": "nonprogressive|non progressive|not progressive|stationary|static",
            "it": "non progressivo|non progressiva|stazionario|stazionaria",
            "de": "nicht progressiv|nicht progressive|nicht progrediente|stationar|stationare|stationarer",
            "fr": "non progressif|non progressive|stationnaire",
            "es": "no progresivo|no progresiva|estacionario|estacionaria",
        },
        PRIMARY: {
            "en": "primary|primarily",
            "it": "primario|primaria|primari|primarie|primitivo|primitiva",
            "de": "primar|primare|primarer|primares|primaren|primaer*",
            "fr": "primaire|primaires|primitif|primitive",
            "es": "primario|primaria|primarios|primarias",
            "zh": "原发性|原發性",
        },
        SECONDARY: {
            "en": "secondary|secondarily",
            "it": "secondario|secondaria|secondari|secondarie",
            "de": "sekundar|sekundare|sekundarer|sekundares|sekundaren|sekundaer*",
            "fr": "secondaire|secondaires",
            "es": "secundario|secundaria|secundarios|secundarias",
            "zh": "继发性|繼發性",
        },
        # Kinds of teeth and of care, not of course: every child's dentition is "primary", every adult's "permanent".
        SILENT: {
            "en": "permanent tooth|permanent teeth|permanent dentition|permanent molar|permanent molars"
            "|permanent incisor|permanent incisors|permanent canine|permanent premolar|permanent premolars"
            "|primary tooth|primary teeth|primary dentition|primary molar|primary molars|primary incisor"
            "|primary incisors|primary canine|primary care|primary school|secondary school|secondary teeth"
            "|secondary dentition|secondary tooth"
        },
    }
)

LANGUAGES = _LEXICON.languages
concerns = _LEXICON.concerns
find = _LEXICON.find
code = narrowest
speaks = nonzero
agree = shared


def contradict(left: Codes, right: Codes) -> Flags:
    """Tell which pairs name opposites of at least one kind."""
    clash = disjoint(left & AXES[0], right & AXES[0])
    for axis in AXES[1:]:
        clash |= disjoint(left & axis, right & axis)
    return clash
