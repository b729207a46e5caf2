"""ELECTRA with entity masking and product attribute prediction, row by row: Liu, Jiang and Lyu (2022) on given data.

    python bench/electra.py run -t PRODUCTS.terminology --corpus TEXT -o OUT [--steps 2000 --layers 4 ...]
    python bench/electra.py table OUT
    python bench/electra.py cases OUT -t PRODUCTS.terminology [--query tympanitis] [--models base,em_pap]
    python bench/electra.py rows

runs/electra_em_pap_open.sh and runs/electra_em_pap_paper.sh make the terminologies and call this. What is there whole
is not made again, and an unfinished training goes on, so the same command goes on with a run that was cut. Seeds are
the outer loop. Every step that is a command of `alphita` is printed.

`run` makes what electra_rows.py says: pre-training with and without entity masking (EM) and product attribute
prediction (PAP), with other shares (rho, figure 2) and margins (gamma), and scores each by text and products that were
held out, by the held-out value among 100 of its attribute, and by query-title relevance and search (bench/qtrel.py).
`table` writes table.json and table.md with the paper's claims judged, `cases` cases.json and cases.md.
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
import electra_cases
import electra_rows
import qtrel
from alphita import machine, report
from alphita.artefact import atomic_file
from alphita.errors import InputError, UsageError
from alphita.search import catalogue
from alphita.terminology.store import load_terminology
from arguments import setting
from cells import whole

SIZES = ("layers", "hidden", "heads")
CASES = "cases"


def run(given: argparse.Namespace) -> None:
    """Train and score the rows of the tables."""
    known = list(electra_rows.BY_NAME)
    names = arguments.chosen("row", given.rows, known)
    searched = names if given.qtrel_rows is None else arguments.chosen("row", given.qtrel_rows, known)
    for file in given.corpus:
        if not file.is_file():
            raise InputError("no such file", file=file, field="--corpus")
    if electra_rows.START.name in {*names, *searched} and not given.encoder:
        raise UsageError(f"row {electra_rows.START.name} is of an encoder to start from; give --encoder")
    sizes = [f"{name}={getattr(given, name)}" for name in SIZES if getattr(given, name) is not None]
    plan = electra_rows.Plan(
        given.terminology,
        tuple(given.corpus),
        given.output,
        tuple(given.attribute),
        tuple(given.language),
        given.steps,
        (*sizes, *given.settings),
        tuple(given.qtrel),
        tuple(given.ranking),
        given.most,
        given.threads,
        given.keep_models,
        given.encoder,
    )
    rows = [electra_rows.BY_NAME[name] for name in names]
    electra_rows.run(plan, rows, searched, arguments.seeds(given.seeds), dry_run=given.dry_run)
    if given.dry_run:
        return
    cells.show(given.output / f"{cells.TABLE}.md")


def table(given: argparse.Namespace) -> None:
    """Write and print the tables of what is finished."""
    electra_rows.write_table(cells.begun(given.out), given.out)
    cells.show(given.out / f"{cells.TABLE}.md")


def cases(given: argparse.Namespace) -> None:
    """Lay the scores of two models side by side for some queries and titles."""
    facts = cells.begun(given.out)
    names = arguments.chosen("row", given.models, list(electra_rows.BY_NAME))
    models = [given.out / name / str(given.seed) / cells.MODEL for name in names]
    for model in models:
        if not whole(model, "model"):
            raise UsageError(f"there is no model {model}; `run --keep-models` keeps those of all rows")
    terminology = load_terminology(given.terminology)
    if terminology.content_hash != facts["terminology"]:
        raise UsageError(f"{given.out} was made with another terminology than {given.terminology}")
    found = qtrel.read(catalogue.collect(terminology, attributes=facts["attributes"], languages=facts["languages"]))
    sets = given.out / electra_rows.QTREL
    pairs = electra_cases.pairs_of(sets, found, given.query, given.title, given.titles)
    plan = electra_rows.Plan(
        given.terminology, (), given.out, settings=tuple(facts["settings"]), tuning=tuple(facts["tuning"])
    )
    columns = [electra_cases.scores(model, sets, pairs, plan.fine_tuning()) for model in models]
    scored = [
        electra_cases.Case(pair, tuple(map(float, row)))
        for pair, row in zip(pairs, zip(*columns, strict=True), strict=True)
    ]
    lines = [
        {"query": one.pair.query, "title": one.pair.title, "label": one.pair.label, "scores": one.scores}
        for one in scored
    ]
    origin = report.provenance(config=facts, seed=given.seed)
    report.write(given.out / f"{CASES}.json", {"models": names, "cases": lines}, provenance=origin)
    with atomic_file(given.out / f"{CASES}.md", "w") as file:
        file.write(electra_cases.markdown(scored, [electra_rows.BY_NAME[name].title for name in names], origin))
    cells.show(given.out / f"{CASES}.md")


def rows(_: argparse.Namespace) -> None:
    """List the rows."""
    for row in electra_rows.BY_NAME.values():
        print(f"{row.name:<9} {row.title}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(action: Any) -> argparse.ArgumentParser:  # noqa: ANN401
        one = commands.add_parser(action.__name__, help=(action.__doc__ or "").rstrip("."))
        one.set_defaults(action=action)
        return one

    def made(action: Any) -> argparse.ArgumentParser:  # noqa: ANN401
        one = command(action)
        one.add_argument("out", type=Path, help="what `run` made")
        return one

    one = command(run)
    one.add_argument("--terminology", "-t", type=Path, required=True, help="of products")
    one.add_argument("--corpus", type=Path, action="append", required=True, help="a file of text; may be repeated")
    one.add_argument("--output", "-o", type=Path, required=True)
    one.add_argument("--attribute", action="append", default=[], help="a relation that is one; repeatable; all else")
    one.add_argument("--language", action="append", default=[], help="of names and queries; repeatable; all else")
    one.add_argument(
        "--rows",
        default=",".join(row.name for row in electra_rows.ROWS),
        help="names with commas between; all that train by default",
    )
    one.add_argument("--encoder", default="", help="train from it; from scratch by default")
    one.add_argument("--qtrel-rows", help="those that are fine-tuned and searched with; all of --rows by default")
    one.add_argument("--seeds", default="0,1,2")
    one.add_argument("--steps", type=int, default=0, help="of a row of batch 16; 0: the paper's")
    for name in SIZES:
        one.add_argument(f"--{name}", type=int, help="of the encoder; the paper's by default")
    for option, of in (("set", "every training"), ("qtrel", "sentence_pair"), ("ranking", "attribute_ranking")):
        one.add_argument(
            f"--{option}",
            dest="settings" if option == "set" else option,
            action="append",
            default=[],
            type=setting,
            help=f"of {of}: key=value; repeatable",
        )
    one.add_argument("--most", type=int, help="pairs of a part of QTRel at most; the paper's numbers by default")
    one.add_argument("--threads", type=int, help="of every command; all cores by default")
    one.add_argument("--dry-run", action="store_true", help="only say what each training takes")
    one.add_argument("--keep-models", action="store_true", help=f"also those besides {', '.join(electra_rows.KEPT)}")
    made(table)
    one = made(cases)
    one.add_argument("--terminology", "-t", type=Path, required=True)
    one.add_argument("--models", default="base,em_pap", help="rows with commas between")
    one.add_argument("--seed", type=int, default=0, help="of the rows")
    one.add_argument("--query", action="append", default=[], help="repeatable; two of the test part by default")
    one.add_argument("--title", action="append", default=[], help="repeatable; those of the test part by default")
    one.add_argument("--titles", type=int, default=6, help="of a query, of those of the test part")
    one.add_argument("--threads", type=int)
    command(rows)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    given = _parser().parse_args(words)
    os.environ.setdefault("GOMP_SPINCOUNT", machine.SPIN_COUNT)

    def act() -> None:
        if "threads" in given:
            machine.set_threads(given.threads)
        given.action(given)

    return arguments.status(act)


if __name__ == "__main__":
    sys.exit(main())
