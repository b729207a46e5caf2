"""What the words of a mention and of a name say against each other, and what they do not."""

from __future__ import annotations

import pytest

from alphita.answer.contradictions import (
    NO_FINDING,
    OPPOSITE,
    OTHER_WORD,
    UNEXPLAINED,
    UNSAID,
    contradiction,
    is_opposite,
)
from alphita.mention import lexicon, word_pairs
from alphita.mention.word_pairs import is_form, key, word_diff

COMMON = frozenset(["attacks", "birthday", "chair", "chronicle", "day", "fingers", "inside", "intake", "meeting"])
COMMON |= {
    "arms",
    "ned",
    "one",
    "poisoned",
    "school",
    "seats",
    "side",
    "skinned",
    "throw",
    "told",
    "velvet",
    "weekly",
    "yard",
}


@pytest.mark.parametrize(
    ("mention", "name", "opposite"),
    [
        ("aPTT shortened", "Prolonged partial thromboplastin time", True),
        ("factor VII high", "Reduced factor VII activity", True),
        ("factor VII high", "Factor VII deficiency", True),
        ("pain sensitivity", "Pain insensitivity", True),
        ("sensitive to pain", "Pain insensitivity", True),
        ("undepressed nasal bridge", "Depressed nasal bridge", True),
        ("isocytosis", "Anisocytosis", True),
        ("microorchidism", "Macroorchidism", True),
        ("eumenorrhea", "Amenorrhea", True),
        ("hypocoagulability", "Hypercoagulability", True),
        ("clear cornea", "Opacification of the corneal stroma", True),
        ("strong pulse", "Weak pulse", True),
        ("thick lips", "Thin lips", True),
        ("closely spaced nipples", "Widely spaced nipples", True),
        ("total T3 low", "Decreased circulating free T3", True),
        ("labbra spesse e larghe", "labbra strette", False),
        ("lange Finger", "kurze Finger", True),
        ("doigts longs", "doigts courts", True),
        ("presión alta", "presión baja", True),
        ("dita lunghe", "dita corte", True),
        ("short stature", "Decreased body height", False),
        ("high blood pressure", "Elevated blood pressure", False),
        ("easy bruising", "Easy bruisability", False),
        ("decreased ability to sweat", "Decreased sweating", False),
        ("low platelets", "Thrombocytopenia", False),
        ("small large toe", "Short large toe", False),
        ("hypotonia", "Generalized hypotonia", False),
        ("ataxia", "Gait ataxia", False),
    ],
)
def test_opposites_of_a_name(mention, name, opposite):
    assert is_opposite(mention, name) == opposite


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("anorchia", ("not", "testis")),
        ("anonychia", ("not", "nail")),
        ("hypertyrosinemia", ("high", "tyrosine", "blood")),
        ("gastralgia", ("stomach", "pain")),
        ("aphagia", ("not", "eating")),
        ("hyperkaliuria", ("high", "potassium", "urine")),
    ],
)
def test_words_are_read_by_their_parts(word, meant):
    assert meant in word_pairs.readings(word)


@pytest.mark.parametrize("word", ["hypotonai", "seizurs", "diabetis", "epilepsie5", "artritis", "", "a" * 200])
def test_what_is_not_made_of_parts_has_no_reading(word):
    assert word_pairs.readings(word) == frozenset()


