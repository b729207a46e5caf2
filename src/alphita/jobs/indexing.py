"""An index built by many processes: its strings are encoded block by block, the rest is done as on one machine.

OUT.parts/job.json, strings/00017.arrow, vectors/00017.npy    a block with vectors is done (see `parts`)
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alphita import artefact, progress
from alphita.errors import InputError, UsageError
from alphita.index import encoding, store
from alphita.index.choice import Building
from alphita.index.neighbours import Vectors
from alphita.index.store import Index
from alphita.jobs.engines import Engine, Receipt, SameVersion
from alphita.jobs.parts import JOB, Parts, Place, everywhere
from alphita.options import Running

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.store import Terminology

WHAT = "Encoding terms"
# Lies among the parts while a job runs; a machine that does not see it has another folder of that name.
SEEN = "seen"
FOLDERS = ("strings", "vectors")
STRINGS, VECTORS = "strings/{:05}.arrow", "vectors/{:05}.npy"
# A file of a job, or one that a killed process did not finish.
OURS = re.compile(r"(\d{5}\.(arrow|npy)|job\.json|seen)(\.[0-9a-f]{12})?")


def build(
    terminology: Terminology,
    model: str,
    out: Path | str,
    engine: Engine,
    how: Building | None = None,
    running: Running | None = None,
    *,
    parts: str | None = None,
    force: bool = False,
    **options: Any,  # noqa: ANN401 - as `store.build` takes them
) -> Index:
    """Build an index whose strings are encoded by an engine's workers."""
    from alphita.encoder.encoder import TermEncoder

    how, running = how or Building(), running or Running()
    how.check()
    artefact.refuse_existing(Path(out), force, " (the old one is moved aside)")
    encoder = TermEncoder.load(model, **asdict(running))
    blocks = Blocks(Place(everywhere(parts) if parts else f"{artefact.absolute(Path(out))}.parts"), private=False)
    blocks.prepare()
    where = everywhere(model) if Path(model).expanduser().is_dir() else model
    ran = encoder.precision, running.device, running.threads, encoder.content_hash
    opening = EncoderOpening(where, *ran, blocks.place.url, how.half)
    try:
        engine.check(SameVersion(opening))
    except BaseException:
        if not (blocks.place / JOB).exists():
            blocks.clear()
        raise

    def encoded(strings: pa.LargeStringArray, _: object) -> Iterator[Vectors]:
        return _encoded(strings, encoder, opening, engine, anew=force)

    index = store.build(terminology, encoder, out, how, force=force, blocks=encoded, **options)
    blocks.clear()
    return index


