"""What an index gets from other vocabularies: which names, whose, how they are marked; and names that it lacks."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import alphita
from alphita.answer.normalizer import Normalizer
from alphita.calibrate import examples
from alphita.errors import InputError, UsageError
from alphita.index import external_names
from alphita.index.choice import Choice
from alphita.index.enrichment import Enrichment
from alphita.index.external_names import _SHORT, NameSources, contradicted, prepared
from alphita.index.out_of_scope_names import MAX_WORDS, absent, hashed, hits, shares
from alphita.index.segment import EXTERNAL_STANDING
from alphita.index.sources import enrichment_of, index_of, terminology_of
from alphita.index.store import Index, build
from alphita.mention.abbreviations import AbbreviationTerms
from alphita.service import concepts
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean_many
from tests.doubles import HashEncoder

OWN = "X:1,Dyspnea X:1,Difficulty_breathing X:2,Orthopnea X:3,Fever X:3,Hot X:4,Cough X:5,Cold X:6,Cold"
# "_" for a blank, ";" for a comma in a cell.
OTHER = (
    'M:1,Dyspnea M:1,Breathlessness M:1,Breathlessnesses M:1,"Breathing;_difficulty" M:1,Orthopnea M:1,SOB M:2,Pyrexia '
    "M:2,Fever M:2,Cough M:3,Raised_temperature M:3,Cough M:3,Tussis M:4,Cold M:4,Coryza M:5,Nothing_here M:5,Nor_here"
)
CONVULSION, SEIZURE = "X:1,Febrile_convulsion X:2,Cough", "M:1,Fever_fit M:1,Febrile_seizure"
BOTH = {("X:1", "Fever fit"), ("X:1", "Febrile seizure")}
BRONCHITIS = "M:1,Bronchitis M:1,Acute_bronchitis M:1,Chronic_bronchitis M:1,Smoker's_chest"
# The target's only name of a kind, and what DOID has as another name of the same thing.
OPPOSITES = {
    "Chronic bronchitis": "acute bronchitis",
    "Chronic respiratory failure": "acute respiratory failure",
    "Malignant melanoma of skin of upper limb": "malignant melanoma of skin of lower limb",
    "Primary pneumonic plague": "secondary pneumonic plague",
    "Chronic petrositis": "acute petrositis",
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))


def table(path: Path, rows: str, header: str = "id,name") -> Path:
    lines = [row.replace("_", " ").replace(";", ",") for row in rows.split()]
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return path


def indexed(tmp_path: Path, own: str = OWN, other: str | NameSources = OTHER, **fields: object) -> Index:
    terms = load_terminology(terminology_of(table(tmp_path / "own.csv", own, "id,term")))
    if isinstance(other, str):
        other = external_names.sources_of(load_terminology(terminology_of(table(tmp_path / "other.csv", other))))
    given = Enrichment(other._replace(**fields), None, "no")
    return build(terms, HashEncoder(), tmp_path / "own.index", enrichment=given, force=True)


def external(index: Index) -> set[tuple[str, str, str, str]]:
    ids = index.segment.concepts.column("id").to_pylist()
    rows = index.segment.terms.filter(pa.array(index.segment.borrowed)).to_pylist()
    return {(ids[row["concept"]], row["string"], row["source"], row["borrowed_as"]) for row in rows}


def names_of(index: Index) -> set[tuple[str, str]]:
    return {row[:2] for row in external(index)}


def equivalent(*pairs: tuple[str, str]) -> dict[str, pl.DataFrame]:
    return {"equivalents": pl.DataFrame(pairs, ["id", "other"], orient="row")}


@pytest.mark.parametrize(
    ("own", "other", "fields", "expected"),
    [
        # Not "Breathlessnesses" nor "Breathing, difficulty", which add nothing; not "Orthopnea", another concept's own
        # name; not SOB, a short form; not "Raised temperature": "Cough" names two concepts of the source, and "Fever"
        # leads to Pyrexia; not "Coryza", for "Cold" is two concepts.
        (OWN, OTHER, {}, {("X:1", "Breathlessness"), ("X:3", "Pyrexia")}),
        # Of several concepts that a source counts as one, the one it is named for has the names.
        ("X:1,Dyspnea X:2,Orthopnea", "M:1,Dyspnea M:1,Orthopnea M:1,Puffed_out", {}, {("X:1", "Puffed out")}),
        # A vocabulary gives itself nothing.
        (OWN, OTHER.replace("M:", "X:"), {"given": {}}, set()),
        # What is said to be equivalent counts whatever it is called; a statement that makes two concepts one does not.
        (CONVULSION, SEIZURE, equivalent(("X:1", "M:1")), BOTH),
        (CONVULSION, SEIZURE, equivalent(("X:1", "M:1"), ("X:2", "M:1")), set()),
        # A name of two concepts of a table leads to neither.
        (OWN, "1,Dyspnea 1,Winded 2,Dyspnea 2,Puffed 3,Fever 3,Burning_up", {}, {("X:3", "Burning up")}),
        # Opposites do not lead from one to the other.
        ("X:1,Chronic_bronchitis", BRONCHITIS, {}, {("X:1", "Bronchitis"), ("X:1", "Smoker's chest")}),
    ],
)
def test_a_concept_gets_the_other_names_of_the_same_concept_elsewhere(tmp_path, own, other, fields, expected):
    index = indexed(tmp_path, own, other, **fields)
    assert names_of(index) == expected
    facts = index.manifest["borrowed"]
    assert (facts["names"], facts["conflicting"]) == (len(expected), int(other is BRONCHITIS))


def of_sources(rows: str) -> NameSources:
    names = pl.DataFrame([(*row.split("|"), "en") for row in rows.split()], schema=external_names.COLUMNS, orient="row")
    names = prepared(names.with_columns(pl.col("name").str.replace_all("_", " ")))
    return NameSources(names, pl.DataFrame(schema={"id": pl.String, "other": pl.String}), "")


WATER, GONAD = "X:1,Hydrophobia X:1,Fear_of_water", "X:1,Gonadal_dysgenesis"
DYSGENESIS = "A|A:1|gonadal_dysgenesis A|A:1|turner_syndrome A|A:1|x0_syndrome "
TWO = "B|B:1|turner_syndrome B|B:2|gonadal_dysgenesis"


@pytest.mark.parametrize(
    ("own", "rows", "expected"),
    [
        # A disease is not the sign that it is called by, whose name is no vocabulary's first;
        (WATER, "A|A:1|rabies A|A:1|hydrophobia A|A:1|lyssa", ""),
        # it is, where another vocabulary has it first, two names are the same, or a word has the same root.
        (WATER, "A|A:1|rabies A|A:1|hydrophobia B|B:1|hydrophobia B|B:1|shyness_of_water", "rabies shyness_of_water"),
        (WATER, "A|A:1|rabies A|A:1|hydrophobia A|A:1|fear_of_water A|A:1|lyssa", "rabies lyssa"),
        (WATER, "A|A:1|hydrophobic_state A|A:1|hydrophobia A|A:1|aquaphobia", "hydrophobic_state aquaphobia"),
        # A list of our own is not refused by its own order, but by that of the others.
        (WATER, "Alphita|A:1|rabies Alphita|A:1|hydrophobia", "rabies"),
        (WATER, "Alphita|A:1|rabies Alphita|A:1|hydrophobia B|B:1|Rabies B|B:1|hydrophobia B|B:1|lyssa", ""),
        # What more vocabularies have as two than as one is left out.
        (GONAD, DYSGENESIS, "turner_syndrome x0_syndrome"),
        (GONAD, DYSGENESIS + TWO, "turner_syndrome x0_syndrome"),
        (GONAD, f"{DYSGENESIS + TWO} {TWO.replace('B', 'C')}", "x0_syndrome"),
        (GONAD, DYSGENESIS + "B|B:2|gonadal_dysgenesis C|C:2|gonadal_dysgenesis", "turner_syndrome x0_syndrome"),
        # A short form joins nothing.
        ("X:1,Apnea_of_prematurity X:1,AOP", "A|A:1|Anemia_of_prematurity A|A:1|AOP", ""),
    ],
)
def test_names_of_several_vocabularies(tmp_path, own, rows, expected):
    index = indexed(tmp_path, own, of_sources(rows))
    assert names_of(index) == {("X:1", name.replace("_", " ")) for name in expected.split()}


def test_external_names_are_marked_and_follow_every_own_name(tmp_path):
    index = indexed(tmp_path)
    segment, strings = index.segment, list(index.strings)
    (row,) = index.rows(["breathlessness"])
    start, end = segment.offsets[row : row + 2]
    assert (end - start, segment.standing[start]) == (1, EXTERNAL_STANDING)
    assert (segment.standing[~segment.borrowed] < EXTERNAL_STANDING).all()
    term = segment.terms.slice(start, 1).to_pylist()[0]
    assert (term["preferred"], term["scope"], term["borrowed_as"]) == (False, "exact", "Dyspnea")
    assert strings == sorted(strings)
    for row, string in enumerate(strings):
        start, end = segment.offsets[row : row + 2]
        assert {term.lower() for term in segment.terms.slice(start, end - start).column("string").to_pylist()} == {
            string
        }
    # A short form becomes a meaning, and no name.
    assert index.rows(["sob"])[0] == -1
    meaning = {"short": "SOB", "long": "Dyspnea", "share": pytest.approx(0.25), "language": None}
    assert segment.short_forms.to_pylist() == [meaning | {"source": "other", "known": True}]
    # The answer says whose name it is.
    normalizer = Normalizer(index, encoder=HashEncoder())
    (result,) = normalizer.normalize(["breathlessness"], explain=True)
    assert (result.concept_id, result.concept_name, result.matched_term) == ("X:1", "Dyspnea", "Breathlessness")
    assert "borrowed" in result.candidates[0].routes
    assert result.method == "nearest"  # equal to a name of its own is what "exact" says
    assert '"Breathlessness", other\'s name for Dyspnea' in str(result.explanation)
    (own,) = normalizer.normalize(["dyspnea"])
    assert (own.method, own.candidates[0].routes) == ("exact", ("exact",))
    # They are not held out, learned from or exported as the terminology's own.
    assert "breathlessness" not in examples.own_names(index, seed=0, most=100)[0]
    # "Orthopnea" and "Cough" have one own name each, so nothing of theirs can be held out.
    assert set(examples.own_synonyms(index, seed=0)[0]) <= {"dyspnea", "difficulty breathing", "fever", "hot"}
    assert not segment.borrowed[AbbreviationTerms(index).term].any()
    shown = concepts._of_index("X:1", int(index.concept_rows(["X:1"])[0]), index)
    assert {synonym.string for synonym in shown.synonyms} == {"Dyspnea", "Difficulty breathing"}


def test_what_counts_as_a_short_form():
    names = ["DM", "T2DM", "HbA1c", "cpc", "crd", "itch", "Zika", "Noma", "Type 1", "Breathlessness"]
    assert [name for name in names if _SHORT.fullmatch(name)] == names[:5]


def test_xrefs_of_the_terminology_count_and_a_source_has_exact_names_of_live_concepts(tmp_path):
    text = (
        "format-version: 1.2\n\n[Term]\nid: X:1\nname: Febrile convulsion\nxref: M:1\n\n[Term]\nid: X:2\nname: Cough\n"
    )
    (tmp_path / "own.obo").write_text(text)
    sources = external_names.sources_of(load_terminology(terminology_of(table(tmp_path / "other.csv", SEIZURE))))
    terms = load_terminology(terminology_of(tmp_path / "own.obo"))
    index = build(terms, HashEncoder(), tmp_path / "own.index", enrichment=Enrichment(sources, None, "no"))
    assert names_of(index) == BOTH
    text = text.replace("xref: M:1", 'synonym: "Fit" EXACT []\nsynonym: "Hot" RELATED []')
    (tmp_path / "x.obo").write_text(
        text + '\n[Term]\nid: X:3\nname: Gone\nsynonym: "Left" EXACT []\nis_obsolete: true\n'
    )
    sources = external_names.sources_of(load_terminology(terminology_of(tmp_path / "x.obo")))
    assert list(sources.names.select("id", "name").iter_rows()) == [("X:1", "Febrile convulsion"), ("X:1", "Fit")]


CONCEPTS = """concept_id concept_name domain_id vocabulary_id concept_class_id standard_concept concept_code
1 Headache Condition SNOMED Disorder S 25064002
2 Headache Condition ICD10CM code  R51
3 Cough Condition ICD10CM code  R05
"""
MAPS = "concept_id_1\tconcept_id_2\trelationship_id\tvalid_start_date\tvalid_end_date\tinvalid_reason\n"


def test_of_two_of_omops_concepts_with_one_name_the_standard_one_gets_the_names_of_others(tmp_path):
    athena = tmp_path / "athena"
    athena.mkdir()
    first, *rows = [line.replace(" ", "\t") for line in CONCEPTS.splitlines()]
    dates = "valid_start_date\tvalid_end_date\tinvalid_reason"
    lines = [f"{first}\t{dates}", *(f"{row}\t19700101\t20991231\t" for row in rows)]
    (athena / "CONCEPT.csv").write_text("\n".join([*lines, ""]))
    (athena / "CONCEPT_RELATIONSHIP.csv").write_text(f"{MAPS}2\t1\tMaps to\t19700101\t20991231\t\n")
    other = external_names.sources_of(
        load_terminology(terminology_of(table(tmp_path / "other.csv", "M:1,Headache M:1,Cefalea M:2,Cough M:2,Tosse")))
    )
    terms = load_terminology(terminology_of(athena))
    index = build(terms, HashEncoder(), tmp_path / "omop.index", enrichment=Enrichment(other, None, "no"))
    lent = {(concept, name) for concept, name, *_ in external(index)}
    assert lent == {("SNOMEDCT:25064002", "Cefalea"), ("ICD10CM:R05", "Tosse")}


def test_names_of_a_code_index_may_be_opposites(tmp_path):
    indexed(tmp_path, "X:1,Chronic_bronchitis X:2,Fever", BRONCHITIS)
    sources = external_names.sources_of(load_terminology(terminology_of(tmp_path / "other.csv")))
    names = sources.names.with_columns(source=pl.lit("some index"), id=pl.lit("X:1"))
    terms = load_terminology(terminology_of(tmp_path / "own.csv"))
    given = Enrichment(NameSources(names, sources.equivalents, ""), None, "no")
    of_codes = build(terms, HashEncoder(), tmp_path / "codes.index", enrichment=given)
    assert ("X:1", "Acute bronchitis") in names_of(of_codes)


def test_what_an_index_calls_a_code_has_the_names_that_others_give_it(tmp_path):
    indexed(tmp_path, "X:1,Acute_infarct_of_the_heart X:2,Fever", "M:1,Infarction M:1,Heart_attack M:2,Cold M:2,Chill")
    sources = external_names.sources_of(load_terminology(terminology_of(tmp_path / "other.csv")))
    entries = pl.DataFrame([("some index", "X:1", "Infarction", "en")], external_names.COLUMNS, orient="row")
    names = pl.concat([sources.names, external_names.prepared(entries)])
    terms = load_terminology(terminology_of(tmp_path / "own.csv"))
    given = Enrichment(NameSources(names, sources.equivalents, ""), None, "no")
    index = build(terms, HashEncoder(), tmp_path / "codes.index", enrichment=given)
    assert names_of(index) == {("X:1", "Infarction"), ("X:1", "Heart attack")}


def test_an_excluded_name_is_given_by_the_user_alone(tmp_path):
    """And to other concepts still."""
    sources = of_sources("A|A:1|fever A|A:1|Pyrexia A|A:2|cough A|A:2|Tussis")
    excluded = (("X:1", "PYREXIA"), ("X:9", "Tussis"))
    for given, expected in (({}, {"Tussis"}), ({"A": 0}, {"Pyrexia", "Tussis"})):
        index = indexed(tmp_path, "X:1,Fever X:2,Cough", sources, given=given, excluded=excluded)
        assert {name for _, name in names_of(index)} == expected


# The user's names.


def test_a_users_names_and_those_that_come_along_are_all_given(tmp_path):
    own, mine = table(tmp_path / "own.csv", OWN, "id,term"), table(tmp_path / "mine.csv", "1,Dyspnea 1,Puffed_out")
    index = index_of(own, Choice(names=(str(mine),), learn="no"))
    sources = {(name, source) for _, name, source, _ in external(index)}
    assert ("Puffed out", "mine") in sources
    assert {source for _, source in sources} - {"mine"}
    plain = index_of(own, Choice(borrow=False, learn="no"))
    assert not plain.segment.borrowed.any()
    assert plain.segment.short_forms is None
    assert plain.path != index.path
    with pytest.raises(UsageError, match="is already an index"):
        index_of(plain.path, Choice(borrow=False))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"id,name\n1,Dyspnea\n2,Fever\n", "has no two names for one thing"),
        (b"name,other\nDyspnea,Breathlessness\n", "column"),
        (b"", "empty"),
        ("id,name\n1,Dyspnée\n1,Essoufflé\n".encode("latin-1"), r"(?i)utf-8|encod"),
    ],
)
def test_a_table_without_use_is_refused(tmp_path, content, problem):
    (tmp_path / "mine.csv").write_bytes(content)
    with pytest.raises((InputError, UsageError), match=problem):
        enrichment_of(Choice(borrow=False, names=(str(tmp_path / "mine.csv"),)))
    with pytest.raises(UsageError, match="learning"):
        enrichment_of(Choice(learn="days"))  # type: ignore[arg-type]


def test_a_damaged_row_of_a_users_table_is_set_aside_and_counted(tmp_path, capsys):
    mine = table(tmp_path / "mine.csv", "1,Dyspnea 1,Puffed_out ,No_id 2,")
    sources = enrichment_of(Choice(borrow=False, names=(str(mine),))).sources
    assert set(sources.names["name"]) == {"Dyspnea", "Puffed out"}
    assert "2 rows left out; see" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["L:0,disorientation L:0,zzqx_wobble_brain", "L:0,zzqx_wobble_brain"])
def test_a_users_names_by_the_terminologys_own_ids_are_given(tmp_path, rows):
    """One name an id is enough."""
    own, mine = table(tmp_path / "own.csv", "L:0,confusion L:1,fever", "id,term"), table(tmp_path / "mine.csv", rows)
    index = index_of(own, Choice(names=(str(mine),), borrow=False, learn="no"))
    assert ("L:0", "zzqx wobble brain", "mine", "confusion") in external(index)
    (result,) = Normalizer(index).normalize(["zzqx wobble brain"])
    assert (result.concept_id, result.decision) == ("L:0", "accept")


def test_what_a_file_of_names_gave_is_reported_every_time(tmp_path, capsys):
    own = table(tmp_path / "own.csv", "L:0,Chronic_bronchitis L:1,Fever", "id,term")
    mine = table(tmp_path / "mine.csv", "L:0,wheezy_chest L:0,acute_bronchitis L:1,fever L:7,nowhere")
    for _ in range(2):
        index = index_of(own, Choice(names=(str(mine),), borrow=False, learn="no"))
        assert names_of(index) == {("L:0", "wheezy chest")}
        gave = {"source": "mine", "names": 4, "lent": 1, "conflicting": 1, "unknown": 1}
        assert index.manifest["borrowed"]["given"] == [gave]
        assert "names of mine: 4 given, 1 added, 1 left out" in capsys.readouterr().err


# What comes along.


def test_the_shipped_table_is_complete_and_a_damaged_one_is_refused(tmp_path, monkeypatch):
    folder = external_names.shipped_folder()
    listed = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sources"]
    sources = external_names.shipped_names()
    assert set(sources.names["source"].unique()) <= {source["name"] for source in listed}
    assert all(source["licence"] for source in listed)
    # What is share-alike, or may only be measured, is not among them.
    assert not {source["licence"] for source in listed} & {"CC-BY-SA-4.0", "measure only"}
    assert (folder / external_names.NAMES).stat().st_size < 15_000_000
    # Each excluded name is one that a vocabulary has, so that a row that is misspelt is seen.
    keys = set(clean_many([name for _, name in sources.excluded]))
    assert keys <= set(sources.names["key"])
    assert len(set(sources.excluded)) == len(sources.excluded) > 500
    copy = tmp_path / "names"
    shutil.copytree(folder, copy)
    (copy / external_names.NAMES).write_bytes(b"PAR1")
    monkeypatch.setattr(external_names, "shipped_folder", lambda: copy)
    with pytest.raises(InputError):
        external_names.shipped_names()


# Names that contradict the concept's own.


def refused(name: str, *own: str) -> bool:
    names = pl.DataFrame({"concept": [1, 2], "name": [name, name]})
    # Another concept has the name itself.
    known = pl.DataFrame({"concept": [*[1] * len(own), 2], "name": [*own, name]}).with_columns(leads=True)
    first, second = contradicted(names, known).tolist()
    assert not second
    return first


@pytest.mark.parametrize(
    ("own", "name"),
    [
        *OPPOSITES.items(),
        ("Akute Bronchitis", "chronische Bronchitis"),
        ("Diabetes type 2", "Diabetes type I"),
        ("Dent disease 1", "Dent disease 2"),
        ("Pressure ulcer, stage 3", "Stage 4 pressure ulcer"),
        ("Migraine with aura", "Migraine without mention of aura"),
        ("Left ventricular failure", "Right ventricular failure"),
        ("Male infertility", "Infertility, female"),
        ("Benign neoplasm of skin", "Malignant tumour of skin"),
        ("Autosomal dominant deafness", "Autosomal recessive deafness"),
        ("Anterior uveitis", "Posterior uveitis"),
        ("Acquired hypothyroidism", "Congenital hypothyroidism"),
    ],
)
def test_a_name_at_the_other_end_is_refused(own, name):
    assert refused(name, own)
    assert refused(own, name)
    assert refused(name, own, own.split()[-1])
    # An own name like the other says that both belong to the concept; another may leave both open.
    assert not refused(name, own, f"{name} of old")
    assert not refused(name, f"{own}, {name}")


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ("Bronchitis", "Acute bronchitis"),
        ("Acute bronchitis", "Bronchitis"),
        ("Sanfilippo syndrome type A", "Mucopolysaccharidosis type 3"),
        ("Distal end of radius", "Lower end of radius"),
        ("Focal seizure with retained awareness", "Focal seizure without impairment of awareness"),
        ("Non-acquired growth hormone deficiency", "Congenital growth hormone deficiency"),
        ("Migraine with or without aura", "Migraine without aura"),
        ("Diabetes type 2", "Diabetes type IIa"),
    ],
)
def test_a_name_that_says_more_or_less_or_the_same_in_another_way_is_given(own, name):
    assert not refused(name, own)


def test_a_name_agrees_with_those_that_lead_alone():
    rows = [("plague", True), ("primary plague", False), ("secondary plague", False), ("pest", False)]
    names = pl.DataFrame(rows, {"name": pl.String, "leads": pl.Boolean}, orient="row").with_columns(concept=1)
    assert contradicted(names, names).tolist() == [False, True, True, False]
    led = names.with_columns(leads=pl.col("name") == "primary plague")
    assert contradicted(led, led).tolist() == [False, False, True, False]


def test_in_the_shipped_table_no_name_contradicts_the_first_and_none_leads_on_to_its_opposite():
    names = external_names.shipped_names().names.filter(pl.col("source").is_in(["DOID", "NCIt", "ORDO", "HPO"]))
    names = names.with_columns(concept=pl.format("{}|{}", "source", "id"), leads="first")
    assert not contradicted(names, names.filter("first")).any()
    opposed = names.filter(pl.Series(contradicted(names, names)))
    assert not opposed["alone"].any()
    assert "acute petrositis" in opposed["key"]


def test_what_contradicts_the_target_is_accepted_by_no_external_name(tmp_path):
    rows = [f"T:{row},{name}".replace(" ", "_") for row, name in enumerate([*OPPOSITES, "Dyspnea"])]
    own = table(tmp_path / "own.csv", " ".join(rows), "id,term")
    results = list(alphita.normalize([*OPPOSITES.values(), *OPPOSITES, "breathlessness"], to=own))
    assert [result.decision for result in results[: len(OPPOSITES)]].count("accept") == 0
    assert {result.decision for result in results[len(OPPOSITES) :]} == {"accept"}


# Names of concepts that the index lacks.


def test_what_other_vocabularies_name_and_an_index_lacks():
    rows = "A|A:1|Fever A|A:1|Pyrexia A|A:2|Appendectomy A|A:2|Removal_of_the_appendix A|A:3|Cold B|B:1|Cold "
    rows += "B|B:1|Common_cold Alphita|1|Burning_up icd_index|R50|Heat,_excessive"
    names = of_sources(rows.replace("icd_index", "icd-index")).names
    # Pyrexia is fever, which is there; Cold is a name of the common cold, too; phrases and codes' names say nothing.
    lacking = absent(names, pa.array(["common cold", "fever"], pa.large_string()))["key"].to_list()
    assert sorted(lacking) == ["appendectomy", "removal of the appendix"]
    digest = hashlib.blake2b("größe".encode(), digest_size=8).digest()
    assert hashed(["größe", "x"]).tolist()[0] == int.from_bytes(digest, "little")
    known = np.unique(hashed(lacking))
    mentions = ["appendectomy", "fever", "s/p removal of the appendix", "appendectomy, fever", "", "appendectomyx"]
    assert hits(mentions, known).tolist() == [True, False, False, False, False, False]
    np.testing.assert_allclose(shares(mentions, known), [1, 0, 4 / 6, 1 / 2, 0, 0])
    # Longer names are found as a whole only.
    name = " ".join("abcdefgh"[: MAX_WORDS + 1])
    assert hits([name], hashed([name])).tolist() == [True]
    assert shares([name, f"{name} z"], hashed([name])).tolist() == [0.0, 0.0]
    nothing = np.zeros(0, np.uint64)
    assert not hits(["fever"], nothing).any()
    assert not shares(["fever"], nothing).any()
    assert hashed([]).shape == hits([], known).shape == (0,)
