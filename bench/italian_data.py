"""The terminologies of the Italian system's tables, made of others: scarce ones, two languages, the paper's 13 groups.

Amore Bondarenko et al. 2022 write of 1.22 Italian terms a concept in the UMLS, and of "13 semantic types". Those have
too many concepts for single types (an untrained BERT has an MCSM of 9.07 of at most 11.09 for Pathologic Function), so
they are read as groups: each with the types below it in the UMLS Semantic Network, but for those that are groups of
their own. Findings are so without Sign or Symptom, health care activities without the procedures.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from alphita.errors import InputError, UsageError
from alphita.terminology import prefixes, reading, store, subset
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split, uniform
from alphita.terminology.store import Terminology, load_terminology
from alphita_lab.evaluation.benchmarks.held_out_translations import hold_out_translations

NAMES = 1.22
# Letters of the paper's table 4 -> the group's name and its types, by TUI: the root first, those below it after.
GROUPS = {
    "BP": ("Body Part, Organ, or Organ Component", "T023"),
    "BS": ("Body Substance", "T031"),
    "C": (
        "Chemical",
        "T103 T104 T109 T114 T115 T116 T118 T119 T110 T111 T120 T121 T122 T123 T124 T125 T126 T127 T129 T130 T131 T192 "
        "T195 T196 T197",
    ),
    "MD": ("Medical Device", "T074 T203"),
    "F": ("Finding", "T033 T034"),
    "SS": ("Sign or Symptom", "T184"),
    "HCA": ("Health Care Activity", "T058"),
    "DP": ("Diagnostic Procedure", "T060"),
    "LP": ("Laboratory Procedure", "T059"),
    "TPP": ("Therapeutic or Preventive Procedure", "T061"),
    "PF": ("Pathologic Function", "T046 T047 T048 T049 T050 T191"),
    "PhF": ("Physiologic Function", "T039 T040 T041 T042 T043 T044 T045"),
    "IP": ("Injury or Poisoning", "T037"),
}


def scarce(terminology: Terminology, names: float, seed: int, queries: int) -> tuple[Tables, Split]:
    """Cut a terminology to few names a concept; concepts and triples stay as they are.

    Every concept keeps the name it is called by, and of the further names that train as many are kept as `names` asks
    for, each as likely as any other. A name that does not train (not exact, machine-translated, obsolete) goes, unless
    the concept has none that does; then it keeps its first.

    Args:
        terminology: what to cut.
        names: names a concept, of those that have a name to train on; 1 or more.
        seed: of the choice.
        queries: concepts at most of which one of the names that were cut away is asked for.

    Returns:
        The tables; and a split whose test part are names that were cut away, one a concept, none of them also a name
        that was kept. Nothing trains on them, for they are not in the tables: the split is for scoring.

    Raises:
        UsageError: the terminology has not so many names a concept, or `names` is below 1.
    """
    rows, offsets = terminology.training_terms()
    named = np.flatnonzero(np.diff(offsets))
    first = rows[offsets[named]]
    others = np.setdiff1d(rows, first)
    wanted = round(names * len(named)) - len(named)
    if not 0 <= wanted <= len(others):
        raise UsageError(
            f"--names {names:g} does not lie between 1 and {len(rows) / max(len(named), 1):.2f}, the exact names that "
            f"a concept of {terminology.path.name} has"
        )
    owners = terminology.term_concept
    ids = {row: terminology.concept_id(row) for row in np.unique(owners[others]).tolist()}
    strings = dict(zip(others.tolist(), terminology.terms["string"].take(others).to_pylist(), strict=True))
    chance = {row: uniform(seed, "scarce", f"{ids[int(owners[row])]}\0{strings[row]}") for row in strings}
    drawn = sorted(chance, key=chance.__getitem__)
    starts = np.searchsorted(owners, np.setdiff1d(np.unique(owners), named))
    kept = np.zeros(len(owners), bool)
    kept[first] = kept[drawn[:wanted]] = kept[starts] = True
    tables = reading.tables_of(terminology)
    tables = replace(tables, terms=tables.terms.filter(pl.Series(kept)))

    taken = np.zeros(terminology.n_keys, bool)
    taken[terminology.term_key[kept]] = True
    asked: dict[int, int] = {}
    for row in drawn[wanted:]:
        if not taken[terminology.term_key[row]]:
            asked.setdefault(int(owners[row]), row)
    chosen = sorted(asked.values(), key=chance.__getitem__)[:queries]
    facts = {
        "method": "names cut away",
        "names": names,
        "seed": seed,
        "terminology_hash": terminology.content_hash,
        "names_before": len(rows),
        "names_kept": len(first) + wanted,
        "concepts": len(named),
        "held_out": len(chosen),
    }
    test = [ids[int(owners[row])] for row in chosen]
    return tables, Split([strings[row] for row in chosen], test, ["test"] * len(chosen), facts)


def bilingual(
    terminology: Terminology, language: str, target: str, fraction: float, seed: int, folder: Path
) -> tuple[Terminology, Split]:
    """Write the concepts that have a name in a language, with their names in it and in another; and a split.

    Args:
        terminology: with names in both.
        language: BCP-47 tag of the language to learn.
        target: of the one whose names are sought.
        fraction: share of the concepts whose names in `language` are held out.
        seed: of the choice.
        folder: X.terminology, to be created unless it is there.

    Returns:
        The terminology and the split of held-out names in `language`, whose concepts have a name in `target`.

    Raises:
        UsageError: it has no such language, or nothing is held out.
    """
    if not folder.exists():
        spoken = reading.tables_of(terminology).terms
        owners = spoken.filter(pl.col("language").cast(pl.String) == language)["concept"].unique().to_list()
        listed = [terminology.concept_id(int(row)) for row in owners if not terminology.retired[int(row)]]
        choice = subset.SubsetChoice(languages=(language, target), listed=listed, retired=False)
        save(subset.subset(terminology, choice), folder, {"bilingual": [language, target]}, terminology)
    made = load_terminology(folder)
    split = hold_out_translations(made, language, fraction=fraction, seed=seed)
    terms = reading.tables_of(made).terms.filter(pl.col("language").cast(pl.String) == target)
    there = {made.concept_id(int(row)) for row in terms["concept"].unique().to_list()}
    rows = [row for row, one in enumerate(split.concept_ids) if one in there]
    if not rows:
        raise UsageError(f"no name in {language!r} of a concept with a name in {target!r} is held out: {split.facts}")
    strings, ids, parts = ([column[row] for row in rows] for column in (split.strings, split.concept_ids, split.parts))
    facts = split.facts | {"held_out": len(rows), "without_a_name_to_find": len(split) - len(rows)}
    return made, Split(strings, ids, parts, facts)


def grouped(terminology: Terminology, sources: Collection[str]) -> Tables:
    """Return the concepts of the paper's 13 groups, the groups in place of their semantic types.

    Args:
        terminology: of the UMLS, whose semantic types have their TUI.
        sources: names of these only, as the UMLS calls them; concepts without one are left out. Relations of all
            sources stay: those of a translation stand under the name of the original.

    Raises:
        InputError: no concept is left.
    """
    spelt = [prefixes.canonical(name) for name in sources]
    of_type = {tui: name for name, types in GROUPS.values() for tui in types.split()}

    def named(tables: Tables) -> pl.DataFrame:
        wanted = pl.col("source").cast(pl.String).is_in(spelt) if sources else pl.lit(True)
        return tables.terms.filter(wanted)

    def typed(tables: Tables) -> pl.DataFrame:
        return tables.semantic_types.filter(pl.col("code").cast(pl.String).is_in(list(of_type)))

    tables = reading.tables_of(terminology)
    rows = set(named(tables)["concept"].to_list()) & set(typed(tables)["concept"].to_list())
    listed = [terminology.concept_id(row) for row in sorted(rows) if not terminology.retired[row]]
    if not listed:
        wanted = f" and has a name of {', '.join(sources)}" if sources else ""
        raise InputError(f"no concept is of one of the 13 groups{wanted}", file=terminology.path)
    tables = subset.subset(terminology, subset.SubsetChoice(listed=listed))
    groups = typed(tables).with_columns(
        semantic_type=pl.col("code").cast(pl.String).replace_strict(of_type, return_dtype=pl.String),
        code=pl.lit(None, pl.String),
    )
    return replace(tables, terms=named(tables), semantic_types=groups.unique(maintain_order=True))


def save(tables: Tables, path: Path, config: dict[str, Any], made_of: Terminology) -> None:
    """Write a terminology that was made of another."""
    origin = {"made_of": {"name": made_of.path.name, "content_hash": made_of.content_hash}}
    store.save(tables, path, config=config | origin)
