"""A job's answers: each distinct question is answered once, and what was answered comes back after a kill."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.answer.records import Result
from alphita.errors import InputError, UsageError
from alphita.index.store import Index
from alphita.jobs.answers import AnswerStore, answer
from alphita.jobs.parts import Parts
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.options import Restart
from tests.doubles import HashEncoder
from tests.jobs.conftest import MoodyEncoder, read, write


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


@pytest.fixture
def many(tmp_path) -> Path:
    words = ["headache", "headace", "cold", "colds", "seizures", "cephalgie", "zzz"]
    lines = ["mention,context,language"]
    for number in range(400):
        lines.append(f"{words[number % 7]}{number % 5 or ''},{'here' * (number % 2)},{'en' * (number % 3 == 0)}")
    return write(tmp_path / "many.csv", lines)


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
    run(Normalizer(index, encoder=Breaking()), job, Restart(resume=True))
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
        run(Normalizer(Index.open(index_path), encoder=breaking), job, Restart(resume=True))


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
        run(Normalizer(index, encoder=HashEncoder(), abbreviations=own), job, Restart(resume=True))
    write(source, lines)
    write(own, ["short,long", "SZ,sneeze"])
    with pytest.raises(UsageError, match="cannot resume: abbreviations' hash was"):
        run(Normalizer(index, encoder=HashEncoder(), abbreviations=own), job, Restart(resume=True))
    write(own, ["short,long", "SZ,seizure"])
    assert run(Normalizer(index, encoder=HashEncoder(), abbreviations=own), job, Restart(resume=True)).rows == 41


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
