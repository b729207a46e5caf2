"""The general calibration that comes with a model: fitted on simulated targets, each indexed with that model.

    python runs/general_calibration.py MODEL TERMS.tsv RELATIONS.tsv --work FOLDER [-o OUT] [--languages it de]
        [--small]

runs/shipped_models.sh calls this, and says what the tables hold. HPO and ICD-10-CM are taken from their packages. Of
the others those are taken whose licence lets fitted numbers be released. `TARGETS` are their parts, and
alphita_lab.simulated_targets says what each is asked. Indexes are kept in FOLDER, and a target that is there is not
indexed again. With --languages, HPO is asked for its names in these too: half of those that the model did not learn,
the other half is to test on.
With --small, of the others than HPO only targets of at most 3,000 concepts are taken: for a model that encodes slowly.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

import study
from alphita import machine, registry
from alphita.encoder import layout
from alphita.encoder.encoder import TermEncoder
from alphita.errors import Rejects
from alphita.index.choice import Choice, shipped_folder
from alphita.index.sources import enrichment_of
from alphita.terminology import store
from alphita.terminology.detect import PACKAGED, find_packaged
from alphita.terminology.text import clean
from alphita_lab.general_calibration import fit_general
from alphita_lab.simulated_targets import LABELS, SYNONYMS, Made, Target, in_other_languages, make
from open_vocabularies import RELATIONS, SOURCES, TERMS, Source, read_table, write_tables

LOADERS = "alphita.terminology.loaders"
HPO = "HPO"
# Those of packages.
IN_PACKAGES = {HPO: "hpo", "ICD-10-CM": "icd10cm"}
PACKAGE_LICENCES = {HPO: "HPO licence", "ICD-10-CM": "public domain"}
# Vocabularies that have names in other languages, and the prefixes of their ids.
TRANSLATED = {HPO: "HP:", "DOID": "DOID:"}
# Concepts of a small target.
SMALL = 3_000
DRUGS = "MeSH, drugs"
VOCABULARIES = SOURCES | {"MONDO": Source(("MONDO2026",), "2026", "CC-BY-4.0"), DRUGS: SOURCES["MeSH"]}
# Whole vocabularies, random parts and branches; lists of a few hundred labels are as people have them.
TARGETS = (
    *(Target(name) for name in (HPO, "DOID", "ORDO", "NCIt", "MONDO", "Uberon", "MAxO", "GARD", "SYMP")),
    *(Target(name, LABELS) for name in (HPO, "DOID", "MONDO", "Uberon", "SYMP")),
    *(Target(HPO, part=part) for part in (3000, "HP:0000707", "HP:0000708")),
    *(Target(HPO, LABELS, part) for part in (1000, 160, "HP:0001626", "HP:0000708")),
    *(Target("DOID", LABELS, part) for part in (500, 160, "DOID:7")),
    *(Target("ICD-10-CM", part=part) for part in (4000, 600)),
    Target("ICD-10-CM"),
    *(Target("MeSH", part=part) for part in (1, 1000)),
    *(Target("MeSH", LABELS, part) for part in (1, 3000, 180)),
    *(Target(DRUGS, names) for names in (SYNONYMS, LABELS)),
    Target(DRUGS, LABELS, 300),
    *(Target("NCIt", LABELS, part) for part in (4000, 700)),
    *(Target(name, part=part) for name, part in (("DOID", 2500), ("ORDO", 800), ("NCIt", 2000), ("MONDO", 3000))),
    *(Target(name, LABELS, part) for name, part in (("ORDO", 2000), ("MONDO", 300), ("Uberon", 400))),
    *(Target(name, LABELS, part) for name, part in (("MAxO", 900), ("GARD", 1000), ("ICD-10-CM", 200))),
)


def is_small(target: Target) -> bool:
    """Tell whether a target is a list of at most `SMALL` concepts."""
    return isinstance(target.part, int) and 1 < target.part <= SMALL


def vocabulary(name: str, terms: Path, relations: Path, folder: Path) -> store.Terminology:
    """Return a vocabulary, imported in `folder` where it is not yet."""
    place = folder / f"{name}.terminology"
    if not place.exists():
        if name in IN_PACKAGES:
            package = IN_PACKAGES[name]
            _import(PACKAGED[package][2], [find_packaged(package)], place)
        else:
            _of_tables(name, terms, relations, place)
    return store.load_terminology(place)


def simulated(
    targets: Sequence[Target],
    terms: Path,
    relations: Path,
    encoder: TermEncoder,
    folder: Path,
    languages: Sequence[str] = (),
) -> list[Made]:
    """Return the targets, each indexed in `folder` where it is not yet; those asked in other languages come last."""
    given, encoded = enrichment_of(Choice()), study.Encoded()
    opened: Callable[[str], store.Terminology] = functools.cache(
        lambda name: vocabulary(name, terms, relations, folder)
    )
    made = [make(target, opened(target.vocabulary), encoder, given, folder, encoded) for target in targets]
    for name, prefix in TRANSLATED.items() if languages else ():
        names = translations(read_table(terms), prefix, encoder.folder, languages)
        made += [in_other_languages(one, names, languages) for one in made if one.target.vocabulary == name]
    return made


def told(made: Sequence[Made]) -> list[dict[str, str]]:
    """Return name, version and licence of each vocabulary."""
    found = {}
    for one in made:
        name = one.target.vocabulary
        version = str(one.index.manifest["sources"][0].get("version") or "")
        licence = PACKAGE_LICENCES.get(name, "")
        if name in VOCABULARIES:
            version, licence = VOCABULARIES[name].version, VOCABULARIES[name].licence
        found[name] = {"name": name, "version": version, "licence": licence}
    return list(found.values())


def translations(terms: pl.DataFrame, prefix: str, model: Path, languages: Sequence[str]) -> list[tuple[str, str]]:
    """Return ids with half of their names in other languages, without those that the encoder learned."""
    names = terms.filter(pl.col("id").str.starts_with(prefix) & pl.col("lang").is_in(languages))
    names = names.filter(pl.col("type").is_in(["pref", "syn"])).with_columns(pl.col("term").str.split("|"))
    pairs = names.explode("term").select("id", "term").iter_rows()
    chosen = {string: one for one, name in pairs if zlib.crc32((string := clean(name)).encode()) % 2}
    learned = layout.has_learned(model, list(chosen))
    return [(one, string) for (string, one), known in zip(chosen.items(), learned, strict=True) if not known]


def _of_tables(name: str, terms: Path, relations: Path, out: Path) -> None:
    """Import the English terms and the relations of one vocabulary; of `DRUGS` what has a brand."""
    source = VOCABULARIES[name]
    own = pl.col("source").is_in(list(source.names))
    links = read_table(relations).filter(own)
    gone = links.filter((pl.col("relation") == "is_a") & pl.col("tail").is_in(list(source.without)))["head"]
    names = read_table(terms).filter(own & (pl.col("lang") == "en") & ~pl.col("id").is_in(gone.to_list()))
    if name == DRUGS:
        phrases = read_table(shipped_folder() / "lay.tsv").filter(pl.col("system") == "drug")
        named = names.filter(pl.col("term").str.to_lowercase().is_in(phrases["name"].str.to_lowercase().implode()))
        names = names.filter(pl.col("id").is_in(named["id"].implode()))
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
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
    parser.add_argument("--languages", nargs="+", default=(), help="in which HPO and DOID are asked, too")
    parser.add_argument("--small", action="store_true", help="only small targets, and HPO")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=machine.cores())
    given = parser.parse_args(words)
    threads = machine.set_threads(given.threads)

    def act() -> None:
        encoder = TermEncoder.load(given.model, threads=threads)
        given.work.mkdir(parents=True, exist_ok=True)
        targets = [one for one in TARGETS if not given.small or one == Target(HPO) or is_small(one)]
        made = simulated(targets, given.terms, given.relations, encoder, given.work, given.languages)
        fit_general(made, told(made), seed=given.seed).save(given.output or given.model / "calibration")

    return study.status(act)


if __name__ == "__main__":
    sys.exit(main())
