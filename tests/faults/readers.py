"""Everything that Alphita reads, small, each as files and what reads them."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from alphita import config, registry
from alphita.errors import InputError, Rejects
from alphita.index.store import Index
from alphita.jobs.annotate import Texts
from alphita.jobs.reading import FORMATS, MentionFile, cells_of
from alphita.mention import cues, short_forms
from alphita.review.store import ReviewStore
from alphita.service import keys
from alphita.terminology import detect, sssom
from alphita.terminology.model import Tables
from alphita.terminology.store import load_terminology, save
from alphita_lab.evaluation.benchmarks import PACKAGE, NotGiven, Source
from alphita_lab.evaluation.systems.word_vectors import WordVectorSystem
from alphita_lab.training.sentences import scored_pairs
from alphita_lab.training.terms import terminology_pairs
from alphita_lab.training.text import corpora
from tests.books import book
from tests.faults.writers import REVIEWS, Place
from tests.mappings import sample
from tests.terminology.conftest import RELEASES

FIXTURES = Path(__file__).parents[1] / "fixtures"
TERMINOLOGY = FIXTURES / "terminology"
LOADERS = "alphita.terminology.loaders"
# What a loader is given: a folder, or the file.
SOURCES = {name: release.example.relative_to(TERMINOLOGY).as_posix() for name, release in RELEASES.items()}
SOURCES |= {name: name for name in ("babelon", "hpoa", "obographs", "snomed_ct_gps")}
SOURCES |= {"icd10cm-index": "small_index.xml"}
# Beside what is read onto it, or read by an option only.
NOT_READ = ("base.obo", "old.hpoa")


class Reader(NamedTuple):
    """One that reads files.

    Attributes:
        name: of its test.
        files: name -> content, of a folder that it reads; one of them is changed.
        read: reads the folder.
    """

    name: str
    files: dict[str, bytes]
    read: Callable[[Path], Any]


def _mentions(folder: Path) -> Iterable[Reader]:
    lines = [("seizure, left", "c1", "3"), ('a "b"', "c2", ""), ("ü", "", "1.0")]
    columns = ("mention", "code", "n")
    csv = "\n".join(
        [",".join(columns), *(",".join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in line) for line in lines)]
    )
    parquet = io.BytesIO()
    pq.write_table(pa.table({name: [line[at] for line in lines] for at, name in enumerate(columns)}), parquet)
    contents = {
        "csv": csv.encode(),
        "tsv": csv.replace(",", "\t").encode(),
        "jsonl": "\n".join(json.dumps(dict(zip(columns, line, strict=True))) for line in lines).encode(),
        "parquet": parquet.getvalue(),
        "lines": b"seizure\nfever\n\xff\n",
        "excel": book(folder / "book.xlsx", A=[[*columns], *map(list, lines)]).read_bytes(),
    }
    for format in FORMATS:
        further = {} if format == "lines" else {"column": "mention", "code_column": "code", "frequency_column": "n"}

        def read(folder: Path, format: str = format, further: dict[str, str] = further) -> None:
            file = MentionFile(folder / "in", format, **further)
            for _ in file.rows():
                pass
            if format != "lines":
                for _ in cells_of(file):
                    pass

        yield Reader(f"mentions-{format}", {"in": contents[format]}, read)


def _mappings(folder: Path) -> Iterable[Reader]:
    lines = [sample.mapping(), sample.mapping("x|y", None, row=2), sample.mapping("z", "HP:0000002", row=3, rank=1)]
    for name in registry.names("alphita.mappings.formats"):
        module = registry.load("alphita.mappings.formats", name)
        if module.READS:
            path = sample.write(module, sample.header(), lines, folder / f"m.{name}")

            def read(folder: Path, module: Any = module) -> None:
                for _ in module.read(folder / "in", sample.header(tell=lambda text: None), Rejects()):
                    pass

            yield Reader(f"mappings-{name}", {"in": path.read_bytes()}, read)


def _in(path: Path) -> dict[str, bytes]:
    """Return the files of a folder, or the one file."""
    found = [path] if path.is_file() else [one for one in sorted(path.rglob("*")) if one.is_file()]
    return {one.relative_to(path if path.is_dir() else path.parent).as_posix(): one.read_bytes() for one in found}


def loaded(name: str, folder: Path, place: Place) -> Tables:
    """Read a folder, or the one file in it, by a loader of `SOURCES`."""
    module = registry.load(LOADERS, name.partition("-")[0])
    options: dict[str, str] = {}
    if name in ("babelon", "hpoa"):
        options["onto"] = str(place.folder / f"{name}.terminology")
        if not Path(options["onto"]).exists():
            obo = registry.load(LOADERS, "obo")
            base = obo.load([TERMINOLOGY / SOURCES[name] / "base.obo"], obo.Options(), Rejects())
            save(base, Path(options["onto"]))
    files = [one for one in folder.rglob("*") if one.is_file()]
    tables: Tables = module.load(files if len(files) == 1 else [folder], module.Options(**options), Rejects())
    return tables


def _loaders(place: Place) -> Iterable[Reader]:
    for name, source in SOURCES.items():
        files = {key: content for key, content in _in(TERMINOLOGY / source).items() if key not in NOT_READ}
        if name == "icd10cm-index":
            files |= _in(TERMINOLOGY / SOURCES["icd10cm"])

        def read(folder: Path, name: str = name) -> None:
            save(loaded(name, folder, place), folder / "t.terminology", rejects=Rejects())
            load_terminology(folder / "t.terminology")

        yield Reader(f"loader-{name}", files, read)
        if len(files) == 1 and name != "hpoa":
            yield Reader(f"detect-{name}", files, lambda folder: detect.detect(next(folder.iterdir())))
    demo = TERMINOLOGY / "sssom" / "demo.sssom.tsv"
    yield Reader("sssom", {"in": demo.read_bytes()}, lambda folder: sssom.read(folder / "in", Rejects()))


def _benchmarks(place: Place) -> Iterable[Reader]:
    """Return readers of the benchmarks' data of which there are small files."""
    terminology = load_terminology(place.folder / "x.terminology")
    for path in sorted((FIXTURES / "benchmarks").iterdir()):
        module = registry.load(PACKAGE, path.name)

        def read(folder: Path, module: Any = module, name: str = path.name) -> None:
            module.load(Source(folder, terminology, name, module.INFO.where), module.Options())

        try:
            read(path)
        except (NotGiven, InputError):
            # It wants files of several data sets that lie in other folders.
            continue
        yield Reader(f"benchmark-{path.name}", _in(path), read)


