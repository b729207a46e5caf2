from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sklearn.metrics import roc_auc_score

from alphita.encoder.encoder import TermEncoder
from alphita_lab.encoder.electra import GENERATOR, HEAD, Generator, ReplacedHead
from alphita_lab.training.engine.forward import TermForward, TokenTable
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.text import masked_steps
from alphita_lab.training.text.masked_language import NOT_MASKED, Masking, mask_by_span
from alphita_lab.training.text.masked_steps import DRAWN, MASKED, REPLACED_SCORED, ReplacedTokenSteps, SequenceBatches
from alphita_lab.training.text.sequences import Sequences
from tests.lab.training.gradients import stepped
from tests.reference import replaced_token as reference

# [PAD] [UNK] [CLS] [SEP] [MASK]
SPECIAL = (0, 1, 2, 3, 4)
VOCABULARY = 74
WEIGHT = 50.0


def sequences_of(rows: list[list[int]], spans: list[list[tuple[int, int]]]) -> Sequences:
    offsets, starts = (np.cumsum([0, *map(len, lists)]).astype(np.int64) for lists in (rows, spans))
    ids = np.array([token for row in rows for token in row], np.int32)
    flat = np.array([span for some in spans for span in some], np.int32).reshape(-1, 2)
    return Sequences(TokenTable(ids, offsets), starts, flat, {})


@pytest.fixture(scope="module")
def sequences() -> Sequences:
    """11 sequences of 3 to 20 tokens, [CLS] and [SEP] around them, and spans of 1 to 3 tokens."""
    random = np.random.default_rng(7)
    rows, spans = [], []
    for length in random.integers(3, 21, 11):
        rows.append([2, *random.integers(5, 60, length - 2).tolist(), 3])
        cuts = np.cumsum(random.integers(1, 4, 20)) + 1
        cuts = np.concatenate([[1], cuts[cuts < length], [length - 1]])
        spans.append([(a, b) for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True) if a < b][::2])
    return sequences_of(rows, spans)


@pytest.fixture(scope="module")
def bert(undropped: Path) -> Path:
    return undropped


