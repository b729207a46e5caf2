"""What each rule says of pairs of strings, language by language."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.terminology.rules import Profiler, load, read
from alphita.terminology.rules.negation import begins_with_denial

# mention, term: both speak of the attribute and exclude each other.
CONTRADICT = {
    "laterality": [
        ("left renal agenesis", "Right renal agenesis"),
        ("Left-sided weakness", "weakness, right"),
        ("bilateral cataract", "unilateral cataract"),
        ("left cataract", "cataract of both eyes"),
        ("agenesia renale sinistra", "agenesia renale destra"),
        ("dolore al ginocchio dx. destro", "left knee pain"),
        ("linksseitige Nierenagenesie", "Nierenagenesie rechts"),
        ("Beidseitige Taubheit", "einseitige Taubheit"),
        ("main gauche", "main droite"),
        ("surdité bilatérale", "surdité unilatérale"),
        ("mano izquierda", "mano derecha"),
        ("rim esquerdo", "rim direito"),
        ("linker nier", "rechter nier"),
        ("左肾缺如", "右肾缺如"),
        ("双侧耳聋", "单侧耳聋"),
        ("rt kidney", "lt kidney"),
    ],
    "negation": [
        ("no fever", "Fever"),
        ("no fever", "high fever"),
        ("Patient denies chest pain", "chest pain"),
        ("absence of fever", "Fever"),
        ("fever absent", "fever"),
        ("no evidence of acute fracture", "fracture of wrist"),
        ("diabetes without complication", "diabetes with complications"),
        ("HIV negative", "HIV positive"),
        ("non-Hodgkin lymphoma", "Hodgkin lymphoma"),
        ("pneumonia ruled out", "pneumonia"),
        ("non-insulin-dependent diabetes mellitus", "insulin-dependent diabetes mellitus"),
        ("senza febbre", "febbre"),
        ("assenza di febbre", "febbre"),
        ("ohne Fieber", "Fieber"),
        ("kein Fieber", "hohes Fieber"),
        ("sans fièvre", "fièvre"),
        ("pas de fièvre", "fièvre"),
        ("sin fiebre", "fiebre"),
        ("no fiebre", "fiebre alta"),
        ("sem febre", "febre"),
        ("geen koorts", "koorts"),
        ("无发热", "发热"),
        ("否认胸痛", "胸痛"),
    ],
    "course": [
        ("acute pancreatitis", "Chronic pancreatitis"),
        ("subacute thyroiditis", "acute thyroiditis"),
        ("congenital heart block", "acquired heart block"),
        ("transient diabetes", "permanent diabetes"),
        ("progressive ataxia", "non-progressive ataxia"),
        ("primary amenorrhea", "Secondary amenorrhea"),
        ("acute congenital block", "acute acquired block"),
        ("pancreatite acuta", "pancreatite cronica"),
        ("akute Pankreatitis", "chronische Pankreatitis"),
        ("pancréatite aiguë", "pancréatite chronique"),
        ("pancreatitis aguda", "pancreatitis crónica"),
        ("angeborene Taubheit", "erworbene Taubheit"),
        ("acute nierinsufficiëntie", "chronische nierinsufficiëntie"),
        ("急性胰腺炎", "慢性胰腺炎"),
        ("pancreatite aguda", "pancreatite crônica"),
    ],
    "residual": [
        ("malnutrition NOS", "other malnutrition"),
        ("malnutrition, unspecified", "Other specified malnutrition"),
        ("anemia, NEC", "anemia, unspecified"),
        ("anemia non specificata", "altra anemia"),
        ("nicht näher bezeichnete Anämie", "sonstige Anämie"),
        ("anémie, sans précision", "autres anémies"),
        ("anemia no especificada", "otras anemias"),
    ],
    "stage": [
        ("type 1 diabetes", "Diabetes mellitus type 2"),
        ("type I diabetes", "diabetes, type II"),
        ("T2DM", "type 1 diabetes"),
        ("NYHA III", "NYHA class II"),
        ("CKD stage 3", "ckd 4"),
        ("T2N0M0", "T3 N0 M0"),
        ("T2N0", "T2N1"),
        ("stage IIIa", "stage 3b"),
        ("second degree burn", "third-degree burn"),
        ("hepatitis B", "hepatitis C"),
        ("vitamin B12 deficiency", "vitamin D deficiency"),
        ("vitamin B-12", "vitamin b6"),
        ("mild asthma", "severe asthma"),
        ("factor VIII deficiency", "factor 9 deficiency"),
        ("influenza A", "influenza B"),
        ("stage2", "stage 3"),
        ("diabete di tipo 1", "diabete tipo 2"),
        ("ustione di secondo grado", "ustione di terzo grado"),
        ("Typ-1-Diabetes", "Diabetes Typ 2"),
        ("Verbrennung 2. Grades", "Verbrennung dritten Grades"),
        ("diabète de type 1", "diabète de type 2"),
        ("brûlure du premier degré", "brûlure au troisième degré"),
        ("diabetes tipo 1", "diabetes tipo 2"),
        ("estadio II", "estadio III"),
        ("1型糖尿病", "2型糖尿病"),
        ("iii期", "二期"),
        ("schwere Depression", "leichte Depression"),
        ("dépression sévère", "dépression légère"),
        ("depresión leve", "depresión moderada"),
        ("depressione lieve", "depressione grave"),
        ("轻度贫血", "重度贫血"),
    ],
    "number": [
        ("500 mg", "250 mg"),
        ("0.5 g", "250 mg"),
        ("trisomy 21", "trisomy 18"),
        ("2nd toe", "third toe"),
        ("39 °C", "38°C"),
        ("age 3 years", "age 12 months"),
        ("two toes", "three toes"),
        ("5 mm", "5 cm"),
        ("alle 12 ore", "alle 8 ore"),
        ("3 Wochen", "3 Tage"),
        ("2 ans", "18 mois"),
        ("6 meses", "un 1 año"),
        ("20 %", "30%"),
        ("1000 IU", "2000 units"),
        ("mucopolysaccharidosis II", "mucopolysaccharidosis iii"),
        ("-5 dioptres", "5 dioptres"),
        ("3个月", "6个月"),
        ("lisinopril 20 mg / hydrochlorothiazide 12.5 mg", "lisinopril 10 mg / hydrochlorothiazide 12.5 mg"),
        ("amoxicillin 875 mg + clavulanate 125 mg", "amoxicillin 500 mg / clavulanate 125 mg"),
        ("toes 2 and 3", "toes 3 and 4"),
    ],
    "strength": [
        ("amoxicillin 500 mg/5 ml", "amoxicillin 50 mg/ml"),
        ("10 mg/mL", "20 mg per ml"),
        ("25 mcg/h", "50 µg/hour"),
        ("100 IU/ml", "300 units/ml"),
        ("10 mg pro ml", "5 mg/ml"),
        ("20 mg/g", "10 mg/g"),
        ("100 mcg/puff", "250 mcg/dose"),
        ("co-amoxiclav 875/125", "co-amoxiclav 500/125"),
        ("insulin 70/30", "insulin human 50/50 pen"),
        ("lisinopril hctz 20/12.5", "lisinopril-hctz 10 mg/12.5 mg"),
        ("x 800 mg/160 mg", "x 800 mcg/160 mcg"),
        ("symbicort 160/4.5", "symbicort 0.08 mg/0.0045 mg"),
        ("amoxiclav 875 mg / 125 mg", "amoxiclav 500/125mg"),
        ("hydrocodone 5/325 mg", "hydrocodone 10/325"),
        ("trelegy 100/62.5/25", "trelegy 200/62.5/25 mcg"),
        ("co-amoxiclav 1 g/200 mg", "co-amoxiclav 500 mg/100 mg"),
        ("5 mg/ml and 10 mg/ml", "5 mg/ml and 20 mg/ml"),
    ],
    "dose_form": [
        ("aspirin tablet", "aspirin capsule"),
        ("cream", "ointment"),
        ("eye drops, solution", "solution for injection"),
        ("compresse", "supposte"),
        ("Filmtabletten", "Salbe"),
        ("comprimés", "sirop"),
        ("comprimidos", "jarabe"),
        ("tablets", "Zäpfchen"),
        ("阿司匹林片剂", "阿司匹林胶囊"),
    ],
    "route": [
        ("oral morphine", "Intravenous morphine"),
        ("morphine 10 mg iv", "morphine 10 mg po"),
        ("parenteral iron", "oral iron"),
        ("topical steroid", "oral steroid"),
        ("rectal bleeding", "vaginal bleeding"),
        ("uso orale", "uso endovenoso"),
        ("orale Gabe", "intravenöse Gabe"),
        ("voie orale", "intraveineuse"),
        ("vía oral", "vía intravenosa"),
        ("口服", "静脉注射"),
        ("iv line", "nasal line"),
    ],
    "age_group": [
        ("neonatal hypoglycemia", "Adult hypoglycemia"),
        ("juvenile arthritis", "adult arthritis"),
        ("infantile cataract", "juvenile cataract"),
        ("senile cataract", "juvenile cataract"),
        ("fetal asphyxia", "neonatal asphyxia"),
        ("ittero neonatale", "ittero dell'adulto"),
        ("Neugeborenengelbsucht bei Neugeborenen", "beim Erwachsenen"),
        ("ictère du nouveau-né", "ictère de l'adulte"),
        ("recién nacido", "adultos"),
        ("recém-nascido", "adulto"),
        ("新生儿黄疸", "成人黄疸"),
        ("elderly", "children"),
    ],
    "sex": [
        ("Male infertility", "female infertility"),
        ("men", "women"),
        ("infertilità maschile", "infertilità femminile"),
        ("Unfruchtbarkeit des Mannes", "Unfruchtbarkeit der Frau"),
        ("männliche Sterilität", "weibliche Sterilität"),
        ("infertilité masculine", "infertilité féminine"),
        ("esterilidad masculina", "esterilidad femenina"),
        ("infertilidade do homem", "infertilidade da mulher"),
        ("男性不育", "女性不孕"),
    ],
    "body_site": [
        ("fracture of hand", "Fracture of foot"),
        ("finger pain", "toe pain"),
        ("upper limb", "lower limb"),
        ("renal failure", "liver failure"),
        ("frattura della mano", "frattura del piede"),
        ("Schmerzen im Knie", "Schmerzen in der Schulter"),
        ("douleur au genou", "douleur à l'épaule"),
        ("dolor de rodilla", "dolor de hombro"),
        ("肝衰竭", "心脏衰竭"),
    ],
}
# Both speak of it, and one leaves open what the other says.
AGREE = {
    "laterality": [
        ("left kidney", "rene sinistro"),
        ("unilateral deafness", "left deafness"),
        ("left and right knee", "left knee"),
        ("left and right knee", "both knees"),
        ("left-to-right shunt", "right to left shunt"),
    ],
    "negation": [("no fever", "fever absent"), ("no fever", "no fever, no cough")],
    "course": [
        ("acute on chronic pancreatitis", "chronic pancreatitis"),
        ("acute pancreatitis", "pancreatite acuta"),
        ("chronic progressive ataxia", "progressive ataxia"),
    ],
    "residual": [("anemia NOS", "Anemia, unspecified"), ("other and unspecified anemia", "other anemia")],
    "stage": [
        ("type 1 diabetes", "type 1a diabetes"),
        ("stage III", "stage 3"),
        ("grade 2-3", "grade 3"),
        ("types 1 and 2", "type 2"),
        ("moderate to severe", "severe"),
        ("NYHA class III", "nyha 3"),
        ("T2DM", "diabete tipo II"),
        ("vitamin B", "vitamin B12"),
        ("vitamin B 12", "vitamin-b12"),
        ("pT2N0", "cT2aN0"),
        ("third degree", "grado 3"),
        ("TxN1", "T2N1"),
    ],
    "number": [
        ("0.5 g", "500 mg"),
        ("0,5 g", "500mg"),
        ("1,000 mg", "1 g"),
        ("100.4 °F", "38 °C"),
        ("2 weeks", "14 days"),
        ("1 year", "12 months"),
        ("third toe", "3rd toe"),
        ("toes 2 and 3", "toe 2"),
        ("1.000.000 IU", "1000000 units"),
        ("24 h", "1 Tag"),
        ("10 second delay", "10 s"),
        ("codeine 30 mg / paracetamol 500 mg", "paracetamol 0.5 g / codeine 30 mg"),
        ("sulfamethoxazole 800 mg/trimethoprim 160 mg", "trimethoprim 160 mg/sulfamethoxazole 800 mg"),
    ],
    "strength": [
        ("500 mg/5 ml", "100 mg/ml"),
        ("0.1 g/ml", "100 mg per mL"),
        ("1 mg/h", "1000 mcg/hr"),
        ("amoxicillin/clavulanate 875/125", "clavulanate/amoxicillin 125/875"),
        ("co-amoxiclav 1000/200", "1 g/200 mg"),
        ("symbicort 160/4.5", "budesonide/formoterol 160 mcg/4.5 mcg"),
        ("insulin 70/30", "mixtard 30/70 %"),
        ("fluticasone/salmeterol 250/50 mcg", "fluticasone 0.25/0.05 mg"),
        ("x 100/20 mcg", "x 0.1 mg/0.02 mg"),
        ("symbicort 160/4.5", "budesonide/formoterol 0.16 mg/0.0045 mg"),
    ],
    "dose_form": [
        ("eye drops", "ophthalmic solution"),
        ("powder for solution for injection", "injection"),
        ("pill", "tablet"),
        ("film-coated tablets", "compresse"),
    ],
    "route": [("parenteral", "intramuscular"), ("topical", "transdermal"), ("by mouth", "oral")],
    "age_group": [
        ("young adult", "adults"),
        ("childhood epilepsy", "juvenile epilepsy"),
        ("infantile", "neonatal"),
        ("senile", "elderly"),
        ("perinatal", "fetal"),
    ],
    "sex": [("male and female", "female"), ("boys", "men")],
    "body_site": [
        ("hand", "finger"),
        ("upper limb", "thumb"),
        ("limb", "knee"),
        ("renal", "kidney"),
        ("chest pain", "cardiac pain"),
        ("hand and foot", "foot"),
        ("finger", "digit"),
        ("pulmonary valve", "heart valve"),
    ],
}
# One speaks of it, the other does not: no contradiction.
ONE_SIDED = {
    "laterality": [("left renal agenesis", "renal agenesis"), ("右肾", "肾")],
    "negation": [
        ("diabetes without complication", "diabetes mellitus"),
        ("absent thumb", "aplasia of the thumb"),
        ("absent thumb", "triphalangeal thumb"),
        ("no hair", "alopecia totalis"),
        ("no permanent teeth", "agenesis of permanent teeth"),
        ("loss of consciousness", "disorder of consciousness"),
    ],
    "course": [("acute pancreatitis", "pancreatitis")],
    "residual": [("anemia NOS", "anemia"), ("other anemia", "anemia")],
    "stage": [("type 2 diabetes", "diabetes"), ("hepatitis b", "hepatitis")],
    "number": [("500 mg", "aspirin"), ("trisomy 21", "down syndrome")],
    "strength": [("10 mg/ml", "10 mg"), ("insulin 70/30", "insulin")],
    "dose_form": [("aspirin tablet", "aspirin")],
    "route": [("oral morphine", "morphine"), ("iv morphine", "morphine")],
    "age_group": [("neonatal jaundice", "jaundice")],
    "sex": [("male infertility", "infertility")],
    "body_site": [("hand pain", "pain")],
}
# What looks like the attribute and is not.
SILENT = {
    "laterality": ["RT-PCR", "左旋多巴", "x-linked", "destruction", "gauchely", "rectum"],
    "negation": [
        "with or without fever",
        "not otherwise specified",
        "dor no peito",
        "no. 5",
        "rule out pneumonia",
        "con o senza febbre",
        "absent or hypoplastic thumbs",
        "decreased/absent reflexes",
        "negative pressure",
        "fever",
        "",
    ],
    "course": ["recurrent fever", "agenesis of permanent teeth", "primary care"],
    "residual": ["anemia due to other causes", "nosocomial infection"],
    "stage": ["T2 vertebra", "tipo e sede", "type", "blood type o", "stage fright", "grade i1x", "degree"],
    "number": [
        "22q11.2 deletion",
        "IL-2a",
        "b12",
        "10-20 mg",
        "over 65 years",
        "< 5 cm",
        "type 2",
        "10 mg/ml",
        "2/3",
        "1.2.3",
        "10^9",
        "co-amoxiclav 875/125",
        "875 mg/125 mg",
        "10 mg / ml",
        "75 mg/24 h",
        "3/week",
        "75 mg/m2",
        "10 mg/die",
        "1000 mg/daily",
        "10 mg/qd",
        "10 mg/tab",
        "10 mg/inj",
        "1, 2 or 3 toes",
        "65 years and older",
        "iv infusion",
        "ii2",
    ],
    "strength": [
        "500 mg",
        "20%",
        "1/2",
        "and/or",
        "5 mg/0 ml",
        "875/125",
        "blood pressure 120/80",
        "hypertension 120/80 mmHg",
        "seen 12/05/2020",
        "since 05/2020",
        "half tablet 1/2",
        "visual acuity 20/40",
        "discs L4/5",
        "hla b27/44 type",
        "20 mg/1 g cream",
        "range 10-20",
        "10 mg/5 %",
        "arterial hypertension 140/90",
        "hypertonie 160/95",
        "ipertensione 150/90",
        "apgar score 9/10",
    ],
    "dose_form": ["patch test", "conjunctival injection", "foot drop", "internal capsule"],
    "route": ["glomerulonephritis iv", "im Darm", "po valley"],
    "age_group": ["fetal hemoglobin", "onset before adulthood", "congenital"],
    "sex": ["MEN 2A", "men type 1", "male di testa", "il male alla schiena", "子女"],
    "body_site": ["fracture", "second hand smoke", "heart rate", "skin"],
}
PROFILER = Profiler()


def flags(rule: str, mention: str, term: str) -> dict[str, bool]:
    bit = 1 << PROFILER.rules.index(rule)
    made = PROFILER.profile([mention, term])
    compared = PROFILER.compare(made, np.array([0]), made, np.array([1]))
    names = ("contradicts", "mention_only", "term_only", "agrees")
    return {name: bool(getattr(compared, name)[0] & bit) for name in names if getattr(compared, name)[0] & bit}


def pairs(table):
    return [pytest.param(rule, *pair, id=f"{rule}: {pair[0]} / {pair[1]}") for rule in table for pair in table[rule]]


@pytest.mark.parametrize(("rule", "mention", "term"), pairs(CONTRADICT))
def test_contradictions(rule, mention, term):
    assert flags(rule, mention, term) == {"contradicts": True}
    assert flags(rule, term, mention) == {"contradicts": True}


@pytest.mark.parametrize(("rule", "mention", "term"), pairs(AGREE))
def test_agreement(rule, mention, term):
    assert flags(rule, mention, term) == {"agrees": True}
    assert flags(rule, term, mention) == {"agrees": True}


@pytest.mark.parametrize(("rule", "mention", "term"), pairs(ONE_SIDED))
def test_only_one_speaks(rule, mention, term):
    assert flags(rule, mention, term) == {"mention_only": True}
    assert flags(rule, term, mention) == {"term_only": True}


@pytest.mark.parametrize(("rule", "string"), [(rule, string) for rule in SILENT for string in SILENT[rule]])
def test_silence(rule, string):
    found = PROFILER.profile([string])
    assert not found.speaks[0] & (1 << PROFILER.rules.index(rule))


def test_every_rule_has_examples_of_every_kind():
    assert all(set(table) == set(PROFILER.rules) for table in (CONTRADICT, AGREE, ONE_SIDED, SILENT))


@pytest.mark.parametrize(
    ("rule", "mention", "term"),
    [
        # The comma ends the number: 500 without a unit.
        ("number", "500, mg", "250 mg"),
        ("number", "5. mg", "10 mg"),
        ("number", "500 mg", "500 ml"),
        ("number", "3 days", "3 years"),
        ("stage", "type 2", "stage 3"),
        ("course", "chronic", "congenital"),
        ("negation", "no fever", "no cough"),
        ("strength", "5 mg/ml", "5 mg/h"),
    ],
)
def test_different_sides_of_an_attribute_are_neither_agreement_nor_contradiction(rule, mention, term):
    assert flags(rule, mention, term) == {}


def test_more_values_than_a_code_holds_are_not_judged():
    assert [found.words for found in load("number").find(read("codes 5 6 7"))] == ["5", "6", "7"]
    assert flags("number", "codes 5 6 7", "code 8") == {"term_only": True}
    assert flags("stage", "type 1 stage 2 grade 3 mild", "type 2") == {"term_only": True}


def test_rules_say_what_they_are():
    for name in PROFILER.rules:
        rule = load(name)
        assert rule.DESCRIPTION
        assert "en" in rule.LANGUAGES
        assert tuple(sorted(rule.LANGUAGES)) == rule.LANGUAGES
    every = {
        "laterality",
        "negation",
        "course",
        "sex",
        "age_group",
        "route",
        "dose_form",
        "body_site",
        "stage",
        "number",
    }
    assert all({"de", "en", "es", "fr", "it", "zh"} <= set(load(name).LANGUAGES) for name in every)
    assert {name for name in PROFILER.rules if not load(name).VETO} == {"body_site"}


@pytest.mark.parametrize(
    ("string", "expected"),
    [
        ("no fever", True),
        ("Denies chest pain", True),
        ("without rash", True),
        ("kein Fieber", True),
        ("no absence of it", True),
        ("fever", False),
        ("absence of fever", False),
        ("fever, no rash", False),
        ("no. 5 finger", False),
        ("", False),
        ("dor no peito", False),
        ("no peito dor sem febre", False),
        ("not otherwise specified pain", False),
    ],
)
def test_what_begins_with_a_denial(string, expected):
    assert begins_with_denial(read(string)) == expected
