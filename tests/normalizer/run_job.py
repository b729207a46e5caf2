"""Runs one job in a process of its own, to be killed or starved: INDEX INPUT OUT [resume] [file-size limit] [chunk]."""

from __future__ import annotations

import resource
import sys
import time

from alphita.errors import AlphitaError
from alphita.index.store import Index
from alphita.normalizer.jobs import Job, run
from alphita.normalizer.normalizer import Normalizer
from alphita.normalizer.tables import Table
from tests.doubles import HashEncoder


class SlowEncoder(HashEncoder):
    """Takes its time, so that a kill comes in the middle."""

    def encode(self, strings):
        time.sleep(0.004)
        return super().encode(strings)


def main(index: str, source: str, out: str, resume: str = "", limit: str = "", chunk: str = "50") -> None:
    """Run the job; an error made for users goes to stderr as on the command line."""
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    normalizer = Normalizer(Index.open(index), encoder=SlowEncoder())
    try:
        job = Job(Table(source, code_column="code"), out, top_k=2, chunk_rows=int(chunk))
        print(run(normalizer, job, resume=bool(resume)))
    except AlphitaError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
