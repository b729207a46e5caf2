"""The axes of a laboratory test, by which LOINC defines it: component, property, time, system, scale and method.

LOINC's release has them as columns. OMOP vocabularies have a name that is made from them, and relations:

    Creatinine [Moles/volume] in Serum or Plasma      component Creatinine, property SCnc, system Ser/Plas
    Leukocytes [#/volume] in Blood by Automated count component Leukocytes, property NCnc, system Bld, method given
    Protein [Mass/time] in 24 hour Urine              component Protein, property MRat, time 24H, system Urine

A unit of measure tells the property: mg/dL is a mass concentration (MCnc).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from alphita import textio

# LOINC's name for a single point in time, and for an axis without a value.
POINT, NONE = "Pt", ""
ORDINAL = "Ord"
PRESENCE = "PrThr"
_PROPERTY = re.compile(r" ?\[([^\[\]]+)\]")
_SYSTEM = re.compile(r"^(.*?)(?:^| )(?:in|of|for|from|on|-) (?!by )(.*)$")
_METHOD = re.compile(r" by (.+)$")
_HOURS = re.compile(r"^(\d+) hours? ")
# "Lymphocytes/100 leukocytes", "Hemoglobin A1c/Hemoglobin.total": of the whole.
_PART = re.compile(r"^(.+?)/(?:100 .+|[^/]+\.total|[^/]* predicted)$")


class Axes(NamedTuple):
    """The axes of a test, in LOINC's codes where they are known; "" for what is not stated.

    Attributes:
        component: what is measured, with its challenge: "Glucose^2 hours post 75 g glucose PO".
        time: "Pt" for a single point in time, "24H", ...
        scale: "Qn", "Ord", "Nom", "Nar", ...
    """

    component: str
    property: str = NONE
    time: str = NONE
    system: str = NONE
    scale: str = NONE
    method: str = NONE


class System(NamedTuple):
    """A system: the specimens that contain it, LOINC's names for it, and people's words."""

    within: tuple[str, ...]
    names: tuple[str, ...]
    words: tuple[str, ...]


@functools.cache
def systems() -> Mapping[str, System]:
    """Return the systems by LOINC's code; in their order, the earlier one is the usual specimen of blood."""
    rows = textio.packaged(__package__, "laboratory_systems.tsv")
    return {row["system"]: System(*(_cells(row[name]) for name in System._fields)) for row in rows}


@functools.cache
def wider(system: str) -> frozenset[str]:
    """Return the codes of the systems that contain one."""
    within = systems()[system].within if system in systems() else ()
    return frozenset(within).union(*map(wider, within))


class Property(NamedTuple):
    """A property: LOINC's names for it, and the kinds of the units that it is measured in."""

    names: tuple[str, ...]
    units: tuple[str, ...]


@functools.cache
def properties() -> Mapping[str, Property]:
    """Return the properties by LOINC's code; in their order, the usual one first."""
    rows = textio.packaged(__package__, "laboratory_properties.tsv")
    return {row["property"]: Property(_cells(row["names"]), _cells(row["units"])) for row in rows}


@functools.cache
def _codes() -> Mapping[str, Mapping[str, str]]:
    """Return the codes of properties and of systems by their names and codes, in lower case."""
    return {
        "property": {name.lower(): code for code, one in properties().items() for name in (*one.names[::-1], code)},
        "system": {name.lower(): code for code, one in systems().items() for name in (*one.names, code)},
    }


def code_of(axis: str, name: str) -> str:
    """Return the code of a value of an axis, given its code or LOINC's name; one that is not known stays as it is."""
    return _codes().get(axis, {}).get(name.lower(), name)


def from_name(name: str) -> Axes:
    """Read the axes from LOINC's long common name."""
    rest, _, challenge = name.partition(" --")
    method = _METHOD.search(rest)
    if method:
        rest = rest[: method.start()]
    known, component = NONE, ""
    if found := _PROPERTY.search(rest):
        known, component, rest = code_of("property", found[1]), rest[: found.start()], rest[found.end() :].strip()
    parted = _SYSTEM.match(rest)
    component = component or (parted[1] if parted else rest)
    system = parted[2] if parted else NONE
    time = POINT if system else NONE
    if hours := _HOURS.match(system):
        time, system = f"{hours[1]}H", system[hours.end() :]
    if not known and _PART.match(component):
        known = "NFr" if "/100 " in component else "MFr"
    scale = ORDINAL if known == PRESENCE else NONE
    challenged = f"{component}^{challenge}" if challenge else component
    return Axes(challenged, known, time, code_of("system", system), scale, method[1] if method else NONE)


