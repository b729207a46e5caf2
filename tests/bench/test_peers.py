from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import compare
import protocol
import pytest
import run_alphita
from hypothesis import given
from hypothesis import strategies as st

import tables
from alphita.errors import UsageError
from alphita.terminology import splits, store
from alphita.terminology.text import clean_many
from tests.tiny import tiny_model, tiny_terminology

PEERS = Path(__file__).parents[2] / "bench" / "peers"

# Answers with the concepts of the names that share most words with the mention, and nothing to one without any.
FAKE = """
import argparse, sys
sys.path.insert(0, {peers!r})
from protocol import Answer, run

def build(dictionary, options):
    print("made over", len(dictionary.names), "names")
    def answers(mention):
        words = set(mention.lower().split())
        both = [(len(words & set(name.lower().split())), name, ids) for name, ids in dictionary.concepts_of().items()]
        best = sorted((one for one in both if one[0]), key=lambda one: -one[0])
        return [Answer(i, n) for n, _, ids in best for i in ids]
    if options.broken == "exit":
        raise SystemExit("no such thing\\nas an index")
    if options.broken == "short":
        return lambda mentions: []
    return lambda mentions: [answers(mention) for mention in mentions]

parser = argparse.ArgumentParser()
parser.add_argument("--broken")
run(build, ["pytest"], parser)
"""
DICTIONARY = 'id\tname\nA\theart attack\nA\tMI\nB\tbrain "attack"\nB\tstroke\nC\tstroke\nD\tnosebleed\n'
QUERIES = "mention\tid\nacute heart\tA\nStroke\tC\nstroke\tB|C\nthe unknown\tD\nacute heart\tB\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a dictionary, queries and three fake peers, one of which is called as ours is."""
    (tmp_path / "fake.py").write_text(FAKE.format(peers=str(PEERS)))
    (tmp_path / "dictionary.tsv").write_text(DICTIONARY)
    (tmp_path / "queries.tsv").write_text(QUERIES)
    fake = compare.Peer(None, tmp_path / "fake.py")
    broken = compare.Peer(None, tmp_path / "fake.py", ("--broken", "exit"))
    monkeypatch.setattr(compare, "PEERS", {"alphita": fake, "other": fake, "broken": broken})
    # main() keeps itself and what it starts to some cores; the other tests are not to be kept to them.
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: None, raising=False)
    return tmp_path


def arguments(folder: Path, *more: str) -> list[str]:
    files = ["--dictionary", str(folder / "dictionary.tsv"), "--queries", str(folder / "queries.tsv")]
    return [*files, "-o", str(folder / "report"), *more]


def test_report_of_fake_peers(folder, capsys):
    assert compare.main(arguments(folder, "--only", "alphita", "--only", "other", "--rounds", "2")) == 0
    report = json.loads((folder / "report" / "report.json").read_text())
    row = report["peers"]["other"]
    # "Stroke" and "stroke": B then C, right at 5 for C only; "the unknown": no answer; "acute heart": A alone.
    assert (row["accuracy@1"]["right"], row["accuracy@5"]["right"], row["answered"]["right"]) == (2, 3, 4)
    assert row["queries"] == 5
    assert row["distinct_mentions"] == 4
    assert row["ours_on_the_same_queries"] == {"accuracy@1": 0.4, "accuracy@5": 0.6}
    assert "ours_on_the_same_queries" not in report["peers"]["alphita"]
    assert row["same_answers_each_round"] is True
    assert len(row["build_seconds"]) == len(row["query_seconds"]) == 2
    assert 2**20 < row["peak_bytes"] < 2**32
    assert row["queries_per_second"] > 0
    assert row["versions"]["pytest"] == pytest.__version__
    assert report["input"]["names"] == 6
    assert report["input"]["concepts"] == 4
    assert len(report["input"]["dictionary_sha256"]) == len(report["input"]["queries_sha256"]) == 64
    assert report["command"][0] == "bench/peers/compare.py"
    table = (folder / "report" / "report.md").read_text()
    assert "| other | 5 | 40.0% [11.8, 76.9] | 60.0%" in table
    assert table in capsys.readouterr().out
    assert (folder / "report" / "work" / "other" / "said.txt").read_text() == "made over 6 names\n"


def test_a_peer_that_fails_is_told_and_the_others_go_on(folder):
    assert compare.main(arguments(folder, "--rounds", "1")) == 1
    report = json.loads((folder / "report" / "report.json").read_text())
    assert "as an index" in report["peers"]["broken"]["failed"]
    assert report["peers"]["other"]["accuracy@1"]["right"] == 2
    assert "| broken | failed: as an index |" in (folder / "report" / "report.md").read_text()


