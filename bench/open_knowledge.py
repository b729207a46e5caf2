"""Tables of what a model may be trained on and then be given away: open vocabularies whose licence allows it.

    python bench/open_knowledge.py TERMS.tsv RELATIONS.tsv DEFINITIONS.tsv -o FOLDER [--languages en,it]

runs/open_knowledge.sh calls this, and says what the files hold. Left out are sources that are share-alike
(DrugCentral), without a licence (ICD-9-CM in Italian) or for measuring only (annotations of HPO, whose titles are
OMIM's). From the table of names that comes with Alphita are taken the alphabetical index of ICD-10-CM and the everyday
phrases, each phrase as a name of the concept that its standard name is a name of. FOLDER/sources.tsv says of each
source its version, its licence and how many rows were taken of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import polars as pl

from alphita import artefact, shipped
from alphita.errors import AlphitaError
from alphita.index.external_names import NAMES as NAMES_FILE
from alphita.index.external_names import OURS
from alphita.progress import say
from alphita.terminology.text import clean_many
from general_calibration import read_table
from open_graph import write_tables
from open_names import INDEX_SOURCE

# Source in the tables -> what it is, its version and its licence.
PERMISSIVE = {
    "HPOtrans": ("HPO", "2026", "HPO licence: attribution, unaltered"),
    "HPO2024": ("HPO", "2024", "HPO licence"),
    "MONDO2026": ("MONDO", "2026", "CC-BY-4.0"),
    "DOID2026": ("DOID", "2026", "CC0-1.0"),
    "DOID2018": ("DOID", "2018", "CC0-1.0"),
    "ORDO2018": ("ORDO", "2018", "CC-BY-4.0"),
    "NCIT2018": ("NCIt, diseases", "2018", "CC-BY-4.0"),
    "MESH2020": ("MeSH, descriptors", "2020", "NLM, open"),
    "MAXO2024": ("MAxO", "2024", "CC-BY-4.0"),
    "UBERON": ("Uberon", "2021", "CC-BY-3.0"),
    "SYMP": ("SYMP", "", "CC0-1.0"),
    "GARD": ("GARD", "", "public domain"),
    "ICD9CM_EN": ("ICD-9-CM", "", "public domain"),
    "ICD9CM": ("ICD-9-CM", "", "public domain"),
}
# Where a phrase's standard name names several concepts, the first of these has it.
FIRST = ("HP:", "MESH:", "NCIT:", "DOID:", "MONDO:")
INDEX_TERMS, LAY_TERMS = "index.terms.tsv", "lay.terms.tsv"
SOURCES_FILE = "sources.tsv"
# Those of the table of names: what each is.
OF_NAMES = {INDEX_SOURCE: "ICD-10-CM, alphabetical index", OURS: "everyday phrases"}
PARTS = ("terms", "relations", "definitions")


def write(given: argparse.Namespace) -> tuple[dict[str, int], pl.DataFrame]:
    """Write the tables and return their rows by file, and what `SOURCES_FILE` says."""
    of_ours = pl.col("source").is_in(list(PERMISSIVE))
    names = read_table(given.terms).filter(of_ours & pl.col("lang").is_in(given.languages.split(",")))
    # Of German and Italian names most were translated by machine: without them there is little to learn from.
    names = names.with_columns(pl.col("status").str.replace("CANDIDATE/MT", "CANDIDATE", literal=True))
    terms = names.filter(pl.col("lang") == "en")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        parts = {
            "terms": names,
            "relations": read_table(given.relations).filter(of_ours),
            "definitions": read_table(given.definitions).filter(of_ours & (pl.col("lang") == "en")),
        }
        for part, frame in parts.items():
            frame.write_csv(work / part, separator="\t", quote_style="never")
        rows = write_tables(work / "terms", work / "relations", given.output, work / "definitions")
    folder = shipped.find("models/alphita-names")
    ours = pl.read_parquet(folder / NAMES_FILE)
    index = ours.filter(pl.col("source") == INDEX_SOURCE).select("id", term="name").with_columns(language=pl.lit("en"))
    lay = _lay(ours.filter((pl.col("source") == OURS) & (pl.col("language") == "en")), terms)
    for file, frame in ((INDEX_TERMS, index), (LAY_TERMS, lay)):
        frame.write_csv(given.output / file, separator="\t", quote_style="never")
        rows[file] = len(frame)
    counts = {INDEX_SOURCE: len(index), OURS: len(lay)}
    sources = pl.concat([_sources(parts), _of_names(folder / artefact.MANIFEST, counts)])
    sources.write_csv(given.output / SOURCES_FILE, separator="\t", quote_style="never")
    return rows, sources


def _sources(parts: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the sources of the tables: what each is, its version and licence, and its rows in each of `PARTS`."""
    counted = {part: dict(parts[part].group_by("source").len().iter_rows()) for part in PARTS}
    rows = [(source, *about, *(counted[part].get(source, 0) for part in PARTS)) for source, about in PERMISSIVE.items()]
    return _table([row for row in rows if any(row[-len(PARTS) :])])


def _of_names(manifest: Path, counts: dict[str, int]) -> pl.DataFrame:
    """Return the sources that the table of names brings, with the version and licence that its manifest gives."""
    about = {one["name"]: one for one in json.loads(manifest.read_text(encoding="utf-8"))["sources"]}
    return _table(
        [
            (source, OF_NAMES[source], about[source]["version"], about[source]["licence"], count, 0, 0)
            for source, count in counts.items()
        ]
    )


def _table(rows: list[tuple[str | int, ...]]) -> pl.DataFrame:
    texts = ("source", "name", "version", "licence")
    return pl.DataFrame(rows, dict.fromkeys(texts, pl.String) | dict.fromkeys(PARTS, pl.Int64), orient="row")


def _lay(phrases: pl.DataFrame, terms: pl.DataFrame) -> pl.DataFrame:
    """Return everyday phrases as names of concepts: those of which another name of the phrase's is an exact name."""
    exact = terms.filter(pl.col("type").is_in(["pref", "syn"])).select(
        "id", "term", is_preferred=pl.col("type") == "pref"
    )
    rank = pl.coalesce(
        *(pl.when(pl.col("id").str.starts_with(one)).then(place) for place, one in enumerate(FIRST)), pl.lit(len(FIRST))
    )
    named = (
        exact.with_columns(key=pl.Series(clean_many(exact["term"].to_list())), rank=rank)
        .sort(~pl.col("is_preferred"), "rank", maintain_order=True)
        .unique("key", keep="first", maintain_order=True)
    )
    keyed = phrases.with_columns(key=pl.Series(clean_many(phrases["name"].to_list())))
    found = keyed.join(named.select("key", "rank", concept="id"), on="key")
    concept = found.sort("rank", maintain_order=True).unique("id", keep="first", maintain_order=True)
    new = keyed.join(concept.select("id", "concept"), on="id").join(named.select("key"), on="key", how="anti")
    return new.select(id="concept", term="name", language="language").unique(maintain_order=True)


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("terms", "relations", "definitions"):
        parser.add_argument(name, type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--languages", default="en", help="of the names, en among them: en,it,de (default: en)")
    given = parser.parse_args(words)
    try:
        rows, sources = write(given)
        for name, count in rows.items():
            say(f"{name}: {count:,}")
        for source, *about, terms, relations, definitions in sources.iter_rows():
            say(
                f"{source} ({', '.join(filter(None, about))}): {terms:,} terms, {relations:,} relations, "
                f"{definitions:,} definitions"
            )
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
