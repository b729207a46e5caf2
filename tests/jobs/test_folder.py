"""A job in tasks gives what one process gives, whatever the order of the tasks and wherever it was broken off."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alphita import artefact
from alphita.answer.filters import Filters
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.index.store import Index, build
from alphita.jobs import folder as job
from alphita.jobs import run as jobs
from alphita.jobs.answers import Memory
from alphita.jobs.batches import NormalizerSettings, load
from alphita.jobs.folder import Shards, run
from alphita.jobs.parts import Place
from alphita.jobs.reading import MentionFile
from alphita.options import Restart
from alphita.review.records import Decision
from tests.doubles import HashEncoder, small_terminology
from tests.jobs.conftest import table_of
from tests.jobs.engines.serial import Broken, Serial

pytestmark = pytest.mark.usefixtures("hashing")
# Two of them define abbreviations elsewhere than where they are used.
LIST = "short,long\nCOLD,very cold\nLBP,lower back pain\n"


@pytest.fixture
def shards(index_path, folder, tmp_path) -> Shards:
    listed = tmp_path / "list.csv"
    listed.write_text(LIST)
    settings = NormalizerSettings(str(index_path), top_k=2, explain=True, abbreviations=str(listed))
    return Shards(str(folder), str(tmp_path / "out"), settings, "code", "frequency", part_rows=30)


@pytest.fixture(autouse=True)
def many_buckets(monkeypatch):
    monkeypatch.setattr(job, "FEW_ROWS", 60)


def asking(shards: Shards, **settings) -> Shards:
    return replace(shards, settings=replace(shards.settings, **settings))


def content(out: str) -> dict[str, bytes]:
    """Return what a finished job wrote, but for what tells of time and engine."""
    files = {path.name: path.read_bytes() for path in Path(out).iterdir()}
    manifest = json.loads(files.pop("manifest.json"))
    return files | {"hash": manifest["content_hash"].encode(), "job": json.dumps(manifest["job"]).encode()}


@pytest.mark.parametrize(
    "columns", [{}, {"context": "context"}, {"language": "language"}, {"context": "context", "language": "language"}]
)
def test_answers_are_those_of_one_process(shards, folder, tmp_path, columns):
    shards = asking(shards, **columns)
    engine = Serial()
    done = run(shards, engine)
    assert engine.released_after == len(engine.done)
    # One file of all rows, which the command without an engine reads.
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.concat_tables([table_of(50), table_of(90, 120), table_of(41, 180)]), whole)
    told = shards.settings
    normalizer = Normalizer(Index.open(told.index), encoder=HashEncoder(), abbreviations=told.abbreviations)
    table = MentionFile(
        whole,
        column="mention",
        code_column="code",
        frequency_column="frequency",
        context_column=told.context,
        language_column=told.language,
    )
    out = tmp_path / "one.parquet"
    summary = jobs.run(normalizer, jobs.Job(table, out, top_k=2, explain=True))
    made, wanted = pl.read_parquet(f"{shards.out}/part-*.parquet"), pl.read_parquet(out)
    assert made.schema == wanted.schema
    numbers = [name for name, kind in made.schema.items() if kind == pl.Float64]
    assert made.drop(numbers).equals(wanted.drop(numbers))
    for name in numbers:
        assert np.allclose(made[name].to_numpy(), wanted[name].to_numpy(), atol=2e-6, equal_nan=True)
    assert made["expansion"].drop_nulls().len() > 5
    for name in ("rows", "exact", "abbreviation", "nearest", "nil", "rejected", "accepted", "review"):
        assert getattr(done.summary, name) == getattr(summary, name), name
    assert summary.rejected > 10
    rejects = [pl.read_csv(f"{path}", infer_schema=False) for path in (done.summary.rejects, summary.rejects)]
    assert rejects[0].drop("file", "line").equals(rejects[1].drop("file", "line"))
    # Files and lines are those of the parts' own files.
    first = [int(file[-9]) for file in rejects[0]["file"]]
    before = {0: 0, 2: 50, 3: 140}
    assert [before[n] + int(line) for n, line in zip(first, rejects[0]["line"], strict=True)] == [
        int(line) for line in rejects[1]["line"]
    ]


SETTLED = Memory(
    {
        "headach": Decision("1", "lab", 1, "ann", "choose", "T:2", "narrow", "typo", "2026-01-02", concept_name="Ache"),
        "qqqqq": Decision("2", "lab", 2, "bob", "nil", at="2026-01-03"),
    }
)


def test_what_was_settled_answers_first_as_in_one_process(shards, tmp_path):
    shards = asking(shards, memory=SETTLED)
    done = run(shards, Serial())
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.concat_tables([table_of(50), table_of(90, 120), table_of(41, 180)]), whole)
    told = shards.settings
    normalizer = Normalizer(Index.open(told.index), encoder=HashEncoder(), abbreviations=told.abbreviations)
    out = tmp_path / "one.parquet"
    table = MentionFile(whole, column="mention", code_column="code", frequency_column="frequency")
    summary = jobs.run(normalizer, jobs.Job(table, out, top_k=2, explain=True, memory=SETTLED))
    made, wanted = pl.read_parquet(f"{shards.out}/part-*.parquet"), pl.read_parquet(out)
    assert made.schema == wanted.schema
    assert made.drop("similarity").equals(wanted.drop("similarity"))
    assert done.summary.reviewed == summary.reviewed > 20
    assert made.filter(pl.col("reviewer") == "ann")["comment"].unique().to_list() == ["typo"]
    # What they said stands in the answers alone.
    assert "typo" not in (Path(shards.out) / "manifest.json").read_text()
    assert not (Path(shards.out) / "_work").exists()


def test_a_job_goes_on_with_the_same_decisions_only(shards):
    run(asking(replace(shards, out=shards.out + "2"), memory=SETTLED), Serial())
    with pytest.raises(Broken):
        run(asking(shards, memory=SETTLED), Serial(most=9))
    assert "typo" in (Path(shards.out) / "_work" / "decisions.json").read_text()
    assert "typo" not in (Path(shards.out) / "job.json").read_text()
    for other in (None, Memory(dict(list(SETTLED.decisions.items())[:1]))):
        with pytest.raises(UsageError, match="decisions' hash"):
            run(asking(shards, memory=other), Serial(), Restart(resume=True))
    run(asking(shards, memory=SETTLED), Serial(), Restart(resume=True))
    assert content(shards.out) == content(shards.out + "2")


def test_equal_questions_are_answered_once(shards, monkeypatch):
    asked: Counter[tuple[str, str | None, str | None]] = Counter()

    class Counting:
        def __init__(self, settings):
            self.normalizer = load(settings)
            for name in ("index", "ranking", "encoder", "omop"):
                setattr(self, name, getattr(self.normalizer, name))

        def normalize(self, mentions, *, contexts, languages, **options):
            asked.update(zip(mentions, contexts, languages, strict=True))
            return self.normalizer.normalize(mentions, contexts=contexts, languages=languages, **options)

    monkeypatch.setattr(job, "load", Counting)
    done = run(asking(shards, context="context", language="language"), Serial())
    assert set(asked.values()) == {1}
    assert len(asked) == done.distinct < done.summary.rows / 1.5


@pytest.mark.parametrize("most", [0, 3, 8, 10, 15])
def test_a_job_that_was_broken_off_goes_on(shards, most):
    unbroken = Serial()
    run(shards, unbroken)
    wanted = content(shards.out)
    shards = replace(shards, out=shards.out + "2")
    broken = Serial(most=most)
    with pytest.raises(Broken):
        run(shards, broken)
    if not most:
        assert not Path(shards.out).exists()
    else:
        with pytest.raises(UsageError, match="--resume"):
            run(shards, Serial())
    resumed = Serial()
    done = run(shards, resumed, Restart(resume=True))
    assert content(shards.out) == wanted
    assert broken.done + resumed.done == unbroken.done
    assert done.summary.rows == 181
    parts = [pq.read_table(path).column("row").unique() for path in sorted(Path(shards.out).glob("*.parquet"))]
    written = [task for what, task in broken.done if what == "Writing"]
    assert sum(len(parts[task]) for task in written) <= done.summary.resumed_rows <= 30 * len(written)


def test_a_job_that_was_broken_off_at_the_very_end_goes_on(shards, monkeypatch):
    run(shards, Serial())
    wanted = content(shards.out)
    shards = replace(shards, out=shards.out + "2")
    for name in ("_finish", "clear"):
        with monkeypatch.context() as patch:
            patch.setattr(job, name, lambda *_: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                run(shards, Serial(), Restart(resume=True))
        assert (Path(shards.out) / "job.json").exists()
    idle = Serial()
    assert run(shards, idle, Restart(resume=True)).summary.rows == 181
    assert idle.done == []
    assert content(shards.out) == wanted


def test_a_finished_job_is_an_artefact(shards):
    done = run(shards, Serial())
    manifest = artefact.verify(shards.out, job.KIND)
    parts = {name: one for name, one in manifest["files"].items() if name.startswith("part-")}
    assert sum(one["rows"] for one in parts.values()) == 181
    for name, one in parts.items():
        assert pq.read_metadata(f"{shards.out}/{name}").num_rows == one["lines"]
    assert {path.name for path in Path(shards.out).iterdir()} == {*manifest["files"], "manifest.json"}
    assert manifest["engine"]["engine"] == "serial"
    assert done.parts == len(parts)
    assert not Path(shards.out + ".lock").exists()


def test_what_is_there_is_not_replaced_unasked(shards, tmp_path):
    run(shards, Serial())
    with pytest.raises(UsageError, match="already exists"):
        run(shards, Serial())
    before = content(shards.out)
    (Path(shards.out) / "notes.txt").write_text("hours of work")
    run(shards, Serial(), Restart(force=True))
    assert content(shards.out) == before
    assert content(shards.out + ".old-1") == before | {"notes.txt": b"hours of work"}
    with pytest.raises(Broken):
        run(shards, Serial(most=3), Restart(force=True))
    run(shards, Serial(), Restart(force=True))
    assert content(shards.out) == before
    assert content(shards.out + ".old-2") == before
    # Of the job that was broken off nothing was worth keeping.
    assert not Path(shards.out + ".old-3").exists()
    with pytest.raises(UsageError, match="one of them"):
        run(shards, Serial(), Restart(force=True, resume=True))
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    for options in ({}, {"force": True}, {"resume": True}):
        with pytest.raises(UsageError, match="is not empty, and holds no job"):
            run(replace(shards, out=str(other)), Serial(), Restart(**options))
    with pytest.raises(UsageError, match="something else"):
        run(replace(shards, out=shards.settings.index), Serial(), Restart(force=True))
    with pytest.raises(UsageError, match="is a file"):
        run(replace(shards, out=str(other / "thesis.txt")), Serial(), Restart(force=True))
    assert (other / "thesis.txt").read_text() == "years of work"


def test_another_job_is_not_resumed(shards, folder, tmp_path):
    with pytest.raises(Broken):
        run(shards, Serial(most=3))
    for other, words in (
        (asking(shards, top_k=3), "top was 2"),
        (asking(shards, floor=0.9), "floor was 0.5"),
        (asking(shards, context="context"), "context column was None"),
        (asking(shards, filters=Filters(languages=("en",))), "filters was None"),
        (replace(shards, part_rows=50), "parts was"),
        (replace(shards, private=True), "private was False"),
    ):
        with pytest.raises(UsageError, match=f"cannot resume: {words}"):
            run(other, Serial(), Restart(resume=True))
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    pq.write_table(table_of(41, 181), moved / "3.parquet", row_group_size=20)
    with pytest.raises(UsageError, match="cannot resume: input was"):
        run(replace(shards, input=str(moved)), Serial(), Restart(resume=True))
    # The same rows at another place are the same input.
    shutil.copy(folder / "3.parquet", moved / "3.parquet")
    run(replace(shards, input=str(moved)), Serial(), Restart(resume=True))


def test_an_input_is_not_written_over(shards, folder):
    for out in (folder, folder.parent):
        with pytest.raises(UsageError, match="holds the input"):
            run(replace(shards, out=str(out)), Serial(), Restart(force=True))
    assert len(list(folder.glob("*.parquet"))) == 5


def test_an_output_is_not_written_into_the_input_nor_read_as_one(shards, folder, tmp_path, capfd):
    copied = tmp_path / "in"
    shutil.copytree(folder, copied)
    with pytest.raises(UsageError, match="lies in the folder of the input"):
        run(replace(shards, input=str(copied), out=str(copied / "coded")), Serial())
    run(shards, Serial())
    shutil.copytree(shards.out, copied / "coded")
    (copied / "more").mkdir()
    pq.write_table(table_of(10, 181), copied / "more" / "4.parquet")
    (copied / "more" / "manifest.json").write_text('["4.parquet"]')
    parts = len(list(Path(shards.out).glob("part-*")))
    for number, given in enumerate((copied, copied / "**" / "[!._]*.parquet")):
        capfd.readouterr()
        assert run(replace(shards, input=str(given), out=f"{shards.out}{number}"), Serial()).summary.rows == 191
        told = f"not read: {parts} files of an earlier output: {copied / 'coded'}"
        assert told in capfd.readouterr().err.replace("file://", "")
    # Asked for by name, it is read.
    assert run(replace(shards, input=str(copied / "coded" / "*.parquet"), out=shards.out + "4"), Serial())


def test_an_unfinished_output_that_was_moved_aside_is_not_read(shards, folder, tmp_path):
    copied = tmp_path / "in"
    shutil.copytree(folder, copied)
    with pytest.raises(Broken):
        run(shards, Serial(most=14))
    run(shards, Serial(), Restart(force=True))
    aside = Path(shards.out + ".old-1")
    assert list(aside.glob("part-*"))
    aside.rename(copied / "coded.old-1")
    for number, given in enumerate((copied, copied / "**" / "[!._]*.parquet")):
        done = run(replace(shards, input=str(given), out=f"{shards.out}-{number}"), Serial())
        assert done.summary.rows == 181
    # Named itself, an output is an input like others.
    made = run(asking(replace(shards, input=shards.out, out=shards.out + "3", code=None, frequency=None)), Serial())
    assert made.summary.rows > 181


def test_what_is_missing_is_told_at_the_start(shards, folder, tmp_path):
    for other, words in (
        (asking(shards, index=str(tmp_path / "none.index")), "no such index"),
        (asking(shards, ranking="lettres"), "letters"),
        (asking(shards, column="mentions"), "unknown column 'mentions'"),
        (asking(shards, context="code"), "'code' has no strings but double"),
        (replace(shards, input=str(tmp_path / "none")), "no Parquet file"),
        (replace(shards, out="/dev/null/out"), "could not"),
        (asking(shards, filters=Filters(types=("Diseases",))), "type"),
    ):
        engine = Serial()
        with pytest.raises(AlphitaError, match=words):
            run(other, engine)
        assert engine.done == []
        assert not Path(tmp_path / "out").exists()


def test_a_worker_with_another_index_is_refused(shards, tmp_path):
    other = tmp_path / "other.index"
    build(small_terminology(), HashEncoder(seed=1), other)

    class Elsewhere(Serial):
        """A machine where another index lies at the same place."""

        def check(self, opening):
            shutil.move(index, tmp_path / "aside")
            shutil.copytree(other, index)
            super().check(opening)

    index = tmp_path / "mine.index"
    shutil.copytree(shards.settings.index, index)
    with pytest.raises(InputError, match="another index than where the job began") as caught:
        run(asking(shards, index=str(index)), Elsewhere())
    assert os.uname().nodename in str(caught.value)


def test_a_worker_that_does_not_see_the_folder_says_so(shards):
    with pytest.raises(Broken):
        run(shards, Serial(most=1))
    with pytest.raises(InputError, match="sees another job"):
        job.Plan.load(shards.out, "0")
    with pytest.raises(InputError, match="does not see the job") as caught:
        job.Plan.load(shards.out + "3", "0")
    assert "shared disk" in str(caught.value)


def test_private_files_tell_nothing_to_others(shards):
    with pytest.raises(Broken):
        run(replace(shards, private=True), Serial(most=16))
    modes = {path.stat().st_mode & 0o077 for path in Path(shards.out).rglob("*")}
    assert modes == {0}
    done = run(replace(shards, private=True), Serial(), Restart(resume=True))
    assert {path.stat().st_mode & 0o077 for path in (Path(shards.out), *Path(shards.out).rglob("*"))} == {0}
    rejects = pl.read_csv(done.summary.rejects, infer_schema=False)
    assert rejects["value"].null_count() == len(rejects) > 10
    assert set(rejects["field"]) == {"mention", "frequency"}


def test_the_column_need_not_be_named(shards, tmp_path):
    done = run(asking(shards, column=""), Serial())
    assert done.summary.rows == 181
    pq.write_table(pa.table({"text": ["cold"]}), tmp_path / "one.parquet")
    one = replace(shards, input=str(tmp_path / "one.parquet"), code=None, frequency=None)
    run(asking(one, column=""), Serial(), Restart(force=True))
    assert pl.read_parquet(f"{shards.out}/part-*.parquet")["mention"].unique().to_list() == ["cold"]
    pq.write_table(pa.table({"text": ["cold"], "more": ["x"]}), tmp_path / "two.parquet")
    with pytest.raises(UsageError, match=r"several columns; name one with --column: \['text', 'more'\]"):
        run(asking(replace(shards, input=str(tmp_path / "two.parquet")), column=""), Serial(), Restart(force=True))


def test_an_input_without_rows_gives_an_empty_output(shards, folder):
    done = run(replace(shards, input=str(folder / "1.parquet")), Serial())
    assert (done.summary.rows, done.parts, done.distinct) == (0, 1, 0)
    assert pq.read_table(f"{shards.out}/part-00000.parquet").num_rows == 0
    assert "concept_id" in pq.read_schema(f"{shards.out}/part-00000.parquet").names


def test_urls_will_do(shards, folder):
    run(shards, Serial())
    for name in (f"{n}.parquet" for n in range(4)):
        with (Place("memory://bucket/in") / name).whole(Place("memory://bucket")) as file:
            file.write((folder / name).read_bytes())
    shards = replace(shards, input="memory://bucket/in", out="memory://bucket/out")
    with pytest.raises(Broken):
        run(shards, Serial(most=10))
    done = run(shards, Serial(), Restart(resume=True))
    made = {name: (Place(shards.out) / name).content() for name in Place(shards.out).names() if "part-" in name}
    local = content(str(Path(shards.settings.abbreviations).parent / "out"))
    assert made == {name: one for name, one in local.items() if name.startswith("part-")}
    assert done.summary.rejects == "memory://bucket/out/rejects.csv"
    run(shards, Serial(), Restart(force=True))
    assert Place("memory://bucket/out.old-1").names() == Place(shards.out).names()


def test_buckets_depend_on_rows_alone(monkeypatch):
    monkeypatch.undo()
    assert [job._buckets(rows) for rows in (0, 1, 5_000, 10**5, 10**7, 10**9)] == [1, 1, 3, 16, 100, 1_024]
