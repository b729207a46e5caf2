"""What every worker of a job must know, and where the job's files lie.

    OUT/job.json                     the plan, and what makes it the same job when it goes on
    OUT/part-00017.parquet           the answers to the rows of part 17
    OUT/rejects.csv, manifest.json   at the end
    OUT/_work/questions/part-00017.arrow    distinct questions of part 17: one batch for each bucket
    OUT/_work/definitions.json              abbreviations that the whole input defines
    OUT/_work/decisions.json                what people settled before, if that is to answer first
    OUT/_work/answers/bucket-00003.arrow    answers to the questions of bucket 3: one batch for each part
    OUT/_work/written/part-00017.json       size, hash, counts and rejects of the part's output
    OUT/_work/drafts/                       files that are being written

A worker reads the plan from OUT, and so finds out whether its machine sees the same files as the others.
"""

from __future__ import annotations

import json
import platform
import secrets
from dataclasses import asdict, dataclass
from typing import Any

from alphita import artefact
from alphita.answer.filters import Filters
from alphita.errors import AlphitaError, InputError
from alphita.jobs.batches import NormalizerSettings
from alphita.jobs.engines.files import Place
from alphita.jobs.engines.parts import Columns, Part

KIND = "normalization"
JOB, MANIFEST, WORK, REJECTS = "job.json", "manifest.json", "_work", "rejects.csv"


@dataclass(frozen=True)
class ShardPlan:
    """A job, cut into tasks.

    Attributes:
        out: the folder of the output.
        settings: what to normalise and how; without the input's definitions and what people settled before.
        index_hash: of the index's content.
        columns: the input's.
        private: files are for their owner alone, where they lie on a disk, and rejects tell no values.
        parts: of the input.
        buckets: over how many the distinct questions are spread.
        remembers: what people settled before answers first; it lies in a file of its own.
    """

    out: str
    settings: NormalizerSettings
    index_hash: str
    columns: Columns
    private: bool
    parts: tuple[Part, ...]
    buckets: int
    remembers: bool = False

    @property
    def work(self) -> Place:
        """The folder of what is removed at the end."""
        return Place(self.out) / WORK

    @property
    def drafts(self) -> Place:
        """The folder of files that are being written."""
        return self.work / "drafts"

    @property
    def definitions(self) -> Place:
        """The file of the abbreviations that the whole input defines."""
        return self.work / "definitions.json"

    @property
    def decisions(self) -> Place:
        """The file of what people settled before."""
        return self.work / "decisions.json"

    def questions(self, part: int) -> Place:
        """Return the file of a part's distinct questions."""
        return self.work / "questions" / f"{part_name(part)}.arrow"

    def answers(self, bucket: int) -> Place:
        """Return the file of a bucket's answers."""
        return self.work / "answers" / f"bucket-{bucket:05d}.arrow"

    def written(self, part: int) -> Place:
        """Return the file that says that a part's output is written."""
        return self.work / "written" / f"{part_name(part)}.json"

    def output(self, part: int) -> Place:
        """Return a part's output."""
        return Place(self.out) / f"{part_name(part)}.parquet"

    def make_folders(self) -> None:
        """Make the folders of the job."""
        Place(self.out).make(private=self.private)
        for folder in (self.work, self.drafts, self.work / "questions", self.work / "answers", self.work / "written"):
            folder.make(private=self.private)

    def write_json(self, place: Place, value: Any) -> None:  # noqa: ANN401 - any JSON value
        """Write a file of JSON, whole or not at all."""
        with place.whole(self.drafts, private=self.private) as file:
            file.write((json.dumps(value, indent=1) + "\n").encode())

    def save(self, identity: dict[str, Any]) -> str:
        """Write `job.json`, and return the key by which workers know that it is this one."""
        plan = asdict(self)
        key = artefact.hash_json(plan)
        self.write_json(Place(self.out) / JOB, {"kind": KIND, "key": key, "job": identity, "plan": plan})
        return key


def part_name(part: int) -> str:
    """Return the name of a part's files, without its suffix."""
    return f"part-{part:05d}"


def load(out: str, key: str) -> ShardPlan:
    """Read a job's plan on a worker, and see that it can write there."""
    file = Place(out) / JOB
    remedy = "all machines must see the same folder: a shared disk, or a URL such as s3://bucket/folder"
    try:
        read = json.loads(file.content())
    except InputError:
        raise InputError(f"{platform.node()} does not see the job", file=str(file), remedy=remedy) from None
    if read.get("key") != key:
        raise InputError(f"{platform.node()} sees another job", file=str(file), remedy=remedy)
    plan = _plan(read["plan"])
    probe = plan.drafts / f"probe.{secrets.token_hex(6)}"
    try:
        with probe.whole(plan.drafts, private=plan.private):
            pass
    except AlphitaError as error:
        raise AlphitaError(f"{platform.node()} cannot write in the output: {error}") from None
    probe.remove()
    return plan


def _plan(read: dict[str, Any]) -> ShardPlan:
    settings = dict(read["settings"])
    if settings["filters"] is not None:
        filters: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in settings["filters"].items()
        }
        settings["filters"] = Filters(**filters)
    settings["definitions"] = ()
    parts = tuple(Part(**{**one, "groups": tuple(one["groups"])}) for one in read["parts"])
    return ShardPlan(
        read["out"],
        NormalizerSettings(**settings),
        read["index_hash"],
        Columns(**read["columns"]),
        read["private"],
        parts,
        read["buckets"],
        read["remembers"],
    )
