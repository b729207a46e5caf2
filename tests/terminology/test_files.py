"""Files in zip archives and folders, read where they lie; and languages that no row and no option may have."""

from __future__ import annotations

import gzip
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alphita import config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import store
from alphita.terminology.loaders import _files, babelon, hpoa, icd10cm, obo, obographs, omop, products, table
from alphita.terminology.loaders._files import Member
from alphita.terminology.store import Terminology
from tests.terminology.conftest import FIXTURES, Load

Write = Callable[[str, str | bytes], Path]
CASES: list[tuple[Any, list[str], dict[str, Any]]] = [
    (babelon, ["zz-fr.babelon.tsv", "zz-de.babelon.tsv", "zz-cs.synonyms.tsv", "zz-fr.synonyms.tsv"], {}),
    (hpoa, ["phenotype.hpoa"], {}),
    (obographs, ["zz.json"], {}),
    (products, ["products.csv"], {}),
    (table, ["terms.csv", "relations.tsv"], {}),
    (obo, ["small.obo"], {}),
    (icd10cm, ["small_tabular.xml"], {}),
]


def word(loader: Any) -> str:
    return str(loader.__name__).rpartition(".")[2]


def fixture(loader: Any, name: str) -> Path:
    folder = FIXTURES / word(loader)
    return folder / name if (folder / name).exists() else FIXTURES / name


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the terminologies that formats add to."""
    found = {}
    for name in ("babelon", "hpoa"):
        path = tmp_path_factory.mktemp("bases") / f"{name}.terminology"
        store.save(obo.load([FIXTURES / name / "base.obo"], obo.Options(), Rejects(None)), path)
        found[name] = str(path)
    return found


def facts(found: tuple[Terminology, list[list[str]]]) -> tuple[Any, ...]:
    """Return what must not depend on where the files lay."""
    terminology, rejects = found
    return terminology.manifest["files"], [reject[1:] for reject in rejects]


@pytest.mark.parametrize(("loader", "names", "options"), CASES, ids=[word(case[0]) for case in CASES])
def test_members_of_an_archive_and_files_of_a_folder(
    load: Load, bases: dict[str, str], tmp_path: Path, loader: Any, names: list[str], options: dict[str, Any]
) -> None:
    if word(loader) in bases:
        options = options | {"onto": bases[word(loader)]}
    files = sorted(fixture(loader, name) for name in names)
    wanted = facts(load(loader, *files, **options))
    folder, archive = tmp_path / "folder", tmp_path / "release.zip"
    (folder / "sub").mkdir(parents=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("release/README.md", "Not to be read.")
        for place, file in enumerate(files):
            # One of them packed twice.
            content = gzip.compress(file.read_bytes()) if place == 0 else file.read_bytes()
            packed.writestr(f"release/{file.name}{'.gz' if place == 0 else ''}", content)
            shutil.copy(file, folder / "sub" / file.name)
    found = load(loader, archive, **options)
    assert facts(found) == wanted
    manifest = found[0].manifest
    assert manifest["dropped"]["file README.md"] == 1
    entries = [source for source in manifest["sources"] if source["file"].startswith("release.zip/release/")]
    assert len(entries) == len(files)
    assert {entry["sha256"] for entry in entries} == {_files.source(archive, name="")["sha256"]}
    assert all(reject[0].startswith(f"{archive}/release/") for reject in found[1])
    assert facts(load(loader, folder, **options)) == wanted


def test_parquet_in_an_archive(load: Load, tmp_path: Path) -> None:
    frame = pl.DataFrame({"id": ["A:1", "A:2"], "term": ["one", "two"]})
    frame.write_parquet(tmp_path / "t.parquet")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / "t.parquet", "t.parquet")
    terminology, rejects = load(table, tmp_path / "x.zip")
    assert rejects == []
    assert terminology.concept_names.to_pylist() == ["one", "two"]


def test_archives_that_cannot_be_read(tmp_path: Path, write: Write) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(FIXTURES / "small.obo", "small.obo")
        archive.writestr("z_empty.obo", "")
        archive.writestr("notes.txt", "x")
    whole = (tmp_path / "x.zip").read_bytes()
    damaged = bytearray(whole)
    damaged[60:90] = bytes(30)
    # Bit 0 of the flags, in the member's head and in the directory at the end, says that it is encrypted.
    locked = bytearray(whole)
    for place, sign in ((6, b"PK\x03\x04"), (8, b"PK\x01\x02")):
        locked[whole.index(sign) + place] |= 1
    for name, content, problem in (
        ("damaged.zip", bytes(damaged), r"damaged\.zip/small\.obo: the zip file is damaged"),
        ("cut.zip", whole[:-30], r"cut\.zip: the zip file is damaged or cut short"),
        ("locked.zip", bytes(locked), "encrypted"),
        ("whole.zip", whole, r"whole\.zip/z_empty\.obo: the file is empty"),
    ):
        with pytest.raises(InputError, match=problem):
            obo.load([write(name, content)], obo.Options(), Rejects(None))
    with pytest.raises(InputError, match=r"no file in it ends in \.json; it has \['notes.txt', 'small.obo'"):
        obographs.load([tmp_path / "x.zip"], obographs.Options(), Rejects(None))


def test_a_file_named_itself_is_read_whatever_its_name(write: Write) -> None:
    dropped: Counter[str] = Counter()
    odd = write("odd.name", "x")
    assert _files.chosen([odd, odd], (".obo",), dropped) == [Member(odd)] * 2
    assert not dropped


def test_unknown_languages_in_rows(load: Load, write: Write) -> None:
    rows = "id,term,language\nA:1,one,en\nA:1,eins,GER\nA:1,xyz,xx\nA:1,um,pt_br\nA:1,wan,english\nA:1,uno,\n"
    path = write("t.csv", rows)
    terminology, rejects = load(table, path, language="it")
    assert [(term.string, term.language) for term in terminology.concept("A:1").terms] == [
        ("one", "en"),
        ("eins", "de"),
        ("um", "pt-BR"),
        ("uno", "it"),
    ]
    assert [reject[:4] for reject in rejects] == [
        [str(path), "4", "language", "xx"],
        [str(path), "6", "language", "english"],
    ]
    assert all("unknown language" in reject[4] for reject in rejects)


@pytest.mark.parametrize("loader", [babelon, hpoa, obo, obographs, omop, products, table], ids=word)
def test_unknown_languages_in_options(loader: Any) -> None:
    assert config.resolve(loader.Options, sets=["language=GER"]).language == "de"
    with pytest.raises(UsageError, match="option 'language': unknown language"):
        config.resolve(loader.Options, sets=["language=english"])


def test_unknown_languages_of_omop_concepts() -> None:
    for option in ("77=xx", "77", "x=de"):
        with pytest.raises(UsageError, match="option languages"):
            omop.load([FIXTURES / "omop"], omop.Options(languages=option), Rejects(None))
