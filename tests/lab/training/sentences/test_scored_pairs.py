from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import InputError, Rejects, UsageError
from alphita_lab.evaluation.benchmarks._pairs import Layout, read_pairs
from alphita_lab.training.sentences.scored_pairs import (
    ScoredPairs,
    SentenceTasks,
    Tasks,
    Triples,
    listed,
    path_of,
    read,
    read_files,
)

MULTI_MT = 'A dog runs.,"A dog, running.",4.5\n"He said ""no"".",He refused.,3.0\nIt rains.,It is dry.,0\n'
BENCHMARK = (
    'main-news\tmade\t2012test\t0001\t5.000\tA "hard" cough.\tA severe cough.\n'
    "main-news\tmade\t2012test\t0002\t1.25\tA cough.\tA rash.\tlicence\tmore\n"
)
SICK = (
    "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
    "1\tA man walks\tA man is walking\tENTAILMENT\t5.0\tTRAIN\n"
    "2\tA man walks\tA boy sleeps\tNEUTRAL\t2.0\tTRAIN\n"
    "3\tA cat eats\tA cat is eating\tENTAILMENT\t4.0\tTRIAL\n"
    "4\tA cat eats\tNobody eats\tCONTRADICTION\t1\tTEST\n"
)


def written(folder: Path, text: str, name: str = "pairs.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


OWN = '\ufeffid\tScore\tsentence2\tsentence1\n7\t2.5\tother\t"one"\n8\t1.5\td\tc\n\n'


@pytest.mark.parametrize(
    ("text", "left", "right", "scores"),
    [
        (MULTI_MT, 'A dog runs.|He said "no".|It rains.', "A dog, running.|He refused.|It is dry.", [0.9, 0.6, 0]),
        (BENCHMARK, 'A "hard" cough.|A cough.', "A severe cough.|A rash.", [1, 0.25]),
        (OWN, "one|c", "other|d", [0.5, 0.3]),
        (OWN.replace("\t", ","), "one|c", "other|d", [0.5, 0.3]),
    ],
)
def test_a_file_is_known_by_its_layout(tmp_path, text, left, right, scores) -> None:
    pairs = read(written(tmp_path, text), Rejects())
    assert ("|".join(pairs.left), "|".join(pairs.right)) == (left, right)
    np.testing.assert_allclose(pairs.scores, scores, atol=1e-7)
    assert pairs.scores.dtype == np.float32


def test_quotes_of_the_text_itself_stay_as_evaluation_reads_them(tmp_path) -> None:
    text = '"bulbs" and "onions"\t"the ""old"" drug"\t5\nan ""odd"" one\t"\t0\n'
    path = written(tmp_path, "sentence1\tsentence2\tscore\n" + text)
    made = read(path, Rejects())
    assert (made.left, made.right) == (['"bulbs" and "onions"', 'an ""odd"" one'], ['the "old" drug', '"'])
    pairs, _ = read_pairs([path], "x", Layout("\t", "sentence1", "sentence2", "score"))
    assert (pairs.left, pairs.right) == (made.left, made.right)


@pytest.mark.parametrize(("part", "scores"), [("train", [1, 0.25]), ("dev", [0.75]), ("test", [0])])
def test_sick_from_1_to_5_by_part(tmp_path, part, scores) -> None:
    np.testing.assert_allclose(read(written(tmp_path, SICK), Rejects(), part=part).scores, scores)


def test_a_sick_file_of_one_part_is_taken_whole_and_an_unknown_part_refused(tmp_path) -> None:
    single = "\n".join("\t".join(line.split("\t")[:5]) for line in SICK.splitlines())
    assert len(read(written(tmp_path, single), Rejects(), part="test").left) == 4
    with pytest.raises(UsageError, match="unknown part 'tran'; did you mean 'train'"):
        read(written(tmp_path, SICK), Rejects(), part="tran")


def test_a_scale_of_0_to_1_must_be_said(tmp_path) -> None:
    path = written(tmp_path, "sentence1\tsentence2\tscore\na\tb\t0.5\nc\td\t1\n")
    with pytest.raises(InputError, match="all scores are at most 1, on a scale of 0 to 5") as error:
        read(path, Rejects())
    assert error.value.remedy == "say what the scale is"
    np.testing.assert_allclose(read(path, Rejects(), scale=(0, 1)).scores, [0.5, 1])
    np.testing.assert_allclose(read(path, Rejects(), scale=(0, 5)).scores, [0.1, 0.2])
    with pytest.raises(UsageError, match="from the lowest to the highest score, not from 5 to 0"):
        read(path, Rejects(), scale=(5, 0))


@pytest.mark.parametrize(
    ("text", "line", "value", "span"),
    [
        (MULTI_MT.replace("3.0", "5.1"), 2, "5.1", "0 to 5"),
        (BENCHMARK.replace("1.25", "-0.5"), 2, "-0.5", "0 to 5"),
        (SICK.replace("\t2.0\t", "\t0.5\t"), 3, "0.5", "1 to 5"),
        ("sentence1\tsentence2\tscore\n\na\tb\t50\n", 3, "50", "0 to 5"),
    ],
)
def test_a_score_out_of_range_is_named(tmp_path, text, line, value, span) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as error:
        read(path, Rejects())
    assert str(error.value).startswith(f"{path}:{line}: the score is out of range, {span} (field 'score'")
    assert error.value.value == value
    assert error.value.remedy


def test_bad_rows_are_set_aside_and_the_others_read(tmp_path) -> None:
    bad = (
        "sentence1\tsentence2\tscore\na\tb\t3\n \tb\t2\na\t\t2\na\tb\t\na\tb\thigh\na\tb\tnan\na\tb\n"
        '""\tb\t1\nc\td\t4\n'
    )
    rejects = Rejects(tmp_path / "rejects.csv")
    with rejects:
        made = read(written(tmp_path, bad), rejects)
    assert (made.left, made.right) == (["a", "c"], ["b", "d"])
    lines = (tmp_path / "rejects.csv").read_text().splitlines()[1:]
    assert [int(line.split(",")[1]) for line in lines] == [3, 4, 5, 6, 7, 8, 9]
    assert rejects.count == 7
    with pytest.raises(InputError, match="a sentence is empty"):
        read(written(tmp_path, bad), Rejects(strict=True))


def test_gzip_is_unpacked_and_damage_named(tmp_path) -> None:
    path = tmp_path / "train.csv.gz"
    path.write_bytes(gzip.compress(MULTI_MT.encode()))
    assert len(read(path, Rejects()).left) == 3
    path.write_bytes(gzip.compress(MULTI_MT.encode())[:-12])
    with pytest.raises(InputError, match=r"train\.csv\.gz: cannot be read"):
        read(path, Rejects())
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "none.csv", Rejects())
    path.write_bytes("naïve,é,3".encode("latin-1"))
    with pytest.raises(InputError, match="damaged"):
        read(path, Rejects())


