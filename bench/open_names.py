"""The table of names that comes with Alphita, models/alphita-names: what open vocabularies call the same thing.

    python bench/open_names.py TERMS.tsv RELATIONS.tsv --hpo HPO.terminology --icd10cm INDEX.csv --lay LAY.tsv
        --unlent UNLENT.tsv --short SHORT.tsv --card README.md -o OUT

runs/alphita_names.sh calls this, and says what the files hold. Of the vocabularies those are taken whose licence lets
their names be given on, with attribution by source in the manifest and in the card.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import polars as pl

from alphita import artefact
from alphita.errors import AlphitaError
from alphita.index.choice import KIND, OURS
from alphita.index.contradicting import contradicted
from alphita.index.external_names import EQUIVALENTS, NAMES, SHORT_FORMS, UNLENT, names_of, prepared
from alphita.progress import say
from alphita.terminology.loaders import _icd10cm_index
from alphita.terminology.store import load_terminology
from general_calibration import GENES, SOURCES, read_table
from open_graph import EXACT_MATCH

# What the maker of each wants to be said.
HPO_NOTE = (
    "This product uses the Human Phenotype Ontology (version {version}). Find out more at http://www.human-phenotype-"
    "ontology.org. Its names stand here unaltered."
)
MONDO = "MONDO"
MONDO_VERSION, MONDO_LICENCE = "2026", "CC-BY-4.0"
INDEX_SOURCE = "ICD-10-CM index"
SHORTEST = 3


def write(given: argparse.Namespace) -> None:
    """Write the folder."""
    hpo = load_terminology(given.hpo)
    about = hpo.manifest["sources"][0]
    sources = [
        {
            "name": "HPO",
            "version": about["version"],
            "licence": about["licence"],
            "note": HPO_NOTE.format(version=about["version"]),
        }
    ]
    frames = [names_of(hpo, "HPO")]
    terms, relations = read_table(given.terms), read_table(given.relations)
    for name, one in SOURCES.items():
        frames.append(_of_graph(name, terms, relations, one.names, GENES if name == "ORDO" else ()))
        sources.append({"name": name, "version": one.version, "licence": one.licence})
    frames.append(_index(given.icd10cm))
    sources.append({"name": INDEX_SOURCE, "version": "2025", "licence": "public domain (US federal work)"})
    frames.append(_lay(given.lay))
    sources.append({"name": OURS, "version": "", "licence": "Apache-2.0", "note": "written for Alphita"})
    sources.append({"name": MONDO, "version": MONDO_VERSION, "licence": MONDO_LICENCE, "note": "equivalences alone"})
    names = pl.concat([frame.select("source", "id", "name", "language") for frame in frames]).unique(
        maintain_order=True
    )
    told = _of_concepts(names)
    opposites = pl.Series(contradicted(told, told.filter("leads"))) & told["is_synonym"]
    say(f"{opposites.sum():,} names contradict the first one of their concept, and are left out")
    names = names.filter(~opposites)
    # One name alone lends nothing, but an index's code that is named so has it.
    several = pl.len().over("source", "id") > 1
    names = names.filter(several | (pl.col("source") == INDEX_SOURCE))
    table = prepared(names)
    told = _of_concepts(table)
    opposites = pl.Series(contradicted(told, told)) & told["is_synonym"]
    say(f"{(opposites & table['alone']).sum():,} names contradict another of their concept, and lead to none")
    table = table.with_columns(pl.col("alone") & ~opposites)
    exact = relations.filter((pl.col("relation") == EXACT_MATCH) & pl.col("head").str.starts_with(f"{MONDO}:"))
    equivalents = exact.select(id="head", other="tail").filter(pl.col("other").is_in(names["id"].unique().to_list()))
    for source, count in names.group_by("source").len().sort("source").iter_rows():
        say(f"{source}: {count:,} names")
    with artefact.create(given.output, KIND, force=given.force) as draft:
        _save(table, draft.path / NAMES)
        _save(equivalents.unique(maintain_order=True), draft.path / EQUIVALENTS)
        shutil.copyfile(given.short, draft.path / SHORT_FORMS)
        shutil.copyfile(given.lay, draft.path / "lay.tsv")
        shutil.copyfile(given.unlent, draft.path / UNLENT)
        shutil.copyfile(given.card, draft.path / "README.md")
        draft.fields.update({"sources": sources, "names": len(names), "equivalents": len(equivalents)})


def _of_concepts(names: pl.DataFrame) -> pl.DataFrame:
    """Return name, concept, whether it leads, and whether it is a synonym: no class of things, nor written by hand."""
    concept = pl.format("{}|{}", "source", "id")
    is_synonym = ~pl.col("source").is_in([INDEX_SOURCE, OURS])
    return names.select("name", concept=concept, leads=concept.is_first_distinct(), is_synonym=is_synonym)


def _of_graph(
    name: str, terms: pl.DataFrame, relations: pl.DataFrame, labels: tuple[str, ...], without: tuple[str, ...]
) -> pl.DataFrame:
    """Return the exact English names of one vocabulary of the graph."""
    gone = relations.filter(
        pl.col("source").is_in(list(labels)) & (pl.col("relation") == "is_a") & pl.col("tail").is_in(list(without))
    )["head"]
    own = terms.filter(
        pl.col("source").is_in(list(labels))
        & (pl.col("lang") == "en")
        & pl.col("type").is_in(["pref", "syn"])
        & (pl.col("status") == "OFFICIAL")
        & ~pl.col("id").is_in(gone.to_list())
        & (pl.col("term").str.len_chars() >= SHORTEST)
    ).sort(pl.col("type") != "pref", maintain_order=True)
    return own.select(source=pl.lit(name), id="id", name="term", language="lang")


def _index(path: Path) -> pl.DataFrame:
    """Return the names that the alphabetical index of ICD-10-CM has for each code."""
    table = pl.read_csv(path, infer_schema=False).select(_icd10cm_index.COLUMNS).fill_null("")
    found = _icd10cm_index.names(
        _icd10cm_index.IndexRow(int(level), term, code) for level, term, code in table.iter_rows()
    )
    codes, names = zip(*found, strict=True)
    ids = [f"ICD10CM:{code}" for code in codes]
    return pl.DataFrame({"source": INDEX_SOURCE, "id": ids, "name": names, "language": "en"})


def _lay(path: Path) -> pl.DataFrame:
    """Return the everyday phrases, each with the standard names it stands for, as names of one made-up concept each."""
    rows = read_table(path)
    rows = rows.with_columns(id=pl.format("alphita:{}", pl.col("name").rank("dense")))
    english = pl.when(pl.col("language") == "en").then(pl.lit("en"))
    also = rows.select("id", pl.col("also").fill_null("").str.split("|"), language=english).explode("also")
    parts = [
        rows.select("id", "name", language=pl.lit("en")),
        also.filter(pl.col("also") != "").select("id", name="also", language="language"),
        rows.select("id", name="phrase", language="language"),
    ]
    names = pl.concat(parts).unique(["id", "name"], keep="first", maintain_order=True)
    return names.select(source=pl.lit(OURS), id="id", name="name", language="language")


def _save(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path, compression="zstd", compression_level=19, statistics=False)


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("terms", type=Path)
    parser.add_argument("relations", type=Path)
    parser.add_argument("--hpo", type=Path, required=True, help="terminology folder")
    parser.add_argument("--icd10cm", type=Path, required=True, help="the alphabetical index")
    parser.add_argument("--lay", type=Path, required=True, help="phrase, name, also, system, language")
    parser.add_argument("--unlent", type=Path, required=True, help="id, name: what a concept is not to be lent")
    parser.add_argument("--short", type=Path, required=True, help="short, long, share, language, english")
    parser.add_argument("--card", type=Path, required=True, help="the README of the folder")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--force", action="store_true", help="move an existing folder aside")
    try:
        write(parser.parse_args(words))
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
