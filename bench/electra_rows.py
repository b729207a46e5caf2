"""The rows of the tables of Liu, Jiang and Lyu (2022): how each is pre-trained, and training and scoring of them.

Settings are the paper's, the recipe's own, unless a number N of steps is given: then a row of batch 16 takes N steps,
one of batch 128 an eighth of them, so that all see as many sequences; a tenth of the steps is warm-up. Rows train from
scratch, or, where the plan names an encoder, from it; what that is worth as it comes is then one more row.

OUT/ROW/SEED/ holds log.jsonl and pretraining.json of the training, `ranking`, the report of `attribute_ranking`,
qtrel.json, what bench/qtrel.py finds, and the model where it is kept. OUT/qtrel holds the sets, and held_out.split: the
triples that their test parts ask for. No row is trained with them, and `attribute_ranking` asks for the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cells
import electra_table
import qtrel
from alphita import artefact, config, report
from alphita.artefact import atomic_file
from alphita.progress import say
from alphita.search import catalogue
from alphita.terminology.store import load_terminology
from alphita_lab.evaluation.systems import load_system
from alphita_lab.recipes.electra_em_pap import Config
from cells import MODEL, by_column, read, report_figures, seeds_in, whole

RECIPE, RANKING_OF = "electra_em_pap", "attribute_ranking"
RANKING, QTREL = "ranking", "qtrel"
LOG, PRETRAINING, SEARCHED, SETS = "log.jsonl", "pretraining.json", "qtrel.json", "sets.json"
# Batch and steps of section 4.2.1: with PAP, and without.
BATCH, LARGE, LARGE_STEPS = 16, 128, 420_000
# Tokens of a pair that is fine-tuned on, at most.
PAIR_TOKENS = 128
# Times that a training is scored along the way, and written down.
SCORED, WRITTEN = 20, 100


@dataclass(frozen=True)
class Row:
    """One row of the tables.

    Attributes:
        name: of its folder.
        title: as the tables print it.
        settings: that are its own.
        times: its batch over that of the others.
    """

    name: str
    title: str
    settings: Mapping[str, str]
    times: int = 1

    @property
    def rho(self) -> float:
        """The share of PAP."""
        return float(self.settings["rho"])

    @property
    def gamma(self) -> float:
        """The margin of PAP; 0 without it."""
        return float(self.settings.get("gamma", 0))


def _with_pap(name: str, title: str, rho: float = 0.05, gamma: float = 4) -> Row:
    return Row(name, title, {"rho": str(rho), "gamma": str(gamma)})


START = Row("start", "the encoder as it comes", {"rho": "0"})
"""Where rows start that are not trained from scratch; it is scored, with the first seed, and not trained."""
PLAIN, WITHOUT_PAP = {"rho": "0", "entities": "false", "segmenter": "none"}, {"rho": "0"}
ROWS = (
    Row("base", "ELECTRA", PLAIN),
    Row("em", "ELECTRA+EM", WITHOUT_PAP),
    _with_pap("em_pap", "ELECTRA+EM+PAP"),
    Row("base_128", "ELECTRA, batch 128", PLAIN, LARGE // BATCH),
    Row("em_128", "ELECTRA+EM, batch 128", WITHOUT_PAP, LARGE // BATCH),
    # 50% is not the paper's: it is for short trainings from an encoder that is trained already.
    *(_with_pap(f"rho_{share}", f"ELECTRA+EM+PAP, ρ {share}%", rho=share / 100) for share in (1, 10, 15, 50)),
    *(_with_pap(f"gamma_{margin}", f"ELECTRA+EM+PAP, γ {margin}", gamma=margin) for margin in (2, 6, 8)),
)
BY_NAME = {row.name: row for row in (START, *ROWS)}
# Their models are kept, for `cases`.
KEPT = ("base", "em", "em_pap", "base_128", "em_128")


@dataclass(frozen=True)
class Plan:
    """What all rows share.

    Attributes:
        terminology: of the products.
        corpus: files of text.
        out: the folder of everything.
        attributes: relations that train and are asked for; none: all.
        languages: of names and queries; none: all.
        steps: of a row of batch 16; 0: the paper's.
        settings: further settings of every training, "key=value".
        tuning: of fine-tuning on the pairs (sentence_pair), "key=value".
        ranking: of attribute_ranking, "key=value".
        most: pairs of a part of the sets at most; None: as many as the paper's.
        threads: of every command; None: all cores.
        keep_models: keep those of all rows.
        encoder: what rows start from; none: they train from scratch.
    """

    terminology: Path
    corpus: tuple[Path, ...]
    out: Path
    attributes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    steps: int = 0
    settings: tuple[str, ...] = ()
    tuning: tuple[str, ...] = ()
    ranking: tuple[str, ...] = ()
    most: int | None = None
    threads: int | None = None
    keep_models: bool = False
    encoder: str = ""

    @property
    def chosen(self) -> qtrel.Chosen:
        """Attributes and languages, as the search takes them."""
        return {"attributes": list(self.attributes), "languages": list(self.languages)}

    def training(self, row: Row, seed: int) -> dict[str, str]:
        """Return the settings of one training; what was asked for goes over what a row has, but for its own."""
        given = dict(item.split("=", 1) for item in self.settings)
        batch = row.times * int(given.get("batch", BATCH))
        steps = max(1, round(self.steps / row.times)) if self.steps else LARGE_STEPS if row.times > 1 else 0
        lengths = {"steps": str(steps)} if steps else {}
        if self.steps:
            lengths["warmup_steps"] = str(steps // 10)
        total = steps or int(Config.model_fields["steps"].default)
        settings = {
            "dev_sequences": "200",
            "dev_attributes": "200",
            "evaluate_every": str(max(1, total // SCORED)),
            "log_every": str(max(1, total // WRITTEN)),
            "attributes": ",".join(self.attributes),
            "languages": ",".join(self.languages),
            **lengths,
            **given,
            "corpus": ",".join(map(str, self.corpus)),
            "seed": str(seed),
            "batch": str(batch),
            **row.settings,
        }
        if not row.rho:
            settings["dev_attributes"] = "0"
        if self.encoder:
            settings["scratch"] = "false"
        return {key: value for key, value in settings.items() if value}

    def fine_tuning(self) -> list[str]:
        """Return the settings of sentence_pair; a pair has as many tokens as the encoder reads, if it reads fewer."""
        given = dict(item.split("=", 1) for item in self.settings)
        length = int(given.get("max_length", PAIR_TOKENS))
        return [f"max_length={min(length, PAIR_TOKENS)}", *self.tuning]

    def facts(self) -> dict[str, Any]:
        """Return what every figure depends on, whatever its row and seed."""
        return {
            "terminology": artefact.open_manifest(self.terminology, "terminology")["content_hash"],
            "corpus": {path.name: artefact.hash_file(path) for path in self.corpus},
            **self.chosen,
            "steps": self.steps,
            "settings": list(self.settings),
            "tuning": list(self.tuning),
            "ranking": list(self.ranking),
            "most": self.most,
            **({"encoder": self.encoder} if self.encoder else {}),
        }


def make(plan: Plan, row: Row, seed: int, alphita: Callable[..., None], *, searches: bool) -> None:
    """Train and score one row with one seed, as far as that is not done yet.

    Args:
        plan: what all rows share.
        row: which.
        seed: of the training.
        alphita: runs a command.
        searches: also search and fine-tune on query-title relevance.
    """
    folder, split = plan.out / row.name / str(seed), plan.out / QTREL / qtrel.SPLIT
    model = folder / MODEL
    system = plan.encoder if row is START else str(model)
    if not (folder / PRETRAINING).is_file():
        _train(plan, row, seed, model, split, alphita)
    if not whole(folder / RANKING, "report"):
        _train(plan, row, seed, model, split, alphita)
        shutil.rmtree(folder / RANKING, ignore_errors=True)
        given = [f"held_out={split}", f"attributes={','.join(plan.attributes)}", *plan.ranking]
        sets = [word for item in given if not item.endswith("=") for word in ("--set", f"{RANKING_OF}.{item}")]
        alphita(
            "evaluate",
            RANKING_OF,
            "--model",
            f"{system},name={MODEL}",
            "--terminology",
            plan.terminology,
            "--output",
            folder / RANKING,
            *sets,
        )
    if searches and not (folder / SEARCHED).is_file():
        _train(plan, row, seed, model, split, alphita)
        say(f"searching with {system}, and fine-tuning it")
        terminology, folder_of_sets = load_terminology(plan.terminology), plan.out / QTREL
        encoder = load_system(system).encoder  # type: ignore[union-attr]
        figures = {
            "search": qtrel.searched(encoder, terminology, plan.chosen, folder_of_sets),
            "fine_tuned": qtrel.fine_tuned(system, folder_of_sets, plan.fine_tuning()),
        }
        report.write(folder / SEARCHED, figures, provenance=report.provenance(config=plan.facts(), seed=seed))
    if not plan.keep_models and row.name not in KEPT:
        shutil.rmtree(model, ignore_errors=True)


def _train(plan: Plan, row: Row, seed: int, model: Path, split: Path, alphita: Callable[..., None]) -> None:
    """Train a row if its model is not there, and keep what the training tells of itself."""
    if row is START:
        model.parent.mkdir(parents=True, exist_ok=True)
        untrained: dict[str, Any] = {"figures": {}, "batch": 0, "steps": 0}
        report.write(model.parent / PRETRAINING, untrained, provenance=report.provenance(config=plan.facts()))
        return
    if not whole(model, "model"):
        shutil.rmtree(model, ignore_errors=True)
        model.parent.mkdir(parents=True, exist_ok=True)
        alphita(*_train_words(plan, row, seed, model, split), "--resume")
    manifest = artefact.open_manifest(model, "model")
    with atomic_file(model.parent / LOG, "w") as file:
        file.write((model / LOG).read_text(encoding="utf-8"))
    asked = config.resolve(Config, sets=[f"{key}={value}" for key, value in plan.training(row, seed).items()])
    figures = {
        "figures": manifest["figures"],
        "batch": asked.batch,
        "steps": asked.steps,
        "text": manifest["sequences"],
        "products": manifest.get("products"),
    }
    report.write(
        model.parent / PRETRAINING, figures, provenance=report.provenance(config=manifest["config"], seed=seed)
    )


def _train_words(plan: Plan, row: Row, seed: int, model: Path, split: Path) -> list[str | Path]:
    """Return the command that trains a row."""
    words: list[str | Path] = ["train", RECIPE, "--terminology", plan.terminology, "--output", model, "--split", split]
    if plan.encoder:
        words += ["--encoder", plan.encoder]
    return words + [word for key, value in plan.training(row, seed).items() for word in ("--set", f"{key}={value}")]


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows that are scored: name, title, rho, gamma, seeds, and the figures of each column by seed."""
    rows = []
    for row in BY_NAME.values():
        found = {}
        for seed, folder in seeds_in(out / row.name).items():
            if (folder / PRETRAINING).is_file() and whole(folder / RANKING, "report"):
                searched = read(folder / SEARCHED) if (folder / SEARCHED).is_file() else {}
                ranked = report_figures(folder / RANKING).get(MODEL, {})
                found[seed] = electra_table.figures_in(read(folder / PRETRAINING), ranked, searched)
        if found:
            rows.append(
                {
                    "name": row.name,
                    "title": row.title,
                    "rho": row.rho,
                    "gamma": row.gamma,
                    "seeds": list(found),
                    "figures": by_column(found),
                }
            )
    return rows


