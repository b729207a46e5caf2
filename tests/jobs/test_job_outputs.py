"""What a job writes beside its lines: formats told by name, what they cannot hold, audits, dates, identity."""

from __future__ import annotations

import csv
import errno
import os
import pkgutil
import types
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.calibrate.audit import read_audit
from alphita.cli.normalize import text_of
from alphita.errors import AlphitaError, UsageError
from alphita.index.store import Index, build
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.mappings.formats import Header
from alphita.options import Restart
from tests.answer.rich import RichTerminology
from tests.doubles import HashEncoder
from tests.jobs.conftest import HEADER, read, write


@pytest.fixture
def source(tmp_path) -> Path:
    return write(tmp_path / "in.csv", ["code,mention,n", "a1,headache,5", "a2,cold,", "a3,qqqq,0", "a4,headace,12"])


def test_what_a_format_cannot_hold_is_counted_and_set_aside(normalizer, tmp_path):
    long = "x" * 51
    source = write(tmp_path / "in.csv", ["code,mention", "a1,headache", f"{long},cold", "a3,bad\0", "a4,headace"])
    table = MentionFile(source, column="mention", code_column="code")
    job = Job(table, tmp_path / "out.stcm.csv", top_k=2, header=HEADER, chunk_rows=2)
    summary = run(normalizer, job)
    assert (summary.rows, summary.rejected) == (4, 1)
    assert summary.lost["further candidates"] == 3
    assert summary.lost["a source code of more than 50 characters"] == 1
    rejects = [(row["line"], row["field"], row["value"], row["problem"]) for row in read(summary.rejects)]
    assert rejects == [
        ("3", "mention_code", long, "a source code of more than 50 characters"),
        ("4", "mention", "bad\0", "a NUL byte in 'mention'"),
    ]
    assert [row["source_code"] for row in read(tmp_path / "out.stcm.csv")] == ["a1", "a4"]


@pytest.mark.parametrize("name", ["out.stcm.csv", "out.r4.json"])
def test_a_map_holds_no_answer_that_nobody_has_accepted(normalizer, source, tmp_path, name):
    table = MentionFile(source, column="mention", code_column="code")
    told = "answers that nobody has accepted (--with-review writes them)"
    # Without a calibration none is accepted; a3 is NIL.
    summary = run(normalizer, Job(table, tmp_path / name, header=replace(HEADER, with_review=False)))
    assert summary.lost[told] == 3
    first = (tmp_path / name).read_text()
    assert [code for code in ("a1", "a2", "a3", "a4") if code in first] == ["a3"]
    summary = run(normalizer, Job(table, tmp_path / name, header=HEADER), Restart(force=True))
    assert told not in summary.lost
    assert "a4" in (tmp_path / name).read_text()


def test_a_nil_keeps_the_nearest_candidates(normalizer, source, tmp_path):
    normalizer.floor = 1.0
    for top in (1, 3):
        table = MentionFile(source, column="mention")
        run(normalizer, Job(table, tmp_path / "out.csv", top_k=top), Restart(force=True))
        lines = [line for line in read(tmp_path / "out.csv") if line["mention"] == "headace"]
        names = ("rank", "concept_id", "nearest_id", "nearest_name", "matched_term", "method")
        first, *others = [tuple(line[name] for name in names) for line in lines]
        assert first == ("1", "", "T:2", "Headache", "Headache", "nil")
        assert len(others) == top - 1
    assert others[0] == ("2", "T:2", "", "", "Headache", "nearest")


@pytest.mark.parametrize("told", [True, False])
def test_an_index_tells_which_concepts_are_standard(tmp_path, told):
    terminology = RichTerminology()
    tables = terminology.side_table
    terminology.side_table = lambda name: tables(name) if told or name != "properties" else pa.table({})
    index = build(terminology, HashEncoder(), tmp_path / "rich.index")
    header = replace(HEADER, target_info=None)
    source = write(tmp_path / "in.csv", ["mention", "Present", "Dulorin"])
    job = Job(MentionFile(source), tmp_path / "out.stcm.csv", header=header)
    summary = run(Normalizer(index, encoder=HashEncoder()), job)
    written = [row["source_code"] for row in read(tmp_path / "out.stcm.csv")]
    assert written == (["Dulorin"] if told else ["Present", "Dulorin"])
    if told:
        [reject] = read(summary.rejects)
        assert (reject["line"], reject["value"]) == ("2", "BX:1")
        assert "Standard Concept" in reject["problem"]


