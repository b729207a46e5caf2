"""A small index, rows of every kind, and what one process makes of them."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alphita.jobs.reading import MentionFile
from alphita.mappings.formats import Header, TargetInfo
from tests.doubles import HashEncoder

MENTIONS = [
    *("Seizure", "seizures", "headach", "cold", "T2DM", "qqqqq", "", "diabetes type 1", None, "common  cold", "COLD"),
    *("chronic obstructive lung disease (COLD)", "Fits", "epileptic seizur", "low temperature", "a\0b"),
]
# What every format needs.
HEADER = Header(
    set_id="https://example.org/sets/test",
    licence="https://creativecommons.org/publicdomain/zero/1.0/",
    source_vocabulary="LOCAL",
    source_system="https://example.org/local",
    with_review=True,
    prefixes={"T": "https://example.org/t/", "LOCAL": "https://example.org/local/"},
    target_info=lambda concept: TargetInfo(1_000 + int(concept.removeprefix("T:")), "Condition", "Test"),
)
CONTEXTS = [None, "", "cold (common) of today", "chronic obstructive lung disease (COLD) since 1990"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path: Path | str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class MoodyEncoder(HashEncoder):
    """Gives a string another vector in other company, more than a real encoder does."""

    def encode(self, strings):
        vectors = super().encode(strings)
        vectors[:, 0] += 0.02 * (zlib.crc32("|".join(strings).encode()) % 5)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def mention_file(source: Path | str) -> MentionFile:
    """Return an input with all kinds of columns."""
    return MentionFile(
        source, column="mention", code_column="code", context_column="context", frequency_column="frequency"
    )


def table_of(rows: int, first: int = 0) -> pa.Table:
    """Rows whose columns have other periods, so that all pairs come up."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "mention": pa.array([MENTIONS[n % len(MENTIONS)] for n in numbers], pa.string()),
            "code": pa.array([float(n) if n % 5 else None for n in numbers], pa.float64()),
            "context": pa.array([CONTEXTS[n // 3 % len(CONTEXTS)] for n in numbers]).dictionary_encode(),
            "language": pa.array(["en" if n % 7 else None for n in numbers], pa.large_string()),
            "frequency": pa.array([str(n % 4) if n % 9 else "many" if n % 2 else " " for n in numbers]),
        }
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A folder of four files, one without rows, one with row groups larger than a part."""
    folder = tmp_path_factory.mktemp("input")
    for number, (rows, group) in enumerate([(50, 8), (0, 8), (90, 90), (41, 20)]):
        pq.write_table(table_of(rows, 60 * number), folder / f"{number}.parquet", row_group_size=group)
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").write_bytes(b"nothing")
    return folder


@pytest.fixture
def hashing(monkeypatch):
    """Let indexes load the encoder of characters that they were built with."""
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", HashEncoder.load)
