"""Cadec: what patients write in a forum on drugs' effects, mapped to SNOMED CT; the five folds CODER is scored on.

Zero shot: mentions are ranked against the names of the targets, one name a target.
"""

from __future__ import annotations

from alphita_lab.evaluation.benchmarks import _folds, about

INFO, PUBLISHED = about(__name__)
Options, load, evaluate = _folds.benchmark(("CADEC_{fold}/{kind}.txt",), range(5))
