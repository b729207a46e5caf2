"""The axes of laboratory tests, from names and from units."""

from __future__ import annotations

import pytest

from alphita import textio
from alphita.terminology import laboratory
from alphita.terminology.laboratory import Axes, from_name, kind_of_unit, numerator, read_unit, wider


@pytest.mark.parametrize("row", textio.packaged(__package__, "laboratory.tsv"), ids=lambda row: row["name"])
def test_a_name_tells_the_axes(row):
    assert from_name(row["name"]) == Axes(*(row[field] for field in Axes._fields))


@pytest.mark.parametrize("row", textio.packaged(__package__, "laboratory_units.tsv"), ids=lambda row: row["unit"])
def test_a_unit_tells_the_property(row):
    assert kind_of_unit(row["unit"]) == row["kind"]
    found = read_unit(row["unit"]).properties
    assert row["property"] in found if row["property"] else not found


def test_a_unit_of_a_day_tells_the_time():
    times = {unit: read_unit(unit).time for unit in ("mg/24h", "mmol/d", "g/(24.h)", "mg/dL", "mL/min")}
    assert [unit for unit, time in times.items() if time == "24H"] == ["mg/24h", "mmol/d", "g/(24.h)"]
    assert {*times.values()} == {"24H", ""}


def test_several_units_tell_the_properties_of_all():
    assert read_unit("%|g/dL").properties == read_unit("%").properties | read_unit("g/dL").properties


def test_what_is_a_part_of_a_whole():
    names = ("Glow cells/100 leukocytes", "Glowin/Glowin.total", "Glowin/Albumin")
    assert [*map(numerator, names)] == ["Glow cells", "Glowin", "Glowin/Albumin"]


def test_the_tables():
    known = laboratory.systems()
    assert all(other in known for one in known.values() for other in one.within)
    words = [word for one in known.values() for word in one.words]
    assert len(words) == len(set(words))
    assert all(code not in wider(code) for code in known)
    assert wider("Ser") >= {"Ser/Plas", "Ser/Plas/Bld", "Any blood", "XXX"}
    assert {"Bld", "BldA"} & wider("Ser") == set()
