from __future__ import annotations

import hashlib
import json
import os
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


def test_a_failed_force_leaves_the_old_one_in_its_place(tmp_path):
    make(tmp_path / "X", {"a": b"1"})
    with pytest.raises(RuntimeError), artefact.create(tmp_path / "X", "terminology", force=True):
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["X"]
    assert (tmp_path / "X" / "a").read_bytes() == b"1"


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


@settings(max_examples=25)
@given(CONTENTS, CONTENTS)
def test_other_content_has_another_hash(tmp_path_factory, one, other):
    folder = tmp_path_factory.mktemp("artefact")
    hashes = [
        artefact.open_manifest(make(folder / name, files), "terminology")["content_hash"]
        for name, files in (("A", one), ("B", other))
    ]
    assert (hashes[0] == hashes[1]) == (one == other)
    make(folder / "C", one, kind="index")
    assert artefact.open_manifest(folder / "C", "index")["content_hash"] != hashes[0]


def opening(path: Path, kind: str = "terminology") -> str:
    with pytest.raises(InputError) as caught:
        artefact.open_manifest(path, kind)
    return str(caught.value)


MAKE_IT = "; make it with: alphita terminology import …"


def test_what_is_not_there_names_the_command_that_makes_it(tmp_path):
    path = tmp_path / "X"
    assert opening(path) == f"{path}: no such terminology{MAKE_IT}"
    path.mkdir()
    assert opening(path) == f"{path}: not an alphita terminology: no readable manifest.json{MAKE_IT}"
    (tmp_path / "file").write_text("{}")
    assert opening(tmp_path / "file").startswith(f"{tmp_path / 'file'}: not an alphita terminology")


def test_another_kind_is_refused(tmp_path):
    path = make(tmp_path / "X", {"a": b"1"})
    assert opening(path, "index") == (
        f"{path}: this is a terminology, but an index is needed; "
        "make it with: alphita index --model … --terminology … -o …"
    )


@pytest.mark.parametrize("version", [2, 0, "1", None, [1]])
def test_another_format_version_is_refused(tmp_path, version):
    path = make(tmp_path / "X", {"a": b"1"})
    edit_manifest(path, format_version=version)
    assert opening(path) == (
        f"{path}: format version {version} cannot be read by this alphita (it reads [1]); "
        "build it again: alphita terminology import …"
    )


def test_a_missing_file_is_named(tmp_path):
    path = make(tmp_path / "X", {"a": b"1", "s/b": b"2"})
    (path / "s" / "b").unlink()
    assert opening(path) == f"{path}: file s/b is missing{MAKE_IT}"


def test_a_changed_size_is_named(tmp_path):
    path = make(tmp_path / "X", {"a": b"12345"})
    (path / "a").write_bytes(b"1234")
    assert opening(path) == f"{path}: file a has 4 bytes, the manifest says 5{MAKE_IT}"


@pytest.mark.parametrize(
    "files",
    [{}, {"a": {"sha256": "0" * 64, "size": 1}}, {"a": {}}, {"a": None}, [], None, "a", {"a": {"sha256": 1}}, "hash"],
)
def test_an_edited_manifest_is_noticed(tmp_path, files):
    path = make(tmp_path / "X", {"a": b"1"})
    edit_manifest(path, **{"content_hash": "0" * 64} if files == "hash" else {"files": files})
    assert opening(path) == f"{path / 'manifest.json'}: the manifest was changed after it was written{MAKE_IT}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "sha256", "size"]), inner),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["kind", "format_version", "files", "content_hash"]), JSON)
    | JSON
    | st.fixed_dictionaries({"kind": st.just("terminology"), "format_version": st.just(1), "files": JSON})
)
def test_no_manifest_makes_a_traceback(tmp_path_factory, manifest):
    path = tmp_path_factory.mktemp("artefact")
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError):
        artefact.open_manifest(path, "terminology")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"\x00"])
def test_a_damaged_manifest_is_an_error_for_the_user(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    assert "no readable manifest.json" in opening(tmp_path)


@settings(max_examples=25)
@given(st.binary(min_size=1, max_size=40), st.data())
def test_verify_finds_one_flipped_bit(tmp_path_factory, content, data):
    path = make(tmp_path_factory.mktemp("artefact") / "X", {"other": b"1", "a.npy": content})
    place = data.draw(st.integers(0, 8 * len(content) - 1))
    flipped = bytearray(content)
    flipped[place // 8] ^= 1 << place % 8
    (path / "a.npy").write_bytes(bytes(flipped))
    artefact.open_manifest(path, "terminology")  # The size is right, and that is all that is looked at.
    with pytest.raises(InputError) as caught:
        artefact.verify(path, "terminology")
    assert str(caught.value) == (
        f"{path}: the hash of a.npy is not the manifest's; it was changed or damaged; "
        "make it again: alphita terminology import …"
    )
