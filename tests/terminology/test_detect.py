"""Which loader reads a file or folder is told from its content, and it then reads it."""

from __future__ import annotations

import ast
import gzip
import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from alphita import registry
from alphita.errors import InputError, Rejects
from alphita.terminology.detect import PACKAGED, detect, find_packaged
from alphita.terminology.loaders import PACKAGE, _look
from alphita.terminology.loaders._look import look
from tests.books import book
from tests.terminology.conftest import ADDING, FIXTURES, RELEASES, cases
from tests.terminology.test_icd10cm import ORDER

EXAMPLES = {name: release.example for name, release in RELEASES.items()}
# Those that add to a terminology are detected, and refused.
ALONE = [name for name in EXAMPLES if name not in ADDING]
FOLDERS = [name for name in ALONE if EXAMPLES[name].is_dir()]


def packed(archive: Path, source: Path) -> Path:
    files = [source] if source.is_file() else sorted(file for file in source.rglob("*") if file.is_file())
    with zipfile.ZipFile(archive, "w") as opened:
        for file in files:
            opened.write(file, file.relative_to(source.parent))
    return archive


def check_read(path: Path, kind: str) -> Any:
    """Detect, and read with what was told; return the tables."""
    found = detect(path)
    assert (found.format, found.paths) == (kind, (path,))
    loader = registry.load(PACKAGE, kind)
    tables = loader.load(list(found.paths), loader.Options(**found.settings), Rejects(None))
    assert len(tables.terms) > 0
    return tables


# --- what each format looks like -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", registry.names(PACKAGE))
def test_a_loader_recognises_its_own_and_no_one_elses(kind):
    loader = registry.load(PACKAGE, kind)
    for other, path in EXAMPLES.items():
        try:
            settings = loader.recognises(look(path))
        except InputError:
            # That ids and terms are in no column of such a table.
            assert kind == "table"
            assert other != "table"
            continue
        # It is asked last, and might take a file of another format as a table of names alone.
        better_read = kind == "table" != other and settings is not None and detect(path).format == other
        assert better_read or settings == ({} if other == kind else None), other


@pytest.mark.parametrize("kind", [kind for kind in ALONE if kind not in FOLDERS])
def test_neither_name_nor_packing_nor_mark_nor_place_matters(kind, tmp_path):
    path = EXAMPLES[kind]
    content = path.read_bytes()
    for name, written in (
        (path.name, content),
        ("odd.name", content),
        ("packed", gzip.compress(content)),
        ("marked", b"\xef\xbb\xbf" + content),
    ):
        (tmp_path / name).write_bytes(written)
        check_read(tmp_path / name, kind)
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    shutil.copy(path, tmp_path / "folder" / "sub" / path.name)
    (tmp_path / "folder" / "LICENSE").write_text("Free.")
    (tmp_path / "folder" / "empty.md").touch()
    check_read(tmp_path / "folder", kind)
    check_read(packed(tmp_path / "x.zip", tmp_path / "folder"), kind)


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_release_in_an_archive_and_gzipped(kind, tmp_path):
    check_read(EXAMPLES[kind], kind)
    check_read(packed(tmp_path / "release.zip", EXAMPLES[kind]), kind)
    shutil.copytree(EXAMPLES[kind], tmp_path / "release")
    for file in [file for file in (tmp_path / "release").rglob("*") if file.is_file()]:
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    check_read(tmp_path / "release", kind)


@pytest.mark.parametrize(
    ("kind", "name"), [("umls", "MRCONSO.RRF"), ("omop", "CONCEPT.csv"), ("loinc", "LoincTable/Loinc.csv")]
)
def test_the_file_of_a_release_that_is_enough(kind, name):
    check_read(EXAMPLES[kind] / name, kind)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("icd10cm_order_2025.txt", ORDER, "icd10cm"),
        ("codes.txt", ORDER, "icd10cm"),
        ("x", '{"nodes": [{"id": "A:1", "lbl": "One"}], "edges": []}', "obographs"),
        ("x", '{"meta": {}, "graphs": [{"nodes": [{"id": "A:1", "lbl": "One"}]}]}', "obographs"),
        ("x", "! made by hand\n\n[Term]\nid: A:1\nname: One\n", "obo"),
    ],
)
def test_other_shapes(write, name, content, kind):
    check_read(write(name, content), kind)


