"""The mapping memory in a job: asked first, counted, the same in a job that goes on."""

from __future__ import annotations

import pytest

from alphita.errors import UsageError
from alphita.jobs.answers import FIELDS, Memory
from alphita.jobs.parts import Parts
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.mappings.formats import Header
from alphita.mappings.record import REVIEW
from alphita.options import Restart
from alphita.review.records import Decision, Project, ReviewRow, Unknown
from alphita.review.store import ReviewStore
from tests.jobs.conftest import read

MENTIONS = ("Cold hands", "qqqq", "headache", "wrong")


@pytest.fixture
def store(tmp_path):
    """Cold hands: T:2, broader; qqqq: no concept; wrong: rejected; headache: open. Of RIS, headache is HP:9."""
    with ReviewStore.open(tmp_path / "r.sqlite", create=True) as made:
        made.add_project(Project("lab", "LAB", "", "", "", "", ""))
        made.add_rows("lab", [ReviewRow(0, "lab", number, "", one, 1) for number, one in enumerate(MENTIONS, 1)])
        made.add_project(Project("ris", "RIS", "", "", "", "", ""))
        made.add_rows("ris", [ReviewRow(0, "ris", 1, "", "headache", 1)])
        made.decide(Decision("1", "lab", 1, "ann", "choose", "T:2", "broad", "seen", concept_name="Headache"))
        made.decide(Decision("2", "lab", 2, "ann", "nil"))
        made.decide(Decision("3", "lab", 4, "ann", "reject"))
        made.decide(Decision("4", "ris", 5, "bob", "choose", "HP:9"))
        yield made


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("cold HANDS\nheadache\nqqqq\nwrong\ncold hands\n")
    return MentionFile(path)


def test_what_was_settled_answers_first(normalizer, store, table, tmp_path):
    out, plain = tmp_path / "out.csv", tmp_path / "plain.csv"
    summary = run(normalizer, Job(table, out, top_k=2, memory=Memory.read(store.address, source="LAB")))
    assert (summary.rows, summary.reviewed, summary.exact) == (5, 3, 1)
    rows = read(out)
    shown = [
        (row["row"], row["concept_id"], row["method"], row["decision"], row["relation"], row["status"], row["reviewer"])
        for row in rows
        if row["rank"] == "1"
    ]
    assert shown[:3] == [
        ("1", "T:2", "reviewed", "reviewed", "broad", "approved", "ann"),
        ("2", "T:2", "exact", "", "", "unreviewed", ""),
        ("3", "", "reviewed", "reviewed", "", "approved", "ann"),
    ]
    assert (rows[0]["concept_name"], rows[0]["comment"], rows[0]["mention"]) == ("Headache", "seen", "cold HANDS")
    assert rows[0]["reviewed_at"].endswith("+00:00")
    # What nobody settled is answered as without a memory.
    run(normalizer, Job(table, plain, top_k=2))
    without = [row for row in read(plain) if row["row"] in ("2", "4")]
    assert [{name: row[name] for name in without[0]} for row in rows if row["row"] in ("2", "4")] == without


def test_a_decision_of_no_known_time(store):
    said = Decision("5", "ris", 0, "cy", "choose", "HP:8", "exact")
    store.add_rows("ris", [ReviewRow(0, "ris", 2, "", "cough", 1, decided=(said,))])
    (values,) = Memory.read(store.address, project="ris").answer("cough", explain=True)
    told = dict(zip((*FIELDS, *REVIEW), values, strict=True))
    assert (told["explanation"], told["reviewed_at"]) == ("reviewed: choose by cy", None)


def test_whose_decisions_count(store):
    with pytest.raises(UsageError, match="--mappings-source 'LAB' or 'RIS'"):
        Memory.read(store.address)
    assert Memory.read(store.address, project="ris").answer("Headache")[0][0] == "HP:9"
    assert Memory.read(store.address, source="LAB").answer("headache") is None
    with pytest.raises(UsageError, match="is of the source 'RIS'"):
        Memory.read(store.address, source="LAB", project="ris")
    with pytest.raises(Unknown, match="did you mean 'LAB'"):
        Memory.read(store.address, source="LAP")
    store.forget(source="LAB", by="eve")
    assert Memory.read(store.address, source="LAB").answer("cold hands") is None


def test_a_job_that_goes_on_needs_the_same_memory(normalizer, store, table, tmp_path, monkeypatch):
    out, whole = tmp_path / "out.csv", tmp_path / "whole.csv"
    memory = Memory.read(store.address, source="LAB")
    run(normalizer, Job(table, whole, chunk_rows=2, memory=memory))
    put = Parts.put_chunk

    def broken(parts, number, chunk):
        if number:
            raise KeyboardInterrupt
        put(parts, number, chunk)

    monkeypatch.setattr(Parts, "put_chunk", broken)
    with pytest.raises(KeyboardInterrupt):
        run(normalizer, Job(table, out, chunk_rows=2, memory=memory))
    monkeypatch.setattr(Parts, "put_chunk", put)
    store.decide(Decision("5", "lab", 3, "ann", "nil"))
    for other in (None, Memory.read(store.address, source="LAB")):
        with pytest.raises(UsageError, match="decisions' hash"):
            run(normalizer, Job(table, out, chunk_rows=2, memory=other), Restart(resume=True))
    summary = run(normalizer, Job(table, out, chunk_rows=2, memory=memory), Restart(resume=True))
    assert (summary.rows, summary.resumed_rows, summary.reviewed) == (5, 2, 3)
    assert out.read_bytes() == whole.read_bytes()


def test_a_prefix_of_the_decisions_that_is_not_declared_is_told_first(normalizer, store, table, tmp_path):
    store.decide(Decision("6", "lab", 3, "ann", "choose", "MINE:1"))
    job = Job(
        table,
        tmp_path / "out.sssom.tsv",
        memory=Memory.read(store.address, source="LAB"),
        header=Header(
            licence="https://example.org/l", set_id="https://example.org/1", prefixes={"T": "https://t.org/"}
        ),
    )
    with pytest.raises(UsageError, match="MINE"):
        run(normalizer, job)
    assert not list(tmp_path.glob("out*"))


def test_it_explains_itself(store):
    memory = Memory.read(store.address, source="LAB")
    assert memory.answer("cold hands", explain=True)[0][-6].startswith("reviewed: choose by ann, ")
    assert memory.answer("cold hands")[0][-6] is None
