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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import textio
from alphita.index.laboratory import is_there
from alphita.mention.laboratory import analytes
from alphita.mention.spelling import ABBREVIATION, Reading
from alphita.terminology import laboratory
from alphita.terminology.laboratory import POINT, PRESENCE, TestAxes
from alphita.terminology.text import clean

ORIGIN = "laboratory test"
USUAL = "usual test: specimen or unit do not decide between several"
NO_TEST = "no laboratory test"
SEVERAL_METHODS = "usual test: others differ only in their method"
_MEASURED = re.compile(r"^(.*\S) \[([^\[\]]+)\]$", re.DOTALL)
_SEPARATOR = "; "
_WORD = re.compile(r"[^\W_]+")
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
    (re.compile(r"\b(?:calculated|calc|estimated|berechnet|calculé|calcolato|calculado)\b"), ("calculation", "estimated")),
    (re.compile(r"\b(?:automated|auto|automatisch)\b"), ("automated count",)),
    (re.compile(r"\b(?:manual|manuell)\b"), ("manual count",)),
    (re.compile(r"\b(?:dipstick|test strip|strip)\b"), ("test strip",)),
)
# Systems that "blood" or "urine" mean.
_MEANT = frozenset(("Ser/Plas", "Ser", "Plas", "PPP", "Ser/Plas/Bld", "Bld", "Urine sed"))
MAX_READINGS = 3
MAX_LOST = 99


class Test(NamedTuple):
    """What a row says about its test.

    Attributes:
        system: LOINC's code of the specimen; "" if it is not given.
        properties: those of the unit; empty if it is not given.
        time: "24H", ...; "" if it is not given.
        methods: the beginnings of LOINC's names for the method, in lower case; empty if it is not given.
    """

    system: str = ""
    properties: frozenset[str] = frozenset()
    time: str = ""
    methods: tuple[str, ...] = ()

    def conflicts(self, axes: TestAxes) -> tuple[str, ...]:
        """Return the axes of a test that disagree with the row, in words."""
        found = []
        if self.system and _distance(self.system, axes.system) is None:
            found.append(f"specimen: {_named(self.system)}, not {_named(axes.system)}")
        is_other = axes.property in laboratory.properties() and axes.property not in self.properties
        is_ordinal = axes.scale == laboratory.ORDINAL and PRESENCE not in self.properties
        if self.properties and (is_other or is_ordinal):
            found.append(f"unit: of {_property(min(self.properties))}, not {_property(axes.property)}")
        if self.time and axes.time not in ("", self.time):
            found.append(f"time: {self.time}, not {axes.time}")
        return tuple(found)


class Reader(NamedTuple):
    """The result of reading a label: other names for it, and why the first is not accepted ("" if it is)."""

    test: Test
    readings: tuple[Reading, ...]
    doubt: str


def with_measurement(mention: str, specimen: str | None, unit: str | None) -> str:
    """Return a label with its specimen and unit, as far as they are known: "Creatinine [Serum; umol/L]"."""
    known = [specimen.strip()] if specimen and system_of(specimen) else []
    known += [unit.strip()] if unit and laboratory.read_unit(unit) else []
    return f"{mention} [{_SEPARATOR.join(known)}]" if known and mention.strip() else mention


def parted(mention: str) -> tuple[str, str, str]:
    """Return the label, the specimen and the unit that `with_measurement` joined; "" for what is not there."""
    found = _MEASURED.match(mention) if mention.endswith("]") else None
    if found is None:
        return mention, "", ""
    specimen = unit = ""
    for part in found[2].split(_SEPARATOR):
        if system_of(part):
            specimen = part
        elif laboratory.read_unit(part):
            unit = part
        else:
            return mention, "", ""
    return found[1], specimen, unit


