"""Evaluation: rankings of concepts, their accuracy with intervals, baselines, figures and reports."""
