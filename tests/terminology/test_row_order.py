"""The rows of each file in another order give the same terminology, whatever the format."""

from __future__ import annotations

import csv
import io
import json
import random
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import PACKAGE, obo
from tests.terminology import fuzz
from tests.terminology.conftest import FIXTURES, facts
from tests.terminology.test_icd10cm import ORDER

RELEASE = {
    "babelon": "babelon/*.tsv",
    "hpoa": "hpoa/phenotype.hpoa",
    "icd10cm": "small_*.xml",
    "loinc": "loinc/**/*.csv",
    "obo": "small.obo",
    "obographs": "obographs/zz.json",
    "omop": "omop/*.csv",
    "products": "products/products.csv",
    "rxnorm": "rxnorm/rrf/*.RRF",
    "snomed_ct": "snomed_ct/**/*.txt",
    "snomed_ct_gps": "snomed_ct_gps/*.txt",
    "table": "*s.[ct]sv",
    "umls": "umls/*.RRF",
}
# Rows that contend for a name, which the order of rows must not settle.
CONTENDING = {
    "babelon/zz-fr.babelon.tsv": "en\tfr\tZZ:0000001\trdfs:label\tBlue ear\tAuricule\tOFFICIAL\t\t\tzz/2026-01-31\n",
    "rxnorm/rrf/RXNCONSO.RRF": "1001|ENG||||||5000|5000|1001||RXNORM|IN|1001|Imaginolum||N|4096|\n",
    "umls/MRCONSO.RRF": "C0000001|ENG|P|L0000001|PF|S0000001|N|A0000000||M01|D01|MSH|MH|D01|Grumbled knee|0|N||\n",
}


def rows_shuffled(content: str, suffix: str, shuffle: random.Random) -> str:
    """Return a file's content with its rows, stanzas or elements in another order."""
    if suffix == ".obo":
        head, *stanzas = content.strip().split("\n\n")
        return "\n\n".join([head, *shuffle.sample(stanzas, len(stanzas))]) + "\n"
    if suffix == ".json":
        document = json.loads(content)
        for graph in document["graphs"]:
            for part in ("nodes", "edges"):
                shuffle.shuffle(graph[part])
        return json.dumps(document)
    if suffix == ".xml":
        root = ElementTree.fromstring(content)
        for element in root.iter():
            for tag in ("chapter", "section", "diag", "letter", "mainTerm", "term"):
                places = [place for place, child in enumerate(element) if child.tag == tag]
                moved = [element[place] for place in shuffle.sample(places, len(places))]
                for place, child in zip(places, moved, strict=True):
                    element[place] = child
        return ElementTree.tostring(root, encoding="unicode")
    if suffix == ".csv" and "\t" not in content:
        header, *rows = csv.reader(io.StringIO(content, newline=""))
        file = io.StringIO(newline="")
        csv.writer(file).writerows([header, *shuffle.sample(rows, len(rows))])
        return file.getvalue()
    lines = content.splitlines()
    n_head = 0
    if suffix != ".RRF" and not lines[0].startswith("00001 "):
        n_head = 1 + sum(line.startswith(("#d", "#v", "#t", "ID\t")) for line in lines)
    return "\n".join([*lines[:n_head], *shuffle.sample(lines[n_head:], len(lines) - n_head)]) + "\n"


def loaded(name: str, files: dict[str, str], shuffle: random.Random | None = None) -> list[str]:
    """Return the facts of the files, each with its rows shuffled."""
    loader = registry.load(PACKAGE, name)
    with tempfile.TemporaryDirectory() as temporary:
        options, folder = {}, Path(temporary)
        if "onto" in loader.Options.model_fields:
            options["onto"] = str(folder / "base.terminology")
            base = obo.load([FIXTURES / name / "base.obo"], obo.Options(), Rejects(None))
            store.save(base, folder / "base.terminology")
        for place, content in files.items():
            target = folder / "release" / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content if shuffle is None else rows_shuffled(content, target.suffix, shuffle), "utf-8")
        tables = loader.load([folder / "release"], loader.Options(**options), Rejects(None))
        store.save(tables, folder / "x.terminology", rejects=Rejects(None))
        lines, concept = [], ""
        for line in facts(store.load_terminology(folder / "x.terminology")):
            concept = concept if line.startswith(" ") else line
            lines.append(f"{concept}{line}")
        return sorted(lines)


def released(name: str) -> dict[str, str]:
    """Return the files of a format by their places: the fixture's, and the rows that contend for a name."""
    files = {}
    for path in sorted(FIXTURES.glob(RELEASE[name])):
        place = path.relative_to(FIXTURES).as_posix()
        files[place] = path.read_text("utf-8") + CONTENDING.get(place, "")
    if name == "table":
        # Without the column, the first row of an id has its preferred term: see below.
        first, *rows = files["terms.csv"].splitlines()
        named = [f"{row},{int(row.split(',')[1] in ('Headache', 'Migraine'))}" for row in rows]
        files["terms.csv"] = "\n".join([f"{first},preferred", *named]) + "\n"
    return files


@pytest.mark.parametrize("name", registry.names(PACKAGE))
@fuzz.examples(8)
@given(shuffle=st.randoms(use_true_random=False))
def test_rows_in_another_order_give_the_same_terminology(name, shuffle):
    files = released(name)
    assert loaded(name, files, shuffle) == loaded(name, files)


@fuzz.examples(8)
@given(shuffle=st.randoms(use_true_random=False))
def test_an_order_file_in_another_order(shuffle):
    files = {"icd10cm_order_2025.txt": ORDER}
    assert loaded("icd10cm", files, shuffle) == loaded("icd10cm", files)


@fuzz.examples(8)
@given(shuffle=st.randoms(use_true_random=False))
def test_of_a_table_without_preferred_terms_the_order_within_a_concept_counts(shuffle):
    """Its specification: the first row of an id has the preferred term; ids may come in any order.

    So it is in the index of ICD-10-CM as a table, in which a row stands below the last one of a lesser level.
    """
    header, *rows = (FIXTURES / "terms.csv").read_text("utf-8").splitlines()
    ids = [row.partition(",")[0] for row in rows]
    left = {name: [row for row in rows if row.startswith(name)] for name in ids}
    moved = [left[name].pop(0) for name in shuffle.sample(ids, len(ids))]
    files = {"terms.csv": "\n".join([header, *rows])}
    assert loaded("table", {"terms.csv": "\n".join([header, *moved])}) == loaded("table", files)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("name", registry.names(PACKAGE))
def test_lines_may_end_as_they_like(name, end):
    # These come from their makers alone, and never so.
    if end == "\r" and name in ("omop", "rxnorm", "snomed_ct", "snomed_ct_gps", "umls"):
        pytest.skip("a bulk file ends its lines by LF or CRLF")
    files = released(name)
    found = loaded(name, {place: text.replace("\n", end) for place, text in files.items()})
    # Within quotes a line end is part of the cell.
    assert str(found).replace(repr(repr(end)[1:-1])[1:-1], r"\\n") == str(loaded(name, files))
