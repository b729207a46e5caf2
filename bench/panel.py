"""Alphita's decisions on many terminologies: how many answers are right, accepted, wrongly accepted, or lost to NIL.

    python bench/panel.py --data DATA --work FOLDER [--only TARGET...] [--blind] [-o OUT]

Every string is answered with the default options, by an index with all the defaults; the model is chosen by the
language of the strings, as on the command line. FOLDER keeps the indexes; one is built again only if the terminology,
the model, the external names or the code that builds indexes changes. OUT, by default FOLDER/report, gets table.md,
report.json (also by kind and language of string) and answers.tsv, one row per string: answer_id, answer_name and
matched_term are those of the first candidate, even where the decision is NIL; rank is the place of the right concept
among ten candidates.

Targets: psytar, clinvar (traits with an even CRC-32), ncbi (development part), hpo_german, hpo_sample, attack,
adversarial, and each table of bench/development; with --blind, the tables of bench/blind, or of the folder given,
instead. bench/blind/README.md describes their columns. DATA has benchmarks/, ontologies/ and open_graph/.

Gold is one concept, right unless the decision is NIL; several joined by "+", right only if the decision is review; NIL;
or REVIEW (negated, possible, absent or undecidable; also ? and NOT), for which review and NIL are right. "Inexact"
strings equal no name in the index, its own or external; "learned" ones are among those that the model was trained on.
First, lost, among 3, among 10 and category count only where one concept is right. "NIL wrong" is the share of NIL
answers for which the terminology has a concept.
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
from alphita.encoder import layout
from alphita.errors import InputError
from alphita.index.choice import KIND, language_of, shipped_folder
from alphita.index.sources import index_of
from alphita.index.store import Index
from alphita.progress import say
from alphita.quickstart import read_sample, sample_path
from alphita.terminology import prefixes
from alphita.terminology.text import clean, clean_many
from alphita_lab.evaluation.benchmarks import Source, load_benchmark

HERE = Path(__file__).resolve().parent
NIL, REVIEW = "NIL", "REVIEW"
# A body site that contains the part that the terminology lacks: review is right, too.
CONTAINER = "container"
TOP_K = 10
MAX_GERMAN = 1_500
ICD10CM = "ICD10CM"
CATEGORY = len(f"{ICD10CM}:A00")
# The beginning of a table's name: prefix of ids that have none, and the file in ontologies/, if it is in no package.
TERMINOLOGIES = {
    "icd10cm": (ICD10CM, None),
    "hpo": ("HP", None),
    "drugs": ("drugcentral", "drugcentral.obo.gz"),
    "anatomy": ("UBERON", "uberon_import.obo.gz"),
}
ONE, SEVERAL = pl.col("gold_kind") == "one", pl.col("gold_kind") == "several"
ACCEPTED, IS_NIL, ANY = pl.col("decision") == "accept", pl.col("decision") == "nil", pl.lit(value=True)
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
    "category": ("category", pl.col("same_category"), ONE & pl.col("same_category").is_not_null()),
}
# Of `answers`: what is not written, because it follows from the rest.
UNWRITTEN = ("gold_kind", "same_category", "unknown_gold")


class Row(NamedTuple):
    """A string; the ids that are right, of several concepts with "+" between, or `NIL` or `REVIEW`; what it is."""

    string: str
    gold: tuple[str, ...]
    kind: str = ""
    language: str = ""


class Target(NamedTuple):
    """Strings to answer, and the terminology: anything that `--to` takes."""

    terminology: Path | str
    rows: list[Row]


Targets = dict[str, Callable[[], Target]]


# Targets.


def targets(data: Path, work: Path) -> Targets:
    """Return what loads each development target; terminologies that must be written first are kept in `work`."""
    named: Targets = {
        "psytar": partial(_benchmark, "psytar", data, work / "psytar.csv", "PSYTAR:{}".format),
        "clinvar": partial(_clinvar, data, work / "mondo.csv"),
        "ncbi": partial(_benchmark, "ncbi_disease", data, work / "medic.csv", _of_medic, part="dev"),
        "hpo_german": partial(_german, data),
        "hpo_sample": _sample,
        "attack": partial(_misleading, HERE / "attack.tsv"),
        "adversarial": partial(_misleading, HERE / "adversarial.tsv"),
    }
    return named | tables(HERE / "development", data, work)


def tables(folder: Path, data: Path, work: Path) -> Targets:
    """Return what loads each table of a folder; bench/blind/README.md describes the columns."""
    return {f"{folder.name}/{path.stem}": partial(_table, path, data, work) for path in sorted(folder.glob("*.tsv"))}


def _benchmark(name: str, data: Path, out: Path, curie: Callable[[str], str], **options: str) -> Target:
    """Return the mentions of one concept of a normalization benchmark, each once for each gold."""
    module = load_benchmark(name)
    parts = module.load(Source(data / "benchmarks", None, name), module.Options(**options)).parts
    rows: dict[Row, None] = {}
    for part in parts:
        composite = part.queries.columns.get("composite", [None] * len(part.queries.parts))
        for strings, gold, how in zip(part.queries.parts, part.queries.gold, composite, strict=True):
            if how is None:
                rows[Row(strings[0], tuple(sorted(map(curie, gold[0]))))] = None
    names = zip(map(curie, parts[0].targets.ids), parts[0].targets.names, strict=True)
    return Target(_names(out, names), list(rows))


def _of_medic(code: str) -> str:
    return f"{'OMIM' if code.isdigit() else 'MESH'}:{code}"


def _clinvar(data: Path, out: Path) -> Target:
    names = _read(data / "open_graph" / "terms.tsv").filter(pl.col("source").str.starts_with("MONDO"))
    traits = _read(data / "benchmarks" / "clinvar_traits" / "traits.tsv")
    traits = traits.filter((pl.col("kind") == "inexact") & pl.col("concept_id").str.starts_with("MONDO:"))
    pairs = traits.select("trait", "concept_id").iter_rows()
    rows = [Row(trait, (concept,)) for trait, concept in pairs if zlib.crc32(trait.encode()) % 2 == 0]
    return Target(_names(out, names.select("id", "term").iter_rows()), rows)


def _german(data: Path) -> Target:
    official = (pl.col("source") == "HPOtrans") & (pl.col("lang") == "de") & (pl.col("status") == "OFFICIAL")
    # A cell may hold several synonyms.
    names = _read(data / "open_graph" / "terms.tsv").filter(official).with_columns(pl.col("term").str.split("|"))
    names = names.explode("term").with_columns(pl.col("term").str.strip_chars()).filter(pl.col("term") != "")
    grouped = names.group_by("term").agg(pl.col("id").unique().sort(), pl.col("type").min())
    rows = [Row(term, tuple(ids), kind, "de") for term, ids, kind in grouped.iter_rows()]
    # The other half of the names may be asked when the general calibration is fitted.
    tested = [row for row in rows if zlib.crc32(clean(row.string).encode()) % 2 == 0]
    return Target("hpo", sorted(tested, key=lambda row: (zlib.crc32(row.string.encode()), row.string))[:MAX_GERMAN])


def _sample() -> Target:
    sample = read_sample(sample_path())
    rows = zip(sample.mentions, sample.concepts, sample.kinds, strict=True)
    return Target("hpo", [Row(mention, (gold or NIL,), kind) for mention, gold, kind in rows])


def _misleading(path: Path) -> Target:
    rows = _read(path).select("mention", "right", "kind").iter_rows()
    return Target("hpo", [Row(mention, _gold(right), kind) for mention, right, kind in rows])


def _table(path: Path, data: Path, work: Path) -> Target:
    name = next((name for name in TERMINOLOGIES if path.stem.startswith(name)), None)
    if name is None:
        raise InputError(f"the file's name begins with none of {list(TERMINOLOGIES)}", file=path)
    prefix, file = TERMINOLOGIES[name]
    columns = _read(path).select("string", "gold", "also", "kind", "language").iter_rows()
    rows = [Row(string, _gold(gold, also, prefix), kind, language) for string, gold, also, kind, language in columns]
    terminology = name if file is None else data / "ontologies" / file
    return Target(_uberon(Path(terminology), work / "uberon.obo") if name == "anatomy" else terminology, rows)


def _gold(gold: str, also: str = "", prefix: str = "") -> tuple[str, ...]:
    """Return the right ids as CURIEs, `NIL` or `REVIEW`."""
    if gold in (NIL, REVIEW, "?", "NOT"):
        return (NIL if gold == NIL else REVIEW,)
    ids = [cell.split("+") for cell in (*gold.split("|"), *also.split("|")) if cell]
    return tuple("+".join(prefixes.normalize(one if ":" in one else f"{prefix}:{one}") for one in each) for each in ids)


def _uberon(source: Path, out: Path) -> Path:
    """Write Uberon's own terms of a file that has others' too."""
    head, *stanzas = re.split(r"(?m)^(?=\[)", textio.read_text(source))
    kept = [stanza for stanza in stanzas if stanza.startswith("[Term]\nid: UBERON:")]
    out.write_text("".join([head, *kept]), encoding="utf-8")
    return out


def _names(out: Path, names: Iterable[tuple[str, ...]]) -> Path:
    """Write a terminology that has only names."""
    with out.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("id", "term"), *names])
    return out


def _read(path: Path) -> pl.DataFrame:
    path = path if path.exists() else path.with_name(f"{path.name}.gz")
    return pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False).fill_null("")


# Answers.


def normalizer_of(target: Target) -> Normalizer:
    """Return the default normalizer of a target; its index is built first if $ALPHITA_CACHE lacks it."""
    return Normalizer(index_of(target.terminology, language=language_of(row.string for row in target.rows)))


def answers(target: Target, normalizer: Normalizer | None = None) -> pl.DataFrame:
    """Answer every string of a target: one row each, with what answers.tsv and `FIGURES` need."""
    normalizer = normalizer or normalizer_of(target)
    strings = [row.string for row in target.rows]
    results = normalizer.normalize(strings, top_k=TOP_K, explain=True)
    index, cleaned = normalizer.index, clean_many(strings)
    judged = [_judged(row, result, index) for row, result in zip(target.rows, results, strict=True)]
    types = {"rank": pl.Int64, "nil_probability": pl.Float64, "same_category": pl.Boolean}
    return pl.DataFrame(judged, schema_overrides=types, infer_schema_length=None).with_columns(
        inexact=pl.Series(index.rows(cleaned) < 0), learned=pl.Series(layout.has_learned(index.model_path, cleaned))
    )


def _judged(row: Row, result: Result, index: Index) -> dict[str, Any]:
    gold = [index.concept(place).id for place in index.concept_rows(row.gold).tolist() if place >= 0]
    ids = [candidate.concept_id for candidate in result.candidates]
    rank = next((place for place, concept in enumerate(ids, 1) if concept in gold), None)
    best = result.candidates[0] if result.candidates else None
    gold_kind = row.gold[0].lower() if row.gold[0] in (NIL, REVIEW) else "several" if "+" in row.gold[0] else "one"
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
        "right": is_right(gold_kind, row.kind, rank, result.decision),
        "kind": row.kind,
        "language": row.language,
        "gold_kind": gold_kind,
        "unknown_gold": gold_kind == "one" and not gold,
        "same_category": _same_category(ids, row.gold),
    }


def is_right(gold_kind: str, kind: str, rank: int | None, decision: str | None) -> bool:
    """Return whether a decision is right, given the rank of the right concept."""
    if decision == "nil":
        return gold_kind in ("nil", "review")
    undecided = decision == "review" and (gold_kind in ("several", "review") or kind == CONTAINER)
    return rank == 1 or undecided


def _same_category(ids: list[str], gold: tuple[str, ...]) -> bool | None:
    """Return whether the first candidate has a right category of ICD-10-CM; None in other terminologies."""
    if not gold[0].startswith(f"{ICD10CM}:"):
        return None
    return ids[0][:CATEGORY] in {curie[:CATEGORY] for curie in gold} if ids else False


# Figures.


def measure(rows: pl.DataFrame) -> dict[str, Any]:
    """Return each of `FIGURES`, with its Wilson interval and the number of rows that it is a share of."""
    found: dict[str, Any] = {"n": len(rows), "with_concept": len(rows.filter(ONE))}
    for name, (_, counted, among) in FIGURES.items():
        part = rows.filter(among)
        hits, n = len(part.filter(counted)), len(part)
        found |= {name: hits / n if n else None, f"{name}_n": n}
        if n:
            found[f"{name}_interval"] = list(binomtest(hits, n).proportion_ci(method="wilson"))
    return found


def run(target: Target) -> tuple[dict[str, Any], pl.DataFrame]:
    """Answer a target; return its figures with what they depend on, and its answers."""
    start = time.perf_counter()
    normalizer = normalizer_of(target)
    normalizer.encoder()
    opened = time.perf_counter()
    rows = answers(target, normalizer)
    seconds = {"index": round(opened - start, 1), "answers": round(time.perf_counter() - opened, 1)}
    inexact = rows.filter("inexact")
    parts = {"all": rows, "inexact": inexact, "inexact and not learned": inexact.filter(~pl.col("learned"))}
    for name in ("kind", "language"):
        groups = rows.group_by(name, maintain_order=True)
        parts |= {f"{name} {value}": part for (value,), part in groups if value}
    manifest = normalizer.index.manifest
    facts = {name: manifest[name] for name in ("model_hash", "base_model_hash", "terminology_hash", "sources")}
    facts |= {"seconds": seconds, "unknown_gold": rows["unknown_gold"].sum()}
    return facts | {"figures": {name: measure(part) for name, part in parts.items() if len(part)}}, rows


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the figures of all and of inexact strings by target: percentages with 95% intervals, as Markdown."""
    rows = [["target", "strings", "n", "with a concept", *(heading for heading, *_ in FIGURES.values())]]
    rows.append(["---"] * len(rows[0]))
    for target, facts in found.items():
        for part in ("all", "inexact"):
            if figures := facts["figures"].get(part):
                shares = [report.percent(figures[name], figures.get(f"{name}_interval")) for name in FIGURES]
                rows.append([target, part, str(figures["n"]), str(figures["with_concept"]), *shares])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(words: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = harness.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps the indexes")
    parser.add_argument("--only", nargs="+", metavar="TARGET")
    parser.add_argument("--blind", type=Path, nargs="?", const=HERE / "blind", metavar="FOLDER")
    given = parser.parse_args(words)
    out: Path = given.output or given.work / "report"
    out.mkdir(parents=True, exist_ok=True)
    os.environ["ALPHITA_CACHE"] = str(given.work.resolve())
    machine.set_threads(None)
    known = tables(given.blind, given.data, given.work) if given.blind else targets(given.data, given.work)
    if unknown := [name for name in given.only or () if name not in known]:
        parser.error(registry.unknown("target", unknown[0], known))
    names_hash = artefact.open_manifest(shipped_folder(), KIND)["content_hash"]
    given.output = out / "report.json"
    found, frames = {}, []
    for name in given.only or known:
        found[name], rows = run(known[name]())
        frames.append(rows.drop(UNWRITTEN).select(pl.lit(name).alias("target"), pl.all()))
        say(f"{name}: {found[name]['seconds']}")
        pl.concat(frames).write_csv(out / "answers.tsv", separator="\t", quote_style="never")
        (out / "table.md").write_text(table(found), encoding="utf-8")
        harness.write(given, {"targets": found}, names=names_hash)
    print(table(found))


if __name__ == "__main__":
    main()
