"""`alphita train … --from-mappings`: what is learned from decisions, and what it gained."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphita.errors import UsageError
from alphita.progress import say

if TYPE_CHECKING:
    from alphita.calibrate.from_mappings import InTime
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology


@dataclass
class Decisions:
    """A run's decisions."""

    reviews: Path
    found: InTime
    base: Terminology
    encoder: str
    out: Path
    exclude: frozenset[str]
    threads: int | None
    counts: dict[str, Any] = field(default_factory=dict)

    def prepare(self, *, force: bool, resume: bool) -> tuple[Terminology, Path | None]:
        """Write the terminology to learn from; return it, and the file of hard negatives, if there are any."""
        from alphita.calibrate.from_mappings import training_input

        learned, negatives, self.found, self.counts = training_input(
            self.base, self.found, self.out, exclude=self.exclude, force=force, resume=resume
        )
        say(f"{self.counts['learned']:,} decisions to learn from, {self.counts['held_out']:,} newer ones held out")
        return learned, negatives if negatives.read_text(encoding="utf-8").count("\n") > 1 else None

    def report(self, learned: Terminology) -> None:
        """Measure on the decisions held out; write OUT.report.json and print it."""
        from alphita import report
        from alphita.calibrate.from_mappings import found_nearest
        from alphita.encoder.encoder import TermEncoder

        before, after = (TermEncoder.load(one, threads=self.threads) for one in (self.encoder, self.out))
        gained = {
            "before": found_nearest(self.base, before, self.found.held_out),
            "synonyms alone": found_nearest(learned, before, self.found.held_out),
            "after": found_nearest(learned, after, self.found.held_out),
        }
        data = {
            "reviews": self.reviews.name,
            "terminology": self.base.content_hash,
            "learned": learned.content_hash,
            "model": after.content_hash,
        }
        path = self.out.with_name(f"{self.out.name}.report.json")
        report.write(path, {"decisions": self.counts, "held_out": gained}, provenance=report.provenance(data=data))
        print(f"on the newest decisions that name a concept ({int(gained['after']['n']):,}), which were held out:")
        for name, one in gained.items():
            shown = "  ".join(f"{key} {value:.1%}" for key, value in one.items() if key != "n")
            print(f"  {name:<15} {shown}")
        print(f"report: {path}; index the new model with -t {learned.path}")


def read(
    reviews: Path, base: Terminology, encoder: str, out: Path, *, exclude: Split | None, threads: int | None
) -> Decisions:
    """Read the decisions of a store.

    Raises:
        UsageError: several processes train.
        InputError: too little was decided.
    """
    from alphita.calibrate.from_mappings import in_time
    from alphita.review.store import ReviewStore

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError("--from-mappings trains in one process: the terminology to learn from is made on the way")
    with ReviewStore.open(reviews) as store:
        found = in_time(store)
    return Decisions(reviews, found, base, encoder, out, frozenset() if exclude is None else exclude.cleaned, threads)
