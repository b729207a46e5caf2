"""What the ranker sees, against loops written from the definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rapidfuzz.distance import Indel

from alphita.answer import features
from alphita.answer.candidates import languages_of
from alphita.answer.features import GROUPS, MENTION_NAMES, NAMES, Asked, Featurizer
from alphita.answer.pipeline import Pipeline
from alphita.answer.vetoes import CLINIC
from alphita.index.lookup import EXACT, LETTERS, VECTORS, WHOLE, How, lookup
from alphita.index.store import Index, build
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.short_forms import Meaning
from alphita.mention.spelling import ABBREVIATION, SHORTENED, SPELLING, Reading
from tests.answer.synthetic import VocabularyEncoder, synthetic_terminology
from tests.doubles import HashEncoder, SmallTerminology

ENCODER = VocabularyEncoder()
MENTIONS = ["left drall swelling", "drall swelling left", "DRALL", "hx of nebbin ache", "wholly unheard words"]
MENTIONS += ["acute drall ache", "chronic sorvet stone", "bleeding", "sorvet", "?x?", "quenna weaknes", "🫀 stone"]
MENTIONS += ["10 mg of 糖尿病", "\ud800 ache"]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("features") / "x.index")


@pytest.fixture(scope="module")
def found(index):
    pipeline = Pipeline(index, lambda: ENCODER)
    asked, places = pipeline.ask(MENTIONS)
    assert places == list(range(len(MENTIONS)))
    return asked, pipeline.candidates(asked)


def column(found, name: str) -> np.ndarray:
    return found[1].features.candidates[:, NAMES.index(name)].astype(np.float64)


def mention_column(found, name: str) -> np.ndarray:
    return found[1].features.mentions[:, MENTION_NAMES.index(name)].astype(np.float64)


def groups(table):
    """Yield the rows of each request."""
    for request in range(len(table.offsets) - 1):
        yield request, list(range(int(table.offsets[request]), int(table.offsets[request + 1])))


def test_every_feature_is_in_one_group():
    assert len(NAMES) == len(set(NAMES)) == sum(map(len, GROUPS.values()))
    assert len(MENTION_NAMES) == len(set(MENTION_NAMES))


@pytest.mark.parametrize("name", ["cosine", "letters"])
def test_rank_and_margins(found, name):
    table = found[1].table
    values = column(found, f"best_{name}")
    np.testing.assert_allclose(values, getattr(table, f"best_{name}"), atol=1e-6)
    top, second = mention_column(found, f"top_{name}"), mention_column(found, f"second_{name}")
    for request, rows in groups(table):
        order = sorted(rows, key=lambda row: (-values[row], row))
        best = values[order[0]] if order else 0.0
        next_ = values[order[1]] if len(order) > 1 else 0.0
        assert top[request] == pytest.approx(best, abs=1e-6)
        assert second[request] == pytest.approx(next_, abs=1e-6)
        for row in order:
            above = sum(values[other] > values[row] for other in rows)
            assert column(found, f"{name}_rank")[row] == pytest.approx(1 / (1 + above), abs=1e-6)
            assert column(found, f"{name}_behind_best")[row] == pytest.approx(best - values[row], abs=1e-6)
            ahead = best - next_ if above == 0 else 0.0
            assert column(found, f"{name}_ahead_of_next")[row] == pytest.approx(ahead, abs=1e-6)


def test_strings_are_compared(found, index):
    _, scored = found
    table = scored.table
    for row in range(0, len(table.request), 3):
        left, right = scored.queries[int(table.query[row])], index.strings[int(table.string[row])]
        assert column(found, "edit_ratio")[row] == pytest.approx(Indel.normalized_similarity(left, right), abs=1e-5)
        in_order = [" ".join(sorted(text.split())) for text in (left, right)]
        assert column(found, "sorted_ratio")[row] == pytest.approx(Indel.normalized_similarity(*in_order), abs=1e-5)
        lengths = sorted([len(left), len(right)])
        assert column(found, "length_ratio")[row] == pytest.approx(lengths[0] / lengths[1], abs=1e-6)
        assert column(found, "equal")[row] == (left == right)
        both = table.routes[row] & LETTERS and table.routes[row] & VECTORS
        assert column(found, "found_by_both")[row] == bool(both)
        assert column(found, "strings_found")[row] == pytest.approx(np.log1p(table.strings[row]))


def test_mentions_are_described(found):
    _, scored = found
    table, close = scored.table, column(found, "best_cosine")
    for request, rows in groups(table):
        own = scored.queries[request]
        assert mention_column(found, "characters")[request] == pytest.approx(np.log1p(len(own)), abs=1e-5)
        near = sum(max(close[other] for other in rows) - close[row] < features.CLOSE - 1e-7 for row in rows)
        assert mention_column(found, "candidates_close")[request] == pytest.approx(np.log1p(near), abs=1e-5)
        equal = any(table.routes[row] & EXACT for row in rows)
        assert mention_column(found, "equal_to_a_term")[request] == equal
    known = mention_column(found, "known_words")
    assert known[MENTIONS.index("left drall swelling")] == pytest.approx(1.0)
    assert known[MENTIONS.index("wholly unheard words")] == 0.0
    assert column(found, "mention_is_short_capitals").any()
    assert set(table.request[column(found, "mention_is_short_capitals") > 0].tolist()) == {MENTIONS.index("DRALL")}


def test_contradictions_are_seen(found, index):
    table = found[1].table
    acute = table.request == MENTIONS.index("acute drall ache")
    names = np.array([index.strings[int(row)] for row in table.string])
    other = acute & np.array(["chronic" in name for name in names])
    same = acute & np.array(["acute" in name for name in names])
    assert other.any()
    assert same.any()
    assert (column(found, "contradictions")[other] > 0).all()
    assert (column(found, "contradictions")[same] == 0).all()
    assert (column(found, "agreements")[same] > 0).all()


def test_the_reading_that_found_a_candidate_is_told(index):
    pipeline = Pipeline(index, lambda: ENCODER)
    asked, _ = pipeline.ask(["qqq"])
    readings = (
        Reading("drall ache", ABBREVIATION, True),
        Reading("nebbin ache", SPELLING),
        Reading("sorvet", SHORTENED),
    )
    queries = [*asked.queries, *(one.string for one in readings)]
    asked = asked._replace(
        queries=queries, requests=[(0, 1, 2, 3)], mentions=[replace(asked.mentions[0], readings=readings)]
    )
    scored = pipeline.candidates(asked)
    values = {name: scored.features.candidates[:, NAMES.index(name)] for name in GROUPS["reading"]}
    for number, name in enumerate(("expanded", "respelt", "shortened"), 1):
        np.testing.assert_array_equal(values[name] > 0, scored.table.expansion == number)
        assert (values[name] > 0).any()
    np.testing.assert_array_equal(values["expansion_decided"], values["expanded"])
    assert scored.features.mentions[0, MENTION_NAMES.index("expanded_mention")] == 1


def test_how_near_the_preferred_name_is(found, index):
    _, scored = found
    vectors = ENCODER.encode(scored.queries)
    names = ENCODER.encode([name.lower() for name in index.segment.concepts.column("name").to_pylist()])
    table, near = scored.table, column(found, "preferred_cosine")
    for _, rows in groups(table):
        wanted = [float(vectors[table.query[row]] @ names[table.concept[row]]) for row in rows]
        np.testing.assert_allclose(near[rows], wanted, atol=2e-3)
        behind = [max(near[rows]) - near[row] for row in rows]
        np.testing.assert_allclose(column(found, "preferred_cosine_behind_best")[rows], behind, atol=1e-6)


def test_how_often_a_short_form_means_a_candidate(index):
    readings = (
        Reading("left drall ache", ABBREVIATION, share=0.5, origin=CLINIC),
        Reading("ache of the left drall", ABBREVIATION, share=0.2, origin=CLINIC),
        Reading("left nebbin ache", ABBREVIATION, share=0.25, origin=CLINIC),
        Reading("left sorvet stone", ABBREVIATION),
        Reading("no such name", ABBREVIATION, share=0.05, origin=CLINIC),
    )
    pipeline = Pipeline(index, lambda: ENCODER)
    asked, _ = pipeline.ask(["lda", "lda found"])
    queries = [*asked.queries, *(one.string for one in readings)]
    mentions = [replace(mention, readings=readings) for mention in asked.mentions]
    requests = [(number, *range(2, len(queries))) for number in range(2)]
    scored = pipeline.candidates(asked._replace(queries=queries, requests=requests, mentions=mentions))
    named = {"left drall ache": {0, 1}, "left nebbin ache": {2}}
    names = index.segment.concepts.column("name").to_pylist()
    meant, otherwise = (scored.features.candidates[:, NAMES.index(name)] for name in ("meant", "meant_otherwise"))
    led = set()
    for row in range(len(meant)):
        by = int(scored.table.expansion[row]) - 1
        # The long form names the candidate, or led to it; the fourth reading is not of a short form of the clinic.
        own = named.get(names[scored.table.concept[row]], set())
        mine = (own | {by}) - {-1, 3}
        led |= mine - own
        share = sum(readings[one].share for one in mine)
        assert (meant[row], otherwise[row]) == pytest.approx((share, 1 - share), abs=1e-6)
    assert led
    assert (meant > 0.2).any()


# Terms and languages.


def languages_index(tmp_path) -> Index:
    terminology = SmallTerminology(
        [
            ("T:1", "one name", "exact"),
            ("T:1", "un nom", "broad"),
            ("T:2", "ein name", "narrow"),
            ("T:2", "shared", "related"),
            ("T:3", "third", "exact"),
            ("T:3", "shared", "exact"),
            ("T:3", "tn", "exact"),
        ]
    )
    table = terminology.terms
    table = table.set_column(
        table.column_names.index("language"), "language", [["en", "fr-CA", "de", "en", None, "EN-us", "en"]]
    )
    kinds = [None, "layperson", None, None, None, None, "abbreviation"]
    table = table.set_column(table.column_names.index("type"), "type", [kinds])
    table = table.set_column(
        table.column_names.index("status"),
        "status",
        [["official"] * 3 + ["machine", "candidate", "official", "official"]],
    )
    terminology.terms = table
    return build(terminology, HashEncoder(), tmp_path / "x.index")


def test_languages_are_compared_by_their_first_part(tmp_path):
    index = languages_index(tmp_path)
    languages = languages_of(index.segment)
    terms = dict(zip(index.segment.terms.column("string").to_pylist(), range(7), strict=False))
    assert set(languages.names) == {"en", "fr", "de"}
    assert languages.of_term[terms["third"]] == -1
    assert languages.of_term[terms["un nom"]] == languages.names["fr"]
    given = languages.given(["fr", "fr-FR", "fr_FR", "EN", None, "", "ja"])
    assert given.tolist() == [languages.names["fr"]] * 3 + [languages.names["en"], -1, -1, 3]


def test_what_terms_say_of_themselves(tmp_path):
    index = languages_index(tmp_path)
    pipeline = Pipeline(index, lambda: HashEncoder())
    asked, _ = pipeline.ask(["un nom", "ein name", "third", "tn"], None, ["fr", "en", "en", None])
    scored = pipeline.candidates(asked)
    names = [index.segment.terms.column("string")[int(term)].as_py() for term in scored.table.term]
    ids = [index.segment.concepts.column("id")[int(row)].as_py() for row in scored.table.concept]

    def flags(request: int, concept: str) -> set[str]:
        row = next(row for row in range(len(ids)) if scored.table.request[row] == request and ids[row] == concept)
        wanted = (*GROUPS["term"][:9], "language_given_and_same", "language_given_and_other")
        values = scored.features.candidates[row]
        return {names[row], *(name for name in wanted if values[NAMES.index(name)] > 0)} - {"homonyms"}

    assert flags(0, "T:1") == {"un nom", "scope_broad", "layperson_term", "language_given_and_same"}
    assert flags(1, "T:2") == {"ein name", "preferred", "scope_narrow", "language_given_and_other"}
    # A term of no language is of another than a given one.
    assert flags(2, "T:3") == {"third", "preferred", "not_official", "language_given_and_other"}
    assert flags(3, "T:3") == {"tn", "abbreviation_term"}


def test_the_mention_is_its_own_string_whichever_reading_found_the_first_candidate(index):
    """Not the reading of the candidate that happens to stand first in the index."""
    known = Abbreviations([Meaning("ZQ", "acute drall swelling"), Meaning("ZQ", "upper yardel stone")])
    pipeline = Pipeline(index, lambda: ENCODER, known)
    asked, _ = pipeline.ask(["ZQ", "drall ache"])
    scored = pipeline.candidates(asked)
    assert len(asked.requests[0]) == 3
    assert (scored.table.query[: scored.table.offsets[1]] != asked.requests[0][0]).any()
    of_mentions = scored.features.mentions[:, [MENTION_NAMES.index(name) for name in ("characters", "words")]]
    np.testing.assert_allclose(of_mentions, np.log1p([[2, 1], [10, 2]]), atol=1e-6)


def test_homonyms_alike_in_all_are_told_apart_by_nothing(tmp_path):
    rows = [("X:1", "zorblatt fever", "exact"), ("X:2", "zorblatt fever", "exact"), ("X:3", "headache", "exact")]
    homonyms = build(SmallTerminology(rows), ENCODER, tmp_path / "homonyms.index")
    pipeline = Pipeline(homonyms, lambda: ENCODER)
    asked, _ = pipeline.ask(["zorblatt fevers"])
    scored = pipeline.candidates(asked)
    rows = [row for row, concept in enumerate(scored.table.concept.tolist()) if concept < 2]
    assert len(rows) == 2
    first, second = scored.features.candidates[rows]
    assert dict(zip(NAMES, first.tolist(), strict=True)) == dict(zip(NAMES, second.tolist(), strict=True))
    assert first[NAMES.index("cosine_rank")] == 1


def test_no_candidates_have_no_features(index):
    pipeline = Pipeline(index, lambda: ENCODER)
    asked, _ = pipeline.ask(["drall ache"])
    empty = pipeline.candidates(asked).table.take(np.zeros(0, np.int64))
    found = lookup(index, lambda: ENCODER, asked.queries, How(described=[0]))
    features = Featurizer(index)(Asked(asked.queries, np.arange(1), asked.mentions, found, WHOLE, [0]), empty)
    assert features.candidates.shape == (0, len(NAMES))
    assert features.mentions.shape == (1, len(MENTION_NAMES))
    assert np.isfinite(features.mentions).all()