@pytest.mark.parametrize("name", ["out.sssom.tsv", "out.r4.json", "out.r5.json"])
def test_a_concept_that_cannot_be_written_is_told_before_anything_is_answered(index_path, source, tmp_path, name):
    encoder = HashEncoder()
    bare = Header(set_id="https://x.org", licence="https://x.org/licence")
    job = Job(MentionFile(source, column="mention"), tmp_path / name, header=bare)
    with pytest.raises(UsageError, match="prefix 'T' has no declared URI; declare it: --prefix T="):
        run(Normalizer(Index.open(index_path), encoder=encoder), job)
    assert encoder.encoded == []
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


class Breaking(HashEncoder):
    def encode(self, strings):
        if "headace" in strings:
            raise RuntimeError("crash")
        return super().encode(strings)


COLUMNS = {"code column": "code", "context column": "code", "language column": "code", "frequency column": "n"}
OTHERS = {
    "explain": {"explain": True},
    "top": {"top_k": 2},
    "audit": {"audit": 5},
    "source vocabulary": {"header": Header(source_vocabulary="OTHER")},
    "prefixes": {"header": Header(prefixes={"X": "https://x.org/"})},
}
OF_THE_NORMALIZER = ("ranking", "error", "nil_error", "target", "filters", "floor", "index hash")


@pytest.mark.parametrize("name", [*COLUMNS, *OTHERS, *OF_THE_NORMALIZER])
def test_resume_with_other_options_is_refused(normalizer, index_path, source, tmp_path, name):
    job = Job(MentionFile(source, column="mention"), tmp_path / "out.csv", chunk_rows=2)
    with pytest.raises(RuntimeError, match="crash"):
        run(Normalizer(Index.open(index_path), encoder=Breaking()), job)
    if name in COLUMNS:
        job = replace(job, table=MentionFile(source, column="mention", **{name.replace(" ", "_"): COLUMNS[name]}))
    elif name == "index hash":
        normalizer.index.content_hash = "other"
    elif name in OF_THE_NORMALIZER:
        setattr(normalizer, name, 0.6)
    normalizer.calibration = types.SimpleNamespace(fields={}) if name == "audit" else None
    with pytest.raises(UsageError, match=f"cannot resume: {name} was"):
        run(normalizer, replace(job, **OTHERS.get(name, {})), Restart(resume=True))


@pytest.fixture
def sure(normalizer, monkeypatch) -> Normalizer:
    """A normaliser that accepts what is exact, and doubts the rest."""
    normalize = normalizer.normalize

    def decide(mentions, **options):
        decisions = {"exact": "accept", "nearest": "review", "nil": "nil"}
        found = normalize(mentions, **options)
        return [replace(one, decision=decisions[one.method], confidence=0.9) for one in found]

    monkeypatch.setattr(normalizer, "normalize", decide)
    normalizer.calibration = types.SimpleNamespace(
        fields={"content_hash": "abc"}, assurance=lambda error: "certified", origin=""
    )
    return normalizer


def test_both_allowed_errors_are_told(sure, source, tmp_path):
    sure.nil_error = 0.01
    told = text_of(run(sure, Job(MentionFile(source, column="mention"), tmp_path / "out.csv")))
    assert "2 accepted at an allowed error of 5%, 1 NIL at an allowed error of 1%, 1 for review" in told


