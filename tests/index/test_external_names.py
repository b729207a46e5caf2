"""What an index borrows from other vocabularies: which names, whose, and how they are marked."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.calibrate import examples
from alphita.errors import InputError, UsageError
from alphita.index import external_names
from alphita.index.choice import Choice
from alphita.index.enrichment import Enrichment
from alphita.index.external_names import Lender
from alphita.index.segment import BORROWED_STANDING
from alphita.index.sources import enrichment_of, index_of, terminology_of
from alphita.index.store import Index, build
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean_many
from tests.doubles import HashEncoder

OWN = """id,term
X:1,Dyspnea
X:1,Difficulty breathing
X:2,Orthopnea
X:3,Fever
X:3,Hot
X:4,Cough
X:5,Cold
X:6,Cold
"""
LENT = """id,name
M:1,Dyspnea
M:1,Breathlessness
M:1,Breathlessnesses
M:1,"Breathing, difficulty"
M:1,Orthopnea
M:1,SOB
M:2,Pyrexia
M:2,Fever
M:2,Cough
M:3,Raised temperature
M:3,Cough
M:3,Tussis
M:4,Cold
M:4,Coryza
M:5,Nothing here
M:5,Nor here
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def indexed(tmp_path: Path, own: str = OWN, lent: str = LENT, **fields: object) -> Index:
    terms = load_terminology(terminology_of(table(tmp_path / "own.csv", own)))
    lender = external_names.lender_of(load_terminology(terminology_of(table(tmp_path / "lent.csv", lent))))
    given = Enrichment(lender._replace(**fields), None, "no")
    return build(terms, HashEncoder(), tmp_path / "own.index", enrichment=given)


def borrowed(index: Index) -> set[tuple[str, str, str, str]]:
    ids = index.segment.concepts.column("id").to_pylist()
    rows = index.segment.terms.filter(pa.array(index.segment.borrowed)).to_pylist()
    return {(ids[row["concept"]], row["string"], row["source"], row["borrowed_as"]) for row in rows}


def test_a_concept_gets_the_other_names_of_the_same_concept_elsewhere(tmp_path):
    index = indexed(tmp_path)
    # Not "Breathlessnesses" nor "Breathing, difficulty", which add nothing; not "Orthopnea", another concept's own
    # name; not SOB, a short form; not "Pyrexia" nor "Raised temperature": "Cough" names two concepts of the lender, and
    # "Fever" leads to Pyrexia; not "Coryza", for "Cold" is two concepts.
    assert {(concept, name) for concept, name, _, _ in borrowed(index)} == {
        ("X:1", "Breathlessness"),
        ("X:3", "Pyrexia"),
    }
    assert index.manifest["borrowed"]["names"] == 2
    assert index.manifest["counts"]["concepts"] == 6


def test_it_is_marked_and_stands_behind_every_own_name(tmp_path):
    index = indexed(tmp_path)
    (row,) = index.rows(["breathlessness"])
    start, end = index.segment.offsets[row : row + 2]
    assert (end - start, index.segment.standing[start]) == (1, BORROWED_STANDING)
    assert (index.segment.standing[~index.segment.borrowed] < BORROWED_STANDING).all()
    term = index.segment.terms.slice(start, 1).to_pylist()[0]
    assert (term["preferred"], term["scope"], term["borrowed_as"]) == (False, "exact", "Dyspnea")


def test_the_strings_stay_sorted_and_every_term_is_its_strings(tmp_path):
    index = indexed(tmp_path)
    strings = list(index.strings)
    assert strings == sorted(strings)
    for row, string in enumerate(strings):
        start, end = index.segment.offsets[row : row + 2]
        for term in index.segment.terms.slice(start, end - start).column("string").to_pylist():
            assert term.lower() == string


def test_the_answer_says_whose_name_it_is(tmp_path):
    index = indexed(tmp_path)
    normalizer = Normalizer(index, encoder=HashEncoder())
    (result,) = normalizer.normalize(["breathlessness"], explain=True)
    assert (result.concept_id, result.concept_name, result.matched_term) == ("X:1", "Dyspnea", "Breathlessness")
    assert "borrowed" in result.candidates[0].routes
    assert result.method == "nearest"  # equal to a name of its own is what "exact" says
    assert "'Breathlessness' (lent's name for Dyspnea)" in str(result.explanation)
    (own,) = normalizer.normalize(["dyspnea"])
    assert (own.method, own.candidates[0].routes) == ("exact", ("exact",))


