"""Which tags a language stands for, wherever one may be chosen: as RFC 4647's basic filtering has it.

"en" stands for "en" and "en-GB", "pt-BR" for neither "pt" nor "pt-PT".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def speaks(tag: str | None, language: str) -> bool:
    """Tell whether a tag is of a language: "en-GB" is of "en". Upper and lower case are one, and so are "_" and "-"."""
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
