"""Make a download in Athena's layout with 54,000 concepts, to answer the lists of local codes on.

    python bench/omop_journey.py DATA FOLDER

DATA is a folder of open data (see bench/omop/README.md); nothing of it is stored here. The vocabularies of the made
folder have the names of the real ones, but of SNOMED and RxNorm neither content nor codes: the codes are invented, by
a hash of the source's id or of the name, so that they stay the same when the folder grows.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

TABLES = Path(__file__).parent / "omop"
ENGLISH = 4180186
FILES = {
    "CONCEPT": (
        *("concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id", "standard_concept"),
        *("concept_code", "valid_start_date", "valid_end_date", "invalid_reason"),
    ),
    "CONCEPT_SYNONYM": ("concept_id", "concept_synonym_name", "language_concept_id"),
    "CONCEPT_RELATIONSHIP": (
        *("concept_id_1", "concept_id_2", "relationship_id", "valid_start_date", "valid_end_date", "invalid_reason"),
    ),
    "VOCABULARY": (
        *("vocabulary_id", "vocabulary_name", "vocabulary_reference", "vocabulary_version", "vocabulary_concept_id"),
    ),
    "RELATIONSHIP": (
        *("relationship_id", "relationship_name", "is_hierarchical", "defines_ancestry", "reverse_relationship_id"),
        "relationship_concept_id",
    ),
    "DOMAIN": ("domain_id", "domain_name", "domain_concept_id"),
    "CONCEPT_CLASS": ("concept_class_id", "concept_class_name", "concept_class_concept_id"),
}
# Relationship -> its reverse, and whether they make the hierarchy.
RELATIONSHIPS = {
    "Is a": ("Subsumes", 1),
    "Maps to": ("Mapped from", 0),
    "Concept replaced by": ("Concept replaces", 0),
    "RxNorm has ing": ("RxNorm ing of", 1),
    "RxNorm is a": ("RxNorm inverse is a", 1),
    "Consists of": ("Constitutes", 1),
    "RxNorm has dose form": ("RxNorm dose form of", 0),
    "Tradename of": ("Has tradename", 1),
    "Brand name of": ("Has brand name", 0),
}
# What names domains, vocabularies and so on, which have no codes: vocabulary and class of these concepts.
META = {"domain": "Domain", "vocabulary": "Vocabulary", "kind": "Concept Class", "relationship": "Relationship"}
GENERATED = "OMOP generated"
MOST_SYNONYMS = 8
N_ICD10CM = 10_000
N_RETIRED = 500
N_HISTORY = 900
SIDES = ("", "left ", "right ")


@dataclass
class Concept:
    """A row of CONCEPT, with its synonyms."""

    name: str
    domain: str
    vocabulary: str
    kind: str
    standard: str = "S"
    code: str = ""
    identifier: int = 0
    synonyms: list[str] = field(default_factory=list)
    reason: str = ""


def normal(name: str) -> str:
    """Return what names that say the same share: no case, signs and plural; words in any order if none is a number."""
    words = re.findall(r"[a-z0-9.+%]+", name.lower())
    if re.search(r"\d", name):
        return " ".join(words)
    return " ".join(sorted(word.removesuffix("s") if len(word) > 3 else word for word in words))


def number(key: str, below: int) -> int:
    """Return a number that a text always gives."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % below


