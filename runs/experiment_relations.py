"""What relations add to CODER, from scratch: table 5 of Yuan et al. 2022, and types of Yuan, Zhao and Yu 2020.

The graph of thirteen open vocabularies (runs/open_graph.sh, here in all their languages), merged with HPO, whose main
branches are the semantic types. Encoders with random weights train with equally many steps of 256 rows, from the same
tokens and weights; the losses are:

    ms, ms_own         MS; the copies of a name in a batch share one dropout mask, or have masks of their own
    sapbert            SapBERT
    rel_full, rel_diagonal, transe     MS + REL, with full or diagonal M_r, or the TransE-like similarity
    rel_permuted       as rel_full, but the tails of each relation are dealt out anew among its triples: what rel_full
                       gains by the graph it must lose here
    ms_2020, sty       the first version's MS, without and with the semantic types

    synonyms   names held out of training find their concept among the names of 30,000 concepts; an item is a name
    concepts   a name of a concept none of whose names trained, likewise; itself is left out

Needs --data FOLDER with open_graph/terms.tsv and relations.tsv, gzipped or not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import open_vocabularies
from alphita import TermEncoder
from alphita.errors import UsageError
from alphita.index.neighbours import unit
from alphita.terminology import reading, splits, store
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean_many
from experiment_attributes import file, permuted
from experiments import Arm, Experiment, Items, Job, accuracies, scratch_encoder
from study import Column, Ordering, whole

SETTINGS: dict[str, Any] = {
    "pooling": "mean",
    "steps": 10_000,
    "accumulation": 1,
    "learning_rate": 3e-4,
    "warmup_steps": 1000,
    "schedule": "linear",
    "dropout": 0.1,
    "dropout_masks": "shared",
    "precision": "bf16",
    "checkpoint_every": 250,
    "log_every": 100,
}
ENCODER: dict[str, Any] = {"layers": 4, "hidden": 256, "vocabulary": 20_000}
SYNONYMS, CONCEPTS, SEARCHED, BLOCK = 0.02, 0.01, 30_000, 512
GRAPH, PERMUTED, SPLIT, UNSEEN = "graph.terminology", "permuted.terminology", "held_out.split", "concepts.split"


def prepare(folder: Path, seed: int, data: Path | None, alphita: Callable[..., None]) -> None:
    """Make the graph, its permuted twin and the split, which all seeds share, and the seed's encoder."""
    if data is None:
        raise UsageError("--data FOLDER is needed, with open_graph/terms.tsv and relations.tsv")
    shared = folder.parent
    shared.mkdir(parents=True, exist_ok=True)
    typed, read, tables = shared / "hpo.terminology", shared / "read.terminology", shared / "tables"
    if not whole(typed, "terminology"):
        alphita("terminology", "import", "obo", "hpo", "--packaged", "--set", "semantic_type=HP:0000118", "-o", typed)
    if not whole(read, "terminology"):
        terms, relations = (file(data / "open_graph", f"{name}.tsv") for name in ("terms", "relations"))
        open_vocabularies.write_tables(terms, relations, tables)
        alphita(
            "terminology",
            "import",
            "table",
            tables / "terms.tsv",
            tables / "relations.tsv",
            "--set",
            "quote=",
            "-o",
            read,
        )
    if not whole(shared / GRAPH, "terminology"):
        mappings = tables / open_vocabularies.EXACT
        alphita("terminology", "merge", typed, read, "--mappings", mappings, "-o", shared / GRAPH, "--force")
    graph = load_terminology(shared / GRAPH)
    if not whole(shared / SPLIT, "split"):
        unseen = splits.hold_out_concepts(graph, fraction=CONCEPTS, seed=0)
        unseen.save(shared / UNSEEN, force=True)
        held_out(splits.hold_out_synonyms(graph, fraction=SYNONYMS, seed=1), unseen).save(shared / SPLIT)
    if not whole(shared / PERMUTED, "terminology"):
        moved = permuted(reading.tables_of(graph))
        store.save(moved, shared / PERMUTED, config={"permuted": graph.content_hash})
    scratch_encoder(graph, folder / "encoder", **ENCODER, seed=seed, exclude=Split.load(shared / SPLIT).cleaned)


def held_out(synonyms: Split, concepts: Split) -> Split:
    """Return both as one: the synonyms of unseen concepts are theirs; "calibration" are the names of these."""
    unseen = set(concepts.concept_ids)
    kept = [row for row, one in enumerate(synonyms.concept_ids) if one not in unseen]
    strings, ids = ([column[row] for row in kept] for column in (synonyms.strings, synonyms.concept_ids))
    parts = ["test"] * len(kept) + ["calibration"] * len(concepts)
    facts = {"method": "synonyms and whole concepts", "synonyms": synonyms.facts, "concepts": concepts.facts}
    return Split([*strings, *concepts.strings], [*ids, *concepts.concept_ids], parts, facts)


def train(job: Job) -> None:
    """Train one arm."""
    shared = job.data.parent
    terminology = shared / (PERMUTED if job.arm.name == "rel_permuted" else GRAPH)
    job.train(terminology, job.data / "encoder", SETTINGS, "--split", shared / SPLIT)


