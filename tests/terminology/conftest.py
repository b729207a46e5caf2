"""Small terminologies, saved and opened again, and the fixtures of all loaders."""

from __future__ import annotations

import csv
import gzip
import os
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from alphita import config
from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.loaders import obo
from alphita.terminology.store import Terminology

FIXTURES = Path(__file__).parents[1] / "fixtures" / "terminology"
EXPECTED = Path(__file__).parent / "expected"
Load = Callable[..., tuple[Terminology, list[list[str]]]]
Write = Callable[[str, str | bytes], Path]
# Formats that add to a terminology, which lies beside their files.
ADDING = ("babelon", "hpoa")


# How signs are written in tables of cases.
SIGNS = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\xe9": "\udce9"}
SIGNS |= {"\\x1c": "\x1c", "\\x1d": "\x1d", "\\x1f": "\x1f"}


def cases(name: str, folder: Path = EXPECTED, *, escaped: bool = True) -> list[list[str]]:
    r"""Return the rows of a table of cases; `\t`, `\n`, `\r`, `\0`, `\xe9` and `{x*9}` become signs."""

    def plain(cell: str) -> str:
        for written, sign in SIGNS.items():
            cell = cell.replace(written, sign)
        before, mark, after = cell.partition("{x*")
        number, _, after = after.partition("}")
        return before + "x" * int(number) + after if mark else cell

    rows = [line.split("\t") for line in (folder / name).read_text(encoding="utf-8").split("\n")[1:] if line]
    return [[plain(cell) for cell in row] for row in rows] if escaped else rows


class Release(NamedTuple):
    """The fixture of a format: what is detected, all its files, and of `least/` the file that cannot be missing."""

    example: Path
    files: list[Path]
    main: str


# A loader's row in `releases.tsv`; where `least/` has no folder for it, the example is the smallest release.
RELEASES = {
    name: Release(FIXTURES / example, sorted(FIXTURES.glob(files)), main)
    for name, example, files, main in cases("releases.tsv")
}


def check_held(name, case, order, found):
    """Compare what a case gave, line by line, with its section in `expected/NAME.txt`.

    Args:
        order: the names of all cases, as a new file is to have them: ALPHITA_EXPECTED=1 writes it.
    """
    path = EXPECTED / f"{name}.txt"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    held = dict(section.split("\n", 1) for section in text.split("=== ")[1:])
    if os.environ.get("ALPHITA_EXPECTED"):
        held[case] = "\n".join(found).rstrip() + "\n"
        path.write_text("".join(f"=== {key}\n{held.get(key, '')}" for key in order), encoding="utf-8")
    assert "\n".join(found).rstrip().split("\n") == held[case].rstrip().split("\n")


def saved(loader: Any, files: Iterable[Path], options: Any, folder: Path) -> tuple[Terminology, list[list[str]]]:
    """Load files and save them in a folder; return the terminology, opened, and the rows of the rejects."""
    with Rejects(folder / "rejects.csv") as rejects:
        tables = loader.load(list(files), options, rejects)
        store.save(tables, folder / "x.terminology", rejects=rejects, force=True)
    return store.load_terminology(folder / "x.terminology"), read_rejects(folder / "rejects.csv")


@pytest.fixture
def load(tmp_path):
    """Return a function: loader module, files, options -> terminology opened, and the rejects' rows."""

    def run(loader: Any, *files: Path, **options: Any) -> tuple[Terminology, list[list[str]]]:
        return saved(loader, files, loader.Options(**options), tmp_path)

    return run


def read_rejects(path: Path) -> list[list[str]]:
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(Rejects.FIELDS)
    return rows[1:]


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file and returns its path."""

    def run(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return run


@pytest.fixture
def build(tmp_path):
    """Return a function: name, text of an OBO file -> terminology opened."""

    def run(name: str, text: str) -> Terminology:
        file = tmp_path / f"{name}.obo"
        file.write_text(text)
        store.save(obo.load([file], obo.Options(), Rejects(None)), tmp_path / f"{name}.terminology")
        return store.load_terminology(tmp_path / f"{name}.terminology")

    return run


@pytest.fixture(scope="session")
def bases(tmp_path_factory):
    """Return the terminologies that formats add to."""
    found = {name: tmp_path_factory.mktemp("bases") / f"{name}.terminology" for name in ADDING}
    for name, path in found.items():
        store.save(obo.load([FIXTURES / name / "base.obo"], obo.Options(), Rejects(None, strict=True)), path)
    return found


@pytest.fixture
def small(load):
    return load(obo, FIXTURES / "small.obo")[0]


def zipped(archive: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return archive


def cut_gzip(content: bytes) -> bytes:
    return gzip.compress(content * 50)[:-20]


def facts(terminology: Terminology) -> list[str]:
    """Return all that is known of each concept, a fact a line."""
    lines = []
    for row in range(terminology.n_concepts):
        concept = asdict(terminology.concept(row))
        identifier = concept.pop("id")
        lines.append(f"{identifier} {concept.pop('name')!r} retired={concept.pop('retired')} {concept.pop('source')}")
        del concept["row"], concept["parents"], concept["children"]
        for name, values in concept.items():
            for value in sorted(values) if name == "relations" else values:
                if isinstance(value, dict):
                    value = " ".join(f"{key}={cell!r}" for key, cell in value.items() if cell is not None)
                lines.append(f"  {name}: {value}")
    return lines


def manifest_facts(terminology: Terminology) -> list[str]:
    """Return what the manifest says of sources and of what was left out, and the relations that lead to parents."""
    sources = [
        {key: value for key, value in source.items() if key != "sha256"} for source in terminology.manifest["sources"]
    ]
    labels = [terminology.relation_labels[number] for number in terminology.parent_relations]
    counted = terminology.manifest["dropped"].items()
    numbers, names = terminology.triple_sources
    origins = sorted({names[number] for number in numbers.tolist()})
    return [*map(str, sources), f"parents: {labels}; sources: {origins}", *(f"{n} {what}" for what, n in counted)]


def option_values(loader: Any, written: str, **more: str) -> Any:
    """Return a loader's options of `key=value` joined by blanks."""
    sets = [word.replace("%20", " ") for word in written.split()]
    return config.resolve(loader.Options, sets=[*sets, *(f"{key}={value}" for key, value in more.items())])
