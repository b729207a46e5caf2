"""Query-title relevance from any table of products: sets to fine-tune on, and how well products are found.

    python runs/qtrel.py --terminology T -o O --model base --model em --model em_pap

T is a terminology of products (`alphita terminology import products`), or any other with relations; `--attribute` names
those whose values are asked for, `--language` the languages of titles and queries. O/ gets QTRel-easy and QTRel-hard as
.train.tsv, .dev.tsv, .test.tsv (query, title, label), which `alphita evaluate sentence_pair --data O` reads too;
held_out.split; scores/, a file a model, and what is there is not done again; table.json and table.md. Without a model
only the sets are written; with --search-only no model is fine-tuned.

The sets. A query is a name of a value: its own or a synonym. Positives are titles that have a value of this name.
Titles are divided among the parts by a seeded hash, so that none is in two. Each positive has one negative of the same
query and part: a title without such a value, drawn as often as titles are positives, so that neither query nor title
tells the label. In the hard set (Liu et al. 2022, section 4.2) no term of the query is in the title, of negatives
neither; the easy set has no such constraint. A term is a word after cleaning, and of Chinese a character.

Fine-tuning: the benchmark sentence_pair, five runs; average/maximum of accuracy and F1.

Search: each query of the test parts, among all products, by each route of `ProductSearch`. *Known*: with the table as
it is; right are all titles that have the value. *Missing*: the triples of the test parts' positives are taken out of
the table (held_out.split; a model trained with `--split O/held_out.split` has not seen them either); right are the
titles that lost it, and the others that have it are left out of the ranking. Recall@10 is the share of the right titles
among the first 10, of 10 where there are more. Equals stand in the order of their ids, as the user sees them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import polars as pl

import study
from alphita import TermEncoder, artefact, config, machine, report
from alphita.artefact import atomic_file
from alphita.errors import InputError, UsageError
from alphita.progress import say
from alphita.search import ProductSearch, catalogue, store
from alphita.search.catalogue import Catalogue
from alphita.terminology.splits import Split, uniform
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.report.markdown import table as markdown_table
from alphita_lab.evaluation.report.markdown import text
from alphita_lab.evaluation.scoring.finetuning import count_columns, runs_f1
from alphita_lab.evaluation.systems import load_system
from alphita_lab.training.products.attribute_steps import NAME

EASY, HARD = "QTRel-easy", "QTRel-hard"
SETS = (EASY, HARD)
PARTS = ("train", "dev", "test")
# Shares of the titles, and pairs at most: those of the paper's table 3.
SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}
SIZES = {EASY: {"train": 9303, "dev": 1000, "test": 1000}, HARD: {"train": 8941, "dev": 1000, "test": 1000}}
TRIES = 50
SPLIT, SCORES = "held_out.split", "scores"
KNOWN, MISSING = "known", "missing"
DEPTH = 10
TERMS = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W_\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)


@dataclass(frozen=True)
class Pair:
    """A query with a title, as they are written, and whether the title has a value of that name: "1" or "0"."""

    query: str
    title: str
    label: str


@dataclass(frozen=True)
class Table:
    """The products of a terminology as strings: concepts of one title are one, and so are values of one name.

    Attributes:
        titles: cleaned title -> the title as written.
        names: value -> its cleaned names.
        values: cleaned title -> its values.
        having: cleaned name of a value -> the cleaned titles that have a value of that name.
        triples: cleaned title, value -> the triples that say so, by CURIE.
    """

    titles: dict[str, str]
    names: dict[int, list[str]]
    values: dict[str, list[int]]
    having: dict[str, set[str]]
    triples: dict[tuple[str, int], list[tuple[str, str, str]]]


def terms(string: str) -> frozenset[str]:
    """Return the terms of a string: its words after cleaning, and of Chinese its characters."""
    return frozenset(TERMS.findall(clean(string)))


def read(found: Catalogue) -> Table:
    """Return the products of a catalogue as strings."""
    strings = found.value_names.strings.to_pylist()
    offsets, rows = found.value_names.offsets.tolist(), found.value_names.rows.tolist()
    names = {
        value: [strings[row] for row in rows[offsets[value] : offsets[value + 1]]] for value in range(len(found.values))
    }
    titles: dict[str, str] = {}
    values: dict[str, list[int]] = {}
    having: dict[str, set[str]] = {}
    triples: dict[tuple[str, int], list[tuple[str, str, str]]] = {}
    keys = [clean(title) for title in found.titles]
    for product, attribute, value in found.triples.tolist():
        key = keys[product]
        titles.setdefault(key, " ".join(found.titles[product].split()))
        said = triples.setdefault((key, value), [])
        if not said:
            values.setdefault(key, []).append(value)
        said.append((found.product_ids[product], found.attributes[attribute], found.value_ids[value]))
        for name in names[value]:
            having.setdefault(name, set()).add(key)
    return Table(titles, names, values, having, triples)


def part_of(title: str, seed: int) -> str:
    """Return the part of a cleaned title."""
    place = uniform(seed, "title", title)
    return "test" if place < SHARES["test"] else "dev" if place < SHARES["test"] + SHARES["dev"] else "train"


def pairs(
    table: Table, name: str, part: str, *, seed: int, most: int
) -> tuple[list[Pair], list[tuple[str, str, str]], int]:
    """Draw one part of a set."""
    rng = np.random.default_rng([seed, SETS.index(name), PARTS.index(part)])
    titles = sorted(title for title in table.titles if part_of(title, seed) == part)
    pool = [(title, value) for title in titles for value in table.values[title]]
    words = {title: terms(title) for title in titles}
    drawn: list[Pair] = []
    said: list[tuple[str, str, str]] = []
    asked: set[tuple[str, str]] = set()
    lonely = 0

    def fits(query: str, title: str) -> bool:
        return (query, title) not in asked and (name == EASY or not terms(query) & words[title])

    for place in rng.permutation(len(pool)).tolist():
        if len(drawn) + 2 > most:
            break
        title, value = pool[place]
        query = table.names[value][int(rng.integers(len(table.names[value])))]
        if not fits(query, title):
            continue
        others = (pool[other][0] for other in rng.integers(0, len(pool), TRIES).tolist())
        negative = next((one for one in others if one not in table.having[query] and fits(query, one)), None)
        if negative is None:
            lonely += 1
            continue
        asked |= {(query, title), (query, negative)}
        drawn += [Pair(query, table.titles[title], "1"), Pair(query, table.titles[negative], "0")]
        # By another value of the same name the title would be found all the same.
        for one in table.values[title]:
            if query in table.names[one]:
                said += table.triples[title, one]
    return drawn, said, lonely


def write_sets(
    terminology: Terminology, found: Catalogue, out: Path, *, seed: int, sizes: Mapping[str, Mapping[str, int]] = SIZES
) -> dict[str, Any]:
    """Write the files of both sets, and the split of the triples that the test parts ask for; return the counts."""
    table = read(found)
    counts: dict[str, Any] = {"titles": len(table.titles), "values": len(table.names)}
    files: dict[str, list[Pair]] = {}
    held: set[tuple[str, str, str]] = set()
    for name in SETS:
        for part in PARTS:
            drawn, said, lonely = pairs(table, name, part, seed=seed, most=sizes[name][part])
            if not drawn:
                raise InputError(
                    f"no pair for {name}, part {part}",
                    file=terminology.path,
                    remedy="name other attributes, or give more products",
                )
            if part == "test":
                held |= set(said)
            files[f"{name}.{part}"] = drawn
            apart = sum(not terms(one.query) & terms(one.title) for one in drawn if one.label == "1")
            counts[f"{name}.{part}"] = {
                "pairs": len(drawn),
                "positives_without_a_query_term": 2 * apart / len(drawn),
                "no_negative": lonely,
            }
    facts = {"method": "qtrel", "seed": seed, "terminology_hash": terminology.content_hash}
    split = Split([], [], [], facts, sorted(held))
    if (out / SPLIT).exists() and Split.load(out / SPLIT).hash != split.hash:
        raise UsageError(f"{out / SPLIT} holds out other triples; choose another folder")
    for name, drawn in files.items():
        with atomic_file(out / f"{name}.tsv", "w") as file:
            file.write("query\ttitle\tlabel\n")
            file.writelines(f"{one.query}\t{one.title}\t{one.label}\n" for one in drawn)
    if not (out / SPLIT).exists():
        split.save(out / SPLIT)
    return counts


def fine_tuned(spec: str, data: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Fine-tune an encoder on both sets; return accuracy and F1 of each run."""
    module = load_benchmark("sentence_pair")
    options = config.resolve(module.Options, sets=[f"datasets={','.join(SETS)}", *settings])
    read_in = module.load(Source(data, None, "sentence_pair", module.INFO.where), options)
    rows: pl.DataFrame = module.evaluate(read_in, load_system(spec), options).rows
    figures = {}
    for name in SETS:
        part = rows.filter(pl.col("dataset") == name)
        predicted = part.select(f"predicted_number_run{run}" for run in range(1, options.runs + 1)).to_numpy()
        right = predicted == part["gold_number"].to_numpy()[:, None]
        counted = part.select(pl.col(one).cast(pl.Float64) for one in count_columns(options.runs)).to_numpy()
        figures[name] = {"accuracy": right.mean(axis=0).tolist(), "f1": runs_f1(counted).tolist()}
    return figures