@pytest.mark.parametrize("name", PACKAGED)
def test_what_comes_with_alphita(name):
    assert detect(find_packaged(name)).format == PACKAGED[name][2]


@pytest.mark.parametrize(
    "path",
    [
        *(EXAMPLES[name] for name in ADDING),
        *(FIXTURES / name for name in ("babelon/zz-cs.synonyms.tsv", "hpoa/old.hpoa")),
    ],
)
def test_what_only_adds_to_another_is_told(path):
    kind = path.parent.name
    with pytest.raises(InputError, match=rf"import {kind} {path} .*--onto BASE\.terminology") as raised:
        detect(path)
    assert raised.value.file == path


def test_no_more_than_the_beginning_is_read(write, monkeypatch):
    path = write("x.csv", "id,term\n" + "".join(f"A:{number},term {number}\n" for number in range(20_000)) + "B,bare\n")
    [file] = look(path).members
    assert len(file.head) <= _look.HEAD_BYTES
    assert file.head.endswith(b"\n")
    assert detect(path).settings == {}
    long = write("x.obo", b"format-version: 1.2\nremark: " + b"x" * 200_000 + b"\n\n[Term]\nid: A:1\nname: One\n")
    check_read(long, "obo")
    monkeypatch.setattr(_look, "MAX_FILES", 1)
    (path.parent / "more").touch()
    with pytest.raises(InputError, match="more than 1 files in it"):
        detect(path.parent)


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "settings"), cases("detected_columns.tsv"))
def test_columns_of_a_table_are_told(write, text, settings):
    path = write("my-list.csv", text + "\n")
    assert detect(path).settings == json.loads(settings)
    assert check_read(path, "table").terms["string"].to_list()[0] == "Fever"


@pytest.mark.parametrize(("name", "prefix"), cases("detected_prefixes.tsv"))
def test_the_prefix_of_bare_codes(write, name, prefix):
    path = write(name, "code,name\n1,Fever\n")
    assert detect(path).settings["prefix"] == prefix
    assert check_read(path, "table").concepts["id"].to_list() == [f"{prefix}:1"]


def test_other_kinds_of_tables(tmp_path, write):
    wanted = {"id_column": "code", "term_column": "name", "prefix": "WARDS"}
    pl.DataFrame({"code": [1], "name": ["Fever"], "more": [[1, 2]]}).write_parquet(tmp_path / "wards.parquet")
    book(tmp_path / "wards.xlsx", one=[["code", "name"], ["1", "Fever"]], two=[])
    write("wards.tab", "code\tname\n1\tFever\n")
    for name in ("wards.parquet", "wards.xlsx", "wards.tab"):
        assert detect(tmp_path / name).settings == wanted
        assert check_read(tmp_path / name, "table").concepts["id"].to_list() == ["WARDS:1"]
    wide = write("wards", ("code;name\n1;Fièvre\n" + "2;x\n" * 40_000).encode("utf-16"))
    assert detect(wide).settings == wanted | {"encoding": "utf-16"}
    assert "Fièvre" in check_read(wide, "table").terms["string"].to_list()


def test_tables_of_terms_and_of_relations_together(tmp_path):
    folder = tmp_path / "local"
    folder.mkdir()
    shutil.copy(FIXTURES / "relations.tsv", folder)
    with pytest.raises(InputError, match=r"relations between concepts, but no terms; .*import table TERMS"):
        detect(folder)
    shutil.copy(FIXTURES / "terms.csv", folder)
    assert len(check_read(folder, "table").relations) > 0
    (folder / "more.csv").write_text("code,name\n1,Fever\n")
    with pytest.raises(InputError, match=r"terms\.csv: .* would be the options for it, but .*more\.csv"):
        detect(folder)
    (folder / "more.csv").write_text("Not to be read.\n")
    with pytest.raises(InputError, match=r"more\.csv: not a table, but the other files are"):
        detect(folder)


