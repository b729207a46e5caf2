"""Numbers and units of measure as people write them, in exact fractions of one unit a dimension."""

from __future__ import annotations

import re
import zlib
from fractions import Fraction

PLAIN, MASS, VOLUME, UNITS, AMOUNT, CLOCK, CALENDAR, LENGTH, PERCENT, TEMPERATURE, PRESSURE, DOSE = range(1, 13)
# Factor to milligram, millilitre, international unit, millimole, second, month, millimetre, per cent, °C, mmHg, dose.
# Months and years are no number of days, so days and years are not compared.
_UNITS: dict[tuple[int, str], str] = {
    (MASS, "1"): "mg|milligram|milligrams|milligramm|milligrammi|milligramme|milligrammes|miligramos",
    (MASS, "1/1000"): "μg|µg|ug|mcg|microgram|micrograms|mikrogramm|microgrammi|microgrammes|microgramos",
    (MASS, "1/1000000"): "ng|nanogram|nanograms|nanogramm",
    (MASS, "1000"): "g|gr|gm|gram|grams|gramm|grammo|grammi|gramme|grammes|gramo|gramos",
    (MASS, "1000000"): "kg|kilogram|kilograms|kilogramm|chilogrammi|kilogrammes|kilogramos",
    (VOLUME, "1"): "ml|cc|millilitre|millilitres|milliliter|milliliters|millilitri|mililitros",
    (VOLUME, "1/1000"): "μl|µl|ul|microliter|microliters",
    (VOLUME, "10"): "cl",
    (VOLUME, "100"): "dl",
    (VOLUME, "1000"): "l|litre|litres|liter|liters|litri|litros",
    (UNITS, "1"): "iu|ui|ie|i.u.|u.i.|i.e.|units|unit|u|einheiten|unità|unidades|unités",
    (AMOUNT, "1"): "mmol|millimol|millimole|millimoles",
    (AMOUNT, "1000"): "mol|mole|moles",
    (AMOUNT, "1/1000"): "μmol|µmol|umol|micromol|micromole|micromoles",
    (AMOUNT, "1/1000000"): "nmol",
    (CLOCK, "1"): "s|sec|secs|second|seconds|sekunden|secondi|secondes|segundos",
    (CLOCK, "60"): "min|mins|minute|minutes|minuten|minuti|minutos",
    (CLOCK, "3600"): "h|hr|hrs|hour|hours|stunde|stunden|ora|ore|heure|heures|hora|horas|小时",
    (CLOCK, "86400"): "d|day|days|tag|tage|tagen|giorno|giorni|jour|jours|día|días|dia|dias|天",
    (CLOCK, "604800"): "wk|wks|week|weeks|woche|wochen|settimana|settimane|semaine|semaines|semana|semanas|周",
    (CALENDAR, "1"): "mo|month|months|monat|monate|monaten|mese|mesi|mois|mes|meses|个月",
    (CALENDAR, "12"): "y|yr|yrs|year|years|yo|jahr|jahre|jahren|anno|anni|an|ans|año|años|岁|年",
    (LENGTH, "1"): "mm|millimetre|millimetres|millimeter|millimeters|millimetri|milímetros",
    (LENGTH, "10"): "cm|centimetre|centimetres|centimeter|centimeters|centimetri|centímetros",
    (LENGTH, "1/1000"): "μm|µm|um|micron|microns",
    (LENGTH, "1/1000000"): "nm",
    (LENGTH, "127/5"): "inch|inches",
    (PERCENT, "1"): "%|percent|per cent|prozent|percento|per cento|pour cent|por ciento",
    (TEMPERATURE, "1"): "°c|° c|degrees celsius|grad celsius",
    (TEMPERATURE, "5/9"): "°f|° f|degrees fahrenheit",
    (PRESSURE, "1"): "mmhg|mm hg",
    (DOSE, "1"): "dose|doses|actuation|actuations|puff|puffs|spray|sprays|hub|dosis|erogazione|bouffée|aplicación",
}
UNITS_OF_MEASURE = {
    name: (dimension, Fraction(factor)) for (dimension, factor), names in _UNITS.items() for name in names.split("|")
}
NAMES = "|".join(re.escape(name) for name in sorted(UNITS_OF_MEASURE, key=lambda name: (-len(name), name)))
# (?>(...)*), not (...)*+: of groups Python up to 3.11.4 matches too much, the "5." of "5. mg" (python/cpython#106052).
NUMBER = r"\d++(?>(?:[.,]\d++)*)|[.,]\d++"
_ENGLISH_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_OTHER_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:(?:\.\d{3}){2,}(?:,\d+)?|(?:\.\d{3})+,\d+)")


def fraction(digits: str) -> Fraction | None:
    """Read a number exactly; None if it is none ("1.2.3")."""
    if _ENGLISH_THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    elif _OTHER_THOUSANDS.fullmatch(digits):
        digits = digits.replace(".", "")
    digits = digits.replace(",", ".")
    if digits.count(".") > 1 or len(digits) > 30:
        return None
    return Fraction(digits)


def in_base_unit(number: Fraction, unit: str) -> tuple[int, Fraction]:
    """Return the dimension of a unit and the number in that dimension's unit."""
    dimension, factor = UNITS_OF_MEASURE[unit]
    if dimension == TEMPERATURE and factor != 1:
        number -= 32
    return dimension, number * factor


def hashed(*numbers: Fraction) -> int:
    """Return 32 bits of one or more numbers, the same in every process."""
    return zlib.crc32(" ".join(map(str, numbers)).encode())