def asked_of(out: Path, name: str) -> dict[str, set[str]]:
    """Return query -> cleaned titles of the positives in the test part of a set."""
    asked: dict[str, set[str]] = {}
    for line in (out / f"{name}.test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, title, label = line.split("\t")
        if label == "1":
            asked.setdefault(query, set()).add(clean(title))
    return asked


def found_at(
    score: np.ndarray, titles: Sequence[str], right: Collection[str], ignored: Collection[str] = ()
) -> tuple[float, float]:
    """Return recall@10 and reciprocal rank of one query."""
    places = dict.fromkeys(titles[row] for row in np.argsort(-score, kind="stable").tolist() if score[row] > -np.inf)
    ranking = [title for title in places if title in right or title not in ignored]
    hits = sum(title in right for title in ranking[:DEPTH])
    first = next((rank for rank, title in enumerate(ranking, 1) if title in right), None)
    return hits / min(DEPTH, len(right)), 1 / first if first else 0.0


class Chosen(TypedDict):
    """Which attributes and languages of the terminology count; empty: all."""

    attributes: Sequence[str]
    languages: Sequence[str]


def searched(encoder: TermEncoder, terminology: Terminology, chosen: Chosen, out: Path) -> dict[str, dict[str, Any]]:
    """Search for the test parts' queries by each route."""
    split = Split.load(out / SPLIT)
    table = read(catalogue.collect(terminology, **chosen))
    held = {(head, tail) for head, _, tail in split.triples}
    lost: dict[str, set[str]] = {}
    for (title, value), said in table.triples.items():
        if any((head, tail) in held for head, _, tail in said):
            for name in table.names[value]:
                lost.setdefault(name, set()).add(title)
    figures: dict[str, dict[str, Any]] = {}
    for setting, left_out in ((KNOWN, None), (MISSING, split)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.search"
            store.build(terminology, encoder, path, split=left_out, **chosen)
            # Made a moment ago, in a folder of our own: its hashes need no second look.
            search = ProductSearch.load(path, encoder=encoder, verify=False)
            titles = [clean(title) for title in search.opened.products.column("title").to_pylist()]
            of_setting = figures[setting] = {}
            for name in SETS:
                queries = sorted(asked_of(out, name))
                of_setting[name] = {}
                for route in search.routes:
                    rows = []
                    for query in queries:
                        having = table.having[query]
                        right, ignored = (having, ()) if left_out is None else (lost[query], having)
                        (score,) = search.scores([query], route=route)
                        rows.append(found_at(score, titles, right, ignored))
                    recall, reciprocal = np.mean(rows, axis=0).tolist()
                    of_setting[name][route] = {"recall@10": recall, "mrr": reciprocal, "queries": len(queries)}
    return figures


def scored(
    spec: str, terminology: Terminology, chosen: Chosen, out: Path, settings: Sequence[str] | None
) -> dict[str, Any]:
    """Return a model's figures, from the file if they were made before; without `settings` it is not fine-tuned."""
    encoder = load_system(spec).encoder  # type: ignore[union-attr]
    files = {path.name: artefact.hash_file(path) for path in sorted(out.glob("QTRel-*.tsv"))}
    projection = Path(encoder.folder) / f"{NAME}.safetensors"
    data = {
        "terminology": terminology.content_hash,
        "split": Split.load(out / SPLIT).hash,
        "files": files,
        **chosen,
        "settings": settings,
        "model": encoder.content_hash,
        "projection": artefact.hash_file(projection) if projection.is_file() else None,
        "precision": encoder.precision,
    }
    file = out / SCORES / f"{artefact.hash_json(data)[:16]}.json"
    if file.is_file():
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return kept | {"name": spec}
    say(f"searching with {spec}")
    figures = {"name": spec, "search": searched(encoder, terminology, chosen, out)}
    if settings is not None:
        say(f"fine-tuning {spec}")
        figures["fine_tuned"] = fine_tuned(spec, out, settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    return report.write(file, figures, provenance=report.provenance(data=data))


def markdown(models: Sequence[Mapping[str, Any]], counts: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    """Return the tables as Markdown, with what they were made with below."""
    lines = [
        [
            text(one["name"]),
            *(_average(one["fine_tuned"][name][measure]) for name in SETS for measure in ("accuracy", "f1")),
        ]
        for one in models
        if "fine_tuned" in one
    ]
    heads = ["model", *(f"{name} {measure}" for name in SETS for measure in ("accuracy", "F1"))]
    parts = ["# Query-title relevance"]
    if lines:
        parts += ["", "Average/maximum of the runs, in percent.", "", markdown_table(heads, lines)]
    for setting in (KNOWN, MISSING):
        rows = [
            [
                text(one["name"]),
                route,
                *(
                    f"{100 * one['search'][setting][name][route][measure]:.1f}"
                    for name in SETS
                    for measure in ("recall@10", "mrr")
                ),
            ]
            for one in models
            for route in one["search"][setting][EASY]
        ]
        heads = ["model", "route", *(f"{name} {measure}" for name in SETS for measure in ("recall@10", "MRR"))]
        told = "the table as it is" if setting == KNOWN else "the values asked for are taken out of the table"
        parts += ["", f"Search, {setting}: {told}; in percent.", "", markdown_table(heads, rows)]
    sizes = "; ".join(
        f"{name} " + " / ".join(f"{counts[f'{name}.{part}']['pairs']:,}" for part in PARTS) for name in SETS
    )
    parts += [
        "",
        f"- pairs (train / dev / test): {sizes}; {counts['titles']:,} titles, {counts['values']:,} values",
        f"- terminology `{origin['data']['terminology']}`, seed {origin['seed']}, settings "
        f"{origin['data']['settings'] or 'as they are'}",
        f"- commit {origin['commit']}; {origin['machine']['processor']}, {origin['machine']['cores']} cores",
    ]
    return "\n".join(parts) + "\n"


def _average(values: Sequence[float]) -> str:
    return f"{100 * np.mean(values):.2f}/{100 * max(values):.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--terminology", "-t", type=Path, required=True)
    parser.add_argument("--attribute", action="append", default=[], help="a relation to ask for; repeatable")
    parser.add_argument("--language", action="append", default=[], help="of titles and queries; repeatable")
    parser.add_argument("--model", action="append", default=[], help="an encoder; repeatable")
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], dest="settings", help="key=value of sentence_pair")
    parser.add_argument("--search-only", action="store_true", help="do not fine-tune, which takes most of the time")
    parser.add_argument("--seed", type=int, default=0, help="of the sets")
    parser.add_argument("--most", type=int, help="pairs of each part at most, for a try")
    parser.add_argument("--threads", type=int)
    words = parser.parse_args(arguments)
    machine.set_threads(words.threads)

    def act() -> None:
        terminology = load_terminology(words.terminology)
        chosen: Chosen = {"attributes": words.attribute, "languages": words.language}
        found = catalogue.collect(terminology, **chosen)
        sizes = {name: {part: min(size, words.most or size) for part, size in of.items()} for name, of in SIZES.items()}
        words.output.mkdir(parents=True, exist_ok=True)
        counts = write_sets(terminology, found, words.output, seed=words.seed, sizes=sizes)
        models = [
            scored(spec, terminology, chosen, words.output, None if words.search_only else words.settings)
            for spec in words.model
        ]
        data = {
            "terminology": terminology.content_hash,
            **chosen,
            "settings": words.settings,
            "sources": terminology.manifest.get("sources", []),
        }
        origin = report.provenance(seed=words.seed, data=data)
        if models:
            figures = {"sets": counts, "models": models}
            study.write_table(words.output, figures, origin, markdown(models, counts, origin))
            study.show(words.output / f"{study.TABLE}.md")
        else:
            report.write(words.output / f"{study.TABLE}.json", {"sets": counts, "models": models}, provenance=origin)
            say(f"{words.output}: {json.dumps(counts)}")

    return study.status(act)


if __name__ == "__main__":
    sys.exit(main())