@pytest.mark.parametrize(("text", "problem", "command"), cases("detected_not.tsv"))
def test_a_header_that_does_not_tell(write, text, problem, command):
    path = write("of wards.csv", text)
    with pytest.raises(InputError, match=problem) as raised:
        detect(path)
    assert f"alphita terminology import table '{path}' --set id_column=" in str(raised.value)
    assert command in str(raised.value)


def test_a_table_in_another_encoding(write):
    with pytest.raises(InputError, match=r"not UTF-8; name its encoding: .*--set encoding=cp1252"):
        detect(write("x.csv", "code,name\n1,Fièvre\n2,Fiebre\n".encode("cp1252")))
    # A few bad bytes are for the rejects.
    assert detect(write("x.csv", "code,name\n1,Fièvre\n2,Müdigkeit\n".encode() + b"3,\xe9\n")).format == "table"


def test_several_sheets(tmp_path):
    path = book(tmp_path / "x.xlsx", one=[["id", "term"], ["A:1", "a"]], two=[["id", "term"], ["A:1", "b"]])
    with pytest.raises(InputError, match=r"several sheets.*say it in the import: alphita terminology import"):
        detect(path)


# --- what is no terminology ------------------------------------------------------------------------------------------

OTHERS = [
    [name, ast.literal_eval(content), problem] for name, content, problem in cases("detected_others.tsv", escaped=False)
]
OTHERS += [
    ["x.csv.gz", gzip.compress(b""), "the file is empty"],
    ["x.tar.gz", gzip.compress(bytes(257) + b"ustar" + bytes(250)), "this is an archive.*unpack it"],
    ["x.bin", bytes(range(256)) * 9, "this is a binary file"],
    ["x.sssom.tsv", (FIXTURES / "sssom" / "demo.sssom.tsv").read_bytes(), "this is a file of mappings"],
    ["x.obo.gz", gzip.compress(b"format-version: 1.2\n" * 9)[:30], "damaged or cut short"],
    ["conso.txt", (FIXTURES / "umls" / "MRCONSO.RRF").read_bytes(), "call it MRCONSO.RRF"],
]


@pytest.mark.parametrize(("name", "content", "problem"), OTHERS)
def test_what_is_no_terminology_is_called_by_its_name(write, name, content, problem):
    with pytest.raises(InputError, match=re.compile(problem, re.DOTALL)) as raised:
        detect(write(name, content))
    assert name in str(raised.value)


@pytest.mark.parametrize(("kind", "name", "problem"), cases("detected_parts.tsv"))
def test_a_part_of_a_release(kind, name, problem):
    with pytest.raises(InputError, match=problem):
        detect(EXAMPLES[kind] / name)


def test_folders_and_archives_with_nothing_known_in_them(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(InputError, match="nothing in this folder is known; it has no file"):
        detect(folder)
    (folder / "notes.txt").write_text("Nothing.\n")
    (folder / "x.pdf").write_bytes(b"%PDF")
    with pytest.raises(InputError, match=r"nothing in this folder is known; it has \['notes.txt', 'x.pdf'\]"):
        detect(folder)
    with pytest.raises(InputError, match=r"nothing in this archive is known; .*unpack it"):
        detect(packed(tmp_path / "x.zip", folder))


def test_what_two_loaders_read_is_for_the_user_to_say(tmp_path):
    for kind in ("umls", "rxnorm"):
        shutil.copytree(EXAMPLES[kind], tmp_path / "both" / kind)
    with pytest.raises(InputError, match=r"may be read as rxnorm or as umls; say which: .* rxnorm .* import umls"):
        detect(tmp_path / "both")
    shutil.copytree(EXAMPLES["umls"], tmp_path / "some")
    shutil.copy(EXAMPLES["table"], tmp_path / "some")
    check_read(tmp_path / "some", "umls")


def test_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        detect(tmp_path / "none.obo")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        detect(Path("/dev/null"))
