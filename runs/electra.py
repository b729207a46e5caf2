"""ELECTRA with entity masking and product attribute prediction, row by row: Liu, Jiang and Lyu (2022) on given data.

    python runs/electra.py run -t PRODUCTS.terminology --corpus TEXT -o OUT [--steps 2000 --layers 4 ...]
    python runs/electra.py table OUT
    python runs/electra.py cases OUT -t PRODUCTS.terminology [--query tympanitis] [--models base,em_pap]
    python runs/electra.py rows

runs/electra_em_pap_open.sh and runs/electra_em_pap_paper.sh make the terminologies and call this. What is complete is
not made again, and an unfinished training goes on. Seeds are the outer loop. Commands of `alphita` are printed.

`run` pre-trains with and without entity masking (EM) and product attribute prediction (PAP), with other shares (rho,
figure 2) and margins (gamma), and scores each by text and products that were held out, by the held-out value among 100
of its attribute, and by query-title relevance and search (runs/qtrel.py). `table` writes table.json and table.md and
judges the paper's claims, each of which says that one number is above another (see `study.judge`). `cases` writes
what two models say of some titles for a query, as table 6: fine-tuned on the training part of QTRel-hard, the score is
the probability that the title fits, the mean of the runs; the label is + if the title has a value of that name.

Settings are the paper's, the recipe's own, unless a number N of steps is given: then a row of batch 16 takes N steps,
one of batch 128 an eighth of them, so that all see as many sequences; a tenth of the steps is warm-up. Rows train from
scratch, or, where the plan names an encoder, from it; what that is worth as it comes is then one more row.

OUT/ROW/SEED/ holds log.jsonl and pretraining.json of the training, `ranking`, the report of `attribute_ranking`,
qtrel.json, what runs/qtrel.py finds, and the model where it is kept. OUT/qtrel holds the sets, and held_out.split: the
triples that their test parts ask for. No row is trained with them, and `attribute_ranking` asks for the same.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qtrel
import study
from alphita import artefact, config, machine, report
from alphita.artefact import atomic_file
from alphita.errors import InputError, UsageError
from alphita.progress import say
from alphita.registry import unknown
from alphita.search import catalogue
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.report.markdown import table as markdown_table
from alphita_lab.evaluation.report.markdown import text
from alphita_lab.evaluation.scoring.finetuning import Encoding, encoder_of, fine_tune
from alphita_lab.evaluation.systems import load_system
from alphita_lab.recipes.electra_em_pap import Config
from qtrel import EASY, HARD, KNOWN, MISSING, SETS, Pair
from study import MODEL, Column, Ordering, by_column, read, report_figures, seeds_in, table, verdict, whole

RECIPE, RANKING_OF = "electra_em_pap", "attribute_ranking"
RANKING, QTREL = "ranking", "qtrel"
LOG, PRETRAINING, SEARCHED, SETS_FILE = "log.jsonl", "pretraining.json", "qtrel.json", "sets.json"
# Batch and steps of section 4.2.1: with PAP, and without.
BATCH, LARGE, LARGE_STEPS = 16, 128, 420_000
PREPARED = "prepared"
# Tokens of a pair that is fine-tuned on, at most.
PAIR_TOKENS = 128
# Times that a training is scored along the way, and written down.
SCORED, WRITTEN = 20, 100


@dataclass(frozen=True)
class Row:
    """One row of the tables: its own settings, and its batch over that of the others (times)."""

    name: str
    title: str
    settings: Mapping[str, str]
    times: int = 1
    system: str = ""  # what is scored, where nothing trains

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


def _beside(out: Path) -> list[Row]:
    """Return the rows of the systems that are laid beside, as far as they can be had."""
    return [
        Row(name, Path(one["system"]).name, START.settings, system=one["system"])
        for name, one in study.beside(out).items()
        if not one["missing"]
    ]


# Their models are kept, for `cases`.
KEPT = ("base", "em", "em_pap", "base_128", "em_128")


@dataclass(frozen=True)
class Plan:
    """What all rows share.

    Attributes:
        attributes: relations that train and are asked for; none: all.
        languages: of names and queries; none: all.
        steps: of a row of batch 16; 0: the paper's.
        tuning: settings of fine-tuning on the pairs (sentence_pair), as `settings` of every training.
        ranking: likewise of attribute_ranking.
        most: pairs of a part of the sets at most; None: as many as the paper's.
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
    beside: tuple[str, ...] = ()

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
            # Rows with the same words and entities share their sequences, and all of them their vocabulary.
            "prepared": str(self.out / PREPARED),
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
    """Train and score one row with one seed, as far as that is not done yet."""
    folder, split = plan.out / row.name / str(seed), plan.out / QTREL / qtrel.SPLIT
    model = folder / MODEL
    system = plan.encoder if row is START else row.system or str(model)
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
    if not plan.keep_models and not row.system and row.name not in KEPT:
        shutil.rmtree(model, ignore_errors=True)


