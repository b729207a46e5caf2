"""Margins from a graph on a made-up graph whose distances are known (Amore Bondarenko et al. 2022, equations 1 to 3).

Each seed makes its own graph: 300 concepts are points around the centres of 60 small groups, and these lie around those
of 6 large ones. A concept is related to its twelve nearest by one of four relations, and ComplEx learns vectors of that
alone. A concept has six names, variants of a stem of random syllables that says nothing of where the concept
lies; half of them have a word of the large group before it, as "renal" before the names of kidneys' diseases. Four of
the names train a new encoder, by one of the losses; two are asked.

    Spearman   of a concept's cosines with all others, by the mean of its two unseen names, and the true nearness
               (minus the distance); an item is a concept
    F1         of the pairs of unseen names of one concept, above a threshold chosen on a fifth of the concepts; an
               item is a name of the others

`v3_permuted` has the vectors of other concepts, drawn by chance: what v3 gains by a graph it must lose there.
Names alone train: the paper's contexts come from a corpus, and made-up words stand in none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.artefact import atomic_file
from alphita.encoder.encoder import TermEncoder
from alphita.index.neighbours import unit
from alphita.terminology.store import load_terminology
from alphita_lab.graph.store import EntityVectors
from experiments import Arm, Experiment, Items, Job, scratch_encoder
from study import Column, Ordering, whole

CONCEPTS, LARGE, SMALL, DIM, NEAREST = 300, 6, 60, 6, 12
TRAINED, ASKED = 4, 2
SETTINGS = {
    "steps": 200,
    "accumulation": 4,
    "learning_rate": 3e-4,
    "refresh_every": 50,
    "dropout": 0.1,
    "precision": "fp32",
    "checkpoint_every": 100,
    "log_every": 25,
}
ENCODER: dict[str, Any] = {"layers": 4, "hidden": 128, "vocabulary": 600}
GRAPH = {
    "dim": 64,
    "batch_size": 256,
    "negatives": 256,
    "epochs": 100,
    "regularization": 0.2,
    "rare": 1,
    "inverse": 1.0,
    "test": 0.0,
}
ENDINGS = ("ia", "osis", "ine", "um", "oma", "al", "ic", "ata")


def made_up(seed: int) -> tuple[NDArray[np.float64], list[list[str]], list[tuple[int, int, int]]]:
    """Return the concepts' places (n, d), their names, those that are asked last, and the triples."""
    rng = np.random.default_rng([seed, 75])
    large = rng.normal(size=(LARGE, DIM))
    of_small = np.arange(SMALL) % LARGE
    small = large[of_small] + 0.5 * rng.normal(size=(SMALL, DIM))
    of_concept = np.arange(CONCEPTS) % SMALL
    places = small[of_concept] + 0.25 * rng.normal(size=(CONCEPTS, DIM))

    syllables = [first + vowel + last for first in "bdfglmnprst" for vowel in "aeiou" for last in ("", "n", "r")]

    def word(length: int) -> str:
        return "".join(rng.choice(syllables, length))

    stems: list[str] = []
    while len(stems) < CONCEPTS:
        stem = word(2)
        if stem not in stems:
            stems.append(stem)
    words = [word(2) for _ in range(LARGE)]
    names = []
    for concept, stem in enumerate(stems):
        variants: list[str] = []
        while len(variants) < TRAINED + ASKED:
            variant = stem + str(rng.choice(ENDINGS))
            if rng.random() < 0.5:
                # A letter of the stem is lost, as in a spelling of another country.
                place = int(rng.integers(1, len(stem)))
                variant = stem[:place] + variant[place + 1 :]
            if rng.random() < 0.5:
                variant = f"{words[of_small[of_concept[concept]]]} {variant}"
            if variant not in variants:
                variants.append(variant)
        names.append(variants)

    far = distances(places)
    triples = []
    for head in range(CONCEPTS):
        for tail in np.argsort(far[head], kind="stable")[1 : NEAREST + 1].tolist():
            turn = (places[tail] - places[head])[:2] > 0
            triples.append((head, int(turn[0]) + 2 * int(turn[1]), tail))
    return places, names, triples


def distances(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, n) Euclidean distances of n places."""
    found: NDArray[np.float64] = np.linalg.norm(places[:, None] - places[None, :], axis=-1)
    return found


def prepare(folder: Path, seed: int, _: Path | None, alphita: Callable[..., None]) -> None:
    """Make the graph: terminology, an encoder with random weights, vectors and permuted vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    _places, names, triples = made_up(seed)
    terminology, vectors, permuted = (folder / name for name in ("made_up.terminology", "vectors", "permuted"))
    if not whole(terminology, "terminology"):
        lines = [f"M:{concept:04d}\t{name}\n" for concept, of in enumerate(names) for name in of[:TRAINED]]
        write(folder / "terms.tsv", "id\tterm\n" + "".join(lines))
        lines = [f"M:{head:04d}\trelation {label}\tM:{tail:04d}\n" for head, label, tail in triples]
        write(folder / "relations.tsv", "head\trelation\ttail\n" + "".join(lines))
        alphita("terminology", "import", "table", folder / "terms.tsv", folder / "relations.tsv", "-o", terminology)
    scratch_encoder(load_terminology(terminology), folder / "encoder", **ENCODER, seed=seed)
    if not whole(vectors, "graph_vectors"):
        sets = [word for key, value in {**GRAPH, "seed": seed}.items() for word in ("--set", f"{key}={value}")]
        alphita("graph", "train", "complex", "--terminology", terminology, "--output", vectors, "--resume", *sets)
    if not whole(permuted, "graph_vectors"):
        learnt = EntityVectors.load(vectors)
        order = np.random.default_rng([seed, 76]).permutation(len(learnt))
        moved = np.asarray(learnt.vectors)[order]
        EntityVectors(
            learnt.ids, moved, learnt.relations, np.asarray(learnt.relation_vectors), learnt.model, {"permuted": seed}
        ).save(permuted)


