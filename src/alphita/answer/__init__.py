"""From mentions to answers: candidates from all routes, their features, the ranking, the decision, the records."""

# The choices of `--ranking`, in addition to "auto"; see `candidates.RANKINGS`.
RANKING_NAMES = ("exact", "fusion", "learned", "letters", "vectors")
