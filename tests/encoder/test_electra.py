from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError
from alphita_lab.encoder import bert
from alphita_lab.encoder.electra import HEAD, Generator, ReplacedHead, scratch
from tests.tiny import tiny_model

SIZES = {
    "vocab_size": 60,
    "hidden_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 54,
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "pad_token_id": 0,
}
ROWS = [[2, 10, 11, 12, 3], [2, 9, 3], [2, *range(20, 40), 3]]
NEW = {"layers": 2, "hidden": 24, "heads": 3, "intermediate": 40, "positions": 30, "seed": 5}


def discriminator(kind: str, embedding: int = 36) -> Any:
    torch.manual_seed(0)
    if kind == "electra":
        return transformers.ElectraModel(transformers.ElectraConfig(**SIZES, embedding_size=embedding)).eval()
    if kind == "roberta":
        return transformers.RobertaModel(transformers.RobertaConfig(**SIZES)).eval()
    return transformers.BertModel(transformers.BertConfig(**SIZES)).eval()


def packing() -> bert.Packing:
    return bert.Packing(np.concatenate([np.array(row) for row in ROWS]), np.array([len(row) for row in ROWS]))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tokenizer") / "tiny") / "tokenizer.json"


def theirs(generator: Generator, model: Any) -> Any:
    """Return transformers' own generator with the same weights."""
    facts = {name: getattr(generator.config, name) for name in SIZES if name != "max_position_embeddings"}
    size = model.embeddings.word_embeddings.weight.shape[1]
    config = transformers.ElectraConfig(**facts, max_position_embeddings=40, embedding_size=size)
    own = transformers.ElectraForMaskedLM(config).eval()
    state = {f"electra.embeddings.{name}": value for name, value in model.embeddings.state_dict().items()}
    for name, value in generator.state_dict().items():
        for ours, published in (
            ("layers.", "electra.encoder.layer."),
            ("project.", "electra.embeddings_project."),
            ("dense.", "generator_predictions.dense."),
            ("norm.", "generator_predictions.LayerNorm."),
            ("bias", "generator_lm_head.bias"),
        ):
            if name.startswith(ours):
                state[published + name.removeprefix(ours)] = value
    missing, unexpected = own.load_state_dict(state, strict=False)
    assert set(missing) <= {"generator_lm_head.weight"}
    assert not unexpected
    return own


@pytest.mark.parametrize(
    ("kind", "embedding", "share"),
    [("bert", 36, 1 / 3), ("bert", 36, 1.0), ("electra", 18, 1 / 3), ("electra", 18, 0.5), ("electra", 36, 1 / 6)],
)
def test_the_generator_guesses_as_transformers_own(kind: str, embedding: int, share: float) -> None:
    model = discriminator(kind, embedding)
    generator = Generator.of(model, share=share, seed=1).eval()
    for parameter in generator.parameters():  # as in a trained one, not all 0 or 1
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
    width = max(1, round(share * 6)) * 6
    assert generator.config.hidden_size == width
    assert (generator.project is None) == (width == embedding)
    rows = packing()
    row, place = torch.tensor([0, 2, 2, 1]), torch.tensor([4, 0, 21, 1])
    own = theirs(generator, model)
    with torch.no_grad():
        logits = generator(rows, rows.first[row] + place)
        assert logits.shape == (4, 60)
        for number, (r, p) in enumerate(zip(row.tolist(), place.tolist(), strict=True)):
            expected = own(input_ids=torch.tensor([ROWS[r]])).logits[0, p]
            torch.testing.assert_close(logits[number], expected, atol=1e-5, rtol=1e-4)


def test_robertas_positions_start_behind_padding() -> None:
    model = discriminator("roberta")
    generator = Generator.of(model, seed=1).eval()
    rows = packing()
    with torch.no_grad():
        before = generator(rows, rows.first)
        model.embeddings.position_embeddings.weight[0] += 1.0
        assert torch.equal(generator(rows, rows.first), before)
        model.embeddings.position_embeddings.weight[1, 0] += 1.0
        assert not torch.equal(generator(rows, rows.first), before)


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_embeddings_are_one_module_with_one_gradient(kind: str) -> None:
    model = discriminator(kind, 18)
    generator = Generator.of(model, seed=1)
    assert not any("embeddings" in name for name in generator.state_dict())
    assert not {id(p) for p in generator.parameters()} & {id(p) for p in model.parameters()}
    rows = packing()

    def gradients(*losses: torch.Tensor) -> dict[str, torch.Tensor]:
        model.zero_grad()
        sum(losses).backward()  # type: ignore[union-attr]
        return {name: value.grad.clone() for name, value in model.embeddings.named_parameters()}

    def of_generator() -> torch.Tensor:
        return generator(rows, rows.first + 1).square().sum()

    def of_discriminator() -> torch.Tensor:
        return bert.forward(model, rows)[: rows.tokens].pow(3).sum()

    both = gradients(of_generator(), of_discriminator())
    one, other = gradients(of_generator()), gradients(of_discriminator())
    assert len(both) == 5
    for name, value in both.items():
        assert float(one[name].abs().max()) > 0, name
        torch.testing.assert_close(value, one[name] + other[name], msg=name)
    # A trained embedding is the generator's at once.
    generator.eval()
    with torch.no_grad():
        before = generator(rows, rows.first)
        model.embeddings.word_embeddings.weight[2] += 0.5
        assert not torch.allclose(generator(rows, rows.first), before)


