"""MCSM: whether the concepts nearest to a concept have its semantic type; over any terminology and types.

Every concept is represented by one name (its preferred one, or one drawn at random) or by the mean of the unit vectors
of all its names; systems that only know concepts, by its id. Neighbours are sought among all live concepts of the
terminology, as the equation has it, or only among those of the types that are scored, as the code released with Yuan et
al. 2020 does it. A concept of several types counts for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita import progress, registry
from alphita.config import Config
from alphita.errors import UsageError
from alphita.index.backends.faiss import BLAS_THRESHOLD
from alphita.index.neighbours import unit
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import NotGiven, Source, about
from alphita_lab.evaluation.benchmarks._terminology_targets import terms_in
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.scoring.linking import Targets
from alphita_lab.evaluation.scoring.pairs import mean_of_names
from alphita_lab.evaluation.scoring.results import Figure, Metric, Result
from alphita_lab.evaluation.systems import ConceptSystem, System, VectorSystem

# The six that Yuan et al. 2020 and 2022 evaluate, after Choi et al. 2016, in the order and by the letters of their
# tables.
SIX_TYPES = {
    "PS": "Pharmacologic Substance",
    "DS": "Disease or Syndrome",
    "NP": "Neoplastic Process",
    "CD": "Clinical Drug",
    "FD": "Finding",
    "IP": "Injury or Poisoning",
}
MEAN_OF_TYPES = "mean of types"
# Names ranked at once by a system without vectors.
NAMES_AT_ONCE = 4096
# Concepts searched for at once, and vectors found beyond the k nearest.
CONCEPTS_AT_ONCE, SPARE = 4096, 8
# What a cosine found by the search may be off by: where the k-th is no farther ahead of the last, all are compared.
CLOSE = np.float32(1e-5)
INFO, PUBLISHED = about(__name__)


class Options(Config):
    """Which types, names and neighbours."""

    k: int = Field(40, ge=1, description="number of neighbours (Yuan et al. 2020 and 2022: 40)")
    types: str | None = Field(
        None,
        description="semantic types that are scored, by name or code, with ';' between; by default the six of Yuan et "
        "al. 2020 and 2022 if the terminology has one of them, else all of the terminology",
    )
    names: Literal["one", "all"] = Field(
        "one", description="what represents a concept: one name, or the mean of the unit vectors of all its names"
    )
    seed: int | None = Field(None, description="seed for choosing a random name; none: the preferred name", ge=0)
    candidates: Literal["all", "types"] = Field(
        "all",
        description="concepts among which to find neighbours: all (the equation of Yuan et al. 2020 and 2022), or "
        "only those with scored types (their released code)",
    )
    language: str | None = Field(None, description="only names in this language; concepts without one are left out")


@dataclass(frozen=True)
class Data:
    """Concepts (n), their names with offsets (n + 1,), their scored types (n, t), and how many had no name."""

    ids: list[str]
    names: list[str]
    offsets: NDArray[np.int64]
    types: NDArray[np.bool_]
    type_names: list[str]
    unnamed: int


def load(source: Source, options: Options) -> Data:
    """Gather the concepts."""
    terminology = source.require_terminology()
    types, type_names = _types(terminology, options.types)
    rows, offsets = terms_in(terminology, options.language)
    counts = np.diff(offsets)
    wanted = ~np.asarray(terminology.retired)
    if options.candidates == "types":
        wanted = wanted & types.any(axis=1)
    kept = np.flatnonzero(wanted & (counts > 0))
    if options.names == "one":
        places = np.zeros(len(counts), np.int64)
        if options.seed is not None:
            places = np.random.default_rng(options.seed).integers(0, np.maximum(counts, 1))
        chosen = rows[(offsets[:-1] + places)[kept]]
        starts = np.arange(len(kept) + 1)
    else:
        chosen = rows[np.repeat(counts > 0, counts) & np.repeat(wanted, counts)]
        starts = np.r_[0, np.cumsum(counts[kept])]
    if not types[kept].any():
        raise UsageError("no concept of the types to be scored has a name" + _in(options.language))
    return Data(
        terminology.concept_ids.take(kept).to_pylist(),
        terminology.terms.column("string").take(chosen).to_pylist(),
        starts.astype(np.int64),
        types[kept],
        type_names,
        int((wanted & (counts == 0)).sum()),
    )


def _in(language: str | None) -> str:
    return "" if language is None else f" in {language!r}"


def _types(terminology: Terminology, asked: str | None) -> tuple[NDArray[np.bool_], list[str]]:
    """Return which concepts have which of the types that are scored, (n_concepts, t), and the types' names."""
    table = terminology.side_table("semantic_types")
    held = table.column("semantic_type").to_pylist()
    if not held:
        raise NotGiven(f"the terminology has no semantic types, which mcsm is about: {INFO.where}")
    by_code = {code: name for code, name in zip(table.column("code").to_pylist(), held, strict=True) if code}
    known = dict.fromkeys(held)
    if asked is None:
        names = [name for name in SIX_TYPES.values() if name in known] or sorted(known)
    else:
        names = []
        for name_or_code in dict.fromkeys(part.strip() for part in asked.split(";") if part.strip()):
            if name_or_code not in known and name_or_code not in by_code:
                raise UsageError(registry.unknown("semantic type", name_or_code, [*sorted(known), *sorted(by_code)]))
            names.append(name_or_code if name_or_code in known else by_code[name_or_code])
        names = list(dict.fromkeys(names))
        if not names:
            raise UsageError("option 'types' names no semantic type")
    numbers = {name: number for number, name in enumerate(names)}
    of_type = np.array([numbers.get(name, -1) for name in held])
    concepts = table.column("concept").to_numpy()
    types = np.zeros((terminology.n_concepts, len(names)), bool)
    types[concepts[of_type >= 0], of_type[of_type >= 0]] = True
    return types, names