# Well made words beside the name that their letters are near to.
OTHER_WORDS = [
    ("anorchia", "Anonychia"),
    ("hypopia", "Hypopnea"),
    ("macromelia", "Acromelia"),
    ("aphagia", "Aphasia"),
    ("hyperprolinuria", "Hyperprolinemia"),
    ("euphonia", "Euphoria"),
    ("orexia", "Alexia"),
    ("isophoria", "Esophoria"),
    ("gastralgia", "Arthralgia"),
    ("myatonia", "Myotonia"),
    ("anemia of prematurity", "Apnea of prematurity"),
    ("thrombin time prolonged", "Prolonged prothrombin time"),
    ("CSF tau high", "Taurine high in CSF"),
    ("elevated c8 acylcarnitine", "Elevated C18 acylcarnitine"),
    ("homeless", "Hopeless"),
    ("uninfected", "Unaffected"),
    ("ritis", "Iritis"),
    ("hypona", "Hyponatremia"),
    ("elevated glutamate", "Elevated glutamine"),
    ("hyprtonia", "Hypotonia"),
    ("hyprplasia of thymus", "Hypoplasia of the thymus"),
    ("viruria", "Viremia"),
    ("glucosemia", "Glucosuria"),
    ("polydontia", "Polyotia"),
    ("limfoma", "Lipoma"),
    ("scab", "Scar"),
    ("lassa", "lyssa"),
    ("weeding", "weeping"),
    ("mutter", "Muttermal"),
    ("athsma", "Athymia"),
    ("vertiligo", "Vertigo"),
    ("fawning", "Falling"),
    ("hammer", "Hammertoe"),
    ("gourd", "GORD"),
    ("hypoplasia of the tibula", "Hypoplasia of the fibula"),
    ("glioblast", "Glioblastoma"),
    ("pituicyte", "Pituicytoma"),
    ("trimethylamine", "Trimethylaminuria"),
    ("ameloblastin", "Ameloblastoma"),
    ("meningismus", "Meningiomas"),
    ("microgyria", "Microcoria"),
    ("panostotic dysplasia", "Monostotic dysplasia"),
    ("pseudoarthrogryposis", "Pseudoarthrosis"),
    ("proliferative glomerulonephritis", "Membranoproliferative glomerulonephritis"),
]


@pytest.mark.parametrize(("mention", "name"), OTHER_WORDS)
def test_another_word_is_no_misspelling(mention, name):
    assert (
        contradiction(mention, (name, name), common={"homeless", "infected", "affected", "weed", "mal", "toe"})
        == OTHER_WORD
    )


@pytest.mark.parametrize(
    ("mention", "name"),
    [
        ("hypotonai", "Hypotonia"),
        ("hyprtension", "Hypertension"),
        ("hypkalemia", "Hypokalemia"),
        ("fevre", "Fever"),
        ("edma", "Edema"),
        ("seizurs", "Seizures"),
        ("diabetis mellitus", "Diabetes mellitus"),
        ("haemoglobinuria", "Hemoglobinuria"),
        ("scoliossis", "Scoliosis"),
        ("hyperhydrosis", "Hyperhidrosis"),
        ("ketonurea", "Ketonuria"),
        ("leuko-coria", "Leukocoria"),
        ("pan-hypopituitarism", "Panhypopituitarism"),
        ("antithyroid antibody positivity", "Anti-thyroid antibody positivity"),
        ("anodontism", "Anodontia"),
        ("glocoma", "Glaucoma"),
        ("fatique", "Fatigue"),
        ("sydactly", "Syndactyly"),
        ("agitated", "Agitation"),
        ("sevreity", "Severity"),
        ("TIAs", "TIA"),
        ("hyperkaliemia", "Hyperkalemia"),
        ("muscle fibre atrophy", "Muscle fiber atrophy"),
        ("endometrial inflammation", "Endometritis"),
        ("urine copper raised", "Increased urinary copper"),
        ("phosphate raised", "Hyperphosphatemia"),
        ("stomach ache", "Abdominal pain"),
        ("tired", "tiredness"),
        ("onset in infancy", "Infantile onset"),
        ("low platelets", "Thrombocytopenia"),
        ("reduced visual acuity", "Visual impairment"),
        ("fusion of upper and lower lips", "Fused lips"),
        ("", "Seizure"),
    ],
)
def test_a_misspelling_or_another_form_is_the_word(mention, name):
    assert contradiction(mention, (name, name), common={"tired"}) is None


def test_a_word_put_right_to_another_is_seen_by_what_it_was_put_right_to():
    assert contradiction("eupnoeic", ("Euphoria", "Euphoria"), spelling="euphoric") == OTHER_WORD