def rows(path: Path, delimiter: str = "\t") -> Iterator[dict[str, str]]:
    """Yield the rows of a table, which may be gzipped."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        unquoted = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        yield from unquoted if delimiter == "\t" else csv.DictReader(lines)


class Download:
    """The concepts and relationships that are made, without two concepts of one name in one vocabulary."""

    def __init__(self, data: Path, seed: int) -> None:
        self.data, self.seed = data, seed
        self.concepts: list[Concept] = []
        self.links: dict[tuple[int, str, int], None] = {}
        self._ids: set[int] = {0, ENGLISH}
        self._codes: set[tuple[str, str]] = set()
        self.named: dict[str, Concept] = {}
        # Diseases by their ids of MONDO; those that ICD-10-CM has, too; names that begin with a capital anywhere.
        self.diseases: dict[str, Concept] = {}
        self.usual: list[Concept] = []
        self.proper: set[str] = set()

    def add(self, concept: Concept, key: str = "") -> Concept:
        """Add a concept under a key that its numbers come from; return the one of that name if there is one."""
        key = key or f"{concept.vocabulary}/{concept.name}"
        name = normal(concept.name)
        if concept.standard == "S" and name in self.named:
            return self.extend(self.named[name], concept.synonyms)
        if not concept.identifier:
            concept.identifier = 1_000_000 + number(f"id {key}", 44_000_000)
        while concept.identifier in self._ids:
            concept.identifier += 1
        digits = 1_000_000 if concept.vocabulary == "RxNorm" else 100_000_000
        code = int(concept.code) if concept.code.isdecimal() else digits + number(f"code {key}", 9 * digits)
        while not concept.code or (concept.vocabulary, concept.code) in self._codes:
            concept.code = str(code)
            code += 1
        self._ids.add(concept.identifier)
        self._codes.add((concept.vocabulary, concept.code))
        self.concepts.append(concept)
        synonyms, concept.synonyms = concept.synonyms, []
        if concept.standard == "S":
            self.named[name] = concept
        return self.extend(concept, synonyms)

    def extend(self, concept: Concept, synonyms: Iterable[str]) -> Concept:
        """Give a concept more synonyms, but none that names another standard concept."""
        for synonym in synonyms:
            name = normal(synonym)
            if len(concept.synonyms) < MOST_SYNONYMS and name and name not in self.named:
                concept.synonyms.append(synonym)
                if concept.standard == "S":
                    self.named[name] = concept
        return concept

    def link(self, head: Concept, relationship: str, tail: Concept) -> None:
        """Add a relationship, from both ends."""
        if head is not tail:
            self.links[head.identifier, relationship, tail.identifier] = None
            self.links[tail.identifier, RELATIONSHIPS[relationship][0], head.identifier] = None

    def write(self, folder: Path) -> None:
        """Write the files, sorted by id."""
        folder.mkdir(parents=True, exist_ok=True)
        none = Concept("No matching concept", "Metadata", "None", "Undefined", "", "No matching concept")
        english = Concept("English language", "Language", "SNOMED", "Qualifier Value", "S", "297487008", ENGLISH)
        self.concepts += [none, english]
        relationships = [*RELATIONSHIPS, *(reverse for reverse, _ in RELATIONSHIPS.values())]
        names = {
            "domain": {"Metadata", *(concept.domain for concept in self.concepts)},
            "vocabulary": {*META.values(), *(concept.vocabulary for concept in self.concepts)},
            "kind": {*META.values(), *(concept.kind for concept in self.concepts)},
            "relationship": set(relationships),
        }
        meta = {
            (kind, name): self.add(Concept(name, "Metadata", META[kind], META[kind], "", f"{GENERATED} {kind} {name}"))
            for kind, some in names.items()
            for name in sorted(some)
        }
        reverse = {name: other for name, (other, _) in RELATIONSHIPS.items()}
        reverse |= {other: name for name, other in reverse.items()}
        hierarchy = {name: flag for name, (other, flag) in RELATIONSHIPS.items() for name in (name, other)}
        concepts = sorted(self.concepts, key=lambda concept: concept.identifier)
        dates = {"": ("19700101", "20991231"), "U": ("19700101", "20220131"), "D": ("19700101", "20220131")}
        tables: dict[str, Iterable[tuple[object, ...]]] = {
            "CONCEPT": (
                (
                    *(c.identifier, c.name, c.domain, c.vocabulary, c.kind, c.standard),
                    *(GENERATED if c.code.startswith(GENERATED) else c.code, *dates[c.reason], c.reason),
                )
                for c in concepts
            ),
            "CONCEPT_SYNONYM": ((c.identifier, name, ENGLISH) for c in concepts for name in c.synonyms),
            "CONCEPT_RELATIONSHIP": (
                (head, tail, relationship, *dates[""], "") for head, relationship, tail in sorted(self.links)
            ),
            "VOCABULARY": (
                (name, f"{name} (invented for a measurement)", "", f"{name} made", meta["vocabulary", name].identifier)
                for name in sorted(names["vocabulary"])
            ),
            "RELATIONSHIP": (
                (name, name, hierarchy[name], hierarchy[name], reverse[name], meta["relationship", name].identifier)
                for name in relationships
            ),
            "DOMAIN": ((name, name, meta["domain", name].identifier) for name in sorted(names["domain"])),
            "CONCEPT_CLASS": ((name, name, meta["kind", name].identifier) for name in sorted(names["kind"])),
        }
        for name, table in tables.items():
            with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                file.write("\t".join(FILES[name]) + "\n")
                file.writelines("\t".join(map(str, row)) + "\n" for row in table)


def make(data: Path, folder: Path, seed: int) -> Download:
    """Make the download and write it."""
    download = Download(data, seed)
    for part in (_listed, _injuries, _imaging, _laboratory, _conditions, _therapies, _icd10cm, _history, _retired):
        part(download)
    _drugs(download)
    download.write(folder)
    return download


def _split(text: str) -> list[str]:
    return [part for part in (text or "").split("|") if part]


def _listed(download: Download) -> None:
    """Add what the tables beside this file list."""
    for table, domain, kind in (
        ("conditions", "Condition", "Disorder"),
        ("procedures", "Procedure", "Procedure"),
        ("measurements", "Measurement", "Observable Entity"),
        ("observations", "Observation", "Clinical Finding"),
        ("devices", "Device", "Physical Object"),
    ):
        for row in rows(TABLES / f"{table}.tsv"):
            others = _split(row["other"])
            whole = download.add(Concept(row["name"].replace("{}", ""), domain, "SNOMED", kind, synonyms=others))
            if "{}" in row["name"]:
                names = [row["name"].replace("{}", side) for side in SIDES[1:]]
                plain = whole.name[0].lower() + whole.name[1:]
                for name in (*names, f"Bilateral {plain}"):
                    download.link(download.add(Concept(name, domain, "SNOMED", kind)), "Is a", whole)


INJURIES = {
    "Fracture of {}": (
        "clavicle|scapula|shaft of humerus|proximal humerus|distal radius|shaft of radius|ulna|scaphoid|metacarpal bone"
        "|phalanx of finger|neck of femur|shaft of femur|distal femur|patella|tibial plateau|shaft of tibia|fibula"
        "|ankle|calcaneus|metatarsal bone|phalanx of toe|hip|humerus|femur|tibia|radius|wrist|hand|foot|elbow"
    ),
    "Open fracture of {}": "tibia|femur|humerus|radius|ankle|finger",
    "Dislocation of {}": "shoulder joint|elbow|hip joint|patella|finger|ankle|acromioclavicular joint",
    "Sprain of {}": "ankle|wrist|knee|shoulder|finger|foot",
    "Contusion of {}": "knee|shoulder|hip|elbow|hand|foot|lower leg|forearm|thigh|eye",
    "Laceration of {}": "hand|finger|forearm|lower leg|foot|knee|eyebrow|ear",
    "Burn of {}": "hand|forearm|foot|lower leg|upper arm",
    "Crushing injury of {}": "hand|finger|foot",
    "Puncture wound of {}": "hand|foot|finger",
}
UNSIDED = (
    "Fracture of nasal bones|Fracture of mandible|Fracture of rib|Multiple fractures of ribs|Fracture of sternum"
    "|Fracture of pelvis|Fracture of pubic rami|Fracture of skull|Fracture of lumbar vertebra"
    "|Fracture of thoracic vertebra|Fracture of cervical vertebra|Compression fracture of vertebra"
    "|Osteoporotic fracture|Pathological fracture|Stress fracture of metatarsal bone|Sprain of cervical spine"
    "|Sprain of lumbar spine|Strain of back|Laceration of scalp|Laceration of face|Laceration of lip"
    "|Laceration of chin|Contusion of scalp|Contusion of chest wall|Contusion of face|Burn of face|Burn of trunk"
    "|Abrasion of face|Abrasion of knee|Abrasion of elbow|Insect bite|Cat bite|Human bite|Tick bite"
)


def _injuries(download: Download) -> None:
    def add(name: str) -> Concept:
        return download.add(Concept(name, "Condition", "SNOMED", "Disorder"))

    for pattern, sites in INJURIES.items():
        for site in _split(sites):
            whole = add(pattern.format(site))
            for side in SIDES[1:]:
                download.link(add(pattern.format(side + site)), "Is a", whole)
    for name in _split(UNSIDED):
        add(name)


MODALITIES = {
    "XR": ("Plain X-ray", "Radiography"),
    "CT": ("Computed tomography", "CT"),
    "MRI": ("Magnetic resonance imaging", "MRI"),
    "US": ("Ultrasonography", "Ultrasound scan"),
    "USD": ("Doppler ultrasonography", "Duplex ultrasound"),
    "CTA": ("Computed tomography angiography", "CT angiography"),
    "MRA": ("Magnetic resonance angiography", "MR angiography"),
}
CONTRAST = (" without contrast", " with contrast", " with and without contrast")
PLURAL = {"foot": "feet", "calcaneus": "calcanei", "humerus": "humeri", "tibia and fibula": "tibiae and fibulae"}
VIEWS = {
    "chest": (", posteroanterior view", ", anteroposterior view", ", lateral view", ", posteroanterior and lateral"),
    "spine": (", anteroposterior and lateral", ", flexion and extension views"),
    "sidedbone": (", anteroposterior and lateral",),
}


def _imaging(download: Download) -> None:
    """Add modality x region x side x contrast or view, as SNOMED CT words them."""

    def add(modality: str, rest: str) -> Concept:
        long, short = MODALITIES[modality]
        others = [f"{short} of {rest}"]
        return download.add(Concept(f"{long} of {rest}", "Procedure", "SNOMED", "Procedure", synonyms=others))

    for row in rows(TABLES / "imaging.tsv"):
        region, group = row["region"], row["group"]
        for modality in row["modalities"].split():
            whole = add(modality, region)
            sides = [region]
            if group.startswith("sided"):
                sides = [
                    *(side + region for side in SIDES),
                    f"both {PLURAL.get(region, region.removesuffix('s') + 's')}",
                ]
            endings = (
                "",
                *(CONTRAST if modality in ("CT", "MRI") else VIEWS.get(group, ()) if modality == "XR" else ()),
            )
            for side in sides:
                for ending in endings:
                    download.link(add(modality, side + ending), "Is a", whole)
            if (modality, region) == ("XR", "chest"):
                portable = Concept("Portable plain X-ray of chest", "Procedure", "SNOMED", "Procedure")
                download.link(download.add(portable), "Is a", whole)


def _laboratory(download: Download) -> None:
    """Add the laboratory tests that local codes of a hospital were mapped to, with their OMOP ids."""
    for row in rows(download.data / "local_codes/d_labitems_to_loinc.csv.gz", ","):
        code, name = row["omop_concept_code"].strip(), row["omop_concept_name"].strip()
        if (
            re.fullmatch(r"\d+-\d", code)
            and row["omop_concept_id"].isdecimal()
            and name
            and ("LOINC", code) not in download._codes
        ):
            made = Concept(name, "Measurement", "LOINC", "Lab Test", code=code, identifier=int(row["omop_concept_id"]))
            download.add(made, code)


@dataclass
class Names:
    """English names of the open graph by id: the preferred one, and exact synonyms."""

    preferred: dict[str, str] = field(default_factory=dict)
    synonyms: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def _names(data: Path) -> Names:
    names = Names()
    for row in rows(data / "open_graph/terms.tsv.gz"):
        if row["lang"] != "en" or "obsolete" in row["term"].lower() or "\t" in row["term"]:
            continue
        if row["type"] == "pref":
            names.preferred.setdefault(row["id"], row["term"].strip())
        elif row["type"] == "syn":
            names.synonyms[row["id"]].append(row["term"].strip())
    return names


# What of HPO and MONDO is no finding of a patient.
LEFT_OUT = re.compile(
    r"^(abnormal|morphological abnorm|aplasia/|onset$|phenotypic|frequen|mode of|unusual|.*inheritance$|.* aplasia$)"
    r"|non-human|susceptibility|animal|type \d{2,}|(?<!type|tage|rade) \d+[a-z]?$| \d+[a-z]?, |phalanx|phalanges"
    r"|metacarpal|metatarsal|epiphys|(increased|reduced|decreased|elevated) .*(activity|level|concentration) ",
    re.IGNORECASE,
)


def _conditions(download: Download) -> None:
    """Add diseases of MONDO, with names of what it calls equal, and findings of HPO."""
    names = _names(download.data)
    equal: dict[str, list[str]] = defaultdict(list)
    parents: list[tuple[str, str]] = []
    for row in rows(download.data / "open_graph/relations.tsv.gz"):
        if row["relation"] == "exact_match" and row["head"].startswith("MONDO:"):
            equal[row["head"]].append(row["tail"])
        elif row["relation"] == "is_a" and row["head"].startswith(("MONDO:", "HP:")):
            parents.append((row["head"], row["tail"]))
    made: dict[str, Concept] = {}
    for prefix in ("MONDO:", "HP:"):
        for identifier in sorted(name for name in names.preferred if name.startswith(prefix)):
            name = names.preferred[identifier]
            others = [other for other in equal[identifier] if other.startswith(("DOID:", "NCIT:", "MESH:"))]
            if LEFT_OUT.search(name) or (prefix == "MONDO:" and not others):
                continue
            synonyms = list(names.synonyms[identifier])
            for other in sorted(others):
                # MeSH inverts names and gives plurals: what has a comma is left out.
                found = [names.preferred.get(other, ""), *names.synonyms[other]]
                synonyms += [text for text in found if text and "," not in text and len(text) < 100]
            kind = "Disorder" if prefix == "MONDO:" else "Clinical Finding"
            concept = Concept(name[0].upper() + name[1:], "Condition", "SNOMED", kind, synonyms=synonyms)
            known = next(
                (download.named[some] for some in map(normal, (name, *synonyms[:3])) if some in download.named), None
            )
            made[identifier] = download.extend(known, [name, *synonyms]) if known else download.add(concept, identifier)
    for head, tail in parents:
        if head in made and tail in made:
            download.link(made[head], "Is a", made[tail])
    for name in _mapped(download.data):
        download.add(Concept(name, "Condition", "SNOMED", "Disorder"))
    download.diseases = {identifier: concept for identifier, concept in made.items() if identifier.startswith("MONDO:")}
    download.proper = {concept.name for concept in made.values()} & {
        name for key, name in names.preferred.items() if key.startswith("MONDO:")
    }


def _mapped(data: Path) -> Iterator[str]:
    """Yield the names of the conditions that OMOP mappers chose."""
    path = data / "benchmarks/omop_exact_matching/exact_matching_gs.csv"
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for row in csv.DictReader(file):
            name = row["target_concept_name"].strip()
            if name.isascii() and row["predicate"] == "exactMatch" and not re.search("measure|procedure", name, re.I):
                yield name


def _therapies(download: Download) -> None:
    """Add the medical actions of MAxO."""
    names = _names(download.data)
    for identifier in sorted(name for name in names.preferred if name.startswith("MAXO:")):
        name = names.preferred[identifier]
        if re.search(r"(measurement|assay|avoidance|intake|inhibitor)$", name):
            continue
        others = [text for text in names.synonyms[identifier] if len(text) < 100]
        made = Concept(name[0].upper() + name[1:], "Procedure", "SNOMED", "Procedure", synonyms=others)
        download.add(made, identifier)


def _icd10cm(download: Download) -> None:
    """Add codes of ICD-10-CM, which map to conditions: their own, or the nearest category's."""
    described = {row["Code"]: row["Description"] for row in rows(download.data / "icd10cm/codes.csv.gz", ",")}
    targets: dict[str, list[Concept]] = defaultdict(list)
    for row in rows(download.data / "ontologies/mondo_sssom/mondo_hasdbxref_icd10cm.sssom.tsv.gz"):
        if concept := download.diseases.get(row["subject_id"]):
            targets[row["object_id"].removeprefix("ICD10CM:")].append(concept)
            download.usual.append(concept)
    for code, name in described.items():
        plain = re.sub(r",? (unspecified|not elsewhere classified)$", "", name)
        for some in (name, plain):
            concept = download.named.get(normal(some))
            if concept is not None and concept.domain == "Condition" and not targets[code]:
                targets[code].append(concept)
    chosen = [code for code in described if targets[code]]
    others = sorted(set(described) - set(chosen), key=lambda code: number(f"{download.seed} {code}", 2**62))
    chosen += [code for code in others if code[0] not in "STVWXY"][: max(0, N_ICD10CM - len(chosen))]
    for code in sorted(chosen):
        made = Concept(
            described[code], "Condition", "ICD10CM", f"{len(code.replace('.', ''))}-char billing code", "", code
        )
        download.add(made, f"ICD10CM:{code}")
        up = next(
            (code[:end].rstrip(".") for end in range(len(code), 2, -1) if targets.get(code[:end].rstrip("."))), ""
        )
        for target in targets[up][:1] if up else ():
            download.link(made, "Maps to", target)


