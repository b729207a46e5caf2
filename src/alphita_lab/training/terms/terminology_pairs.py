"""Aligned pairs from terminologies (one with several languages, or editions that share their ids) and from files.

labels      the source's preferred name with the preferred translation; the default
synonyms    the source's preferred name with every exact name of the other languages
all         every exact name with every exact name
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError, Rejects
from alphita.terminology import languages, prefixes
from alphita.terminology.languages import known, speaks
from alphita.terminology.loaders import _files
from alphita.terminology.loaders._files import Member
from alphita.terminology.reading import rows_of
from alphita.terminology.splits import names_of
from alphita.terminology.text import clean, clean_many
from alphita_lab.training.terms.aligned_pairs import (
    EMPTY,
    EQUAL,
    HELD_OUT,
    NO_TAG,
    SCRIPT,
    SOURCE_SCRIPT,
    TOO_LONG,
    AlignedPairs,
    Collected,
)

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

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
    """Pair the names of each concept in the source language with those in the others."""
    source, wanted = known(source), None if languages is None else [known(tag) for tag in languages]
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
    in_source = _by_concept(edition, spoken & ~np.asarray(edition.retired)[edition.term_concept])
    foreign = _holds(
        translated,
        "language",
        lambda tag: not speaks(tag, source) and (wanted is None or any(speaks(tag, language) for language in wanted)),
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
        others = frozenset(clean_many(string for string, _, _ in in_source[concept]))
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
    """Return the distinct cleaned names in the source language: they train without a translation too."""
    left_out = {"", *exclude, *_names(terminology, names_of(terminology, exclude_concepts))}
    if beside is not None:
        left_out.update(beside.sources)
    cleaned = dict.fromkeys(clean_many(names_in(terminology, source)))
    return [name for name in cleaned if name not in left_out]


def names_in(terminology: Terminology, language: str) -> list[str]:
    """Return the names in a language, as written: exact, not machine-translated, of live concepts."""
    tag = known(language)
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
    names: dict[int, list[Name]] = {}
    for concept, name in zip(terminology.term_concept[rows].tolist(), columns, strict=True):
        names.setdefault(concept, []).append(name)
    return names


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
    holding: NDArray[np.bool_] = truth[coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)]
    return holding


def _names(terminology: Terminology, rows: NDArray[np.int64]) -> list[str]:
    return clean_many(terminology.terms.column("string").take(rows).to_pylist())


COLUMNS = ("source", "translation", "language")
CONCEPT = "concept"
JSONL = (".jsonl", ".ndjson")
REMEDY = "a file of pairs has the columns source, translation and language (a BCP-47 tag); concept may follow"
BAD_ROW = "bad row"
RETIRED = "pair of a retired concept"
# What is wrong with a pair and can be mended in its row, and where; what is not here is counted and no more.
_FIELD = {
    EMPTY: "translation",
    TOO_LONG: "translation",
    EQUAL: "translation",
    SCRIPT: "translation",
    SOURCE_SCRIPT: "source",
    NO_TAG: "language",
}
Cells = dict[str, str]


def read(
    path: Path | str,
    rejects: Rejects,
    *,
    source: str = "en",
    terminology: Terminology | None = None,
    exclude: frozenset[str] = frozenset(),
    exclude_concepts: Collection[str] = frozenset(),
) -> AlignedPairs:
    """Read a file of pairs."""
    spoken = known(source)
    member = Member(Path(path))
    is_jsonl = member.name.lower().endswith(JSONL)
    set_aside = rejects.count
    rows = list((_jsonl if is_jsonl else _table)(member, rejects))
    own: dict[str, int] = {}
    held_out, held_ids = exclude, frozenset(prefixes.normalize(curie) for curie in exclude_concepts)
    held_rows: frozenset[int] = frozenset()
    if terminology is not None:
        own = rows_of(terminology, (cells[CONCEPT] for _, cells in rows if cells.get(CONCEPT)))
        held_rows = frozenset(rows_of(terminology, exclude_concepts).values())
        names = terminology.terms.column("string").take(names_of(terminology, exclude_concepts))
        held_out = held_out.union(clean_many(names.to_pylist()))
    collected = Collected(spoken, exclude=held_out)
    for line, cells in rows:
        tag, curie = languages.normalize(cells["language"]), cells.get(CONCEPT, "")
        concept = own.get(curie, -1)
        if tag is None or speaks(tag, spoken):
            problem = languages.UNKNOWN if tag is None else "a translation in the language of the source"
            rejects.add(problem, file=member.place, line=line, field="language", value=cells["language"])
        elif curie and terminology is not None and concept < 0:
            rejects.add("no concept has this id", file=member.place, line=line, field=CONCEPT, value=curie)
        elif concept in held_rows or prefixes.normalize(curie) in held_ids:
            collected.counts[HELD_OUT] += 1
        elif terminology is not None and concept >= 0 and terminology.retired[concept]:
            collected.counts[RETIRED] += 1
        else:
            refused = collected.add(cells["source"], cells["translation"], tag, origin=member.name, concept=concept)
            if refused in _FIELD:
                collected.counts[refused] -= 1
                rejects.add(refused, file=member.place, line=line, field=_FIELD[refused], value=cells[_FIELD[refused]])
    collected.counts[BAD_ROW] = rejects.count - set_aside
    pairs = collected.pairs()
    if not len(pairs):
        why = ", ".join(f"{count:,} {problem}" for problem, count in pairs.counts.items())
        raise InputError("no pair is left of this file" + (f": {why}" if why else ""), file=path, remedy=REMEDY)
    return pairs


def write(path: Path | str, pairs: AlignedPairs, margins: NDArray[np.floating[Any]] | None = None) -> None:
    """Write pairs as a TSV that `read` reads, with a column `margin` where they were mined."""
    with artefact.atomic_file(Path(path), "w") as file:
        file.write("\t".join([*COLUMNS, "margin"][: 3 + (margins is not None)]) + "\n")
        for row, (source, translation, language, _, _) in enumerate(pairs.rows()):
            margin = [] if margins is None else [f"{margins[row]:.4f}"]
            file.write("\t".join([source, translation, language, *margin]) + "\n")


def _table(member: Member, rejects: Rejects) -> Iterator[tuple[int, Cells]]:
    """Yield (line, cells by column) of a TSV file."""
    lines = _files.lines(member, "utf-8", rejects)
    number, first = next(lines, (1, ""))
    header = textio.tab_cells(first)
    textio.check_header(header, COLUMNS, member.place, number, REMEDY)
    yield from textio.line_rows(lines, header, member.place, rejects)


def _jsonl(member: Member, rejects: Rejects) -> Iterator[tuple[int, Cells]]:
    """Yield (line, values by key) of a file of JSON objects, one a line."""
    for number, line in _files.lines(member, "utf-8", rejects):
        if not line or line.isspace():
            continue
        try:
            row = textio.json_value(line)
        except ValueError as error:
            rejects.add(f"not JSON: {error}", file=member.place, line=number, value=line)
            continue
        if not isinstance(row, dict):
            rejects.add("not a JSON object", file=member.place, line=number, value=line)
            continue
        wrong = next((name for name in COLUMNS if not isinstance(row.get(name), str)), None)
        wrong = wrong or (CONCEPT if not isinstance(row.get(CONCEPT) or "", str) else None)
        if wrong is not None:
            rejects.add("a string is wanted here", file=member.place, line=number, field=wrong, value=line)
            continue
        yield number, {name: row.get(name) or "" for name in (*COLUMNS, CONCEPT)}
