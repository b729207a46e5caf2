"""Filters: which concepts are left, and every route finds these alone; and answers as codes of another code system."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from alphita.answer.filters import Filters, Targets, allowed_concepts
from alphita.answer.normalizer import Normalizer
from alphita.errors import UsageError
from alphita.index import lookup, ngrams
from alphita.index.choice import Building
from alphita.index.lookup import Restricted
from alphita.index.store import Index, build
from alphita.terminology.model import Tables
from alphita.terminology.store import load_terminology, save
from tests.answer.rich import ROWS, RichTerminology
from tests.answer.synthetic import synthetic_terminology
from tests.doubles import HashEncoder, small_terminology

RANKINGS = ["vectors", "letters", "fusion"]


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> Index:
    return build(RichTerminology(), HashEncoder(), tmp_path_factory.mktemp("filters") / "rich.index")


def left(index: Index, **filters) -> list[str]:
    allowed = Filters(**filters).concepts(index.segment)
    return [one for one, kept in zip(index.segment.concepts.column("id").to_pylist(), allowed, strict=True) if kept]


ALL = ["AX:1", "AX:2", "AX:3", "AX:4", "AX:6", "BX:1", "BX:2", "BX:3"]


def test_standard_concepts_are_found_by_the_names_of_those_that_map_to_them(tmp_path):
    def rows(columns: list[str], *lines: tuple[str, ...]) -> pl.DataFrame:
        return pl.DataFrame(list(lines), columns, orient="row").with_columns(source=pl.lit("OMOP"))

    made = Tables(
        concepts=rows(["id"], ("SNOMEDCT:1",), ("ICD9CM:2",)).with_columns(retired=False),
        terms=rows(
            ["concept", "string", "language"], ("SNOMEDCT:1", "Fever", "en"), ("ICD9CM:2", "Hyperpyrexia", "en")
        ),
        properties=rows(["concept", "name", "value"], ("SNOMEDCT:1", "standard_concept", "S")),
        aliases=rows(["concept", "alias"], ("SNOMEDCT:1", "OMOP:10"), ("ICD9CM:2", "OMOP:20")),
        xrefs=rows(["concept", "predicate", "object"], ("ICD9CM:2", "OMOP:maps_to", "SNOMEDCT:1")),
    )
    save(made, tmp_path / "t.terminology")
    index = build(load_terminology(tmp_path / "t.terminology"), HashEncoder(), tmp_path / "t.index")
    for options in ({"filters": Filters(standard_only=True)}, {"target": "SNOMEDCT"}):
        normalizer = Normalizer(index, encoder=HashEncoder(), **options)
        [found] = normalizer.normalize(["hyperpyrexia"], explain=True)
        assert (found.concept_id, found.matched_term, found.method) == ("SNOMEDCT:1", "Hyperpyrexia", "exact")
        assert found.candidates[0].retired_concept == "ICD9CM:2"
        assert all(one.homonyms == () for one in found.candidates)
        assert "a name of ICD9CM:2, which is not standard and maps to this" in str(found.explanation)
    [found] = Normalizer(index, encoder=HashEncoder()).normalize(["hyperpyrexia"], explain=True)
    assert (found.concept_id, found.candidates[0].retired_concept) == ("ICD9CM:2", None)
    assert all(one.homonyms == () for one in found.candidates)
    assert "not standard" not in str(found.explanation)


class TestConcepts:
    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({}, ALL),
            ({"types": ("Drug",)}, ["BX:2", "BX:3"]),
            ({"types": ("drug", "SIGN")}, ["AX:4", "BX:2", "BX:3"]),
            ({"sources": ("BX",)}, ["BX:1", "BX:2", "BX:3"]),
            ({"sources": ("bx",)}, ["BX:1", "BX:2", "BX:3"]),
            ({"languages": ("de",)}, ["AX:2", "AX:6"]),
            ({"languages": ("de-AT",)}, ["AX:2"]),
            ({"languages": ("DE-at", "en")}, ALL),
            ({"under": ("AX:1",)}, ["AX:1", "AX:2", "AX:3"]),
            ({"under": ("AX:3", "BX:2")}, ["AX:3", "BX:2", "BX:3"]),
            ({"under": ("AX:5",)}, ["AX:4"]),  # what replaces it
            ({"standard_only": True}, ["BX:2", "BX:3"]),
            ({"types": ("Finding",), "under": ("AX:2",), "languages": ("de",)}, ["AX:2"]),
        ],
    )
    def test_those_of_any_value_and_of_all_kinds(self, rich, filters, expected):
        assert left(rich, **filters) == expected
        assert Filters(**filters).empty == (not filters)

    @pytest.mark.parametrize(
        ("filters", "message"),
        [
            ({"types": ("Finder",)}, r"unknown semantic type 'Finder'; did you mean 'Finding'\? choose from \['Drug',"),
            ({"types": ("Drug", "Dr")}, "unknown semantic type 'Dr'"),
            ({"sources": ("AXE",)}, r"unknown source 'AXE'; did you mean 'AX'\? choose from \['AX', 'BX'\]"),
            ({"languages": ("fr",)}, r"unknown language 'fr'; choose from \['de', 'de-AT', 'en'\]"),
            ({"languages": ("en-GB",)}, r"unknown language 'en-GB'; did you mean 'en'\?"),
            ({"under": ("BX:22",)}, r"this index has no concept 'BX:22'; did you mean 'BX:2'"),
            ({"under": ("nothing",)}, r"this index has no concept 'nothing'$"),
            ({"types": ("Drug",), "sources": ("AX",)}, "no concept of this index passes all filters together"),
        ],
    )
    def test_what_is_unknown_offers_near_ones_and_nothing_left_is_said(self, rich, filters, message):
        with pytest.raises(UsageError, match=message):
            Normalizer(rich, filters=Filters(**filters))

    @pytest.mark.parametrize(
        ("filters", "message"),
        [
            ({"types": ("Drug",)}, "have no semantic types; --type cannot be used"),
            ({"sources": ("T",)}, "does not tell its concepts' source; --source cannot be used"),
            ({"standard_only": True}, "does not tell its concepts' standard; --standard-only cannot be used"),
        ],
    )
    def test_what_an_index_does_not_tell_is_said(self, index_path, filters, message):
        with pytest.raises(UsageError, match=message):
            Filters(**filters).concepts(Index.open(index_path).segment)

    def test_a_type_with_a_hyphen_is_known_whole_only(self, tmp_path, monkeypatch):
        from tests.answer import rich as fixture

        monkeypatch.setitem(fixture.TYPES, "AX:1", "Non-drug")
        index = build(RichTerminology(), HashEncoder(), tmp_path / "x.index")
        assert left(index, types=("non-drug",)) == ["AX:1"]
        with pytest.raises(UsageError, match="unknown semantic type 'non'"):
            left(index, types=("non",))

    def test_with_a_target_only_what_has_a_code_there(self, rich):
        targets = Targets(rich.segment, "MESH")
        ids = rich.segment.concepts.column("id").to_pylist()
        allowed = allowed_concepts(rich, None, targets)
        assert [one for one, kept in zip(ids, allowed, strict=True) if kept] == ["AX:1", "AX:2"]
        allowed = allowed_concepts(rich, Filters(languages=("de",)), targets)
        assert [one for one, kept in zip(ids, allowed, strict=True) if kept] == ["AX:2"]
        with pytest.raises(UsageError, match="no concept that passes the filters has a code in MESH"):
            allowed_concepts(rich, Filters(types=("Drug",)), targets)


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    path = tmp_path_factory.mktemp("restricted") / "x.index"
    return build(synthetic_terminology(80), HashEncoder(), path)


class TestRestricted:
    @pytest.mark.parametrize("shard", [None, 50])
    def test_searches_are_the_indexs_own_among_what_is_allowed(self, index, tmp_path, monkeypatch, shard):
        if shard:
            monkeypatch.setattr(ngrams, "STRINGS_A_SHARD", shard)
            index = build(synthetic_terminology(80), HashEncoder(), tmp_path / "x.index")
        allowed = np.random.default_rng(0).random(len(index)) < 0.3
        asked = [
            "acute swelling of nebbin",
            "fistloma",
            "left weakness",
            index.strings[int(np.flatnonzero(allowed)[0])],
        ]
        vectors, grams = HashEncoder().encode(asked), index.ngrams.vectorize(asked)
        index.ngrams.search(grams, 3)  # what is kept of a search must not show through
        few = Restricted(index, allowed)
        for found, whole in (
            (few.search(vectors, 12), index.search(vectors, len(index))),
            (few.ngrams.search(grams, 12), index.ngrams.search(grams, len(index))),
        ):
            for row in range(len(asked)):
                kept = [place for place in whole[1][row].tolist() if place >= 0 and allowed[place]][:12]
                assert len(kept) > 3
                assert found[1][row].tolist() == kept + [-1] * (12 - len(kept))
                of_row = dict(zip(whole[1][row].tolist(), whole[0][row].tolist(), strict=True))
                assert found[0][row][: len(kept)] == pytest.approx([of_row[one] for one in kept], abs=1e-5)
        pairs = np.array([0, 1, 2]), np.flatnonzero(~allowed)[:3]
        assert few.ngrams.pairwise(grams, *pairs) == pytest.approx(index.ngrams.pairwise(grams, *pairs))

    def test_an_equal_string_is_found_only_if_allowed(self, index):
        allowed = np.zeros(len(index), bool)
        allowed[3] = True
        few = Restricted(index, allowed)
        assert few.rows([index.strings[3], index.strings[4], index.strings[len(index) - 1], "no"]).tolist() == [
            3,
            -1,
            -1,
            -1,
        ]
        assert len(few) == len(index)
        assert few.dim == index.dim

    def test_more_than_there_are(self, index):
        allowed = np.zeros(len(index), bool)
        allowed[[3, 9]] = True
        similarity, rows = Restricted(index, allowed).search(HashEncoder().encode(["weakness"]), 50)
        assert similarity.shape == rows.shape == (1, 2)
        assert set(rows[0].tolist()) == {3, 9}

    def test_an_index_without_letters(self, tmp_path):
        index = build(small_terminology(), HashEncoder(), tmp_path / "x.index", how=Building(letters=False))
        assert Restricted(index, np.ones(len(index), bool)).ngrams is None


class TestAnswers:
    @pytest.mark.parametrize("ranking", RANKINGS)
    @pytest.mark.parametrize("mention", ["Headache", "headach", "dulorin", "Gift", "zzz"])
    def test_only_what_is_allowed_and_as_many_as_wanted(self, rich, ranking, mention):
        filters = Filters(sources=("AX",))
        normalizer = Normalizer(rich, encoder=HashEncoder(), ranking=ranking, filters=filters)
        ids = [one.concept_id for one in normalizer.normalize([mention], top_k=5)[0].candidates]
        if ranking == "letters":  # those that share no letters are not found by them
            assert set(ids) <= {"AX:1", "AX:2", "AX:3", "AX:4", "AX:6"}
        else:
            assert sorted(ids) == ["AX:1", "AX:2", "AX:3", "AX:4", "AX:6"]

    @pytest.mark.parametrize("ranking", RANKINGS)
    def test_many_strings_of_what_is_not_allowed_are_no_obstacle(self, tmp_path, ranking):
        # The 600 nearest strings are of concepts that are left out.
        rows = [(f"AX:{10 + n}", f"ache of the head {n}", "exact", "en", "AX", "1") for n in range(600)]
        rows += [(f"BX:{10 + n}", f"dulorin of the ache {n}", "exact", "en", "BX", "1") for n in range(9)]
        index = build(RichTerminology([*ROWS, *rows]), HashEncoder(), tmp_path / "x.index")
        normalizer = Normalizer(index, encoder=HashEncoder(), ranking=ranking, filters=Filters(sources=("BX",)))
        for mention in ("ache of the head", "ache of the head 7"):
            ids = [one.concept_id for one in normalizer.normalize([mention], top_k=5)[0].candidates]
            assert len(set(ids)) == len(ids) == 5
            assert all(one.startswith("BX:") for one in ids)

    @pytest.mark.parametrize("ranking", RANKINGS)
    def test_no_search_is_deeper_than_what_may_be_found(self, rich, monkeypatch, ranking):
        depths = []
        search = ngrams.Ngrams.search

        def noted(grams, queries, k):
            depths.append(k)
            return search(grams, queries, k)

        monkeypatch.setattr(ngrams.Ngrams, "search", noted)
        filters = Filters(sources=("BX",))
        few = Restricted(rich, filters.strings(rich.segment, allowed_concepts(rich, filters, None))).findable
        normalizer = Normalizer(rich, encoder=HashEncoder(), ranking=ranking, filters=filters)
        normalizer.normalize(["headach", "zzz"], top_k=50)
        assert few < len(rich)
        assert max(depths, default=0) <= few

    def test_parts_of_a_deep_search_find_the_same(self, rich, monkeypatch):
        def found():
            results = Normalizer(rich, encoder=HashEncoder(), ranking="fusion").normalize(["headach", "gift", "pain"])
            return [[(one.concept_id, one.similarity) for one in result.candidates] for result in results]

        whole = found()
        monkeypatch.setattr(lookup, "FOUND_AT_ONCE", 1)
        assert found() == whole

    def test_letters_that_nothing_shares_are_looked_for_once(self, index, monkeypatch):
        asked = []
        search = ngrams.Ngrams.search

        def noted(grams, queries, k):
            asked.append(queries.shape[0])
            return search(grams, queries, k)

        monkeypatch.setattr(ngrams.Ngrams, "search", noted)
        normalizer = Normalizer(index, encoder=HashEncoder(), ranking="letters")
        assert normalizer.normalize(["0000", "1111"], top_k=3)[0].candidates == ()
        assert asked == [2]

    def test_a_term_of_another_language_does_not_match_by_a_string_that_both_have(self, rich):
        normalizer = Normalizer(rich, encoder=HashEncoder(), filters=Filters(languages=("en",)), floor=-1)
        found = {one.concept_id: one for one in normalizer.normalize(["Gift"], top_k=8)[0].candidates}
        assert (found["BX:1"].matched_term, found["BX:1"].language) == ("Gift", "en")
        assert (found["AX:6"].matched_term, found["AX:6"].language) == ("Poisoning", "en")


# Answers as codes of another code system.


@pytest.fixture(scope="module")
def coded(tmp_path_factory) -> Index:
    rows = [
        *ROWS,
        ("MESH:D1", "Warmth", "exact", "en", "MSH", "D2"),  # its own id stands before its terms' codes
        ("AX:4", "Feverish", "exact", "en", "MSH", None),  # without a code
        ("AX:4", "Heat", "exact", "en", "ICD10CM", "ICD10CM:R50"),
        ("AX:5", "Ague of old", "exact", "en", "MSH", "D903"),  # the code of what is retired
    ]
    return build(RichTerminology(rows), HashEncoder(), tmp_path_factory.mktemp("targets") / "coded.index")


def codes(index: Index, target: str) -> dict[str, str]:
    targets = Targets(index.segment, target)
    ids = index.segment.concepts.column("id").take(targets.concepts).to_pylist()
    return dict(zip(ids, targets.ids(targets.concepts), strict=True))


OF_MESH = {"AX:1": "MESH:D900", "AX:2": "MESH:D901|MESH:D902", "MESH:D1": "MESH:D1"}
TARGETS = dict.fromkeys(("MESH", "MSH", "mesh"), OF_MESH)
TARGETS |= {"ICD10CM": {"AX:4": "ICD10CM:R50"}, "BX": {one: one for one in ("BX:1", "BX:2", "BX:3")}}


@pytest.mark.parametrize("target", TARGETS)
def test_codes_of_terms_and_own_ids_in_any_spelling(coded, target):
    """What is a CURIE already stays; an own system's codes are the ids."""
    assert codes(coded, target) == TARGETS[target]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("MESHX", r"unknown target 'MESHX'; did you mean 'MESH'\? choose from \['AX', 'BX', 'ICD10CM', 'MESH'\]"),
        ("LOINC", r"unknown target 'LOINC'; .*choose from \['AX', 'BX', 'ICD10CM', 'MESH'\]"),
    ],
)
def test_an_unknown_system_offers_those_there_are(coded, target, message):
    with pytest.raises(UsageError, match=message):
        Normalizer(coded, target=target)


