from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita.terminology import splits, store
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split, assign, hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, clean_many

N = 400


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    """N concepts of three names; every tenth has one name only, every seventh shares a synonym with its neighbour."""
    rows = []
    for number in range(N):
        rows.append((f"T:{number:04}", f"Name {number}", True, "exact"))
        if number % 10:
            shared = number - number % 7 if number % 7 < 2 else number
            rows.append((f"T:{number:04}", f"Synonym-{shared}", False, "exact"))
            rows.append((f"T:{number:04}", f"Other {number}", False, "exact"))
            rows.append((f"T:{number:04}", f"broad {number}", False, "broad"))
    terms = pl.DataFrame(rows, schema=["concept", "string", "preferred", "scope"], orient="row")
    terms = terms.with_columns(language=pl.lit("en"), source=pl.lit("T"))
    concepts = pl.DataFrame({"id": [f"T:{n:04}" for n in range(N)]}).with_columns(source=pl.lit("T"))
    path = tmp_path_factory.mktemp("split") / "t.terminology"
    store.save(Tables(concepts, terms), path)
    return store.load_terminology(path)


def test_one_synonym_of_about_the_fraction_of_concepts(terminology: Terminology) -> None:
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    assert len(split) == len(split.strings) == len(split.concept_ids)
    assert len(set(split.concept_ids)) == len(split)
    assert split.facts["concepts_with_several"] == 360
    dropped = split.facts["dropped_as_equal_to_a_kept_term"]
    assert dropped > 0
    assert 80 <= len(split) + dropped <= 140
    assert set(split.parts) == {"test"}
    for string, identifier in zip(split.strings, split.concept_ids, strict=True):
        terms = {term.string: term for term in terminology.concept(identifier).terms}
        assert terms[string].scope == "exact"
        assert not terms[string].preferred


def test_no_held_out_string_is_left_in_training(terminology: Terminology) -> None:
    split = hold_out_synonyms(terminology, fraction=0.5, seed=2)
    rows, _ = terminology.training_terms(exclude=split.cleaned)
    kept = set(clean_many(terminology.terms["string"].take(rows).to_pylist()))
    assert not kept & split.cleaned
    before, _ = terminology.training_terms()
    assert len(before) - len(rows) == len(split)
    for string in split.strings:
        assert len(terminology.search(string)) == 1


def test_the_seed_decides_and_nothing_else(terminology: Terminology) -> None:
    one, again = (hold_out_synonyms(terminology, fraction=0.3, seed=5) for _ in range(2))
    assert one == again
    assert one.hash == again.hash
    other = hold_out_synonyms(terminology, fraction=0.3, seed=6)
    assert other.hash != one.hash
    # A larger fraction only adds.
    assert set(one.strings) < set(hold_out_synonyms(terminology, fraction=0.6, seed=5).strings)


def test_fractions_at_the_ends(terminology: Terminology) -> None:
    assert len(hold_out_synonyms(terminology, fraction=0.0, seed=1)) == 0
    assert len(set(hold_out_synonyms(terminology, fraction=1.0, seed=1).concept_ids)) > 300
    for fraction in (-0.1, 1.1):
        with pytest.raises(UsageError, match="between 0 and 1"):
            hold_out_synonyms(terminology, fraction=fraction, seed=1)


def test_assign(terminology: Terminology) -> None:
    split = assign(terminology, train=0.6, calibration=0.3, test=0.1, seed=3)
    calibration, test = split.part("calibration"), split.part("test")
    assert len(calibration) + len(test) == len(split)
    assert 2 * len(test) < len(calibration)
    assert not calibration.cleaned & test.cleaned
    assert not any(string.startswith("Name") for string in split.strings)
    assert assign(terminology, train=0.6, calibration=0.3, test=0.1, seed=3) == split
    with pytest.raises(UsageError, match=r"add up to 1, not 0\.9"):
        assign(terminology, train=0.6, calibration=0.2, test=0.1, seed=3)
    with pytest.raises(UsageError, match="dev"):
        split.part("dev")


def test_save_and_load(terminology: Terminology, tmp_path: Path) -> None:
    split = hold_out_synonyms(terminology, fraction=0.3, seed=1)
    split.save(tmp_path / "s.split")
    loaded = Split.load(tmp_path / "s.split")
    assert loaded == split
    assert loaded.hash == split.hash
    assert loaded.cleaned == split.cleaned == {clean(string) for string in split.strings}
    assert loaded.facts["terminology_hash"] == terminology.content_hash
    assert artefact.verify(tmp_path / "s.split", "split")["held_out"] == len(split)
    with pytest.raises(UsageError, match="already exists"):
        split.save(tmp_path / "s.split")
    split.save(tmp_path / "s.split", force=True)


def test_a_changed_split_is_noticed(terminology: Terminology, tmp_path: Path) -> None:
    path = tmp_path / "s.split"
    hold_out_synonyms(terminology, fraction=0.3, seed=1).save(path)
    file = path / splits.FILE
    content = file.read_text()
    file.write_text(content.replace("Other", "OTHER", 1))
    with pytest.raises(InputError, match="not those that were saved"):
        Split.load(path)
    file.write_text("[" + content[1:-3] + "  ")
    with pytest.raises(InputError, match=r"damaged split|bytes"):
        Split.load(path)
    with pytest.raises(InputError, match="no such split"):
        Split.load(tmp_path / "none.split")
