"""A symbolic link where a file of ours would be written is not followed: another user may have put it there."""

from __future__ import annotations

import os

import pytest

from alphita import artefact, machine
from alphita.errors import AlphitaError, Rejects
from alphita.index import sources
from alphita_lab.training.engine import forward


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("ALPHITA_CACHE", str(folder))
    folder.mkdir()
    return folder


@pytest.fixture
def kept(tmp_path):
    """A file that nothing may be written to, and a folder that nothing may be made in."""
    file, folder = tmp_path / "mine", tmp_path / "mine.d"
    file.write_text("mine")
    folder.mkdir()
    os.utime(file, (1, 1))
    yield file, folder
    assert file.read_text() == "mine"
    assert file.stat().st_mtime == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("place", ["KEY.terminology", "KEY.lock", "."])
def test_a_link_in_the_cache(cache, kept, place):
    file, folder = kept
    if place == ".":
        (cache / "terminology").symlink_to(folder)
    else:
        (cache / "terminology").mkdir()
        (cache / "terminology" / place).symlink_to(folder if place == "KEY.terminology" else file)

    def make(path):
        with artefact.create(path, "terminology") as draft:
            (draft.path / "a").write_text("a")
        with Rejects(path.with_name(f"{path.name}.rejects.csv")) as rejects:
            rejects.add("wrong")

    found = sources._kept("terminology", "KEY", lambda path: artefact.verify(path, "terminology")["files"], make)
    assert list(found) == ["a"]


def test_a_link_in_place_of_a_note_that_an_artefact_is_sound(cache, kept, tmp_path, monkeypatch):
    _, folder = kept
    monkeypatch.setattr(artefact, "VERIFY_UP_TO_BYTES", 0)
    with artefact.create(tmp_path / "x", "terminology") as draft:
        (draft.path / "a").write_text("a")
    (note,) = (cache / "sound").iterdir()
    note.unlink()
    note.symlink_to(folder / "new")
    artefact.open_checked(tmp_path / "x", "terminology")
    note.unlink()
    (cache / "sound").rmdir()
    (cache / "sound").symlink_to(folder)
    artefact.open_checked(tmp_path / "x", "terminology")


def test_a_link_in_place_of_the_folder_of_tokens(cache, kept, monkeypatch):
    (cache / "tokens").symlink_to(kept[1])
    monkeypatch.setattr(forward, "MIN_CACHED", 1)

    class Encoder:
        tokenizer_hash, max_length = "x", 8

        def tokenize(self, strings):
            return [[len(string)] for string in strings]

    assert forward.tokenize(Encoder(), ["a", "bcd"]).ids.tolist() == [1, 3]


def test_a_link_in_place_of_rejects_is_told(kept, tmp_path):
    (tmp_path / "x.rejects.csv").symlink_to(kept[0])
    rejects = Rejects(tmp_path / "x.rejects.csv")
    with pytest.raises(AlphitaError, match="could not write the rejects"):
        rejects.add("wrong")


def test_a_link_in_an_artefact_is_moved_aside(kept, tmp_path):
    with artefact.create(tmp_path / "x", "index") as draft:
        (draft.path / "a").write_text("a")
    (tmp_path / "x" / "calibration").symlink_to(kept[1])
    with artefact.create(tmp_path / "x" / "calibration", "calibration", force=True) as draft:
        (draft.path / "b").write_text("b")
    assert not (tmp_path / "x" / "calibration").is_symlink()
    (tmp_path / "link").symlink_to(kept[0])
    with artefact.atomic_file(tmp_path / "link") as written:
        written.write(b"new")


def test_the_cache_itself_may_be_a_link(cache, tmp_path, monkeypatch):
    (tmp_path / "large.disk").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "large.disk")
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "linked"))
    assert machine.cache_folder("tokens").is_dir()
