"""DataFrames of Spark, in Python: the concepts that a column names are joined to the rows when a result is asked for.

An engine's worker does not load this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from alphita import artefact
from alphita.errors import UsageError, require
from alphita.jobs.batches import NormalizerSettings, normalize_batches, schema_of

SPARK_TYPES = {pa.float64(): "DoubleType", pa.int64(): "LongType", pa.string(): "StringType"}
# The question's columns, until they are joined.
ASKED = "__alphita_asked_{}"


def normalize_frame(df: Any, settings: NormalizerSettings, *, partitions: int | None = None) -> Any:  # noqa: ANN401
    """Add to a DataFrame of Spark the concepts that one of its columns names."""
    functions: Any = require("pyspark.sql.functions", "spark")
    types: Any = require("pyspark.sql.types", "spark")
    # Types as far as they matter here: strings, bytes, and others by name.
    kinds = {types.StringType: pa.string(), types.BinaryType: pa.binary(), types.NullType: pa.null()}
    given = [
        (field.name, next((kind for spark, kind in kinds.items() if isinstance(field.dataType, spark)), pa.int64()))
        for field in df.schema.fields
    ]
    answered = schema_of(settings, pa.schema(given))
    if df.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        # "Rank" and "rank" are one to Spark.
        lower = {name.lower() for name in settings.added}
        if taken := [name for name in df.columns if name.lower() in lower]:
            raise UsageError(f"there is a column {taken[0]!r} already, which would be added; rename it")
    # Names of our own: `mapInArrow` cannot take all that a column may be called.
    columns = settings.asked
    questions = df.select([_column(df, name).alias(ASKED.format(part)) for part, name in columns.items()]).distinct()
    questions = questions.repartition(partitions or int(df.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    added = [
        types.StructField(name, getattr(types, SPARK_TYPES[answered.field(name).type])()) for name in settings.added
    ]
    within = settings.renamed({part: ASKED.format(part) for part in columns})
    answers = questions.mapInArrow(_Answering(within), types.StructType([*questions.schema.fields, *added]))
    is_same = functions.lit(True)
    for part, name in columns.items():
        is_same &= _column(df, name).eqNullSafe(answers[ASKED.format(part)])
    return df.join(answers, is_same, "left").drop(*map(ASKED.format, columns))


class _Answering:
    """Answers batches; goes to the Python workers."""

    def __init__(self, settings: NormalizerSettings) -> None:
        self._settings, self._version = settings, artefact.build()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if (here := artefact.build()) != self._version:
            raise UsageError(
                f"the driver has alphita {self._version}, and this worker {here}; install the same on every machine"
            )
        yield from normalize_batches(batches, self._settings)


def _column(df: Any, name: str) -> Any:  # noqa: ANN401
    # A name may hold a dot, which without backticks means a field of a struct.
    return df["`" + name.replace("`", "``") + "`"]
