"""From mentions to answers: candidates by every route, their features, the ranking, the decision, the records."""
