"""SOURCE_TO_CONCEPT_MAP in a database with the CDM's constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.cli.command import alphita
from tests.mappings import cdm

HEADER = "\t".join(cdm.TABLES["concept"])
CONCEPTS = """\
0	No matching concept	Metadata	None	Undefined		No matching concept	19700101	20991231	
7	Local vocabulary	Metadata	Vocabulary	Vocabulary		OMOP generated	19700101	20991231	
11	Sore toe	Condition	SNOMED	Disorder	S	111	19700101	20991231	
12	Sore "big" toe	Condition	SNOMED	Disorder	S	112	19700101	20991231	
13	Toe that was	Condition	SNOMED	Disorder		113	19700101	20220131	U
"""
VOCABULARIES = ("None", "Vocabulary", "SNOMED")
ANSWERS = """\
row,mention_code,mention,rank,concept_id,decision
1,T1,"sore, ""red"" toe",1,SNOMEDCT:111,accept
2,T2,"Zehe\tschmerzt\nü 足",1,SNOMEDCT:112,accept
3,T3,no toe,1,,nil
4,T4,toe that was,1,SNOMEDCT:113,accept
5,T5,{long},1,SNOMEDCT:111,accept
6,,a toe without a code,1,SNOMEDCT:112,accept
7,T7,toe to look at,1,SNOMEDCT:112,review
"""


@pytest.fixture(scope="module")
def psql() -> Iterator[Callable[[str], str]]:
    """Run commands in a database with the vocabulary, and then the constraints."""
    with cdm.database() as server:
        for name in VOCABULARIES:
            server.psql(f"INSERT INTO cdm.vocabulary VALUES ('{name}', '{name}', null, null, 7);")
        for line in CONCEPTS.splitlines():
            cells = ", ".join(f"'{cell}'" if cell else "null" for cell in line.split("\t"))
            server.psql(f"INSERT INTO cdm.concept VALUES ({cells});")
        server.psql(cdm.CONSTRAINTS)
        yield server.psql


@pytest.mark.slow
def test_a_converted_list_loads_with_every_constraint(tmp_path, psql):
    concepts, answers, out = (tmp_path / name for name in ("CONCEPT.csv", "answers.csv", "a.stcm.csv"))
    concepts.write_text(f"{HEADER}\n{CONCEPTS}", encoding="utf-8")
    answers.write_text(ANSWERS.format(long="toe " * 80), encoding="utf-8")
    alphita("mappings", "convert", answers, "-o", out, "--source-vocabulary", "LOCAL", "--concepts", concepts)
    psql(f"\\copy cdm.source_to_concept_map FROM '{out}' WITH (FORMAT csv, HEADER)\n")
    columns = "source_code, target_concept_id, target_vocabulary_id, length(source_code_description)"
    listed = psql(f"COPY (SELECT {columns} FROM cdm.source_to_concept_map ORDER BY 1) TO STDOUT;")
    # What is not standard any more and what a person should check are not written.
    assert [line.split("\t") for line in listed.splitlines()] == [
        ["T1", "11", "SNOMED", "15"],
        ["T2", "12", "SNOMED", "17"],
        ["T3", "0", "None", "6"],
        ["T5", "11", "SNOMED", "255"],
        ["a toe without a code", "12", "SNOMED", "20"],
    ]
