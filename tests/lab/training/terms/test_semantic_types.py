from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError
from alphita.terminology.model import Tables
from alphita.terminology.store import Terminology, load_terminology, save
from alphita_lab.training.terms.samplers import SemanticTypes

TYPED = [(0, "Sign"), (0, "Disease"), (2, "Sign"), (2, "Sign"), (5, "Plant"), (3, "Disease")]


def made(folder: Path, typed: list[tuple[int, str]]) -> Terminology:
    """Six concepts; a type named by two sources stands twice."""
    ids = [f"T:{row}" for row in range(6)]
    concepts = pl.DataFrame({"id": ids, "source": "T"})
    terms = pl.DataFrame({"concept": ids, "string": list("abcdef"), "language": "en", "preferred": True, "source": "T"})
    types = pl.DataFrame(
        [(ids[concept], name, f"source {place}") for place, (concept, name) in enumerate(typed)],
        schema={"concept": pl.String, "semantic_type": pl.String, "source": pl.String},
        orient="row",
    )
    save(Tables(concepts=concepts, terms=terms, semantic_types=types), folder)
    return load_terminology(folder)


@pytest.fixture(scope="module")
def types(tmp_path_factory) -> SemanticTypes:
    return SemanticTypes(made(tmp_path_factory.mktemp("data") / "typed", TYPED))


@settings(deadline=None)
@given(concepts=st.lists(st.integers(0, 5), max_size=12))
def test_rows_hold_the_types_of_their_concepts(types: SemanticTypes, concepts: list[int]) -> None:
    assert types.names == ["Disease", "Plant", "Sign"]
    matrix = types.matrix(np.array(concepts, np.int32))
    assert matrix.dtype == bool
    assert matrix.shape == (len(concepts), 3)
    for concept, row in zip(concepts, matrix, strict=True):
        assert {name for name, has in zip(types.names, row, strict=True) if has} == {
            name for holder, name in TYPED if holder == concept
        }


def test_a_terminology_without_types_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no concept has a semantic type") as error:
        SemanticTypes(made(tmp_path / "untyped", []))
    assert error.value.remedy