def _history(download: Download) -> None:
    """Add "History of ..." and "Family history of ..." of the listed conditions, and of those that ICD-10-CM has."""
    usual = sorted(download.usual, key=lambda concept: number(f"{download.seed} {concept.code}", 2**62))
    names = [*(row["name"] for row in rows(TABLES / "conditions.tsv")), *(concept.name for concept in usual)]
    for place, name in enumerate(list(dict.fromkeys(names))[:N_HISTORY]):
        plain = name if name in download.proper or name[1:2].isupper() else name[0].lower() + name[1:]
        for pattern in ("History of {}", "Family history of {}")[: 2 if place % 3 == 0 else 1]:
            download.add(Concept(pattern.format(plain), "Observation", "SNOMED", "Context-dependent"))


def _retired(download: Download) -> None:
    """Retire concepts of former names, which are replaced by the ones that have them as synonyms."""
    able = [
        c for c in download.concepts if c.vocabulary == "SNOMED" and len(c.synonyms) > 3 and c.domain == "Condition"
    ]
    able.sort(key=lambda concept: number(f"{download.seed} retired {concept.code}", 2**62))
    for concept in able[:N_RETIRED]:
        name = concept.synonyms.pop()
        old = Concept(name[0].upper() + name[1:], concept.domain, "SNOMED", concept.kind, "", reason="U")
        download.add(old, f"retired {concept.code}")
        download.link(old, "Concept replaced by", concept)
        download.link(old, "Maps to", concept)


