"""Labels of laboratory tests, read by LOINC's axes: "Creatinine" in serum, in umol/L, is a molar concentration.

A local list of tests has a label, a specimen and a unit. The label names the component, and often more ("Sodium,
Urine", "Lymphs#"); the specimen tells the system; the unit tells the property. `with_measurement` adds the latter two
to the label, "Creatinine [Serum; umol/L]", and so every interface takes them.

If the index has tests of the component, the label is read as the name of the test that agrees with the specimen and the
unit. Of several, the one that is most common by LOINC's rank, or else by custom: in serum or plasma before blood,
without a method, with the shortest name. It goes to review if specimen or unit do not decide.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import textio
from alphita.index.laboratory import is_there
from alphita.mention.laboratory import analytes
from alphita.mention.spelling import ABBREVIATION, Reading
from alphita.terminology import laboratory
from alphita.terminology.laboratory import POINT, PRESENCE, Axes
from alphita.terminology.rules.lexicon import REMEMBERED
from alphita.terminology.text import clean

ORIGIN = "laboratory test"
USUAL = "usual test: specimen and unit do not decide between several"
OF_BLOOD = "usual test: in blood or in serum or plasma"
WIDER = "specimen: the test is of a wider one"
NO_TEST = "no laboratory test"
_MEASURED = re.compile(r"^(.*\S) \[([^\[\]]+)\]$", re.DOTALL)
_SEPARATOR = "; "
_WORD = re.compile(r"[^\W_]+")
_BRACKETS = re.compile(r" ?\[([^\[\]]+)\]")
_PARENTHESES = re.compile(r" ?\(([^()]*)\)")
_HOURS = re.compile(r"\b(\d+) ?(?:h|hr|hrs|hour|hours|stunden|std|heures|ore|horas)\b")
# Words of a label, or a mark at its end, that tell the property as a unit does; what they mean, as a unit.
_SIGNALS = (
    (re.compile(r" ?#$|\b(?:absolute|abs|absolut|absolu|assoluti|absoluto)\b"), "#/ul"),
    (re.compile(r"^%|%$|\b(?:percent|percentage|pct)\b"), "%"),
    (re.compile(r"\bratio\b"), "ratio"),
    (re.compile(r"\btit(?:er|re)\b"), "titer"),
    (re.compile(r"\b(?:interpretation|interp|interpreted)\b"), "interpretation"),
    (re.compile(r"\b(?:screen|qualitative|qual)\b"), "qualitative"),
)
_SILENT = re.compile(r"\b(?:measured|random|spot)\b")
# Words of a label that tell a method, and how LOINC names it.
_METHODS = (
    (
        re.compile(r"\b(?:calculated|calc|estimated|berechnet|calculé|calcolato|calculado)\b"),
        ("calculation", "estimated"),
    ),
    (re.compile(r"\b(?:automated|auto|automatisch)\b"), ("automated count",)),
    (re.compile(r"\b(?:manual|manuell)\b"), ("manual count",)),
    (re.compile(r"\b(?:dipstick|test strip|strip)\b"), ("test strip",)),
)
ANY_BLOOD, BLOOD = "Any blood", "Bld"
# Systems that "blood" or "urine" mean.
_MEANT = frozenset(("Ser/Plas", "Ser", "Plas", "PPP", "Ser/Plas/Bld", "Bld", "Urine sed"))
# Properties whose values are words, which are less usual than numbers.
COMMENTS = ("Imp", "ID", "Type", "Find", "Prid", "Titr")
PART = "LOINC:LP"
# "Iron" is a test, if most concepts that are no parts of tests are tests.
MAIN_SHARE = 0.5
MAX_READINGS = 3
MAX_LOST = 99
NO_UNIT = ("n/a", "none", "no unit", "unitless")


class Measurement(NamedTuple):
    """What a row says about its test.

    Attributes:
        system: LOINC's code of the specimen; "" if it is not given.
        properties: those of the unit; empty if it is not given.
        time: "24H", ...; "" if it is not given.
        methods: the beginnings of LOINC's names for the method, in lower case; empty if it is not given.
        is_unitless: whether the values are said to have no unit.
        usual: the concepts of the component's tests that agree, rows of the index, the usual one first.
    """

    system: str = ""
    properties: frozenset[str] = frozenset()
    time: str = ""
    methods: tuple[str, ...] = ()
    is_unitless: bool = False
    usual: tuple[int, ...] = ()

    @property
    def is_given(self) -> bool:
        """Whether the row tells an axis."""
        return bool(self.system or self.properties or self.time)

    def place(self, concept: int) -> int:
        """Return how many tests are more usual than a concept; all of them, if it is none of the component."""
        return self.usual.index(concept) if concept in self.usual else len(self.usual)

    def conflicts(self, axes: Axes) -> tuple[str, ...]:
        """Return the axes of a test that disagree with the row, in words."""
        found = []
        if self.system and _distance(self.system, axes.system) is None:
            found.append(f"specimen: {_named(self.system)}, not {_named(axes.system)}")
        is_other = axes.property in _PROPERTIES and axes.property not in self.properties
        is_ordinal = axes.scale == laboratory.ORDINAL and PRESENCE not in self.properties
        if self.properties and (is_other or is_ordinal):
            found.append(f"unit: of {_property(min(self.properties))}, not {_property(axes.property)}")
        if self.time and axes.time not in ("", self.time):
            found.append(f"time: {self.time}, not {axes.time}")
        return tuple(found)


class Usual(NamedTuple):
    """The usual system and method of an analyte, and the property that its name tells."""

    system: str = ""
    method: str = ""
    property: str = ""


class LabelReading(NamedTuple):
    """The result of reading a label.

    Attributes:
        readings: names of tests, the usual one first; or the label, written as LOINC writes names.
        doubt: why the first is not accepted, "" if it is.
    """

    said: Measurement
    readings: tuple[Reading, ...] = ()
    doubt: str = ""


def with_measurement(mention: str, specimen: str | None, unit: str | None) -> str:
    """Return a label with its specimen and unit, as far as they are known: "Creatinine [Serum; umol/L]"."""
    known = [specimen.strip()] if specimen and system_of(specimen) else []
    known += [unit.strip()] if unit and is_unit(unit) else []
    return f"{mention} [{_SEPARATOR.join(known)}]" if known and mention.strip() else mention


def is_unitless(unit: str) -> bool:
    """Tell whether a unit says that there is none, as of a test with words as values."""
    return unit.strip().lower() in NO_UNIT


def is_unit(text: str) -> bool:
    """Tell whether a text is a known unit, or says that there is none."""
    return bool(laboratory.read_unit(text).properties) or is_unitless(text)


def parted(mention: str) -> tuple[str, str, str]:
    """Return the label, the specimen and the unit that `with_measurement` joined; "" for what is not there."""
    found = _MEASURED.match(mention) if mention.endswith("]") else None
    if found is None:
        return mention, "", ""
    specimen = unit = ""
    for part in found[2].split(_SEPARATOR):
        if system_of(part):
            specimen = part
        elif is_unit(part):
            unit = part
        else:
            return mention, "", ""
    return found[1], specimen, unit


class LaboratoryTests:
    """Reads labels by the tests of one index."""

    def __init__(self, concepts: pa.Table) -> None:
        """Collect the tests of an index; `concepts` is its table of concepts."""
        self._ids = concepts.column("id")
        self._rows: NDArray[np.int64] = np.zeros(0, np.int64)
        if is_there(concepts):
            self._rows = np.flatnonzero(concepts.column("component").is_valid().to_numpy())
        tests = concepts.take(pa.array(self._rows)) if len(self._rows) else None
        names = (*Axes._fields, "name", "test_rank")
        self._tests = {} if tests is None else {name: tests.column(name).to_pylist() for name in names}
        self._place = np.full(len(concepts), -1, np.int64)
        self._place[self._rows] = np.arange(len(self._rows))
        n_parts = pc.sum(pc.starts_with(self._ids, PART)).as_py() or 0
        self._are_most = len(self._rows) >= MAIN_SHARE * (len(concepts) - n_parts)

    def __bool__(self) -> bool:
        return len(self._rows) > 0

    def is_part(self, concept: int) -> bool:
        """Tell whether a concept is a part of which LOINC makes tests, such as a component."""
        return self._place[concept] < 0 and self._ids[concept].as_py().startswith(PART)

    def axes(self, concept: int) -> Axes | None:
        """Return the axes of a concept; None if it is no test."""
        place = self._place[concept]
        return self._axes(place) if place >= 0 else None

    def _axes(self, place: int) -> Axes:
        return Axes(*(self._tests[name][place] or "" for name in Axes._fields))

    def read(self, label: str, specimen: str, unit: str) -> LabelReading:
        """Read a label with its specimen and unit; without these, only if most concepts of the index are tests."""
        if not (specimen or unit or self._are_most):
            return LabelReading(Measurement())
        words = clean(label)
        said, core = _said(words, specimen, unit)
        # "Plasma cells" names no specimen.
        for name, measured in ((words, said._replace(system=system_of(specimen))), (core, said)):
            if places := self._named(name):
                return self._chosen(places, measured, _usual(name))
        if not said.is_given:
            return LabelReading(said)
        written = clean(_written(core, said))
        return LabelReading(said, (Reading(written, ABBREVIATION, False, 1.0, ORIGIN),))

    def _named(self, label: str) -> dict[int, int]:
        """Return the tests whose component has this name, each with how much is left out to make them equal."""
        bare = _PARENTHESES.sub("", label).strip()
        inner = _PARENTHESES.findall(label)
        found: dict[int, int] = {}
        for lost, name in enumerate(dict.fromkeys(filter(None, (label, bare, *inner)))):
            for other in (name, *_synonyms().get(_key(name), ())):
                for left_out, key in enumerate((_key(other), _core(other))):
                    for place, more in self._components.get(key, ()) if key else ():
                        found[place] = min(found.get(place, MAX_LOST), 2 * lost + left_out + more)
        return found

    @functools.cached_property
    def _components(self) -> Mapping[frozenset[str], list[tuple[int, int]]]:
        """The tests by the words of their component, each with how much of it is left out."""
        found: dict[frozenset[str], dict[int, int]] = {}
        for place, (component, name) in enumerate(zip(self._tests["component"], self._tests["name"], strict=True)):
            for whole in dict.fromkeys((component, laboratory.from_name(name).component)):
                part = laboratory.numerator(whole)
                bare = _PARENTHESES.sub("", part)
                for left_out, key in enumerate((_key(whole), _key(part), _key(bare), _core(bare))):
                    found.setdefault(key, {}).setdefault(place, left_out // 3)
        return {key: list(some.items()) for key, some in found.items()}

    def _chosen(self, places: Mapping[int, int], said: Measurement, usual: Usual) -> LabelReading:
        """Return the names of the tests that agree most with a row, the usual one first."""
        if usual.property and not said.properties:
            said = said._replace(properties=frozenset([usual.property]))
        every = {place: self._axes(place) for place in places}
        conflicts = {place: len(said.conflicts(axes)) for place, axes in every.items()}
        # If none agrees, those that agree most are for review.
        found = {place: axes for place, axes in every.items() if conflicts[place] == min(conflicts.values())}
        # By what decides, then by custom.
        decided = {
            place: (
                _distance(said.system or usual.system, axes.system) or 0,
                axes.time not in ("", POINT, said.time),
                places[place],
                bool(said.methods) and not axes.method.lower().startswith(said.methods),
                said.is_unitless and axes.property != PRESENCE,
            )
            for place, axes in found.items()
        }
        order = sorted(found, key=lambda place: (decided[place], self._custom(place, said, usual)))
        first = found[order[0]]
        rivals = [found[place] for place in order[1:] if decided[place] == decided[order[0]]]
        doubt = _doubt(said, usual, first, rivals)
        order = order[:MAX_READINGS]
        said = said._replace(usual=tuple(self._rows[order].tolist()))
        names = [clean(self._tests["name"][place]) for place in order]
        readings = [Reading(name, ABBREVIATION, not place, 1 / (1 + place), ORIGIN) for place, name in enumerate(names)]
        return LabelReading(said, tuple(readings), doubt)

    def _custom(self, place: int, said: Measurement, usual: Usual) -> tuple[object, ...]:
        """Return what orders tests that agree with a row, the usual one first."""
        axes, rank, name = self._axes(place), self._tests["test_rank"][place], self._tests["name"][place]
        is_part_of_blood = said.system.startswith(BLOOD) and said.system != BLOOD
        return (
            is_part_of_blood and axes.system != said.system,
            rank is None,
            rank or 0,
            bool(said.properties) and axes.property not in said.properties,
            _PROPERTIES.get(axes.property, 0) if said.properties else axes.property in COMMENTS,
            axes.method != usual.method,
            bool(usual.system) and axes.system != usual.system,
            _SYSTEMS.get(axes.system, len(_SYSTEMS)),
            len(name),
            name,
        )


def _doubt(said: Measurement, usual: Usual, first: Axes, rivals: Sequence[Axes]) -> str:
    """Return why the usual one of several tests is not accepted, "" if it is."""
    if said.methods and not first.method.lower().startswith(said.methods):
        return USUAL
    if _distance(said.system, first.system):
        return WIDER
    if first.method and not said.methods and first.method != usual.method and rivals:
        return USUAL
    others = [axes._replace(method=first.method, scale=first.scale) for axes in rivals]
    if all(axes == first for axes in others):
        return ""
    of_blood = all(axes._replace(system=first.system) == first for axes in others)
    return OF_BLOOD if of_blood and said.system == ANY_BLOOD else USUAL


@functools.cache
def _specimens() -> Mapping[str, str]:
    """Return the system of each word for a specimen, cleaned."""
    every = [*laboratory.systems().items()]
    found = {clean(name): code for code, one in reversed(every) for name in (*one.names, code)}
    # A person who writes "blood" may mean serum.
    return found | {clean(word): code for code, one in every for word in one.words}


# The usual one first, among those that a unit can be of.
_PROPERTIES = {code: place for place, code in enumerate(laboratory.properties())}
_SYSTEMS = {code: place for place, code in enumerate(laboratory.systems())}


@functools.lru_cache(maxsize=REMEMBERED)
def system_of(specimen: str) -> str:
    """Return LOINC's code of a specimen in people's words, "" if it is not known."""
    known, text = _specimens(), clean(specimen)
    return known.get(text) or known.get(_without(_HOURS, text), "")


@functools.cache
def _specimen_pattern() -> re.Pattern[str]:
    every = (clean(word) for system in laboratory.systems().values() for word in system.words)
    words = sorted(every, key=len, reverse=True)
    return re.compile(rf"[,(-]? ?\b(?:in |of )?(?P<words>{'|'.join(map(re.escape, words))})\b\)?,? ?")


@functools.lru_cache(maxsize=REMEMBERED)
def _distance(said: str, system: str) -> int | None:
    """Return how far a system is from the one that was said: 0 if it is meant; None if they exclude each other."""
    if not said or not system or said == system:
        return 0
    if system not in laboratory.systems():
        return 2
    within, around = laboratory.wider(system), laboratory.wider(said)
    if said in within:
        return 0 if system in _MEANT else 1
    if system in around:
        return 0 if system in _MEANT else 2 if system == "XXX" else 1
    is_shared = any({said, system} <= {code, *laboratory.wider(code)} for code in laboratory.systems())
    return 1 if is_shared else None


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Return a text without what matches, unless nothing else is in it."""
    return pattern.sub(" ", text).strip(" ,") or text


