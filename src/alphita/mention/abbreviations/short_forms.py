"""Short forms, what they may stand for, and when a string of a mention is one of them.

Upper and lower case. A short form matches as it is written. It matches in another case too ("chf"), unless it is
written with capitals and its lower case is a word of every day, a unit, or a single letter: "all" is not ALL, "as" is
not AS. Where a text is in capitals throughout and ordinary words stand in it, capitals say nothing, and such a short
form does not match at all: "PAIN IN ALL LIMBS". One listed in small letters matches in any case. "CHFs" matches CHF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from alphita.mention.abbreviations.schwartz_hearst import singular
from alphita.terminology.languages import primary
from alphita.terminology.text import DEFAULT_RULES, clean

if TYPE_CHECKING:
    from alphita.index.store import Index

TOKEN = re.compile(r"[^\W_]+\+*")
# Longer short forms are found as whole mentions only.
MAX_TOKENS = 3
ORDINARY_LETTERS = 5
_CASED_RULES = tuple(rule for rule in DEFAULT_RULES if rule != "lowercase")

# English; units; articles and prepositions of German, French, Spanish, Italian, Portuguese and Dutch.
_WORDS = """
a about act add age ago aid aids air all also am an and any ape apt arc are arm art as ash ask at ate bad bag bar bat
bed bee bid big bin bit bow box boy bud bug but buy by cab can cap car case cat cell cold cord cough cow cry cup cut
dad dam day did die diet dig dim dip do dog dot drop drug dry due ear eat egg end eye face fall fan far fast fat fed
feel feet few fig fin fit fits flat flu fly foot for from gap gas get go got gum gut had hand hard has hat he head hear
heat heel help her hers hid high him hip his hit hot how if ill in into ion is it its jaw jaws keep key kid kin knee
lab lag lap last late law lay led left leg less let lid lie life like limb lip list lot low lump lung mad man many map
mask mass mat may me men met mild mix more most mud must my nail near neck need net new no nod nor not now nut odd of
off oil old on once one only open or our out over own pace pad pain pal pale pan par part pass past pat pay pen per pet
pie pill pin pit plan pop post pot put raw ray read red rest rib rid rim rip rise risk rod root rub run sad sag same
sap sat say scan scar see set she shin shot show sick side sin sip sit site six skin so some son sore spa spot stem
step stop such sum sun tag take tan tap tar tea tear ten test than that the them then they this tie time tin tip to toe
ton too top toy try two up us use used van vat very via war was way we weak wear well went were wet what when who why
will with yes yet you

cc cm dl dm ft gm hr hrs kg km lb lbs mcg mg min ml mm mol ng nm oz pg pm sec

