"""What batches and frames must answer: each row by itself."""

from __future__ import annotations

from alphita.answer.records import lines
from alphita.jobs.batches import ADDED


def naive(normalizer, mentions, top_k):
    """The rows one by one: (input's row, values in the order of ADDED)."""
    made = []
    for row, mention in enumerate(mentions):
        (result,) = normalizer.normalize([mention or ""], top_k=top_k)
        made += [(row, [getattr(line, name) for name in ADDED]) for line in lines(0, result, top_k)]
    return made
