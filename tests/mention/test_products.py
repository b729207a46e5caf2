"""Drugs as they are ordered: the product that a terminology has for them (orders.tsv)."""

from __future__ import annotations

from fractions import Fraction

import pytest

from alphita import textio
from alphita.index.enrichment import Enrichment
from alphita.index.sources import terminology_of
from alphita.index.store import Index, build
from alphita.mention import products
from alphita.mention.product_names import Strength, order_of, parsed
from alphita.mention.products import Products
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean
from tests.doubles import HashEncoder

INGREDIENTS = ("atorvastatin", "albuterol|salbutamol", "amoxicillin", "clavulanate", "ibuprofen")
NAMES = """atorvastatin Oral Tablet
atorvastatin Oral Tablet [Lipitor]
atorvastatin 20 MG
atorvastatin 20 MG Oral Tablet
atorvastatin 20 MG Oral Tablet [Lipitor]
atorvastatin 40 MG Oral Tablet
warfarin 2 MG Oral Tablet
levothyroxine 0.05 MG Oral Tablet
levothyroxine 0.05 MG Injection
hydrocortisone 10 MG/ML Topical Cream
hydrocortisone 10 MG/ML Topical Ointment
albuterol Metered Dose Inhaler
albuterol Metered Dose Inhaler [Ventolin]
albuterol 0.09 MG/ACTUAT Metered Dose Inhaler
amoxicillin 875 MG / clavulanate 125 MG Oral Tablet
amoxicillin 875 MG / clavulanate 125 MG Oral Tablet [Augmentin]
amoxicillin 500 MG Oral Capsule
amoxicillin 50 MG/ML Oral Suspension
metoprolol succinate 50 MG Extended Release Oral Tablet
metoprolol succinate 50 MG Extended Release Oral Tablet [Toprol-XL]
albuterol 0.83 MG/ML Inhalation Solution
metoprolol tartrate 25 MG Oral Tablet
metoprolol tartrate 50 MG Oral Tablet
heparin 5000 UNT/ML Injectable Solution
insulin aspart 100 UNT/ML Injectable Solution [NovoLog]
insulin aspart 100 UNT/ML Pen Injector [NovoLog]
fentanyl 0.025 MG/HR Transdermal System
omeprazole 20 MG Delayed Release Oral Capsule
12 HR metformin 500 MG Extended Release Oral Tablet"""


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    folder = tmp_path_factory.mktemp("drugs")
    others = [f"drug{number} {number} MG Oral Tablet" for number in range(1, products.MIN_PRODUCTS)]
    rows = [(f"X:{row}", name) for row, name in enumerate([*INGREDIENTS, *NAMES.splitlines(), *others])]
    terms = "".join(f'{code},"{name}"\n' for code, names in rows for name in names.split("|"))
    (folder / "terms.csv").write_text("id,term\n" + terms, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        terminology = load_terminology(terminology_of(folder / "terms.csv"))
    return build(terminology, HashEncoder(), folder / "drugs.index", enrichment=Enrichment(None, None, "no"))


@pytest.mark.parametrize(
    ("mention", "name"), [tuple(row.values()) for row in textio.packaged(__package__, "orders.tsv")]
)
def test_orders(index, mention, name):
    """The product that agrees with an order; "none" where it is no order, or a plain name."""
    found = Products(index).readings([clean(mention)])
    assert (found[0].string if found else "none") == name


def test_a_name_is_read_by_its_parts():
    found = parsed("amoxicillin 875 mg / clavulanate 125 mg oral tablet [augmentin]")
    assert found is not None
    assert found.ingredients == ("amoxicillin", "clavulanate")
    assert found.brand == "augmentin"
    assert [strength.value for strength in found.strengths] == [875, 125]
    assert parsed("type 2 diabetes mellitus") is None


@pytest.mark.parametrize(
    ("mention", "strength"),
    [
        ("drug 1%", Strength(Fraction(10), "mass", "volume")),
        ("drug 0,9 %", Strength(Fraction(9), "mass", "volume")),
        ("drug 250mg/5ml", Strength(Fraction(50), "mass", "volume")),
        ("drug 1.5 g", Strength(Fraction(1500), "mass", "")),
        ("drug 100,000 u/ml", Strength(Fraction(100_000), "units", "volume")),
        ("drug 25 mcg/hr", Strength(Fraction(25, 1000) / 3600, "mass", "clock")),
    ],
)
def test_strengths_are_exact_in_one_unit(mention, strength):
    assert order_of(mention).strengths == (strength,)


def test_a_terminology_without_products_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "terms.csv").write_text("id,term\nX:1,atorvastatin\nX:2,atorvastatin 20 MG Oral Tablet\n")
    terminology = load_terminology(terminology_of(tmp_path / "terms.csv"))
    small = build(terminology, HashEncoder(), tmp_path / "small.index", enrichment=Enrichment(None, None, "no"))
    assert not Products(small).is_list
