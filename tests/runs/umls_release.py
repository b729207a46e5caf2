"""A made-up release of UMLS, small and in the real layout, with all that the scripts of the papers ask of one.

It has the six semantic types of MCSM and the thirteen groups of the Italian paper, names of SNOMED CT, MeSH and MedDRA
in English and of their translations, definitions, relations in both directions, and some that name RELA alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LAYOUTS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
}
SITES = ("heart", "liver", "kidney", "skin", "brain", "lung", "bone", "eye")
FINDINGS = (("pain", "ache"), ("swelling", "oedema"), ("bleeding", "haemorrhage"))
COURSES = ("acute", "chronic", "mild")
ITALIAN = {
    "heart": "cuore",
    "liver": "fegato",
    "kidney": "rene",
    "skin": "pelle",
    "brain": "cervello",
    "lung": "polmone",
    "bone": "osso",
    "eye": "occhio",
    "pain": "dolore",
    "swelling": "gonfiore",
    "bleeding": "sanguinamento",
    "acute": "acuto",
    "chronic": "cronico",
    "mild": "lieve",
}
# In turn, one a finding: the types of MCSM, and those by which a group of the Italian paper is not empty.
TYPES = (
    ("T047", "Disease or Syndrome"),
    ("T033", "Finding"),
    ("T037", "Injury or Poisoning"),
    ("T121", "Pharmacologic Substance"),
    ("T191", "Neoplastic Process"),
    ("T200", "Clinical Drug"),
    ("T184", "Sign or Symptom"),
    ("T031", "Body Substance"),
    ("T074", "Medical Device"),
    ("T058", "Health Care Activity"),
    ("T060", "Diagnostic Procedure"),
    ("T059", "Laboratory Procedure"),
    ("T061", "Therapeutic or Preventive Procedure"),
    ("T039", "Physiologic Function"),
)
# The concept whose names the CODER papers show as a case.
CASE = "C0004604"
SITE_TYPE = ("T023", "Body Part, Organ, or Organ Component")


class Name(NamedTuple):
    """A term of a concept: language, source, term type, code and string."""

    language: str
    source: str
    term_type: str
    code: str
    string: str


def italian_of(course: str, finding: str, site: str) -> str:
    """Return a finding's name in Italian."""
    return f"{ITALIAN[finding]} {ITALIAN[course]} del {ITALIAN[site]}"


def findings() -> Iterator[tuple[str, str, str, str]]:
    """Yield (CUI, course, finding, site), from C9000001 on."""
    for number, (site, (finding, _), course) in enumerate(itertools.product(SITES, FINDINGS, COURSES), 1):
        yield f"C9{number:06}", course, finding, site


def names() -> Iterator[tuple[str, Name]]:
    """Yield the names of all concepts, each with its CUI."""
    learned = dict(FINDINGS)
    for number, (cui, course, finding, site) in enumerate(findings(), 1):
        code = f"{10_000_000 + number}"
        translated = italian_of(course, finding, site)
        yield cui, Name("ENG", "SNOMEDCT_US", "PT", f"{700 + number}", f"{course} {finding} of the {site}")
        yield cui, Name("ENG", "MSH", "MH", f"D{number:06}", f"{site} {finding}, {course}")
        yield cui, Name("ENG", "MDR", "PT", code, f"{site} {finding} {course}")
        yield cui, Name("ENG", "MDR", "LLT", f"{20_000_000 + number}", f"{course} {site} {learned[finding]}")
        yield cui, Name("ITA", "MDRITA", "PT", code, translated)
        yield (
            cui,
            Name("ITA", "MSHITA", "MH", f"D{number:06}", f"{ITALIAN[site]}, {ITALIAN[finding]} {ITALIAN[course]}"),
        )
        yield cui, Name("SPA", "SCTSPA", "PT", f"{700 + number}", f"{translated} (es)")
        yield cui, Name("FRE", "MSHFRE", "MH", f"D{number:06}", f"{translated} (fr)")
        for term_type, string in (
            ("PT", f"{finding} of {site}, {course}"),
            ("AB", f"{course} {site} {finding}"),
            ("ET", f"{course} {learned[finding]} of {site}"),
        ):
            yield cui, Name("ENG", "ICD10CM", term_type, f"Q{number}", string)
        yield cui, Name("ENG", "ICD9CM", "PT", f"{number}.0", f"{course} {site} {finding}, unspecified")
    for number, site in enumerate(SITES, 1):
        yield f"C95{number:05}", Name("ENG", "SNOMEDCT_US", "PT", f"{900 + number}", f"{site} structure")
        yield f"C95{number:05}", Name("ENG", "MSH", "MH", f"D9{number:05}", site)
        yield f"C95{number:05}", Name("ITA", "MSHITA", "MH", f"D9{number:05}", ITALIAN[site])
    for language, source, string in (("ENG", "ICD9CM", "sore back"), ("ITA", "MDRITA", "mal di schiena")):
        yield CASE, Name(language, source, "PT", "999.9", string)


