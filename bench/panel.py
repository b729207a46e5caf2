"""Alphita's decisions on many terminologies: how many answers are right, accepted, wrongly accepted, or lost to NIL.

    python bench/panel.py --data DATA --work FOLDER [--only TARGET...] [--blind] [-o OUT]

Every string of every target is answered with the default options, by an index that has all the defaults; the model is
chosen by the language of the strings, as the command line does. FOLDER keeps the indexes: one is built again only if
the terminology, the model, the external names or the code that builds an index changes. OUT (by default FOLDER/report)
gets table.md, report.json with the figures also by kind of string, and answers.tsv with one row per string. In it,
answer_id, answer_name and matched_term are those of the first candidate, also where the decision is NIL, and rank is
the place of the right concept among ten candidates.

Targets: psytar, clinvar (the half of the traits with an even CRC-32), ncbi (development part, mentions of one concept),
hpo_german, hpo_sample, attack, adversarial, and each table in bench/development; bench/blind/README.md describes the
columns of these. With --blind, only the tables of bench/blind, or of the folder that is given. DATA has benchmarks/,
ontologies/ and open_graph/ (see runs/best_answers.sh and runs/open_graph.sh).

The gold of a string is one of these:

    one concept    right: it, or another id that is fully right, unless the decision is NIL
    A+B            several concepts: right only if the decision is review; accepted is wrong
    NIL            right: NIL
    REVIEW         negated, possible, absent or undecidable (also ? and NOT): right: review or NIL; accepted is wrong

"Inexact" strings equal no name in the index, its own or borrowed. First, three, ten and category count where one
concept is right, whatever the decision; "NIL wrong" is the share of NIL answers for which the terminology has a concept
or several; "category" compares the first three characters of codes.
"""

from __future__ import annotations

import csv
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from scipy.stats import binomtest

import harness
from alphita import artefact, machine, registry, report, textio
from alphita.answer.normalizer import Normalizer
from alphita.answer.records import Result
from alphita.errors import InputError
from alphita.index.choice import KIND, language_of, shipped_folder
from alphita.index.sources import index_of
from alphita.index.store import Index
from alphita.progress import say
from alphita.quickstart import read_sample, sample_path
from alphita.terminology import prefixes
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, load_benchmark

HERE = Path(__file__).resolve().parent
NIL, REVIEW = "NIL", "REVIEW"
REVIEWED = (REVIEW, "?", "NOT")
TOP_K = 10
MAX_GERMAN = 1_500
CATEGORY = 3
# A larger body site where the terminology lacks the part: review is right, too.
CONTAINER = "container"
# Terminology of a table by the beginning of its file's name, with the prefix of ids that have none.
TERMINOLOGIES = {"icd10cm": "ICD10CM", "drugs": "drugcentral", "anatomy": "UBERON", "hpo": "HP"}


class Row(NamedTuple):
    """A string; the ids that are right, `NIL` or `REVIEW`; several concepts are joined by "+" in one id."""

    string: str
    gold: tuple[str, ...]
    kind: str = ""
    language: str = ""


class Target(NamedTuple):
    """Strings to answer, and the terminology, of any kind that `--to` takes."""

    name: str
    terminology: Path | str
    rows: list[Row]


ONE, SEVERAL = pl.col("gold_kind") == "one", pl.col("gold_kind") == "several"
ACCEPTED, IS_NIL = pl.col("decision") == "accept", pl.col("decision") == "nil"
ANY = pl.lit(value=True)
# Figure -> heading, what is counted, and among which rows.
FIGURES = {
    "first": ("first", pl.col("rank") == 1, ONE),
    "right": ("decision right", pl.col("right"), ANY),
    "lost": ("lost to NIL", IS_NIL, ONE),
    "three": ("among 3", pl.col("rank") <= 3, ONE),
    "ten": ("among 10", pl.col("rank") <= TOP_K, ONE),
    "accepted": ("accepted", ACCEPTED, ANY),
    "accepted_wrong": ("accepted wrong", ~pl.col("right"), ACCEPTED),
    "nil": ("NIL", IS_NIL, ANY),
    "nil_wrong": ("NIL wrong", ONE | SEVERAL, IS_NIL),
    "nil_recognised": ("NIL recognised", IS_NIL, pl.col("gold_kind") == "nil"),
    "decided": ("decided", ACCEPTED | IS_NIL, ANY),
    "category": ("category", pl.col("same_category"), ONE),
}
WRITTEN = (
    *("target", "string", "gold", "decision", "answer_id", "answer_name", "matched_term", "confidence"),
    *("nil_probability", "rank", "right", "inexact", "kind", "language"),
)


