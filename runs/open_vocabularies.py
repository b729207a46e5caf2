"""Tables of open vocabularies made ready: one graph, what a model may be trained on, and the table of names shipped.

    python runs/open_vocabularies.py graph TERMS.tsv RELATIONS.tsv [--definitions DEFINITIONS.tsv] -o FOLDER
    python runs/open_vocabularies.py knowledge TERMS.tsv RELATIONS.tsv DEFINITIONS.tsv -o FOLDER [--languages en,it]
    python runs/open_vocabularies.py names TERMS.tsv RELATIONS.tsv --hpo HPO.terminology --icd10cm INDEX.csv
        --lay LAY.tsv --unlent UNLENT.tsv --short SHORT.tsv --card README.md -o OUT

runs/open_graph.sh, runs/italian_open.sh, runs/open_knowledge.sh and runs/alphita_names.sh call this and say what the
files hold.

`graph` writes the tables that `alphita terminology import table` reads, and exact matches for `terminology merge`.
`knowledge` does so for the vocabularies whose licence allows a model trained on them to be given away. Left out are
sources that are share-alike (DrugCentral), without a licence (ICD-9-CM in Italian) or for measuring only (annotations
of HPO, whose titles are OMIM's). From the table of names shipped with Alphita it takes the alphabetical index of
ICD-10-CM and the everyday phrases, each as a name of the concept that its standard name is a name of.
FOLDER/sources.tsv says of each source its version, its licence and how many rows were taken of it.
`names` writes models/alphita-names: what open vocabularies call the same thing, of those whose licence lets their names
be given on, with attribution by source in the manifest and in the card.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import polars as pl

import study
from alphita import artefact, shipped
from alphita.errors import InputError
from alphita.index.choice import KIND, OURS
from alphita.index.external_names import EQUIVALENTS, EXCLUDED, NAMES, SHORT_FORMS, contradicted, names_of, prepared
from alphita.progress import say
from alphita.terminology.loaders import icd10cm
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean_many

SCOPES = {"pref": "exact", "syn": "exact", "syn_broad": "broad", "syn_narrow": "narrow", "syn_related": "related"}
STATUSES = {"OFFICIAL": "official", "CANDIDATE": "candidate", "CANDIDATE/MT": "machine"}
TERMS, DEFINITIONS, RELATIONS, EXACT = "terms.tsv", "definitions.tsv", "relations.tsv", "exact.sssom.tsv"
EXACT_MATCH = "exact_match"


def write_tables(terms: Path, relations: Path, folder: Path, definitions: Path | None = None) -> dict[str, int]:
    """Write tables of terms, relations and definitions as the loader `table` reads them, and exact matches as SSSOM."""
    names = read_table(terms, ("id", "lang", "term", "type", "status"))
    known = names.filter(pl.col("type").is_in(list(SCOPES)) & pl.col("status").is_in(list(STATUSES)))
    links = read_table(relations, ("head", "relation", "tail"))
    exact = links.filter(pl.col("relation") == EXACT_MATCH)
    told = known.select(
        "id",
        "term",
        language="lang",
        scope=pl.col("type").replace_strict(SCOPES),
        status=pl.col("status").replace_strict(STATUSES),
        preferred=(pl.col("type") == "pref").cast(pl.Int8),
    )
    written = {TERMS: told}
    left_out = {"terms left out": len(names) - len(known)}
    if definitions is not None:
        texts = read_table(definitions, ("id", "lang", "definition")).select("id", "definition", language="lang")
        # The loader takes a definition from a row with a term: here the preferred one.
        preferred = told.filter(pl.col("preferred") == 1).unique(["id", "language"], keep="first", maintain_order=True)
        written[DEFINITIONS] = texts.join(preferred, on=["id", "language"], how="inner", maintain_order="left")
        left_out["definitions left out"] = len(texts) - len(written[DEFINITIONS])
    written[RELATIONS] = links.select("head", "relation", "tail")
    written[EXACT] = exact.select(subject_id="head", predicate_id=pl.lit("skos:exactMatch"), object_id="tail")
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in written.items():
        frame.write_csv(folder / name, separator="\t", quote_style="never")
    return {name: len(frame) for name, frame in written.items()} | left_out


def read_table(path: Path, columns: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return a tab-separated table, gzipped or not, all columns text; with `columns`, which it must have, no nulls."""
    try:
        frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    if missing := [name for name in columns if name not in frame.columns]:
        raise InputError(f"has no column {missing[0]!r}; its columns are {frame.columns}", file=path, line=1)
    return frame.fill_null("") if columns else frame


class Source(NamedTuple):
    """A vocabulary: its names in the tables' column `source`, and ids of concepts whose children are left out."""

    names: tuple[str, ...]
    version: str
    licence: str
    without: tuple[str, ...] = ()


