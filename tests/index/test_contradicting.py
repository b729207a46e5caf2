"""Names that contradict the concept's own are not lent: by the check itself, in the shipped table, and in answers."""

from __future__ import annotations

import polars as pl
import pytest

import alphita
from alphita.index import external_names
from alphita.index.contradicting import contradicted

# The target's only name of a kind, and what DOID has as another name of the same thing.
OPPOSITES = {
    "Chronic bronchitis": "acute bronchitis",
    "Chronic respiratory failure": "acute respiratory failure",
    "Malignant melanoma of skin of upper limb": "malignant melanoma of skin of lower limb",
    "Primary pneumonic plague": "secondary pneumonic plague",
    "Chronic petrositis": "acute petrositis",
}


def refused(name: str, *own: str) -> bool:
    names = pl.DataFrame({"concept": [1, 2], "name": [name, name]})
    # Another concept has the name itself.
    known = pl.DataFrame({"concept": [*[1] * len(own), 2], "name": [*own, name]}).with_columns(leads=True)
    first, second = contradicted(names, known).tolist()
    assert not second
    return first


@pytest.mark.parametrize(
    ("own", "name"),
    [
        *OPPOSITES.items(),
        ("Akute Bronchitis", "chronische Bronchitis"),
        ("Diabetes type 2", "Diabetes type I"),
        ("Dent disease 1", "Dent disease 2"),
        ("Pressure ulcer, stage 3", "Stage 4 pressure ulcer"),
        ("Migraine with aura", "Migraine without mention of aura"),
        ("Left ventricular failure", "Right ventricular failure"),
        ("Male infertility", "Infertility, female"),
        ("Benign neoplasm of skin", "Malignant tumour of skin"),
        ("Autosomal dominant deafness", "Autosomal recessive deafness"),
        ("Anterior uveitis", "Posterior uveitis"),
        ("Acquired hypothyroidism", "Congenital hypothyroidism"),
    ],
)
def test_a_name_at_the_other_end_is_refused(own, name):
    assert refused(name, own)
    assert refused(own, name)
    assert refused(name, own, own.split()[-1])
    # A name that is as the lent one says that both belong to the concept, or one that leaves both open.
    assert not refused(name, own, f"{name} of old")
    assert not refused(name, f"{own}, {name}")


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ("Bronchitis", "Acute bronchitis"),
        ("Acute bronchitis", "Bronchitis"),
        ("Sanfilippo syndrome type A", "Mucopolysaccharidosis type 3"),
        ("Distal end of radius", "Lower end of radius"),
        ("Focal seizure with retained awareness", "Focal seizure without impairment of awareness"),
        ("Non-acquired growth hormone deficiency", "Congenital growth hormone deficiency"),
        ("Migraine with or without aura", "Migraine without aura"),
        ("Diabetes type 2", "Diabetes type IIa"),
    ],
)
def test_a_name_that_says_more_or_less_or_the_same_in_another_way_is_lent(own, name):
    assert not refused(name, own)


def test_a_name_agrees_with_those_that_lead_alone():
    rows = [("plague", True), ("primary plague", False), ("secondary plague", False), ("pest", False)]
    names = pl.DataFrame(rows, {"name": pl.String, "leads": pl.Boolean}, orient="row").with_columns(concept=1)
    assert contradicted(names, names).tolist() == [False, True, True, False]
    led = names.with_columns(leads=pl.col("name") == "primary plague")
    assert contradicted(led, led).tolist() == [False, False, True, False]


def test_in_the_shipped_table_no_name_contradicts_the_first_and_none_leads_on_to_its_opposite():
    names = external_names.shipped_lender().names.filter(pl.col("source").is_in(["DOID", "NCIt", "ORDO", "HPO"]))
    names = names.with_columns(concept=pl.format("{}|{}", "source", "id"), leads="first")
    assert not contradicted(names, names.filter("first")).any()
    opposed = names.filter(pl.Series(contradicted(names, names)))
    assert not opposed["alone"].any()
    assert "acute petrositis" in opposed["key"]


def test_what_contradicts_the_target_is_accepted_by_no_lent_name(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    own = tmp_path / "own.csv"
    rows = [f"T:{row},{name}" for row, name in enumerate([*OPPOSITES, "Dyspnea"])]
    own.write_text("id,term\n" + "\n".join(rows) + "\n", encoding="utf-8")
    results = list(alphita.normalize([*OPPOSITES.values(), *OPPOSITES, "breathlessness"], to=own))
    assert [result.decision for result in results[: len(OPPOSITES)]].count("accept") == 0
    assert {result.decision for result in results[len(OPPOSITES) :]} == {"accept"}
