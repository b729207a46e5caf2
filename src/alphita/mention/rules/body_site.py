"""Body sites: a small vocabulary of regions and organs.

A region contains its parts: "limb" > "arm" > "hand" > "finger" > "thumb", so "hand" and "finger" do not exclude each
other, "hand" and "foot" do. An organ lies in its region ("heart" in "chest"). A string that names several sites
excludes only what is outside all of them. Tissues that are everywhere (skin, bone, muscle, nerve, vessel, joint) are
not sites.

The vocabulary is coarse and names of diseases are not always where their words are, so a contradiction only lowers.
"""

from __future__ import annotations

from alphita.mention.rules._lexicon import SILENT, Lexicon, disjoint, narrowest, nonzero, shared

DESCRIPTION = "body site: regions and organs"
VETO = False

(
    SHOULDER,
    UPPER_ARM,
    ELBOW,
    FOREARM,
    WRIST,
    PALM,
    THUMB,
    FINGER,
    HIP,
    THIGH,
    KNEE,
    SHIN,
    ANKLE,
    SOLE,
    HALLUX,
    TOE,
    EYELID,
    EYE,
    EAR,
    NOSE,
    LIP,
    TONGUE,
    TOOTH,
    MOUTH,
    JAW,
    CHIN,
    CHEEK,
    FOREHEAD,
    SCALP,
    SKULL,
    BRAIN,
    NECK,
    THYROID,
    LARYNX,
    PHARYNX,
    HEART,
    LUNG,
    BREAST,
    RIB,
    ESOPHAGUS,
    STOMACH,
    LIVER,
    GALLBLADDER,
    PANCREAS,
    SPLEEN,
    BOWEL,
    RECTUM,
    KIDNEY,
    ADRENAL,
    BLADDER,
    URETHRA,
    OVARY,
    UTERUS,
    VAGINA,
    TESTIS,
    PENIS,
    PROSTATE,
    SPINE,
    PITUITARY,
) = (1 << bit for bit in range(59))
_HAND = WRIST | PALM | THUMB | FINGER
_ARM = SHOULDER | UPPER_ARM | ELBOW | FOREARM | _HAND
_FOOT = ANKLE | SOLE | HALLUX | TOE
_LEG = HIP | THIGH | KNEE | SHIN | _FOOT
_MOUTH = LIP | TONGUE | TOOTH | MOUTH | JAW
_FACE = EYELID | EYE | EAR | NOSE | _MOUTH | CHIN | CHEEK | FOREHEAD
_HEAD = _FACE | SCALP | SKULL | BRAIN | PITUITARY
_CHEST = HEART | LUNG | BREAST | RIB | ESOPHAGUS
_PELVIS = RECTUM | BLADDER | URETHRA | OVARY | UTERUS | VAGINA | PROSTATE | HIP
_ABDOMEN = STOMACH | LIVER | GALLBLADDER | PANCREAS | SPLEEN | BOWEL | KIDNEY | ADRENAL | _PELVIS
_GENITALS = OVARY | UTERUS | VAGINA | TESTIS | PENIS | PROSTATE | URETHRA
_LEXICON = Lexicon(
    {
        _ARM | _LEG: {
            "en": "limb|limbs|extremity|extremities",
            "it": "arto|arti",
            "de": "extremitat|extremitaten",
            "fr": "membre|membres",
            "es": "extremidad|extremidades",
        },
        _ARM: {
            "en": "arm|arms|upper limb|upper limbs|upper extremity|upper extremities",
            "it": "braccio|braccia|arto superiore|arti superiori",
            "de": "arme|obere extremitat",
            "fr": "bras|membre superieur|membres superieurs",
            "es": "brazo|brazos|extremidad superior",
        },
        SHOULDER: {
            "en": "shoulder|shoulders|clavicle|clavicles|clavicular|scapula|scapular|scapulae",
            "it": "spalla|spalle",
            "de": "schulter|schultern",
            "fr": "epaule|epaules",
            "es": "hombro|hombros",
        },
        UPPER_ARM | SHOULDER | ELBOW: {"en": "humerus|humeral|humeri|humeral head", "it": "omero"},
        ELBOW: {
            "en": "elbow|elbows",
            "it": "gomito|gomiti",
            "de": "ellenbogen",
            "fr": "coude|coudes",
            "es": "codo|codos",
        },
        FOREARM | ELBOW | WRIST: {
            "en": "forearm|forearms|radius|radial head|ulna|ulnar|ulnae",
            "it": "avambraccio",
            "de": "unterarm",
            "es": "antebrazo",
        },
        WRIST | PALM: {
            "en": "wrist|wrists|carpal|carpals",
            "it": "polso|polsi",
            "de": "handgelenk",
            "fr": "poignet",
            "es": "muneca",
        },
        _HAND: {
            "en": "hand|hands|metacarpal|metacarpals",
            "it": "mano|mani",
            "de": "hande",
            "fr": "mains",
            "es": "manos",
            "zh": "手部",
        },
        PALM: {"en": "palm|palms|palmar"},
        THUMB | FINGER: {
            "en": "finger|fingers",
            "it": "dita della mano|dito della mano",
            "fr": "doigt|doigts",
            "zh": "手指",
        },
        THUMB | FINGER | HALLUX | TOE: {
            "en": "digit|digits|phalanx|phalanges",
            "it": "dito|dita",
            "es": "dedo|dedos",
            "de": "zehen und finger",
        },
        THUMB: {"en": "thumb|thumbs", "it": "pollice|pollici", "de": "daumen", "fr": "pouce|pouces", "zh": "拇指"},
        _LEG: {
            "en": "leg|legs|lower limb|lower limbs|lower extremity|lower extremities",
            "it": "gamba|gambe|arto inferiore|arti inferiori",
            "de": "bein|beine|untere extremitat",
            "fr": "jambe|jambes|membre inferieur|membres inferieurs",
            "es": "pierna|piernas|extremidad inferior",
        },
        HIP: {
            "en": "hip|hips|acetabulum|acetabular",
            "it": "anca|anche",
            "de": "hufte|huften",
            "fr": "hanche|hanches",
            "es": "cadera|caderas",
        },
        THIGH | HIP | KNEE: {
            "en": "thigh|thighs|femur|femoral|femurs|femoral head",
            "it": "coscia|femore",
            "de": "oberschenkel",
            "fr": "cuisse",
            "es": "muslo",
        },
        KNEE: {
            "en": "knee|knees|patella|patellar|patellae",
            "it": "ginocchio|ginocchia",
            "de": "knie",
            "fr": "genou|genoux",
            "es": "rodilla|rodillas",
            "zh": "膝",
        },
        SHIN | KNEE | ANKLE: {
            "en": "shin|shins|calf|calves|tibia|tibial|tibiae|fibula|fibular|fibulae",
            "it": "tibia|polpaccio",
            "de": "unterschenkel|wade",
            "fr": "mollet",
            "es": "pantorrilla",
        },
        ANKLE: {
            "en": "ankle|ankles",
            "it": "caviglia|caviglie",
            "de": "sprunggelenk|knochel",
            "fr": "cheville|chevilles",
            "es": "tobillo|tobillos",
        },
        _FOOT: {
            "en": "foot|feet|heel|heels|metatarsal|metatarsals|tarsal|pedal",
            "it": "piede|piedi",
            "de": "fuss|fuß|fusse",
            "fr": "pied|pieds",
            "es": "pie|pies",
            "zh": "足部",
        },
        SOLE: {"en": "sole|soles|plantar"},
        HALLUX | TOE: {
            "en": "toe|toes",
            "it": "dita del piede|dito del piede",
            "de": "zeh|zehe|zehen",
            "fr": "orteil|orteils",
            "zh": "足趾",
        },
        HALLUX: {"en": "hallux|halluces|big toe|big toes|great toe", "it": "alluce"},
        _HEAD | NECK: {"en": "head", "it": "testa", "de": "kopf", "fr": "tete", "es": "cabeza"},
        _FACE: {"en": "face|facial", "it": "viso|faccia|volto", "de": "gesicht", "fr": "visage", "es": "cara"},
        EYELID: {"en": "eyelid|eyelids|palpebral"},
        EYE | EYELID: {
            "en": "eye|eyes|ocular|ophthalmic|conjunctiva|conjunctival",
            "it": "occhio|occhi",
            "de": "auge|augen",
            "fr": "oeil|yeux",
            "es": "ojo|ojos",
            "zh": "眼",
        },
        EYE: {"en": "retina|retinal|cornea|corneal|iris|optic"},
        EYE | EYELID | SKULL: {"en": "orbit|orbits|orbital|eye socket|eye sockets"},
        EAR: {
            "en": "ear|ears|auricle|pinna|pinnae|tympanic",
            "it": "orecchio|orecchie",
            "de": "ohr|ohren",
            "fr": "oreille|oreilles",
            "es": "oreja|orejas|oido|oidos",
            "zh": "耳",
        },
        NOSE: {"en": "nose|nasal|nostril|nostrils", "it": "naso", "de": "nase", "fr": "nez", "es": "nariz", "zh": "鼻"},
        _MOUTH: {"en": "mouth|oral", "it": "bocca", "de": "mund", "fr": "bouche", "es": "boca", "zh": "口腔"},
        LIP: {
            "en": "lip|lips|labial",
            "it": "labbro|labbra",
            "de": "lippe|lippen",
            "fr": "levre|levres",
            "es": "labio|labios",
        },
        TONGUE: {"en": "tongue|lingual", "it": "lingua", "de": "zunge", "fr": "langue", "es": "lengua", "zh": "舌"},
        TOOTH | JAW: {
            "en": "tooth|teeth|dental|incisor|incisors|molar|molars|gingiva|gingival|gums",
            "it": "dente|denti",
            "de": "zahn|zahne",
            "fr": "dent|dents",
            "es": "diente|dientes",
            "zh": "牙",
        },
        JAW | CHIN: {"en": "jaw|jaws|mandible|mandibular|maxilla|maxillary"},
        BRAIN: {
            "en": "brain|cerebral|cerebellar|cerebellum|cerebrum|intracranial",
            "it": "cervello|cerebrale",
            "de": "gehirn|hirn",
            "fr": "cerveau",
            "es": "cerebro",
            "zh": "大脑",
        },
        SKULL | SCALP | BRAIN | FOREHEAD: {
            "en": "skull|cranial|cranium",
            "it": "cranio",
            "de": "schadel",
            "fr": "crane",
        },
        NECK | THYROID | LARYNX | PHARYNX | SPINE: {
            "en": "neck|cervical",
            "it": "collo",
            "de": "hals",
            "fr": "cou",
            "es": "cuello",
        },
        THYROID: {
            "en": "thyroid",
            "it": "tiroide|tiroideo|tiroidea",
            "fr": "thyroide",
            "es": "tiroides",
            "zh": "甲状腺",
        },
        LARYNX | PHARYNX: {
            "en": "larynx|laryngeal|pharynx|pharyngeal|throat",
            "it": "gola|laringe|faringe",
            "es": "garganta",
        },
        _CHEST | SPINE: {
            "en": "chest|thorax|thoracic",
            "it": "torace|petto",
            "de": "brustkorb|thorax",
            "fr": "poitrine",
            "es": "pecho|torax",
        },
        HEART: {
            "en": "heart|cardiac|myocardial|atrial|mitral|aortic",
            "it": "cuore|cardiaco|cardiaca",
            "de": "herz",
            "fr": "coeur|cardiaque",
            "es": "corazon|cardiaco|cardiaca",
            "zh": "心脏|心臟",
        },
        # The pulmonary valve and artery are the heart's as well as the lung's.
        LUNG | HEART: {"en": "pulmonary", "it": "polmonare", "fr": "pulmonaire", "es": "pulmonar"},
        LUNG: {
            "en": "lung|lungs|bronchial|bronchus",
            "it": "polmone|polmoni",
            "de": "lunge|lungen",
            "fr": "poumon|poumons",
            "es": "pulmon|pulmones",
            "zh": "肺",
        },
        BREAST: {
            "en": "breast|breasts|mammary|nipple|nipples",
            "it": "mammella",
            "fr": "seins",
            "es": "mama|mamas",
            "zh": "乳腺",
        },
        RIB: {"en": "rib|ribs", "de": "rippe|rippen"},
        ESOPHAGUS: {
            "en": "esophagus|esophageal|oesophagus|oesophageal",
            "it": "esofago",
            "fr": "oesophage",
            "es": "esofago",
            "zh": "食管",
        },
        _ABDOMEN: {
            "en": "abdomen|abdominal|belly",
            "it": "addome|addominale",
            "de": "bauch",
            "fr": "ventre|abdominale",
            "es": "abdomen|vientre",
            "zh": "腹部",
        },
        STOMACH: {
            "en": "gastric",
            "it": "stomaco|gastrico|gastrica",
            "de": "magen",
            "fr": "estomac|gastrique",
            "es": "estomago",
            "zh": "胃",
        },
        LIVER: {
            "en": "liver|hepatic",
            "it": "fegato|epatico|epatica",
            "de": "leber",
            "fr": "foie|hepatique",
            "es": "higado|hepatico|hepatica",
            "zh": "肝",
        },
        GALLBLADDER | LIVER: {"en": "gallbladder|gall bladder|biliary", "it": "colecisti", "de": "gallenblase"},
        PANCREAS: {"en": "pancreas|pancreatic", "it": "pancreatico|pancreatica", "fr": "pancreatique", "zh": "胰腺"},
        SPLEEN: {"en": "spleen|splenic", "it": "milza", "de": "milz", "es": "bazo", "zh": "脾"},
        BOWEL | RECTUM: {
            "en": "bowel|bowels|intestine|intestines|intestinal|colon|colonic|duodenum|duodenal|ileal|jejunal",
            "it": "intestino|intestinale",
            "de": "darm",
            "fr": "intestin",
            "es": "intestino",
            "zh": "肠",
        },
        RECTUM: {"en": "rectum|rectal|anus|anal", "it": "retto", "es": "recto"},
        KIDNEY: {
            "en": "kidney|kidneys|renal",
            "it": "rene|reni|renale|renali",
            "de": "niere|nieren",
            "fr": "rein|reins|renal|renale",
            "es": "rinon|rinones",
            "zh": "肾|腎",
        },
        ADRENAL: {
            "en": "adrenal",
            "it": "surrene|surrenale",
            "de": "nebenniere",
            "fr": "surrenale",
            "es": "suprarrenal",
            "zh": "肾上腺|腎上腺",
        },
        BLADDER: {"en": "bladder", "it": "vescica", "de": "harnblase", "fr": "vessie", "es": "vejiga", "zh": "膀胱"},
        _GENITALS: {"en": "genital|genitalia|genitals"},
        OVARY: {
            "en": "ovary|ovaries|ovarian",
            "it": "ovaio|ovaie|ovaia|ovarico",
            "fr": "ovaire",
            "es": "ovario",
            "zh": "卵巢",
        },
        UTERUS: {"en": "uterus|uterine|endometrial|endometrium", "it": "utero|uterino", "es": "utero", "zh": "子宫"},
        TESTIS: {
            "en": "testis|testes|testicle|testicles|testicular|scrotum|scrotal",
            "it": "testicolo|testicoli",
            "de": "hoden",
            "fr": "testicule|testicules",
            "es": "testiculo|testiculos",
            "zh": "睾丸",
        },
        PENIS: {"en": "penis|penile"},
        PROSTATE: {"en": "prostate|prostatic", "it": "prostata", "es": "prostata", "zh": "前列腺"},
        SPINE: {
            "en": "spine|spinal|vertebra|vertebrae|vertebral|lumbar|lumbosacral|sacral|sacrum",
            "it": "colonna vertebrale",
            "de": "wirbelsaule",
            "fr": "colonne vertebrale",
            "es": "columna vertebral",
        },
        SILENT: {
            "en": "second hand|first hand|face to face|at hand|uterine cervix|cervix uteri|cervical cancer"
            "|cervical intraepithelial|cervical smear|head of|neck of|body of|lip of|heart rate|tarsal plate",
            "zh": "白眼|肝素",
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
