"""What each part that an index is given brings: borrowed names, the head, short forms, everyday phrases.

    python runs/best_answers.py SET... -o report.json [--data FOLDER] [--only VARIANT...]

Sets:

    held_out:SOURCE       synonyms of a terminology, left out of its index: those that the model did not learn, or a
                          fifth of them where it does not say what it learned; SOURCE is whatever `--to` takes
    sample:FILE           mention, concept_id (ids joined by |, or NIL) and kind, of HPO; CSV, or TSV by its ending
    clinvar               trait names as submitted to ClinVar, none an exact label, to MONDO's labels: FOLDER has
                          open_graph/terms.tsv and benchmarks/clinvar_traits/traits.tsv, gzipped or not

Each set is answered with everything, with each part left out, and with nothing; the sample also after `alphita
calibrate` (the variant "calibrated"). A string is encoded once, whatever variants it stands in. runs/best_answers.sh
calls this.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import study
from alphita import machine, report
from alphita.answer.calibration_store import FOLDER
from alphita.answer.normalizer import Normalizer
from alphita.answer.records import Result
from alphita.calibrate.fitting import fit
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import DEFAULT
from alphita.errors import InputError
from alphita.index.choice import Choice
from alphita.index.enrichment import Enrichment
from alphita.index.external_names import OURS
from alphita.index.sources import enrichment_of, terminology_of
from alphita.index.store import Index, build
from alphita.progress import say
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean_many

NIL = "NIL"
KS = (1, 5)
RANKINGS = ("letters", "vectors", "fusion", "learned")
SAMPLE = "sample"
# One in so many synonyms is held out.
HELD_OUT = 4
# With everything, and a calibration of the index's own.
CALIBRATED = "calibrated"
SEED = 0


class Asked(NamedTuple):
    """A mention, the concepts that are right (none: NIL), and what kind it is of."""

    mention: str
    ids: tuple[str, ...]
    kind: str


class Set(NamedTuple):
    """What is asked of a terminology.

    Attributes:
        terminology: it.
        exclude: cleaned strings that its index is made without.
        asked: the mentions.
    """

    terminology: Terminology
    exclude: frozenset[str]
    asked: list[Asked]


def variants() -> dict[str, Enrichment]:
    """Return what the index is given in each variant."""
    whole = enrichment_of(Choice())
    nothing = enrichment_of(Choice(borrow=False, learn="no"))
    assert whole.sources is not None
    names = whole.sources.names
    lay = whole.sources._replace(names=names.filter(pl.col("source") != OURS))
    alone = whole.sources._replace(names=names.filter(pl.col("source") == OURS))
    return {
        "everything": whole,
        "without borrowed names": whole._replace(sources=alone),
        "without the head": whole._replace(learn="no"),
        "learned for minutes": whole._replace(learn="minutes"),
        "without short forms": whole._replace(short_forms=None),
        "without everyday phrases": whole._replace(sources=lay),
        "nothing": nothing,
        CALIBRATED: whole,
    }


# Sets.


def load(name: str, data: Path | None, encoder: TermEncoder) -> Set:
    """Return a set to ask of an encoder; see the module."""
    kind, _, what = name.partition(":")
    if kind == "held_out":
        terms = load_terminology(terminology_of(what))
        held = held_out(terms, encoder.folder, one_in=5)
        return Set(terms, frozenset(held), [Asked(string, (one,), "synonym") for string, one in held.items()])
    if kind == SAMPLE:
        return Set(load_terminology(terminology_of("hpo")), frozenset(), _sample(Path(what)))
    if kind == "clinvar" and data is not None:
        return _clinvar(data)
    raise InputError("no such set, or --data is missing", value=name)


def held_out(terms: Terminology, model: Path | None = None, *, one_in: int = HELD_OUT) -> dict[str, str]:
    """Return the cleaned synonyms that are held out, each of one concept alone and not its preferred name."""
    table = terms.terms
    frame = pl.DataFrame(
        {
            "concept": terms.term_concept,
            "key": terms.term_key,
            "preferred": table.column("preferred").to_numpy(zero_copy_only=False),
            "exact": pc.equal(table.column("scope").cast("string"), "exact").to_numpy(zero_copy_only=False),
        }
    )
    frame = (
        frame.with_row_index()
        .filter((pl.col("concept").n_unique().over("key") == 1) & ~pl.col("preferred").any().over("key"))
        .filter("exact")
        .unique("key", keep="first", maintain_order=True)
    )
    strings = clean_many(table.column("string").take(frame["index"].to_numpy()).to_pylist())
    ids = terms.concept_ids.take(pa.array(frame["concept"].to_numpy())).to_pylist()
    chosen = {string: one for string, one in zip(strings, ids, strict=True) if string}
    if model is not None and layout.has_learned_list(model):
        return dict(itertools.compress(chosen.items(), ~layout.has_learned(model, list(chosen))))
    return {string: one for string, one in chosen.items() if zlib.crc32(string.encode()) % one_in == 0}


def _sample(path: Path) -> list[Asked]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    return [
        Asked(
            row.get("mention") or row["phrase"],
            tuple(one for one in (row.get("concept_id") or row["ids"]).split("|") if one != NIL),
            row.get("kind") or "",
        )
        for row in rows
    ]


def _clinvar(data: Path) -> Set:
    names = _read(data, "open_graph/terms.tsv").filter(pl.col("source").str.starts_with("MONDO"))
    traits = _read(data, "benchmarks/clinvar_traits/traits.tsv")
    traits = traits.filter((pl.col("kind") == "inexact") & pl.col("concept_id").str.starts_with("MONDO:"))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "mondo.csv"
        names.select("id", "term").write_csv(table)
        terms = load_terminology(terminology_of(table))
    asked = [Asked(trait, (one,), "trait") for trait, one in traits.select("trait", "concept_id").iter_rows()]
    return Set(terms, frozenset(), asked)


def _read(data: Path, name: str) -> pl.DataFrame:
    path = data / name if (data / name).exists() else data / f"{name}.gz"
    return pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)


# Measuring.


def measure(index: Index, asked: Sequence[Asked]) -> dict[str, Any]:
    """Return accuracy of every ranking, and what the calibrated answers are worth."""
    mentions, wanted = [one.mention for one in asked], [_own(index, one.ids) for one in asked]
    named = [place for place, ids in enumerate(wanted) if ids]
    found: dict[str, Any] = {"asked": len(asked), "of them with a concept": len(named)}
    for ranking in RANKINGS:
        options = {} if ranking == "learned" else {"floor": -1.0}
        normalizer = Normalizer(index, ranking=ranking, **options)  # type: ignore[arg-type]
        results = normalizer.normalize(mentions, top_k=max(KS))
        hits = [[one.concept_id in wanted[row] for one in results[row].candidates] for row in named]
        found[ranking] = {f"accuracy@{k}": sum(any(hit[:k]) for hit in hits) / len(named) for k in KS}
        if ranking == "learned":
            found |= _answers(results, wanted, asked)
    return found


def _answers(results: Sequence[Result], wanted: Sequence[set[str]], asked: Sequence[Asked]) -> dict[str, Any]:
    first = [
        bool(one.candidates) and one.candidates[0].concept_id in ids for one, ids in zip(results, wanted, strict=True)
    ]
    right = [
        (one.concept_id in ids) if ids else one.concept_id is None for one, ids in zip(results, wanted, strict=True)
    ]
    accepted = [row for row, one in enumerate(results) if one.decision == "accept"]
    named = [row for row, ids in enumerate(wanted) if ids]
    kinds: dict[str, dict[str, int]] = {}
    for row, one in enumerate(asked):
        of = kinds.setdefault(one.kind, {"n": 0, "first": 0, "right": 0})
        of["n"] += 1
        of["first"] += first[row]
        of["right"] += right[row]
    sure = [row for row in named if (results[row].confidence or 0) >= 0.9 and results[row].concept_id is not None]
    return {
        "lost to NIL": sum(results[row].concept_id is None for row in named),
        "NIL recognised": [sum(right[row] for row in range(len(asked)) if not wanted[row]), len(asked) - len(named)],
        "accepted": {"n": len(accepted), "wrong": sum(not right[row] for row in accepted)},
        "of confidence 0.9": {"n": len(sure), "wrong": sum(not first[row] for row in sure)},
        "by kind": kinds,
    }


def _own(index: Index, ids: Sequence[str]) -> set[str]:
    """Return the index's own ids of some concepts; those that it lacks stay as they are."""
    rows = index.concept_rows(list(ids)).tolist()
    return {index.concept(row).id if row >= 0 else one for one, row in zip(ids, rows, strict=True)}