def evaluate(data: Data, system: System | ConceptSystem, options: Options) -> Result:
    """Score one system."""
    if isinstance(system, ConceptSystem) and not isinstance(system, System):
        scored = _by_vectors(system.encode_concepts(data.ids), data.types, options.k)
    elif isinstance(system, VectorSystem):
        scored = _by_vectors(_vectors(system, data), data.types, options.k)
    elif options.names == "all":
        raise UsageError(f"mcsm with all names needs a system that has vectors, which {system.name} has not: names=one")
    else:
        scored = _by_ranking(system, data, options.k)
    concept, kind = np.nonzero(data.types)
    first = data.offsets[concept]
    rows = pl.DataFrame(
        {
            "concept": [data.ids[row] for row in concept],
            "name": [data.names[row] for row in first],
            "type": [data.type_names[row] for row in kind],
            "mcsm": scored[concept, kind],
        }
    ).with_columns(pl.col("mcsm").fill_nan(None))
    metrics = (
        Metric("MCSM", ("mcsm",), fraction=False),
        Metric("standard deviation", ("mcsm",), _standard_deviation, fraction=False, higher_is_better=False),
    )
    return Result(rows, metrics, ("type",), [_mean_of_types(rows)], _notes(data, scored, options))


def _standard_deviation(values: NDArray[np.float64]) -> float:
    return float(values[:, 0].std())


def _vectors(system: VectorSystem, data: Data) -> NDArray[np.float32]:
    """Return the vector of each concept: of its name, or the mean of the unit vectors of its names."""
    vectors = system.encode(clean_many(data.names, system.rules))
    if len(data.names) == len(data.ids):
        return vectors
    return mean_of_names(vectors, data.offsets)


def _by_vectors(vectors: NDArray[np.float32], types: NDArray[np.bool_], k: int) -> NDArray[np.float64]:
    """Return the scores (n, t); NaN too where a concept has no vector."""
    known = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
    scored = np.full(types.shape, np.nan)
    if known.any():
        with progress.bar("Neighbours", int(types[known].any(axis=1).sum()), "concepts") as bar:
            scored[known] = mcsm(vectors[known], types[known], k, advance=bar.advance)
    return scored


def _by_ranking(system: System, data: Data, k: int) -> NDArray[np.float64]:
    """Return the scores (n, t) of a system that only ranks strings; a concept without any neighbour scores 0."""
    targets = Targets(ids=data.ids, names=data.names)
    typed = np.flatnonzero(data.types.any(axis=1))
    scored = np.full(data.types.shape, np.nan)
    with progress.bar("Neighbours", len(typed), "concepts") as bar:
        for start in range(0, len(typed), NAMES_AT_ONCE):
            rows = typed[start : start + NAMES_AT_ONCE]
            ranked = linking.rank(system, [data.names[row] for row in rows], targets, min(k + 1, len(data.ids)))
            near = _without_self(ranked.concepts, rows)
            for column in np.flatnonzero(data.types[rows].any(axis=0)):
                scored[rows, column] = scores(near, data.types[rows, column], data.types[:, column])
            bar.advance(len(rows))
    return scored


