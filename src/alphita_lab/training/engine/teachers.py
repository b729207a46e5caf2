"""A teacher, and its vectors of many strings: made once, in blocks, and kept beside the run, memory-mapped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, progress
from alphita.errors import InputError, UsageError
from alphita.index import neighbours
from alphita_lab.training.engine.runs import other_run

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.engine.ranks import Ranks

FILE, NOTE = "teacher.npy", "teacher.json"
AT_ONCE = 8192
# Encoded to see how long all take.
SAMPLE = 256


def load(name: str, student: str, dim: int, *, device: str = "auto") -> TermEncoder:
    """Open a teacher in fp32."""
    from alphita.encoder.encoder import TermEncoder

    if not name and _is_extended(student):
        raise UsageError(
            f"no teacher is given, and {student} cannot teach itself: its vocabulary was extended and it has not been "
            "trained since; give what it was extended from, or a better model: --set teacher=MODEL"
        )
    teacher = TermEncoder.load(name or student, precision="fp32", device=device)
    check(teacher, dim)
    return teacher


def check(teacher: TermEncoder, dim: int) -> None:
    """Check that a teacher's vectors are as long as the student's."""
    if teacher.dim != dim:
        raise InputError(
            f"the teacher's vectors have {teacher.dim} numbers and the student's {dim}",
            file=teacher.folder,
            remedy="take a student whose vectors are as long as the teacher's",
        )


def encode(teacher: TermEncoder, strings: Sequence[str], work: Path, *, unit: bool = False) -> None:
    """Make the teacher's vectors, (n, d) float32, in the folder `work`, but for those that are there already."""
    work.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for string in strings:
        digest.update(string.encode("utf-8", "surrogatepass") + b"\0")
    made_with = [teacher.content_hash, digest.hexdigest(), len(strings), unit]
    done = _done(work, made_with)
    if done == len(strings):
        return
    found = np.lib.format.open_memmap(
        work / FILE, "r+" if done else "w+", None if done else np.float32, None if done else (len(strings), teacher.dim)
    )
    with progress.bar("encoding with the teacher", len(strings), "strings", done=done) as bar:
        for start in range(done, len(strings), AT_ONCE):
            block = teacher.encode(strings[start : start + AT_ONCE])
            found[start : start + AT_ONCE] = neighbours.unit(block) if unit else block
            # First the vectors, then the note that they are there.
            found.flush()
            with artefact.atomic_file(work / NOTE, "w") as file:
                json.dump({"made_with": made_with, "done": start + len(block)}, file)
            bar.advance(len(block))


def read(work: Path) -> NDArray[np.float32]:
    """Return the vectors that `encode` made in `work`, (n, d), as a memory map."""
    vectors: NDArray[np.float32] = np.load(work / FILE, mmap_mode="r")
    return vectors


def taught(
    teacher: TermEncoder, strings: Sequence[str], work: Path, ranks: Ranks, *, unit: bool
) -> NDArray[np.float32]:
    """Return the teacher's vectors of all strings, (n, d), made by the first process in `work`: see `encode`."""
    if ranks.first:
        encode(teacher, strings, work, unit=unit)
    ranks.wait()
    return read(work)


def seconds(teacher: TermEncoder, strings: Sequence[str]) -> float:
    """Return how long the teacher would take to encode `strings`, from a sample of them."""
    sample = strings[:: max(1, len(strings) // SAMPLE)]
    teacher.encode(sample[:8])  # the first time takes longer
    start = time.perf_counter()
    teacher.encode(sample)
    return (time.perf_counter() - start) * len(strings) / len(sample)


def _done(work: Path, made_with: list[Any]) -> int:
    note: dict[str, Any] = {"made_with": made_with, "done": 0}
    if (work / NOTE).exists():
        note = json.loads((work / NOTE).read_text(encoding="utf-8"))
    # A run that has begun to train has its vectors.
    if note["made_with"] != made_with or (note["done"] < made_with[2] and (work / "run.json").exists()):
        raise other_run(work, teacher="teacher, ")
    return int(note["done"])


def _is_extended(encoder: str) -> bool:
    """Tell whether an encoder is what `vocabulary extend` left."""
    manifest = Path(encoder).expanduser() / artefact.MANIFEST
    return manifest.is_file() and "extended_from" in json.loads(manifest.read_text(encoding="utf-8"))
