"""Columns of data frames in and out, polars and pandas; and iterators, for what has no end.

The columns added are named as in the files that `alphita normalize` writes; see `alphita.mappings.record.Mapping`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from alphita.answer.records import Explain, Result
from alphita.errors import UsageError
from alphita.jobs.batches import NormalizerSettings, answer_columns
from alphita.registry import unknown

if TYPE_CHECKING:
    import polars as pl

    from alphita.answer.normalizer import Normalizer
    from alphita.jobs.answers import Memory

# A series without a name gets this one.
MENTION = "mention"


def normalize_column(
    frame: Any,  # noqa: ANN401 - of polars or pandas; neither is loaded with this module
    column: str,
    normalizer: Normalizer,
    *,
    context: str | None = None,
    language: str | None = None,
    top_k: int = 1,
    explain: Explain = False,
    memory: Memory | None = None,
    prefix: str = "",
) -> Any:  # noqa: ANN401
    """Add to a data frame the concepts that one of its columns names.

    Rows keep their order, and pandas rows their index. A missing mention is NIL, as an empty one is: `rank` is 1,
    `method` "nil", and all else null. Equal rows are looked up once. With `top_k` above 1 a row comes once for each
    of its candidates, `rank` counting them from 1; of a NIL, they follow it. Abbreviations defined in other rows
    are known only after `normalizer.prepare(texts)`.

    Args:
        frame: n rows; a polars DataFrame or LazyFrame (which is collected), or a pandas DataFrame. It is not changed.
        column: where the mentions are.
        normalizer: what answers.
        context: the column with the text that each mention stands in.
        language: the column with each mention's language (BCP-47).
        top_k: most candidates per row.
        explain: add the column `explanation`, too: a sentence; "numbers": what the answer was computed from.
        memory: earlier decisions, which answer first: `Memory.read("reviews.sqlite")`; adds columns for status,
            mapping type, reviewer, time and comment.
        prefix: put before the names of the columns added.

    Returns:
        A frame of the same kind: its columns, and those of the answers.

    Raises:
        UsageError: another kind of frame, no such column, no column of strings, or a name that is taken already.
    """
    import polars as pl

    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        strings: Any = _pandas_strings
    else:
        if isinstance(frame, pl.LazyFrame):
            options: Any = {"context": context, "language": language, "top_k": top_k, "explain": explain}
            collected = frame.collect()
            return normalize_column(collected, column, normalizer, **options, memory=memory, prefix=prefix).lazy()
        if not isinstance(frame, pl.DataFrame):
            raise UsageError(f"normalize_column takes a frame of polars or pandas, not {type(frame).__name__}")
        strings = _polars_strings
    settings = NormalizerSettings(
        "", column, context, language, top_k=top_k, explain=explain, memory=memory, omop=normalizer.omop.known
    )
    names = settings.added
    _check_new([prefix + name for name in names], [str(name) for name in frame.columns], prefix)
    asked = {part: strings(frame, name) for part, name in settings.asked.items()}
    lines, rows, places = answer_columns(asked, normalizer, settings)
    added = pl.DataFrame(pl.from_arrow(lines))[places].rename({name: prefix + name for name in names})
    repeated = len(rows) != len(frame)
    if strings is _polars_strings:
        return (frame[rows] if repeated else frame).hstack(added)
    table = added.to_pandas()
    return (frame.iloc[rows] if repeated else frame).assign(**{name: table[name].array for name in table.columns})


def first_strings(mentions: Any, column: str | None, number: int) -> list[Any]:  # noqa: ANN401
    """Return the first values of a series, or of a frame's column; none of anything else, or where it is not there."""
    if hasattr(mentions, "collect_schema"):
        names = mentions.collect_schema().names()
        return mentions.lazy().select(column).head(number).collect()[column].to_list() if column in names else []
    if not hasattr(mentions, "columns"):
        return list(mentions.head(number)) if hasattr(mentions, "head") else []
    return list(mentions[column].head(number)) if column in mentions.columns else []


def normalize_series(
    series: Any,  # noqa: ANN401 - of polars or pandas
    normalizer: Normalizer,
    *,
    top_k: int = 1,
    explain: Explain = False,
    memory: Memory | None = None,
    prefix: str = "",
) -> Any:  # noqa: ANN401
    """Return a frame of a polars or pandas series (named "mention" if it has no name) and its concepts.

    See `normalize_column` for the arguments.

    Raises:
        UsageError: `series` is something else, or not of strings, or named as one of the columns added.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(series, pandas.Series):
        name = MENTION if series.name is None else series.name
        frame = series.to_frame(name)
    else:
        import polars as pl

        if not isinstance(series, pl.Series):
            raise UsageError(f"normalize_series takes a series of polars or pandas, not {type(series).__name__}")
        name = series.name or MENTION
        frame = series.alias(name).to_frame()
    return normalize_column(frame, name, normalizer, top_k=top_k, explain=explain, memory=memory, prefix=prefix)


def normalize_iter(
    mentions: Iterable[str], normalizer: Normalizer, *, batch_size: int = 8_192, top_k: int = 1, explain: bool = False
) -> Iterator[Result]:
    """Map mentions to their concepts as they come, from a file or a queue that may have no end.

    Args:
        batch_size: mentions read ahead and answered together; a greater number is faster, a smaller answers sooner.

    Returns:
        One result per mention, in order.

    Raises:
        UsageError: `mentions` is one string, or `batch_size` is below 1; while reading: a mention is no string.
    """
    if isinstance(mentions, str):
        raise UsageError("normalize_iter takes many strings, not one: normalize_iter([mention], ...)")
    if batch_size < 1:
        raise UsageError(f"batch_size must be 1 or more, not {batch_size}")
    waiting = iter(mentions)
    batches = iter(lambda: list(itertools.islice(waiting, batch_size)), [])
    return itertools.chain.from_iterable(normalizer.normalize(batch, top_k=top_k, explain=explain) for batch in batches)


def _check_new(wanted: Sequence[str], present: Sequence[str], prefix: str) -> None:
    if taken := [name for name in wanted if name in set(present)]:
        raise UsageError(
            f"the frame has a column {taken[0]!r}, which would be added; rename it, "
            f"or give {'another' if prefix else 'a'} prefix, as prefix={prefix + 'alphita_'!r}"
        )


def _polars_strings(frame: pl.DataFrame, name: str) -> list[str | None]:
    import polars as pl

    if name not in frame.columns:
        raise UsageError(unknown("column", str(name), frame.columns))
    column = frame[name]
    if column.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        raise UsageError(
            f"the column {name!r} has no strings but {column.dtype}; give its strings: pl.col({name!r}).cast(pl.String)"
        )
    return column.cast(pl.String).to_list()


def _pandas_strings(frame: Any, name: Any) -> list[str | None]:  # noqa: ANN401
    found = list(frame.columns).count(name)
    if not found:
        raise UsageError(unknown("column", str(name), [str(one) for one in frame.columns]))
    if found > 1:
        raise UsageError(f"the frame has {found} columns {name!r}; rename all but one")
    column = frame[name].astype(object)
    strings: list[str | None] = column.where(column.notna(), None).tolist()
    for place, string in enumerate(strings):
        if string is not None and not isinstance(string, str):
            raise UsageError(
                f"the column {name!r} has in row {place + 1} no string but {type(string).__name__}; "
                f"give its strings: frame[{name!r}].astype('string')"
            )
    return strings
