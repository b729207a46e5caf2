"""The normaliser as a system of a benchmark, with a stand-in for the encoder."""

from __future__ import annotations

import json

import numpy as np
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.errors import InputError, UsageError
from alphita.index.store import build
from alphita.terminology.splits import Split
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.systems import Answer, ConceptRanker, System, VectorSystem, load_system
from alphita_lab.evaluation.systems import normalizer as module
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from tests.answer.synthetic import VocabularyEncoder, quick_fit, quickly, synthetic_terminology

ENCODER = VocabularyEncoder()
MADE = synthetic_terminology(120)
# Ids that are no CURIEs, as benchmarks have them.
IDS = [f"id {row}|x" for row in MADE.term_concept.tolist()]
NAMES = [name.title() for name in MADE.terms.column("string").to_pylist()]
MENTIONS = ["left drall swelling", "nebbin acke upper", "chronic stone", "acute Sorvet Ache", "QUENNA"]


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: ENCODER)
    module._LAST.clear()
    quickly(monkeypatch)


def plain() -> EncoderSystem:
    return EncoderSystem(ENCODER, "hash", rules=DEFAULT_RULES, facts={"kind": "encoder"})


def test_it_is_a_system_that_ranks_concepts():
    system = load_system("normalizer:hash,ranking=letters,contexts=false,seed=3")
    assert isinstance(system, System)
    assert isinstance(system, ConceptRanker)
    assert not isinstance(system, VectorSystem)
    assert not isinstance(plain(), ConceptRanker)
    assert system.name == "normalizer:hash,letters,contexts=false"
    assert load_system("normalizer:hash,ranking=letters").name == "normalizer:hash,letters"
    assert system.rules == DEFAULT_RULES
    assert system.facts == {
        "kind": "normalizer",
        "encoder": "hash",
        "content_hash": ENCODER.content_hash,
        "ranking": "letters",
        "contexts": False,
        "borrow": True,
        "learn": "seconds",
        "fit": "general",
        "split": None,
        "calibration": None,
        "seed": 3,
    }
    assert load_system("normalizer").name == "normalizer:alphita-en,learned"
    assert load_system("normalizer:hash,name=mine").name == "mine"
    bare = load_system("normalizer:alphita-en,borrow=false,learn=no,fit=own")
    assert bare.name == "normalizer:alphita-en,learned,borrow=false,learn=no,fit=own"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("normalizer:hash,rankings=letters", "unknown option of normalizer 'rankings'; did you mean 'ranking'"),
        ("normalizer:hash,ranking=letter", "'letter'; did you mean 'letters'"),
        ("normalizer:hash,contexts=maybe", "contexts of the normalizer is true or false, not 'maybe'"),
        ("normalizer:hash,seed=first", "seed of the normalizer is a whole number, 0 or more, not 'first'"),
        ("normalizer:hash,seed=-1", "seed of the normalizer is a whole number"),
        ("normalizer:hash,letters", "is not of the form option=value"),
    ],
)
def test_what_it_does_not_know_it_refuses(spec, problem):
    with pytest.raises(UsageError, match=problem):
        load_system(spec)


def test_what_a_borrowed_name_finds_is_shown_by_the_concepts_own():
    system = load_system("normalizer:hash,ranking=letters,learn=no")
    (found,) = system.rank_concepts(["breathlessness"], ["a", "b"], ["Dyspnea", "Cough"], 2, None)
    assert (found[0].concept_id, found[0].name) == ("a", "Dyspnea")


@pytest.mark.parametrize("ranking", ["exact", "letters", "vectors", "fusion"])
@pytest.mark.parametrize("k", [1, 3, 200])
def test_at_most_k_concepts_in_order(ranking, k):
    system = load_system(f"normalizer:hash,ranking={ranking}")
    answers = system.rank_concepts(MENTIONS, IDS, NAMES, k, None)
    assert len(answers) == len(MENTIONS)
    own = set(zip(IDS, NAMES, strict=True))
    for found in answers:
        assert len(found) <= k
        assert all(isinstance(one, Answer) and (one.concept_id, one.name) in own for one in found)
        ids = [one.concept_id for one in found]
        assert len(ids) == len(set(ids))
        similarities = [one.similarity for one in found]
        assert similarities == sorted(similarities, reverse=True)
        if ranking in ("vectors", "fusion"):
            assert len(found) == min(k, 120)
    assert system.rank_concepts([], IDS, NAMES, k, None) == []
    assert system.rank_concepts(["", "?"], IDS, NAMES, k, None) == [[], []]


