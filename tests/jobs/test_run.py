"""Files in, files out: the formats, and jobs that are killed, starved and resumed."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.store import Index
from alphita.jobs.parts import Parts
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.options import Restart
from tests.doubles import HashEncoder
from tests.jobs.conftest import HEADER, MoodyEncoder, mention_file, write
from tests.killing import room_for


def content(path: Path) -> list[dict[str, object]]:
    """Read CSV or JSON Lines as rows; an empty CSV cell is None, numbers are numbers."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = {"row": int, "rank": int, "similarity": float, "confidence": float}
    return [{name: numbers.get(name, str)(cell) if cell else None for name, cell in row.items()} for row in rows]


@pytest.fixture
def source(tmp_path) -> Path:
    return write(
        tmp_path / "in.csv", ["id,mention", "a1,headache", "a2,cold", "a3,qqqq", "a4,headace", "a5,bad\0", "a6,"]
    )


def test_rejects_are_private_and_say_where(normalizer, source, tmp_path):
    summary = run(normalizer, Job(MentionFile(source), tmp_path / "out.csv"))
    assert summary.rejects == str(tmp_path / "out.csv.rejects.csv")
    rejects = Path(summary.rejects)
    assert rejects.stat().st_mode & 0o777 == 0o600
    assert content(rejects) == [
        {"file": str(source), "line": "6", "field": None, "value": "bad\0", "problem": "a NUL byte"}
    ]
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_private_keeps_values_out_of_the_rejects(normalizer, tmp_path):
    source = write(tmp_path / "in.csv", ["mention,x", "secret\0,1", "secret,2,3", '"sec"ret,1', "cold,1"])
    run(normalizer, Job(MentionFile(source), tmp_path / "out.csv", private=True))
    rejects = (tmp_path / "out.csv.rejects.csv").read_text()
    assert rejects.count("\n") == 4
    assert "secret" not in rejects
    assert (tmp_path / "out.csv").stat().st_mode & 0o777 == 0o600


def test_old_rejects_do_not_outlive_their_output(normalizer, source, tmp_path):
    out = tmp_path / "out.csv"
    run(normalizer, Job(MentionFile(source), out))
    clean = write(tmp_path / "clean.csv", ["mention", "cold"])
    assert run(normalizer, Job(MentionFile(clean), out), Restart(force=True)).rejects is None
    assert not (tmp_path / "out.csv.rejects.csv").exists()


def test_giant_cells_end_a_chunk_early(normalizer, tmp_path, monkeypatch):
    monkeypatch.setattr("alphita.jobs.run.CHUNK_CHARACTERS", 150_000)
    cells = ["headache " * 11_112, "cold", "headache " * 11_112, "headache"]
    source = write(tmp_path / "in.csv", ["mention", *cells])
    summary = run(normalizer, Job(MentionFile(source), tmp_path / "out.jsonl"))
    assert summary.rows == 4
    rows = content(tmp_path / "out.jsonl")
    assert [row["mention"] for row in rows] == cells
    assert rows[0]["concept_id"] == "T:2"


