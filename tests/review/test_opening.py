"""Opening a store: what it may be in, who may read it, and what is said when it cannot be used."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from alphita.errors import AlphitaError, InputError
from alphita.review import sqlite, tables
from alphita.review.store import Busy, NotStored, ReviewStore
from tests.docs.blocks import blocks
from tests.review.samples import TOE, Say, project, row, store
from tests.review.writing import N_ROWS, kind


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_only_its_owner_reads_it_and_what_lies_beside_it(tmp_path):
    before = os.umask(0)
    try:
        with store(tmp_path, [row(1)]) as reviews:
            Say(reviews)("ann", 1, "accept")
            names = ("reviews.sqlite", "reviews.sqlite-wal", "reviews.sqlite-shm")
            assert modes(tmp_path) == dict.fromkeys(names, 0o600)
            with reviews.database.reading() as connection:
                assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    finally:
        os.umask(before)
    assert modes(tmp_path) == {"reviews.sqlite": 0o600}
    # One that others could read is made private.
    (tmp_path / "reviews.sqlite").chmod(0o644)
    with ReviewStore.open(tmp_path / "reviews.sqlite"):
        assert set(modes(tmp_path).values()) == {0o600}


BACKUPS = [
    block.text
    for page in ("operation.md", "start/administration.md")
    for block in blocks(Path(__file__).parents[2] / "docs" / page)
    if "backup" in block.text and "reviews.sqlite" in block.text
]


@pytest.mark.parametrize("text", BACKUPS)
def test_a_copy_made_as_the_docs_say_is_private_too(tmp_path, text):
    with store(tmp_path, [row(1)]):
        pass
    (tmp_path / "keys.tsv").touch(0o600), (tmp_path / "serve.toml").touch(0o644)
    given = set(tmp_path.iterdir())
    if "sqlite3 /" in text and shutil.which("sqlite3") is None:
        pytest.skip("sqlite3 is not here")
    text = re.sub("/var/lib/alphita/|/etc/alphita/|/data/", "./", text).replace("/backup/", "copies/")
    text = re.sub("docker compose exec alphita |docker compose cp .*", "", text).replace(
        "python ", f"{sys.executable} "
    )
    (tmp_path / "copies").mkdir()
    subprocess.run(["bash", "-ec", f"umask 022\n{text}"], cwd=tmp_path, check=True)
    made = {path for path in tmp_path.rglob("*") if path.is_file()} - given
    assert made
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}


def test_a_closed_one_says_so(tmp_path):
    reviews = store(tmp_path, [row(1), row(2)])
    running = reviews.mappings("codes")
    next(running)
    reviews.close()
    reviews.close()
    # What is being read is read to the end, and closed then.
    assert len(list(running)) == 1
    assert set(modes(tmp_path)) == {"reviews.sqlite"}
    with pytest.raises(AlphitaError, match="closed"):
        reviews.projects()


def database_of_another_program() -> bytes:
    with closing(sqlite3.connect(":memory:")) as other:
        other.execute("CREATE TABLE patient (name)")
        return other.serialize()


@pytest.mark.parametrize(
    ("name", "content", "create", "problem"),
    [
        ("", None, True, "a directory"),
        ("", None, False, "a directory"),
        ("none.sqlite", None, False, "no such review store"),
        ("none/reviews.sqlite", None, True, "folder does not exist"),
        ("x.csv", b"mention,code\nsore toe,1\n", True, r"x\.csv: not a review store"),
        ("x.csv", b"SQLite", False, r"x\.csv: not a review store"),
        ("x.csv", b"\0" * 5000, True, r"x\.csv: not a review store"),
        ("x.sqlite", database_of_another_program(), True, "a database, but not a review store"),
        ("x.sqlite", b"", False, "empty"),
        ("x.sqlite", b"", True, None),
    ],
)
def test_what_is_no_store_stays_as_it_is(tmp_path, name, content, create, problem):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    if problem is None:
        with ReviewStore.open(path, create=create) as reviews:
            assert reviews.projects() == []
        return
    with pytest.raises(InputError, match=problem):
        ReviewStore.open(path, create=create)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == ({} if content is None else {path: content})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (f"PRAGMA user_version = {tables.VERSION - 1}", "export its decisions with the alphita that made it"),
        (f"PRAGMA user_version = {tables.VERSION + 1}", "install a newer alphita"),
        ("ALTER TABLE project DROP COLUMN filters", "lacks the column filters of project"),
    ],
)
def test_one_of_another_version_or_without_a_column_stays_as_it_is(tmp_path, change, problem):
    with store(tmp_path, [row(1)]) as reviews:
        Say(reviews)("ann", 1, "accept")
    path = tmp_path / "reviews.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
    before = path.read_bytes()
    with pytest.raises(InputError, match=problem):
        ReviewStore.open(path)
    assert path.read_bytes() == before


def test_a_damaged_one(tmp_path):
    with store(tmp_path, [row(number) for number in range(1, 200)]):
        pass
    path = tmp_path / "reviews.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(NotStored, match=r"reviews\.sqlite: the file is damaged"), ReviewStore.open(path) as reviews:
        reviews.queue("codes")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_share_is_refused(tmp_path, monkeypatch, kind):
    mounts = tmp_path / "mountinfo"
    share = tmp_path / "a share"
    share.mkdir()
    escaped = str(share).replace(" ", "\\040")
    lines = [
        "21 1 8:1 / / rw - ext4 /dev/root rw",
        f"22 21 0:5 / {escaped} rw,x shared:1 - {kind} x rw",
        "unreadable",
        "23 21 0:6 / /elsewhere rw - nfs4 x rw",
    ]
    mounts.write_text("\n".join(lines))
    monkeypatch.setattr(sqlite, "MOUNTS", mounts)
    with pytest.raises(InputError, match=rf"a share/reviews\.sqlite: on a network share \({kind}\).*alphita serve"):
        ReviewStore.open(share / "reviews.sqlite", create=True)
    assert not list(share.iterdir())
    link = tmp_path / "link"
    link.symlink_to(share)
    with pytest.raises(InputError, match=r"network share"):
        ReviewStore.open(link / "reviews.sqlite", create=True)
    # Where mounts are not told all is allowed.
    monkeypatch.setattr(sqlite, "MOUNTS", tmp_path / "none")
    ReviewStore.open(share / "reviews.sqlite", create=True).close()


def test_a_locked_one(tmp_path):
    with store(tmp_path, [row(1)]) as reviews:
        path = reviews.address
        reviews.close()
        with ReviewStore.open(path, timeout=0.05) as other, closing(sqlite3.connect(path)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(Busy, match=r"reviews\.sqlite: another program is writing"):
                Say(other)("ann", 1, "accept")
            assert other.queue("codes")[0] == 1
            writer.rollback()
            assert Say(other)("ann", 1, "accept").id == 1
            with other.database.writing(), pytest.raises(Busy, match="other requests are writing"):
                Say(other)("ann", 1, "nil")


@pytest.mark.parametrize(
    ("setting", "problem"),
    [("max_page_count = 40", "disk is full"), ("query_only = ON", "read-only; nothing was stored")],
)
def test_what_cannot_be_written_is_not_kept_in_part(tmp_path, setting, problem):
    with store(tmp_path, [row(1)]) as reviews:
        with reviews.database.backend.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA {setting}")
        with pytest.raises(NotStored, match=problem):
            reviews.add_rows("codes", (row(number, mention="y" * 200 + str(number)) for number in range(2, 500)))
        assert reviews.queue("codes")[0] == 1


def test_a_read_only_one(tmp_path, monkeypatch):
    store(tmp_path).close()
    # Root may write anything, so nobody is asked who this is.
    for name in ("reviews.sqlite", ""):
        path = tmp_path / name
        monkeypatch.setattr("os.access", lambda asked, *_, refused=path, **__: asked != refused)
        with pytest.raises(InputError, match="read-only; a review store and its folder must be writable") as refused:
            ReviewStore.open(tmp_path / "reviews.sqlite")
        assert refused.value.file == path


def test_two_programs_make_it_at_once(tmp_path):
    path = tmp_path / "reviews.sqlite"
    code = "import sys; from alphita.review.store import ReviewStore; ReviewStore.open(sys.argv[1], create=True)"
    makers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(3)]
    assert [maker.wait() for maker in makers] == [0, 0, 0]
    with ReviewStore.open(path) as reviews:
        reviews.add_project(project())
        assert [one.name for one in reviews.projects()] == ["codes"]


def test_what_was_done_cannot_be_changed(tmp_path):
    with store(tmp_path, [row(1)]) as reviews:
        Say(reviews)("ann", 1, "accept")
        reviews.forget(reviewer="ann", by="boss")
        reviews.bulk("codes", "bob", "b", threshold=1.0)
        for table in tables.APPENDED:
            for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET reviewer = 'bob'"):
                refused = pytest.raises(sqlite3.IntegrityError, match="only ever added to")
                with closing(sqlite3.connect(reviews.address)) as other, refused:
                    other.execute(statement)
        assert [decision.concept_id for decision in reviews.history("codes")] == [TOE]


KILLS = 6
ROOT = Path(__file__).parents[2]


def start(path: Path | str, acknowledged: dict[str, int]) -> subprocess.Popen[str]:
    reviewers = [f"{who}={last + 1}" for who, last in acknowledged.items()]
    command = [sys.executable, "-m", "tests.review.writing", str(path), *reviewers]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def check(path: Path | str, acknowledged: dict[str, int]) -> None:
    """See that each acknowledged action is there once, in order, and that what follows from them fits."""
    with ReviewStore.open(path) as reviews:
        history = list(reviews.history("codes"))
        uids = Counter(decision.uid for decision in history)
        assert max(uids.values(), default=0) == 1
        for reviewer, last in acknowledged.items():
            alone = [decision for decision in history if decision.reviewer == reviewer and decision.kind == "choose"]
            expected = [number for number in range(last + 1) if kind(number) == "decide"]
            found = [int(one.comment) for one in alone]
            # One more may be stored whose acknowledgement did not come through.
            assert found[: len(expected)] == expected
            assert found[len(expected) :] in ([], [last + 1])
            assert all(f"{reviewer} {number}" in uids for number in expected)
        in_force = {}
        undone = {decision.undoes for decision in history}
        for one in history:
            if one.kind != "undo" and one.id not in undone:
                in_force[one.row, one.reviewer] = one.id
        for number in range(1, N_ROWS + 1):
            standing = reviews.standing(number)
            assert {(number, decision.reviewer): decision.id for decision in standing.decisions} == {
                key: id for key, id in in_force.items() if key[0] == number
            }
        with reviews.database.reading() as connection:
            batches = set(connection.execute(select(tables.batch.c.uid)).scalars())
    if "://" not in str(path):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for reviewer, last in acknowledged.items():
        assert all(f"{reviewer} {number}" in batches for number in range(last + 1) if kind(number) != "decide")


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    store(tmp_path, [row(number) for number in range(1, N_ROWS + 1)]).close()
    path = tmp_path / "reviews.sqlite"
    chance = random.Random(7)
    acknowledged = {"ann": -1, "bob": -1}
    for _ in range(KILLS):
        writer = start(path, acknowledged)
        try:
            lines = [writer.stdout.readline() for _ in range(chance.randint(5, 50))]
        finally:
            writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        assert writer.returncode == -signal.SIGKILL
        for line in [*lines, *rest.splitlines(keepends=True)]:
            # A last line that was cut off acknowledges nothing.
            if line.endswith("\n"):
                who, number = line.split()
                assert int(number) == acknowledged[who] + 1
                acknowledged[who] += 1
        check(path, acknowledged)
    assert min(acknowledged.values()) > KILLS