@pytest.fixture(scope="module")
def electra(tmp_path_factory, bert: Path) -> Path:
    """A model whose embeddings are narrower than its layers."""
    folder = tmp_path_factory.mktemp("electra") / "tiny"
    torch.manual_seed(2)
    config = transformers.ElectraConfig(
        vocab_size=VOCABULARY,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    transformers.ElectraModel(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((bert / "tokenizer.json").read_bytes())
    return folder


def steps(model: Path, sequences: Sequences, **given: Any) -> ReplacedTokenSteps:
    encoder = TermEncoder.load(model, precision="fp32", device="cpu")
    forward = TermForward(encoder, precision="fp32", dropout=given.pop("dropout", None))
    generator = Generator.of(encoder.module.model, share=0.5, seed=0)
    head = ReplacedHead.of(encoder, seed=0)
    with torch.no_grad():  # losses must not be those of even guesses
        for parameter in [*generator.parameters(), *head.parameters()]:
            parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    masking = Masking(4, SPECIAL, 60, share=0.3, masked=1.0, random=0.0)
    batches = SequenceBatches(np.arange(len(sequences.tokens)), batch=given.pop("batch", 6), seed=3)
    return ReplacedTokenSteps(forward, generator, head, sequences, batches, masking, seed=3, **given)


def modules(made: ReplacedTokenSteps) -> dict[str, torch.nn.Module]:
    return {"encoder": made.forward.module, GENERATOR: made.generator, HEAD: made.head}


def gradients(made: ReplacedTokenSteps, number: int, share: float = 1.0) -> tuple[dict[str, float], dict[str, Any]]:
    return stepped(made, modules(made), number, share)


def by_hand(made: ReplacedTokenSteps, rows: np.ndarray, masks: Any, lots: Any) -> dict[str, Any]:
    """Return sums over some sequences, one after the other, in float64, with the model's own forward."""
    model, generator, head = made.forward.module.model.double(), made.generator.double(), made.head.double()
    tokens, embed = made.sequences.tokens, model.embeddings
    texts = [tokens.rows(np.array([row]))[0] for row in rows]
    longest = max(map(len, texts))
    grid = np.stack([np.pad(text, (0, longest - len(text))) for text in texts])
    shown, labels = mask_by_span(grid, made.sequences.spans_of(rows), made.masking, masks)
    lots = iter((1 - lots.random(int((labels != NOT_MASKED).sum()), dtype=np.float32)).tolist())
    sums: dict[str, Any] = dict.fromkeys(("guessing", "detection", "masked", "tokens", "right"), 0)
    sums |= {"logits": [], "replaced": [], "special": []}
    for text, ids, true in zip(texts, shown, labels, strict=True):
        ids, true = ids[: len(text)].copy(), true[: len(text)]
        hidden = embed(torch.tensor(ids)[None])
        if generator.project is not None:
            hidden = generator.project(hidden)
        for layer in generator.layers:
            hidden = layer(hidden)
        for place in np.flatnonzero(true != NOT_MASKED):
            guessed = generator.norm(torch.nn.functional.gelu(generator.dense(hidden[0, place])))
            logits = embed.word_embeddings.weight @ guessed + generator.bias
            sums["guessing"] = sums["guessing"] - torch.log_softmax(logits, 0)[true[place]]
            sums["right"] += int(logits.argmax()) == true[place]
            (ids[place],) = reference.drawn([logits.tolist()], [next(lots)])
        states = model(input_ids=torch.tensor(ids)[None]).last_hidden_state[0]
        for place, state in enumerate(states):
            logit = head.out(torch.nn.functional.gelu(head.dense(state)))[0]
            replaced = bool(ids[place] != text[place])
            sums["detection"] = sums["detection"] - torch.nn.functional.logsigmoid(logit if replaced else -logit)
            sums["logits"].append(logit.item())
            sums["replaced"].append(replaced)
            sums["special"].append(text[place] in SPECIAL)
        sums["masked"] += int((true != NOT_MASKED).sum())
        sums["tokens"] += len(text)
    return sums


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_loss_and_gradient_are_those_of_a_loop(kind: str, sequences: Sequences, request) -> None:
    model = request.getfixturevalue(kind)
    one, other = (steps(model, sequences) for _ in range(2))
    found, slopes = gradients(one, 4, 0.5)
    rows = one.batches.batch(4).terms
    sums = by_hand(other, rows, np.random.default_rng([3, MASKED, 4]), np.random.default_rng([3, DRAWN, 4]))
    guessing, detection = sums["guessing"] / sums["masked"], sums["detection"] / sums["tokens"]
    assert found["generator_loss"] == pytest.approx(float(guessing.detach()), rel=1e-5)
    assert found["discriminator_loss"] == pytest.approx(float(detection.detach()), rel=1e-5)
    assert found["loss"] == pytest.approx(found["generator_loss"] + WEIGHT * found["discriminator_loss"], rel=1e-6)
    assert found["rows"] == 6
    assert sum(sums["replaced"]) > 3
    (0.5 * (guessing + WEIGHT * detection)).backward()
    compared = 0
    for name, module in modules(other).items():
        for key, value in module.named_parameters():
            if value.grad is not None:
                label = f"{name}.{key}"
                torch.testing.assert_close(slopes[label].double(), value.grad, atol=2e-5, rtol=2e-3, msg=label)
                compared += 1
    assert compared == len(slopes) > 50


@pytest.mark.parametrize("kind", ["bert", "electra"])
def test_parts_and_processes_add_up_to_the_whole(kind: str, sequences: Sequences, request) -> None:
    model = request.getfixturevalue(kind)
    found, whole = gradients(steps(model, sequences), 2)
    in_parts, parts = gradients(steps(model, sequences, tokens_at_once=25), 2)
    shared = [gradients(steps(model, sequences, ranks=Ranks(rank, 2)), 2) for rank in (0, 1)]
    for name in ("loss", "generator_loss", "discriminator_loss", "rows"):
        assert in_parts[name] == pytest.approx(found[name], rel=1e-5)
        assert sum(own[name] for own, _ in shared) / 2 == pytest.approx(found[name], rel=1e-5)
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, atol=1e-5, rtol=1e-4, msg=name)
        mean = sum(own[name] for _, own in shared if name in own) / 2
        torch.testing.assert_close(mean, value, atol=1e-5, rtol=1e-4, msg=name)


def test_no_part_has_more_tokens_than_are_encoded_at_once(bert: Path, sequences: Sequences) -> None:
    for most in (1, 25, 1000):
        made = steps(bert, sequences, tokens_at_once=most)
        ready = made._make(2)
        sizes = [(part.packing.tokens, len(part.packing.lengths)) for part in ready.parts]
        assert sum(tokens for tokens, _ in sizes) == ready.tokens == made.sizes(2)["tokens"]
        assert all(tokens <= most or rows == 1 for tokens, rows in sizes)
        assert sum(part.masked for part in ready.parts) == ready.masked
        assert all(len(part.places) % masked_steps.ROUNDED == 0 for part in ready.parts)


def test_a_drawn_token_that_is_the_true_one_counts_as_original(bert: Path) -> None:
    same = sequences_of([[2, *[9] * 8, 3]] * 4, [[]] * 4)
    made = steps(bert, same, batch=4)
    (part,) = made._make(0).parts
    guesses = torch.full((len(part.places), VOCABULARY), -100.0)
    guesses[:, 9] = 100.0
    ids, replaced = made._replace(part, guesses)
    assert not replaced.any()
    assert sorted(ids[: part.packing.tokens].tolist()) == sorted([2, *[9] * 8, 3] * 4)
    guesses[0, 7] = 300.0
    ids, replaced = made._replace(part, guesses)
    assert torch.nonzero(replaced).flatten().tolist() == [int(part.places[0])]
    assert int(ids[part.places[0]]) == 7


def test_a_batch_with_nothing_to_mask_still_trains_the_discriminator(bert: Path) -> None:
    made = steps(bert, sequences_of([[2, 1, 3]], [[]]), batch=1)
    found, slopes = gradients(made, 0)
    assert found["generator_loss"] == 0.0
    assert found["discriminator_loss"] > 0.0
    assert float(slopes[f"{HEAD}.out.bias"].abs()) > 0
    assert made.score(np.array([0]))["dev_replaced_auc"] == 0.5


def test_the_score_is_that_of_a_loop_and_does_not_depend_on_parts(bert: Path, sequences: Sequences) -> None:
    given = np.array([1, 3, 4, 8, 10])
    scorer = steps(bert, sequences, dropout=0.5)
    scorer.head.train()
    scorer.forward.module.eval()
    score = scorer.score(given)
    assert scorer.head.training
    assert not scorer.forward.module.training
    assert scorer.score(given) == score
    assert steps(bert, sequences, tokens_at_once=20).score(given) == pytest.approx(score, rel=1e-5)
    random = np.random.default_rng([3, REPLACED_SCORED])
    with torch.no_grad():
        sums = by_hand(steps(bert, sequences), given, random, random)
    kept = [place for place, special in enumerate(sums["special"]) if not special]
    auc = roc_auc_score([sums["replaced"][place] for place in kept], [sums["logits"][place] for place in kept])
    assert next(iter(score)) == "dev_replaced_auc"
    assert score == pytest.approx(
        {
            "dev_replaced_auc": auc,
            "dev_discriminator_loss": float(sums["detection"]) / sums["tokens"],
            "dev_generator_accuracy": sums["right"] / sums["masked"],
            "dev_generator_loss": float(sums["guessing"]) / sums["masked"],
        },
        rel=1e-5,
    )


def test_more_fit_at_once_with_a_small_vocabulary(bert: Path, sequences: Sequences, monkeypatch) -> None:
    monkeypatch.setattr("alphita.machine.memory", lambda: 10_000_000)
    made = steps(bert, sequences)
    few = Masking(4, SPECIAL, 60_000, share=0.3, masked=1.0, random=0.0)
    assert masked_steps._replaced_tokens_that_fit(made.forward, made.generator, few) < made.tokens_at_once < 5000