def write_table(facts: Mapping[str, Any], out: Path) -> None:
    """Write table.json and table.md of what is finished."""
    rows, sets = rows_of(out), read(out / QTREL / SETS)["sets"]
    judged = electra_table.claims(rows)
    figures = {"rows": rows, "sets": sets, "claims": judged}
    cells.write_table(out, figures, facts, electra_table.markdown(rows, sets, judged))


def run(
    plan: Plan, rows: Sequence[Row], searched: Sequence[str], seeds: Sequence[int], *, dry_run: bool = False
) -> None:
    """Train and score the rows with every seed, and write the table after each.

    Args:
        plan: what they share.
        rows: which.
        searched: names of those that are fine-tuned and searched with.
        seeds: the outer loop.
        dry_run: only print what each row's training takes.
    """
    facts = plan.facts()
    cells.begin(facts, plan.out)
    alphita = cells.caller(plan.threads)
    if not (plan.out / QTREL / SETS).is_file():
        terminology = load_terminology(plan.terminology)
        found = catalogue.collect(terminology, **plan.chosen)
        (plan.out / QTREL).mkdir(parents=True, exist_ok=True)
        sizes = {
            name: {part: min(size, plan.most or size) for part, size in of.items()} for name, of in qtrel.SIZES.items()
        }
        counts = qtrel.write_sets(terminology, found, plan.out / QTREL, seed=0, sizes=sizes)
        report.write(plan.out / QTREL / SETS, {"sets": counts}, provenance=report.provenance(config=facts, seed=0))
    if dry_run:
        split = plan.out / QTREL / qtrel.SPLIT
        for row in rows:
            if row is not START:
                model = plan.out / row.name / str(seeds[0]) / MODEL
                alphita(*_train_words(plan, row, seeds[0], model, split), "--dry-run")
        return
    for seed in seeds:
        for row in rows:
            if row is START and seed != seeds[0]:
                continue
            make(plan, row, seed, alphita, searches=row.name in searched)
            write_table(facts, plan.out)
            say(f"{row.name}, seed {seed}: done")
