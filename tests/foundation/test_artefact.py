from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import __version__, artefact
from alphita.errors import AlphitaError, InputError, UsageError


def make(target: Path, files: dict[str, bytes], kind: str = "terminology", force: bool = False, **fields: object):
    with artefact.create(target, kind, force=force) as draft:
        draft.fields.update(fields)
        for name, content in files.items():
            (draft.path / name).parent.mkdir(parents=True, exist_ok=True)
            (draft.path / name).write_bytes(content)
    return target


def create_with_fields(target: Path, **fields: object) -> None:
    with artefact.create(target, "terminology") as draft:
        draft.fields.update(fields)


def edit_manifest(target: Path, **changes: object) -> None:
    path = target / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_clean_exit_gives_the_files_and_their_manifest(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/alphita", "terminology", "import"])
    target = make(tmp_path / "deep" / "X.terminology", {"a.bin": b"abc", "sub/b.bin": b""}, sources=["HPO"], seed=3)
    assert sorted(p.name for p in target.iterdir()) == ["a.bin", "manifest.json", "sub"]
    assert [p.name for p in target.parent.iterdir()] == ["X.terminology"]
    manifest = artefact.open_manifest(target, "terminology")
    abc, empty = hashlib.sha256(b"abc").hexdigest(), hashlib.sha256(b"").hexdigest()
    assert manifest["files"] == {"a.bin": {"sha256": abc, "size": 3}, "sub/b.bin": {"sha256": empty, "size": 0}}
    assert manifest["content_hash"] == artefact.hash_json(
        {"files": {"a.bin": abc, "sub/b.bin": empty}, "format_version": 1, "kind": "terminology"}
    )
    assert (manifest["kind"], manifest["format_version"], manifest["alphita_version"]) == (
        "terminology",
        1,
        __version__,
    )
    assert (manifest["sources"], manifest["seed"]) == (["HPO"], 3)
    assert manifest["command"] == ["alphita", "terminology", "import"]
    assert artefact.verify(target, "terminology") == manifest


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), InputError("bad row")])
def test_an_exception_leaves_nothing_and_passes_through(tmp_path, error):
    def break_off() -> None:
        with artefact.create(tmp_path / "X", "model") as draft:
            (draft.path / "half").write_text("half")
            raise error

    with pytest.raises(type(error)) as caught:
        break_off()
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_an_existing_target_is_refused_and_kept(tmp_path):
    make(tmp_path / "X", {"a": b"1"})
    with pytest.raises(UsageError, match=r"X already exists; .* --force \(the old one is moved aside\)"):
        make(tmp_path / "X", {"a": b"2"})
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError):
        make(tmp_path / "file", {"a": b"2"})
    assert (tmp_path / "X" / "a").read_bytes() == b"1"
    assert (tmp_path / "file").read_text() == "mine"


def test_force_moves_the_old_ones_aside(tmp_path):
    for content in (b"1", b"2", b"3"):
        make(tmp_path / "X", {"a": content}, force=True)
    contents = {p.name: (p / "a").read_bytes() for p in tmp_path.iterdir()}
    assert contents == {"X": b"3", "X.old-1": b"1", "X.old-2": b"2"}
    assert artefact.verify(tmp_path / "X.old-1", "terminology")["files"]["a"]["size"] == 1


