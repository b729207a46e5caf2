"""Files in zip archives and folders, read where they lie; and languages that no row and no option may have."""

from __future__ import annotations

import zipfile
from collections import Counter

import polars as pl
import pytest

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import _files, obo, obographs, table
from alphita.terminology.loaders._files import Member
from tests.terminology.conftest import FIXTURES


def test_parquet_in_an_archive(load, tmp_path):
    frame = pl.DataFrame({"id": ["A:1", "A:2"], "term": ["one", "two"]})
    frame.write_parquet(tmp_path / "t.parquet")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / "t.parquet", "t.parquet")
    terminology, rejects = load(table, tmp_path / "x.zip")
    assert rejects == []
    assert terminology.concept_names.to_pylist() == ["one", "two"]


def test_archives_that_cannot_be_read(tmp_path, write):
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


def test_a_file_named_itself_is_read_whatever_its_name(write):
    dropped: Counter[str] = Counter()
    odd = write("odd.name", "x")
    assert _files.chosen([odd, odd], (".obo",), dropped) == [Member(odd)] * 2
    assert not dropped
