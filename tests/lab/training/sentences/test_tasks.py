from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from alphita.errors import InputError, Rejects
from alphita_lab.training.sentences.scored_pairs import (
    ScoredPairs,
    SentenceTasks,
    Tasks,
    Triples,
    listed,
    path_of,
    read_files,
)

PAIRS = ScoredPairs(["a", "b", "c"], ["b", "a", "a"], np.array([0.2, 0.4, 1.0], np.float32))
TRIPLES = Triples(["p", "p"], ["a", "e"], ["x", "y"])


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


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
    five = write(tmp_path / "five.tsv", "sentence1\tsentence2\tscore\na\tb\t5\nb\tc\t2.5\n")
    four = write(tmp_path / "four.tsv", "sentence1\tsentence2\tscore\na\tb\t3\nb\tc\t2\n")
    told = write(tmp_path / "told.tsv", "premise\tentailed\tcontradicted\np\te\tc\n")
    with Rejects() as rejects:
        sets = read_files(f"{five}, {four}@1-3", ScoredPairs, rejects)
        assert list(sets) == [str(five), str(four)]
        assert sets[str(five)].scores.tolist() == [1.0, 0.5]
        assert sets[str(four)].scores.tolist() == [1.0, 0.5]
        assert read_files(str(told), Triples, rejects)[str(told)].premises == ["p"]
        assert read_files("", Triples, rejects) == {}
        with pytest.raises(InputError, match=r"told.tsv: holds another kind.*give it to the setting triples"):
            read_files(str(told), ScoredPairs, rejects)
        with pytest.raises(InputError, match="give it to the setting scored"):
            read_files(str(five), Triples, rejects)


def test_a_part_may_be_asked_for(tmp_path: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\tSemEval_set\n"
    rows = "".join(f"{n}\ta {part}\tb\t{n}\tNEUTRAL\t{part}\n" for n, part in enumerate(("TRAIN", "TRIAL", "TEST"), 1))
    sick = write(tmp_path / "sick.txt", header + rows)
    with Rejects() as rejects:
        assert read_files(str(sick), ScoredPairs, rejects)[str(sick)].left == ["a TRAIN"]
        assert read_files(str(sick), ScoredPairs, rejects, part="dev")[str(sick)].left == ["a TRIAL"]


def test_lists_and_scales(tmp_path: Path) -> None:
    assert listed(" a, b,,c ") == ["a", "b", "c"]
    assert path_of("x/y.tsv@0-4") == (Path("x/y.tsv"), (0.0, 4.0))
    assert path_of("x/y@z.tsv") == (Path("x/y@z.tsv"), None)
    assert path_of("x.tsv@-1-1.5") == (Path("x.tsv"), (-1.0, 1.5))
    odd = write(tmp_path / "a@0-4", "")
    assert path_of(str(odd)) == (odd, None)
