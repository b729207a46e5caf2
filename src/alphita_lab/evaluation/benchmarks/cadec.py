"""Cadec: what patients write in a forum on drugs' effects, mapped to SNOMED CT; the five folds CODER is scored on.

Zero shot: mentions are ranked against the names of the targets, one name a target.
"""

from __future__ import annotations

from alphita.config import Config
from alphita_lab.evaluation.benchmarks import Info, Source, _folds, published
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import System

INFO = Info(
    title="patients' words for drugs' adverse effects -> SNOMED CT (5 folds)",
    task="normalization",
    citation="Karimi et al. 2015, Cadec: A corpus of adverse drug event annotations; folds of Tutubalina et al. 2018",
    where="the folds CADEC_0 ... CADEC_4, each standard.txt, train.txt, test.txt, come with the code of CODER "
    "(https://github.com/GanjinZero/CODER, test/cadec/data/cadec); Cadec itself is under CSIRO's data licence",
)
PUBLISHED = published("cadec")
_FILES = ("CADEC_{fold}/{kind}.txt",)


class Options(Config):
    """None: the protocol leaves nothing open."""


def load(source: Source, options: Options) -> _folds.Parts:
    """Read the folds."""
    return _folds.read(source, _FILES, range(5))


def evaluate(data: _folds.Parts, system: System, options: Options) -> Result:
    """Score one system on all folds; the papers print the mean of the folds."""
    return _folds.evaluate(system, data, ks=(1, 3), subsets=(_folds.FOLD,))