def test_weights_follow_the_seed_and_dropout_the_discriminator() -> None:
    model = discriminator("bert")
    one, same, other = (Generator.of(model, seed=seed) for seed in (3, 3, 4))
    for name, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[name]), name
    assert not torch.equal(one.dense.weight, other.dense.weight)
    assert float(one.layers[0].intermediate.dense.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert float(one.norm.weight.detach().min()) == 1.0
    assert float(one.bias.detach().abs().max()) == 0.0
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.25
    dropouts = [part.p for part in Generator.of(model, seed=0).modules() if isinstance(part, torch.nn.Dropout)]
    assert set(dropouts) == {0.25}
    # Sizes are a third, with heads of the same size.
    facts = SIZES | {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 1}
    base = transformers.BertModel(transformers.BertConfig(**facts))
    config = Generator.of(base, seed=0).config
    sizes = (config.hidden_size, config.num_attention_heads, config.intermediate_size, config.num_hidden_layers)
    assert sizes == (256, 4, 1024, 1)
    assert Generator.of(base, share=0.01, seed=0).config.hidden_size == 64


# The head.


def test_a_published_head_is_found(tokenizer: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = SIZES | {"vocab_size": Tokenizer.from_file(str(tokenizer)).get_vocab_size()}
    model = transformers.ElectraForPreTraining(transformers.ElectraConfig(**sizes, embedding_size=18)).eval()
    for parameter in model.discriminator_predictions.parameters():
        torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32", device="cpu")
    head = ReplacedHead.of(encoder, seed=0)
    rows = packing()
    with torch.no_grad():
        logits = head(bert.forward(encoder.module.model, rows))[: rows.tokens]
        for first, row in zip(rows.first.tolist(), ROWS, strict=True):
            expected = model(input_ids=torch.tensor([row])).logits[0]
            torch.testing.assert_close(logits[first : first + len(row)], expected, atol=1e-5, rtol=1e-4)


def test_a_head_kept_beside_the_model_is_found_again(tokenizer: Path, tmp_path: Path) -> None:
    scratch(tmp_path / "m", tokenizer, **NEW)
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32", device="cpu")
    one, other = ReplacedHead.of(encoder, seed=0), ReplacedHead.of(encoder, seed=1)
    assert not torch.equal(one.dense.weight, other.dense.weight)
    assert torch.equal(one.dense.weight, ReplacedHead.of(encoder, seed=0).dense.weight)
    kept = tmp_path / "m" / f"{HEAD}.safetensors"
    save_file(one.state_dict(), kept)
    assert torch.equal(ReplacedHead.of(encoder, seed=1).dense.weight, one.dense.weight)
    save_file({name: value[:1].clone() for name, value in one.state_dict().items()}, kept)
    with pytest.raises(InputError, match=r"does not fit the encoder: .*size mismatch"):
        ReplacedHead.of(encoder, seed=0)


# From scratch.


def test_a_new_encoder_opens_and_follows_its_seed(tokenizer: Path, tmp_path: Path) -> None:
    for name, changes in (("one", {}), ("same", {}), ("other", {"seed": 6})):
        scratch(tmp_path / name, tokenizer, **(NEW | changes))
    one, same, other = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "same", "other"))
    assert all(torch.equal(value, same[name]) for name, value in one.items())
    words = "embeddings.word_embeddings.weight"
    assert not torch.equal(one[words], other[words])
    assert float(one[words].std()) == pytest.approx(0.02, rel=0.05)
    assert not any(name.startswith("pooler") for name in one)
    encoder = TermEncoder.load(tmp_path / "one", precision="fp32", pooling="cls", max_length=128, device="cpu")
    assert (encoder.dim, encoder.max_length) == (24, 30)
    vectors = encoder.encode(["pain of the heart", "liver swelling"])
    assert np.isfinite(vectors).all()
    assert not np.allclose(vectors[0], vectors[1], atol=1e-4)
    encoder.save(tmp_path / "saved", onnx=False)
    assert TermEncoder.load(tmp_path / "saved", precision="fp32").content_hash == encoder.content_hash


def test_other_encoders_and_tokenizers_are_refused(tmp_path: Path) -> None:
    distil = transformers.DistilBertModel(transformers.DistilBertConfig(vocab_size=20, dim=8, n_layers=1, n_heads=2))
    with pytest.raises(InputError, match=r"cannot be trained to find replaced tokens.*DistilBertModel"):
        Generator.of(distil, seed=0)
    with pytest.raises(InputError, match="is not a tokenizer"):
        scratch(tmp_path / "m", tmp_path / "none.json", **NEW)
    assert not (tmp_path / "m").exists()
