"""What each recipe needs to be tried in seconds: settings, files, and the micro-steps that it runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from alphita.terminology.store import Terminology
from alphita_lab.training.engine.steps import SwitchingSteps
from alphita_lab.training.mentions.injection import InjectionSteps
from alphita_lab.training.terms.batches import TermSteps
from alphita_lab.training.text.masked_steps import MaskedSteps
from tests.lab.training.linked_texts import graph_of, mentions_of
from tests.tables import terminology_of
from tests.tiny import FINDINGS, SITES, tiny_terminology

COMMON: dict[str, Any] = {
    "steps": 80,
    "warmup_steps": 5,
    "accumulation": 1,
    "learning_rate": 2e-3,
    "pooling": "mean",
    "precision": "fp32",
    "log_every": 5,
    "checkpoint_every": 10,
    "schedule": "linear",
}


@dataclass(frozen=True)
class Case:
    """A recipe to be tried.

    Attributes:
        settings: beside `COMMON`.
        files: settings that are paths: some of corpus, mentions, graph, files.
        steps: the micro-steps of its last phase.
        translated: whether it needs names in two languages.
        told: what a dry run says of it beside what it says of all.
    """

    settings: dict[str, Any]
    files: tuple[str, ...] = ()
    steps: type = TermSteps
    translated: bool = False
    told: tuple[str, ...] = ()


_MARGINS = {"prototypes": 4, "positives": 4, "negatives": 8}
_INJECTION = {"layer": 1, "nearest": 5}
CASES: dict[str, Case] = {
    # These learn from names and relations alone.
    "coder": Case({"k": 16, "m": 4}),
    "coder_transe": Case({"batch_terms": 48, "most_names": 4, "semantic_type_weight": 0.1}),
    "sapbert": Case({"pairs": 16}),
    "coder_pp": Case({"anchors": 4, "neighbours": 6, "synonyms": 3, "refresh_every": 15}),
    "biolord": Case({"phases": "contrast", "batch": 16, "max_length": 48}),
    "alphita": Case({"batch": 16, "keep_rows": 8, "mu": 0.1, "noise": 0.0, "dev_definitions": 0, "hold_back": False}),
    "kge_margin": Case({"version": "v2", **_MARGINS}),
    # These from translations, other models, text, vectors of a graph.
    "multilingual": Case(
        {"batch": 16}, translated=True, told=("names: 24; translations: 24", "the teacher encodes 24 names")
    ),
    "pairs": Case({"batch": 8}, files=("files",)),
    "ext_bert": Case(
        {"vocabulary": 120, "batch": 8, "max_length": 24, "dev_share": 0.0},
        files=("corpus",),
        steps=MaskedSteps,
        told=("vocabulary: 115 tokens trained", "tokens a word, corpus:", "tokens a word, names:", "sequences:"),
    ),
    "kge_injection": Case(
        {"batch": 6, **_INJECTION},
        files=("mentions", "graph"),
        steps=InjectionSteps,
        told=("entities: 28 of 6 numbers", "6 sequences,"),
    ),
    "electra_em_pap": Case(
        {
            "vocabulary": 150,
            "layers": 2,
            "hidden": 32,
            "heads": 2,
            "max_length": 32,
            "batch": 8,
            "rho": 0.3,
            "attribute_batch": 8,
        },
        files=("corpus",),
        steps=SwitchingSteps,
    ),
    "pipelined": Case(
        {"injection_steps": 5, "injection_warmup_steps": 1, **_INJECTION, **_MARGINS},
        files=("mentions", "graph"),
        told=("entities are added after layer 1 of 2", "5 steps: about"),
    ),
}
OF_NAMES = tuple(name for name, case in CASES.items() if not case.files and not case.translated)


@dataclass
class Given:
    """What the recipes learn from, made once."""

    folder: Path
    model: Path
    terminology: Terminology = field(init=False)
    translated: Terminology = field(init=False)
    files: dict[str, Path] = field(init=False)

    def __post_init__(self) -> None:
        """Make the terminologies, a corpus, its mentions and vectors of the graph."""
        self.terminology = tiny_terminology(self.folder / "tiny.terminology", types=True)
        self.translated = _translated(self.folder / "translated.terminology")
        corpus = self.folder / "notes.txt"
        places = itertools.product(range(7), SITES, FINDINGS)
        corpus.write_text("".join(f"day {day}: {one[0]} of the {site} again\n" for day, site, one in places))
        ids = [self.terminology.concept_id(row) for row in range(self.terminology.n_concepts) if row % 8]
        pairs = self.folder / "pairs.csv"
        rows = [
            (f"{one} of the {site}", f"{site} {other}", f"{one} elsewhere")
            for site, (one, other) in itertools.product(SITES, FINDINGS)
        ]
        pairs.write_text("anchor,positive,negative\n" + "".join(",".join(row) + "\n" for row in rows))
        self.files = {
            "files": pairs,
            "corpus": corpus,
            "graph": graph_of(ids, self.folder / "x.vectors"),
            "mentions": mentions_of(self.terminology, self.model, self.folder / "x.mentions"),
        }

    def to(self, recipe: ModuleType) -> Terminology:
        """Return the terminology that a recipe learns from."""
        return self.translated if CASES[name_of(recipe)].translated else self.terminology

    def config(self, recipe: ModuleType, **changes: object) -> Any:
        """Return a recipe's config, small."""
        case = CASES[name_of(recipe)]
        return recipe.Config(**COMMON | case.settings | {name: str(self.files[name]) for name in case.files} | changes)

    def train(self, recipe: ModuleType, out: Path, **given: Any) -> dict[str, float]:
        """Train a recipe with these options, such as `resume`, and by its config with all other changes."""
        options = {name: given.pop(name) for name in ("resume", "dry_run", "force", "split") if name in given}
        figures: dict[str, float] = recipe.train(
            self.to(recipe), str(self.model), out, self.config(recipe, **given), **options
        )
        return figures


def name_of(recipe: ModuleType) -> str:
    """Return the name of a recipe's module."""
    return recipe.__name__.rsplit(".", 1)[-1]


def _translated(path: Path) -> Terminology:
    """24 concepts with a label in English and one in an invented tongue, its words turned round."""
    rows = []
    for number, (site, (plain, _)) in enumerate(itertools.product(SITES, FINDINGS)):
        strings = {"en": f"{plain} of the {site}", "it": f"{site[::-1]} {plain[::-1]}"}
        rows += [(f"T:{number}", string, language, True) for language, string in strings.items()]
    return terminology_of(rows, path)
