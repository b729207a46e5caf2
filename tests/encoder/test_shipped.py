"""The models that come with Alphita: int8 of the weights in half precision that lie beside them."""

from __future__ import annotations

import importlib.util
import json
import shutil
from fnmatch import fnmatch

import huggingface_hub
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from alphita import TermEncoder
from alphita.encoder import learned
from alphita.encoder.resolve import SHIPPED, resolve
from alphita.errors import InputError

from .conftest import REAL_TERMS as TERMS


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


def test_it_says_what_the_weights_learned(shipped, whole) -> None:
    names = ["seizure", "myocardial infarction", "no name of anything 77"]
    assert learned.has_learned(shipped.folder, names).tolist() == [True, True, False]
    assert (shipped.folder / learned.FILE).read_bytes() == (whole.folder / learned.FILE).read_bytes()


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


def test_its_card_gives_licence_and_languages(name) -> None:
    for folder in (name, f"{name}-fp16"):
        card = (resolve(folder) / "README.md").read_text(encoding="utf-8")
        head = card.split("---")[1]
        assert "license: " in head
        assert "language: " in head
        assert "library_name: sentence-transformers" in head
        assert "pipeline_tag: sentence-similarity" in head
        assert (resolve(folder) / "LICENSE").is_file()


def test_it_is_small_and_has_its_calibration(shipped) -> None:
    files = [file for file in shipped.folder.rglob("*") if file.is_file()]
    assert max(file.stat().st_size for file in files) < 50 * 10**6
    assert json.loads((shipped.folder / "calibration" / "manifest.json").read_text())["general"] is True


def test_the_shipped_model_is_saved_as_it_is(shipped, tmp_path):
    shipped.save(tmp_path / "copy")
    copy = TermEncoder.load(tmp_path / "copy")
    assert (copy.precision, copy.content_hash) == ("int8", shipped.content_hash)
    np.testing.assert_array_equal(copy.encode(TERMS), shipped.encode(TERMS))
    assert copy.module is not None


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


def test_a_model_in_int8_alone_of_unknown_weights_cannot_be_trained(shipped, tmp_path):
    shipped.save(tmp_path / "copy")
    settings = tmp_path / "copy" / "alphita.json"
    facts = json.loads(settings.read_text())
    settings.write_text(json.dumps(facts | {"full_precision": None}))
    with pytest.raises(InputError, match="int8 alone"):
        TermEncoder.load(tmp_path / "copy", precision="fp32")
