"""The Italian system of Amore Bondarenko, Ferrod and Di Caro (2022), row by row: its tables 2 to 5 on given data.

    python bench/italian.py scarce EN.terminology -o SCARCE.terminology --held-out CUT.split
    python bench/italian.py bilingual OPEN.terminology -o IT.terminology --held-out IT.split --language it
    python bench/italian.py groups UMLS.terminology -o UMLS_ITA.terminology --sources ICPCITA,MDRITA,MSHITA
    python bench/italian.py graph --terminology T -o GRAPHS [--data BENCHMARKS]
    python bench/italian.py run --terminology T --corpus TEXT --graphs GRAPHS -o OUT [--data BENCHMARKS]
    python bench/italian.py table OUT [--graphs GRAPHS]
    python bench/italian.py rows

runs/italian_open.sh and runs/italian_umls.sh make the terminologies and call this. OUT/ROW/SEED/ holds a row's model
and its report, OUT/mentions/SEED the mentions found with the extended encoder of that seed. What is there whole is not
made again, and an unfinished training goes on, so the same command goes on with a run that was cut. Seeds are the outer
loop. Every step is a command of `alphita`, which is printed.

Settings are the paper's, the recipes' own, unless --steps says how long to train: see italian_rows.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import arguments
import cells
import italian_data
import italian_graph
import italian_rows
from alphita import artefact, config, machine
from alphita.errors import UsageError
from alphita.progress import say
from alphita.terminology.store import load_terminology
from alphita_lab.graph import models as graph_models
from arguments import setting
from cells import whole


def scarce(given: argparse.Namespace) -> None:
    """Cut a terminology to few names a concept, unless that is done."""
    if whole(given.output, "terminology") and whole(given.held_out, "split"):
        return
    terminology = load_terminology(given.terminology)
    tables, cut = italian_data.scarce(terminology, given.names, given.seed, given.queries)
    if not whole(given.output, "terminology"):
        italian_data.save(tables, given.output, {"scarce": cut.facts}, terminology)
    cut.save(given.held_out, force=True)
    facts = cut.facts
    say(
        f"{given.output}: {facts['names_kept']:,} of {facts['names_before']:,} names for {facts['concepts']:,} "
        f"concepts; {len(cut):,} of those cut away are to be found"
    )


def bilingual(given: argparse.Namespace) -> None:
    """Write the concepts with names in a language, and hold some of these names out, unless that is done."""
    if whole(given.output, "terminology") and whole(given.held_out, "split"):
        return
    terminology = load_terminology(given.terminology)
    made, split = italian_data.bilingual(
        terminology, given.language, given.target_language, given.fraction, given.seed, given.output
    )
    split.save(given.held_out, force=True)
    say(f"{given.output}: {made.n_concepts:,} concepts; {len(split):,} names in {given.language} are held out")


def groups(given: argparse.Namespace) -> None:
    """Write the concepts of the paper's 13 groups, unless that is done."""
    if not whole(given.output, "terminology"):
        terminology = load_terminology(given.terminology)
        sources = arguments.listed(given.sources)
        tables = italian_data.grouped(terminology, sources)
        italian_data.save(tables, given.output, {"groups": list(italian_data.GROUPS), "sources": sources}, terminology)
    counts = load_terminology(given.output).manifest["counts"]
    say(f"{given.output}: " + ", ".join(f"{counts[name]:,} {name}" for name in ("concepts", "terms", "relations")))


def graph(given: argparse.Namespace) -> None:
    """Train and score graph models with every seed, and write their table."""
    models = arguments.chosen("model", given.models, italian_graph.MODELS)
    terminology = artefact.open_manifest(given.terminology, "terminology")
    # Of all models, so that one after the other may be trained into the same folder.
    resolved = {
        name: config.resolve(graph_models.load(name).Config, sets=given.settings).model_dump()
        for name in italian_graph.MODELS
    }
    facts: dict[str, Any] = {
        "terminology": terminology["content_hash"],
        "relations": terminology["counts"]["relations"],
        "settings": given.settings,
        "scoring": given.scoring,
        "models": resolved,
    }
    cells.begin(facts, given.output)
    alphita = cells.caller(given.threads)
    for seed in arguments.seeds(given.seeds):
        for model in models:
            italian_graph.make(
                given.terminology,
                given.output,
                model,
                seed,
                given.settings,
                given.data,
                given.scoring,
                alphita,
                device=given.device,
            )
            italian_rows.write_table(facts, given.output, given.output)
            say(f"{model}, seed {seed}: done")