def _count(strings: int) -> int:
    return -(-strings // encoding.STRINGS_A_BLOCK)


def _encoded(
    strings: pa.LargeStringArray, encoder: TermEncoder, opening: EncoderOpening, engine: Engine, *, anew: bool
) -> Iterator[Vectors]:
    """Have what is missing encoded, then yield the vectors of all blocks, in order."""
    parts = Blocks(Place(opening.parts), private=False)
    parts.claim(_identity(strings, encoder, opening), strings, anew=anew)
    blocks = range(_count(len(strings)))
    done = parts.done("vectors")
    left = [block for block in blocks if block not in done]
    if len(left) < len(blocks):
        progress.say(f"going on: {len(blocks) - len(left):,} of {len(blocks):,} blocks of terms are encoded already")
    with progress.bar(WHAT, total=len(left), unit="blocks") as bar:
        if left:
            for _ in engine.run(SameVersion(opening), left, what=WHAT):
                bar.advance()
            engine.release()
    for block in blocks:
        length = min(encoding.STRINGS_A_BLOCK, len(strings) - block * encoding.STRINGS_A_BLOCK)
        yield parts.vectors(block, (length, encoder.dim))


def _identity(strings: pa.LargeStringArray, encoder: TermEncoder, opening: EncoderOpening) -> dict[str, Any]:
    """Return what decides the bytes of the blocks."""
    digest = hashlib.sha256()
    for block in range(_count(len(strings))):
        digest.update(_packed(strings, block))
    return {
        "job": "index",
        "alphita build": artefact.build(),
        "strings": len(strings),
        "strings_hash": digest.hexdigest(),
        "block": encoding.STRINGS_A_BLOCK,
        "dim": encoder.dim,
        "model_hash": encoder.content_hash,
        "precision": opening.precision,
        "device": opening.device,
        "half": opening.half,
    }


def _packed(strings: pa.LargeStringArray, block: int) -> bytes:
    table = pa.table({"string": strings.slice(block * encoding.STRINGS_A_BLOCK, encoding.STRINGS_A_BLOCK)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@dataclass(frozen=True)
class EncoderOpening:
    """Opens the encoder in a worker."""

    model: str
    precision: str
    device: str
    threads: int | None
    content_hash: str
    parts: str
    half: bool

    def __call__(self) -> BlockEncoder:
        from alphita.encoder.encoder import TermEncoder

        parts = Blocks(Place(self.parts), private=False)
        if not (parts.place / SEEN).exists():
            raise UsageError(
                f"{parts.place} on this machine is not the folder that the job began in; "
                "give --parts a folder or URL that all machines share"
            )
        encoder = TermEncoder.load(self.model, precision=self.precision, device=self.device, threads=self.threads)
        if encoder.content_hash != self.content_hash:
            raise UsageError(
                f"the model {self.model} on this machine has the hash {encoder.content_hash}, the job began with "
                f"{self.content_hash}; put the same model on every machine"
            )
        return BlockEncoder(parts, encoder, self.half)


@dataclass(frozen=True)
class BlockEncoder:
    """Encodes blocks."""

    parts: Blocks
    encoder: encoding.Encoder
    half: bool

    def __call__(self, task: int) -> Receipt:
        strings = self.parts.strings(task)
        vectors = encoding.encode_block(strings, self.encoder)
        sink = io.BytesIO()
        np.save(sink, vectors.astype(np.float16) if self.half else vectors, allow_pickle=False)
        self.parts.put(VECTORS.format(task), sink.getvalue())
        return {"strings": len(strings)}


class Blocks(Parts):
    """The parts of a job that builds an index."""

    def claim(self, job: dict[str, Any], strings: pa.LargeStringArray, *, anew: bool) -> None:
        """Write the blocks' strings, unless the same job has done so before."""
        if (self.place / JOB).exists():
            try:
                earlier = json.loads(self.get(JOB))
                differs = [name for name in {**earlier, **job} if earlier.get(name) != job.get(name)]
            except (ValueError, TypeError):
                differs = ["it cannot be read"]
            if not differs:
                return
            if not anew:
                raise UsageError(
                    f"{self.place} holds the parts of another job (different: {', '.join(differs)}); remove it, or "
                    "start anew with --force"
                )
        # Vectors without a job are nobody's.
        self.clear()
        self.prepare()
        for block in range(_count(len(strings))):
            self.put(STRINGS.format(block), _packed(strings, block))
        self.put_json(JOB, job)

    def prepare(self) -> None:
        """Make the folders, and show to other machines that this is the one."""
        self.make(*FOLDERS)
        self.put(SEEN, b"")

    def strings(self, block: int) -> list[str]:
        with pa.ipc.open_stream(self.get(STRINGS.format(block))) as reader:
            strings: list[str] = reader.read_all().column("string").to_pylist()
        return strings

    def vectors(self, block: int, shape: tuple[int, int]) -> Vectors:
        """Read the vectors of a block, which must have this shape."""
        file = self.place / VECTORS.format(block)
        try:
            vectors: Vectors = np.load(io.BytesIO(file.content()), allow_pickle=False)
        except ValueError as error:
            problem = str(error)
        else:
            if vectors.shape == shape:
                return vectors
            problem = f"its shape is {vectors.shape}, not {shape}"
        raise InputError(f"damaged: {problem}", file=str(file), remedy="remove it and run the command again")

    def clear(self) -> None:
        """Remove what a job wrote, and the folder if nothing else is in it."""
        (self.place / JOB).remove()
        for folder in [*(self.place / name for name in FOLDERS), self.drafts, self.place]:
            for name in folder.names():
                if OURS.fullmatch(name):
                    (folder / name).remove()
            if not folder.names():
                folder.remove()
