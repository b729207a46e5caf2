"""Tables of what is written today, and what they are made with: masks, an encoder that is the same everywhere.

A table NAME.tsv has a row for each case: its name, and the SHA-256 of its outputs as one masked text (`masked` says
what is masked). ALPHITA_UPDATE_GOLDENS=1 rewrites the tables. ALPHITA_KEEP_GOLDENS=FOLDER writes the texts there too,
so that those of two commits can be laid side by side: `diff -r`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

import alphita
from tests.cli.command import alphita as command
from tests.doubles import HashEncoder

UPDATE, KEEP = "ALPHITA_UPDATE_GOLDENS", "ALPHITA_KEEP_GOLDENS"
SHIPPED = Path(__file__).parents[2] / "models" / "alphita-en"
# What reports tell of times, machine, commit and packages.
OF_THE_RUN = {"seconds", "rows_per_second", "machine", "commit", "command", "packages", "alphita_version"}


def masked(text: str, *folders: Path) -> str:
    """Return a text without what differs from run to run.

    That is: folders; today, as a day, with a time, and in milliseconds since 1970; Alphita's version; rows a second;
    lines of progress, which come every ten seconds; in a report's Markdown the cells of seconds, and the lines on what
    `OF_THE_RUN` names.
    """
    for folder in folders:
        text = text.replace(str(folder), "FOLDER")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=1), today]
    text = re.sub(rf"({'|'.join(day.date().isoformat() for day in days)})(T[\d:.]+(\+00:00|Z))?", "TODAY", text)
    first = days[0].timestamp() * 1000
    text = re.sub(r"\b\d{13}\b", lambda found: "TODAY" if int(found[0]) >= first else found[0], text)
    text = re.sub(rf"(?<![\d.]){re.escape(alphita.__version__)}(?!\.?\d)", "VERSION", text)
    text = re.sub(r"^[\w ]+: [\d,/]+ \w+, [\d,.]+ (\w+/s|s each).*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\| [\d.e-]+ s \|", "| SECONDS |", text)
    text = re.sub(rf"^- ({'|'.join(sorted(OF_THE_RUN))}): .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"[\d,]+ rows/s", "PACE", text)


def without_run(value: Any) -> Any:
    """Return a report without what tells of the run; numbers to nine digits, for the last ones differ by machine."""
    if isinstance(value, dict):
        return {name: without_run(one) for name, one in value.items() if name not in OF_THE_RUN}
    if isinstance(value, list):
        return [without_run(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


# Formats that are no text: their files are named by them, to be read as what they are.
BINARY = ("parquet", "xlsx")


def of_table(table: pa.Table) -> str:
    """Return the columns and rows of a table, a line each."""
    lines = [f"{one.name}: {one.type}" for one in table.schema]
    return "\n".join([*lines, *(json.dumps(row, ensure_ascii=False) for row in table.to_pylist())])


def content(path: Path) -> str:
    """Return a file as text: of Parquet what `of_table` returns, of reports what does not tell of the run."""
    if path.suffix == ".parquet":
        return of_table(pq.read_table(path))
    if path.suffix == ".xlsx":
        rows = openpyxl.load_workbook(path).active.iter_rows(values_only=True)
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    if path.name == "report.json":
        return json.dumps(without_run(json.loads(path.read_text(encoding="utf-8"))), indent=1, ensure_ascii=False)
    return path.read_bytes().decode("utf-8")


def told(*words: object, out: Path, folders: Iterable[Path] = (), left_out: Sequence[str] = ()) -> str:
    """Run the command line; return its exit code, what it says, and what it writes, as masked text.

    Args:
        words: of the command.
        out: the folder in which it writes; its files are taken.
        folders: further ones to be masked.
        left_out: names of files that are not taken.
    """
    said, wrong = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    out.mkdir(parents=True, exist_ok=True)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        code = command(*words)
    parts = [f"exit {code}", _read(said), wrong.getvalue()]
    for path in sorted(path for path in out.rglob("*") if path.is_file() and path.name not in left_out):
        mode = "private" if not path.stat().st_mode & 0o077 else "open"
        parts += [f"--- {path.relative_to(out)} ({mode})", content(path)]
    return masked("\n".join(parts), out, *folders)


def _read(file: io.TextIOWrapper) -> str:
    file.flush()
    return file.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


class Table:
    """A file NAME.tsv with a row for each case."""

    def __init__(self, name: str, columns: Sequence[str], cases: Sequence[str]) -> None:
        """Read NAME.tsv; `cases` are those that it shall have, in this order."""
        self.name, self.path = name, Path(__file__).with_name(f"{name}.tsv")
        lines = self.path.read_text(encoding="utf-8").splitlines()[1:] if self.path.exists() else []
        self.rows = {line.split("\t")[0]: tuple(line.split("\t")[1:]) for line in lines}
        self.columns, self.cases = columns, cases

    def row(self, case: str, found: tuple[str, ...]) -> tuple[str, ...]:
        """Return what the table has of a case, once what was found is put there if that is asked for."""
        if os.environ.get(UPDATE):
            self.rows[case] = found
            self.rows = {one: self.rows[one] for one in self.cases if one in self.rows}
            rows = [self.columns, *((one, *cells) for one, cells in self.rows.items())]
            self.path.write_text("".join("\t".join(cells) + "\n" for cells in rows), encoding="utf-8")
        assert case in self.rows, f"{self.path.name} has no {case!r}: run with {UPDATE}=1"
        return self.rows[case]

    def check_complete(self) -> None:
        """Make sure that the table has every case and no other."""
        assert list(self.rows) == list(self.cases), f"run with {UPDATE}=1"


class Goldens(Table):
    """A table of hashes of texts."""

    def __init__(self, name: str, cases: Sequence[str]) -> None:
        super().__init__(name, ("case", "sha256"), cases)

    def check(self, case: str, text: str) -> None:
        """Make sure that a case's text is that of the table."""
        found = hashlib.sha256(text.encode()).hexdigest()
        if kept := os.environ.get(KEEP):
            path = Path(kept, self.name, case.replace("/", "-"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert self.row(case, (found,)) == (found,), f"{case}: another output; {KEEP}=FOLDER shows it"


class SignEncoder(HashEncoder):
    """Vectors of signs: every component is 1/32 or -1/32, by the majority of what a string's 3-grams vote for.

    Lengths are 1 and cosines multiples of 1/512 without any rounding, in whatever order a machine adds: so what is made
    of them is the same everywhere. To have a calibration it passes for the shipped model, whose ranker is a file of
    fixed numbers.
    """

    pooling, max_length, precision, folder = "mean", 32, "fp32", SHIPPED

    def __init__(self) -> None:
        super().__init__(dim=1024)

    @classmethod
    def load(cls, path: object, **_options: object) -> SignEncoder:
        return cls()

    @property
    def content_hash(self) -> str:
        return str(json.loads((SHIPPED / "calibration" / "manifest.json").read_text())["model_hash"])

    def encode(self, strings: Sequence[str], **_options: object) -> np.ndarray:
        vectors = np.empty((len(strings), self.dim), np.float32)
        for row, string in enumerate(strings):
            padded = f"  {string} ".encode()
            grams = {padded[start : start + 3] for start in range(len(padded) - 2)}
            drawn = b"".join(hashlib.shake_128(one).digest(self.dim // 8) for one in grams)
            votes = np.unpackbits(np.frombuffer(drawn, np.uint8)).reshape(len(grams), self.dim)
            vectors[row] = np.where(2 * votes.sum(axis=0, dtype=np.int64) >= len(grams), 1, -1)
        return vectors / np.float32(self.dim**0.5)
