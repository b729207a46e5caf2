"""Languages: one table (languages.tsv) of the codes that terms may be tagged with, brought to BCP-47.

A language is tagged by its shortest ISO 639 code ("de", not "ger" or "deu"). A code beyond the table is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from alphita import textio
from alphita.errors import UsageError

_TAG = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
# Set aside by ISO 639-2 for private use, from "qaa" to "qtz".
_PRIVATE = re.compile(r"q[a-t][a-z]")
UNKNOWN = "unknown language; wanted is a BCP-47 tag such as en, fr or pt-BR"
ENGLISH = "en"
# Languages in which clinical texts and their short forms are read.
CLINICAL = (ENGLISH, "it", "de", "fr", "es")
# The languages of alphita-multi, and all languages that are recognised.
RECOGNISED = (*CLINICAL, "nl", "pt", "cs", "tr", "zh", "ja")
# By this log-likelihood another language must exceed English: at most 2 of 100 English names do, and of others a half.
CLEARLY = 15.0


@dataclass(frozen=True)
class LanguageRow:
    """One row of the table; `iso639_2` are other codes: of ISO 639-2, both kinds, and withdrawn ones."""

    tag: str
    iso639_2: tuple[str, ...]
    name: str


@functools.cache
def table() -> dict[str, LanguageRow]:
    """Return the table's rows by tag."""
    rows = textio.packaged(__package__, "languages.tsv")
    return {row["tag"]: LanguageRow(row["tag"], tuple(row["iso639_2"].split()), row["name"]) for row in rows}


@functools.cache
def by_code() -> dict[str, str]:
    """Return the tag of each code of the table, in lower case: "de", "deu" and "ger" are all "de"."""
    return {code: row.tag for row in table().values() for code in (row.tag, *row.iso639_2)}


@functools.cache
def by_name() -> dict[str, str]:
    """Return the tag of each language by its English name in lower case."""
    return {row.name.lower(): row.tag for row in table().values()}


@functools.lru_cache(maxsize=10_000)
def normalize(tag: str) -> str | None:
    """Return a tag in its one spelling, "PT_br" as "pt-BR" and "ger" as "de"; None where its language is unknown."""
    tag = tag.strip().replace("_", "-")
    if not _TAG.fullmatch(tag):
        return None
    first, *rest = tag.lower().split("-")
    language = first if _PRIVATE.fullmatch(first) else by_code().get(first)
    if language is None:
        return None
    # Once a single letter has opened an extension, all is in lower case.
    n_plain = next((place for place, part in enumerate(rest) if len(part) == 1), len(rest))
    return "-".join([language, *map(_spelled, rest[:n_plain]), *rest[n_plain:]])


def known(tag: str) -> str:
    """Return a tag in its one spelling."""
    if (spelled := normalize(tag)) is None:
        raise UsageError(f"{tag!r}: {UNKNOWN}")
    return spelled


def _spelled(subtag: str) -> str:
    if len(subtag) == 2:
        return subtag.upper()
    return subtag.title() if len(subtag) == 4 and subtag.isalpha() else subtag


def _checked(tag: str) -> str:
    if (spelled := normalize(tag)) is None:
        raise ValueError(UNKNOWN)
    return spelled


# The type of options that name a language.
Language = Annotated[str, AfterValidator(_checked)]


def speaks(tag: str | None, language: str) -> bool:
    """Tell whether a tag is of a language: "en-GB" is of "en", whatever the case, with "_" or "-"."""
    spoken, wanted = (written.lower().replace("_", "-") for written in (tag or "", language))
    return wanted != "" and (spoken == wanted or spoken.startswith(f"{wanted}-"))


def primary(tag: str) -> str:
    """Return the language itself: "en" of "en-GB", and of "EN_GB"."""
    return tag.lower().replace("_", "-").partition("-")[0]


def among(tags: Iterable[str | None], languages: Iterable[str]) -> list[str]:
    """Return those of some tags that are of one of these languages, each once, sorted."""
    wanted = list(languages)
    return sorted({tag for tag in tags if tag is not None and any(speaks(tag, language) for language in wanted)})


def by_tag(tags: Iterable[str], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each tag that is of one of the languages in `weights`: the narrowest of them counts."""
    nearest = {
        tag: max((language for language in weights if speaks(tag, language)), key=len, default=None) for tag in tags
    }
    return {tag: weights[language] for tag, language in nearest.items() if language is not None}


def likelihoods(text: str, languages: tuple[str, ...] = CLINICAL) -> dict[str, float]:
    """Return the log-likelihood of a text in each of some languages, most likely first."""
    return {str(tag): float(value) for tag, value in _identifier(languages).rank(text)}


def over_english(text: str, languages: tuple[str, ...] = CLINICAL) -> tuple[str, float]:
    """Return the most likely language of a text, and by what log-likelihood it exceeds English (0: it is English)."""
    found = likelihoods(text.lower(), languages)
    best = next(iter(found))
    return best, found[best] - found[ENGLISH]


@functools.cache
def _identifier(languages: tuple[str, ...]) -> Any:  # noqa: ANN401 - py3langid has no types
    """Return what distinguishes some languages: one each, because setting them takes longer than a question."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(list(languages))
    return identifier
