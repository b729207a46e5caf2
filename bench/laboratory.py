"""Local laboratory codes to LOINC, with and without specimen and unit: right first, accepted, wrong, NIL.

    python bench/laboratory.py --data DATA --work FOLDER [--half even|odd|all] [-o report.json]

DATA/local_codes/d_labitems_to_loinc.csv.gz is the table of MIMIC's laboratory items: label, fluid, unit, and the LOINC
code and name that experts chose (https://github.com/MIT-LCP/mimic-code, mimic-iv/concepts/concept_map). The targets are
all LOINC names in that table, written in Athena's layout to FOLDER: far fewer than LOINC has, so an easier task. Choose
on the items whose id has an even CRC-32, and report the odd ones. An item without a code has no right answer.
"""

from __future__ import annotations

import csv
import os
import zlib
from pathlib import Path
from typing import Any

import polars as pl
from scipy.stats import binomtest

import harness
from alphita import machine, report
from alphita.answer.normalizer import Normalizer
from alphita.index.sources import index_of
from alphita.jobs.reading import MentionFile

TABLE = "local_codes/d_labitems_to_loinc.csv.gz"
ITEM, CODE, NAME = "itemid (omop_source_code)", "omop_concept_code", "omop_concept_name"
COLUMNS = {"specimen_column": "fluid", "unit_column": "valueuom"}
# What the normalizer is told beside the label.
GIVEN: dict[str, tuple[str, ...]] = {
    "label": (),
    "label and specimen": ("specimen_column",),
    "label and unit": ("unit_column",),
    "label, specimen and unit": ("specimen_column", "unit_column"),
}
ATHENA = (
    *("concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id", "standard_concept"),
    *("concept_code", "valid_start_date", "valid_end_date", "invalid_reason"),
)
TOP_K = 10
TARGET, ACCEPTED, FIRST = pl.col("gold") != "", pl.col("decision") == "accept", pl.col("rank") == 1
# Figure -> what is counted, and among which rows.
FIGURES = {
    "first": (FIRST, TARGET),
    "among 10": (pl.col("rank") <= TOP_K, TARGET),
    "accepted": (ACCEPTED, TARGET),
    "accepted wrong": (~FIRST.fill_null(value=False), ACCEPTED),
    "NIL": (pl.col("decision") == "nil", TARGET),
    "NIL of items without a code": (pl.col("decision") == "nil", ~TARGET),
}


def terminology(rows: pl.DataFrame, folder: Path) -> Path:
    """Write the LOINC names of the table in Athena's layout."""
    folder.mkdir(parents=True, exist_ok=True)
    names = rows.filter((pl.col(CODE) != "") & (pl.col(NAME) != "")).unique(CODE, maintain_order=True)
    with (folder / "CONCEPT.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        writer.writerow(ATHENA)
        # Some ids in the table are wrong, or stand twice.
        for number, (code, name) in enumerate(names.select(CODE, NAME).iter_rows(), 1):
            kind = ("Measurement", "LOINC", "Lab Test", "S", code, "19700101", "20991231", "")
            writer.writerow([number, name, *kind])
    return folder


def answers(normalizer: Normalizer, path: Path, rows: pl.DataFrame, given: tuple[str, ...]) -> pl.DataFrame:
    """Answer the items, with the given columns: one row each, with what `FIGURES` needs."""
    further: dict[str, Any] = {name: COLUMNS[name] for name in given}
    table = MentionFile(path, column="label", **further)
    results = normalizer.normalize([row.asked for row in table.rows()], top_k=TOP_K, explain=True)
    found = []
    for gold, result in zip(rows[CODE].to_list(), results, strict=True):
        ids = [candidate.concept_id for candidate in result.candidates]
        rank = ids.index(f"LOINC:{gold}") + 1 if f"LOINC:{gold}" in ids else None
        best = result.candidates[0] if result.candidates else None
        found.append(
            {
                "gold": gold,
                "decision": result.decision,
                "confidence": result.confidence,
                "answer": best and best.concept_id,
                "answer_name": best and best.concept_name,
                "read_as": best and best.expansion,
                "contradictions": best and "|".join(best.contradictions),
                "rank": rank,
            }
        )
    types = {"rank": pl.Int64, "confidence": pl.Float64, "read_as": pl.String}
    made = pl.DataFrame(found, schema_overrides=types, infer_schema_length=None)
    return pl.concat([rows.select(ITEM, "label", "fluid", "valueuom", NAME), made], how="horizontal")


def measure(rows: pl.DataFrame) -> dict[str, Any]:
    """Return each of `FIGURES`, with its Wilson interval and the number of rows that it is a share of."""
    found: dict[str, Any] = {"n": len(rows)}
    for name, (counted, among) in FIGURES.items():
        part = rows.filter(among)
        hits, n = len(part.filter(counted)), len(part)
        interval = list(binomtest(hits, n).proportion_ci(method="wilson")) if n else None
        found[name] = {"share": hits / n if n else None, "interval": interval, "n": n}
    return found


def main(words: list[str] | None = None) -> None:
    """Run from the command line."""
    parser = harness.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps names, index and answers")
    parser.add_argument("--half", choices=("even", "odd", "all"), default="odd")
    given = parser.parse_args(words)
    os.environ["ALPHITA_CACHE"] = str(given.work.resolve())
    machine.set_threads(None)
    rows = pl.read_csv(given.data / TABLE, infer_schema=False).fill_null("")
    normalizer = Normalizer(index_of(terminology(rows, given.work / "loinc_names"), language="en"))
    odd = rows[ITEM].map_elements(lambda item: zlib.crc32(item.encode()) % 2 == 1, return_dtype=pl.Boolean)
    if given.half != "all":
        rows = rows.filter(odd if given.half == "odd" else ~odd)
    path = given.work / f"{given.half}.csv"
    rows.write_csv(path)
    found = {}
    for name, columns in GIVEN.items():
        answered = answers(normalizer, path, rows, columns)
        answered.write_csv(given.work / f"{given.half} {name}.tsv".replace(" ", "_"), separator="\t")
        found[name] = measure(answered)
    print(f"| given | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    for name, figures in found.items():
        shares = [report.percent(figures[one]["share"], figures[one]["interval"]) for one in FIGURES]
        print(f"| {name} | {' | '.join(shares)} |")
    harness.write(given, {"figures": found}, terminology=normalizer.index.manifest["terminology_hash"])


if __name__ == "__main__":
    main()
