"""Table 2 of the Italian system: four graph models, how they predict links, and what their vectors are worth.

OUT/MODEL/SEED/ holds `vectors`, the report `types` (MCSM) and, where there are sets of scored pairs, `relatedness`. The
sets name concepts by CUI: a pair's concept is the one of that id, or with a cross-reference to it, else those with the
term of the pair as a name; of several the mean of their unit vectors is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact
from alphita.artefact import atomic_file
from alphita.errors import InputError
from alphita.index.neighbours import unit
from alphita.terminology.reading import rows_of
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.graph.store import EntityVectors
from cells import by_column, report_figures, seeds_in, whole

MODELS = ("transe", "complex", "rotate", "simple")
TITLES = {"transe": "TransE", "complex": "ComplEx", "rotate": "RotatE", "simple": "SimplE"}
LINKS = ("hits@1", "hits@3", "hits@10", "MR", "MRR")
VECTORS, TYPES, RELATED = "vectors", "types", "relatedness"
CUIS = "cui.csv"


def make(
    terminology: Path,
    out: Path,
    model: str,
    seed: int,
    settings: Sequence[str],
    data: Path | None,
    scoring: Sequence[str],
    alphita: Callable[..., None],
    *,
    device: str = "cpu",
) -> None:
    """Train and score one model with one seed, as far as that is not done yet.

    Args:
        terminology: whose relations are learnt, and whose types are scored if it has any.
        out: the folder of all models.
        model: one of `MODELS`.
        seed: of split and training.
        settings: further ones of the training, "key=value"; the defaults have the paper's filter and split.
        data: the benchmarks' files; None: no relatedness.
        scoring: settings of the benchmarks, "BENCHMARK.key=value".
        alphita: runs a command.
        device: to train on.
    """
    folder = out / model / str(seed)
    vectors = folder / VECTORS
    if not whole(vectors, "graph_vectors"):
        sets = [word for item in (f"seed={seed}", *settings) for word in ("--set", item)]
        alphita(
            "graph",
            "train",
            model,
            "--terminology",
            terminology,
            "--output",
            vectors,
            "--device",
            device,
            "--resume",
            *sets,
        )
    opened = load_terminology(terminology)
    if len(opened.side_table("semantic_types")) and not whole(folder / TYPES, "report"):
        alphita(
            "evaluate",
            "mcsm",
            "--model",
            f"graph_vectors:{vectors},name=vectors",
            "--terminology",
            terminology,
            "--output",
            folder / TYPES,
            "--force",
            *_of("mcsm", scoring),
        )
    if data is None or whole(folder / RELATED, "report"):
        return
    known = by_cui(EntityVectors.load(vectors), opened, concepts_of_pairs(data))
    if known:
        write_cuis(known, folder / CUIS)
        alphita(
            "evaluate",
            "relatedness",
            "--model",
            f"concept_vectors:{folder / CUIS},name=vectors",
            "--data",
            data,
            "--output",
            folder / RELATED,
            "--force",
        )


def _of(benchmark: str, scoring: Sequence[str]) -> list[str]:
    return [word for item in scoring if item.startswith(f"{benchmark}.") for word in ("--set", item)]


def concepts_of_pairs(data: Path) -> dict[str, set[str]]:
    """Return the CUIs of the relatedness sets, each with its terms, cleaned.

    Raises:
        InputError: there is none of the sets.
    """
    module = load_benchmark("relatedness")
    found: dict[str, set[str]] = {}
    for one in module.load(Source(data, None, "relatedness", module.INFO.where), module.Options()).sets:
        for terms, cuis in zip(zip(one.left, one.right, strict=True), one.concepts or (), strict=False):
            for term, cui in zip(terms, cuis, strict=True):
                if cui:
                    found.setdefault(cui, set()).add(clean(term))
    return found


def by_cui(
    vectors: EntityVectors, terminology: Terminology, asked: Mapping[str, set[str]]
) -> dict[str, NDArray[np.float32]]:
    """Return the vector of each CUI that a concept with a vector stands for.

    Args:
        vectors: of concepts.
        terminology: what links the CUIs to them.
        asked: CUI -> terms for it, cleaned.
    """
    rows, _ = vectors.rows_of_terminology(terminology)
    ids = rows_of(terminology, [f"UMLS:{cui}" for cui in asked])
    xrefs = terminology.side_table("xrefs")
    referring: dict[str, list[int]] = {}
    for concept, target in zip(xrefs["concept"].to_pylist(), xrefs["object"].to_pylist(), strict=True):
        referring.setdefault(target, []).append(concept)
    found = {}
    for cui, terms in asked.items():
        identifier = f"UMLS:{cui}"
        concepts = [ids[identifier]] if identifier in ids else referring.get(identifier, [])
        if not _known(rows, concepts):
            concepts = [concept for term in sorted(terms) for concept in _named(terminology, term)]
        if known := _known(rows, concepts):
            found[cui] = unit(np.asarray(vectors.vectors[rows[known]], np.float32)).mean(axis=0)
    return found


def _known(rows: NDArray[np.int64], concepts: Sequence[int]) -> list[int]:
    """Return the concepts that have a vector, each once."""
    return [concept for concept in sorted(set(concepts)) if rows[concept] >= 0]


def _named(terminology: Terminology, term: str) -> list[int]:
    key = terminology.find_key(term)
    return [] if key is None else terminology.term_concept[terminology.terms_of_key(key)].tolist()


def write_cuis(vectors: Mapping[str, NDArray[np.float32]], path: Path) -> None:
    """Write vectors as cui2vec's file has them: a CUI and its numbers, a line each."""
    with atomic_file(path, "w") as file:
        for cui, vector in sorted(vectors.items()):
            file.write(",".join([cui, *(f"{number:.8g}" for number in vector.tolist())]) + "\n")


