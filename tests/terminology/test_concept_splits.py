from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from alphita.errors import UsageError
from alphita.terminology import store
from alphita.terminology.model import Tables
from alphita.terminology.splits import Split, hold_out_concepts, names_of
from alphita.terminology.store import Terminology

N = 300


def terminology_of(path: Path, numbers: list[int]) -> Terminology:
    """Concepts of names in two languages and of every scope and status; each tenth is retired, 7 and 8 share a name."""
    rows = []
    for number in numbers:
        one = f"T:{number:04}"
        rows += [
            (one, f"Name {number}", "en", "exact", "official"),
            (one, f"name-{number}.", "en", "exact", "official"),
            (one, f"Wide {number}", "en", "broad", "official"),
            (one, f"Nome {number}", "it", "exact", "machine"),
            (one, "Shared" if number in (7, 8) else f"Other {number}", "en", "exact", "official"),
        ]
    terms = pl.DataFrame(rows, schema=["concept", "string", "language", "scope", "status"], orient="row")
    concepts = pl.DataFrame({"id": [f"T:{number:04}" for number in numbers]})
    retired = pl.Series([number % 10 == 0 for number in numbers])
    aliases = pl.DataFrame({"concept": ["T:0001"], "alias": ["T:9999"], "source": ["T"]})
    store.save(
        Tables(
            concepts.with_columns(source=pl.lit("T"), retired=retired),
            terms.with_columns(source=pl.lit("T")),
            aliases=aliases,
        ),
        path,
    )
    return store.load_terminology(path)


@pytest.fixture(scope="module")
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    return terminology_of(tmp_path_factory.mktemp("concepts") / "t.terminology", list(range(N)))


def test_all_names_of_about_the_fraction_of_live_concepts(terminology: Terminology) -> None:
    split = hold_out_concepts(terminology, fraction=0.3, seed=1)
    held = set(split.concept_ids)
    assert 50 <= len(held) <= 110
    assert split.facts["concepts"] == N - N // 10
    assert split.facts["held_out_concepts"] == len(held)
    assert set(split.parts) == {"test"}
    named = set(zip(split.concept_ids, split.strings, strict=True))
    for one in held:
        assert not terminology.retired[terminology.resolve(one)]
        number = int(one.removeprefix("T:"))
        # "name-7." cleans to what "Name 7" does.
        for name in (f"Name {number}", f"Wide {number}", f"Nome {number}"):
            assert (one, name) in named
    assert len(split) == 4 * len(held)


def test_nothing_of_it_is_left_in_training(terminology: Terminology) -> None:
    split = hold_out_concepts(terminology, fraction=0.3, seed=1)
    rows, _ = terminology.training_terms(exclude=split.cleaned)
    kept = {terminology.concept_id(row) for row in np.unique(terminology.term_concept[rows]).tolist()}
    assert not kept & set(split.concept_ids)
    assert kept


def test_the_choice_follows_from_seed_and_id_alone(terminology: Terminology, tmp_path: Path) -> None:
    split = hold_out_concepts(terminology, fraction=0.3, seed=1)
    fewer = terminology_of(tmp_path / "fewer.terminology", [*range(1, N, 2), 2])
    held = set(hold_out_concepts(fewer, fraction=0.3, seed=1).concept_ids)
    assert held == set(split.concept_ids) & set(fewer.concept_ids.to_pylist())
    assert set(split.concept_ids) <= set(hold_out_concepts(terminology, fraction=0.5, seed=1).concept_ids)
    assert split.hash == hold_out_concepts(terminology, fraction=0.3, seed=1).hash
    assert split.hash != hold_out_concepts(terminology, fraction=0.3, seed=2).hash


def test_what_others_lose_is_counted(terminology: Terminology) -> None:
    """For some seed just one of the two concepts with a shared name is held out."""
    losses = set()
    for seed in range(20):
        split = hold_out_concepts(terminology, fraction=0.5, seed=seed)
        both = {"T:0007", "T:0008"} & set(split.concept_ids)
        assert split.facts["other_concepts_that_lose_a_name"] == (len(both) == 1)
        assert split.facts["other_concepts_left_without_a_name"] == 0
        losses.add(len(both))
    assert losses == {0, 1, 2}


def test_a_concept_that_loses_its_last_name_is_counted(tmp_path: Path) -> None:
    terms = pl.DataFrame(
        {"concept": ["T:1", "T:2"], "string": ["Cold"] * 2, "language": ["en"] * 2, "source": ["T"] * 2}
    )
    store.save(Tables(pl.DataFrame({"id": ["T:1", "T:2"], "source": ["T"] * 2}), terms), tmp_path / "t.terminology")
    terminology = store.load_terminology(tmp_path / "t.terminology")
    found = {
        (split.facts["held_out_concepts"], split.facts["other_concepts_left_without_a_name"])
        for split in (hold_out_concepts(terminology, fraction=0.5, seed=seed) for seed in range(30))
    }
    assert found == {(0, 0), (1, 1), (2, 0)}


def test_it_is_saved_as_any_split(terminology: Terminology, tmp_path: Path) -> None:
    split = hold_out_concepts(terminology, fraction=0.1, seed=0)
    split.save(tmp_path / "c.split")
    assert Split.load(tmp_path / "c.split").cleaned == split.cleaned
    assert len(hold_out_concepts(terminology, fraction=0, seed=0)) == 0
    everything = hold_out_concepts(terminology, fraction=1, seed=0)
    assert everything.facts["held_out_concepts"] == everything.facts["concepts"]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_impossible_fractions(terminology: Terminology, fraction: float) -> None:
    with pytest.raises(UsageError, match="fraction"):
        hold_out_concepts(terminology, fraction=fraction, seed=0)


def test_names_of_some_concepts(terminology: Terminology) -> None:
    rows = names_of(terminology, ["T:9999", "T:0003", "T:4321"])
    assert {terminology.concept_id(row) for row in terminology.term_concept[rows]} == {"T:0001", "T:0003"}
    assert len(rows) == 10
    assert len(names_of(terminology, [])) == 0
