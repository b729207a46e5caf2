from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.benchmarks import Source, _pairs
from alphita_lab.evaluation.benchmarks._pairs import mednli_s, relatedness, sts
from alphita_lab.evaluation.scoring import pairs, results
from alphita_lab.evaluation.scoring.pairs import Pairs
from alphita_lab.evaluation.scoring.results import Result, figures_of
from alphita_lab.evaluation.systems._lexical import TfidfSystem
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from tests.doubles import HashEncoder
from tests.lab.evaluation.hash_systems import HashedConcepts, Hashes
from tests.lab.evaluation.small_terminologies import save, term
from tests.reference import pairs as slow

FIXTURES = Path(__file__).parents[3] / "fixtures" / "benchmarks"
NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, allow_subnormal=False))


def source(module, folder: Path | None = FIXTURES, terminology: Terminology | None = None) -> Source:
    name = module.__name__.rsplit(".", 1)[-1]
    return Source(folder, terminology, name, module.INFO.where)


def score(module, system, folder: Path = FIXTURES, terminology: Terminology | None = None, **options) -> Result:
    chosen = module.Options(**options)
    return module.evaluate(module.load(source(module, folder, terminology), chosen), system, chosen)


def figures(result: Result) -> dict[tuple[str, str], float | None]:
    return {(one.metric, one.subset): one.value for one in figures_of(result)}