def test_a_rename_that_fails_puts_the_old_one_back(tmp_path, monkeypatch):
    make(tmp_path / "X", {"a": b"1"})
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".draft"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(AlphitaError, match=r"could not write .*X: Input/output error; nothing was changed"):
        make(tmp_path / "X", {"a": b"2"}, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["X"]
    assert (tmp_path / "X" / "a").read_bytes() == b"1"


def test_a_target_that_another_process_wrote_meanwhile_is_kept(tmp_path):
    with pytest.raises(UsageError, match="already exists"), artefact.create(tmp_path / "X", "terminology"):
        make(tmp_path / "X", {"a": b"first"})
    assert [p.name for p in tmp_path.iterdir()] == ["X"]
    assert (tmp_path / "X" / "a").read_bytes() == b"first"


def test_an_input_that_is_gone_is_named(tmp_path):
    with (
        pytest.raises(AlphitaError, match=r"could not write .*X: No such file or directory: .*gone\.txt; nothing"),
        artefact.create(tmp_path / "X", "model"),
    ):
        (tmp_path / "gone.txt").read_text()


@pytest.mark.parametrize("name", ["file/X", "n" * 300])
def test_an_impossible_place_is_an_error_for_the_user(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(AlphitaError, match="could not write"):
        make(tmp_path / name, {"a": b""})
    with pytest.raises(AlphitaError, match="could not write"), artefact.atomic_file(tmp_path / name) as file:
        file.write(b"")
    with pytest.raises(InputError):
        artefact.open_manifest(tmp_path / name, "index")


def test_the_manifests_own_fields_are_not_the_drafts(tmp_path):
    with pytest.raises(ValueError, match=r"\['files', 'kind'\]"):
        create_with_fields(tmp_path / "X", files={}, kind="index", seed=1)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_copied_along_is_replaced(tmp_path):
    make(tmp_path / "X", {"a": b"1", "manifest.json": b"{}", "model/manifest.json": b"{}"})
    assert sorted(artefact.verify(tmp_path / "X", "terminology")["files"]) == ["a", "model/manifest.json"]


def test_names_that_are_not_utf8_survive(tmp_path, monkeypatch):
    odd = os.fsdecode(b"\xff.csv")
    monkeypatch.setattr(sys, "argv", ["alphita", odd])
    manifest = artefact.verify(make(tmp_path / "X", {odd: b"1"}, source=odd, name="é"), "terminology")
    assert (manifest["command"][1], manifest["source"], manifest["name"], list(manifest["files"])) == (
        odd,
        odd,
        "é",
        [odd],
    )
    assert '"é"' in (tmp_path / "X" / "manifest.json").read_text(encoding="utf-8")


CONTENTS = st.dictionaries(st.sampled_from(["a", "b", "c", "s/a", "s/b"]), st.binary(max_size=8), max_size=5)


@settings(max_examples=25)
@given(CONTENTS, st.randoms(use_true_random=False))
def test_the_content_hash_is_of_the_content_alone(tmp_path_factory, files, random):
    folder = tmp_path_factory.mktemp("artefact")
    first = artefact.open_manifest(make(folder / "A", files, seed=1), "terminology")
    shuffled = list(files.items())
    random.shuffle(shuffled)
    before = sys.argv
    sys.argv = ["alphita", "other", "command"]
    try:
        make(folder / "B", dict(shuffled), seed=2)
    finally:
        sys.argv = before
    edit_manifest(folder / "B", created="1999-01-01T00:00:00+00:00")
    assert artefact.open_manifest(folder / "B", "terminology")["content_hash"] == first["content_hash"]


MAKE_IT = "; make it with: alphita terminology import …"
CHANGED = f"/manifest.json: the manifest was changed after it was written{MAKE_IT}"
NO_MANIFEST = f": not an alphita terminology: no readable manifest.json{MAKE_IT}"
A_FILE = {"sha256": "0" * 64, "size": 1}


@pytest.mark.parametrize(
    ("break_it", "kind", "said"),
    [
        (shutil.rmtree, "terminology", f": no such terminology{MAKE_IT}"),
        (lambda path: (path / "manifest.json").unlink(), "terminology", NO_MANIFEST),
        *(
            (lambda path, content=content: (path / "manifest.json").write_bytes(content), "terminology", NO_MANIFEST)
            for content in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"\x00", b"[]", b"{}", b"null")
        ),
        (
            lambda path: None,
            "index",
            ": this is a terminology, but an index is needed; "
            "make it with: alphita index --model … --terminology … -o …",
        ),
        *(
            (
                lambda path, version=version: edit_manifest(path, format_version=version),
                "terminology",
                f": format version {version} cannot be read by this alphita (it reads [1]); "
                "build it again: alphita terminology import …",
            )
            for version in (2, 0, "1", None, [1])
        ),
        (lambda path: (path / "s" / "b").unlink(), "terminology", f": file s/b is missing{MAKE_IT}"),
        (
            lambda path: (path / "a").write_bytes(b"1234"),
            "terminology",
            f": file a has 4 bytes, the manifest says 5{MAKE_IT}",
        ),
        (lambda path: edit_manifest(path, content_hash="0" * 64), "terminology", CHANGED),
        *(
            (lambda path, files=files: edit_manifest(path, files=files), "terminology", CHANGED)
            for files in ({}, {"a": A_FILE}, {"a": {}}, {"a": None}, [], None, "a", {"a": {"sha256": 1}})
        ),
    ],
)
def test_what_cannot_be_opened_says_why_and_what_to_do(tmp_path, break_it, kind, said):
    path = make(tmp_path / "X", {"a": b"12345", "s/b": b"2"})
    break_it(path)
    with pytest.raises(InputError) as caught:
        artefact.open_manifest(path, kind)
    assert str(caught.value) == f"{path}{said}"


@given(st.binary())
def test_bytes_are_written_whole(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("file") / "deep" / "x.bin"
    with artefact.atomic_file(path) as file:
        file.write(content)
        assert not path.exists()
    assert path.read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["x.bin"]


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_private_file_is_its_owners_only_from_the_start(tmp_path, private, mode):
    before = os.umask(0o022)
    try:
        with artefact.atomic_file(tmp_path / "x", private=private):
            (draft,) = tmp_path.iterdir()
            assert stat.S_IMODE(draft.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == mode


def test_a_private_file_replaces_one_that_others_could_read(tmp_path):
    (tmp_path / "x").write_text("old")
    (tmp_path / "x").chmod(0o644)
    with artefact.atomic_file(tmp_path / "x", "w", private=True) as file:
        file.write("new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    assert (tmp_path / "x").read_text() == "new"


@pytest.mark.parametrize("old", [None, "old"])
def test_an_exception_leaves_what_was_there(tmp_path, old):
    path = tmp_path / "x"
    if old is not None:
        path.write_text(old)

    def break_off() -> None:
        with artefact.atomic_file(path, "w") as file:
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
        artefact.atomic_file(tmp_path / "x", "w", force=False),
    ):
        pytest.fail("the block must not run")
    with pytest.raises(UsageError, match="already exists"), artefact.atomic_file(tmp_path / "y", "w", force=False):
        (tmp_path / "y").write_text("written meanwhile")
    assert (tmp_path / "x").read_text() == "old"
    assert (tmp_path / "y").read_text() == "written meanwhile"


def test_a_folder_in_the_way_is_told(tmp_path):
    (tmp_path / "x").mkdir()
    with (
        pytest.raises(AlphitaError, match=r"could not write .*x: Is a directory"),
        artefact.atomic_file(tmp_path / "x"),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
