"""fastobo, which is not ours, reads the same out of an OBO file as our loader."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

import fastobo
import pytest

from alphita.errors import Rejects
from alphita.terminology import model, prefixes
from alphita.terminology.loaders import obo
from tests.terminology.conftest import EXPECTED

Said = set[tuple[str, ...]]


def read_by_fastobo(path: Path) -> Said:
    """Return (concept, what is said, the words it is said in) of every clause that we read."""
    said: Said = set()
    for frame in fastobo.load(str(path)):
        if not isinstance(frame, fastobo.term.TermFrame):
            continue
        concept = prefixes.normalize(str(frame.id))
        for clause in frame:
            said |= {(concept, *words) for words in _words(clause)}
    return said


def _words(clause: fastobo.term.BaseTermClause) -> list[tuple[str, ...]]:
    kind = clause.raw_tag()
    # The file's own qualifiers: a relation that holds in a context only is none.
    if "gci_relation" in str(clause):
        return []
    match kind:
        case "name":
            return [(kind, clause.name.strip())]
        case "def":
            return [(kind, clause.definition)]
        case "synonym":
            return [(kind, clause.synonym.desc, clause.synonym.scope.lower(), str(clause.synonym.type or ""))]
        case "is_obsolete":
            return [(kind,)] if clause.obsolete else []
        case "is_a":
            return [(kind, prefixes.normalize(str(clause.term)))]
        case "relationship":
            return [(str(clause.typedef), prefixes.normalize(str(clause.term)))]
        case "alt_id":
            return [(kind, prefixes.normalize(str(clause.alt_id)))]
        case "consider" | "replaced_by" | "equivalent_to":
            return [(kind, prefixes.normalize(str(clause.term)))]
        case "xref":
            return [(kind, prefixes.normalize(str(clause.xref.id).replace("\\", "")))]
        case "comment":
            return [(kind, clause.comment.strip())]
        case "subset":
            return [(kind, str(clause.subset))]
    return []


def read_by_us(path: Path) -> Said:
    tables = obo.load([path], obo.Options(), Rejects(strict=True))
    said: Said = {(concept, "is_obsolete") for concept in tables.concepts.filter(tables.concepts["retired"])["id"]}
    for row in tables.terms.iter_rows(named=True):
        words = ("name", row["string"])
        if not row["preferred"]:
            words = ("synonym", row["string"], row["scope"], row["term_type"] or "")
        said.add((row["concept"], *words))
    said |= {(row["concept"], "def", row["text"]) for row in tables.definitions.iter_rows(named=True)}
    said |= set(tables.relations.select("head", "relation", "tail").iter_rows())
    said |= {(row["concept"], "alt_id", row["alias"]) for row in tables.aliases.iter_rows(named=True)}
    said |= set(tables.replacements.select("concept", "predicate", "object").iter_rows())
    tags = {model.XREF: "xref", "owl:equivalentClass": "equivalent_to"}
    for row in tables.xrefs.iter_rows(named=True):
        if row["predicate"] in tags:
            said.add((row["concept"], tags[row["predicate"]], row["object"]))
    properties = tables.properties.filter(tables.properties["name"].is_in(["comment", "subset"]))
    return said | set(properties.select("concept", "name", "value").iter_rows())


# Odd lines of the format that files in the wild have.
LINES = (EXPECTED / "obo_lines.txt").read_text(encoding="utf-8").strip("\n").split("\n")


@pytest.mark.parametrize("line", LINES)
def test_an_odd_line_is_read_as_fastobo_reads_it(tmp_path, line):
    path = tmp_path / "odd.obo"
    name = "" if line.startswith("name") else "name: n\n"
    path.write_text(
        f'format-version: 1.4\nontology: odd\nsynonymtypedef: ABBREVIATION "short"\nsubsetdef: slim "s"\n\n'
        f"[Term]\nid: ODD:1\n{name}{line}\n\n[Term]\nid: ODD:2\nname: parent\n",
        encoding="utf-8",
    )
    ours = read_by_us(path)
    assert ours == read_by_fastobo(path)
    assert len(ours) == 2 + (not line.startswith("name")) - ("gci_" in line or line.endswith("false"))


@pytest.mark.slow
def test_every_obo_file_of_an_installed_package_is_read_as_fastobo_reads_it():
    files = [file for package in distributions() for file in package.files or () if file.name.endswith(".obo")]
    assert "hp.obo" in {file.name for file in files}
    for file in files:
        path = Path(str(file.locate()))
        ours = read_by_us(path)
        assert ours == read_by_fastobo(path), path
        assert len(ours) > 100
