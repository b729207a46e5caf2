"""Terminologies of a few terms, for benchmarks that are made of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alphita.terminology.loaders import obo
from alphita.terminology.store import Terminology
from tests.tables import loaded, terminology_of


def save(path: Path, terms: Sequence[tuple[Any, ...]], **side: Any) -> Terminology:
    """Save a terminology of terms; the first of a concept leads, and one that begins with "old " is obsolete."""
    first = {term[0]: place for place, term in reversed(list(enumerate(terms)))}
    rows = [
        (*term, first[term[0]] == place, "obsolete" if term[1].startswith("old ") else None)
        for place, term in enumerate(terms)
    ]
    columns = ("concept", "string", "language", "status", "scope", "source", "preferred", "type")
    return terminology_of(rows, path, columns=columns, **side)


def term(
    concept: str,
    string: str,
    language: str = "en",
    status: str = "official",
    scope: str = "exact",
    source: str = "SNOMEDCT",
) -> tuple[str, ...]:
    return concept, string, language, status, scope, source


def imported(folder: Path, lines: Sequence[str], **options: Any) -> Terminology:
    """Import the stanzas of an OBO file."""
    (folder / "x.obo").write_text("\n".join(["format-version: 1.2", "", *lines]), encoding="utf-8")
    return loaded(obo, [folder / "x.obo"], folder / "x.terminology", **options)


def stanza(concept: str, name: str, *lines: str) -> list[str]:
    return ["[Term]", f"id: {concept}", f"name: {name}", *lines, ""]