# Targets.


def targets(data: Path, work: Path) -> dict[str, Callable[[], Target]]:
    """Return what loads each development target, by name; terminologies that must be written are kept in `work`."""
    named: dict[str, Callable[[], Target]] = {
        "psytar": partial(_benchmark, "psytar", "psytar", data, work, "PSYTAR:{}".format),
        "clinvar": partial(_clinvar, data, work),
        "ncbi": partial(_benchmark, "ncbi", "ncbi_disease", data, work, _of_medic, part="dev"),
        "hpo_german": partial(_german, data),
        "hpo_sample": _sample,
        "attack": partial(_misleading, "attack"),
        "adversarial": partial(_misleading, "adversarial"),
    }
    return named | tables(HERE / "development", data, work)


def tables(folder: Path, data: Path, work: Path) -> dict[str, Callable[[], Target]]:
    """Return what loads each table of a folder, by name; bench/blind/README.md describes the columns."""
    paths = sorted(folder.glob("*.tsv"))
    return {f"{folder.name}/{path.stem}": partial(_table, path, data, work) for path in paths}


def _benchmark(
    name: str, benchmark: str, data: Path, work: Path, curie: Callable[[str], str], **options: str
) -> Target:
    """Return the mentions of one concept of a normalization benchmark, each once for each gold."""
    module = load_benchmark(benchmark)
    parts = module.load(Source(data / "benchmarks", None, benchmark), module.Options(**options)).parts
    rows: dict[Row, None] = {}
    for part in parts:
        composite = part.queries.columns.get("composite", [None] * len(part.queries.parts))
        for (string, *_), (gold, *_), kind in zip(part.queries.parts, part.queries.gold, composite, strict=True):
            if kind is None:
                rows[Row(string, tuple(sorted(map(curie, gold))))] = None
    names = zip(map(curie, parts[0].targets.ids), parts[0].targets.names, strict=True)
    return Target(name, _names(work / f"{name}.csv", names), list(rows))


def _of_medic(code: str) -> str:
    return f"{'OMIM' if code.isdigit() else 'MESH'}:{code}"


def _clinvar(data: Path, work: Path) -> Target:
    names = _read(data / "open_graph" / "terms.tsv").filter(pl.col("source").str.starts_with("MONDO"))
    traits = _read(data / "benchmarks" / "clinvar_traits" / "traits.tsv")
    traits = traits.filter((pl.col("kind") == "inexact") & pl.col("concept_id").str.starts_with("MONDO:"))
    rows = [
        Row(trait, (concept,))
        for trait, concept in traits.select("trait", "concept_id").iter_rows()
        if _crc(trait) % 2 == 0
    ]
    return Target("clinvar", _names(work / "mondo.csv", names.select("id", "term").iter_rows()), rows)


def _german(data: Path) -> Target:
    names = _read(data / "open_graph" / "terms.tsv").filter(
        (pl.col("source") == "HPOtrans") & (pl.col("lang") == "de") & (pl.col("status") == "OFFICIAL")
    )
    grouped = names.group_by("term").agg("id", pl.col("type").first()).sort("term")
    rows = [Row(term, tuple(ids), kind, "de") for term, ids, kind in grouped.iter_rows()]
    return Target("hpo_german", "hpo", sorted(rows, key=lambda row: _crc(row.string))[:MAX_GERMAN])


def _sample() -> Target:
    sample = read_sample(sample_path())
    rows = zip(sample.mentions, sample.concepts, sample.kinds, strict=True)
    return Target("hpo_sample", "hpo", [Row(mention, (gold or NIL,), kind) for mention, gold, kind in rows])


def _misleading(name: str) -> Target:
    rows = _rows(HERE / f"{name}.tsv")
    return Target(name, "hpo", [Row(row["mention"], _gold(row["right"]), row["kind"]) for row in rows])


