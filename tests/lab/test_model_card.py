"""What a trained model's folder tells its readers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

import alphita
from alphita import artefact
from alphita_lab import model_card
from tests.tiny import tiny_model, tiny_terminology

LOG = [
    {"step": 2, "loss": 0.5, "term_loss": 0.2, "learning_rate": 1e-3, "steps_per_second": 2.0, "rows_per_second": 9.0},
    {"step": 2, "dev_acc1": 0.25},
    {"step": 6, "loss": 0.4, "term_loss": 0.1, "learning_rate": 5e-4, "steps_per_second": 4.0, "rows_per_second": 9.0},
]


def test_curves_of_a_log():
    assert model_card.curves(LOG) == {
        "loss": {"loss": ([2, 6], [0.5, 0.4]), "term_loss": ([2, 6], [0.2, 0.1])},
        "dev score": {"dev_acc1": ([2], [0.25])},
        "learning rate": {"learning_rate": ([2, 6], [1e-3, 5e-4])},
    }
    assert model_card.seconds(LOG) == pytest.approx(2 / 2 + 4 / 4)
    assert model_card.curves([]) == {}


def test_a_model_carries_its_card_and_curves(tmp_path: Path):
    terminology = tiny_terminology(tmp_path / "t.terminology")
    tiny_model(tmp_path / "start")
    settings = {"steps": 4, "pairs": 8, "precision": "fp32", "log_every": 1, "dev_synonyms": 3, "evaluate_every": 2}
    out = alphita.train("sapbert", terminology.path, tmp_path / "m", encoder=str(tmp_path / "start"), **settings)
    manifest = artefact.verify(out, "model")
    card = (out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name:")
    dev = f"dev_acc1: {manifest['figures']['dev_acc1']:.4g}"
    for part in ("SapBERT: self-alignment", "`pairs=8`", dev, "threads: "):
        assert part in card
    assert manifest["terminology"] in card
    assert manifest["computed"]["arithmetic"] == "fp32"
    page = (out / "training.html").read_text(encoding="utf-8")
    assert len(re.findall("<polyline", page)) == 3
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    # A soup has no start of its own.
    of_soup = {name: value for name, value in manifest.items() if name != "encoder"}
    assert "started from: `BASE`\n" in model_card.card(out, "BASE", of_soup, None, 0.0)
    # A card is edited before a model is given away, and the model stays whole.
    (out / "README.md").write_text("mine")
    artefact.verify(out, "model")
    assert SentenceTransformer(str(out), device="cpu").encode(["pain"]).shape == (1, 32)
