"""A benchmark of our own: strings -> concepts of the small terminologies of the tests."""

from __future__ import annotations

from typing import Any

from alphita.config import Config
from alphita_lab.evaluation.benchmarks import Info
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.scoring.results import Result
from tests import doubles
from tests.answer import rich

INFO = Info("strings of the tests", "normalization", "the tests", "they are here", needs=())
PUBLISHED = ()
ASKED = {
    "headace": "AX:2",
    "pain in the head": "AX:2",
    "left sided headache": "AX:3",
    "raised temperatures": "AX:4",
    "poison": "AX:6",
    "dulorin 50mg": "BX:3",
    "dulorin": "BX:2",
    "a present": "BX:1",
    "epileptic fit": "T:1",
    "common colds": "T:3",
    "COPD": "T:5",
    "diabetes type 2": "T:7",
    "type 1 diabetes": "T:8",
    "broken tv": "X:1",
}


class Options(Config):
    """None."""


def load(source: Any, options: Any) -> list[tuple[str, str]]:
    """Return concept and name of all terms."""
    return [(concept, name) for concept, name, *_ in (*rich.ROWS, *doubles.ROWS)]


def evaluate(data: list[tuple[str, str]], system: Any, options: Any) -> Result:
    """Rank the concepts for every string."""
    targets = linking.Targets(ids=[concept for concept, _ in data], names=[name for _, name in data])
    return linking.evaluate(system, linking.simple(list(ASKED), list(ASKED.values())), targets, ks=(1, 3))
