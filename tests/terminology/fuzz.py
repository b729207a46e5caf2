"""Random and damaged files for loaders: what is written comes back, what is damaged is told."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from alphita.errors import AlphitaError, Rejects
from alphita.terminology import store
from tests.terminology.test_properties import check_csr


def examples(count: int) -> settings:
    """Return the settings of a property that writes, loads and saves files: `count` examples, however slow."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def words(*special: str) -> st.SearchStrategy[str]:
    """Return short strings without blanks and control characters, and those that are hard for a format."""
    signs = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs"))
    return st.text(signs, min_size=1, max_size=8) | st.sampled_from(special)


@st.composite
def edited(draw: st.DrawFn, good: bytes, most: int, new: st.SearchStrategy[bytes]) -> bytes:
    """Draw `good` with a piece of at most `most` bytes replaced by `new`."""
    start = draw(st.integers(0, len(good)))
    end = draw(st.integers(start, min(len(good), start + most)))
    return good[:start] + draw(new) + good[end:]


@contextmanager
def folder_of(files: Mapping[str, bytes]) -> Iterator[Path]:
    """Write files, by their places, into a new folder."""
    with tempfile.TemporaryDirectory() as name:
        for place, content in files.items():
            path = Path(name) / "release" / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield Path(name) / "release"


def check_sound_or_refused(loader: Any, files: Mapping[str, bytes], options: Any) -> None:
    """Check that files, by their places, give a sound terminology, or a clear error and nothing half written."""
    with folder_of(files) as release:
        try:
            tables = loader.load([release], options, Rejects(None))
            store.save(tables, release.parent / "t.terminology", rejects=Rejects(None))
        except AlphitaError:
            assert [file.name for file in release.parent.iterdir()] == ["release"]
            return
        check_csr(store.load_terminology(release.parent / "t.terminology"))