def test_a_peer_that_answers_too_little_fails(folder, monkeypatch):
    short = compare.Peer(None, folder / "fake.py", ("--broken", "short"))
    monkeypatch.setattr(compare, "PEERS", {"short": short})
    assert compare.main(arguments(folder, "--rounds", "1")) == 1
    report = json.loads((folder / "report" / "report.json").read_text())
    assert "0 lists of answers to 4 mentions" in report["peers"]["short"]["failed"]


def test_answers_that_are_no_table_fail_their_peer_only(folder):
    data = tables.from_files(folder / "dictionary.tsv", folder / "queries.tsv")
    measures = [{"build_seconds": 1.0, "query_seconds": 2.0, "peak_bytes": 1, "versions": {}}]
    good = compare.Outcome([0], measures, b"query\trank\tid\tscore\n0\t1\tA\t1\n")
    bad = compare.Outcome([0], measures, b"query,rank\n")
    strange = compare.Outcome([0], measures, b"query\trank\tid\tscore\n7\t1\tA\t1\n")
    report = compare.scored(data, {"alphita": good, "bad": bad, "strange": strange})
    assert report["alphita"]["accuracy@1"]["right"] == 1
    assert report["alphita"]["queries_per_second"] == 0.5
    assert "head line" in report["bad"]["failed"]
    assert "query 7, of 1" in report["strange"]["failed"]


def test_a_sample_is_compared_with_ours_on_the_same_queries(folder):
    assert compare.main(arguments(folder, "--only", "alphita", "--only", "other", "--most-queries", "other=2")) == 0
    report = json.loads((folder / "report" / "report.json").read_text())
    assert report["peers"]["alphita"]["queries"] == 5
    row = report["peers"]["other"]
    assert row["queries"] == 2
    # The same fake: the same share, on these two.
    assert row["ours_on_the_same_queries"] == {name: row[name]["value"] for name in ("accuracy@1", "accuracy@5")}


def test_a_smaller_sample_is_part_of_a_larger_one():
    data = tables.Tables(["A"], ["a"], [[(str(number), frozenset("A"))] for number in range(50)])
    small, large = data.sample(10), data.sample(30)
    assert len(small) == 10
    assert set(small) < set(large)
    assert small == sorted(small)
    assert data.sample(None) == data.sample(50) == data.sample(99) == list(range(50))


def test_tables_of_a_split(tmp_path):
    tiny_terminology(tmp_path / "t.terminology")
    terminology = store.load_terminology(tmp_path / "t.terminology")
    split = splits.hold_out_synonyms(terminology, fraction=0.5, calibration=0.3, seed=1)
    split.save(tmp_path / "s.split")
    data = tables.from_split(tmp_path / "t.terminology", tmp_path / "s.split")
    test = split.part("test")
    assert {(mention, gold) for parts in data.queries for mention, gold in parts} == {
        (string, frozenset([one])) for string, one in zip(test.strings, test.concept_ids, strict=True)
    }
    held_out = set(clean_many(split.strings))
    assert len(held_out) > len(test)  # the calibration part is left out of the names as well
    assert not held_out & set(clean_many(data.names))
    live = {terminology.concept_id(row) for row in range(terminology.n_concepts) if not terminology.retired[row]}
    assert set(data.ids) <= live
    first = dict(zip(reversed(data.ids), reversed(data.names), strict=True))
    assert first == {one: terminology.concept_names[terminology.resolve(one)].as_py() for one in first}
    assert data.notes["split_hash"] == split.hash


def test_tables_of_a_benchmark(tmp_path):
    (tmp_path / "NCBItestset_corpus.txt").write_text(
        "1|t|A title\n1|a|A text\n1\t0\t5\tstroke\tDisease\tD1\n1\t6\t9\tbreast and ovarian cancer\tCompositeMention\t"
        "D2|D3\n"
    )
    (tmp_path / "medic_06Jul2012.txt").write_text("D1||Stroke|brain attack\nD2||Breast Cancer\nD3||Ovarian Cancer\n")
    data = tables.from_benchmark("ncbi_disease", tmp_path)
    assert data.names == ["Stroke", "brain attack", "Breast Cancer", "Ovarian Cancer"]
    both = frozenset(["D2", "D3"])
    assert data.queries == [[("stroke", frozenset(["D1"]))], [("breast cancer", both), ("ovarian cancer", both)]]
    with pytest.raises(UsageError, match="is not one of normalization but of similarity"):
        tables.from_benchmark("relatedness", tmp_path)