def test_the_learned_ranking_is_fitted_on_the_names_once(monkeypatch):
    fits = []

    def counted(*args, **options):
        fits.append(options["seed"])
        return fit(*args, **options)

    fit = module.fit
    monkeypatch.setattr(module, "fit", counted)
    system = load_system("normalizer:hash")
    first = system.rank_concepts(MENTIONS, IDS, NAMES, 5, None)
    assert system.rank_concepts(MENTIONS, IDS, NAMES, 5, None) == first
    assert load_system("normalizer:hash").rank_concepts(MENTIONS, IDS, NAMES, 5, None) == first
    assert fits == [0]
    load_system("normalizer:hash,seed=1").rank_concepts(MENTIONS, IDS, NAMES, 5, None)
    assert fits == [0, 1]
    assert first[0][0].concept_id in IDS
    # Only a few indexes are kept: each is a folder.
    folders = [made.opened.path for made in module._LAST.values()]
    for number in range(module.KEPT):
        load_system("normalizer:hash,ranking=exact").rank_concepts(
            ["x"], IDS[number + 1 :], NAMES[number + 1 :], 1, None
        )
    assert len(module._LAST) == module.KEPT
    assert not any(path.exists() for path in folders)


def test_too_few_names_to_learn_from_are_said():
    with pytest.raises(InputError, match="held-out strings name concepts of this index"):
        load_system("normalizer:hash").rank_concepts(["x"], IDS[:9], NAMES[:9], 1, None)


def test_contexts_are_used_only_if_wanted(monkeypatch):
    seen = []
    normalize = Normalizer.normalize
    monkeypatch.setattr(
        Normalizer,
        "normalize",
        lambda self, mentions, **options: (seen.append(options["contexts"]), normalize(self, mentions, **options))[1],
    )
    name = next(one for one in NAMES if one.startswith("Left ") and one.endswith(" Ache"))
    short = "".join(word[0] for word in name.split())
    concept = IDS[NAMES.index(name)]
    text = f"He has {name.lower()} ({short}) since May."
    answers = {}
    for contexts in ("true", "false"):
        system = load_system(f"normalizer:hash,contexts={contexts}")
        answers[contexts] = system.rank_concepts([short], IDS, NAMES, 1, [text])
    assert seen == [[text], None]
    assert answers["true"][0][0].concept_id == concept
    assert answers["false"] == load_system("normalizer:hash").rank_concepts([short], IDS, NAMES, 1, None)
    queries = linking.Queries([(short,)], [(frozenset([concept]),)], contexts=[text])
    targets = linking.Targets(ids=IDS, names=NAMES)
    for contexts, right in (("true", 1.0), ("false", float(answers["false"][0][0].concept_id == concept))):
        result = linking.evaluate(load_system(f"normalizer:hash,contexts={contexts}"), queries, targets)
        assert result.rows["right@1"].to_list() == [bool(right)]


def test_vectors_alone_are_as_right_as_the_encoder_alone():
    mentions = [name.lower().replace("e", "", 1) for name in NAMES[::3]] + ["", "?", "QUENNA", "no such thing"]
    gold = IDS[::3] + [IDS[0]] * 4
    queries, targets = linking.simple(mentions, gold), linking.Targets(ids=IDS, names=NAMES)
    one = linking.evaluate(load_system("normalizer:hash,ranking=vectors"), queries, targets)
    other = linking.evaluate(plain(), queries, targets)
    # The plain encoder has an answer to an empty mention too.
    rows = [row for row, mention in enumerate(mentions) if mention not in ("", "?")]
    for column in ("right@1", "right@3", "right@5", "shared@1", "gold_name", "covered"):
        assert one.rows[column][rows].to_list() == other.rows[column][rows].to_list()
    np.testing.assert_allclose(
        one.rows["similarity"][rows].to_numpy(), other.rows["similarity"][rows].to_numpy(), atol=1e-5
    )
    assert 0.1 < one.rows["right@1"].mean() < 1.0
    assert one.rows["predicted"].list.len().max() <= linking.SHOWN