def test_a_short_form_becomes_a_meaning_and_no_name(tmp_path):
    index = indexed(tmp_path)
    assert index.rows(["sob"])[0] == -1
    assert index.segment.short_forms.to_pylist() == [
        {
            "short": "SOB",
            "long": "Dyspnea",
            "share": pytest.approx(0.25),
            "language": None,
            "source": "lent",
            "known": True,
        }
    ]


@pytest.mark.parametrize(
    ("name", "is_short"),
    [
        ("DM", True),
        ("T2DM", True),
        ("HbA1c", True),
        ("cpc", True),
        ("crd", True),
        ("itch", False),
        ("Zika", False),
        ("Noma", False),
        ("Type 1", False),
        ("Breathlessness", False),
    ],
)
def test_what_counts_as_a_short_form(name, is_short):
    from alphita.index.external_names import _SHORT

    assert (_SHORT.fullmatch(name) is not None) == is_short


def test_of_several_concepts_that_a_lender_counts_as_one_the_one_it_is_named_for_has_the_names(tmp_path):
    own = "id,term\nX:1,Dyspnea\nX:2,Orthopnea\n"
    index = indexed(tmp_path, own, "id,name\nM:1,Dyspnea\nM:1,Orthopnea\nM:1,Breathlessness\n")
    assert {one[:2] for one in borrowed(index)} == {("X:1", "Breathlessness")}


def test_a_vocabulary_does_not_borrow_from_itself(tmp_path):
    lent = LENT.replace("M:", "X:")
    assert borrowed(indexed(tmp_path, lent=lent, given={})) == set()


def test_what_is_said_to_be_equivalent_lends_whatever_it_is_called(tmp_path):
    own, lent = "id,term\nX:1,Febrile convulsion\nX:2,Cough\n", "id,name\nM:1,Fever fit\nM:1,Febrile seizure\n"
    told = pl.DataFrame({"id": ["X:1"], "other": ["M:1"]})
    index = indexed(tmp_path, own, lent, equivalents=told)
    assert {one[:2] for one in borrowed(index)} == {("X:1", "Fever fit"), ("X:1", "Febrile seizure")}


def test_a_statement_that_makes_two_concepts_one_lends_nothing(tmp_path):
    own, lent = "id,term\nX:1,Febrile convulsion\nX:2,Cough\n", "id,name\nM:1,Fever fit\nM:1,Febrile seizure\n"
    told = pl.DataFrame({"id": ["X:1", "X:2"], "other": ["M:1", "M:1"]})
    assert borrowed(indexed(tmp_path, own, lent, equivalents=told)) == set()


def test_xrefs_of_the_terminology_lend(tmp_path):
    obo = (
        "format-version: 1.2\n\n[Term]\nid: X:1\nname: Febrile convulsion\nxref: M:1\n\n[Term]\nid: X:2\nname: Cough\n"
    )
    terms = load_terminology(terminology_of(table(tmp_path / "own.obo", obo)))
    lent = table(tmp_path / "lent.csv", "id,name\nM:1,Fever fit\nM:1,Febrile seizure\n")
    lender = external_names.lender_of(load_terminology(terminology_of(lent)))
    index = build(terms, HashEncoder(), tmp_path / "own.index", enrichment=Enrichment(lender, None, "no"))
    assert {one[:2] for one in borrowed(index)} == {("X:1", "Fever fit"), ("X:1", "Febrile seizure")}


def test_borrowed_names_are_not_held_out_nor_exported_as_the_terminologys_own(tmp_path):
    from alphita.mention.abbreviations import AbbreviationTerms
    from alphita.service import concepts

    index = indexed(tmp_path)
    drawn, _ = examples.own_names(index, seed=0, most=100)
    assert "breathlessness" not in drawn
    # "Orthopnea" and "Cough" have one own name each, so nothing of theirs can be held out.
    held, _ = examples.own_synonyms(index, seed=0)
    assert set(held) <= {"dyspnea", "difficulty breathing", "fever", "hot"}
    assert not index.segment.borrowed[AbbreviationTerms(index).term].any()
    row = int(index.concept_rows(["X:1"])[0])
    shown = concepts._of_index("X:1", row, index)
    assert {one.string for one in shown.synonyms} == {"Dyspnea", "Difficulty breathing"}