class LaboratoryTests:
    """Reads labels by the tests of one index."""

    def __init__(self, concepts: pa.Table) -> None:
        """Collect the tests of an index; `concepts` is its table of concepts."""
        self._rows: NDArray[np.int64] = np.zeros(0, np.int64)
        if is_there(concepts):
            self._rows = np.flatnonzero(concepts.column("component").is_valid().to_numpy())
        tests = concepts.take(pa.array(self._rows)) if len(self._rows) else None
        names = (*TestAxes._fields, "name", "test_rank", "test_units")
        self._tests = {} if tests is None else {name: tests.column(name).to_pylist() for name in names}
        self._place = np.full(len(concepts), -1, np.int64)
        self._place[self._rows] = np.arange(len(self._rows))

    def __bool__(self) -> bool:
        return len(self._rows) > 0

    def axes(self, concept: int) -> TestAxes | None:
        """Return the axes of a concept; None if it is no test."""
        place = self._place[concept]
        return self._axes(place) if place >= 0 else None

    def _axes(self, place: int) -> TestAxes:
        return TestAxes(*(self._tests[name][place] or "" for name in TestAxes._fields))

    def read(self, label: str, specimen: str, unit: str) -> Reader:
        """Read a label with its specimen and unit."""
        words = clean(label)
        said, core = _said(words, specimen, unit)
        # "Plasma cells" names no specimen.
        for whole, test in ((words, Test(system_of(specimen), *_of_unit(unit))), (core, said)):
            if places := self._named(whole):
                return self._chosen(places, test, said, _usual(whole))
        if not (said.system or said.properties):
            return Reader(said, (), "")
        written = clean(_written(core, said))
        return Reader(said, (Reading(written, ABBREVIATION, False, 1.0, ORIGIN),), "")

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

    def _chosen(self, places: Mapping[int, int], test: Test, said: Test, usual: tuple[str, str, str]) -> Reader:
        """Return the names of the tests that agree with a row, the usual one first."""
        system, method, known = usual
        if known and not test.properties:
            test = test._replace(properties=frozenset([known]))
        test = test._replace(properties=test.properties or said.properties, time=test.time or said.time)
        test = test._replace(system=test.system or said.system, methods=said.methods)
        agreeing = [(place, left_out) for place, left_out in places.items() if not test.conflicts(self._axes(place))]

        def order(found: tuple[int, int]) -> tuple[object, ...]:
            place, left_out = found
            axes = self._axes(place)
            rank = self._tests["test_rank"][place]
            wanted = test.system or system
            return (
                _distance(wanted, axes.system) or 0,
                axes.time not in ("", POINT, test.time),
                left_out,
                bool(test.methods) and not axes.method.lower().startswith(test.methods),
                rank is None,
                rank or 0,
                bool(test.properties) and axes.property not in test.properties,
                axes.property == PRESENCE,
                axes.method not in ("", method) if axes.method or not method else 1,
                axes.system != system if system else False,
                _SYSTEMS.get(axes.system, len(_SYSTEMS)),
                len(self._tests["name"][place]),
                place,
            )

        agreeing.sort(key=order)
        if not agreeing:
            return Reader(test, (), "")
        first = self._axes(agreeing[0][0])
        doubt = ""
        rivals = [self._axes(place) for place, _ in agreeing[1:] if order((place, _))[:3] <= order(agreeing[0])[:3]]
        if any((one.property, one.system, one.time) != (first.property, first.system, first.time) for one in rivals):
            doubt = USUAL
        is_decided = test.properties and _distance(test.system, first.system) == 0 and test.system
        if not is_decided or (test.methods and not first.method.lower().startswith(test.methods)):
            doubt = USUAL
        names = [clean(self._tests["name"][place]) for place, _ in agreeing[:MAX_READINGS]]
        readings = [Reading(name, ABBREVIATION, not place, 1 / (1 + place), ORIGIN) for place, name in enumerate(names)]
        return Reader(test, tuple(readings), doubt)


@functools.cache
def _specimens() -> Mapping[str, str]:
    """Return the system of each word for a specimen, cleaned."""
    found: dict[str, str] = {}
    for code, one in laboratory.systems().items():
        for word in (*one.words, code.lower(), *one.names):
            found.setdefault(clean(word), code)
    # A person who writes "blood" may mean serum.
    return found | {clean(word): code for code, one in laboratory.systems().items() for word in one.words}


