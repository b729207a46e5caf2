"""Alphita's benchmarks as tasks of MTEB give the scores that `alphita evaluate` gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from alphita.encoder.encoder import TermEncoder
from alphita_lab.evaluation.run import EvaluationPlan, run
from tests.tiny import tiny_terminology

mteb = pytest.importorskip("mteb", reason="pip install mteb")
EXAMPLE = Path(__file__).parents[2] / "examples" / "alphita_mteb.py"
spec = importlib.util.spec_from_file_location("alphita_mteb", EXAMPLE)
alphita_mteb = importlib.util.module_from_spec(spec)
spec.loader.exec_module(alphita_mteb)


class Model:
    """A model of MTEB's protocol: alphita-en."""

    def __init__(self):
        self.encoder = TermEncoder.load("alphita-en")
        self.mteb_model_meta = mteb.models.ModelMeta.create_empty({"name": "alphita/alphita-en", "revision": "1"})

    def encode(self, inputs, **_):
        return np.concatenate([self.encoder.encode(batch["text"]) for batch in inputs])

    def similarity(self, left, right):
        return left @ right.T

    def similarity_pairwise(self, left, right):
        return (left * right).sum(axis=1)


def test_the_scores_are_those_of_alphita(tmp_path):
    terminology = tiny_terminology(tmp_path / "tiny.terminology")
    settings = {"fraction": 1.0}
    task = alphita_mteb.task("held_out_synonyms", terminology=str(terminology.path), **settings)
    result = mteb.evaluate(Model(), [task], cache=None)
    (scores,) = result.task_results[0].scores["test"]
    plan = EvaluationPlan(["held_out_synonyms"], ["alphita-en"], terminology=terminology, settings=["fraction=1"])
    (entry,) = run(plan, tmp_path / "report")["benchmarks"]
    ours = {one["metric"]: one["value"] for one in entry["systems"][0]["figures"] if one["subset"] == "all"}
    assert scores["main_score"] == ours["accuracy@1"]
    assert {name: scores[name] for name in ours} == ours


def test_what_no_vector_answers_is_refused():
    with pytest.raises(ValueError, match="run it by `alphita evaluate`"):
        alphita_mteb.task("ner")