FORMS = {
    **{"OT": "Oral Tablet", "OC": "Oral Capsule", "ER": "Extended Release Oral Tablet"},
    **{"ERC": "Extended Release Oral Capsule", "DR": "Delayed Release Oral Tablet"},
    **{"DRC": "Delayed Release Oral Capsule", "ODT": "Disintegrating Oral Tablet", "CH": "Chewable Tablet"},
    **{"SL": "Sublingual Tablet", "TFS": "Tablet for Oral Suspension", "TRO": "Oral Lozenge", "GUM": "Chewing Gum"},
    **{"OSOL": "Oral Solution", "OSUS": "Oral Suspension", "PFS": "Powder for Oral Solution", "MW": "Mouthwash"},
    **{"INJ": "Injection", "INS": "Injectable Solution", "ISUS": "Injectable Suspension", "IEM": "Injectable Emulsion"},
    **{"SYR": "Prefilled Syringe", "PEN": "Pen Injector", "AI": "Auto-Injector", "MDI": "Metered Dose Inhaler"},
    **{"DPI": "Dry Powder Inhaler", "SMI": "Inhalation Spray", "NEB": "Inhalation Solution"},
    **{"NS": "Metered Dose Nasal Spray", "CR": "Topical Cream", "OI": "Topical Ointment", "GEL": "Topical Gel"},
    **{"LOT": "Topical Lotion", "TSOL": "Topical Solution", "TP": "Topical Powder", "SH": "Medicated Shampoo"},
    **{"PAT": "Transdermal System", "PAT5": "Medicated Patch", "OPS": "Ophthalmic Solution", "OTS": "Otic Solution"},
    **{"OPO": "Ophthalmic Ointment", "OPU": "Ophthalmic Suspension", "SUP": "Rectal Suppository", "RG": "Rectal Gel"},
    **{"ENE": "Enema", "VC": "Vaginal Cream", "VG": "Vaginal Gel"},
}
LIQUID = {"OSOL", "OSUS", "INS", "ISUS", "IEM", "SYR", "PEN", "NEB", "OTS", "ENE", "MW"}