_SYSTEMS = {code: place for place, code in enumerate(laboratory.systems())}


@functools.lru_cache(maxsize=4_096)
def system_of(specimen: str) -> str:
    """Return LOINC's code of a specimen in people's words, "" if it is not known."""
    return _specimens().get(clean(specimen), "")


@functools.cache
def _specimen_pattern() -> re.Pattern[str]:
    every = (clean(word) for system in laboratory.systems().values() for word in system.words)
    words = sorted(every, key=len, reverse=True)
    return re.compile(rf"[,(-]? ?\b(?:in |of )?(?P<words>{'|'.join(map(re.escape, words))})\b\)?,? ?")


def _distance(said: str, system: str) -> int | None:
    """Return how far a test's system is from the one that was said: 0 if it is meant; None if they exclude each other."""
    if not said or said == system:
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


def _of_unit(unit: str) -> tuple[frozenset[str], str]:
    found = laboratory.read_unit(unit) if unit else None
    return (found.properties, found.time) if found else (frozenset(), "")


def _said(label: str, specimen: str, unit: str) -> tuple[Test, str]:
    """Return what a cleaned label, its specimen and its unit say, and what is left of the label: the component."""
    known, time = _of_unit(unit)
    core = label
    for pattern, meant in _SIGNALS:
        if (left := pattern.sub(" ", core).strip(" ,")) and left != core:
            core, known = left, known or _of_unit(meant)[0]
    methods: tuple[str, ...] = ()
    for pattern, names in _METHODS:
        if (left := pattern.sub(" ", core).strip(" ,")) and left != core:
            core, methods = left, (*methods, *names)
    if (hours := _HOURS.search(core)) and (left := _HOURS.sub(" ", core).strip(" ,")):
        core, time = left, f"{hours[1]}H"
    core = _SILENT.sub(" ", core).strip(" ,") or core
    system = system_of(specimen)
    for found in _specimen_pattern().finditer(core):
        left = f"{core[: found.start()]} {core[found.end() :]}".strip(" ,")
        if left:
            own = _specimens()[found["words"]]
            system = system if system and own in laboratory.wider(system) else own
            system = system if not specimen or own not in laboratory.wider(system_of(specimen)) else system_of(specimen)
            core = left
            break
    return Test(system, known, time, methods), " ".join(core.split())


def _key(name: str) -> frozenset[str]:
    """Return the words of a name, in any order, without plural."""
    words = _WORD.findall(name.lower())
    return frozenset(_word(other) for word in words for other in _words().get(word, [word]))


def _core(name: str) -> frozenset[str]:
    """Return the same without words that add nothing: "total", "cells"."""
    return _key(name) - _fillers()


@functools.lru_cache(maxsize=65_536)
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


def _usual(label: str) -> tuple[str, str, str]:
    """Return the usual system and method of an analyte, and the property that its name tells."""
    return _customs().get(_key(label)) or _customs().get(_core(label)) or ("", "", "")


@functools.cache
def _customs() -> Mapping[frozenset[str], tuple[str, str, str]]:
    found = {}
    for row in _table("component"):
        for place, name in enumerate((row["value"], *row["names"].split("|"))):
            # "pCO2" is a pressure, "carbon dioxide" need not be.
            found[_key(name)] = row["system"], row["method"], row["property"] if place else ""
    return found


def _named(system: str) -> str:
    one = laboratory.systems().get(system)
    return (one.names or one.words)[0] if one else system or "unknown"


def _property(code: str) -> str:
    return (laboratory.properties().get(code) or (code,))[0]


def _written(core: str, test: Test) -> str:
    """Return a label as LOINC writes names."""
    core = " ".join(other for word in core.split() for other in _words().get(word, [word]))
    known = next((code for code in laboratory.properties() if code in test.properties), "")
    shown = f"{core} [{_property(known)}]" if known else core
    return f"{shown} in {_named(test.system)}" if test.system else shown
