from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError
from alphita_lab.encoder import vocabulary
from alphita_lab.training.engine.forward import TermForward, TokenTable
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.mentions.injection import inject
from alphita_lab.training.terms.batches import Batch
from alphita_lab.training.text import masked_language, masked_steps
from alphita_lab.training.text.corpora import open_tokenizer
from alphita_lab.training.text.masked_language import (
    NAME,
    NOT_MASKED,
    MaskedLanguageHead,
    Masking,
    mask_by_token,
    masking_of,
    token_states,
)
from alphita_lab.training.text.masked_steps import SCORED, TRAINED, MaskedSteps, SequenceBatches
from tests.lab.training.gradients import stepped

# [PAD] [UNK] [CLS] [SEP] [MASK]
SPECIAL = (0, 1, 2, 3, 4)
SIZES = {"max_position_embeddings": 64, "vocab_size": 74}
BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
KINDS: dict[str, Any] = {
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, **BERT)),
    "roberta": lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**SIZES, **BERT, pad_token_id=0)),
    "electra": lambda: transformers.ElectraForMaskedLM(transformers.ElectraConfig(**SIZES, **BERT, embedding_size=16)),
    "distilbert": lambda: transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(**SIZES, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
    ),
    "mpnet": lambda: transformers.MPNetForMaskedLM(transformers.MPNetConfig(**SIZES, **BERT, pad_token_id=0)),
}


def masked_lm(folder: Path, undropped: Path, kind: str = "bert", **changes: Any) -> Any:
    """Write a model with its head as transformers does, and return it."""
    torch.manual_seed(1)
    model = KINDS[kind]()
    for name, value in changes.items():
        setattr(model.config, name, value)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=1.0 if "orm" in name else 0.0)
    model.eval().save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((undropped / "tokenizer.json").read_bytes())
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_head_guesses_as_the_model_it_was_saved_with(kind: str, undropped: Path, tmp_path: Path) -> None:
    model = masked_lm(tmp_path / "m", undropped, kind)
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32", device="cpu")
    head = MaskedLanguageHead.of(encoder, seed=0)
    forward = TermForward(encoder, precision="fp32")
    forward.module.eval()
    lengths = np.array([7, 12, 3])
    ids = np.random.default_rng(0).integers(5, 74, int(lengths.sum()))
    row, place = torch.tensor([0, 1, 1, 2]), torch.tensor([6, 0, 11, 1])
    with torch.no_grad():
        logits = head(token_states(forward, forward.lay_out(ids, lengths), row, place))
        for number, (r, p) in enumerate(zip(row.tolist(), place.tolist(), strict=True)):
            start = int(lengths[:r].sum())
            alone = model(input_ids=torch.from_numpy(ids[start : start + lengths[r]])[None]).logits[0, p]
            torch.testing.assert_close(logits[number], alone, atol=1e-4, rtol=1e-4)
    assert head.decoder is None
    assert not any("embeddings" in name for name, _ in head.named_parameters())


def test_a_decoder_of_its_own_stays_apart(undropped: Path, tmp_path: Path) -> None:
    masked_lm(tmp_path / "m", undropped)
    state = load_file(tmp_path / "m" / "model.safetensors")
    other = torch.randn(74, 32)
    save_file(state | {"cls.predictions.decoder.weight": other}, tmp_path / "m" / "model.safetensors", {"format": "pt"})
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32", device="cpu")
    head = MaskedLanguageHead.of(encoder, seed=0)
    assert head.decoder is not None
    assert torch.equal(head.decoder.detach(), other)
    states = torch.randn(4, 32)
    expected = head.norm(torch.nn.functional.gelu(head.dense(states))) @ other.T + head.bias
    torch.testing.assert_close(head(states), expected)


def test_old_checkpoints_call_the_norm_gamma_and_beta(undropped: Path, tmp_path: Path) -> None:
    masked_lm(tmp_path / "m", undropped)
    file = tmp_path / "m" / "model.safetensors"
    state = load_file(file)
    norm = "cls.predictions.transform.LayerNorm"
    gamma, beta = state.pop(f"{norm}.weight"), state.pop(f"{norm}.bias")
    save_file(state | {f"{norm}.gamma": gamma, f"{norm}.beta": beta}, file, {"format": "pt"})
    head = MaskedLanguageHead.of(TermEncoder.load(tmp_path / "m", precision="fp32", device="cpu"), seed=0)
    assert torch.equal(head.norm.weight.detach(), gamma)
    assert torch.equal(head.norm.bias.detach(), beta)