def test_a_system_known_elsewhere_without_a_code_here(index_path):
    assert codes(Index.open(index_path), "T")["T:2"] == "T:2"
    with pytest.raises(UsageError, match="choose from"):
        Targets(Index.open(index_path).segment, "SNOMEDCT")


class TestTargetAnswers:
    def test_are_codes_joined_and_only_of_what_has_one(self, coded):
        normalizer = Normalizer(coded, encoder=HashEncoder(), target="MSH", floor=-1)
        found = normalizer.normalize(["Headache", "fever", "soreness"], top_k=5)
        assert [one.concept_id for one in found] == [found[0].concept_id, found[1].concept_id, "MESH:D900"]
        assert found[0].concept_id == "MESH:D901|MESH:D902"
        assert (found[0].concept_name, found[0].matched_term) == ("Ache of the head", "Headache")
        for one in found:
            ids = [candidate.concept_id for candidate in one.candidates]
            assert sorted(ids) == ["MESH:D1", "MESH:D900", "MESH:D901|MESH:D902"]
        assert found[1].method == "nearest"  # "Fever" is a name of what has no code there

    def test_a_concept_without_a_code_cannot_be_asked_for(self, coded):
        targets = Targets(coded.segment, "ICD10CM")
        without = np.array([coded.segment.concepts.column("id").to_pylist().index("AX:1")])
        with pytest.raises(KeyError):
            targets.ids(without)
