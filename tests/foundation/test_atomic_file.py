from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.artefact import atomic_file
from alphita.errors import AlphitaError, UsageError


@given(st.binary())
def test_bytes_are_written_whole(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("file") / "deep" / "x.bin"
    with atomic_file(path) as file:
        file.write(content)
        assert not path.exists()
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["x.bin"]


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_private_file_is_its_owners_only_from_the_start(tmp_path, private, mode):
    before = os.umask(0o022)
    try:
        with atomic_file(tmp_path / "x", private=private):
            (draft,) = tmp_path.iterdir()
            assert stat.S_IMODE(draft.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == mode


def test_a_private_file_replaces_one_that_others_could_read(tmp_path):
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o644)
    with atomic_file(tmp_path / "x", "w", private=True) as file:
        file.write("new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    assert (tmp_path / "x").read_text() == "new"


@pytest.mark.parametrize("old", [None, "old"])
def test_an_exception_leaves_what_was_there(tmp_path, old):
    path = tmp_path / "x"
    if old is not None:
        path.write_text(old)

    def break_off() -> None:
        with atomic_file(path, "w") as file:
            file.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert [p.name for p in tmp_path.iterdir()] == ([] if old is None else ["x"])
    assert old is None or path.read_text() == old


def test_without_force_an_existing_file_is_kept(tmp_path):
    (tmp_path / "x").write_text("old")
    with (
        pytest.raises(UsageError, match=r"x already exists; choose another name or use --force$"),
        atomic_file(tmp_path / "x", "w", force=False),
    ):
        pytest.fail("the block must not run")
    with pytest.raises(UsageError, match="already exists"), atomic_file(tmp_path / "y", "w", force=False):
        (tmp_path / "y").write_text("written meanwhile")
    assert (tmp_path / "x").read_text() == "old"
    assert (tmp_path / "y").read_text() == "written meanwhile"


def test_a_folder_in_the_way_is_an_error_for_the_user(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(AlphitaError, match=r"could not write .*x: Is a directory"), atomic_file(tmp_path / "x"):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