# The user's choice.


def lent_by(tmp_path: Path, own: str, rows: str) -> set[tuple[str, str]]:
    """Return the concepts and the names that they get of vocabularies, given as lines of source, id and name."""
    terms = load_terminology(terminology_of(table(tmp_path / "own.csv", "id,term\n" + own)))
    names = pl.DataFrame([(*row.split("|"), "en") for row in rows.split()], schema=external_names.COLUMNS, orient="row")
    names = external_names.prepared(names.with_columns(pl.col("name").str.replace_all("_", " ")))
    lender = Lender(names, pl.DataFrame(schema={"id": pl.String, "other": pl.String}), "")
    index = build(terms, HashEncoder(), tmp_path / "own.index", enrichment=Enrichment(lender, None, "no"))
    return {(concept, name) for concept, name, _, _ in borrowed(index)}


@pytest.mark.parametrize(
    ("rows", "lent"),
    [
        # A disease is not the sign that it is called by, whose name is no vocabulary's first;
        ("A|A:1|rabies A|A:1|hydrophobia A|A:1|lyssa", set()),
        # it is, where another vocabulary has it first, two names are the same, or a word has the same root.
        ("A|A:1|rabies A|A:1|hydrophobia B|B:1|hydrophobia B|B:1|shyness_of_water", {"rabies", "shyness of water"}),
        ("A|A:1|rabies A|A:1|hydrophobia A|A:1|fear_of_water A|A:1|lyssa", {"rabies", "lyssa"}),
        ("A|A:1|hydrophobic_state A|A:1|hydrophobia A|A:1|aquaphobia", {"hydrophobic state", "aquaphobia"}),
        # A list of our own is not refused by its own order, but by that of the others.
        ("Alphita|A:1|rabies Alphita|A:1|hydrophobia", {"rabies"}),
        ("Alphita|A:1|rabies Alphita|A:1|hydrophobia B|B:1|Rabies B|B:1|hydrophobia B|B:1|lyssa", set()),
    ],
)
def test_a_disease_is_not_the_sign_that_it_is_called_by(tmp_path, rows, lent):
    assert lent_by(tmp_path, "X:1,Hydrophobia\nX:1,Fear of water\n", rows) == {("X:1", name) for name in lent}


@pytest.mark.parametrize(
    ("others", "lent"),
    [
        ("", {"turner syndrome", "x0"}),
        ("B|B:1|turner_syndrome B|B:2|gonadal_dysgenesis", {"turner syndrome", "x0"}),
        ("B|B:1|turner_syndrome B|B:2|gonadal_dysgenesis C|C:1|turner_syndrome C|C:2|gonadal_dysgenesis", {"x0"}),
        ("B|B:2|gonadal_dysgenesis C|C:2|gonadal_dysgenesis", {"turner syndrome", "x0"}),
    ],
)
def test_what_more_vocabularies_have_as_two_than_as_one_is_not_lent(tmp_path, others, lent):
    rows = f"A|A:1|gonadal_dysgenesis A|A:1|turner_syndrome A|A:1|x0_syndrome {others}"
    lent = {name.replace("x0", "x0 syndrome") for name in lent}
    assert lent_by(tmp_path, "X:1,Gonadal dysgenesis\n", rows) == {("X:1", name) for name in lent}


def test_a_short_form_joins_nothing(tmp_path):
    rows = "A|A:1|Anemia_of_prematurity A|A:1|AOP"
    assert lent_by(tmp_path, "X:1,Apnea of prematurity\nX:1,AOP\n", rows) == set()