def _said(label: str, specimen: str, unit: str) -> tuple[Measurement, str]:
    """Return what a cleaned label, its specimen and its unit say, and what is left of the label: the component."""
    known, time = laboratory.read_unit(unit)
    core = label
    if (named := _BRACKETS.search(core)) and (code := laboratory.code_of("property", named[1])) in _PROPERTIES:
        core, known = _BRACKETS.sub("", core, 1), known or frozenset([code])
    for pattern, meant in _SIGNALS:
        if (left := _without(pattern, core)) != core:
            core, known = left, known or laboratory.read_unit(meant).properties
    methods: tuple[str, ...] = ()
    for pattern, names in _METHODS:
        if (left := _without(pattern, core)) != core:
            core, methods = left, (*methods, *names)
    if (hours := _HOURS.search(core)) and (left := _without(_HOURS, core)) != core:
        core, time = left, f"{hours[1]}H"
    if (hours := _HOURS.search(clean(specimen))) and not time:
        time = f"{hours[1]}H"
    core = _without(_SILENT, core)
    system = system_of(specimen)
    for found in reversed([*_specimen_pattern().finditer(core)]):
        left = f"{core[: found.start()]} {core[found.end() :]}".strip(" ,")
        if left:
            own, core = _specimens()[found["words"]], left
            system = system if own in laboratory.wider(system) else own
            break
    return Measurement(system, known, time, methods, is_unitless(unit)), " ".join(core.split())


