"""The clinic's short forms: what an index keeps of the general list and of borrowed names (see `index.enrichment`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from alphita.mention.abbreviations.short_forms import Meaning, ShortForms
from alphita.terminology.languages import primary

if TYPE_CHECKING:
    from alphita.index.store import Index

ENGLISH = "en"
# What stands for itself whatever a mention's language is: a borrowed short form.
ANY = ""
# Meanings of one short form that are looked up.
MOST = 4
# In parts of this a share is counted; what the terminology has goes before all that it lacks.
PARTS = 1_000


class Clinic:
    """Short forms by the language that they are written in."""

    def __init__(self, forms: Mapping[str, ShortForms] | None = None, spoken: frozenset[str] = frozenset()) -> None:
        self._forms, self._spoken = dict(forms or {}), spoken | {ANY}

    @classmethod
    def of_index(cls, index: Index) -> Clinic:
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
