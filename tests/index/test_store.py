"""Building, updating and opening an index, and what is said of a damaged one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index import encoding, sources
from alphita.index.choice import Building
from alphita.index.segment import Segment
from alphita.index.store import Index, build
from alphita.terminology.text import DEFAULT_RULES
from tests.doubles import ROWS, HashEncoder, SmallTerminology, small_terminology


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Index:
    return build(small_terminology(), HashEncoder(), tmp_path_factory.mktemp("store") / "small.index")


@pytest.fixture
def index(built, tmp_path) -> Index:
    """A copy that a test may change."""
    shutil.copytree(built.path, tmp_path / "small.index")
    return Index.open(tmp_path / "small.index")


def make(path, encoder: HashEncoder | None = None, terminology: SmallTerminology | None = None, **options) -> Index:
    how = Building(**{name: options.pop(name) for name in ("backend", "half", "letters", "rules") if name in options})
    return build(terminology or small_terminology(), encoder or HashEncoder(), path, how=how, **options)


def terms_of(index: Index, string: str) -> list[tuple[str, str]]:
    row = int(index.rows([string])[0])
    start, end = index.segment.offsets[row : row + 2]
    terms = index.segment.terms.slice(start, end - start).to_pylist()
    ids = index.segment.concepts.column("id").to_pylist()
    return [(ids[term["concept"]], term["string"]) for term in terms]


def test_one_vector_per_distinct_cleaned_string_of_live_concepts(built):
    index = built
    strings = list(index.strings)
    assert strings == sorted(strings)
    assert "cold" in strings
    assert "obsolete thing" not in strings
    assert len(strings) == 12  # 15 terms, one retired, "cold" three times
    assert index.vectors.shape == (12, 64)
    assert isinstance(index.vectors.base, np.memmap)
    np.testing.assert_allclose(index.vectors, HashEncoder().encode(strings), atol=1e-6)
    assert index.manifest["counts"] == {"strings": 12, "terms": 14, "concepts": 7}
    # A string keeps all its concepts, the best first.
    assert terms_of(index, "cold") == [("T:3", "Cold"), ("T:5", "COLD"), ("T:4", "Cold")]
    assert terms_of(index, "fits") == [("T:1", "Fits")]
    names = dict(zip(*(index.segment.concepts.column(c).to_pylist() for c in ("id", "name")), strict=True))
    assert names["T:5"] == "Chronic obstructive lung disease"
    assert "T:6" not in names
    manifest = index.manifest
    assert (manifest["backend"], manifest["cleaning_rules"]) == ("faiss", list(DEFAULT_RULES))
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


def test_an_index_knows_what_its_encoder_was_trained_on(built, tmp_path):
    assert built.manifest["trained"] is None
    folder = tmp_path / "model"
    folder.mkdir()
    known = {"recipe": "coder", "terminology": "t" * 64, "split": "s" * 64}
    lacking = {"recipe": "coder", "terminology": None, "split": None}
    for number, (record, trained) in enumerate(
        [
            ({**known, "seed": 0}, known),
            ({"recipe": "coder"}, lacking),
            ({**known, "config": {"hold_back": True}}, known | {"held_back": True}),
            ({**known, "config": {"hold_back": False}}, known),
        ]
    ):
        (folder / "training.json").write_text(json.dumps(record))
        first = make(tmp_path / f"{number}.index", TrainedEncoder(folder))
        # The copy inside the index says so too: an index built with the encoder of another one knows it.
        second = make(tmp_path / f"{number}.again.index", TrainedEncoder(first.model_path))
        for index in (first, second):
            assert Index.open(index.path).manifest["trained"] == trained
            assert json.loads((index.model_path / "training.json").read_text()) == record


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_damaged_record_of_training_is_refused(tmp_path, content):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "training.json").write_bytes(content)
    with pytest.raises(InputError, match=r"training\.json: damaged record of training.*train the model again"):
        make(tmp_path / "x.index", TrainedEncoder(folder))
    assert not (tmp_path / "x.index").exists()


def test_the_same_parts_give_the_same_index(built, tmp_path):
    assert make(tmp_path / "again.index").content_hash == built.content_hash
    assert make(tmp_path / "other.index", HashEncoder(seed=1)).content_hash != built.content_hash
    index = make(tmp_path / "x.index", exclude=frozenset({"cephalgia", "cold"}))
    assert index.rows(["cephalgia", "cold", "headache"]).tolist() == [-1, -1, list(index.strings).index("headache")]
    assert (index.manifest["excluded"]["strings"], len(index)) == (2, 10)


@pytest.mark.parametrize("backend", ["exact", "faiss"])
def test_search_finds_a_string_by_its_vector(tmp_path, backend):
    index = make(tmp_path / "x.index", backend=backend)
    similarity, rows = index.search(3.0 * np.array(index.vectors), 2)  # any length: cosines are compared
    assert rows[:, 0].tolist() == list(range(12))
    np.testing.assert_allclose(similarity[:, 0], 1.0, atol=1e-6)


def test_letters_are_stored_unless_left_out(built, tmp_path):
    index = built
    assert index.manifest["letters"]["scheme"].startswith("3-grams")
    assert len(index.ngrams) == len(index)
    similarity, rows = index.ngrams.search(index.ngrams.vectorize(["cephalgai"]), 1)
    assert index.strings[rows[0, 0]] == "cephalgia"
    assert 0.5 < similarity[0, 0] < 1
    bare = make(tmp_path / "bare.index", letters=False)
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
    index = make(tmp_path / "x.index", encoder, many_terms(), backend="ivf_pq")
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
    index = make(tmp_path / "x.index", HashEncoder(dim=32), many_terms(), backend=backend)
    asked = np.array(index.vectors[::50]) + 0.01
    np.save(tmp_path / "asked.npy", asked)
    code = (
        "import sys, numpy as np; from alphita.index.store import Index; folder = sys.argv[1]\n"
        "np.save(folder + '/near.npy', Index.open(folder + '/x.index').search(np.load(folder + '/asked.npy'), 5)[0])"
    )
    less = {"FAISS_OPT_LEVEL": "generic", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=os.environ | less)
    np.testing.assert_allclose(np.load(tmp_path / "near.npy"), index.search(asked, 5)[0], atol=1e-5)


def test_an_approximate_backend_that_misses_leaves_nothing_or_all_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("alphita.index.backends.ivf_pq.STEPS", [{"nprobe": 1, "scored_again": 1}])
    with pytest.raises(InputError, match=r"finds the nearest string for only .*--backend faiss"):
        make(tmp_path / "x.index", HashEncoder(dim=32), many_terms(), backend="ivf_pq")
    assert list(tmp_path.iterdir()) == []
    # Where it was not asked for.
    monkeypatch.setattr("alphita.index.backends.FLAT_UP_TO", 100)
    index = make(tmp_path / "x.index", HashEncoder(dim=32), many_terms())
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
        make(index.path)
    make(index.path, HashEncoder(seed=5), force=True)
    assert Index.open(tmp_path / "small.index.old-1").content_hash == index.content_hash
    assert Index.open(index.path).content_hash != index.content_hash


class Broken(HashEncoder):
    def encode(self, strings):
        return np.where(np.arange(len(strings))[:, None] == 1, np.nan, super().encode(strings))


class Narrow(HashEncoder):
    def encode(self, strings):
        return super().encode(strings)[:, :10]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"terminology": SmallTerminology([("T:1", "x", "exact")], retired=["T:1"])}, "no terms of live concepts"),
        ({"encoder": Broken()}, r"a vector that is not finite.*is the model whole"),
        ({"encoder": Narrow()}, r"shape \(12, 10\) for 12 strings"),
        ({"backend": "exakt"}, "did you mean 'exact'"),
        ({"rules": ["shout"]}, "unknown cleaning rule 'shout'"),
    ],
)
def test_what_cannot_be_built_leaves_nothing(tmp_path, options, problem):
    with pytest.raises(AlphitaError, match=problem):
        make(tmp_path / "x.index", **options)
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_of_another_dimension_or_content_is_refused(built):
    index = built
    with pytest.raises(InputError, match=r"its dimension is 32, the index was built with 64.*alphita index --model"):
        index.check_encoder(HashEncoder(dim=32))
    with pytest.raises(InputError, match="its model hash is"):
        index.check_encoder(HashEncoder(seed=9))
    index.check_encoder(HashEncoder())


def damage(path, change):
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["vectors.npy", "terms.arrow"])
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


def test_what_is_no_index(built, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"no such index; make it with: alphita index"):
        Index.open(tmp_path / "none.index")
    (tmp_path / "empty.index").mkdir()
    with pytest.raises(InputError, match="not an alphita index"):
        Index.open(tmp_path / "empty.index")
    monkeypatch.setattr("alphita.index.store.CLEANING_VERSION", 999)
    with pytest.raises(InputError, match="cleaning rules have changed since"):
        Index.open(built.path)


def test_nothing_is_ever_unpickled(index):
    # A pickled array of the right size and hash would still be refused.
    np.save(index.path / "segments/000/vectors.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="damaged index segment"):
        Segment(index.path / "segments/000")


# Made from an earlier one.

NEW = [("T:9", "Brand new", "exact"), ("T:1", "Falling sickness of old", "exact")]


@pytest.mark.parametrize("block", [encoding.STRINGS_A_BLOCK, 5, 1])
def test_only_new_strings_are_encoded_and_the_index_is_that_of_a_fresh_build(built, tmp_path, monkeypatch, block):
    monkeypatch.setattr(sources, "STRINGS_A_BLOCK", block)
    encoder = HashEncoder()
    # Two strings more, and without the second.
    following = SmallTerminology([*ROWS[:1], *ROWS[2:], *NEW], retired=["T:6"])
    blocks = sources.reusing(built, encoder)
    new = make(tmp_path / "new.index", encoder, following, backend="exact", blocks=blocks)
    assert encoder.encoded == ["brand new", "falling sickness of old"]
    fresh = make(tmp_path / "fresh.index", terminology=following, backend="exact")
    assert list(new.strings) == list(fresh.strings)
    assert new.vectors.tobytes() == fresh.vectors.tobytes()
    assert new.manifest["content_hash"] == fresh.manifest["content_hash"]
    with pytest.raises(InputError, match=r"its model hash is .* leave --update out"):
        sources.reusing(built, HashEncoder(seed=1))


def test_what_was_excluded_before_is_encoded_now_and_half_precision_makes_no_full_one(tmp_path):
    encoder = HashEncoder()
    old = make(tmp_path / "old.index", exclude=frozenset({"cephalgia"}))
    new = make(tmp_path / "new.index", encoder, blocks=sources.reusing(old, encoder))
    assert encoder.encoded[:1] == ["cephalgia"]
    np.testing.assert_allclose(new.vectors, HashEncoder().encode(list(new.strings)), atol=1e-6)
    half, encoder = make(tmp_path / "half.index", half=True), HashEncoder()
    with pytest.raises(UsageError, match="half precision; give --half too"):
        sources.reusing(half, HashEncoder())
    again = make(tmp_path / "again.index", encoder, half=True, blocks=sources.reusing(half, encoder, half=True))
    assert again.vectors.tobytes() == half.vectors.tobytes()
    assert encoder.encoded == []
