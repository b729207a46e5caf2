"""The download of a mapper's journey, its lists of strings, their scores, and Usagi's method beside."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
import usagi

import omop_journey
import omop_scores

BENCH = Path(__file__).parents[2] / "bench"
LISTS = [BENCH / folder / name for folder, name in (("development", "omop.tsv"), ("blind", "omop.tsv"))]
# The open data that the download is made from, in its shapes.
DATA = {
    "open_graph/terms.tsv": "id\tlang\tterm\ttype\tstatus\tsource\n"
    "MONDO:1\ten\tblue toe\tpref\tX\tM\nMONDO:2\ten\tred toe\tpref\tX\tM\nDOID:1\ten\tToe, blue\tpref\tX\tD\n"
    "DOID:1\ten\tcyanotic toe\tsyn\tX\tD\nDOID:1\ten\tazure toe\tsyn\tX\tD\nDOID:1\ten\tindigo toe\tsyn\tX\tD\n"
    "DOID:1\ten\tnavy toe\tsyn\tX\tD\nDOID:2\ten\tscarlet toe\tpref\tX\tD\nHP:1\ten\tBlue toe\tpref\tX\tH\n"
    "HP:2\ten\tLong toe\tpref\tX\tH\nHP:2\tde\tLanger Zeh\tpref\tX\tH\nMAXO:1\ten\ttoe massage\tpref\tX\tA\n",
    "open_graph/relations.tsv": "head\trelation\ttail\tsource\nMONDO:1\texact_match\tDOID:1\tM\n"
    "MONDO:2\texact_match\tDOID:2\tM\nMONDO:1\tis_a\tMONDO:2\tM\n",
    "icd10cm/codes.csv": 'Code,Description,ChapterID\nZ90,"Toe, blue",1\nZ90.1,"Blue toe, unspecified",1\n',
    "ontologies/drugcentral.obo": "[Term]\nid: drugcentral:1\nname: paracetamol\n\n[Term]\nid: drugcentral:2\n"
    "name: toeine\n",
    "ontologies/mondo_sssom/mondo_hasdbxref_icd10cm.sssom.tsv": "#x\nsubject_id\tobject_id\nMONDO:1\tICD10CM:Z90\n",
    "local_codes/d_labitems_to_loinc.csv": "omop_concept_id,omop_concept_name,omop_concept_code\n9,Toe in Blood,99-1\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    data, made = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("athena")
    for name, text in DATA.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    matched = data / "benchmarks/omop_exact_matching/exact_matching_gs.csv"
    matched.parent.mkdir(parents=True)
    matched.write_text("target_concept_name,predicate\nGreen toe,exactMatch\n")
    omop_journey.make(data, made, 0)
    omop_journey.make(data, made / "again", 0)
    return made


def table(folder: Path, name: str) -> list[dict[str, str]]:
    return list(omop_journey.rows(folder / f"{name}.csv"))


def test_the_files_are_as_athena_has_them(folder):
    """Every id leads to a row, each relationship stands twice, and what is made again is the same."""
    concepts = {row["concept_id"]: row for row in table(folder, "CONCEPT")}
    assert len(concepts) == len(table(folder, "CONCEPT"))
    keys = {"domain_id": "DOMAIN", "vocabulary_id": "VOCABULARY", "concept_class_id": "CONCEPT_CLASS"}
    for key, name in keys.items():
        assert {row[key] for row in concepts.values()} <= {row[key] for row in table(folder, name)}
    for name, columns in omop_journey.FILES.items():
        assert (folder / f"{name}.csv").read_bytes() == (folder / "again" / f"{name}.csv").read_bytes()
        for row in table(folder, name):
            assert tuple(row) == columns
            assert {row[column] for column in columns if "concept_id" in column} <= concepts.keys()
    reverse = {row["relationship_id"]: row["reverse_relationship_id"] for row in table(folder, "RELATIONSHIP")}
    links = {
        (row["concept_id_1"], row["relationship_id"], row["concept_id_2"])
        for row in table(folder, "CONCEPT_RELATIONSHIP")
    }
    assert {(tail, reverse[label], head) for head, label, tail in links} == links
    names = {row["concept_name"]: row for row in concepts.values()}
    assert names["Blue toe"]["standard_concept"] == "S"
    assert "Long toe" in names
    assert names["hydrocortisone 10 MG/ML Topical Cream"]["concept_class_id"] == "Clinical Drug"
    mapped = {
        concepts[head]["concept_code"]: concepts[tail]["concept_name"]
        for head, label, tail in links
        if label == "Maps to"
    }
    assert mapped["Z90"] == mapped["Z90.1"] == "Blue toe"


@pytest.mark.parametrize("strings", LISTS, ids=lambda path: path.parent.name)
def test_the_gold_that_needs_no_data_is_there(folder, strings):
    """What is made of the tables alone, drugs and imaging among them, is in every download."""
    made = {f"{row['vocabulary_id']}:{row['concept_code']}" for row in table(folder, "CONCEPT")}
    golds = [(row["gold_domain"], row["gold"]) for row in omop_journey.rows(strings) if row["gold"] != omop_scores.NIL]
    found = {domain: sum(gold in made for some, gold in golds if some == domain) for domain, _ in golds}
    total = {domain: sum(some == domain for some, _ in golds) for domain, _ in golds}
    assert found["Procedure"] == total["Procedure"]
    assert found["Drug"] > 0.97 * total["Drug"]
    assert found["Condition"] > 0.7 * total["Condition"]


def test_a_list_is_checked_and_scored(folder, tmp_path, capsys):
    ids = {row["concept_name"]: f"{row['vocabulary_id']}:{row['concept_code']}" for row in table(folder, "CONCEPT")}
    toe, aspirin = ids["Blue toe"], ids["aspirin 325 MG Oral Tablet"]
    strings, answers = tmp_path / "strings.tsv", tmp_path / "answers.csv"
    lines = [("a", "blue toe", "Diagnosis", toe), ("b", "ASA 325", "Drug", aspirin), ("c", "n/a", "Drug", "NIL")]
    lines += [("d", "BLUE TOE", "Lab", "SNOMED:0")]
    strings.write_text("id\tstring\tdomain\tgold\talso\n" + "".join("\t".join([*line, "\n"]) for line in lines))
    assert omop_scores.check(strings, folder) == ["d: SNOMED:0 is no standard concept", "d: this string occurs twice"]
    curies = [omop_scores.curie(some) for some in (toe, aspirin)]
    answers.write_text(
        f"row,rank,concept_id,decision\n1,1,{curies[0]},accept\n2,1,X:1,review\n2,2,{curies[1]},\n3,1,X:1,accept\n4,,,nil\n"
    )
    listed = omop_scores.read(strings)
    omop_scores.answer(listed, answers)
    assert [row.is_right for row in listed] == [True, False, False, False]
    shares = [cell.split()[0] for cell in omop_scores.figures(listed)]
    assert shares == ["3", "33.3", "33.3", "50.0", "50.0", "0.0"]
    plain, filtered = omop_scores.usagi(listed, folder)
    assert plain[0] == filtered[0] == curies[0]
    assert "| Diagnosis | 1 | 100.0" in omop_scores.beside(listed, plain, filtered)


def test_usagi_scores_by_the_cosine_of_grams():
    terms = [usagi.Term("abc", 1, True, "Drug", True), usagi.Term("abd", 2, True, "Condition", True)]
    terms += [usagi.Term("abc", 3, True, "Drug", False)]
    index = usagi.Usagi(terms, ["abc"])
    assert sorted(usagi.grams("aBc")) == ["ab", "abc", "bc"]
    # Of four documents "ab" is in all, "bc" and "abc" in three; of the standard ones only two are found.
    (best, score), *others = index.search("abc")
    assert (best, round(score, 6)) == (1, 1.0)
    assert others == []
    assert index.search("abd", ["Drug"]) == []
    assert index.search("zz") == []


@pytest.mark.parametrize(("length", "kept"), [(1, 1.0), (2, 0.625), (3, 0.5), (4, 0.5), (100, 0.09375), (0, 0.0)])
def test_a_norm_is_kept_in_a_byte(length, kept):
    """1 / sqrt(length), cut to three bits after the first."""
    assert math.isclose(usagi.norm(length), kept)
