"""What the reader of a page is said to have, made small: releases in the publishers' own layout, stores, models.

The commands of a page then run as they are printed, without a licence and within seconds.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.books import book
from tests.docs.blocks import blocks

FIXTURES = Path(__file__).parents[1] / "fixtures"
TERMINOLOGIES = FIXTURES / "terminology"
OBO = """format-version: 1.2
ontology: {ontology}

[Term]
id: {ontology}:0000001
name: {first}
synonym: "{synonym}" EXACT []

[Term]
id: {ontology}:0000004
name: disease
"""


def copied(source: Path, *names: str) -> Callable[[Path], None]:
    """Return what copies a file, or the content of a folder, to each of these names."""

    def make(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, folder / name, dirs_exist_ok=True)
            else:
                shutil.copy2(source, folder / name)

    return make


def zipped(source: Path, name: str, top: str = "") -> Callable[[Path], None]:
    """Return what packs a folder as the publisher does, below a folder `top`."""

    def make(folder: Path) -> None:
        with zipfile.ZipFile(folder / name, "w") as archive:
            for file in sorted(source.rglob("*")):
                archive.write(file, Path(top) / file.relative_to(source))

    return make


def written(name: str, text: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")

    return make


def linked(name: str, target: str) -> Callable[[Path], None]:
    """Return what lets a name of the page lead to something that is there."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to((folder / target).resolve())

    return make


def ran(command: str) -> Callable[[Path], None]:
    """Return what runs `alphita` before the page does."""

    def make(folder: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(folder / "src")}
        words = [sys.executable, "-m", "alphita", *command.split()]
        done = subprocess.run(words, cwd=folder, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr[-2000:]}"

    return make


def rows(*names: str) -> Callable[[Path], None]:
    """Return what writes the sample's strings as Parquet files."""

    def make(folder: Path) -> None:
        import polars as pl

        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            frame = pl.read_csv(folder / "examples" / "messy_terms.csv").head(100)
            frame.select("mention", text="mention", diagnosis="mention", lang=pl.lit("en"), id="mention").write_parquet(
                folder / name
            )

    return make


def decided(folder: Path) -> None:
    """Decide the first rows of the page's store, as a reviewer would."""
    from alphita.review.store import Decision, ReviewStore

    with ReviewStore.open(folder / "reviews.sqlite") as store:
        for place in store.queue("lab", order="row")[1]:
            if place.row.candidates and (concept := place.row.candidates[0].concept_id):
                store.decide(Decision(f"first-{place.row.id}", "lab", place.row.id, "ann", "accept", concept, "exact"))


def released(folder: Path) -> None:
    """Lay two releases of OMOP vocabularies, and a store of decisions on the first."""
    for name in ("athena-january", "athena-july"):
        copied(TERMINOLOGIES / "omop", name)(folder)
    concepts = folder / "athena-july" / "CONCEPT.csv"
    text = concepts.read_text(encoding="utf-8")
    concepts.write_text(text.replace("Blue lantern\tCondition", "Blue lantern\tObservation"), encoding="utf-8")
    written("local.csv", "code,description\nL1,blue lantern\nL2,lantern oil\n")(folder)
    for command in (
        "terminology import omop athena-january -o january.terminology",
        "index january.terminology -o january.index",
        "normalize local.csv --to january.index --column description --code-column code --standard-only -o answers.csv",
        "review import answers.csv -m reviews.sqlite --project lab --source LAB --index january.index --standard-only",
    ):
        ran(command)(folder)
    decided(folder)


def brands(folder: Path) -> None:
    """Save the benchmark that the page shows, with data for it."""
    page = folder / "docs" / "evaluation.md"
    (shown,) = (block.text for block in blocks(page) if block.text.startswith('"""Brand names'))
    (folder / "brands.py").write_text(shown, encoding="utf-8")
    written("brands.csv", "brand,ingredient\nPanadol,paracetamol\nGlucophage,metformin\nCoumadin,warfarin\n")(folder)


def filled(folder: Path) -> None:
    """Fill in the sample of an audit, as the person who judges it does."""
    import polars as pl

    sample = folder / "answers.csv.audit.csv"
    pl.read_csv(sample, infer_schema=False).with_columns(right=pl.lit("yes")).write_csv(sample)


def served(folder: Path) -> None:
    """Lay the server's options where this machine has room for what they name."""
    text = (folder / "deploy" / "serve.toml").read_text(encoding="utf-8")
    written("serve.toml", text.replace("/data/", f"{folder}/").replace("0.0.0.0", "127.0.0.1"))(folder)
    ran("serve --keys keys.tsv --new-key ann")(folder)


def scanned(folder: Path) -> None:
    """Write a scan report as WhiteRabbit does."""
    values = [["name", "Frequency"], ["metfromin", 860], ["List truncated...", ""]]
    book(
        folder / "ScanReport.xlsx",
        **{"Field Overview": [["Table", "Field"], ["drugs.csv", "name"]], "drugs.csv": values},
    )


def diseased(folder: Path) -> None:
    """Call a concept of the release a disease, beside what it is."""
    with open(folder / "2026AA" / "META" / "MRSTY.RRF", "a", encoding="utf-8") as types:
        types.write("C0000001|T047|B2.2.1.2.1|Disease or Syndrome|AT9||\n")


def graphs(folder: Path) -> None:
    """Write an ontology as OBO graphs, packed, whose first concept is DOID:4."""
    text = (TERMINOLOGIES / "obographs" / "zz.json").read_text(encoding="utf-8")
    (folder / "maxo.json").write_text(text, encoding="utf-8")
    text = text.replace("ZZ_0000001", "DOID_4").replace("ZZ_", "DOID_").replace("/zz", "/doid")
    (folder / "doid.json.gz").write_bytes(gzip.compress(text.encode()))


ANNOTATIONS = (
    "database_id\tdisease_name\tqualifier\thpo_id\treference\tevidence\tonset\tfrequency\tsex\tmodifier\taspect\tbiocuration\n"
    "OMIM:1\tBlue syndrome\t\tHP:0000961\tPMID:1\tPCS\t\t\t\t\tP\tHPO:x[2026-01-01]\n"
    "OMIM:2\tNose syndrome\t\tHP:0000458\tPMID:1\tPCS\t\t\t\t\tP\tHPO:x[2026-01-01]\n"
)
BABELON = (
    "source_language\ttranslation_language\tsubject_id\tpredicate_id\tsource_value\ttranslation_value\ttranslation_status\n"
    "en\t{0}\tHP:0001250\trdfs:label\tSeizure\t{1}\tOFFICIAL\n"
)
LANGUAGES = (
    "id,term,language\nA:1,headache,en\nA:1,cefalea,es\nA:2,fever,en\nA:2,fiebre,es\nA:2,febbre,it\nA:3,toux,fr\n"
)
LIST = "concept\nHP:0001250\nHP:0000458\n"
HPO = ran("terminology import obo hpo --packaged -o hpo.terminology")

# A page, the words that a block of it has, and what is made before that block (a call of one of the functions above): a
# page's, before its first.
GIVEN: list[tuple[str, str, Callable[[Path], None]]] = [
    (page, words, eval(make))
    for page, words, make in (
        line.split("\t") for line in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]
    )
]


def give(page: str, text: str, folder: Path, first: bool) -> None:
    """Make what a block needs: of its page, where it is the page's first, and of its own words."""
    for name, words, make in GIVEN:
        if f"docs/{name}" == page and (words in text if words else first):
            make(folder)
