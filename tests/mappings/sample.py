"""Mappings for tests, written one field at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from alphita.errors import Rejects
from alphita.mappings.formats import Header, TargetInfo
from alphita.mappings.record import Mapping, bare

SET = {"set_id": "https://example.org/maps/mine", "licence": "https://example.org/licence"}
LOCAL = {"source_vocabulary": "LOCAL", "prefixes": {"LOCAL": "https://example.org/local/"}}
OMOP = {"HP:0000001": TargetInfo(11, "Condition", "HPO"), "HP:0000002": TargetInfo(12, "Condition", "HPO")}


def header(**fields: Any) -> Header:
    return Header(**{**SET, **LOCAL, "target_info": OMOP.get, "with_review": True, **fields})


def mapping(mention: str = "sore toe", concept_id: str | None = "HP:0000001", **fields: Any) -> Mapping:
    return bare(1, None, mention, concept_id, **fields)


def write(module: ModuleType, head: Header, mappings: Sequence[Mapping], out: Path, pieces: int = 1) -> Path:
    """Write mappings, the first half and the second in two pieces if asked for."""
    cut = len(mappings) // pieces
    return write_runs(module, head, [mappings[:cut], mappings[cut:]] if pieces == 2 else [mappings], out)


def write_runs(module: ModuleType, head: Header, runs: Iterable[Sequence[Mapping]], out: Path) -> Path:
    """Write mappings run by run."""
    part = out.with_name("part")
    content, held = module.begin(head), ()
    for run in runs:
        complete, held = module.split_complete(head, [*held, *run])
        content += module.encode(head, complete)
    part.write_bytes(content + (module.encode(head, held) if held else b""))
    module.finish(head, part, out)
    assert not part.exists()
    return out


def read(module: ModuleType, head: Header, path: Path) -> list[Mapping]:
    """Read a file in which every row is good."""
    return list(module.read(path, head, Rejects(strict=True)))


ODD = st.text(
    st.one_of(
        st.sampled_from("\"'\t\n\r|;,#\\ :%/"), st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    ),
    max_size=12,
)
