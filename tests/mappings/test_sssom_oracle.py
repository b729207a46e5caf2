"""sssom-pydantic, which is not ours, reads the SSSOM that we write, and we read what it writes."""

from __future__ import annotations

import pytest

from alphita.mappings.formats import sssom
from tests.mappings import sample

pydantic = pytest.importorskip("sssom_pydantic", reason="pip install sssom-pydantic")


def test_it_reads_ours_and_we_read_its(tmp_path):
    head = sample.header(source_vocabulary="LAB", prefixes={"LAB": "http://lab.example/"})
    mappings = [
        sample.mapping(mention_code="1", relation="exact"),
        sample.mapping("knee\tpain", "HP:0002829", row=2, mention_code="2", relation="broad"),
    ]
    path = sample.write(sssom, head, mappings, tmp_path / "ours.sssom.tsv")
    converter, metadata = (found := pydantic.read(path)).converter, found.mapping_set
    said = [(one.subject.curie, one.subject.name, one.predicate.curie, one.object.curie) for one in found.mappings]
    ours = sample.read(sssom, head, path)
    assert [row[:2] for row in said] == [("LAB:1", "sore toe"), ("LAB:2", "knee\tpain")]
    assert {row[3] for row in said} == {one.concept_id for one in ours}
    back = tmp_path / "its.sssom.tsv"
    pydantic.write(found.mappings, back, metadata=metadata, converter=converter)
    assert sample.read(sssom, head, back) == ours