def figures_of(folder: Path) -> dict[str, float]:
    """Return the figures of one finished model: of link prediction, MCSM and relatedness.

    Raises:
        InputError: its vectors are not there.
    """
    facts = artefact.open_manifest(folder / VECTORS, "graph_vectors")["facts"]
    tested = facts.get("figures", {}).get("test", {})
    figures = {name: float(tested[name]) for name in LINKS if name in tested}
    if whole(folder / TYPES, "report"):
        found = report_figures(folder / TYPES)["vectors"]
        if ("mcsm", "MCSM", "mean of types") in found:
            figures["MCSM"] = found["mcsm", "MCSM", "mean of types"]
    if whole(folder / RELATED, "report"):
        for (_, metric, subset), value in report_figures(folder / RELATED)["vectors"].items():
            if metric == "Spearman" and subset.startswith("dataset="):
                figures[subset.removeprefix("dataset=")] = value
        figures["CUIs"] = float(len((folder / CUIS).read_text(encoding="utf-8").splitlines()))
    return figures


def vectors_in(graphs: Path, model: str, seed: int) -> Path:
    """Return the vectors of a model: those of the seed, or else of the lowest seed there is.

    Raises:
        InputError: there are none.
    """
    seeds = sorted(int(path.parent.name) for path in graphs.glob(f"{model}/*/{VECTORS}") if path.parent.name.isdigit())
    if not seeds:
        raise InputError(
            f"no vectors of {model}", file=graphs, remedy=f"make them: python bench/italian.py graph --models {model}"
        )
    return graphs / model / str(seed if seed in seeds else seeds[0]) / VECTORS


def rows_of_table(out: Path) -> list[dict[str, Any]]:
    """Return a row for each model that is trained: name, title, seeds, and the figures of each column by seed."""
    rows = []
    for model in MODELS:
        made = {
            seed: figures_of(folder)
            for seed, folder in seeds_in(out / model).items()
            if whole(folder / VECTORS, "graph_vectors")
        }
        if made:
            rows.append({"name": model, "title": TITLES[model], "seeds": list(made), "figures": by_column(made)})
    return rows