def test_written_tables_read_back(tmp_path):
    composite = [("breast cancer", frozenset("AB")), ("lung cancer", frozenset("AB"))]
    data = tables.Tables(["A", "B"], ['a "quoted" name', "β  x"], [composite, [("b", frozenset("B"))]])
    counts = data.write(tmp_path)
    assert (counts["queries"], counts["distinct_mentions"]) == (2, 3)
    again = tables.from_files(tmp_path / "dictionary.tsv", tmp_path / "gold.tsv")
    assert (again.ids, again.names, again.queries) == (data.ids, data.names, data.queries)


def test_distinct_concepts_in_order_of_first_appearance():
    lines = [
        ("1", "2", "A", "1"),
        ("0", "3", "B", "1"),
        ("0", "1", "C", "2"),
        ("0", "2", "C", "2"),
        ("0", "10", "A", "0"),
    ]
    assert compare.ranked(lines, ["x", "y", "z"]) == {"x": ["C", "B", "A"], "y": ["A"], "z": []}


@given(st.integers(1, 5000), st.data())
def test_wilson_interval_is_where_the_score_test_is_at_its_quantile(n, data):
    """Its ends are the p0 at which |p - p0| = z sqrt(p0 (1 - p0) / n), which is what Wilson solved for."""
    right = data.draw(st.integers(0, n))
    found = compare.share(right, n)
    p = right / n
    assert 0 <= found.low <= p + 1e-12
    assert p - 1e-12 <= found.high <= 1
    for end in (found.low, found.high):
        if 1e-9 < end < 1 - 1e-9:
            assert math.isclose(abs(p - end), 1.959963984540054 * math.sqrt(end * (1 - end) / n), rel_tol=1e-6)


ASKED = [[("x", frozenset("A"))], [("x", frozenset("B")), ("y", frozenset("C"))], [("z", frozenset("A"))]]


@given(
    st.fixed_dictionaries(dict.fromkeys("xyz", st.lists(st.sampled_from("ABCDEFG"), unique=True))), st.integers(1, 7)
)
def test_right_at_k_is_what_the_loops_say(found, k):
    expected = []
    for parts in ASKED:
        every = True
        for mention, gold in parts:
            hit = False
            for place in range(min(k, len(found[mention]))):
                hit = hit or found[mention][place] in gold
            every = every and hit
        expected.append(every)
    assert compare.right_at(ASKED, found, k) == expected
    assert compare.answered(ASKED, found) == [bool(found["x"]), bool(found["x"] and found["y"]), bool(found["z"])]


CHILD = "import protocol; print(protocol.peak_bytes())"
PARENT = f"""
import subprocess, sys
held = bytearray(b"x") * (128 * 2**20)
print(subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True, check=True).stdout)
{CHILD}
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="elsewhere the system counts it otherwise")
def test_peak_memory_is_the_peers_own():
    """Of a process that holds much and of one that it starts: the second's peak is not the first's."""
    environment = os.environ | {"PYTHONPATH": str(PEERS)}
    done = subprocess.run([sys.executable, "-c", PARENT], env=environment, capture_output=True, text=True, check=True)
    child, parent = map(int, done.stdout.split())
    assert parent > 128 * 2**20
    assert 2**20 < child < 64 * 2**20


def test_our_own_runner(tmp_path):
    """Over a dictionary of any ids it finds equal names; a ready index is taken only if its strings are the same."""
    tiny_model(tmp_path / "model")
    made = protocol.Dictionary(["D1", "600.2", "D1"], ["heart pain", "skin ulcer", "pain of the heart"])
    options = argparse.Namespace(index=None, model=str(tmp_path / "model"), answers=tmp_path / "answers.tsv")
    search = run_alphita.build(made, options)
    found = search(["Skin Ulcer", "heart pain", ""])
    assert [[one.concept_id for one in answers[:1]] for answers in found] == [["600.2"], ["D1"], []]
    assert {one.concept_id for one in found[0]} == {"D1", "600.2"}
    (ready,) = tmp_path.glob("*/names.index")
    options.index = ready
    assert run_alphita.build(made, options)(["skin ulcer"])[0][0].concept_id == "CONCEPT:1"
    more = protocol.Dictionary([*made.ids, "D2"], [*made.names, "lung scar"])
    for other in (more, protocol.Dictionary(made.ids[:2], made.names[:2])):
        with pytest.raises(SystemExit, match="not the strings of the dictionary"):
            run_alphita.build(other, options)