def _table(path: Path, data: Path, work: Path) -> Target:
    name = next((name for name in TERMINOLOGIES if path.stem.startswith(name)), None)
    if name is None:
        raise InputError("the file's name does not begin with a terminology's", file=path, value=path.stem)
    prefix = TERMINOLOGIES[name]
    rows = [
        Row(row["string"], _gold(row["gold"], row["also"], prefix), row["kind"], row["language"]) for row in _rows(path)
    ]
    terminology: Path | str = name
    if name == "drugs":
        terminology = data / "ontologies" / "drugcentral.obo.gz"
    elif name == "anatomy":
        terminology = _uberon(data / "ontologies" / "uberon_import.obo.gz", work / "uberon.obo")
    return Target(f"{path.parent.name}/{path.stem}", terminology, rows)


def _gold(gold: str, also: str = "", prefix: str = "") -> tuple[str, ...]:
    """Return the right ids as CURIEs, `NIL` or `REVIEW`."""
    if gold in (NIL, *REVIEWED):
        return (NIL if gold == NIL else REVIEW,)
    ids = [cell.strip() for cell in (*gold.split("|"), *also.split("|")) if cell.strip()]
    return tuple("+".join(_curie(part, prefix) for part in cell.split("+")) for cell in ids)


def _curie(cell: str, prefix: str) -> str:
    return prefixes.normalize(cell if ":" in cell else f"{prefix}:{cell.strip()}")


def _uberon(source: Path, out: Path) -> Path:
    """Write Uberon's own terms of a file that imports others'."""
    head, *stanzas = re.split(r"(?m)^(?=\[)", textio.read_text(source))
    kept = [stanza for stanza in stanzas if stanza.startswith("[Term]\nid: UBERON:")]
    with artefact.atomic_file(out, "w") as file:
        file.write("".join([head, *kept]))
    return out


def _names(out: Path, names: Iterable[tuple[str, str]]) -> Path:
    """Write a terminology of names alone."""
    with artefact.atomic_file(out, "w") as file:
        csv.writer(file, lineterminator="\n").writerows([("id", "term"), *names])
    return out


def _read(path: Path) -> pl.DataFrame:
    path = path if path.exists() else path.with_name(f"{path.name}.gz")
    return pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)


def _rows(path: Path) -> list[dict[str, str]]:
    rows = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False).fill_null("")
    return list(rows.iter_rows(named=True))


def _crc(string: str) -> int:
    return zlib.crc32(string.encode())


# Answers.


def normalizer_of(target: Target) -> Normalizer:
    """Return the default normalizer of a target; its index is built first if $ALPHITA_CACHE does not have it."""
    return Normalizer(index_of(target.terminology, language=language_of(row.string for row in target.rows)))


def answers(target: Target, normalizer: Normalizer | None = None) -> pl.DataFrame:
    """Answer every string of a target: one row each, with the columns `WRITTEN` and those that `FIGURES` use."""
    normalizer = normalizer or normalizer_of(target)
    strings = [row.string for row in target.rows]
    results = normalizer.normalize(strings, top_k=TOP_K, explain=True)
    inexact = (normalizer.index.rows(clean_many(strings)) < 0).tolist()
    rows = [
        _judged(row, result, normalizer.index)
        | {"target": target.name, "inexact": is_inexact, "has_categories": target.terminology == "icd10cm"}
        for row, result, is_inexact in zip(target.rows, results, inexact, strict=True)
    ]
    return pl.DataFrame(
        rows, infer_schema_length=None, schema_overrides={"rank": pl.Int64, "nil_probability": pl.Float64}
    )


def _judged(row: Row, result: Result, index: Index) -> dict[str, Any]:
    known = [index.concept(place).id for place in index.concept_rows(row.gold).tolist() if place >= 0]
    ids = [candidate.concept_id for candidate in result.candidates]
    rank = next((place for place, one in enumerate(ids, 1) if one in known), None)
    best = result.candidates[0] if result.candidates else None
    gold_kind = row.gold[0].lower() if row.gold[0] in (NIL, REVIEW) else "several" if "+" in row.gold[0] else "one"
    is_nil, is_review = result.decision == "nil", result.decision == "review"
    right = {
        "one": (rank == 1 and not is_nil) or (row.kind == CONTAINER and is_review),
        "several": (rank == 1 and not is_nil) or is_review,
        "nil": is_nil,
        "review": is_nil or is_review,
    }
    return {
        "string": row.string,
        "gold": "|".join(row.gold),
        "decision": result.decision,
        "answer_id": best and best.concept_id,
        "answer_name": best and best.concept_name,
        "matched_term": best and best.matched_term,
        "confidence": result.confidence,
        "nil_probability": result.explanation and result.explanation.nil,
        "rank": rank,
        "right": right[gold_kind],
        "kind": row.kind,
        "language": row.language,
        "gold_kind": gold_kind,
        "unknown_gold": gold_kind == "one" and not known,
        "same_category": bool(ids) and _category(ids[0]) in map(_category, row.gold),
    }