@pytest.mark.parametrize(
    ("text", "part", "problem"),
    [
        *(
            (text, "train", "not a file of scored pairs")
            for text in ("", "\n\n", "a\tb\tc\n", "a,b\n1,2\n", '{"a": 1}\n')
        ),
        ("left,right,score\na,b,2\n", "train", r"not a file of scored pairs.*sentence1, sentence2 and score"),
        ('a,b,3\n"c" d,e,2\n', "train", "not a row of a table"),
        ("sentence1\tsentence2\tscore\n\tb\t3\n", "train", "holds no scored pair"),
        (SICK.replace("TRIAL", "TEST"), "dev", "holds no scored pair of the part 'dev'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, text, part, problem) -> None:
    with pytest.raises(InputError, match=rf"(?s){problem}"):
        read(written(tmp_path, text), Rejects(), part=part)


def inference(*rows: tuple[str, str, str]) -> str:
    return "".join(
        json.dumps({"gold_label": label, "sentence1": one, "sentence2": other, "pairID": "x"}) + "\n"
        for one, other, label in rows
    )


def test_inference_is_grouped_by_premise(tmp_path) -> None:
    text = inference(
        ("P", "follows", "entailment"),
        ("Q", "against q", "contradiction"),
        ("P", "maybe", "neutral"),
        ("P", "against", "contradiction"),
        ("Q", "follows q", "entailment"),
        ("P", "follows too", "entailment"),
        ("R", "against r", "contradiction"),
    )
    made = read(written(tmp_path, text, "mli_train_v1.jsonl"), Rejects())
    assert made == Triples(["P", "Q"], ["follows", "follows q"], ["against", "against q"], alone=2)
    packed = tmp_path / "mli_train_v1.jsonl.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read(packed, Rejects()) == made


def test_bad_lines_of_inference_are_set_aside(tmp_path) -> None:
    good = inference(("P", "follows", "entailment"), ("P", "against", "contradiction"))
    bad = (
        inference(("P", " ", "entailment"), ("P", "h", "-"))
        + '{"sentence1": "P"}\nnot json\n[1]\n'
        + ('{"sentence1": 1, "sentence2": "b", "gold_label": "entailment"}\n')
    )
    rejects = Rejects()
    made = read(written(tmp_path, bad + good, "some.jsonl"), rejects)
    assert made == Triples(["P"], ["follows"], ["against"])
    assert rejects.count == 6
    with pytest.raises(InputError, match="no premise with an entailed and a contradicted hypothesis"):
        read(written(tmp_path, bad, "some.jsonl"), Rejects())


def test_triples_in_a_table(tmp_path) -> None:
    rejects = Rejects()
    text = "id\tContradicted\tpremise\tentailed\n1\tno\tP\tyes\n2\t\tQ\tyes\n3\tno\n4\tn\tR\ty\n"
    made = read(written(tmp_path, text), rejects)
    assert made == Triples(["P", "R"], ["yes", "y"], ["no", "n"])
    assert rejects.count == 2


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.text("ab\"', .é", min_size=1), st.text("ab\"', .é", min_size=1), st.integers(0, 5)), min_size=1
    )
)
def test_what_is_written_as_a_csv_is_read_back(tmp_path_factory, rows) -> None:
    import csv

    path = tmp_path_factory.mktemp("data") / "stsb.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    wanted = [(one.strip(), other.strip(), score / 5) for one, other, score in rows if one.strip() and other.strip()]
    rejects = Rejects()
    if not wanted:
        with pytest.raises(InputError):
            read(path, rejects)
        return
    made = read(path, rejects)
    assert isinstance(made, ScoredPairs)
    assert [(a, b, round(float(c), 6)) for a, b, c in zip(made.left, made.right, made.scores, strict=True)] == wanted
    assert rejects.count == len(rows) - len(wanted)


