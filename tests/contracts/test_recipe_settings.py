"""The settings of each recipe: those of the paper or of its released code, and those that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from alphita import registry
from alphita.config import resolve
from alphita.errors import UsageError

_MS = {"alpha": 2.0, "beta": 50.0, "lam": 0.5}
PAPERS: dict[str, dict[str, Any]] = {
    "biolord": {"batch": 128, "epochs": 1.0, "learning_rate": 2e-5, "weight_decay": 0.01, "dim": 64}
    | {"distil_epochs": 5.0, "distil_learning_rate": 2e-5, "seeds": 7, "schedule": "linear", "soup": "greedy"}
    | {"hard_negatives": 0, "pooling": "mean", "phases": "adapt,contrast,distil,soup"},
    "coder": {"k": 128, "m": 8, "accumulation": 8, "max_length": 32, "pooling": "cls", **_MS, "eps": 0.1, "mu": 1.0}
    | {"alpha_rel": 2.0, "beta_rel": 50.0, "lam_rel": 0.5, "eps_rel": 0.1, "mining": True}
    | {"learning_rate": 2e-5, "warmup_steps": 10_000, "steps": 100_000},
    # Its steps are batches, eight of them an optimiser step.
    "coder_pp": {"anchors": 4, "neighbours": 30, "synonyms": 30, "accumulation": 8, **_MS, "eps": 0.1, "mining": True}
    | {"steps": 400_000 // 8, "refresh_every": 100_000 // 8, "warmup_steps": 40_000 // 8}
    | {"learning_rate": 2e-5, "schedule": "linear", "max_length": 32},
    "coder_transe": {"batch_terms": 256, "most_names": 8, "accumulation": 8, "max_length": 32, **_MS, "eps": 0.1}
    | {"mining": True, "mu": 1.0, "margin": 1.0, "semantic_type_weight": 0.0, "pooling": "cls"}
    | {"learning_rate": 2e-5, "steps": 1_000_000},
    "electra_em_pap": {"layers": 12, "hidden": 768, "heads": 12, "intermediate": 0, "generator": pytest.approx(1 / 3)}
    | {"masked": 0.15, "weight": 50.0, "rho": 0.05, "gamma": 4.0, "negatives": 2, "learning_rate": 2e-4, "batch": 16}
    | {"max_length": 128, "steps": 3_400_000, "scratch": True, "entities": True},
    "ext_bert": {"vocabulary": 15_000, "masked": 0.15, "pooling": "mean"},
    "kge_injection": {"layer": 8, "batch": 6, "steps": 40_000, "warmup_steps": 4_000, "learning_rate": 1e-5}
    | {"weight_decay": 0.01, "share": 0.15, "pooling": "mean"},
    "kge_margin": {"prototypes": 4, "positives": 20, "negatives": 30, "contexts": 4, "version": "v3", "mining": True}
    | {"alpha": 2.0, "beta": 50.0, "eps": 0.1, "lambda_p": 1.0, "lambda_n": 0.5, "pooling": "mean", "clip": 1.0}
    | {"learning_rate": 2e-5, "weight_decay": 0.01, "accumulation": 8, "epochs": 4.0, "steps": 0}
    | {"warmup_steps": -1, "refresh_every": 0},
    "multilingual": {"epochs": 10.0, "learning_rate": 2e-5, "weight_decay": 0.01, "schedule": "linear", "source": "en"}
    | {"pooling": "mean", "steps": 0, "warmup_steps": -1, "batch": 64, "max_length": 128, "accumulation": 1},
    "sapbert": {"pairs": 256, "most_pairs": 50, "max_length": 25, "pooling": "cls", **_MS, "margin": 0.2}
    | {"learning_rate": 2e-5, "schedule": "constant", "warmup_steps": 0, "accumulation": 1}
    | {"weight_decay": 0.01, "steps": 50_000},
}
# Recipe -> settings that are refused; told by the first one's name, or by what stands behind them.
REFUSED: dict[str, tuple[str | tuple[str, str], ...]] = {
    "alphita": ("kinds=", "kinds=definition,lyrics", "batch=1", "temperature=0"),
    "biolord": (
        ("phases=contrast,destil", "did you mean 'distil'"),
        ("kinds=definitions", "did you mean 'definition'"),
        ("kinds=", "give some of definition"),
        ("phases=distil,soup", "needs teacher=MODEL"),
        ("phases=contrast,distil", "seeds=1, or add soup"),
        ("phases=soup", "needs members=MODEL"),
        ("dev_definitions=0", "greedy needs a dev score"),
        "soup=best",
        "seeds=0",
        "temperature=0",
        ("keep=best", "keep=best needs dev scores"),
        ("keep=best dev_synonyms=5", "keep=best needs dev scores"),
        ("keep=best evaluate_every=2", "keep=best needs dev scores"),
    ),
    "coder": ("m=3", "k=1", "lamda=0.5", "steps=0", "relation_matrix=cubic", "pooling=max"),
    "coder_pp": ("anchors=0", "neighbours=0", "refresh_every=0", "least_names=0", "margin=1", "languages=en:1,it:4"),
    "coder_transe": ("margin=0", "batch_terms=5", "most_names=86", "pooling=max", "mu=-1", "m=8"),
    "electra_em_pap": (
        "rho=1",
        ("dev_synonyms=3", "dev_sequences"),
        ("keep=best", "dev scores"),
        "dev_attributes=5 rho=0",
        "segmenter=spaces",
        ("languages=en:1,it:2", "without weights"),
        ("hidden=33", "hidden=33 must be a multiple of heads=12, as 36 is"),
        ("hidden=30 heads=4", "hidden=30 must be a multiple of heads=4, as 32 is"),
    ),
    "ext_bert": (
        ("dev_synonyms=3", "dev_share"),
        "vocabulary=-1",
        "masked=0",
        ("languages=en:1,it:4", "without weights"),
        "dev_share=1",
        ("keep=best dev_share=0", "set dev_share"),
    ),
    "kge_injection": (
        "batch=0",
        "share=0",
        "linking=max",
        "layer=-1",
        "dev_synonyms=3",
        "languages=it",
        "keep=best",
        "nearest=0",
    ),
    "kge_margin": ("prototypes=0", "positives=0", "negatives=0", "version=v4", "languages=en:1,it:2"),
    "multilingual": (
        "batch=0",
        "pairing=some",
        "temperature=0.5",
        "source=en,it",
        "source=english!",
        "dev_synonyms=3",
        "keep=best",
    ),
    "pairs": ("batch=0", "temperature=0"),
    "pipelined": ("version=v2", "layer=-1", "injection_batch=0", "languages=en:1,it:2"),
    "sapbert": ("pairs=1", "most_pairs=0", "alpha=0", "eps=0.1", "languages=en:1,it:2"),
}


def test_every_recipe_refuses_something() -> None:
    assert sorted(REFUSED) == registry.names("alphita_lab.recipes")


@pytest.mark.parametrize("name", PAPERS)
def test_defaults_are_the_papers(name: str) -> None:
    defaults = registry.load("alphita_lab.recipes", name).Config()
    assert {key: getattr(defaults, key) for key in PAPERS[name]} == PAPERS[name]


def test_what_a_paper_does_not_state_is_said() -> None:
    fields = registry.load("alphita_lab.recipes", "ext_bert").Config.model_fields
    for name in ("max_length", "batch", "epochs", "learning_rate", "warmup_steps", "accumulation"):
        assert "not stated" in str(fields[name].description), name


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in REFUSED.items() for case in cases])
def test_impossible_settings_are_refused(name: str, case: str | tuple[str, str]) -> None:
    sets, told = case if isinstance(case, tuple) else (case, case.split("=")[0])
    with pytest.raises(UsageError, match=told):
        resolve(registry.load("alphita_lab.recipes", name).Config, sets=sets.split())