@pytest.mark.parametrize(
    ("mention", "expansion", "name", "expected"),
    [
        ("aPTT", "activated partial thromboplastin time", "Prolonged activated partial thromboplastin time", UNSAID),
        ("TLC 12000", "total lung capacity", "Reduced total lung capacity", UNSAID),
        ("aPTT 30 s", "partial thromboplastin time 30 s", "Prolonged partial thromboplastin time", UNSAID),
        ("ocular alignment", None, "Abnormal ocular alignment", UNSAID),
        ("memory", None, "Memory loss", UNSAID),
        ("velvet", None, "Velvet skin", UNSAID),
        ("lumbar puncture under GA", None, "Ameliorated by lumbar puncture", UNSAID),
        ("exercise", None, "Triggered by exercise", UNSAID),
        ("exercise-induced", None, "Triggered by exercise", None),
        ("surgically absent uterus", None, "Absent uterus", UNEXPLAINED),
        ("capelli tinti", None, "capelli", UNEXPLAINED),
        ("drops things", None, "Dropsy", UNEXPLAINED),
        ("urine albumin high", None, "Albuminuria", None),
        ("failure to thrive (child)", None, "Failure to thrive in infancy", UNSAID),
        ("contracture of the hand", None, "Contractures of the fingers", UNSAID),
        ("neonatal jaundice", None, "Jaundice of the newborn", None),
        ("anti-CCP +", "anti ccp antibody +", "Anti-CCP antibody positivity", None),
        ("long QT", None, "Long QT interval", None),
        ("cherry red spot", None, "Macular cherry red spot", None),
        ("N/V/D", "nausea, vomiting and diarrhea", "Nausea and vomiting", UNEXPLAINED),
        ("TmP/GFR low", "tmp/glomerular filtration rate low", "Decreased glomerular filtration rate", UNEXPLAINED),
        ("RBC zinc low", "red blood cell zinc low", "Decreased serum zinc", UNEXPLAINED),
        ("ascitic albumin low", None, "Low albumin", UNEXPLAINED),
        ("CKD stg 3", "chronic kidney disease stg 3", "Stage 3 chronic kidney disease", None),
        ("urine calcium low", None, "Hypocalciuria", None),
        ("ANA borderline", None, "Borderline", NO_FINDING),
        ("left sided weakness", None, "Left", NO_FINDING),
        ("rare", None, "Very rare", NO_FINDING),
        ("chronicle", None, "Chronic", NO_FINDING),
        ("velvet", None, "Velvety skin", UNSAID),
        ("short toe Neoplasm of the oral cavity", None, "Short toe", UNEXPLAINED),
        ("Prolonged", None, "Prolonged", None),
        ("onset in childhood", None, "Childhood onset", None),
        ("nose bleed seats", None, "Nose bleed", UNEXPLAINED),
        ("PAC meeting", "premature atrial contractions meeting", "Premature atrial contractions", UNEXPLAINED),
        ("hammer throw", None, "Hammer toe", UNEXPLAINED),
        ("sodium intake low", None, "low sodium", UNEXPLAINED),
        ("headache attacks", None, "Headache", None),
        ("cat cry in the yard", None, "Cat cry", UNEXPLAINED),
        ("long face when told", None, "Long face", UNEXPLAINED),
        ("pins and needles in her fingers", None, "Pins and needles", None),
        ("left sided weakness", None, "Weakness", UNEXPLAINED),
        ("left arm weakness", None, "Weakness", None),
        ("left hydronephrosis", None, "Hydronephrosis", None),
        ("PVL on MRI", "periventricular leukomalacia on mri", "Periventricular leukomalacia", None),
        ("migraines since teens", None, "Migraine", None),
        ("eats dirt, paper & chalk", None, "Eats dirt", None),
        ("extra little finger on one side", None, "Extra little finger", None),
        ("poisoned", None, "Blood poisoned", UNSAID),
        ("low serum potassium with high urine potassium", None, "Low urine potassium levels", UNEXPLAINED),
        ("high urine potassium", None, "Low urine potassium levels", OPPOSITE),
        ("enlarged lower lip", None, "Enlarged lip", None),
        ("night terrors weekly", None, "Night terrors", None),
        ("raised pressure inside the eye", None, "Raised pressure in the eye", None),
        ("palm tree", None, "Palm tree sign", UNSAID),
        ("low back", None, "Low back pain", UNSAID),
        ("Romberg positive", None, "Positive Romberg sign", None),
        ("stable scoliosis", None, "Compensatory scoliosis", UNSAID),
        ("can hear", None, "can't hear", OPPOSITE),
        ("cannot hear", None, "can't hear", None),
        ("isn't short of breath", None, "Short of breath", OPPOSITE),
        ("aren't itchy eyes", None, "Itchy eyes", OPPOSITE),
        ("isnt constipated", None, "Constipated", OPPOSITE),
        ("doesn't talk", None, "doesn't talk", None),
        ("doesn't pass urine", None, "Anuria", None),
        ("insensitive to cold", None, "Cold sensitivity", OPPOSITE),
        ("disorder without hyperactivity", None, "Disorder with hyperactivity", OPPOSITE),
        ("migraine without aura", None, "Migraine without aura", None),
        ("over or underweight", None, "Overweight", UNEXPLAINED),
        ("hypo- and hyperpigmentation", None, "Hyperpigmentation", UNEXPLAINED),
        ("hypo- and hyperpigmentation", None, "Hypo- and hyperpigmentation", None),
        ("Babinski down", None, "Babinski sign", UNEXPLAINED),
        ("bringing up blood", None, "Coughing up blood", None),
        ("ODD one out", "oppositional defiant disorder one out", "Oppositional defiant disorder", UNEXPLAINED),
        ("ADHD at school", "attention deficit at school", "Attention deficit", None),
        ("Hb S high", "haemoglobin s high", "Increased haemoglobin", UNEXPLAINED),
        ("ALT 400 U/L (<40)", "high alanine aminotransferase", "High alanine aminotransferase", None),
        ("chair", None, "Serum", UNEXPLAINED),
        ("chair with short legs", None, "Short legs", UNEXPLAINED),
        ("boy with short legs", None, "Short legs", None),
        ("premature birthday", None, "Premature birth", UNEXPLAINED),
        ("thick skinned", None, "Thick skin", None),
        ("bilateral hip dislocation", None, "Congenital bilateral hip dislocation", UNSAID),
        ("congenital glaucoma", None, "Primary congenital glaucoma", UNSAID),
        ("megacolon, other than Hirschsprung's", None, "Hirschsprung megacolon", OPPOSITE),
        ("canine lymphoma", None, "Lymphoma", UNEXPLAINED),
        ("canine hypoplasia", None, "Hypoplasia of the canine", None),
        ("arms, malformation of", "alveolar rhabdomyosarcoma malformation of", "Alveolar rhabdomyosarcoma", OTHER_WORD),
        ("contact lens", None, "Contact lens wearer", UNSAID),
        ("bull's eye", None, "Bull's eye rash", UNSAID),
        ("cannabis use", None, "Addictive cannabis use", UNSAID),
        ("transfer protein", None, "Transfer protein deficiency", UNSAID),
        ("levator palpebrae", None, "Levator palpebrae atrophy", UNSAID),
    ],
)
def test_what_a_name_says_more_or_less(mention, expansion, name, expected):
    assert contradiction(mention, (name, name), expansion=expansion, common=COMMON) == expected


