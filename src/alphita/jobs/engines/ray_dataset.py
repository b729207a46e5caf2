"""A dataset of Ray Data: the columns of the answers are added to it. (An engine's worker does not load this.)

Rows of equal questions are brought together by one shuffle, and each group of them is answered where it lies; so a
distinct string is answered once across the cluster, and no join follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from alphita import artefact, machine
from alphita.errors import UsageError, require
from alphita.jobs.batches import NormalizerSettings, normalize_batches, opened, schema_of

if TYPE_CHECKING:
    from ray.data import Dataset


def normalize_dataset(
    dataset: Dataset,
    settings: NormalizerSettings,
    *,
    workers: int,
    gpus: float = 0,
    cores: int = 1,
    partitions: int | None = None,
) -> Dataset:
    """Add to a dataset the concepts that one of its columns names."""
    data = require("ray.data", "cluster")
    for name, number in (("workers", workers), ("cores", cores), ("partitions", partitions)):
        if number is not None and number < 1:
            raise UsageError(f"{name} must be 1 or more, not {number}")
    if (schema := dataset.schema()) is not None:
        # A kind that Arrow does not know is left to the first batch.
        kinds = [kind if isinstance(kind, pa.DataType) else pa.null() for kind in schema.types]
        schema_of(settings, pa.schema(list(zip(schema.names, kinds, strict=True))))
    together = dataset.repartition(
        partitions or data.DataContext.get_current().default_hash_shuffle_parallelism,
        keys=list(settings.asked.values()),
        # What is encoded together decides on a similarity's last bits: the order in which blocks come must not.
        sort=True,
    )
    return together.map_batches(
        _Answering,
        fn_constructor_args=(settings, cores, artefact.build()),
        batch_size=None,
        batch_format="pyarrow",
        compute=data.ActorPoolStrategy(min_size=1, max_size=workers),
        num_cpus=cores,
        num_gpus=gpus,
    )


class _Answering:
    """An actor of Ray Data: opens the index once, and answers tables."""

    def __init__(self, settings: NormalizerSettings, cores: int, version: str) -> None:
        if (here := artefact.build()) != version:
            raise UsageError(
                f"the dataset was made with alphita {version}, and this worker has {here}; "
                "install the same on every machine"
            )
        machine.set_threads(cores)
        self._settings, self._normalizer = settings, opened(settings)

    def __call__(self, table: pa.Table) -> pa.Table:
        given = table.combine_chunks()
        batches = given.to_batches() or [pa.RecordBatch.from_pylist([], schema=given.schema)]
        return pa.Table.from_batches(normalize_batches(iter(batches), self._settings, self._normalizer))
