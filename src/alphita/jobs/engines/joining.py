"""The task that joins a part's rows with their answers, and writes them: the end of the shuffle."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from alphita.errors import shorten
from alphita.jobs.batches import EXPLANATION, KINDS, spread
from alphita.jobs.engines import plan as plans
from alphita.jobs.engines.answering import PLACE
from alphita.jobs.engines.engine import Receipt
from alphita.jobs.engines.files import Place
from alphita.jobs.engines.plan import ShardPlan
from alphita.jobs.engines.reading import Rows, rows_of
from alphita.jobs.reading.rows import MentionRow
from alphita.jobs.summary import ACCEPTED, FOR_REVIEW, REJECTED
from alphita.mappings.record import COLUMNS, REVIEW

_OWN = {"row": pa.int64(), "frequency": pa.int64()}
_DECISIONS = {"accept": ACCEPTED, "review": FOR_REVIEW}


@dataclass(frozen=True)
class Joining:
    """Opens a worker that writes the output's parts.

    Attributes:
        out: the job's folder.
        key: of its plan.
    """

    out: str
    key: str

    def __call__(self) -> _Joiner:
        """Read the plan."""
        return _Joiner(plans.load(self.out, self.key))


class _Joiner:
    def __init__(self, plan: ShardPlan) -> None:
        self.plan = plan

    def __call__(self, task: int) -> Receipt:
        """Write the output of part number `task`, and then what there is to know of it."""
        plan = self.plan
        part = plan.parts[task]
        rows = rows_of(part, plan.columns, plan.buckets)
        made = _joined(plan, rows, _answers(plan, rows, task))
        with plan.output(task).whole(plan.drafts, private=plan.private) as file:
            hashed = _Hashed(file)
            with pq.ParquetWriter(hashed, made.schema, compression="snappy") as writer:
                writer.write_table(made)
        counts = _counts(made)
        counts[REJECTED] = len(rows.rejects)
        facts = {
            "rows": part.rows,
            "lines": len(made),
            "sha256": hashed.digest.hexdigest(),
            "bytes": hashed.size,
            "counts": dict(counts),
            "rejects": [_reject(plan, part.file, row) for row in rows.rejects],
        }
        plan.write_json(plan.written(task), facts)
        return {"rows": part.rows}


class _Hashed(io.RawIOBase):
    """A file that is written on, and hashed on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever has bytes
        view = memoryview(data)
        self.file.write(view)
        self.digest.update(view)
        self.size += view.nbytes
        return view.nbytes

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size


def columns_of(plan: ShardPlan) -> list[str]:
    """Return the columns of the output: those of `alphita normalize`."""
    given = {"mention_code": plan.columns.code, "frequency": plan.columns.frequency, EXPLANATION: plan.settings.explain}
    left_out = () if plan.remembers else REVIEW
    return [name for name in COLUMNS if name not in left_out and given.get(name, True)]


def _answers(plan: ShardPlan, rows: Rows, task: int) -> pa.Table:
    """Return the lines of the answers to a part's questions; `place` is the number of the question in the part."""
    found = []
    for bucket in range(plan.buckets):
        with plan.answers(bucket).reading() as file, pa.ipc.open_file(file) as reader:
            batch = reader.get_batch(task)
        place = pc.add(batch.column(PLACE).cast(pa.int64()), int(rows.bounds[bucket]))
        found.append(batch.set_column(0, PLACE, place))
    return pa.Table.from_batches(found)


def _joined(plan: ShardPlan, rows: Rows, lines: pa.Table) -> pa.Table:
    """Return the output of a part: each row as often as its answer has lines."""
    counts = np.bincount(lines.column(PLACE).to_numpy(), minlength=len(rows.questions))
    row, line = spread(counts, rows.asked)
    taken = lines.take(pa.array(line))
    numbers = pa.array(row)
    given = {
        "row": pa.array(rows.numbers),
        "mention_code": rows.code,
        "mention": rows.mention,
        "frequency": rows.frequency,
    }
    names = columns_of(plan)
    schema = pa.schema([(name, (_OWN | KINDS).get(name, pa.string())) for name in names])
    arrays: list[Any] = [given[name].take(numbers) if name in given else taken.column(name) for name in names]
    return pa.Table.from_arrays([one.cast(kind) for one, kind in zip(arrays, schema.types, strict=True)], schema=schema)


def _counts(made: pa.Table) -> Counter[str]:
    """Count the rows by method and by decision."""
    first = made.filter(pc.equal(made.column("rank"), 1))
    counts: Counter[str] = Counter()
    for one in first.column("method").value_counts().to_pylist():
        counts[one["values"]] += one["counts"]
    for one in first.column("decision").value_counts().to_pylist():
        if one["values"] in _DECISIONS:
            counts[_DECISIONS[one["values"]]] += one["counts"]
    return counts


def _reject(plan: ShardPlan, file: str, row: MentionRow) -> dict[str, Any]:
    """Return a row set aside, as `errors.Rejects` takes it."""
    value = None if plan.private or row.value is None else shorten(row.value)
    return {
        "problem": row.problem or "it cannot be used",
        "file": str(Place(file)),
        "line": row.line,
        "field": row.field,
        "value": value,
    }