def numerator(component: str) -> str:
    """Return what is counted or weighed, of a component that is a part of a whole: "Lymphocytes"."""
    found = _PART.match(component)
    return found[1] if found else component


_MULTIPLE = r"(?:da|[kdcmunpf]|mc|milli|micro|nano|pico|kilo)?"
_DIMENSIONS = {
    "mass": rf"{_MULTIPLE}(?:g|gm|gr|gram|grams)",
    "amount": rf"{_MULTIPLE}(?:mol|mole|moles|eq|equiv|val)",
    "osmoles": rf"{_MULTIPLE}(?:osm|osmol|osmole|osmoles)",
    "arbitrary": r"\[?(?:eu|au|arbu|gplu?|mplu?|aplu?|bu|beth\w*)(?:'?u)?\]?",
    "units": rf"{_MULTIPLE}\[?(?:iu|ui|ie|u|unit|units|kat)\]?",
    "pressure": r"mm ?\[?hg\]?|kpa|cm ?\[?h2o\]?|torr",
    "volume": rf"{_MULTIPLE}(?:l|liter|litre|litres|liters)|mm\^?\*?3|cumm|cu mm|cc|cmm",
    "area": r"\[?[hl]p[f_]\]?|[hl]pf|field|(?:sq ?m|m\^?\*?2)|1\.73",
    "time": r"(?:\(?24[ .]?)?(?:h|hr|hrs|hour|hours)\)?|d|days?|s|secs?|seconds?|min|mins|minutes?|ms|wk",
    "length": r"mm|cm|um|m",
    "temperature": r"°? ?[cf]|cel|deg ?[cf]|\[degf\]",
    "percent": r"%|percent|prozent|pour cent|per cent|percento|por ciento",
    "ratio": r"ratio|rto|\{ratio\}|index|inr",
    "qualitative": r"qual|qualitative|pos/neg|positive/negative|\+/-",
    "interpretation": r"interpretation",
    "titer": r"titer|titre|\{titer\}|1:\{?.*",
    "number": r"|#|k|x?e?(?:10(?:\*|\^|e| )?\d+)|x?10e?\d+|thou|thousand|mil|mill|million|cells?|copies|"
    r"cop|cfu|count|bodies|genomes?",
}
_DIMENSION = [(name, re.compile(pattern)) for name, pattern in _DIMENSIONS.items()]
_BODY_SURFACE = re.compile(r"\{?1[.,]73[^}]*\}?")
_LOG = re.compile(r"^(?:log ?(?:10)?|lg|\[?log\]?) ?[({]?")
_NOTE = re.compile(r"\{[^{}]*\}|\s+(?:feu|ddu|hb|hgb|protein|creat\w*|wbc|dna|rna|ce|cells?|bodies|copies)$")
_DAY = re.compile(r"^\(?24[ .]?(?:h|hr|hrs|hours?)\)?$|^(?:1 )?(?:d|day)$")


class Unit(NamedTuple):
    """The properties that a unit of measure can be of, and the time over which it measures ("" if it does not tell)."""

    properties: frozenset[str]
    time: str


@functools.lru_cache(maxsize=4_096)
def read_unit(unit: str) -> Unit:
    """Read a unit of measure as people write it: "mg/dL", "10*3/uL", "mg/24hr"; of no property if it is not known."""
    kinds = {*filter(None, map(kind_of_unit, unit.split("|")))}
    found = frozenset(code for code, one in properties().items() if not kinds.isdisjoint(one.units))
    is_day = bool(found) and any(_DAY.match(part.strip()) for part in unit.lower().split("/")[1:])
    return Unit(found, "24H" if is_day else NONE)


def kind_of_unit(unit: str) -> str:
    """Return the dimensions of a unit, "mass/volume"; "" if they are not known."""
    text = unit.lower().strip().replace("µ", "u").replace("μ", "u").replace("**", "^").replace("·", "*")
    if not text:
        return ""
    text = _BODY_SURFACE.sub("1.73", text)
    log = _LOG.match(text)
    text = text[log.end() :].rstrip(")}") if log else text
    parts = [_NOTE.sub("", f" {part.strip()}" if part.strip() else "").strip() for part in text.split("/")]
    named = [_dimension(part, "/".join(parts[place:])) for place, part in enumerate(parts)]
    if not all(named) or (len(parts) == 1 and not parts[0]):
        return ""
    return ("log " if log else "") + "/".join(str(name) for name in named)


def _dimension(part: str, rest: str) -> str | None:
    # Millions, and the trillions of red cells.
    if part in ("m", "t") and "/" in rest:
        return "number"
    return next((name for name, pattern in _DIMENSION if pattern.fullmatch(part)), None)


def _cells(cell: str) -> tuple[str, ...]:
    return tuple(filter(None, cell.split("|")))