def questions(terminology: Terminology, split: Split) -> dict[str, Any]:
    """Return what is searched, names with their concepts, and of each measure what is asked, with the right concept."""
    rows, offsets = terminology.training_terms()
    owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    strings = clean_many(terminology.terms["string"].take(rows).to_pylist())
    test, unseen = split.part("test"), split.part("calibration")
    row_of = {one: row for row, one in enumerate(terminology.concept_ids.to_pylist())}
    rng = np.random.default_rng(75)
    asked = [(string, row_of[one]) for string, one in zip(clean_many(test.strings), test.concept_ids, strict=True)]
    gold = {concept for _, concept in asked} | {row_of[one] for one in unseen.concept_ids}
    others = rng.permutation(np.setdiff1d(np.unique(owners), sorted(gold)))[: max(0, SEARCHED - len(gold))]
    searched = np.isin(owners, [*sorted(gold), *others.tolist()])
    taken = test.cleaned
    names = [(strings[place], int(owners[place])) for place in np.flatnonzero(searched) if strings[place] not in taken]
    of_concept: dict[int, list[str]] = {}
    for string, concept in names:
        of_concept.setdefault(concept, []).append(string)
    whole_concepts = sorted({row_of[one] for one in unseen.concept_ids})
    new = [(of_concept[one][-1], one) for one in whole_concepts if len(of_concept.get(one, ())) > 1]
    return {"names": names, "asked": {"synonyms": [one for one in asked if one[1] in of_concept], "concepts": new}}


def score(job: Job) -> dict[str, Items]:
    """Score a model by the names that did not train."""
    shared = job.data.parent
    given = questions(load_terminology(shared / GRAPH), Split.load(shared / SPLIT))
    encoder = TermEncoder.load(str(job.model), precision="fp32")
    strings = [string for string, _ in given["names"]]
    distinct = {string: row for row, string in enumerate(dict.fromkeys(strings))}
    vectors = unit(encoder.encode(list(distinct)))
    concepts: list[set[int]] = [set() for _ in distinct]
    for string, concept in given["names"]:
        concepts[distinct[string]].add(concept)
    return {name: accuracies(found(encoder, vectors, distinct, concepts, of)) for name, of in given["asked"].items()}


def found(
    encoder: TermEncoder,
    vectors: NDArray[np.float32],
    distinct: dict[str, int],
    concepts: list[set[int]],
    asked: list[tuple[str, int]],
) -> list[bool]:
    """Tell of each question whether the most similar other name is of its concept."""
    queries = unit(encoder.encode([string for string, _ in asked]))
    right: list[bool] = []
    for start in range(0, len(asked), BLOCK):
        part = asked[start : start + BLOCK]
        similarity = queries[start : start + BLOCK] @ vectors.T
        for row, (string, _) in enumerate(part):
            if string in distinct:
                similarity[row, distinct[string]] = -np.inf
        best = similarity.argmax(axis=1).tolist()
        right += [concept in concepts[name] for name, (_, concept) in zip(best, part, strict=True)]
    return right


# lambda of the TransE-like similarity: minus the mean distance of 400 names at the start, 4.85, as 28 in the paper.
CODER = {"k": 128, "m": 8, "name_rule": "none"}
FIRST = {"batch_terms": 256, "mu": 0, "name_rule": "none"}
REL = {**CODER, "relation_matrix": "full"}
POINTS: dict[str, Any] = {"scale": 100, "digits": 1}
BOTH = ("synonyms", "concepts")
EXPERIMENT = Experiment(
    name="relations",
    title="What relations add to CODER, from scratch",
    arms=(
        Arm("ms", "MS", "coder", {**CODER, "mu": 0}),
        Arm("rel_full", "MS + REL, full", "coder", REL),
        Arm("rel_permuted", "MS + REL, full, permuted tails", "coder", REL),
        Arm("ms_own", "MS, own dropout masks", "coder", {**CODER, "mu": 0, "dropout_masks": "own"}),
        Arm("sapbert", "SapBERT", "sapbert", {"pairs": 128}),
        Arm("rel_diagonal", "MS + REL, diagonal", "coder", {**CODER, "relation_matrix": "diagonal"}),
        Arm("transe", "MS + REL, TransE-like", "coder", {**CODER, "relation_similarity": "transe", "lam_rel": -4.8}),
        Arm("ms_2020", "2020: MS", "coder_transe", FIRST),
        Arm("sty", "2020: MS + STY", "coder_transe", {**FIRST, "semantic_type_weight": 0.1}),
    ),
    columns=(
        Column("synonyms", "held-out synonyms @1", "", "", **POINTS),
        Column("concepts", "held-out concepts @1", "", "", **POINTS),
    ),
    claims=(
        Ordering("rel_full", "ms", BOTH, "2022, table 5: REL"),
        Ordering("rel_full", "rel_permuted", BOTH, "what is the graph's"),
        Ordering("rel_full", "transe", BOTH, "2022, table 5"),
        Ordering("transe", "ms", BOTH, "2022, table 5"),
        Ordering("rel_full", "rel_diagonal", BOTH, "2022, §3.3: full matrices"),
        Ordering("rel_diagonal", "ms", BOTH, "ours"),
        Ordering("ms_own", "ms", BOTH, "2022, §4.2: dropout"),
        Ordering("ms", "sapbert", BOTH, "2022, table 1"),
        Ordering("rel_full", "sapbert", BOTH, "2022, table 1"),
        Ordering("ms_2020", "sty", BOTH, "2020, table 6: types lower normalization"),
    ),
    seeds=tuple(range(5)),
    prepare=prepare,
    train=train,
    score=score,
    settings={"training": SETTINGS, "encoder": ENCODER, "held_out": [SYNONYMS, CONCEPTS], "searched": SEARCHED},
)
