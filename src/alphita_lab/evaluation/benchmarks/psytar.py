"""PsyTAR: what patients write of psychiatric drugs, mapped to SNOMED CT; the five folds that CODER is scored on.

Zero shot: mentions are ranked against the names of the targets, one name a target. The published files hold quotes left
by a spreadsheet; they are taken off and counted.
"""

from __future__ import annotations

from alphita_lab.evaluation.benchmarks import _folds, about

INFO, PUBLISHED = about(__name__)
Options, load, evaluate = _folds.benchmark(
    ("fold_{fold}/{kind}.txt", "psytar_disjoint_folds/fold_{fold}/{kind}.txt", "fold_{fold}.{kind}.txt"), range(1, 6)
)
