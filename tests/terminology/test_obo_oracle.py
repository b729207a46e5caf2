"""fastobo, which is not ours, reads the same out of an OBO file as our loader: names, synonyms, parents, obsoletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from alphita.errors import Rejects
from alphita.terminology.detect import find_packaged
from alphita.terminology.loaders import obo

fastobo = pytest.importorskip("fastobo", reason="pip install fastobo")


def read_by_fastobo(path: Path) -> dict[str, set]:
    found: dict[str, set] = {"names": set(), "synonyms": set(), "obsolete": set(), "is_a": set()}
    for frame in fastobo.load(str(path)):
        if not isinstance(frame, fastobo.term.TermFrame):
            continue
        concept = str(frame.id)
        for clause in frame:
            match type(clause).__name__:
                case "NameClause":
                    found["names"].add((concept, clause.name))
                case "SynonymClause":
                    found["synonyms"].add((concept, clause.synonym.desc, clause.synonym.scope.lower()))
                case "IsObsoleteClause" if clause.obsolete:
                    found["obsolete"].add(concept)
                case "IsAClause":
                    found["is_a"].add((concept, str(clause.term)))
    return found


def read_by_us(path: Path) -> dict[str, set]:
    tables = obo.load([path], obo.Options(), Rejects(strict=True))
    terms, relations = tables.terms, tables.relations
    return {
        "names": set(terms.filter(terms["preferred"]).select("concept", "string").iter_rows()),
        "synonyms": set(terms.filter(~terms["preferred"]).select("concept", "string", "scope").iter_rows()),
        "obsolete": set(tables.concepts.filter(tables.concepts["retired"])["id"]),
        "is_a": set(relations.filter(relations["relation"] == "is_a").select("head", "tail").iter_rows()),
    }


# Odd lines of the format that files in the wild have.
LINES = """format-version: 1.4
ontology: odd

[Term]
id: ODD:0000001
name: plain name: with \\{signs\\}
synonym: "a \\"quoted\\" word" EXACT []
synonym: "with\\, escapes" NARROW [PMID:1 "a title, with comma", ODD:2]
synonym: "of a type" BROAD ABBREVIATION []
is_a: ODD:0000002 {source="X"} ! parent

[Term]
id: ODD:0000002
name: parent
synonym: "related" RELATED []

[Term]
id: ODD:0000003
name: gone
is_obsolete: true
"""


def test_odd_lines_are_read_as_fastobo_reads_them(tmp_path):
    path = tmp_path / "odd.obo"
    path.write_text(LINES)
    ours = read_by_us(path)
    assert ours == read_by_fastobo(path)
    assert {len(rows) for rows in ours.values()} == {3, 4, 1}


@pytest.mark.slow
def test_the_human_phenotype_ontology_is_read_as_fastobo_reads_it():
    path = find_packaged("hpo")
    ours = read_by_us(path)
    assert ours == read_by_fastobo(path)
    assert len(ours["synonyms"]) > 20_000
