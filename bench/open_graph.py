"""Tables of a graph of open vocabularies, made ready for `alphita terminology import table` and `terminology merge`.

    python bench/open_graph.py TERMS.tsv RELATIONS.tsv [--definitions DEFINITIONS.tsv] -o FOLDER

runs/open_graph.sh and runs/italian_open.sh call this.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import polars as pl

from alphita.errors import AlphitaError, InputError
from alphita.progress import say

SCOPES = {"pref": "exact", "syn": "exact", "syn_broad": "broad", "syn_narrow": "narrow", "syn_related": "related"}
STATUSES = {"OFFICIAL": "official", "CANDIDATE": "candidate", "CANDIDATE/MT": "machine"}
TERMS, DEFINITIONS, RELATIONS, EXACT = "terms.tsv", "definitions.tsv", "relations.tsv", "exact.sssom.tsv"
EXACT_MATCH = "exact_match"


def write_tables(terms: Path, relations: Path, folder: Path, definitions: Path | None = None) -> dict[str, int]:
    """Write tables of terms, relations and definitions as the loader `table` reads them, and exact matches as SSSOM.

    Args:
        terms: tab-separated, gzipped or not: id, lang, term, type (of `SCOPES`), status (of `STATUSES`), source.
        relations: likewise: head, relation, tail, source. `EXACT_MATCH` is kept among the relations too.
        folder: gets terms.tsv, relations.tsv and exact.sssom.tsv, and definitions.tsv.
        definitions: likewise: id, lang, definition, source; None: there are none.

    Returns:
        Rows by file; also of terms those left out, for their type or status is none of these, and of definitions
        those whose concept has no preferred name in their language.

    Raises:
        InputError: a file cannot be read, or lacks a column.
    """
    names = _read(terms, ("id", "lang", "term", "type", "status"))
    known = names.filter(pl.col("type").is_in(list(SCOPES)) & pl.col("status").is_in(list(STATUSES)))
    links = _read(relations, ("head", "relation", "tail"))
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
        texts = _read(definitions, ("id", "lang", "definition")).select("id", "definition", language="lang")
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


def _read(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    try:
        frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False).fill_null("")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    if missing := [name for name in columns if name not in frame.columns]:
        raise InputError(f"has no column {missing[0]!r}; its columns are {frame.columns}", file=path, line=1)
    return frame


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("terms", type=Path)
    parser.add_argument("relations", type=Path)
    parser.add_argument("--definitions", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(words)
    try:
        counts = write_tables(given.terms, given.relations, given.output, given.definitions)
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    say(f"{given.output}: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
