"""PsyTAR: what patients write of psychiatric drugs, mapped to SNOMED CT; the five folds that CODER is scored on.

Zero shot: mentions are ranked against the names of the targets, one name a target. The published files hold quotes left
by a spreadsheet; they are taken off and counted.
"""

from __future__ import annotations

from alphita.config import Config
from alphita_lab.evaluation.benchmarks import Source, _folds, about
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)
_FILES = ("fold_{fold}/{kind}.txt", "psytar_disjoint_folds/fold_{fold}/{kind}.txt", "fold_{fold}.{kind}.txt")


class Options(Config):
    """None: the protocol leaves nothing open."""


def load(source: Source, options: Options) -> _folds.Parts:
    """Read the folds."""
    return _folds.read(source, _FILES, range(1, 6))


def evaluate(data: _folds.Parts, system: System, options: Options) -> Result:
    """Score one system on all folds; the papers print the mean of the folds."""
    return _folds.evaluate(system, data, ks=(1, 3), subsets=(_folds.FOLD,))