def run(given: argparse.Namespace) -> None:
    """Train and score the rows of tables 3 to 5."""
    names = arguments.chosen("row", given.rows, tuple(italian_rows.BY_NAME))
    benchmarks = arguments.chosen("benchmark", given.benchmarks, italian_rows.BENCHMARKS)
    rows = [italian_rows.BY_NAME[name] for name in names]
    for needed, value, what in (
        ("relatedness", given.data, "--data, the benchmarks' files"),
        ("held_out_synonyms", given.cut, "--cut, names to be found"),
        ("held_out_translations", given.split, "--split, translations to be found"),
    ):
        if needed in benchmarks and value is None:
            raise UsageError(f"{needed} needs {what}; or leave it out of --benchmarks")
    if any(row.graph for row in rows) and given.graphs is None:
        raise UsageError("--graphs is needed: what `graph` made, for the rows that take the graph")
    settings = {phase: tuple(getattr(given, phase)) for phase in ("ext", "margin", "injection")}
    plan = italian_rows.Plan(
        given.terminology,
        given.output,
        tuple(given.corpus),
        given.language,
        given.target_language,
        given.graphs,
        given.split,
        given.cut,
        given.data,
        given.encoder,
        given.steps,
        given.sequence_tokens,
        settings,
        tuple(benchmarks),
        tuple(given.scoring),
        given.threads,
        given.keep_models,
    )
    if given.dry_run:
        italian_rows.tell_costs(plan, rows, arguments.seeds(given.seeds)[0])
        return
    italian_rows.run(plan, rows, arguments.seeds(given.seeds))
    cells.show(given.output / f"{cells.TABLE}.md")


def table(given: argparse.Namespace) -> None:
    """Write and print the tables of what is finished."""
    italian_rows.write_table(cells.begun(given.out), given.out, given.graphs or given.out)
    cells.show(given.out / f"{cells.TABLE}.md")


def rows(_: argparse.Namespace) -> None:
    """List the rows."""
    for row in italian_rows.ROWS:
        print(f"{row.name:<18} {row.title}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(action: Any) -> argparse.ArgumentParser:  # noqa: ANN401
        one = commands.add_parser(action.__name__, help=(action.__doc__ or "").rstrip("."))
        one.set_defaults(action=action)
        return one

    def making(action: Any) -> argparse.ArgumentParser:  # noqa: ANN401
        one = command(action)
        one.add_argument("terminology", type=Path)
        one.add_argument("--output", "-o", type=Path, required=True, help="X.terminology")
        return one

    one = making(scarce)
    one.add_argument("--held-out", type=Path, required=True, help="X.split: names cut away that are to be found")
    one.add_argument("--names", type=float, default=italian_data.NAMES, help="names a concept")
    one.add_argument("--queries", type=int, default=5000, help="names to be found, at most")
    one.add_argument("--seed", type=int, default=42)
    one = making(bilingual)
    one.add_argument("--held-out", type=Path, required=True, help="X.split: names in the language to be found")
    one.add_argument("--language", default="it")
    one.add_argument("--target-language", default="en")
    one.add_argument("--fraction", type=float, default=0.2, help="of the concepts whose names are held out")
    one.add_argument("--seed", type=int, default=42)
    one = making(groups)
    one.add_argument("--sources", default="", help="names of these only, with commas between; all by default")

    def scoring(action: Any, seeds: str) -> argparse.ArgumentParser:  # noqa: ANN401
        one = command(action)
        one.add_argument("--terminology", type=Path, required=True)
        one.add_argument("--output", "-o", type=Path, required=True)
        one.add_argument("--data", type=Path, help="the benchmarks' files, for relatedness")
        one.add_argument("--seeds", default=seeds)
        one.add_argument(
            "--score",
            dest="scoring",
            action="append",
            default=[],
            type=setting,
            help="of a benchmark: BENCHMARK.key=value",
        )
        one.add_argument("--threads", type=int, help="of every command; all cores by default")
        return one

    one = scoring(graph, "0")
    one.add_argument("--models", default=",".join(italian_graph.MODELS))
    one.add_argument("--set", dest="settings", action="append", default=[], type=setting, help="of every training")
    one.add_argument("--device", default="cpu", help="cpu or cuda")
    one = scoring(run, "0,1,2")
    one.add_argument("--corpus", type=Path, action="append", required=True, help="a file of text; may be repeated")
    one.add_argument("--graphs", type=Path, help="what `graph` made")
    one.add_argument("--language", default="it", help="of names and text")
    one.add_argument("--target-language", default="en", help="of names that held-out translations are to find")
    one.add_argument("--split", type=Path, help="held out of training: translations to be found")
    one.add_argument("--cut", type=Path, help="names that the terminology lacks, to be found; made by `scarce`")
    one.add_argument("--encoder", default="minilm")
    one.add_argument("--rows", default=",".join(italian_rows.BY_NAME), help="names with commas between")
    one.add_argument("--benchmarks", default="mcsm,clustering_pairs", help="what is scored, with commas between")
    one.add_argument("--steps", type=int, default=0, help="of the contrastive training; 0: the paper's")
    one.add_argument("--sequence-tokens", type=int, default=254, help="of a text for the injection")
    for phase in ("ext", "margin", "injection"):
        one.add_argument(f"--{phase}", action="append", default=[], type=setting, help=f"of {phase}: key=value")
    one.add_argument("--dry-run", action="store_true", help="only say what each training takes")
    one.add_argument("--keep-models", action="store_true", help="also those that nothing starts from")
    one = command(table)
    one.add_argument("out", type=Path, help="what `run` or `graph` made")
    one.add_argument("--graphs", type=Path, help="what `graph` made")
    command(rows)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    given = _parser().parse_args(words)
    os.environ.setdefault("GOMP_SPINCOUNT", machine.SPIN_COUNT)
    return arguments.status(lambda: given.action(given))


if __name__ == "__main__":
    sys.exit(main())