def test_an_audit_is_drawn_from_the_accepted_rows(sure, tmp_path):
    lines = ["mention", *(["headache", "headace", "cold", "qqqq"] * 25)]
    job = Job(MentionFile(write(tmp_path / "in.csv", lines)), tmp_path / "out.csv", top_k=2, audit=10, chunk_rows=7)
    summary = run(sure, job)
    assert summary.audit == str(tmp_path / "out.csv.audit.csv")
    assert summary.accepted == 50
    rows = read(summary.audit)
    written = {row["row"]: row for row in read(tmp_path / "out.csv") if row["rank"] == "1"}
    assert len({row["row"] for row in rows}) == 10
    for row in rows:
        assert written[row["row"]]["decision"] == "accept"
        assert written[row["row"]]["concept_id"] == row["concept_id"]
        assert (row["accepted_rows"], row["sample_rows"], row["output"]) == ("50", "10", "out.csv")
    assert Path(summary.audit).stat().st_mode & 0o777 == 0o600
    # It is tied to the output as it is.
    answered = [row | {"right": "yes"} for row in rows]
    with open(tmp_path / "answered.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(answered)
    assert read_audit(tmp_path / "answered.csv", output=tmp_path / "out.csv").sampled == 10
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.csv", "out.csv.audit.csv"]
    # Another run draws the same rows; an audit that is there is kept unless forced.
    with pytest.raises(UsageError, match=r"out.csv.audit.csv already exists"):
        run(sure, replace(job, out=tmp_path / "new.csv", audit_out=Path(summary.audit)))
    again = run(sure, replace(job, out=tmp_path / "new.csv", chunk_rows=50, audit_out=tmp_path / "mine.csv"))
    assert again.audit == str(tmp_path / "mine.csv")
    assert [row["row"] for row in read(tmp_path / "mine.csv")] == [row["row"] for row in rows]


@pytest.mark.parametrize("moment", ["chunk", "before", "after"])
def test_an_audit_after_a_crash_is_the_unbroken_one(sure, tmp_path, monkeypatch, moment):
    source = write(tmp_path / "in.csv", ["mention", *(["headache", "headace", "cold", "qqqq"] * 25)])
    job = Job(MentionFile(source), tmp_path / "out.csv", audit=10, chunk_rows=7)
    run(sure, replace(job, out=tmp_path / "unbroken" / "out.csv"))
    seen = []

    def crash(*arguments, **options):
        if moment == "after":
            original(*arguments, **options)
        seen.append(arguments)
        if moment != "chunk" or len(seen) == 6:
            raise RuntimeError("crash")
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        name = "alphita.jobs.run.accepted" if moment == "chunk" else "alphita.calibrate.audit.write_audit"
        original = pkgutil.resolve_name(name)
        patch.setattr(name, crash)
        with pytest.raises(RuntimeError, match="crash"):
            run(sure, job)
    summary = run(sure, job, Restart(resume=True))
    assert summary.resumed_rows == (35 if moment == "chunk" else 100)
    for name in ("out.csv", "out.csv.audit.csv"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.csv", "out.csv.audit.csv"]


def test_an_audit_that_cannot_be_written(sure, source, tmp_path, monkeypatch):
    job = Job(MentionFile(source, column="mention"), tmp_path / "out.csv", audit=1, audit_out=source / "a.csv")
    with pytest.raises(AlphitaError, match=rf"cannot write .*a\.csv: {source} is no folder"):
        run(sure, job)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    # What cannot be seen before, such as a full disk, comes when the output is there.
    job = replace(job, audit_out=tmp_path / "new" / "a.csv")
    with monkeypatch.context() as patch:
        patch.setattr("alphita.artefact.refuse_existing", full)
        with pytest.raises(AlphitaError, match=r"a\.csv: No space left on device; the output itself is written$"):
            run(sure, job)
    assert len(read(tmp_path / "out.csv")) == 4
    assert run(sure, job, Restart(resume=True)).audit == str(tmp_path / "new" / "a.csv")


def full(*_arguments, **_options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_audit_of_nothing(sure, tmp_path):
    source = write(tmp_path / "in.csv", ["mention", "qqqq"])
    assert run(sure, Job(MentionFile(source), tmp_path / "out.csv", audit=10)).audit is None
    assert not list(tmp_path.glob("*audit*"))
    with pytest.raises(UsageError, match="needs an output file, not stdout"):
        run(sure, Job(MentionFile(source), "-", audit=10))
    sure.calibration = None
    with pytest.raises(UsageError, match="without a calibration none is accepted; fit one: alphita calibrate --index"):
        run(sure, Job(MentionFile(source), tmp_path / "o.csv", audit=10))
