"""A job's answers: each distinct question is answered once, and what was answered comes back after a kill."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.answer.normalizer import Normalizer
from alphita.answer.records import Candidate, Result, lines
from alphita.errors import InputError, UsageError
from alphita.index.store import Index
from alphita.jobs.answers import AnswerStore, answer, lines_of, question
from alphita.jobs.parts import Parts
from alphita.jobs.reading.files import MentionFile, MentionRow
from alphita.jobs.run import Job, run
from tests.doubles import HashEncoder
from tests.jobs.run_job import MoodyEncoder


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


texts = st.text(max_size=5)
optional = st.none() | texts
candidates = st.builds(
    Candidate,
    texts,
    texts,
    texts,
    st.floats(-1, 1),
    optional,
    optional,
    optional,
    optional,
    st.lists(texts, max_size=2).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
    st.sampled_from([None, "broad"]),
    optional,
    st.lists(texts, max_size=2).map(tuple),
    optional,
)
results = st.builds(
    Result,
    texts,
    optional,
    optional,
    optional,
    st.none() | st.floats(-1, 1),
    st.none() | st.floats(0, 1),
    st.sampled_from(["exact", "nearest", "abbreviation", "nil"]),
    st.lists(candidates, min_size=1, max_size=4).map(tuple),
    st.sampled_from([None, "accept", "review"]),
)


@given(found=st.lists(results, max_size=4), top_k=st.integers(1, 5))
def test_lines_are_those_of_the_results_before_and_after_a_kill(found, top_k):
    rows = [MentionRow(7 * n, n, one.mention, f"c{n}", f"context {n}", None, n) for n, one in enumerate(found)]
    expected = [
        lines(row.number, one, top_k, mention_code=row.code, frequency=row.frequency)
        for row, one in zip(rows, found, strict=True)
    ]
    asked = [(question(row), answer(one, top_k)) for row, one in zip(rows, found, strict=True)]
    kept, restored = AnswerStore(), AnswerStore()
    content = kept.add(asked)
    restored.restore([one for one, _ in asked], content)
    for answers in (kept, restored):
        assert [lines_of(row, answers[question(row)]) for row in rows] == expected


def test_questions_differ_by_context_and_language():
    rows = [
        MentionRow(1, 1, "m"),
        MentionRow(2, 2, "m", "code", frequency=5),
        MentionRow(3, 3, "m", None, "a"),
        MentionRow(4, 4, "m", None, "b"),
        MentionRow(5, 5, "m", None, None, "en"),
        MentionRow(6, 6, "m", None, "a", "en"),
        MentionRow(7, 7, "n"),
    ]
    asked = [question(row) for row in rows]
    assert asked[0] == asked[1]
    assert len(set(asked)) == 6


@pytest.mark.parametrize("most_bytes", [0, 1, 5_000, 10**9])
def test_which_are_kept_is_the_same_after_a_kill(most_bytes):
    found = [(f"m{n}", answer(Result(f"m{n}", None, None, None, None, None, "nil"), 1)) for n in range(20)]
    whole = AnswerStore(most_bytes)
    content = whole.add(found)
    parts, restored = AnswerStore(most_bytes), AnswerStore(most_bytes)
    for start in range(0, 20, 7):
        restored.restore([asked for asked, _ in found[start : start + 7]], parts.add(found[start : start + 7]))
    kept = [asked in whole for asked, _ in found]
    assert kept == [asked in parts for asked, _ in found] == [asked in restored for asked, _ in found]
    assert kept == sorted(kept, reverse=True)
    assert sum(kept) == {0: 0, 1: 1, 10**9: 20}.get(most_bytes, sum(kept)) == content.count(b"\n")


@pytest.mark.parametrize("content", [b"", b"[[]]\n[[]]\n", b"oops\n", b"[5]\n"])
def test_answers_that_do_not_fit_are_refused(content):
    with pytest.raises(InputError, match=r"not those of this job; begin anew with --force"):
        AnswerStore().restore(["m"], content)


@pytest.fixture
def many(tmp_path) -> Path:
    words = ["headache", "headace", "cold", "colds", "seizures", "cephalgie", "zzz"]
    lines = ["mention,context,language"]
    for number in range(400):
        lines.append(f"{words[number % 7]}{number % 5 or ''},{'here' * (number % 2)},{'en' * (number % 3 == 0)}")
    return write(tmp_path / "many.csv", lines)


def test_a_mention_is_answered_once_in_a_file(index_path, many, tmp_path):
    encoder = HashEncoder()
    job = Job(MentionFile(many, column="mention"), tmp_path / "out.csv", chunk_rows=50)
    run(Normalizer(Index.open(index_path), encoder=encoder), job)
    assert len(encoder.encoded) == len(set(encoder.encoded)) > 10
    rows = read(tmp_path / "out.csv")
    assert len(rows) == 400
    assert len({tuple(row.items())[1:] for row in rows}) == 35


def test_each_context_and_language_is_asked(index_path, many, tmp_path, monkeypatch):
    normalizer = Normalizer(Index.open(index_path), encoder=HashEncoder())
    asked = []
    normalize = normalizer.normalize

    def listen(mentions, *, contexts, languages, **options):
        asked.extend(zip(mentions, contexts, languages, strict=True))
        return normalize(mentions, contexts=contexts, languages=languages, **options)

    monkeypatch.setattr(normalizer, "normalize", listen)
    table = MentionFile(many, column="mention", context_column="context", language_column="language")
    run(normalizer, Job(table, tmp_path / "out.csv", chunk_rows=50))
    expected = dict.fromkeys((row["mention"], row["context"] or None, row["language"] or None) for row in read(many))
    assert asked == list(expected)


class Breaking(MoodyEncoder):
    """Fails at its n-th batch, as a crash would."""

    good = 10**9

    def encode(self, strings):
        self.good -= 1
        if self.good < 0:
            raise RuntimeError("crash")
        return super().encode(strings)


@pytest.mark.parametrize("most_bytes", [0, 6_000, 10**9])
@pytest.mark.parametrize("good", [1, 2, 4])
def test_broken_and_resumed_is_unbroken_however_many_are_kept(index_path, tmp_path, monkeypatch, most_bytes, good):
    monkeypatch.setattr("alphita.jobs.answers.MAX_BYTES", most_bytes)
    words = [f"{word} {n // 4 * (n % 2)}" for n in range(60) for word in ("colds", "headace", "zz", "cephalgie")]
    job = Job(MentionFile(write(tmp_path / "in.csv", ["mention", *words])), tmp_path / "out.csv", chunk_rows=40)
    index = Index.open(index_path)
    run(Normalizer(index, encoder=Breaking()), replace(job, out=tmp_path / "unbroken.csv"))
    breaking = Breaking()
    breaking.good = good
    with pytest.raises(RuntimeError, match="crash"):
        run(Normalizer(index, encoder=breaking), job)
    assert any(Parts.beside(tmp_path / "out.csv").chunk(0).content["answers"]) == bool(most_bytes)
    run(Normalizer(index, encoder=Breaking()), job, resume=True)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "unbroken.csv").read_bytes()
    assert not list(tmp_path.glob("*.part*"))


def test_answers_that_were_tampered_with_are_refused(index_path, many, tmp_path):
    breaking = Breaking()
    breaking.good = 1
    job = Job(MentionFile(many, column="mention"), tmp_path / "out.csv", chunk_rows=20)
    with pytest.raises(RuntimeError, match="crash"):
        run(Normalizer(Index.open(index_path), encoder=breaking), job)
    parts = Parts.beside(tmp_path / "out.csv")
    chunk = parts.chunk(0)
    chunk.content["answers"] = b"x\n"
    parts.put_chunk(0, chunk)
    with pytest.raises(InputError, match="the answers kept are not those of this job"):
        run(Normalizer(Index.open(index_path), encoder=breaking), job, resume=True)


@pytest.fixture
def own(tmp_path) -> Path:
    return write(tmp_path / "own.csv", ["short,long", "SZ,seizure"])


def test_what_the_file_defines_anywhere_is_known_everywhere(index_path, own, tmp_path):
    source = write(tmp_path / "in.csv", ["mention", "CCD", "SZ", *["cold"] * 20, "common cold disease (CCD)"])
    normalizer = Normalizer(Index.open(index_path), encoder=HashEncoder(), abbreviations=own)
    summary = run(normalizer, Job(MentionFile(source), tmp_path / "out.csv", chunk_rows=5))
    rows = read(tmp_path / "out.csv")
    assert (rows[0]["expansion"], rows[1]["expansion"]) == ("common cold disease", "seizure")
    assert summary.abbreviation >= 1


def test_definitions_in_the_contexts_are_learned(index_path, own, tmp_path):
    lines = ["mention,note", "CCD,", "cold,has a common cold disease (CCD) since May"]
    source = write(tmp_path / "in.csv", lines)
    normalizer = Normalizer(Index.open(index_path), encoder=HashEncoder(), abbreviations=own)
    run(normalizer, Job(MentionFile(source, context_column="note"), tmp_path / "out.csv"))
    assert read(tmp_path / "out.csv")[0]["expansion"] == "common cold disease"


def test_resume_with_other_definitions_further_down_is_refused(index_path, own, tmp_path):
    lines = ["mention", *(f"colds {n}" for n in range(40)), "common cold disease (CCD)"]
    source = write(tmp_path / "in.csv", lines)
    breaking = Breaking()
    breaking.good = 1
    index = Index.open(index_path)
    job = Job(MentionFile(source), tmp_path / "out.csv", chunk_rows=10)
    with pytest.raises(RuntimeError, match="crash"):
        run(Normalizer(index, encoder=breaking, abbreviations=own), job)
    assert Parts.beside(tmp_path / "out.csv").chunks() == 1
    write(source, [*lines[:-1], "central core disease (CCD)"])
    with pytest.raises(UsageError, match="is not the input this job began with"):
        run(Normalizer(index, encoder=HashEncoder(), abbreviations=own), job, resume=True)
    write(source, lines)
    write(own, ["short,long", "SZ,sneeze"])
    with pytest.raises(UsageError, match="cannot resume: abbreviations' hash was"):
        run(Normalizer(index, encoder=HashEncoder(), abbreviations=own), job, resume=True)
    write(own, ["short,long", "SZ,seizure"])
    assert run(Normalizer(index, encoder=HashEncoder(), abbreviations=own), job, resume=True).rows == 41


def test_kept_answers_hold_no_mention(index_path, tmp_path):
    breaking = Breaking()
    breaking.good = 1
    source = write(tmp_path / "in.csv", ["mention", *(f"colds of John Doe {n}" for n in range(20))])
    with pytest.raises(RuntimeError, match="crash"):
        run(
            Normalizer(Index.open(index_path), encoder=breaking),
            Job(MentionFile(source), tmp_path / "o.csv", chunk_rows=10),
        )
    content = Parts.beside(tmp_path / "o.csv").chunk(0).content["answers"].decode()
    assert len([json.loads(line) for line in content.splitlines()]) == 10
    assert "Doe" not in content
