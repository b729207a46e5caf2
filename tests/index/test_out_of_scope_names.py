"""What other vocabularies name and an index lacks."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
import pyarrow as pa

from alphita.index.external_names import prepared
from alphita.index.out_of_scope_names import MAX_WORDS, absent, hashed, hits, shares

NAMES = prepared(
    pl.DataFrame(
        [
            ("A", "A:1", "Fever"),
            ("A", "A:1", "Pyrexia"),
            ("A", "A:2", "Appendectomy"),
            ("A", "A:2", "Removal of the appendix"),
            ("A", "A:3", "Cold"),
            ("B", "B:1", "Cold"),
            ("B", "B:1", "Common cold"),
            ("Alphita", "1", "Burning up"),
            ("icd index", "R50", "Heat, excessive"),
        ],
        ["source", "id", "name"],
        orient="row",
    ).with_columns(language=pl.lit("en"))
)
STRINGS = pa.array(["common cold", "fever"], pa.large_string())


def test_only_concepts_that_the_index_lacks_altogether_are_elsewhere():
    # Pyrexia is fever, which is there; Cold is a name of the common cold, too; phrases and codes' names say nothing.
    assert sorted(absent(NAMES, STRINGS)["key"]) == ["appendectomy", "removal of the appendix"]


def test_a_hash_is_eight_bytes_of_blake2b():
    digest = hashlib.blake2b("größe".encode(), digest_size=8).digest()
    assert hashed(["größe", "x"]).tolist()[0] == int.from_bytes(digest, "little")
    assert hashed([]).shape == (0,)


def test_a_mention_is_a_name_or_has_some_in_it():
    known = np.unique(hashed(absent(NAMES, STRINGS)["key"].to_list()))
    mentions = ["appendectomy", "fever", "s/p removal of the appendix", "appendectomy, fever", "", "appendectomyx"]
    assert hits(mentions, known).tolist() == [True, False, False, False, False, False]
    np.testing.assert_allclose(shares(mentions, known), [1, 0, 4 / 6, 1 / 2, 0, 0])


def test_longer_names_are_found_as_a_whole_only():
    name = " ".join("abcdefgh"[: MAX_WORDS + 1])
    known = hashed([name])
    assert hits([name], known).tolist() == [True]
    assert shares([name, f"{name} z"], known).tolist() == [0.0, 0.0]


def test_without_such_names_nothing_is_elsewhere():
    nothing = np.zeros(0, np.uint64)
    assert not hits(["fever"], nothing).any()
    assert not shares(["fever"], nothing).any()
    assert hits([], hashed(["fever"])).shape == (0,)