def test_a_users_names_and_those_that_come_along_are_all_lent(tmp_path):
    own, names = table(tmp_path / "own.csv", OWN), table(tmp_path / "mine.csv", "id,name\n1,Dyspnea\n1,Puffed out\n")
    index = index_of(own, Choice(names=(str(names),), learn="no"))
    sources = {(name, source) for _, name, source, _ in borrowed(index)}
    assert ("Puffed out", "mine") in sources
    assert {source for _, source in sources} - {"mine"}
    plain = index_of(own, Choice(borrow=False, learn="no"))
    assert not plain.segment.borrowed.any()
    assert plain.segment.short_forms is None
    assert plain.path != index.path
    with pytest.raises(UsageError, match="is an index already"):
        index_of(plain.path, Choice(borrow=False))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id,name\n1,Dyspnea\n2,Fever\n", "has no two names for one thing"),
        ("name,other\nDyspnea,Breathlessness\n", "column"),
        ("", "empty"),
    ],
)
def test_a_table_that_lends_nothing_is_told(tmp_path, text, problem):
    mine = table(tmp_path / "mine.csv", text)
    with pytest.raises((InputError, UsageError), match=problem):
        enrichment_of(Choice(names=(str(mine),)))


def test_an_unknown_way_of_learning_is_told():
    with pytest.raises(UsageError, match="learning"):
        enrichment_of(Choice(learn="days"))  # type: ignore[arg-type]


# What comes along.


def test_what_comes_along_says_whence_each_name_is():
    folder = external_names.shipped_folder()
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    told = {one["name"] for one in manifest["sources"]}
    lender = external_names.shipped_lender()
    assert set(lender.names["source"].unique()) <= told
    assert all(one["licence"] for one in manifest["sources"])
    # What is share-alike, or may only be measured, is not among them.
    assert not {one["licence"] for one in manifest["sources"]} & {"CC-BY-SA-4.0", "measure only"}
    assert (folder / external_names.NAMES).stat().st_size < 15_000_000


def test_a_damaged_table_is_told(tmp_path, monkeypatch):
    import shutil

    copy = tmp_path / "names"
    shutil.copytree(external_names.shipped_folder(), copy)
    (copy / external_names.NAMES).write_bytes(b"PAR1")
    monkeypatch.setattr(external_names, "shipped_folder", lambda: copy)
    with pytest.raises(InputError):
        external_names.shipped_lender()


def test_a_lender_has_only_exact_names_of_live_concepts_that_have_two(tmp_path):
    obo = """format-version: 1.2

[Term]
id: X:1
name: Fever
synonym: "Pyrexia" EXACT []
synonym: "Hot" RELATED []

[Term]
id: X:2
name: Cough

[Term]
id: X:3
name: Gone
synonym: "Left" EXACT []
is_obsolete: true
"""
    lender: Lender = external_names.lender_of(load_terminology(terminology_of(table(tmp_path / "x.obo", obo))))
    assert list(lender.names.select("id", "name").iter_rows()) == [("X:1", "Fever"), ("X:1", "Pyrexia")]


def test_a_name_that_is_not_to_be_lent_is_lent_by_the_user_alone(tmp_path):
    """And to other concepts still."""
    terms = load_terminology(terminology_of(table(tmp_path / "own.csv", "id,term\nX:1,Fever\nX:2,Cough\n")))
    rows = [("A", "A:1", "fever"), ("A", "A:1", "Pyrexia"), ("A", "A:2", "cough"), ("A", "A:2", "Tussis")]
    names = external_names.prepared(
        pl.DataFrame([(*row, "en") for row in rows], schema=external_names.COLUMNS, orient="row")
    )
    unlent = (("X:1", "PYREXIA"), ("X:9", "Tussis"))
    nothing = pl.DataFrame(schema={"id": pl.String, "other": pl.String})
    for given, expected in (({}, {"Tussis"}), ({"A": 0}, {"Pyrexia", "Tussis"})):
        lender = Lender(names, nothing, "", given, unlent)
        folder = tmp_path / f"{len(given)}.index"
        index = build(terms, HashEncoder(), folder, enrichment=Enrichment(lender, None, "no"))
        assert {name for _, name, _, _ in borrowed(index)} == expected


def test_what_is_not_to_be_lent_is_not_in_the_shipped_table_in_vain():
    """Each is a name that a vocabulary has, so that a row that is misspelt is seen."""
    lender = external_names.shipped_lender()
    keys = set(clean_many([name for _, name in lender.unlent]))
    assert keys <= set(lender.names["key"])
    assert len(lender.unlent) == len(set(lender.unlent)) > 500


