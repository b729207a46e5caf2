"""Examples to learn from are what they say: hidden, changed, foreign or as they are; and what is found for them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphita.answer.features import MENTION_NAMES, NAMES
from alphita.answer.pipeline import Pipeline
from alphita.calibrate import examples, noise
from alphita.calibrate import scored_examples as seen_module
from alphita.calibrate.examples import (
    FOREIGN,
    ITSELF,
    NOISE,
    NOISY_SYNONYM,
    REMOVED,
    SYNONYM,
    Examples,
    Label,
    read_labels,
)
from alphita.calibrate.hiding import Hidden
from alphita.calibrate.scored_examples import see
from alphita.errors import InputError
from alphita.index.enrichment import SHORT_FORM_COLUMNS, Enrichment
from alphita.index.external_names import shipped_names
from alphita.index.lookup import DEPTH, LETTERS, VECTORS, WHOLE, How
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


def test_own_synonyms_are_further_exact_names_of_one_concept_only(small, index):
    strings, concepts = examples.own_synonyms(small, seed=0)
    ids = small.segment.concepts.column("id").to_pylist()
    found = {(ids[concept], string) for string, concept in zip(strings, concepts.tolist(), strict=True)}
    # Not "fits" (broad), "cold" (of three concepts), nor any preferred name.
    assert found == {("T:1", "epileptic seizure"), ("T:2", "cephalgia"), ("T:3", "common cold"), ("T:7", "t2dm")}
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
    found = examples.itself(["cold"], np.array([2]))
    assert (found.mentions, found.kinds) == (["cold"], [ITSELF])
    assert [column.tolist() for column in found[1:4]] == [[2], [-1], [-1]]
    found = examples.removed(["cephalgia"], np.array([1]))
    assert found.kinds == [REMOVED]
    assert [column.tolist() for column in found[1:4]] == [[-1], [-1], [1]]


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
    # It does not depend on the other strings.
    part = examples.with_noise(index, strings[40:50], concepts[40:50], hide=hide, seed=1)
    assert len(part.mentions) > 5
    assert set(part.mentions) <= set(found.mentions)


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


class TestForeign:
    def test_names_nothing_here(self, index):
        found = examples.foreign(index, 300, seed=0)
        assert 0 < len(found.mentions) <= 300
        assert (index.rows([clean(one) for one in found.mentions]) < 0).all()
        assert all((column == -1).all() for column in found[1:4])
        assert set(found.kinds) == {FOREIGN}
        drawn = [examples.foreign(index, 20, seed=seed).mentions for seed in (0, 0, 1)]
        assert drawn[0] == drawn[1] != drawn[2]

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

    def test_without_a_vocabulary_there_is_none(self, index_path):
        assert examples.foreign(Index.open(index_path), 20, seed=0).mentions == []


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
def with_forms(tmp_path_factory) -> Index:
    """An index with short forms, that borrows."""
    rows = [(*one, "en", "") for one in SHORT_FORMS]
    listed = pl.DataFrame(rows, SHORT_FORM_COLUMNS, orient="row").with_columns(pl.col("share").cast(pl.Float32))
    return build(
        SmallTerminology(FINDINGS),
        VocabularyEncoder(),
        tmp_path_factory.mktemp("given") / "x.index",
        enrichment=Enrichment(shipped_names(), listed, "no"),
    )


def test_half_of_what_is_foreign_are_names_that_an_index_lacks_if_it_borrows(with_forms):
    named = examples.foreign(with_forms, 100, seed=0).mentions[:45]
    every = set(shipped_names().names["key"].to_list())
    asked = [clean(one) for one in named]
    assert (with_forms.rows(asked) < 0).all()
    assert 20 < sum(one in every for one in asked) < 40  # every second has noise


class TestShortForms:
    def test_each_stands_alone_for_one_of_its_meanings(self, with_forms):
        drawn: dict[str, list[int]] = {}
        for seed in range(200):
            found = examples.short_forms(
                with_forms, lambda _: True, most=10, seed=seed, lacking={"multiple sclerosis": -1}
            )
            for mention, concept, kind in zip(found.mentions, found.concepts.tolist(), found.kinds, strict=True):
                assert kind == (FOREIGN if concept < 0 else NOISE)
                drawn.setdefault(mention.split()[-1], []).append(concept)
        breath, valve = with_forms.concept_rows(["T:1", "T:2"]).tolist()
        assert set(drawn) == {"SOB", "MS"}  # of the others no meaning is there
        assert drawn["SOB"] == [breath] * 200
        # By the shares, what the index lacks at half: 0.2 to 0.4; NIL in every second seed only.
        named = drawn["MS"].count(valve)
        assert 200 * 1 / 3 - 30 < named < 200 * 1 / 3 + 30
        assert drawn["MS"].count(-1) == len(drawn["MS"]) - named > 30

    def test_a_long_form_that_is_no_name_may_be_of_any_concept(self, with_forms):
        mild = int(with_forms.concept_rows(["T:3"])[0])
        unknown, known = (
            [
                concept
                for seed in range(200)
                for found in [examples.short_forms(with_forms, lambda _: True, most=10, seed=seed, lacking=lacking)]
                for mention, concept in zip(found.mentions, found.concepts.tolist(), strict=True)
                if mention.endswith("MS")
            ]
            for lacking in ({}, {"multiple sclerosis": mild})
        )
        valve = int(with_forms.concept_rows(["T:2"])[0])
        assert set(unknown) == {valve}
        assert 20 < len(unknown) < 60  # by its share, not more often because the other meaning is unknown
        assert set(known) == {valve, mild}
        assert len(known) == 200

    def test_some_long_forms_are_hidden(self, with_forms):
        row = int(with_forms.rows(["shortness of breath"])[0])
        found = [examples.short_forms(with_forms, lambda _: True, most=10, seed=seed) for seed in range(200)]
        hidden = [
            string
            for one in found
            for mention, string in zip(one.mentions, one.hidden_strings.tolist(), strict=True)
            if mention.endswith("SOB")
        ]
        assert set(hidden) == {-1, row}
        assert 30 < hidden.count(row) < 90

    def test_only_what_is_wanted(self, with_forms, small):
        breath = int(with_forms.concept_rows(["T:1"])[0])
        found = [examples.short_forms(with_forms, lambda one: one != breath, most=10, seed=seed) for seed in range(20)]
        assert not any("SOB" in mention for one in found for mention in one.mentions)
        assert not examples.short_forms(with_forms, lambda _: True, most=0, seed=0).mentions
        assert examples.short_forms(small, lambda _: True, most=10, seed=0).mentions == []

    def test_a_part_of_a_name_is_written_short(self, with_forms):
        names = ["mild fever", "shortness of breath", "mitral stenosis"]
        found = examples.abbreviated(
            with_forms, names * 20, with_forms.concept_rows(["T:3", "T:1", "T:2"] * 20), most=99, seed=0
        )
        counts = {mention: found.mentions.count(mention) for mention in found.mentions}
        assert counts.keys() == {"mild fev", "SOB", "MS"}
        assert counts["SOB"] == 20  # it always means that
        assert counts["MS"] < 12


ENCODER = VocabularyEncoder()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Index:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("seen") / "x.index")


@pytest.fixture(scope="module")
def pipeline(whole) -> Pipeline:
    return Pipeline(whole, lambda: ENCODER, Abbreviations.of_index(whole), respell=True)


def lists(index: Index, query: str, hidden: set[int], route: int) -> set[int]:
    """Return the strings that a route gives for a query if `hidden` were not there, from the definitions."""
    strings = list(index.strings)
    if route == VECTORS:
        row = index.rows([query])[0]
        vector = index.vectors[row] if row >= 0 else ENCODER.encode([query])[0]
        score = np.asarray(index.vectors, np.float64) @ vector
    else:
        grams = index.ngrams.vectorize([query])
        score = index.ngrams.pairwise(grams, np.zeros(len(strings), np.int64), np.arange(len(strings)))
    order = [row for row in np.argsort(-score, kind="stable").tolist() if row not in hidden]
    if route == LETTERS:
        order = [row for row in order if score[row] > 0]
    # Where strings are as near as the last one any of them may stand there.
    last = score[order[DEPTH - 1]] if len(order) >= DEPTH else -1.0
    return {row for row in order if score[row] >= last - 1e-6}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_hidden_stands_among_the_candidates(pipeline, whole, data):
    strings, concepts = examples.own_synonyms(whole, seed=0)
    rows = data.draw(st.lists(st.integers(0, len(strings) - 1), min_size=1, max_size=6))
    some, own = [strings[row] for row in rows], concepts[rows]
    parts = [
        examples.synonyms(whole, some, own),
        examples.removed(some, own),
        examples.with_noise(whole, some, own, hide=True, seed=1),
    ]
    asked = examples.join([part for part in parts if part.mentions])
    order = data.draw(st.permutations(range(len(asked.mentions))))
    seen = see(pipeline, asked.take(order))
    table, found = seen.table, seen.examples
    for number in range(len(found.mentions)):
        own_rows = np.flatnonzero(table.request == number)
        assert found.hidden_strings[number] not in table.string[own_rows].tolist()
        assert found.hidden_concepts[number] not in table.concept[own_rows].tolist()
        if found.kinds[number] == examples.SYNONYM:
            assert found.hidden_strings[number] == whole.rows([found.mentions[number]])[0] >= 0
        hidden = {int(found.hidden_strings[number])}
        concept = int(found.hidden_concepts[number])
        hidden |= {
            row
            for row in range(len(whole))
            if concept
            in whole.segment.term_concept[whole.segment.offsets[row] : whole.segment.offsets[row + 1]].tolist()
        }
        # As many candidates as there would be if it were not there: no more, for none was to spare.
        asked_itself = own_rows[table.expansion[own_rows] == 0]
        for route in (VECTORS, LETTERS):
            of_route = {int(table.string[row]) for row in asked_itself if table.routes[row] & route}
            assert of_route <= lists(whole, clean(found.mentions[number], whole.rules), hidden, route)
    right = table.concept == found.concepts[table.request]
    np.testing.assert_array_equal(seen.training.right, right)
    np.testing.assert_array_equal(seen.training.nil, found.concepts < 0)


def test_an_example_is_seen_as_it_would_be_asked(pipeline, whole):
    """What hides nothing has the candidates and features of a plain question."""
    mentions = ["drall swelling", "nebbin acke", "hx of sorvet bleeding", "table garden"]
    nothing = np.full(len(mentions), -1)
    hides = examples.removed(["left drall ache"], np.array([7]))
    plain = examples.Examples(mentions, nothing, nothing, nothing, [examples.FOREIGN] * len(mentions))
    seen = see(pipeline, examples.join([plain, hides]))
    asked, places = pipeline.ask(mentions)
    assert places == [0, 1, 2, 3]
    scored = pipeline.candidates(asked)
    end = int(seen.table.offsets[len(mentions)])
    np.testing.assert_array_equal(seen.table.concept[:end], scored.table.concept)
    np.testing.assert_allclose(seen.training.candidates[:end], scored.features.candidates, atol=1e-6)
    np.testing.assert_allclose(seen.training.mentions[: len(mentions)], scored.features.mentions, atol=1e-6)


def test_many_examples_are_seen_in_parts(pipeline, whole, monkeypatch):
    strings, concepts = examples.own_synonyms(whole, seed=0, most=40)
    asked = examples.join([examples.synonyms(whole, strings, concepts), examples.removed(strings[:9], concepts[:9])])
    whole = see(pipeline, asked)
    monkeypatch.setattr(seen_module, "EXAMPLES_AT_ONCE", 7)
    parts = see(pipeline, asked)
    for one, other in zip(whole.table, parts.table, strict=True):
        # Queries are counted anew in each part.
        if one is not whole.table.query:
            np.testing.assert_allclose(one, other, atol=1e-6)
    for one, other in zip(whole.training, parts.training, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_examples_with_nothing_in_them_are_left_out(pipeline, whole):
    nothing = np.full(3, -1)
    some = examples.Examples(["", "drall ache", " \u200b "], nothing, nothing, nothing, [examples.LABELLED] * 3)
    seen = see(pipeline, some)
    assert seen.examples.mentions == ["drall ache"]
    assert seen.training.candidates.shape[1] == len(NAMES)
    assert seen.training.mentions.shape == (1, len(MENTION_NAMES))


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_columns_are_found_by_name_in_any_order(tmp_path):
    content = '\ufeffconcept_id,who,mention\nT:1,me, head pain \nNIL,you,"table, round"\nT:2,me,頭痛\n'
    found = read_labels(write(tmp_path / "x.csv", content))
    assert found == [Label("head pain", "T:1"), Label("table, round", None), Label("頭痛", "T:2")]
    for name in ("x.tsv", "X.TSV"):  # tabs by the name
        found = read_labels(write(tmp_path / name, "mention\tconcept_id\npain, of head\tT:1\n"))
        assert found == [Label("pain, of head", "T:1")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "mention,id\na,T:1\n",
            ["has no column 'concept_id'", "value 'mention, id'", "needs the columns mention, concept_id"],
        ),
        ("", ["the file is empty"]),
        ("mention,concept_id\n", ["holds no labelled mention"]),
        ("mention,concept_id\na,T:1\n,T:2\n", ["x.csv:3:", "'mention'", "a row without a value"]),
        ('mention,concept_id\na,T:1\n"b\nc", \n', ["x.csv:3:", "'concept_id'", "NIL says that no concept fits"]),
        ("mention,concept_id\na\n", ["x.csv:2:", "1 cells, but the header has 2"]),
        ("mention,concept_id\na, dry,T:1\n", ["x.csv:2:", "3 cells, but the header has 2"]),
        (b"mention,concept_id\n\xff,T:1\n", ["x.csv:2:", "not UTF-8"]),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, says):
    path = write(tmp_path / "x.csv", content)
    with pytest.raises(InputError) as caught:
        read_labels(path)
    for one in [str(path), *says]:
        assert one in str(caught.value)


@given(st.text(alphabet="abcdefghij '-klmnop", max_size=40), st.integers(0, 99))
def test_the_same_seed_gives_the_same_and_a_word_stays_a_word(string, seed):
    one, other = (noise.noisy(string, random.Random(seed)) for _ in range(2))
    assert one == other
    assert one.strip() or not string.strip()


def test_each_kind_takes_any_string_and_changes_a_plain_name_now_and_then():
    plain = "chronic thyroiditis of youth"
    for name, kind in noise.KINDS.items():
        for string in ("", "a", "ab cd", "acute renal failure", "胃炎", "éà"):
            assert all(isinstance(kind(string, random.Random(seed)), str) for seed in range(20))
        assert {kind(plain, random.Random(seed)) for seed in range(30)} - {plain}, name


def test_what_the_kinds_do():
    string = "acute renal failure"
    words = sorted(string.split())
    for seed in range(30):
        chance = random.Random(seed)
        assert sorted(noise.swap_words(string, chance).split()) == words
        assert len(noise.drop_word(string, chance).split()) == 2
        assert noise.inverted(string, chance) == "failure, acute renal"
        assert string in noise.lead_in(string, chance)
        assert abs(len(noise.slip(string, chance)) - len(string)) <= 1
    assert noise.plural("hernias", random.Random(0)) == "hernia"
    assert noise.plural("biopsies", random.Random(0)) == "biopsy"
