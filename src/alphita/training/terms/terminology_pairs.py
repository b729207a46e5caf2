"""Aligned pairs from terminologies: one with names in several languages, or two editions that share their ids.

Which names of a concept are paired is a choice (`pairing`):

    labels      the source's preferred name with the preferred translation of each language; where a language marks
                none for the concept, with each of its names. The default, for translators render the label, while
                what is filed as a synonym in another language is often wider or narrower.
    synonyms    the source's preferred name with every exact name of the other languages. All of them are drawn to the
                one vector of the label.
    all         every exact name with every exact name. Of two English synonyms whose vectors differ a translation
                then has two targets, and regression learns their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.terminology import languages as tags
from alphita.terminology.concept_splits import names_of
from alphita.terminology.language_ranges import speaks
from alphita.terminology.reading import rows_of
from alphita.terminology.text import clean, clean_many
from alphita.training.terms.aligned_pairs import AlignedPairs, Collected

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

PAIRINGS = ("labels", "synonyms", "all")
STATUSES = ("official", "candidate")
MACHINE = "machine"
UNNAMED = "translation of a concept without a name to translate"
NOT_TAKEN = "machine translation"

Name = tuple[str, str, bool]
"""A name as written, its language, and whether it is preferred."""
Holds = Callable[[str | None], bool]


def of_editions(
    edition: Terminology,
    translated: Terminology,
    *,
    source: str = "en",
    languages: Collection[str] | None = None,
    pairing: str = "labels",
    machine: bool = False,
    exclude: frozenset[str] = frozenset(),
    exclude_concepts: Collection[str] = frozenset(),
) -> AlignedPairs:
    """Pair the names of each concept in the source language with those in the others.

    Names are exact, of live concepts, not obsolete, of status official or candidate. A translation that equals a
    source-language name of its concept, of whatever scope, is left out: it was not translated, or is spelt alike in
    both languages, and as a source-language name it trains with its own vector as target anyhow.

    Args:
        edition: where the source-language names come from; the pairs' concepts are its rows.
        translated: where the translations come from, often the same; a concept is found there by its id, or else by an
            alternative id.
        source: BCP-47 tag of the source language; "en" takes "en-GB" too.
        languages: take these languages only, "pt" with "pt-BR"; all by default.
        pairing: "labels", "synonyms" or "all"; see the module.
        machine: also take machine translations.
        exclude: cleaned strings that must not train (`Split.cleaned`).
        exclude_concepts: ids of concepts none of whose names, in any language, may train; nor may any other concept's
            name that equals one of them.

    Raises:
        InputError: no concept has both a name in the source language and a translation.
        UsageError: an unknown pairing or language.
    """
    if pairing not in PAIRINGS:
        raise UsageError(unknown("pairing", pairing, PAIRINGS))
    source, wanted = _tag(source), None if languages is None else [_tag(tag) for tag in languages]
    # The row in `edition` of each concept of `translated`, and the ids there of what is held out here.
    ids = translated.concept_ids.to_pylist()
    rows = rows_of(edition, ids)
    held_rows = set(rows_of(edition, exclude_concepts).values())
    held_ids = {*exclude_concepts, *(identifier for identifier in ids if rows.get(identifier) in held_rows)}
    held_out = exclude.union(
        _names(edition, names_of(edition, exclude_concepts)), _names(translated, names_of(translated, held_ids))
    )
    statuses = (*STATUSES, MACHINE) if machine else STATUSES
    spoken = _holds(edition, "language", lambda tag: speaks(tag, source))
    names = _by_concept(edition, spoken & _trains(edition, statuses))
    # Whatever its scope or status, a name in the source language is no translation.
    known = _by_concept(edition, spoken & ~np.asarray(edition.retired)[edition.term_concept])
    foreign = _holds(
        translated,
        "language",
        lambda tag: not speaks(tag, source) and (wanted is None or any(speaks(tag, one) for one in wanted)),
    )
    collected = Collected(source, exclude=held_out)
    if not machine:
        collected.counts[NOT_TAKEN] = int((foreign & _trains(translated, (MACHINE,))).sum())
    origin, n_paired = translated.path.stem, 0
    for place, group in _by_concept(translated, foreign & _trains(translated, statuses)).items():
        concept = rows.get(ids[place], -1)
        if concept not in names:
            collected.counts[UNNAMED] += len(group)
            continue
        n_paired += 1
        others = frozenset(clean_many(string for string, _, _ in known[concept]))
        # A preferred name that may not train is no reason to drop what another name can teach.
        free = [name for name in names[concept] if clean(name[0]) not in held_out]
        for string, translation, tag in _paired(free or names[concept], group, pairing):
            collected.add(string, translation, tag, origin=origin, concept=concept, others=others)
    if not n_paired:
        has = sorted(filter(None, translated.terms["language"].unique().to_pylist()))
        raise InputError(
            f"no concept has both a name in the language {source!r} and a translation",
            file=translated.path,
            remedy=f"its languages are {', '.join(has)}" + ("" if machine else "; machine translations are left out"),
        )
    return collected.pairs()


def source_names(
    terminology: Terminology,
    *,
    source: str = "en",
    exclude: frozenset[str] = frozenset(),
    exclude_concepts: Collection[str] = frozenset(),
    beside: AlignedPairs | None = None,
) -> list[str]:
    """Return the distinct cleaned names in the source language: they train without a translation too.

    Args:
        terminology: where they come from: exact, not machine-translated, of live concepts.
        source: BCP-47 tag of the source language; "en" takes "en-GB" too.
        exclude: cleaned strings that must not train.
        exclude_concepts: ids of concepts none of whose names, in any language, may train.
        beside: leave out the names that are a source in these pairs, since they train there.

    Raises:
        UsageError: an unknown language.
    """
    left_out = {"", *exclude, *_names(terminology, names_of(terminology, exclude_concepts))}
    if beside is not None:
        left_out.update(beside.sources)
    cleaned = dict.fromkeys(clean_many(names_in(terminology, source)))
    return [name for name in cleaned if name not in left_out]


def names_in(terminology: Terminology, language: str) -> list[str]:
    """Return the names in a language, as written: exact, not machine-translated, of live concepts.

    Raises:
        UsageError: an unknown language.
    """
    tag = _tag(language)
    spoken = _holds(terminology, "language", lambda found: speaks(found, tag))
    rows = np.flatnonzero(spoken & _trains(terminology, STATUSES))
    return list(terminology.terms.column("string").take(rows).to_pylist())


def _paired(names: Sequence[Name], group: Sequence[Name], pairing: str) -> Iterator[tuple[str, str, str]]:
    """Yield source, translation and tag of the pairs of one concept."""
    sources = names if pairing == "all" else names[:1]  # the preferred one comes first
    marked = {tag for _, tag, preferred in group if preferred}
    for string, _, _ in sources:
        for translation, tag, preferred in group:
            if pairing != "labels" or preferred or tag not in marked:
                yield string, translation, tag


def _by_concept(terminology: Terminology, mask: NDArray[np.bool_]) -> dict[int, list[Name]]:
    """Return the chosen names of each concept that has one, the preferred first."""
    rows = np.flatnonzero(mask)
    table = terminology.terms.select(["string", "language", "preferred"]).take(rows)
    columns = zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
    found: dict[int, list[Name]] = {}
    for concept, name in zip(terminology.term_concept[rows].tolist(), columns, strict=True):
        found.setdefault(concept, []).append(name)
    return found


def _trains(terminology: Terminology, statuses: Collection[str]) -> NDArray[np.bool_]:
    """Return which terms are exact, of a status, not obsolete, of live concepts; (n_terms,)."""
    return (
        _holds(terminology, "scope", lambda scope: scope == "exact")
        & _holds(terminology, "status", lambda status: status in statuses)
        & _holds(terminology, "type", lambda kind: kind != "obsolete")
        & ~np.asarray(terminology.retired)[terminology.term_concept]
    )


def _holds(terminology: Terminology, column: str, holds: Holds) -> NDArray[np.bool_]:
    """Return for which terms a test holds of a dictionary column's value, which may be None; (n_terms,)."""
    coded = terminology.terms.column(column).combine_chunks()
    truth = np.array([*(holds(value) for value in coded.dictionary.to_pylist()), holds(None)])
    found: NDArray[np.bool_] = truth[coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)]
    return found


def _names(terminology: Terminology, rows: NDArray[np.int64]) -> list[str]:
    return clean_many(terminology.terms.column("string").take(rows).to_pylist())


def _tag(language: str) -> str:
    found = tags.normalize(language)
    if found is None:
        raise UsageError(f"{language!r}: {tags.UNKNOWN}")
    return found
