"""Damage of the same size, in artefacts too large to be rehashed each time: found where they are opened next."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from alphita import artefact
from alphita.errors import InputError
from alphita.index.store import Index
from alphita.terminology.store import load_terminology
from tests.faults.writers import WRITERS, Place

OPENERS = {"index": Index.open, "terminology": load_terminology}


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let every artefact be a large one."""
    monkeypatch.setattr(artefact, "VERIFY_UP_TO_BYTES", 0)
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))


def damage(path: Path) -> None:
    """Change a byte; the file's time is put back, as by a copy that keeps it."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


@pytest.mark.parametrize("kind", OPENERS)
def test_a_changed_byte_of_any_file_is_found(kind: str, place: Place, tmp_path: Path, capsys) -> None:
    target, open_ = tmp_path / f"x.{kind}", OPENERS[kind]
    next(writer for writer in WRITERS if writer.name == kind).write(place, target)
    capsys.readouterr()
    open_(target)
    assert "checking" not in capsys.readouterr().err
    shutil.rmtree(tmp_path / "cache")
    open_(target)
    assert f"checking {target} for damage" in capsys.readouterr().err
    open_(target)
    assert "checking" not in capsys.readouterr().err
    files = [path for path in target.rglob("*") if path.is_file() and path.stat().st_size]
    for file in files:
        whole = file.read_bytes()
        damage(file)
        with pytest.raises(InputError):
            open_(target)
        # Twice: what was not found sound is not noted.
        with pytest.raises(InputError):
            open_(target)
        file.write_bytes(whole)
        open_(target)
    capsys.readouterr()
    # One that was copied elsewhere is looked at there.
    shutil.copytree(target, tmp_path / "copied")
    damage(tmp_path / "copied" / files[0].relative_to(target))
    with pytest.raises(InputError):
        open_(tmp_path / "copied")
    open_(target)


def test_without_a_cache_it_is_looked_at_each_time(place: Place, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("ALPHITA_CACHE", os.devnull)
    for _ in range(2):
        load_terminology(place.folder / "x.terminology")
        assert "for damage" in capsys.readouterr().err


def test_sizes_alone_where_that_is_asked_for(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.folder / "x.index", tmp_path / "x.index")
    damage(next((tmp_path / "x.index").rglob("*.npy")))
    artefact.open_checked(tmp_path / "x.index", "index", False)
    with pytest.raises(InputError, match="the hash of"):
        artefact.open_checked(tmp_path / "x.index", "index")
