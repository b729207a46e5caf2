"""The rows of each file in another order give the same terminology, whatever the format."""

from __future__ import annotations

import csv
import functools
import io
import json
import random
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
from tests.terminology.conftest import ADDING, FIXTURES, RELEASES, facts
from tests.terminology.test_icd10cm import ORDER

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


def loaded(name, files, shuffle=None):
    """Return the facts of the files, each with its rows shuffled."""
    loader = registry.load(PACKAGE, name)
    changed = {
        place: rows_shuffled(text, Path(place).suffix, shuffle) if shuffle else text for place, text in files.items()
    }
    with fuzz.folder_of({place: text.encode() for place, text in changed.items()}) as folder:
        options = {}
        if name in ADDING:
            options["onto"] = str(folder.parent / "base.terminology")
            base = obo.load([FIXTURES / name / "base.obo"], obo.Options(), Rejects(None))
            store.save(base, folder.parent / "base.terminology")
        tables = loader.load([folder], loader.Options(**options), Rejects(None))
        store.save(tables, folder.parent / "x.terminology", rejects=Rejects(None))
        lines, concept = [], ""
        for line in facts(store.load_terminology(folder.parent / "x.terminology")):
            concept = concept if line.startswith(" ") else line
            lines.append(f"{concept}{line}")
        return sorted(lines)


def released(name: str) -> dict[str, str]:
    """Return the files of a format by their places: the fixture's, and the rows that contend for a name."""
    files = {}
    for path in RELEASES[name].files:
        place = path.relative_to(FIXTURES).as_posix()
        files[place] = path.read_text("utf-8") + CONTENDING.get(place, "")
    if name == "table":
        # Without the column, the first row of an id has its preferred term: see below.
        first, *rows = files["terms.csv"].splitlines()
        named = [f"{row},{int(row.split(',')[1] in ('Headache', 'Migraine'))}" for row in rows]
        files["terms.csv"] = "\n".join([f"{first},preferred", *named]) + "\n"
    return files


@functools.cache
def in_order(name):
    return loaded(name, released(name))


@pytest.mark.parametrize("name", registry.names(PACKAGE))
@fuzz.examples(6)
@given(shuffle=st.randoms(use_true_random=False))
def test_rows_in_another_order_give_the_same_terminology(name, shuffle):
    assert loaded(name, released(name), shuffle) == in_order(name)


ORDER_FILE = {"icd10cm_order_2025.txt": ORDER}


@fuzz.examples(6)
@given(shuffle=st.randoms(use_true_random=False))
def test_an_order_file_in_another_order(shuffle):
    assert loaded("icd10cm", ORDER_FILE, shuffle) == loaded("icd10cm", ORDER_FILE)


@fuzz.examples(6)
@given(shuffle=st.randoms(use_true_random=False))
def test_of_a_table_without_preferred_terms_the_order_within_a_concept_counts(shuffle):
    """The first row of an id has the preferred term; ids may come in any order."""
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
    found = loaded(name, {place: text.replace("\n", end) for place, text in released(name).items()})
    # Within quotes a line end is part of the cell.
    assert str(found).replace(repr(repr(end)[1:-1])[1:-1], r"\\n") == str(in_order(name))