@pytest.mark.parametrize(
    ("mention", "name", "expected"),
    [
        ("suprasellar meningioma", "Supratentorial meningioma", OTHER_WORD),
        ("chronic follicular conjunctivitis", "Chronic irritative conjunctivitis", OTHER_WORD),
        ("kidney papillary necrosis", "Renal papillary necrosis", None),
        ("fracture of the hand", "Fracture, hand", None),
        ("NEC in NICU", "perinatal NEC", None),
        ("Crohn disease", "Crohn's", None),
        ("cannot smell", "Loses smell", None),
        ("protein raised", "High albumin", None),
        ("Ｐｏｉｓｏｎｉｎｇ", "Poisoning", None),
    ],
)
def test_a_word_for_another_is_that_only_where_terms_say_the_one_for_the_other(mention, name, expected):
    synonyms = {("kidney", "renal")}
    assert contradiction(mention, (name, name), synonyms=synonyms) == expected
    # Where it does not matter, nothing is said.
    assert contradiction(mention, (name, name)) is None


@pytest.mark.parametrize(
    ("mention", "name", "similarity", "expected"),
    [
        ("dwarf buffalo", "Buffalo hump", 0.77, UNEXPLAINED),
        ("dwarf buffalo", "Buffalo hump", 0.9, None),
        ("question mark", "Question mark ear", 0.63, UNEXPLAINED),
        ("fish scale", "Fish scale disease", 0.79, UNEXPLAINED),
        ("hart attack", "Heart attack", 0.48, None),
        ("basophils high", "Basophilia", 0.7, None),
        ("PAPP-A low", "Low maternal serum PAPP-A", 0.79, None),
        ("hammer thrower", "Hammer toe", 0.63, UNEXPLAINED),
    ],
)
def test_what_means_little_of_a_name_and_says_other_words_is_not_it(mention, name, similarity, expected):
    common = {"dwarf", "buffalo", "question", "thrower", "hart", "basophils"}
    assert contradiction(mention, (name, name), similarity=similarity, common=common) == expected


