"""A head that is learned when an index is built: in its vectors, its model folder, its answers and its updates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from alphita.answer.calibration_store import ESTIMATED, FOLDER
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.fitting import held_out
from alphita.calibrate.held_out import LEAST
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.head import FILE, Head
from alphita.errors import InputError
from alphita.index import enrichment
from alphita.index.choice import Choice
from alphita.index.enrichment import Enrichment, lent_share, own_names
from alphita.index.external_names import Borrowed, shipped_lender
from alphita.index.learning import Learned, is_held_back
from alphita.index.segment import collect
from alphita.index.sources import enrichment_of, reusing, terminology_of
from alphita.index.store import Index, build
from alphita.terminology.store import load_terminology
from alphita.terminology.text import DEFAULT_RULES

TERMS = "id,term\nX:1,Headache\nX:1,Cephalgia\nX:2,Fever\nX:2,Pyrexia\nX:3,Cough\n"


@pytest.fixture(scope="module")
def encoder() -> TermEncoder:
    return TermEncoder.load("alphita-en")


@pytest.fixture(scope="module")
def head(encoder) -> Head:
    chance = np.random.default_rng(0)
    shapes = {"w1": (16, encoder.dim), "b1": (16,), "w2": (encoder.dim, 16), "b2": (encoder.dim,)}
    return Head(**{name: 0.3 * chance.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("head")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        (folder / "terms.csv").write_text(TERMS, encoding="utf-8")
        return terminology_of(folder / "terms.csv")


@pytest.fixture(scope="module")
def index(encoder, head, source, tmp_path_factory) -> Index:
    out = tmp_path_factory.mktemp("index") / "x.index"
    with pytest.MonkeyPatch.context() as patch:
        report = {"reason": "better", "strings": 5, "seconds": 1.0, "processor_seconds": 1.0}
        patch.setattr(enrichment, "learn", lambda *given, **options: Learned(head, report))
        return build(load_terminology(source), encoder, out, enrichment=Enrichment(None, None, "seconds"))


def test_the_vectors_are_the_heads(index, encoder, head):
    expected = head(encoder.encode(list(index.strings)))
    np.testing.assert_allclose(index.vectors, expected, atol=1e-6)
    assert (index.model_path / FILE).is_file()
    assert index.manifest["head"] == {"reason": "better", "strings": 5}


def test_the_index_answers_with_it(index, encoder, head):
    loaded = TermEncoder.load(index.model_path)
    assert loaded.content_hash == index.manifest["model_hash"] != index.base_model_hash == encoder.content_hash
    assert loaded.base_hash == encoder.content_hash
    np.testing.assert_allclose(loaded.encode(["sore head"]), head(encoder.encode(["sore head"])), atol=1e-6)
    index.check_encoder(loaded)
    with pytest.raises(InputError, match="does not belong to this index"):
        index.check_encoder(encoder)


def test_the_general_calibration_is_for_it_too(index):
    normalizer = Normalizer(index)
    assert (index.model_path / FOLDER).is_dir()
    assert normalizer.assurance == ESTIMATED
    (result,) = normalizer.normalize(["headache"])
    assert (result.concept_id, result.decision) == ("X:1", "accept")


def test_an_update_keeps_the_head_and_so_the_vectors(index, source, tmp_path):
    own = TermEncoder.load(index.model_path)
    again = build(
        load_terminology(source),
        own,
        tmp_path / "new.index",
        blocks=reusing(index, own),
        enrichment=Enrichment(None, None, "seconds"),
    )
    assert again.vectors.tobytes() == index.vectors.tobytes()
    assert again.manifest["head"] == {"reason": "the one of the index that was updated"}


def test_too_few_synonyms_are_said_and_the_rest_works(encoder, source, tmp_path):
    index = build(
        load_terminology(source), encoder, tmp_path / "x.index", enrichment=enrichment_of(Choice(borrow=False))
    )
    assert "two names to learn from: 2" in index.manifest["head"]["reason"]
    assert index.manifest["model_hash"] == index.base_model_hash
    assert not (index.model_path / FILE).exists()


def test_a_damaged_head_is_told(index, tmp_path):
    import shutil

    copy = tmp_path / "model"
    shutil.copytree(index.model_path, copy)
    (copy / FILE).write_bytes((copy / FILE).read_bytes()[:100])
    with pytest.raises(InputError, match="damaged head"):
        TermEncoder.load(copy)


def test_own_names_are_the_exact_ones_that_the_terminology_has(source):
    content = collect(load_terminology(source), DEFAULT_RULES, frozenset())
    own, strings = own_names(content), content.strings.to_pylist()
    assert [strings[row] for row in own.string[own.preferred]] == ["cough", "fever", "headache"]
    assert {strings[row] for row in own.string} == {"cephalgia", "cough", "fever", "headache", "pyrexia"}


def test_what_is_calibrated_on_is_what_the_head_was_not_taught(index, monkeypatch):
    from alphita.calibrate import held_out as module

    drawn = [f"name {number}" for number in range(20 * LEAST)]
    monkeypatch.setattr(module.examples, "own_synonyms", lambda *_, **__: (drawn, np.zeros(len(drawn), np.int64)))
    known = held_out(index, None, 0)
    assert set(known.strings) == {one for one, held in zip(drawn, is_held_back(drawn), strict=True) if held}
    assert "head was not taught" in known.origin


def test_the_list_knows_how_often_a_lent_short_form_is_meant(source):
    content = collect(load_terminology(source), DEFAULT_RULES, frozenset())
    listed = pl.DataFrame(
        [("CLL", "chronic lymphocytic leukemia", 1.0, "en", None), ("HA", "Kopfschmerz", 0.9, "de", "headache")],
        ["short", "long", "share", "language", "english"],
        orient="row",
    ).with_columns(pl.col("share").cast(pl.Float32))
    lent = [("cll", "Chronic lymphocytic leukemia", "x"), ("HA", "Headache", "x"), ("PUO", "fever", "x")]
    found = enrichment._short_forms(content, listed, Borrowed(pl.DataFrame(), lent, {}), DEFAULT_RULES).to_pylist()
    assert {(row["short"], row["long"].lower(), round(row["share"], 2), row["source"]) for row in found} == {
        ("CLL", "chronic lymphocytic leukemia", 1.0, "list"),
        ("HA", "kopfschmerz", 0.9, "list"),
        ("HA", "headache", 0.9, "list"),
        ("PUO", "fever", round(lent_share("PUO"), 2), "x"),
    }


def test_a_longer_short_form_that_is_lent_has_fewer_other_meanings():
    shares = [lent_share(short) for short in ("a", "DM", "D.M.", "FSGS", "EICAR", "type 1 DM")]
    assert shares == sorted(shares)
    assert shares[1] == shares[2] < 0.2 < 0.7 < shares[-1] <= 1


def test_what_another_vocabulary_names_and_this_one_lacks_is_no_concept_of_it(encoder, source, tmp_path):
    def asked(index: Index) -> tuple[str | None, str]:
        (result,) = Normalizer(index, encoder=encoder).normalize(["Appendectomy"], explain=True)
        return result.concept_id, result.explanation.answer

    terminology = load_terminology(source)
    borrowing = build(terminology, encoder, tmp_path / "a.index", enrichment=Enrichment(shipped_lender(), None, "no"))
    assert borrowing.manifest["elsewhere"] == len(borrowing.segment.elsewhere) > 100_000
    assert asked(borrowing)[0] is None
    assert asked(borrowing)[1].startswith("NIL: a name that other vocabularies have")
    bare = build(terminology, encoder, tmp_path / "b.index", enrichment=Enrichment(None, None, "no"))
    assert not len(bare.segment.elsewhere)
    assert not asked(bare)[1].startswith("NIL: a name that other vocabularies have")