def _key(name: str) -> frozenset[str]:
    """Return the words of a name, in any order, without plural."""
    words = _WORD.findall(name.lower())
    return frozenset(_word(other) for word in words for other in _words().get(word, [word]))


def _core(name: str) -> frozenset[str]:
    """Return the same without words that add nothing: "total", "cells"."""
    return _key(name) - _fillers()


@functools.lru_cache(maxsize=REMEMBERED)
def _word(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "siu" else word


def _table(kind: str) -> Iterator[dict[str, str]]:
    return (row for row in textio.packaged(__package__, "laboratory_tests.tsv") if row["kind"] == kind)


@functools.cache
def _words() -> Mapping[str, list[str]]:
    return {name: row["value"].split() for row in _table("word") for name in row["names"].split("|")}


@functools.cache
def _fillers() -> frozenset[str]:
    return frozenset(_word(name) for row in _table("filler") for name in row["names"].split("|"))


@functools.cache
def _synonyms() -> Mapping[frozenset[str], tuple[str, ...]]:
    """Return the other names of an analyte by the words of each."""
    groups = [(row["value"], *row["names"].split("|")) for row in _table("component")]
    groups += [analyte.names for analyte in analytes()]
    found: dict[frozenset[str], dict[str, None]] = {}
    for names in groups:
        for name in names:
            found.setdefault(_key(name), {}).update(dict.fromkeys(names))
    return {key: tuple(names) for key, names in found.items()}


def _usual(label: str) -> Usual:
    return _customs().get(_key(label)) or _customs().get(_core(label)) or Usual()


@functools.cache
def _customs() -> Mapping[frozenset[str], Usual]:
    found = {}
    for row in _table("component"):
        for place, name in enumerate((row["value"], *row["names"].split("|"))):
            # "pCO2" is a pressure, "carbon dioxide" need not be.
            found[_key(name)] = Usual(row["system"], row["method"], row["property"] if place else "")
    return found


def _named(system: str) -> str:
    one = laboratory.systems().get(system)
    return (one.names or one.words)[0] if one else system or "unknown"


def _property(code: str) -> str:
    return next(iter(laboratory.properties()[code].names), code) if code in _PROPERTIES else code


def _written(core: str, said: Measurement) -> str:
    """Return a label as LOINC writes names."""
    core = " ".join(other for word in core.split() for other in _words().get(word, [word]))
    known = next((code for code in _PROPERTIES if code in said.properties), "")
    shown = f"{core} [{_property(known)}]" if known else core
    return f"{shown} in {_named(said.system)}" if said.system else shown
