"""Building and opening an index, and what is said of a damaged one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.choice import Building
from alphita.index.store import Index, build
from alphita.terminology.text import DEFAULT_RULES
from tests.doubles import HashEncoder, SmallTerminology, small_terminology


@pytest.fixture
def index(tmp_path) -> Index:
    return build(small_terminology(), HashEncoder(), tmp_path / "small.index")


def terms_of(index: Index, string: str) -> list[tuple[str, str]]:
    row = int(index.rows([string])[0])
    start, end = index.segment.offsets[row : row + 2]
    terms = index.segment.terms.slice(start, end - start).to_pylist()
    ids = index.segment.concepts.column("id").to_pylist()
    return [(ids[term["concept"]], term["string"]) for term in terms]


def test_one_vector_per_distinct_cleaned_string_of_live_concepts(index):
    strings = list(index.strings)
    assert strings == sorted(strings)
    assert "cold" in strings
    assert "obsolete thing" not in strings
    assert len(strings) == 12  # 15 terms, one retired, "cold" three times
    assert index.vectors.shape == (12, 64)
    assert isinstance(index.vectors.base, np.memmap)
    np.testing.assert_allclose(index.vectors, HashEncoder().encode(strings), atol=1e-6)
    assert index.manifest["counts"] == {"strings": 12, "terms": 14, "concepts": 7}


def test_a_string_keeps_all_its_concepts_best_first(index):
    assert terms_of(index, "cold") == [("T:3", "Cold"), ("T:5", "COLD"), ("T:4", "Cold")]
    assert terms_of(index, "fits") == [("T:1", "Fits")]
    names = dict(zip(*(index.segment.concepts.column(c).to_pylist() for c in ("id", "name")), strict=True))
    assert names["T:5"] == "Chronic obstructive lung disease"
    assert "T:6" not in names


def test_manifest_says_what_the_index_was_built_from(index):
    manifest = index.manifest
    assert manifest["backend"] == "faiss"
    assert manifest["cleaning_rules"] == list(DEFAULT_RULES)
    assert manifest["terminology_hash"] == small_terminology().content_hash
    assert manifest["model_hash"] == HashEncoder().content_hash
    assert manifest["tokenizer_hash"] == HashEncoder().tokenizer_hash
    assert manifest["sources"][0]["licence"] == "CC0"
    assert (index.model_path / "config.json").exists()


class TrainedEncoder(HashEncoder):
    """An encoder that was loaded from a folder, as `TermEncoder` is."""

    def __init__(self, folder) -> None:
        super().__init__()
        self.folder = folder


def test_an_index_knows_what_its_encoder_was_trained_on(index, tmp_path):
    assert index.manifest["trained"] is None
    record = {"recipe": "coder", "seed": 0, "terminology": "t" * 64, "split": "s" * 64}
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "training.json").write_text(json.dumps(record))
    first = build(small_terminology(), TrainedEncoder(folder), tmp_path / "first.index")
    # The copy inside the index says so too: an index built with the encoder of another one knows it.
    second = build(small_terminology(), TrainedEncoder(first.model_path), tmp_path / "second.index")
    for one in (first, second):
        assert Index.open(one.path).manifest["trained"] == {
            "recipe": "coder",
            "terminology": "t" * 64,
            "split": "s" * 64,
        }
        assert json.loads((one.model_path / "training.json").read_text()) == record
    (folder / "training.json").write_text(json.dumps({"recipe": "coder"}))
    found = build(small_terminology(), TrainedEncoder(folder), tmp_path / "third.index").manifest["trained"]
    assert found == {"recipe": "coder", "terminology": None, "split": None}
    for hold_back, said in ((True, {"held_back": True}), (False, {})):
        (folder / "training.json").write_text(json.dumps({**record, "config": {"hold_back": hold_back}}))
        made = build(small_terminology(), TrainedEncoder(folder), tmp_path / f"{hold_back}.index")
        assert made.manifest["trained"] == {"recipe": "coder", "terminology": "t" * 64, "split": "s" * 64, **said}


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_damaged_record_of_training_is_refused(tmp_path, content):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "training.json").write_bytes(content)
    with pytest.raises(InputError, match=r"training\.json: damaged record of training.*train the model again"):
        build(small_terminology(), TrainedEncoder(folder), tmp_path / "x.index")
    assert not (tmp_path / "x.index").exists()


def test_the_same_parts_give_the_same_index(index, tmp_path):
    again = build(small_terminology(), HashEncoder(), tmp_path / "again.index")
    assert again.content_hash == index.content_hash
    other = build(small_terminology(), HashEncoder(seed=1), tmp_path / "other.index")
    assert other.content_hash != index.content_hash


def test_excluded_strings_are_left_out(tmp_path):
    index = build(small_terminology(), HashEncoder(), tmp_path / "x.index", exclude=frozenset({"cephalgia", "cold"}))
    assert index.rows(["cephalgia", "cold", "headache"]).tolist() == [-1, -1, list(index.strings).index("headache")]
    assert index.manifest["excluded"]["strings"] == 2
    assert len(index) == 10


@pytest.mark.parametrize("backend", ["exact", "faiss"])
def test_search_finds_a_string_by_its_vector(tmp_path, backend):
    index = build(small_terminology(), HashEncoder(), tmp_path / "x.index", how=Building(backend=backend))
    similarity, rows = index.search(3.0 * np.array(index.vectors), 2)  # any length: cosines are compared
    assert rows[:, 0].tolist() == list(range(12))
    np.testing.assert_allclose(similarity[:, 0], 1.0, atol=1e-6)


def test_letters_are_stored_unless_left_out(index, tmp_path):
    assert index.manifest["letters"]["scheme"].startswith("3-grams")
    assert len(index.ngrams) == len(index)
    similarity, rows = index.ngrams.search(index.ngrams.vectorize(["cephalgai"]), 1)
    assert index.strings[rows[0, 0]] == "cephalgia"
    assert 0.5 < similarity[0, 0] < 1
    bare = build(small_terminology(), HashEncoder(), tmp_path / "bare.index", how=Building(letters=False))
    assert bare.ngrams is None
    assert bare.manifest["letters"] is None
    assert not (bare.path / "segments/000/ngrams").exists()


def many_terms() -> SmallTerminology:
    parts = ["heart", "liver", "kidney", "lung", "brain", "skin", "bone", "eye", "ear", "hand", "foot", "knee"]
    kinds = ["pain", "failure", "tumor", "injury", "infection", "ulcer", "defect", "edema", "cyst", "fracture"]
    rows = [
        f"{kind} of {one} and {other} grade {n}" for kind in kinds for one in parts for other in parts for n in range(4)
    ]
    return SmallTerminology([(f"T:{number}", string, "exact") for number, string in enumerate(rows)])


def test_an_approximate_backend_is_measured_and_stands_in_the_manifest(tmp_path):
    encoder = HashEncoder(dim=32)
    index = build(many_terms(), encoder, tmp_path / "x.index", how=Building(backend="ivf_pq"))
    search = index.manifest["search"]
    assert search["recall_at_1"] >= 0.99
    assert search["probes"] == 1000
    assert "segments/000/ivf_pq.faiss" in index.manifest["files"]
    # Strings that are not indexed were encoded to measure with, beside each indexed one once.
    assert len(encoder.encoded) == len(index) + 1000
    opened = Index.open(index.path)
    similarity, _ = opened.search(np.array(opened.vectors[::50]), 1)
    np.testing.assert_allclose(similarity, 1.0, atol=1e-5)
    other = Index.open(index.path, backend="faiss")
    np.testing.assert_allclose(other.search(np.array(opened.vectors[::50]), 1)[0], 1.0, atol=1e-5)
    with pytest.raises(UsageError, match="not built for hnsw"):
        Index.open(index.path, backend="hnsw")


@pytest.mark.parametrize("backend", ["ivf_pq", "faiss"])
def test_an_index_is_searched_alike_by_a_processor_with_fewer_instructions(tmp_path, backend):
    index = build(many_terms(), HashEncoder(dim=32), tmp_path / "x.index", how=Building(backend=backend))
    asked = np.array(index.vectors[::50]) + 0.01
    np.save(tmp_path / "asked.npy", asked)
    code = (
        "import sys, numpy as np; from alphita.index.store import Index; folder = sys.argv[1]\n"
        "np.save(folder + '/near.npy', Index.open(folder + '/x.index').search(np.load(folder + '/asked.npy'), 5)[0])"
    )
    less = {"FAISS_OPT_LEVEL": "generic", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=os.environ | less)
    np.testing.assert_allclose(np.load(tmp_path / "near.npy"), index.search(asked, 5)[0], atol=1e-5)


def test_an_approximate_backend_that_misses_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("alphita.index.backends.ivf_pq.STEPS", [{"nprobe": 1, "scored_again": 1}])
    with pytest.raises(InputError, match=r"finds the nearest string for only .*--backend faiss"):
        build(many_terms(), HashEncoder(dim=32), tmp_path / "x.index", how=Building(backend="ivf_pq"))
    assert list(tmp_path.iterdir()) == []


def test_where_an_approximate_search_that_was_not_asked_for_misses_all_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("alphita.index.backends.ivf_pq.STEPS", [{"nprobe": 1, "scored_again": 1}])
    monkeypatch.setattr("alphita.index.backends.FLAT_UP_TO", 100)
    index = build(many_terms(), HashEncoder(dim=32), tmp_path / "x.index")
    assert (index.manifest["backend"], index.manifest["search"]) == ("faiss", {})
    assert not list(index.path.rglob("*.faiss"))
    assert "so all are compared" in capsys.readouterr().err


def test_an_index_without_search_and_letters_in_its_manifest_opens(index):
    manifest = {name: value for name, value in index.manifest.items() if name not in ("search", "letters")}
    shutil.rmtree(index.path / "segments/000/ngrams")
    opened = Index(index.path, manifest, index.segment, "faiss")
    assert opened.ngrams is None
    assert opened.search(np.array(opened.vectors[:2]), 1)[1][:, 0].tolist() == [0, 1]


def test_an_existing_index_is_kept_unless_forced(index, tmp_path):
    with pytest.raises(UsageError, match="already exists"):
        build(small_terminology(), HashEncoder(), index.path)
    build(small_terminology(), HashEncoder(seed=5), index.path, force=True)
    assert Index.open(tmp_path / "small.index.old-1").content_hash == index.content_hash
    assert Index.open(index.path).content_hash != index.content_hash


def test_nothing_to_index_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="no terms of live concepts are left"):
        build(SmallTerminology([("T:1", "x", "exact")], retired=["T:1"]), HashEncoder(), tmp_path / "x.index")
    assert list(tmp_path.iterdir()) == []


def test_vectors_that_are_not_finite_are_refused(tmp_path):
    class Broken(HashEncoder):
        def encode(self, strings):
            return np.where(np.arange(len(strings))[:, None] == 1, np.nan, super().encode(strings))

    with pytest.raises(InputError, match=r"a vector that is not finite.*is the model whole"):
        build(small_terminology(), Broken(), tmp_path / "x.index")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_of_the_wrong_shape_is_refused(tmp_path):
    class Narrow(HashEncoder):
        def encode(self, strings):
            return super().encode(strings)[:, :10]

    with pytest.raises(AlphitaError, match=r"shape \(12, 10\) for 12 strings"):
        build(small_terminology(), Narrow(), tmp_path / "x.index")


def test_unknown_backend_and_rule(tmp_path):
    with pytest.raises(UsageError, match="did you mean 'exact'"):
        build(small_terminology(), HashEncoder(), tmp_path / "x", how=Building(backend="exakt"))
    with pytest.raises(UsageError, match="unknown cleaning rule 'shout'"):
        build(small_terminology(), HashEncoder(), tmp_path / "x", how=Building(rules=["shout"]))


def test_an_encoder_of_another_dimension_or_content_is_refused(index):
    with pytest.raises(InputError, match=r"its dimension is 32, the index was built with 64.*alphita index --model"):
        index.check_encoder(HashEncoder(dim=32))
    with pytest.raises(InputError, match="its model hash is"):
        index.check_encoder(HashEncoder(seed=9))
    index.check_encoder(HashEncoder())


def damage(path, change):
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["vectors.npy", "terms.arrow", "strings.arrow", "offsets.npy", "standing.npy"])
def test_a_changed_byte_is_noticed(index, name):
    def flip(content):
        content[-1] ^= 1

    damage(index.path / "segments/000" / name, flip)
    with pytest.raises(InputError, match=rf"the hash of segments/000/{name} is not the manifest's.*alphita index"):
        Index.open(index.path)


def test_a_cut_or_missing_file_is_noticed(index):
    damage(index.path / "segments/000/vectors.npy", lambda content: content.pop())
    with pytest.raises(InputError, match=r"file segments/000/vectors.npy has \d+ bytes, the manifest says \d+"):
        Index.open(index.path, verify=False)
    (index.path / "segments/000/vectors.npy").unlink()
    with pytest.raises(InputError, match=r"file segments/000/vectors.npy is missing"):
        Index.open(index.path)


@pytest.mark.parametrize(
    ("field", "value"), [("terminology_hash", "0" * 64), ("model_hash", "0" * 64), ("dim", 63), ("backend", "exact")]
)
def test_a_changed_manifest_is_noticed(index, field, value):
    path = index.path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(InputError, match=rf"manifest is not the one.*{field}.*alphita index --model"):
        Index.open(index.path)


def test_rules_that_have_changed_since_are_noticed(index, monkeypatch):
    monkeypatch.setattr("alphita.index.store.CLEANING_VERSION", 999)
    with pytest.raises(InputError, match="cleaning rules have changed since"):
        Index.open(index.path)


def test_what_is_no_index(tmp_path):
    with pytest.raises(InputError, match=r"no such index; make it with: alphita index"):
        Index.open(tmp_path / "none.index")
    (tmp_path / "empty.index").mkdir()
    with pytest.raises(InputError, match="not an alphita index"):
        Index.open(tmp_path / "empty.index")


def test_nothing_is_ever_unpickled(index):
    # A pickled array of the right size and hash would still be refused.
    np.save(index.path / "segments/000/vectors.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    from alphita.index.segment import Segment

    with pytest.raises(InputError, match="damaged index segment"):
        Segment(index.path / "segments/000")
