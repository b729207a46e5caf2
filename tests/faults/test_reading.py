"""Files with pieces replaced by others, for every reader: rows, or an error made for users, and nothing else.

A few dozen a reader in the quick run, ten thousand in the slow one
(ALPHITA_CHANGED_FILES=200: so many). What hypothesis finds it keeps in .hypothesis/, and
tries first the next time; what was mended is an `@example`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import registry
from alphita.annotating.texts import Texts
from alphita.errors import AlphitaError, Rejects
from alphita.index.store import Index
from alphita.mappings.review.store import ReviewStore
from alphita.normalizer.abbreviations import abbreviation_list
from alphita.normalizer.reading.cells import cells_of
from alphita.normalizer.reading.files import FORMATS, MentionFile
from alphita.service import keys
from alphita.terminology import sssom
from alphita.terminology.loaders import obo, obographs, table
from alphita.terminology.store import load_terminology, save
from tests.books import book
from tests.faults.writers import REVIEWS, Place, prepare
from tests.mappings import sample
from tests.terminology.conftest import FIXTURES
from tests.terminology.fuzz import edited_or_random, examples

QUICK, SLOW = 25, int(os.environ.get("ALPHITA_CHANGED_FILES", "10000"))
# What comes as a folder of files.
RELEASES = ("umls", "snomed_ct", "loinc", "omop")


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


def _loaders() -> Iterable[Reader]:
    graph = next((FIXTURES / "obographs").glob("*.json"))
    sources = {
        "obo": (obo, FIXTURES / "small.obo"),
        "obographs": (obographs, graph),
        "table": (table, FIXTURES / "terms.csv"),
    }
    for name, (module, path) in sources.items():

        def read(folder: Path, module: Any = module, file: str = path.name) -> None:
            tables = module.load([folder / file], module.Options(), Rejects())
            save(tables, folder / "t.terminology", rejects=Rejects())
            load_terminology(folder / "t.terminology")

        yield Reader(f"loader-{name}", {path.name: path.read_bytes()}, read)
    for name in RELEASES:
        module = registry.load("alphita.terminology.loaders", name)
        parts = [one for one in (FIXTURES / name).rglob("*") if one.is_file()]
        files = {one.relative_to(FIXTURES / name).as_posix(): one.read_bytes() for one in parts}

        def read_release(folder: Path, module: Any = module) -> None:
            save(module.load([folder], module.Options(), Rejects()), folder / "t.terminology", rejects=Rejects())

        yield Reader(f"loader-{name}", files, read_release)
    demo = FIXTURES / "sssom" / "demo.sssom.tsv"
    yield Reader("sssom", {"in": demo.read_bytes()}, lambda folder: sssom.read(folder / "in", Rejects()))


def _artefacts(place: Place) -> Iterable[Reader]:
    def files(path: Path) -> dict[str, bytes]:
        return {one.relative_to(path).as_posix(): one.read_bytes() for one in path.rglob("*") if one.is_file()}

    def read_index(folder: Path) -> None:
        index = Index.open(folder)
        index.concept(0)
        index.rows(["headache"])

    yield Reader("index", files(place.folder / "x.index"), read_index)
    yield Reader(
        "terminology", files(place.folder / "x.terminology"), lambda folder: load_terminology(folder).concept("T:1")
    )
    REVIEWS.write(place, place.folder / "fuzzed.sqlite")

    def read_store(folder: Path) -> None:
        with ReviewStore.open(folder / "in") as store:
            for project in store.projects():
                store.queue(project.name, state="all")
                list(store.history(project.name))

    yield Reader("reviews", {"in": (place.folder / "fuzzed.sqlite").read_bytes()}, read_store)


def _lists() -> Iterable[Reader]:
    short = b"short,long\nMI,myocardial infarction\nDM,diabetes mellitus\n"
    yield Reader("abbreviations", {"in.csv": short}, lambda folder: abbreviation_list.read(folder / "in.csv"))
    key = b"ann\t" + b"a" * 64 + b"\t2030-01-01\n"
    yield Reader("keys", {"in": key}, lambda folder: keys.load(folder / "in"))
    text = "Fever. Ümlaut\r\n".encode()
    yield Reader("texts", {"a/in.txt": text}, lambda folder: list(Texts(folder / "a").documents()))


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    folder = tmp_path_factory.mktemp("readers")
    place = prepare(folder)
    every = [*_mentions(folder), *_mappings(folder), *_loaders(), *_artefacts(place), *_lists()]
    return {reader.name: reader for reader in every}


NAMES = [
    *(f"mentions-{name}" for name in FORMATS),
    *(
        f"mappings-{name}"
        for name in registry.names("alphita.mappings.formats")
        if registry.load("alphita.mappings.formats", name).READS
    ),
    *(f"loader-{name}" for name in ("obo", "obographs", "table", *RELEASES)),
    *("sssom", "index", "terminology", "reviews", "abbreviations", "keys", "texts"),
]


def check(reader: Reader, data: st.DataObject) -> None:
    """Read a folder in which one file is changed."""
    changed = data.draw(st.sampled_from(sorted(reader.files)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "in"
        for file, content in reader.files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.draw(edited_or_random(content)) if file == changed else content)
        with contextlib.suppress(AlphitaError):
            reader.read(folder)
        assert [one.name for one in Path(name).iterdir()] == ["in"]


@pytest.mark.parametrize("name", NAMES)
def test_changed_files_give_rows_or_an_error(readers: dict[str, Reader], name: str) -> None:
    given(st.data())(examples(QUICK)(lambda data: check(readers[name], data)))()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_changed_files_give_rows_or_an_error(readers: dict[str, Reader], name: str) -> None:
    given(st.data())(examples(SLOW)(lambda data: check(readers[name], data)))()


@pytest.mark.parametrize("name", NAMES)
def test_unchanged_files_are_read(readers: dict[str, Reader], name: str, tmp_path: Path) -> None:
    for file, content in readers[name].files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    readers[name].read(tmp_path)
    shutil.rmtree(tmp_path)