aan al alla am auf aus au aux bei bis con da dal das de dei del dem den der des di die du ein el en es est et het il im
in la las le les lo los mit na nel no non nos od ou par per por pour que se sin su sul sur um un una und une van vom
von vor y zu zum zur
"""
COMMON = frozenset(_WORDS.split())


class Meaning(NamedTuple):
    """One thing that a short form stands for.

    Attributes:
        names: other names of the same concept, which help to tell it by its context.
        language: of the long form (BCP-47), or None for any.
        share: how often that is meant where the short form stands, 0 to 1; 1 where it is not counted.
    """

    short: str
    long: str
    names: tuple[str, ...] = ()
    language: str | None = None
    share: float = 1.0


NOTHING: Mapping[str, Meaning] = {}


class ShortForms:
    """The short forms of one source; each may stand for several things, the likeliest first."""

    def __init__(self) -> None:
        self._meanings: dict[str, dict[str, Meaning]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self.first_tokens: set[str] = set()

    def add(self, meaning: Meaning, times: int = 1) -> None:
        """Add a meaning that was found so often; one that is known already (after cleaning) counts more."""
        key, long = written(meaning.short).lower(), clean(meaning.long)
        found = TOKEN.findall(key)
        if not found or not long:
            return
        self._meanings.setdefault(key, {}).setdefault(long, meaning)
        self._counts[key, long] = self._counts.get((key, long), 0) + times
        # "chfs" too, and "chf" where the plural was defined.
        self.first_tokens.update((found[0], found[0] + "s"))
        if singular(meaning.short) is not None:
            self.first_tokens.add(found[0].removesuffix("s"))

    def changed(self, lost: Iterable[Meaning], gained: Iterable[Meaning]) -> ShortForms:
        """Return the same less one finding of each that is lost, and with what is gained."""
        other = ShortForms()
        other._meanings, other._counts = dict(self._meanings), dict(self._counts)
        other.first_tokens = set(self.first_tokens)
        for meaning in lost:
            key, long = written(meaning.short).lower(), clean(meaning.long)
            if (key, long) not in other._counts:
                continue
            other._counts[key, long] -= 1
            if not other._counts[key, long]:
                del other._counts[key, long]
                other._meanings[key] = {one: known for one, known in other._meanings[key].items() if one != long}
        for meaning in gained:
            key = written(meaning.short).lower()
            other._meanings[key] = dict(other._meanings.get(key, {}))
            other.add(meaning)
        return other

    def meanings(self) -> Iterator[Meaning]:
        """Go through all meanings, those of one short form together."""
        for known in self._meanings.values():
            yield from known.values()

    def of(self, string: str, *, shouted: bool = False) -> list[Meaning]:
        """Return what a string may stand for, oftenest first, equals in the order in which they were added."""
        key = string.lower()
        found = [
            (self._counts[key, long], meaning)
            for long, meaning in self._meanings.get(key, NOTHING).items()
            if _matches(written(meaning.short), string, shouted)
        ]
        last = string[-1:]
        other = singular(string) if last == "s" else string + "s" if last.isupper() else None
        if not found and other is not None:
            key = other.lower()
            found = [
                (self._counts[key, long], meaning)
                for long, meaning in self._meanings.get(key, NOTHING).items()
                if written(meaning.short) == other
            ]
        return [meaning for _, meaning in sorted(found, key=lambda one: -one[0])] if found else []


def written(string: str) -> str:
    """Return a string cleaned, but for its upper and lower case."""
    return clean(string, _CASED_RULES)


def is_shouted(text: str) -> bool:
    """Whether a text is in capitals throughout, with two ordinary words in it: everyday ones or long ones."""
    if not text.isupper():
        return False
    return sum(len(token) >= ORDINARY_LETTERS or token in COMMON for token in TOKEN.findall(text.lower())) > 1


def _matches(short: str, string: str, shouted: bool) -> bool:
    is_common = (string.lower() in COMMON or len(string) == 1) and short != short.lower()
    return (short == string and not shouted) if is_common else True


ENGLISH = "en"
# What stands for itself whatever a mention's language is: a borrowed short form.
ANY = ""
# Meanings of one short form that are looked up.
MOST = 4
# In parts of this a share is counted; what the terminology has goes before all that it lacks.
PARTS = 1_000


class ClinicalAbbreviations:
    """Short forms by the language that they are written in."""

    def __init__(self, forms: Mapping[str, ShortForms] | None = None, spoken: frozenset[str] = frozenset()) -> None:
        self._forms, self._spoken = dict(forms or {}), spoken | {ANY}

    @classmethod
    def of_index(cls, index: Index) -> ClinicalAbbreviations:
        """Return the short forms that an index keeps, if it keeps any."""
        table = index.segment.short_forms
        if table is None:
            return cls()
        forms: dict[str, ShortForms] = {}
        for row in table.to_pylist():
            of = forms.setdefault(primary(row["language"] or ANY), ShortForms())
            times = max(1, round(PARTS * row["share"])) + PARTS * bool(row["known"])
            of.add(Meaning(row["short"], row["long"], share=row["share"]), times)
        return cls(forms, _spoken(index))

    def __iter__(self) -> Iterator[ShortForms]:
        """Go through the short forms of each language."""
        return iter(self._forms.values())

    def of_language(self, language: str | None) -> list[ShortForms]:
        """Return where short forms of a mention in a language (BCP-47; None: not given) are looked up."""
        wanted = self._spoken if language is None else {primary(language), ANY}
        return [self._forms[one] for one in sorted(wanted) if one in self._forms]

    def of(self, string: str, language: str | None, *, shouted: bool = False) -> list[Meaning]:
        """Return what a string may stand for, likeliest first; see `ShortForms.of`."""
        found = [one for forms in self.of_language(language) for one in forms.of(string, shouted=shouted)]
        return found[:MOST]


def _spoken(index: Index) -> frozenset[str]:
    terms = index.segment.terms
    if "language" not in terms.column_names:
        return frozenset([ENGLISH])
    own = terms.column("language").filter(pa.array(~index.segment.borrowed))
    # Where a terminology does not say, it is taken for English.
    found = {primary(one) for one in own.unique().to_pylist() if one} - {"und"}
    return frozenset(found or [ENGLISH])
