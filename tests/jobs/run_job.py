"""Runs one job in a process of its own, to be killed or starved.

INDEX INPUT OUT [resume] [file-size limit] [chunk] [chunks before a kill]
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import zlib
from pathlib import Path

import numpy as np

from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError
from alphita.index.store import Index
from alphita.jobs.parts import Chunk, Parts
from alphita.jobs.reading import MentionFile
from alphita.jobs.run import Job, run
from alphita.mappings.formats import Header, TargetInfo
from alphita.options import Restart
from tests.doubles import HashEncoder

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


class MoodyEncoder(HashEncoder):
    """Gives a string another vector in other company, more than a real encoder does; and takes its time."""

    def encode(self, strings):
        time.sleep(0.004)
        vectors = super().encode(strings)
        vectors[:, 0] += 0.02 * (zlib.crc32("|".join(strings).encode()) % 5)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def table_of(source: Path | str) -> MentionFile:
    """Return the input as a table with all kinds of columns."""
    return MentionFile(
        source, column="mention", code_column="code", context_column="context", frequency_column="frequency"
    )


def main(
    index: str, source: str, out: str, resume: str = "", limit: str = "", chunk: str = "50", kill: str = ""
) -> None:
    """Run the job; an error made for users goes to stderr as on the command line."""
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    if kill:
        put = Parts.put_chunk

        def putting(parts: Parts, number: int, chunk: Chunk) -> None:
            if number == int(kill):
                os.kill(os.getpid(), signal.SIGKILL)
            put(parts, number, chunk)

        Parts.put_chunk = putting  # type: ignore[method-assign]
    normalizer = Normalizer(Index.open(index), encoder=MoodyEncoder())
    try:
        name = Path(out).name.partition(".")[2]
        job = Job(table_of(source), out, name, top_k=2, chunk_rows=int(chunk), header=HEADER)
        print(run(normalizer, job, Restart(resume=bool(resume))))
    except AlphitaError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