@pytest.mark.parametrize(
    ("mention", "expansion", "name", "expected"),
    [
        ("coq au vin", "coq au vulvar intraepithelial neoplasia", "Vulvar intraepithelial neoplasia", OTHER_WORD),
        ("Jane Doe", "jane dyspnea on exertion", "Dyspnea on exertion", OTHER_WORD),
        ("take arms", "take alveolar rhabdomyosarcoma", "Alveolar rhabdomyosarcoma", OTHER_WORD),
        ("sob on exertion", "shortness of breath on exertion", "Shortness of breath on exertion", None),
        ("sob today", "shortness of breath today", "Shortness of breath", None),
        ("inc tone", "increased tone", "Increased muscle tone", None),
    ],
)
def test_a_word_of_a_phrase_is_no_short_form(mention, expansion, name, expected):
    common = {"coq", "vin", "jane", "doe", "take", "arms", "sob", "today", "inc", "tone", "exertion"}
    assert contradiction(mention, (name, name), expansion=expansion, common=common) == expected


@pytest.mark.parametrize(
    ("word", "other", "expected"),
    [
        ("wobble", "wobbly", True),
        ("anorexic", "anorexia", True),
        ("bronchitic", "bronchitis", True),
        ("hallucinating", "hallucination", True),
        ("palpitation", "palpitations", True),
        ("chore", "chorea", False),
        ("meteorite", "meteorism", False),
        ("jerkin", "jerking", False),
        ("depressing", "depression", False),
        ("manicure", "manic", False),
    ],
)
def test_forms_of_a_word_have_endings_that_stand_for_one_another(word, other, expected):
    assert is_form(word, other) is expected
    assert (contradiction(word, (other, other), common={word}) is None) is expected


def test_the_concepts_own_name_may_say_the_opposite():
    names = ("Abnormal partial thromboplastin time", "Prolonged partial thromboplastin time")
    assert contradiction("shortened partial thromboplastin time", names) == OPPOSITE


@pytest.mark.parametrize(
    ("mention", "name"),
    [
        ("absence of pectoralis minor bone", "Absence of pectoralis minor muscle"),
        ("second metatarsal anteriorly placed", "Second metatarsal posteriorly placed"),
        ("plasma toxoplasma antibody positive", "CSF toxoplasma antibody positive"),
        ("incomplete heart block", "Complete heart block"),
        ("thinning of the pleura", "Thickening of the pleura"),
        ("urine glucose low", "Glucose in urine"),
        ("low anti-dsDNA", "Anti-dsDNA antibody positivity"),
    ],
)
def test_another_place_or_kind_is_the_opposite(mention, name):
    assert contradiction(mention, (name, name)) == OPPOSITE


def test_what_is_left_of_two_strings():
    assert word_diff("hyper telorism, mild", "Hypertelorism") == (("mild",), ())
    assert word_diff("short fingers", "Short finger of the hand") == ((), ("of", "the", "hand"))


@pytest.mark.parametrize(
    ("one", "other"), [("fibre", "fiber"), ("tumour", "tumor"), ("rhythm", "rythm"), ("cysts", "cyst")]
)
def test_spellings_of_a_word_have_one_key(one, other):
    assert key(one) == key(other)


def test_every_row_of_the_tables_is_of_a_known_kind_and_stands_once():
    kinds = {
        "more",
        "less",
        "fine",
        "well",
        "change",
        "modifier",
        "filler",
        "beside",
        "setting",
        "sideless",
        "head",
        "nothing",
        "circumstance",
        "undone",
        "measured",
        "apart",
        "unit",
        "ends",
        "alone",
        "begins",
    }
    assert {row.kind for row in lexicon.rows()} == kinds
    keys = [row[:3] for row in lexicon.rows()]
    assert len(keys) == len(set(keys))
    assert all(word == word.strip() == word.lower() != "" for row in lexicon.rows() for word in row.words)
    assert set(word_pairs.table()) == {"prefix", "root", "suffix", "ending", "thing"}


@pytest.mark.parametrize("language", ["en", "it", "de", "fr", "es"])
@pytest.mark.parametrize("kind", ["more", "less", "fine", "well", "change", "modifier", "ends", "alone", "begins"])
def test_each_language_has_words_of_each_kind(kind, language):
    assert any(row.kind == kind and row.language == language for row in lexicon.rows())
