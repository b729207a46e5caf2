"""The rows of CODER's ablations: what trains each, what is scored of it, and what all of them share.

The papers' rows are Yuan et al. 2022, §5.1, and Yuan, Zhao and Yu 2020, table 6. All rows start from the same encoder,
CODER++ too, take equally many steps of some 256 term rows, and have the same learning rate, warm-up, dropout and
pooling (but for the row `cls`); what a row does not set is its recipe's default. `m`, the times that a triple stands in
a batch of `coder`, is 2 as in the quickstart: with the paper's 8, 256 term rows hold only 32 concepts, and the paper
adds the gradients of 8 batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from alphita import artefact, registry
from alphita.errors import UsageError


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: of its folder.
        title: as the table prints it.
        recipe: what trains it; None: the encoder as it comes, scored once.
        settings: beside those that all rows share; {m} and {quarter} stand for numbers of the plan.
    """

    name: str
    title: str
    recipe: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


CODER = {"k": "128", "m": "{m}"}
# Rows a step: 256 of coder and sapbert. coder_transe fills 256 as far as whole concepts fit. coder_pp gives an anchor,
# its 30 nearest and what synonyms it has: 7 anchors come nearest to 256 on the open graph. The table tells what it was.
ROWS = (
    Row("base", "the encoder as it comes"),
    Row("ms", "MS", "coder", CODER | {"mu": "0"}),
    Row("rel_full", "MS + REL, full M_r", "coder", CODER | {"relation_matrix": "full"}),
    Row("rel_diagonal", "MS + REL, diagonal M_r", "coder", CODER | {"relation_matrix": "diagonal"}),
    Row("rel_low_rank", "MS + REL, low-rank M_r", "coder", CODER | {"relation_matrix": "low_rank"}),
    # lambda is minus the mean distance at the start, as -28 is for vectors of 768 numbers; MiniLM's have 384.
    Row(
        "transe_like",
        "MS + REL, TransE-like similarity",
        "coder",
        CODER | {"relation_similarity": "transe", "lam_rel": "-20.8"},
    ),
    Row("cls", "MS + REL, diagonal M_r, [CLS]", "coder", CODER | {"relation_matrix": "diagonal", "pooling": "cls"}),
    Row("ms_2020", "2020: MS", "coder_transe", {"batch_terms": "256", "mu": "0"}),
    Row("ms_transe", "2020: MS + TransE", "coder_transe", {"batch_terms": "256"}),
    Row("ms_sty", "2020: MS + STY", "coder_transe", {"batch_terms": "256", "mu": "0", "semantic_type_weight": "0.1"}),
    Row(
        "ms_transe_sty",
        "2020: MS + TransE + STY",
        "coder_transe",
        {"batch_terms": "256", "semantic_type_weight": "0.1"},
    ),
    Row("sapbert", "SapBERT", "sapbert", {"pairs": "128", "schedule": "linear"}),
    # As often mined anew in a run as the released code does: 4 times.
    Row("coder_pp", "CODER++, from the same encoder", "coder_pp", {"anchors": "7", "refresh_every": "{quarter}"}),
)


@dataclass(frozen=True)
class Evaluation:
    """One call of `alphita evaluate`, and the report folder of its name.

    Attributes:
        name: of the folder.
        benchmarks: what is scored.
        systems: name in the report -> the pooling it is given; None: the model's own.
        settings: "key=value" or "BENCHMARK.key=value".
        data: whose files are needed: "benchmarks", or "relations", which are made of the terminology.
    """

    name: str
    benchmarks: tuple[str, ...]
    systems: Mapping[str, str | None]
    settings: tuple[str, ...] = ()
    data: Literal["", "benchmarks", "relations"] = ""


