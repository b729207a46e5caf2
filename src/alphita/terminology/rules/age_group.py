"""Age groups: from before birth to old age.

The groups are fetus, newborn (to 28 days), infant (to a year), child (to 10), adolescent, young adult, middle age, old
age.
"""

from __future__ import annotations

from alphita.terminology.rules._lexicon import SILENT, Lexicon, disjoint, narrowest, nonzero, shared

DESCRIPTION = "age group: fetal, neonatal, infantile, juvenile, adult, old"
VETO = True

FETUS, NEWBORN, INFANT, CHILD, ADOLESCENT, YOUNG, MIDDLE, OLD = (1 << bit for bit in range(8))
_LEXICON = Lexicon(
    {
        FETUS: {
            "en": "fetal|fetus|fetuses|foetal|foetus|prenatal|antenatal|intrauterine|in utero|embryonic",
            "it": "fetale|fetali|feto|feti|prenatale|prenatali|intrauterino|intrauterina|embrionale",
            "de": "fetal|fetale|fetaler|fetales|fetalen|fotus|pranatal|pranatale|pranataler|intrauterin*",
            "fr": "foetal|foetale|foetaux|foetus|prenatal|prenatale|antenatal|antenatale|intra uterin|intra uterine",
            "es": "fetal|fetales|feto|fetos|prenatal|prenatales|antenatal|intrauterino|intrauterina",
            "zh": "胎儿|胎兒",
        },
        FETUS | NEWBORN: {
            "en": "perinatal",
            "it": "perinatale|perinatali",
            "de": "perinatal|perinatale|perinataler",
            "fr": "perinatal|perinatale",
            "es": "perinatal|perinatales",
            "zh": "围产期|圍產期",
        },
        NEWBORN: {
            "en": "neonatal|neonate|neonates|newborn|newborns|neonatorum",
            "it": "neonatale|neonatali|neonato|neonati|neonata",
            "de": "neonatal|neonatale|neonataler|neonatales|neonatalen|neugeboren*",
            "fr": "neonatal|neonatale|neonataux|nouveau ne|nouveau nes",
            "es": "neonatal|neonatales|neonato|neonatos|recien nacido|recien nacidos",
            "pt": "neonatal|neonatais|recem nascido|recem nascidos",
            "nl": "neonataal|neonatale|pasgeboren*",
            "zh": "新生儿|新生兒",
        },
        NEWBORN | INFANT: {
            "en": "infant|infants|infantile|infancy|infantum",
            "it": "lattante|lattanti",
            "de": "saugling|sauglings|sauglinge|sauglingen",
            "fr": "nourrisson|nourrissons",
            "es": "lactante|lactantes",
            "zh": "婴儿|嬰兒",
        },
        INFANT | CHILD | ADOLESCENT: {
            "en": "child|children|childhood|pediatric|paediatric",
            "it": "bambino|bambini|bambina|infanzia|pediatrico|pediatrica",
            "de": "kind|kinder|kindern|kindes|kindheit|kindlich*|padiatrisch*",
            "fr": "enfant|enfants|enfance|pediatrique|pediatriques",
            "es": "nino|ninos|ninez|pediatrico|pediatrica",
            "pt": "crianca|criancas|pediatrico|pediatrica",
            "nl": "kinderen|kinderleeftijd",
            "zh": "儿童|兒童|小儿|小兒",
        },
        # These mean the child's as often as the infant's; "infantile" itself is read as English.
        NEWBORN | INFANT | CHILD | ADOLESCENT: {
            "de": "infantil|infantiler|infantiles",
            "it": "infantili",
            "fr": "infantiles",
            "es": "infantil|infantiles",
        },
        CHILD | ADOLESCENT: {
            "en": "juvenile|juvenilis",
            "it": "giovanile|giovanili",
            "de": "juvenil|juveniler|juveniles|juvenilen",
            "fr": "juveniles",
            "es": "juvenil|juveniles",
            "zh": "幼年|青少年",
        },
        ADOLESCENT: {
            "en": "adolescent|adolescents|adolescence|teenage|teenager|teenagers",
            "it": "adolescente|adolescenti|adolescenza|adolescenziale",
            "de": "jugendlich*|adoleszen*",
            "fr": "adolescent|adolescents|adolescente|adolescence",
            "es": "adolescente|adolescentes|adolescencia",
        },
        YOUNG: {
            "en": "young adult|young adults",
            "it": "giovane adulto|giovani adulti",
            "de": "junge erwachsene|junger erwachsener|jungen erwachsenen",
            "fr": "jeune adulte|jeunes adultes",
            "es": "adulto joven|adultos jovenes",
        },
        YOUNG | MIDDLE | OLD: {
            "en": "adult|adults|adulthood",
            "it": "adulto|adulta|adulti|adulte",
            "de": "adult|adulter|erwachsen*",
            "fr": "adulte|adultes",
            "es": "adulto|adulta|adultos|adultas",
            "pt": "adulto|adulta|adultos|adultas",
            "nl": "volwassen*",
            "zh": "成人",
        },
        MIDDLE: {
            "en": "middle aged|middle age|presenile",
            "it": "presenile",
            "de": "prasenil|prasenile",
            "fr": "presenile",
        },
        OLD: {
            "en": "elderly|geriatric|senile|senilis|old age",
            "it": "anziano|anziana|anziani|anziane|senile|senili",
            "de": "senil|senile|seniler|geriatrisch*|alterer menschen",
            "fr": "senile|seniles|geriatrique|personne agee|personnes agees",
            "es": "anciano|anciana|ancianos|ancianas|senil|seniles|geriatrico|geriatrica",
            "zh": "老年",
        },
        # Names of findings of any age.
        SILENT: {
            "en": "fetal hemoglobin|gestational age infant|before adulthood|fetal haemoglobin|fetal alcohol"
            "|foetal alcohol|infantile spasm|infantile spasms"
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