def _category(concept_id: str) -> str:
    return concept_id.partition(":")[2][:CATEGORY]


# Figures.


def measure(rows: pl.DataFrame) -> dict[str, Any]:
    """Return each of `FIGURES` for some answers, with its interval and the number of rows that it is a share of."""
    found: dict[str, Any] = {"n": len(rows), "with_concept": len(rows.filter(ONE))}
    for name, (_, counted, among) in FIGURES.items():
        of = rows.filter(among)
        if name == "category":
            of = of.filter("has_categories")
        hits = len(of.filter(counted))
        found |= {name: hits / len(of) if len(of) else None, f"{name}_of": len(of)}
        if len(of):
            interval = binomtest(hits, len(of)).proportion_ci(method="wilson")
            found[f"{name}_interval"] = [interval.low, interval.high]
    return found


def figures_of(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the figures of a target: of all strings, of the inexact ones, and by kind and language of string."""
    parts = {"all": rows, "inexact": rows.filter("inexact")}
    parts |= {
        f"{name} {value}": part
        for name in ("kind", "language")
        for (value,), part in rows.group_by(name, maintain_order=True)
    }
    return {name: measure(part) for name, part in parts.items() if len(part)}


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the figures of all and of inexact strings, by target, in percent with 95% intervals, as Markdown."""
    headings = ["target", "strings", "n", "with a concept", *(heading for heading, *_ in FIGURES.values())]
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for target, facts in found.items():
        for part in ("all", "inexact"):
            if figures := facts["figures"].get(part):
                cells = [report.percent(figures[name], figures.get(f"{name}_interval")) for name in FIGURES]
                counts = [str(figures["n"]), str(figures["with_concept"])]
                lines.append(f"| {' | '.join([target, part, *counts, *cells])} |")
    return "\n".join(lines) + "\n"


def run(target: Target) -> tuple[dict[str, Any], pl.DataFrame]:
    """Answer a target, and return its figures with what made them, and its answers."""
    start = time.perf_counter()
    normalizer = normalizer_of(target)
    normalizer.encoder()
    opened = time.perf_counter()
    rows = answers(target, normalizer)
    answered = time.perf_counter()
    manifest = normalizer.index.manifest
    facts = {
        "figures": figures_of(rows),
        "unknown_gold": rows["unknown_gold"].sum(),
        "seconds": {"index": round(opened - start, 1), "answers": round(answered - opened, 1)},
        **{name: manifest[name] for name in ("model_hash", "base_model_hash", "terminology_hash", "sources")},
    }
    return facts, rows


def main() -> None:
    """Run from the command line."""
    parser = harness.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps the indexes")
    parser.add_argument("--only", nargs="+", metavar="TARGET")
    parser.add_argument("--blind", type=Path, nargs="?", const=HERE / "blind", metavar="FOLDER")
    given = parser.parse_args()
    work, out = given.work.resolve(), (given.output or given.work / "report").resolve()
    for folder in (work, out):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ["ALPHITA_CACHE"] = str(work)
    machine.set_threads(None)
    known = tables(given.blind, given.data, work) if given.blind else targets(given.data, work)
    if unknown := [name for name in given.only or known if name not in known]:
        raise SystemExit(registry.unknown("target", unknown[0], known))
    found, frames = {}, []
    for name in given.only or known:
        found[name], rows = run(known[name]())
        frames.append(rows)
        say(f"{name}: {found[name]['seconds']}")
    given.output = out / "report.json"
    names_hash = artefact.open_manifest(shipped_folder(), KIND)["content_hash"]
    harness.write(given, {"targets": found}, names=names_hash)
    pl.concat(frames).select(WRITTEN).write_csv(out / "answers.tsv", separator="\t", quote_style="never")
    (out / "table.md").write_text(table(found), encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