SIZES = st.lists(st.integers(1, 23), min_size=1, max_size=4).map(
    lambda sizes: {f"set {i}": n for i, n in enumerate(sizes)}
)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, rows=st.integers(1, 9), seed=st.integers(0, 1000))
def test_in_proportion_an_epoch_is_every_row_once(sizes, rows, seed) -> None:
    tasks = Tasks(sizes, rows=rows, seed=seed)
    for epoch in range(3):
        drawn = [tasks.batch(epoch * tasks.batches + number) for number in range(tasks.batches)]
        seen = [(name, row) for name, places in drawn for row in places.tolist()]
        assert sorted(seen) == sorted((name, row) for name, size in sizes.items() for row in range(size))
        for name, size in sizes.items():
            lengths = [len(places) for one, places in drawn if one == name]
            assert len(lengths) == -(-size // rows)
            assert max(lengths) <= rows
            assert max(lengths) - min(lengths) <= 1


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, rows=st.integers(1, 9), seed=st.integers(0, 1000))
def test_in_equal_turns_each_round_has_every_set_once(sizes, rows, seed) -> None:
    tasks = Tasks(sizes, rows=rows, seed=seed, turns="equal")
    drawn = [tasks.batch(number) for number in range(2 * tasks.batches)]
    for start in range(0, len(drawn), len(sizes)):
        assert sorted(name for name, _ in drawn[start : start + len(sizes)]) == sorted(sizes)
    for name, size in sizes.items():
        each = -(-size // rows)
        own = [places.tolist() for one, places in drawn if one == name]
        # Its own epochs, end to end.
        for start in range(0, len(own) - each + 1, each):
            assert sorted(row for places in own[start : start + each] for row in places) == list(range(size))
    first = Counter((name, row) for name, places in drawn[: tasks.batches] for row in places.tolist())
    assert len(first) == sum(sizes.values())


def test_nothing_to_draw_from_is_an_error() -> None:
    with pytest.raises(InputError, match="no set of sentences"):
        Tasks({}, rows=4, seed=0)
    with pytest.raises(InputError, match="nothing to draw from in 'sick'"):
        Tasks({"sts": 3, "sick": 0}, rows=4, seed=0)


PAIRS = ScoredPairs(["a", "b", "c"], ["b", "a", "a"], np.array([0.2, 0.4, 1.0], np.float32))
TRIPLES = Triples(["p", "p"], ["a", "e"], ["x", "y"])


def test_sentences_are_numbered_once_and_batches_hold_their_sets_rows() -> None:
    tasks = SentenceTasks({"sts": PAIRS, "nli": TRIPLES}, rows=2, seed=4, turns="proportional")
    assert sorted(tasks.strings) == ["a", "b", "c", "e", "p", "x", "y"]
    plain = Tasks({"sts": 3, "nli": 2}, rows=2, seed=4)
    assert tasks.batches == plain.batches == 3
    kinds = set()
    for number in range(9):
        name, rows = plain.batch(number)
        batch = tasks.batch(number)
        kinds.add(name)
        shown = {
            column: [tasks.strings[term] for term in batch.terms[places]]
            for column, places in batch.arrays.items()
            if column != "score"
        }
        assert len(set(batch.terms.tolist())) == len(batch.terms)
        if name == "sts":
            assert shown == {"left": [PAIRS.left[row] for row in rows], "right": [PAIRS.right[row] for row in rows]}
            np.testing.assert_array_equal(batch.arrays["score"], PAIRS.scores[rows])
        else:
            assert shown == {
                "premise": [TRIPLES.premises[row] for row in rows],
                "entailed": [TRIPLES.entailed[row] for row in rows],
                "contradicted": [TRIPLES.contradicted[row] for row in rows],
            }
        assert batch.rows == len(rows) * len(shown)
    assert kinds == {"sts", "nli"}


def test_files_are_read_by_their_setting(tmp_path: Path) -> None:
    five = written(tmp_path, "sentence1\tsentence2\tscore\na\tb\t5\nb\tc\t2.5\n", "five.tsv")
    four = written(tmp_path, "sentence1\tsentence2\tscore\na\tb\t3\nb\tc\t2\n", "four.tsv")
    told = written(tmp_path, "premise\tentailed\tcontradicted\np\te\tc\n", "told.tsv")
    with Rejects() as rejects:
        sets = read_files(f"{five}, {four}@1-3", ScoredPairs, rejects)
        assert list(sets) == [str(five), str(four)]
        assert sets[str(five)].scores.tolist() == [1.0, 0.5]
        assert sets[str(four)].scores.tolist() == [1.0, 0.5]
        assert read_files(str(told), Triples, rejects)[str(told)].premises == ["p"]
        assert read_files("", Triples, rejects) == {}
        sick = written(tmp_path, SICK, "sick.txt")
        assert read_files(str(sick), ScoredPairs, rejects, part="dev")[str(sick)].left == ["A cat eats"]
        with pytest.raises(InputError, match=r"told.tsv: holds another kind.*give it to the setting triples"):
            read_files(str(told), ScoredPairs, rejects)
        with pytest.raises(InputError, match="give it to the setting scored"):
            read_files(str(five), Triples, rejects)


def test_lists_and_scales(tmp_path: Path) -> None:
    assert listed(" a, b,,c ") == ["a", "b", "c"]
    assert path_of("x/y.tsv@0-4") == (Path("x/y.tsv"), (0.0, 4.0))
    assert path_of("x/y@z.tsv") == (Path("x/y@z.tsv"), None)
    assert path_of("x.tsv@-1-1.5") == (Path("x.tsv"), (-1.0, 1.5))
    odd = written(tmp_path, "", "a@0-4")
    assert path_of(str(odd)) == (odd, None)