# Their symbols would be held out as if they were names of diseases, and nobody could guess them.
GENES = ("ORPHA:410297", "ORPHA:410298", "ORPHA:410299")
SOURCES = {
    "DOID": Source(("DOID2026", "DOID2018"), "2018 and 2026", "CC0-1.0"),
    "ORDO": Source(("ORDO2018",), "2018, without genes", "CC-BY-4.0", GENES),
    "NCIt": Source(("NCIT2018",), "2018, diseases", "CC-BY-4.0"),
    "Uberon": Source(("UBERON",), "2021", "CC-BY-3.0"),
    "MAxO": Source(("MAXO2024",), "2024", "CC-BY-4.0"),
    "GARD": Source(("GARD",), "", "public domain"),
    "SYMP": Source(("SYMP",), "", "CC0-1.0"),
    "MeSH": Source(("MESH2020",), "2020, descriptors", "NLM, open"),
}


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
INDEX_SOURCE = "ICD-10-CM index"
# Those of the table of names: what each is.
OF_NAMES = {INDEX_SOURCE: "ICD-10-CM, alphabetical index", OURS: "everyday phrases"}
PARTS = ("terms", "relations", "definitions")


def write_knowledge(given: argparse.Namespace) -> tuple[dict[str, int], pl.DataFrame]:
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
    ours = pl.read_parquet(folder / NAMES)
    index = ours.filter(pl.col("source") == INDEX_SOURCE).select("id", term="name").with_columns(language=pl.lit("en"))
    lay = _lay_names(ours.filter((pl.col("source") == OURS) & (pl.col("language") == "en")), terms)
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


def _lay_names(phrases: pl.DataFrame, terms: pl.DataFrame) -> pl.DataFrame:
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


# What the maker of each wants to be said.
HPO_NOTE = (
    "This product uses the Human Phenotype Ontology (version {version}). Find out more at http://www.human-phenotype-"
    "ontology.org. Its names stand here unaltered."
)
MONDO = "MONDO"
MONDO_VERSION, MONDO_LICENCE = "2026", "CC-BY-4.0"
SHORTEST = 3


def do_names(given: argparse.Namespace) -> None:
    """Write the table of names that is shipped, models/alphita-names."""
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
    frames.append(_index_names(given.icd10cm))
    sources.append({"name": INDEX_SOURCE, "version": "2025", "licence": "public domain (US federal work)"})
    frames.append(_lay_table(given.lay))
    sources.append({"name": OURS, "version": "", "licence": "Apache-2.0", "note": "written for Alphita"})
    sources.append({"name": MONDO, "version": MONDO_VERSION, "licence": MONDO_LICENCE, "note": "equivalences alone"})
    names = pl.concat([frame.select("source", "id", "name", "language") for frame in frames]).unique(
        maintain_order=True
    )
    rows = _of_concepts(names)
    opposites = pl.Series(contradicted(rows, rows.filter("leads"))) & rows["is_synonym"]
    say(f"{opposites.sum():,} names contradict the first one of their concept, and are left out")
    names = names.filter(~opposites)
    # One name alone lends nothing, but an index's code that is named so has it.
    several = pl.len().over("source", "id") > 1
    names = names.filter(several | (pl.col("source") == INDEX_SOURCE))
    table = prepared(names)
    rows = _of_concepts(table)
    opposites = pl.Series(contradicted(rows, rows)) & rows["is_synonym"]
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
        shutil.copyfile(given.unlent, draft.path / EXCLUDED)
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


def _index_names(path: Path) -> pl.DataFrame:
    """Return the names that the alphabetical index of ICD-10-CM has for each code."""
    table = pl.read_csv(path, infer_schema=False).select(icd10cm.COLUMNS).fill_null("")
    found = icd10cm.names(icd10cm.IndexRow(int(level), term, code) for level, term, code in table.iter_rows())
    codes, names = zip(*found, strict=True)
    ids = [f"ICD10CM:{code}" for code in codes]
    return pl.DataFrame({"source": INDEX_SOURCE, "id": ids, "name": names, "language": "en"})


def _lay_table(path: Path) -> pl.DataFrame:
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


def do_graph(given: argparse.Namespace) -> None:
    """Write the tables of one graph."""
    counts = write_tables(given.terms, given.relations, given.output, given.definitions)
    say(f"{given.output}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))


def do_knowledge(given: argparse.Namespace) -> None:
    """Write the tables of what a model may be trained on and then be given away."""
    rows, sources = write_knowledge(given)
    for name, count in rows.items():
        say(f"{name}: {count:,}")
    for source, *about, terms, relations, definitions in sources.iter_rows():
        say(
            f"{source} ({', '.join(filter(None, about))}): {terms:,} terms, {relations:,} relations, "
            f"{definitions:,} definitions"
        )


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    graph, knowledge, names = (study.add_command(commands, action) for action in (do_graph, do_knowledge, do_names))
    for one in (graph, knowledge, names):
        one.add_argument("terms", type=Path)
        one.add_argument("relations", type=Path)
        one.add_argument("-o", "--output", type=Path, required=True)
    graph.add_argument("--definitions", type=Path)
    knowledge.add_argument("definitions", type=Path)
    knowledge.add_argument("--languages", default="en", help="of the names, en among them: en,it,de (default: en)")
    names.add_argument("--hpo", type=Path, required=True, help="terminology folder")
    names.add_argument("--icd10cm", type=Path, required=True, help="the alphabetical index")
    names.add_argument("--lay", type=Path, required=True, help="phrase, name, also, system, language")
    names.add_argument("--unlent", type=Path, required=True, help="id, name: what a concept is not to be lent")
    names.add_argument("--short", type=Path, required=True, help="short, long, share, language, english")
    names.add_argument("--card", type=Path, required=True, help="the README of the folder")
    names.add_argument("--force", action="store_true", help="move an existing folder aside")
    return study.act(parser, words)


if __name__ == "__main__":
    sys.exit(main())