def _train(plan: Plan, row: Row, seed: int, model: Path, split: Path, alphita: Callable[..., None]) -> None:
    """Train a row if its model is not there, and keep what the training tells of itself."""
    if row is START or row.system:
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
    for row in [*BY_NAME.values(), *_beside(out)]:
        found = {}
        for seed, folder in seeds_in(out / row.name).items():
            if (folder / PRETRAINING).is_file() and whole(folder / RANKING, "report"):
                searched = read(folder / SEARCHED) if (folder / SEARCHED).is_file() else {}
                ranked = report_figures(folder / RANKING).get(MODEL, {})
                found[seed] = figures_in(read(folder / PRETRAINING), ranked, searched)
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
    return [*rows, *({"rho": 0.0, "gamma": 0.0, **row} for row in study.not_scored(out))]


def write_table(facts: Mapping[str, Any], out: Path) -> None:
    """Write table.json and table.md of what is finished."""
    rows, sets = rows_of(out), read(out / QTREL / SETS_FILE)["sets"]
    judged = claims(rows)
    figures = {"rows": rows, "sets": sets, "claims": judged}
    origin = report.provenance(config=facts)
    study.write_table(out, figures, origin, tables_markdown(rows, sets, judged))


def run_rows(
    plan: Plan, rows: Sequence[Row], searched: Sequence[str], seeds: Sequence[int], *, dry_run: bool = False
) -> None:
    """Train and score the rows with every seed, and write the table after each."""
    facts = plan.facts()
    study.begin(facts, plan.out)
    alphita = study.caller(plan.threads)
    if not (plan.out / QTREL / SETS_FILE).is_file():
        terminology = load_terminology(plan.terminology)
        found = catalogue.collect(terminology, **plan.chosen)
        (plan.out / QTREL).mkdir(parents=True, exist_ok=True)
        sizes = {
            name: {part: min(size, plan.most or size) for part, size in of.items()} for name, of in qtrel.SIZES.items()
        }
        counts = qtrel.write_sets(terminology, found, plan.out / QTREL, seed=0, sizes=sizes)
        report.write(plan.out / QTREL / SETS_FILE, {"sets": counts}, provenance=report.provenance(config=facts, seed=0))
    if dry_run:
        split = plan.out / QTREL / qtrel.SPLIT
        for row in rows:
            if row is not START:
                model = plan.out / row.name / str(seeds[0]) / MODEL
                alphita(*_train_words(plan, row, seeds[0], model, split), "--dry-run")
        return
    study.look_for(plan.beside, plan.out)
    for seed in seeds:
        for row in [*rows, *_beside(plan.out)]:
            untrained = row is START or row.system
            if untrained and seed != seeds[0]:
                continue
            make(plan, row, seed, alphita, searches=row.name in searched or bool(row.system))
            write_table(facts, plan.out)
            say(f"{row.name}, seed {seed}: done")