def made(
    one: Set, encoder: TermEncoder, encoded: study.Encoded, enrichment: Enrichment, out: Path
) -> tuple[Index, dict[str, Any]]:
    """Index a set's terminology, and return what is said of the index."""
    start, encoding = time.process_time(), encoded.seconds
    index = build(one.terminology, encoder, out, exclude=one.exclude, enrichment=enrichment, blocks=encoded)
    seconds, encoding = time.process_time() - start, encoded.seconds - encoding
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    facts: dict[str, Any] = {
        "processor_seconds": round(seconds, 1),
        "of them encoding": round(encoding, 1),
        "mebibytes": round(size / 2**20, 1),
        "strings": len(index),
    }
    return index, facts | {part: index.manifest.get(part) for part in ("borrowed", "short_forms", "head")}


def calibrated(index: Index, threads: int) -> dict[str, Any]:
    """Calibrate an index as `alphita calibrate` does, and return what that certifies."""
    encoder, start = TermEncoder.load(index.model_path, threads=threads), time.process_time()
    found = fit(index, lambda: encoder, seed=SEED)
    found.save(index.path / FOLDER)
    figures = found.figures
    return {
        "processor_seconds": round(time.process_time() - start, 1),
        "seed": SEED,
        "risk_coverage": figures["risk_coverage"],
        "estimated": figures["estimated"],
    }


def run(given: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Measure the sets in the variants."""
    encoder, encoded = TermEncoder.load(given.model, threads=threads), study.Encoded()
    wanted = {name: one for name, one in variants().items() if not given.only or name in given.only}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.sets:
            one = load(name, given.data, encoder)
            found[name] = {}
            for number, (variant, enrichment) in enumerate(wanted.items()):
                if variant == CALIBRATED and not name.startswith(f"{SAMPLE}:"):
                    continue
                index, facts = made(one, encoder, encoded, enrichment, Path(folder) / f"{len(found)}.{number}.index")
                if variant == CALIBRATED:
                    facts["calibration"] = calibrated(index, threads)
                found[name][variant] = facts | measure(index, one.asked)
                firsts = [f"{ranking} {found[name][variant][ranking]['accuracy@1']:.1%}" for ranking in RANKINGS]
                say(f"{name}, {variant}: {', '.join(firsts)}")
    return found


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", default=DEFAULT)
    parser.add_argument("--only", nargs="+", help="variants; all by default")
    given = parser.parse_args(words)
    threads = machine.set_threads(None)

    def act() -> None:
        found = run(given, threads)
        report.write(given.output, {"sets": found}, provenance=report.provenance(config={"model": given.model}))

    return study.status(act)


if __name__ == "__main__":
    sys.exit(main())
