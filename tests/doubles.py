"""Stand-ins that satisfy the package's protocols: a terminology of a few rows, and an encoder of characters."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa


class HashEncoder:
    """Hashes character 3-grams into `dim` buckets: deterministic, without a model, near strings get near vectors."""

    def __init__(self, dim: int = 64, seed: int = 0) -> None:
        self.dim, self.seed = dim, seed
        self.encoded: list[str] = []

    @property
    def content_hash(self) -> str:
        return hashlib.sha256(f"{self.dim} {self.seed}".encode()).hexdigest()

    @property
    def tokenizer_hash(self) -> str:
        return hashlib.sha256(b"3-grams").hexdigest()

    def encode(self, strings: Sequence[str], *, show_progress: bool = False) -> np.ndarray:
        self.encoded.extend(strings)
        vectors = np.zeros((len(strings), self.dim), dtype=np.float32)
        for row, string in enumerate(strings):
            padded = f"  {string} ".encode()
            for start in range(len(padded) - 2):
                bucket = zlib.crc32(padded[start : start + 3], self.seed)
                vectors[row, bucket % self.dim] += 1.0 if bucket & 0x8000 else -1.0
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def save(self, path: Path) -> None:
        Path(path).mkdir()
        (Path(path) / "config.json").write_text(json.dumps({"dim": self.dim, "seed": self.seed}))

    @classmethod
    def load(cls, path: Path, **_options: object) -> HashEncoder:
        return cls(**json.loads((Path(path) / "config.json").read_text()))


class SmallTerminology:
    """What the index reads of a `Terminology`, over rows (concept id, string, scope), concept by concept."""

    def __init__(
        self,
        rows: Sequence[tuple[str, str, str]],
        retired: Sequence[str] = (),
        preferred: Sequence[int] | None = None,
        types: Sequence[str | None] | None = None,
    ) -> None:
        ids = list(dict.fromkeys(concept for concept, _, _ in rows))
        rows = sorted(rows, key=lambda row: ids.index(row[0]))
        concept = np.array([ids.index(row[0]) for row in rows], dtype=np.int32)
        first = np.r_[True, concept[1:] != concept[:-1]]
        self.concept_ids = pa.array(ids)
        self.concept_names = [next(string for c, string, _ in rows if c == concept) for concept in ids]
        self.retired = np.array([concept in retired for concept in ids])
        self.term_concept = concept
        self.terms = pa.table(
            {
                "string": [string for _, string, _ in rows],
                "language": pa.array(["en"] * len(rows)).dictionary_encode(),
                "scope": pa.array([scope for _, _, scope in rows]).dictionary_encode(),
                "type": pa.array(types or [None] * len(rows), pa.string()).dictionary_encode(),
                "status": pa.array(["official"] * len(rows)).dictionary_encode(),
                "source": pa.array(["TEST"] * len(rows)).dictionary_encode(),
                "code": [concept.split(":")[1] for concept, _, _ in rows],
                "preferred": first,
            }
        )
        self.content_hash = hashlib.sha256(repr(rows).encode()).hexdigest()
        self.manifest = {"sources": [{"name": "TEST", "version": "1", "licence": "CC0"}]}


ROWS = [
    ("T:1", "Seizure", "exact"),
    ("T:1", "Epileptic seizure", "exact"),
    ("T:1", "Fits", "broad"),
    ("T:2", "Headache", "exact"),
    ("T:2", "Cephalgia", "exact"),
    ("T:3", "Cold", "exact"),
    ("T:3", "Common cold", "exact"),
    ("T:4", "Low body temperature", "exact"),
    ("T:4", "Cold", "related"),
    ("T:5", "Chronic obstructive lung disease", "exact"),
    ("T:5", "COLD", "exact"),
    ("T:6", "Obsolete thing", "exact"),
    ("T:7", "Diabetes mellitus type 2", "exact"),
    ("T:7", "T2DM", "exact"),
    ("T:8", "Diabetes mellitus type 1", "exact"),
]


def small_terminology() -> SmallTerminology:
    """Eight concepts; T:6 is retired, and "cold" names three: T:3 (a preferred name), T:5 (exact), T:4 (related)."""
    return SmallTerminology(ROWS, retired=["T:6"])
