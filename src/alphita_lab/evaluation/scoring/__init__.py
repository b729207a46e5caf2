"""Scoring: what the rows of answers are worth, task by task, with intervals; no data and no report."""