EASY_F1, HARD_F1 = "easy_f1", "hard_f1"
FOUND = "recall@10"
PERCENT: dict[str, Any] = {"scale": 100, "digits": 1}
PRETRAINED = (
    Column("sequences", "sequences, thousands", "", "", scale=1e-3, digits=1),
    Column("auc", "replaced-token AUC", "", "dev_replaced_auc", digits=3),
    Column("detection", "discriminator's loss", "", "dev_discriminator_loss", digits=3),
    Column("guessing", "generator's loss", "", "dev_generator_loss", digits=2),
    Column("guessed", "generator's accuracy", "", "dev_generator_accuracy", **PERCENT),
    Column("attribute_dev", "PAP in training, @1", "", "dev_attribute_acc1", **PERCENT),
)
RANKED = (
    Column("ranking_1", "@1", "", "accuracy@1", **PERCENT),
    Column("ranking_apart", "@1, no word shared", "", "accuracy@1", "shares_a_word=no", **PERCENT),
    Column("ranking_mrr", "MRR", "", "MRR", **PERCENT),
    Column("ranking_10", "hits@10", "", "hits@10", **PERCENT),
)
FREQUENCY = "value frequency alone"
TUNED = (
    Column(EASY_F1, "easy F1", "", EASY, **PERCENT),
    Column("easy_best", "maximum", "", EASY, **PERCENT),
    Column(HARD_F1, "hard F1", "", HARD, **PERCENT),
    Column("hard_best", "maximum", "", HARD, **PERCENT),
    Column("easy_accuracy", "easy accuracy", "", EASY, **PERCENT),
    Column("hard_accuracy", "hard accuracy", "", HARD, **PERCENT),
)
ROUTES = ("titles", "values", "predicted", "fused")
MISSING_HARD = f"{MISSING}|{HARD}|fused|{FOUND}"
JUDGED = (*TUNED, *RANKED, Column(MISSING_HARD, "", "", "", **PERCENT))


QTRELS = (EASY_F1, HARD_F1)
ORDERINGS = (
    Ordering("em", "base", QTRELS, "table 5"),
    Ordering("em_128", "base_128", QTRELS, "table 5; batch 128"),
    Ordering("em_pap", "em", QTRELS, "table 5"),
    Ordering("em_pap", "em_128", QTRELS, "table 5; the paper's batches"),
    Ordering("em_pap", "base", QTRELS, "table 5"),
    Ordering("em_pap", "base_128", QTRELS, "table 5; the paper's batches"),
    *(Ordering("em_pap", f"rho_{share}", QTRELS, "§4.3.2, figure 2: ρ 5% is the best") for share in (1, 10, 15)),
    *(Ordering("em_pap", f"gamma_{margin}", QTRELS, "§4.3.2: γ 4 is the best") for margin in (2, 6, 8)),
    Ordering("em_pap", "em", ("ranking_1", "ranking_apart", MISSING_HARD), "not in the paper: what PAP trains"),
    Ordering("em", "em_128", QTRELS, "not in the paper: batch 16 over 128 at as many sequences"),
)
RHOS, GAMMAS = ("rho_1", "em_pap", "rho_10", "rho_15"), ("gamma_2", "em_pap", "gamma_6", "gamma_8")
TITLES = {EASY_F1: "QTRel-easy F1", HARD_F1: "QTRel-hard F1", MISSING_HARD: "recall@10 of missing values, hard, fused"}
TITLES |= {"ranking_1": "value among 100 @1", "ranking_apart": "value among 100 @1, no word shared"}


