"""The task that answers a bucket of distinct questions, once each, for all parts that ask them."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import registry
from alphita.answer.candidates import VECTORS
from alphita.answer.normalizer import RANKINGS, Normalizer
from alphita.errors import InputError
from alphita.jobs.batches import KINDS, NormalizerSettings, empty_batch, load, normalize_batches, spread
from alphita.jobs.engines import plan as plans
from alphita.jobs.engines.engine import Receipt
from alphita.jobs.engines.plan import ShardPlan
from alphita.jobs.engines.reading import QUESTION
from alphita.jobs.remembering import Memory

# Questions answered together. The last bits of a similarity depend on it, so it is the same everywhere.
BLOCK = 8_192
# The number of the question that a line answers, among those of one part in one bucket.
PLACE = "place"


@dataclass(frozen=True)
class Answering:
    """Opens a worker that answers buckets, with the encoder and the index, which are freed with it.

    Attributes:
        out: the job's folder.
        key: of its plan.
    """

    out: str
    key: str

    def __call__(self) -> _Answerer:
        """Read the plan, open the index and load the encoder."""
        plan = plans.load(self.out, self.key)
        definitions: tuple[tuple[str, str, int], ...] = ()
        if plan.definitions.exists():
            definitions = tuple((short, long, times) for short, long, times in json.loads(plan.definitions.content()))
        memory = Memory.from_json(json.loads(plan.decisions.content())) if plan.remembers else None
        settings = replace(plan.settings, definitions=definitions, memory=memory)
        try:
            normalizer = load(settings)
        except InputError as error:
            raise InputError(f"on {platform.node()}: {error}") from None
        if normalizer.index.content_hash != plan.index_hash:
            raise InputError(
                f"on {platform.node()} this is another index than where the job began",
                file=settings.index,
                remedy="copy the same index to every machine",
            )
        if registry.load(RANKINGS, normalizer.ranking).ROUTES & VECTORS:
            normalizer.encoder()
        return _Answerer(plan, settings, normalizer)


class _Answerer:
    def __init__(self, plan: ShardPlan, settings: NormalizerSettings, normalizer: Normalizer) -> None:
        self.plan, self.normalizer = plan, normalizer
        # In the files of questions the columns have these names.
        mention, context, language = QUESTION.names
        self.settings = replace(
            settings, column=mention, context=settings.context and context, language=settings.language and language
        )

    def __call__(self, task: int) -> Receipt:
        """Write the answers to the questions of bucket number `task`."""
        plan = self.plan
        asked, questions = _gathered(plan, task)
        lines, counts = self._answers(questions)
        schema = lines.schema.insert(0, pa.field(PLACE, pa.int32()))
        schema = schema.with_metadata({"questions": str(len(questions))})
        with (
            plan.answers(task).whole(plan.drafts, private=plan.private) as file,
            pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
        ):
            for numbers in asked:
                place, line = spread(counts, numbers)
                chosen = lines.take(pa.array(line)).columns
                writer.write_batch(pa.RecordBatch.from_arrays([pa.array(place, pa.int32()), *chosen], schema=schema))
        return {"questions": len(questions)}

    def _answers(self, questions: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        """Return the lines of the answers to q questions, and how many each has, (q,)."""
        added = self.settings.added
        schema = pa.schema([(name, KINDS.get(name, pa.string())) for name in added])
        blocks = (questions.slice(start, BLOCK) for start in range(0, len(questions), BLOCK))
        found = normalize_batches(blocks, self.settings, self.normalizer)
        lines = pa.concat_batches([empty_batch(schema), *(batch.select(added) for batch in found)])
        begins = np.flatnonzero(lines.column("rank").to_numpy() == 1)
        return lines, np.diff(np.append(begins, len(lines)))


def _gathered(plan: ShardPlan, bucket: int) -> tuple[list[NDArray[np.int64]], pa.RecordBatch]:
    """Read a bucket's questions of all parts."""
    groups: list[list[tuple[str, str, str]]] = []
    for part in range(len(plan.parts)):
        with plan.questions(part).reading() as file, pa.ipc.open_file(file) as reader:
            columns = [column.to_pylist() for column in reader.get_batch(bucket).columns]
        # A context or a language is never empty, so that "" stands for none, and can be sorted.
        rows = zip(*columns, strict=True)
        groups.append([(mention, context or "", language or "") for mention, context, language in rows])
    distinct = sorted(set().union(*groups))
    number = dict(zip(distinct, range(len(distinct)), strict=True))
    asked = [np.array([number[question] for question in group], np.int64) for group in groups]
    columns = list(zip(*distinct, strict=True)) or [(), (), ()]
    mentions, contexts, languages = columns
    arrays = [mentions, *([text or None for text in column] for column in (contexts, languages))]
    return asked, pa.RecordBatch.from_arrays(
        [pa.array(array, kind) for array, kind in zip(arrays, QUESTION.types, strict=True)], schema=QUESTION
    )
