"""Random and damaged files for loaders: what is written comes back, what is damaged is told."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from alphita.errors import AlphitaError, Rejects
from alphita.terminology import store
from alphita.terminology.store import Terminology
from tests.terminology.test_properties import check_csr


def examples(count: int) -> settings:
    """Return the settings of a property that writes, loads and saves files: `count` examples, however slow."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def words(*special: str, without: str = "") -> st.SearchStrategy[str]:
    """Return short strings without blanks and control characters, and the special ones.

    Args:
        special: strings that are hard for the format, such as those with its quotes.
        without: characters that the format cannot hold.
    """
    excluded = ("Cc", "Cs", "Zl", "Zp", "Zs")
    signs = st.characters(codec="utf-8", exclude_categories=excluded, exclude_characters=without)
    return st.text(signs, min_size=1, max_size=8) | st.sampled_from(special)


@st.composite
def edited(draw: st.DrawFn, good: bytes, most: int, new: st.SearchStrategy[bytes]) -> bytes:
    """Draw `good` with a piece of at most `most` bytes replaced by `new`."""
    start = draw(st.integers(0, len(good)))
    end = draw(st.integers(start, min(len(good), start + most)))
    return good[:start] + draw(new) + good[end:]


@st.composite
def edited_or_random(draw: st.DrawFn, good: bytes) -> bytes:
    """Draw `good` with a piece replaced by random bytes, or random bytes alone."""
    mutated = draw(edited(good, 60, st.binary(max_size=40)))
    return draw(st.binary(max_size=200)) if draw(st.booleans()) else mutated


def saved_and_opened(loader: Any, folder: Path, options: Any) -> Terminology:
    """Return the terminology of a folder's files; every row of them must be good.

    Args:
        loader: module of the format.
        folder: where the files lie; the terminology is saved there too.
        options: the loader's.
    """
    rejects = Rejects(None, strict=True)
    store.save(loader.load([folder], options, rejects), folder / "t.terminology", rejects=rejects)
    terminology = store.load_terminology(folder / "t.terminology")
    check_csr(terminology)
    return terminology


def check_sound_or_refused(loader: Any, files: Mapping[str, bytes], options: Any) -> None:
    """Check that files give a sound terminology, or a clear error and nothing half written.

    Args:
        loader: module of the format.
        files: name -> content, of one folder.
        options: the loader's.
    """
    with tempfile.TemporaryDirectory() as name:
        release = Path(name) / "release"
        release.mkdir()
        _write(release, files)
        try:
            tables = loader.load([release], options, Rejects(None))
            store.save(tables, Path(name) / "t.terminology", rejects=Rejects(None))
        except AlphitaError:
            assert [file.name for file in Path(name).iterdir()] == ["release"]
            return
        check_csr(store.load_terminology(Path(name) / "t.terminology"))


def check_refused(loader: Any, files: Mapping[str, bytes]) -> None:
    """Check that files give an error that names their place.

    Args:
        loader: module of the format.
        files: name -> content, of one folder.
    """
    with tempfile.TemporaryDirectory() as name:
        _write(Path(name), files)
        with pytest.raises(AlphitaError, match=name):
            loader.load([Path(name)], loader.Options(), Rejects(None))


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