def figures_in(
    trained: Mapping[str, Any], ranked: Mapping[tuple[str, str, str], float], searched: Mapping[str, Any]
) -> dict[str, float]:
    """Return the figures of one row and seed by column."""
    of_training = trained["figures"] | {"sequences": trained["batch"] * trained["steps"]}
    figures = {
        one.name: float(of_training[key]) for one in PRETRAINED if (key := one.metric or one.name) in of_training
    }
    for one in RANKED:
        for prefix, subset in (("", one.subset), ("frequency_", FREQUENCY)):
            # What frequency alone gives is told for all questions only.
            if prefix and one.subset != "all":
                continue
            value = ranked.get(("attribute_ranking", one.metric, subset))
            if value is not None:
                figures[prefix + one.name] = value
    for short, name in (("easy", EASY), ("hard", HARD)):
        if runs := searched.get("fine_tuned", {}).get(name):
            figures[f"{short}_f1"], figures[f"{short}_best"] = float(np.mean(runs["f1"])), float(max(runs["f1"]))
            figures[f"{short}_accuracy"] = float(np.mean(runs["accuracy"]))
    for setting, by_set in searched.get("search", {}).items():
        for name, routes in by_set.items():
            for route, values in routes.items():
                for measure in (FOUND, "mrr"):
                    figures[f"{setting}|{name}|{route}|{measure}"] = float(values[measure])
    return figures


