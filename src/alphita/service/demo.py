"""A review to try: messy clinical strings against the Human Phenotype Ontology."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alphita.answer.normalizer import Normalizer

SOURCE = "hpo"
STORE = Path("demo") / "reviews.sqlite"
PROJECT, VOCABULARY, COLUMN = "demo", "MESSY_TERMS", "mention"
CANDIDATES = 5


def fill(mappings: Path, normalizer: Normalizer, sample: Path | None = None) -> int:
    """Normalise the sample and put it under review, unless it is; return the number of new rows."""
    from alphita.answer.records import lines
    from alphita.quickstart import read_sample, sample_path
    from alphita.review.records import ReviewRow
    from alphita.review.store import ReviewStore
    from alphita.service import review_files

    mappings.parent.mkdir(parents=True, exist_ok=True)
    index = normalizer.index
    with ReviewStore.open(mappings, create=True) as store:
        if any(project.name == PROJECT for project in store.projects()):
            return 0
        mentions = read_sample(sample or sample_path()).mentions
        results = normalizer.normalize(mentions, top_k=CANDIDATES, explain=True)
        rows = []
        for number, result in enumerate(results, 1):
            # Made up: a few occur often and most seldom.
            frequency = max(1, 2_000 // (1 + (number * 7_919) % 997))
            shown = tuple(lines(number, result, CANDIDATES, frequency=frequency))
            rows.append(ReviewRow(0, PROJECT, number, f"MT-{number:04}", result.mention, frequency, {}, shown))
        project = review_files.project_of(PROJECT, VOCABULARY, COLUMN, index)
        return review_files.add(store, project, rows, index).new