@pytest.mark.parametrize(
    ("out", "name", "message"),
    [
        ("out.csv", "docx", "unknown format 'docx'; choose from"),
        ("out.docx", "", r"cannot tell the format of .*out.docx.* by its name; say --format, one of"),
        *((name, "csv", "is a folder; name a file") for name in ("", ".", "..", "/")),
        ("-", "parquet", "cannot be written to stdout"),
    ],
)
def test_wrong_outputs(normalizer, source, tmp_path, monkeypatch, out, name, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        run(normalizer, Job(MentionFile(source), out, name), Restart(force=True))
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.parametrize(("given", "out"), [("-", "out.csv"), ("in.csv", "-")])
def test_stdin_and_stdout_are_not_resumed(normalizer, source, given, out):
    table = MentionFile(source if given == "in.csv" else given)
    with pytest.raises(UsageError, match=f"std{'in' if given == '-' else 'out'} cannot be resumed"):
        run(normalizer, Job(table, source.with_name(out) if out != "-" else out), Restart(resume=True))


def test_an_existing_output_is_kept_unless_forced(normalizer, source, tmp_path):
    out = write(tmp_path / "out.csv", ["mine"])
    with pytest.raises(UsageError, match=r"out.csv already exists; choose another name or use --force"):
        run(normalizer, Job(MentionFile(source), out))
    with pytest.raises(UsageError, match="already exists"):
        run(normalizer, Job(MentionFile(source), out), Restart(resume=True))
    assert out.read_text() == "mine\n"
    run(normalizer, Job(MentionFile(source), out), Restart(force=True))
    assert len(content(out)) == 5
    # With no earlier job, it simply runs.
    assert run(normalizer, Job(MentionFile(source), tmp_path / "new.csv"), Restart(resume=True)).rows == 6


def test_no_file_serves_two_ends(normalizer, source, tmp_path):
    out, before = tmp_path / "out.csv", source.read_bytes()
    for audit_out, what in (
        (source, "the input"),
        (out, "the output"),
        (tmp_path / "x" / ".." / "out.csv.rejects.csv", "the rejects"),
    ):
        job = Job(MentionFile(source), out, audit=1, audit_out=audit_out)
        normalizer.calibration = types.SimpleNamespace()
        with pytest.raises(UsageError, match=f"is {what}; choose another name for the rows to audit"):
            run(normalizer, job, Restart(force=True))
    normalizer.calibration = None
    with pytest.raises(UsageError, match="is the input; choose another name for the output"):
        run(normalizer, Job(MentionFile(source), source), Restart(force=True))
    with pytest.raises(UsageError, match="is the input; choose another name for the report"):
        run(normalizer, Job(MentionFile(source), "-", report=source))
    rejects = write(tmp_path / "out.csv.rejects.csv", ["mention", "cold"])
    with pytest.raises(UsageError, match="is the input; choose another name for the rejects"):
        run(normalizer, Job(MentionFile(rejects), out))
    assert source.read_bytes() == before


def test_a_missing_input_is_told_whether_or_not_there_is_an_output(normalizer, tmp_path):
    out = write(tmp_path / "out.csv", ["earlier"])
    for name in ("out.csv", "other.csv"):
        with pytest.raises(InputError, match=r"missing\.csv: cannot read the input: No such file"):
            run(normalizer, Job(MentionFile(tmp_path / "missing.csv"), tmp_path / name), Restart(force=True))
    assert out.read_text() == "earlier\n"


@pytest.mark.parametrize("out", ["out.csv", "-"])
def test_a_report_that_cannot_be_written_is_told_before_the_work(normalizer, source, tmp_path, monkeypatch, out):
    before = sorted(path.name for path in tmp_path.iterdir())
    out = out if out == "-" else tmp_path / out
    for report, kind, problem in (
        (tmp_path, UsageError, "is a folder; name a file"),
        (source / "new" / "r.json", AlphitaError, rf"cannot write .*r\.json: {source} is no folder"),
    ):
        with pytest.raises(kind, match=problem):
            run(normalizer, Job(MentionFile(source), out, report=report))
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(AlphitaError, match=rf"r\.json: the folder {tmp_path} may not be written; choose another"):
        run(normalizer, Job(MentionFile(source), out, report=tmp_path / "new" / "r.json"))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def stdin(monkeypatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(text))))


def test_what_one_input_defines_is_not_for_a_stream_after_it(index_path, tmp_path, monkeypatch):
    known = tmp_path / "known.csv"
    known.write_text("short,long\nhx,history\n")

    def fresh():
        return Normalizer(Index.open(index_path), encoder=HashEncoder(), abbreviations=known)

    used, expansions = fresh(), []
    source = write(tmp_path / "in.csv", ["mention", "diabetes mellitus type 2 (DMT2)", "DMT2"])
    run(used, Job(MentionFile(source), tmp_path / "one.csv"))
    for normalizer in (used, fresh()):
        stdin(monkeypatch, b"mention\nDMT2\n")
        run(normalizer, Job(MentionFile("-"), tmp_path / "two.csv"), Restart(force=True))
        expansions.append(content(tmp_path / "two.csv")[0]["expansion"])
    assert content(tmp_path / "one.csv")[1]["expansion"] == "diabetes mellitus type 2"
    assert expansions == [None, None]


def test_what_does_not_go_to_stdout_is_told_row_by_row(normalizer, tmp_path, capfd):
    source = write(tmp_path / "in.csv", ["code,mention", *["a,bad\0"] * 7, "c,cold", "b,headache"])
    table = MentionFile(source, column="mention", code_column="code")
    header = replace(HEADER, target_info=lambda one: None if one == "T:3" else HEADER.target_info(one))
    for private in (False, True):
        run(normalizer, Job(table, "-", "usagi", header=header, private=private))
        written, said = capfd.readouterr()
        assert written.count("\n") == 2
        told = [line for line in said.splitlines() if "in.csv:" in line]
        assert [line.partition(":")[0] for line in told] == ["rejected"] * 7 + ["not written"]
        assert "in.csv:2: a NUL byte in 'mention' (field 'mention'" in told[0]
        assert "in.csv:9: a concept without OMOP's concept id (field 'concept_id'" in told[-1]
        assert ("bad" in said) != private


