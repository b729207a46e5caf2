"""Texts in, what is set aside, and a job that goes on."""

from __future__ import annotations

import csv
import functools
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.annotation.annotator import Annotator, Settings
from alphita.annotation.spans import Document
from alphita.errors import InputError, UsageError
from alphita.jobs import annotate as jobs
from alphita.jobs.annotate import Job, Texts, Unusable, run
from alphita.options import Restart


@pytest.fixture
def annotator(normalizer):
    return Annotator(normalizer)


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_texts_of_files_folders_and_tables(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_bytes("\ufeffOne\r\ntwo".encode())
    (tmp_path / "sub" / "a.md").write_text("Three", encoding="utf-8")
    (tmp_path / "x.csv").write_text('id,text\n7,"a\nb"\n8,\n', encoding="utf-8")
    (tmp_path / "x.jsonl").write_text('{"note": "c"}\n{"note": 3}\n', encoding="utf-8")
    assert list(Texts(tmp_path / "b.txt").documents()) == [Document("b", "One\r\ntwo", str(tmp_path / "b.txt"))]
    assert [document.id for document in Texts(tmp_path).documents()] == ["b", "sub/a"]
    rows = list(Texts(tmp_path / "x.csv", id_column="id").documents())
    assert (rows[0].id, rows[0].text, rows[0].line) == ("7", "a\nb", 2)
    assert isinstance(rows[1], Unusable)
    rows = list(Texts(tmp_path / "x.jsonl", column="note").documents())
    assert (rows[0].id, rows[0].text) == ("1", "c")
    assert rows[1].problem == "'note' is not a string"


def test_places_are_right_with_line_ends_nul_and_marks(tmp_path, annotator):
    text = "A\x00 seizure.\r\n\u202ecleft\u202c palate\r\n\r\nœdème  short\tfingers " + "x " * 200
    (tmp_path / "a.txt").write_bytes(text.encode())
    run(annotator, Job(Texts(tmp_path / "a.txt"), tmp_path / "out.jsonl"))
    (record,) = lines_of(tmp_path / "out.jsonl")
    assert record["text"] == text
    assert {one["concept_id"] for one in record["annotations"]} >= {"HP:1", "HP:10"}
    assert all(text[one["start"] : one["end"]] == one["mention"] for one in record["annotations"])


def test_one_line_of_any_length_is_read_whole(tmp_path, normalizer):
    (tmp_path / "a.txt").write_text("a seizure without œdème " * 1_000, encoding="utf-8")
    summary = run(Annotator(normalizer, Settings(exact=True)), Job(Texts(tmp_path / "a.txt"), tmp_path / "out.jsonl"))
    assert (summary.words, summary.mentions) == (4_000, 2_000)


@pytest.mark.parametrize("source", ["/dev/zero", "-"])
def test_a_text_without_end_is_set_aside(source, monkeypatch):
    with open("/dev/zero") as endless:
        monkeypatch.setattr("sys.stdin", endless)
        [unusable] = Texts(source).documents()
    assert "a table with a text a row" in unusable.problem


def test_a_word_of_megabytes_takes_no_memory_to_find(annotator):
    tracemalloc.start()
    try:
        annotator.annotate([Document("1", "a" * 2**20)])
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


WORDS = "no |seizure|short and curved fingers|œdème|severe |left |\ud800|\u202e|\r\n|\x00|🤮"
SCRAPS = st.sampled_from(WORDS.split("|"))


@given(pieces=st.lists(SCRAPS | st.text(max_size=3), max_size=25))
def test_mentions_cues_and_modifiers_are_where_the_text_has_them(normalizer, pieces):
    text = "".join(pieces)
    annotator = _exact(normalizer)
    for annotation in annotator.annotate([Document("1", text)])[0].annotations:
        assert text[annotation.start : annotation.end] == annotation.mention
        assert (annotation.pieces[0].start, annotation.pieces[-1].end) == (annotation.start, annotation.end)
        assert all(text[cue.start : cue.end] == cue.cue for cue in annotation.context)
        assert all(0 <= word.start < word.end <= len(text) for word in annotation.modifiers)


@functools.cache
def _exact(normalizer):
    return Annotator(normalizer, Settings(exact=True))


def test_a_folder_of_brat_appears_whole_and_an_old_one_is_moved_aside(tmp_path, annotator):
    (tmp_path / "a.txt").write_text("a seizure", encoding="utf-8")
    job = Job(Texts(tmp_path / "a.txt"), tmp_path / "out.brat")
    run(annotator, job)
    run(annotator, job, Restart(force=True))
    # Twice the same is no other one: a job that was killed at its end and is gone on with leaves one folder.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out.brat"]
    (job.out / "a.ann").write_text("mended by hand", encoding="utf-8")
    run(annotator, job, Restart(force=True))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a.txt", "out.brat", "out.brat.old-1"]
    assert sorted(path.name for path in job.out.iterdir()) == ["a.ann", "a.txt", "annotation.conf"]


def test_exact_gives_names_without_confidence_and_homonyms_for_review(normalizer):
    annotator = Annotator(normalizer, Settings(exact=True))
    (found,) = annotator.annotate([Document("1", "No cold, but short and curved fingers.")])
    said = [
        (annotation.mention, annotation.concept_id, annotation.confidence, annotation.decision, annotation.said)
        for annotation in found.annotations
    ]
    assert said == [
        ("cold", "T:12", None, "review", ("negated",)),
        ("short and curved fingers", "HP:2", None, "accept", ("affirmed",)),
        ("curved fingers", "HP:3", None, "accept", ("affirmed",)),
    ]


def test_a_precision_needs_confidence(normalizer):
    with pytest.raises(UsageError, match="calibrate"):
        Annotator(normalizer, Settings(precision=0.9))
    with pytest.raises(UsageError, match="leave out"):
        Settings(exact=True, precision=0.9)
    with pytest.raises(UsageError, match="between 0 and 1"):
        Settings(precision=2.0)


def test_options_that_do_not_fit_are_told(tmp_path, annotator):
    (tmp_path / "a.txt").write_text("a seizure", encoding="utf-8")
    with pytest.raises(UsageError, match="no columns"):
        Texts(tmp_path / "a.txt", column="text")
    with pytest.raises(UsageError, match="unknown encoding"):
        Texts(tmp_path / "a.txt", encoding="utf-9")
    with pytest.raises(UsageError, match="is the input"):
        run(annotator, Job(Texts(tmp_path / "a.txt"), tmp_path / "a.txt", "csv"), Restart(force=True))
    with pytest.raises(InputError, match="no such file"):
        run(annotator, Job(Texts(tmp_path / "none.txt"), tmp_path / "out.csv"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt"]


CONTENTS = {
    "empty": (b"", "no text"),
    "blank": (b" \n\r\n", "no text"),
    "latin": (b"ab\nM\xfcller", "not valid utf-8"),
    "binary": (b"\x00\x01\x02ab", "binary"),
    "utf16": (b"\xff\xfea", "not valid utf-8"),
    "zip": (b"PK\x03\x04zip", "zip"),
    "long": (b"x" * 201, "longer than"),
}


def test_what_is_no_text_is_set_aside_with_its_reason_and_without_its_words(tmp_path, annotator, monkeypatch):
    monkeypatch.setattr(jobs, "LONGEST", 200)
    (tmp_path / "in").mkdir()
    for name, (content, _) in CONTENTS.items():
        (tmp_path / "in" / f"{name}.txt").write_bytes(content)
    (tmp_path / "in" / "good.txt").write_text("a seizure".ljust(200), encoding="utf-8")
    summary = run(annotator, Job(Texts(tmp_path / "in"), tmp_path / "out.jsonl", private=True))
    assert (summary.documents, summary.rejected, summary.mentions) == (1, len(CONTENTS), 1)
    rejects = (tmp_path / "out.jsonl.rejects.csv").read_text(encoding="utf-8")
    problems = {Path(row["file"]).stem: row["problem"] for row in csv.DictReader(rejects.splitlines())}
    assert set(problems) == set(CONTENTS)
    assert all(problem in problems[name] for name, (_, problem) in CONTENTS.items()), problems
    assert "fc 6c 6c" not in rejects
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o077 == 0


def test_a_broken_job_goes_on_and_gives_the_same_bytes_unless_its_input_has_changed(tmp_path, annotator, monkeypatch):
    monkeypatch.setattr(jobs, "CHUNK_DOCUMENTS", 2)
    table = tmp_path / "in.csv"
    content = "text\n" + "no seizure\ncleft lip and palate\n" * 3
    table.write_text(content, encoding="utf-8")
    run(annotator, Job(Texts(table), tmp_path / "whole.jsonl"))
    real, calls = annotator.annotate, []

    def failing(documents):
        calls.append(len(documents))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(documents)

    monkeypatch.setattr(annotator, "annotate", failing)
    job = Job(Texts(table), tmp_path / "out.jsonl")
    with pytest.raises(KeyboardInterrupt):
        run(annotator, job)
    assert not (tmp_path / "out.jsonl").exists()
    with pytest.raises(UsageError, match="--resume"):
        run(annotator, job)
    table.write_text("text\nothers\nmore\n", encoding="utf-8")
    with pytest.raises(InputError, match="has changed"):
        run(annotator, Job(Texts(table), tmp_path / "out.jsonl"), Restart(resume=True))
    table.write_text(content, encoding="utf-8")
    summary = run(annotator, job, Restart(resume=True))
    assert (summary.resumed, summary.documents) == (4, 6)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.jsonl", "whole.jsonl"]
    with pytest.raises(UsageError, match="already exists"):
        run(annotator, job)