def strength(text: str, form: str) -> str:
    """Return a strength as RxNorm writes it: "1%" -> "10 MG/ML", "100u" of a liquid -> "100 UNT/ML"."""
    if text.endswith("%"):
        return f"{float(text[:-1]) * 10:g} MG/ML"
    amount, unit = (text[:-1], "UNT") if text.endswith("u") else (text, "MG")
    by = "/HR" if form == "PAT" else "/ACTUAT" if form in ("MDI", "DPI", "SMI", "NS", "AI") else ""
    if form in LIQUID or (form in ("CR", "OI", "TP") and unit == "UNT"):
        by = "/ML"
    return f"{amount} {unit}{by}"


class _Drugs:
    """Makes the concepts of drugs, each once, and their relationships as OMOP has RxNorm's."""

    def __init__(self, download: Download) -> None:
        self.download = download
        self.made: dict[str, Concept] = {}

    def get(self, name: str, kind: str, standard: str = "S", synonyms: Iterable[str] = ()) -> Concept:
        """Return the concept of a name, made if there is none."""
        key = f"{kind}/{name}"
        if key not in self.made:
            made = Concept(name, "Drug", "RxNorm", kind, standard, synonyms=list(synonyms))
            self.made[key] = self.download.add(made, f"RxNorm {key}")
        return self.made[key]

    def product(self, ingredients: list[str], amounts: list[str], form: str, brands: list[str]) -> None:
        """Make a clinical drug, what it consists of, and its brands."""
        link, get = self.download.link, self.get
        named = " / ".join(ingredients)
        kinds = get(f"{named} {FORMS[form]}", "Clinical Drug Form")
        dose_form = get(FORMS[form], "Dose Form", "")
        link(kinds, "RxNorm has dose form", dose_form)
        parts, drug = [], None
        for ingredient in ingredients:
            link(kinds, "RxNorm has ing", get(ingredient, "Ingredient"))
        if amounts:
            strengths = [strength(amount, form) for amount in amounts]
            texts = [f"{name} {text}" for name, text in zip(ingredients, strengths, strict=True)]
            parts = [get(text, "Clinical Drug Comp") for text in texts]
            drug = get(f"{' / '.join(texts)} {FORMS[form]}", "Clinical Drug")
            link(drug, "RxNorm is a", kinds)
            link(drug, "RxNorm has dose form", dose_form)
            for part, ingredient in zip(parts, ingredients, strict=True):
                link(drug, "Consists of", part)
                link(part, "RxNorm has ing", get(ingredient, "Ingredient"))
        for brand in brands:
            name = get(brand, "Brand Name", "")
            for ingredient in ingredients:
                link(name, "Brand name of", get(ingredient, "Ingredient"))
            branded = get(f"{kinds.name} [{brand}]", "Branded Drug Form")
            link(branded, "Tradename of", kinds)
            link(name, "Brand name of", branded)
            if drug is not None:
                product = get(f"{drug.name} [{brand}]", "Branded Drug")
                link(product, "Tradename of", drug)
                link(product, "RxNorm is a", branded)
                link(name, "Brand name of", product)
                comp = get(f"{' / '.join(part.name for part in parts)} [{brand}]", "Branded Drug Comp")
                link(product, "Consists of", comp)
                link(name, "Brand name of", comp)
                if len(parts) == 1:
                    link(comp, "Tradename of", parts[0])


