"""Why an answer was given: every part of it, as fields and as one line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from alphita.answer.calibration_store import EVIDENCE, Calibration
from alphita.answer.decision import RIGHT, Outcomes, Thresholds
from alphita.answer.features import GROUPS, MENTION_NAMES, NAMES
from alphita.answer.normalizer import DEFAULT_ERROR, Normalizer
from alphita.answer.ranker import Network, Ranker, about
from alphita.answer.records import DEFINITION_CHARACTERS, Explanation, RunnerUp
from alphita.answer.results import _behind as behind
from alphita.index.store import Index, build
from tests.answer.rich import DEFINITIONS, RichTerminology
from tests.doubles import HashEncoder

WEIGHTS = {"cosine": 4.0, "letters": 2.0, "equal": 1.0}


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> Index:
    return build(RichTerminology(), HashEncoder(), tmp_path_factory.mktemp("explanation") / "rich.index")


def linear(weights: list[float], bias: float = 0.0) -> Network:
    """Return a network that adds up weighted features, as long as the sum is positive."""
    weight, d = np.array(weights)[:, None], len(weights)
    return Network(np.zeros(d), np.ones(d), weight, np.zeros(1), np.ones(1), np.array([bias]))


@pytest.fixture
def calibration() -> Calibration:
    of_mention = about(np.zeros(1), np.zeros((1, len(NAMES))), np.zeros((1, len(MENTION_NAMES))), np.array([0, 1]))
    ranker = Ranker(
        (linear([WEIGHTS.get(name, 0.0) for name in NAMES]),), (linear([0.0] * of_mention.shape[1], bias=-1.0),)
    )
    d = len(EVIDENCE)
    weight = np.zeros((d, 3))
    weight[0, RIGHT] = 1.0
    outcomes = Outcomes(np.zeros(d), np.ones(d), weight, np.array([1.0, 0.0, 0.0]))
    return Calibration(ranker, outcomes, {DEFAULT_ERROR: 0.05}, {DEFAULT_ERROR: 0.9})


def explain(index: Index, mention: str, **options) -> Explanation:
    normalizer = Normalizer(index, encoder=HashEncoder(), **options)
    return normalizer.normalize([mention], explain=True)[0].explanation


class TestFields:
    def test_name_what_was_found_and_what_it_is(self, rich):
        why = explain(rich, "Headache", ranking="fusion")
        assert (why.answer, why.matched_term, why.term_kind) == ("equal to", "Headache", "exact synonym")
        assert why.routes == ("exact", "letters", "vectors")
        assert why.similarity == {"cosine": 1.0, "letters": 1.0}
        assert why.definition == DEFINITIONS["AX:2"]
        assert (why.parents, why.semantic_types) == (("Ache",), ("Finding",))
        assert (why.nil, why.gave, why.contradictions, why.retired) == (None, {}, (), None)

    @pytest.mark.parametrize(
        ("ranking", "asked"), [("exact", set()), ("vectors", {"cosine"}), ("letters", {"letters"})]
    )
    def test_similarities_are_told_of_routes_that_were_asked(self, rich, ranking, asked):
        why = explain(rich, "Headache", ranking=ranking)
        assert set(why.similarity) == asked
        assert "0.00" not in why.numbers()

    def test_runners_up_are_the_next_concepts(self, rich):
        result = Normalizer(rich, encoder=HashEncoder()).normalize(["ache of the hed"], top_k=3, explain=True)[0]
        others = [(one.concept_id, one.concept_name, one.matched_term) for one in result.explanation.runners_up]
        assert others == [(one.concept_id, one.concept_name, one.matched_term) for one in result.candidates[1:]]
        assert len(others) == 2
        assert result.explanation.answer == "nearest to"


def test_nothing_near_at_all(rich):
    assert explain(rich, "頭痛", ranking="exact").answer == "NIL: no name comes near"


class TestLearned:
    def test_groups_tell_what_speaks_for_the_answer_and_against_the_next(self, rich, calibration):
        normalizer = Normalizer(rich, encoder=HashEncoder(), calibration=calibration)
        result = normalizer.normalize(["Headache"], top_k=3, explain=True)[0]
        why = result.explanation
        # Against features of 0, which are the middling ones here.
        assert why.gave == {"meaning": 4.0, "letters": 2.0, "exactness": 1.0}
        assert list(why.gave) == ["meaning", "letters", "exactness"]
        for other, candidate in zip(why.runners_up, result.candidates[1:], strict=True):
            expected = 4.0 * (1 - candidate.similarity)
            assert other.behind["meaning"] == pytest.approx(expected, abs=2e-3)
            assert other.behind["exactness"] == pytest.approx(1.0)
            assert sum(other.behind.values()) == pytest.approx(result.candidates[0].score - candidate.score, abs=3e-3)
        assert 0 < why.nil < 0.9
        assert f"p(NIL) {why.nil:.2f}" in why.numbers()
        assert "by meaning +4.0, letters +2.0, exactness +1.0" in why.numbers()

    def test_what_is_accepted_does_not_depend_on_how_confidence_is_shown(self, rich, calibration, monkeypatch):
        normalizer = Normalizer(rich, encoder=HashEncoder(), calibration=calibration)
        made, seen = normalizer._builder.results, []

        def results(asked, scored, answers, *rest, **options):
            seen.append(float(answers.confidence[0]))
            return made(asked, scored, answers, *rest, **options)

        monkeypatch.setattr(normalizer._builder, "results", results)
        [result] = normalizer.normalize(["Headache"])
        assert result.confidence == pytest.approx(seen[0], abs=1e-6)
        assert result.confidence != seen[0]
        for accept, decision in ((seen[0], "accept"), (np.nextafter(seen[0], 2), "review")):
            normalizer.thresholds = Thresholds(accept, 0.9)
            assert normalizer.normalize(["Headache"])[0].decision == decision


def test_behind_is_what_the_winner_loses_with_the_others_values():
    random = np.random.default_rng(0)
    d, h = len(NAMES), 6
    networks = tuple(
        Network(
            random.normal(size=d),
            random.uniform(0.5, 2, d),
            random.normal(size=(d, h)),
            random.normal(size=h),
            random.normal(size=h),
            random.normal(size=1),
        )
        for _ in range(2)
    )
    ranker = Ranker(networks, networks)
    winner, others = random.normal(size=d).astype(np.float32), random.normal(size=(3, d)).astype(np.float32)
    found = behind(ranker, winner, others)
    own = ranker.score(winner[None])[0]
    for row, other in enumerate(others):
        lost = {}
        for group, names in GROUPS.items():
            swapped = [other[n] if name in names else winner[n] for n, name in enumerate(NAMES)]
            lost[group] = own - ranker.score(np.array([swapped], np.float32))[0]
        kept = {group: value for group, value in lost.items() if abs(value) >= 0.05}
        assert found[row] == pytest.approx(kept, abs=1e-3)
        assert list(found[row]) == sorted(kept, key=lambda group: -abs(kept[group]))
    assert behind(ranker, winner, others[:0]) == []


def test_the_line_has_every_part_in_its_order():
    other = RunnerUp("T:2", "Cold", "cold", {"meaning": 2.04, "letters": -0.31})
    why = Explanation(
        "nearest to",
        "Fever",
        "preferred name",
        ("letters", "vectors"),
        {"cosine": 0.913, "letters": 0.5},
        "d" * 200,
        ("Sign",),
        ("Finding", "Symptom"),
        "read as 'fever' (spelling)",
        ("side: left against right",),
        "T:9",
        (other, other),
        0.125,
        {"meaning": 3.0, "words": 2.0, "letters": 1.0, "term": 0.1},
    )
    assert why.numbers() == (
        "nearest to 'Fever' (preferred name); found by letters, vectors; cosine 0.91; letters 0.50; "
        "by meaning +3.0, words +2.0, letters +1.0; p(NIL) 0.12; read as 'fever' (spelling); "
        "a name of T:9, retired and replaced by this; contradiction: side: left against right; "
        "before 'cold' (T:2): meaning +2.0, letters -0.3; type: Finding, Symptom; a kind of: Sign; "
        "definition: " + "d" * (DEFINITION_CHARACTERS - 1) + "…"
    )
    assert Explanation("NIL: because").numbers() == "NIL: because"
    assert replace(why, definition="one\n line").numbers().endswith("definition: one line")


SYNONYM = Explanation("equal to", "SOB", "exact synonym", similarity={"cosine": 1.0}, concept_name="Dyspnea")


@pytest.mark.parametrize(
    ("why", "sentence"),
    [
        (SYNONYM, 'equal to the synonym "SOB" of Dyspnea'),
        (
            replace(SYNONYM, runners_up=(RunnerUp("T:2", "Dyspnea on exertion", "DOE", {}, similarity=0.412),)),
            'equal to the synonym "SOB" of Dyspnea; next best: Dyspnea on exertion (0.41)',
        ),
        (replace(SYNONYM, term_kind="broad synonym"), 'equal to the broad synonym "SOB" of Dyspnea'),
        (replace(SYNONYM, term_kind="MESH's name for T:1"), 'equal to "SOB", MESH\'s name for T:1, linked to Dyspnea'),
        (
            replace(SYNONYM, runners_up=(RunnerUp("T:2", "Dyspnea", "dyspnoea", {}),)),
            'equal to the synonym "SOB" of Dyspnea; next best: Dyspnea T:2',
        ),
        (
            Explanation("nearest to", "Dyspnea", "preferred name", similarity={"cosine": 0.9}, concept_name="Dyspnea"),
            'nearest to the name "Dyspnea" (similarity 0.90)',
        ),
        (
            replace(SYNONYM, non_standard="T:9", contradictions=("side: left against right",)),
            'equal to the synonym "SOB" of Dyspnea; a name of T:9, which is not standard and maps to this; '
            "to check: side: left against right",
        ),
        (
            replace(SYNONYM, answer="NIL: no name is close enough; the nearest is", similarity={"cosine": 0.3}),
            'no name is close enough; the nearest is the synonym "SOB" of Dyspnea (similarity 0.30)',
        ),
        (replace(SYNONYM, answer="the identifier of", similarity={}), "the identifier of Dyspnea"),
        (Explanation("NIL: no name comes near"), "no name comes near"),
    ],
)
def test_a_plain_sentence(why, sentence):
    assert str(why) == sentence
