"""From mentions to answers: candidates by every route, their features, the ranking, the decision, the records."""

# The choices of `--ranking`, beside "auto"; see `candidates.RANKINGS`.
RANKING_NAMES = ("exact", "fusion", "learned", "letters", "vectors")
