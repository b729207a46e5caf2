"""The general calibration that comes with a model: fitted on several open vocabularies, each indexed with that model.

    python runs/general_calibration.py MODEL TERMS.tsv RELATIONS.tsv --work FOLDER [-o OUT] [--languages it de fr es]

runs/shipped_models.sh calls this, and says what the tables hold. HPO and ICD-10-CM are taken from their packages. Of
the others those are taken whose licence lets fitted numbers be released, and which have synonyms to hold out. A quarter
of the synonyms of each is left out of its index, and asked for, whether the model was trained on it or not: a trained
model finds what it learned about a point better than what it did not (docs/results/log.md). Each is indexed twice, with
all that an index is given by default and without a head. Indexes are kept in FOLDER. With --languages, HPO's names in
these are asked of its English indexes too: half of those that the model did not learn, the other half is to test on.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import study
from alphita import machine, registry
from alphita.calibrate.examples import Known
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.errors import Rejects
from alphita.index.choice import Choice
from alphita.index.sources import enrichment_of, reusing
from alphita.index.store import Index, build
from alphita.progress import say
from alphita.terminology import store
from alphita.terminology.detect import PACKAGED, find_packaged
from alphita.terminology.text import clean_many
from alphita_lab.general_calibration import Vocabulary, fit_general
from open_vocabularies import RELATIONS, SOURCES, TERMS, Source, read_table, write_tables

LOADERS = "alphita.terminology.loaders"
# One in so many synonyms is held out.
HELD_OUT = 4
# Those of packages: the package's name, and the licence.
HPO = "HPO"
IN_PACKAGES = {HPO: ("hpo", "HPO licence"), "ICD-10-CM": ("icd10cm", "public domain")}


def vocabularies(
    terms: Path, relations: Path, encoder: TermEncoder, folder: Path, languages: Sequence[str] = ()
) -> list[Vocabulary]:
    """Return the vocabularies, each indexed in `folder` where it is not yet."""
    made = []
    for name in (*IN_PACKAGES, *SOURCES):
        terminology = folder / f"{name}.terminology"
        if not terminology.exists():
            if name in IN_PACKAGES:
                _packaged(IN_PACKAGES[name][0], terminology)
            else:
                _of_tables(SOURCES[name], terms, relations, terminology)
        opened = store.load_terminology(terminology)
        held = held_out(opened)
        for index in _indexes(opened, encoder, frozenset(held), folder, name):
            rows = index.concept_rows(list(held.values()))
            known = Known(list(held), rows, "").take(np.flatnonzero(rows >= 0))
            packaged = (index.manifest["sources"][0]["version"], IN_PACKAGES[name][1]) if name in IN_PACKAGES else None
            version, licence = packaged or SOURCES[name][1:3]
            made.append(Vocabulary(name, index, version, licence, known))
            if name == HPO and languages:
                known = translations(read_table(terms), index, encoder.folder, languages)
                made.append(Vocabulary(f"{HPO} in {', '.join(languages)}", index, version, licence, known))
    return made


def translations(terms: pl.DataFrame, index: Index, model: Path, languages: Sequence[str]) -> Known:
    """Return half of those names of HPO in other languages that the index has not and its encoder did not learn."""
    names = terms.filter(
        pl.col("id").str.starts_with("HP:") & pl.col("lang").is_in(languages) & (pl.col("type") == "pref")
    )
    chosen = dict(zip(clean_many(names["term"].to_list()), names["id"].to_list(), strict=True))
    strings = [one for one in chosen if zlib.crc32(one.encode()) % 2]
    new = (index.rows(strings) < 0) & ~layout.has_learned(model, strings)
    strings = list(itertools.compress(strings, new))
    rows = index.concept_rows([chosen[one] for one in strings])
    return Known(strings, rows, "").take(np.flatnonzero(rows >= 0))


def held_out(terms: store.Terminology, model: Path | None = None, *, one_in: int = HELD_OUT) -> dict[str, str]:
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


def _indexes(
    terms: store.Terminology, encoder: TermEncoder, exclude: frozenset[str], folder: Path, name: str
) -> list[Index]:
    """Return the index without a head and the one with all there is."""
    plain, whole = folder / f"{name}.plain.index", folder / f"{name}.index"
    if not plain.exists():
        say(f"indexing {name}")
        build(terms, encoder, plain, exclude=exclude, enrichment=enrichment_of(Choice(learn="no")))
    first = Index.open(plain)
    first.check_encoder(encoder, remedy=f"remove {plain}")
    if not whole.exists():
        build(
            terms, encoder, whole, exclude=exclude, enrichment=enrichment_of(Choice()), blocks=reusing(first, encoder)
        )
    second = Index.open(whole)
    return [first, second] if second.manifest["model_hash"] != second.base_model_hash else [first]


def _packaged(package: str, out: Path) -> None:
    _import(PACKAGED[package][2], [find_packaged(package)], out)


def _of_tables(source: Source, terms: Path, relations: Path, out: Path) -> None:
    """Import the English terms and the relations of one vocabulary."""
    own = pl.col("source").is_in(list(source.names))
    links = read_table(relations).filter(own)
    gone = links.filter((pl.col("relation") == "is_a") & pl.col("tail").is_in(list(source.without)))["head"]
    names = read_table(terms).filter(own & (pl.col("lang") == "en") & ~pl.col("id").is_in(gone.to_list()))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for frame, file in ((names, "of.terms.tsv"), (links, "of.relations.tsv")):
            frame.write_csv(work / file, separator="\t", quote_style="never")
        write_tables(work / "of.terms.tsv", work / "of.relations.tsv", work)
        _import("table", [work / TERMS, work / RELATIONS], out, quote="")


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
    parser.add_argument("--languages", nargs="+", default=(), help="in which HPO's names are asked, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=machine.cores())
    given = parser.parse_args(words)
    threads = machine.set_threads(given.threads)

    def act() -> None:
        encoder = TermEncoder.load(given.model, threads=threads)
        made = vocabularies(given.terms, given.relations, encoder, given.work, given.languages)
        fit_general(made, encoder, seed=given.seed).save(given.output or given.model / "calibration")

    return study.status(act)


if __name__ == "__main__":
    sys.exit(main())