def relations() -> Iterator[tuple[str, str, str, str]]:
    """Yield (CUI1, REL, CUI2, RELA): what each finding is a kind of and where it is, both ways; of one place no REL."""
    sites = {site: f"C95{number:05}" for number, site in enumerate(SITES, 1)}
    general: dict[tuple[str, str], str] = {}
    for cui, _, finding, site in findings():
        rel = "" if site == "eye" else "RO"
        yield cui, rel, sites[site], "finding_site_of"
        yield sites[site], rel, cui, "has_finding_site"
        above = general.setdefault((finding, site), cui)
        if above != cui:
            yield above, "CHD", cui, "isa"
            yield cui, "PAR", above, "inverse_isa"


def write(folder: Path) -> Path:
    """Write the release and return its folder."""
    folder.mkdir(parents=True)
    atoms: dict[str, str] = {}
    rows: dict[str, list[list[str]]] = {name: [] for name in LAYOUTS}
    for number, (cui, name) in enumerate(names(), 1):
        atom, ends = f"A{number:07}", [f"L{number:07}", "PF", f"S{number:07}"]
        atoms.setdefault(cui, atom)
        state = "P" if atoms[cui] == atom else "S"
        origin = [name.source, name.term_type, name.code, name.string]
        rows["MRCONSO"].append([cui, name.language, state, *ends, "Y", atom, "", "", "", *origin, "0", "N", ""])
    for number, (first, rel, second, rela) in enumerate(relations(), 1):
        ends = [first, atoms[first], "AUI", rel, second, atoms[second], "AUI", rela, f"R{number:07}"]
        rows["MRREL"].append([*ends, "", "SNOMEDCT_US", "SNOMEDCT_US", "", "Y", "N", ""])
    for number, cui in enumerate(atoms):
        tui, name_of_type = SITE_TYPE if cui.startswith("C95") else TYPES[number % len(TYPES)]
        rows["MRSTY"].append([cui, tui, "A1.2", name_of_type, f"AT{number:08}", ""])
    for number, (cui, course, finding, site) in enumerate(findings(), 1):
        if number % 2:
            text = f"A {finding} that the {site} has in its {course} form."
            rows["MRDEF"].append([cui, atoms[cui], f"AT9{number:07}", "", "MSH", text, "N", ""])
    for name_of_file, lines in rows.items():
        text = "".join("|".join(line) + "|\n" for line in lines)
        (folder / f"{name_of_file}.RRF").write_text(text, encoding="utf-8")
    listed = [f"{file}.RRF||{LAYOUTS[file].replace(' ', ',')}||{len(lines)}||\n" for file, lines in rows.items()]
    (folder / "MRFILES.RRF").write_text("".join(listed), encoding="utf-8")
    return folder