def test_a_damaged_row_of_a_users_table_is_set_aside_and_counted(tmp_path, capsys):
    mine = table(tmp_path / "mine.csv", "id,name\n1,Dyspnea\n1,Puffed out\n,No id\n2,\n")
    lender = enrichment_of(Choice(borrow=False, names=(str(mine),))).lender
    assert lender is not None
    assert set(lender.names["name"]) == {"Dyspnea", "Puffed out"}
    assert "2 rows were left out; each is in" in capsys.readouterr().err


def test_a_table_in_another_encoding_is_told(tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_bytes("id,name\n1,Dyspnée\n1,Essoufflé\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"(?i)utf-8|encod"):
        enrichment_of(Choice(borrow=False, names=(str(mine),)))


def test_a_name_of_two_concepts_of_a_table_leads_to_neither(tmp_path):
    index = indexed(tmp_path, lent="id,name\n1,Dyspnea\n1,Winded\n2,Dyspnea\n2,Puffed out\n3,Fever\n3,Burning up\n")
    assert {one[:2] for one in borrowed(index)} == {("X:3", "Burning up")}


# Names by the terminology's own ids.


@pytest.mark.parametrize("rows", ["L:0,disorientation\nL:0,zzqx wobble brain\n", "L:0,zzqx wobble brain\n"])
def test_a_users_names_by_the_terminologys_own_ids_are_lent(tmp_path, rows):
    """One name an id is enough."""
    own = table(tmp_path / "own.csv", "id,term\nL:0,confusion\nL:1,fever\n")
    mine = table(tmp_path / "mine.csv", f"id,name\n{rows}")
    index = index_of(own, Choice(names=(str(mine),), borrow=False, learn="no"))
    assert ("L:0", "zzqx wobble brain", "mine", "confusion") in borrowed(index)
    (result,) = Normalizer(index).normalize(["zzqx wobble brain"])
    assert (result.concept_id, result.decision) == ("L:0", "accept")


def test_what_a_file_of_names_gave_is_told_every_time(tmp_path, capsys):
    own = table(tmp_path / "own.csv", "id,term\nL:0,Chronic bronchitis\nL:1,Fever\n")
    rows = "L:0,wheezy chest\nL:0,acute bronchitis\nL:1,fever\nL:7,nowhere\n"
    mine = table(tmp_path / "mine.csv", f"id,name\n{rows}")
    for _ in range(2):
        index = index_of(own, Choice(names=(str(mine),), borrow=False, learn="no"))
        assert {one[:2] for one in borrowed(index)} == {("L:0", "wheezy chest")}
        gave = {"source": "mine", "names": 4, "lent": 1, "conflicting": 1, "unknown": 1}
        assert index.manifest["borrowed"]["given"] == [gave]
        assert "names of mine: 4 given, 1 lent, 1 left out" in capsys.readouterr().err


def test_opposites_of_a_lender_do_not_lead_from_one_to_the_other(tmp_path):
    own = "id,term\nX:1,Chronic bronchitis\nX:2,Fever\n"
    lent = "id,name\nM:1,Bronchitis\nM:1,Acute bronchitis\nM:1,Chronic bronchitis\nM:1,Smoker's chest\n"
    index = indexed(tmp_path, own, lent)
    assert {one[:2] for one in borrowed(index)} == {("X:1", "Bronchitis"), ("X:1", "Smoker's chest")}
    assert index.manifest["borrowed"]["conflicting"] == 1
    # What a code of an index of codes has for names is a class of things.
    lender = external_names.lender_of(load_terminology(terminology_of(tmp_path / "lent.csv")))
    names = lender.names.with_columns(source=pl.lit("some index"), id=pl.lit("X:1"))
    terms = load_terminology(terminology_of(tmp_path / "own.csv"))
    given = Enrichment(Lender(names, lender.equivalents, ""), None, "no")
    of_codes = build(terms, HashEncoder(), tmp_path / "codes.index", enrichment=given)
    assert ("X:1", "Acute bronchitis") in {one[:2] for one in borrowed(of_codes)}
