"""Evaluation: rankings of concepts, their accuracy with intervals, baselines, figures and reports.

Rooms, each of which builds on those before it alone: `systems` (what answers), `scoring` (what the answers are worth),
and on these, apart from each other, `benchmarks` and `report`. `run` brings all of them together.
"""
