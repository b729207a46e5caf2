"""A full disk, a place that may not be written, a working folder that is gone: for every writer, at each of its writes.

Nothing but an error made for users; nothing under the final name; and once there is room, the same bytes as ever.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from alphita.errors import AlphitaError
from alphita.review.store import ReviewStore
from alphita.service import keys
from tests.faults.writers import GROWING, REVIEWS, WRITERS, Place, Writer, content
from tests.killing import room_for

# Where even root may write nothing.
READ_ONLY = Path("/proc/sys/kernel")
EVERY = pytest.mark.parametrize("writer", WRITERS, ids=[writer.name for writer in WRITERS])
ALL = pytest.mark.parametrize("writer", [*WRITERS, REVIEWS], ids=[writer.name for writer in (*WRITERS, REVIEWS)])


def sizes_to_try(good: Path) -> list[int]:
    """Return sizes at which each file of an output cannot be written whole: at its beginning, midst and end."""
    sizes = {one.stat().st_size for one in ([good] if good.is_file() else good.rglob("*")) if one.is_file()}
    return sorted({limit for size in sizes for limit in (0, size // 2, size - 1) if limit >= 0}, reverse=True)


def written_with(room: int, writer: Writer, place: Place, out: Path) -> str | None:
    """Return what is wrong, if something is, when no file may be greater than `room` bytes."""
    try:
        with room_for(room):
            writer.write(place, out)
    except AlphitaError as error:
        return str(error)
    return None


@EVERY
def test_a_full_disk_at_each_write(writer: Writer, place: Place, tmp_path: Path) -> None:
    good = tmp_path / f"good{writer.suffix}"
    writer.write(place, good)
    expected = {name.replace("good", "out", 1): found for name, found in content(good).items()}
    failed = 0
    for limit in sizes_to_try(good)[:12]:
        folder = tmp_path / f"limit-{limit}"
        folder.mkdir()
        out = folder / f"out{writer.suffix}"
        problem = written_with(limit, writer, place, out)
        if problem is not None:
            failed += 1
            assert out.name in problem
            assert writer.name in GROWING or not out.exists()
        if not out.exists() or writer.name in GROWING:
            writer.write(place, out)
        assert content(out) == expected
        left = {path.name for path in folder.iterdir()} - {out.name}
        assert not [name for name in left if ".part" in name or "draft" in name]
    assert failed


@ALL
def test_a_place_that_may_not_be_written(writer: Writer, place: Place, tmp_path: Path) -> None:
    for folder in (READ_ONLY, READ_ONLY / "new", tmp_path / "file" / "below"):
        (tmp_path / "file").write_text("no folder")
        with pytest.raises(AlphitaError):
            writer.write(place, folder / f"out{writer.suffix}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@ALL
def test_a_working_folder_that_is_gone(writer: Writer, place: Place, tmp_path: Path) -> None:
    here = Path.cwd()
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    try:
        with pytest.raises(AlphitaError):
            writer.write(place, Path(f"out{writer.suffix}"))
    finally:
        os.chdir(here)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_loses_no_decision(place: Place, tmp_path: Path) -> None:
    REVIEWS.write(place, tmp_path / "good.sqlite")
    size = (tmp_path / "good.sqlite").stat().st_size
    for limit in (0, 4096, size // 2, size - 1):
        out = tmp_path / f"{limit}.sqlite"
        answered = False
        with room_for(limit), contextlib.suppress(AlphitaError):
            REVIEWS.write(place, out)
            answered = True
        if answered:
            with ReviewStore.open(out) as store:
                assert [one.concept_id for one in store.history("p")] == ["T:1"]
        REVIEWS.write(place, out)
        with ReviewStore.open(out) as store:
            assert store.project("p").name == "p"
            assert store.queue("p", state="all")[0] == 89


def test_a_full_disk_or_a_kill_leaves_no_half_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.tsv"
    # What a kill leaves between the file and its first line.
    path.touch()
    keys.add(path, "ann")
    whole = path.read_bytes()
    for room in (len(whole), len(whole) + 1, len(whole) + 40):
        with room_for(room), pytest.raises(AlphitaError, match="cannot be written"):
            keys.add(path, "ben")
        assert path.read_bytes() == whole
    keys.add(path, "ben")
    assert [key.name for key in keys.load(path)] == ["ann", "ben"]