@pytest.fixture(autouse=True, scope="module")
def _few_resamples():
    """Intervals are not what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "RESAMPLES", 5)
        yield


@pytest.fixture
def copied(tmp_path):
    """A copy of the fixtures that a test may change."""
    return Path(shutil.copytree(FIXTURES, tmp_path / "data"))


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    """CUIs of the fixtures: one after UMLS: , one bare, the others not there."""
    terms = [term("UMLS:C9000001", "Heart pain"), term("UMLS:C9000001", "pain of the heart")]
    terms += [term("UMLS:C9000002", "Cardiac ache"), term("C9000003", "Skin rash"), term("C9000003", "rash")]
    return save(tmp_path_factory.mktemp("related") / "t.terminology", terms)


# --- correlations ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30))
def test_correlations_as_their_definitions(rows) -> None:
    first, second = (np.array([row[side] for row in rows]) for side in (0, 1))
    for ours, theirs in ((pairs.pearson, slow.pearson), (pairs.spearman, slow.spearman)):
        wanted = theirs(first.tolist(), second.tolist())
        assert ours(first, second) == pytest.approx(wanted, abs=1e-6, nan_ok=True)


def test_all_is_the_mean_of_the_sets_whatever_their_scales() -> None:
    one = Pairs("one", list("abc"), list("xyz"), [1000, 2000, 3000])
    other = Pairs("other", list("defg"), list("uvwx"), [4, 3, 2, 1], columns={"language": ["it"] * 4})
    alike = [np.array([0.1, 0.2, 0.3], np.float32), np.array([0.4, 0.3, np.nan, 0.35], np.float32)]
    result = pairs.result_of([one, other], alike, (pairs.SPEARMAN, pairs.PEARSON), subsets=("language",))
    found = figures(result)
    assert found["Spearman", "dataset=one"] == 1
    assert found["Spearman", "dataset=other"] == pytest.approx(slow.spearman([4, 3, 1], [0.4, 0.3, 0.35]))
    assert found["Spearman", "all"] == pytest.approx((1 + found["Spearman", "dataset=other"]) / 2)
    assert found["Pearson", "language=it"] == pytest.approx(slow.pearson([4, 3, 1], [0.4, 0.3, 0.35]))
    assert result.notes["pairs without an answer in other"] == result.notes["pairs without an answer"] == 1
    assert result.rows["language"].to_list() == [None] * 3 + ["it"] * 4
    with pytest.raises(ValueError, match="one length"):
        Pairs("short", ["a"], ["b", "c"], [1])


def test_mean_of_names_leaves_out_what_has_no_vector() -> None:
    vectors = np.array([[3, 0], [0, 2], [np.nan, 1], [1, 1], [np.nan, np.nan]], np.float32)
    found = pairs.mean_of_names(vectors, np.array([0, 2, 4, 5]))
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.5**0.5, 0.5**0.5], [np.nan, np.nan]], rtol=1e-6)
    assert pairs.cosine(found[0], found[1]) == pytest.approx(1)
    assert math.isnan(pairs.cosine(found[0], found[2]))


# --- relatedness -----------------------------------------------------------------------------------------------------


def test_relatedness_says_which_sets_are_missing(copied) -> None:
    for name in ("MayoSRS.csv", "EHR-RelB.tsv"):
        (copied / "relatedness" / name).unlink()
    notes = score(relatedness, Hashes(), copied).notes
    assert notes["MayoSRS"].startswith("not run: no MayoSRS.csv")
    assert "github.com/babylonhealth" in notes["EHR-RelB"]
    assert "UMNSRS similarity" not in notes
    shutil.rmtree(copied / "relatedness")
    with pytest.raises(InputError, match=r"finds no UMNSRS_similarity\.csv or .*MayoSRS\.csv.*conservancy"):
        score(relatedness, Hashes(), copied)
    with pytest.raises(UsageError, match="--data"):
        score(relatedness, Hashes(), None)  # type: ignore[arg-type]


def test_pairs_without_an_answer_are_left_out_and_counted() -> None:
    result = score(relatedness, Hashes(unknown="heart"))
    whole = score(relatedness, Hashes())
    assert result.rows["left"].to_list() == whole.rows["left"].to_list()
    assert result.notes["pairs without an answer in UMNSRS similarity"] == 2
    rows = result.rows.filter(dataset="UMNSRS similarity").drop_nulls("similarity")
    wanted = slow.spearman(rows["gold"].to_list(), rows["similarity"].to_list())
    assert figures(result)["Spearman", "dataset=UMNSRS similarity"] == pytest.approx(wanted)


def test_concept_systems_are_asked_for_ids() -> None:
    result = score(relatedness, HashedConcepts("C9000003".__eq__))
    assert result.notes["compared"].startswith("by concept")
    rows = result.rows.filter(dataset="UMNSRS similarity")
    assert rows["similarity"].is_null().to_list() == [False, True, False, False, True]
    one, other = HashedConcepts().encode_concepts(["C9000001", "C9000002"])
    assert rows["similarity"][0] == pytest.approx(float(one @ other), abs=1e-6)
    # These have no CUIs, and one pair of EHR-RelB lacks one.
    assert result.rows.filter(dataset="Bio-SimLex")["similarity"].null_count() == 4
    assert result.notes["pairs without an answer in EHR-RelB"] == 1


def test_relatedness_by_concept_averages_names(terminology) -> None:
    result = score(relatedness, Hashes(), terminology=terminology, by="concept")
    rows = result.rows.filter(dataset="UMNSRS similarity")
    assert rows["similarity"].is_null().to_list() == [False, False, True, True, True]
    mean = Hashes().encode(["heart pain", "pain of the heart"]).mean(axis=0)
    other = Hashes().encode(["cardiac ache"])[0]
    assert rows["similarity"][0] == pytest.approx(mean @ other / np.linalg.norm(mean), abs=1e-6)
    assert result.notes["concepts of the sets in the terminology"] == 3
    assert result.notes["concepts of the sets"] == 9
    with pytest.raises(UsageError, match="needs a system that has vectors"):
        score(relatedness, TfidfSystem(), terminology=terminology, by="concept")
    with pytest.raises(UsageError, match="--terminology"):
        score(relatedness, Hashes(), by="concept")
    with pytest.raises(UsageError, match="language of the terminology"):
        score(relatedness, Hashes(), terminology=terminology, by="concept", language="it")


def test_relatedness_by_how_many_terms_the_terminology_has(terminology) -> None:
    result = score(relatedness, Hashes(), terminology=terminology)
    rows = result.rows.filter(dataset="UMNSRS similarity")
    known = {"heart pain", "pain of the heart", "cardiac ache", "skin rash", "rash"}
    counts = [sum(term.lower() in known for term in pair) for pair in zip(rows["left"], rows["right"], strict=True)]
    assert set(counts) == {0, 1, 2}
    said = [f"UMNSRS similarity, {('none', 'one', 'both')[count]}" for count in counts]
    assert rows["terms in the terminology"].to_list() == said
    both = rows.filter(rows["terms in the terminology"] == "UMNSRS similarity, both")
    wanted = slow.spearman(both["gold"].to_list(), both["similarity"].to_list())
    found = figures(result)
    assert found["Spearman", "terms in the terminology=UMNSRS similarity, both"] == pytest.approx(wanted)
    without = score(relatedness, Hashes())
    assert found["Spearman", "all"] == figures(without)["Spearman", "all"]
    assert "terms in the terminology" not in without.rows.columns


def test_relatedness_in_translation(tmp_path) -> None:
    path = FIXTURES / "relatedness" / "translations.csv"
    result = score(relatedness, Hashes(), translations=path)
    rows = result.rows.filter(dataset="UMNSRS similarity")
    # The second is listed the other way round; the one with an empty cell is left out with those that are not listed.
    assert rows["left"].to_list() == ["Dolore al cuore", "Dolore al cuore", "Eruzione cutanea"]
    assert rows["right"].to_list() == ["Dolore cardiaco", "Eruzione cutanea", "Pelle, prurito"]
    assert rows["gold"].to_list() == [1400.5, 310, 600]
    assert result.notes["pairs of UMNSRS similarity left out for want of a translation"] == 2
    assert result.notes["pairs of Bio-SimLex left out for want of a translation"] == 4
    assert "Bio-SimLex" not in set(result.rows["dataset"])
    other = tmp_path / "t.csv"
    for text, message in (
        ("Term1,Term2,Translation1\na,b,c\n", "no column 'Translation2'"),
        ("Term1,Term2,Translation1,Translation2\na,b,c\n", "a line of 3 fields"),
        ("Term1,Term2,Translation1,Translation2\na,b,c,d\n", "translates no pair"),
    ):
        other.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            score(relatedness, Hashes(), translations=other)
    with pytest.raises(UsageError, match="one of the two"):
        score(relatedness, Hashes(), translations=path, by="concept")


# --- sts -------------------------------------------------------------------------------------------------------------


def test_quotes_of_a_sentence_itself_are_kept(tmp_path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text('1\t"bulbs" and "onions"\t"the ""old"" drug"\n', encoding="utf-8")
    pairs, counts = _pairs.read_pairs([path], "X", _pairs.Layout("\t", 1, 2, 0))
    assert (pairs.left, pairs.right, counts) == (
        ['"bulbs" and "onions"'],
        ['the "old" drug'],
        {"strings of X freed of quotes": 1},
    )


def test_sts_by_part_and_language(copied) -> None:
    result = score(sts, Hashes(), part="all", languages="en")
    sizes = dict(result.rows["dataset"].value_counts().iter_rows())
    assert sizes == {"BIOSSES": 4, "MedSTS": 3, "SICK": 5, "STS-B en": 5}
    dev = score(sts, Hashes(), part="dev")
    assert dev.rows.filter(dataset="SICK")["gold"].to_list() == [1]
    assert dev.notes["MedSTS"].startswith("not run: ")
    with pytest.raises(UsageError, match="language of STS-B"):
        score(sts, Hashes(), languages="xx")
    for path in (copied / "sts").glob("stsb-*"):
        path.unlink()
    assert score(sts, Hashes(), copied).notes["STS-B"].startswith("not run: ")
    # The STS benchmark's own file, with a source after the sentences in some lines, and quotes that belong to them.
    own = 'main-captions\tMSRvid\t2012test\t0001\t2.500\tA girl sings.\tA "girl" hums.\n'
    own += "main-news\tx\ty\t2\t5\tA b.\tA c.\tsource\n"
    (copied / "sts" / "sts-test.csv").write_text(own, encoding="utf-8")
    rows = score(sts, Hashes(), copied).rows.filter(dataset="STS-B en")
    assert rows["gold"].to_list() == [2.5, 5]
    assert rows["right"].to_list() == ['A "girl" hums.', "A c."]


def test_strings_that_an_encoder_cuts_are_counted() -> None:
    class Encoder:
        max_length = 4

        def tokenize(self, strings):
            return [[0] * min(4, len(string.split())) for string in strings]

    system = EncoderSystem(Encoder(), "e", rules=DEFAULT_RULES, facts={})  # type: ignore[arg-type]
    notes = _pairs.cut_strings(system, ["a b", "a b c d e", "a b c d", "a b c d"])
    assert notes == {"strings cut to 4 tokens (or just as long)": "2 of 3; open the system with max_length=128"}
    assert _pairs.cut_strings(system, ["a"]) == {}
    assert _pairs.cut_strings(Hashes(), ["a b c d e"]) == {}


# --- mednli_s --------------------------------------------------------------------------------------------------------


def test_mednli_s_is_the_share_of_premises_nearer_to_what_they_entail() -> None:
    system = Hashes()
    result = score(mednli_s, system)
    assert len(result.rows) == 3
    right = []
    for row in result.rows.iter_rows(named=True):
        texts = [row[name].lower() for name in ("premise", "entailed", "contradicted")]
        premise, entailed, contradicted = HashEncoder().encode(texts)
        right.append(bool(premise @ entailed > premise @ contradicted))
    assert result.rows["right"].to_list() == right
    assert figures(result)["accuracy", "all"] == pytest.approx(np.mean(right))
    assert score(mednli_s, TfidfSystem()).notes["triples without an answer"] == 0


def test_mednli_s_without_answers_and_with_ties(copied) -> None:
    path = copied / "mednli_s" / "mli_test_v1.jsonl"
    premise = "The liver is large."
    with path.open("a", encoding="utf-8") as file:
        for hypothesis, label in (
            ("Same.", "entailment"),
            ("Same.", "contradiction"),
            ("More.", "entailment"),
            ("", "neutral"),
        ):
            file.write(json.dumps({"sentence1": premise, "sentence2": hypothesis, "gold_label": label}) + "\n")
    result = score(mednli_s, Hashes(unknown="saline"), copied)
    assert result.rows["right"].null_count() == 1
    assert result.rows["right"][-1] is False
    assert result.notes["triples with equal similarity"] == 1
    assert result.notes["triples without an answer"] == 1
    assert result.notes["hypotheses without their opposite, left out"] == 1
    assert result.notes["lines with an empty sentence, left out"] == 1