OWN: Mapping[str, str | None] = {"model": None}
# Sizes for two cores: some two minutes a model. MCSM: neighbours among the concepts that have a type, as in the
# released code. Relations: most triples of an ontology are is_a, so a sample with at most MOST_TRIPLES of each relation
# is classified, in the layout of DDBRC; what is tested on is held out of the encoders' training.
RELATIONS, MOST_TRIPLES, LEAST_TRIPLES, RELATIONS_SEED = 14, 500, 50, 0
EVALUATIONS = (
    Evaluation("synonyms", ("held_out_synonyms",), OWN),
    Evaluation("mcsm", ("mcsm",), {"mean": "mean", "cls": "cls"}, ("mcsm.candidates=types",)),
    Evaluation("relations", ("relation_classification",), OWN, data="relations"),
    Evaluation(
        "relations_tuned",
        ("relation_classification",),
        OWN,
        ("relation_classification.epochs=4", "relation_classification.fine_tune=true"),
        data="relations",
    ),
    Evaluation(
        "benchmarks", ("psytar", "ncbi_disease", "hpo_gsc_plus", "bc5cdr"), OWN, ("bc5cdr.part=dev",), data="benchmarks"
    ),
)


@dataclass(frozen=True)
class Plan:
    """What all rows share.

    Attributes:
        terminology: what is learnt and tested on; with semantic types and relations.
        split: what of it is held out.
        out: the folder of everything.
        data: the benchmarks' files; None: those are left out.
        encoder: what all rows start from.
        steps: optimiser steps; a tenth of them is warm-up.
        m: times that a triple stands in a batch of the recipe coder.
        learning_rate: at its peak.
        benchmarks: what is scored; empty: everything that there are data for.
        settings: further settings of every training, "key=value".
        threads: of every command; None: all cores.
        keep_models: models are not removed once they are scored (90 MB each).
    """

    terminology: Path
    split: Path
    out: Path
    data: Path | None = None
    encoder: str = "minilm"
    steps: int = 1000
    m: int = 2
    learning_rate: float = 1e-4
    benchmarks: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    threads: int | None = None
    keep_models: bool = False

    def facts(self) -> dict[str, Any]:
        """Return what a figure depends on, whatever its row and seed."""
        return {
            "terminology": artefact.open_manifest(self.terminology, "terminology")["content_hash"],
            "split": artefact.open_manifest(self.split, "split")["content_hash"],
            "encoder": self.encoder,
            "steps": self.steps,
            "m": self.m,
            "learning_rate": self.learning_rate,
            "settings": list(self.settings),
            "relations": [RELATIONS, MOST_TRIPLES, LEAST_TRIPLES, RELATIONS_SEED],
            "evaluations": {
                one.name: {"benchmarks": list(one.benchmarks), "settings": list(one.settings)}
                for one in self.evaluations()
            },
        }

    def evaluations(self) -> list[Evaluation]:
        """Return what is scored of each model.

        Raises:
            UsageError: a benchmark is unknown or needs data that were not given.
        """
        known = [name for one in EVALUATIONS for name in one.benchmarks]
        for name in self.benchmarks:
            if name not in known:
                raise UsageError(registry.unknown("benchmark", name, list(dict.fromkeys(known))))
        chosen = []
        for one in EVALUATIONS:
            wanted = tuple(name for name in one.benchmarks if not self.benchmarks or name in self.benchmarks)
            if one.data == "benchmarks" and self.data is None:
                if self.benchmarks and wanted:
                    raise UsageError(f"{', '.join(wanted)} need their files: --data FOLDER")
                continue
            kept = tuple(item for item in one.settings if "." not in item or item.partition(".")[0] in wanted)
            if wanted:
                chosen.append(Evaluation(one.name, wanted, one.systems, kept, one.data))
        return chosen

    def training(self, row: Row, seed: int) -> list[str]:
        """Return the settings of one training, "key=value"; what comes later overrides."""
        shared = {
            "steps": self.steps,
            "accumulation": 1,
            "learning_rate": self.learning_rate,
            "warmup_steps": self.steps // 10,
            "dropout": 0.0,
            "pooling": "mean",
            "seed": seed,
            "log_every": 25,
            "checkpoint_every": 100,
        }
        numbers = {"m": self.m, "quarter": max(1, self.steps // 4)}
        own = {key: value.format_map(numbers) for key, value in row.settings.items()}
        further = dict(item.split("=", 1) for item in self.settings)
        return [f"{key}={value}" for key, value in (shared | own | further).items()]
