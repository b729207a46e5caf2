"""Projects, rows and the queue: kept as they were given, found in every order, by indexes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from alphita.errors import InputError, UsageError
from alphita.mappings.record import COLUMNS
from alphita.review import queueing, tables
from alphita.review.records import Added, Project
from alphita.review.store import Busy, Unknown
from tests.mappings.sample import ODD, mapping
from tests.review.samples import FOOT, TOE, Say, candidate, plan, project, row, store

pytestmark = pytest.mark.usefixtures("each_database")


def ids(reviews, **asked):
    return [one.row.id for one in reviews.queue("codes", **asked)[1]]


def test_projects_are_kept_as_given(tmp_path):
    with store(tmp_path) as reviews:
        made = Project("ünïcode 'x'", "RIS", "c", "t", "", "m", "2026-01-02T03:04:05+00:00", blind=False)
        reviews.add_project(made)
        first, second = reviews.projects()
        assert (first.name, second) == ("codes", made)
        assert reviews.project(made.name) == made
        assert first == replace(project(), created_at=first.created_at)
        assert first.created_at.endswith("+00:00")
        with pytest.raises(InputError, match="exists already"):
            reviews.add_project(made)
        for wrong in (project(" "), project("x", source="")):
            with pytest.raises(InputError, match="needs one"):
                reviews.add_project(wrong)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    code=ODD,
    mention=ODD,
    context=st.dictionaries(ODD, ODD, max_size=2),
    types=st.lists(ODD, max_size=3, unique=True),
    fields=st.dictionaries(st.sampled_from(["concept_name", "explanation", "comment", "routes"]), ODD),
    confidence=st.none() | st.floats(0, 1),
    number=st.integers(1, 2**63 - 1),
    frequency=st.integers(0, 2**63 - 1),
)
def test_rows_come_back_as_they_went_in(
    tmp_path_factory, code, mention, context, types, fields, confidence, number, frequency
):
    answer = mapping(mention, TOE, confidence=confidence, similarity=1 / 3, **fields)
    known = {"frequency": frequency, "code": code, "mention": mention, "context": context, "types": tuple(types)}
    made = row(number, candidates=(answer, mapping(mention, None, rank=2)), **known)
    with store(tmp_path_factory.mktemp("store"), [made]) as reviews:
        assert reviews.row(1) == replace(made, id=1, project="codes")
        assert reviews.standing(1).row == reviews.row(1)
        with reviews.database.reading() as connection:
            stored, _ = json.loads(connection.execute(select(tables.detail.c.candidates)).scalar_one())
        assert set(stored) < set(COLUMNS)
        assert None not in stored.values()


def test_a_pair_of_code_and_mention_is_kept_once(tmp_path):
    with store(tmp_path) as reviews:
        first = [row(1, frequency=5), row(2, frequency=6), row(3, frequency=7, code="c1", mention="mention 1")]
        assert reviews.add_rows("codes", iter(first)) == Added(2, 1)
        again = [row(1, frequency=50), row(2, code="other"), row(2, mention="other")]
        assert reviews.add_rows("codes", again) == Added(2, 1)
        reviews.add_project(project("other"))
        assert reviews.add_rows("other", again) == Added(3, 0)
        total, page = reviews.queue("codes", state="all", order="row")
        assert total == 4
        assert page[0].row.frequency == 5


def test_with_one_bad_row_none_is_added(tmp_path):
    bad = {
        "frequency": [row(1, frequency=-1), row(1, frequency=2**63)],
        "number": [row(0)],
        "confidence": [row(1, 1.5), row(1, float("nan"))],
        "surrogate": [row(1, mention="\ud800")],
    }
    with store(tmp_path) as reviews:
        for field, wrong in ((field, wrong) for field, some in bad.items() for wrong in some):
            with pytest.raises(InputError, match=field):
                reviews.add_rows("codes", [row(5), wrong, row(6)])
            with pytest.raises(InputError, match=field):
                reviews.add_project(project("new"), [row(1), wrong])
        assert [known.name for known in reviews.projects()] == ["codes"]
        assert reviews.queue("codes", state="all") == (0, [])
        assert reviews.add_rows("codes", [row(5)]) == Added(1, 0)


def test_a_source_of_rows_that_writes_to_the_store_is_told_so(tmp_path):
    with store(tmp_path, [row(1)]) as reviews:
        reviews.database.timeout = 0.1

        def rows():
            yield row(2)
            Say(reviews)("ann", 1, "accept")

        with pytest.raises(Busy):
            reviews.add_rows("codes", rows())
        assert reviews.progress("codes").rows == 1


ROWS = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.none() | st.sampled_from([0.0, 0.5, 0.9, 1.0]),
        st.integers(0, 5),
        st.none() | st.floats(-5, 5),
    ),
    max_size=12,
)
KEYS = {
    "risk": lambda one, _: (-one.risk,),
    "frequency": lambda one, _: (-one.frequency,),
    "confidence": lambda one, _: (one.confidence is not None, one.confidence or 0.0),
    "row": lambda one, _: (),
    "learning": lambda one, scores: (one.id not in scores, -scores.get(one.id, 0.0), -one.risk),
}


@settings(max_examples=25, deadline=None)
@given(rows=ROWS, limit=st.integers(0, 13), offset=st.integers(0, 13))
def test_orders_against_a_naive_sort(tmp_path_factory, rows, limit, offset):
    made = [row(number, p, n, code=str(at)) for at, (number, p, n, _) in enumerate(rows)]
    with store(tmp_path_factory.mktemp("store"), made) as reviews:
        scores = {id: one[3] for id, one in enumerate(rows, 1) if one[3] is not None}
        reviews.set_learning("codes", scores)
        stored = [reviews.row(id) for id in range(1, len(rows) + 1)]
        for order, key in KEYS.items():
            expected = sorted(stored, key=lambda one: (*key(one, scores), one.number, one.id))
            total, page = reviews.queue("codes", order=order, limit=limit, offset=offset)
            assert total == len(rows)
            assert [one.row for one in page] == expected[offset : offset + limit]


def test_what_was_skipped_comes_last_on_every_page(tmp_path):
    with store(tmp_path, [row(number, frequency=100 - number) for number in range(1, 9)]) as reviews:
        say = Say(reviews)
        for number in (3, 1, 7):
            say("ann", number, "skip")
        expected = [2, 4, 5, 6, 8, 3, 1, 7]
        for limit in range(1, 10):
            pages = [ids(reviews, reviewer="ann", limit=limit, offset=offset) for offset in range(0, 9, limit)]
            assert [id for page in pages for id in page] == expected
        assert ids(reviews, reviewer="bob") == list(range(1, 9))
        assert ids(reviews, reviewer="ann", state="all") == list(range(1, 9))
        say("ann", 3, "skip")
        assert ids(reviews, reviewer="ann")[-3:] == [1, 7, 3]


def test_search_and_types(tmp_path):
    rows = [
        row(1, mention="Zehe, STRASSE 100%", types=("Sign", "Disease")),
        row(2, mention="ﬁnger", code="A_b", context={"unit": "mg/dL"}, types=("Sign",)),
        row(3, mention="hand", candidates=(candidate("HP:0000003", concept_name="Hände"), candidate(FOOT, rank=2))),
    ]
    with store(tmp_path, rows) as reviews:
        for search, found in {
            "": [1, 2, 3],
            "strasse": [1],
            "100%": [1],
            "%": [1],
            "_": [2],
            "FINGER": [2],
            "a_B": [2],
            "MG/": [2],
            "hände": [3],
            "hp:0000003": [3],
            "0000002": [],
            "'": [],
            "zehe hand": [],
        }.items():
            assert ids(reviews, search=search, order="row") == found, search
        assert ids(reviews, types=["Sign"], order="row") == [1, 2]
        assert ids(reviews, types={"Disease", "none"}) == [1]
        assert ids(reviews, types=["none"]) == []
        assert ids(reviews, types=["Sign"], search="strasse", reviewer="ann") == [1]


@pytest.mark.parametrize("wrong", [{"order": "rsk"}, {"state": "opn"}, {"limit": -1}, {"offset": -1}])
def test_wrong_questions(tmp_path, wrong):
    with store(tmp_path) as reviews, pytest.raises(UsageError, match=r"did you mean '(risk|open)'|negative"):
        reviews.queue("codes", **wrong)


def test_learning_scores_must_be_of_the_project(tmp_path):
    with store(tmp_path, [row(1), row(2)]) as reviews:
        reviews.set_learning("codes", {2: 1.0})
        with pytest.raises(Unknown, match="unknown row 3"):
            reviews.set_learning("codes", {1: 2.0, 3: 1.0})
        with pytest.raises(InputError, match="out of range"):
            reviews.set_learning("codes", {2**70: 1.0})
        with pytest.raises(InputError, match="not a number"):
            reviews.set_learning("codes", {1: float("nan")})
        assert ids(reviews, order="learning") == [2, 1]


@pytest.mark.parametrize(
    ("reviewer", "state", "blind"),
    [(None, "all", True), ("ann", "open", True), ("ann", "flagged", True), ("ann", "all", False)],
)
def test_pages_are_read_by_indexes_without_sorting(tmp_path, reviewer, state, blind):
    with store(tmp_path, [row(number, number / 100, number) for number in range(1, 100)], blind=blind) as reviews:
        given, values = queueing.selection(1, reviews.project("codes"), reviewer, state, "", ())
        for name in tables.ORDERS:
            found = plan(reviews, queueing.statement(given, "all", name), limit=50, offset=0, **values)
            assert f"row_by_{'number' if name == 'row' else name}" in found
            assert not re.search("SCAN|TEMP B-TREE|Sort|Seq Scan", found), found
