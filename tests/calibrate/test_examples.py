"""Examples to learn from are what they say: hidden, changed, foreign or as they are."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from alphita.answer.features import MENTION_NAMES, NAMES
from alphita.answer.pipeline import Pipeline
from alphita.calibrate import examples
from alphita.calibrate.examples import FOREIGN, ITSELF, NOISE, NOISY_SYNONYM, REMOVED, SYNONYM, Examples
from alphita.calibrate.hiding import Hidden
from alphita.index.enrichment import SHORT_FORM_COLUMNS, Enrichment
from alphita.index.external_names import shipped_lender
from alphita.index.lookup import WHOLE, How
from alphita.index.store import Index, build
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.words import whole_words
from alphita.terminology.text import clean
from tests.answer.synthetic import VocabularyEncoder, synthetic_terminology
from tests.doubles import SmallTerminology, small_terminology


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    path = tmp_path_factory.mktemp("examples") / "x.index"
    return build(synthetic_terminology(60), VocabularyEncoder(), path)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Index:
    return build(small_terminology(), VocabularyEncoder(), tmp_path_factory.mktemp("examples") / "small.index")


def names(index: Index) -> dict[int, set[str]]:
    """Return the cleaned strings of each concept."""
    found: dict[int, set[str]] = {}
    terms = index.segment.terms.column("string").to_pylist()
    for string, concept in zip(terms, index.segment.term_concept.tolist(), strict=True):
        found.setdefault(concept, set()).add(clean(string))
    return found


class TestOwnSynonyms:
    def test_are_further_exact_names_of_one_concept_only(self, small):
        strings, concepts = examples.own_synonyms(small, seed=0)
        ids = small.segment.concepts.column("id").to_pylist()
        found = {(ids[concept], string) for string, concept in zip(strings, concepts.tolist(), strict=True)}
        # Not "fits" (broad), "cold" (of three concepts), nor any preferred name.
        assert found == {("T:1", "epileptic seizure"), ("T:2", "cephalgia"), ("T:3", "common cold"), ("T:7", "t2dm")}

    def test_are_drawn_by_the_seed(self, index):
        drawn = [examples.own_synonyms(index, seed=seed, most=20) for seed in (1, 1, 2)]
        assert len(drawn[0][0]) == 20
        assert drawn[0][0] == drawn[1][0] != drawn[2][0]
        assert drawn[0][1].tolist() == drawn[1][1].tolist()
        own = names(index)
        assert all(string in own[concept] for string, concept in zip(*drawn[0], strict=True))


def test_a_synonym_hides_itself_where_it_is_indexed(small):
    found = examples.synonyms(small, ["Cephalgia", "pain in the head"], np.array([1, 1]))
    assert found.kinds == [SYNONYM, SYNONYM]
    assert [small.strings[row] if row >= 0 else None for row in found.hidden_strings] == ["cephalgia", None]
    assert found.concepts.tolist() == [1, 1]
    assert found.hidden_concepts.tolist() == [-1, -1]


@pytest.mark.parametrize("hide", [True, False])
def test_noise_changes_every_string_to_one_that_is_not_there(index, hide):
    strings, concepts = examples.own_synonyms(index, seed=0)
    found = examples.with_noise(index, strings, concepts, hide=hide, seed=1)
    assert len(found.mentions) > 0.9 * len(strings)
    assert set(found.kinds) == {NOISY_SYNONYM if hide else NOISE}
    assert (index.rows([clean(one) for one in found.mentions]) < 0).all()
    assert all(mention.strip() for mention in found.mentions)
    own = names(index)
    for row, concept in zip(found.hidden_strings.tolist(), found.concepts.tolist(), strict=True):
        assert (index.strings[row] in own[concept]) if hide else row == -1
    assert (found.hidden_concepts == -1).all()
    again = examples.with_noise(index, strings, concepts, hide=hide, seed=1)
    assert found.mentions == again.mentions
    assert found.mentions != examples.with_noise(index, strings, concepts, hide=hide, seed=2).mentions


def test_noise_of_a_string_does_not_depend_on_the_others(index):
    strings, concepts = examples.own_synonyms(index, seed=0)
    whole = examples.with_noise(index, strings, concepts, hide=True, seed=1)
    part = examples.with_noise(index, strings[40:50], concepts[40:50], hide=True, seed=1)
    assert len(part.mentions) > 5
    assert set(part.mentions) <= set(whole.mentions)


def test_noise_that_makes_another_name_is_left_out(tmp_path, monkeypatch):
    index = build(small_terminology(), VocabularyEncoder(), tmp_path / "x.index")
    monkeypatch.setattr(examples, "noisy", lambda string, chance: "Cold" if string == "cephalgia" else string + "x")
    found = examples.with_noise(index, ["cephalgia", "t2dm"], np.array([1, 5]), hide=True, seed=0)
    assert found.mentions == ["t2dmx"]
    assert found.concepts.tolist() == [5]
    assert [index.strings[row] for row in found.hidden_strings] == ["t2dm"]


def test_at_most_so_many_of_each_kind_and_labelled_ones_all():
    kinds = ["synonym"] * 30 + ["labelled"] * 20 + ["foreign"] * 4
    numbers = np.arange(len(kinds))
    some = Examples([str(number) for number in numbers], numbers, numbers, numbers, kinds)
    found = examples.at_most(some, 5, seed=0)
    assert [found.kinds.count(kind) for kind in ("synonym", "labelled", "foreign")] == [5, 20, 4]
    assert [int(mention) for mention in found.mentions] == sorted(found.concepts.tolist())


def test_itself_hides_nothing(small):
    found = examples.itself(["cold"], np.array([2]))
    assert (found.mentions, found.kinds) == (["cold"], [ITSELF])
    assert [column.tolist() for column in found[1:4]] == [[2], [-1], [-1]]


def test_removed_is_nil_with_its_concept_hidden(small):
    found = examples.removed(["cephalgia"], np.array([1]))
    assert found.kinds == [REMOVED]
    assert [column.tolist() for column in found[1:4]] == [[-1], [-1], [1]]


class TestForeign:
    def test_names_nothing_here(self, index):
        found = examples.foreign(index, 300, seed=0)
        assert 0 < len(found.mentions) <= 300
        assert (index.rows([clean(one) for one in found.mentions]) < 0).all()
        assert all((column == -1).all() for column in found[1:4])
        assert set(found.kinds) == {FOREIGN}

    def test_is_of_the_encoders_words_and_pieces(self, index):
        whole, pieces = whole_words(index.model_path)
        known = plain = invented = 0
        mentions = examples.foreign(index, 300, seed=0).mentions
        for mention in mentions:
            for word in mention.split():
                ends = [piece for piece in pieces if word.endswith(piece)]
                assert word in whole or word.isdigit() or ends, mention
                known += word in whole
                invented += word not in whole and not word.isdigit()
            plain += all(word in whole for word in mention.split())
        assert known > 100
        assert invented > 100
        assert 60 < plain < 140  # a third

    def test_drops_what_is_a_name_here(self, tmp_path):
        rows = [("T:1", word, "exact") for word in VocabularyEncoder.WORDS]
        index = build(SmallTerminology(rows), VocabularyEncoder(), tmp_path / "x.index")
        mentions = examples.foreign(index, 200, seed=0).mentions
        assert not set(mentions) & set(VocabularyEncoder.WORDS)
        assert 100 < len(mentions) < 200

    def test_by_the_seed(self, index):
        drawn = [examples.foreign(index, 20, seed=seed).mentions for seed in (0, 0, 1)]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_without_a_vocabulary_there_is_none(self, index_path):
        assert examples.foreign(Index.open(index_path), 20, seed=0).mentions == []


def test_joined_and_taken(small):
    some = examples.join(
        [
            examples.synonyms(small, ["cephalgia"], np.array([1])),
            examples.removed(["t2dm"], np.array([5])),
            examples.itself(["cold"], np.array([2])),
        ]
    )
    assert some.mentions == ["cephalgia", "t2dm", "cold"]
    assert some.kinds == [SYNONYM, REMOVED, ITSELF]
    assert some.concepts.tolist() == [1, -1, 2]
    taken = some.take([2, 0])
    assert (taken.mentions, taken.kinds) == (["cold", "cephalgia"], [ITSELF, SYNONYM])
    assert taken.hidden_strings.tolist() == [-1, int(small.rows(["cephalgia"])[0])]
    assert some.take(np.array([], np.int64)).mentions == []


class TestNothingHiddenIsSeen:
    """What is hidden is as if it were not indexed: the same candidates and features as from an index without it."""

    # Of a vocabulary's and the n-grams' weights, which one string changes a little.
    WEIGHED = ("letters", "ratio", "words")

    def features(self, index: Index, mention: str, hidden: Hidden | None = None):
        pipeline = Pipeline(index, VocabularyEncoder, Abbreviations.of_index(index), respell=True)
        view = hidden or WHOLE
        asked, _ = pipeline.ask([mention], view=view)
        scored = pipeline.candidates(asked, How(depth=400), most=400, view=view)
        ids = index.segment.concepts.column("id").take(scored.table.concept).to_pylist()
        terms = index.segment.terms.column("string").take(scored.table.term).to_pylist()
        of_candidates = dict(zip(zip(ids, terms, strict=True), scored.features.candidates, strict=True))
        readings = [mention.readings for mention in asked.mentions]
        return readings, scored.features.mentions[0, MENTION_NAMES.index("known_words")], of_candidates

    @pytest.fixture
    def rows(self):
        terminology = synthetic_terminology(30)
        return list(
            zip(
                terminology.concept_ids.take(terminology.term_concept).to_pylist(),
                terminology.terms.column("string").to_pylist(),
                terminology.terms.column("scope").to_pylist(),
                strict=True,
            )
        )

    def compare(self, tmp_path, rows, kept, mention, hidden):
        whole = build(SmallTerminology(rows), VocabularyEncoder(), tmp_path / "whole.index")
        less = build(SmallTerminology(kept), VocabularyEncoder(), tmp_path / "less.index")
        readings, known, found = self.features(whole, mention, hidden(whole))
        expected_readings, expected_known, expected = self.features(less, mention)
        assert readings == expected_readings
        assert known == pytest.approx(expected_known, abs=0.02)
        assert found.keys() == expected.keys()
        columns = [place for place, name in enumerate(NAMES) if not any(one in name for one in self.WEIGHED)]
        assert len(columns) > 25
        for key, values in expected.items():
            assert found[key][columns] == pytest.approx(values[columns], abs=2e-3), key

    @pytest.mark.parametrize("place", [1, 6, 51])
    def test_a_string(self, tmp_path, rows, place):
        concept, string, _ = rows[place]
        assert rows[place - 1][0] == concept  # so that the preferred name stays
        kept = [row for row in rows if row[1] != string]
        assert len(kept) == len(rows) - 1
        self.compare(tmp_path, rows, kept, string, hidden=self.string(string))

    @pytest.mark.parametrize("mention", ["zorbal ache", "zorbel ache"])  # as it is, and misspelt
    def test_a_string_with_a_word_of_its_own(self, tmp_path, rows, mention):
        more = [*rows, (rows[0][0], "zorbal ache", "exact")]
        self.compare(tmp_path, more, rows, mention, hidden=self.string("zorbal ache"))
        readings, known, _ = self.features(Index.open(tmp_path / "whole.index"), "zorbal ache")
        assert (known, readings) == (1, [()])  # told apart from what is hidden

    @staticmethod
    def string(string):
        return lambda index: Hidden(index, index.rows([clean(string)]), np.array([-1]))

    @pytest.mark.parametrize("place", [0, 50])
    def test_a_concept(self, tmp_path, rows, place):
        concept, string, _ = rows[place]
        kept = [row for row in rows if row[0] != concept]
        self.compare(
            tmp_path,
            rows,
            kept,
            string,
            hidden=lambda index: Hidden(index, np.array([-1]), index.segment.concept_rows([concept])),
        )


FINDINGS = (
    ("T:1", "shortness of breath", "exact"),
    ("T:2", "mitral stenosis", "exact"),
    ("T:3", "mild fever", "exact"),
)
SHORT_FORMS = (
    ("SOB", "shortness of breath", 1.0),
    ("MS", "multiple sclerosis", 0.8),
    ("MS", "mitral stenosis", 0.2),
    ("fev", "fever", 0.5),
    ("XY", "something else", 1.0),
)


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Index:
    """An index with short forms, that borrows."""
    rows = [(*one, "en", "") for one in SHORT_FORMS]
    listed = pl.DataFrame(rows, SHORT_FORM_COLUMNS, orient="row").with_columns(pl.col("share").cast(pl.Float32))
    return build(
        SmallTerminology(FINDINGS),
        VocabularyEncoder(),
        tmp_path_factory.mktemp("given") / "x.index",
        enrichment=Enrichment(shipped_lender(), listed, "no"),
    )


def test_half_of_what_is_foreign_are_names_that_an_index_lacks_if_it_borrows(given):
    named = examples.foreign(given, 100, seed=0).mentions[:45]
    every = set(shipped_lender().names["key"].to_list())
    asked = [clean(one) for one in named]
    assert (given.rows(asked) < 0).all()
    assert 20 < sum(one in every for one in asked) < 40  # every second has noise


class TestShortForms:
    def test_each_stands_alone_for_one_of_its_meanings(self, given):
        drawn: dict[str, list[int]] = {}
        for seed in range(200):
            found = examples.short_forms(given, lambda _: True, most=10, seed=seed)
            for mention, concept, kind in zip(found.mentions, found.concepts.tolist(), found.kinds, strict=True):
                assert kind == (FOREIGN if concept < 0 else NOISE)
                drawn.setdefault(mention.split()[-1], []).append(concept)
        breath, valve = given.concept_rows(["T:1", "T:2"]).tolist()
        assert set(drawn) == {"SOB", "MS"}  # of the others no meaning is there
        assert drawn["SOB"] == [breath] * 200
        # By the shares, what the index lacks at half: 0.2 to 0.4; NIL in every second seed only.
        named = drawn["MS"].count(valve)
        assert 200 * 1 / 3 - 30 < named < 200 * 1 / 3 + 30
        assert drawn["MS"].count(-1) == len(drawn["MS"]) - named > 30

    def test_only_what_is_wanted(self, given):
        breath = int(given.concept_rows(["T:1"])[0])
        found = [examples.short_forms(given, lambda one: one != breath, most=10, seed=seed) for seed in range(20)]
        assert not any("SOB" in mention for one in found for mention in one.mentions)
        assert not examples.short_forms(given, lambda _: True, most=0, seed=0).mentions

    def test_an_index_without_short_forms_has_none(self, tmp_path):
        bare = build(SmallTerminology(FINDINGS), VocabularyEncoder(), tmp_path / "x.index")
        assert examples.short_forms(bare, lambda _: True, most=10, seed=0).mentions == []

    def test_a_part_of_a_name_is_written_short(self, given):
        names = ["mild fever", "shortness of breath", "mitral stenosis"]
        found = examples.abbreviated(given, names * 20, given.concept_rows(["T:3", "T:1", "T:2"] * 20), most=99, seed=0)
        counts = {mention: found.mentions.count(mention) for mention in found.mentions}
        assert counts.keys() == {"mild fev", "SOB", "MS"}
        assert counts["SOB"] == 20  # it always means that
        assert counts["MS"] < 12
