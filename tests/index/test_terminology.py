"""An index of a real terminology folder, not of a stand-in."""

from __future__ import annotations

from alphita.answer.normalizer import Normalizer
from alphita.errors import Rejects
from alphita.index.store import build
from alphita.terminology.loaders import obo
from alphita.terminology.store import load_terminology, save
from tests.doubles import HashEncoder

OBO = """format-version: 1.2
ontology: t

[Term]
id: T:0000001
name: Seizure
synonym: "Epileptic seizure" EXACT []
synonym: "Fits" BROAD []

[Term]
id: T:0000002
name: Fit and well
synonym: "Fits" EXACT []

[Term]
id: T:0000003
name: obsolete Spell
is_obsolete: true
"""


def test_scopes_ids_and_retired_concepts(tmp_path):
    (tmp_path / "t.obo").write_text(OBO)
    save(obo.load([tmp_path / "t.obo"], obo.Options(), Rejects()), tmp_path / "t.terminology")
    terminology = load_terminology(tmp_path / "t.terminology")
    index = build(terminology, HashEncoder(), tmp_path / "t.index")
    assert list(index.strings) == ["epileptic seizure", "fit and well", "fits", "seizure"]
    assert index.manifest["terminology_hash"] == terminology.content_hash
    found = Normalizer(index, encoder=HashEncoder()).normalize(["FITS"], top_k=2)[0]
    assert [(c.concept_id, c.concept_name, c.scope) for c in found.candidates] == [
        ("T:0000002", "Fit and well", "exact"),
        ("T:0000001", "Seizure", "broad"),
    ]
