"""A review to try: messy clinical strings against the quickstart's index, or against one that is made here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alphita.errors import InputError
from alphita.progress import say

if TYPE_CHECKING:
    from alphita.normalizer.normalizer import Normalizer
    from alphita.terminology.store import Terminology

PROJECT, SOURCE, COLUMN = "demo", "MESSY_TERMS", "mention"
CANDIDATES = 5
QUICKSTART = Path("quickstart")
# Where a normaliser looks for it, inside the index.
CALIBRATION = "calibration"


@dataclass(frozen=True)
class Demo:
    """Where everything lies.

    Attributes:
        index: an index folder.
        terminology: the terminology folder that it was built from.
        mappings: the store of reviews.
    """

    index: Path
    terminology: Path
    mappings: Path


def prepare(folder: Path, sample: Path, quickstart: Path = QUICKSTART) -> Demo:
    """Return a demo; what is missing of it is made in `folder`, and what is there is left as it is.

    Args:
        folder: where it lies.
        sample: CSV with columns mention and concept_id.
        quickstart: what `alphita quickstart` made; used if it is there.

    Raises:
        MissingExtra: the packages with the open ontology and the encoder are not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (quickstart / "open.index").is_dir() and (quickstart / "hpo.terminology").is_dir():
        demo = Demo(quickstart / "open.index", quickstart / "hpo.terminology", folder / "reviews.sqlite")
    else:
        demo = Demo(folder / "demo.index", folder / "demo.terminology", folder / "reviews.sqlite")
        if not demo.terminology.is_dir():
            say(f"making a small terminology of the packaged HPO in {folder} …")
            _cut_out(sample, demo.terminology, folder)
        if not demo.index.is_dir():
            say("encoding its terms …")
            _build(demo)
        if not (demo.index / CALIBRATION).is_dir():
            say("calibrating: a minute or so …")
            _calibrate(demo)
    return demo


def fill(demo: Demo, normalizer: Normalizer, sample: Path) -> int:
    """Normalise the sample and put it under review, unless it is; return the number of new rows."""
    from alphita.mappings.review.records import Row
    from alphita.mappings.review.store import ReviewStore
    from alphita.normalizer.records import lines
    from alphita.quickstart import read_sample
    from alphita.service import review_files

    index = normalizer.index
    with ReviewStore.open(demo.mappings, create=True) as store:
        if any(project.name == PROJECT for project in store.projects()):
            return 0
        mentions, _ = read_sample(sample)
        results = normalizer.normalize(mentions, top_k=CANDIDATES, explain=True)
        rows = []
        for number, result in enumerate(results, 1):
            frequency = _frequency(number)
            shown = tuple(lines(number, result, CANDIDATES, frequency=frequency))
            rows.append(Row(0, PROJECT, number, f"MT-{number:04}", result.mention, frequency, {}, shown))
        project = review_files.project_of(PROJECT, SOURCE, COLUMN, index)
        return review_files.add(store, project, rows, index).new


def _frequency(number: int) -> int:
    """Return how often a string of the sample is said to occur: made up, a few often and most seldom."""
    return max(1, 2_000 // (1 + (number * 7_919) % 997))


def _cut_out(sample: Path, out: Path, folder: Path) -> None:
    """Write the part of the packaged HPO that the sample speaks of: its concepts, their ancestors and siblings."""
    from alphita.errors import Rejects
    from alphita.quickstart import read_sample
    from alphita.terminology import store
    from alphita.terminology.loaders import obo
    from alphita.terminology.packaged import find_packaged
    from alphita.terminology.subset import Choice, subset

    whole = folder / "hpo.terminology"
    if not whole.is_dir():
        with Rejects(folder / "import.rejects.csv") as rejects:
            store.save(obo.load([find_packaged("hpo")], obo.Options(), rejects), whole, rejects=rejects)
    terminology = store.load_terminology(whole)
    named = [concept for concept in read_sample(sample)[1] if concept is not None]
    chosen = _around(terminology, named)
    with Rejects(folder / "cut.rejects.csv") as rejects:
        store.save(subset(terminology, Choice(listed=chosen)), out, rejects=rejects)


def _around(terminology: Terminology, named: list[str]) -> list[str]:
    rows: set[int] = set()
    for concept in named:
        try:
            row = terminology.resolve(concept)
        except InputError:
            continue
        rows |= {row, *terminology.ancestors(row).tolist()}
        for parent in terminology.parents(row).tolist():
            rows |= set(terminology.children(parent).tolist())
    return [terminology.concept_id(row) for row in np.sort(np.array(sorted(rows)))]


def _build(demo: Demo) -> None:
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import build
    from alphita.terminology.store import load_terminology

    build(load_terminology(demo.terminology), TermEncoder.load("minilm"), demo.index)


def _calibrate(demo: Demo) -> None:
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import Index
    from alphita.normalizer.fitting import fit

    index = Index.open(demo.index)
    encoder = TermEncoder.load(index.model_path)
    fit(index, lambda: encoder).save(demo.index / CALIBRATION)