def test_odd_names_are_found_as_they_are_given():
    ids = ["A", "B", "B", "C", "D", "E"]
    names = ["Éclampsia\u00a0 X", "糖尿病", "  spaced   Out ", "?", "e\u0301tat", "A" * 5000]
    system = load_system("normalizer:hash,ranking=vectors")
    targets = linking.Targets(ids=ids, names=names)
    ranking = linking.rank(system, ["éclampsia x", "糖尿病", "spaced out", "état", "a" * 5000], targets, 3)
    assert [ranking.ids[row] for row in ranking.concepts[:, 0].tolist()] == ["A", "B", "B", "D", "E"]
    assert ranking.similarity[:, 0].tolist() == [1.0] * 5


def split_of_names() -> Split:
    rows = [row for row in range(1, len(IDS)) if IDS[row] == IDS[row - 1]]
    return Split([NAMES[row] for row in rows], [IDS[row] for row in rows], ["calibration"] * len(rows))


def test_a_split_says_which_names_to_learn_from(tmp_path, monkeypatch):
    split_of_names().save(tmp_path / "s.split")
    used = []
    fit = module.fit
    monkeypatch.setattr(
        module, "fit", lambda *args, **options: (used.append(options["split"]), fit(*args, **options))[1]
    )
    system = load_system(f"normalizer:hash,split={tmp_path / 's.split'}")
    assert len(system.rank_concepts(MENTIONS, IDS, NAMES, 5, None)[0]) == 5
    assert used[0].strings == split_of_names().strings
    assert all(one.startswith(module.PREFIX) for one in used[0].concept_ids)
    with pytest.raises(InputError, match="no such split"):
        load_system("normalizer:hash,split=nowhere.split").rank_concepts(MENTIONS, IDS, NAMES, 5, None)


def test_an_encoder_trained_with_another_split_is_refused(tmp_path, monkeypatch):
    split = split_of_names()
    split.save(tmp_path / "s.split")
    model = tmp_path / "model"
    model.mkdir()
    monkeypatch.setattr(VocabularyEncoder, "folder", model)
    for number, (trained, refused) in enumerate(((split.hash, False), ("another", True), (None, False))):
        module._LAST.clear()
        record = {"recipe": "coder", "terminology": "t", "split": trained}
        (model / "training.json").write_text(json.dumps(record))
        system = load_system(f"normalizer:hash,split={tmp_path / 's.split'},name=n{number}")
        if refused:
            with pytest.raises(UsageError, match=r"n1 was trained with another split than .*s\.split; give that one"):
                system.rank_concepts(MENTIONS, IDS, NAMES, 5, None)
        else:
            assert system.rank_concepts(MENTIONS, IDS, NAMES, 5, None)[0]


def test_names_of_one_a_concept_are_ranked_by_another_indexs_ranker(tmp_path):
    first = dict(zip(reversed(IDS), reversed(NAMES), strict=True))
    ids, names = list(first), list(first.values())
    with pytest.raises(InputError, match="only 0 held-out strings"):
        load_system("normalizer:hash,name=own").rank_concepts(names, ids, names, 5, None)
    source = build(synthetic_terminology(), ENCODER, tmp_path / "s.index")
    quick_fit(source, ENCODER).save(source.path / "calibration")
    system = load_system(f"normalizer:hash,calibration={source.path}")
    answers = system.rank_concepts(names, ids, names, 5, None)
    assert [one[0].concept_id for one in answers] == ids
    assert system.facts["calibration"] == str(source.path)
    with pytest.raises(UsageError, match="exclude each other"):
        load_system(f"normalizer:hash,calibration={source.path},split=s.split")