def _drugs(download: Download) -> None:
    """Add the ingredients of DrugCentral, and the products of drugs.tsv."""
    drugs, known = _Drugs(download), _drugcentral(download.data)
    table = list(rows(TABLES / "drugs.tsv"))
    for row in table:
        name = row["ingredient"]
        if " / " not in name:
            others = _split(row["other"])
            found = next((some for some in (name, *others) if some.lower() in known), "")
            drugs.get(name, "Ingredient", synonyms=[*others, *known.pop(found.lower(), [])])
    for name, others in sorted(known.items()):
        drugs.get(name, "Ingredient", synonyms=others)
    for row in table:
        brands = [brand.partition("@") for brand in _split(row["brands"])]
        for product in row["products"].split(";"):
            form, _, amounts = product.partition(":")
            mine = [name for name, _, only in brands if only in ("", form)]
            for amount in amounts.split(","):
                drugs.product(row["ingredient"].split(" / "), [part for part in amount.split("/") if part], form, mine)


def _drugcentral(data: Path) -> dict[str, list[str]]:
    """Return the ingredients with their synonyms, but those that are codes of makers."""
    named: dict[str, str] = {}
    identifier = ""
    with gzip.open(data / "ontologies/drugcentral.obo.gz", "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith("id: "):
                identifier = line[4:].strip()
            elif line.startswith("name: ") and identifier:
                named[identifier] = line[6:].strip()
    synonyms = _names(data).synonyms
    return {
        name.lower(): [
            other for other in synonyms[key] if not re.search(r"\d{2}", other) and other.lower() != name.lower()
        ]
        for key, name in sorted(named.items())
    }


def main() -> None:
    """Make it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    made = make(given.data, given.folder, given.seed)
    print(f"{given.folder}: {len(made.concepts):,} concepts, {len(made.links):,} relationships")


if __name__ == "__main__":
    main()
