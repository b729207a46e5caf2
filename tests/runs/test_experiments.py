from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import experiment_attributes
import experiment_languages
import experiment_margins
import experiments
import study
from alphita import config, registry
from alphita.errors import InputError
from alphita.terminology import reading, splits, store
from alphita.terminology.model import Tables
from experiments import Arm, Experiment, Job
from study import Column, Ordering
from tests.tiny import tiny_terminology


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_an_experiments_arms_train_and_its_claims_name_what_it_has(name: str) -> None:
    experiment = experiments.load(name)
    calls: list[list[Any]] = []
    for arm in experiment.arms:
        job = Job(arm, 3, Path("A/3"), Path("data/3"), Path("open"), lambda *words: calls.append([*words]))
        if arm.recipe and name != "attributes":
            experiment.train(job)
    for _, recipe, *words in calls:
        sets = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
        settings = config.resolve(registry.load("alphita_lab.recipes", recipe).Config, sets=sets)
        assert settings.seed == 3
    names, columns = {arm.name for arm in experiment.arms}, {column.name for column in experiment.columns}
    for claim in experiment.claims:
        assert {claim.first, claim.second} <= names
        assert set(claim.columns) <= columns


def test_jobs_resume_fail_one_by_one_and_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    made: list[str] = []

    def score(job: Job) -> dict[str, experiments.Items]:
        made.append(f"{job.arm.name}/{job.seed}")
        if made.count("b/1") == 1 and made[-1] == "b/1":
            raise InputError("is cut off")
        return {"right": experiments.accuracies([1, 1, 1, job.arm.name == "a"] * 100)}

    experiment = Experiment(
        "two", "Two", (Arm("a", "A", ""), Arm("b", "B", "")), (Column("right", "right", "", ""),),
        (Ordering("a", "b", ("right",), "table 1"),), (0, 1), lambda *_: None, lambda _: None, score, {},
    )  # fmt: skip
    monkeypatch.setattr(experiments, "load", lambda _: experiment)
    assert experiments.main(["run", "two", str(tmp_path)]) == 1
    assert "these failed: b/1" in capsys.readouterr().err
    assert experiments.main(["run", "two", str(tmp_path)]) == 0
    assert made == ["a/0", "b/0", "a/1", "b/1", "b/1"]
    found = study.read(tmp_path / "table.json")
    assert found["jobs"] == {"done": 4, "of": 4}
    (one,) = found["orderings"]
    assert (one["n"], one["items"], one["arms"], one["verdict"]) == (2, 400, ["a", "b"], study.HOLDS)
    assert one["mean"] == pytest.approx(0.25)
    monkeypatch.setattr(experiments, "load", lambda _: replace(experiment, settings={"steps": 1}))
    assert experiments.main(["run", "two", str(tmp_path)]) == 2


def test_the_made_up_graph_is_the_seeds_and_its_figures_are_those_of_hand() -> None:
    places, names, triples = experiment_margins.made_up(4)
    again, other = experiment_margins.made_up(4), experiment_margins.made_up(5)
    assert names == again[1] != other[1]
    assert triples == again[2]
    assert len(triples) == len(places) * experiment_margins.NEAREST
    far = experiment_margins.distances(places)
    assert experiment_margins.nearness(-far, -far)[:, 0] == pytest.approx(1)
    # Three concepts of two names; the first sets the threshold, between 0.9 and 0.2.
    similarity = np.full((6, 6), 0.2)
    for one, two, value in ((0, 1, 0.9), (2, 3, 0.95), (4, 5, 0.1), (3, 4, 0.97)):
        similarity[one, two] = similarity[two, one] = value
    items = experiment_margins.pairs_found(similarity, np.array([0, 0, 1, 1, 2, 2]), tuned_on=1)
    assert items.tolist() == [[2, 2], [2, 3], [0, 2], [0, 1]]


def test_what_a_control_takes_away_is_all_that_it_takes_away(tmp_path: Path) -> None:
    whole = reading.tables_of(tiny_terminology(tmp_path / "t.terminology"))
    moved = experiment_attributes.permuted(whole)
    assert moved.terms.equals(whole.terms)
    assert sorted(moved.relations["head"]) == sorted(whole.relations["head"])
    assert (
        moved.relations["tail"].value_counts().sort("tail").equals(whole.relations["tail"].value_counts().sort("tail"))
    )
    assert not moved.relations["tail"].equals(whole.relations["tail"])

    spoken = Tables(
        concepts=pl.DataFrame({"id": ["HP:1", "HP:2"], "source": "HP", "retired": False}),
        terms=pl.DataFrame(
            {
                "concept": ["HP:1", "HP:1", "HP:2", "HP:2"],
                "string": ["heart", "cuore", "organ", "organo"],
                "language": ["en", "it", "en", "it"],
                "source": "HP",
            }
        ),
        relations=pl.DataFrame({"head": ["HP:1"], "relation": ["is_a"], "tail": ["HP:2"], "source": ["HP"]}),
    )
    store.save(spoken, tmp_path / "two.terminology")
    two = reading.tables_of(store.load_terminology(tmp_path / "two.terminology"))
    store.save(experiment_languages.unlinked(two), tmp_path / "apart.terminology")
    apart = store.load_terminology(tmp_path / "apart.terminology")
    assert apart.concept_ids.to_pylist() == ["HP:1", "HP:2", "HPit:1", "HPit:2"]
    named = [[apart.concept_id(row) for row in (head, tail)] for head, _, tail in apart.triples.tolist()]
    assert named == [["HP:1", "HP:2"], ["HPit:1", "HPit:2"]]


def test_unseen_concepts_are_asked_by_names_that_no_arm_saw(tmp_path: Path) -> None:
    relations = pytest.importorskip("experiment_relations")
    terminology = tiny_terminology(tmp_path / "t.terminology")
    unseen = splits.hold_out_concepts(terminology, fraction=0.2, seed=0)
    split = relations.held_out(splits.hold_out_synonyms(terminology, fraction=0.5, seed=1), unseen)
    given = relations.questions(terminology, split)
    names = {string for string, _ in given["names"]}
    rows = {terminology.concept_id(row) for _, row in given["asked"]["concepts"]}
    assert rows == set(unseen.concept_ids)
    assert {string for string, _ in given["asked"]["concepts"]} <= unseen.cleaned & names
    synonyms = {string for string, _ in given["asked"]["synonyms"]}
    assert synonyms
    assert not synonyms & names