def write(file: Path, text: str) -> None:
    """Write a file whole."""
    with atomic_file(file, "w") as opened:
        opened.write(text)


def train(job: Job) -> None:
    """Train one arm."""
    job.train(job.data / "made_up.terminology", job.data / "encoder", SETTINGS)


def score(job: Job) -> dict[str, Items]:
    """Score a model by the names that did not train."""
    places, names, _ = made_up(job.seed)
    if not job.arm.recipe:
        learnt = unit(np.asarray(EntityVectors.load(job.data / "vectors").vectors)).astype(np.float64)
        return {"spearman": nearness(learnt @ learnt.T, -distances(places))}
    asked = [name for of in names for name in of[TRAINED:]]
    vectors = unit(TermEncoder.load(str(job.model), precision="fp32").encode(asked)).astype(np.float64)
    concepts = vectors.reshape(CONCEPTS, ASKED, -1).mean(axis=1)
    concepts /= np.linalg.norm(concepts, axis=1, keepdims=True)
    owner = np.repeat(np.arange(CONCEPTS), ASKED)
    return {
        "spearman": nearness(concepts @ concepts.T, -distances(places)),
        "f1": pairs_found(vectors @ vectors.T, owner, tuned_on=CONCEPTS // 5),
    }


def nearness(similarity: NDArray[np.float64], truth: NDArray[np.float64]) -> Items:
    """Return Spearman's correlation of each row (n, n) with the true one, itself left out."""
    from scipy.stats import spearmanr

    others = ~np.eye(len(truth), dtype=bool)
    found = [spearmanr(similarity[row][others[row]], truth[row][others[row]])[0] for row in range(len(truth))]
    return np.stack([np.array(found), np.ones(len(truth))], axis=1)


def pairs_found(similarity: NDArray[np.float64], owner: NDArray[np.int64], *, tuned_on: int) -> Items:
    """Return 2 tp and 2 tp + fp + fn of each name (n, n) over the pairs of names of one concept.

    The threshold is the one of best F1 among the names of the first `tuned_on` concepts; all others are scored.
    """
    same = owner[:, None] == owner[None, :]
    np.fill_diagonal(same, False)
    similarity = similarity - 2 * np.eye(len(owner))
    tuned = owner < tuned_on

    def counts(part: NDArray[np.bool_], theta: float) -> Items:
        found, right = similarity[np.ix_(part, part)] > theta, same[np.ix_(part, part)]
        both = 2.0 * (found & right).sum(axis=1)
        return np.stack([both, both + (found != right).sum(axis=1)], axis=1)

    def f1(theta: float) -> float:
        above, below = counts(tuned, theta).sum(axis=0)
        return float(above / below) if below else 0.0

    return counts(~tuned, max(np.arange(0.3, 1, 0.01).tolist(), key=f1))


V3: dict[str, Any] = {"version": "v3", "graph": "{data}/vectors"}
EXPERIMENT = Experiment(
    name="margins",
    title="Margins from a graph whose distances are known",
    arms=(
        Arm("graph", "the graph's vectors", ""),
        Arm("v1", "v1", "kge_margin", {"version": "v1"}),
        Arm("v2", "v2", "kge_margin", {"version": "v2"}),
        Arm("v3_attached", "v3, gradient through the margin", "kge_margin", {**V3, "detach_margin": "false"}),
        Arm("v3_detached", "v3, margin detached", "kge_margin", {**V3, "detach_margin": "true"}),
        Arm(
            "v3_permuted",
            "v3, margin detached, permuted graph",
            "kge_margin",
            {"version": "v3", "graph": "{data}/permuted", "detach_margin": "true"},
        ),
    ),
    columns=(
        Column("spearman", "Spearman to the truth", "", "", digits=3),
        Column("f1", "F1 of synonym pairs", "", "", scale=100, digits=1),
    ),
    claims=(
        Ordering("v2", "v1", ("spearman", "f1"), "table 3"),
        Ordering("v3_attached", "v2", ("spearman", "f1"), "table 3"),
        Ordering("v3_detached", "v2", ("spearman", "f1"), "table 3"),
        Ordering("v3_attached", "v1", ("spearman", "f1"), "table 3"),
        Ordering("v3_detached", "v1", ("spearman", "f1"), "table 3"),
        Ordering("v3_attached", "v3_detached", ("spearman", "f1"), "equation 3 as printed; not stated"),
        Ordering("v3_detached", "v3_permuted", ("spearman", "f1"), "what is the graph's"),
    ),
    seeds=tuple(range(10)),
    prepare=prepare,
    train=train,
    score=score,
    settings={"training": SETTINGS, "encoder": ENCODER, "graph": GRAPH, "concepts": CONCEPTS},
)