def gains(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Return seed -> by how much the first row is above the second, for the seeds that both have."""
    return {seed: first[seed] - second[seed] for seed in sorted(set(first) & set(second))}


def ranges(rows: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return seed -> the greatest figure of the rows less the least, for the seeds that all have."""
    seeds = sorted(set.intersection(*map(set, rows)))
    return {seed: max(row[seed] for row in rows) - min(row[seed] for row in rows) for seed in seeds}


def claims(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge what the paper claims on rows of `figures` by column and seed; claims on missing rows are left out."""
    found = []
    for claim, measure, source, first, second in _compared(rows):
        said = verdict(first, second)
        if said is not None:
            found.append({"claim": claim, "measure": TITLES[measure], "column": measure, "paper": source, **said})
    return found


def _compared(
    rows: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[str, str, str, Mapping[int, float], Mapping[int, float]]]:
    """Yield claim, measure, source, and two rows of seed -> number, the first of which is said to be the greater."""
    by_name = {row["name"]: row for row in rows}

    def figures(name: str, column: str) -> Mapping[int, float]:
        found: Mapping[int, float] = by_name[name]["figures"].get(column, {})
        return found

    for one in ORDERINGS:
        if one.first in by_name and one.second in by_name:
            for column in one.columns:
                claim = f"{by_name[one.first]['title']} over {by_name[one.second]['title']}"
                yield claim, column, one.source, figures(one.first, column), figures(one.second, column)
    for other in ("em", "em_128"):
        if "em_pap" in by_name and other in by_name:
            hard, easy = (gains(figures("em_pap", one), figures(other, one)) for one in (HARD_F1, EASY_F1))
            claim = f"what PAP adds to {by_name[other]['title']}: more to the hard part than to the easy one"
            yield claim, HARD_F1, "§4.3.2: 1.98 against 0.23", hard, easy
    if set(RHOS) | set(GAMMAS) <= set(by_name):
        for column in QTRELS:
            by_rho, by_gamma = (ranges([figures(name, column) for name in names]) for names in (RHOS, GAMMAS))
            yield "greatest less least, by ρ over by γ", column, "§4.3.2: γ matters less", by_rho, by_gamma


def tables_markdown(
    rows: Sequence[Mapping[str, Any]], sets: Mapping[str, Any], judged: Sequence[Mapping[str, Any]]
) -> str:
    """Return all tables of what is finished as Markdown."""
    tuned = [dict(row) | {"seeds": sorted(own)} for row in rows if (own := row["figures"].get(HARD_F1))]
    lines = ["# ELECTRA, entity masking, product attribute prediction", "", "## Pre-training", ""]
    lines += [*table(rows, PRETRAINED), "", "Not masked alike, rows with EM and without are not to be compared here."]
    lines += ["", "## The held-out value among 100 of its attribute", "", *table(_with_frequency(rows), RANKED), ""]
    if tuned:
        sizes = "; ".join(
            f"{name} " + " / ".join(f"{sets[f'{name}.{part}']['pairs']:,}" for part in ("train", "dev", "test"))
            for name in SETS
        )
        lines += ["## Query-title relevance (table 5)", "", *table(tuned, TUNED), ""]
        lines += [f"Pairs: {sizes}. Half are relevant: who always says so has F1 66.7, accuracy 50.", ""]
        for setting, told in ((KNOWN, "the table as it is"), (MISSING, "the values asked for are taken out of it")):
            columns = [
                Column(f"{name}|{measure}", f"{name} {measure}", "", "", **PERCENT)
                for name in SETS
                for measure in (FOUND, "mrr")
            ]
            lines += [f"## Search: {told}", "", *table(list(_by_route(tuned, setting)), columns), ""]
    if judged:
        lines += ["## Which of the paper's claims hold", "", *study.table_of_orderings(judged, JUDGED), ""]
    lines += [
        "Mean ± standard deviation over n seeds of the pre-training (n - 1 in the denominator). F1 and accuracy: the "
        "mean of the runs of fine-tuning of each seed; maximum: the best of them. Loss and AUC on text that is held "
        "out. F1, accuracy and recall in percent.",
        "",
        study.RULE,
        "",
    ]
    return "\n".join(lines)


def _with_frequency(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows with one more: what a value's frequency with the attribute gives, the same for all of them."""
    first = next((row for row in rows if "frequency_ranking_1" in row["figures"]), None)
    if first is None:
        return list(rows)
    own = {
        one.name: dict([next(iter(first["figures"][key].items()))])
        for one in RANKED
        if (key := f"frequency_{one.name}") in first["figures"]
    }
    return [{"title": FREQUENCY, "seeds": [0], "figures": own}, *rows]


def _by_route(rows: Sequence[Mapping[str, Any]], setting: str) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each row and route of the search."""
    for row in rows:
        for route in ROUTES:
            figures = {
                f"{name}|{measure}": row["figures"].get(f"{setting}|{name}|{route}|{measure}", {})
                for name in SETS
                for measure in (FOUND, "mrr")
            }
            if any(figures.values()):
                yield {"title": f"{row['title']}: {route}", "seeds": row["seeds"], "figures": figures}


@dataclass(frozen=True)
class Case:
    """A pair with the score of each model, 0 to 1."""

    pair: Pair
    scores: tuple[float, ...]


def pairs_of(sets: Path, table: qtrel.Table, queries: Sequence[str], titles: Sequence[str], most: int) -> list[Pair]:
    """Return pairs of queries and titles, with the table's label."""
    lines = (sets / f"{HARD}.test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    tested: dict[str, list[str]] = {}
    for query, title, _ in (line.split("\t") for line in lines):
        tested.setdefault(query, []).append(title)
    chosen = list(queries) or sorted(tested, key=lambda query: (-len(tested[query]), query))[:2]
    pairs = []
    for query in map(clean, chosen):
        if query not in table.having:
            raise UsageError(unknown("value", query, list(table.having)))
        if not titles and query not in tested:
            raise UsageError(f"the test part does not ask {query!r}; give titles with --title")
        for title in titles:
            if clean(title) not in table.titles:
                raise UsageError(unknown("title", title, list(table.titles.values())))
        found = [
            Pair(query, one, str(int(clean(one) in table.having[query]))) for one in titles or tested.get(query, [])
        ]
        if not titles:
            having, others = ([one for one in found if one.label == label] for label in ("1", "0"))
            found = having[: most - min(len(others), most // 2)]
            found += others[: most - len(found)]
        pairs += found
    return pairs


def scores(model: Path, sets: Path, pairs: Sequence[Pair], settings: Sequence[str]) -> NDArray[np.float64]:
    """Return the probability that each title fits its query, (pairs,), after fine-tuning."""
    module = load_benchmark("sentence_pair")
    options = config.resolve(module.Options, sets=[f"datasets={HARD}", *settings])
    (one,) = module.load(Source(sets, None, "sentence_pair", module.INFO.where), options).sets
    system = load_system(str(model))
    encoding = Encoding(encoder_of(system, options.max_length))
    train = encoding.pairs([example.texts[0] for example in one.train], [example.texts[1] for example in one.train])
    targets = [np.array([int(example.label)]) for example in one.train]
    asked = encoding.pairs([pair.query for pair in pairs], [pair.title for pair in pairs])
    runs = fine_tune(system, options.settings(), train, targets, asked, 2)
    logits = np.array([[example[0] for example in run] for run in runs], np.float64)
    # Of two classes the softmax is the logistic function of their difference.
    found: NDArray[np.float64] = (1 / (1 + np.exp(logits[:, :, 0] - logits[:, :, 1]))).mean(axis=0)
    return found


def cases_markdown(cases: Sequence[Case], titles: Sequence[str], origin: Mapping[str, Any]) -> str:
    """Return the cases as Markdown, a table a query."""
    lines = ["# Query-title relevance, case by case", ""]
    for query in dict.fromkeys(case.pair.query for case in cases):
        rows = [
            [*(f"{score:.2f}" for score in case.scores), "+" if case.pair.label == "1" else "−", text(case.pair.title)]
            for case in cases
            if case.pair.query == query
        ]
        lines += [f"Query: {text(query)}", "", markdown_table([*titles, "label", "title"], rows), ""]
    right = [
        sum((case.scores[place] >= 0.5) == (case.pair.label == "1") for case in cases) for place in range(len(titles))
    ]
    told = "; ".join(f"{title} {number} of {len(cases)}" for title, number in zip(titles, right, strict=True))
    lines += [f"On the right side of 0.5: {told}. Seed {origin['seed']}, commit {origin['commit']}.", ""]
    return "\n".join(lines)


SIZES = ("layers", "hidden", "heads")
CASES = "cases"


def do_run(given: argparse.Namespace) -> None:
    """Train and score the rows of the tables."""
    machine.set_threads(given.threads)
    names = study.chosen("row", given.rows, list(BY_NAME))
    searched = names if given.qtrel_rows is None else study.chosen("row", given.qtrel_rows, list(BY_NAME))
    for file in given.corpus:
        if not file.is_file():
            raise InputError("no such file", file=file, field="--corpus")
    if START.name in {*names, *searched} and not given.encoder:
        raise UsageError(f"row {START.name} is of an encoder to start from; give --encoder")
    sizes = [f"{name}={getattr(given, name)}" for name in SIZES if getattr(given, name) is not None]
    plan = study.plan_of(Plan, given, settings=(*sizes, *given.settings))
    run_rows(plan, [BY_NAME[name] for name in names], searched, study.seeds(given.seeds), dry_run=given.dry_run)
    if not given.dry_run:
        study.show(given.out / f"{study.TABLE}.md")


def do_table(given: argparse.Namespace) -> None:
    """Write and print the tables of what is finished."""
    write_table(study.begun(given.out), given.out)
    study.show(given.out / f"{study.TABLE}.md")


def do_cases(given: argparse.Namespace) -> None:
    """Lay the scores of two models side by side for some queries and titles."""
    machine.set_threads(given.threads)
    facts = study.begun(given.out)
    names = study.chosen("row", given.models, list(BY_NAME))
    models = [given.out / name / str(given.seed) / study.MODEL for name in names]
    for model in models:
        if not whole(model, "model"):
            raise UsageError(f"there is no model {model}; `run --keep-models` keeps those of all rows")
    terminology = load_terminology(given.terminology)
    if terminology.content_hash != facts["terminology"]:
        raise UsageError(f"{given.out} was made with another terminology than {given.terminology}")
    found = qtrel.read(catalogue.collect(terminology, attributes=facts["attributes"], languages=facts["languages"]))
    sets = given.out / QTREL
    pairs = pairs_of(sets, found, given.query, given.title, given.titles)
    plan = Plan(given.terminology, (), given.out, settings=tuple(facts["settings"]), tuning=tuple(facts["tuning"]))
    columns = [scores(model, sets, pairs, plan.fine_tuning()) for model in models]
    scored = [Case(pair, tuple(map(float, row))) for pair, row in zip(pairs, zip(*columns, strict=True), strict=True)]
    lines = [
        {"query": one.pair.query, "title": one.pair.title, "label": one.pair.label, "scores": one.scores}
        for one in scored
    ]
    origin = report.provenance(config=facts, seed=given.seed)
    report.write(given.out / f"{CASES}.json", {"models": names, "cases": lines}, provenance=origin)
    with atomic_file(given.out / f"{CASES}.md", "w") as file:
        file.write(cases_markdown(scored, [BY_NAME[name].title for name in names], origin))
    study.show(given.out / f"{CASES}.md")


def do_rows(_: argparse.Namespace) -> None:
    """List the rows."""
    for row in BY_NAME.values():
        print(f"{row.name:<9} {row.title}")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = study.add_command(commands, do_run)
    one.add_argument("--terminology", "-t", type=Path, required=True, help="of products")
    one.add_argument("--corpus", type=Path, action="append", required=True, help="a file of text; can be repeated")
    one.add_argument("--output", "-o", dest="out", type=Path, required=True)
    one.add_argument("--attribute", dest="attributes", action="append", default=[], help="a relation; all by default")
    one.add_argument("--language", dest="languages", action="append", default=[], help="of names and queries; all else")
    every = ",".join(row.name for row in ROWS)
    one.add_argument("--rows", default=every, help="names with commas between; all that train by default")
    one.add_argument("--encoder", default="", help="train from it; from scratch by default")
    one.add_argument("--qtrel-rows", help="those that are fine-tuned and searched with; all of --rows by default")
    one.add_argument("--seeds", default="0,1,2")
    one.add_argument("--steps", type=int, default=0, help="of a row of batch 16; 0: the paper's")
    for name in SIZES:
        one.add_argument(f"--{name}", type=int, help="of the encoder; the paper's by default")
    study.add_settings(one, "--set", "every training", "settings")
    study.add_settings(one, "--qtrel", "sentence_pair", "tuning")
    study.add_settings(one, "--ranking", "attribute_ranking")
    one.add_argument("--most", type=int, help="pairs of a part of QTRel at most; the paper's numbers by default")
    one.add_argument("--threads", type=int, help="of every command; all cores by default")
    study.add_beside(one)
    one.add_argument("--dry-run", action="store_true", help="only say what each training takes")
    one.add_argument("--keep-models", action="store_true", help=f"also those besides {', '.join(KEPT)}")
    study.add_command(commands, do_table).add_argument("out", type=Path, help="what `run` made")
    one = study.add_command(commands, do_cases)
    one.add_argument("out", type=Path, help="what `run` made")
    one.add_argument("--terminology", "-t", type=Path, required=True)
    one.add_argument("--models", default="base,em_pap", help="rows with commas between")
    one.add_argument("--seed", type=int, default=0, help="of the rows")
    one.add_argument("--query", action="append", default=[], help="can be repeated; two of the test part by default")
    one.add_argument("--title", action="append", default=[], help="can be repeated; those of the test part by default")
    one.add_argument("--titles", type=int, default=6, help="of a query, of those of the test part")
    one.add_argument("--threads", type=int)
    study.add_command(commands, do_rows)
    return study.act(parser, words)


if __name__ == "__main__":
    sys.exit(main())