def _without_self(near: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the neighbours without each concept itself, or else without the last: (q, k) out of (q, k + 1)."""
    itself = near == rows[:, None]
    itself[~itself.any(axis=1), -1] = True
    left: NDArray[np.int64] = near[~itself].reshape(len(near), near.shape[1] - 1)
    return left


def _mean_of_types(rows: pl.DataFrame) -> Figure:
    """Return the mean of the types' MCSM, each type counting the same (Yuan et al. 2020, table 6: "average MCSM")."""
    means = rows.drop_nulls("mcsm").group_by("type").agg(pl.col("mcsm").mean())["mcsm"].sort()
    value = float(means.mean()) if len(means) else None  # type: ignore[arg-type]
    return Figure("MCSM", MEAN_OF_TYPES, value, len(means))


def _notes(data: Data, found: NDArray[np.float64], options: Options) -> dict[str, Any]:
    typed = data.types.any(axis=1)
    scored = np.isfinite(found).any(axis=1)
    notes: dict[str, Any] = {
        "concepts among which neighbours are sought": len(data.ids),
        "concepts of the scored types": int(typed.sum()),
        "concepts of several scored types": int((data.types.sum(axis=1) > 1).sum()),
        "scored concepts that the system does not know": int((typed & ~scored).sum()),
        "concepts left out for want of a name" + _in(options.language): data.unnamed,
        "names": len(data.names),
        "greatest MCSM possible": round(float(discounts(options.k).sum()), 4),
    }
    small = _small(data.types, data.type_names, options.k)
    if small:
        notes[f"types of fewer than {options.k + 1} concepts, which cannot reach it"] = ", ".join(small)
    return notes


def _small(types: NDArray[np.bool_], names: Sequence[str], k: int) -> list[str]:
    return [name for name, count in zip(names, types.sum(axis=0), strict=True) if count <= k]


# MCSM(V, T, k) = 1/|V(T)| sum over v in V(T) of sum over i = 1..k of [v(i) is of type T] / log2(i + 1)
#
# V are the concepts, V(T) those of type T, v(i) the i-th nearest other concept of v by cosine (Choi et al. 2016, as
# Yuan et al. 2020 and 2022 print it, section MCSM). At k = 40 it ranges from 0 to 11.09.


def discounts(k: int) -> NDArray[np.float64]:
    """Return the weight of each place, (k,): 1 / log2(i + 1) for i = 1..k. Their sum is the greatest MCSM."""
    weights: NDArray[np.float64] = 1 / np.log2(np.arange(2, k + 2))
    return weights


def scores(near: NDArray[np.int64], own: NDArray[np.bool_], of_type: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the MCSM of concepts for one type, (q,); NaN for concepts that are not of the type.

    Args:
        near: (q, k) rows of the nearest other concepts, nearest first; -1 where there are fewer, which counts 0.
        own: (q,) whether the concept itself is of the type.
        of_type: (n,) whether each concept is.
    """
    means = np.full(len(near), np.nan)
    rows = near[own]
    means[own] = (of_type[rows] & (rows >= 0)) @ discounts(near.shape[1])
    return means


def mcsm(
    vectors: NDArray[np.float32], types: NDArray[np.bool_], k: int = 40, *, advance: Callable[[int], None] | None = None
) -> NDArray[np.float64]:
    """Return the score of every concept for every type that it has, (n, t), from vectors (n, d) without zeros."""
    vectors = unit(vectors)
    means = np.full(types.shape, np.nan)
    typed = np.flatnonzero(types.any(axis=1))
    for start in range(0, len(typed), CONCEPTS_AT_ONCE):
        rows = typed[start : start + CONCEPTS_AT_ONCE]
        near = _nearest_others(vectors, rows, min(k, len(vectors) - 1))
        for column in np.flatnonzero(types[rows].any(axis=0)):
            means[rows, column] = scores(near, types[rows, column], types[:, column])
        if advance is not None:
            advance(len(rows))
    return means


def _nearest_others(vectors: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the k vectors nearest to each of some, without itself, (q, k): nearest first, of equal ones the lower."""
    near = np.empty((len(rows), k), np.int64)
    if k == 0:
        return near
    import faiss

    faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
    wanted = min(k + 1 + SPARE, len(vectors))
    _, found = faiss.knn(vectors[rows], vectors, wanted, metric=faiss.METRIC_INNER_PRODUCT)
    for place, row in enumerate(rows.tolist()):
        others, cosines = _others(vectors, row, np.sort(found[place]))
        if len(others) < len(vectors) - 1 and cosines[k - 1] - cosines[-1] <= CLOSE:
            others, cosines = _others(vectors, row, np.arange(len(vectors)))
        near[place] = others[:k]
    return near


def _others(
    vectors: NDArray[np.float32], row: int, among: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return some vectors but one, nearest to that first, and their cosines, each summed alike."""
    among = among[among != row]
    cosines = np.einsum("ij,j->i", vectors[among], vectors[row])
    order = np.argsort(-cosines, kind="stable")
    return among[order], cosines[order]
