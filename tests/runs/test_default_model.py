from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import default_model
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.layout import has_learned
from alphita.index import encoding
from alphita.index.learning import held_back_of
from alphita.terminology.splits import Split
from tests.stanzas import Stanza, ontology
from tests.tiny import tiny_model

STRINGS = ["heart pain", "swelling of the liver", "bleeding"]


@pytest.fixture
def trained(tmp_path: Path) -> list[str]:
    """A base, and three that are moved from it by 1, 2 and 6 hundredths."""
    base = tiny_model(tmp_path / "base")
    made = [str(base)]
    for number, moved in enumerate((1, 2, 6)):
        encoder = TermEncoder.load(base, precision="fp32", device="cpu")
        with torch.no_grad():
            for value in encoder.module.parameters():
                value.add_(moved / 100)
        encoder.save(tmp_path / str(number), onnx=False)
        made.append(str(tmp_path / str(number)))
    return made


def weights(encoder: TermEncoder) -> np.ndarray:
    return torch.cat([value.detach().flatten() for value in encoder.module.parameters()]).numpy()


def test_the_weights_are_the_mean_with_a_share_of_the_base(trained) -> None:
    base, *others = trained
    start = weights(default_model.average([base]))
    np.testing.assert_allclose(weights(default_model.average(others)), start + 0.03, atol=1e-3)
    np.testing.assert_allclose(weights(default_model.average(others, base, 0.2)), start + 0.024, atol=1e-3)


def test_both_folders_open_and_agree(trained, tmp_path) -> None:
    (tmp_path / "facts.json").write_text(json.dumps({"data": "what it learned from"}))
    out = tmp_path / "shipped"
    known = ontology(tmp_path / "t.terminology", [Stanza(1, ["Heart pain", "cardialgia"]), Stanza(2, ["bleeding"])])
    Split(["cardialgia"], ["T:0000001"], ["test"]).save(tmp_path / "t.split")
    given = ["--facts", str(tmp_path / "facts.json"), "--terminology", str(known.path)]
    default_model.main([*trained[1:], "-o", str(out), *given, "--split", str(tmp_path / "t.split")])
    whole = default_model.average(trained[1:]).encode(STRINGS)
    for folder, precision in ((out, "int8"), (tmp_path / "shipped-fp16", "fp16")):
        manifest = json.loads((folder / "manifest.json").read_text())
        assert (manifest["data"], manifest["precision"]) == ("what it learned from", precision)
        assert has_learned(folder, ["heart pain", "cardialgia", "bleeding"]).tolist() == [True, False, True]
        np.testing.assert_allclose(TermEncoder.load(folder).encode(STRINGS), whole, atol=0.03)
    assert (
        TermEncoder.load(out).content_hash == TermEncoder.load(tmp_path / "shipped-fp16", precision="fp32").content_hash
    )
    assert not list(out.rglob("*.safetensors"))
    assert json.loads((out / "alphita.json").read_text())["full_precision"] == "shipped-fp16"
    from sentence_transformers import SentenceTransformer

    opened = SentenceTransformer(str(tmp_path / "shipped-fp16"), device="cpu").encode(STRINGS)
    np.testing.assert_allclose(opened, whole, atol=0.03)


@pytest.mark.parametrize("how", ["all", "some"])
def test_what_was_held_back_of_every_model_counts_as_not_learned(trained, tmp_path, how) -> None:
    synonyms = [f"sign {number}" for number in range(60)]
    known = ontology(tmp_path / "t.terminology", [Stanza(n, [f"finding {n}", one]) for n, one in enumerate(synonyms)])
    for folder in trained[1:] if how == "all" else trained[1:2]:
        Path(folder, encoding.FILE).write_text(json.dumps({"config": {"hold_back": True}}))
    out = tmp_path / "shipped"
    (tmp_path / "facts.json").write_text(json.dumps({"made_from": {"name": "the base"}}))
    default_model.main(
        [*trained[1:], "-o", str(out), "--terminology", str(known.path), "--facts", str(tmp_path / "facts.json")]
    )
    back = sorted(held_back_of(known))
    assert len(back) > 3
    assert has_learned(out, back).tolist() == [how == "some"] * len(back)
    # Packed once more, it still says what was learned.
    default_model.main([str(out) + "-fp16", "-o", str(tmp_path / "again")])
    assert has_learned(tmp_path / "again", synonyms).tolist() == has_learned(out, synonyms).tolist()
    facts = [json.loads((folder / "manifest.json").read_text()) for folder in (out, tmp_path / "again")]
    assert facts[0]["made_from"] == facts[1]["made_from"] == {"name": "the base"}
