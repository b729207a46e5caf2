"""The general calibration that comes with a model: fitted on several open vocabularies, each indexed with that model.

    python bench/general_calibration.py MODEL TERMS.tsv RELATIONS.tsv --work FOLDER [-o MODEL/calibration]

runs/alphita_en.sh calls this, and says what the tables hold. HPO is taken from its package. Of the others those are
taken whose licence lets fitted numbers be released, and which have synonyms to hold out. Indexes are kept in FOLDER.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import polars as pl

from alphita import machine, registry
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError, Rejects
from alphita.index.store import Index, build
from alphita.normalizer.general import Vocabulary, fit_general
from alphita.progress import say
from alphita.terminology import store
from alphita.terminology.packaged import PACKAGED, find_packaged
from open_graph import RELATIONS, TERMS, write_tables

LOADERS = "alphita.terminology.loaders"
HPO = "HPO"


class Source(NamedTuple):
    """A vocabulary of the tables.

    Attributes:
        names: what the tables' column `source` calls it.
        version: for the manifest.
        licence: likewise.
        without: ids of concepts whose children are left out.
    """

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


def vocabularies(terms: Path, relations: Path, encoder: TermEncoder, folder: Path) -> list[Vocabulary]:
    """Return the vocabularies, each indexed in `folder` where it is not yet.

    Raises:
        InputError: a table cannot be read, or an index there is of another encoder.
    """
    made = []
    for name in (HPO, *SOURCES):
        path, terminology = folder / f"{name}.index", folder / f"{name}.terminology"
        if not terminology.exists():
            _packaged(terminology) if name == HPO else _of_tables(SOURCES[name], terms, relations, terminology)
        if not path.exists():
            say(f"indexing {name}")
            build(store.load_terminology(terminology), encoder, path)
        index = Index.open(path)
        index.check_encoder(encoder, remedy=f"remove {path}")
        source = index.manifest["sources"][0]
        facts = (source["version"], source["licence"]) if name == HPO else SOURCES[name][1:3]
        made.append(Vocabulary(name, index, *facts))
    return made


def _packaged(out: Path) -> None:
    _import(PACKAGED["hpo"][2], [find_packaged("hpo")], out)


def _of_tables(source: Source, terms: Path, relations: Path, out: Path) -> None:
    """Import the English terms and the relations of one vocabulary."""
    own = pl.col("source").is_in(list(source.names))
    links = _read(relations).filter(own)
    gone = links.filter((pl.col("relation") == "is_a") & pl.col("tail").is_in(list(source.without)))["head"]
    names = _read(terms).filter(own & (pl.col("lang") == "en") & ~pl.col("id").is_in(gone.to_list()))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for frame, file in ((names, "of.terms.tsv"), (links, "of.relations.tsv")):
            frame.write_csv(work / file, separator="\t", quote_style="never")
        write_tables(work / "of.terms.tsv", work / "of.relations.tsv", work)
        _import("table", [work / TERMS, work / RELATIONS], out, quote="")


def _read(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None


def _import(format_: str, paths: list[Path], out: Path, **settings: str) -> None:
    loader = registry.load(LOADERS, format_)
    options = loader.Options(**settings)
    out.parent.mkdir(parents=True, exist_ok=True)
    with Rejects(out.with_name(out.name + ".rejects.csv")) as rejects:
        used = {"format": format_, **options.model_dump(mode="json")}
        store.save(loader.load(paths, options, rejects), out, config=used, rejects=rejects)


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("terms", type=Path)
    parser.add_argument("relations", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for the indexes")
    parser.add_argument("-o", "--output", type=Path, help="by default MODEL/calibration")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=machine.cores())
    given = parser.parse_args(words)
    threads = machine.set_threads(given.threads)
    try:
        encoder = TermEncoder.load(given.model, threads=threads)
        made = vocabularies(given.terms, given.relations, encoder, given.work)
        fitted = fit_general(made, encoder, seed=given.seed)
        fitted.save(given.output or given.model / "calibration")
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
