from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphita.encoder.encoder import TermEncoder
from alphita.index.learning import is_held_back
from alphita.terminology.store import Terminology, load_terminology
from alphita.terminology.text import clean_many
from alphita_lab.recipes import alphita
from alphita_lab.training.terms.mining import NearNames
from alphita_lab.training.text.definition_data import read
from alphita_lab.training.text.definition_pairs import DefinitionPairs, HardNegatives
from tests.reference import info_nce
from tests.stanzas import defined
from tests.tiny import tiny_model, vectors_of

SMALL: dict[str, Any] = {
    "steps": 8,
    "batch": 12,
    "precision": "fp32",
    "learning_rate": 1e-3,
    "log_every": 1,
    "checkpoint_every": 3,
    "keep_rows": 6,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("data")
    defined(made / "t.terminology")
    tiny_model(made / "model")
    return made


@pytest.fixture(scope="module")
def terminology(folder: Path) -> Terminology:
    return load_terminology(folder / "t.terminology")


def test_a_batch_s_loss_is_the_sum_of_its_parts(folder, terminology, tmp_path, monkeypatch) -> None:
    """One step that changes nothing, with what the base gave turned about, so that there is something to keep."""
    base = TermEncoder.encode
    monkeypatch.setattr(TermEncoder, "encode", lambda self, strings, **_: base(self, strings)[:, ::-1] + 0.1)
    still = SMALL | {
        "steps": 1,
        "learning_rate": 1e-30,
        "dropout": 0.0,
        "temperature": 0.3,
        "mu": 7.0,
        "hold_back": False,
    }
    config = alphita.Config(**still)
    figures = alphita.train(terminology, str(folder / "model"), tmp_path / "m", config)
    monkeypatch.undo()
    data = read(terminology, config)
    hard = HardNegatives(terminology, data.texts.concepts, count=1, held_out=np.empty((0, 2), np.int32))
    near = NearNames(terminology, data.names, tmp_path / "mined", every=10)
    near.mine(0, TermEncoder.load(folder / "model", precision="fp32", pooling="mean", max_length=48))
    drawn = DefinitionPairs(data.names, data.texts, batch=12, seed=0, hard=hard, near=near).draw(0)
    assert len(drawn.hard)
    assert len(drawn.near)
    names, texts, siblings, others = (
        vectors_of(folder / "model", [strings[place] for place in places])
        for strings, places in (
            (data.names.strings, drawn.names),
            (data.texts.strings, drawn.texts),
            (data.texts.strings, drawn.hard),
            (data.names.strings, drawn.near),
        )
    )
    takes = [[pair == of for of in [*drawn.hard_of, *drawn.near_of]] for pair in range(12)]
    extra = np.concatenate([siblings, others])
    contrast = info_nce.info_nce(names, texts, drawn.group.tolist(), 0.3, True, extra, takes)
    strings = [*data.names.strings, *data.texts.strings]
    places = np.random.default_rng([0, 21, 0]).choice(len(strings), 6, replace=False)
    own = vectors_of(folder / "model", [strings[place] for place in places])
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    turned = own[:, ::-1] + 0.1
    turned = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    kept = ((own @ own.T - turned @ turned.T) ** 2).mean()
    assert kept > 1e-5
    assert figures["contrast"] == pytest.approx(contrast, rel=1e-4)
    assert figures["kept"] == pytest.approx(kept, rel=1e-3)
    assert figures["loss"] == pytest.approx(contrast + 7 * kept, rel=1e-4)


def test_what_no_head_is_taught_does_not_train(folder, terminology, tmp_path, trained) -> None:
    strings = clean_many(terminology.terms["string"].to_pylist())
    left_out = {string for string, held in zip(strings, is_held_back(strings), strict=True) if held}
    assert left_out
    for name, given in (("kept", {"hold_back": True}), ("all", {"hold_back": False})):
        config = alphita.Config(**SMALL | {"steps": 1, "noise": 0} | given)
        alphita.train(terminology, str(folder / "model"), tmp_path / name, config)
    assert not left_out & set(trained[0])
    assert left_out <= set(trained[1])