def _artefacts(place: Place) -> Iterable[Reader]:
    def read_index(folder: Path) -> None:
        index = Index.open(folder)
        index.concept(0)
        index.rows(["headache"])

    yield Reader("index", _in(place.folder / "x.index"), read_index)
    yield Reader(
        "terminology", _in(place.folder / "x.terminology"), lambda folder: load_terminology(folder).concept("T:1")
    )
    REVIEWS.write(place, place.folder / "fuzzed.sqlite")

    def read_store(folder: Path) -> None:
        with ReviewStore.open(folder / "in") as store:
            for project in store.projects():
                store.queue(project.name, state="all")
                list(store.history(project.name))

    yield Reader("reviews", {"in": (place.folder / "fuzzed.sqlite").read_bytes()}, read_store)


def _lists(place: Place) -> Iterable[Reader]:
    short = b"short,long\nMI,myocardial infarction\nDM,diabetes mellitus\n"
    yield Reader("abbreviations", {"in.csv": short}, lambda folder: short_forms.read_list(folder / "in.csv"))
    key = b"ann\t" + b"a" * 64 + b"\t2030-01-01\n"
    yield Reader("keys", {"in": key}, lambda folder: keys.load(folder / "in"))
    text = "Fever. Ümlaut\r\n".encode()
    yield Reader("texts", {"a/in.txt": text}, lambda folder: list(Texts(folder / "a").documents()))
    rules = b"phrase\tcategory\tdirection\treach\nno\tnegated\tahead\t5\n?\tpossible\tback\t\n"
    yield Reader("cues", {"in": rules}, lambda folder: list(cues.read(folder / "in")))
    toml = b"[normalize]\ntop = 3\nerror = 0.05\n"
    yield Reader("toml", {"in": toml}, lambda folder: config.read_toml(folder / "in"))
    pairs = b"sentence1\tsentence2\tscore\na b\tc d\t3.0\ne f\tg h\t4.5\n"
    yield Reader("scored-pairs", {"in": pairs}, lambda folder: scored_pairs.read(folder / "in", Rejects()))
    aligned = b"source\ttranslation\tlanguage\tconcept\nHeadache\tKopfschmerz\tde\tT:1\nCold\tSchnupfen\tde\tT:2\n"
    terminology = load_terminology(place.folder / "x.terminology")

    def read_aligned(folder: Path) -> None:
        terminology_pairs.read(folder / "in.tsv", Rejects(), terminology=terminology)

    yield Reader("aligned-pairs", {"in.tsv": aligned}, read_aligned)
    corpus = b'{"text": "Fever and cold."}\n{"text": "\\u00fc"}\n'
    yield Reader("corpus", {"in.jsonl": corpus}, lambda folder: list(corpora.documents([folder / "in.jsonl"])))
    for name in ("glove.txt", "word2vec.txt", "word2vec.bin", "fasttext.vec"):

        def read_vectors(folder: Path, name: str = name) -> None:
            WordVectorSystem(folder / name, lower=True, limit=None, name="x").encode(["fever", "cold"])

        yield Reader(f"vectors-{name}", {name: (FIXTURES / "systems" / name).read_bytes()}, read_vectors)


@functools.cache
def readers(place: Place) -> dict[str, Reader]:
    """Return all by their names."""
    some = (
        _mentions(place.folder),
        _mappings(place.folder),
        _loaders(place),
        _artefacts(place),
        _benchmarks(place),
        _lists(place),
    )
    return {reader.name: reader for part in some for reader in part}