def test_without_a_saved_head_a_new_one_is_drawn_by_its_seed(undropped: Path) -> None:
    encoder = TermEncoder.load(undropped, precision="fp32", device="cpu")
    one, same, other = (MaskedLanguageHead.of(encoder, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.dense.weight, same.dense.weight)
    assert not torch.equal(one.dense.weight, other.dense.weight)
    assert sorted(one.state_dict()) == ["bias", "dense.bias", "dense.weight", "norm.bias", "norm.weight"]
    assert float(one.dense.weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    embeddings = encoder.module.model.embeddings.word_embeddings.weight
    one(torch.randn(3, 32)).square().sum().backward()
    assert embeddings.grad is not None
    assert float(embeddings.grad.abs().sum()) > 0
    # Trained embeddings are the decoder at once.
    states = torch.randn(2, 32)
    before = one(states)
    with torch.no_grad():
        embeddings.mul_(2)
    torch.testing.assert_close(one(states), 2 * before)


def test_a_head_kept_beside_the_model_is_found_again(undropped: Path, tmp_path: Path) -> None:
    encoder = TermEncoder.load(undropped, precision="fp32", device="cpu")
    encoder.save(tmp_path / "m", onnx=False)
    head = MaskedLanguageHead.of(encoder, seed=5)
    torch.nn.init.normal_(head.bias)
    save_file(head.state_dict(), tmp_path / "m" / f"{NAME}.safetensors")
    again = MaskedLanguageHead.of(TermEncoder.load(tmp_path / "m", precision="fp32", device="cpu"), seed=6)
    for name, value in head.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    save_file(
        {name: value[:7].clone() for name, value in head.state_dict().items()}, tmp_path / "m" / f"{NAME}.safetensors"
    )
    with pytest.raises(InputError, match=r"does not fit the encoder: .*size mismatch"):
        MaskedLanguageHead.of(encoder.load(tmp_path / "m", precision="fp32", device="cpu"), seed=0)


def test_an_extended_vocabulary_extends_the_head(undropped: Path, tmp_path: Path) -> None:
    model = masked_lm(tmp_path / "m", undropped)
    vocabulary.extend(tmp_path / "m", ["polmone", "rene"], tmp_path / "more")
    encoder = TermEncoder.load(tmp_path / "more", precision="fp32", device="cpu")
    head = MaskedLanguageHead.of(encoder, seed=0)
    rows = len(encoder.module.model.embeddings.word_embeddings.weight)
    assert len(head.bias) == rows == 76
    assert torch.equal(head.bias.detach()[:74], model.cls.predictions.bias.detach())
    assert head.decoder is None


def test_an_encoder_with_entities_keeps_the_head_of_its_bert(undropped: Path, tmp_path: Path) -> None:
    masked_lm(tmp_path / "m", undropped)
    encoder = TermEncoder.load(tmp_path / "m", precision="fp32", device="cpu")
    before = MaskedLanguageHead.of(encoder, seed=0)
    injected = inject(encoder, torch.randn(6, 4), layer=1, nearest=2)
    after = MaskedLanguageHead.of(encoder, seed=0)
    states = torch.randn(5, 32)
    torch.testing.assert_close(before(states), after(states))
    after(states).sum().backward()
    assert injected.model.embeddings.word_embeddings.weight.grad is not None  # type: ignore[union-attr]


def test_special_tokens_are_neither_masked_nor_put_in(undropped: Path) -> None:
    tokenizer, _, specials = open_tokenizer(undropped)
    masking = masking_of(tokenizer, specials, share=0.2)
    assert (masking.mask_id, masking.special_ids, masking.share) == (4, SPECIAL, 0.2)
    assert masking.vocabulary == tokenizer.get_vocab_size()
    assert (masking.masked, masking.random) == (0.8, 0.1)


def test_a_tokenizer_without_a_mask_is_refused(undropped: Path, monkeypatch) -> None:
    tokenizer, _, specials = open_tokenizer(undropped)
    monkeypatch.setattr(masked_language, "MASKS", ("[NONE]",))
    with pytest.raises(InputError, match="no mask token"):
        masking_of(tokenizer, specials)


# Steps.


@pytest.fixture(scope="module")
def table() -> TokenTable:
    """11 sequences of 3 to 20 tokens, [CLS] and [SEP] around them."""
    random = np.random.default_rng(7)
    lengths = random.integers(3, 21, 11)
    rows = [np.concatenate([[2], random.integers(5, 60, length - 2), [3]]) for length in lengths]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenTable(np.concatenate(rows).astype(np.int32), offsets)


def steps(undropped: Path, table: TokenTable, **given: Any) -> MaskedSteps:
    encoder = TermEncoder.load(undropped, precision="fp32", device="cpu")
    forward = TermForward(encoder, precision="fp32", dropout=given.pop("dropout", None))
    head = MaskedLanguageHead.of(encoder, seed=0)
    masking = Masking(4, SPECIAL, 60, share=0.3)
    batches = SequenceBatches(np.arange(len(table)), batch=6, seed=3)
    return MaskedSteps(forward, head, table, given.pop("draw", batches.batch), masking, seed=3, **given)


def gradients(steps: MaskedSteps, number: int, share: float = 1.0) -> tuple[float, dict[str, torch.Tensor]]:
    scalars, found = stepped(steps, {"encoder": steps.forward.module, "head": steps.head}, number, share)
    return scalars["loss"], found


def by_hand(steps: MaskedSteps, rows: list[np.ndarray], random: np.random.Generator) -> tuple[Any, int, int]:
    """Return sum of -log p, tokens masked and tokens right, one sequence after the other in float64."""
    longest = max(map(len, rows))
    grid = np.stack([np.pad(row, (0, longest - len(row))) for row in rows]).astype(np.int64)
    shown, labels = mask_by_token(grid, np.empty((0, 3), np.int64), steps.masking, random)
    model, head = steps.forward.module.model.double(), steps.head.double()
    total: Any = 0.0
    masked = right = 0
    for ids, row, true in zip(shown, rows, labels, strict=True):
        hidden = model(input_ids=torch.from_numpy(ids[: len(row)])[None]).last_hidden_state[0]
        for place in np.flatnonzero(true != NOT_MASKED):
            guessed = head.norm(torch.nn.functional.gelu(head.dense(hidden[place])))
            logits = model.embeddings.word_embeddings.weight @ guessed + head.bias
            total = total - (logits[true[place]] - torch.log(torch.exp(logits).sum()))
            masked += 1
            right += int(logits.argmax()) == true[place]
    return total, masked, right


def test_loss_and_gradient_are_those_of_a_loop_over_masked_tokens(undropped: Path, table: TokenTable) -> None:
    one, other = steps(undropped, table), steps(undropped, table)
    loss, found = gradients(one, 4, 0.5)
    rows = [table.rows(np.array([row]))[0] for row in one.draw(4).terms]
    total, masked, _ = by_hand(other, rows, np.random.default_rng([3, TRAINED, 4]))
    assert loss == pytest.approx(float(total.detach()) / masked, rel=1e-5)
    (0.5 * total / masked).backward()
    modules = {"encoder": other.forward.module, "head": other.head}
    compared = 0
    for name, module in modules.items():
        for key, value in module.named_parameters():
            if value.grad is not None:
                torch.testing.assert_close(
                    found[f"{name}.{key}"].double(), value.grad, atol=1e-6, rtol=1e-3, msg=f"{name}.{key}"
                )
                compared += 1
    assert compared == len(found)


def test_parts_and_processes_add_up_to_the_whole(undropped: Path, table: TokenTable) -> None:
    loss, whole = gradients(steps(undropped, table), 2)
    in_parts, parts = gradients(steps(undropped, table, tokens_at_once=25), 2)
    assert in_parts == pytest.approx(loss, rel=1e-5)
    shared = [gradients(steps(undropped, table, ranks=Ranks(rank, 2)), 2) for rank in (0, 1)]
    assert sum(own for own, _ in shared) / 2 == pytest.approx(loss, rel=1e-5)
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, atol=1e-6, rtol=1e-4)
        mean = sum(own[name] for _, own in shared if name in own) / 2
        torch.testing.assert_close(mean, value, atol=1e-6, rtol=1e-4)


def test_too_little_memory_says_what_to_set(undropped: Path, table: TokenTable, monkeypatch) -> None:
    def exhausted(*_: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(masked_steps, "token_states", exhausted)
    with pytest.raises(AlphitaError, match=r"with 512 tokens encoded at once; .* tokens_at_once=256"):
        gradients(steps(undropped, table, tokens_at_once=512), 0)


def test_a_batch_with_nothing_to_mask_has_no_loss(undropped: Path) -> None:
    empty = TokenTable(np.array([2, 1, 3], np.int32), np.array([0, 3]))
    loss, found = gradients(steps(undropped, empty, draw=lambda _: Batch(np.array([0]), {}, 1)), 0)
    assert (loss, found) == (0.0, {})


def test_the_score_is_that_of_a_loop_and_does_not_depend_on_parts(undropped: Path, table: TokenTable) -> None:
    given = np.array([1, 3, 4, 8, 10])
    scorer = steps(undropped, table, dropout=0.5)
    scorer.head.train()
    scorer.forward.module.eval()
    score = scorer.score(given)
    assert scorer.head.training
    assert not scorer.forward.module.training
    assert scorer.score(given) == score
    in_parts = steps(undropped, table, tokens_at_once=20).score(given)
    assert in_parts == pytest.approx(score, rel=1e-5)
    rows = [table.rows(np.array([row]))[0] for row in given]
    with torch.no_grad():
        total, masked, right = by_hand(steps(undropped, table), rows, np.random.default_rng([3, SCORED]))
    assert score["dev_log_probability"] == pytest.approx(-float(total.detach()) / masked, rel=1e-5)
    assert score["dev_perplexity"] == pytest.approx(math.exp(float(total.detach()) / masked), rel=1e-5)
    assert score["dev_accuracy"] == pytest.approx(right / masked)


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 3))
def test_every_epoch_has_every_sequence_once(n: int, batch: int, seed: int) -> None:
    rows = np.arange(n) * 3 + 1
    drawn = SequenceBatches(rows, batch=batch, seed=seed)
    assert drawn.batches == n / batch
    numbers = range(math.ceil(3 * n / batch))
    seen = np.concatenate([drawn.batch(number).terms for number in numbers])
    for epoch in range(3):
        assert sorted(seen[epoch * n : (epoch + 1) * n].tolist()) == rows.tolist()
    # Whatever was asked for before.
    fresh = SequenceBatches(rows, batch=batch, seed=seed)
    for number in reversed(numbers):
        assert np.array_equal(fresh.batch(number).terms, seen[number * batch : (number + 1) * batch])