class Breaking(HashEncoder):
    """Fails at its n-th batch, as a crash would."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good

    def encode(self, strings):
        self.good -= 1
        if self.good < 0:
            raise RuntimeError("crash")
        return super().encode(strings)


@pytest.fixture
def many(tmp_path) -> Path:
    chance = random.Random(3)
    words = ["headache", "cold", "seizure", "diabetes mellitus type 2", "cephalgia", "zzz"]
    lines = []
    for number in range(3_000):
        word = list(chance.choice(words))
        word.insert(chance.randrange(len(word)), chance.choice("abcdefgh "))
        mention = "".join(word) if number % 97 else "nul \0"
        # Most come again and again, some only here.
        alone = f" {number}" if number % 10 == 0 else ""
        lines.append(f"{number},{mention}{alone},{chance.choice(['', 'noted'])},{number % 3}")
    return write(tmp_path / "many.csv", ["code,mention,context,frequency", *lines])


def broken(index_path, many, out, good: int = 3, **options) -> Job:
    job = Job(MentionFile(many, column="mention"), out, chunk_rows=100, **options)
    with pytest.raises(RuntimeError, match="crash"):
        run(Normalizer(Index.open(index_path), encoder=Breaking(good)), job)
    assert not Path(out).exists()
    return job


def test_a_broken_job_goes_on_where_it_was(index_path, many, tmp_path):
    normalizer = Normalizer(Index.open(index_path), encoder=HashEncoder())
    out = tmp_path / "out.csv"
    job = broken(index_path, many, out)
    parts = tmp_path / "out.csv.parts"
    assert {path.stat().st_mode & 0o077 for path in (parts, *parts.rglob("*"))} == {0}
    assert "headache" not in (parts / "job.json").read_text()
    with pytest.raises(
        UsageError, match=r"an unfinished job is there .*go on with --resume, or begin anew with --force"
    ):
        run(normalizer, job)
    summary = run(normalizer, job, Restart(resume=True))
    assert (summary.rows, summary.resumed_rows, summary.rejected) == (3_000, 300, 31)
    run(normalizer, replace(job, out=tmp_path / "unbroken.csv"))
    assert out.read_bytes() == (tmp_path / "unbroken.csv").read_bytes()
    assert Path(summary.rejects).read_bytes() == (tmp_path / "unbroken.csv.rejects.csv").read_bytes()
    assert not parts.exists()
    begun_anew = run(normalizer, broken(index_path, many, tmp_path / "new.csv"), Restart(force=True))
    assert (begun_anew.rows, begun_anew.resumed_rows) == (3_000, 0)


# In Usagi's file, rows that come again are one, also where rejects stand between them.
AGAIN = ["c1,cold,1", "c1,cold,2", "c1,bad\0,4", "c1,cold,8", "c2,headache,", "c2,headache,3", "c3,qqqq,1", "c3,qqqq,1"]


def test_what_comes_again_in_the_next_chunk_is_written_as_in_the_same_one(normalizer, tmp_path, capfdbinary):
    source = write(tmp_path / "in.csv", ["code,mention,n", *AGAIN])
    table = MentionFile(source, column="mention", code_column="code", frequency_column="n")
    job = Job(table, tmp_path / "whole", "usagi", top_k=3, header=HEADER)
    whole = run(normalizer, job)
    assert whole.lost["mentions given again, with the first one's row"] == 4
    content = (tmp_path / "whole").read_bytes()
    assert [line.split(b",")[:3] for line in content.splitlines()[1:]] == [
        [b"c1", b"cold", b"11"],
        [b"c2", b"headache", b"3"],
        [b"c3", b"qqqq", b"2"],
    ]
    for rows in (1, 2, 3, 5):
        found = run(normalizer, replace(job, out=tmp_path / f"{rows}", chunk_rows=rows))
        assert (tmp_path / f"{rows}").read_bytes() == content
        assert found.lost == whole.lost
        assert not list(tmp_path.glob("*.part*"))
        capfdbinary.readouterr()
        assert run(normalizer, replace(job, out="-", chunk_rows=rows)).lost == whole.lost
        assert capfdbinary.readouterr().out == content


@pytest.mark.parametrize("good", range(1, 9))
def test_a_job_that_breaks_off_where_a_mention_comes_again(normalizer, tmp_path, monkeypatch, good):
    source = write(tmp_path / "in.csv", ["code,mention,n", *AGAIN])
    table = MentionFile(source, column="mention", code_column="code", frequency_column="n")
    job = Job(table, tmp_path / "out", "usagi", top_k=3, header=HEADER, chunk_rows=1)
    whole = run(normalizer, replace(job, out=tmp_path / "whole"))
    done, put = [], Parts.put_chunk

    def breaking(parts, number, chunk):
        put(parts, number, chunk)
        done.append(chunk)
        if len(done) == good:
            raise RuntimeError("crash")

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "put_chunk", breaking)
        with pytest.raises(RuntimeError, match="crash"):
            run(normalizer, job)
    assert b"cold" not in (tmp_path / "out.parts" / "job.json").read_bytes()
    # Killed once more, when all chunks are there.
    with monkeypatch.context() as patch:
        patch.setattr("alphita.jobs.run._finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(normalizer, job, Restart(resume=True))
    found = run(normalizer, job, Restart(resume=True))
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert found.lost == whole.lost
    assert not list(tmp_path.glob("*.part*"))


@pytest.mark.parametrize("options", [{}, {"force": True}, {"resume": True}])
def test_what_has_the_name_of_the_parts_and_is_none_of_ours_stays(normalizer, source, tmp_path, options):
    folder, file = tmp_path / "a.csv.parts", tmp_path / "b.csv.parts"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    file.write_text("years of work")
    for name in ("a.csv", "b.csv"):
        with pytest.raises(UsageError, match=rf"{name}.parts holds something else"):
            run(normalizer, Job(MentionFile(source), tmp_path / name), Restart(**options))
    assert (folder / "thesis.txt").read_text() == file.read_text() == "years of work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv.parts", "b.csv.parts", "in.csv"]


@pytest.mark.parametrize("change", ["first", "last", "shorter", "cut"])
def test_resume_with_another_input_is_refused(normalizer, index_path, many, tmp_path, change):
    job = broken(index_path, many, tmp_path / "out.csv")
    lines = many.read_text().splitlines()
    changed = {
        "first": [lines[0], "0,other", *lines[2:]],
        "last": [*lines[:300], lines[300].replace(",", ",x", 1), *lines[301:]],
        "shorter": lines[:250],
        "cut": lines[:201],
    }
    write(many, changed[change])
    with pytest.raises(UsageError, match=r"many.csv is not the input this job began with"):
        run(normalizer, job, Restart(resume=True))
    assert (tmp_path / "out.csv.parts").exists()
    assert not (tmp_path / "out.csv").exists()


def test_a_chunk_that_is_not_whole_does_not_count(normalizer, index_path, many, tmp_path):
    run(normalizer, Job(MentionFile(many, column="mention"), tmp_path / "unbroken.csv", chunk_rows=100))
    job = broken(index_path, many, tmp_path / "out.csv")
    parts = tmp_path / "out.csv.parts"
    (parts / "chunks" / "00002").rename(parts / "drafts" / "00002.012345678901")
    assert run(normalizer, job, Restart(resume=True)).resumed_rows == 200
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "unbroken.csv").read_bytes()


def test_a_part_that_was_tampered_with_is_refused(normalizer, index_path, many, tmp_path):
    job = broken(index_path, many, tmp_path / "out.csv")
    parts = tmp_path / "out.csv.parts"
    whole = (parts / "chunks" / "00001").read_bytes()
    for damaged in (b"", whole[:10], whole[:-1], whole + b"x", b"5\n" + whole):
        (parts / "chunks" / "00001").write_bytes(damaged)
        with pytest.raises(InputError, match=r"00001: this part is damaged; begin anew with --force"):
            run(normalizer, job, Restart(resume=True))
    (parts / "job.json").write_text('{"job": 5}')
    with pytest.raises(InputError, match="not a job of alphita"):
        run(normalizer, job, Restart(resume=True))


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_a_full_disk_is_told_and_the_job_goes_on(index_path, many, tmp_path, name):
    normalizer, out = Normalizer(Index.open(index_path), encoder=MoodyEncoder()), tmp_path / f"out.{name}"
    job = Job(mention_file(many), out, top_k=2, chunk_rows=50)
    with room_for(100), pytest.raises(AlphitaError, match=f"could not write {out}: File too large; nothing was"):
        run(normalizer, job)
    assert [path.name for path in tmp_path.iterdir()] == ["many.csv"]
    with room_for(60_000), pytest.raises(AlphitaError, match="File too large; make room and go on with --resume"):
        run(normalizer, job)
    assert not out.exists()
    assert run(normalizer, job, Restart(resume=True)).resumed_rows > 100
    run(normalizer, replace(job, out=tmp_path / f"unbroken.{name}"))
    assert out.read_bytes() == (tmp_path / f"unbroken.{name}").read_bytes()


def test_two_jobs_do_not_write_one_output(normalizer, source, tmp_path):
    out = tmp_path / "out.csv"

    class Second(HashEncoder):
        def encode(self, strings):
            with pytest.raises(AlphitaError, match="another alphita is writing this output now"):
                run(normalizer, Job(MentionFile(source), out), Restart(force=True))
            return super().encode(strings)

    assert run(Normalizer(normalizer.index, encoder=Second()), Job(MentionFile(source), out)).rows == 6
    assert len(content(out)) == 5


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
